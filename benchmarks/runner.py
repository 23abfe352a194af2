"""Named measurements, each in a process of its own, as a section of docs/benchmarks.md."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

Row = tuple[str, str, str]


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Median time of a call, after one that is not counted."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return median(times)


def timed(model: Any, X: Any, y: Any, X_test: Any) -> tuple[Any, dict[str, float]]:
    """Fit and predict: predictions, seconds of the fit, microseconds a row of the prediction."""
    start = time.perf_counter()
    model.fit(X, y)
    fitted = time.perf_counter()
    predicted = model.predict(X_test)
    return predicted, {"fit": fitted - start, "predict": 1e6 * (time.perf_counter() - fitted) / len(predicted)}


def extra_memory(work: Callable[[], object]) -> float:
    """Peak resident memory of a call above what was resident before, in MB (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    work()
    return _status("VmHWM") - before


def _status(field: str) -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1000


def run(title: str, script: str, description: str | None, benchmarks: Mapping[str, Callable[[], list[Row]]]) -> None:
    """Run the measurements named on the command line, and write the section where all were asked for.

    Every one runs in a fresh process of the same script, and gives rows of what was measured, the figure and the bar.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("names", nargs="*", default=list(benchmarks))
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(benchmarks[options.names[0]]()))
        return
    from report import table, write_section

    rows = []
    for name in options.names:
        command = [sys.executable, script, name, "--child"]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        rows += json.loads(output.splitlines()[-1])
        print(output, flush=True)
    if set(options.names) == set(benchmarks):
        command_line = f"python benchmarks/{Path(script).name}"
        write_section(title, command_line, table(["what", "measured", "bar"], rows))
