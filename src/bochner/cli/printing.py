"""Prints reports: on a terminal, in a pipe, and as JSON."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bochner.cli.failures import Facts, printable
from bochner.markup import cut, cut_all, cut_named, named_shares, number
from bochner.notices import listed
from bochner.scores.summaries import NAMES, cells, score_rows

UNKNOWN = "undefined"  # of scores and losses


def model_lines(facts: Facts) -> dict[str, str]:
    """Feature maps, ridge penalty, importances, relevances, selection and solver, a
    line for each.
    """
    maps = facts["maps"]
    alpha = f"ridge penalty {number(facts['alpha'])}"
    lines = {"model": f"{_map_words(maps[0])}; {alpha}"}
    if len(maps) > 1:
        lines = {"model": f"sum of {len(maps)} kernels; {alpha}"}
        for m, part in enumerate(maps, 1):
            lines[f"map {m}"] = f"weight {number(part['weight'])}: {_map_words(part)}"
    if shares := importances(facts):
        lines["importance"] = (
            f"{', '.join(shares)} (permutations of {facts['importance_rows']})"
        )
    if shares := named_shares(_notable(facts["relevances"])):
        lines["relevance in the distance"] = ", ".join(shares)
    if choice := facts["choice"]:
        lines["selected"] = f"{choice['chosen']}: {choice['reason']}"
    n_iter = facts["n_iter"]
    times = f"{n_iter or 0:,} iteration{'' if n_iter == 1 else 's'}"
    if facts["solver"] == "cg":
        lines["solver"] = f"conjugate gradients, {times} ({facts['solver_reason']})"
    elif facts["solver"] == "exact":
        gradients = f", conjugate gradients, {times}" if n_iter else ""
        lines["solver"] = "exact kernel matrix" + gradients
    elif facts["solver"]:
        lines["solver"] = "direct, by the Gram matrix of the features"
    if facts["uncertainty"]:
        lines["uncertainty"] = "intervals and standard deviations"
    return lines


def model_line(facts: Facts) -> str:
    """The model in one line: how it was selected, or what it is, and its most
    important columns.
    """
    line = model_lines(facts)["model"]
    if choice := facts["choice"]:
        n = len(choice["candidates"])
        others = f"; {n} candidates" if n > 1 else ""
        line = f"{choice['chosen']} ({choice['reason']}{others})"
    shares = importances(facts)[:3]
    return f"{line}; most important: {', '.join(shares)}" if shares else line


def importances(facts: Facts) -> list[str]:
    """Columns with at least one per cent of the importance, and standard errors, the
    most important first.
    """
    return named_shares(_notable(facts["importances"]), facts["importance_errors"])


def _notable(shares: dict[str, float] | None) -> dict[str, float]:
    """Those of at least one per cent."""
    return {name: share for name, share in (shares or {}).items() if share >= 0.01}


def _map_words(facts: Facts) -> str:
    """Kernel, lengthscale and number of features; of bins how many there are and how
    full.
    """
    scale = facts["lengthscale"]
    text = f"{facts['kernel'] or 'linear'} kernel"
    metric = facts.get("metric")
    if metric == "ard":
        text += " with learned lengthscales and warps"
    elif metric == "full":
        text += " with a learned linear map of the columns"
    elif scale and scale["min"] == scale["max"]:
        text += f", lengthscale {number(scale['min'])}"
    elif scale:
        text += (
            f", lengthscales {number(scale['min'])} to {number(scale['max'])}, "
            f"median {number(scale['median'])}"
        )
    if "rows_per_bin" not in facts:
        unit = "rows" if facts["map"] == "KernelRows" else "features"
        return f"{text}; {facts['n_features']:,} {unit}"
    text += f"; {facts['n_components']:,} grids"
    if facts["n_buckets"]:
        return f"{text} of {facts['n_buckets']:,} buckets"
    return (
        f"{text}, {facts['n_features']:,} occupied bins; "
        f"{facts['rows_per_bin']:.3g} rows per bin, {100 * facts['alone']:.2g} % of "
        "rows alone in theirs"
    )


def show(report: Facts, as_json: bool) -> None:
    """Print a report, for people or as one JSON object."""
    if as_json:
        print(json.dumps(_strict(report), allow_nan=False, indent=2))
        return
    plain: Facts = {"highlight": False, "markup": False, "emoji": False}
    console = Console(file=sys.stdout, **plain)
    if not console.is_terminal:
        console = Console(width=10_000, no_color=True, **plain)
    with console.capture() as capture:
        for part in PARTS[report["command"]](report):
            console.print(part)
        for note in report["notes"]:
            console.print(Text.assemble(("note: ", "yellow"), printable(note)))
    print("\n".join(line.rstrip() for line in capture.get().splitlines()))


def _named(texts: Iterable[tuple[str, str]]) -> Table:
    """Texts beside their names."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in texts:
        table.add_row(Text(name), Text(printable(text)))
    return table


def _grid(header: tuple[str, ...], rows: Iterable[Iterable[str]]) -> Table:
    """A table under its header, whose first column is to the left."""
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold"
    )
    for k, name in enumerate(header):
        table.add_column(name, no_wrap=k == 0, justify="right" if k else "left")
    for row in rows:
        table.add_row(*row)
    return table


def _quiet(sentence: str) -> Text:
    """A sentence that matters less."""
    return Text(sentence, "dim")


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


def _fit(report: Facts) -> Iterator[Any]:
    """A summary in seven lines, one more for each score beyond two."""
    task = report["task"]
    if why := report["task_inferred_because"]:
        task += f": {why}"
        if report["task_can_change"]:
            others = {"regression": "classification", "classification": "regression"}
            task += f" (--task {others[report['task']]} to override)"
    which = report["rows_test_are"]
    where = f" on {report['rows_test']:,} test rows"
    where += f", {cut(which)}" if which else ""
    scores = _scores(report["scores"], where)
    saved = "not saved (give --out FILE to save the model)"
    if report["out"]:
        again = "refitted" if report["rows_test"] else "fitted"
        saved = f"{report['out']}, {again} on all {report['rows_saved_model']:,} rows"
    lines = {
        "data": f"{_data(report)}; {report['columns']:,} columns; "
        f"target {cut(report['target'])}",
        "task": task,
        "model": model_line(report["model"]),
        **(scores or {"score": "none, because there are no test rows"}),
        **_others(report["references"]),
        "saved": f"{saved}; {_cost(report)}",
    }
    yield _named(lines.items())


def _data(report: Facts) -> str:
    """The table and its rows."""
    text = f"{report['data']}: {report['rows']:,} rows"
    if missing := report["rows_without_target"]:
        one = missing == 1
        text += "; 1 row" if one else f"; {missing:,} rows"
        text += f" without a target {'was' if one else 'were'} dropped"
    return text


def _cost(report: Facts) -> str:
    seconds = f"{report['seconds']:.1f} s"
    peak = report["peak_memory_bytes"]
    return f"{seconds}, {peak / 1e9:.2f} GB of memory" if peak else seconds


def _scores(scores: Facts | None, where: str = "") -> dict[str, str]:
    """A line for each score; the first one says of which rows."""
    lines = {}
    for name, value, interval, baseline in score_rows(scores or {}, UNKNOWN):
        beside = [f"95 % interval {interval}"] if interval else []
        beside += [f"baseline {baseline}"] if baseline else []
        lines[name] = f"{value}{where}"
        lines[name] += f" ({'; '.join(beside)})" if beside else ""
        where = ""
    return lines


def _others(references: Facts | None) -> dict[str, str]:
    """A line of what other models reach on the test rows, by the first score."""
    told = []
    for model, scores in (references or {"scores": {}})["scores"].items():
        score, value, *_ = score_rows(scores)[0]
        told.append(f"{model} {value}")
    if not told:
        return {}
    return {"others": f"{score}: {', '.join(told)} (scikit-learn, default settings)"}


def _plan(report: Facts) -> Iterator[Any]:
    yield _named(report["plan"].facts())


def _predict(report: Facts) -> Iterator[Text]:
    names = report["columns_written"]
    columns = f"column{'s' * (len(names) > 1)} {listed(names)}"
    yield Text(f"Wrote {printable(report['out'])}: {report['rows']:,} rows, {columns}.")
    if report["columns_ignored"]:
        ignored = listed(report["columns_ignored"])
        yield _quiet(f"Ignored columns that the model does not use: {ignored}.")


def _evaluate(report: Facts) -> Iterator[Any]:
    lines = {
        "model": report["model"],
        "data": _data(report),
        "target": report["target"],
        **_scores(report["scores"], f" on {report['rows_test']:,} rows"),
    }
    yield _named(lines.items())


def _explain(report: Facts) -> Iterator[Any]:
    way = "exact" if report["exact"] else "sampled"
    yield Text(
        f"Wrote {printable(report['out'])}: Shapley values of "
        f"{report['rows_explained']:,} rows, {way}, against "
        f"{report['background_rows']:,} training rows. Mean absolute values "
        f"({report['unit']}):"
    )
    values = list(report["mean_absolute_values"].items())[:10]
    yield _named((name, number(value)) for name, value in cut_named(values))
    yield _quiet(_cost(report))


def _report(report: Facts) -> Iterator[Text]:
    size = f"{report['bytes'] / 1e3:,.0f} kB"
    yield Text(
        f"Wrote {printable(report['out'])}: {size}, on {report['rows']:,} rows. "
        "Open it in a browser."
    )
    yield _quiet(f"{report['seconds']:.1f} s")


def _inspect(report: Facts) -> Iterator[Any]:
    classes = report["classes"]
    columns = report["columns"]
    fitted = report["rows_train"]
    kinds = Counter(columns.values())
    counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())
    facts = {
        "file": f"{report['model_file']}: {report['file_bytes'] / 1e6:,.2f} MB, "
        f"format {report['format_version']}, by bochner {report['library_version']}",
        "holds": report["model"]["class"]
        + (f", fitted on {fitted:,} rows" if fitted else ""),
        "target": "not named" if report["target"] is None else report["target"],
        "classes": "" if classes is None else f"{len(classes):,}: {listed(classes)}",
        "columns": f"{len(columns):,} ({counts}): {listed(cut_all(columns), 20)}",
        **model_lines(report["model"]),
        **_scores(report["scores"], " on test rows"),
    }
    yield _named((name, text) for name, text in facts.items() if text)
    choice = report["model"]["choice"]
    if not choice:
        return
    # What was tried, the best first
    criterion = f"{choice['criterion']}, {choice['rows_held_out']:,} validation rows"
    rows = []
    for one in choice["candidates"]:
        loss, error = (number(one[key], UNKNOWN) for key in ("loss", "standard_error"))
        rows.append((one["name"], loss, error, f"{one['seconds']:.1f}"))
    yield _grid(("candidates", criterion, "± s.e.", "seconds"), rows)


def _demo(report: Facts) -> Iterator[Any]:
    yield Text("Two lines of Python, on data that come with scikit-learn:\n")
    yield Padding(Text(report["code"].rstrip(), "cyan"), (0, 4))
    rows = []
    for row in report["results"]:
        value, interval, _ = cells(row["score"], row, UNKNOWN)
        size = f"{row['rows']:,} x {row['columns']}"
        score = f"{NAMES[row['score']]} {value}"
        others = [f"{other:.3f}" for other in row["others"].values()]
        line = (row["data"], size, score, interval, f"{row['seconds']:.1f}", *others)
        rows.append(line)
    head = ("data", "size", "test score", "95 % interval", "seconds", *row["others"])
    yield _grid(head, rows)
    yield _quiet(
        "R² by KernelMachineRegressor. The other models are scikit-learn's, with "
        "defaults."
    )
    compiling = report["compile_seconds"]
    if compiling >= 0.1:
        yield _quiet(
            f"Compiling the inner loops took {compiling:.1f} s more. It happens "
            "once: they are cached on disk."
        )


def _warmup(report: Facts) -> Iterator[Text]:
    yield Text(
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
