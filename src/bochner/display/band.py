"""Draws predictions along one column with bands that say how sure they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from bochner.display.base import Array, Axes, Display
from bochner.display.canvas import BLUE, GREY, NAME_WIDTH, add_legend, draw_band, few_ticks, mark_units, shortened
from bochner.display.columns import (
    column_of,
    deviation_of,
    interval_of,
    mean_of,
    n_columns,
    rows_along,
    sample,
    target_of,
    time_unit,
)

POINTS, MOST_DOTS = 200, 1000
BEYOND, TAIL = 0.08, 0.005  # of the range at either end; share of the rows that may be beyond it
KINDS = {"interval": "Prediction intervals", "std": "Bands by std, for a normal law"}


class Band(NamedTuple):
    """Ends of the band of one coverage.

    Attributes
    ----------
    coverage : float
    low, high : arrays of shape (G,)
    """

    coverage: float
    low: NDArray[np.float64]
    high: NDArray[np.float64]


@dataclass(eq=False, repr=False)
class BandDisplay(Display):
    """Predicted mean along one column, with the bands of its intervals or deviations, and rows as dots.

    All other columns have their medians, or their most frequent text. Where these matter, dots lie off the line by
    what they change, too. The line goes a little beyond the rows, where a model should be less sure. `from_estimator`
    collects, and `plot` draws.

    Keywords of `plot` are those of the line of the mean, as `Axes.plot` takes them.

    Parameters
    ----------
    grid, mean : arrays of shape (G,)
    bands : sequence of Band
        Wider ones are drawn first.
    points : array of shape (n, 2), optional
        Column and target of rows.
    names : (str, str)
        Of the column and the target.
    kind : {"interval", "std"}
        What the bands are.
    n_others : int
        How many other columns there are.
    unit : {"", "days", "seconds"}
        Of the grid: days since 1970 for a column of dates.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    line_ : Line2D
    bands_ : list of PolyCollection
    points_ : PathCollection or None

    See Also
    --------
    CoverageDisplay : Whether the bands hold as many rows as they should.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> from bochner.display import BandDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (40, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(40)
    >>> model = GaussianProcessRegressor(RBF() + WhiteKernel(), random_state=0).fit(X, y)
    >>> display = BandDisplay.from_estimator(model, X, y, kind="std", coverage=(0.5, 0.95)).plot()
    >>> len(display.bands_)
    2
    >>> display.figure_.savefig("band.png")
    """

    grid: Array
    mean: Array
    bands: Sequence[Band] = ()
    points: Array = None
    names: Sequence[str] = ("x0", "target")
    kind: str = "interval"
    n_others: int = 0
    unit: str = ""

    def __post_init__(self) -> None:
        self._to_arrays("grid", "mean", "points")
        self.bands = sorted(self.bands, key=lambda band: -band.coverage)
        self.names = list(self.names)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        column: int | str = 0,
        coverage: float | Sequence[float] = (0.5, 0.9),
        kind: str = "interval",
        target: int = 0,
    ) -> Self:
        """Predict along a column.

        Parameters
        ----------
        model : KernelMachineRegressor
            Fitted with uncertainty=True; or another model with `predict_interval`, or for kind="std" one whose
            `predict` takes `return_std`.
        X : rows of shape (n, d)
            That give the column its range, and the others their medians.
        y : array of shape (n,) or (n, K), optional
            Targets of these rows, for the dots; of more than 1,000 rows so many are drawn at random.
        column : int or str, default=0
            Of numbers, by its number, or by its name where columns have names.
        coverage : float or sequence of float, default=(0.5, 0.9)
            One band for each.
        kind : {"interval", "std"}, default="interval"
            Bands by `predict_interval`, or as many standard deviations around the mean as a normal law has for the
            coverage.
        target : int, default=0
            Of several targets the one that is drawn.

        Returns
        -------
        BandDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            For a model without intervals or deviations, coverages beyond 0 and 1, and columns that there are not, or
            not of numbers.
        """
        levels = np.atleast_1d(np.asarray(coverage, np.float64)).tolist()
        if kind not in KINDS or not all(0 < level < 1 for level in levels):
            raise ValueError(f"kind must be one of {tuple(KINDS)} and coverage within 0 and 1: {kind!r}, {coverage!r}.")
        name, values = column_of(X, column)
        if values.dtype == object or not np.isfinite(values).any():
            raise ValueError(f"Column {name!r} holds no numbers: give one that does as column.")
        grid = _grid(values)
        rows = rows_along(X, column, grid)
        mean = mean_of(model, rows, target)
        if kind == "std":
            deviation = deviation_of(model, rows, target)
            steps = [norm.ppf((1 + level) / 2) * deviation for level in levels]
            bands = [Band(level, mean - step, mean + step) for level, step in zip(levels, steps, strict=True)]
        else:
            bands = [Band(level, *interval_of(model, rows, level, target).T) for level in levels]
        points = None if y is None else _points(values, target_of(y, target))
        label = str(getattr(y, "name", None) or "target")
        return cls(grid, mean, bands, points, (name, label), kind, n_columns(X) - 1, time_unit(X, column))

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        (ax,) = axes
        self.points_ = None
        if self.points is not None:
            self.points_ = ax.scatter(
                self.points[:, 0], self.points[:, 1], s=12, color=GREY, alpha=0.45, linewidths=0, label="rows"
            )
        self.bands_ = [
            draw_band(ax, self.grid, (band.low, band.high), BLUE, label=f"{100 * band.coverage:g}%")
            for band in self.bands
        ]
        line: dict[str, Any] = {"color": BLUE, "linewidth": 1.8, "label": "predicted mean", **kwargs}
        (self.line_,) = ax.plot(self.grid, self.mean, **line)
        self._label(ax)

    def _label(self, ax: Axes) -> None:
        low, high = self._heights()
        ax.set_xlim(self.grid[0], self.grid[-1])
        ax.set_ylim(low, high)
        few_ticks(ax.xaxis, self.grid, 6)
        few_ticks(ax.yaxis, np.array([low, high]), 6)
        ax.set_xlabel(shortened(self.names[0], NAME_WIDTH))
        mark_units(ax.xaxis, self.unit, 6)
        ax.set_ylabel(shortened(self.names[1], NAME_WIDTH))
        kind = KINDS[self.kind] if self.bands else "Predicted mean"
        others = "; other columns at their medians" if self.n_others else ""
        ax.set_title(f"{kind}{others}", loc="left")
        add_legend(ax)

    def _heights(self) -> tuple[float, float]:
        """Ends of the axis: all of line and bands, and the dots but for the few that are far off."""
        ends = [self.mean, *(end for band in self.bands for end in (band.low, band.high))]
        if self.points is not None:
            ends.append(np.quantile(self.points[:, 1], [TAIL, 1 - TAIL]))
        low, high = min(float(end.min()) for end in ends), max(float(end.max()) for end in ends)
        room = 0.04 * (high - low) or 0.5
        return low - room, high + room


def _grid(values: NDArray) -> NDArray[np.float64]:
    """Even steps through the range of a column, but for the few values that are far off, and somewhat beyond."""
    known = values[np.isfinite(values)]
    low, high = np.quantile(known, [TAIL, 1 - TAIL], method="inverted_cdf")
    room = BEYOND * (high - low) or 0.5
    return np.linspace(low - room, high + room, POINTS)


def _points(values: NDArray, y: NDArray) -> NDArray[np.float64]:
    if len(values) != len(y):
        raise ValueError(f"X has {len(values)} rows, and y {len(y)}.")
    both = np.column_stack([values, y])
    return sample(both[np.isfinite(both).all(axis=1)], MOST_DOTS, 0)
