"""Sums of the features of two samples, by groups of rows that are permuted as one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.data.array_source import Source
from bochner.engines.algebra import gram
from bochner.engines.local import pause
from bochner.features.fourier import FourierFeatures

MOST_GROUPS, FEWEST_GROUPS = 4096, 64  # of a sample
BLOCK_ROWS = 1 << 13


@dataclass(frozen=True)
class GroupSums:
    """Sums of two samples, through several maps side by side.

    Attributes
    ----------
    n_rows : tuple of int
        Of the samples, n and m.
    groups : array of shape (G, D)
        Sums of the features of groups of as many rows each, those of the first sample first.
    n_first : int
        Groups of the first sample.
    rest : array of shape (D,)
        What the rows that are in no group add to the difference of the means, however the groups are permuted.
    difference : array of shape (D,)
        Of the mean features of the samples.
    covariances : list of array of shape (D_k, D_k)
        Of the features of each map, of both samples together.
    columns : list of slice
        Columns of each map.
    """

    n_rows: tuple[int, int]
    groups: NDArray[np.float64]
    n_first: int
    rest: NDArray[np.float64]
    difference: NDArray[np.float64]
    covariances: list[NDArray[np.float64]]
    columns: list[slice]


def group_sums(X: Source, Y: Source, n_rows: tuple[int, int], maps: list[FourierFeatures], sample: Any) -> GroupSums:
    """Read both samples once.

    Parameters
    ----------
    X, Y : Source
    n_rows : tuple of int
    maps : list of FourierFeatures
    sample : array or CSR matrix of some rows
        Their mean features are taken from all, and change nothing but rounding.
    """
    n, m = n_rows
    size = max(1, min(-(-(n + m) // MOST_GROUPS), min(n, m) // FEWEST_GROUPS))
    totals = _Totals(maps, [features.rows(sample).mean(axis=0) for features in maps], size)
    first, sum_first = totals.read(X, min(n // size, MOST_GROUPS))
    second, sum_second = totals.read(Y, min(m // size, MOST_GROUPS))
    difference = sum_first / n - sum_second / m
    rest = difference - first.sum(axis=0) / n + second.sum(axis=0) / m
    mean = (sum_first + sum_second) / (n + m)
    columns = totals.columns
    covariances = [
        found / (n + m) - np.outer(mean[part], mean[part]) for found, part in zip(totals.grams, columns, strict=True)
    ]
    return GroupSums(n_rows, np.concatenate([first, second]), len(first), rest, difference, covariances, columns)


class _Totals:
    """Adds blocks of rows."""

    def __init__(self, maps: list[FourierFeatures], centres: list[NDArray], size: int) -> None:
        self.maps, self.centres, self.size = maps, centres, size
        edges = np.cumsum([0, *(features.n_features_out for features in maps)]).tolist()
        self.columns = [slice(*pair) for pair in pairwise(edges)]
        self.grams = [np.zeros((b - a, b - a)) for a, b in pairwise(edges)]
        self.n_columns = edges[-1]

    def read(self, source: Source, n_groups: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums of so many groups of a sample, shape (n_groups, D), and of all of its rows, shape (D,)."""
        groups, total, done = np.zeros((n_groups, self.n_columns)), np.zeros(self.n_columns), 0
        for rows, _, _ in source.blocks(BLOCK_ROWS):
            pause()
            numbers = np.minimum(np.arange(done, done + rows.shape[0]) // self.size, n_groups)
            starts = np.flatnonzero(np.diff(numbers, prepend=-1))
            for features, centre, found, part in zip(self.maps, self.centres, self.grams, self.columns, strict=True):
                Z = features.rows(rows)
                Z -= centre
                found += gram(Z, np.empty(found.shape, Z.dtype))
                sums = np.add.reduceat(Z, starts, axis=0, dtype=np.float64)
                total[part] += sums.sum(axis=0)
                kept = numbers[starts] < n_groups
                groups[numbers[starts][kept], part] += sums[kept]
            done += rows.shape[0]
        return groups, total
