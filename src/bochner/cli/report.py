"""Prints reports: on a terminal, in a pipe, and as JSON."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import is_dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bochner.cli.errors import listed, printable
from bochner.scores.summaries import IN_UNITS, NAMES

PIPE_WIDTH, LEAST_SHARE = 10_000, 0.01


def show(report: dict[str, Any], as_json: bool) -> None:
    """Print a report, for people or as one JSON object."""
    if as_json:
        print(json.dumps(_strict(report), allow_nan=False, indent=2))
        return
    console = Console(highlight=False, markup=False, emoji=False, file=sys.stdout)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, emoji=False, width=PIPE_WIDTH, no_color=True)
    with console.capture() as capture:
        PRINTERS[report["command"]](console, report)
        for note in report["notes"]:
            console.print(Text.assemble(("note: ", "yellow"), printable(note)))
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))


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


def _fit(console: Console, report: dict[str, Any]) -> None:
    why = report["task_inferred_because"]
    other = "regression" if report["task"] == "classification" else "classification"
    override = f" (--task {other} to override)" if report["task_can_change"] else ""
    rows = f"{report['rows']:,} rows, {report['columns']:,} columns"
    if report["rows_without_target"]:
        rows += f"; {report['rows_without_target']:,} rows without a target left out"
    facts = {
        "data": f"{report['data']}: {rows}",
        "target": report["target"],
        "task": report["task"] + (f": {why}{override}" if why else ""),
        **_model(report["model"]),
        "fitted on": f"{report['rows_train']:,} rows; {report['rows_test']:,} held out",
    }
    if not report["rows_test"]:
        facts["fitted on"] = f"{report['rows_train']:,} rows; none held out, so that there is no score"
    _facts(console, facts)
    _scores(console, report["scores"], "held-out rows")
    if report["scores"]:
        baseline = report["baseline"]
        value = baseline["value"] if "share" in baseline else number(baseline["value"])
        console.print(Text(f"Baseline: always {baseline['predicts']}, {printable(value)}.", "dim"))
    if report["out"]:
        again = ", fitted again on" if report["rows_test"] else ", fitted on"
        console.print(Text(f"Saved {printable(report['out'])}{again} all {report['rows_saved_model']:,} rows."))
    peak = report["peak_memory_bytes"]
    console.print(Text(f"{report['seconds']:.1f} s" + (f"; {peak / 1e9:.2f} GB of memory" if peak else ""), "dim"))


def _plan(console: Console, report: dict[str, Any]) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for key, value in report["plan"].facts():
        table.add_row(Text(key), Text(printable(value)))
    console.print(table)


def _predict(console: Console, report: dict[str, Any]) -> None:
    out, columns = printable(report["out"]), report["columns_written"]
    console.print(Text(f"Wrote {out}: {report['rows']:,} rows, columns {listed(columns)}."))
    if report["columns_ignored"]:
        console.print(Text(f"Ignored columns that the model does not use: {listed(report['columns_ignored'])}.", "dim"))


def _evaluate(console: Console, report: dict[str, Any]) -> None:
    rows = f"{report['rows']:,} rows"
    if report["rows_without_target"]:
        rows += f"; {report['rows_without_target']:,} without a target left out"
    _facts(console, {"model": report["model"], "data": f"{report['data']}: {rows}", "target": report["target"]})
    _scores(console, report["scores"], f"{report['rows_test']:,} rows")


def _report(console: Console, report: dict[str, Any]) -> None:
    size = f"{report['bytes'] / 1e3:,.0f} kB"
    console.print(Text(f"Wrote {printable(report['out'])}: {size}, on {report['rows']:,} rows. Open it in a browser."))
    console.print(Text(f"{report['seconds']:.1f} s", "dim"))


def _inspect(console: Console, report: dict[str, Any]) -> None:
    classes, columns, rows = report["classes"], report["columns"], report["rows_train"]
    kinds = list(columns.values())
    counts = ", ".join(f"{kinds.count(kind):,} {kind}" for kind in dict.fromkeys(kinds))
    facts = {
        "file": f"{report['model_file']}: {report['file_bytes'] / 1e6:,.2f} MB, format {report['format_version']}, "
        f"by bochner {report['library_version']}",
        "holds": report["model"]["class"] + (f", fitted on {rows:,} rows" if rows else ""),
        "target": "not named" if report["target"] is None else report["target"],
        "classes": "" if classes is None else f"{len(classes):,}: {listed(classes)}",
        "columns": f"{len(columns):,} ({counts}): {listed(columns, 20)}",
        **_model(report["model"]),
    }
    _facts(console, {key: value for key, value in facts.items() if value})
    _scores(console, report["scores"], "held-out rows")


def _demo(console: Console, report: dict[str, Any]) -> None:
    table = _table("data", "size", "held-out score", "95 % interval", "baseline", "seconds")
    for row in report["results"]:
        size = f"{row['rows']:,} x {row['columns']}"
        value, interval, baseline = _cells(row["score"], row)
        table.add_row(row["data"], size, f"{NAMES[row['score']]} {value}", interval, baseline, f"{row['seconds']:.1f}")
    console.print(Text("Two lines of Python, here on data that scikit-learn brings along:\n"))
    console.print(Padding(Text(report["code"].rstrip(), "cyan"), (0, 4)))
    console.print(table)
    console.print(Text("R²: by KernelMachineRegressor. Baseline: the most frequent class, or the mean.", "dim"))


def _warmup(console: Console, report: dict[str, Any]) -> None:
    counts = f"{report['compiled']:,} loops in {report['seconds']:.1f} s; {report['kept_before']:,} were there"
    console.print(Text(f"Compiled {counts}. They are in {printable(report['folder'])}."))


def _facts(console: Console, facts: dict[str, Any]) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for key, value in facts.items():
        table.add_row(Text(key), Text(printable(value)))
    console.print(table)


def _scores(console: Console, scores: dict[str, Any] | None, where: str) -> None:
    if not scores:
        return
    table = _table(where, "score", "95 % interval", "baseline")
    for key, score in scores.items():
        asked = f" of {100 * score['asked_for']:g} %" if "asked_for" in score else ""
        table.add_row(f"{NAMES[key]}{asked}", *_cells(key, score))
    console.print(table)


def _table(first: str, *names: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column(first, no_wrap=True)
    for name in names:
        table.add_column(name, justify="right")
    return table


def _cells(key: str, score: dict[str, Any]) -> tuple[str, str, str]:
    """A score, its interval and its baseline: shares with three decimals, errors with four digits."""
    form = number if key in IN_UNITS else share
    interval = "" if score["interval"] is None else " to ".join(form(end) for end in score["interval"])
    baseline = "" if key.startswith("interval_") else form(score["baseline"])
    return form(score["value"]), interval, baseline


def share(value: float | None) -> str:
    """A number with three decimals."""
    return "undefined" if value is None else f"{value:z.3f}"


def number(value: float | None) -> str:
    """A number as people read it: four digits, and thousands in groups."""
    if value is None:
        return "undefined"
    if 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _model(facts: dict[str, Any]) -> dict[str, str]:
    """Maps, ridge term and solution, a line for each."""
    maps, alpha = facts["maps"], f"alpha {number(facts['alpha'])}"
    lines = {"model": f"{_map(maps[0])}; {alpha}"}
    if len(maps) > 1:
        lines = {"model": f"{len(maps)} maps side by side, whose kernels add; {alpha}"}
        lines |= {f"map {m}": f"weight {number(part['weight'])}: {_map(part)}" for m, part in enumerate(maps, 1)}
    if facts.get("importances"):
        shares = [f"{name} {100 * share:.0f} %" for name, share in facts["importances"].items() if share >= LEAST_SHARE]
        lines["matter most"] = ", ".join(shares)
    if facts.get("choice"):
        lines |= _choice(facts["choice"])
    times = f"{facts['n_iter']:,} iteration{'' if facts['n_iter'] == 1 else 's'}" if facts["n_iter"] else ""
    if facts["solver"] == "cg":
        lines["solved by"] = f"conjugate gradients in {times} ({facts['solver_reason']})"
    elif facts["solver"] == "exact":
        lines["solved by"] = "the kernel matrix of all rows" + (f", conjugate gradients in {times}" if times else "")
    elif facts["solver"]:
        lines["solved by"] = "the Gram matrix"
    return lines | ({"uncertainty": "intervals, standard deviations"} if facts["uncertainty"] else {})


def _choice(choice: dict[str, Any]) -> dict[str, str]:
    """What was chosen and why, and what else was tried."""
    lines = {"chosen": f"{choice['chosen']}: {choice['reason']}"}
    if choice["candidates"]:
        losses = [f"{one['name']} {number(one['loss'])}" for one in choice["candidates"]]
        lines["tried"] = f"{choice['criterion']} on {choice['rows_held_out']:,} rows: {'; '.join(losses)}"
    return lines


def _map(facts: dict[str, Any]) -> str:
    """Kernel, lengthscale and number of features; of bins how many there are and how full."""
    scale = facts["lengthscale"]
    text = f"{facts['kernel'] or 'linear'} kernel"
    if "metric" in facts:
        learned = {"ard": "learned scales and warps", "full": "a learned linear map"}[facts["metric"]]
        text, scale = f"{text} on {learned} of the columns", None
    if scale and scale["min"] == scale["max"]:
        text += f", lengthscale {number(scale['min'])}"
    elif scale:
        text += f", lengthscales {number(scale['min'])} to {number(scale['max'])}, median {number(scale['median'])}"
    if "rows_per_bin" not in facts:
        return f"{text}; {facts['n_features']:,} {'rows' if facts['map'] == 'KernelRows' else 'features'}"
    text += f"; {facts['n_components']:,} grids"
    if facts["n_buckets"]:
        return f"{text} of {facts['n_buckets']:,} buckets"
    filled = f"{facts['rows_per_bin']:.3g} rows per bin, {100 * facts['alone']:.2g} % of rows alone"
    return f"{text}, {facts['n_features']:,} occupied bins; {filled}"


PRINTERS = {
    "demo": _demo,
    "warmup": _warmup,
    "fit": _fit,
    "plan": _plan,
    "predict": _predict,
    "evaluate": _evaluate,
    "inspect": _inspect,
    "report": _report,
}
