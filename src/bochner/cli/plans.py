"""Runs `bochner plan`: what a fit would read, hold and compute."""

from __future__ import annotations

from typing import Any

from bochner.cli.errors import errors_of, missing_column
from bochner.cli.fitting import Fit, asked_task, estimator_of
from bochner.cli.target import kind_of_type
from bochner.estimators.described import described


def plan(arguments: Fit) -> dict[str, Any]:
    """Plan one fit of all rows, without a look at any."""
    path, run = arguments.data, arguments.run
    with run.limited(), errors_of(path):
        rows = described(path, arguments.target, sample=run.sample, exclude=arguments.exclude)
        if rows.names is not None and arguments.target not in rows.names:
            raise missing_column(arguments.target, list(rows.names), path)
        task, notes = asked_task(arguments), list[str]()
        if task == "auto":
            kind = "" if rows.target is None else kind_of_type(rows.target)
            task = "classification" if kind in ("text", "category", "boolean") else "regression"
            notes.append(f"Planned as {task}; use --task if the target is something else.")
        found = estimator_of(arguments, task).plan_rows(rows)
    notes.append("This is the cost of one fit: 'bochner fit' fits twice if it both scores and saves a model.")
    return {
        "command": "plan",
        "data": str(path),
        "target": arguments.target,
        "task": task,
        "plan": found,
        "notes": notes,
    }
