"""Judges a model on rows: its predictions, their losses, and scores beside those of a baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from bochner.loops.clock import CLOCK
from bochner.report_page.rows import Rows
from bochner.scores import summaries

COVERAGE = 0.9


@dataclass(frozen=True)
class Judged:
    """Predictions of rows and what they are worth.

    Attributes
    ----------
    predicted : array of shape (n,)
        Numbers or labels.
    proba : array of shape (n, K), or None
    labels : array of shape (n,)
        Positions of the classes; empty of numbers.
    losses : array of shape (n,)
        Squared errors, or log losses in nats.
    seconds : float
        Of the predictions.
    """

    predicted: NDArray
    proba: NDArray | None
    labels: NDArray
    losses: NDArray
    seconds: float = 0.0


def judge(model: Any, rows: Rows) -> Judged:
    """Predict, and compute the loss of each row.

    ValueError for several targets, for labels that the model does not know, and for targets that are not numbers.
    """
    start = CLOCK.seconds()
    if not is_classifier(model):
        y = _numbers(rows.y)
        predicted = np.asarray(model.predict(rows.native), np.float64)
        if predicted.ndim != 1:
            raise ValueError(f"A report is about one target, and the model has {predicted.shape[1]}.")
        return Judged(predicted, None, np.empty(0, np.int64), (y - predicted) ** 2, CLOCK.seconds() - start)
    proba = np.asarray(model.predict_proba(rows.native), np.float64)
    seconds, labels = CLOCK.seconds() - start, _positions(rows.y, model.classes_)
    losses = -np.log(np.maximum(proba[np.arange(len(labels)), labels], np.finfo(float).eps))
    return Judged(model.classes_[proba.argmax(axis=1)], proba, labels, losses, seconds)


def _positions(y: NDArray, classes: NDArray) -> NDArray[np.int64]:
    """Positions of labels among the classes, by value or as text."""
    known: dict[Any, int] = {}
    for k, label in enumerate(classes.tolist()):
        known[label] = known[str(label)] = k
    found = [known.get(label, known.get(str(label), -1)) for label in y.tolist()]
    if unknown := sorted({str(label) for label, k in zip(y.tolist(), found, strict=True) if k < 0}):
        raise ValueError(f"y has labels that the model does not know: {unknown[:5]}; leave these rows out.")
    return np.array(found)


def _numbers(y: NDArray) -> NDArray[np.float64]:
    try:
        values = y.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y holds values that are not numbers ({error}), and the model predicts numbers.") from error
    if not np.isfinite(values).all():
        raise ValueError("y has values that are missing or infinite; leave these rows out.")
    return values


def scores(model: Any, rows: Rows, judged: Judged, baseline: Any) -> dict[str, Any]:
    """Scores with 95 % intervals beside those of a baseline.

    Parameters
    ----------
    model : KernelMachineRegressor or KernelMachineClassifier
    rows : Rows
    judged : Judged
    baseline : float, list of float, or None
        Mean, or shares of the classes, of the training rows; None where they are not known, for those of `rows`.
    """
    if judged.proba is not None:
        shares = np.bincount(judged.labels, minlength=judged.proba.shape[1]) / len(judged.labels)
        shares = shares if baseline is None else np.asarray(baseline)
        predicted = np.searchsorted(model.classes_, judged.predicted)
        return summaries.classification(judged.labels, predicted, judged.proba, shares)
    y = _numbers(rows.y)
    found = summaries.regression(y, judged.predicted, float(y.mean()) if baseline is None else float(baseline))
    if getattr(model, "spread_", None) is None:
        return found
    return found | summaries.intervals(y, model.predict_interval(rows.native, coverage=COVERAGE), COVERAGE)
