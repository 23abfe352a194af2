"""A uniform sample of rows that the rows' numbers decide, however they come and whoever reads them."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bochner.data.hashes import mixed
from bochner.data.streams.base import Batch
from bochner.data.streams.roles import Rows
from bochner.data.streams.rows import MOST_PIECES, joined

ALL = 2**64 - 1
SPARE = 1.25  # times as many rows as are wanted are held


class RowSample:
    """The rows with the smallest hashes of a seed and their number, in their order; those of two tables add up.

    Parameters
    ----------
    size : int
        Rows, at most.
    seed : int
    n_rows : int or None
        Of the whole table, where that is known: rows that will hardly be among the smallest are not even collected,
        so that each of many samples of parts is small.
    """

    def __init__(self, size: int, seed: int, n_rows: int | None = None) -> None:
        self.size, self.salt = size, np.random.default_rng(seed).integers(2**63, dtype=np.uint64)
        self.limit = np.uint64(ALL if n_rows is None else sure_limit(size, n_rows))
        self._pieces: list[Rows] = []
        self._hashes: list[NDArray[np.uint64]] = []
        self._count = 0

    def add(self, rows: Rows, first: int) -> None:
        """Draw from the next rows of a part, whose first row has this number."""
        hashes = mixed((first + rows.number).astype(np.uint64) ^ self.salt)
        self._keep(rows, hashes, hashes <= self.limit)
        if len(self._pieces) > MOST_PIECES or self._count > SPARE * self.size:
            self._shrink()

    def __iadd__(self, other: RowSample) -> RowSample:
        self._pieces += other._pieces
        self._hashes += other._hashes
        self._count += other._count
        self.limit = min(self.limit, other.limit)
        if self._count > SPARE * self.size:
            self._shrink()
        return self

    @property
    def batch(self) -> Batch:
        """The rows; ValueError where there are none at all."""
        if not self._pieces:
            raise ValueError("No rows have been drawn.")
        if len(self._pieces) > 1 or self._count > self.size:
            self._shrink()
        return Batch(*self._pieces[0][:3])

    def _keep(self, rows: Rows, hashes: NDArray[np.uint64], kept: NDArray[np.bool_]) -> None:
        """Copy the rows that are drawn."""
        index = np.flatnonzero(kept)
        if not len(index):
            return
        X = rows.X.take(pa.array(index)) if isinstance(rows.X, pa.Table) else rows.X[index]
        others = [None if values is None else values[index] for values in rows[1:]]
        self._pieces.append(Rows(X, *others))  # type: ignore[arg-type]
        self._hashes.append(hashes[index])
        self._count += len(index)

    def _shrink(self) -> None:
        """Make one piece of all, and leave out what is not among the smallest."""
        rows, hashes = joined(self._pieces, copied=True), np.concatenate(self._hashes)
        self._pieces, self._hashes, self._count = [rows], [hashes], len(hashes)
        if len(hashes) > self.size:
            self.limit = np.partition(hashes, self.size - 1)[self.size - 1]
            self._pieces, self._hashes, self._count = [], [], 0
            self._keep(rows, hashes, hashes <= self.limit)


def sure_limit(size: int, n_rows: int) -> int:
    """A number below which lie the `size` smallest of so many random ones of 64 bits, but once in 10^15 times.

    Their number below it is binomial, with mean m = s + 8 sqrt(s) + 64, which exceeds s by 8 deviations.
    """
    mean = size + 8 * math.sqrt(size) + 64
    return ALL if mean >= n_rows else int(mean / n_rows * 2.0**64)
