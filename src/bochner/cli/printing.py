"""Prints reports: on a terminal, in a pipe, and as JSON."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bochner.cli.failures import Facts, listed, printable
from bochner.markup import cut, cut_all, cut_named, named_shares, number
from bochner.scores.summaries import NAMES, cells, score_rows

LEAST_SHARE = 0.01
UNKNOWN = "undefined"  # of scores and losses
MOST_IMPORTANT, MOST_EXPLAINED = 3, 10
PIPE_WIDTH, LEAST_COMPILING = 10_000, 0.1


def model_lines(facts: Facts) -> dict[str, str]:
    """Feature maps, ridge penalty, importances, relevances, selection and solver, a
    line for each.
    """
    maps = facts["maps"]
    alpha = f"ridge penalty {number(facts['alpha'])}"
    lines = {"model": f"{_map_words(maps[0])}; {alpha}"}
    if len(maps) > 1:
        lines = {"model": f"sum of {len(maps)} kernels; {alpha}"}
        lines |= {
            f"map {m}": f"weight {number(part['weight'])}: {_map_words(part)}"
            for m, part in enumerate(maps, 1)
        }
    if shares := importances(facts):
        lines["importance"] = (
            f"{', '.join(shares)} (permutations of {facts['importance_rows']})"
        )
    if shares := relevances(facts):
        lines["relevance in the distance"] = ", ".join(shares)
    if facts.get("choice"):
        lines["selected"] = f"{facts['choice']['chosen']}: {facts['choice']['reason']}"
    times = (
        f"{facts['n_iter']:,} iteration{'' if facts['n_iter'] == 1 else 's'}"
        if facts["n_iter"]
        else ""
    )
    if facts["solver"] == "cg":
        lines["solver"] = f"conjugate gradients, {times} ({facts['solver_reason']})"
    elif facts["solver"] == "exact":
        lines["solver"] = "exact kernel matrix" + (
            f", conjugate gradients, {times}" if times else ""
        )
    elif facts["solver"]:
        lines["solver"] = "direct, by the Gram matrix of the features"
    return lines | (
        {"uncertainty": "intervals and standard deviations"}
        if facts["uncertainty"]
        else {}
    )


def model_line(facts: Facts) -> str:
    """The model in one line: how it was selected, or what it is, and its most
    important columns.
    """
    choice = facts.get("choice")
    if choice:
        n = len(choice["candidates"])
        line = (
            f"{choice['chosen']} "
            f"({choice['reason']}{f'; {n} candidates' if n > 1 else ''})"
        )
    else:
        line = model_lines(facts)["model"]
    shares = importances(facts)[:MOST_IMPORTANT]
    return f"{line}; most important: {', '.join(shares)}" if shares else line


def importances(facts: Facts) -> list[str]:
    """Columns with at least one per cent of the importance, and standard errors, the
    most important first.
    """
    return named_shares(
        _notable_shares(facts.get("importances")), facts.get("importance_errors")
    )


def relevances(facts: Facts) -> list[str]:
    """Columns with at least one per cent of the distance, the ones that count most
    first.
    """
    return named_shares(_notable_shares(facts.get("relevances")))


def _notable_shares(shares: dict[str, float] | None) -> dict[str, float]:
    return {
        name: share for name, share in (shares or {}).items() if share >= LEAST_SHARE
    }


def _map_words(facts: Facts) -> str:
    """Kernel, lengthscale and number of features; of bins how many there are and how
    full.
    """
    scale = facts["lengthscale"]
    text = f"{facts['kernel'] or 'linear'} kernel"
    if "metric" in facts:
        learned = {
            "ard": "learned lengthscales and warps",
            "full": "a learned linear map of the columns",
        }
        text = f"{text} with {learned[facts['metric']]}"
        scale = None
    if scale and scale["min"] == scale["max"]:
        text += f", lengthscale {number(scale['min'])}"
    elif scale:
        text += (
            f", lengthscales {number(scale['min'])} to {number(scale['max'])}, "
            f"median {number(scale['median'])}"
        )
    if "rows_per_bin" not in facts:
        return (
            f"{text}; {facts['n_features']:,} "
            f"{'rows' if facts['map'] == 'KernelRows' else 'features'}"
        )
    text += f"; {facts['n_components']:,} grids"
    if facts["n_buckets"]:
        return f"{text} of {facts['n_buckets']:,} buckets"
    filled = (
        f"{facts['rows_per_bin']:.3g} rows per bin, {100 * facts['alone']:.2g} "
        "% of rows alone in theirs"
    )
    return f"{text}, {facts['n_features']:,} occupied bins; {filled}"


class Grid(NamedTuple):
    """A table under its header, whose first column is to the left."""

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


class Quiet(str):
    """A sentence that matters less."""


class Code(str):
    """Lines of code."""


# What is printed, one part below another: names with texts, tables and sentences
Part = dict[str, Any] | list[tuple[str, str]] | Grid | str


def show(report: Facts, as_json: bool, details: bool = False) -> None:
    """Print a report, for people or as one JSON object.

    Parameters
    ----------
    report : dict
    as_json : bool
    details : bool, default=False
        Of a fit all that is known, not its summary alone.
    """
    if as_json:
        print(json.dumps(_strict(report), allow_nan=False, indent=2))
        return
    console = Console(highlight=False, markup=False, emoji=False, file=sys.stdout)
    if not console.is_terminal:
        console = Console(
            highlight=False, markup=False, emoji=False, width=PIPE_WIDTH, no_color=True
        )
    parts_of = _fit_details if details else PARTS[report["command"]]
    with console.capture() as capture:
        for part in parts_of(report):
            console.print(_drawn(part))
        for note in report["notes"]:
            console.print(Text.assemble(("note: ", "yellow"), printable(note)))
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))


def _drawn(part: Part) -> Any:
    """A part as the console prints it."""
    if isinstance(part, dict | list):
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for name, text in part.items() if isinstance(part, dict) else part:
            table.add_row(Text(name), Text(printable(text)))
        return table
    if isinstance(part, Grid):
        table = Table(
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            padding=(0, 1, 0, 0),
            header_style="bold",
        )
        first, *others = part.header
        table.add_column(first, no_wrap=True)
        for name in others:
            table.add_column(name, justify="right")
        for row in part.rows:
            table.add_row(*row)
        return table
    if isinstance(part, Code):
        return Padding(Text(part, "cyan"), (0, 4))
    return Text(part, "dim" if isinstance(part, Quiet) else "")


def _strict(value: Any) -> Any:
    """Value fit for strict JSON: numbers that are not finite become null."""
    if is_dataclass(value):
        return _strict(vars(value))
    if isinstance(value, dict):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def _fit(report: Facts) -> Iterator[Part]:
    """A summary in six lines, one more for each score beyond two."""
    yield {
        "data": f"{report['data']}: {_rows(report)}; target {cut(report['target'])}",
        "task": _task(report),
        "model": model_line(report["model"]),
        **_score_lines(report),
        "saved": f"{_saved(report)}{_cost(report)}; more with --details",
    }


def _test_rows(report: Facts) -> str:
    """How many rows were held out, and which."""
    if not report["rows_test"]:
        return "no rows, so there is no score"
    which = report["rows_test_are"]
    return f"{report['rows_test']:,} rows" + (f", {cut(which)}" if which else "")


def _fit_details(report: Facts) -> Iterator[Part]:
    """All that is known of a fit."""
    yield {
        "data": f"{report['data']}: {_rows(report)}",
        "target": cut(report["target"]),
        "task": _task(report),
        **model_lines(report["model"]),
        "training": f"{report['rows_train']:,} rows",
        "test": _test_rows(report),
    }
    yield from _candidates(report["model"])
    yield from _scores(report["scores"], f"{report['rows_test']:,} test rows")
    if report["scores"]:
        baseline = report["baseline"]
        value = (
            cut(baseline["value"]) if "share" in baseline else number(baseline["value"])
        )
        yield Quiet(f"Baseline: always {baseline['predicts']}, {printable(value)}.")
    saved = _saved(report).removesuffix("; ")
    yield f"Saved {saved}." if report["out"] else f"{saved.capitalize()}."
    yield Quiet(_cost(report))


def _rows(report: Facts) -> str:
    rows = f"{report['rows']:,} rows, {report['columns']:,} columns"
    missing = report["rows_without_target"]
    return rows + (
        f"; {missing:,} rows without a target were dropped" if missing else ""
    )


def _task(report: Facts) -> str:
    why = report["task_inferred_because"]
    other = "regression"
    if report["task"] == "regression":
        other = "classification"
    override = f" (--task {other} to override)" if report["task_can_change"] else ""
    return report["task"] + (f": {why}{override}" if why else "")


def _saved(report: Facts) -> str:
    if not report["out"]:
        return "not saved (give --out FILE to save the model); "
    again = ", refitted on" if report["rows_test"] else ", fitted on"
    return (
        f"{printable(report['out'])}{again} all {report['rows_saved_model']:,} rows; "
    )


def _cost(report: Facts) -> str:
    peak = report["peak_memory_bytes"]
    return f"{report['seconds']:.1f} s" + (
        f", {peak / 1e9:.2f} GB of memory" if peak else ""
    )


def _score_lines(report: Facts) -> dict[str, str]:
    if not report["scores"]:
        return {"score": "none, because there are no test rows"}
    lines: dict[str, str] = {}
    for key, score in report["scores"].items():
        value, interval, baseline = cells(key, score, UNKNOWN)
        asked = (
            f" (nominal: {100 * score['asked_for']:g} %)"
            if "asked_for" in score
            else ""
        )
        beside = [
            f"95 % interval {interval}" if interval else "",
            f"baseline {baseline}" if baseline else "",
        ]
        more = "; ".join(part for part in beside if part)
        where = "" if lines else f" on {report['rows_test']:,} test rows"
        which = report.get("rows_test_are")
        where += f", {cut(which)}" if which and not lines else ""
        lines[NAMES[key]] = f"{value}{asked}{where}" + (f" ({more})" if more else "")
    return lines


def _candidates(facts: Facts) -> Iterator[Part]:
    """What was tried, the best first, where there was a choice."""
    choice = facts.get("choice")
    if not choice or not choice["candidates"]:
        return
    criterion = f"{choice['criterion']}, {choice['rows_held_out']:,} validation rows"
    yield Grid(
        ("candidates", criterion, "± s.e.", "seconds"),
        [
            (
                one["name"],
                number(one["loss"], UNKNOWN),
                number(one["standard_error"], UNKNOWN),
                f"{one['seconds']:.1f}",
            )
            for one in choice["candidates"]
        ],
    )


def _scores(scores: Facts | None, where: str) -> Iterator[Part]:
    if scores:
        header = (where, "score", "95 % interval", "baseline")
        yield Grid(header, [tuple(row) for row in score_rows(scores, UNKNOWN)])


def _plan(report: Facts) -> Iterator[Part]:
    yield report["plan"].facts()


def _predict(report: Facts) -> Iterator[Part]:
    names = report["columns_written"]
    columns = f"column{'s' * (len(names) > 1)} {listed(names)}"
    yield f"Wrote {printable(report['out'])}: {report['rows']:,} rows, {columns}."
    if report["columns_ignored"]:
        ignored = listed(report["columns_ignored"])
        yield Quiet(f"Ignored columns that the model does not use: {ignored}.")


def _evaluate(report: Facts) -> Iterator[Part]:
    rows = f"{report['rows']:,} rows"
    if report["rows_without_target"]:
        rows += f"; {report['rows_without_target']:,} without a target were dropped"
    yield {
        "model": report["model"],
        "data": f"{report['data']}: {rows}",
        "target": report["target"],
    }
    yield from _scores(report["scores"], f"{report['rows_test']:,} rows")


def _explain(report: Facts) -> Iterator[Part]:
    way = "exact" if report["exact"] else "sampled"
    yield (
        f"Wrote {printable(report['out'])}: Shapley values of "
        f"{report['rows_explained']:,} rows, {way}, against "
        f"{report['background_rows']:,} training rows."
    )
    values = list(report["mean_absolute_values"].items())[:MOST_EXPLAINED]
    yield Grid(
        ("column", f"mean absolute value ({report['unit']})"),
        [(printable(name), number(value)) for name, value in cut_named(values)],
    )
    yield Quiet(_cost(report))


def _report(report: Facts) -> Iterator[Part]:
    size = f"{report['bytes'] / 1e3:,.0f} kB"
    yield (
        f"Wrote {printable(report['out'])}: {size}, on {report['rows']:,} rows. "
        "Open it in a browser."
    )
    yield Quiet(f"{report['seconds']:.1f} s")


def _inspect(report: Facts) -> Iterator[Part]:
    classes = report["classes"]
    columns = report["columns"]
    rows = report["rows_train"]
    kinds = list(columns.values())
    counts = ", ".join(f"{kinds.count(kind):,} {kind}" for kind in dict.fromkeys(kinds))
    facts = {
        "file": f"{report['model_file']}: {report['file_bytes'] / 1e6:,.2f} MB, "
        f"format {report['format_version']}, "
        f"by bochner {report['library_version']}",
        "holds": report["model"]["class"]
        + (f", fitted on {rows:,} rows" if rows else ""),
        "target": "not named" if report["target"] is None else report["target"],
        "classes": "" if classes is None else f"{len(classes):,}: {listed(classes)}",
        "columns": f"{len(columns):,} ({counts}): {listed(cut_all(columns), 20)}",
        **model_lines(report["model"]),
    }
    yield {name: text for name, text in facts.items() if text}
    yield from _candidates(report["model"])
    yield from _scores(report["scores"], "test rows")


def _demo(report: Facts) -> Iterator[Part]:
    yield "Two lines of Python, on data that come with scikit-learn:\n"
    yield Code(report["code"].rstrip())
    others = report["results"][0]["others"]
    rows = []
    for row in report["results"]:
        value, interval, _ = cells(row["score"], row, UNKNOWN)
        rows.append(
            (
                row["data"],
                f"{row['rows']:,} x {row['columns']}",
                f"{NAMES[row['score']]} {value}",
                interval,
                f"{row['seconds']:.1f}",
                *(f"{other:.3f}" for other in row["others"].values()),
            )
        )
    yield Grid(
        ("data", "size", "test score", "95 % interval", "seconds", *others), rows
    )
    yield Quiet(
        "R² by KernelMachineRegressor. The other models are scikit-learn's, with "
        "defaults."
    )
    compiling = report["compile_seconds"]
    if compiling >= LEAST_COMPILING:
        yield Quiet(
            f"Compiling the inner loops took {compiling:.1f} s more. It happens "
            "once: they are cached on disk."
        )


def _warmup(report: Facts) -> Iterator[Part]:
    yield (
        f"Compiled {report['compiled']:,} loops in {report['seconds']:.1f} s; "
        f"{report['kept_before']:,} were cached already. The cache is "
        f"{printable(report['folder'])}."
    )


PARTS = {
    "demo": _demo,
    "warmup": _warmup,
    "fit": _fit,
    "plan": _plan,
    "predict": _predict,
    "evaluate": _evaluate,
    "explain": _explain,
    "inspect": _inspect,
    "report": _report,
}
