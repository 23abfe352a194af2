"""Report pages, and what notebooks show, of tables and models with hostile names, in a
browser.

Each case fits a small model to a table whose column names, category values, class
labels, target and file name are drawn from what injects scripts, leaves its element,
steers text or is only long. Nothing may run, be requested or be reported in the
console; of the report, whose policy would stop what gets through, the elements and
attributes are looked at too. Fragments for notebooks are put into a page without a
policy, as a notebook has none.
"""

from __future__ import annotations

import os
import shutil
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import bochner as bo
from bochner.markup import STEERING
from bochner.report import Origin, write_report

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
RUN = "window.hit=1;document.title='run'"
URL = "http://hostile.invalid/x"
ATTACKS = [
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f'<img src="{URL}" onerror="{RUN}">',
    f"<svg onload={RUN}>",
    f"</svg><script>{RUN}</script>",
    f"<svg><style><img src=x onerror={RUN}></style></svg>",
    f'<math><mtext></form><form><mglyph><style></math><img src onerror="{RUN}">',
    f"</style><script>{RUN}</script>",
    f"</title><script>{RUN}</script>",
    f"</textarea></noscript></template><script>{RUN}</script>",
    f'" onmouseover="{RUN}" autofocus onfocus="{RUN}',
    f"' onfocus='{RUN}' autofocus='",
    f"` onload={RUN} x=`",
    f"javascript:{RUN}",
    f'<a href="javascript:{RUN}">x</a>',
    f'<iframe src="javascript:parent.{RUN}"></iframe>',
    '<iframe srcdoc="&lt;script&gt;parent.hit=1&lt;/script&gt;"></iframe>',
    f"<object data={URL}><embed src={URL}>",
    f'<link rel="stylesheet" href="{URL}"><base href="{URL}">',
    f'<meta http-equiv="refresh" content="0;url={URL}">',
    f"</style><style>body{{background:url({URL})}}</style>",
    f";background:url({URL});x:expression({RUN})",
    f"}}*{{background:url({URL})}}/*",
    f"@import url({URL});",
    f"<!--<script>{RUN}</script>",
    f"--><script>{RUN}</script><!--",
    f"]]><script>{RUN}</script>",
    f"<![CDATA[<script>{RUN}</script>]]>",
    f"&lt;script&gt;{RUN}&lt;/script&gt;",
    "&#60;b&#62 &lt &amp;amp; &nosuch &#x3c;script",
    "{{ 7 * 7 }}{% raw %}{# x #}${7*7}<%= 7 %>",
    "{{ config.__class__.__mro__ }}{% for x in y %}",
    "{0.__class__} %(x)s %n {!r}",
    "a\x00b<script\x00>",
    "\x1b[31mred\x1b]0;title\x07\x08\x7f\x9b",
    "\u202egnp.\u202cexe \u2066x\u2069\u200f\u200e\u061c\ufeff",
    "line\nbreak\r\ttab\u2028\u2029\x0b\x0c",
    "\ufdd0\uffff\U0010ffff e\u0301 \U0001f468\u200d\U0001f469",
    "very_long_" * 300,
    "<" * 2000,
    f"\ufe64script\ufe65{RUN}\uff1c/script\uff1e",
    "",
    " ",
    "a&b",
    "a&amp;b",
    "<b>",
    "&lt;b&gt;",
]
# Which frames and columns refuse: for labels and files
SURROGATES = ["\ud800<script>", "x\udfff", "\udcff\udc80"]
NOTEBOOK = (
    "<!DOCTYPE html><html><head><meta "
    'charset="utf-8"><title>ours</title></head><body>{}</body></html>'
)
FORBIDDEN = (
    "script, iframe, object, embed, link, base, form, img, math, "
    "foreignObject, textarea, template, animate, image, use:not([href^='#'])"
)
FOUND = f"""() => {{
    const all = [...document.querySelectorAll('*')], wrong = [...document.querySelectorAll("{FORBIDDEN}")];
    const given = all.flatMap(one => [...one.attributes].map(own => [own.name, own.value]));
    return {{
        hit: window.hit ?? null,
        elements: wrong.map(one => one.outerHTML.slice(0, 80)),
        attributes: given.filter(([name, value]) => name.startsWith('on') || name.includes(':') && name != 'xml:space'
            || (name == 'href' || name == 'src') && !value.startsWith('#')
            || name == 'style' && /url|expression|@import/i.test(value)).map(String),
        metas: document.querySelectorAll('meta').length,
        styles: document.querySelectorAll('style').length,
        titles: document.querySelectorAll('head > title').length,
        text: document.body.textContent,
    }};
}}"""


class Verdict(NamedTuple):
    """What is wrong with a case, if anything, and its processor seconds."""

    wrong: str
    seconds: float


class Table(NamedTuple):
    """A table with hostile texts, and what else has names."""

    X: pd.DataFrame
    y: np.ndarray
    target: str
    file: str

    @property
    def texts(self) -> list[str]:
        """What a report shows."""
        labels = sorted(set(self.y)) if self.y.dtype == object else []
        return [*self.X.columns, self.target, self.file, *labels]


class Elements(HTMLParser):
    """Names of the elements and attributes of a page, and its text, by the parser of
    Python.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: list[str] = []
        self.links: list[str | None] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.names.add(tag)
        self.attributes += [name for name, _ in attrs]
        self.links += [value for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        """Note text."""
        self.text += data


def browser_path() -> str | None:
    """The program of a Chromium, None where there is none."""
    return os.environ.get("BOCHNER_BROWSER") or next(
        filter(None, map(shutil.which, BROWSERS)), None
    )


class Window:
    """One page of a browser that opens many files, and hears what they do."""

    def __init__(self, browser: Any) -> None:
        self.page = browser.new_context().new_page()
        self.heard: list[str] = []
        self.uri = ""
        self.page.on(
            "console", lambda message: self.heard.append(f"console: {message.text}")
        )
        self.page.on("pageerror", lambda error: self.heard.append(f"error: {error}"))
        self.page.on(
            "dialog", lambda dialog: (self.heard.append("dialog"), dialog.dismiss())
        )
        self.page.on("popup", lambda popup: self.heard.append("popup"))
        self.page.on("request", self._request)

    def _request(self, request: Any) -> None:
        if request.url != self.uri:
            self.heard.append(f"request: {request.url[:100]}")

    def look(self, path: Path) -> tuple[str, str, dict[str, Any]]:
        """Open a file: the first thing that it did, or "", its title, and what is in
        it.
        """
        self.heard.clear()
        self.uri = path.as_uri()
        self.page.goto(self.uri)
        found = self.page.evaluate(FOUND)
        self.page.mouse.move(50, 50)
        heard = (
            self.heard[0]
            if self.heard
            else "a script ran"
            if found["hit"] is not None
            else ""
        )
        return heard, self.page.title(), found


@contextmanager
def window() -> Iterator[Window]:
    """A window of a headless browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=browser_path(), args=["--no-sandbox"]
        )
        yield Window(browser)
        browser.close()


def hostile_text(rng: np.random.Generator, more: Sequence[str] = ()) -> str:
    """One attack, two of them together, or one in a place that cuts it, and
    sometimes characters of all kinds.
    """
    texts = [*ATTACKS, *more]
    text = texts[rng.integers(len(texts))]
    match int(rng.integers(6)):
        case 0:
            text += ATTACKS[rng.integers(len(ATTACKS))]
        case 1:
            text = "x" * int(rng.integers(60)) + text
        case 2:
            text = text.swapcase()
        case 3:
            text += "".join(map(chr, rng.integers(0, 0xD800, 5)))
    return text


def hostile_table(rng: np.random.Generator, classes: bool) -> Table:
    """Rows in whose numbers there is something to learn, with hostile names; columns
    have different ones.
    """
    names: list[str] = []
    while len(names) < 3:  # ends: most draws are new
        text = hostile_text(rng)
        if text not in names and str(text).strip():
            names.append(text)
    values = [hostile_text(rng) or "none" for _ in range(3)]
    n = 60
    x, z, kind = rng.normal(size=n), rng.normal(size=n), rng.integers(0, 3, n)
    X = pd.DataFrame(
        {
            names[0]: x,
            names[1]: z,
            names[2]: pd.Series([values[k] for k in kind], dtype=object),
        }
    )
    y = x + (kind == 0) + 0.1 * rng.normal(size=n)
    if classes:
        labels = np.array(
            [f"{hostile_text(rng, SURROGATES)}{k}" for k in range(3)], dtype=object
        )
        y = labels[np.digitize(y, np.quantile(y, [0.3, 0.7]))]
    return Table(
        X,
        y,
        hostile_text(rng, SURROGATES) or "y",
        hostile_text(rng, SURROGATES) or "file",
    )


def fitted(table: Table, classes: bool, seed: int) -> Any:
    """A small model of a table, by kinds in turn."""
    kind = bo.KernelMachineClassifier if classes else bo.KernelMachineRegressor
    given: dict[str, Any] = [
        {"features": bo.LinearFeatures()},
        {"kernel": "gaussian", "n_components": 16},
        {"features": "binning", "n_components": 16},
    ][seed // 2 % 3]
    return kind(**given, random_state=0).fit(table.X, table.y)


def fragments(model: Any, table: Table) -> Iterator[tuple[str, Any]]:
    """What a notebook shows of a model and what comes of it, by names."""
    yield "estimator", model
    yield "importance", model.importance(table.X, table.y)
    yield "explanations", model.explain(table.X[:5])
    yield "effects", model.effects(table.X)
    yield "interactions", model.interactions(table.X)
    yield "plan", model.plan(table.X, table.y)


def shown(text: str, plain: str = " ") -> str:
    """The text as a page shows it, without spaces: characters that are not printable,
    nor plain, by their codes.
    """
    codes = (
        c if c in plain or (c.isprintable() and c not in STEERING) else ascii(c)[1:-1]
        for c in text
    )
    return "".join("".join(codes).split())


def missing(texts: Sequence[str], content: str, length: int = 12) -> str:
    """The first text whose beginning is not in a page, or "". Names stand in quotes
    with the codes of line breaks; other texts break there.
    """
    content = "".join(content.split())
    for text in texts:
        forms = shown(text), shown(text, " \n")
        if not any(form[:length] in content for form in forms):
            return repr(text[:60])
    return ""


def report_of(table: Table, seed: int, path: Path) -> str:
    """The report page of a small model of a table, which is written to a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fitted(table, table.y.dtype == object, seed)
        write_report(model, table.X, table.y, path, Origin(table.target, table.file))
    return path.read_text(encoding="utf-8")


def judge(seed: int, path: Path, on: Window) -> tuple[str, Verdict]:
    """One case, in words, and what is wrong with its report or its fragments, if
    anything is.
    """
    classes, start = seed % 2 == 1, time.process_time()
    table = hostile_table(np.random.default_rng(seed), classes)
    report_of(table, seed, path)
    wrong = wrong_report(path, table.texts, on)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shows = [
            one._repr_html_()
            for _, one in fragments(fitted(table, classes, seed), table)
        ]
    path.write_text(NOTEBOOK.format("\n".join(shows)), encoding="utf-8")
    wrong = wrong or wrong_fragments(path, list(table.X.columns), on)
    return f"{seed} {'classes' if classes else 'numbers'}", Verdict(
        wrong, time.process_time() - start
    )


def wrong_report(path: Path, texts: Sequence[str], on: Window) -> str:
    """What is wrong with a report page, if anything is."""
    heard, title, found = on.look(path)
    if heard:
        return f"report: {heard}"
    if not title.startswith("Model report: "):
        return f"report: title {title[:80]!r}"
    if found["elements"] or found["attributes"]:
        return f"report: holds {[*found['elements'], *found['attributes']][0]}"
    if (found["metas"], found["styles"], found["titles"]) != (4, 1, 1):
        return (
            f"report: {found['metas']} metas, {found['styles']} styles, "
            f"{found['titles']} titles"
        )
    lost = missing(texts, found["text"])
    return f"report: does not show {lost}" if lost else ""


def wrong_fragments(path: Path, texts: Sequence[str], on: Window) -> str:
    """What is wrong with fragments in a page without a policy, if anything is."""
    heard, title, found = on.look(path)
    if heard:
        return f"fragments: {heard}"
    if title != "ours":
        return f"fragments: title {title[:80]!r}"
    lost = missing(texts, found["text"])
    return f"fragments: do not show {lost}" if lost else ""
