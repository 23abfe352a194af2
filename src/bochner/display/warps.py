"""Collects the learned warps of a metric, in the units of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.data.columns import PARTS
from bochner.data.encodings import NumberColumns, TimeColumn
from bochner.features.metric import Metric


class Warp(NamedTuple):
    """A monotone piecewise linear function of a column.

    Attributes
    ----------
    name : str
        Of the column.
    x, w : arrays of shape (k,)
        Knots, and the coordinate there.
    unit : {"", "days", "seconds"}
        Of x: days since 1970 for a column of dates.

    Examples
    --------
    >>> from bochner.display import Warp
    >>> Warp("age", [20, 60], [0.0, 1.5]).name
    'age'
    """

    name: str
    x: ArrayLike
    w: ArrayLike
    unit: str = ""


def relevant_warps(
    metric: Metric, names: Sequence[str], shift: NDArray, scale: NDArray, times: Mapping[int, str]
) -> list[Warp]:
    """Warps that are not flat, the most relevant first.

    Parameters
    ----------
    metric : bochner.features.Metric
    names : sequence of d str
    shift, scale : arrays of shape (d,)
        A column of the metric is (x - shift) / scale.
    times : dict of int to str
        Units of the columns of the metric that are times.
    """
    warps = []
    for i in _most_relevant(metric):
        j = metric.source_[metric.warped_[i]]
        distinct = np.append(True, np.diff(metric.knots_[i]) > 0)
        x = shift[j] + scale[j] * metric.knots_[i, distinct]
        warps.append(Warp(names[j], x, metric.levels_[i, distinct], times.get(int(j), "")))
    return warps


def table_units(columns: Sequence[Any], n_columns: int) -> tuple[NDArray, NDArray]:
    """Shift and scale from encoded columns back to those of the table: of numbers, and of dates and durations."""
    shift, scale = np.zeros(n_columns), np.ones(n_columns)
    for column in columns:
        if isinstance(column, NumberColumns):
            shift[column.at], scale[column.at] = column.shift, column.scale
        elif isinstance(column, TimeColumn) and column.kind != "time":
            shift[column.start], scale[column.start] = column.shift, column.scale
    return shift, scale


def time_units(columns: Sequence[Any]) -> dict[int, str]:
    """Units of the encoded columns that are moments or durations: "days" or "seconds"."""
    times = [column for column in columns if isinstance(column, TimeColumn) and column.kind != "time"]
    return {column.start: PARTS[column.kind][0] for column in times}


def _most_relevant(metric: Metric) -> NDArray:
    """Warps that move, the most relevant first.

    A column's relevance is shared among its coordinates, of which it may have several, by how far they go between the
    first and the last knot.
    """
    if not len(metric.warped_):
        return np.empty(0, np.int64)
    d, column = metric.n_features_in_, metric.source_[metric.warped_]
    scales = np.abs(metric.scale_)
    scales[metric.warped_] = 0
    span = np.ptp(metric.levels_, axis=1)
    whole = np.bincount(column, span, d)[column]
    whole += np.bincount(metric.source_, scales, d)[column] * np.ptp(metric.knots_, axis=1)
    share = metric.relevance_[column] * span / np.where(whole > 0, whole, 1.0)
    order = np.lexsort((-span, -share))
    return order[span[order] > 0]
