"""Draws the shares of the variance that components have, and their sum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

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
        from matplotlib.ticker import MaxNLocator

        self.ax_ = one_panel(ax, SINGLE)
        self.figure_, numbers, total = self.ax_.figure, np.arange(1, len(self.ratios) + 1), np.cumsum(self.ratios)
        self.bars_ = self.ax_.bar(numbers, self.ratios, **({"color": BLUE, "label": "each"} | kwargs))
        (self.line_,) = self.ax_.plot(numbers, total, "o-", color=VERMILION, markersize=3, label="all up to it")
        self.ax_.set_xlabel("Component")
        self.ax_.set_ylabel("Share of the variance")
        self.ax_.set_ylim(0, max(float(total[-1]) * 1.08, 1e-12))
        self.ax_.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g}%")
        self.ax_.xaxis.set_major_locator(MaxNLocator(integer=True))
        title = f"{len(numbers)} components: {100 * total[-1]:.3g}% of the variance"
        self.ax_.set_title(title, loc="left")
        add_legend(self.ax_)
        finish([self.ax_])
        return self
