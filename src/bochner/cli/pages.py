"""Writes the report page for the command."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from bochner.cli.commands import true_rows
from bochner.cli.errors import errors_of
from bochner.cli.peak import peak_bytes
from bochner.cli.saved import SavedModel, check_output, read_model
from bochner.loops.clock import CLOCK
from bochner.report_page import Origin, report_page

OPTIONS = ("kernel", "features", "n_components", "alpha", "loss", "solver", "metric", "time_limit")


def report(model_path: Path, data: Path, out: Path, name: str | None) -> dict[str, Any]:
    """Write a page about a model, judged on the rows of a table that have the target."""
    check_output(out, data, model_path)
    saved, notes = read_model(model_path), list[str]()
    start = CLOCK.seconds()
    saved, X, target, n_rows = true_rows(saved, data, name, notes)
    lines = (_fit_line(saved), _report_line(saved, data, out, name))
    whole = n_rows == len(target.rows) + target.missing
    origin = Origin(saved.target, saved.baseline, saved.scores, saved.rows, target.rows if whole else None, lines)
    with errors_of(data):
        report_page(saved.model, X, target.values, out, origin)
    return {
        "command": "report",
        "model": str(model_path),
        "data": str(data),
        "rows": n_rows,
        "rows_without_target": target.missing,
        "target": saved.target,
        "out": str(out),
        "bytes": os.path.getsize(out),
        "seconds": CLOCK.seconds() - start,
        "peak_memory_bytes": peak_bytes(),
        "notes": notes,
    }


def _fit_line(saved: SavedModel) -> str:
    """The command that fits such a model; the table of its rows is not known."""
    options = []
    for name in OPTIONS:
        value = getattr(saved.model, name, None)
        if isinstance(value, str | int | float) and value not in ("auto", "squared"):
            options += [f"--{name.replace('_', '-')}", str(value)]
    if isinstance(seed := saved.model.random_state, int):
        options += ["--seed", str(seed)]
    options += ["--uncertainty"] if getattr(saved.model, "uncertainty", False) else []
    words = ["--target", str(saved.target), "--task", saved.task, *options, "--out", str(saved.path)]
    return "bochner fit TRAINING_TABLE " + shlex.join(words)


def _report_line(saved: SavedModel, data: Path, out: Path, name: str | None) -> str:
    named = [] if name is None else ["--target", name]
    return shlex.join(["bochner", "report", str(saved.path), str(data), "--out", str(out), *named])
