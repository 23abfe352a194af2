"""Shows the rows with the largest losses, each above the rows that are nearest to it
for the model: so one sees which of them is odd.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances

from bochner.arrays import Floats, Indices
from bochner.markup import Markup, cut, cut_all, number, table, tag
from bochner.report.explained import n_waves_and_grids
from bochner.report.explained_charts import row_number
from bochner.report.findings import Findings

MOST_WORST, NEIGHBOURS, WORST_COLUMNS, CELL = 10, 3, 6, 40
MOST_FEATURES = 1e7  # of all rows among which neighbours are looked for


def worst(found: Findings) -> Markup:
    """The rows with the largest losses and their neighbours, with the most important
    columns.
    """
    predictions = found.predictions
    is_class = predictions.proba is not None
    first = np.argsort(-predictions.losses, kind="stable")[:MOST_WORST]
    near, distances = neighbours(found, first)
    # Each row, and its neighbours below it
    order = np.column_stack([first, near])
    apart = np.column_stack([np.full(len(first), np.nan), distances])
    shown = found.explained.columns[:WORST_COLUMNS]
    some = found.rows.take(order.ravel())
    values = [some.column(j) for j in shown]
    places = enumerate(zip(order.ravel(), apart.ravel(), strict=True))
    body = [
        (
            _name(found, i, np.isnan(distance)),
            "" if np.isnan(distance) else f"{distance:.2f}",
            *_outcome(found, i),
            *(_cell(column[k]) for column in values),
        )
        for k, (i, distance) in places
    ]
    head = (
        "row",
        "distance",
        cut(found.origin.target or "target", CELL),
        *(("its probability",) if is_class else ()),
        "prediction",
        *cut_all(found.rows.names[j] for j in shown),
    )
    loss = "log loss" if is_class else "squared error"
    caption = f"The {len(first)} rows with the largest {loss}, and their neighbours"
    words = {
        k + len(head) - len(shown)
        for k, column in enumerate(values)
        if any(isinstance(value, str) for value in column)
    }
    words |= {2, 4} if is_class else set()
    return table(caption, head, body, {0, *words})


def neighbours(found: Findings, rows: Indices) -> tuple[Indices, Floats]:
    """Positions of the given rows that are nearest to some of them, and how far away
    they are, both of shape (m, k), the nearest first.

    Distances are those of the features of the model, by the median of the distances to
    all rows: rows that are equal to the model have 0. Of many rows some are drawn.

    Parameters
    ----------
    found : Findings
    rows : int array of shape (m,)
        Positions.
    """
    model = found.model
    # Rows among which neighbours are looked for
    most = int(max(MOST_FEATURES // n_waves_and_grids(model), len(rows)))
    drawn = np.arange(len(found.rows))
    others = found.rows.some(most, 12)
    if len(others) < len(drawn):
        drawn = np.flatnonzero(np.isin(found.rows.numbers, others.numbers))
    features = model.features_.transform(others.encoded(model))
    own = model.features_.transform(found.rows.take(rows).encoded(model))
    distances = euclidean_distances(own, features)
    usual = np.median(distances, axis=1, keepdims=True)
    # A row is no neighbour of itself
    distances[rows[:, np.newaxis] == drawn] = np.inf
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :NEIGHBOURS]
    shares = np.take_along_axis(distances, nearest, axis=1) / np.where(usual, usual, 1)
    return drawn[nearest], shares


def _name(found: Findings, i: int, is_worst: bool) -> Markup:
    """The number of a row, and whether it is a neighbour."""
    written = row_number(found, i)
    if is_worst:
        return tag("strong", written)
    return tag("span", f"near: {written}", class_="near")


def _outcome(found: Findings, i: int) -> tuple[str, ...]:
    """The truth of a row and its prediction; of a class also the probability that
    the truth was given.
    """
    predictions = found.predictions
    truth = found.rows.y[i]
    if predictions.proba is None:
        return number(float(truth)), number(float(predictions.predicted[i]))
    return (
        _cell(truth),
        f"{predictions.proba[i, predictions.labels[i]]:.3f}",
        _cell(predictions.predicted[i]),
    )


def _cell(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value)
    return cut(value, CELL)
