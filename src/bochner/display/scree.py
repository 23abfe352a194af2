"""Draws the shares of the variance that components have, and their sum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.display.canvas import BLUE, SINGLE, VERMILION, add_legend, finish, fitted_attribute, one_panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ScreeDisplay:
    """Share of the variance of each component, as bars, and of all up to it, as a line.

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

    def __init__(self, ratios: ArrayLike) -> None:
        self.ratios = np.asarray(ratios, np.float64)

    @classmethod
    def from_estimator(cls, model: Any) -> ScreeDisplay:
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

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> ScreeDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            None makes a figure.
        **kwargs
            Of the bars, as `Axes.bar` takes them.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            Without matplotlib.
        """
        self.ax_, total = one_panel(ax, SINGLE), np.cumsum(self.ratios)
        self.figure_ = self.ax_.figure
        self.bars_, self.line_ = draw_bars(self.ax_, self.ratios, total, ("each", "all up to it"), kwargs)
        self.ax_.set_xlabel("Component")
        self.ax_.set_ylabel("Share of the variance")
        self.ax_.set_ylim(0, max(float(total[-1]) * 1.08, 1e-12))
        self.ax_.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g}%")
        title = f"{len(total)} components: {100 * total[-1]:.3g}% of the variance"
        self.ax_.set_title(title, loc="left")
        finish([self.ax_])
        return self


def draw_bars(
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
