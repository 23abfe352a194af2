"""Draws charts as inline SVG, in colours of the page, with a table of their numbers
for who does not see them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import ArrayLike, NDArray

from bochner.display.canvas import short_number
from bochner.markup import Markup, cut, cut_all, number, table, text

BOX = SimpleNamespace(
    WIDTH=360, HEIGHT=230, LEFT=52, RIGHT=350, TOP=12, BOTTOM=190, BAR=19, BARS_FROM=140
)
NAME_LENGTH, VALUE_ROOM, MARGIN = 20, 62, 12
# Height of a row of points; colours from low to high, and of no order
SWARM_ROW, SHADES, GREY_SHADE = 26, 3, 3
LARGE = 1000  # from which ticks have letters for thousands

templates = Environment(
    loader=PackageLoader("bochner.report", ""),
    autoescape=True,
    finalize=lambda value: value if hasattr(value, "__html__") else text(value),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
templates.globals["box"] = BOX
templates.filters["place"] = "{:.1f}".format


@dataclass(frozen=True)
class Series:
    """What one colour shows.

    Attributes
    ----------
    name : str
    x, y : arrays of shape (k,)
    low, high : arrays of shape (k,), or empty
        Ends of intervals of y.
    kind : {"line", "marked", "points", "band"}
        A line, one with its points and their intervals, points alone, or a line in a
        band.
    """

    name: str
    x: Any
    y: Any
    low: Any = field(default_factory=list)
    high: Any = field(default_factory=list)
    kind: str = "marked"


@dataclass(frozen=True)
class Axis:
    """From values to places along a side of a chart."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    ticks: tuple[float, ...] = ()
    is_date: bool = False

    @classmethod
    def over(
        cls,
        values: Iterable[float],
        start: float,
        end: float,
        log: bool = False,
        ticks: Sequence[float] = (),
    ) -> Axis:
        """An axis that shows all values that are finite."""
        known = np.array(
            [value for value in values if math.isfinite(value)] or [0.0, 1.0],
            np.float64,
        )
        if log:
            return cls(
                float(known.min()) / 1.15,
                float(known.max()) * 1.15,
                start,
                end,
                True,
                tuple(ticks),
            )
        room = 0.05 * float(np.ptp(known)) or 0.5 * abs(float(known[0])) or 0.5
        low, high = float(known.min()) - room, float(known.max()) + room
        return cls(low, high, start, end, False, tuple(ticks) or _nice(low, high))

    def __call__(self, values: ArrayLike) -> NDArray[np.float64]:
        """Places of values."""
        given = np.asarray(values, np.float64)
        low, high, given = (
            (np.log(v) for v in (self.low, self.high, given))
            if self.log
            else (self.low, self.high, given)
        )
        return self.start + (self.end - self.start) * (given - low) / (high - low)

    @property
    def marks(self) -> list[tuple[str, float]]:
        """Labels of the ticks, and their places."""
        return [(self.named(value), float(self(value))) for value in self.ticks]

    def named(self, value: float) -> str:
        """A value as the label of a tick."""
        return (
            str(np.datetime64(round(value), "D"))
            if self.is_date
            else short_number(value, LARGE)
        )


def _nice(low: float, high: float, most: int = 5) -> tuple[float, ...]:
    """Round values within an interval."""
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = power * next(
        unit for unit in (1, 2, 2.5, 5, 10) if unit * power >= raw * 0.999
    )
    return tuple(
        (np.arange(math.ceil(low / step), math.floor(high / step) + 1) * step).tolist()
    )


def rendered(template: str, macro: str, **values: Any) -> Markup:
    """What a macro of a template writes."""
    return Markup(getattr(templates.get_template(template).module, macro)(**values))


def line_chart(
    title: str,
    labels: tuple[str, str],
    series: Sequence[Series],
    log: bool = False,
    diagonal: bool = False,
    shaded: Iterable[Sequence[float]] = (),
    is_date: bool = False,
) -> Markup:
    """A chart of lines and points, and the table of its numbers.

    Parameters
    ----------
    title : str
    labels : (str, str)
        Of the axes, with units.
    series : sequence of Series
    log : bool, default=False
        Whether the horizontal axis is logarithmic, with a tick at each value of the
        first series.
    diagonal : bool, default=False
        Whether the line y = x is drawn, in the square from 0 to 1.
    shaded : iterable of (float, float)
        Ends of regions of the horizontal axis.
    is_date : bool, default=False
        Whether the horizontal axis has days since 1970.
    """
    everywhere = [float(v) for one in series for v in one.x]
    heights = [
        float(v) for one in series for part in (one.y, one.low, one.high) for v in part
    ]
    if diagonal:
        everywhere, heights = [0.0, 1.0], [0.0, 1.0]
    x = Axis.over(
        everywhere, BOX.LEFT, BOX.RIGHT, log, _thinned(series[0].x) if log else ()
    )
    x = replace(x, is_date=is_date, ticks=x.ticks[:: 1 + is_date])
    y = Axis.over(heights, BOX.BOTTOM, BOX.TOP)
    return rendered(
        "charts.html",
        "line_chart",
        title=title,
        x=x,
        y=y,
        labels=(cut(labels[0], 48), cut(labels[1], 32)),
        shaded=[x(ends).tolist() for ends in shaded],
        drawn=[_drawn(one, x, y) for one in series],
        diagonal=_path(x([0, 1]), y([0, 1])) if diagonal else "",
        legend=[cut(one.name) for one in series] if len(series) > 1 else [],
        numbers=_numbers(title, labels, series, x),
    )


def _thinned(values: Any) -> list[float]:
    """At most five ticks, the last of them among them."""
    step = -(-len(values) // 5)
    return [float(value) for value in list(values)[::-1][::step]]


def _drawn(one: Series, x: Axis, y: Axis) -> dict[str, Any]:
    """Paths by their classes, and the places of marks."""
    at, height, paths = x(one.x), y(one.y), list[tuple[str, str]]()
    points = list(zip(at, height, strict=True))
    if one.kind == "points":
        return {"paths": [("dots", _dots(at, height))], "marks": []}
    if len(one.low) and one.kind == "band":
        edge = _path(
            np.concatenate([at, at[::-1]]),
            np.concatenate([y(one.high), y(one.low)[::-1]]),
        )
        paths.append(("band", f"{edge}Z"))
    elif len(one.low):
        whiskers = zip(at, y(one.low), y(one.high), strict=True)
        paths.append(
            ("line", "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in whiskers))
        )
    return {
        "paths": [*paths, ("line", _path(at, height))],
        "marks": points if one.kind == "marked" else [],
    }


def _dots(x: NDArray, y: NDArray) -> str:
    return "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(x, y, strict=True))


def _path(x: NDArray, y: NDArray) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))


def _numbers(
    title: str, labels: tuple[str, str], series: Sequence[Series], axis: Axis
) -> Markup | None:
    """What lines and bands show, as a table; points alone have too many numbers."""
    rows = []
    for one in series:
        if one.kind == "points":
            continue
        ends = [
            f"{number(a)} to {number(b)}"
            for a, b in zip(one.low, one.high, strict=True)
        ] or [""] * len(one.x)
        rows += [
            (
                cut(one.name),
                axis.named(a) if axis.is_date else number(float(a)),
                number(float(b)),
                between,
            )
            for a, b, between in zip(one.x, one.y, ends, strict=True)
        ]
    return table(title, ("", *map(cut, labels), "interval"), rows) if rows else None


def bar_chart(
    title: str,
    names: Sequence[str],
    values: Sequence[float],
    shown: Sequence[str],
    halves: Sequence[float] = (),
) -> Markup:
    """Horizontal bars from zero with their values, perhaps within intervals, and the
    table of these.

    Parameters
    ----------
    title : str
    names, values, shown : sequences of as many str, float and str
        Names, lengths, and the same as text.
    halves : sequence of float
        Half the widths of intervals.
    """
    errors = list(halves) or [0.0] * len(values)
    ends = [
        end
        for value, half in zip(values, errors, strict=True)
        for end in (value - half, value + half)
    ]
    x = Axis(
        min([*ends, 0.0]),
        max([*ends, 0.0]) or 1.0,
        BOX.BARS_FROM,
        BOX.WIDTH - VALUE_ROOM,
    )
    bars = [
        _bar(name, label, x([min(value, 0.0), max(value, 0.0)]), k)
        | {"whisker": x([value - half, value + half]).tolist() if halves else None}
        for k, (name, value, label, half) in enumerate(
            zip(cut_all(names, NAME_LENGTH), values, shown, errors, strict=True)
        )
    ]
    return _bars(
        title,
        bars,
        table(
            title, ("column", "value"), list(zip(cut_all(names), shown, strict=True))
        ),
    )


def step_chart(
    title: str,
    base: float,
    names: Sequence[str],
    steps: Sequence[float],
    note: str = "",
) -> Markup:
    """Bars that begin where the one below ends, the lowest at a base that a line
    marks; with a note below.
    """
    ends = base + np.cumsum(np.asarray(steps, np.float64)[::-1])[::-1]
    x = Axis.over([base, *ends], BOX.BARS_FROM, BOX.WIDTH - VALUE_ROOM)
    bars = [
        _bar(
            name,
            "+" * (step > 0) + short_number(step, LARGE),
            x(sorted((end - step, end))),
            k,
        )
        | {"colour": f"s{int(step > 0)}"}
        for k, (name, step, end) in enumerate(
            zip(cut_all(names, NAME_LENGTH), steps, ends, strict=True)
        )
    ]
    numbers = table(
        title,
        ("column", "step"),
        [
            (name, number(step))
            for name, step in zip(cut_all(names), steps, strict=True)
        ],
    )
    return _bars(title, bars, numbers, rule=float(x(base)), note=note)


def _bar(name: str, value: str, ends: NDArray, k: int) -> dict[str, Any]:
    look = {
        "top": 4 + BOX.BAR * k,
        "start": float(ends[0]),
        "length": float(ends[1] - ends[0]),
        "colour": "s0",
    }
    return {"name": name, "value": value, "whisker": None, **look}


def _bars(
    title: str, bars: list[dict[str, Any]], numbers: Markup, **more: Any
) -> Markup:
    height = BOX.BAR * len(bars) + 8
    return rendered(
        "charts.html",
        "bar_chart",
        title=title,
        bars=bars,
        height=height,
        numbers=numbers,
        **more,
    )


def swarm_chart(
    title: str,
    label: str,
    names: Sequence[str],
    values: NDArray,
    offsets: NDArray,
    places: NDArray,
) -> Markup:
    """Points of a row for each column, coloured by the place of a value in its column.

    Parameters
    ----------
    title, label : str
    names : sequence of d str
    values, offsets, places : arrays of shape (n, d)
        Along the axis; across it, from -1/2 to 1/2; from 0 to 1, NaN for what has no
        order.
    """
    x = Axis.over(values.ravel().tolist(), BOX.BARS_FROM, BOX.RIGHT)
    x = replace(x, ticks=x.ticks[::2])
    swarms = []
    shade = np.where(
        np.isnan(places),
        GREY_SHADE,
        np.minimum(np.nan_to_num(places) * SHADES, SHADES - 1),
    ).astype(int)
    for j, name in enumerate(cut_all(names, NAME_LENGTH)):
        at, across = SWARM_ROW * (j + 0.5), x(values[:, j])
        height, paths = at + SWARM_ROW * 0.95 * offsets[:, j], []
        for k in np.unique(shade[:, j]).tolist():
            own = shade[:, j] == k
            paths.append(
                (
                    f"q{k}",
                    "".join(
                        f"M{a:.1f} {b:.1f}h0"
                        for a, b in zip(across[own], height[own], strict=True)
                    ),
                )
            )
        swarms.append({"name": name, "at": at, "paths": paths})
    room = SWARM_ROW * len(names) + 36
    return rendered(
        "charts.html",
        "swarm_chart",
        title=title,
        x=x,
        label=label,
        swarms=swarms,
        height=room,
    )


def matrix_chart(
    title: str, names: Sequence[str], sizes: NDArray, numbers: Markup
) -> Markup:
    """A square for each pair, the darker the larger; the diagonal is left out."""
    side, most = (
        (BOX.WIDTH - BOX.BARS_FROM - 8) / max(len(names), 6),
        float(sizes.max()) or 1.0,
    )
    apart = [(i, j) for i in range(len(names)) for j in range(len(names)) if i != j]
    cells = [(i, j, 0.04 + 0.96 * float(sizes[i, j]) / most) for i, j in apart]
    short, height = cut_all(names, NAME_LENGTH), side * len(names) + 130
    values = {
        "names": short,
        "cells": cells,
        "side": side,
        "height": height,
        "numbers": numbers,
    }
    return rendered("charts.html", "matrix_chart", title=title, **values)


def interval_chart(
    title: str,
    label: str,
    names: Sequence[str],
    ends: Sequence[tuple[float, float, float]],
    first: bool = False,
) -> Markup:
    """Values within intervals (lowest, value, highest), one below the other; the
    first one may stand out.
    """
    x = Axis.over([v for end in ends for v in end], MARGIN, BOX.WIDTH - MARGIN)
    intervals = []
    for k, (name, end) in enumerate(zip(cut_all(names, 52), ends, strict=True)):
        low, value, high = x(end).tolist()
        look = {
            "at": 2 * BOX.BAR * k + 28,
            "colour": f"s{5 if first and k else 0}",
            "stands_out": first and not k,
        }
        intervals.append(
            {"name": name, "low": low, "value": value, "high": high, **look}
        )
    rows = [
        (name, *map(number, end))
        for name, end in zip(cut_all(names, 52), ends, strict=True)
    ]
    return rendered(
        "charts.html",
        "interval_chart",
        title=title,
        x=x,
        label=label,
        intervals=intervals,
        height=2 * BOX.BAR * len(names) + 34,
        numbers=None if first else table(title, ("value", "from", label, "to"), rows),
    )
