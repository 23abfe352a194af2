"""Draws the target, the choice of the model, what more rows or features would do, and
how numbers or classes are predicted.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.ticker import AutoLocator
from sklearn.metrics import (
    ConfusionMatrixDisplay,
    PrecisionRecallDisplay,
    PredictionErrorDisplay,
    RocCurveDisplay,
    average_precision_score,
    confusion_matrix,
    precision_recall_fscore_support,
    roc_auc_score,
)

from bochner.display import ReliabilityDisplay, SizeDisplay
from bochner.display.canvas import BLUE, shortened, shortened_all
from bochner.display.importance_displays import bar_block, draw_bars
from bochner.display.learning_displays import UNITS
from bochner.features.leaves import leaves, size_name
from bochner.markup import Markup, cut, cut_all, number, percent, table
from bochner.report.charts import SHADES, chart, display_chart
from bochner.report.findings import Findings
from bochner.scores.measures import Z
from bochner.selection.report import RowsCurve

MOST_CURVES, NAME = 3, 24
SQUARE = 4.2  # inches
THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


def target(findings: Findings) -> Markup:
    """The distribution of the target."""
    name = findings.origin.target or "target"
    title = f"Rows by {cut(name)}"
    if not findings.is_class:
        y = findings.predictions.truth

        def draw(ax: Any) -> None:
            ax.hist(y, min(12, len(y) // 5), color=BLUE, rwidth=0.95)
            ax.set(xlabel=shortened(name), ylabel="Rows")

        return chart("target", title, draw)
    classes = findings.model.classes_
    counts = np.bincount(findings.predictions.truth, minlength=len(classes))
    first = np.argsort(-counts, kind="stable")[:12]
    names = classes[first].tolist()

    def draw_counts(ax: Any) -> None:
        bars = draw_bars(ax, names, counts[first])
        shown = [f"{count:,}" for count in counts[first]]
        ax.bar_label(bars, shown, padding=3, fontsize="small")
        ax.set(xlabel="Rows", xmargin=0.15)

    return chart("target", title, draw_counts, bar_block(names).height)


def choice(report: Any) -> dict[str, Markup] | None:
    """The candidates, the best first; None where there are none."""
    if report is None or not report.candidates:
        return None
    display = SizeDisplay((), report.candidates, report.chosen, report.criterion)
    return {
        "chart": display_chart("candidates", display),
        "table": report.candidates_table(),
    }


def loss_chart(title: str, x: str, y: str, curve: RowsCurve) -> Markup:
    """Losses with their 95 % intervals against numbers of rows or features."""
    halves = Z * np.array(curve.standard_errors)

    def draw(ax: Any) -> None:
        ax.set_xscale("log")
        look = {"marker": "o", "capsize": 3, "color": BLUE}
        ax.errorbar(curve.n_rows, curve.losses, halves, **look)
        ax.set(xlabel=x, ylabel=y)

    return chart(x, title, draw)


def rows(report: Any) -> dict[str, Any] | None:
    """Validation losses of the fit with fewer training rows, and whether more would
    help.
    """
    if report is None or report.rows is None:
        return None
    label = UNITS.get(report.criterion, report.criterion).capitalize()
    title = "Validation loss against rows"
    drawn = loss_chart(title, "Training rows", label, report.rows)
    return {"verdict": f"{report.rows}.", "chart": drawn}


def features(findings: Findings) -> dict[str, Any] | None:
    """Losses against the size of the map, and whether more would help."""
    curve = findings.by_size
    if curve is None:
        return None
    kinds = {size_name(leaf.features) for leaf in leaves(findings.model.features_)}
    what = "features"
    if "n_grids" in kinds:
        what = "features and grids" if "n_components" in kinds else "grids"
    label = "Log loss" if findings.is_class else "Mean squared error"
    drawn = loss_chart(f"{label} against {what}", f"Number of {what}", label, curve)
    return {"what": what, "verdict": f"{curve.told(what)}.", "chart": drawn}


def residuals(findings: Findings) -> dict[str, Markup]:
    """Targets and errors against predictions, and sizes of the errors."""
    predicted = findings.predictions.predicted
    truth = findings.predictions.truth
    errors = truth - predicted

    def draw(kind: str, label: str, ax: Any) -> None:
        PredictionErrorDisplay.from_predictions(
            truth,
            predicted,
            kind=kind,
            subsample=400,
            random_state=5,
            ax=ax,
            scatter_kwargs={"s": 9, "alpha": 0.5, "linewidths": 0, "color": BLUE},
        )
        ax.set(xlabel="Prediction", ylabel=label)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(AutoLocator())

    draw_truth = partial(draw, "actual_vs_predicted", "Target")
    draw_residuals = partial(draw, "residual_vs_predicted", "Residual")
    sizes = [
        ("mean absolute error (MAE)", number(np.abs(errors).mean())),
        ("root of the mean squared error (RMSE)", number(np.sqrt(np.mean(errors**2)))),
        ("median absolute error", number(np.median(np.abs(errors)))),
    ]
    return {
        "truth": chart("truth", "Targets against predictions", draw_truth),
        "chart": chart("residuals", "Residuals against predictions", draw_residuals),
        "sizes": table("Errors, in the unit of the target", ("error", "value"), sizes),
    }


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
    event = "the predicted class is right"
    if K == 2:
        drawn = both[-1:]
        event = f"the class is {names[1]}"
        # What a threshold on the probability of the second class leads to
        rows_by_threshold = []
        for threshold in THRESHOLDS:
            said = proba[:, 1] >= threshold
            of_class = precision_recall_fscore_support(
                labels == 1, said, average="binary", zero_division=np.nan
            )
            share = percent(said.mean())
            rows_by_threshold.append(
                (f"{threshold:g}", share, *map(_share, of_class[:3]))
            )
        start = f"predict {names[1]} from probability"
        head = (start, "rows predicted so", "precision", "recall", "F1")
        thresholds = table("Thresholds", head, rows_by_threshold, ())
    curves = []
    if drawn:
        short = shortened_all(names[k] for k in drawn)

        def draw(display: Any, x: str, y: str, ax: Any) -> None:
            for k, name in zip(drawn, short, strict=True):
                display.from_predictions(labels == k, proba[:, k], name=name, ax=ax)
            ax.set(xlabel=x, ylabel=y)

        of = "each class" if len(drawn) > 1 else names[drawn[0]]
        roc = partial(
            draw, RocCurveDisplay, "False positive rate", "True positive rate"
        )
        precision = partial(draw, PrecisionRecallDisplay, "Recall", "Precision")
        curves = [
            chart("roc", f"ROC curve of {of}", roc, SQUARE),
            chart("precision", f"Precision and recall of {of}", precision, SQUARE),
        ]
    # How often what was predicted with a probability came true, in the bins of the
    # calibration error
    class_labels = findings.model.classes_
    display = ReliabilityDisplay.from_predictions(
        class_labels[labels], np.clip(proba, 0, 1), classes=class_labels
    )
    reliability = "Reliability of the probabilities"
    some = f"The {len(first)} most frequent of {K:,} classes."
    return {
        "some": some if len(first) < K else "",
        "confusions": confusions,
        "table": table("By class", ("class", "rows", *head_of_scores), score_rows),
        "curves": curves,
        "thresholds": thresholds,
        "calibration": {
            "event": event,
            "error": display.curve.error,
            "chart": display_chart("reliability", display, reliability),
        },
    }


def _share(value: float) -> str:
    return "n/a" if np.isnan(value) else f"{value:.3f}"
