"""Draws how a model was chosen: the sizes and the candidates with their losses."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bochner.display.base import PAGE, Axes, Display, Panels, SubplotSpec, fitted_attribute, inches_across
from bochner.display.canvas import BLUE, GREY, LOOKS, add_legend, decade_ticks, shortened, text_size

HEIGHT, LEGEND_HEIGHT, CANDIDATE_HEIGHT, MARGINS = 2.4, 0.17, 0.6, 1.2  # inches
WIDE_ENOUGH = 7.5  # inches for two panels side by side
ABOVE = 0.14  # of the distance of two candidates, from a point to its name above
NAME_WIDTH, REASON_WIDTH = 60, 62
WIDE = 4.0  # largest over least loss, above which the axis is logarithmic
UNITS = {"squared error": "squared error of standardised targets", "log loss": "log loss [nats]"}


@dataclass(eq=False, repr=False)
class SizeDisplay(Display):
    """The search of sizes, and the candidates for a model, by their loss on rows held out.

    Two panels, each left out where there is nothing to show: the loss against the factor on the coordinates,
    one line for each name, with a star at its minimum; and the candidates at their final sizes, the best on top, with
    the standard errors of their losses, the chosen one in colour. `from_estimator` and `from_report` collect what
    it takes, and `plot` draws it.

    Keywords of `plot` are those of the lines of the sizes, as `Axes.plot` takes them.

    Parameters
    ----------
    sizes : sequence of (str, float, float)
        Name, logarithm to base 2 of the factor, loss.
    candidates : sequence of bochner.selection.Candidate
    chosen : str
        Name of the chosen candidate.
    reason : str
        Why.
    criterion : str
        The loss.
    rows_held_out : int

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : array of matplotlib Axes
        In the order sizes, candidates; those that there are.
    lines_ : list of Line2D
        Of the sizes.
    minima_ : list of Line2D
        The stars.
    errorbars_ : list of ErrorbarContainer
        Of the candidates, by their loss.

    Examples
    --------
    >>> from bochner.display import SizeDisplay
    >>> from bochner.selection import Candidate, Report
    >>> tried = [("bins", -1.0, 0.31), ("bins", 0.0, 0.26), ("bins", 1.0, 0.28)]
    >>> candidates = [Candidate("bins", 800, 0.25, 0.01, 1.5), Candidate("Fourier features", 2000, 0.3, 0.01, 0.4)]
    >>> report = Report("squared error", 500, candidates, "bins", "lowest validation loss", tried)
    >>> display = SizeDisplay.from_report(report).plot()
    >>> display.minima_[0].get_xdata().tolist()
    [0.0]
    >>> display.figure_.savefig("sizes.png")
    """

    sizes: Sequence[tuple[str, float, float]] = ()
    candidates: Sequence[Any] = ()
    chosen: str = ""
    reason: str = ""
    criterion: str = "loss"
    rows_held_out: int = 0

    @classmethod
    def from_report(cls, report: Any) -> Self:
        """Collect what is to be drawn of a report.

        Parameters
        ----------
        report : bochner.selection.Report

        Returns
        -------
        SizeDisplay
            Nothing is drawn yet.
        """
        return cls(
            report.sizes, report.candidates, report.chosen, report.reason, report.criterion, report.rows_held_out
        )

    @classmethod
    def from_estimator(cls, model: Any) -> Self:
        """Collect what is to be drawn of the report of a fitted model.

        Parameters
        ----------
        model : KernelMachineRegressor or KernelMachineClassifier

        Returns
        -------
        SizeDisplay
            Nothing is drawn yet.

        Raises
        ------
        ValueError
            Where the model is not fitted, or has no report: with a kernel of its own, or on too few rows.
        """
        return cls.from_report(fitted_attribute(model, "report_"))

    def _panels(self) -> Panels:
        heights = [HEIGHT + LEGEND_HEIGHT * len(self._names)] * bool(self.sizes)
        heights += [MARGINS + CANDIDATE_HEIGHT * len(self.candidates)] * bool(self.candidates)
        if not heights:
            raise ValueError("There is nothing to draw: neither sizes nor candidates were tried.")

        def build(figure: Any, place: SubplotSpec, spaced: bool) -> list[Axes]:
            room: dict[str, Any] = {"hspace": 0.8, "wspace": 0.4} if spaced else {}
            beside = inches_across(figure, place) >= WIDE_ENOUGH
            shape: Any = (1, len(heights)) if beside else (len(heights), 1)
            grid = place.subgridspec(*shape, height_ratios=None if beside else heights, **room)
            return [figure.add_subplot(grid[i]) for i in range(len(heights))]

        return Panels(len(heights), (PAGE[0], sum(heights)), build)

    def _draw(self, axes: list[Axes], kwargs: dict[str, Any]) -> None:
        self.lines_, self.minima_ = self._draw_sizes(axes[0], kwargs) if self.sizes else ([], [])
        self.errorbars_ = self._draw_candidates(axes[-1]) if self.candidates else []

    @property
    def _names(self) -> list[str]:
        """Of the lines."""
        return list(dict.fromkeys(name for name, _, _ in self.sizes))

    @property
    def _loss(self) -> str:
        return f"Mean {UNITS.get(self.criterion, self.criterion)}"

    def _draw_sizes(self, ax: Axes, kwargs: dict[str, Any]) -> tuple[list[Any], list[Any]]:
        from matplotlib.ticker import MaxNLocator

        lines, stars = [], []
        for name, (colour, marker) in zip(self._names, cycle(LOOKS), strict=False):
            tried = np.array(sorted((size, loss) for own, size, loss in self.sizes if own == name))
            best = tried[np.argmin(np.where(np.isfinite(tried[:, 1]), tried[:, 1], np.inf))]
            look: dict[str, Any] = {"marker": marker, "markersize": 4.5, "color": colour, **kwargs}
            lines += ax.plot(*tried.T, **({"label": shortened(name, NAME_WIDTH)} | look))
            stars += ax.plot(*best[:, np.newaxis], "*", markersize=14, color=colour, markeredgecolor="white")
        losses = np.array([loss for _, _, loss in self.sizes])
        ax.set_yscale(_loss_scale(losses))
        _few_ticks(ax.yaxis)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        ax.set_xlabel("Size: log2 of the factor on the coordinates")
        ax.set_ylabel(self._loss)
        ax.set_title("Sizes tried, the best starred", loc="left")
        add_legend(ax, lines)
        return lines, stars

    def _draw_candidates(self, ax: Axes) -> list[Any]:
        ranked = sorted(self.candidates, key=lambda candidate: candidate.loss)
        bars = []
        for i, one in enumerate(ranked):
            colour, inside = (BLUE, BLUE) if one.name == self.chosen else (GREY, "white")
            look: dict[str, Any] = {"fmt": "o", "markersize": 7, "capsize": 3, "color": colour}
            bars.append(ax.errorbar(one.loss, i, xerr=one.standard_error, markerfacecolor=inside, **look))
        at = np.arange(len(ranked))
        ax.set_yticks(at - ABOVE, [self._label(one) for one in ranked])
        for label, one in zip(ax.get_yticklabels(), ranked, strict=True):
            label.set(fontweight="bold" if one.name == self.chosen else "normal", ha="left", va="bottom")
        ax.tick_params(axis="y", length=0, pad=-4)
        ax.set_ylim(len(ranked) - 0.7, -0.9)
        ax.hlines(at, 0, 1, transform=ax.get_yaxis_transform(), color=GREY, alpha=0.3, linewidth=0.8, zorder=0)
        ax.set_xscale(_loss_scale(np.array([one.loss for one in ranked])))
        _few_ticks(ax.xaxis)
        ax.set_xlabel(f"{self._loss} ± standard error")
        rows = f" on {self.rows_held_out:,} validation rows" if self.rows_held_out else ""
        ax.set_title(f"Candidates{rows}", loc="left")
        if self.reason:
            why = textwrap.fill(f"Chosen: {self.reason}.", REASON_WIDTH)
            small = 0.9 * text_size(ax)
            label = ax.xaxis.label  # the place is one of the label's, wherever the layout puts that
            ax.annotate(why, (1, 0), (0, -4), label, "offset points", color=GREY, size=small, ha="right", va="top")
        return bars

    def _label(self, one: Any) -> str:
        time = f"{one.seconds:.1f} s" if one.seconds >= 0.05 else "< 0.1 s"
        chosen = ", chosen" if one.name == self.chosen else ""
        return f"{shortened(one.name, NAME_WIDTH)}\nsize {one.size:,}, {time}{chosen}"


def _loss_scale(losses: NDArray) -> str:
    """Logarithmic where the losses differ by factors."""
    finite = losses[np.isfinite(losses)]
    low, high = finite.min(initial=np.inf), finite.max(initial=0.0)
    return "log" if 0 < WIDE * low < high else "linear"


def _few_ticks(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    if axis.get_scale() == "log":
        decade_ticks(axis, "{:g}".format)
    else:
        axis.set_major_locator(MaxNLocator(6))
        axis.set_major_formatter(lambda loss, _: f"{loss:g}")
