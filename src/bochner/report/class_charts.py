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
from bochner.markup import Markup, cut, cut_all, percent, table
from bochner.report.charts import SHADES, chart, display_chart
from bochner.report.findings import Findings

MOST_CURVES, NAME = 3, 24
SQUARE = 4.2  # inches
THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def classes(findings: Findings) -> dict[str, Any]:
    """All pictures and tables."""
    labels = findings.predictions.truth
    proba: Any = findings.predictions.proba
    predicted = proba.argmax(axis=1)
    names = cut_all(findings.model.classes_.tolist(), NAME)
    K = len(names)
    support = np.bincount(labels, minlength=K)
    first = np.sort(np.argsort(-support, kind="stable")[:12]).tolist()
    shown = [names[k] for k in first]
    # Counts of true and predicted classes as cells
    counts = confusion_matrix(labels, predicted, labels=first)
    cells = ConfusionMatrixDisplay(counts, display_labels=shortened_all(shown))
    look: dict[str, Any] = {
        "cmap": SHADES,
        "colorbar": False,
        "values_format": "d",
        "xticks_rotation": "vertical" if len(first) > MOST_CURVES else "horizontal",
        "text_kw": {"color": "black"},
    }
    height = 1.8 + 0.26 * max(len(first), 5)
    confusions = chart(
        "confusions", "Confusion matrix", lambda ax: cells.plot(ax=ax, **look), height
    )
    # Scores by class
    scores = precision_recall_fscore_support(
        labels, predicted, labels=first, zero_division=np.nan
    )
    score_rows = []
    for k, *values, n in zip(first, *scores, strict=True):
        areas = [np.nan, np.nan]
        if 0 < n < len(labels):
            truth, p = labels == k, proba[:, k]
            areas = [roc_auc_score(truth, p), average_precision_score(truth, p)]
        score_rows.append((names[k], f"{n:,}", *map(_share, [*values, *areas])))
    head_of_scores = ("precision", "recall", "F1", "ROC AUC", "average precision")
    # Curves of a few classes against the others; thresholds and one curve of two
    both = [k for k in first if 0 < support[k] < len(labels)]
    drawn = sorted(both, key=lambda k: -support[k])[:MOST_CURVES]
    thresholds = None
    if K == 2:
        drawn = both[-1:]
        thresholds = _thresholds(labels == 1, proba[:, 1], names[1])
    some = f"The {len(first)} most frequent of {K:,} classes."
    return {
        "some": some if len(first) < K else "",
        "confusions": confusions,
        "table": table("By class", ("class", "rows", *head_of_scores), score_rows),
        "curves": _curves(labels, proba, drawn, names) if drawn else [],
        "thresholds": thresholds,
        "calibration": calibration(findings),
    }


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
    roc = partial(draw, RocCurveDisplay, "False positive rate", "True positive rate")
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
        share = percent(said.mean())
        rows.append((f"{threshold:g}", share, *map(_share, scores[:3])))
    start = f"predict {name} from probability"
    head = (start, "rows predicted so", "precision", "recall", "F1")
    return table("Thresholds", head, rows, ())


def calibration(findings: Findings) -> dict[str, Any]:
    """How often what was predicted with a probability came true, in the bins of the
    calibration error.
    """
    class_labels = findings.model.classes_
    proba: Any = findings.predictions.proba
    truth = class_labels[findings.predictions.truth]
    display = ReliabilityDisplay.from_predictions(
        truth, np.clip(proba, 0, 1), classes=class_labels
    )
    event = "the predicted class is right"
    if len(class_labels) == 2:
        event = f"the class is {cut(class_labels[1], NAME)}"
    title = "Reliability of the probabilities"
    return {
        "event": event,
        "error": display.curve.error,
        "chart": display_chart("reliability", display, title),
    }
