"""Rows that belong together, though nobody has said so: those of one value of a column
are alike in all others, targets follow their neighbours in time, or rows are equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.arrays import Floats, Indices, n_distinct
from bochner.data.array_source import rows_of
from bochner.data.columns import LINEAR, base_kind, parts_of
from bochner.data.hashes import (
    MANY_VALUES,
    are_levels,
    observation_hashes,
    row_hashes,
    uniform,
)
from bochner.data.level_means import variance_components
from bochner.data.outliers import drawn
from bochner.data.table import TableEncoder

# Values that a column must have to tell groups, and distinct rows of each on average
FEWEST_VALUES, ROWS_A_VALUE = 10, 2.0
# Columns beside it, and the share of their variance that lies between its values, of
# the median column
FEWEST_OTHERS, ALIKE = 2, 0.8
# Rows that tell it, and columns that are asked
EXAMINED_ROWS, MOST_ASKED = 2_000, 8
MOST_COLUMNS = 200  # of a table, of more of which none is asked
# Rows from which on neighbours tell of time, and the least correlation of their targets
FEWEST_IN_TIME, CORRELATED = 50, 0.5


def repeated_observations(X: Any, y: NDArray, first: Indices) -> Indices | None:
    """Number of the first row that is equal to each in its target, too, shape (n,).

    None where no row is, and where all columns and targets have few values: there rows
    may be equal by chance, and each is an observation of its own.

    Parameters
    ----------
    X : array or data frame of shape (n, p)
    y : array of shape (n,) or (n, K)
    first : int array of shape (n,)
        Number of the first row that is equal to each in all columns.
    """
    targets = y.reshape(len(first), -1)
    hashes = observation_hashes(first.astype(np.uint64), targets)
    _, lead, number = np.unique(hashes, return_index=True, return_inverse=True)
    has_many = n_distinct(row_hashes(targets)) > MANY_VALUES * len(lead)
    are_all = len(lead) == len(first)
    if are_all or (not has_many and are_levels(rows_of(X, lead))):
        return None
    observation: Indices = lead[number]
    return observation


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
    if sp.issparse(X) or not FEWEST_OTHERS < encoder.n_features_in_ <= MOST_COLUMNS:
        return None
    # Columns of text, times and whole numbers, by how many values some rows have
    n_rows = X.shape[0]
    few = rows_of(X, drawn(np.arange(n_rows), EXAMINED_ROWS))
    columns = []
    for j, kind in enumerate(encoder.statistic_.kinds):
        values = _first_part(encoder, few, j)
        n_seen = n_distinct(values)
        is_number = base_kind(kind) == "number"
        if n_seen >= FEWEST_VALUES and (not is_number or _are_whole(values)):
            columns.append((n_seen, j))
    best: tuple[float, str | None] = ALIKE, None
    sources = encoder.sources()
    for n_seen, j in sorted(columns, reverse=True)[:MOST_ASKED]:
        values = _first_part(encoder, X, j)
        # All rows of some values that chance draws, about 2,000 rows; or some rows of
        # these, where the values have more
        row_numbers = np.arange(n_rows)
        if n_rows > EXAMINED_ROWS:
            # A hash of each value draws it, without a look at how many there are
            share = max(EXAMINED_ROWS / n_rows, min(2 * FEWEST_VALUES / n_seen, 1.0))
            place = uniform(row_hashes(values.astype(np.float64)[:, np.newaxis]), seed)
            row_numbers = drawn(np.flatnonzero(place < share), 2 * EXAMINED_ROWS)
        if len(row_numbers) < ROWS_A_VALUE * n_distinct(values[row_numbers]):
            continue
        # Copies of a row tell nothing of rows that are alike
        Z = encoder.encode(rows_of(X, row_numbers), np.float64)
        distinct = np.unique(row_hashes(Z), return_index=True)[1]
        Z, row_numbers = Z[distinct], row_numbers[distinct]
        numbers = values[row_numbers]
        used, level = np.unique(numbers, return_inverse=True)
        if len(used) < FEWEST_VALUES or len(row_numbers) < ROWS_A_VALUE * len(used):
            continue
        shares = _shares_between(Z, level)
        varies = np.isfinite(shares) & (sources != j)
        # A rising or falling function of a number is that number once more, as an age
        # is its logarithm, and no sign of anything shared
        order = np.argsort(numbers, kind="stable")
        steps = np.diff(Z[order], axis=0)
        is_function = (steps[np.diff(numbers[order]) == 0] == 0).all(axis=0)
        is_function &= (steps >= 0).all(axis=0) | (steps <= 0).all(axis=0)
        varies &= ~is_function
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
    is_wide = encoder.n_features_in_ > MOST_COLUMNS
    if sp.issparse(X) or is_wide or len(y) < FEWEST_IN_TIME:
        return None
    first = rows_of(X, slice(FEWEST_IN_TIME))
    for j, kind in enumerate(encoder.statistic_.kinds):
        parts = parts_of(kind)
        if not parts or parts[0] not in LINEAR:
            continue
        is_number = base_kind(kind) == "number"
        if is_number and not _rises(_first_part(encoder, first, j)):
            continue
        time = _first_part(encoder, X, j)
        if is_number and not _rises(time):
            continue
        dated_rows = np.flatnonzero(np.isfinite(time))
        order = np.argsort(time[dated_rows], kind="stable")
        targets = y[dated_rows[order]]
        if len(targets) < FEWEST_IN_TIME:
            continue
        # Von Neumann's ratio tells how targets of successive rows are correlated
        variance = targets.var(axis=0).sum()
        steps = np.square(np.diff(targets, axis=0)).mean(axis=0).sum()
        if variance > 0 and 1 - steps / (2 * variance) > CORRELATED:
            return encoder.statistic_.name(j)
    return None


def _first_part(encoder: TableEncoder, X: Any, j: int) -> NDArray:
    """A number for the value of each row in a column, (n,)."""
    values = encoder.values_of(X, j)
    return values[0] if isinstance(values, tuple) else values[:, 0]


def _are_whole(numbers: Floats) -> bool:
    """Whether all numbers are integers, but for those that are missing."""
    finite_values = numbers[np.isfinite(numbers)]
    are_integers = finite_values == np.rint(finite_values)
    return bool(len(finite_values) and are_integers.all())


def _rises(numbers: Floats) -> bool:
    """Whether numbers are integers, each larger than the one before."""
    return _are_whole(numbers) and bool((np.diff(numbers) > 0).all())


def _shares_between(Z: Floats, level: Indices) -> Floats:
    """Share of the variance of each column that lies between levels, (p,): the
    intraclass correlation (Fisher, 1925); NaN
    for columns that do not vary.
    """
    weight = np.ones(len(Z))
    _, _, between, within = variance_components(level, Z - Z.mean(axis=0), weight)
    total = np.where(np.ptp(Z, axis=0) > 0, between + within, np.nan)
    return between / total
