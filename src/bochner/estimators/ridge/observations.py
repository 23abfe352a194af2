"""Rows as observations: exact copies of a row are one, repeated measurements at the same inputs are several.

Least squares may take equal rows of inputs as one row, of their mean target. What they tell of the noise may not: the
targets vary about that mean, and the error of a row is that of one row, however much it weighs. New rows are
exchangeable with the observations, which therefore are what calibrates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bochner.data.hashes import mixed, row_hashes
from bochner.data.sources import ArraySource

CHANCE_SHARE = 0.5  # of the distinct rows: where no column has more values than that, equal rows may be chance
EXAMINED_ROWS = 1 << 13  # in which values are counted
FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Observations:
    """Rows that have weight, copies as one.

    Attributes
    ----------
    row : int array of shape (m,)
        Number of a row of the source that holds each.
    weight : array of shape (m,)
        Of all its copies.
    inputs, hashes : arrays of shape (m,)
        Hashes of the inputs, and of inputs and targets.
    number : int array of shape (n,)
        Of the observation that each row of the source is, -1 without weight.
    """

    row: NDArray[np.intp]
    weight: NDArray[np.float64]
    inputs: NDArray[np.uint64]
    hashes: NDArray[np.uint64]
    number: NDArray[np.intp]

    @classmethod
    def of(cls, source: ArraySource) -> Observations:
        """Those of a source."""
        row = np.flatnonzero(source.weights)
        weight, inputs = np.asarray(source.weights, np.float64)[row], source.row_hashes()[row]
        hashes = observation_hashes(inputs, source.y[row].reshape(len(row), -1))
        _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
        if len(first) == len(row) or _equal_by_chance(source.take(row[np.sort(first)[:EXAMINED_ROWS]])):
            first = group = np.arange(len(row))
        rank = np.argsort(np.argsort(first))  # in the order of the rows
        group, first = rank[group], np.sort(first)
        number = np.full(source.n_rows, -1)
        number[row] = group
        weight = np.bincount(group, weight, len(first)).astype(np.float64)
        return cls(row[first], weight, inputs[first], hashes[first], number)

    def source(self, source: ArraySource, some: NDArray[np.intp] | slice = slice(None)) -> ArraySource:
        """The rows of some of them, encoded, with their weights."""
        X, y, _ = source.take(self.row[some]).whole()
        return ArraySource(X, y, self.weight[some])


def observation_hashes(inputs: NDArray[np.uint64], targets: NDArray) -> NDArray[np.uint64]:
    """Hashes of rows by those of their inputs, (n,), and their targets, (n, K)."""
    return mixed(inputs * FACTOR + row_hashes(targets))


def _equal_by_chance(distinct: ArraySource) -> bool:
    """Whether rows may be equal by chance, for each column and target of distinct ones has few values.

    With a column of continuous values, or such targets, equal rows are copies.
    """
    X, y, _ = distinct.whole()
    most = CHANCE_SHARE * len(y)
    if any(len(np.unique(column)) > most for column in y.T):
        return False
    columns: Iterable[NDArray] = X.T
    if not isinstance(X, np.ndarray):
        X = X.tocsc()
        many = np.flatnonzero(np.diff(X.indptr) >= most - 1)  # values that are stored, with zero; others are too few
        columns = (X[:, [j]].toarray() for j in many)
    return all(len(np.unique(column)) <= most for column in columns)


def distinct_numbers(source: ArraySource) -> NDArray[np.intp]:
    """For each row the number of its like among the distinct rows that have weight; shape (n,), 0 without weight."""
    counted = np.flatnonzero(source.weights)
    some = source.take(counted)
    some = ArraySource(*some.whole(), content=some.content)
    first_duplicate = some.first_duplicates(some.row_hashes())
    number = np.zeros(source.n_rows, np.intp)
    number[counted] = (np.cumsum(first_duplicate == np.arange(some.n_rows)) - 1)[first_duplicate]
    return number
