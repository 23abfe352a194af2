"""Shows the rows with the largest losses, each above the rows that are nearest to it
for the model: so one sees which of them is odd.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances

from bochner.arrays import Floats, Indices
from bochner.data.columns import base_kind
from bochner.explanations.effects import own_values
from bochner.markup import Markup, cut, cut_all, number, shown_value, table, tag
from bochner.report.explained import n_waves_and_grids
from bochner.report.findings import Findings
from bochner.report.given_rows import Rows, predict


def worst(findings: Findings) -> Markup:
    """The rows with the largest losses and their neighbours, with the most important
    columns.
    """
    predictions = findings.predictions
    is_class = findings.is_class
    shown = findings.explained.columns[:6]
    # The rows, and rows near to each
    first = np.argsort(-predictions.losses, kind="stable")[:10]
    rows = findings.rows.take(first)
    others = findings.fitted or findings.rows
    positions = None if findings.fitted else first
    near, distances = neighbours(findings.model, rows, others, positions)
    lines = _lines(findings.model, rows, shown)
    near_lines = _lines(findings.model, others.take(near.ravel()), shown)
    near_numbers = others.numbers[near]
    # Each row above its neighbours
    body = list[tuple[Any, ...]]()
    for k, line in enumerate(lines):
        body.append((tag("strong", f"{rows.numbers[k]:,}"), "", *line))
        for i, distance in enumerate(distances[k]):
            name = tag("span", f"near: {near_numbers[k, i]:,}", class_="near")
            near_line = near_lines[k * near.shape[1] + i]
            body.append((name, f"{distance:.2f}", *near_line))
    head = (
        "row",
        "distance",
        cut(findings.origin.target or "target"),
        *(("its probability",) if is_class else ()),
        "prediction",
        *cut_all(findings.rows.names[j] for j in shown),
    )
    kinds = findings.model.encoder_.statistic_.kinds
    start = len(head) - len(shown)
    words = {k for k, j in enumerate(shown, start) if base_kind(kinds[j]) != "number"}
    words |= {2, 4} if is_class else set()
    loss = "log loss" if is_class else "squared error"
    caption = f"The {len(first)} rows with the largest {loss}, and their neighbours"
    return table(caption, head, body, {0, *words})


def neighbours(
    model: Any, rows: Rows, others: Rows, positions: Indices | None = None
) -> tuple[Indices, Floats]:
    """Positions of the nearest of other rows, and how far away they are, both of shape
    (m, k), the nearest first.

    Distances are those of the features of the model, by the median of the distances to
    all other rows: rows that are the same for the model have 0.

    Parameters
    ----------
    model : KernelMachineRegressor or KernelMachineClassifier
    rows : Rows
        m of them.
    others : Rows
    positions : int array of shape (m,), optional
        Where the rows are among the others: none is its own neighbour.
    """
    transform = model.features_.transform
    features = transform(model._encoded(rows.X, np.float64))
    # Features of few rows at a time
    size = int(max(1e7 // n_waves_and_grids(model), 1))
    parts = np.array_split(np.arange(len(others)), -(-len(others) // size))
    blocks = (
        transform(model._encoded(others.take(part).X, np.float64)) for part in parts
    )
    distances: NDArray = np.hstack([euclidean_distances(features, Z) for Z in blocks])
    usual = np.median(distances, axis=1, keepdims=True)
    if positions is not None:
        distances[np.arange(len(positions)), positions] = np.inf
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :3]
    shares = np.take_along_axis(distances, nearest, axis=1) / np.where(usual, usual, 1)
    return nearest, shares


def _lines(model: Any, rows: Rows, columns: list[int]) -> list[tuple[str, ...]]:
    """The truth of each row and its prediction, of a class also the probability that
    the truth was given; and its values in some columns.
    """
    predictions = predict(model, rows)
    if predictions.proba is None:
        outcomes = [
            [number(truth) for truth in predictions.truth],
            [number(prediction) for prediction in predictions.predicted],
        ]
    else:
        given = predictions.proba[np.arange(len(rows)), predictions.truth]
        outcomes = [
            [cut(truth) for truth in rows.y],
            [f"{probability:.3f}" for probability in given],
            [cut(prediction) for prediction in predictions.predicted],
        ]
    values = [list(map(shown_value, own_values(rows.X, j))) for j in columns]
    return list(zip(*outcomes, *values, strict=True))
