"""What a test of a hypothesis has found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.markup import number, percent, table, tag

SAME, INDEPENDENT = "X and Y are of one distribution", "X and Y are independent"  # hypotheses


@dataclass(frozen=True, repr=False)
class HypothesisTest:
    """The outcome of `two_sample_test` or `independence_test`.

    Attributes
    ----------
    hypothesis : str
        What is tested.
    statistic : float
        The evidence against it: of permutations the largest -log10 of an approximate p-value among the members, less
        the part of the level that the member has; by the chi-squared law the statistic over its mean.
    p_value : float
        Of permutations exact: below a in a share a of all tests at the most, where the hypothesis holds.
    effect_size : float
        0 on average where the hypothesis holds, whatever the number of rows, and 1 at the most. Of two samples the
        share of the variance of the features that lies between them; of two tables the correlation of their kernels.
    null : array of shape (B,)
        The statistic where the hypothesis holds: of permuted rows, or drawn from the chi-squared law.
    member : str
        The width of the kernel, and the ridge term, of the member with the largest evidence.
    columns : tuple of str
        Names of the columns.
    shares : array of shape (n_columns,)
        How much the function that tells the samples apart, or in which the tables depend on each other, follows each
        column: its mean squared derivatives times the variance of the column. They sum to one, of two tables to one in
        each. They say where to look, and are no tests; where the p-value is large they are noise.
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
            Categories, missing values and parts of dates, in the place of whole columns.
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
        columns = [(name, percent(share)) for name, share in self.top_columns()]
        parts = table(self.hypothesis, ("quantity", "value"), facts, words=(0, 1))
        return tag("br").join([parts, table("Shares of the columns", ("column", "share"), columns)])

    def plot(self, ax: Any = None, *, encoded: bool = False, **kwargs: Any) -> Any:
        """Draw the statistic among those of permuted rows, and the shares of the columns.

        Parameters
        ----------
        ax : matplotlib Axes, or sequence or array of them, optional
            As of `HypothesisDisplay.plot`.
        encoded : bool, default=False
            Draw the shares of categories, missing values and parts of dates, not those of whole columns.
        **kwargs
            As of `HypothesisDisplay.plot`.

        Returns
        -------
        HypothesisDisplay
        """
        from bochner.display import HypothesisDisplay

        return HypothesisDisplay.from_test(self, encoded=encoded).plot(ax, **kwargs)
