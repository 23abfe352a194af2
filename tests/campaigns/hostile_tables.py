"""Tables that are damaged or hostile, through the sources, the models and the command.

A case is a small table, written as CSV, TSV, Parquet, Arrow or LIBSVM, and changed: in
its bytes, or in its cells and names before it is written. Opening and reading it,
fitting it by the command and predicting with it must come to an end, with a result or a
documented error: one line and an exit code of 0, 1 or 2, and no part of an output file.
"""

from __future__ import annotations

import gzip
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv, ipc, parquet
from typer.testing import CliRunner

import bochner as bo
from bochner.cli.app import app

SECONDS = 60
DOCUMENTED = ValueError, TypeError, OSError, MemoryError, NotImplementedError
CELLS: list[Any] = [
    "",
    "NaN",
    "inf",
    "-inf",
    "1e999",
    "1e-400",
    "0x1",
    "1,5",
    "1 000",
    "∞",
    "٣",
    "\ufeff",
    "=1+1",
    "'",
    '"',
]
CELLS += [
    "\u202e",
    "\u0000",
    "a\nb",
    "a\r\nb",
    "\\N",
    "None",
    "true",
    "2020-01-01",
    "99999-99-99",
    "-0",
    "+1",
    "1_000",
]
CELLS += [
    "9" * 400,
    "x" * 5000,
    "\ud83d",
    "<script>",
    "$(id)",
    "../../x",
    "%s%n",
    "\x1b[31m",
]
NAMES: list[Any] = [
    "",
    " ",
    "y",
    "x0",
    "a\nb",
    "a,b",
    '"',
    "\ufeffx",
    "<b>",
    "x" * 3000,
    "\x1b[2J",
    "=cmd",
    "é",
    "\u202e",
    "0",
]


class Verdict(NamedTuple):
    """What a case came to, what is wrong with it if anything, and seconds."""

    outcome: str
    wrong: str
    seconds: float


def usual(rng: np.random.Generator) -> dict[str, list[Any]]:
    """Columns of a table of text, numbers and a target."""
    n = int(rng.choice([1, 2, 12, 40, 40, 40]))
    x = rng.normal(size=n)
    return {
        "x0": x.tolist(),
        "x1": rng.integers(0, 5, n).tolist(),
        "x2": rng.choice(["a", "b", "c"], n).tolist(),
        "y": (x + rng.normal(size=n)).tolist(),
    }


def hostile_cells(
    table: dict[str, list[Any]], rng: np.random.Generator
) -> dict[str, list[Any]]:
    """The table with hostile cells, as text, and hostile names."""
    text = {name: [str(value) for value in values] for name, values in table.items()}
    for _ in range(int(rng.integers(1, 6))):
        column = text[list(text)[rng.integers(len(text))]]
        column[rng.integers(len(column))] = CELLS[rng.integers(len(CELLS))]
    if not rng.integers(3):
        old = list(text)[rng.integers(len(text))]
        new = NAMES[rng.integers(len(NAMES))]
        text = {new if name == old else name: values for name, values in text.items()}
    if not rng.integers(6):
        text = {name: values[:0] for name, values in text.items()}
    return text


def as_text(table: dict[str, list[Any]], rng: np.random.Generator, mark: str) -> bytes:
    """Separated values, quoted or not, with any ends of lines."""
    quote = rng.integers(2)
    end = ["\n", "\r\n", "\r", "\n\n"][int(rng.choice(4, p=[0.6, 0.2, 0.1, 0.1]))]

    def cell(value: Any) -> str:
        text = str(value)
        return (
            '"' + text.replace('"', '""') + '"'
            if quote and any(c in text for c in mark + '"\n\r')
            else text
        )

    lines = [
        mark.join(map(cell, row))
        for row in [list(table), *zip(*table.values(), strict=True)]
    ]
    return (end.join(lines) + end).encode("utf-8", "surrogatepass")


def as_libsvm(table: dict[str, list[Any]]) -> bytes:
    """The numbers of a table in the format of LIBSVM."""
    rows = zip(
        table.get("y", [0]), table.get("x0", [0]), table.get("x1", [0]), strict=False
    )
    return "".join(f"{y} 1:{a} 2:{b}\n" for y, a, b in rows).encode(
        "utf-8", "surrogatepass"
    )


def as_arrow(table: dict[str, list[Any]], rng: np.random.Generator, kind: str) -> bytes:
    """A Parquet or Arrow file, now and then with types that are rare."""
    columns = {name: pa.array(values) for name, values in table.items()}
    n = len(next(iter(columns.values())))
    rare = [
        pa.nulls(n),
        pa.array([b"\xff\x00"] * n),
        pa.array([[1, 2]] * n),
        pa.array([{"a": 1}] * n),
        pa.array([2**63] * n, pa.uint64()),
        pa.array([float("inf")] * n),
        pa.array([None, *["z"] * n][:n], pa.string()).dictionary_encode(),
        pa.array([10**9] * n, pa.timestamp("s", "Asia/Tokyo")),
        pa.array([1] * n, pa.decimal128(38, 5)) if n else pa.nulls(0),
        pa.array([1.0] * n, pa.float16()) if n else pa.nulls(0),
    ]
    if rng.integers(2):
        columns[NAMES[rng.integers(len(NAMES))]] = rare[rng.integers(len(rare))]
    found, sink = pa.table(columns), pa.BufferOutputStream()
    if kind == "parquet":
        parquet.write_table(found, sink)
    else:
        with ipc.new_file(sink, found.schema) as writer:
            writer.write_table(found)
    return sink.getvalue().to_pybytes()


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Change some bytes."""
    data, at = bytearray(content), int(rng.integers(max(len(content), 1)))
    match int(rng.integers(6)):
        case 0 if data:
            for spot in rng.integers(len(data), size=int(rng.integers(1, 9))).tolist():
                data[spot] ^= 1 << int(rng.integers(8))
        case 1:
            return content[:at]
        case 2:
            data[at:at] = rng.bytes(int(rng.integers(1, 200)))
        case 3:
            data[at : at + 40] = bytes(len(data[at : at + 40]))
        case 4 if rng.integers(2):
            return content + content
        case _:
            del data[at : at + int(rng.integers(1, 60))]
    return bytes(data)


SUFFIXES = (".csv", ".tsv", ".csv.gz", ".parquet", ".arrow", ".svm")


def repair(value: Any) -> Any:
    """The value without what Unicode knows as half of a character."""
    return (
        value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
    )


def file_of(rng: np.random.Generator, folder: Path) -> Path:
    """Write the file of a case."""
    suffix, table = SUFFIXES[rng.integers(len(SUFFIXES))], usual(rng)
    hostile = rng.integers(3) > 0
    if hostile:
        table = hostile_cells(table, rng)
    if suffix in (".parquet", ".arrow"):
        clean = {
            name: [repair(value) for value in values] for name, values in table.items()
        }
        content = as_arrow(clean, rng, suffix[1:])
    else:
        content = (
            as_libsvm(table)
            if suffix == ".svm"
            else as_text(table, rng, "\t" if suffix == ".tsv" else ",")
        )
    if not hostile or not rng.integers(3):
        content = damaged(content, rng)
    if suffix == ".csv.gz":
        content = (
            damaged(gzip.compress(content), rng)
            if not rng.integers(3)
            else gzip.compress(content)
        )
    path = folder / f"table{suffix}"
    path.write_bytes(content)
    return path


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in what takes longer, where signals are known."""

    def late(*_: Any) -> None:
        raise AssertionError(f"took longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def by_library(path: Path, folder: Path, model: Path) -> str:
    """Open and read the table, fit some of its columns, and predict."""
    source = bo.open_source(str(path))
    rows = source.sample if source.sample else None
    assert rows is None or rows > 0
    estimator = bo.KernelMachineRegressor(features=bo.LinearFeatures(), random_state=0)
    try:
        estimator.fit(source, "y")
    except DOCUMENTED:
        pass
    else:
        found = estimator.predict(bo.open_source(str(path), exclude=["y"]))
        if not np.isfinite(np.asarray(found)).all():
            return "predictions that are not finite"
    return ""


def by_fit(path: Path, folder: Path, model: Path) -> str:
    """Fit it by the command."""
    return command(
        folder / "model.safetensors",
        "fit",
        str(path),
        "--target",
        "y",
        "--seed",
        "0",
        "--n-components",
        "16",
    )


def by_predict(path: Path, folder: Path, model: Path) -> str:
    """Predict by the command, with a model of the usual table."""
    return command(folder / "predictions.csv", "predict", str(model), str(path))


def by_evaluate(path: Path, folder: Path, model: Path) -> str:
    """Score the usual model on it by the command."""
    return command(folder / "none", "evaluate", str(model), str(path))


def by_plan(path: Path, folder: Path, model: Path) -> str:
    """Plan a fit by the command."""
    return command(folder / "none", "plan", str(path), "--target", "y")


def by_explain(path: Path, folder: Path, model: Path) -> str:
    """Explain predictions by the command."""
    return command(folder / "values.csv", "explain", str(model), str(path))


def command(out: Path, *arguments: str) -> str:
    """Run the command, and say what is wrong with how it ended."""
    out.unlink(missing_ok=True)
    options = () if out.name == "none" else ("--out", str(out))
    result = CliRunner().invoke(app, [*arguments, *options])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        if isinstance(result.exception, AssertionError):
            raise result.exception
        return (
            f"{arguments[0]} raised {type(result.exception).__name__}: "
            f"{result.exception}"
        )
    if result.exit_code not in (0, 1, 2):
        return f"{arguments[0]} ended with {result.exit_code}"
    if "Usage: " in result.output:
        return f"{arguments[0]} was not understood"
    if "Traceback" in result.output:
        return f"{arguments[0]} printed a traceback"
    if any(not (c.isprintable() or c in "\n\t") for c in result.stderr):
        return (
            f"{arguments[0]} printed what steers a terminal: {result.stderr[-200:]!r}"
        )
    if result.exit_code and out.exists():
        return f"{arguments[0]} failed and left {out.name}"
    return ""


WAYS: dict[str, Callable[[Path, Path, Path], str]] = {
    "library": by_library,
    "fit": by_fit,
    "predict": by_predict,
    "evaluate": by_evaluate,
    "plan": by_plan,
    "explain": by_explain,
}


def usual_model(folder: Path) -> Path:
    """A model file that the command made of the usual table."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=40)
    table = pa.table(
        {
            "x0": x,
            "x1": rng.integers(0, 5, 40),
            "x2": rng.choice(["a", "b", "c"], 40),
            "y": x,
        }
    )
    csv.write_csv(table, folder / "usual.csv")
    model = bo.KernelMachineRegressor(features=bo.LinearFeatures(), random_state=0)
    bo.save(
        model.fit(table.drop(["y"]), x), folder / "usual.safetensors", {"target": "y"}
    )
    return folder / "usual.safetensors"


def judge(seed: int, folder: Path, model: Path) -> tuple[str, Verdict]:
    """One case, in words, and what became of it."""
    rng = np.random.default_rng(seed)
    for old in folder.glob("table*"):
        old.unlink()
    path, way = file_of(rng, folder), list(WAYS)[seed % len(WAYS)]
    start, before, outcome, wrong = (
        time.process_time(),
        set(os.listdir(folder)),
        "done",
        "",
    )
    try:
        with within(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", UserWarning)
            wrong = WAYS[way](path, folder, model)
    except DOCUMENTED as error:
        outcome = type(error).__name__
        wrong = "" if str(error) else f"{outcome} without a message"
    except BaseException as error:
        outcome, wrong = type(error).__name__, f"{type(error).__name__}: {error}"
    left = [name for name in set(os.listdir(folder)) - before if name.startswith(".")]
    wrong = wrong or (f"left {left[0]}" if left else "")
    for name in set(os.listdir(folder)) - before:
        (folder / name).unlink()
    return f"{seed} {way} {path.name}", Verdict(
        outcome, wrong, time.process_time() - start
    )
