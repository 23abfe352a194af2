"""Embeds figures of matplotlib in the page, as SVG in colours of the page."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from io import StringIO
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler

from bochner.display import canvas
from bochner.display.base import Display
from bochner.markup import Markup, tag

WIDTH, HEIGHT = 4.6, 3.2  # inches: half of a wide screen, or all of a phone's
POINTS = 72  # of an inch
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
        figure = Figure((WIDTH, height), dpi=POINTS, layout="constrained")
        ax = figure.add_subplot()
        draw(ax)
        if ax.axison:
            canvas.finish([ax])
        for panel in figure.axes:
            title = title or panel.get_title(loc="left").replace(r"\$", "$")
            panel.set_title("")
            # Images as cells, which are sharp at any size
            images: list[Any] = list(panel.images)
            for image in images:
                values = image.get_array()
                edges = (np.arange(n + 1) - 0.5 for n in values.shape[::-1])
                look = {"cmap": image.cmap, "norm": image.norm, "zorder": 0}
                panel.pcolormesh(*edges, values, **look)
                image.remove()
        figure.savefig(written, format="svg", metadata=NO_METADATA)
    # The SVG as an element of a page, without what only a file needs. What comes first
    # are rules of style, which would be those of the whole page
    _, _, inside = written.getvalue().partition("</defs>")
    inside = re.sub(r"\s*\n\s*", " ", inside.removesuffix("</svg>\n"))
    # In elements, not in texts, which hold no ">" of their own
    inside = re.sub("<[^>]+>", lambda element: _of_page(element[0], key), inside)
    box = f"0 0 {POINTS * WIDTH:g} {POINTS * height:g}"
    drawn = tag("svg", Markup(inside), viewBox=box, role="img", aria_label=title)
    return tag("figure", tag("figcaption", title), drawn)


def display_chart(
    key: str, display: Display, title: str | None = None, **look: Any
) -> Markup:
    """A display as a figure of the page; keywords are those of its `plot`."""
    height = display.height(WIDTH)
    return chart(key, title, lambda ax: display.plot(ax, **look), height)


def _of_page(element: str, key: str) -> str:
    """An element in the colours and the font of the page, and with names that no other
    chart has.
    """
    for colour, variable in VARIABLES.items():
        element = element.replace(colour.lower(), f"var(--{variable})")
    element = re.sub(r'font-family: [^;"]*(; )?', "", element)
    element = re.sub(r"(\.\d\d)\d+", r"\1", element)  # the eye needs no more digits
    element = re.sub('<g id="[^"]*"', "<g", element)
    element = element.replace("xlink:href", "href")
    return re.sub(r'( id="|href="#|url\(#)', rf"\g<1>{key}-", element)
