"""Looks at the columns of the given rows: gaps, constants, identifiers, leaks, and
drift from the training rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp
from sklearn.base import is_classifier
from sklearn.model_selection import KFold, cross_val_score
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from bochner.data.table_input import as_dense
from bochner.markup import number
from bochner.report.given_rows import Predictions, Rows, as_numbers

MOST_ROWS, MOST_ENTRIES, MOST_COLUMNS, MOST_ENCODED = 2000, 80_000, 300, 2000
LEVEL, IDENTIFIER, LEAK, LEAVES = 0.01, 0.9, 0.95, (5, 32)


@dataclass(frozen=True)
class Column:
    """One column of the given rows.

    Attributes
    ----------
    name, kind : str
    missing : float
        Share of the rows.
    distinct : int
    typical : str
        Range of numbers, most frequent value of others.
    drift : float or None
        p-value of equal distributions in the given rows and the training rows that the
        model keeps, corrected for the number of columns; None where it keeps none.
    alone : float or None
        Share of the variance, or of the errors of the most frequent class, that this
        column alone removes.
    """

    name: str
    kind: str
    missing: float
    distinct: int
    typical: str
    drift: float | None
    alone: float | None

    def remarks(self, n: int) -> list[str]:
        """What is unusual."""
        said = []
        if self.distinct <= 1:
            said.append("constant")
        elif self.kind == "text" and self.distinct > IDENTIFIER * n * (
            1 - self.missing
        ):
            said.append("like an identifier")
        if self.alone is not None and self.alone > LEAK:
            said.append("predicts the target alone: a leak?")
        if self.drift is not None and self.drift < LEVEL:
            said.append("differs from the training rows")
        return said


def columns(model: Any, rows: Rows, predictions: Predictions) -> list[Column]:
    """What is known of each column; of many rows at most 2,000 are drawn. None of
    more than 300 columns.
    """
    d = len(rows.names)
    if d > MOST_COLUMNS or model.encoder_.n_features_out_ > MOST_ENCODED:
        return []
    where = np.sort(
        np.random.default_rng(10).permutation(len(rows))[: n_looked_at(rows)]
    )
    some = rows.take(where)
    encoded = as_dense(
        model.encoder_.encode(
            model._rows(some.native, reset=False), np.dtype(np.float32)
        )
    )
    y = predictions.labels[where] if is_classifier(model) else as_numbers(some.y)
    sources = model.encoder_.sources()
    kept = getattr(model, "background_", None)
    found = []
    for j, name in enumerate(rows.names):
        own = np.flatnonzero(sources == j)
        values = some.column(j)
        known = [value for value in values if value is not None]
        drift = (
            None
            if kept is None or not len(own)
            else _drift(encoded[:, own], kept[:, own], d)
        )
        alone = _alone(encoded[:, own], y, is_classifier(model)) if len(own) else None
        kind = model.encoder_.statistic_.kinds[j]
        missing = 1 - len(known) / len(values)
        found.append(
            Column(
                name,
                kind,
                missing,
                len(set(map(str, known))),
                _typical(known),
                drift,
                alone,
            )
        )
    return found


def n_looked_at(rows: Rows) -> int:
    """Number of rows that columns are looked at in."""
    return min(len(rows), MOST_ROWS, MOST_ENTRIES // max(len(rows.names), 1))


def _typical(known: list[Any]) -> str:
    """Least and largest number, or the most frequent value."""
    if known and all(isinstance(value, int | float) for value in known):
        return f"{number(float(min(known)))} to {number(float(max(known)))}"
    texts, counts = np.unique(
        [str(value) for value in known] or [""], return_counts=True
    )
    return str(texts[counts.argmax()])


def _drift(given: NDArray, kept: NDArray, n_columns: int) -> float:
    """p-value of Kolmogorov and Smirnov's test, with Bonferroni's correction for all
    columns.
    """
    tests = [
        ks_2samp(a, b, method="asymp").pvalue
        for a, b in zip(given.T, kept.T, strict=True)
    ]
    return float(min(min(tests) * len(tests) * n_columns, 1.0))


def _alone(own: NDArray, y: NDArray, is_class: bool) -> float | None:
    """How well a small tree predicts the target by one column, on rows that it has
    not seen; best of two sizes.
    """
    n_most = int(np.bincount(y).max()) if is_class else len(y)
    if len(np.unique(y)) < 2 or n_most < 2:
        return None
    Tree: Any = DecisionTreeClassifier if is_class else DecisionTreeRegressor
    halves = KFold(2, shuffle=True, random_state=11)
    best = max(
        cross_val_score(
            Tree(max_leaf_nodes=leaves, random_state=0),
            np.nan_to_num(own),
            y,
            scoring="accuracy" if is_class else "r2",
            cv=halves,
        ).mean()
        for leaves in LEAVES
    )
    if is_class:
        base = n_most / len(y)
        best = (best - base) / (1 - base)
    return max(float(best), 0.0)
