"""Draws what each column adds to predictions: of one row as steps, of many rows as
points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from bochner.arrays import Floats
from bochner.data.columns import column_number
from bochner.display import canvas
from bochner.display.base import SINGLE, Array, Block, Display, Look
from bochner.display.canvas import BLUE, GREY, PURPLE, VERMILION
from bochner.display.importance_displays import (
    SIDES,
    bar_block,
    draw_bars,
    largest,
    name_rows,
)
from bochner.explanations.attribution import Explanation
from bochner.markup import cut_all, number, shown_value, signed

MOST_STEPS, STEP_WIDTH = 10, 32
SWARM_HEIGHT = 0.3  # inches


def _of_output(
    explanation: Explanation, output: int | str | None
) -> tuple[Explanation, str]:
    """An explanation of one output, and what is added to titles; ValueError where
    the output is not known.
    """
    if explanation.values.ndim == 3:
        names = explanation.output_names
        if output is None:
            raise ValueError(
                "There are several outputs: name one as output=, of "
                f"{', '.join(names)}."
            )
        explanation = explanation.of_output(column_number(output, names, "output"))
    elif not explanation.unit.endswith("log-odds"):
        return explanation, ""
    return explanation, f" of {canvas.shortened(explanation.output_names[0])}"


class WaterfallDisplay(Display):
    """Steps from the mean prediction of the background rows to the prediction for one
    row.

    Each bar is the Shapley value of a column, the largest on top, and begins where the
    bar below it ends. The smallest values share one bar at the bottom.
    `from_explanation` collects, and `plot` draws. Keywords of `plot` are those of the
    bars, as `Axes.barh` takes them.

    Parameters
    ----------
    names : sequence of str
        Of the columns drawn, with their values in the row, the largest step first.
    values : array of one number for each name
    base : float
        Mean prediction of the background rows.
    unit : str, default=""
    title : str, default="Prediction"

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes of shape (1,)
    bars_ : BarContainer

    See Also
    --------
    bochner.KernelMachineRegressor.explain : Computes the values.

    Examples
    --------
    >>> from bochner.display import WaterfallDisplay
    >>> display = WaterfallDisplay(
    ...     ["age = 64", "town = Bern"], [2.0, -0.5], 10.0
    ... ).plot()
    >>> [label.get_text() for label in display.axes_[0].get_yticklabels()]
    ['age = 64', 'town = Bern']
    >>> display.figure_.savefig("waterfall.png")
    """

    names: Sequence[str]
    values: Array
    base: float
    unit: str = ""
    title: str = "Prediction"

    @classmethod
    def from_explanation(
        cls,
        explanation: Explanation,
        row: int = 0,
        *,
        output: int | str | None = None,
        max_columns: int = MOST_STEPS,
    ) -> Self:
        """Collect what is drawn.

        Parameters
        ----------
        explanation : bochner.explanations.Explanation
        row : int, default=0
        output : int or str, optional
            Which output, if there are several.
        max_columns : int, default=10
            With more columns, the smallest steps share one bar.

        Returns
        -------
        WaterfallDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            If the output is not known, or `max_columns` is not positive.
        """
        one, of = _of_output(explanation, output)
        values = one.values[row]
        first = largest(np.abs(values), max_columns)
        names = [
            f"{name} = {shown_value(value, 24)}"
            for name, value in zip(
                cut_all((one.feature_names[j] for j in first), STEP_WIDTH),
                one.data[row][first],
                strict=True,
            )
        ]
        steps = list(values[first])
        rest = np.delete(values, first)
        if len(rest):
            names.append(f"{len(rest)} others")
            steps.append(rest.sum())
        base = float(one.base_values)
        return cls(names, steps, base, one.unit, f"Prediction{of}")

    def _blocks(self) -> list[Block]:
        return [bar_block(self.names)]

    def _draw(self, kwargs: Look) -> None:
        ax = self.ax_
        values = self.values
        ends = self.base + np.cumsum(values[::-1])[::-1]
        starts = ends - values
        look: Look = {"left": starts, "color": np.where(values > 0, VERMILION, BLUE)}
        self.bars_ = draw_bars(ax, self.names, values, **look | kwargs)
        places = np.arange(len(values) - 1)
        thin: Look = {"color": GREY, "linewidth": 0.8}
        ax.vlines(starts[:-1], places - 0.35, places + 1.35, **thin)
        ax.axvline(self.base, linestyle=":", **thin)
        added = list(map(signed, values))
        ax.bar_label(self.bars_, added, padding=3, fontsize="small")
        total = number(self.base + values.sum())
        title = f"{self.title}: {total}, from {number(self.base)} on average"
        across = self.unit[:1].upper() + self.unit[1:]
        shown = np.append(starts, ends)
        # Room beside the bars for their numbers
        room = 0.4 * (np.ptp(shown) or 1.0)
        xlim = shown.min() - room, shown.max() + room
        ax.set(xlabel=across, title=title, xlim=xlim)


class BeeswarmDisplay(Display):
    """Shapley values of many rows: a row of points for each column, the column with the
    largest mean size on top.

    Each point is a row of the table. Its colour is the rank of its value in the column:
    the lowest third is blue, the highest red; columns that are not numbers are grey.
    `from_explanation` collects, and `plot` draws. Keywords of `plot` are those of the
    points, as `Axes.scatter` takes them.

    Parameters
    ----------
    names : sequence of str
        Of the columns drawn, the first on top.
    values : array of shape (n, len(names))
    places : array of the same shape
        Rank of each value in its column, from 0 to 1; NaN if values have no order.
    unit : str, default=""
    title : str, default="Shapley values"

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes of shape (1,)
    points_ : list of PathCollection
        Of each column.

    See Also
    --------
    bochner.KernelMachineRegressor.explain : Computes the values.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.display import BeeswarmDisplay
    >>> values = np.random.default_rng(0).normal(size=(100, 2))
    >>> display = BeeswarmDisplay(
    ...     ["age", "town"], values, np.full((100, 2), np.nan)
    ... ).plot()
    >>> [label.get_text() for label in display.axes_[0].get_yticklabels()]
    ['age', 'town']
    >>> display.figure_.savefig("beeswarm.png")
    """

    names: Sequence[str]
    values: Array
    places: Array
    unit: str = ""
    title: str = "Shapley values"

    @classmethod
    def from_explanation(
        cls,
        explanation: Explanation,
        *,
        output: int | str | None = None,
        max_columns: int = 15,
    ) -> Self:
        """Collect what is drawn.

        Parameters
        ----------
        explanation : bochner.explanations.Explanation
        output : int or str, optional
            Which output, if there are several.
        max_columns : int, default=15
            With more columns, those with the largest mean absolute values are drawn.

        Returns
        -------
        BeeswarmDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            If the output is not known, or `max_columns` is not positive.
        """
        one, of = _of_output(explanation, output)
        first = largest(one.mean_absolute, max_columns)
        places = np.stack([_places(one.data[:, j]) for j in first], axis=1)
        names = [one.feature_names[j] for j in first]
        d = len(one.feature_names)
        title = f"Shapley values{of}, {len(one):,} rows"
        if len(names) < d:
            title += f", {len(names)} of {d:,} columns"
        return cls(names, one.values[:, first], places, one.unit, title)

    def _blocks(self) -> list[Block]:
        return [Block(SIDES + SWARM_HEIGHT * max(len(self.names), 5))]

    def _draw(self, kwargs: Look) -> None:
        from matplotlib.colors import ListedColormap

        ax = self.ax_
        values = self.values
        size = np.clip(2000 / max(len(values), 1), 3, 16)
        edges = np.linspace(values.min(), values.max() + 1e-300, 61)
        shades: Look = {}
        if "color" not in kwargs:
            # Of values that are low, middle and high in their column
            cmap = ListedColormap((BLUE, PURPLE, VERMILION)).with_extremes(bad=GREY)
            shades = {"cmap": cmap, "vmin": 0, "vmax": 1, "plotnonfinite": True}
        self.points_: list[Any] = []
        for j in name_rows(ax, self.names):
            # Off the axis at random, the farther the more points are in the same bin
            bins = np.digitize(values[:, j], edges)
            crowd = np.bincount(bins)[bins]
            offsets = np.random.default_rng(0).uniform(-1, 1, len(values))
            offsets *= (crowd - 1) / max(crowd.max(initial=1), 2)
            place = j + 0.42 * offsets
            look = {"s": size, "linewidths": 0, **shades, **kwargs}
            if shades:
                look["c"] = self.places[:, j]
            self.points_.append(ax.scatter(values[:, j], place, **look))
        if shades and not np.isnan(self.places).all():
            bar = canvas.add_colour_bar(self.points_[-1], ax, "Value in its column")
            bar.set_ticks([1 / 6, 0.5, 5 / 6], labels=["low", "middle", "high"])
        ax.axvline(0.0, color=GREY, linewidth=0.8)
        across = f"Added to the prediction{self.unit and f' ({self.unit})'}"
        ax.set(xlabel=across, title=self.title)


class InteractionDisplay(Display):
    """The interactions of pairs of columns as a matrix, the darker the stronger.

    `from_interactions` collects, and `plot` draws. Keywords of `plot` are those of the
    image, as `Axes.imshow` takes them.

    Parameters
    ----------
    names : sequence of d str
    sizes : array of shape (d, d)
        Mean absolute interactions; the diagonal is left out.
    unit : str, default=""

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes of shape (1,)
    image_ : AxesImage

    See Also
    --------
    bochner.KernelMachineRegressor.interactions : Measures them.

    Examples
    --------
    >>> from bochner.display import InteractionDisplay
    >>> display = InteractionDisplay(
    ...     ["age", "town", "rent"], [[0, 0.2, 0], [0.2, 0, 0.1], [0, 0.1, 0]]
    ... ).plot()
    >>> [label.get_text() for label in display.axes_[0].get_yticklabels()]
    ['age', 'town', 'rent']
    >>> display.figure_.savefig("interactions.png")
    """

    names: Sequence[str]
    sizes: Array
    unit: str = ""

    @classmethod
    def from_interactions(
        cls, interactions: Any, *, max_columns: int = MOST_STEPS
    ) -> Self:
        """Collect what is drawn.

        Parameters
        ----------
        interactions : bochner.explanations.Interactions
        max_columns : int, default=10
            With more columns, those with the largest interactions are drawn.

        Returns
        -------
        InteractionDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            If `max_columns` is not positive.
        """
        sizes = interactions.mean_absolute
        first = largest(sizes.sum(axis=1) - np.diag(sizes), max_columns)
        names = [interactions.feature_names[j] for j in first]
        return cls(names, sizes[np.ix_(first, first)], interactions.unit)

    def _blocks(self) -> list[Block]:
        return [Block(max(SIDES + SWARM_HEIGHT * len(self.names), SINGLE - 2 * SIDES))]

    def _draw(self, kwargs: Look) -> None:
        ax = self.ax_
        d = len(self.names)
        shown = np.where(np.eye(d, dtype=bool), np.nan, self.sizes)
        self.image_ = ax.imshow(shown, **{"cmap": "Blues", "vmin": 0.0, **kwargs})
        names = canvas.shortened_all(self.names, STEP_WIDTH)
        ax.set_xticks(np.arange(d), names, rotation=90)
        ax.set_yticks(np.arange(d), names)
        label = f"Mean size{self.unit and f' ({self.unit})'}"
        canvas.add_colour_bar(self.image_, ax, label)
        ax.set_title("Interactions of pairs of columns")


def _places(column: NDArray) -> Floats:
    """Place of each number among all, from 0 to 1; NaN for what is none."""
    try:
        numbers = column.astype(np.float64)
    except (TypeError, ValueError):
        return np.full(len(column), np.nan)
    ranks = rankdata(numbers, nan_policy="omit") - 1
    return ranks / max(np.nanmax(ranks, initial=0.0), 1.0)
