"""Values far beyond all others of their column, which must not set its unit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats, Indices, n_distinct
from bochner.blocks import SAMPLE_ROWS

# Of the values beyond either end of a range, the first of which is above zero
SHARES = (0.25, 0.1, 0.05, 0.01)
FARTHEST = 1e4  # ranges, from which a value hides the differences of all others
MOST_OUTLYING = 0.05  # of the values of a column, beyond which they are no outliers
# Of a value that stands for a missing one: its least share of the values, how many
# others differ, and its least distance from them, in their range
STAND_IN_SHARE, DIFFERENT_OTHERS, APART = 0.01, 20, 0.05


def drawn(
    rows: Indices, most: int = SAMPLE_ROWS, seed: int | np.random.Generator = 0
) -> Indices:
    """Some of many rows, drawn by chance: rows at equal distances may be alike. All
    of few.
    """
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))


def stand_in_for_missing(values: NDArray) -> float | None:
    """The least or the greatest of some values where it is frequent and stands apart
    from all others as a number for a missing value does, such as -200, -9999 or 999;
    None where none is.

    Parameters
    ----------
    values : array of shape (n,)
        NaN where they are missing.
    """
    finite_values = values[np.isfinite(values)]
    if not len(finite_values):
        return None
    for value in (finite_values.min(), finite_values.max()):
        digits = f"{abs(value):.0f}"
        has_nines = len(digits) > 1 and set(digits) == {"9"}
        # Few columns come as far as to be compared and sorted
        if value % 1 or (value >= 0 and not has_nines):
            continue
        others = finite_values[finite_values != value]
        share = 1 - len(others) / len(finite_values)
        if share < STAND_IN_SHARE or n_distinct(others) < DIFFERENT_OTHERS:
            continue
        distance = np.abs(others - value).min() / np.ptp(others)
        if distance > APART and (has_nines or others.min() >= 0):
            return float(value)
    return None


def outer_fences(
    values: NDArray,
    weight: NDArray | None,
    reach: float = 3.0,
    shares: tuple[float, ...] = SHARES,
) -> tuple[Floats, Floats]:
    """Least and greatest values that are no outliers, each of shape (K,); infinite
    where nothing tells.

    They lie `reach` interquartile ranges beyond the quartiles, three for the outer
    fences of Tukey, "Exploratory Data Analysis", 1977. Where more than half of the
    values are equal, the range of a larger share of them takes the place of that of the
    quartiles.

    Parameters
    ----------
    values : array of shape (n,) or (n, K)
        Finite.
    weight : array of shape (n,) or None
    reach : float, default=3.0
    shares : tuple of float
        Of the values beyond either end of a range, in place of the quarters.
    """
    values = values.reshape(len(values), -1)
    columns = np.arange(values.shape[1])
    if not len(values):
        none = np.full(len(columns), np.inf)
        return -none, none
    lower, upper = (
        np.quantile(values, ends, axis=0, weights=weight, method="inverted_cdf")
        for ends in (np.array(shares), 1 - np.array(shares))
    )
    # The first share whose range is above zero, in each column
    tells = upper > lower
    first = tells.argmax(axis=0), columns
    with np.errstate(over="ignore"):
        width = reach * (upper - lower)[first]
        low = np.where(tells[first], lower[first] - width, -np.inf)
        high = np.where(tells[first], upper[first] + width, np.inf)
    return low, high


def farthest_fences(values: NDArray) -> tuple[Floats, Floats]:
    """Values beyond which others of the same column would hide all differences, by some
    rows of it; each (K,).

    Parameters
    ----------
    values : array of shape (m, K)
        NaN where a value is missing.
    """
    if np.isfinite(values).all():
        return outer_fences(values, None, FARTHEST)
    fences = [
        outer_fences(column[np.isfinite(column)], None, FARTHEST) for column in values.T
    ]
    low, high = np.hstack(fences)
    return low, high
