"""Draws what the columns do in the model: importance, Shapley values, effects,
interactions, learned distance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bochner.display.attribution_displays import (
    SWARM_BINS,
    BeeswarmDisplay,
    WaterfallDisplay,
    swarm,
)
from bochner.display.canvas import short_number
from bochner.explanations import Explanation
from bochner.markup import Markup, cut, number, percent, table
from bochner.report.charts import (
    Series,
    bar_chart,
    interval_chart,
    line_chart,
    matrix_chart,
    step_chart,
    swarm_chart,
)
from bochner.report.explained import MOST_PAIRED_WHOLE
from bochner.report.findings import Findings
from bochner.scores.measures import Z

MOST_BARS, MOST_SWARMS, MOST_STEPS, CELL = 12, 10, 8, 40
MOST_CLASSES, MOST_LEVELS, BESIDE = 3, 8, 0.08
MOST_PAIRS = 10


def importance(found: Findings) -> dict[str, Any]:
    """The importance of the columns as bars with 95 % intervals, and what it is
    measured by.
    """
    own = found.explained.importance
    assert own is not None
    first = np.argsort(-own.values, kind="stable")[:MOST_BARS]
    values, halves = own.values[first] / own.total, Z * own.share_errors()[first]
    shown = [percent(max(value, 0.0)) for value in values.tolist()]
    names = [own.names[j] for j in first]
    some = (
        f"the {len(first)} largest of {len(own.names):,} columns"
        if len(first) < len(own.names)
        else "all columns"
    )
    title = f"Growth of the {own.loss}, as a share of the total, {some}"
    return {
        "chart": bar_chart(title, names, values.tolist(), shown, halves.tolist()),
        "loss": own.loss,
        "n_rows": own.n_rows,
        "n_repeats": own.n_repeats,
    }


def relevance(found: Findings) -> Markup:
    """Shares of the columns in the learned distance."""
    names, shares = found.rows.names, found.explained.relevance
    assert shares is not None
    first = [j for j in np.argsort(-shares, kind="stable").tolist() if shares[j] > 0][
        :MOST_BARS
    ]
    some = (
        f"the {len(first)} largest of {len(names):,} columns"
        if len(first) < len(names)
        else "all columns"
    )
    values = [float(shares[j]) for j in first]
    title = f"Relevance in the distance, {some}"
    return bar_chart(
        title, [names[j] for j in first], values, [percent(value) for value in values]
    )


def warp_chart(warp: Any) -> Markup:
    """The learned distance along a column."""
    return line_chart(
        cut(warp.name, CELL),
        (str(warp.name), "distance"),
        [Series("", warp.x, warp.w, kind="line")],
    )


def attribution(found: Findings) -> dict[str, Any]:
    """Shapley values of some rows as points, and those of three rows as steps."""
    whole = found.explained.attribution
    assert whole is not None
    k = _shown_output(found, whole)
    one = whole if k is None else whole.of_output(k)
    drawn = BeeswarmDisplay.from_explanation(one, max_columns=MOST_SWARMS)
    edges = np.linspace(drawn.values.min(), drawn.values.max() + 1e-300, SWARM_BINS + 1)
    offsets = np.stack([swarm(values, edges) for values in drawn.values.T], axis=1)
    of = f" ({one.output_names[0]})" if one.unit == "log-odds" else ""
    label = f"added to the prediction, {one.unit}{of}"
    shown = drawn.values, offsets, drawn.places
    return {
        "swarm": swarm_chart(
            f"Shapley values in {len(one):,} rows", cut(label, 48), drawn.names, *shown
        ),
        "steps": list(_steps(found, whole)),
        "unit": one.unit,
        "is_exact": one.is_exact,
        "n_background": one.n_background,
    }


def _shown_output(found: Findings, whole: Explanation) -> int | None:
    """Of several classes the most frequent one; None where there is one output."""
    if whole.values.ndim == 2:
        return None
    return int(
        np.bincount(found.predictions.labels, minlength=whole.values.shape[2]).argmax()
    )


def _steps(found: Findings, whole: Explanation) -> Iterator[Markup]:
    """Three rows, of several classes each by the class that is predicted."""
    predictions = found.predictions
    for at, (what, i) in enumerate(found.explained.told):
        one = whole
        if whole.values.ndim == 3 and predictions.proba is not None:
            one = whole.of_output(int(predictions.proba[i].argmax()))
        drawn = WaterfallDisplay.from_explanation(one, at, max_columns=MOST_STEPS)
        of = (
            f"Log-odds of {cut(one.output_names[0], CELL)}: "
            if one.unit == "log-odds"
            else ""
        )
        total = short_number(drawn.base + float(drawn.values.sum()))
        note = (
            f"{_outcome(found, i)} {of}{short_number(drawn.base)} on average, "
            f"{total} here."
        )
        yield step_chart(
            f"Row {row_number(found, i)}, {what}",
            drawn.base,
            drawn.names,
            drawn.values.tolist(),
            note,
        )


def row_number(found: Findings, i: int) -> str:
    """The number of a row in the table that was given."""
    numbers = (
        found.rows.numbers
        if found.origin.numbers is None
        else found.origin.numbers[found.rows.numbers]
    )
    return f"{int(numbers[i]):,}"


def _outcome(found: Findings, i: int) -> str:
    predictions, truth = found.predictions, found.rows.y[i]
    if predictions.proba is None:
        return (
            f"True {number(float(truth))}, predicted "
            f"{number(float(predictions.predicted[i]))}."
        )
    sure = f"{predictions.proba[i].max():.3f}"
    return (
        f"True {cut(truth, CELL)}, predicted "
        f"{cut(predictions.predicted[i], CELL)} with probability {sure}."
    )


def interactions(found: Findings) -> dict[str, Any]:
    """The strongest pairs as a table, and all pairs of some columns as a matrix."""
    own = found.explained.interactions
    assert own is not None
    pairs = [
        (f"{cut(a)} x {cut(b)}", number(size))
        for a, b, size in own.top_pairs(MOST_PAIRS)
        if size > 0
    ]
    head = ("pair of columns", f"mean size, {own.unit}")
    numbers = table(f"The {len(pairs)} strongest interactions", head, pairs)
    sizes = np.where(np.eye(len(own.feature_names), dtype=bool), 0.0, own.mean_absolute)
    return {
        "table": numbers,
        "chart": matrix_chart(
            "Interactions of pairs of columns",
            own.feature_names,
            sizes,
            own._repr_html_(),
        ),
        "n_rows": len(own.values),
        "is_exact": own.is_exact,
        "held": row_number(found, found.explained.told[0][1])
        if len(found.rows.names) > MOST_PAIRED_WHOLE
        else None,
    }


def effects(found: Findings) -> Iterator[Markup]:
    """Mean predictions against each column: curves over numbers and dates, and
    intervals of levels.
    """
    own = found.explained.effects
    assert own is not None
    what, names = own.what, own.outputs
    proba = found.predictions.proba
    ranks = np.zeros(1) if proba is None else -proba.mean(axis=0)[-len(names) :]
    shown = np.sort(np.argsort(ranks, kind="stable")[:MOST_CLASSES]).tolist()
    for one in own:
        low, high = np.quantile(one.curves, (0.25, 0.75), axis=0)
        title, first, named = cut(one.column, CELL), shown[0], proba is not None
        if one.is_level:
            label = f"mean {what}" + (f" of {cut(names[first], 20)}" if named else "")
            ends = np.column_stack([low[:, first], one.mean[:, first], high[:, first]])[
                :MOST_LEVELS
            ]
            yield interval_chart(
                title,
                label,
                one.labels[:MOST_LEVELS],
                [(a, b, c) for a, b, c in ends.tolist()],
            )
            continue
        known = ~np.isnan(one.positions)
        x, series = one.positions[known], list[Series]()
        for k in shown:
            name = names[k] if named else what
            series.append(
                Series(
                    name, x, one.mean[known, k], low[known, k], high[known, k], "band"
                )
            )
        if not known.all():
            name = "missing" + (f", {cut(names[first], 20)}" if named else "")
            mean, below, above = (part[-1:, first] for part in (one.mean, low, high))
            series.append(
                Series(name, x[-1:] + BESIDE * (x[-1] - x[0]), mean, below, above)
            )
        label = (
            f"{what} of {cut(names[first], 20)}" if named and len(shown) == 1 else what
        )
        axes = (one.column, label)
        yield line_chart(
            title, axes, series, shaded=one.empty, is_date=one.unit == "days"
        )
