"""Fills the page: what each section shows of the findings, in one file that loads
nothing.
"""

from __future__ import annotations

import datetime
import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from bochner import __version__
from bochner.markup import Markup, cut, cut_all, cut_named, number, percent, table, text
from bochner.report import explained_charts, model_charts
from bochner.report.findings import Findings, Origin
from bochner.report.given_columns import n_looked_at
from bochner.report.given_rows import COVERAGE
from bochner.report.worst_rows import worst
from bochner.scores.summaries import NAMES, cells, score_rows
from bochner.settings import as_size

RARE = 20
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow", "matplotlib")

templates = Environment(
    loader=PackageLoader("bochner.report", ""),
    autoescape=True,
    finalize=lambda value: value if hasattr(value, "__html__") else text(value),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def page(findings: Findings) -> str:
    """The whole page."""
    model = findings.model
    origin = findings.origin
    report = model.report_
    is_class = findings.is_class
    title = f"Model report: {cut(origin.target or 'target')} "
    title += "(classification)" if is_class else "(regression)"
    title += f", {origin.file}" if origin.file else ""
    style = files("bochner.report").joinpath("style.css").read_text(encoding="utf-8")
    fit_again = (
        f"model = {model!r}.fit(X_train, y_train)",
        "model.report_html(X, y, out='report.html')",
    )
    return templates.get_template("page.html").render(
        title=f"{title}, {datetime.date.today()}",
        style=Markup(style),
        findings=findings,
        origin=origin,
        report=report,
        is_class=is_class,
        n_rows=len(findings.rows),
        table=table,
        score_rows=score_rows,
        summary=summary(findings),
        beside=beside(origin),
        limits=limits(findings),
        data=data(findings),
        choice=model_charts.choice(report),
        importance=explained_charts.importance(findings),
        attribution=explained_charts.attribution(findings),
        interactions=explained_charts.interactions(findings),
        metric=explained_charts.metric(findings),
        more_rows=model_charts.rows(report),
        more_features=model_charts.features(findings),
        errors=(model_charts.classes if is_class else model_charts.residuals)(findings),
        worst=worst(findings),
        effects=explained_charts.effects(findings),
        costs=costs(findings),
        stages=[
            (name, f"{seconds:.2f}")
            for name, seconds in (report.seconds if report else {}).items()
        ],
        lines=origin.lines or fit_again,
        versions=[
            ("bochner", __version__),
            *((name, version(name)) for name in LIBRARIES),
            ("Python", platform.python_version()),
            ("machine", f"{platform.system()} {platform.machine()}"),
        ],
    )


def summary(findings: Findings) -> Iterator[str]:
    """What matters, in a few lines."""
    origin = findings.origin
    if origin.held_out is not None and (findings.seen or origin.others):
        where = " on the rows that 'bochner fit' held out"
        others = origin.others and origin.others["scores"]
        yield from headline(origin.held_out, where, others)
    if findings.seen:
        key = main_score(findings.scores)
        value = f"{NAMES[key]} {cells(key, findings.scores[key])[0]}"
        yield (
            f"The rows of this page are training rows ({findings.seen}): {value} on "
            "them says nothing of new rows."
        )
    else:
        yield from headline(findings.scores, " on the rows of this page")
    # The model in one sentence
    model = findings.model
    report = model.report_
    size = (
        f"{model.features_.n_features_out:,} features, ridge penalty "
        f"{number(model.alpha_)}"
    )
    if report is None or not report.chosen:
        yield f"Model: {size}, as the arguments of the fit say."
    else:
        yield f"Model: {report.chosen}, {size} ({report.reason.rstrip('.')})."
    rows = f"{findings.rows.n_given:,} rows, {len(findings.rows.names):,} columns"
    about = f"This page is about {rows}."
    if origin.rows_fitted is not None:
        about += f" The model was fitted on {origin.rows_fitted:,} rows."
    yield about
    importance = findings.explained.importance
    if importance is not None:
        named = importance.headline(3)
        if named:
            yield f"Most important columns, of the total: {named}."
        else:
            yield "No column is important to the predictions."


def main_score(scores: dict[str, Any]) -> str:
    """The score that stands first."""
    return "accuracy" if "accuracy" in scores else "r2"


def headline(
    scores: dict[str, Any], where: str, others: Mapping[str, Any] | None = None
) -> Iterator[str]:
    """The first score with its interval, beside those of a baseline and of other
    models on the same rows.
    """
    key = main_score(scores)
    value, interval, baseline = cells(key, scores[key])
    if scores[key]["value"] is None:
        return
    line = f"{NAMES[key].capitalize()} {value}{where}"
    line += f" (95 % interval {interval})" if interval else ""
    line += f"; baseline {baseline}"
    for name, other_scores in (others or {}).items():
        if other_scores[key]["value"] is not None:
            line += f"; {name} {cells(key, other_scores[key])[0]}"
    yield f"{line}."


def beside(origin: Origin) -> Markup | None:
    """Scores of other models beside those of this one, all fitted without the rows
    that the fit held out.
    """
    scores = origin.held_out
    if scores is None or not origin.others:
        return None
    models = origin.others["scores"]
    rows = [
        (
            NAMES[key],
            *cells(key, score),
            *(cells(key, one[key])[0] for one in models.values()),
        )
        for key, score in scores.items()
        if all(key in one for one in models.values())
    ]
    head = ("score", "this model", "95 % interval", "baseline", *models)
    return table("This model and others", head, rows)


def limits(findings: Findings) -> Iterator[str]:
    """What the model cannot be trusted for, as far as these rows tell."""
    scores = findings.scores
    n = len(findings.rows)
    if n < 200:
        yield f"The scores are from {n:,} rows only: see their intervals."
    if findings.is_class:
        classes = findings.model.classes_
        support = np.bincount(findings.predictions.truth, minlength=len(classes))
        if rare := classes[support < RARE].tolist():
            named = ", ".join(cut(name) for name in rare[:5])
            yield (
                f"Classes with fewer than {RARE} of these rows: {named}. Nothing can "
                "be said of them."
            )
    if covered := scores.get("interval_coverage"):
        low, high = covered["interval"]
        if not low <= COVERAGE <= high:
            yield (
                f"Intervals of {100 * COVERAGE:g} % hold {percent(covered['value'])} "
                "of these rows."
            )
    held_out = findings.origin.held_out
    others = findings.origin.others
    if held_out and others:
        key = "log_loss" if "log_loss" in held_out else "rmse"
        least = held_out[key]["value"]
        better = [
            name
            for name, other_scores in others["scores"].items()
            # Undefined where no row held out is of a class that the model has learned
            if None not in (least, other_scores[key]["value"])
            and other_scores[key]["value"] < least
        ]
        if better:
            yield (
                "On the rows that the fit held out it is not better than: "
                f"{', '.join(better)}."
            )
    columns = findings.columns
    if drifted := [one.name for one in columns if one.drifts]:
        named = ", ".join(cut_all(drifted[:5]))
        yield f"Columns that differ from the training rows: {named}."
    if leaks := [one.name for one in columns if one.leaks]:
        named = ", ".join(cut_all(leaks[:5]))
        yield (
            f"One column alone predicts the target: {named}. Make sure that it is "
            "known before the target is."
        )
    if twins := {tuple(sorted((one.name, one.twin))) for one in columns if one.twin}:
        pairs = [" and ".join(cut_all(pair)) for pair in sorted(twins)[:5]]
        yield (
            "The importance of single columns that are one-to-one, as they share it or "
            f"hide one another: {', '.join(pairs)}."
        )
    if findings.capped:
        yield (
            f"Errors of rows with the largest target, {number(findings.rows.y.max())}, "
            f"which {percent(findings.capped)} of these rows have: it seems to be a "
            "cap, beyond which targets are not known."
        )
    yield "Rows unlike the training rows: predictions there are guesses."
    yield (
        "What happens if a column is changed: the model has learned what goes "
        "together, not what causes what."
    )


def data(findings: Findings) -> dict[str, Any]:
    """The target and the columns of the given rows."""
    is_class = findings.is_class
    head = (
        "column",
        "type",
        "missing",
        "different values",
        "range, or most frequent",
        "drift, p",
        "alone, AUC" if is_class else "alone",
        "remarks",
    )
    n = n_looked_at(findings.rows)
    names = findings.rows.names
    # Those with remarks, then the most important ones
    first = {names[j]: k for k, j in enumerate(findings.explained.columns)}
    ordered = sorted(
        findings.columns, key=lambda one: (not one.remarks(n), first[one.name])
    )[:40]
    rows = []
    for one in ordered:
        alone = ""
        if one.alone is not None:
            alone = f"{one.alone:.3f}" if is_class else percent(one.alone)
        rows.append(
            (
                one.name,
                one.kind,
                percent(one.missing) if one.missing else "",
                f"{one.distinct:,}",
                cut(one.typical),
                "" if one.drift is None else number(one.drift),
                alone,
                "; ".join(one.remarks(n)),
            )
        )
    caption = f"Columns, {len(rows):,} of {len(names):,}"
    return {
        "table": table(caption, head, cut_named(rows), (0, 1, 4, 7)) if rows else None,
        "target": model_charts.target(findings),
        "has_text": any(one.drift is None for one in ordered),
        "n": n,
    }


def costs(findings: Findings) -> Iterator[tuple[str, str]]:
    """Sizes, bytes and rows a second."""
    model = findings.model
    yield "Features", f"{model.features_.n_features_out:,}"
    yield "Ridge penalty", number(model.alpha_)
    yield "Solver", f"{model.solver_}: {model.solver_reason_}"
    if model.n_iter_:
        yield "Iterations", f"{model.n_iter_:,}"
    yield "Coefficients", as_size(model.feature_weights_.nbytes)
    speed = len(findings.rows) / max(findings.predictions.seconds, 1e-9)
    yield "Predictions", f"{speed:,.0f} rows a second, on this machine"
