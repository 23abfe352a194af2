"""Puts rows into categories that look different."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.display.canvas import GREY, look, shortened

MOST, NAME_WIDTH = 20, 24


class Category(NamedTuple):
    """Rows that look the same.

    Attributes
    ----------
    name : str
    rows : bool array of shape (n,)
    colour, marker : str
        As matplotlib takes them.
    """

    name: str
    rows: NDArray[np.bool_]
    colour: str
    marker: str


def categories(labels: ArrayLike) -> list[Category]:
    """The 20 most frequent labels of n rows in order, and all others as one in grey."""
    names = np.array([str(label) for label in np.asarray(labels).tolist()])
    distinct, counts = np.unique(names, return_counts=True)
    shown = np.sort(distinct[np.argsort(-counts, kind="stable")[:MOST]])
    found = [Category(shortened(name, NAME_WIDTH), names == name, *look(k)) for k, name in enumerate(shown.tolist())]
    if len(shown) < len(distinct):
        found.append(Category(f"{len(distinct) - len(shown)} others", ~np.isin(names, shown), GREY, "."))
    return found
