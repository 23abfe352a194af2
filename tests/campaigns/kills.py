"""Commands that are killed at random moments: the former output file is whole, or the new one is.

A trial starts a command that replaces a file, waits for a random time, and sends a signal. After SIGKILL the file is
the former one or a new one, to the byte or as a model that loads; the next run leaves no temporary file. After SIGINT
and SIGTERM there is one line and the exit code 130 or 143.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv

import bochner as bo

COMMAND = [sys.executable, "-c", "from bochner.cli import main; main()"]
LONGEST = 120  # seconds of a command


class Trial(NamedTuple):
    """What is replaced by which command, and how long that takes when it is left alone."""

    name: str
    arguments: tuple[str, ...]
    out: Path
    seconds: float


def trials(folder: Path, rows: int = 2000, names: Sequence[str] = ("fit", "predict", "report")) -> list[Trial]:
    """Some of the commands, each of which has run once."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 3))
    table = pa.table({"x0": X[:, 0], "x1": X[:, 1], "x2": X[:, 2], "y": X[:, 0] + np.sin(X[:, 1])})
    csv.write_csv(table, folder / "rows.csv")
    model, predictions, page = (folder / name for name in ("model.safetensors", "predictions.csv", "report.html"))
    data, size = str(folder / "rows.csv"), ("--n-components", "64", "--seed", "0", "--test-size", "0")
    found = []
    for name, arguments, out in (
        ("fit", ("fit", data, "--target", "y", "--out", str(model), *size), model),
        ("predict", ("predict", str(model), data, "--out", str(predictions)), predictions),
        ("report", ("report", str(model), data, "--out", str(page)), page),
    ):
        if name not in names:
            continue
        start = time.perf_counter()
        done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=LONGEST)
        assert done.returncode == 0, done.stderr
        found.append(Trial(name, arguments, out, time.perf_counter() - start))
    return found


def kill(trial: Trial, number: signal.Signals, rng: np.random.Generator) -> str:
    """Run a trial, send it a signal at a random moment, and say what is wrong with what is left."""
    before, moment = trial.out.read_bytes(), rng.uniform(0.1, 1.1) * trial.seconds
    process = subprocess.Popen([*COMMAND, *trial.arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        process.wait(moment)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
    _, err = process.communicate(timeout=LONGEST)
    wrong = whole(trial, before)
    if number == signal.SIGKILL or wrong:
        return wrong
    if process.returncode == -number:  # before there was anybody to say a word
        return "" if not err else f"ended by the signal itself, after {err[-300:]!r}"
    if process.returncode not in (0, 128 + number):
        return f"ended with {process.returncode}: {err[-300:]}"
    if process.returncode and (err.splitlines()[-1:] != ["interrupted"] or "Traceback" in err):
        return f"said {err[-300:]!r}"
    return f"left {unfinished(trial)}" if unfinished(trial) else ""


def whole(trial: Trial, before: bytes) -> str:
    """What is wrong with the output file, if it is no longer the former one."""
    after = trial.out.read_bytes()
    if after == before:
        return ""
    if trial.name == "fit":
        bo.load(trial.out)
        return ""
    complete = after.endswith(b"\n") and after.count(b"\n") == before.count(b"\n")
    if trial.name == "report":
        complete = after.rstrip().endswith(b"</html>")
    return "" if complete else f"left {len(after)} bytes in place of {len(before)}"


def unfinished(trial: Trial) -> list[str]:
    """Temporary files beside the output."""
    return [name for name in os.listdir(trial.out.parent) if name.startswith(".bochner")]
