"""Draws how a classifier does: confusions, curves with their areas, a table by
class, thresholds, calibration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import (
    average_precision_score,
    confusion_matrix,
    precision_recall_curve,
    precision_recall_fscore_support,
    roc_auc_score,
    roc_curve,
)

from bochner.markup import Markup, cut, cut_all, percent, table
from bochner.report.charts import Series, line_chart
from bochner.report.findings import Findings
from bochner.scores import reliability
from bochner.scores.measures import judged_event

MOST_CLASSES, MOST_CURVES, POINTS, NAME = 12, 3, 60, 24
THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def classes(found: Findings) -> dict[str, Any]:
    """All pictures and tables."""
    predictions = found.predictions
    assert predictions.proba is not None
    names = cut_all(found.model.classes_.tolist(), NAME)
    labels, proba = predictions.labels, predictions.proba
    support = np.bincount(labels, minlength=len(names))
    first = np.sort(np.argsort(-support, kind="stable")[:MOST_CLASSES])
    predicted = proba.argmax(axis=1)
    both = [k for k in first.tolist() if 0 < support[k] < len(labels)]
    drawn = (
        [both[-1]]
        if both and len(names) == 2
        else sorted(both, key=lambda k: -support[k])[:MOST_CURVES]
    )
    return {
        "some": f"The {len(first)} most frequent of {len(names):,} classes."
        if len(first) < len(names)
        else "",
        "confusions": _confusions(labels, predicted, first, names),
        "table": _by_class(labels, predicted, proba, first.tolist(), names),
        "curves": [chart(labels, proba, drawn, names) for chart in (_roc, _precision)]
        if drawn
        else [],
        "thresholds": _thresholds(labels == 1, proba[:, 1], names[1])
        if len(names) == 2
        else None,
        "calibration": calibration(found),
    }


def _confusions(
    labels: NDArray, predicted: NDArray, first: NDArray, names: list[str]
) -> Markup:
    counts = confusion_matrix(labels, predicted, labels=np.arange(len(names)))
    rows = [
        (names[k], *(f"{counts[k, j]:,}" for j in first), f"{counts[k].sum():,}")
        for k in first
    ]
    head = ("true class", *(f"predicted {names[k]}" for k in first), "rows")
    return table("Confusion matrix", head, rows)


def _by_class(
    labels: NDArray,
    predicted: NDArray,
    proba: NDArray,
    first: list[int],
    names: list[str],
) -> Markup:
    parts = precision_recall_fscore_support(
        labels, predicted, labels=first, zero_division=np.nan
    )
    rows = []
    for k, precision, recall, f1, support in zip(first, *parts, strict=True):
        areas = ["n/a", "n/a"]
        if 0 < support < len(labels):
            is_k = labels == k
            areas = [
                f"{area(is_k, proba[:, k]):.3f}"
                for area in (roc_auc_score, average_precision_score)
            ]
        values = (_share(precision), _share(recall), _share(f1))
        rows.append((names[k], f"{support:,}", *values, *areas))
    return table(
        "By class",
        ("class", "rows", "precision", "recall", "F1", "ROC AUC", "average precision"),
        rows,
    )


def _share(value: float) -> str:
    return "n/a" if np.isnan(value) else f"{value:.3f}"


def _thinned(x: NDArray, y: NDArray) -> tuple[NDArray, NDArray]:
    """Some points of a curve, its ends among them."""
    where = np.unique(np.linspace(0, len(x) - 1, POINTS).round().astype(int))
    return x[where], y[where]


def _roc(labels: NDArray, proba: NDArray, drawn: list[int], names: list[str]) -> Markup:
    points = [roc_curve(labels == k, proba[:, k])[:2] for k in drawn]
    areas = [float(roc_auc_score(labels == k, proba[:, k])) for k in drawn]
    title = (
        f"ROC curve, area {areas[0]:.3f}"
        if len(drawn) == 1
        else "ROC curves, each class against the others"
    )
    axes = ("false positive rate", "true positive rate")
    return line_chart(title, axes, _curves(points, areas, drawn, names), diagonal=True)


def _precision(
    labels: NDArray, proba: NDArray, drawn: list[int], names: list[str]
) -> Markup:
    points = [precision_recall_curve(labels == k, proba[:, k])[1::-1] for k in drawn]
    areas = [float(average_precision_score(labels == k, proba[:, k])) for k in drawn]
    one = f"Precision and recall of {names[drawn[0]]}, area {areas[0]:.3f}"
    title = one if len(drawn) == 1 else "Precision and recall of each class"
    return line_chart(
        title, ("recall", "precision"), _curves(points, areas, drawn, names)
    )


def _curves(
    points: Sequence[Any], areas: list[float], drawn: list[int], names: list[str]
) -> list[Series]:
    """A line for each class, named with its area."""
    parts = zip(points, areas, drawn, strict=True)
    return [
        Series(f"{names[k]}, area {area:.3f}", *_thinned(*xy), kind="line")
        for xy, area, k in parts
    ]


def _thresholds(happened: NDArray, probability: NDArray, name: str) -> Markup:
    """What a threshold on the probability of the second class leads to."""
    rows = []
    for threshold in THRESHOLDS:
        said = probability >= threshold
        scores = precision_recall_fscore_support(
            happened, said, average="binary", zero_division=np.nan
        )
        rows.append(
            (f"{threshold:g}", percent(float(said.mean())), *map(_share, scores[:3]))
        )
    head = (
        f"predict {name} from probability",
        "rows predicted so",
        "precision",
        "recall",
        "F1",
    )
    return table("Thresholds", head, rows, ())


def calibration(found: Findings) -> dict[str, Any]:
    """How often what was predicted with a probability came true, in the bins of the
    calibration error.
    """
    predictions, known = found.predictions, found.model.classes_
    assert predictions.proba is not None
    curve = reliability(
        *judged_event(predictions.labels, np.clip(predictions.proba, 0, 1))
    )
    event = (
        f"the class is {cut(known[1], NAME)}"
        if len(known) == 2
        else "the predicted class is right"
    )
    series = Series("frequency", curve.probability, curve.frequency, *curve.interval.T)
    axes = ("predicted probability", "observed frequency")
    chart = line_chart(
        "Reliability of the probabilities", axes, [series], diagonal=True
    )
    return {"event": event, "error": curve.error, "chart": chart}
