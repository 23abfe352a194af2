"""Draws charts as inline SVG, in colours of the page, with a table of their numbers for who does not see them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.markup import Markup, joined, number, table, tag

WIDTH, HEIGHT = 360, 230
LEFT, RIGHT, TOP, BOTTOM = 52, 10, 12, 40  # room for labels
BAR, NAME_ROOM, NAME_LENGTH, VALUE_ROOM = 19, 140, 22, 62
SYMBOLS = "kMGT"


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
        A line, one with its points and their intervals, points alone, or a line in a band.
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

    @classmethod
    def over(
        cls, values: Iterable[float], start: float, end: float, log: bool = False, ticks: Sequence[float] = ()
    ) -> Axis:
        """An axis that shows all values that are finite."""
        known = np.array([value for value in values if math.isfinite(value)] or [0.0, 1.0], np.float64)
        if log:
            return cls(float(known.min()) / 1.15, float(known.max()) * 1.15, start, end, True, tuple(ticks))
        room = 0.05 * float(np.ptp(known)) or 0.5 * abs(float(known[0])) or 0.5
        low, high = float(known.min()) - room, float(known.max()) + room
        return cls(low, high, start, end, False, tuple(ticks) or _nice(low, high))

    def __call__(self, values: ArrayLike) -> NDArray[np.float64]:
        """Places of values."""
        given = np.asarray(values, np.float64)
        low, high, given = (
            (np.log(v) for v in (self.low, self.high, given)) if self.log else (self.low, self.high, given)
        )
        return self.start + (self.end - self.start) * (given - low) / (high - low)


def _nice(low: float, high: float, most: int = 5) -> tuple[float, ...]:
    """Round values within an interval."""
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = power * next(unit for unit in (1, 2, 2.5, 5, 10) if unit * power >= raw * 0.999)
    return tuple((np.arange(math.ceil(low / step), math.floor(high / step) + 1) * step).tolist())


def short(value: float) -> str:
    """A few digits, and a letter for thousands."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.3g}")
    power = min(int(math.log10(abs(rounded)) // 3), len(SYMBOLS)) if abs(rounded) >= 1000 else 0
    return f"{rounded / 1000**power:g}{('', *SYMBOLS)[power]}"


def line_chart(
    title: str, labels: tuple[str, str], series: Sequence[Series], log: bool = False, diagonal: bool = False
) -> Markup:
    """A chart of lines and points, and the table of its numbers.

    Parameters
    ----------
    title : str
    labels : (str, str)
        Of the axes, with units.
    series : sequence of Series
    log : bool, default=False
        Whether the horizontal axis is logarithmic, with a tick at each value of the first series.
    diagonal : bool, default=False
        Whether the line y = x is drawn, in the square from 0 to 1.
    """
    everywhere = [float(v) for one in series for v in one.x]
    heights = [float(v) for one in series for part in (one.y, one.low, one.high) for v in part]
    if diagonal:
        everywhere, heights = [0.0, 1.0], [0.0, 1.0]
    x = Axis.over(everywhere, LEFT, WIDTH - RIGHT, log, _thinned(series[0].x) if log else ())
    y = Axis.over(heights, HEIGHT - BOTTOM, TOP)
    parts = [_frame(x, y, labels)]
    if diagonal:
        parts.append(tag("path", class_="guide", d=_path(x([0, 1]), y([0, 1]))))
    parts += [_drawn(one, k, x, y) for k, one in enumerate(series)]
    legend = [one.name for one in series] if len(series) > 1 else []
    return _figure(title, joined(parts), HEIGHT, legend, _numbers(title, labels, series))


def _thinned(values: Any) -> list[float]:
    """At most five ticks, the last of them among them."""
    step = -(-len(values) // 5)
    return [float(value) for value in list(values)[::-1][::step]]


def _frame(x: Axis, y: Axis, labels: tuple[str, str]) -> Markup:
    bottom, parts = HEIGHT - BOTTOM, []
    for value, at in zip(y.ticks, y(y.ticks) if y.ticks else (), strict=True):
        parts.append(tag("path", class_="grid", d=f"M{LEFT} {at:.1f}H{WIDTH - RIGHT}"))
        parts.append(tag("text", short(value), x=LEFT - 5, y=f"{at + 3.5:.1f}", text_anchor="end"))
    for value, at in zip(x.ticks, x(x.ticks) if x.ticks else (), strict=True):
        parts.append(tag("path", class_="axis", d=f"M{at:.1f} {bottom}v4"))
        parts.append(tag("text", short(value), x=f"{at:.1f}", y=bottom + 15, text_anchor="middle"))
    parts.append(tag("path", class_="axis", d=f"M{LEFT} {bottom}H{WIDTH - RIGHT}"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(tag("text", cut(labels[0], 48), class_="label", x=middle, y=HEIGHT - 6, text_anchor="middle"))
    turned = f"translate(11 {(TOP + bottom) / 2:.0f}) rotate(-90)"
    parts.append(tag("text", cut(labels[1], 32), class_="label", transform=turned, text_anchor="middle"))
    return joined(parts)


def _drawn(one: Series, k: int, x: Axis, y: Axis) -> Markup:
    at, height, parts = x(one.x), y(one.y), list[Markup]()
    colour = f"s{k % 5}"
    if one.kind == "points":
        dots = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(at, height, strict=True))
        return tag("path", class_=f"dots {colour}", d=dots)
    if len(one.low) and one.kind == "band":
        edge = _path(np.concatenate([at, at[::-1]]), np.concatenate([y(one.high), y(one.low)[::-1]]))
        parts.append(tag("path", class_=f"band {colour}", d=f"{edge}Z"))
    elif len(one.low):
        whiskers = zip(at, y(one.low), y(one.high), strict=True)
        parts.append(
            tag("path", class_=f"line {colour}", d="".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in whiskers))
        )
    parts.append(tag("path", class_=f"line {colour}", d=_path(at, height)))
    if one.kind == "marked":
        marks = zip(at, height, strict=True)
        parts += [tag("circle", class_=f"mark {colour}", cx=f"{a:.1f}", cy=f"{b:.1f}", r=3.2) for a, b in marks]
    return joined(parts)


def _path(x: NDArray, y: NDArray) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))


def _numbers(title: str, labels: tuple[str, str], series: Sequence[Series]) -> Markup | None:
    """What lines and bands show, as a table; points alone have too many numbers."""
    rows = []
    for one in series:
        if one.kind == "points":
            continue
        ends = [f"{number(a)} to {number(b)}" for a, b in zip(one.low, one.high, strict=True)] or [""] * len(one.x)
        rows += [
            (one.name, number(float(a)), number(float(b)), between)
            for a, b, between in zip(one.x, one.y, ends, strict=True)
        ]
    return table(title, ("", *labels, "interval"), rows) if rows else None


def bar_chart(title: str, names: Sequence[str], values: Sequence[float], shown: Sequence[str]) -> Markup:
    """Horizontal bars with their values beside them, and the table of these."""
    height, room = BAR * len(names) + 8, WIDTH - NAME_ROOM - VALUE_ROOM
    largest, parts = max([*values, 0.0]) or 1.0, []
    for k, (name, value, label) in enumerate(zip(names, values, shown, strict=True)):
        top, length = 4 + BAR * k, room * value / largest
        named = tag("text", cut(name, NAME_LENGTH), x=NAME_ROOM - 6, y=top + 12, text_anchor="end")
        parts.append(named)
        bar = {"x": NAME_ROOM, "y": top + 2, "width": f"{length:.1f}", "height": BAR - 5}
        parts.append(tag("rect", class_="bar s0", **bar))
        parts.append(tag("text", label, x=f"{NAME_ROOM + length + 5:.1f}", y=top + 12))
    rows = list(zip(names, shown, strict=True))
    return _figure(title, joined(parts), height, (), table(title, ("column", "value"), rows))


def interval_chart(
    title: str, label: str, names: Sequence[str], ends: Sequence[tuple[float, float, float]], first: bool = False
) -> Markup:
    """Values within intervals (lowest, value, highest), one below the other; the first one may stand out."""
    height = 2 * BAR * len(names) + 34
    x, bottom = Axis.over([v for end in ends for v in end], 12, WIDTH - 12), height - 32
    parts = [tag("path", class_="axis", d=f"M12 {bottom}H{WIDTH - 12}")]
    for value, at in zip(x.ticks, x(x.ticks) if x.ticks else (), strict=True):
        parts.append(tag("path", class_="grid", d=f"M{at:.1f} 4V{bottom}"))
        parts.append(tag("text", short(value), x=f"{at:.1f}", y=bottom + 14, text_anchor="middle"))
    parts.append(tag("text", label, class_="label", x=WIDTH / 2, y=height - 4, text_anchor="middle"))
    rows = [(name, *map(number, end)) for name, end in zip(names, ends, strict=True)]
    numbers = table(title, ("value", "from", label, "to"), rows)
    for k, (name, end) in enumerate(zip(names, ends, strict=True)):
        colour, at, low, high = f"s{5 if first and k else 0}", 2 * BAR * k + 28, *x([end[0], end[2]])
        parts.append(tag("text", cut(name, 52), x=12, y=at - 11, class_="strong" if first and not k else None))
        parts.append(tag("path", class_=f"line {colour}", d=f"M{low:.1f} {at}H{high:.1f}"))
        parts.append(tag("circle", class_=f"mark {colour}", cx=f"{float(x(end[1])):.1f}", cy=at, r=4))
    return _figure(title, joined(parts), height, (), None if first else numbers)


def _figure(title: str, content: Markup, height: float, legend: Sequence[str], numbers: Markup | None) -> Markup:
    """A picture with its title, what its colours are, and its numbers where they can be read."""
    names = [tag("li", tag("span", class_=f"key s{k}", aria_hidden="true"), name) for k, name in enumerate(legend)]
    drawing = tag("svg", content, viewBox=f"0 0 {WIDTH} {height:g}", role="img", aria_label=title)
    details = tag("details", tag("summary", "Numbers of this chart"), scrolled(numbers)) if numbers else None
    return tag(
        "figure", tag("figcaption", title), drawing, tag("ul", *names, class_="legend") if names else None, details
    )


def scrolled(content: Any) -> Markup:
    """A box that scrolls by itself where its content is too wide."""
    return tag("div", content, class_="scroll", tabindex=0)


def cut(name: object, length: int) -> str:
    """A name of at most so many characters, its middle left out where it is longer."""
    whole = " ".join(str(name).split())
    tail = (length - 1) // 2
    return whole if len(whole) <= length else f"{whole[: length - 1 - tail]}…{whole[len(whole) - tail :]}"
