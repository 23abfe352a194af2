"""Lays out the page: head, summary, contents and sections, in one file that loads nothing."""

from __future__ import annotations

from importlib.resources import files

from bochner.markup import Markup, joined, number, percent, tag
from bochner.report_page.findings import Findings
from bochner.report_page.sections import Section, sections, size_unit, verdict
from bochner.scores.summaries import NAMES

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(found: Findings) -> str:
    """The whole page."""
    title = f"Report of {type(found.model).__name__}" + (f": {found.origin.target}" if found.origin.target else "")
    style = Markup(files("bochner.report_page").joinpath("style.css").read_text(encoding="utf-8"))
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
        tag("main", *map(_section, parts), id="content", tabindex=-1),
        tag("footer", tag("p", "Written by bochner. This file loads nothing and runs no scripts.")),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _contents(parts: list[Section]) -> Markup:
    links = [tag("li", tag("a", part.title, href=f"#{part.name}")) for part in parts]
    return tag("nav", tag("ul", *links), aria_label="Contents")


def _section(part: Section) -> Markup:
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
