"""Colours and marks of categories."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.display.canvas import GREY, LOOKS, shortened

MOST, FULL, NAME_WIDTH = 20, 10, 24  # colours; those without pale ones among them
LEGEND = {"fontsize": "small", "frameon": False, "bbox_to_anchor": (1.0, 1.0), "loc": "upper left"}


class Category(NamedTuple):
    """Rows that look the same.

    Attributes
    ----------
    name : str
    rows : bool array of shape (n,)
    colour, marker : what matplotlib takes
    """

    name: str
    rows: NDArray[np.bool_]
    colour: Any
    marker: str


def categories(labels: ArrayLike) -> list[Category]:
    """The 20 most frequent labels of n rows in order, and all others as one in grey."""
    names = np.array([str(label) for label in np.asarray(labels).tolist()])
    distinct, counts = np.unique(names, return_counts=True)
    shown = np.sort(distinct[np.argsort(-counts, kind="stable")[:MOST]])
    found = [
        Category(shortened(name, NAME_WIDTH), names == name, *look)
        for name, look in zip(shown.tolist(), looks(len(shown)), strict=True)
    ]
    if len(shown) < len(distinct):
        found.append(Category(f"{len(distinct) - len(shown)} others", ~np.isin(names, shown), GREY, "o"))
    return found


def looks(n: int) -> list[tuple[Any, str]]:
    """Colours and marks of n categories: of few those that differ for all eyes; after 20 colours they come again."""
    if n <= len(LOOKS):
        return list(LOOKS[:n])
    from matplotlib import colormaps

    colours = colormaps["tab10" if n <= FULL else "tab20"]
    return [(colours(k % MOST), LOOKS[k // MOST % len(LOOKS)][1]) for k in range(n)]
