"""Lines of the table of ``python -m benchmarks unsupervised``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Line(NamedTuple):
    """A line of the table."""

    task: str
    ours: str
    cpu: str = ""
    memory: str = ""
    reference: str = ""
    goal: str = ""
    reached: str = ""
    earlier: str = ""


def line(
    task: str, ours: str, costs: Sequence[tuple[float, float]] = (), **others: Any
) -> Line:
    """A line with the medians of processor seconds and MB; `reached` is true, false,
    or not told.
    """
    cpu, memory = (
        (np.median(part) for part in zip(*costs, strict=True))
        if costs
        else (None, None)
    )
    reached = {True: "yes", False: "no", None: ""}[
        None if others.get("reached") is None else bool(others["reached"])
    ]
    spent = "" if cpu is None else f"{cpu:.2g}" if cpu < 10 else f"{cpu:.0f}"
    return Line(
        task,
        ours,
        spent,
        "" if memory is None else f"{memory:.0f}",
        **{**others, "reached": reached},
    )


def mean(values: Sequence[float], digits: int = 1) -> str:
    """Mean and standard error."""
    error = (
        f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.{digits}f}"
        if len(values) > 1
        else ""
    )
    return f"{np.mean(values):.{digits}f}{error}"
