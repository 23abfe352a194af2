"""How rows in memory travel: arrays of a file as its name and the place in it, tables without what is cut off."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bochner.data.streams.base import require_file


@dataclass(frozen=True)
class MappedArray:
    """Place of an array in a file.

    Attributes
    ----------
    path : str
    offset : int
        Bytes before its first element.
    dtype : numpy.dtype
    shape : tuple of int
    strides : tuple of int
        Bytes from one element to the next, none negative.
    """

    path: str
    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, array: Any) -> MappedArray | None:
        """The place of an array, where it is mapped from a file and read forwards."""
        owner: Any = array
        while owner is not None and not isinstance(owner, np.memmap):
            owner = getattr(owner, "base", None)
        if (
            not isinstance(owner, np.memmap)
            or owner.filename is None
            or min(array.strides, default=0) < 0
            or array.dtype.hasobject
        ):
            return None
        mapped: Any = owner._mmap  # type: ignore[attr-defined]
        before = owner.offset - owner.offset % mmap.ALLOCATIONGRANULARITY  # where the mapped bytes begin in the file
        first = np.frombuffer(mapped, np.uint8, 1).__array_interface__["data"][0]
        offset = before + array.__array_interface__["data"][0] - first
        return cls(str(owner.filename), offset, array.dtype, array.shape, array.strides)

    def opened(self) -> NDArray:
        """The array, mapped to be read; SourceError where this process cannot see the file."""
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        require_file(self.path)
        reach = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        raw = np.memmap(self.path, np.uint8, "r", self.offset, (reach + self.dtype.itemsize,))
        return np.ndarray(self.shape, self.dtype, raw, 0, self.strides)


@dataclass(frozen=True)
class ArrowStream:
    """The rows of an Arrow table, and not the whole buffers that they are cut of."""

    data: bytes

    @classmethod
    def of(cls, table: pa.Table) -> ArrowStream:
        """The rows of a table."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return cls(sink.getvalue().to_pybytes())

    def opened(self) -> pa.Table:
        """The table."""
        with pa.ipc.open_stream(self.data) as reader:
            return reader.read_all()


def sendable(value: Any) -> Any:
    """A value for a pickle: an array of a file as its place, an Arrow table as its rows, anything else as it is."""
    if isinstance(value, pa.Table):
        return ArrowStream.of(value)
    place = MappedArray.of(value) if isinstance(value, np.ndarray) else None
    return value if place is None else place


def received(value: Any) -> Any:
    """What was given to `sendable`."""
    return value.opened() if isinstance(value, MappedArray | ArrowStream) else value
