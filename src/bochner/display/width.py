"""Draws the errors of predictions against the widths of their intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from bochner.display.base import Array, Axes, Display
from bochner.display.canvas import BLUE, GREY, VERMILION, add_legend, decade_ticks, few_ticks, short_number
from bochner.display.columns import interval_of, mean_of, sample, target_of
from bochner.scores import equal_count_bins, interval_coverage, interval_width

MOST_DOTS, WIDE, SURE = 1000, 8.0, 0.95  # ratio of widths from which axes are logarithmic; of the bars


class WidthBin(NamedTuple):
    """Rows whose intervals are of similar width.

    Attributes
    ----------
    half_width : float
        Mean half width.
    quantile, low, high : float
        The quantile of the absolute errors at the intervals' coverage, and its 95 % interval by order statistics.
    mean : float
        Mean absolute error.
    """

    half_width: float
    quantile: float
    low: float
    high: float
    mean: float


@dataclass(eq=False, repr=False)
class WidthDisplay(Display):
    """Absolute error against half the width of the prediction interval, by bins of width.

    Dots are rows: those below the line are within their intervals. Intervals of 90 % that know where errors are large
    have the 90 % quantile of each bin's errors on the line: above it they are too short, below it too long; where
    the quantiles are level, the widths tell nothing. Bars are distribution-free 95 % intervals of the quantiles.
    `from_estimator` and `from_predictions` collect, and `plot` draws.

    Keywords of `plot` are those of the line of the quantiles, as `Axes.errorbar` takes them.

    Parameters
    ----------
    half_widths, errors : arrays of shape (n,)
    bins : sequence of WidthBin
    coverage : float
        Asked for.
    covered, mean_width : float
        Measured.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    points_ : PathCollection
    diagonal_ : Line2D
    quantiles_ : ErrorbarContainer
    means_ : Line2D

    See Also
    --------
    CoverageDisplay : Coverage by groups.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.display import WidthDisplay
    >>> rng = np.random.default_rng(0)
    >>> scale = rng.uniform(0.2, 2.0, 2000)
    >>> y = scale * rng.standard_normal(2000)
    >>> interval = np.column_stack([-1.645 * scale, 1.645 * scale])
    >>> display = WidthDisplay.from_predictions(y, interval, coverage=0.9).plot()
    >>> round(display.covered, 2), len(display.bins)
    (0.9, 10)
    >>> display.figure_.savefig("width.png")
    """

    half_widths: Array
    errors: Array
    bins: Any
    coverage: float
    covered: float
    mean_width: float

    def __post_init__(self) -> None:
        self._to_arrays("half_widths", "errors")
        self.bins = list(self.bins)

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, y: Any, *, coverage: float = 0.9, n_bins: int = 10, target: int = 0
    ) -> Self:
        """Predict, and measure errors and widths.

        Parameters
        ----------
        model : KernelMachineRegressor
            Fitted with uncertainty=True; or another model with `predict` and `predict_interval`.
        X : rows of shape (n, d)
            That the model has not seen.
        y : array of shape (n,) or (n, K)
        coverage : float, default=0.9
        n_bins : int, default=10
            Of about equal counts.
        target : int, default=0
            Of several targets the one that is drawn.

        Returns
        -------
        WidthDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            For a model without intervals, a coverage beyond 0 and 1, and a target that there is not.
        """
        truth, interval = target_of(y, target), interval_of(model, X, coverage, target)
        predicted = mean_of(model, X, target)
        return cls.from_predictions(truth, interval, coverage=coverage, predicted=predicted, n_bins=n_bins)

    @classmethod
    def from_predictions(
        cls, y: ArrayLike, interval: ArrayLike, *, coverage: float, predicted: ArrayLike | None = None, n_bins: int = 10
    ) -> Self:
        """Measure errors and widths.

        Parameters
        ----------
        y : array of shape (n,)
        interval : array of shape (n, 2)
            Lower and upper ends.
        coverage : float
            That the intervals are meant to have.
        predicted : array of shape (n,), optional
            By default the middles of the intervals.
        n_bins : int, default=10
            Of about equal counts.

        Returns
        -------
        WidthDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            For shapes that do not fit, and a coverage beyond 0 and 1.
        """
        truth, ends = target_of(y), np.asarray(interval, np.float64)
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must be within 0 and 1, got {coverage!r}.")
        covered = interval_coverage(truth, ends)
        if not np.isfinite(ends).all():
            raise ValueError("Some intervals are infinite, and cannot be drawn: use a smaller coverage.")
        centre = ends.mean(axis=1) if predicted is None else target_of(predicted)
        if centre.shape != truth.shape:
            raise ValueError(f"predicted must be of shape {truth.shape}, as y is, got {centre.shape}.")
        half, errors = np.diff(ends, axis=1)[:, 0] / 2, np.abs(truth - centre)
        of = equal_count_bins(half, n_bins)
        bins = [_bin(half[of == k], errors[of == k], coverage) for k in range(of.max() + 1)]
        return cls(half, errors, bins, coverage, covered, interval_width(ends))

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        (ax,) = axes
        low, high = self._span()
        dots = sample(np.column_stack([self.half_widths, self.errors]), MOST_DOTS, 0)
        dots[:, 1] = np.clip(dots[:, 1], *self._heights(low, high))
        self.points_ = ax.scatter(dots[:, 0], dots[:, 1], s=9, color=GREY, alpha=0.35, linewidths=0)
        ends = np.array([low, high])
        (self.diagonal_,) = ax.plot(ends, ends, "--", color=GREY, linewidth=1.2, label="half the width")
        x, q, below, above, mean = np.array(self.bins).T
        look: dict[str, Any] = {
            "fmt": "o-",
            "color": BLUE,
            "markersize": 5.5,
            "capsize": 2,
            "linewidth": 1.5,
            "zorder": 3,
        }
        look |= {"yerr": np.array([q - below, above - q]), "label": f"{100 * self.coverage:g}% quantile of the errors"}
        self.quantiles_ = ax.errorbar(x, q, **(look | kwargs))
        (self.means_,) = ax.plot(x, mean, "s-", color=VERMILION, markersize=4, linewidth=1, label="mean of the errors")
        self._label(ax, low, high)

    def _span(self) -> tuple[float, float]:
        low, high = np.quantile(self.half_widths, [0.002, 0.998])
        room = 1.05
        return (low / room, high * room) if high > low > 0 else (low - 0.5 * (high or 1), high + 0.5 * (high or 1))

    def _heights(self, low: float, high: float) -> tuple[float, float]:
        """Ends of the axis of errors."""
        top = max(high, 1.1 * max(one.high for one in self.bins))
        return (min(low, min(one.mean for one in self.bins)) / 20, top) if self._logarithmic(low, high) else (0.0, top)

    def _logarithmic(self, low: float, high: float) -> bool:
        return 0 < WIDE * low < high and min(one.mean for one in self.bins) > 0

    def _label(self, ax: Axes, low: float, high: float) -> None:
        heights = self._heights(low, high)
        if self._logarithmic(low, high):
            ax.set_xscale("log")
            ax.set_yscale("log")
            for axis in (ax.xaxis, ax.yaxis):
                decade_ticks(axis, short_number)
        else:
            few_ticks(ax.xaxis, np.array([low, high]), 6)
            few_ticks(ax.yaxis, np.array(heights), 6)
        ax.set_xlim(low, high)
        ax.set_ylim(*heights)
        ax.set_xlabel(f"Half the width of the {100 * self.coverage:g}% interval")
        ax.set_ylabel("Absolute error")
        measured = (
            f"{100 * self.covered:.1f}% of {len(self.errors):,} rows within; mean width {short_number(self.mean_width)}"
        )
        ax.set_title(measured, loc="left")
        add_legend(ax)


def _bin(half: NDArray, errors: NDArray, coverage: float) -> WidthBin:
    """One bin; the 95 % interval of its quantile lies between two order statistics, by the binomial law."""
    ordered, n = np.sort(errors), len(errors)
    first, beyond = binom.ppf([(1 - SURE) / 2, (1 + SURE) / 2], n, coverage)
    low, high = ordered[max(int(first), 1) - 1], ordered[min(int(beyond) + 1, n) - 1]
    quantile = float(np.quantile(ordered, coverage, method="inverted_cdf"))
    return WidthBin(float(half.mean()), quantile, float(low), float(high), float(errors.mean()))
