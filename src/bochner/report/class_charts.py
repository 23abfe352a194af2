"""Draws how a classifier does: confusions, curves with their areas, a table by
class, thresholds, calibration.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import (
    ConfusionMatrixDisplay,
    PrecisionRecallDisplay,
    RocCurveDisplay,
    average_precision_score,
    confusion_matrix,
    precision_recall_fscore_support,
    roc_auc_score,
)

from bochner.display import ReliabilityDisplay
from bochner.display.canvas import shortened_all
from bochner.markup import Markup, cut, cut_all, number, percent, table
from bochner.report.charts import SHADES, chart, display_chart
from bochner.report.findings import Findings

MOST_CLASSES, MOST_CURVES, NAME = 12, 3, 24
CELL, BESIDE, SQUARE = 0.26, 1.8, 4.2  # inches
THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def classes(findings: Findings) -> dict[str, Any]:
    """All pictures and tables."""
    predictions = findings.predictions
    assert predictions.proba is not None
    names = cut_all(findings.model.classes_.tolist(), NAME)
    labels = predictions.labels
    proba = predictions.proba
    support = np.bincount(labels, minlength=len(names))
    first = np.sort(np.argsort(-support, kind="stable")[:MOST_CLASSES]).tolist()
    predicted = proba.argmax(axis=1)
    both = [k for k in first if 0 < support[k] < len(labels)]
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
        "table": _by_class(labels, predicted, proba, first, names),
        "curves": _curves(labels, proba, drawn, names) if drawn else [],
        "thresholds": _thresholds(labels == 1, proba[:, 1], names[1])
        if len(names) == 2
        else None,
        "calibration": calibration(findings),
    }


def _confusions(
    labels: NDArray, predicted: NDArray, first: list[int], names: list[str]
) -> tuple[Markup, Markup]:
    """Counts of true and predicted classes as cells, and as a table."""
    title = "Confusion matrix"
    shown = [names[k] for k in first]
    counts = confusion_matrix(labels, predicted, labels=first)
    display = ConfusionMatrixDisplay(counts, display_labels=shortened_all(shown))
    draw = partial(
        display.plot,
        cmap=SHADES,
        colorbar=False,
        values_format="d",
        xticks_rotation="vertical" if len(first) > MOST_CURVES else "horizontal",
        text_kw={"color": "black"},
    )
    rows = [
        (name, *(f"{count:,}" for count in row))
        for name, row in zip(shown, counts.tolist(), strict=True)
    ]
    head = ("true class", *(f"predicted {name}" for name in shown))
    height = BESIDE + CELL * max(len(first), 5)
    return (
        chart("confusions", title, lambda ax: draw(ax=ax), height),
        table(title, head, rows),
    )


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


def _curves(
    labels: NDArray, proba: NDArray, drawn: list[int], names: list[str]
) -> list[Markup]:
    """Receiver operating characteristic, and precision against recall, of some classes
    against the others.
    """
    short = shortened_all(names[k] for k in drawn)

    def draw(display: Any, x: str, y: str, ax: Any) -> None:
        for k, name in zip(drawn, short, strict=True):
            display.from_predictions(labels == k, proba[:, k], name=name, ax=ax)
        ax.set(xlabel=x, ylabel=y)

    of = "each class" if len(drawn) > 1 else names[drawn[0]]
    rates = "False positive rate", "True positive rate"
    roc = partial(draw, RocCurveDisplay, *rates)
    precision = partial(draw, PrecisionRecallDisplay, "Recall", "Precision")
    return [
        chart("roc", f"ROC curve of {of}", roc, SQUARE),
        chart("precision", f"Precision and recall of {of}", precision, SQUARE),
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


def calibration(findings: Findings) -> dict[str, Any]:
    """How often what was predicted with a probability came true, in the bins of the
    calibration error.
    """
    predictions = findings.predictions
    class_labels = findings.model.classes_
    assert predictions.proba is not None
    display = ReliabilityDisplay.from_predictions(
        class_labels[predictions.labels],
        np.clip(predictions.proba, 0, 1),
        classes=class_labels,
    )
    (curve,) = display.curves.values()
    event = (
        f"the class is {cut(class_labels[1], NAME)}"
        if len(class_labels) == 2
        else "the predicted class is right"
    )
    title = "Reliability of the probabilities"
    columns = curve.probability, curve.frequency, *curve.interval.T
    rows = [tuple(map(number, row)) for row in np.column_stack(columns).tolist()]
    head = ("predicted probability", "observed frequency", "from", "to")
    return {
        "event": event,
        "error": curve.error,
        "chart": display_chart("reliability", title, display),
        "numbers": table(title, head, rows, ()),
    }
