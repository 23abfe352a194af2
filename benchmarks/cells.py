"""Measurements of a published result, cell by cell: each in a process of its own, kept,
and taken up again.

Results are in benchmarks/results, a JSON line for each cell; ``--fresh``, ``--retry``
and ``--only TEXT`` measure some of them again. The page is written once all are known.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"
# Where scripts of `papers/` find those beside them and above them
MODULES = os.pathsep.join([str(HERE), str(HERE / "papers")])

Cell = dict[str, Any]  # what is to be measured: names and numbers
Result = dict[str, Any]  # what was: figures, or an error


def run(
    name: str,
    cells: Iterable[Cell],
    work: Callable[[Cell], Result],
    page: Callable[[list[tuple[Cell, Result]]], None],
) -> None:
    """Measure the cells that are not known yet, and write the page of all.

    A cell that fails, or takes longer than the limit, is kept with its error; then
    other seeds of it are not tried.

    Parameters
    ----------
    name : str
        Of the file of results.
    cells : iterable of dict
        Keys "seed" and "limit" (in seconds) have a meaning here.
    work : callable
        In a process of its own: what was measured, numbers and strings. "memory" is
        added, peak resident MB.
    page : callable
        Writes sections and figures.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--fresh", action="store_true", help="measure again what is known"
    )
    parser.add_argument(
        "--retry", action="store_true", help="measure again what failed"
    )
    parser.add_argument(
        "--only", default="", help="measure cells whose description holds this text"
    )
    parser.add_argument(
        "--page",
        action="store_true",
        help="measure nothing, write the page of what is known",
    )
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cell:
        print(json.dumps(_measured(work, json.loads(options.cell))))
        return
    if options.page and (options.fresh or options.retry):
        parser.error("--page measures nothing")
    store, cells = RESULTS / f"{name}.jsonl", list(cells)
    known = _read(store)
    todo = [cell for cell in cells if options.only in _key(cell)]
    if not todo:
        parser.error(f"nothing holds {options.only!r}: {_choices(cells)}")
    for key in [_key(cell) for cell in todo if _key(cell) in known]:
        if options.fresh or (options.retry and "error" in known[key][1]):
            del known[key]
    _write(store, known.values())
    for i, cell in enumerate(todo):
        if options.page or _result(known, cell):
            continue
        known[_key(cell)] = cell, _in_a_process(cell)
        with store.open("a") as file:
            file.write(json.dumps(known[_key(cell)]) + "\n")
        print(f"[{i + 1}/{len(todo)}] {_key(cell)}: {known[_key(cell)][1]}", flush=True)
    results = [(cell, result) for cell in cells if (result := _result(known, cell))]
    if options.page or len(results) == len(cells):
        page(results)
    else:
        print(
            f"{len(cells) - len(results)} cells are not measured yet; --page writes "
            "the page without them"
        )


def _result(known: dict[str, tuple[Cell, Result]], cell: Cell) -> Result | None:
    """What was measured, or the failure of the first seed, after which no other is
    tried; None where it is unknown.
    """
    _, result = known.get(_key(cell), (cell, None))
    _, first = (
        known.get(_key(cell | {"seed": 0}), (cell, None))
        if "seed" in cell
        else (cell, None)
    )
    return result or (first if first and "error" in first else None)


def _measured(work: Callable[[Cell], Result], cell: Cell) -> Result:
    result = work(cell)
    return result | {
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    }


def _in_a_process(cell: Cell) -> Result:
    limit = float(cell.get("limit", 600))
    command = [sys.executable, sys.argv[0], "--cell", json.dumps(cell)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": MODULES},
    ) as process:
        try:
            out, problems = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return {"error": f"more than {limit:.0f} s"}
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode < 0:
        return {"error": f"killed by signal {-process.returncode}"}
    if process.returncode:
        return {
            "error": (problems.strip().splitlines() or [f"exit {process.returncode}"])[
                -1
            ][:200]
        }
    return json.loads(out.splitlines()[-1])


def _key(cell: Cell) -> str:
    return ", ".join(
        f"{name} {value}" for name, value in cell.items() if name != "limit"
    )


def _choices(cells: Iterable[Cell]) -> str:
    """What the descriptions of cells hold."""
    values: dict[str, dict[str, None]] = {}
    for cell in cells:
        for name, value in cell.items():
            if name != "limit":
                values.setdefault(name, {})[f"{value}"] = None
    return "; ".join(f"{name} {', '.join(each)}" for name, each in values.items())


def _read(store: Path) -> dict[str, tuple[Cell, Result]]:
    """By key; the last line may have been cut off."""
    known = {}
    for line in store.read_text().splitlines() if store.exists() else []:
        try:
            cell, result = json.loads(line)
        except ValueError:
            continue
        known[_key(cell)] = cell, result
    return known


def _write(store: Path, known: Iterable[tuple[Cell, Result]]) -> None:
    store.parent.mkdir(exist_ok=True)
    whole = store.with_suffix(".new")
    whole.write_text("".join(json.dumps(one) + "\n" for one in known))
    whole.replace(store)


def grouped(
    results: Sequence[tuple[Cell, Result]], *names: str
) -> dict[tuple, list[Result]]:
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
    low, high, middle, failed = (
        min(values),
        max(values),
        median(values),
        sum("error" in result for result in results),
    )
    text = f"{middle:.{digits}g}" + (
        f" ({low:.{digits}g} - {high:.{digits}g})" if len(values) > 1 else ""
    )
    return text + (f", {failed} of {len(results)} failed" if failed else "")


def middle(results: Sequence[Result], name: str) -> float | None:
    """Median of a figure over seeds; None where none was measured."""
    values = [result[name] for result in results if name in result]
    return median(values) if values else None
