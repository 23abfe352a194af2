"""Fourier features of rows on a device, and blocks of rows that fit its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from bochner.blocks import HELD_ENTRIES, LARGE_BLOCK_ROWS
from bochner.devices.device import Device, is_out_of_memory

FEWEST_ROWS = 256  # of a block, whose products are summed in single precision
FREE_SHARE = 0.25  # of the free memory, for a block
OUT_OF_MEMORY_SHRINK = 8  # times fewer rows, where the device has run out of memory
T = TypeVar("T")


def block_rows(place: Device, row: int) -> int:
    """Rows of a block, of `row` bytes each, by the memory of the device that is free:
    a power of two.
    """
    free = place.free_bytes()
    rows = LARGE_BLOCK_ROWS
    while free is not None and rows > FEWEST_ROWS and rows * row > FREE_SHARE * free:
        rows //= 2
    return rows


def with_smaller_blocks(
    compute: Callable[[int], T],
    rows: int,
    place: Device,
    row_bytes: int,
    beside: int = 0,
) -> T:
    """Return ``compute(rows)``, or its result for an eighth of `rows` where the device
    has no memory for all of them.

    Parameters
    ----------
    row_bytes : int
        That a row takes.
    beside : int, default=0
        Bytes that are needed however few the rows are.

    Raises
    ------
    MemoryError
        Where that is too much, too.
    """
    for size in (rows, max(rows // OUT_OF_MEMORY_SHRINK, 1)):
        try:
            return compute(size)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            last = error
    what = f"A block of {size:,} rows"
    cure = "Use a smaller n_components, or leave device= out."
    raise place.memory_error(size * row_bytes + beside, what, cure) from last


def pieces(
    compute: Callable[..., T], place: Device, row_bytes: int, *arrays: Any
) -> Iterator[T]:
    """Yield ``compute(*arrays)``, or what it makes of an eighth of the rows at a
    time where there is no memory.
    """

    def first(rows: int) -> tuple[T, int]:
        return compute(*(array[:rows] for array in arrays)), rows

    n = len(arrays[0])
    first_piece, step = with_smaller_blocks(first, n, place, row_bytes)
    yield first_piece
    for start in range(step, n, step):
        yield compute(*(array[start : start + step] for array in arrays))


class DeviceFourier:
    """Fourier features on a device, without their amplitudes, so that all entries lie
    in [-1, 1].

    Angles are in radians: PyTorch's own cosines and sines lose no digit of a large
    angle, so that none has to be taken to turns, which would read and write all angles
    twice more.

    Attributes
    ----------
    place : Device
    frequencies : array of shape (d, m), on the device
    offsets : array of shape (q,), on the device
        Of the last q frequencies, which have a cosine only.
    amplitudes : array of shape (D,), float64
        Of the columns; NumPy's.
    """

    def __init__(self, features: Any, place: Device, dtype: np.dtype) -> None:
        self.place = place
        self.amplitudes = features.bounds()
        self.frequencies, self.offsets = (
            place.put(array.astype(dtype))
            for array in (features.frequencies_, features.offsets_ % (2 * np.pi))
        )

    def write(self, X: Any, out: Any) -> None:
        """Write the features into an array of the device, shape (b, D).

        A few rows at a time, so that their angles take little memory beside the
        features.
        """
        torch = self.place.torch
        m = int(self.frequencies.shape[1])
        pairs = m - int(self.offsets.shape[0])
        # 64 MB of angles at a time: on an H200 a quarter of them takes 1.2 times as
        # long, and more gain nothing
        step = max(HELD_ENTRIES // max(m, 1), 1)
        for rows in (slice(a, a + step) for a in range(0, X.shape[0], step)):
            angles = self.place.product(X[rows], self.frequencies)
            angles[:, pairs:] += self.offsets
            for wave, start, stop, first in (
                (torch.cos, 0, pairs, 0),
                (torch.sin, 0, pairs, pairs),
                (torch.cos, pairs, m, 2 * pairs),
            ):
                if start < stop:
                    columns = slice(first, first + stop - start)
                    wave(angles[:, start:stop], out=out[rows, columns])
