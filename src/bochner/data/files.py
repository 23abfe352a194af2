"""What a file holds, by its first bytes and its name; and files that are replaced only by complete ones."""

from __future__ import annotations

import os
import re
import secrets
import socket
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress

HEAD = 1 << 16  # first bytes that tell what a file is
SUFFIXES = {
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".arrows", ".ipc", ".feather"), "arrow"),
    ".csv": "csv",
    ".tsv": "tsv",
    **dict.fromkeys((".svm", ".svmlight", ".libsvm"), "libsvm"),
}
COMPRESSED_SUFFIXES = (".gz", ".zst")
WRITTEN = (".csv", ".csv.gz", ".csv.zst", ".tsv", ".tsv.gz", ".tsv.zst", ".parquet", ".pq")  # names of tables to write
COMPRESSED = {"gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}
FOREIGN = {
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
PARQUET = b"PAR1"
UNFINISHED = re.compile(r"\.bochner-([0-9a-f]{8})-(\d{1,10})-[0-9a-f]{8}\.tmp")


def kind_by_name(path: str | os.PathLike[str]) -> str | None:
    """Kind of table that a name tells, "csv", "tsv", "parquet", "arrow" or "libsvm"; None for other names."""
    name = os.fspath(path).lower()
    for ending in COMPRESSED_SUFFIXES:
        name = name.removesuffix(ending)
    return SUFFIXES.get(os.path.splitext(name)[1])


def is_table_name(path: str | os.PathLike[str]) -> bool:
    """Whether a table can be written in a file of this name."""
    return os.fspath(path).lower().endswith(WRITTEN)


def written_kind(path: str | os.PathLike[str]) -> str:
    """Kind of file that the name of a table to write asks for, "csv", "tsv" or "parquet"; ValueError for others."""
    if not is_table_name(path):
        raise ValueError(f"{path}: the name must end in one of {', '.join(WRITTEN)}")
    return str(kind_by_name(path))


def compression_of(path: str | os.PathLike[str]) -> str | None:
    """How a file is compressed, "gzip" or "zstd", by its content; None where it is not."""
    with open(path, "rb") as file:
        content = kind_by_content(file.read(16))
    return content if content in COMPRESSED else None


def kind_by_content(head: bytes) -> str:
    """Kind of content that begins so: "parquet", "arrow", "gzip", "zstd", "safetensors", "text", or what it is."""
    if head.startswith(PARQUET):
        return "parquet"
    for compression, magic in COMPRESSED.items():
        if head.startswith(magic):
            return compression
    if head[8:9] == b"{" and head[4:8] == bytes(4):
        return "safetensors"
    for magic, what in FOREIGN.items():
        if head.startswith(magic):
            return what
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "text in UTF-16"
    return "binary data" if b"\0" in head else "text"


@contextmanager
def replacing(path: str | os.PathLike[str], durable: bool = False) -> Iterator[str]:
    """Yield the name of a new file beside `path`, which takes its place at the end, or vanishes after an error.

    What killed processes of this machine have left in the folder is removed.

    Parameters
    ----------
    path : str or path
    durable : bool, default=False
        Whether the file is on the disk when this is done, and not only on its way there, so that a loss of power
        leaves one of the two whole (Pillai et al., OSDI 2014). Its name is the same each time, so that a killed process
        leaves at most one behind, which the next overwrites: there must be no other writer.
    """
    target = os.path.realpath(os.fspath(path))
    if os.fspath(path).endswith(("/", os.sep)):
        raise IsADirectoryError(f"{os.fspath(path)} names a folder: add the name of a file in it")
    if os.path.exists(target) and not os.path.isfile(target):
        wrong = IsADirectoryError if os.path.isdir(target) else OSError
        raise wrong(f"{target} is not a regular file and cannot be replaced by one")
    folder, name = os.path.split(target)
    mark = name if durable else f"{_machine()}-{os.getpid()}-{secrets.token_hex(4)}"
    temporary = os.path.join(folder, f".bochner-{mark}.tmp")
    _remove_unfinished(folder)
    try:
        if durable:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        yield temporary
        if os.path.exists(target):
            os.chmod(temporary, os.stat(target).st_mode & 0o777)
        if durable:
            _flush(temporary, os.O_RDWR)
        os.replace(temporary, target)
        if durable and os.name == "posix":
            with suppress(OSError):  # file systems over a network may know no such thing
                _flush(folder, os.O_RDONLY)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename == temporary:
            raise type(error)(error.errno, error.strerror, os.fspath(path)) from None
        raise


def _machine() -> str:
    """Eight digits that tell this machine from others that may share its folders."""
    return f"{zlib.crc32(socket.gethostname().encode()):08x}"


def _remove_unfinished(folder: str) -> None:
    """Remove files that processes of this machine were writing when they were killed."""
    if os.name != "posix":  # where a signal to a process, if only to ask for it, ends it
        return
    with suppress(OSError):
        for name in os.listdir(folder):
            found = UNFINISHED.fullmatch(name)
            if found and found[1] == _machine() and not _is_alive(int(found[2])):
                os.unlink(os.path.join(folder, name))


def _is_alive(process: int) -> bool:
    """Whether there is a process of this number, of any user."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _flush(path: str, flags: int) -> None:
    """Wait until what was written to a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
