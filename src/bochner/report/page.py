"""Fills the page: what each section shows of the findings, in one file that loads
nothing.
"""

from __future__ import annotations

import datetime
import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

from bochner import __version__
from bochner.display.canvas import short_number
from bochner.display.learning_displays import UNITS
from bochner.features.leaves import leaves, size_name
from bochner.markup import Markup, cut, cut_all, cut_named, number, percent, table
from bochner.report import class_charts, explained_charts
from bochner.report.charts import (
    Series,
    bar_chart,
    interval_chart,
    line_chart,
    templates,
)
from bochner.report.findings import Curve, Findings, Origin
from bochner.report.given_columns import LEVEL, n_looked_at
from bochner.report.given_rows import COVERAGE
from bochner.scores.measures import Z
from bochner.scores.summaries import NAMES, cells, score_rows
from bochner.settings import as_size

MOST_BARS, MOST_WORST, WORST_COLUMNS, CELL = 12, 10, 6, 40
BINS, DOTS = 12, 600
FEW_ROWS, RARE, MOST_LISTED = 200, 20, 40
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow")


def page(found: Findings) -> str:
    """The whole page."""
    model, is_class = found.model, found.predictions.proba is not None
    own, report = found.explained, getattr(model, "report_", None)
    fit_again = (
        f"model = {model!r}.fit(X_train, y_train)",
        "model.report_html(X, y, out='report.html')",
    )
    return templates.get_template("page.html").render(
        title=title(found),
        style=Markup(
            files("bochner.report").joinpath("style.css").read_text(encoding="utf-8")
        ),
        found=found,
        origin=found.origin,
        report=report,
        is_class=is_class,
        n_rows=len(found.rows),
        table=table,
        score_rows=shown_scores,
        summary=list(summary(found)),
        beside=beside(found.origin),
        limits=list(limits(found)),
        data=data(found),
        choice=choice(report) if report is not None and report.candidates else None,
        importance=None
        if own.importance is None
        else explained_charts.importance(found),
        attribution=None
        if own.attribution is None
        else explained_charts.attribution(found),
        interactions=None
        if own.interactions is None
        else explained_charts.interactions(found),
        relevance=None if own.relevance is None else explained_charts.relevance(found),
        warps=[explained_charts.warp_chart(warp) for warp in found.warps],
        more_rows=None if report is None or report.rows is None else rows_chart(report),
        more_features=None if found.by_size is None else features_chart(found),
        errors=class_charts.classes(found) if is_class else residuals(found),
        worst=worst(found),
        effects=[] if own.effects is None else list(explained_charts.effects(found)),
        costs=list(costs(found)),
        stages=[
            (name, f"{seconds:.2f}")
            for name, seconds in (report.seconds if report else {}).items()
        ],
        lines=found.origin.lines or fit_again,
        seeded=getattr(model, "random_state", None) is not None,
        versions=versions(),
    )


def title(found: Findings) -> str:
    """What the page is of, and from when."""
    task = "classification" if found.predictions.proba is not None else "regression"
    named = [found.origin.file] if found.origin.file else []
    return ", ".join(
        [
            f"Model report: {cut(found.origin.target or 'target', CELL)} ({task})",
            *named,
            f"{datetime.date.today()}",
        ]
    )


def shown_scores(scores: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Rows of a table of scores; a constant has no calibration error that is worth a
    comparison.
    """
    rows = score_rows(scores)
    return [
        (*row[:3], "") if key == "calibration_error" else row
        for key, row in zip(scores, rows, strict=True)
    ]


def summary(found: Findings) -> Iterator[str]:
    """What matters, in a few lines."""
    origin, names = found.origin, found.rows.names
    if origin.held_out is not None and (found.seen or origin.others):
        others = origin.others["scores"] if origin.others else {}
        yield from headline(
            origin.held_out, " on the rows that 'bochner fit' held out", others
        )
    if found.seen:
        key = main_score(found.scores)
        value = f"{NAMES[key]} {cells(key, found.scores[key])[0]}"
        yield (
            f"The rows of this page are training rows ({found.seen}): {value} on "
            "them says nothing of new rows."
        )
    else:
        yield from headline(found.scores, " on the rows of this page")
    yield sentence(found)
    rows = f"{found.rows.n_given:,} rows, {len(names):,} columns"
    fitted = (
        ""
        if origin.rows_fitted is None
        else f" The model was fitted on {origin.rows_fitted:,} rows."
    )
    yield f"This page is about {rows}.{fitted}"
    if found.explained.importance is not None:
        first = found.explained.importance.top_columns(3)
        named = ", ".join(
            f"{name} ({percent(share)} of the total)"
            for name, share in cut_named(first)
        )
        yield (
            f"Most important columns: {named}."
            if named
            else "No column is important to the predictions."
        )


def main_score(scores: dict[str, Any]) -> str:
    """The score that stands first."""
    return "accuracy" if "accuracy" in scores else "r2"


def headline(
    scores: dict[str, Any], where: str, others: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[str]:
    """The first score with its interval, beside those of a baseline and of other
    models on the same rows.
    """
    key = main_score(scores)
    value, interval, baseline = cells(key, scores[key])
    if scores[key]["value"] is None:
        return
    within = f" (95 % interval {interval})" if interval else ""
    known = {
        name: cells(key, own[key])[0]
        for name, own in others.items()
        if own[key]["value"] is not None
    }
    beside = "".join(f"; {name} {value}" for name, value in known.items())
    yield (
        f"{NAMES[key].capitalize()} {value}{where}{within}; baseline "
        f"{baseline}{beside}."
    )


def sentence(found: Findings) -> str:
    """The model in one sentence."""
    model, report = found.model, getattr(found.model, "report_", None)
    size = (
        f"{model.features_.n_features_out:,} features, ridge penalty "
        f"{number(model.alpha_)}"
    )
    if report is None or not report.chosen:
        return f"Model: {size}, as the arguments of the fit say."
    return f"Model: {report.chosen}, {size} ({report.reason.rstrip('.')})."


def beside(origin: Origin) -> Markup | None:
    """Scores of other models beside those of this one, all fitted without the rows
    that the fit held out.
    """
    scores = origin.held_out
    if scores is None or not origin.others:
        return None
    keys = [
        key
        for key in scores
        if not key.startswith("interval_") and key != "calibration_error"
    ]
    own = (
        "this model",
        *(" (".join(filter(None, cells(key, scores[key])[:2])) for key in keys),
    )
    own = tuple(f"{cell})" if " (" in cell else cell for cell in own)
    others = [
        (name, *(cells(key, one[key])[0] for key in keys))
        for name, one in origin.others["scores"].items()
    ]
    baseline = ("baseline", *(cells(key, scores[key])[2] for key in keys))
    return table(
        "This model and others",
        ("model", *(NAMES[key] for key in keys)),
        [own, *others, baseline],
    )


def limits(found: Findings) -> Iterator[str]:
    """What the model cannot be trusted for, as far as these rows tell."""
    scores, predictions, n = found.scores, found.predictions, len(found.rows)
    if n < FEW_ROWS:
        yield f"The scores are from {n:,} rows only: see their intervals."
    if predictions.proba is not None:
        support = np.bincount(predictions.labels, minlength=predictions.proba.shape[1])
        rare = [
            cut(name, CELL)
            for name, rows in zip(found.model.classes_.tolist(), support, strict=True)
            if rows < RARE
        ]
        if rare:
            yield (
                f"Classes with fewer than {RARE} of these rows: "
                f"{', '.join(rare[:5])}. Nothing can be said of them."
            )
    if (covered := scores.get("interval_coverage")) and not covered["interval"][
        0
    ] <= COVERAGE <= covered["interval"][1]:
        yield (
            f"Intervals of {100 * COVERAGE:g} % hold {percent(covered['value'])} "
            "of these rows."
        )
    held_out, others = found.origin.held_out, found.origin.others
    better = (
        [name for name, own in others["scores"].items() if _is_better(own, held_out)]
        if held_out and others
        else []
    )
    if better:
        yield (
            "On the rows that the fit held out it is not better than: "
            f"{', '.join(better)}."
        )
    drifted = [
        one.name for one in found.columns if one.drift is not None and one.drift < LEVEL
    ]
    if drifted:
        yield (
            "Columns that differ from the training rows: "
            f"{', '.join(cut_all(drifted[:5]))}."
        )
    leaks = [
        one.name
        for one in found.columns
        if any("leak" in said for said in one.remarks(n))
    ]
    if leaks:
        named = ", ".join(cut_all(leaks[:5]))
        yield (
            f"One column alone predicts the target: {named}. Make sure that it is "
            "known before the target is."
        )
    yield "Rows unlike the training rows: predictions there are guesses."
    yield (
        "What happens if a column is changed: the model has learned what goes "
        "together, not what causes what."
    )


def _is_better(one: dict[str, Any], own: dict[str, Any]) -> bool:
    """Whether another model has the smaller loss."""
    key = "log_loss" if "log_loss" in own else "rmse"
    return bool(one[key]["value"] < own[key]["value"])


def data(found: Findings) -> dict[str, Any]:
    """The target and the columns of the given rows."""
    head = (
        "column",
        "type",
        "missing",
        "different values",
        "range, or most frequent",
        "drift, p",
        "alone",
        "remarks",
    )
    n = n_looked_at(found.rows)
    first = {
        name: k
        for k, name in enumerate(found.rows.names[j] for j in found.explained.columns)
    }
    ordered = sorted(
        found.columns, key=lambda one: (not one.remarks(n), first[one.name])
    )[:MOST_LISTED]
    rows = [
        (
            name,
            one.kind,
            percent(one.missing) if one.missing else "",
            f"{one.distinct:,}",
            cut(one.typical, CELL),
            "" if one.drift is None else number(one.drift),
            "" if one.alone is None else percent(one.alone),
            "; ".join(one.remarks(n)),
        )
        for name, one in zip(cut_all(one.name for one in ordered), ordered, strict=True)
    ]
    kept = getattr(found.model, "background_", None)
    some = f"Columns, {len(rows):,} of {len(found.rows.names):,}"
    return {
        "table": table(some, head, rows, (0, 1, 4, 7)) if rows else None,
        "target": target_chart(found),
        "n_kept": 0 if kept is None else len(kept),
        "n": n,
    }


def target_chart(found: Findings) -> Markup:
    """The distribution of the target."""
    name = cut(found.origin.target or "target", CELL)
    if found.predictions.proba is None:
        counts, edges = np.histogram(
            found.rows.y.astype(np.float64), min(BINS, len(found.rows) // 5)
        )
        ends = [
            f"{short_number(a)} to {short_number(b)}"
            for a, b in pairwise(edges.tolist())
        ]
        return bar_chart(
            f"Rows by {name}",
            ends,
            counts.tolist(),
            [f"{count:,}" for count in counts.tolist()],
        )
    counts = np.bincount(found.predictions.labels, minlength=len(found.model.classes_))
    first = np.argsort(-counts, kind="stable")[:MOST_BARS]
    shown = [f"{counts[k]:,}" for k in first]
    return bar_chart(
        f"Rows by {name}",
        found.model.classes_[first].tolist(),
        counts[first].tolist(),
        shown,
    )


def choice(report: Any) -> dict[str, Markup]:
    """The candidates, the chosen one first."""
    ranked = sorted(
        report.candidates, key=lambda one: (one.name != report.chosen, one.loss)
    )
    ends = [
        (one.loss - Z * one.standard_error, one.loss, one.loss + Z * one.standard_error)
        for one in ranked
    ]
    label = f"{UNITS.get(report.criterion, report.criterion)} (95 % interval)"
    head = (
        "candidate",
        report.criterion,
        "standard error",
        "features or grids",
        "seconds",
    )
    rows = [
        (
            one.name,
            number(one.loss),
            f"{one.standard_error:.2g}",
            f"{one.size:,}",
            f"{one.seconds:.1f}",
        )
        for one in ranked
    ]
    names = [one.name for one in ranked]
    return {
        "chart": interval_chart(
            "Candidates and their losses", label, names, ends, first=True
        ),
        "table": table(
            f"Candidates, compared on {report.rows_held_out:,} validation rows",
            head,
            rows,
        ),
    }


def rows_chart(report: Any) -> dict[str, Any]:
    """Validation losses of the fit with fewer training rows, and whether more would
    help.
    """
    curve, label = report.rows, UNITS.get(report.criterion, report.criterion)
    losses, halves = np.array(curve.losses), Z * np.array(curve.standard_errors)
    series = Series(label, curve.n_rows, losses, losses - halves, losses + halves)
    chart = line_chart(
        "Validation loss against rows",
        ("number of training rows", label),
        [series],
        log=True,
    )
    return {"verdict": f"{curve}.", "chart": chart, "n_validated": report.rows_held_out}


def features_chart(found: Findings) -> dict[str, Any]:
    """Errors against the size of the map, and whether more would help."""
    curve = found.by_size
    assert curve is not None
    kinds = {size_name(leaf.features) for leaf in leaves(found.model.features_)}
    words = (
        word
        for name, word in (("n_components", "features"), ("n_grids", "grids"))
        if name in kinds
    )
    what, label = (
        " and ".join(words) or "features",
        "RMSE" if curve.rooted else "log loss",
    )
    series = Series(
        label,
        curve.sizes,
        curve.means,
        curve.means - curve.halves,
        curve.means + curve.halves,
    )
    chart = line_chart(
        f"{label} against {what}", (f"number of {what}", label), [series], log=True
    )
    return {"what": what, "verdict": verdict(curve, what), "chart": chart}


def verdict(curve: Curve, what: str) -> str:
    """Whether the last doubling helped, in a sentence."""
    gain, error = curve.gain
    last = min(curve.base + 1, len(curve.sizes) - 1)
    fewer, most = curve.sizes[last - 1], curve.sizes[last]
    loss = "mean squared error" if curve.rooted else "log loss"
    change = (
        f"From {fewer:,} to {most:,} {what} the {loss} "
        f"{'falls' if gain > 0 else 'rises'} by {percent(abs(gain))}"
    )
    helps = (
        "likely to help"
        if gain > 2 * error
        else "likely to harm"
        if gain < -2 * error
        else "cannot tell"
    )
    return f"{helps}. {change} (standard error {percent(error)})."


def residuals(found: Findings) -> dict[str, Markup]:
    """Targets and errors against predictions, and quantiles of the errors."""
    predicted, y = found.predictions.predicted, found.rows.y.astype(np.float64)
    errors = y - predicted
    shown = np.random.default_rng(5).permutation(len(errors))[:DOTS]
    order = np.array_split(
        np.argsort(predicted, kind="stable"), min(BINS, max(len(errors) // 10, 1))
    )
    centres = [float(predicted[part].mean()) for part in order]
    middle = [float(errors[part].mean()) for part in order]
    low, high = (
        [float(np.quantile(errors[part], share)) for part in order]
        for share in (0.1, 0.9)
    )
    series = [
        Series("residual of a row", predicted[shown], errors[shown], kind="points"),
        Series("mean, and 80 % of the rows", centres, middle, low, high, kind="band"),
    ]
    ends = [
        float(end(np.append(y[shown], predicted[shown]))) for end in (np.min, np.max)
    ]
    truth = [
        Series("a row", predicted[shown], y[shown], kind="points"),
        Series("prediction equals target", ends, ends, kind="line"),
    ]
    shares = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
    quantiles = [
        (f"{100 * share:g} %", number(float(np.quantile(errors, share))))
        for share in shares
    ]
    absolute, squared = (
        mean_absolute_error(y, predicted),
        root_mean_squared_error(y, predicted),
    )
    of_all = [
        ("mean absolute error (MAE)", absolute),
        ("root of the mean squared error (RMSE)", squared),
    ]
    sizes = [*of_all, ("median absolute error", float(np.median(np.abs(errors))))]
    return {
        "truth": line_chart(
            "Targets against predictions", ("prediction", "target"), truth
        ),
        "chart": line_chart(
            "Residuals against predictions", ("prediction", "residual"), series
        ),
        "quantiles": table(
            "Quantiles of the residuals", ("quantile", "residual"), quantiles
        ),
        "sizes": table(
            "Errors, in the unit of the target",
            ("error", "value"),
            [(a, number(b)) for a, b in sizes],
        ),
    }


def worst(found: Findings) -> Markup:
    """The rows with the largest losses, with their most relevant columns."""
    predictions, rows = found.predictions, found.rows
    first = np.argsort(-predictions.losses, kind="stable")[:MOST_WORST]
    shown = found.explained.columns[:WORST_COLUMNS]
    some = rows.take(first)
    values = [some.column(j) for j in shown]
    numbers = (
        some.numbers
        if found.origin.numbers is None
        else found.origin.numbers[some.numbers]
    )
    body = [
        (f"{row:,}", *_outcome(found, i), *(_cell(column[k]) for column in values))
        for k, (row, i) in enumerate(zip(numbers, first, strict=True))
    ]
    proba = () if predictions.proba is None else ("its probability",)
    head = (
        "row",
        cut(found.origin.target or "target", CELL),
        *proba,
        "prediction",
        *cut_all(rows.names[j] for j in shown),
    )
    caption = (
        f"The {len(first)} rows with the largest "
        f"{'squared error' if predictions.proba is None else 'log loss'}"
    )
    words = {
        k + len(head) - len(shown)
        for k, column in enumerate(values)
        if any(isinstance(v, str) for v in column)
    }
    words |= {1, 3} if predictions.proba is not None else set()
    return table(caption, head, body, {0, *words})


def _outcome(found: Findings, i: int) -> tuple[str, ...]:
    """The truth of a row and its prediction; of a class also the probability that
    the truth was given.
    """
    predictions, truth = found.predictions, found.rows.y[i]
    if predictions.proba is None:
        return number(float(truth)), number(float(predictions.predicted[i]))
    return (
        _cell(truth),
        f"{predictions.proba[i, predictions.labels[i]]:.3f}",
        _cell(predictions.predicted[i]),
    )


def _cell(value: Any) -> str:
    return (
        number(value)
        if isinstance(value, int | float) and not isinstance(value, bool)
        else cut(value, CELL)
    )


def costs(found: Findings) -> Iterator[tuple[str, str]]:
    """Sizes, bytes and rows a second."""
    model, plan = found.model, found.plan
    yield "Features", f"{model.features_.n_features_out:,}"
    yield "Ridge penalty", number(model.alpha_)
    yield "Solver", f"{model.solver_}: {model.solver_reason_}"
    if model.n_iter_:
        yield "Iterations", f"{model.n_iter_:,}"
    yield "Coefficients", as_size(model.feature_weights_.nbytes)
    yield (
        "Predictions",
        f"{len(found.rows) / max(found.predictions.seconds, 1e-9):,.0f} rows a "
        "second, on this machine",
    )
    if plan is not None:
        yield "Estimated memory of a fit on the given rows", as_size(plan.peak_bytes)


def versions() -> list[tuple[str, str]]:
    """Of the software, and the machine."""
    rows = [("bochner", __version__), *((name, _version(name)) for name in LIBRARIES)]
    return [
        *rows,
        ("Python", platform.python_version()),
        ("machine", f"{platform.system()} {platform.machine()}"),
    ]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
