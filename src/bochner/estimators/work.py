"""What a fit will read, hold and compute, told before any work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from bochner.markup import table
from bochner.settings import as_size

NAMES = {
    "direct": "direct: the Gram matrix",
    "cg": "cg: conjugate gradients",
    "exact": "exact: all kernel values",
}


class Pass(NamedTuple):
    """What is done with all rows, how often, and in how many seconds altogether."""

    what: str
    times: int
    seconds: float


@dataclass(frozen=True)
class Rows:
    """The table that is to be fitted.

    Attributes
    ----------
    what : str
        Where it is, for people: "3 Parquet files".
    n_rows, n_columns, n_outputs : int
    held : bool
        Whether it is in memory already.
    estimated : bool
        Whether the number of rows is an estimate.
    entry_seconds : float
        To read an entry, on one thread.
    sample : int or None
        Rows that were declared to stand for all.
    names : tuple of str, or None
        Of all columns, targets among them.
    target : pyarrow.DataType or None
        Type of the first target, where it is known.
    """

    what: str
    n_rows: int
    n_columns: int
    n_outputs: int = 1
    held: bool = True
    estimated: bool = False
    entry_seconds: float = 0.0
    sample: int | None = None
    names: tuple[str, ...] | None = None
    target: Any = None


@dataclass(frozen=True)
class Way:
    """One way to solve.

    Attributes
    ----------
    solver : {"direct", "cg", "exact"}
    passes : tuple of Pass
        Over all rows, without the look before.
    seconds : float
        Beside the passes.
    n_bytes : int
        At the peak, beside the rows or their sample.
    flops : float
    reason : str
    """

    solver: str
    passes: tuple[Pass, ...]
    seconds: float
    n_bytes: int
    flops: float
    reason: str


@dataclass(frozen=True)
class Plan:
    """What a fit will read, hold and compute; it prints as a small table.

    The method `plan` of the estimators returns it, and the command ``bochner plan`` prints it.

    Attributes
    ----------
    data, model : str
        What is fitted, and with which features.
    gathered : bool
        Whether all rows are held in memory; otherwise each pass reads them again.
    passes : tuple of Pass
        The passes over the rows: what each does, how often, and in how many seconds.
    sample_rows : int
        Rows in memory on which the model is selected.
    block_rows : int
        Rows that are mapped to features at once.
    peak_bytes : int
        Peak memory, in addition to what the process holds.
    flops : float
        Floating-point operations.
    seconds : float
        Total time on this machine, a rough estimate.
    solver : {"direct", "cg", "exact"}
    reason : str
        Why this solver.
    cures : tuple of str
        Changes that would save time or memory.
    workers : str
        The workers that read and sum streamed rows; empty for the threads of this process.
    """

    data: str
    model: str
    gathered: bool
    passes: tuple[Pass, ...]
    sample_rows: int
    block_rows: int
    peak_bytes: int
    flops: float
    seconds: float
    solver: str
    reason: str
    cures: tuple[str, ...] = ()
    workers: str = ""

    @property
    def n_passes(self) -> int:
        """Number of passes over all rows."""
        return sum(one.times for one in self.passes)

    def facts(self) -> list[tuple[str, str]]:
        """Printed lines, each a name and a text; the name is empty if a line continues the last one."""
        rows = "in memory" if self.gathered else f"streamed; a sample of {self.sample_rows:,} rows in memory"
        again = "in memory" if self.gathered else "each reads all rows"
        passes = [("", f"{times(one.times)}: {one.what}, {duration(one.seconds)}") for one in self.passes]
        return [
            ("data", self.data),
            ("rows", rows),
            *([("workers", self.workers)] if self.workers else []),
            ("model", self.model),
            ("solver", NAMES[self.solver]),
            ("passes", f"{self.n_passes:,}; {again}"),
            *passes,
            ("blocks", f"{self.block_rows:,} rows"),
            ("memory", f"{as_size(self.peak_bytes)} at the peak"),
            ("work", f"{self.flops:.2g} floating-point operations"),
            ("time", f"about {duration(self.seconds)}"),
            ("because", self.reason),
            *((("" if k else "better"), cure) for k, cure in enumerate(self.cures)),
        ]

    def __str__(self) -> str:
        facts = self.facts()
        width = max(len(name) for name, _ in facts)
        return "\n".join(f"{name:{width}}  {text}" for name, text in facts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table("Plan of a fit", ("quantity", "value"), self.facts(), words=(0, 1))


def times(count: int) -> str:
    """How often, in words."""
    return "once" if count == 1 else f"{count:,} times"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, two digits."""
    if seconds < 1:
        return "less than 1 s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
