"""How all pictures look: colours, sizes of text, names, ticks, legends."""

from __future__ import annotations

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
LETTER = 0.52  # mean width of a character over its size
# Settings of matplotlib while a display draws: all text is a little smaller than the
# user's
STYLE: Any = {
    "axes.labelsize": "small",
    "axes.titlelocation": "left",
    "axes.titlesize": "small",
    "legend.borderaxespad": 0.4,
    "legend.borderpad": 0.0,
    "legend.columnspacing": 1.4,
    "legend.fontsize": "small",
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "legend.labelspacing": 0.25,
    "legend.title_fontsize": "small",
}


def shortened(name: object, width: int = NAME_WIDTH) -> str:
    """Name of at most `width` characters, as by `shortened_all`."""
    return shortened_all([name], width)[0]


def shortened_all(names: Iterable[object], width: int = NAME_WIDTH) -> list[str]:
    """Several names as by `cut_all`, which stay different; to matplotlib they are no
    formulas, and characters that do not print are their codes.
    """
    return [printed(name).replace("$", r"\$") for name in cut_all(names, width)]


def percent_ticks(*axes: Any) -> None:
    """Label the ticks of shares in percent."""
    for axis in axes:
        axis.set_major_formatter(lambda share, _: f"{100 * share:g} %")


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


def look(k: int) -> tuple[str, str]:
    """Colour and marker of category `k`: of 100 no two are the same, and colours
    come again after 10.
    """
    return LOOKS[k % len(LOOKS)][0], LOOKS[(k + k // len(LOOKS)) % len(LOOKS)][1]


def add_legend(
    ax: Any, handles: Sequence[Any] | None = None, title: str | None = None
) -> None:
    """Add a legend above the axes, where it hides nothing, in as many columns as fit.

    Parameters
    ----------
    ax : Any
    handles : sequence of artists, optional
        Otherwise all that have a label.
    title : str, optional
    """
    artists = ax.get_legend_handles_labels()[0] if handles is None else list(handles)
    longest = max((len(one.get_label()) for one in artists), default=0)
    size = ax.xaxis.label.get_fontsize()
    width = ax.get_window_extent().width / ax.figure.dpi * 72
    n = int(width / ((longest * LETTER + 4.2) * size))
    ax.legend(
        handles=artists,
        ncols=np.clip(n, 1, max(len(artists), 1)),
        title=title,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        alignment="left",
    )


def add_colour_bar(image: Any, axes: Any, label: str) -> Any:
    """Add a colour bar beside one or more Axes."""
    bar = image.axes.figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02, label=label)
    bar.ax.tick_params(labelsize="small")
    bar.outline.set_visible(False)
    return bar


def finish(axes: Sequence[Any]) -> None:
    """Give Axes the one look: sizes of text, short labels of ticks, room for the
    legend, frames around images alone.
    """
    for ax in axes:
        ax.tick_params(labelsize="small")
        for axis in (ax.xaxis, ax.yaxis):
            axis.label.set_fontsize("small")
            axis.get_offset_text().set_fontsize("small")
            _short_ticks(axis)
        if legend := ax.get_legend():
            height = legend.get_window_extent().height / ax.figure.dpi * 72
            ax.set_title(ax.get_title(loc="left"), pad=height + 12)
        ax.spines[["top", "right"]].set_visible(bool(ax.images))


def _short_ticks(axis: Any) -> None:
    """Give an axis short labels: 35k instead of 35000, and no factor beside them; a
    short logarithmic one has ticks at 1, 2 and 5.
    """
    from matplotlib.ticker import (
        EngFormatter,
        LogLocator,
        NullFormatter,
        ScalarFormatter,
    )

    low, high = axis.get_view_interval()
    if axis.get_scale() == "log":
        # From two decades on only powers of ten have labels
        subs = [1, 2, 5] if high < 100 * low else [1]
        axis.set_major_locator(LogLocator(subs=subs))
        axis.set_minor_formatter(NullFormatter())
    elif not isinstance(axis.get_major_formatter(), ScalarFormatter):
        return
    if max(-low, high) >= 1e4:
        axis.set_major_formatter(EngFormatter(sep=""))
    elif axis.get_scale() == "log":
        axis.set_major_formatter("{x:g}")
