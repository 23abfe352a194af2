"""What a file holds, by its first bytes and its name."""

from __future__ import annotations

import os
import re
from typing import TypeAlias

AnyPath: TypeAlias = str | os.PathLike[str]
HEAD = 1 << 16  # first bytes that tell what a file is
SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
    ".tsv": "tsv",
    ".arff": "arff",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
    ".libsvm": "libsvm",
}
COMPRESSED_SUFFIXES = (".gz", ".zst")
# Names of tables to write
WRITTEN = (
    ".csv",
    ".csv.gz",
    ".csv.zst",
    ".tsv",
    ".tsv.gz",
    ".tsv.zst",
    ".parquet",
    ".pq",
)
COMPRESSED = "gzip", "zstd"
# What files hold that begin so
BEGINNINGS = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PAR1": "parquet",
    b"\xff\xfe": "text",  # in UTF-16
    b"\xfe\xff": "text",
    b"PK\x03\x04": "an Excel workbook or a zip archive",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow",  # a stream of it
    b"FEA1": "a Feather file of version 1",
    b"\x89HDF": "an HDF5 file",
    b"SQLite format 3": "an SQLite database",
    b"\x80\x04\x95": "a pickle",
    b"\x93NUMPY": "a NumPy array",
}
# Objects, or an array of objects or arrays
JSON = re.compile(rb'(\xef\xbb\xbf)?\s*(\{\s*"|\[\s*[\[{])')
# Comments above the first line of an ARFF file, and its beginning
ARFF = re.compile(rb"(\xef\xbb\xbf)?(\s*%[^\r\n]*[\r\n])*\s*@relation\b", re.IGNORECASE)


def kind_by_name(path: AnyPath) -> str | None:
    """Kind of table that a name tells, "csv", "tsv", "arff", "parquet", "arrow" or
    "libsvm"; None for other names.
    """
    name = os.fspath(path).lower()
    for ending in COMPRESSED_SUFFIXES:
        name = name.removesuffix(ending)
    return SUFFIXES.get(os.path.splitext(name)[1])


def is_table_name(path: AnyPath) -> bool:
    """Whether a table can be written in a file of this name."""
    return os.fspath(path).lower().endswith(WRITTEN)


def written_kind(path: AnyPath) -> str:
    """Kind of file that the name of a table to write asks for, "csv", "tsv" or
    "parquet"; ValueError for others.
    """
    if not is_table_name(path):
        raise ValueError(f"{path}: the name must end in one of {', '.join(WRITTEN)}")
    return str(kind_by_name(path))


def compression_of(path: AnyPath) -> str | None:
    """How a file is compressed, "gzip" or "zstd", by its content; None where it is
    not.
    """
    with open(path, "rb") as file:
        content = kind_by_content(file.read(16))
    return content if content in COMPRESSED else None


def kind_by_content(head: bytes) -> str:
    """Kind of content that begins so: "parquet", "arrow", "gzip", "zstd",
    "safetensors", "text", or what it is.
    """
    if head[8:9] == b"{" and head[4:8] == bytes(4):
        return "safetensors"
    for magic, what in BEGINNINGS.items():
        if head.startswith(magic):
            return what
    if JSON.match(head):
        return "JSON"
    return "binary data" if b"\0" in head else "text"


def is_arff(head: bytes) -> bool:
    """Whether a text that begins so is an ARFF file."""
    return ARFF.match(head) is not None
