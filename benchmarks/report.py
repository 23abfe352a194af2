"""Pages of docs/benchmarks, each rewritten by the script that measures it.

What the scripts of `runner` measure is kept in docs/benchmarks/NAME.json, by part and
by kind of machine, and the page is made from it: a run on one machine leaves the
figures of the others. `overview` makes docs/benchmarks.md.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Callable, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import bochner

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
FIGURES = PAGE.parent / "figures"
OURS = ("bochner", "numpy", "scipy", "scikit-learn", "numba")
VECTORS = {
    "avx512_vnni": "AVX-512 with VNNI",
    "avx512f": "AVX-512",
    "avx2": "AVX2",
    "asimd": "NEON",
}

Results = dict[
    str, dict[str, dict[str, Any]]
]  # by part and machine: date, versions, rows


class Row(NamedTuple):
    """A figure, its target, and a limit that was measured in the same run, with how
    many times it the figure is.
    """

    what: str
    measured: str
    bar: str = ""
    limit: str = ""
    times: float | None = None


def processor(cpuinfo: str = "") -> str:
    """Model, vector sets and number of cores: the name of a kind of machine."""
    text = cpuinfo or _read("/proc/cpuinfo")
    fields = dict(re.findall(r"(?m)^([\w ]+?)\s*: (.*)$", text))
    flags = fields.get("flags", fields.get("Features", "")).split()
    model = fields.get("model name") or platform.processor() or platform.machine()
    if "cpu family" in fields:
        model += f" (family {fields['cpu family']}, model {fields['model']})"
    vectors = [name for flag, name in VECTORS.items() if flag in flags][:1]
    cores = len(re.findall(r"(?m)^processor\s*:", text)) or os.cpu_count()
    return ", ".join([model, *vectors, f"{cores} cores"])


def versions(packages: Sequence[str] = ()) -> str:
    """Of Python, ours, and further packages where they are installed."""
    found = [
        f"{name} {_version(name)}" for name in (*OURS, *packages) if _version(name)
    ]
    return ", ".join([f"Python {platform.python_version()}", *found])


def _version(name: str) -> str:
    if name == "bochner":
        return (
            bochner.__version__
        )  # of the code that runs, which may not be what is installed
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(str(cell) for cell in line) + " |" for line in lines
    )


def figure(row: Row) -> str:
    """What was measured, and how many times its limit that is."""
    if row.times is None:
        return row.measured
    digits = 2 if row.times < 10 else 1 if row.times < 100 else 0
    return f"{row.measured}, {row.times:,.{digits}f} x".removeprefix(", ")


def columns(results: Results) -> str:
    """Table of rows, with a column for each machine; order, bars and limits are
    those that were measured last.
    """
    rows, figures = {}, {}
    for part, measured in results.items():
        for machine, own in sorted(
            measured.items(), key=lambda item: item[1]["date"], reverse=True
        ):
            for row in (Row(*one) for one in own["rows"]):
                rows.setdefault((part, row.what), row)
                figures[part, row.what, machine] = figure(row)
    header = ["what", *machines(results), "target", "x: times"]
    lines = [
        [
            row.what,
            *(figures.get((*key, machine), "") for machine in machines(results)),
            row.bar,
            row.limit,
        ]
        for key, row in rows.items()
    ]
    width = len(header) - (not any(row.limit for row in rows.values()))
    return table(header[:width], [line[:width] for line in lines])


def tables(header: Sequence[str], note: str) -> Callable[[Results], str]:
    """Tables of wide rows, one below another, for each machine, and a note to all."""

    def body(results: Results) -> str:
        bodies = []
        for machine in machines(results):
            rows = [
                row
                for measured in results.values()
                if machine in measured
                for row in measured[machine]["rows"]
            ]
            bodies.append(f"**{machine}**\n\n{table(header, rows)}")
        return "\n\n".join([*bodies, note])

    return body


def machines(results: Results) -> list[str]:
    """Names of the machines that anything was measured on."""
    return sorted({machine for measured in results.values() for machine in measured})


def keep(
    name: str,
    part: str,
    rows: Sequence[Sequence[object]],
    packages: Sequence[str],
    machine: str,
) -> None:
    """Keep the rows of a part, as those of this machine, in place of its earlier
    ones.
    """
    results, store = kept(name), _store(name)
    own = {"date": str(date.today()), "versions": versions(packages), "rows": rows}
    results.setdefault(part, {})[machine] = own
    store.parent.mkdir(exist_ok=True)
    store.write_text(json.dumps(results, indent=1) + "\n")


def kept(name: str) -> Results:
    """All that was measured by the script of that name."""
    store = _store(name)
    return json.loads(store.read_text()) if store.exists() else {}


def _store(name: str) -> Path:
    return PAGE.with_suffix("") / f"{name}.json"


def write_kept(
    title: str, name: str, parts: Sequence[str], body: Callable[[Results], str]
) -> None:
    """Make the section of all that is kept of these parts, in their order; none if
    nothing is.
    """
    results = kept(name)
    results = {part: results[part] for part in parts if part in results}
    if not results:
        return
    notes = []
    for machine in machines(results):
        own = [
            measured[machine] for measured in results.values() if machine in measured
        ]
        runs = sorted(
            {f"{one['date'] or 'date unknown'}, {one['versions']}" for one in own}
        )
        notes.append(f"{machine}: {'; '.join(runs)}.")
    write_page(
        title, "\n\n".join([f"`python -m benchmarks {name}`", body(results), *notes])
    )


def pyplot() -> Any:
    """Matplotlib without a screen."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def save_figure(figure: Any, name: str, dpi: int) -> None:
    """Save a figure in docs/figures."""
    FIGURES.mkdir(exist_ok=True)
    figure.savefig(FIGURES / name, dpi=dpi)


def write_section(
    title: str, command: str, body: str, packages: Sequence[str] = ()
) -> None:
    """Write the section of a script that keeps no figures; versions of `packages`
    are told beside ours.
    """
    write_page(
        title,
        f"`{command}`, {date.today()}. {processor()}; "
        f"{versions(packages)}.\n\n{body.strip()}",
    )


def page_of(title: str) -> Path:
    """The page of that title."""
    return (
        PAGE.with_suffix("") / f"{'-'.join(re.findall('[a-z0-9]+', title.lower()))}.md"
    )


def titled(title: str, body: str) -> str:
    """The text of a page, in whose folder pictures are one level higher."""
    return f"# {title}\n\n{body.replace('](figures/', '](../figures/')}\n"


def write_page(title: str, body: str) -> None:
    """Write the page of that title, and print it."""
    text = titled(title, body)
    print(text)
    page = page_of(title)
    page.parent.mkdir(exist_ok=True)
    page.write_text(text)
