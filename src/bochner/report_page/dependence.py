"""Measures how predictions depend on a column: all rows are given one value of it after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.report_page.rows import Rows

ROWS, POINTS, MOST_COLUMNS, MOST_VALUES, MOST_CLASSES = 300, 16, 6, 8, 3


@dataclass(frozen=True)
class Dependence:
    """Mean predictions against the value of a column (Friedman, 2001, section 8.2).

    Attributes
    ----------
    column : str
    values : list
        Numbers, or others.
    means, low, high : arrays of shape (K, v)
        Over the rows: the mean, the first and the third quartile; for each output that is shown.
    outputs : tuple of str
        Names of the outputs; empty of numbers.
    numeric : bool
        Whether the values are numbers.
    """

    column: str
    values: list[Any]
    means: NDArray
    low: NDArray
    high: NDArray
    outputs: tuple[str, ...]
    numeric: bool


def dependences(model: Any, rows: Rows, columns: list[int], proba: NDArray | None) -> list[Dependence]:
    """Partial dependence on some columns.

    Parameters
    ----------
    model : KernelMachineRegressor or KernelMachineClassifier
    rows : Rows
    columns : list of int
        The first six are taken.
    proba : array of shape (n, K), or None
        Of all rows: of two classes the second is shown, of more the three most probable.
    """
    sample = rows.some(ROWS, 3).dense
    if sample is None:
        return []
    shown = np.zeros(1, np.int64) if proba is None else _shown(proba)
    outputs = () if proba is None else tuple(str(label) for label in model.classes_[shown])

    def predicted(X: Any) -> NDArray:
        if proba is None:
            return np.asarray(model.predict(X), np.float64).reshape(-1, 1)
        return np.asarray(model.predict_proba(X), np.float64)[:, shown]

    found = []
    for j in columns[:MOST_COLUMNS]:
        values, donors, numeric = _grid(rows.column(j))
        if len(values) < 2:
            continue
        seen = [predicted(sample.with_value(j, rows, donor).native) for donor in donors]
        low, high = np.quantile(seen, (0.25, 0.75), axis=1)
        means = np.mean(seen, axis=1)
        found.append(Dependence(rows.names[j], values, means.T, low.T, high.T, outputs, numeric))
    return found


def _shown(proba: NDArray) -> NDArray:
    return np.array([1]) if proba.shape[1] == 2 else np.sort(np.argsort(-proba.mean(axis=0))[:MOST_CLASSES])


def _grid(values: list[Any]) -> tuple[list[Any], list[int], bool]:
    """Values of a column, quantiles or the most frequent ones; a row that has each; and whether they are numbers."""
    known = [k for k, value in enumerate(values) if value is not None]
    numeric = all(isinstance(values[k], int | float) and not isinstance(values[k], bool) for k in known)
    if numeric and known:
        order = sorted(known, key=lambda k: values[k])
        last = len(order) - 1
        places = [round(share * last) for share in np.linspace(0.02, 0.98, POINTS)]
        donors = {values[order[place]]: order[place] for place in places}
        return list(donors), list(donors.values()), True
    first, counts = dict[str, int](), dict[str, int]()
    for k in known:
        first.setdefault(str(values[k]), k)
        counts[str(values[k])] = counts.get(str(values[k]), 0) + 1
    most = sorted(counts, key=lambda name: -counts[name])[:MOST_VALUES]
    return list(most), [first[name] for name in most], False
