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
FORMAT, VERSION, OLDEST = "bochner-model", 3, 3
KEYS = {"format", "format_version", "library_version", "checksum", "tree"}
MAX_HEADER, MAX_VALUES = 2**26, 2**22
BLANK = "0" * 64
CODES = {
    "|b1": "BOOL",
    "|i1": "I8",
    "|u1": "U8",
    "<f2": "F16",
    "<f4": "F32",
    "<f8": "F64",
}
CODES |= {
    f"<{kind}{size}": f"{kind.upper()}{8 * size}" for kind in "iu" for size in (2, 4, 8)
}


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
        entries[name] = {
            "dtype": CODES[tensor.dtype.str],
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
    format_version: int
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
    metadata = entries.pop("__metadata__", None) if isinstance(entries, dict) else None
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise Unreadable("it is not a bochner model", FOREIGN)
    if not all(isinstance(text, str) for text in metadata.values()):
        raise Unreadable("its metadata are malformed")
    written = _read_version(metadata.get("format_version", ""))
    user_metadata = _read_metadata(metadata.pop("metadata", "{}"))
    if metadata.keys() != KEYS or not metadata["library_version"].isprintable():
        raise Unreadable("its metadata are incomplete")
    checksum = metadata["checksum"]
    if not re.fullmatch(r"[0-9a-f]{64}", checksum):
        raise Unreadable("its checksum is malformed")
    _check_size(entries, size - 8 - length)
    nodes = _parse(metadata["tree"].encode(errors="replace"))
    if not isinstance(nodes, dict) or nodes.get("$") != "object":
        raise Unreadable("its tree does not begin with an object")
    return Header(
        head + text,
        size,
        written,
        metadata["library_version"],
        checksum,
        user_metadata,
        nodes,
        list(entries),
    )


def _read_metadata(text: str) -> dict[str, str]:
    user_metadata = _parse(text.encode(errors="replace"))
    if not isinstance(user_metadata, dict) or not all(
        isinstance(value, str) for value in user_metadata.values()
    ):
        raise Unreadable("its metadata are malformed")
    return user_metadata


def _check_size(entries: dict[str, Any], room: int) -> None:
    try:
        ends = [entry["data_offsets"][1] for entry in entries.values()]
    except (TypeError, KeyError, IndexError):
        ends = [None]
    if not all(type(end) is int for end in ends):
        raise Unreadable("its list of tensors is malformed")
    end = max(ends, default=0)
    if end != room:
        raise Unreadable(
            f"it was truncated or extended: its tensors end at byte {end} and the "
            f"file at {room}"
        )


def _read_version(written: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", written):
        raise Unreadable("its format version is malformed")
    if int(written) > VERSION:
        raise Unreadable(
            f"its format version {written} is newer than {VERSION}, the newest that "
            "is known",
            "upgrade bochner",
        )
    if int(written) < OLDEST:
        raise Unreadable(
            f"its format version {written} is that of a release before 0.4, whose "
            "files are no longer read",
            "fit the model again with this release, or load it with the one that "
            "saved it",
        )
    return int(written)


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
