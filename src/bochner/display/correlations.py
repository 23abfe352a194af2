"""Draws canonical correlations, and the scores of the first pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.display.canvas import BLUE, VERMILION, fitted_attribute, one_panel, panels, remove_frames
from bochner.display.scree import draw_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.gridspec import SubplotSpec

SIZE = (8.2, 3.6)  # inches
MOST_POINTS = 20_000


class CorrelationDisplay:
    """Correlation of each pair of scores: of the rows of the fit as bars, of other rows as a line; and the first pair.

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
    ax_ : matplotlib Axes
        Of the correlations.
    bars_ : BarContainer
    line_ : Line2D or None
    scores_ax_ : matplotlib Axes or None
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

    def __init__(
        self, correlations: ArrayLike, others: ArrayLike | None = None, scores: ArrayLike | None = None
    ) -> None:
        self.correlations = np.asarray(correlations, np.float64)
        self.others = None if others is None else np.asarray(others, np.float64)
        self.scores = None if scores is None else np.asarray(scores, np.float64)
        if self.others is not None and self.others.shape != self.correlations.shape:
            raise ValueError(f"others have shape {self.others.shape}, and correlations {self.correlations.shape}.")
        if self.scores is not None and (self.scores.ndim != 2 or self.scores.shape[1] != 2):
            raise ValueError(f"scores must have two columns, got shape {self.scores.shape}.")

    @classmethod
    def from_estimator(cls, model: Any, X: Any = None, y: Any = None) -> CorrelationDisplay:
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

    def plot(self, ax: Axes | None = None) -> CorrelationDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            None makes a figure; one gives its place to both panels.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            Without matplotlib.
        """
        self.scores_ax_: Any = None
        self.points_: Any = None
        if self.scores is None:
            self.ax_ = one_panel(ax, (SIZE[0] / 2, SIZE[1]))
        else:
            self.ax_, self.scores_ax_ = panels(ax, 2, SIZE, _side_by_side)
            self._draw_scores(self.scores)
        self.figure_ = self.ax_.figure
        legend = ("rows of the fit", "other rows")
        self.bars_, self.line_ = draw_bars(self.ax_, self.correlations, self.others, legend)
        self.ax_.set_xlabel("Pair")
        self.ax_.set_ylabel("Correlation")
        shown = self.correlations if self.others is None else self.others
        lowest = min(self.correlations.min(initial=0.0), shown.min(initial=0.0))
        self.ax_.set_ylim(1.05 * float(lowest), 1.05)
        where = "the rows of the fit" if self.others is None else "other rows"
        mean = float(shown.mean()) if len(shown) else 0.0
        self.ax_.set_title(f"Mean {mean:.2f} on {where}", loc="left", fontsize="medium")
        remove_frames([self.ax_])
        return self

    def _draw_scores(self, scores: NDArray) -> None:
        size = float(np.clip(20_000 / max(len(scores), 1), 3, 20))
        colour = BLUE if self.others is None else VERMILION
        self.points_ = self.scores_ax_.scatter(*scores.T, s=size, linewidths=0, color=colour)
        self.scores_ax_.set_xlabel("First score of X")
        self.scores_ax_.set_ylabel("First score of y")
        remove_frames([self.scores_ax_])


def _side_by_side(figure: Any, place: SubplotSpec, spaced: bool) -> list[Axes]:
    grid = place.subgridspec(1, 2, wspace=0.35 if spaced else None)
    return [figure.add_subplot(grid[0]), figure.add_subplot(grid[1])]
