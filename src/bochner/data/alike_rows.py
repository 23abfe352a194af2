"""Columns by which rows belong together, though nobody has said so: rows of one value
are alike in all other columns, or targets follow their neighbours in time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.arrays import Floats, Indices
from bochner.data.array_source import rows_of
from bochner.data.encodings import NumberColumns, TextColumn, TimeColumn
from bochner.data.hashes import row_hashes
from bochner.data.outliers import drawn
from bochner.data.table import TableEncoder

# Values that a column must have to tell groups, and distinct rows of each on average
FEWEST_VALUES, ROWS_A_VALUE = 10, 2.0
# Columns beside it, and the share of their variance that lies between its values, of
# the median column
FEWEST_OTHERS, ALIKE = 2, 0.8
# Rows that tell it, and columns that are asked
EXAMINED_ROWS, MOST_ASKED = 4_000, 20
# Columns of numbers, of more of which none is asked
MOST_NUMBERS = 200
# Rows from which on neighbours tell of time, and the least correlation of their targets
FEWEST_IN_TIME, CORRELATED = 50, 0.5


def column_of_groups(encoder: TableEncoder, X: Any, seed: int) -> str | None:
    """Name of a column of which rows that share a value are much alike in all others;
    None where there is none.

    It is that with the largest share of their variance between its values, by the
    analysis of variance of one way, at the median of the other columns.

    Parameters
    ----------
    encoder : TableEncoder
    X : array or data frame of shape (n, p)
    seed : int
        Of the values that are examined.
    """
    if sp.issparse(X) or encoder.n_features_in_ <= FEWEST_OTHERS:
        return None
    rng = np.random.default_rng(seed)
    best: tuple[float, str | None] = ALIKE, None
    for j, values in _discrete_columns(encoder, X)[:MOST_ASKED]:
        some = _rows_of_some_values(values, rng)
        few = rows_of(X, some)
        some = some[np.sort(np.unique(row_hashes(few), return_index=True)[1])]
        used, level = np.unique(values[some], return_inverse=True)
        if len(used) < FEWEST_VALUES or len(some) < ROWS_A_VALUE * len(used):
            continue
        Z = encoder.encode(rows_of(X, some), np.float64)
        shares = _shares_between(Z, level)
        sources = encoder.sources()
        varies = np.isfinite(shares) & (sources != j) & ~_follow_order(Z, values[some])
        others = np.unique(sources[varies])
        if len(others) < FEWEST_OTHERS:
            continue
        by_column = [shares[varies & (sources == one)].mean() for one in others]
        best = max(best, (float(np.median(by_column)), encoder.statistic_.name(j)))
    return best[1]


def column_of_time(encoder: TableEncoder, X: Any, y: NDArray) -> str | None:
    """Name of a column of dates, or of whole numbers that rise from row to row, in
    whose order neighbours have much the same targets; None where there is none.

    Parameters
    ----------
    encoder : TableEncoder
    X : array or data frame of shape (n, p)
    y : array of shape (n, K)
    """
    if sp.issparse(X) or len(y) < FEWEST_IN_TIME:
        return None
    for column in encoder.columns_:
        if isinstance(column, TimeColumn) and column.linear:
            (parts,) = encoder.values_of(X, [column.index])
            time = parts.reshape(len(y), -1)[:, 0]
            known = np.flatnonzero(np.isfinite(time))
            if _follow_neighbours(y[known[np.argsort(time[known], kind="stable")]]):
                return encoder.statistic_.name(column.index)
        if isinstance(column, NumberColumns):
            first = slice(FEWEST_IN_TIME)
            for j in _whole_columns(encoder, X, column, first, rising=True):
                (numbers,) = encoder.values_of(X, [j])
                if _are_whole(numbers, rising=True) and _follow_neighbours(y):
                    return encoder.statistic_.name(j)
    return None


def _discrete_columns(encoder: TableEncoder, X: Any) -> list[tuple[int, Indices]]:
    """Columns of text, dates and whole numbers, with numbers in order for the values
    of the rows, (n,), and enough rows of each.
    """
    found = list[tuple[int, Indices]]()
    n_rows = X.shape[0]

    def add(j: int, values: NDArray) -> None:
        used, number = np.unique(values, return_inverse=True)
        if FEWEST_VALUES <= len(used) <= n_rows / ROWS_A_VALUE:
            found.append((j, number))

    for column in encoder.columns_:
        if isinstance(column, TextColumn):
            ((codes, _),) = encoder.values_of(X, [column.index])
            add(column.index, codes)
        elif isinstance(column, TimeColumn):
            (parts,) = encoder.values_of(X, [column.index])
            add(column.index, parts.reshape(n_rows, -1)[:, 0])
        elif isinstance(column, NumberColumns):
            first = drawn(np.arange(n_rows), EXAMINED_ROWS)
            for j in _whole_columns(encoder, X, column, first):
                (numbers,) = encoder.values_of(X, [j])
                if _are_whole(numbers):
                    add(j, numbers[:, 0])
    return sorted(found, key=lambda pair: -len(np.unique(pair[1][:EXAMINED_ROWS])))


def _whole_columns(
    encoder: TableEncoder,
    X: Any,
    column: NumberColumns,
    first: Any,
    rising: bool = False,
) -> list[int]:
    """Columns of numbers that are whole in some rows; none of very many columns."""
    columns = column.index.tolist()
    if len(columns) > MOST_NUMBERS:
        return []
    pairs = zip(columns, encoder.values_of(X, columns, first), strict=True)
    return [j for j, numbers in pairs if _are_whole(numbers, rising)]


def _are_whole(numbers: Floats, rising: bool = False) -> bool:
    """Whether all numbers, (n, 1), are integers, each larger than the one before if
    that is asked.
    """
    known = numbers[np.isfinite(numbers)]
    are_whole = bool(len(known) and (known == np.rint(known)).all())
    return are_whole and (not rising or bool((np.diff(numbers[:, 0]) > 0).all()))


def _rows_of_some_values(values: Indices, rng: np.random.Generator) -> Indices:
    """All rows of as many values, drawn by chance, as have some 4,000 rows."""
    if len(values) <= EXAMINED_ROWS:
        return np.arange(len(values))
    counts = np.bincount(values)
    order = rng.permutation(len(counts))
    n_taken = max(int(np.searchsorted(np.cumsum(counts[order]), EXAMINED_ROWS)), 1)
    taken = np.zeros(len(counts), bool)
    taken[order[:n_taken]] = True
    return np.flatnonzero(taken[values])[: 2 * EXAMINED_ROWS]


def _shares_between(Z: Floats, level: Indices) -> Floats:
    """Share of the variance of each column that lies between levels, (p,): the
    intraclass correlation, by the mean squares between and within (Fisher, 1925); NaN
    for columns that do not vary.
    """
    counts = np.bincount(level).astype(np.float64)
    n, n_levels = len(level), len(counts)
    sums = np.zeros((n_levels, Z.shape[1]))
    np.add.at(sums, level, Z)
    means = sums / counts[:, np.newaxis]
    within = np.square(Z - means[level]).sum(axis=0) / (n - n_levels)
    between = counts @ np.square(means - Z.mean(axis=0)) / (n_levels - 1)
    size = (n - np.square(counts).sum() / n) / (n_levels - 1)
    total = between + (size - 1) * within
    varies = np.ptp(Z, axis=0) > 0
    return np.where(varies, (between - within) / np.where(varies, total, 1.0), np.nan)


def _follow_order(Z: Floats, number: Indices) -> NDArray[np.bool_]:
    """Which columns are rising or falling functions of a number, (p,): that number once
    more, as an age is its logarithm, and no sign of anything shared.
    """
    steps = np.diff(Z[np.argsort(number, kind="stable")], axis=0)
    same = np.diff(np.sort(number)) == 0
    is_function = (steps[same] == 0).all(axis=0)
    return is_function & ((steps >= 0).all(axis=0) | (steps <= 0).all(axis=0))


def _follow_neighbours(y: NDArray) -> bool:
    """Whether targets of successive rows are correlated, by von Neumann's ratio."""
    if len(y) < FEWEST_IN_TIME:
        return False
    variance = y.var(axis=0).sum()
    steps = np.square(np.diff(y, axis=0)).mean(axis=0).sum()
    return bool(variance > 0 and 1 - steps / (2 * variance) > CORRELATED)
