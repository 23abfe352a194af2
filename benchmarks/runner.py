"""Named measurements, each in a process of its own, as a section of
docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from report import Results, columns, keep, processor, write_kept

QUICK, SLOW = ("--" + name in sys.argv for name in ("quick", "slow"))
QUICKER = 20


def repeats(number: int) -> int:
    """As many as the command line says, else as requested, but one where only the
    script is tried.
    """
    if "--repeats" in sys.argv[:-1]:
        return int(sys.argv[sys.argv.index("--repeats") + 1])
    return 1 if QUICK else number


def size(rows: int) -> int:
    """As many rows as requested, a twentieth where only the script is tried."""
    return rows // QUICKER if QUICK else rows


def seconds(work: Callable[[], object], times: int = 5) -> float:
    """Median time of a call, after one that is not counted."""
    work()
    return median(elapsed(work) for _ in range(times))


def elapsed(work: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def timed(model: Any, X: Any, y: Any, X_test: Any) -> tuple[Any, dict[str, float]]:
    """Fit and predict: predictions, seconds of the fit, microseconds a row of the
    prediction.
    """
    start = time.perf_counter()
    model.fit(X, y)
    fitted = time.perf_counter()
    predicted = model.predict(X_test)
    return predicted, {
        "fit": fitted - start,
        "predict": 1e6 * (time.perf_counter() - fitted) / len(predicted),
    }


def extra_memory(work: Callable[[], object]) -> float:
    """Peak resident memory of a call above what was resident before, in MB (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    work()
    return _status("VmHWM") - before


def cost(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """What a call gives, its processor seconds, and its peak memory above what was
    resident before, in MB (Linux).
    """
    given: list[Any] = []
    start = time.process_time()
    memory = extra_memory(lambda: given.append(work()))
    return given[0], time.process_time() - start, memory


def _status(field: str) -> float:
    line = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith(field)
    )
    return int(line.split()[1]) / 1000


def run(
    title: str,
    script: str,
    description: str | None,
    benchmarks: Mapping[str, Callable[[], Sequence[Sequence[object]]]],
    body: Callable[[Results], str] = columns,
    packages: Sequence[str] = (),
    machine: Callable[[], str] = processor,
) -> None:
    """Run the parts that the command line asks for, keep what they measure, and write
    the section of all that is kept.

    Every part runs in a fresh process of the same script, and gives rows: those of
    `report.Row`, or what `body` takes. A part that gives no rows leaves those that are
    kept. `machine` names what it ran on.
    """
    options = _options(description, list(benchmarks))
    if options.child:
        print(json.dumps(benchmarks[options.only[0]]()))
        return
    name = Path(script).stem
    for part in [] if options.page else options.only:
        command = [
            sys.executable,
            script,
            "--child",
            "--only",
            part,
            *["--quick"] * options.quick,
            *["--slow"] * options.slow,
        ]
        command += ["--repeats", str(options.repeats)] if options.repeats else []
        output = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        rows = json.loads(output.splitlines()[-1])
        print(*rows, sep="\n", flush=True)
        if rows and not options.quick:
            keep(name, part, rows, packages, machine())
    if not options.quick:
        write_kept(title, name, list(benchmarks), body)


def _options(description: str | None, names: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--only",
        nargs="+",
        choices=names,
        default=names,
        metavar="NAME",
        help=", ".join(names),
    )
    parser.add_argument(
        "--page",
        action="store_true",
        help="measure nothing, write the section of what is kept",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="try the script on little, once, and keep nothing",
    )
    parser.add_argument(
        "--slow",
        action="store_true",
        help="measure what takes many minutes too, where there is any",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        metavar="N",
        help="seeds or splits, in place of a script's own number",
    )
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()
