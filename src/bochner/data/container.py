"""A file of named arrays and a JSON header, written as they come, with a checksum of all of it; a safetensors file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from io import BufferedReader
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

FORMAT, VERSION = "bochner-checkpoint", "1"
ROOM = 1 << 15  # bytes for the list of arrays, which is known when they are written: some 200
MOST = 1 << 26  # bytes of a header that is read
TYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "U64": "<u8", "BOOL": "|b1"}
CODES = {kind: code for code, kind in TYPES.items()}
BLANK = "0" * 8


class Damaged(ValueError):
    """A file is not what was written; the message says why."""


def write_arrays(path: str, arrays: Iterable[tuple[str, NDArray]], header: Mapping[str, Any]) -> None:
    """Write a new file of arrays, which may be made one by one, and a header of JSON values.

    Raises
    ------
    ValueError
        Where an array is neither of float, 64-bit int nor bool type, or there are more than some hundreds.
    """
    about = {"format": FORMAT, "version": VERSION, "crc32": BLANK, "header": json.dumps(header, allow_nan=False)}
    entries: dict[str, Any] = {"__metadata__": about}
    room = -(-(len(json.dumps(entries)) + ROOM) // 8) * 8
    end = check = 0
    with open(path, "xb") as file:
        file.seek(8 + room)
        for name, array in arrays:
            code = CODES.get(array.dtype.newbyteorder("<").str)
            if code is None:
                raise ValueError(f"array {name!r} is of type {array.dtype}, which checkpoints cannot hold")
            data = np.ascontiguousarray(array, TYPES[code]).reshape(-1).view(np.uint8).data
            file.write(data)
            check, begin, end = crc32(data, check), end, end + data.nbytes
            entries[name] = {"dtype": code, "shape": array.shape, "data_offsets": [begin, end]}
        text = json.dumps(entries).encode()
        if len(text) > room:
            raise ValueError(f"{len(entries) - 1:,} arrays are more than a checkpoint can hold")
        text = text.replace(_mark(BLANK), _mark(f"{crc32(text, check):08x}"), 1)
        file.seek(0)
        file.write(room.to_bytes(8, "little") + text.ljust(room))


def read_arrays(path: str) -> tuple[dict[str, NDArray], dict[str, Any]]:
    """Read what `write_arrays` has written; Damaged for anything else."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        room = int.from_bytes(file.read(8), "little")
        if size < 8 or room > min(size - 8, MOST):
            raise Damaged("it is not a checkpoint, or is truncated")
        text = file.read(room).rstrip()
        try:
            entries = json.loads(text)
            about = entries.pop("__metadata__")
            if about["format"] != FORMAT:
                raise Damaged(f"it holds {about['format']!r}")
            if about["version"] != VERSION:
                raise Damaged(f"its format version is {about['version']}, and only version {VERSION} is known")
            found, header = str(about["crc32"]), json.loads(about["header"])
            if size - 8 - room != max((entry["data_offsets"][1] for entry in entries.values()), default=0):
                raise Damaged("it was truncated or extended")
            arrays, check = _read(file, entries)
        except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
            raise error if isinstance(error, Damaged) else Damaged("its header is malformed") from None
    if found != f"{crc32(text.replace(_mark(found), _mark(BLANK), 1), check):08x}":
        raise Damaged("its checksum does not match its content")
    return arrays, header


def _read(file: BufferedReader, entries: Mapping[str, Any]) -> tuple[dict[str, NDArray], int]:
    """Arrays and the checksum of their bytes."""
    arrays, end, check = {}, 0, 0
    for name, entry in entries.items():
        begin, stop = entry["data_offsets"]
        count, kind = stop - begin, np.dtype(TYPES[entry["dtype"]])
        data = bytearray(count)
        if begin != end or file.readinto(data) != count:
            raise Damaged("its arrays are not contiguous")
        end, check = stop, crc32(data, check)
        arrays[name] = np.frombuffer(data, kind).reshape(entry["shape"])
    return arrays, check


def _mark(check: str) -> bytes:
    return b'"crc32": "%s"' % check.encode()
