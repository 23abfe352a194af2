"""Embeds figures of matplotlib in the page, as SVG in colours of the page."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from io import StringIO
from typing import Any
from xml.etree import ElementTree

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler

from bochner.display import canvas
from bochner.display.base import Display
from bochner.markup import Markup, printed, tag

WIDTH, HEIGHT = 4.6, 3.2  # inches: half of a wide screen, or all of a phone's
# A few shades of one blue, through which the page is seen
SHADES = LinearSegmentedColormap.from_list(
    "shades", [(canvas.BLUE, 0.03), (canvas.BLUE, 0.65)], N=16
)
# Texts stay texts, lines lose points that nobody sees, and names are always the same
LOOK: Any = {
    "axes.facecolor": "none",
    "axes.prop_cycle": cycler(color=canvas.COLOURS),
    "figure.facecolor": "none",
    "font.size": 10.5,
    "path.simplify_threshold": 0.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "bochner",
} | canvas.STYLE
# Names in style.css for colours of the displays
VARIABLES = {
    canvas.BLUE: "c0",
    canvas.VERMILION: "c1",
    canvas.GREEN: "c2",
    canvas.PURPLE: "c3",
    canvas.ORANGE: "c4",
    canvas.GREY: "c5",
    "#000000": "ink",
    "#ffffff": "paper",
}
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def chart(
    key: str, title: str | None, draw: Callable[[Axes], Any], height: float = HEIGHT
) -> Markup:
    """A figure of the page.

    Parameters
    ----------
    key : str
        Of no other chart of the page, with which the identifiers within begin.
    title : str or None
        None takes the one that is drawn.
    draw : callable
        Draws on Axes, or on panels in their place.
    height : float, default=3.2
        Inches, of a width of 4.6.
    """
    written = StringIO()
    # Whatever style the user draws in, the page has its own
    with style.context(["default", LOOK]), warnings.catch_warnings():
        # The browser has glyphs that the font of matplotlib lacks
        warnings.filterwarnings("ignore", "Glyph|Matplotlib currently does not support")
        figure = Figure((WIDTH, height), dpi=72, layout="constrained")
        ax = figure.add_subplot()
        draw(ax)
        if ax.axison:
            canvas.finish([ax])
        for panel in figure.axes:
            title = title or panel.get_title(loc="left").replace(r"\$", "$")
            panel.set_title("")
            _draw_cells(panel)
        figure.savefig(written, format="svg", metadata=NO_METADATA)
    drawn = _inline(written.getvalue(), key, printed(title))
    return tag("figure", tag("figcaption", title), drawn)


def display_chart(
    key: str, display: Display, title: str | None = None, **look: Any
) -> Markup:
    """A display as a figure of the page; keywords are those of its `plot`."""
    height = display.height(WIDTH)
    return chart(key, title, lambda ax: display.plot(ax, **look), height)


def _draw_cells(ax: Axes) -> None:
    """Draw images as cells, which are sharp at any size."""
    images: list[Any] = list(ax.images)
    for image in images:
        values = image.get_array()
        rows, columns = (np.arange(n + 1) - 0.5 for n in values.shape)
        ax.pcolormesh(columns, rows, values, zorder=0, cmap=image.cmap, norm=image.norm)
        image.remove()


def _inline(svg: str, key: str, title: str) -> Markup:
    """The SVG of matplotlib as an element of a page, without what only a file needs."""
    root = ElementTree.fromstring(svg)
    root.remove(root[0])  # rules of style that would be those of the whole page
    look = {"viewBox": root.attrib["viewBox"], "role": "img", "aria_label": title}
    return tag("svg", *(_element(node, key) for node in root), **look)


def _element(node: ElementTree.Element, key: str) -> Markup:
    """An element of XML as one of HTML, in the colours and the font of the page, and
    with names that no other chart has.
    """
    attributes = {}
    for name, value in node.attrib.items():
        look = value
        for colour, variable in VARIABLES.items():
            look = look.replace(colour.lower(), f"var(--{variable})")
        look = re.sub("font-family: [^;]*(; )?", "", look)
        look = re.sub(r"(\.\d\d)\d+", r"\1", look)  # the eye needs no more digits
        attributes[_local(name)] = re.sub(r"^#|url\(#", rf"\g<0>{key}-", look)
    kind = _local(node.tag)
    name = attributes.pop("id", "")
    if name and kind != "g":
        attributes["id"] = f"{key}-{name}"
    inside = (node.text or "").strip() or None
    return tag(kind, inside, *(_element(one, key) for one in node), **attributes)


def _local(name: str) -> str:
    """Name of an element or attribute without its namespace."""
    return name.rpartition("}")[2]
