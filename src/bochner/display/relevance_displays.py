"""Draws the columns that matter to a learned metric, with its warps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from bochner.data.columns import column_names, parts_of
from bochner.data.encodings import NumberColumns, TimeColumn
from bochner.display import canvas
from bochner.display.base import Array, Block, Display, Look, fitted_attribute
from bochner.display.canvas import BLUE, GREY
from bochner.display.importance_displays import bar_block, draw_bars, largest
from bochner.markup import percent

MOST_BARS = 20


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
    x: Any
    w: Any
    unit: str = ""


def table_units(columns: Sequence[Any], n_columns: int) -> tuple[NDArray, NDArray]:
    """Shift and scale from encoded columns back to those of the table: of numbers,
    and of dates and durations.
    """
    shift = np.zeros(n_columns)
    scale = np.ones(n_columns)
    for column in columns:
        if isinstance(column, NumberColumns):
            shift[column.at], scale[column.at] = column.shift, column.scale
        elif isinstance(column, TimeColumn) and column.kind != "time":
            shift[column.start], scale[column.start] = column.shift, column.scale
    return shift, scale


class MetricDisplay(Display):
    """The relevance of columns in a learned metric, and its warps.

    Bars are the relevance of the columns, the 20 largest. Below them is the learned
    distance along each of the most relevant warped columns, if there are any.
    `from_metric` and `from_estimator` collect, and `plot` draws.

    Parameters
    ----------
    relevance : array of shape (d,)
        Share of each column in the mean distance of two rows.
    feature_names : sequence of d str
    warps : sequence of Warp
        To be drawn, in this order.
    n_warped : int, optional
        Number of warped columns, where only some of them are drawn.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes
        In the order relevance, warps.
    bars_ : BarContainer
        Of the relevance.
    lines_ : list of Line2D
        The warps.

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
    n_warped: int | None = None

    @classmethod
    def from_metric(
        cls,
        metric: Any,
        feature_names: Sequence[str] | None = None,
        n_warps: int = 12,
        *,
        columns: Sequence[Any] = (),
    ) -> Self:
        """Collect what is to be drawn of a metric, in the units of the rows that it was
        learned on.

        Parameters
        ----------
        metric : bochner.features.Metric
        feature_names : sequence of str of length d, optional
            Otherwise x0, x1, ...
        n_warps : int, default=12
            Number of warps drawn at most, those of the most relevant columns.
        columns : sequence, optional
            Encoded columns, as `columns_` of a `TableEncoder`, where the metric is one
            of these: warps are then in the units of the table.

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
        d = metric.n_features_in_
        names = column_names(feature_names, d)
        if len(names) != d:
            raise ValueError(
                f"The metric has {d} columns, but there are {len(names)} feature names."
            )
        if n_warps < 0:
            raise ValueError(f"n_warps must not be negative, got {n_warps}.")
        # Columns with warps that are not flat, the most relevant first, of equal ones
        # that whose warps go farthest
        column_of_warp = metric.source_[metric.warped_]
        ways = [np.ptp(levels) for levels in metric.levels_]
        span = np.bincount(column_of_warp, ways, d)
        order = np.lexsort((-span, -metric.relevance_))
        warped = order[span[order] > 0].tolist()
        shift, scale = table_units(columns, d)
        units = {
            column.start: parts_of(column.kind)[0]
            for column in columns
            if isinstance(column, TimeColumn) and column.kind != "time"
        }
        # Of learned metrics only those of the L1 distance mix warped coordinates. The
        # L1 and the Euclidean distance of single coordinates are equal
        norm = 1 if (metric.warped_ < metric.linear_.shape[1]).any() else 2
        warps = []
        for j in warped[:n_warps]:
            knots = np.unique(metric.knots_[column_of_warp == j])
            # The length of the way in all coordinates of the column, of which one may
            # be its value and one its rank
            rows = np.zeros((len(knots), d))
            rows[:, j] = knots
            steps = np.diff(metric.coordinates(rows), axis=0)
            along = np.append(0.0, np.cumsum(np.linalg.norm(steps, norm, axis=1)))
            x = shift[j] + scale[j] * knots
            warps.append(Warp(names[j], x, along, units.get(j, "")))
        return cls(metric.relevance_, names, warps, len(warped))

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
        metric = fitted_attribute(model, "metric_")
        encoder = model.encoder_
        names = encoder.get_feature_names_out()
        display = cls.from_metric(metric, names, n_warps, columns=encoder.columns_)
        p = encoder.n_features_in_
        display.relevance = np.bincount(encoder.sources(), metric.relevance_, p)
        display.feature_names = column_names(
            getattr(encoder, "feature_names_in_", None), p
        )
        return display

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

    def _blocks(self) -> list[Block]:
        blocks = [bar_block(self.relevance[:MOST_BARS])]
        if self.warps:
            blocks.append(Block(1.5, len(self.warps), 1.75))
        return blocks

    def _draw(self, kwargs: Look) -> None:
        sharey = kwargs.pop("sharey")
        ax = self.ax_
        shown = largest(self.relevance, MOST_BARS)
        d = len(self.feature_names)
        lengths = self.relevance[shown]
        self.bars_ = draw_bars(ax, [self.feature_names[j] for j in shown], lengths)
        labels = list(map(percent, lengths))
        ax.bar_label(self.bars_, labels, padding=3, color=GREY, fontsize="small")
        canvas.percent_ticks(ax.xaxis)
        title = "Relevance"
        if not lengths.any():
            title += ": not known"
        elif len(shown) < d:
            title += f": the {len(shown)} largest of {d:,} columns"
        ends = (0, 1.18 * (lengths.max(initial=0.0) or 1.0))
        ax.set(xlabel="Share of the mean distance", title=title, xlim=ends)
        self.lines_: list[Any] = []
        if not self.warps:
            return
        largest_level = max(np.max(warp.w) for warp in self.warps)
        for ax, warp in zip(self.axes_[1:], self.warps, strict=True):
            marker = "." if len(warp.x) <= 20 else ""
            look = {"color": BLUE, "marker": marker, **kwargs}
            self.lines_ += ax.plot(warp.x, warp.w, **look)
            ax.set_xlabel(canvas.shortened(warp.name, 22))
            canvas.mark_units(ax.xaxis, warp.unit)
            if sharey:
                ax.set_ylim(0, 1.06 * largest_level)
        n = len(self.warps)
        whole = self.n_warped or 0
        title = f"Warps: {n} of {whole:,}" if whole > n else "Warps"
        self.axes_[1].set(ylabel="Distance", title=title)
