"""Blocks of rows that fit the memory of a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bochner.arrays import Place, is_out_of_memory

MOST_ROWS, FEWEST_ROWS = 1 << 14, 256  # of a block, whose products are summed in single precision
FREE_SHARE = 0.25  # of the free memory, for a block
LESS = 8  # times fewer rows, where the device has run out of memory


def block_rows(place: Place, row: int) -> int:
    """Rows of a block, of so many bytes each, by the memory of the device that is free: a power of two."""
    free, rows = place.free_bytes(), MOST_ROWS
    while free is not None and rows > FEWEST_ROWS and rows * row > FREE_SHARE * free:
        rows //= 2
    return rows


def pieces(compute: Callable[..., Any], place: Place, row: int, *rows: Any) -> Iterator[Any]:
    """Yield ``compute(*rows)``, or what it makes of an eighth of the rows at a time where the device has no memory.

    Parameters
    ----------
    row : int
        Bytes that a row takes.

    Raises
    ------
    MemoryError
        Where that is too much, too.
    """
    n = rows[0].shape[0]
    step = fewer(n)
    for start, stop in ((0, n), *((start, min(start + step, n)) for start in range(0, n, step))):
        try:
            found = compute(*(array[start:stop, ...] for array in rows))
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            if stop - start <= step:
                raise too_much(place, stop - start, row) from error
            continue
        yield found
        if stop - start == n:
            return


def fewer(rows: int) -> int:
    """Rows of a block, where so many were too many."""
    return max(rows // LESS, 1)


def too_much(place: Place, rows: int, row: int, beside: int = 0) -> MemoryError:
    """The error to raise where the device has too little memory even for few rows, of so many bytes each."""
    what = f"A block of {rows:,} rows"
    return place.memory_error(rows * row + beside, what, "Use a smaller n_components, or leave device= out.")
