"""Draws what a test of a hypothesis has found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bochner.display.base import Array, Axes, Display, Panels, side_by_side
from bochner.display.canvas import BLUE, GREY, VERMILION, add_legend, few_ticks, shortened

NAME_WIDTH, MOST_COLUMNS, MOST_BINS = 24, 10, 30


@dataclass(eq=False, repr=False)
class HypothesisDisplay(Display):
    """A test statistic among those of permuted rows, and the columns that it follows.

    On the left a histogram of the statistic where the hypothesis holds, and a line at that of the rows as they are: the
    share of the histogram beyond it is the p-value. On the right the shares of the columns, the largest on top. They
    say where to look, and are no tests of the columns. `from_test` collects, and `plot` draws.

    Keywords of `plot` are those of the histogram, as `Axes.hist` takes them.

    Parameters
    ----------
    statistic : float
    null : array of shape (B,)
    p_value, effect_size : float
    hypothesis : str
    names : sequence of str
        Of the columns drawn.
    shares : array of as many numbers
    label : str, default="Evidence"
        Of the statistic.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes of shape (2,)
    histogram_ : BarContainer
    line_ : Line2D
    bars_ : BarContainer

    See Also
    --------
    bochner.two_sample_test, bochner.independence_test : The tests.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import two_sample_test
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((80, 3)), rng.standard_normal((90, 3)) + [0, 1, 0]
    >>> display = two_sample_test(X, Y, random_state=0).plot()
    >>> display.names[0]
    'x1'
    >>> display.figure_.savefig("test.png")
    """

    statistic: float
    null: Array
    p_value: float
    effect_size: float
    hypothesis: str
    names: Sequence[str]
    shares: Array
    label: str = "Evidence"

    def __post_init__(self) -> None:
        self._to_arrays("null", "shares")
        self.names = list(self.names)

    @classmethod
    def from_test(cls, test: Any, *, max_columns: int = MOST_COLUMNS, encoded: bool = False) -> Self:
        """Collect what is drawn.

        Parameters
        ----------
        test : HypothesisTest
        max_columns : int, default=10
            Of more columns those with the largest shares are drawn.
        encoded : bool, default=False
            Categories, missing values and parts of dates, in the place of whole columns.

        Returns
        -------
        HypothesisDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            Where `max_columns` is not positive.
        """
        if max_columns < 1:
            raise ValueError(f"max_columns must be 1 or more, got {max_columns}.")
        names, shares = zip(*test.top_columns(max_columns, encoded=encoded), strict=True)
        permuted = test.method == "permutation"
        label = "Evidence, -log10 p" if permuted else "Statistic over its mean"
        return cls(test.statistic, test.null, test.p_value, test.effect_size, test.hypothesis, names, shares, label)

    def _panels(self) -> Panels:
        return side_by_side([1, 1])

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        self._draw_null(axes[0], kwargs)
        self._draw_columns(axes[1])

    def _draw_null(self, ax: Axes, kwargs: dict[str, Any]) -> None:
        bins = min(MOST_BINS, max(5, len(self.null) // 20))
        look: dict[str, Any] = {"bins": bins, "color": GREY, "alpha": 0.6, "label": "where it holds", **kwargs}
        *_, self.histogram_ = ax.hist(self.null, **look)
        self.line_ = ax.axvline(self.statistic, color=VERMILION, linewidth=2, label="the rows")
        few_ticks(ax.xaxis, np.append(self.null, self.statistic), 5)
        ax.set_xlabel(self.label)
        ax.set_ylabel("Permutations" if self.label.startswith("Evidence") else "Draws")
        add_legend(ax)
        p = "p < 0.0001" if self.p_value < 1e-4 else f"p = {self.p_value:.2g}"
        ax.set_title(f"{self.hypothesis}\n{p}, effect {self.effect_size:.2g}", loc="left")

    def _draw_columns(self, ax: Axes) -> None:
        places = np.arange(len(self.names))
        self.bars_ = ax.barh(places, self.shares, color=BLUE)
        ax.set_yticks(places, [shortened(name, NAME_WIDTH) for name in self.names])
        ax.invert_yaxis()
        ax.set_xlim(left=0)
        ax.set_xlabel("Share of the squared slope, in variances")
        few_ticks(ax.xaxis, self.shares, 4)
        ax.set_title("Columns that it follows", loc="left")
