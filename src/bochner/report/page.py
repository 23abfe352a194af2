"""Fills the page: what each section shows of the findings, in one file that loads nothing."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any

import numpy as np

from bochner import __version__
from bochner.display.canvas import cut
from bochner.display.learning_displays import UNITS
from bochner.features.leaves import leaves, size_name
from bochner.markup import Markup, number, percent, table
from bochner.planning.plan import duration
from bochner.report.charts import Series, bar_chart, interval_chart, line_chart, templates
from bochner.report.findings import Curve, Findings
from bochner.scores import reliability
from bochner.scores.measures import Z, judged_event
from bochner.scores.summaries import NAMES, cells, score_rows
from bochner.settings import as_size

MOST_BARS, MOST_WORST, WORST_COLUMNS, CELL = 12, 10, 6, 40
BINS, DOTS = 12, 600
MOST_CLASSES, MOST_LEVELS, BESIDE = 3, 8, 0.08
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow")


def page(found: Findings) -> str:
    """The whole page."""
    model, classes = found.model, found.predictions.proba is not None
    report = getattr(model, "report_", None)
    fit_again = (f"model = {model!r}.fit(X_train, y_train)", "model.report_html(X, y, out='report.html')")
    return templates.get_template("page.html").render(
        title=f"Report of {type(model).__name__}" + (f": {found.origin.target}" if found.origin.target else ""),
        style=Markup(files("bochner.report").joinpath("style.css").read_text(encoding="utf-8")),
        found=found,
        origin=found.origin,
        report=report,
        classes=classes,
        n_rows=len(found.rows),
        table=table,
        score_rows=score_rows,
        summary=list(summary(found)),
        choice=choice(report) if report is not None and report.candidates else None,
        relevance=None if found.relevance is None else relevance(found),
        warps=[warp_chart(warp) for warp in found.warps],
        curves=[curve_of(curve, what) for curve, what in by_size(found)],
        errors=calibration(found) if classes else residuals(found),
        worst=worst(found),
        effects=[] if found.effects is None else list(effects(found)),
        costs=list(costs(found)),
        stages=[(name, f"{seconds:.2f}") for name, seconds in (report.seconds if report else {}).items()],
        lines=found.origin.lines or fit_again,
        seeded=getattr(model, "random_state", None) is not None,
        versions=versions(),
    )


def by_size(found: Findings) -> tuple[tuple[Curve | None, str], ...]:
    """The curves, and what their sizes count."""
    kinds = {size_name(leaf.features) for leaf in leaves(found.model.features_)}
    words = (word for name, word in (("n_components", "features"), ("n_grids", "grids")) if name in kinds)
    return (found.by_rows, "rows"), (found.by_size, " and ".join(words) or "features")


def summary(found: Findings) -> Iterator[str]:
    """What matters, in a few lines."""
    key = "accuracy" if found.predictions.proba is not None else "r2"
    one, report = found.scores[key], getattr(found.model, "report_", None)
    if one["value"] is not None:
        value, interval, baseline = cells(key, one)
        within = f" (95 % interval {interval})" if interval else ""
        yield f"{NAMES[key].capitalize()} {value}{within}; the baseline has {baseline}."
    if report is not None and report.chosen:
        yield f"Model: {report.chosen}, ridge penalty {number(found.model.alpha_)}."
    if found.relevance is not None:
        first = [j for j in found.columns if found.relevance[j] > 0][:3]
        named = ", ".join(f"{found.rows.names[j]} ({percent(float(found.relevance[j]))})" for j in first)
        yield f"Most relevant columns: {named}."
    yield from (f"More {what}: {verdict(curve, what)}" for curve, what in by_size(found) if curve is not None)


def choice(report: Any) -> dict[str, Markup]:
    """The candidates, the chosen one first."""
    ranked = sorted(report.candidates, key=lambda one: (one.name != report.chosen, one.loss))
    ends = [(one.loss - Z * one.standard_error, one.loss, one.loss + Z * one.standard_error) for one in ranked]
    label = f"{UNITS.get(report.criterion, report.criterion)} (95 % interval)"
    head = ("candidate", report.criterion, "standard error", "features or grids", "seconds")
    rows = [
        (one.name, number(one.loss), f"{one.standard_error:.2g}", f"{one.size:,}", f"{one.seconds:.1f}")
        for one in ranked
    ]
    names = [one.name for one in ranked]
    return {
        "chart": interval_chart("Candidates and their losses", label, names, ends, first=True),
        "table": table(f"Candidates, judged on {report.rows_held_out:,} validation rows", head, rows),
    }


def relevance(found: Findings) -> Markup:
    """Relevance of the columns."""
    names, shares = found.rows.names, found.relevance
    assert shares is not None
    first = [j for j in found.columns if shares[j] > 0][:MOST_BARS]
    some = f"the {len(first)} largest of {len(names):,} columns" if len(first) < len(names) else "all columns"
    values = [float(shares[j]) for j in first]
    return bar_chart(f"Relevance, {some}", [names[j] for j in first], values, [percent(value) for value in values])


def warp_chart(warp: Any) -> Markup:
    """The coordinate that a column becomes."""
    return line_chart(cut(warp.name, CELL), (str(warp.name), "coordinate"), [Series("", warp.x, warp.w, kind="line")])


def curve_of(curve: Curve | None, what: str) -> dict[str, Any]:
    """Errors against a size, and whether more would help."""
    if curve is None:
        return {"what": what, "chart": None}
    label = "RMSE" if curve.rooted else "log loss"
    series = Series(label, curve.sizes, curve.means, curve.means - curve.halves, curve.means + curve.halves)
    chart = line_chart(f"{label} against {what}", (f"number of {what}", label), [series], log=True)
    return {"what": what, "verdict": verdict(curve, what), "chart": chart}


def verdict(curve: Curve, what: str) -> str:
    """Whether the last doubling helped, in a sentence."""
    gain, error = curve.gain
    last = min(curve.base + 1, len(curve.sizes) - 1)
    fewer, most = curve.sizes[last - 1], curve.sizes[last]
    loss = "mean squared error" if curve.rooted else "log loss"
    change = f"From {fewer:,} to {most:,} {what} the {loss} {'falls' if gain > 0 else 'rises'} by {percent(abs(gain))}"
    helps = "likely to help" if gain > 2 * error else "likely to harm" if gain < -2 * error else "no measurable effect"
    return f"{helps}. {change} (standard error {percent(error)})."


def calibration(found: Findings) -> dict[str, Any]:
    """How often what was predicted with a probability came true."""
    predictions, classes = found.predictions, found.model.classes_
    assert predictions.proba is not None
    happened, probability = judged_event(predictions.labels, np.clip(predictions.proba, 0, 1))
    curve = reliability(happened, probability, BINS)
    event = f"the class is {cut(classes[1], CELL)}" if len(classes) == 2 else "the predicted class is right"
    series = Series("frequency", curve.probability, curve.frequency, *curve.interval.T)
    axes = ("predicted probability", "observed frequency")
    chart = line_chart("Reliability of the probabilities", axes, [series], diagonal=True)
    return {"event": event, "error": curve.error, "chart": chart}


def residuals(found: Findings) -> dict[str, Markup]:
    """Errors against predictions, and their quantiles."""
    predicted = found.predictions.predicted
    errors = found.rows.y.astype(np.float64) - predicted
    shown = np.random.default_rng(5).permutation(len(errors))[:DOTS]
    order = np.array_split(np.argsort(predicted, kind="stable"), min(BINS, max(len(errors) // 10, 1)))
    centres = [float(predicted[part].mean()) for part in order]
    middle = [float(errors[part].mean()) for part in order]
    low, high = ([float(np.quantile(errors[part], share)) for part in order] for share in (0.1, 0.9))
    series = [
        Series("residual of a row", predicted[shown], errors[shown], kind="points"),
        Series("mean, and 80 % of the rows", centres, middle, low, high, kind="band"),
    ]
    shares = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
    quantiles = [(f"{100 * share:g} %", number(float(np.quantile(errors, share)))) for share in shares]
    return {
        "chart": line_chart("Residuals against predictions", ("prediction", "residual"), series),
        "quantiles": table("Quantiles of the residuals", ("quantile", "residual"), quantiles),
    }


def worst(found: Findings) -> Markup:
    """The rows with the largest losses, with their most relevant columns."""
    predictions, rows = found.predictions, found.rows
    first = np.argsort(-predictions.losses, kind="stable")[:MOST_WORST]
    shown = found.columns[:WORST_COLUMNS]
    some = rows.take(first)
    values = [some.column(j) for j in shown]
    numbers = some.numbers if found.origin.numbers is None else found.origin.numbers[some.numbers]
    body = [
        (f"{row:,}", *_outcome(found, i), *(_cell(column[k]) for column in values))
        for k, (row, i) in enumerate(zip(numbers, first, strict=True))
    ]
    proba = () if predictions.proba is None else ("its probability",)
    head = ("row", found.origin.target or "target", *proba, "prediction", *(rows.names[j] for j in shown))
    caption = f"The {len(first)} rows with the largest {'squared error' if predictions.proba is None else 'log loss'}"
    words = {k + len(head) - len(shown) for k, column in enumerate(values) if any(isinstance(v, str) for v in column)}
    words |= {1, 3} if predictions.proba is not None else set()
    return table(caption, head, body, {0, *words})


def _outcome(found: Findings, i: int) -> tuple[str, ...]:
    """The truth of a row and its prediction; of a class also the probability that the truth was given."""
    predictions, truth = found.predictions, found.rows.y[i]
    if predictions.proba is None:
        return number(float(truth)), number(float(predictions.predicted[i]))
    return _cell(truth), f"{predictions.proba[i, predictions.labels[i]]:.3f}", _cell(predictions.predicted[i])


def _cell(value: Any) -> str:
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else cut(value, CELL)


def effects(found: Findings) -> Iterator[Markup]:
    """Mean predictions against each column: curves over numbers and dates, and intervals of levels."""
    assert found.effects is not None
    what, names = found.effects.what, found.effects.outputs
    proba = found.predictions.proba
    ranks = np.zeros(1) if proba is None else -proba.mean(axis=0)[-len(names) :]
    shown = np.sort(np.argsort(ranks, kind="stable")[:MOST_CLASSES]).tolist()
    for one in found.effects:
        low, high = np.quantile(one.curves, (0.25, 0.75), axis=0)
        title, first, named = cut(one.column, CELL), shown[0], proba is not None
        if one.is_level:
            label = f"mean {what}" + (f" of {names[first]}" if named else "")
            ends = np.column_stack([low[:, first], one.mean[:, first], high[:, first]])[:MOST_LEVELS]
            yield interval_chart(title, label, one.labels[:MOST_LEVELS], [(a, b, c) for a, b, c in ends.tolist()])
            continue
        known = ~np.isnan(one.positions)
        x, series = one.positions[known], list[Series]()
        for k in shown:
            name = names[k] if named else what
            series.append(Series(name, x, one.mean[known, k], low[known, k], high[known, k], "band"))
        if not known.all():
            name = "missing" + (f", {names[first]}" if named else "")
            mean, below, above = (part[-1:, first] for part in (one.mean, low, high))
            series.append(Series(name, x[-1:] + BESIDE * (x[-1] - x[0]), mean, below, above))
        label = f"{what} of {cut(names[first], 20)}" if named and len(shown) == 1 else what
        axes = (one.column, label)
        yield line_chart(title, axes, series, shaded=one.empty, is_date=one.unit == "days")


def costs(found: Findings) -> Iterator[tuple[str, str]]:
    """Sizes, bytes and seconds."""
    model, plan = found.model, found.plan
    yield "Features", f"{model.features_.n_features_out:,}"
    yield "Ridge penalty", number(model.alpha_)
    yield "Solver", f"{model.solver_}: {model.solver_reason_}"
    if model.n_iter_:
        yield "Iterations", f"{model.n_iter_:,}"
    yield "Coefficients", as_size(model.coef_.nbytes)
    yield "Predictions", f"{len(found.rows) / max(found.predictions.seconds, 1e-9):,.0f} rows a second, on this machine"
    if plan is not None:
        cost = f"{duration(plan.seconds)}; {as_size(plan.peak_bytes)} of memory"
        yield "Estimate of a fit on the given rows", cost


def versions() -> list[tuple[str, str]]:
    """Of the software, and the machine."""
    rows = [("bochner", __version__), *((name, _version(name)) for name in LIBRARIES)]
    return [*rows, ("Python", platform.python_version()), ("machine", f"{platform.system()} {platform.machine()}")]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
