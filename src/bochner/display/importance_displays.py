"""Draws the columns that matter to the loss of a model, with intervals."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Indices
from bochner.display import canvas
from bochner.display.base import Array, Block, Display, Look
from bochner.display.canvas import BLUE, GREY
from bochner.scores.measures import Z

SIDES = 1.1  # inches


def largest(sizes: NDArray, max_columns: int) -> Indices:
    """Positions of the largest sizes, in their order; ValueError for none of them."""
    if max_columns < 1:
        raise ValueError(f"max_columns must be 1 or more, got {max_columns}.")
    return np.argsort(-sizes, kind="stable")[:max_columns]


def name_rows(ax: Any, names: Sequence[str]) -> Indices:
    """Write names along the vertical axis, the first on top; their places."""
    places = np.arange(len(names))
    ax.set_yticks(places, canvas.shortened_all(names))
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(places) - 0.4, -0.6)
    return places


def draw_bars(ax: Any, names: Sequence[str], lengths: Array, **look: Any) -> Any:
    """Draw a bar for each column, the first on top."""
    look = {"color": BLUE, "height": 0.7, **look}
    return ax.barh(name_rows(ax, names), lengths, **look)


def bar_block(names: Sized) -> Block:
    """The panel of a bar for each name."""
    return Block(SIDES + 0.28 * max(len(names), 5))


class ImportanceDisplay(Display):
    """The permutation importance of columns as bars, with 95 % intervals.

    The length of a bar is how much the mean loss grows when the column is permuted, as
    a share of the total growth of all columns; by chance it is below zero for columns
    without effect. `from_importance` collects, and `plot` draws. Keywords of `plot` are
    those of the bars, as `Axes.barh` takes them.

    Parameters
    ----------
    names : sequence of str
        Of the columns drawn, the most important first.
    values, errors : arrays of one number for each name
        Shares of the total, and their standard errors.
    loss : str
    n_columns : int, optional
        Number of columns of the table, if not all are drawn.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes of shape (1,)
    bars_ : BarContainer

    See Also
    --------
    bochner.KernelMachineRegressor.importance : Measures it.

    Examples
    --------
    >>> from bochner.display import ImportanceDisplay
    >>> display = ImportanceDisplay(
    ...     ["age", "town"], [0.75, 0.25], [0.05, 0.02], "log loss"
    ... ).plot()
    >>> [label.get_text() for label in display.axes_[0].get_yticklabels()]
    ['age', 'town']
    >>> display.figure_.savefig("importance.png")
    """

    names: Sequence[str]
    values: Array
    errors: Array
    loss: str
    n_columns: int | None = None

    @classmethod
    def from_importance(cls, importance: Any, *, max_columns: int = 20) -> Self:
        """Collect what is drawn.

        Parameters
        ----------
        importance : bochner.explanations.Importance
        max_columns : int, default=20
            With more columns, the most important are drawn.

        Returns
        -------
        ImportanceDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            Where `max_columns` is not positive.
        """
        first = largest(importance.values, max_columns)
        names = [importance.names[j] for j in first]
        d = len(importance.names)
        values = importance.values[first] / importance.total
        errors = importance.share_errors()[first]
        return cls(names, values, errors, importance.loss, d)

    def _blocks(self) -> list[Block]:
        return [bar_block(self.names)]

    def _draw(self, kwargs: Look) -> None:
        ax = self.ax_
        look: Look = {"xerr": Z * self.errors, "ecolor": GREY, **kwargs}
        self.bars_ = draw_bars(ax, self.names, self.values, **look)
        ax.axvline(0.0, color=GREY, linewidth=0.8)
        canvas.percent_ticks(ax.xaxis)
        title = "Importance"
        if len(self.names) < (self.n_columns or 0):
            title += f": {len(self.names)} of {self.n_columns:,} columns"
        label = f"Growth of the {self.loss}, share of the total"
        ax.set(xlabel=label, title=title)
