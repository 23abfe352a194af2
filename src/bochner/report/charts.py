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
from matplotlib.backends.backend_svg import FigureCanvasSVG
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
# Texts stay texts, and lines lose points that nobody sees
LOOK: Any = {
    "axes.facecolor": "none",
    "axes.prop_cycle": cycler(color=canvas.COLOURS),
    "figure.facecolor": "none",
    "font.size": 11.0,
    "legend.fontsize": "small",
    "legend.frameon": False,
    "path.simplify_threshold": 0.5,
    "svg.fonttype": "none",
}
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
PLACES = {"d", "x", "y", "width", "height", "transform"}
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def chart(
    key: str, title: str, draw: Callable[[Axes], Any], height: float = HEIGHT
) -> Markup:
    """A figure of the page.

    Parameters
    ----------
    key : str
        Of no other chart of the page, with which the identifiers within begin.
    title : str
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
            panel.set_title("", loc="left")
            _draw_cells(panel)
        # Laid out and drawn once, where `savefig` draws twice
        engine: Any = figure.get_layout_engine()
        engine.execute(figure)
        figure.set_layout_engine("none")
        FigureCanvasSVG(figure).print_svg(written, metadata=NO_METADATA)
    drawn = _inline(written.getvalue(), key, printed(title))
    return tag("figure", tag("figcaption", title), drawn)


def display_chart(key: str, title: str, display: Display, **look: Any) -> Markup:
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
    names = dict[str, str]()

    def short(name: str) -> str:
        return names.setdefault(name, f"{key}{len(names)}")

    for node in list(root.iter()):
        given = {
            name.rpartition("}")[2]: attribute
            for name, attribute in node.attrib.items()
        }
        attribute = given.pop("id", "")
        if attribute and not _is_group(node):
            given["id"] = short(attribute)
        for name in ("href", "clip-path"):
            if name in given:
                start, _, rest = given[name].partition("#")
                attribute = rest.removesuffix(")")
                given[name] = f"{start}#{short(attribute)}{rest[len(attribute) :]}"
        if given.get("transform", "").startswith("rotate(-0 "):
            del given["transform"]
        for name in PLACES & given.keys():
            given[name] = _rounded(given[name])
        if "style" in given:
            given["style"] = _of_page(given["style"])
        node.attrib.clear()
        node.attrib.update(given)
    for node in list(root.iter()):
        _merge(node)
    view = root.attrib["viewBox"]
    root.attrib.clear()
    root.attrib.update({"viewBox": view, "role": "img", "aria-label": title})
    return _element(root)


def _is_group(node: ElementTree.Element) -> bool:
    return node.tag.endswith("}g")


def _element(node: ElementTree.Element) -> Markup:
    """An element of XML as one of HTML."""
    inside = (node.text or "").strip() or None
    name = node.tag.rpartition("}")[2]
    return tag(name, inside, *map(_element, node), **node.attrib)


def _merge(node: ElementTree.Element) -> None:
    """Make one group of neighbours that are alike, with the style that its members
    share.
    """
    last = None
    for child in list(node):
        if last is not None and _is_group(child) and child.attrib == last.attrib:
            last.extend(child)
            node.remove(child)
            child.clear()
        else:
            last = child if _is_group(child) else None
    styles = {child.get("style", "") for child in node}
    if len(node) > 1 and len(styles) == 1 and "" not in styles:
        node.set("style", styles.pop())
        for child in node:
            del child.attrib["style"]


def _rounded(places: str) -> str:
    """Numbers with two decimals, on one line."""
    short = re.sub(r"-?\d+\.\d+", lambda one: f"{round(float(one[0]), 2):g}", places)
    return " ".join(short.split())


def _of_page(look: str) -> str:
    """Properties of style in the colours and the font of the page."""
    for colour, name in VARIABLES.items():
        look = look.replace(colour.lower(), f"var(--{name})")
    return re.sub("font-family: [^;]*(; )?", "", look)
