"""How all pictures look: colours, sizes of text, names, ticks, legends."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.markup import NAME_WIDTH, cut_all, printed

# Of Okabe and Ito and of Tol's muted scheme, which differ for colour-blind eyes too;
# grey does not stand out.
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, GREY = "#E69F00", "#56B4E9", "#767676"
INDIGO, WINE, OLIVE = "#332288", "#882255", "#999933"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY, INDIGO, WINE, OLIVE)
LOOKS = tuple(zip(COLOURS, "osD^vPX<>p", strict=True))
DOTTED = {"marker": "o", "markersize": 4.5}  # of lines through few points
LARGE_NUMBER = 1e4
NARROW = 5.0  # inches: figures below have smaller text
NARROWEST = 16  # characters of a line
LETTER = 0.52  # mean width of a character over its size
TITLE_GAP = 6.0  # points
# Share of the height of Axes that is left below a title and a legend, at least
LOW = 0.7
BESIDE = 0.2  # share of a figure that Axes leave beside them
LETTERS = "kMGT"


def shortened(name: object, width: int = NAME_WIDTH) -> str:
    """Name of at most `width` characters, as by `shortened_all`."""
    return shortened_all([name], width)[0]


def shortened_all(names: Iterable[object], width: int = NAME_WIDTH) -> list[str]:
    """Several names as by `cut_all`, which stay different; to matplotlib they are no
    formulas, and characters that do not print are their codes.
    """
    return [printed(name).replace("$", r"\$") for name in cut_all(names, width)]


def short_number(value: float) -> str:
    """Three digits, and of large numbers a letter for thousands: 35k instead of
    3.5e+04.
    """
    rounded = float(f"{value:.3g}")
    power = 0
    if abs(rounded) >= LARGE_NUMBER:
        power = min(int(np.log10(abs(rounded)) // 3), len(LETTERS))
    return f"{rounded / 1000**power:g}" + ("", *LETTERS)[power]


def label_axes(
    ax: Any, x: str = "", y: str = "", title: str = "", **properties: Any
) -> None:
    """Write labels and a title at the left; limits and the like are as `Axes.set`
    takes them.
    """
    ax.set(**properties)
    ax.set_xlabel(x or ax.get_xlabel())
    ax.set_ylabel(y or ax.get_ylabel())
    if title:
        ax.set_title(title, loc="left")


def percent_ticks(*axes: Any) -> None:
    """Label the ticks of shares in percent."""
    for axis in axes:
        axis.set_major_formatter(lambda share, _: f"{100 * share:g} %")


def size_ticks(axis: Any, sizes: NDArray, n_ticks: int) -> None:
    """Give a logarithmic axis ticks at some of the sizes themselves."""
    from matplotlib.ticker import FixedLocator, NullLocator

    axis.set_major_locator(FixedLocator(sizes.tolist(), n_ticks))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda size, _: short_number(size))


def of_draws(values: NDArray) -> str:
    """What is shown of values whose second axis are independent draws."""
    draws = values.shape[1]
    return f"Mean and range of {draws} draws" if draws > 1 else "One draw"


def draw_band(ax: Any, x: NDArray, ends: Any, colour: Any, **look: Any) -> Any:
    """Fill the room between two curves, the lower and the upper one in `ends`, with
    a faint colour.
    """
    low, high = ends
    return ax.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0, **look)


def draw_rug(ax: Any, values: NDArray, height: float, **look: Any) -> Any:
    """Mark values along the horizontal axis, at a share of the height of Axes."""
    heights = np.full(len(values), height)
    (line,) = ax.plot(values, heights, "|", transform=ax.get_xaxis_transform(), **look)
    return line


def short_ticks(axis: Any) -> None:
    """Give an axis short labels: 35k instead of 35000, and no factor beside them.

    Ticks are where matplotlib puts them, at 1, 2, 2.5 and 5 of each decade; those of a
    logarithmic axis at 1, 2 and 5.
    """
    from matplotlib.ticker import (
        EngFormatter,
        LogLocator,
        NullFormatter,
        ScalarFormatter,
    )

    if isinstance(axis.get_major_locator(), LogLocator):
        axis.set_major_locator(LogLocator(subs=[1, 2, 5]))
        axis.set_major_formatter(lambda value, _: short_number(value))
        axis.set_minor_formatter(NullFormatter())
        return
    large = np.abs(axis.get_view_interval()).max() >= LARGE_NUMBER
    if large and isinstance(axis.get_major_formatter(), ScalarFormatter):
        axis.set_major_formatter(EngFormatter(sep=""))


def mark_units(axis: Any, unit: str) -> None:
    """Give an axis of times the ticks of a calendar, where `unit` is "days" (since
    1970), and others their unit.
    """
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    if unit == "days":
        locator = AutoDateLocator(minticks=2, maxticks=min(axis.get_tick_space(), 6))
        axis.set_major_locator(locator)
        axis.set_major_formatter(ConciseDateFormatter(locator))
    elif unit:
        axis.set_label_text(f"{axis.get_label_text()} [{unit}]")


def box_around(points: NDArray, room: float) -> tuple[NDArray, NDArray]:
    """Least and largest value of each column of points, and beside them a share of
    the range of the column.
    """
    low = points.min(axis=0)
    high = points.max(axis=0)
    beside = room * np.where(high > low, high - low, 1.0)
    return low - beside, high + beside


def in_first_column(ax: Any, first: Any) -> bool:
    """Whether Axes stand below the first ones, or anywhere."""
    places = [one.get_subplotspec() for one in (ax, first)]
    return None in places or places[0].colspan.start == places[1].colspan.start


def look(k: int) -> tuple[str, str]:
    """Colour and marker of category `k`: of 100 no two are the same, and colours
    come again after 10.
    """
    return LOOKS[k % len(LOOKS)][0], LOOKS[(k + k // len(LOOKS)) % len(LOOKS)][1]


def text_size(ax: Any) -> float:
    """Points of the text of Axes, relative to the user's `font.size`: 9 for 10, and
    8 in a narrow figure.
    """
    from matplotlib import rcParams

    narrow = ax.figure.bbox.width / ax.figure.dpi < NARROW
    return rcParams["font.size"] * (0.8 if narrow else 0.9)


def add_legend(
    ax: Any, handles: Sequence[Any] | None = None, title: str | None = None
) -> Any:
    """Add a legend above the axes, where it hides nothing, in as many columns as fit.

    Parameters
    ----------
    ax : Any
    handles : sequence of artists, optional
        Otherwise all that have a label.
    title : str, optional
    """
    artists = list(ax.get_legend_handles_labels()[0] if handles is None else handles)
    labels = [one.get_label() for one in artists]
    size = text_size(ax)
    entry = (max(map(len, labels), default=0) * LETTER + 4.2) * size
    return ax.legend(
        artists,
        labels,
        ncols=int(np.clip(_points(ax)[0] // entry, 1, max(len(artists), 1))),
        title=title,
        handlelength=1.8,
        columnspacing=1.4,
        labelspacing=0.25,
        borderpad=0.0,
        frameon=False,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        borderaxespad=0.4,
        fontsize=size,
        title_fontsize=size,
        alignment="left",
    )


def add_colour_bar(image: Any, axes: Any, label: str) -> Any:
    """Add a colour bar beside one or more Axes, in the sizes of their text."""
    size = text_size(image.axes)
    bar = image.axes.figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02)
    bar.set_label(label, size=size)
    bar.ax.tick_params(labelsize=0.9 * size)
    bar.outline.set_visible(False)
    return bar


def finish(axes: Sequence[Any]) -> None:
    """Give Axes the one look: sizes of text, titles and labels that fit, room for
    the legend, frames around images.
    """
    for ax in axes:
        size, (width, height) = text_size(ax), _points(ax)
        ax.tick_params(labelsize=0.9 * size)
        for axis, room in ((ax.xaxis, width), (ax.yaxis, LOW * height)):
            short_ticks(axis)
            axis.label.set_fontsize(size)
            axis.get_offset_text().set_fontsize(0.9 * size)
            axis.label.set_text(wrapped(axis.label.get_text(), room / (LETTER * size)))
        pad = TITLE_GAP
        if legend := ax.get_legend():
            pad += legend.get_window_extent().height / ax.figure.dpi * 72 + TITLE_GAP
        title = wrapped(ax.get_title(loc="left"), width / (LETTER * size))
        ax.set_title(title, loc="left", fontsize=size, pad=pad)
        if not ax.images:
            ax.spines[["top", "right"]].set_visible(False)


def _points(ax: Any) -> tuple[float, float]:
    """Width and height of Axes in points, about, less what names beside them take."""
    from matplotlib.ticker import FixedLocator

    figure = ax.figure
    place = ax.get_position()
    scale = 72 / figure.dpi
    whole = figure.bbox.width * scale
    width = place.width * whole
    if isinstance(ax.yaxis.get_major_locator(), FixedLocator):
        names = "\n".join(label.get_text() for label in ax.get_yticklabels())
        longest = max(map(len, names.split("\n")))
        width = min(width, width + BESIDE * whole - longest * LETTER * text_size(ax))
    return width, place.height * figure.bbox.height * scale


def wrapped(text: str, width: float) -> str:
    """A text in lines of at most `width` characters; its own line breaks stay."""
    fits = max(int(width), NARROWEST)
    return "\n".join(textwrap.fill(line, fits) for line in text.split("\n"))
