"""Blocks of rows that fit the memory of a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bochner.arrays import Place, is_out_of_memory
from bochner.settings import as_size

MOST_ROWS, FEWEST_ROWS = 1 << 14, 256  # of a block, whose products are summed in single precision
FREE_SHARE = 0.25  # of the free memory, for a block
LESS = 8  # times fewer rows, where the device has run out of memory


def block_rows(place: Place, row: int) -> int:
    """Rows of a block, of so many bytes each, by the memory of the device that is free: a power of two."""
    free, rows = place.free_bytes(), MOST_ROWS
    while free is not None and rows > FEWEST_ROWS and rows * row > FREE_SHARE * free:
        rows //= 2
    return rows


def pieces(compute: Callable[..., Any], place: Place, n_features: int, *rows: Any) -> Iterator[Any]:
    """Yield ``compute(*rows)``, or what it makes of an eighth of the rows at a time where the device has no memory.

    Raises
    ------
    MemoryError
        Where that is too much, too.
    """
    n = rows[0].shape[0]
    step = max(n // LESS, 1)
    starts = [(0, n)] if step == n else [(0, n), *((start, min(start + step, n)) for start in range(0, n, step))]
    for start, stop in starts:
        try:
            found = compute(*(array[start:stop, ...] for array in rows))
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            if stop - start <= step:
                raise MemoryError(_too_much(place, stop - start, n_features)) from error
            continue
        yield found
        if stop - start == n:
            return


def _too_much(place: Place, n_rows: int, n_features: int) -> str:
    free = place.free_bytes()
    left = "" if free is None else f", of which {as_size(free)} are free"
    return (
        f"The device {place} has too little memory{left}: it ran out with blocks of {n_rows:,} rows of {n_features:,} "
        "features too. Take a smaller n_components, or leave the device to the processor by device=None."
    )
