"""Commands that are killed at random moments: the former output file is whole, or the
new one is.

A trial starts a command that replaces a file, waits for a random time, and sends a
signal. After SIGKILL the file is the former one or a new one, to the byte or as a model
that loads; the next run leaves no temporary file. After SIGINT and SIGTERM there is one
line and the exit code 130 or 143.

A process that compiles loops for an empty cache is killed, and the next one works. It
leaves nothing else behind.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
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
    """What is replaced by which command, and how long that takes when it is left
    alone.
    """

    name: str
    arguments: tuple[str, ...]
    out: Path
    seconds: float


def trials(
    folder: Path, rows: int = 2000, names: Sequence[str] = ("fit", "predict", "report")
) -> list[Trial]:
    """Some of the commands, each of which has run once."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 3))
    table = pa.table(
        {"x0": X[:, 0], "x1": X[:, 1], "x2": X[:, 2], "y": X[:, 0] + np.sin(X[:, 1])}
    )
    csv.write_csv(table, folder / "rows.csv")
    model, predictions, page = (
        folder / name
        for name in ("model.safetensors", "predictions.csv", "report.html")
    )
    data, size = (
        str(folder / "rows.csv"),
        ("--n-components", "64", "--seed", "0", "--test-size", "0"),
    )
    found = []
    for name, arguments, out in (
        ("fit", ("fit", data, "--target", "y", "--out", str(model), *size), model),
        (
            "predict",
            ("predict", str(model), data, "--out", str(predictions)),
            predictions,
        ),
        ("report", ("report", str(model), data, "--out", str(page)), page),
    ):
        if name not in names:
            continue
        start = time.perf_counter()
        done = subprocess.run(
            [*COMMAND, *arguments], capture_output=True, text=True, timeout=LONGEST
        )
        assert done.returncode == 0, done.stderr
        found.append(Trial(name, arguments, out, time.perf_counter() - start))
    return found


def kill(trial: Trial, number: signal.Signals, rng: np.random.Generator) -> str:
    """Run a trial, send it a signal at a random moment, and say what is wrong with
    what is left.
    """
    before, moment = trial.out.read_bytes(), rng.uniform(0.1, 1.1) * trial.seconds
    process = subprocess.Popen(
        [*COMMAND, *trial.arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
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
    if process.returncode and (
        err.splitlines()[-1:] != ["interrupted"] or "Traceback" in err
    ):
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
    return [
        name for name in os.listdir(trial.out.parent) if name.startswith(".bochner")
    ]


LIVES = """
import os, signal, sys, time
import numpy as np
{imports}

def life():
{life}

def quiet():
    try:
        life()
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)

rng, longest = np.random.default_rng({seed}), {seconds}
for number in range({lives}):
    child = os.fork()
    if not child:
        quiet()
    end = time.monotonic() + rng.uniform(0, longest * (1 + number / 4))
    while number < {lives} - 1 and time.monotonic() < end:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
        time.sleep(0.002)
    else:
        if number < {lives} - 1:
            os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(code, flush=True)
    if code != -signal.SIGKILL:
        break
"""
LOOPS = """
    import bochner as bo
    features = bo.FourierFeatures(n_components=6, random_state=0).fit(np.ones((3, 2)))
    np.save({out!r}, features.transform(np.arange(6.0).reshape(3, 2)))
    np.save({out!r}, features.transform(np.arange(6.0, dtype=np.float32).reshape(3, 2)))
"""


def lives(
    folder: Path, imports: str, life: str, seed: int, seconds: float, most: int
) -> tuple[list[int], str]:
    """Fork processes that do the same and are killed at random moments, up to the
    one that ends: exit codes, errors.
    """
    code = LIVES.format(
        imports=imports, life=life, seed=seed, seconds=seconds, lives=most
    )
    variables = (
        os.environ | {"NUMBA_CACHE_DIR": str(folder / "loops")}
        if "import numba" in imports
        else os.environ
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command,
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=10 * LONGEST,
    )
    return [int(word) for word in done.stdout.split()], done.stderr


def killed_compilation(seed: int, most: int = 4) -> str:
    """Kill what compiles loops for an empty cache, and say what is wrong with the
    last run and the cache.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        imports = "import numba, sklearn.base, scipy.special, scipy.linalg, pyarrow"
        codes, err = lives(
            folder,
            imports,
            LOOPS.format(out=str(folder / "found.npy")),
            seed,
            2.0,
            most,
        )
        codes_of_next, err_of_next = lives(
            folder, imports, LOOPS.format(out=str(folder / "next.npy")), seed, 0.0, 1
        )
        if codes[-1:] != [0] or codes_of_next != [0]:
            return (
                f"ended with {codes} and {codes_of_next}: "
                f"{err[-300:]}{err_of_next[-300:]}"
            )
        if (folder / "found.npy").read_bytes() != (folder / "next.npy").read_bytes():
            return "other numbers from the cache"
        left = [
            path.name
            for path in folder.rglob("*")
            if "tmp" in path.name or path.name.endswith(".lock")
        ]
        return f"left {left}" if left else ""
