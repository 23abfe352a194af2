"""The model file: a safetensors header with a checksum, then the tensors; limits,
dtypes and errors of bad files.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

Path = str | os.PathLike[str]

FOREIGN = "give a file that bochner.save wrote"
DAMAGED = "copy the file again or save the model again"
FORMAT, VERSION = "bochner-model", 3
KEYS = {"format", "format_version", "library_version", "checksum", "tree"}
MAX_HEADER, MAX_VALUES = 2**26, 2**22
BLANK = "0" * 64


class ModelFileError(ValueError):
    """A model file is damaged, foreign, or of a format version that this release
    does not read.
    """


class Unreadable(Exception):
    """What is wrong with a file and what to do; becomes a ModelFileError that names
    the file.
    """

    def __init__(self, reason: str, advice: str = DAMAGED) -> None:
        super().__init__(f"{reason}; {advice}")


@contextmanager
def errors_of(path: Path) -> Iterator[None]:
    try:
        yield
    except Unreadable as error:
        raise ModelFileError(f"Cannot load {os.fspath(path)!r}: {error}.") from None


def pack(
    tree: Any, tensors: dict[str, NDArray], metadata: Mapping[str, str] | None = None
) -> list[Any]:
    from bochner import __version__

    strings = {
        "format": FORMAT,
        "format_version": str(VERSION),
        "library_version": __version__,
        "checksum": BLANK,
        "tree": json.dumps(tree, allow_nan=False, separators=(",", ":")),
    }
    if metadata:
        strings["metadata"] = json.dumps(metadata, separators=(",", ":"))
    entries: dict[str, Any] = {"__metadata__": strings}
    buffers = []
    end = 0
    for name in sorted(tensors, key=lambda name: -tensors[name].itemsize):
        tensor = tensors[name]
        buffers.append(tensor.reshape(-1).view(np.uint8))
        begin, end = end, end + tensor.nbytes
        kind = tensor.dtype.kind.upper()
        entries[name] = {
            "dtype": "BOOL" if kind == "B" else f"{kind}{8 * tensor.itemsize}",
            "shape": tensor.shape,
            "data_offsets": [begin, end],
        }
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER or _values(text) > MAX_VALUES:
        raise ValueError(
            "The model holds too much text, or too many values outside of numeric "
            "arrays, to be saved."
        )
    blank = len(text).to_bytes(8, "little") + text
    mark = b'"checksum":"%s"'
    checksum = digest([blank, *buffers]).encode()
    return [blank.replace(mark % BLANK.encode(), mark % checksum, 1), *buffers]


def _values(text: bytes) -> int:
    return sum(text.count(mark) for mark in b",[{")


def digest(chunks: Iterable[Any]) -> str:
    sha = hashlib.sha256()
    for chunk in chunks:
        sha.update(chunk)
    return sha.hexdigest()


class Header(NamedTuple):
    raw: bytes
    size: int
    library_version: str
    checksum: str
    metadata: dict[str, str]
    tree: dict[str, Any]
    tensors: list[str]


def read_header(file: BinaryIO) -> Header:
    size = os.fstat(file.fileno()).st_size
    head = file.read(8)
    length = int.from_bytes(head, "little")
    if len(head) < 8 or length > min(size - 8, MAX_HEADER):
        raise Unreadable(
            f"it is not a model, or is truncated: a header of {length} bytes in a "
            f"file of {size}",
            FOREIGN,
        )
    text = file.read(length)
    entries = _parse(text, FOREIGN)
    metadata: Any = isinstance(entries, dict) and entries.pop("__metadata__", None)
    if not _are_texts(metadata) or metadata.get("format") != FORMAT:
        raise Unreadable("it is not a bochner model", FOREIGN)
    version = metadata.get("format_version", "")
    if not re.fullmatch(r"[0-9]{1,9}", version):
        raise Unreadable("its format version is malformed")
    if int(version) > VERSION:
        raise Unreadable(
            f"its format version {version} is newer than {VERSION}, the newest that "
            "is known",
            "upgrade bochner",
        )
    if int(version) < 3:
        raise Unreadable(
            f"its format version {version} is that of a release before 0.4, whose "
            "files are no longer read",
            "fit the model again with this release, or load it with the one that "
            "saved it",
        )
    user_metadata = _parse(metadata.pop("metadata", "{}").encode(errors="replace"))
    if not _are_texts(user_metadata):
        raise Unreadable("its metadata are malformed")
    if metadata.keys() != KEYS or not metadata["library_version"].isprintable():
        raise Unreadable("its metadata are incomplete")
    checksum = metadata["checksum"]
    if not re.fullmatch(r"[0-9a-f]{64}", checksum):
        raise Unreadable("its checksum is malformed")
    # The tensors end where the file does
    try:
        ends = [entry["data_offsets"][1] for entry in entries.values()]
    except (TypeError, KeyError, IndexError):
        ends = [None]
    if not all(type(end) is int for end in ends):
        raise Unreadable("its list of tensors is malformed")
    end = max(ends, default=0)
    room = size - 8 - length
    if end != room:
        raise Unreadable(
            f"it was truncated or extended: its tensors end at byte {end} and the "
            f"file at {room}"
        )
    nodes = _parse(metadata["tree"].encode(errors="replace"))
    if not isinstance(nodes, dict) or nodes.get("$") != "object":
        raise Unreadable("its tree does not begin with an object")
    return Header(
        head + text,
        size,
        metadata["library_version"],
        checksum,
        user_metadata,
        nodes,
        list(entries),
    )


def _are_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(type(one) is str for one in value.values())


def _parse(text: bytes, advice: str = DAMAGED) -> Any:
    if _values(text) > MAX_VALUES:
        raise Unreadable(f"its header holds more than {MAX_VALUES} values", advice)
    try:
        return json.loads(
            text.decode(),
            parse_int=_integer,
            parse_constant=_refuse,
            object_pairs_hook=_unique,
        )
    except RecursionError:
        raise Unreadable("its header nests too deeply", advice) from None
    except ValueError as error:
        raise Unreadable(f"its header is not valid JSON ({error})", advice) from None


def _integer(digits: str) -> int:
    return int(digits) if len(digits) <= 20 else _refuse("a long integer")


def _refuse(what: str) -> Any:
    raise ValueError(f"it holds {what:.20}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(result := dict(pairs)) == len(pairs):
        return result
    return _refuse("a repeated key")
