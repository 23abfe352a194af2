"""Draws the effects of columns on predictions: means, intervals, and curves of single
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bochner.display import canvas
from bochner.display.base import HEIGHT, Block, Display, Look
from bochner.display.canvas import GREY
from bochner.explanations.effects import TITLES

LEVEL_WIDTH = 26


class EffectDisplay(Display):
    """Effects of columns, one panel each.

    The line is the mean effect, with its interval if the model has a posterior. Thin
    grey lines are predictions for single rows, and ticks at the bottom some values of
    the column. Categories have dots, the first 12 at most, and a missing value has a
    square at the right. With several outputs there is a line for each of the five with
    the largest effects. `from_effects` collects, and `plot` draws.

    Keywords of `plot` are those of the lines, as `Axes.plot` takes them.

    Parameters
    ----------
    effects : sequence of Effect
    outputs : sequence of str
        Names of the outputs.
    what : str, default="prediction"
    kind : {"partial", "accumulated"}

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes
    lines_ : list of Line2D
        For each column, and each output.
    bands_ : list of PolyCollection
        Intervals of columns of numbers.

    See Also
    --------
    bochner.KernelMachineRegressor.effects : Measure effects.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import KernelMachineRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
    >>> model = KernelMachineRegressor(random_state=0).fit(X, X[:, 0] ** 2)
    >>> display = model.effects(X, [0, 1]).plot()
    >>> display.axes_[0].get_xlabel()
    'x0'
    >>> display.figure_.savefig("effects.png")
    """

    effects: Sequence[Any]
    outputs: Sequence[str]
    what: str = "prediction"
    kind: str = "partial"

    @classmethod
    def from_effects(cls, effects: Any) -> Self:
        """Collect what is drawn.

        Parameters
        ----------
        effects : bochner.explanations.Effects

        Returns
        -------
        EffectDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            If there is no column.
        """
        if not len(effects):
            raise ValueError("There is no effect to draw: name one column or more.")
        return cls(list(effects), effects.outputs, effects.what, effects.kind)

    def _blocks(self) -> list[Block]:
        n = len(self.effects)
        return [Block(HEIGHT if n == 1 else 2.4, n)]

    def _draw(self, kwargs: Look) -> None:
        spans = np.max([one.span for one in self.effects], axis=0)
        shown = np.sort(np.argsort(-spans, kind="stable")[:5]).tolist()
        self.lines_: list[Any] = []
        self.bands_: list[Any] = []
        label = self.what.capitalize()
        if self.kind != "partial":
            label = f"Change of the {self.what}"
        if self.what == "probability" and len(self.outputs) == 1:
            label += f" of {canvas.shortened(self.outputs[0], LEVEL_WIDTH)}"
        for ax, one in zip(self.axes_, self.effects, strict=True):
            draw = self._draw_levels if one.is_level else self._draw_numbers
            draw(ax, one, shown, kwargs)
            ax.set_xlabel(canvas.shortened(one.column))
            canvas.mark_units(ax.xaxis, "" if one.is_level else one.unit)
        ends = [ax.get_ylim() for ax in self.axes_]
        for ax in self.axes_:
            ax.set_ylim(np.min(ends), np.max(ends))
        self.ax_.set(ylabel=label, title=TITLES[self.kind])
        if len(shown) > 1:
            canvas.add_legend(self.ax_)

    def _draw_numbers(self, ax: Any, one: Any, shown: list[int], kwargs: Look) -> None:
        has_position = ~np.isnan(one.positions)
        x = one.positions[has_position]
        if len(shown) == 1:
            thin = {"color": GREY, "alpha": 0.25, "linewidth": 0.6}
            ax.plot(x, one.curves[:, has_position, shown[0]].T, **thin)
        for i, k in enumerate(shown):
            colour = canvas.look(i)[0]
            label = canvas.shortened(self.outputs[k])
            look = {"color": colour, "linewidth": 1.8, "label": label, **kwargs}
            self.lines_ += ax.plot(x, one.mean[has_position, k], **look)
            if one.low is not None:
                ends = one.low[has_position, k], one.high[has_position, k]
                self.bands_.append(canvas.draw_band(ax, x, ends, colour))
            if not has_position.all():
                # The missing value, beside the others
                beside = x[-1] + 0.08 * (np.ptp(x) or 1.0)
                square: Look = {"color": colour, "marker": "s", "markersize": 4}
                ax.errorbar(beside, one.mean[-1, k], _halves(one, [-1], k), **square)
        if not has_position.all():
            look = {"color": GREY, "fontsize": "x-small", "ha": "right", "va": "top"}
            ax.annotate("missing", (1, 1), xycoords="axes fraction", **look)
        inside = one.rug[(one.rug >= x[0]) & (one.rug <= x[-1])]
        look = {"color": GREY, "markersize": 4, "transform": ax.get_xaxis_transform()}
        ax.plot(inside, np.full_like(inside, 0.02), "|", **look)

    def _draw_levels(self, ax: Any, one: Any, shown: list[int], kwargs: Look) -> None:
        n = min(len(one.values), 12)
        places = np.arange(n)
        for i, k in enumerate(shown):
            beside = places + 0.15 * (i - (len(shown) - 1) / 2)
            label = canvas.shortened(self.outputs[k])
            look = {"color": canvas.look(i)[0], "fmt": "o", "label": label, **kwargs}
            halves = _halves(one, places, k)
            drawn = ax.errorbar(beside, one.mean[:n, k], halves, **look)
            self.lines_.append(drawn.lines[0])
        names = canvas.shortened_all(one.labels[:n], LEVEL_WIDTH)
        ax.set_xticks(places, names, rotation=90 if n > 2 else 0)
        ax.set_xlim(-0.6, n - 0.4)


def _halves(one: Any, where: Any, k: int) -> NDArray | None:
    """Half widths of the intervals of some values; None where there are no
    intervals.
    """
    return None if one.low is None else (one.high[where, k] - one.low[where, k]) / 2
