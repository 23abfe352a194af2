"""Names columns and learned coordinates, and finds columns by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from bochner.features.metric import Metric


def column_names(given: Iterable[object] | None, n_columns: int) -> list[str]:
    """The names as they are given, or x0, x1, ... without any."""
    return [f"x{j}" for j in range(n_columns)] if given is None else [str(name) for name in given]


def coordinate_names(metric: Metric, names: Sequence[str]) -> list[str]:
    """Names of the coordinates of a metric: columns, warped ones as w(column), mixed ones by number."""
    own = [names[j] for j in metric.source_]
    for i in metric.warped_:
        own[i] = f"w({own[i]})"
    r, q = metric.linear_.shape
    return [f"coordinate {i}" for i in range(r)] + own[q:]


def column_pair(columns: Sequence[int | str], names: Sequence[str]) -> list[int]:
    """Numbers of two columns, given by number or name; ValueError where there are no two."""
    if len(names) < 2:
        raise ValueError("This picture is one of two columns, and the rows have 1: add a column, or use KernelDisplay.")
    known = {name: j for j, name in enumerate(names)}
    found = [known.get(column, column) if isinstance(column, str) else column for column in columns]
    valid = [int(j) for j in found if isinstance(j, int | np.integer) and -len(names) <= j < len(names)]
    if len(columns) != 2 or len({j % len(names) for j in valid}) != 2:
        raise ValueError(f"columns must be two different ones of {len(names)}, by number or name, got {columns!r}.")
    return [j % len(names) for j in valid]
