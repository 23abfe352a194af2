"""What several statistics say together, against all of them on permuted rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST = 300.0  # decimal digits of a p-value
ROUNDING = 1e-9  # of the largest value, by which values that are equal may differ


class Evidence(NamedTuple):
    """Evidence against a hypothesis.

    Attributes
    ----------
    statistic : float
    null : array of shape (B,)
    p_value : float
    best : int
        Which of the statistics has it.
    """

    statistic: float
    null: NDArray[np.float64]
    p_value: float
    best: int


def combine(values: NDArray, shares: NDArray) -> Evidence:
    """The evidence of statistics of the rows as they are, and permuted B times.

    Each statistic is turned into -log10 of a p-value, by the gamma law of the mean and the variance that it has over
    all B + 1 rows of the table, and of a share of the level. The evidence is the largest of them. It is the same
    function of all rows of the table, so that its rank among them has an exact p-value, whatever the true laws are.
    Permutations of discrete rows have the same statistic but for rounding, and these are ties.

    Parameters
    ----------
    values : array of shape (B + 1, M)
        Not negative; the first row is that of the rows as they are.
    shares : array of shape (M,)
        Of the level, with sum one.
    """
    digits = np.stack([_digits(column) for column in map(_tied, values.T)], axis=1) + np.log10(shares)
    found = digits.max(axis=1)
    p_value = int(np.count_nonzero(found >= found[0])) / len(found)
    return Evidence(float(found[0]), found[1:], p_value, int(digits[0].argmax()))


def _tied(column: NDArray) -> NDArray[np.float64]:
    """The values, those that differ by rounding alone as one; shape (B + 1,)."""
    order = np.argsort(column)
    ascending = column[order]
    leads = np.diff(ascending, prepend=-np.inf) > ROUNDING * np.abs(column).max()
    tied = np.empty_like(column)
    tied[order] = ascending[leads][np.cumsum(leads) - 1]
    return tied


def _digits(column: NDArray) -> NDArray[np.float64]:
    """-log10 of the tails of a gamma law of the same mean and variance, shape (B + 1,)."""
    from scipy.special import gammaincc

    mean, variance = column.mean(), column.var()
    if not variance > 1e-20 * mean**2:
        return np.zeros(len(column))
    tail = gammaincc(mean**2 / variance, column * (mean / variance))
    return -np.log10(np.maximum(tail, 10**-MOST))
