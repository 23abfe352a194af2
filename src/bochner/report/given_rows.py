"""The rows that a report evaluates a model on, the predictions for them, and their
scores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import is_classifier

from bochner.data.array_source import rows_of
from bochner.data.columns import column_names, label_places, values_of
from bochner.data.outliers import drawn
from bochner.data.table_input import checked_sparse, frame_names, is_frame
from bochner.loops.clock import CLOCK
from bochner.scores import summaries

COVERAGE = 0.9  # of the intervals that are scored


@dataclass(frozen=True)
class Rows:
    """Rows and their targets.

    Attributes
    ----------
    X : array, sparse matrix or narwhals data frame of shape (n, d)
    y : array of shape (n,)
    names : tuple of d str
    numbers : array of shape (n,)
        Where the rows are among those that were given, or in their table.
    n_given : int
    """

    X: Any
    y: NDArray
    names: tuple[str, ...]
    numbers: NDArray
    n_given: int

    @classmethod
    def of(
        cls,
        X: Any,
        y: Any,
        model: Any,
        fewest: int = 20,
        numbers: NDArray | None = None,
    ) -> Rows:
        """Rows as they are given, with their numbers in a table if these are known, at
        most 20,000 of them; ValueError for targets that are no single column, and for
        fewer rows than `fewest`.
        """
        names = frame_names(X) or getattr(model, "feature_names_in_", None)
        if not is_frame(X):
            X = checked_sparse(X)
            X = X.tocsr() if sp.issparse(X) else np.asarray(X)
        given = np.asarray(values_of(y))
        if given.ndim == 2 and given.shape[1] == 1:
            given = given[:, 0]
        if given.ndim != 1 or len(given) != X.shape[0]:
            raise ValueError(
                "A report is about one target of each row; y has shape "
                f"{given.shape} and X {X.shape[0]:,} rows."
            )
        n = len(given)
        if n < fewest:
            raise ValueError(
                f"A report needs {fewest} rows or more to evaluate the model "
                f"on, got {n}."
            )
        names = tuple(column_names(names, X.shape[1]))
        numbers = np.arange(n) if numbers is None else numbers
        return cls(X, given, names, numbers, n).sample(20_000, 0)

    def __len__(self) -> int:
        return len(self.y)

    def take(self, where: NDArray) -> Rows:
        """Rows by their positions."""
        X = rows_of(self.X, where)
        return replace(self, X=X, y=self.y[where], numbers=self.numbers[where])

    def sample(self, most: int, seed: int) -> Rows:
        """At most `most` rows, drawn at random, in their order."""
        return self.take(drawn(np.arange(len(self)), most, seed))


@dataclass(frozen=True)
class Predictions:
    """Predictions of rows and what they are worth.

    Attributes
    ----------
    predicted : array of shape (n,)
        Numbers or labels.
    proba : array of shape (n, K), or None
    truth : array of shape (n,)
        Numbers, or positions of the classes.
    losses : array of shape (n,)
        Squared errors, or log losses in nats.
    seconds : float
        Of the predictions.
    """

    predicted: NDArray
    proba: NDArray | None
    truth: NDArray
    losses: NDArray
    seconds: float


def predict(model: Any, rows: Rows) -> Predictions:
    """Predict, and compute the loss of each row.

    ValueError for several targets, for labels that the model does not know, and for
    targets that are not numbers.
    """
    start = CLOCK.seconds()
    if not is_classifier(model):
        try:
            y = rows.y.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"y holds values that are not numbers ({error}), and the model "
                "predicts numbers."
            ) from error
        if not np.isfinite(y).all():
            raise ValueError(
                "y has values that are missing or infinite; leave these rows out."
            )
        predicted = np.asarray(model.predict(rows.X), np.float64)
        seconds = CLOCK.seconds() - start
        if predicted.ndim != 1:
            raise ValueError(
                f"A report is about one target, and the model has {predicted.shape[1]}."
            )
        return Predictions(predicted, None, y, (y - predicted) ** 2, seconds)
    proba = np.asarray(model.predict_proba(rows.X), np.float64)
    seconds = CLOCK.seconds() - start
    labels = label_places(rows.y.tolist(), model.classes_.tolist())
    if unknown := sorted({str(label) for label in rows.y[labels < 0].tolist()}):
        raise ValueError(
            f"y has labels that the model does not know: {unknown[:5]}; leave these "
            "rows out."
        )
    shares = proba[np.arange(len(labels)), labels]
    losses = -np.log(np.maximum(shares, np.finfo(float).eps))
    predicted = model.classes_[proba.argmax(axis=1)]
    return Predictions(predicted, proba, labels, losses, seconds)


def scores(
    model: Any, rows: Rows, predictions: Predictions, baseline: Any
) -> dict[str, Any]:
    """Scores with 95 % intervals beside those of a baseline.

    Parameters
    ----------
    model : KernelMachineRegressor or KernelMachineClassifier
    rows : Rows
    predictions : Predictions
    baseline : float, list of float, or None
        Mean, or shares of the classes, of the training rows; None where they are not
        known, for those of `rows`.
    """
    if predictions.proba is not None:
        predicted = np.searchsorted(model.classes_, predictions.predicted)
        return summaries.classification(
            predictions.truth, predicted, predictions.proba, baseline
        )
    y = predictions.truth
    regression_scores = summaries.regression(y, predictions.predicted, baseline)
    if getattr(model, "spread_", None) is None:
        return regression_scores
    interval = model.predict_interval(rows.X, coverage=COVERAGE)
    return regression_scores | summaries.intervals(y, interval, COVERAGE)
