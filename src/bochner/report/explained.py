"""Measures what a report tells of the columns: importance, Shapley values, effects,
interactions, in bounded time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from bochner.data.table_input import as_dense, is_frame
from bochner.estimators.interpretation import relevance_in_distance
from bochner.explanations import Effects, Explanation, Importance, Interactions
from bochner.features.leaves import leaves, size_name
from bochner.report.given_rows import Predictions, Rows

MOST_BACKGROUND = 50
PAIRED_ROWS, PAIRED_BACKGROUND, MOST_PAIRED_WHOLE = 20, 10, 16
EFFECT_ROWS = 300


@dataclass(frozen=True)
class Explained:
    """What the columns do in the model; None where it is not measured.

    Attributes
    ----------
    columns : list of int
        All columns, the most important first.
    importance : Importance or None
    relevance : array of shape (d,), or None
        Shares of the columns in the learned distance.
    effects : Effects or None
    attribution : Explanation or None
        Of some rows, the first three of which are the rows of `told`.
    told : list of (str, int)
        What three rows are, and their positions: with the smallest, the median and the
        largest loss.
    interactions : Interactions or None
        Of the most important columns.
    """

    columns: list[int]
    importance: Importance | None
    relevance: NDArray | None
    effects: Effects | None
    attribution: Explanation | None
    told: list[tuple[str, int]]
    interactions: Interactions | None


def explained(model: Any, rows: Rows, predictions: Predictions) -> Explained:
    """Measure everything, in seconds: of many columns or features fewer rows are
    explained.
    """
    d = len(rows.names)
    importance = None
    # By few rows where there are many columns
    if d <= 1000:
        y = predictions.truth
        y = model.classes_[y] if is_classifier(model) else y
        n_rows = min(max(60_000 // d, 1), 2000)
        n_repeats = 3 if d < 50 else 1
        importance = model.importance(
            rows.X, y, n_rows=n_rows, n_repeats=n_repeats, random_state=0
        )
    shares = relevance_in_distance(model)
    ranks = np.zeros(d) if shares is None else shares
    if importance is not None:
        ranks = importance.values
    columns = np.argsort(-ranks, kind="stable").tolist()
    # Rows to tell of, by their losses
    order = np.argsort(predictions.losses, kind="stable").tolist()
    median = order[len(order) // 2]
    told = [
        ("median loss", median),
        ("smallest loss", order[0]),
        ("largest loss", order[-1]),
    ]
    attribution = pairs = None
    if d <= 300:
        # Shapley values of the rows that are told of, and of others; the fewer the more
        # a pair of rows takes
        first = [i for _, i in told]
        # Their number times features times columns squared is bounded
        pairs_of_rows = 5e9 / (n_waves_and_grids(model) * d**2)
        pairs_of_rows = np.clip(pairs_of_rows, 30, 5000)
        n_background = int(np.clip(np.sqrt(pairs_of_rows / 2), 3, MOST_BACKGROUND))
        n = int(np.clip(pairs_of_rows // n_background, len(told) + 1, 100))
        drawn = np.random.default_rng(6).permutation(len(rows))[:n]
        others = np.setdiff1d(drawn, first)[: n - len(told)]
        background = None
        if getattr(model, "background_", None) is None:
            background = rows.sample(MOST_BACKGROUND, 7).X
        shown = rows.take(np.append(first, others)).X
        attribution = model.explain(shown, background, n_background)
        if d > 1:
            pairs = _interactions(model, rows, columns[:10], median)
    # Partial dependence of columns that have two values or more. Intervals by the
    # posterior would take most of the time, and the page shows quartiles of the rows
    effects = model._without_posterior().effects(
        rows.X, columns[:6], n_rows=EFFECT_ROWS, n_curves=EFFECT_ROWS, n_points=16
    )
    varying = tuple(one for one in effects if len(one.values) > 1)
    by_column = replace(effects, columns=varying) if varying else None
    return Explained(columns, importance, shares, by_column, attribution, told, pairs)


def n_waves_and_grids(model: Any) -> int:
    """How many factors a pair of rows has: waves, grids of bins, or dense features
    of another kind.
    """
    parts = [leaf.features for leaf in leaves(model.features_)]
    return sum(
        int(getattr(part, size_name(part) or "n_features_out")) for part in parts
    )


def _interactions(
    model: Any, rows: Rows, columns: list[int], held: int
) -> Interactions:
    """Interactions of some columns; of many columns the others are held at the values
    of one row.

    So few factors differ between two rows, with the cube of whose number the time
    grows.
    """
    explained_rows = rows.sample(PAIRED_ROWS, 8)
    others = rows.sample(PAIRED_BACKGROUND, 9)
    tables = [explained_rows.X, others.X]
    if len(rows.names) > MOST_PAIRED_WHOLE:
        tables = [
            _held_but(rows, held, drawn_rows, columns)
            for drawn_rows in (explained_rows, others)
        ]
    pairs = model.interactions(*tables, None)
    where = np.ix_(range(len(explained_rows)), columns, columns)
    names = tuple(rows.names[j] for j in columns)
    return replace(pairs, values=pairs.values[where], feature_names=names)


def _held_but(rows: Rows, i: int, others: Rows, columns: list[int]) -> Any:
    """Copies of a row, with the values of other rows in some columns."""
    copies = rows.take(np.full(len(others), i)).X
    if is_frame(copies):
        changes = nw.from_native(others.X, eager_only=True)[:, columns]
        frame = nw.from_native(copies, eager_only=True)
        return frame.with_columns(*changes.iter_columns()).to_native()
    changed = np.array(as_dense(copies))
    changed[:, columns] = as_dense(others.X)[:, columns]
    return changed
