"""Draws how often prediction intervals hold the target: by coverage, and by groups of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.display.base import Array, Axes, Display, Panels, side_by_side
from bochner.display.canvas import BLUE, GREY, VERMILION, draw_band, percent_ticks, short_number, shortened
from bochner.display.columns import column_of, interval_of, mean_of, target_of
from bochner.scores import equal_count_bins, wilson_interval

MOST_GROUPS = 10
WIDTHS = (1.0, 1.1)  # ratio of the panels
COVERAGES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
NAME_WIDTH, LABEL_WIDTH = 28, 22
PREDICTED = "predicted"


class Group(NamedTuple):
    """Rows that are alike, and how many of their targets are within their intervals.

    Attributes
    ----------
    name : str
    covered : float
        Share of the rows.
    n_rows : int
    """

    name: str
    covered: float
    n_rows: int


def grouped(values: NDArray, inside: NDArray) -> list[Group]:
    """Coverage of tenths of numbers, or of each distinct one where they are few, or of the most frequent texts.

    Parameters
    ----------
    values : array of shape (n,)
        NaN or "" where there is none: a group by itself, the last.
    inside : boolean array of shape (n,)
        Whether the target is within its interval.
    """
    numbers = values.dtype.kind in "biuf"
    known = ~np.isnan(values.astype(np.float64)) if numbers else values.astype(str) != ""
    names, of = _numbered(values[known].astype(np.float64)) if numbers else _named(values[known].astype(str))
    groups = [_group(name, inside[known][of == k]) for k, name in enumerate(names)]
    if (of == len(names)).any():
        groups.append(_group("others", inside[known][of == len(names)]))
    return groups + ([_group("missing", inside[~known])] if not known.all() else [])


def _group(name: str, inside: NDArray) -> Group:
    return Group(name, float(inside.mean()), len(inside))


def _numbered(values: NDArray) -> tuple[list[str], NDArray]:
    distinct, of = np.unique(values, return_inverse=True)
    if len(distinct) <= MOST_GROUPS:
        return [short_number(value) if value % 1 else f"{value:.0f}" for value in distinct], of
    of = equal_count_bins(values, MOST_GROUPS)
    parts = [values[of == k] for k in range(of.max() + 1)]
    return [_range(part.min(), part.max()) for part in parts], of


def _range(low: float, high: float) -> str:
    ends = short_number(low), short_number(high)
    return f"{ends[0]} to {ends[1]}" if low < high else ends[0]


def _named(values: NDArray) -> tuple[list[str], NDArray]:
    names, of, counts = np.unique(values, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    kept = order if len(names) <= MOST_GROUPS else order[: MOST_GROUPS - 1]
    rank = np.full(len(names), len(kept))
    rank[kept] = np.arange(len(kept))
    return [str(name) for name in names[kept]], rank[of]


@dataclass(eq=False, repr=False)
class CoverageDisplay(Display):
    """Share of targets within prediction intervals, for many coverages, and by groups of rows for one of them.

    On the left coverage as measured against coverage as requested, which is right on the diagonal; on the right the
    coverage of groups: intervals that are right in the mean may be too short for some rows and too long for others.
    Bands and bars are Wilson's 95 % intervals; groups whose bar leaves out the coverage asked for stand out, of 20
    groups one by chance. `from_estimator` and `from_predictions` collect, and `plot` draws.

    Keywords of `plot` are those of the line of coverages, as `Axes.plot` takes them.

    Parameters
    ----------
    coverages, covered : arrays of shape (C,)
        Asked for, and measured.
    n_rows : int
    groups : sequence of Group
    by : str
        What the groups are of.
    coverage : float, default=0.9
        Of the groups' intervals.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes of shape (2,)
    line_ : Line2D
    band_ : PolyCollection
    errorbars_ : ErrorbarContainer
        Of the groups, from the first on top.
    points_ : PathCollection

    See Also
    --------
    WidthDisplay : Whether intervals are wide where errors are large.
    ReliabilityDisplay : The same for probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.display import CoverageDisplay
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=1000)
    >>> y = x * rng.standard_normal(1000)
    >>> ends = {0.5: 0.34, 0.9: 0.95}
    >>> intervals = {level: np.tile([-end, end], (1000, 1)) for level, end in ends.items()}
    >>> display = CoverageDisplay.from_predictions(y, intervals, by=x, by_name="x").plot()
    >>> len(display.groups)
    10
    >>> display.figure_.savefig("coverage.png")
    """

    coverages: Array
    covered: Array
    n_rows: int
    groups: Sequence[Group] = ()
    by: str = "prediction"
    coverage: float = 0.9

    def __post_init__(self) -> None:
        self._to_arrays("coverages", "covered")
        self.groups = list(self.groups)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any,
        *,
        by: int | str = PREDICTED,
        coverage: float = 0.9,
        coverages: Sequence[float] = COVERAGES,
        target: int = 0,
    ) -> Self:
        """Predict intervals, and count.

        Parameters
        ----------
        model : KernelMachineRegressor
            Fitted with uncertainty=True; or another model with `predict` and `predict_interval`.
        X : rows of shape (n, d)
            That the model has not seen.
        y : array of shape (n,) or (n, K)
        by : int or str, default="predicted"
            Groups: tenths by the prediction, or by a column, by number or name; of text the most frequent values.
        coverage : float, default=0.9
            Of the intervals that are looked at by groups.
        coverages : sequence of float, default=(0.1, 0.2, ..., 0.9, 0.95)
        target : int, default=0
            Of several targets the one that is drawn.

        Returns
        -------
        CoverageDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            For a model without intervals, coverages beyond 0 and 1, and a column or target that there is not.
        """
        levels = sorted({*coverages, coverage})
        truth = target_of(y, target)
        intervals = {level: interval_of(model, X, level, target) for level in levels}
        name, values = ("prediction", mean_of(model, X, target)) if by == PREDICTED else column_of(X, by)
        return cls.from_predictions(truth, intervals, by=values, by_name=name, coverage=coverage)

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        intervals: Mapping[float, ArrayLike],
        *,
        by: ArrayLike | None = None,
        by_name: str = "",
        coverage: float = 0.9,
    ) -> Self:
        """Count how many targets are within their intervals.

        Parameters
        ----------
        y : array of shape (n,)
        intervals : dict of float to array of shape (n, 2)
            Lower and upper ends, by coverage.
        by : array of shape (n,), optional
            Numbers or text by which rows are put into groups; by default the middles of the intervals.
        by_name : str, default=""
        coverage : float, default=0.9
            Of the intervals that are looked at by groups; one of `intervals`.

        Returns
        -------
        CoverageDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            For coverages beyond 0 and 1, or shapes that do not fit.
        """
        truth = target_of(y)
        levels = sorted(intervals)
        if coverage not in intervals or levels[0] <= 0 or levels[-1] >= 1:
            raise ValueError(f"intervals must be those of coverages within 0 and 1, {coverage:g} among them: {levels}.")
        ends = {level: np.asarray(own, np.float64) for level, own in intervals.items()}
        if wrong := [own.shape for own in ends.values() if own.shape != (len(truth), 2)]:
            raise ValueError(
                f"intervals must be of shape ({len(truth)}, 2), as y has {len(truth)} rows, got {wrong[0]}."
            )
        inside = {level: (own[:, 0] <= truth) & (truth <= own[:, 1]) for level, own in ends.items()}
        values = ends[coverage].mean(axis=1) if by is None else np.asarray(by)
        if values.shape != truth.shape:
            raise ValueError(f"by must hold one value for each of the {len(truth)} rows, got shape {values.shape}.")
        name = by_name or ("middle of the interval" if by is None else "group")
        groups = grouped(values, inside[coverage])
        return cls(levels, [inside[level].mean() for level in levels], len(truth), groups, name, coverage)

    def _panels(self) -> Panels:
        return side_by_side(WIDTHS)

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        self._draw_coverages(axes[0], kwargs)
        self._draw_groups(axes[1])

    def _draw_coverages(self, ax: Axes, kwargs: dict[str, Any]) -> None:
        ends = wilson_interval(self.covered, self.n_rows)
        ax.plot([0, 1], [0, 1], "--", color=GREY, linewidth=1)
        self.band_ = draw_band(ax, self.coverages, ends.T, BLUE)
        look: dict[str, Any] = {"color": BLUE, "marker": "o", "markersize": 4.5, **kwargs}
        (self.line_,) = ax.plot(self.coverages, self.covered, **look)
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1)
        for axis in (ax.xaxis, ax.yaxis):
            percent_ticks(axis)
        ax.set_xlabel("Nominal coverage")
        ax.set_ylabel("Coverage measured")
        ax.set_title(f"{self.n_rows:,} rows", loc="left")

    def _draw_groups(self, ax: Axes) -> None:
        covered = np.array([group.covered for group in self.groups])
        ends = wilson_interval(covered, [group.n_rows for group in self.groups])
        at = np.arange(len(covered))
        ax.axvline(self.coverage, color=GREY, linestyle="--", linewidth=1)
        off = (ends[:, 0] > self.coverage) | (ends[:, 1] < self.coverage)
        look: dict[str, Any] = {"fmt": "none", "ecolor": np.where(off, VERMILION, BLUE), "elinewidth": 1.5}
        self.errorbars_ = ax.errorbar(covered, at, xerr=np.abs(ends.T - covered), **look)
        self.points_ = ax.scatter(covered, at, s=36, c=np.where(off, VERMILION, BLUE), zorder=3)
        ax.set_yticks(at, [shortened(group.name, LABEL_WIDTH) for group in self.groups])
        ax.set_ylim(len(at) - 0.4, -0.6)
        low = min(float(ends[:, 0].min()), self.coverage) if len(at) else self.coverage
        ax.set_xlim(max(low - 0.02, 0), 1)
        ax.locator_params(axis="x", nbins=5)
        percent_ticks(ax.xaxis)
        ax.grid(axis="y", alpha=0.3)
        ax.tick_params(axis="y", length=0)
        ax.set_xlabel("Coverage measured")
        ax.set_title(f"{100 * self.coverage:g}% intervals, by {shortened(self.by, NAME_WIDTH)}", loc="left")
