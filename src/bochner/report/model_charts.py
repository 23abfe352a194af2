"""Draws the target, the choice of the model, what more rows or features would do, and
residuals.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.ticker import AutoLocator
from sklearn.metrics import PredictionErrorDisplay

from bochner.display import SizeDisplay
from bochner.display.canvas import BLUE, shortened
from bochner.display.importance_displays import bar_block, draw_bars
from bochner.display.learning_displays import UNITS
from bochner.features.leaves import leaves, size_name
from bochner.markup import Markup, cut, number, table
from bochner.report.charts import chart, display_chart
from bochner.report.findings import Findings
from bochner.scores.measures import Z
from bochner.selection.report import RowsCurve


def target(findings: Findings) -> Markup:
    """The distribution of the target."""
    name = findings.origin.target or "target"
    title = f"Rows by {cut(name)}"
    if findings.predictions.proba is None:
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
    is_class = findings.predictions.proba is not None
    label = "Log loss" if is_class else "Mean squared error"
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
