"""Draws what components explain: shares of the variance, and canonical correlations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bochner.display.base import SINGLE, Array, Axes, Display, Panels, fitted_attribute, side_by_side
from bochner.display.canvas import BLUE, VERMILION, add_legend, percent_ticks

MOST_POINTS = 20_000


@dataclass(eq=False, repr=False)
class ScreeDisplay(Display):
    """Share of the variance of each component, as bars, and of all up to it, as a line.

    Keywords of `plot` are those of the bars, as `Axes.bar` takes them.

    Parameters
    ----------
    ratios : array of shape (K,)
        Shares, descending.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    bars_ : BarContainer
    line_ : Line2D

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from bochner import KernelPCA
    >>> from bochner.display import ScreeDisplay
    >>> X, _ = load_digits(return_X_y=True)
    >>> display = ScreeDisplay.from_estimator(KernelPCA(10, random_state=0).fit(X)).plot()
    >>> len(display.bars_)
    10
    """

    ratios: Array

    def __post_init__(self) -> None:
        self._to_arrays("ratios")

    @classmethod
    def from_estimator(cls, model: Any) -> Self:
        """Take the shares of a fitted model.

        Parameters
        ----------
        model : fitted `KernelPCA`, or another with `explained_variance_ratio_`

        Returns
        -------
        ScreeDisplay
            Nothing is drawn yet.
        """
        return cls(fitted_attribute(model, "explained_variance_ratio_"))

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        (ax,), total = axes, np.cumsum(self.ratios)
        self.bars_, self.line_ = _draw_bars(ax, self.ratios, total, ("each", "all up to it"), kwargs)
        ax.set_xlabel("Component")
        ax.set_ylabel("Share of the variance")
        ax.set_ylim(0, max(float(total[-1]) * 1.08, 1e-12))
        percent_ticks(ax.yaxis)
        ax.set_title(f"{len(total)} components: {100 * total[-1]:.3g}% of the variance", loc="left")


def _draw_bars(
    ax: Axes, bars: NDArray, line: NDArray | None, legend: tuple[str, str], bar_look: dict[str, Any]
) -> tuple[Any, Any]:
    """Draw values of numbered components as bars, others as a line where there are such, with their legend.

    Returns
    -------
    BarContainer, and Line2D or None
    """
    from matplotlib.ticker import MaxNLocator

    numbers, drawn = np.arange(1, len(bars) + 1), None
    columns = ax.bar(numbers, bars, **({"color": BLUE, "label": legend[0]} | bar_look))
    if line is not None:
        (drawn,) = ax.plot(numbers, line, "o-", color=VERMILION, markersize=3, label=legend[1])
        add_legend(ax)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return columns, drawn


@dataclass(eq=False, repr=False)
class CorrelationDisplay(Display):
    """Correlation of each pair of scores: of the rows of the fit as bars, of other rows as a line; and the first pair.

    Keywords of `plot` are those of the bars, as `Axes.bar` takes them.

    Parameters
    ----------
    correlations : array of shape (K,)
        Of the rows of the fit.
    others : array of shape (K,), optional
        Of other rows.
    scores : array of shape (n, 2), optional
        The first pair of scores of some rows.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes of shape (1,) or (2,)
        Of the correlations, and of the scores where there are such.
    bars_ : BarContainer
    line_ : Line2D or None
    points_ : PathCollection or None

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from bochner import KernelCCA
    >>> from bochner.display import CorrelationDisplay
    >>> images = load_digits().images
    >>> left, right = images[:, :, :4].reshape(-1, 32), images[:, :, 4:].reshape(-1, 32)
    >>> model = KernelCCA(5, random_state=0).fit(left[:500], right[:500])
    >>> display = CorrelationDisplay.from_estimator(model, left[500:], right[500:]).plot()
    >>> len(display.bars_)
    5
    """

    correlations: Array
    others: Array = None
    scores: Array = None

    def __post_init__(self) -> None:
        self._to_arrays("correlations", "others", "scores")
        if self.others is not None and self.others.shape != self.correlations.shape:
            raise ValueError(f"others have shape {self.others.shape}, and correlations {self.correlations.shape}.")
        if self.scores is not None and (self.scores.ndim != 2 or self.scores.shape[1] != 2):
            raise ValueError(f"scores must have two columns, got shape {self.scores.shape}.")

    @classmethod
    def from_estimator(cls, model: Any, X: Any = None, y: Any = None) -> Self:
        """Take the correlations of a fitted model, and those of other rows, where these are given.

        Parameters
        ----------
        model : fitted `KernelCCA`
        X, y : what its `transform` takes, optional
            Other rows than those of the fit. Of more than 20,000 some of the scores are drawn, evenly spaced.

        Returns
        -------
        CorrelationDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            Where X comes without y.
        """
        known = fitted_attribute(model, "correlations_")
        if X is None:
            return cls(known)
        if y is None:
            raise ValueError("X comes without y: give the second table of the same rows.")
        A, B = (np.asarray(scores) for scores in model.transform(X, y))
        first = np.column_stack([A[:, :1], B[:, :1]])[:: max(-(-len(A) // MOST_POINTS), 1)]
        return cls(known, model.correlations_of(X, y), first if first.shape[1] == 2 else None)

    def _panels(self) -> Panels:
        return side_by_side([1], SINGLE) if self.scores is None else side_by_side([3, 2])

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        self._draw_correlations(axes[0], kwargs)
        self.points_ = None if self.scores is None else self._draw_scores(axes[1], self.scores)

    def _draw_correlations(self, ax: Axes, kwargs: dict[str, Any]) -> None:
        legend = ("rows of the fit", "other rows")
        self.bars_, self.line_ = _draw_bars(ax, self.correlations, self.others, legend, kwargs)
        ax.set_xlabel("Pair")
        ax.set_ylabel("Correlation")
        shown = self.correlations if self.others is None else self.others
        lowest = float(min(self.correlations.min(initial=0.0), shown.min(initial=0.0)))
        ax.set_ylim(lowest - 0.05 if lowest < 0 else 0.0, 1.05)
        where = "the rows of the fit" if self.others is None else "other rows"
        mean = float(shown.mean()) if len(shown) else 0.0
        ax.set_title(f"Mean {mean:.2f} on {where}", loc="left")

    def _draw_scores(self, ax: Axes, scores: NDArray) -> Any:
        """The first pair, in the colour of the rows that they are of."""
        size = float(np.clip(20_000 / max(len(scores), 1), 3, 20))
        ax.set_xlabel("First score of X")
        ax.set_ylabel("First score of y")
        colour = BLUE if self.others is None else VERMILION
        return ax.scatter(scores[:, 0], scores[:, 1], s=size, linewidths=0, color=colour)
