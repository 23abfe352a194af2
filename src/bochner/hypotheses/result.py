"""The result of a test, and how several statistics are combined into one p-value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.markup import cut_named, number, percent, table, tag

SAME, INDEPENDENT = "X and Y are of one distribution", "X and Y are independent"  # hypotheses
FINDINGS = (("Distributions differ", "No difference found"), ("Dependence found", "No dependence found"))
LEVEL = 0.05  # of a finding
MOST = 300.0  # decimal digits of a p-value
ROUNDING = 1e-9  # of the largest value, by which values that are equal may differ


@dataclass(frozen=True, repr=False)
class HypothesisTest:
    """The outcome of `two_sample_test` or `independence_test`.

    Attributes
    ----------
    hypothesis : str
        What is tested.
    statistic : float
        The evidence against it. For permutations it is the largest -log10 of an approximate p-value among the members,
        corrected for the share of the level that the member has; for "chi2" it is the statistic over its mean.
    p_value : float
        Exact for permutations: if the hypothesis holds, p <= a has probability a at most.
    effect_size : float
        0 on average if the hypothesis holds, whatever the number of rows, and at most 1. For two samples it is the
        share of the variance of the features that lies between them, for two tables the correlation of their kernels.
    null : array of shape (B,)
        The statistic if the hypothesis holds: for permuted rows, or drawn from the chi-squared distribution.
    member : str
        Width of the kernel and ridge penalty of the member with the largest evidence.
    columns : tuple of str
        Names of the columns.
    shares : array of shape (n_columns,)
        Contribution of each column to the difference or the dependence: the mean squared derivative of the witness
        function times the variance of the column. They sum to one, or to one in each of two tables. They say where to
        look and are not tests. If the p-value is large they are noise.
    n_rows : tuple of int
        Of X and of Y.
    method : str
        "permutation" or "chi2".
    encoded_columns : tuple of str
        Names of the columns of the encoded rows: a number, a category of a column, that a value is missing, or a part
        of a date.
    encoded_shares : array of shape (n_encoded,)
        Shares of these, the sums of which are `shares`: which categories of a column differ, or depend.
    """

    hypothesis: str
    statistic: float
    p_value: float
    effect_size: float
    null: NDArray[np.float64]
    member: str
    columns: tuple[str, ...]
    shares: NDArray[np.float64]
    n_rows: tuple[int, int]
    method: str
    encoded_columns: tuple[str, ...]
    encoded_shares: NDArray[np.float64]

    @property
    def finding(self) -> str:
        """What the test found at the level of 5 %, in words."""
        found, none = FINDINGS[self.hypothesis == INDEPENDENT]
        return found if self.p_value <= LEVEL else none

    def __repr__(self) -> str:
        rows = " + ".join(f"{n:,}" for n in self.n_rows[: 1 if self.hypothesis == INDEPENDENT else 2])
        p = f"p = {self.p_value:.3g}" if self.p_value > 0 else "p < 1e-300"
        return f"HypothesisTest({self.hypothesis}: {p}, effect {self.effect_size:.2g}, n = {rows})"

    def top_columns(self, most: int = 5, *, encoded: bool = False) -> list[tuple[str, float]]:
        """Names and shares of the columns that differ or depend the most, the largest first.

        Parameters
        ----------
        most : int, default=5
        encoded : bool, default=False
            Whether to list categories, missing values and parts of dates instead of whole columns.
        """
        names, shares = (self.encoded_columns, self.encoded_shares) if encoded else (self.columns, self.shares)
        return [(names[j], float(shares[j])) for j in np.argsort(-shares, kind="stable")[:most]]

    def _repr_html_(self) -> str:
        facts = [
            ("p-value", number(self.p_value)),
            ("statistic", number(self.statistic)),
            ("effect size", number(self.effect_size)),
            ("rows", " and ".join(f"{n:,}" for n in self.n_rows)),
            ("method", self.method),
            ("strongest member", self.member),
        ]
        columns = [(name, percent(share)) for name, share in cut_named(self.top_columns())]
        parts = table(self.hypothesis, ("quantity", "value"), facts, words=(0, 1))
        return tag("br").join([parts, table("Shares of the columns", ("column", "share"), columns)])

    def plot(self, ax: Any = None, *, encoded: bool = False, **kwargs: Any) -> Any:
        """Draw the observed statistic with its null distribution, and the contributions of the columns.

        Parameters
        ----------
        ax : matplotlib Axes, or sequence or array of them, optional
            As of `HypothesisDisplay.plot`.
        encoded : bool, default=False
            Whether to draw categories, missing values and parts of dates instead of whole columns.
        **kwargs
            As of `HypothesisDisplay.plot`.

        Returns
        -------
        HypothesisDisplay
        """
        from bochner.display import HypothesisDisplay

        return HypothesisDisplay.from_test(self, encoded=encoded).plot(ax, **kwargs)


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

    Each statistic is turned into -log10 of a p-value, by the gamma distribution of the mean and the variance that it
    has over all B + 1 rows of the table, and of a share of the level. The evidence is the largest of them. It is the
    same function of all rows of the table, so that its rank among them has an exact p-value, whatever the true
    distributions are. Permutations of discrete rows have the same statistic but for rounding, and these are ties.

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
    """-log10 of the tails of a gamma distribution of the same mean and variance, shape (B + 1,)."""
    from scipy.special import gammaincc

    mean, variance = column.mean(), column.var()
    if not variance > 1e-20 * mean**2:
        return np.zeros(len(column))
    tail = gammaincc(mean**2 / variance, column * (mean / variance))
    return -np.log10(np.maximum(tail, 10**-MOST))
