"""Draws the columns that matter to a learned metric, with its warps and its linear
map.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.data.columns import PARTS, column_names
from bochner.data.encodings import NumberColumns, TimeColumn
from bochner.display import canvas
from bochner.display.base import (
    PAGE,
    SINGLE,
    Array,
    Axes,
    Display,
    Panels,
    SubplotSpec,
    fitted_attribute,
    inches_across,
)
from bochner.display.canvas import BLUE, GREY
from bochner.features.metric import Metric

ACROSS = (2, 4)  # warps in a row of a narrow place, and of a wide one
# Inches
BAR_HEIGHT, WARP_HEIGHT, CELL, SIDES, CHARACTER = 0.22, 1.5, 0.3, (1.8, 3.0), 0.06
MOST_BARS, MOST_NAMED, FEW_KNOTS = 20, 32, 20
BAR_NAME_WIDTH, WARP_NAME_WIDTH, MAP_NAME_WIDTH = 28, 26, 22


class Warp(NamedTuple):
    """The learned distance along a column, a rising piecewise linear function of its
    values.

    Attributes
    ----------
    name : str
        Of the column.
    x, w : arrays of shape (k,)
        Knots, and the learned distance to each from the first one, along all
        coordinates of the column.
    unit : {"", "days", "seconds"}
        Of x: days since 1970 for a column of dates.

    Examples
    --------
    >>> from bochner.display import Warp
    >>> Warp("age", [20, 60], [0.0, 1.5]).name
    'age'
    """

    name: str
    x: ArrayLike
    w: ArrayLike
    unit: str = ""


def relevant_warps(
    metric: Metric,
    names: Sequence[str],
    shift: NDArray,
    scale: NDArray,
    times: Mapping[int, str],
    most: int,
) -> list[Warp]:
    """Distances along columns with warps that are not flat, the most relevant column
    first.

    Parameters
    ----------
    metric : bochner.features.Metric
    names : sequence of d str
    shift, scale : arrays of shape (d,)
        A column of the metric is (x - shift) / scale.
    times : dict of int to str
        Units of the columns of the metric that are times.
    most : int
        Columns.
    """
    warps = []
    for j in _warped_columns(metric)[:most].tolist():
        knots = np.unique(metric.knots_[metric.source_[metric.warped_] == j])
        along = distances_along(metric, j, knots)
        warps.append(
            Warp(names[j], shift[j] + scale[j] * knots, along, times.get(j, ""))
        )
    return warps


def distances_along(metric: Metric, j: int, values: NDArray) -> NDArray[np.float64]:
    """Learned distance from the first of some rising values of column j to each, along
    the column, shape (k,).

    It is the length of the way in all coordinates of the column, of which one may be
    its value and one its rank. Of learned metrics only those of the L1 distance mix
    warped coordinates; without a mixture or a second coordinate the L1 and the
    Euclidean distance are the same.
    """
    rows = np.zeros((len(values), metric.n_features_in_))
    rows[:, j] = values
    mixes_warps = (metric.warped_ < metric.linear_.shape[1]).any()
    steps = np.linalg.norm(
        np.diff(metric.coordinates(rows), axis=0), 1 if mixes_warps else 2, axis=1
    )
    return np.append(0.0, np.cumsum(steps))


def table_units(columns: Sequence[Any], n_columns: int) -> tuple[NDArray, NDArray]:
    """Shift and scale from encoded columns back to those of the table: of numbers,
    and of dates and durations.
    """
    shift, scale = np.zeros(n_columns), np.ones(n_columns)
    for column in columns:
        if isinstance(column, NumberColumns):
            shift[column.at], scale[column.at] = column.shift, column.scale
        elif isinstance(column, TimeColumn) and column.kind != "time":
            shift[column.start], scale[column.start] = column.shift, column.scale
    return shift, scale


def time_units(columns: Sequence[Any]) -> dict[int, str]:
    """Units of the encoded columns that are moments or durations: "days" or
    "seconds".
    """
    times = [
        column
        for column in columns
        if isinstance(column, TimeColumn) and column.kind != "time"
    ]
    return {column.start: PARTS[column.kind][0] for column in times}


def _warped_columns(metric: Metric) -> NDArray[np.intp]:
    """Columns with warps that move, the most relevant first, of equal ones that
    whose warps go farthest.
    """
    if not len(metric.warped_):
        return np.empty(0, np.intp)
    span = np.bincount(
        metric.source_[metric.warped_],
        np.ptp(metric.levels_, axis=1),
        metric.n_features_in_,
    )
    order = np.lexsort((-span, -metric.relevance_))
    return order[span[order] > 0]


class Layout(NamedTuple):
    """Panels of a metric: bars, the map beside them where there is room, and the warps
    below.

    Attributes
    ----------
    n_bars, n_warps : int
    map_shape : (int, int)
        Zeros where there is none.
    name_length : int
        Characters of the names below the map.
    """

    n_bars: int
    n_warps: int
    map_shape: tuple[int, int]
    name_length: int = 0

    @property
    def n_panels(self) -> int:
        """Number of Axes."""
        return bool(self.n_bars) + self.n_warps + bool(self.map_shape[0])

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a figure of its own, in inches."""
        width = SINGLE[0] if self.n_panels == 1 else PAGE[0]
        return width, sum(max(height for _, height in row) for row in self.rows(True))

    def rows(self, wide: bool) -> list[list[tuple[str, float]]]:
        """Names and heights in inches of what there is, row by row."""
        above = [("bars", 0.9 + BAR_HEIGHT * self.n_bars)] * bool(self.n_bars)
        side = min(max(CELL * self.map_shape[0], SIDES[0]), SIDES[1])
        above += [("map", 1.1 + side + CHARACTER * self.name_length)] * bool(
            self.map_shape[0]
        )
        below = [
            ("warps", 0.4 + WARP_HEIGHT * -(-self.n_warps // ACROSS[wide]))
        ] * bool(self.n_warps)
        return [
            row
            for row in ([above] if wide else [[one] for one in above]) + [below]
            if row
        ]

    def build(self, figure: Any, place: SubplotSpec, spaced: bool) -> list[Axes]:
        """Make the Axes, in the order bars, warps, map."""
        room: dict[str, Any] = {"wspace": 0.5, "hspace": 0.9} if spaced else {}
        wide = inches_across(figure, place) >= canvas.NARROW
        rows, places = self.rows(wide), {}
        heights = [max(height for _, height in row) for row in rows]
        stack = place.subgridspec(len(rows), 1, height_ratios=heights, **room)
        for i, row in enumerate(rows):
            beside = stack[i].subgridspec(1, len(row), **room)
            for j, (name, _) in enumerate(row):
                places[name] = beside[j]
        axes = []
        for name in [name for name in ("bars", "warps", "map") if name in places]:
            n = self.n_warps if name == "warps" else 1
            across = ACROSS[wide] if name == "warps" else 1
            grid = places[name].subgridspec(-(-n // across), across, **room)
            axes += [figure.add_subplot(grid[i]) for i in range(n)]
        return axes


@dataclass(eq=False, repr=False)
class MetricDisplay(Display):
    """The relevance of columns in a learned metric, its warps, and its linear map.

    There are three kinds of panels, each left out if there is nothing to show: the
    relevance of the columns, the 20 largest as bars; the learned distance along the
    most relevant warped columns; the matrix of the linear map. `from_metric` and
    `from_estimator` collect, and `plot` draws.

    Parameters
    ----------
    relevance : array of shape (d,)
        Share of each column in the mean distance of two rows.
    feature_names : sequence of d str
    warps : sequence of Warp
        To be drawn, in this order.
    linear : array of shape (r, q), optional
        From coordinates before to coordinates after the map.
    mixed_names : sequence of q str, optional
        Columns of the coordinates before the map.
    n_warped : int, optional
        Number of warped columns, where only some of them are drawn.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes
        In the order relevance, warps, map; those that there are.
    bars_ : BarContainer or None
        Of the relevance.
    lines_ : list of Line2D
        The warps.
    image_ : AxesImage or None
        The map.
    colorbar_ : Colorbar or None

    See Also
    --------
    bochner.selection.learn_metric : Learn a metric.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.display import MetricDisplay
    >>> from bochner.selection import learn_metric
    >>> X = np.random.default_rng(0).uniform(size=(400, 3))
    >>> metric = learn_metric(X, np.sqrt(X[:, 0]), random_state=0)
    >>> display = MetricDisplay.from_metric(
    ...     metric, ["length", "width", "height"]
    ... ).plot()
    >>> display.axes_[0].get_yticklabels()[0].get_text(), display.axes_[1].get_xlabel()
    ('length', 'length')
    >>> display.figure_.savefig("metric.png")
    """

    relevance: Array
    feature_names: Sequence[str]
    warps: Sequence[Warp] = ()
    linear: Array = None
    mixed_names: Sequence[str] | None = None
    n_warped: int | None = None

    @classmethod
    def from_metric(
        cls, metric: Any, feature_names: Sequence[str] | None = None, n_warps: int = 12
    ) -> Self:
        """Collect what is to be drawn of a metric, in the units of the rows that it was
        learned on.

        Parameters
        ----------
        metric : bochner.features.Metric
        feature_names : sequence of str of length d, optional
            Otherwise x0, x1, ...
        n_warps : int, default=12
            At most so many warps are drawn, those of the most relevant columns.

        Returns
        -------
        MetricDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            For another number of names than the metric has columns, and a negative
            number of warps.
        """
        return cls._collected(
            metric, feature_names, n_warps, *table_units((), metric.n_features_in_), {}
        )

    @classmethod
    def from_estimator(cls, model: Any, n_warps: int = 12) -> Self:
        """Collect what is to be drawn of the metric of a fitted model, numbers in the
        units of its table.

        Relevance is that of the table's columns: one bar for a column of text or dates,
        whatever it is encoded as.

        Parameters
        ----------
        model : KernelMachineRegressor or KernelMachineClassifier
        n_warps : int, default=12

        Returns
        -------
        MetricDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            Where the model is not fitted, or has learned no metric: with a kernel of
            its own, or on too few rows.
        """
        metric, encoder = fitted_attribute(model, "metric_"), model.encoder_
        units = table_units(encoder.columns_, metric.n_features_in_)
        display = cls._collected(
            metric,
            encoder.get_feature_names_out(),
            n_warps,
            *units,
            time_units(encoder.columns_),
        )
        p = encoder.n_features_in_
        display.relevance = np.bincount(encoder.sources(), metric.relevance_, p)
        display.feature_names = column_names(
            getattr(encoder, "feature_names_in_", None), p
        )
        return display

    @classmethod
    def _collected(
        cls,
        metric: Any,
        names: Any,
        n_warps: int,
        shift: NDArray,
        scale: NDArray,
        times: dict[int, str],
    ) -> Self:
        d = metric.n_features_in_
        names = column_names(names, d)
        if len(names) != d:
            raise ValueError(
                f"The metric has {d} columns, but there are {len(names)} feature names."
            )
        if n_warps < 0:
            raise ValueError(f"n_warps must not be negative, got {n_warps}.")
        warps = relevant_warps(metric, names, shift, scale, times, n_warps)
        linear = metric.linear_ if metric.linear_.size else None
        mixed = [names[j] for j in metric.source_[: metric.linear_.shape[1]]]
        return cls(
            metric.relevance_, names, warps, linear, mixed, len(_warped_columns(metric))
        )

    def plot(self, ax: Any = None, *, sharey: bool = True, **kwargs: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, or sequence or array of them, optional
            A subplot whose place the panels take, or one Axes for each panel, as
            `axes_` of another display. None makes a figure.
        sharey : bool, default=True
            Whether the warps have one vertical scale, which tells how much each
            matters; if not, each its own, which shows the shapes of small ones too.
        **kwargs
            Of the lines of the warps, as `Axes.plot` takes them.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a number of Axes that does not fit.
        """
        return super().plot(ax, sharey=sharey, **kwargs)

    @property
    def _layout(self) -> Layout:
        shape = (0, 0) if self.linear is None else self.linear.shape
        has_bars = self.relevance.any() or not (self.warps or shape[0])
        below = max((len(name) for name in self._map_names()), default=0)
        return Layout(
            len(self._bars()) if has_bars else 0, len(self.warps), shape, below
        )

    def _panels(self) -> Panels:
        layout = self._layout
        return Panels(layout.n_panels, layout.size, layout.build)

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        sharey, has_bars = kwargs.pop("sharey"), bool(self._layout.n_bars)
        has_map = len(axes) > has_bars + len(self.warps)
        self.bars_ = self._draw_relevance(axes[0]) if has_bars else None
        self.lines_ = self._draw_warps(
            axes[has_bars : has_bars + len(self.warps)], sharey, kwargs
        )
        drawn: tuple[Any, Any] = self._draw_map(axes[-1]) if has_map else (None, None)
        self.image_, self.colorbar_ = drawn

    def _bars(self) -> NDArray:
        """Columns that get a bar: all of a few, else the largest of those that are
        not 0.
        """
        order = np.argsort(-self.relevance, kind="stable")[:MOST_BARS]
        return (
            order[self.relevance[order] > 0]
            if len(self.relevance) > MOST_BARS and self.relevance.any()
            else order
        )

    def _draw_relevance(self, ax: Axes) -> Any:
        from matplotlib.ticker import MaxNLocator

        shown, d = self._bars(), len(self.feature_names)
        lengths = self.relevance[shown]
        small = 0.9 * canvas.text_size(ax)
        bars = ax.barh(np.arange(len(shown)), lengths, color=BLUE, height=0.7)
        ax.bar_label(
            bars,
            [_percent(length) for length in lengths],
            padding=3,
            color=GREY,
            fontsize=small,
        )
        ax.set_yticks(
            np.arange(len(shown)),
            canvas.shortened_all(
                [self.feature_names[j] for j in shown], BAR_NAME_WIDTH
            ),
        )
        ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        canvas.percent_ticks(ax.xaxis)
        ax.tick_params(axis="y", length=0)
        some = f": the {len(shown)} largest of {d:,} columns" if len(shown) < d else ""
        title = f"Relevance{some if lengths.any() else ': not known'}"
        ax.set_ylim(len(shown) - 0.4, -0.6)
        canvas.label_axes(
            ax,
            "Share of the mean distance",
            "",
            title,
            xlim=(0, 1.18 * (lengths.max(initial=0.0) or 1.0)),
        )
        return bars

    def _draw_warps(
        self, axes: Sequence[Axes], sharey: bool, kwargs: dict[str, Any]
    ) -> list[Any]:
        lines = []
        every = (
            np.concatenate([np.asarray(warp.w) for warp in self.warps])
            if self.warps
            else np.zeros(1)
        )
        for ax, warp in zip(axes, self.warps, strict=True):
            look: dict[str, Any] = {
                "color": BLUE,
                "marker": "." if np.size(warp.x) <= FEW_KNOTS else "",
                **kwargs,
            }
            lines += ax.plot(warp.x, warp.w, **look)
            levels = every if sharey else np.asarray(warp.w)
            room = 0.06 * np.ptp(levels) or 0.5
            canvas.few_ticks(ax.xaxis, np.asarray(warp.x), 3)
            canvas.few_ticks(ax.yaxis, levels, 4)
            first, ends = (
                canvas.in_first_column(ax, axes[0]),
                (levels.min() - room, levels.max() + room),
            )
            canvas.label_axes(
                ax,
                canvas.shortened(warp.name, WARP_NAME_WIDTH),
                "Distance" if first else "",
                ylim=ends,
            )
            canvas.mark_units(ax.xaxis, warp.unit, 3)
            if sharey and not first:
                ax.tick_params(labelleft=False)
        if len(axes):
            some = (
                f": {len(axes)} of {self.n_warped:,}"
                if (self.n_warped or 0) > len(axes)
                else ""
            )
            canvas.label_axes(axes[0], title=f"Warps{some}")
        return lines

    def _map_names(self) -> list[str]:
        """Names below the map, where they fit."""
        names = (
            self.mixed_names
            if self.linear is not None and self.mixed_names is not None
            else []
        )
        return (
            canvas.shortened_all(names, MAP_NAME_WIDTH)
            if len(names) <= MOST_NAMED
            else []
        )

    def _draw_map(self, ax: Axes) -> tuple[Any, Any]:
        from matplotlib.ticker import MaxNLocator

        q = self.linear.shape[1]
        limit = float(np.abs(self.linear).max()) or 1.0
        image = ax.imshow(
            self.linear, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto"
        )
        colorbar = canvas.add_colour_bar(image, ax, "Weight")
        names = self._map_names()
        if names:
            ax.set_xticks(np.arange(q), names, rotation=90)
        else:
            ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
            ax.set_xlabel("Before the map")
        ax.yaxis.set_major_locator(MaxNLocator(8, integer=True))
        canvas.label_axes(ax, y="After the map", title="Linear map")
        return image, colorbar


def _percent(share: float) -> str:
    if 0 < share < 0.001:
        return "< 0.1%"
    return f"{100 * share:.1f}%" if 0 < share < 0.1 else f"{100 * share:.0f}%"
