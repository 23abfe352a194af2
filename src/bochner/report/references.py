"""Scores of other models beside those of a report: a linear model, and gradient boosting where it takes little time."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from bochner.data.table_input import as_dense
from bochner.loops.clock import CLOCK
from bochner.report.given_rows import Predictions, Rows, as_numbers, scores

MOST_ENTRIES, MOST_ROWS, MOST_ENCODED, FOLDS, FEWEST = 800_000, 10_000, 1000, 3, 100
TRIED = 5  # iterations of boosting, by which its time is estimated
MOST_SHARE = 0.1  # of the time of the fit, which boosting may take


class Reference(NamedTuple):
    """Another model.

    Attributes
    ----------
    predicted : array of shape (n,), or (n, K) of probabilities
    where : array of shape (n,)
        The rows that these are of.
    """

    predicted: NDArray
    where: NDArray


def other_models(classes: bool) -> dict[str, Any]:
    """Models of scikit-learn with default settings, by their names: of standardised columns, and of trees."""
    linear: Any = LogisticRegression(max_iter=300) if classes else Ridge()
    boosted: Any = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return {"linear model": make_pipeline(StandardScaler(), linear), "gradient boosting": boosted(random_state=0)}


def references(model: Any, rows: Rows, predictions: Predictions, seconds: float | None) -> dict[str, Reference]:
    """Predictions of other models for some of the rows, by cross-validation over these.

    They learn from fewer rows than the model, as the rows that it was fitted on are not known here.

    Parameters
    ----------
    model : KernelMachineRegressor or KernelMachineClassifier
    rows : Rows
    predictions : Predictions
    seconds : float or None
        That the fit took.

    Returns
    -------
    dict of str to Reference
        By the name of a model.
    """
    width = model.encoder_.n_features_out_
    n = min(len(rows), MOST_ROWS, MOST_ENTRIES // max(width, 1))
    if width > MOST_ENCODED or n < FEWEST or getattr(model, "loss", "squared") == "poisson":
        return {}
    where = np.sort(np.random.default_rng(12).permutation(len(rows))[:n])
    X = as_dense(model.encoder_.encode(model._rows(rows.take(where).native, reset=False), np.dtype(np.float64)))
    classes = is_classifier(model)
    y = predictions.labels[where] if classes else as_numbers(rows.y)[where]
    others = other_models(classes)
    n_classes = predictions.proba.shape[1] if predictions.proba is not None else 0
    folds = np.random.default_rng(13).permutation(n) % FOLDS
    most = 0.0 if seconds is None else MOST_SHARE * seconds / FOLDS
    with threadpool_limits(1), warnings.catch_warnings():  # threads would wait for one another
        warnings.simplefilter("ignore")  # that a linear model has not quite converged is no matter for its score
        if not most or _seconds(others["gradient boosting"], X, y) >= most:
            del others["gradient boosting"]
        found = {name: _crossed(one, X, y, folds, n_classes) for name, one in others.items()}
    return {name: Reference(one, where) for name, one in found.items() if one is not None}


def reference_scores(model: Any, rows: Rows, predictions: Predictions) -> dict[str, dict[str, Any]]:
    """Scores of other models on some of the rows."""
    found = {}
    for name, own in references(model, rows, predictions, fit_seconds(model)).items():
        some = rows.take(own.where)
        if predictions.proba is None:
            as_others = Predictions(own.predicted, None, predictions.labels, np.empty(0))
        else:
            labels = model.classes_[own.predicted.argmax(axis=1)]
            as_others = Predictions(labels, own.predicted, predictions.labels[own.where], np.empty(0))
        found[name] = scores(model, some, as_others, None, False)
    return found


def fit_seconds(model: Any) -> float | None:
    """Seconds that the choice of a model took, the most part of its fit; None where nothing was chosen."""
    report = getattr(model, "report_", None)
    return None if report is None else sum(report.seconds.values()) or None


def _seconds(boosted: Any, X: NDArray, y: NDArray) -> float:
    """Estimate of the time that all iterations take, by that of a few."""
    start = CLOCK.seconds()
    clone(boosted).set_params(max_iter=TRIED).fit(X, y)
    return (CLOCK.seconds() - start) * boosted.max_iter / TRIED


def _crossed(one: Any, X: NDArray, y: NDArray, folds: NDArray, n_classes: int) -> NDArray | None:
    """Predictions of each fold by a model of the others; None where these have one class only."""
    predicted = np.zeros((len(y), n_classes) if n_classes else len(y))
    for k in range(FOLDS):
        own = folds == k
        if n_classes and len(np.unique(y[~own])) < 2:
            return None
        fitted = clone(one).fit(X[~own], y[~own])
        if n_classes:
            predicted[np.ix_(own, fitted.classes_)] = fitted.predict_proba(X[own])
        else:
            predicted[own] = fitted.predict(X[own])
    return predicted
