"""Measurements of a published result, cell by cell: each in a process of its own, kept, and taken up again."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
RESULTS = Path(__file__).parents[1] / "results"
FIGURES = Path(__file__).parents[2] / "docs" / "figures"

Cell = dict[str, Any]  # what is to be measured: names and numbers
Result = dict[str, Any]  # what was: figures, or an error


def run(
    name: str, cells: Iterable[Cell], work: Callable[[Cell], Result], page: Callable[[list[tuple[Cell, Result]]], None]
) -> None:
    """Measure the cells that are not known yet, and write the page of all.

    A cell that fails, or takes longer than the limit, is kept with its error; then other seeds of it are not tried.

    Parameters
    ----------
    name : str
        Of the file of results.
    cells : iterable of dict
        Keys "seed" and "limit" (in seconds) have a meaning here.
    work : callable
        In a process of its own: what was measured, numbers and strings. "memory" is added, peak resident MB.
    page : callable
        Writes sections and figures.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--fresh", action="store_true", help="measure again what is known")
    parser.add_argument("--only", default="", help="measure cells whose description holds this text")
    parser.add_argument("--page", action="store_true", help="measure nothing, write the page")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        print(json.dumps(_measured(work, json.loads(options.cell))))
        return
    store = RESULTS / f"{name}.jsonl"
    known = _read(store)
    cells = list(cells)
    todo = [cell for cell in cells if options.only in _key(cell)]
    if options.fresh:
        for cell in todo:
            known.pop(_key(cell), None)
    for i, cell in enumerate(todo):
        if options.page or _key(cell) in known:
            continue
        failed = known.get(_key(cell | {"seed": 0}), {}).get("error") if cell.get("seed") else None
        result = {"error": failed} if failed else _in_a_process(cell)
        known[_key(cell)] = result
        store.parent.mkdir(exist_ok=True)
        with store.open("a") as file:
            file.write(json.dumps([cell, result]) + "\n")
        print(f"[{i + 1}/{len(todo)}] {_key(cell)}: {result}", flush=True)
    page([(cell, known[_key(cell)]) for cell in cells if _key(cell) in known])


def _measured(work: Callable[[Cell], Result], cell: Cell) -> Result:
    result = work(cell)
    return result | {"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000}


def _in_a_process(cell: Cell) -> Result:
    limit = float(cell.get("limit", 600))
    command = [sys.executable, sys.argv[0], "--cell", json.dumps(cell)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"error": f"more than {limit:.0f} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
        return {"error": lines[-1][:200]}
    return json.loads(done.stdout.splitlines()[-1])


def _key(cell: Cell) -> str:
    return ", ".join(f"{name} {value}" for name, value in cell.items() if name != "limit")


def _read(store: Path) -> dict[str, Result]:
    if not store.exists():
        return {}
    return {_key(cell): result for cell, result in map(json.loads, store.read_text().splitlines())}


def grouped(results: Sequence[tuple[Cell, Result]], *names: str) -> dict[tuple, list[Result]]:
    """Results by the values of some keys of their cells."""
    groups: dict[tuple, list[Result]] = {}
    for cell, result in results:
        groups.setdefault(tuple(cell[name] for name in names), []).append(result)
    return groups


def spread(results: Sequence[Result], name: str, digits: int = 4) -> str:
    """Median and range of a figure over seeds, or the error."""
    values = [result[name] for result in results if name in result]
    if not values:
        return results[0].get("error", "not measured") if results else "not measured"
    low, high, middle = min(values), max(values), median(values)
    return f"{middle:.{digits}g}" + (f" ({low:.{digits}g} - {high:.{digits}g})" if len(values) > 1 else "")


def middle(results: Sequence[Result], name: str) -> float | None:
    """Median of a figure over seeds; None where none was measured."""
    values = [result[name] for result in results if name in result]
    return median(values) if values else None


def timed(model: Any, X: Any, y: Any, X_test: Any) -> tuple[Any, Result]:
    """Fit and predict: predictions, seconds of the fit, microseconds a row of the prediction."""
    start = time.perf_counter()
    model.fit(X, y)
    fitted = time.perf_counter()
    predicted = model.predict(X_test)
    return predicted, {"fit": fitted - start, "predict": 1e6 * (time.perf_counter() - fitted) / len(predicted)}
