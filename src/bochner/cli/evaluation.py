"""Scores a model on rows that have the target, beside a baseline that knows the training rows only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.cli.errors import CommandError, listed
from bochner.cli.target import Target, labels_of
from bochner.scores import summaries as scores

COVERAGE = 0.9  # of the intervals that are scored where no other is asked for


def baseline(target: Target, rows: Any = slice(None)) -> Any:
    """Shares of the classes, or the mean, of the target in some rows."""
    values = target.values[rows]
    if target.task == "regression":
        return float(values.mean())
    counts = np.unique(values, return_counts=True)[1]
    return (counts / counts.sum()).tolist()


def described_baseline(target: Target, rows: NDArray) -> dict[str, Any]:
    """What the baseline of these rows predicts, for people."""
    if target.task == "regression":
        return {"predicts": "the mean of the training rows", "value": baseline(target, rows)}
    classes, counts = np.unique(target.values[rows], return_counts=True)
    best = int(counts.argmax())
    return {
        "predicts": "the most frequent class",
        "value": classes.tolist()[best],
        "share": counts[best] / counts.sum(),
    }


def score(
    model: Any, X: Any, target: Target, known_baseline: Any, path: Path, coverage: float | None = None
) -> tuple[dict[str, Any], list[str]]:
    """Scores of a model on rows with a target, and notes.

    Intervals are scored where the model was fitted with uncertainty: those of `coverage`, or of 90 %; where it has none
    of these, that is an error for the former and a note for the latter.
    """
    if target.task == "regression":
        mean = target.values.mean() if known_baseline is None else known_baseline
        scored = scores.regression(target.values, _finite(model.predict(X)), mean)
        if not getattr(model, "uncertainty", False):
            return scored, []
        try:
            interval = model.predict_interval(X, coverage=COVERAGE if coverage is None else coverage)
        except ValueError as error:
            if coverage is not None:
                raise
            return scored, [f"Intervals are not scored: {error}"]
        return scored | scores.intervals(target.values, interval, COVERAGE if coverage is None else coverage), []
    return _score_classes(model, X, target, known_baseline, path)


def _score_classes(
    model: Any, X: Any, target: Target, known_baseline: Any, path: Path
) -> tuple[dict[str, Any], list[str]]:
    """Scores of classes; those that the model does not know are wrong, and have no probability to be scored."""
    labels = labels_of(target, model.classes_, path)
    known = labels[labels >= 0]
    if not len(known) and len(labels) > 1:
        raise CommandError(
            f"{path}: column '{target.name}' holds none of the classes {listed(model.classes_.tolist())}"
        )
    shares = np.bincount(known, minlength=len(model.classes_)) / max(len(known), 1)
    shares = shares if known_baseline is None else np.asarray(known_baseline)
    predicted = np.searchsorted(model.classes_, model.predict(X))
    scored = scores.classification(labels, predicted, _finite(model.predict_proba(X)), shares)
    unknown = len(labels) - len(known)
    remark = f"{unknown:,} of {len(labels):,} rows have a class that the training rows do not have: "
    return scored, [remark + "counted as wrong in the accuracy, left out of the other scores."] if unknown else []


def _finite(predicted: NDArray) -> NDArray:
    """Predictions; CommandError where they are no finite numbers."""
    if not np.isfinite(predicted).all():
        raise CommandError("the model predicts numbers that are not finite; fit it with a larger --alpha")
    return predicted
