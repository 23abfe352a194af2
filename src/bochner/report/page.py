"""Writes the page: head, summary, contents and sections, in one file that loads nothing."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from bochner import __version__
from bochner.display.learning_displays import UNITS
from bochner.features.leaves import leaves, size_name
from bochner.markup import Markup, joined, number, percent, table, tag
from bochner.planning.plan import duration
from bochner.report.charts import Series, bar_chart, cut, interval_chart, line_chart, scrolled
from bochner.report.findings import Curve, Dependence, Findings
from bochner.scores import reliability
from bochner.scores.measures import Z, judged_event
from bochner.scores.summaries import IN_UNITS, NAMES
from bochner.settings import as_size
from bochner.theory.errors import KernelError

MOST_BARS, MOST_WORST, WORST_COLUMNS, CELL = 12, 10, 6, 40
BINS, DOTS = 12, 600
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


class Section(NamedTuple):
    """A part of the page: its name within the page, its heading, what it holds."""

    name: str
    title: str
    content: Markup


def sections(found: Findings) -> Iterator[Section]:
    """All sections, in their order."""
    classes = found.judged.proba is not None
    yield Section("score", "Score", score(found))
    yield Section("choice", "How the model was chosen", choice(found))
    yield Section("columns", "Which columns matter", columns(found))
    yield Section("more", "Would more rows or features help?", more(found))
    yield Section(
        "errors", "Calibration" if classes else "Residuals", calibration(found) if classes else residuals(found)
    )
    yield Section("worst", "Worst rows", worst(found))
    yield Section("dependence", "Partial dependence", dependence(found))
    yield Section("kernel", "Kernel approximation", kernel(found))
    yield Section("cost", "Cost and memory", cost(found))
    yield Section("again", "Reproduce this page", again(found))


def p(*content: Any) -> Markup:
    """A paragraph."""
    return tag("p", *content)


def pair(*parts: Any) -> Markup:
    """Parts side by side where there is room."""
    return tag("div", *parts, class_="pair")


def score(found: Findings) -> Markup:
    """Scores on the given rows, and those of the fit where they are known."""
    rows, origin = found.rows, found.origin
    drawn = f", drawn from {rows.n_given:,}" if len(rows) < rows.n_given else ""
    parts = [_scores(found, found.scores, f"Scores on {len(rows):,} rows{drawn}", origin.baseline is not None)]
    if origin.held_out:
        fitted = "" if origin.rows_fitted is None else f" The saved model was fitted on {origin.rows_fitted:,} rows."
        parts.append(_scores(found, origin.held_out, "Scores on the rows that 'bochner fit' held out", True))
        parts.append(p("The held-out rows were not used in the fit that these scores are of.", fitted))
    parts.append(
        p(
            "If the model was fitted on the given rows, their scores are too good; those under ",
            tag("a", "rows and features", href="#more"),
            " are of rows held out.",
        )
    )
    return joined(parts)


def _scores(found: Findings, scores: dict[str, Any], caption: str, known: bool) -> Markup:
    rows = []
    for key, one in scores.items():
        form = number if key in IN_UNITS else _share
        asked = f" of {100 * one['asked_for']:g} %" if "asked_for" in one else ""
        interval = "" if one["interval"] is None else " to ".join(form(end) for end in one["interval"])
        baseline = "" if key.startswith("interval_") else form(one["baseline"])
        rows.append((f"{NAMES[key]}{asked}", form(one["value"]), interval, baseline))
    of = "training rows" if known else "given rows"
    classes = "the most frequent class, with the shares of the classes as probabilities,"
    always = "the mean" if found.judged.proba is None else classes
    shown = scrolled(table(caption, ("score", "value", "95 % interval", "baseline"), rows))
    return joined([shown, p(f"Baseline: always {always} of the {of}.")])


def _share(value: float | None) -> str:
    return "n/a" if value is None else f"{value:z.3f}"


def choice(found: Findings) -> Markup:
    """What was tried, and why one model was chosen."""
    report = getattr(found.model, "report_", None)
    if report is None or not report.candidates:
        why = "" if report is None else f" {report.reason}"
        return p(f"Nothing was chosen by hold-out rows: the arguments fix the model, or the rows are few.{why}")
    ranked = sorted(report.candidates, key=lambda one: (one.name != report.chosen, one.loss))
    ends = [(one.loss - Z * one.standard_error, one.loss, one.loss + Z * one.standard_error) for one in ranked]
    label = f"{UNITS.get(report.criterion, report.criterion)} (95 % interval)"
    head = ("candidate", report.criterion, "standard error", "features or grids", "seconds")
    rows = [
        (one.name, number(one.loss), f"{one.standard_error:.2g}", f"{one.size:,}", f"{one.seconds:.1f}")
        for one in ranked
    ]
    chart = interval_chart("Candidates and their losses", label, [one.name for one in ranked], ends, first=True)
    judged = table(f"Candidates, judged on {report.rows_held_out:,} validation rows", head, rows)
    return joined([p(tag("strong", report.chosen), f": {report.reason}."), pair(chart, scrolled(judged))])


def columns(found: Findings) -> Markup:
    """Relevance of the columns, and the learned warps."""
    if found.relevance is None:
        return p("The kernel of this model has no lengthscales, so that no column has a relevance.")
    names, shares = found.rows.names, found.relevance
    first = [j for j in found.columns if shares[j] > 0][:MOST_BARS]
    some = f"the {len(first)} largest of {len(names):,} columns" if len(first) < len(names) else "all columns"
    parts = [
        p("Relevance is the share of a column in the mean distance of two rows, by the metric of the kernel."),
        bar_chart(
            f"Relevance, {some}",
            [names[j] for j in first],
            [shares[j] for j in first],
            [percent(float(shares[j])) for j in first],
        ),
    ]
    if found.warps:
        charts = [
            line_chart(cut(warp.name, CELL), (str(warp.name), "coordinate"), [Series("", warp.x, warp.w, kind="line")])
            for warp in found.warps
        ]
        parts.append(tag("h3", "Learned warps"))
        parts.append(
            p("Each warp maps a column, in its own unit, to a coordinate of the kernel: steep where it matters.")
        )
        parts.append(tag("div", *charts, class_="charts"))
    return joined(parts)


def more(found: Findings) -> Markup:
    """Errors against rows and against features."""
    parts = [p(f"The chosen model is fitted again, and nothing is chosen again. {found.curve_note}")]
    charts = []
    for curve, what in ((found.by_rows, "rows"), (found.by_size, size_unit(found))):
        if curve is None:
            parts.append(p(f"There is no curve against {what}: the model cannot be fitted again with other numbers."))
            continue
        parts.append(p(tag("strong", f"More {what}: "), verdict(curve, what)))
        label = "RMSE" if curve.rooted else "log loss"
        series = Series(label, curve.sizes, curve.means, curve.means - curve.halves, curve.means + curve.halves)
        charts.append(line_chart(f"{label} against {what}", (f"number of {what}", label), [series], log=True))
    return joined([*parts, tag("div", *charts, class_="charts")])


def size_unit(found: Findings) -> str:
    """What the size of the map counts."""
    kinds = {size_name(leaf.features) for leaf in leaves(found.model.features_)}
    words = (word for name, word in (("n_components", "features"), ("n_grids", "grids")) if name in kinds)
    return " and ".join(words) or "features"


def verdict(curve: Curve, what: str) -> str:
    """Whether the last doubling helped, in a sentence."""
    gain, error = curve.gain
    last = min(curve.base + 1, len(curve.sizes) - 1)
    fewer, most = curve.sizes[last - 1], curve.sizes[last]
    loss = "mean squared error" if curve.rooted else "log loss"
    change = f"from {fewer:,} to {most:,} {what} the {loss} {'falls' if gain > 0 else 'rises'} by {percent(abs(gain))}"
    measured = f"{change} (standard error {percent(error)})"
    if gain > 2 * error:
        return f"likely to help. {measured[0].upper()}{measured[1:]}."
    if gain < -2 * error:
        return f"likely to harm. {measured[0].upper()}{measured[1:]}."
    return f"no measurable effect. {measured[0].upper()}{measured[1:]}."


def calibration(found: Findings) -> Markup:
    """How often what was predicted with a probability came true."""
    judged, classes = found.judged, found.model.classes_
    assert judged.proba is not None
    happened, probability = judged_event(judged.labels, np.clip(judged.proba, 0, 1))
    curve = reliability(happened, probability, BINS)
    event = f"the class is {cut(classes[1], CELL)}" if len(classes) == 2 else "the predicted class is right"
    low, high = curve.interval.T
    series = Series("frequency", curve.probability, curve.frequency, low, high)
    axes = ("predicted probability", "observed frequency")
    return joined(
        [
            p(f"Probability that {event}. Well calibrated probabilities lie on the diagonal; intervals are of 95 %."),
            p(f"Expected calibration error: {curve.error:.3f}."),
            line_chart("Reliability of the probabilities", axes, [series], diagonal=True),
        ]
    )


def residuals(found: Findings) -> Markup:
    """Errors against predictions, and their quantiles."""
    predicted = found.judged.predicted
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
    chart = line_chart("Residuals against predictions", ("prediction", "residual"), series)
    note = p("A residual is the target less its prediction, in the unit of the target.")
    return joined(
        [note, pair(chart, scrolled(table("Quantiles of the residuals", ("quantile", "residual"), quantiles)))]
    )


def worst(found: Findings) -> Markup:
    """The rows with the largest losses, with their most relevant columns."""
    judged, rows = found.judged, found.rows
    first = np.argsort(-judged.losses, kind="stable")[:MOST_WORST]
    shown = found.columns[:WORST_COLUMNS]
    some = rows.take(first)
    values = [some.column(j) for j in shown]
    numbers = some.numbers if found.origin.numbers is None else found.origin.numbers[some.numbers]
    outcomes = [_outcome(found, i) for i in first]
    body = [
        (f"{row:,}", *outcome, *(_cell(column[k]) for column in values))
        for k, (row, outcome) in enumerate(zip(numbers, outcomes, strict=True))
    ]
    proba = () if judged.proba is None else ("its probability",)
    head = ("row", found.origin.target or "target", *proba, "prediction", *(rows.names[j] for j in shown))
    caption = f"The {len(first)} rows with the largest {'squared error' if judged.proba is None else 'log loss'}"
    note = "Rows count from 0. Look here first for wrong labels, outliers, and columns that are missing."
    words = {k + len(head) - len(shown) for k, column in enumerate(values) if any(isinstance(v, str) for v in column)}
    words |= {1, 3} if judged.proba is not None else set()
    return joined([scrolled(table(caption, head, body, {0, *words})), p(note)])


def _outcome(found: Findings, i: int) -> tuple[str, ...]:
    """The truth of a row and its prediction; of a class also the probability that the truth was given."""
    judged, truth = found.judged, found.rows.y[i]
    if judged.proba is None:
        return number(float(truth)), number(float(judged.predicted[i]))
    return _cell(truth), f"{judged.proba[i, judged.labels[i]]:.3f}", _cell(judged.predicted[i])


def _cell(value: Any) -> str:
    return number(value) if isinstance(value, int | float) and not isinstance(value, bool) else cut(value, CELL)


def dependence(found: Findings) -> Markup:
    """Mean predictions against the most relevant columns."""
    if not found.dependences:
        return p("There is no column with two values to compare, or the rows are too wide.")
    what = "prediction" if found.judged.proba is None else "probability"
    note = (
        f"The mean {what} over up to 300 rows, all of which get the same value of a column, and the middle half of the "
        "rows. Where columns are correlated, it is not the effect of changing one of them."
    )
    charts = [_numeric(one, what) if one.numeric else _named(one, what) for one in found.dependences]
    return joined([p(note), tag("div", *charts, class_="charts")])


def _numeric(one: Dependence, what: str) -> Markup:
    names = one.outputs or ("",)
    label = f"{what} of {cut(names[0], 20)}" if len(names) == 1 and names[0] else what
    lines = zip(names, one.means, one.low, one.high, strict=True)
    series = [Series(name, one.values, mean, low, high, "band") for name, mean, low, high in lines]
    return line_chart(cut(one.column, CELL), (one.column, label), series)


def _named(one: Dependence, what: str) -> Markup:
    label = f"mean {what}" + (f" of {one.outputs[0]}" if one.outputs else "")
    ends = list(zip(one.low[0], one.means[0], one.high[0], strict=True))
    return interval_chart(
        cut(one.column, CELL), label, one.values, [(float(a), float(b), float(c)) for a, b, c in ends]
    )


def kernel(found: Findings) -> Markup:
    """Error of the map."""
    error = found.error
    if not isinstance(error, KernelError):
        return p(f"The error of the kernel approximation is not known. {error}")
    return joined(
        [p("How far z(x)'z(y) is from k(x, y), over pairs of the given rows."), scrolled(Markup(error._repr_html_()))]
    )


def cost(found: Findings) -> Markup:
    """Seconds, bytes and sizes."""
    model, plan, report = found.model, found.plan, getattr(found.model, "report_", None)
    speed = len(found.rows) / max(found.judged.seconds, 1e-9)
    rows = [("Features", f"{model.features_.n_features_out:,}"), ("Ridge penalty", number(model.alpha_))]
    rows.append(("Solver", f"{model.solver_}: {model.solver_reason_}"))
    if model.n_iter_:
        rows.append(("Iterations", f"{model.n_iter_:,}"))
    rows.append(("Coefficients", as_size(model.coef_.nbytes)))
    rows.append(("Predictions", f"{speed:,.0f} rows a second, on this machine"))
    if plan is not None:
        rows.append(
            ("Estimate of a fit on the given rows", f"{duration(plan.seconds)}; {as_size(plan.peak_bytes)} of memory")
        )
    parts = [scrolled(table("Cost and memory", ("quantity", "value"), rows, words=(0, 1)))]
    if report is not None and report.seconds:
        stages = [(name, f"{seconds:.2f}") for name, seconds in report.seconds.items()]
        parts.append(scrolled(table("Seconds of the choice, by stage", ("stage", "seconds"), stages)))
    return pair(*parts)


def again(found: Findings) -> Markup:
    """The lines that make the page again, and the versions."""
    lines = found.origin.lines or (
        f"model = {found.model!r}.fit(X_train, y_train)",
        "model.report_html(X, y, out='report.html')",
    )
    seed = getattr(found.model, "random_state", None)
    rows = [("bochner", __version__), *((name, _version(name)) for name in LIBRARIES)]
    rows += [("Python", platform.python_version()), ("machine", f"{platform.system()} {platform.machine()}")]
    note = [p("The model has no random_state: another fit draws other features.")] if seed is None else []
    return joined(
        [
            tag("pre", tag("code", "\n".join(lines)), tabindex=0),
            *note,
            scrolled(table("Versions", ("software", "version"), rows, words=(0, 1))),
        ]
    )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def page(found: Findings) -> str:
    """The whole page."""
    title = f"Report of {type(found.model).__name__}" + (f": {found.origin.target}" if found.origin.target else "")
    style = Markup(files("bochner.report").joinpath("style.css").read_text(encoding="utf-8"))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", style),
    )
    parts = list(sections(found))
    body = tag(
        "body",
        tag("a", "Skip to the content", class_="skip", href="#content"),
        tag("header", tag("h1", title), _summary(found)),
        _contents(parts),
        tag("main", *map(_framed, parts), id="content", tabindex=-1),
        tag("footer", tag("p", "Written by bochner. This file loads nothing and runs no scripts.")),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _contents(parts: list[Section]) -> Markup:
    links = [tag("li", tag("a", part.title, href=f"#{part.name}")) for part in parts]
    return tag("nav", tag("ul", *links), aria_label="Contents")


def _framed(part: Section) -> Markup:
    heading = tag("h2", part.title, id=f"{part.name}-title")
    return tag("section", heading, part.content, id=part.name, aria_labelledby=f"{part.name}-title")


def _summary(found: Findings) -> Markup:
    """What matters, in a few lines."""
    key = "accuracy" if found.judged.proba is not None else "r2"
    one, report, lines = found.scores[key], getattr(found.model, "report_", None), []
    if one["value"] is not None:
        ends = "" if one["interval"] is None else " to ".join(f"{end:z.3f}" for end in one["interval"])
        value = f"{NAMES[key].capitalize()} {one['value']:z.3f}" + (f" (95 % interval {ends})" if ends else "")
        lines.append(f"{value}; the baseline has {one['baseline']:z.3f}.")
    if report is not None and report.chosen:
        lines.append(f"Model: {report.chosen}, ridge penalty {number(found.model.alpha_)}.")
    if found.relevance is not None:
        first = [j for j in found.columns if found.relevance[j] > 0][:3]
        named = ", ".join(f"{found.rows.names[j]} ({percent(float(found.relevance[j]))})" for j in first)
        lines.append(f"Most relevant columns: {named}.")
    for curve, what in ((found.by_rows, "rows"), (found.by_size, size_unit(found))):
        if curve is not None:
            lines.append(f"More {what}: {verdict(curve, what)}")
    return joined([tag("ul", *(tag("li", line) for line in lines), class_="summary")])
