"""Puts rows into groups by a column, and counts what is covered in each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.display.canvas import short_number
from bochner.scores import equal_count_bins

MOST_GROUPS = 10


class Group(NamedTuple):
    """Rows that are alike, and how many of their targets are within their intervals.

    Attributes
    ----------
    name : str
    covered : float
        Share of the rows.
    n_rows : int
    """

    name: str
    covered: float
    n_rows: int


def grouped(values: NDArray, inside: NDArray) -> list[Group]:
    """Coverage of tenths of numbers, or of each distinct one where they are few, or of the most frequent texts.

    Parameters
    ----------
    values : array of shape (n,)
        NaN or "" where there is none: a group by itself, the last.
    inside : boolean array of shape (n,)
        Whether the target is within its interval.
    """
    numbers = values.dtype.kind in "biuf"
    known = ~np.isnan(values.astype(np.float64)) if numbers else values.astype(str) != ""
    names, of = _numbered(values[known].astype(np.float64)) if numbers else _named(values[known].astype(str))
    groups = [_group(name, inside[known][of == k]) for k, name in enumerate(names)]
    if (of == len(names)).any():
        groups.append(_group("others", inside[known][of == len(names)]))
    return groups + ([_group("missing", inside[~known])] if not known.all() else [])


def _group(name: str, inside: NDArray) -> Group:
    return Group(name, float(inside.mean()), len(inside))


def _numbered(values: NDArray) -> tuple[list[str], NDArray]:
    distinct, of = np.unique(values, return_inverse=True)
    if len(distinct) <= MOST_GROUPS:
        return [short_number(value) if value % 1 else f"{value:.0f}" for value in distinct], of
    of = equal_count_bins(values, MOST_GROUPS)
    parts = [values[of == k] for k in range(of.max() + 1)]
    return [_range(part.min(), part.max()) for part in parts], of


def _range(low: float, high: float) -> str:
    ends = short_number(low), short_number(high)
    return f"{ends[0]} to {ends[1]}" if low < high else ends[0]


def _named(values: NDArray) -> tuple[list[str], NDArray]:
    names, of, counts = np.unique(values, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    kept = order if len(names) <= MOST_GROUPS else order[: MOST_GROUPS - 1]
    rank = np.full(len(names), len(kept))
    rank[kept] = np.arange(len(kept))
    return [str(name) for name in names[kept]], rank[of]
