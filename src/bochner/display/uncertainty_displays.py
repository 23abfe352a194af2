"""Draws uncertainty, and how well it is calibrated: bands, coverage and widths of
intervals, probabilities.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing as take

from bochner.data.outliers import drawn
from bochner.data.table_input import is_frame
from bochner.display import canvas
from bochner.display.base import Array, Block, Display, Look, fitted_attribute
from bochner.display.canvas import BLUE, DOTTED, GREY, VERMILION
from bochner.display.importance_displays import name_rows
from bochner.display.row_access import column_of, interval_of, target_of
from bochner.markup import number
from bochner.scores import (
    Reliability,
    equal_count_bins,
    interval_coverage,
    judged_event,
    reliability,
    wilson_interval,
)
from bochner.solvers.conformal import require_coverage

POINTS, MOST_DOTS = 200, 1000
TAIL = 0.005  # share of the rows at either end that may be beyond the grid


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


class BandDisplay(Display):
    """Predicted mean along one column, with the bands of its intervals, and rows as
    dots.

    Line and bands are means of the predictions and intervals of the rows themselves,
    in bins of equal counts by their values in the column. For a single column of
    numbers they are the predictions on an even grid, which goes a little beyond the
    rows. `from_estimator` collects, and `plot` draws.

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
    of_bins : bool
        Whether line and bands are means of rows.
    unit : {"", "days", "seconds", "day"}
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
    >>> from bochner import KernelMachineRegressor
    >>> from bochner.display import BandDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (60, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(60)
    >>> model = KernelMachineRegressor(uncertainty=True, random_state=0).fit(X, y)
    >>> display = BandDisplay.from_estimator(model, X, y, coverage=(0.5, 0.95)).plot()
    >>> len(display.bands_)
    2
    >>> display.figure_.savefig("band.png")
    """

    grid: Array
    mean: Array
    bands: Sequence[Band] = ()
    points: Array = None
    names: Sequence[str] = ("x0", "target")
    of_bins: bool = False
    unit: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.bands = sorted(self.bands, key=lambda band: -band.coverage)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        column: int | str = 0,
        coverage: float | Sequence[float] = (0.5, 0.9),
    ) -> Self:
        """Predict along a column.

        Parameters
        ----------
        model : KernelMachineRegressor
            Fitted with uncertainty=True; or another model with `predict_interval`.
        X : rows of shape (n, d)
            Rows that are predicted, at most 5,000 of them drawn at random; of a single
            column they give the range.
        y : array of shape (n,), optional
            Targets of these rows, for the dots; of more than 1,000 rows, 1,000 are
            drawn at random.
        column : int or str, default=0
            Of numbers, by its number, or by its name where columns have names.
        coverage : float or sequence of float, default=(0.5, 0.9)
            One band for each.

        Returns
        -------
        BandDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            For a model without intervals, coverages beyond 0 and 1, and columns that
            there are not, or not of numbers.
        """
        levels = np.atleast_1d(np.asarray(coverage, np.float64)).tolist()
        for level in levels:
            require_coverage(level)
        name, values, unit = column_of(X, column)
        if values.dtype == object or not np.isfinite(values).any():
            raise ValueError(
                f"Column {name!r} holds no numbers: give one that does as column."
            )
        row_numbers = np.flatnonzero(np.isfinite(values))
        of_bins = np.shape(X)[1] > 1 or unit != ""
        if of_bins:
            row_numbers = drawn(row_numbers, 5000)
            x = values[row_numbers]
            rows = take(X, row_numbers)
            # Rows that are alike, at least about 10
            bins = equal_count_bins(x, min(len(x) // 10 + 1, 20))
        else:
            # Even steps through the range, but for the few values that are far off,
            # and somewhat beyond
            ends = np.quantile(values[row_numbers], [TAIL, 1 - TAIL])
            room = 0.08 * np.ptp(ends) or 0.5
            x = np.linspace(ends[0] - room, ends[1] + room, POINTS)
            rows = pa.table({name: x}) if is_frame(X) else x[:, np.newaxis]
            bins = np.arange(POINTS)
        in_bin = bins == np.arange(bins.max() + 1)[:, np.newaxis]
        means = in_bin / in_bin.sum(axis=1, keepdims=True)
        mean = means @ target_of(model.predict(rows))
        bands = [
            Band(level, *(means @ interval_of(model, rows, level)).T)
            for level in levels
        ]
        points = None
        if y is not None:
            targets = target_of(y)
            if len(values) != len(targets):
                raise ValueError(f"X has {len(values)} rows, and y {len(targets)}.")
            points = np.column_stack([values, targets])
            points = points[
                drawn(np.flatnonzero(np.isfinite(points).all(1)), MOST_DOTS)
            ]
        names = name, str(getattr(y, "name", None) or "target")
        return cls(means @ x, mean, bands, points, names, of_bins, unit)

    def _draw(self, kwargs: Look) -> None:
        ax = self.ax_
        self.bands_ = [
            canvas.draw_band(
                ax, self.grid, band[1:], BLUE, label=f"{100 * band.coverage:g} %"
            )
            for band in self.bands
        ]
        look = {"color": BLUE, "linewidth": 1.8, "label": "predicted mean"}
        (self.line_,) = ax.plot(self.grid, self.mean, **look | kwargs)
        self.points_ = None
        if self.points is not None:
            self.points_ = ax.scatter(
                *self.points.T,
                s=12,
                color=GREY,
                alpha=0.45,
                linewidths=0,
                label="rows",
                zorder=0,
            )
        title = "Prediction intervals" if self.bands else "Predicted mean"
        title += ", means of similar rows" if self.of_bins else ""
        x, y = map(canvas.shortened, self.names)
        ax.set(xlabel=x, ylabel=y, title=title, xlim=self.grid[[0, -1]])
        canvas.mark_units(ax.xaxis, self.unit)
        canvas.add_legend(ax)


MOST_GROUPS = 10
COVERAGES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
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


class CoverageDisplay(Display):
    """Share of targets within prediction intervals, for many coverages, and by groups
    of rows for one of them.

    The left panel has the measured coverage against the nominal one; right coverage
    lies on the diagonal. The right panel has the coverage of groups: intervals that are
    right on average may be too short for some rows and too long for others. Bands and
    bars are Wilson's 95 % intervals. Groups whose bar does not contain the nominal
    coverage are marked; one group in 20 is marked by chance. `from_estimator` and
    `from_predictions` collect, and `plot` draws.

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
    ReliabilityDisplay : Whether events are as frequent as their probabilities say.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.display import CoverageDisplay
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=1000)
    >>> y = x * rng.standard_normal(1000)
    >>> ends = {0.5: 0.34, 0.9: 0.95}
    >>> intervals = {
    ...     level: np.tile([-end, end], (1000, 1)) for level, end in ends.items()
    ... }
    >>> display = CoverageDisplay.from_predictions(
    ...     y, intervals, by=x, by_name="x"
    ... ).plot()
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
    ) -> Self:
        """Predict intervals, and count.

        Parameters
        ----------
        model : KernelMachineRegressor
            Fitted with uncertainty=True; or another model with `predict` and
            `predict_interval`.
        X : rows of shape (n, d)
            That the model has not seen.
        y : array of shape (n,) or (n, K)
        by : int or str, default="predicted"
            Groups: tenths by the prediction, or by a column, by number or name; of text
            the most frequent values.
        coverage : float, default=0.9
            Of the intervals that are looked at by groups.
        coverages : sequence of float, default=(0.1, 0.2, ..., 0.9, 0.95)

        Returns
        -------
        CoverageDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            For a model without intervals, coverages beyond 0 and 1, a column that there
            is not, and several targets.
        """
        levels = sorted({*coverages, coverage})
        intervals = {level: interval_of(model, X, level) for level in levels}
        if by == PREDICTED:
            name, values = "prediction", target_of(model.predict(X))
        else:
            name, values, _ = column_of(X, by)
        return cls.from_predictions(
            y, intervals, by=values, by_name=name, coverage=coverage
        )

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
            Numbers or text by which rows are put into groups; by default the middles of
            the intervals.
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
            raise ValueError(
                f"intervals must be those of coverages within 0 and 1, {coverage:g} "
                f"among them: {levels}."
            )
        if by is None:
            by = np.asarray(intervals[coverage], np.float64).mean(axis=1)
            by_name = by_name or "middle of the interval"
        values = np.asarray(by)
        covered = [interval_coverage(truth, intervals[level]) for level in levels]
        if values.shape != truth.shape:
            raise ValueError(
                f"by must hold one value for each of the {len(truth)} rows, got shape "
                f"{values.shape}."
            )
        low, high = np.asarray(intervals[coverage], np.float64).T
        inside = (low <= truth) & (truth <= high)
        # Rows of tenths of numbers, or of the most frequent texts; the last group is
        # without a value
        is_number = values.dtype.kind in "biuf"
        given = values.astype(np.float64 if is_number else str)
        has_value = ~np.isnan(given) if is_number else given != ""
        masks = []
        if is_number and has_value.any():
            bins = np.full(len(given), -1)
            bins[has_value] = equal_count_bins(given[has_value], MOST_GROUPS)
            for k in range(bins.max() + 1):
                least, largest = given[bins == k].min(), given[bins == k].max()
                name = number(least)
                if least < largest:
                    name += f" to {number(largest)}"
                masks.append((name, bins == k))
        elif not is_number:
            distinct, counts = np.unique(given[has_value], return_counts=True)
            first = distinct[np.argsort(-counts, kind="stable")][: MOST_GROUPS - 1]
            masks += [(value, given == value) for value in first.tolist()]
            masks.append(("others", has_value & ~np.isin(given, first)))
        masks.append(("missing", ~has_value))
        groups = [
            Group(name, float(inside[mask].mean()), int(mask.sum()))
            for name, mask in masks
            if mask.any()
        ]
        return cls(levels, covered, len(truth), groups, by_name or "group", coverage)

    def _blocks(self) -> list[Block]:
        return [Block(n=2)]

    def _draw(self, kwargs: Look) -> None:
        # Coverages
        ax, group_axes = self.axes_
        ends = wilson_interval(self.covered, self.n_rows)
        ax.plot([0, 1], [0, 1], "--", color=GREY, linewidth=1)
        self.band_ = canvas.draw_band(ax, self.coverages, ends.T, BLUE)
        look = {"color": BLUE, **DOTTED, **kwargs}
        (self.line_,) = ax.plot(self.coverages, self.covered, **look)
        canvas.percent_ticks(ax.xaxis, ax.yaxis)
        ax.set(
            xlabel="Nominal coverage",
            ylabel="Coverage measured",
            title=f"{self.n_rows:,} rows",
            xlim=(0, 1),
            ylim=(0, 1),
        )
        # Groups
        ax = group_axes
        covered = np.array([group.covered for group in self.groups])
        ends = wilson_interval(covered, [group.n_rows for group in self.groups])
        positions = name_rows(ax, [group.name for group in self.groups])
        ax.axvline(self.coverage, color=GREY, linestyle="--", linewidth=1)
        off = (ends[:, 0] > self.coverage) | (ends[:, 1] < self.coverage)
        colours = np.where(off, VERMILION, BLUE)
        halves = np.abs(ends.T - covered)
        self.errorbars_ = ax.errorbar(
            covered, positions, xerr=halves, fmt="none", ecolor=colours, elinewidth=1.5
        )
        self.points_ = ax.scatter(covered, positions, s=36, c=colours, zorder=3)
        ax.locator_params(axis="x", nbins=5)
        canvas.percent_ticks(ax.xaxis)
        ax.grid(axis="y", alpha=0.3)
        low = ends[:, 0].min(initial=self.coverage) - 0.02
        title = f"{100 * self.coverage:g} % intervals, by {canvas.shortened(self.by)}"
        ax.set(xlabel="Coverage measured", title=title, xlim=(max(low, 0.0), 1.0))


class WidthDisplay(Display):
    """Absolute error against half the width of the prediction interval.

    Dots are rows: those below the dashed line are within their intervals. The solid
    line has the quantile of the errors in bins of similar width. If the widths of 90 %
    intervals follow the errors, their 90 % quantile is on the dashed line. Above it the
    intervals are too short, below it too long. If the quantiles do not rise, the widths
    are not informative. `from_estimator` and `from_predictions` collect, and `plot`
    draws.

    Keywords of `plot` are those of the line of the quantiles, as `Axes.plot` takes
    them.

    Parameters
    ----------
    half_widths, errors : arrays of shape (n,)
    coverage : float
        Asked for.
    n_bins : int, default=10
        Of about equal counts.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    points_ : PathCollection
    diagonal_ : AxLine
    quantiles_ : Line2D

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
    >>> len(display.quantiles_.get_xdata())
    10
    >>> display.figure_.savefig("width.png")
    """

    half_widths: Array
    errors: Array
    coverage: float
    n_bins: int = 10

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, y: Any, *, coverage: float = 0.9, n_bins: int = 10
    ) -> Self:
        """Predict, and measure errors and widths.

        Parameters
        ----------
        model : KernelMachineRegressor
            Fitted with uncertainty=True; or another model with `predict` and
            `predict_interval`.
        X : rows of shape (n, d)
            That the model has not seen.
        y : array of shape (n,) or (n, K)
        coverage : float, default=0.9
        n_bins : int, default=10
            Of about equal counts.

        Returns
        -------
        WidthDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            For a model without intervals, a coverage beyond 0 and 1, and several
            targets.
        """
        interval = interval_of(model, X, coverage)
        predicted = model.predict(X)
        return cls.from_predictions(
            y, interval, coverage=coverage, predicted=predicted, n_bins=n_bins
        )

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        interval: ArrayLike,
        *,
        coverage: float,
        predicted: ArrayLike | None = None,
        n_bins: int = 10,
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
        truth = target_of(y)
        ends = np.asarray(interval, np.float64)
        require_coverage(coverage)
        if ends.shape != (len(truth), 2):
            raise ValueError(
                f"interval must be of shape ({len(truth)}, 2), got {ends.shape}."
            )
        if not np.isfinite(ends).all():
            raise ValueError(
                "Some intervals are infinite, and cannot be drawn: use a smaller "
                "coverage."
            )
        centre = ends.mean(axis=1) if predicted is None else target_of(predicted)
        if centre.shape != truth.shape:
            raise ValueError(
                f"predicted must be of shape {truth.shape}, as y is, got "
                f"{centre.shape}."
            )
        half = np.diff(ends, axis=1)[:, 0] / 2
        return cls(half, np.abs(truth - centre), coverage, n_bins)

    def _draw(self, kwargs: Look) -> None:
        ax = self.ax_
        shown = drawn(np.arange(len(self.errors)), MOST_DOTS)
        look: Look = {"s": 9, "color": GREY, "alpha": 0.35, "linewidths": 0}
        self.points_ = ax.scatter(self.half_widths[shown], self.errors[shown], **look)
        look = {"linestyle": "--", "color": GREY, "label": "half width"}
        self.diagonal_ = ax.axline((0, 0), slope=1, **look)
        bins = equal_count_bins(self.half_widths, self.n_bins)
        middles = []
        quantiles = []
        for k in range(bins.max() + 1):
            middles.append(self.half_widths[bins == k].mean())
            quantiles.append(np.quantile(self.errors[bins == k], self.coverage))
        share = f"{100 * self.coverage:g} %"
        look = {"color": BLUE, **DOTTED, "label": f"{share} quantile of the errors"}
        (self.quantiles_,) = ax.plot(middles, quantiles, **look | kwargs)
        title = f"{len(self.errors):,} rows"
        across = f"Half width of {share} intervals"
        ax.set(xlabel=across, ylabel="Absolute error", title=title)
        canvas.add_legend(ax)


class ReliabilityDisplay(Display):
    """Frequency of an event against its predicted probability, in bins of about equal
    counts of rows.

    Right probabilities lie on the diagonal. Bands are Wilson's 95 % intervals of the
    frequencies; the title has the expected calibration error, the mean distance from
    the diagonal. The histogram at the bottom shows how often each probability was
    predicted. `from_estimator` and `from_predictions` collect, and `plot` draws.

    Keywords of `plot` are those of the line, as `Axes.plot` takes them.

    Parameters
    ----------
    curve : bochner.scores.Reliability
    counts : array of shape (C,)
        Rows by their probability, in C cells of equal width from 0 to 1.
    event : str
        Whose probability it is.

    Attributes
    ----------
    figure_ : matplotlib Figure
    ax_ : matplotlib Axes
    line_ : Line2D
    band_ : LineCollection
    histogram_ : StepPatch

    See Also
    --------
    bochner.scores.expected_calibration_error : The number in the title.
    CoverageDisplay : Whether intervals hold as many targets as they should.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bochner import KernelMachineClassifier
    >>> from bochner.display import ReliabilityDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = KernelMachineClassifier(random_state=0).fit(X[:400], y[:400])
    >>> display = ReliabilityDisplay.from_estimator(
    ...     model, X[400:], y[400:], n_bins=5
    ... ).plot()
    >>> len(display.line_.get_xdata())
    5
    >>> display.figure_.savefig("reliability.png")
    """

    curve: Reliability
    counts: Array
    event: str = "the event"

    @classmethod
    def from_estimator(cls, model: Any, X: Any, y: Any, **options: Any) -> Self:
        """Predict probabilities, and count.

        Parameters
        ----------
        model : fitted classifier with `predict_proba` and `classes_`
            Any of scikit-learn's kind.
        X : rows of shape (n, d)
            That the model has not seen.
        y : array of shape (n,)
            Labels.
        **options
            `n_bins` and `sample_weight` as of `from_predictions`.

        Returns
        -------
        ReliabilityDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            For a model that has no probabilities, and as `from_predictions`.
        """
        proba = fitted_attribute(model, "predict_proba")(X)
        return cls.from_predictions(y, proba, classes=model.classes_, **options)

    @classmethod
    def from_predictions(
        cls,
        y: Any,
        proba: ArrayLike,
        *,
        classes: ArrayLike | None = None,
        n_bins: int = 15,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Count what came of predicted probabilities.

        Parameters
        ----------
        y : array of shape (n,)
            Labels; for `proba` of one column whether the event happened.
        proba : array of shape (n,) or (n, K)
        classes : array of shape (K,), optional
            Labels of the columns of `proba`; by default those of y, sorted. The event
            is the second one of two, and of more that the class of the largest
            probability is right; for another class give whether y is it, and its
            column.
        n_bins : int, default=15
        sample_weight : array of shape (n,), optional

        Returns
        -------
        ReliabilityDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            For shapes that do not fit, labels that are not among the classes, and
            probabilities beyond 0 and 1.
        """
        p = np.asarray(proba, np.float64)
        happened = np.asarray(y)
        event = "the event"
        if p.ndim > 1:
            labels = np.unique(happened) if classes is None else np.asarray(classes)
            if p.shape != (len(happened), len(labels)):
                raise ValueError(
                    f"proba of shape {p.shape} does not fit {len(happened)} rows and "
                    f"{len(labels)} classes."
                )
            is_class = happened[:, np.newaxis] == labels
            unknown = happened[~is_class.any(axis=1)]
            if len(unknown):
                raise ValueError(
                    f"y has labels that are none of the classes: {unknown[:5]}."
                )
            happened, p = judged_event(is_class.argmax(axis=1), p)
            event = f"class {labels[1]}" if len(labels) == 2 else "the predicted class"
        counts = np.histogram(p, 50, (0, 1), weights=sample_weight)[0]
        return cls(reliability(happened, p, n_bins, sample_weight), counts, event)

    def _blocks(self) -> list[Block]:
        return [Block(4.6)]

    def _draw(self, kwargs: Look) -> None:
        ax = self.ax_
        p = self.curve.probability
        interval = self.curve.interval.T
        # The axes end around all probabilities and bands
        shown = np.append(p, interval)
        room = 0.05 * (np.ptp(shown) or 1.0)
        ends = low, high = max(shown.min() - room, 0.0), min(shown.max() + room, 1.0)
        ax.plot(ends, ends, "--", color=GREY, linewidth=1)
        look = {"color": BLUE, **DOTTED, "clip_on": False, **kwargs}
        (self.line_,) = ax.plot(p, self.curve.frequency, **look)
        n = len(p)
        self.band_ = ax.vlines(p, *interval, color=BLUE, alpha=0.4, linewidth=4)
        # The histogram takes a quarter of the height
        heights = low + 0.25 * (high - low) * self.counts / self.counts.max()
        edges = np.linspace(0, 1, len(heights) + 1)
        look = {"baseline": low, "color": GREY, "fill": True, "alpha": 0.35}
        self.histogram_ = ax.stairs(heights, edges, **look)
        error = f"{100 * self.curve.error:.2g} %"
        bins = f"{n} bins of equal counts" if n > 1 else "one bin"
        ax.set(
            xlabel=f"Predicted probability of {canvas.shortened(self.event)}",
            ylabel="Frequency",
            title=f"Calibration error {error}, {bins}",
            xlim=ends,
            ylim=ends,
        )
