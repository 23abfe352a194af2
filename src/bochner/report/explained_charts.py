"""Draws what the columns do in the model: importance, Shapley values, effects,
interactions, learned distance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bochner.display import (
    BeeswarmDisplay,
    EffectDisplay,
    ImportanceDisplay,
    InteractionDisplay,
    MetricDisplay,
    WaterfallDisplay,
)
from bochner.markup import Markup, cut, number, table
from bochner.report.charts import SHADES, display_chart
from bochner.report.explained import MOST_PAIRED_WHOLE
from bochner.report.findings import Findings

MOST_PAIRS = 10


def importance(findings: Findings) -> Markup | None:
    """The importance of the columns as bars with 95 % intervals."""
    measured = findings.explained.importance
    if measured is None:
        return None
    display = ImportanceDisplay.from_importance(measured, max_columns=12)
    return display_chart("importance", display)


def metric(findings: Findings) -> dict[str, Any] | None:
    """Shares of the columns in the learned distance, and that along columns."""
    if findings.model.metric_ is None:
        return None
    display = MetricDisplay.from_estimator(findings.model, 8)
    title = "Relevance of the columns"
    title += ", and distance along them" if display.warps else ""
    return {
        "chart": display_chart("metric", display, title),
        "has_warps": bool(display.warps),
    }


def attribution(findings: Findings) -> dict[str, Any] | None:
    """Shapley values of some rows as points, and those of three rows as steps with what
    there is to say of them.
    """
    whole = findings.explained.attribution
    if whole is None:
        return None
    predictions = findings.predictions
    has_classes = whole.values.ndim == 3
    one = whole
    if has_classes:
        # Of several classes the most frequent one
        n_rows = np.bincount(predictions.truth, minlength=whole.values.shape[2])
        one = whole.of_output(int(n_rows.argmax()))
    display = BeeswarmDisplay.from_explanation(one, max_columns=10)
    facts = {"swarm": display_chart("swarm", display), "numbers": one._repr_html_()}
    steps = []
    for place, (what, i) in enumerate(findings.explained.told):
        truth, predicted = findings.rows.y[i], predictions.predicted[i]
        if predictions.proba is None:
            outcome = f"True {number(float(truth))}, predicted {number(predicted)}."
        else:
            p = predictions.proba[i]
            outcome = f"True {cut(truth)}, predicted {cut(predicted)}"
            outcome += f" with probability {p.max():.3f}."
            # Of several classes the one that is predicted
            one = whole.of_output(int(p.argmax())) if has_classes else whole
        drawn = WaterfallDisplay.from_explanation(one, place, max_columns=8)
        if one.unit.endswith("log-odds"):
            outcome += f" {one.unit.capitalize()} of {cut(one.output_names[0])} above."
        titled = replace(drawn, title=f"Row {findings.rows.numbers[i]:,}, {what}")
        steps.append((display_chart(f"steps{place}", titled), outcome))
    return facts | {"steps": steps}


def interactions(findings: Findings) -> dict[str, Any] | None:
    """The strongest pairs as a table, and all pairs of some columns as a matrix."""
    pair_interactions = findings.explained.interactions
    if pair_interactions is None:
        return None
    pairs = [
        (f"{cut(a)} x {cut(b)}", number(size))
        for a, b, size in pair_interactions.top_pairs(MOST_PAIRS)
        if size > 0
    ]
    head = ("pair of columns", f"mean size, {pair_interactions.unit}")
    numbers = table(f"The {len(pairs)} strongest interactions", head, pairs)
    display = InteractionDisplay.from_interactions(
        pair_interactions, max_columns=MOST_PAIRS
    )
    return {
        "table": numbers,
        "chart": display_chart("interactions", display, cmap=SHADES),
        "held": f"{findings.rows.numbers[findings.explained.told[0][1]]:,}"
        if len(findings.rows.names) > MOST_PAIRED_WHOLE
        else None,
    }


def effects(findings: Findings) -> list[Markup]:
    """Mean predictions against each column, with the middle half of the rows."""
    column_effects = findings.explained.effects
    if column_effects is None:
        return []
    charts = []
    for k, one in enumerate(column_effects):
        low, high = np.quantile(one.curves, (0.25, 0.75), axis=0)
        drawn = replace(one, low=low, high=high, curves=one.curves[:0])
        display = EffectDisplay.from_effects(replace(column_effects, columns=(drawn,)))
        charts.append(display_chart(f"effect{k}", display, cut(one.column)))
    return charts
