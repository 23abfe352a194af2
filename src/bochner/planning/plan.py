"""Plans a fit before any work: what it will read and hold, and by which solver, by
the schema and number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, NoReturn

import numpy as np
from sklearn.base import clone

from bochner.blocks import PART_BYTES
from bochner.design.reductions import Blocks, factor_bytes
from bochner.engines.current import current_engine
from bochner.engines.local import available_memory, n_threads
from bochner.features import BinningFeatures
from bochner.features.leaves import leaves
from bochner.inputs.opened import (
    AROUND,
    GATHERED_SHARE,
    gathers,
    row_bytes,
    sampled_rows,
)
from bochner.markup import table
from bochner.planning.request import BY_SPLITS, FitRequest
from bochner.planning.solver_choice import (
    FEW_ROWS,
    NAMES,
    USUAL_ITERATIONS,
    ProblemSize,
    penalty_ratio,
    solver_in_memory,
)
from bochner.planning.table_shape import TableShape
from bochner.selection.policy import POLICY
from bochner.settings import as_size, current, settings
from bochner.solvers.iterative import preconditioner_bytes

OCCUPIED = 0.25  # bins of a grid for each row of the sample
BIN_STEPS = 30  # iterations to the usual tolerance, about
RESUMED_ITERATIONS = 11  # to that tolerance, from the solution for a sample
MORE = 1.1  # ratio of one size to the next, among those that might fit
LEAST_SIZE = 16
LOOK = "statistics of the columns and targets, and a sample"
COMPARED = (
    "bins, larger maps and, for few rows, the exact kernel may be selected by "
    "validation loss; the plan assumes the usual size"
)
COMPARED_FEW = "learned lengthscales may be selected by validation loss"
COMPARED_BINS = (
    "bins and Fourier features are compared; the plan assumes bins, "
    "which take more passes and memory"
)
LARGEST_LIMIT = 1 << 60  # bytes, up to which a limit that works is looked for


class Pass(NamedTuple):
    """Passes over all rows: what each does, and how many there are."""

    what: str
    times: int


class SolverPlan(NamedTuple):
    """One way to solve.

    Attributes
    ----------
    solver : {"direct", "cg", "exact"}
    passes : Pass
        Over all rows, after the look.
    n_bytes : int
        At the peak, beside the rows or their sample.
    reason : str
    """

    solver: str
    passes: Pass
    n_bytes: int
    reason: str


@dataclass(frozen=True)
class Plan:
    """What a fit will read and hold, and how it solves; it prints as a small table.

    The method `plan` of the estimators returns it, and the command ``bochner plan``
    prints it.

    Attributes
    ----------
    data, model : str
        What is fitted, and with which features.
    gathered : bool
        Whether all rows are in memory; otherwise each pass reads them again.
    passes : tuple of Pass
        The passes over the rows: what each does, and how often.
    sample_rows : int
        Rows in memory on which the model is selected.
    block_rows : int
        Rows that are mapped to features at once.
    peak_bytes : int
        Peak memory, in addition to what the process holds.
    solver : {"direct", "cg", "exact"}
    reason : str
        Why this solver.
    workers : str
        The workers that read and sum streamed rows; empty for the threads of this
        process.
    """

    data: str
    model: str
    gathered: bool
    passes: tuple[Pass, ...]
    sample_rows: int
    block_rows: int
    peak_bytes: int
    solver: str
    reason: str
    workers: str = ""

    @property
    def n_passes(self) -> int:
        """Number of passes over all rows."""
        return sum(one.times for one in self.passes)

    def facts(self) -> list[tuple[str, str]]:
        """Printed lines, each a name and a text; the name is empty if a line
        continues the last one.
        """
        rows = (
            "in memory"
            if self.gathered
            else f"streamed; a sample of {self.sample_rows:,} rows in memory"
        )
        again = "in memory" if self.gathered else "each reads all rows"
        passes = [
            ("", f"{'once' if n == 1 else f'{n:,} times'}: {what}")
            for what, n in self.passes
        ]
        return [
            ("data", self.data),
            ("rows", rows),
            *([("workers", self.workers)] if self.workers else []),
            ("model", self.model),
            ("solver", f"{self.solver}: {NAMES[self.solver]}"),
            ("passes", f"{self.n_passes:,}; {again}"),
            *passes,
            ("blocks", f"{self.block_rows:,} rows"),
            ("memory", f"{as_size(self.peak_bytes)} at the peak"),
            ("because", self.reason),
        ]

    def __str__(self) -> str:
        facts = self.facts()
        width = max(len(name) for name, _ in facts)
        return "\n".join(f"{name:{width}}  {text}" for name, text in facts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table("Plan of a fit", ("quantity", "value"), self.facts(), words=(0, 1))


class MapSize(NamedTuple):
    """The features that are planned with.

    Attributes
    ----------
    text : str
        For people.
    size : int
        Dense features D, or grids P.
    dense : bool
    n_buckets : int
        Of each grid; 0 where there is one for each bin.
    why : str
        Why these features, where that is not plain.
    is_exact : bool
        Whether they are exact values of the kernel with all rows.
    """

    text: str
    size: int
    dense: bool
    n_buckets: int = 0
    why: str = ""
    is_exact: bool = False


class Planner:
    """A fit of a table under a memory limit: where its rows are, which features it has,
    and how it could be solved.

    Parameters
    ----------
    request : FitRequest
    table : TableShape

    Attributes
    ----------
    limit : int or None
        Bytes that the fit may take, by the settings.
    room : int or None
        These, or else the bytes that are free, where that is known.
    gathered : bool
        Whether all rows are in memory.
    sample : int
        Rows in memory.
    features : MapSize
    base : int
        Bytes beside those of the solver.
    """

    def __init__(self, request: FitRequest, table: TableShape) -> None:
        remote = not table.in_memory and current_engine().is_remote
        n = table.n_rows
        self.request = request
        self.table = table
        limit = current().memory_limit
        self.limit = limit
        self.room = available_memory() if limit is None else limit
        self.gathered = table.sample is None and gathers(n, table.n_columns, remote)
        self.sample = n
        if not self.gathered:
            self.sample = min(n, table.sample or sampled_rows(table.n_columns))
        self.features = self._map()
        # The rows in memory that are not there already, and batches on all threads
        if self.gathered and table.in_memory:
            held = n * (4 * table.n_columns + 40)
        else:
            around = AROUND if self.gathered else 1.0
            held = int(around * self.sample * row_bytes(table.n_columns))
        read = 4 * PART_BYTES * n_threads()
        self.base = held + (read if limit is None else min(read, limit // 4))

    def within(self, features: MapSize) -> SolverPlan | None:
        """The best way with some features that takes no more memory than there is room
        for; None where none does.
        """
        for way in self._solver_plans(features):
            if self.room is None or self.base + way.n_bytes <= self.room:
                return way
        return None

    def _solver_plans(self, features: MapSize) -> list[SolverPlan]:
        """The ways to solve, the better ones first."""
        request = self.request
        table = self.table
        n = table.n_rows
        D = features.size
        K = table.n_outputs
        solver = request.asked_solver
        if self.gathered:
            ratio = penalty_ratio(request.alphas, n)
            size = ProblemSize(n, K, request.dtype(n), ratio)
            solver, reason = solver_in_memory(solver, features.dense, D, size)
            if request.cv is not None:
                solver, reason = "cg", BY_SPLITS
            elif features.is_exact:
                solver, reason = "exact", FEW_ROWS
            if not features.dense:
                done = Pass("iterations on the stored bins", BIN_STEPS)
                return [SolverPlan("cg", done, 12 * n * D, reason)]
            moments = Pass("the moments of the features", 1)
            stored = Pass("iterations on the stored features", USUAL_ITERATIONS)
            in_memory = {
                "direct": (moments, factor_bytes(n, D, K, np.float32)),
                "exact": (Pass("all kernel values", 1), 12 * n * n),
                "cg": (stored, n * D),
            }
            return [SolverPlan(solver, *in_memory[solver], reason)]
        # Rows that are read again in every pass, and of which a sample is in memory
        ways = []
        columns = D if features.dense else D * features.n_buckets
        if features.dense or 0 < columns <= POLICY.hashed_columns:
            what = "features" if features.dense else "bins in buckets"
            need = factor_bytes(n, columns, K, np.float32, not features.dense)
            done = Pass(f"the moments of the {what}", 1)
            ways.append(SolverPlan("direct", done, need, "one pass"))
        need = 2 * Blocks.most_bytes
        if features.dense:
            need += preconditioner_bytes(D, n) + 40 * D * K
            what = "iterations, which compute the features again"
            done = Pass(what, RESUMED_ITERATIONS)
            reason = f"the Gram matrix of {D:,} features does not fit"
        else:
            # The table of bins and the vectors; iterations from the solution for the
            # sample
            need += int((columns or D * OCCUPIED * self.sample) * (16 + 40 * K))
            done = Pass("iterations, which look the bins up again", BIN_STEPS // 2)
            reason = "bins are fitted on a sample first, whose table of bins is kept"
        ways.append(SolverPlan("cg", done, need, reason))
        return [way for way in ways if solver in ("auto", way.solver)] or ways[-1:]

    def _map(self) -> MapSize:
        """The map that the parameters and the number of rows lead to."""
        request = self.request
        table = self.table
        if not isinstance(request.features, str):
            given = request.features
            drawn = clone(given).draw(table.n_columns)
            if drawn.is_dense:
                D = drawn.n_features_out
                return MapSize(f"{D:,} features of {type(given).__name__}", D, True)
            maps = [leaf.features for leaf in leaves(drawn)]
            bins = [one for one in maps if isinstance(one, BinningFeatures)]
            grids = sum(int(one.n_grids) for one in bins)
            buckets = 0
            text = f"bins of {grids:,} grids"
            if len(maps) > len(bins):
                text += " beside other features"
            elif len(bins) == 1 and bins[0].n_buckets:
                buckets = int(bins[0].n_buckets)
                text += f" in {buckets:,} buckets each"
            return MapSize(text, grids, False, buckets)
        wanted = request.of_outputs(request.learnable(), table.n_rows, table.n_outputs)
        learned = wanted is not None and request.may_learn(
            wanted, self.sample, table.n_columns
        )
        few = table.n_rows <= POLICY.few_rows and request.cv is None
        if few and not learned and request.is_named and request.may_be_exact:
            shape = table.n_rows, table.n_columns, table.n_outputs
            why = COMPARED_FEW if request.compares_few(*shape) else ""
            return MapSize(
                "the exact kernel", table.n_rows, True, is_exact=True, why=why
            )
        wanted = wanted if learned else request.features
        compared = learned and wanted == "auto"
        size = request.size(table.n_rows)
        if wanted not in ("binning", "hybrid") and not (
            compared and self.sample > POLICY.most_raced
        ):
            why = COMPARED if compared else ""
            text = f"{size:,} Fourier features"
            return MapSize(text, size, True, why=why)
        if learned and isinstance(request.n_components, str):
            entries = POLICY.final_entries / self.sample / np.sqrt(table.n_outputs)
            size = int(np.clip(entries, *POLICY.final_grids))
        text = f"bins of {size:,} grids"
        if wanted == "hybrid":
            text += " beside Fourier features"
        why = COMPARED_BINS if wanted == "auto" else ""
        return MapSize(text, size, False, why=why)

    def refuse(self) -> NoReturn:
        """Raise MemoryError, which says what would fit."""
        room = self.room or 0
        need = self.base + min(way.n_bytes for way in self._solver_plans(self.features))
        cures = list[str]()
        smaller = self.features
        while smaller.size >= 2 * LEAST_SIZE and not cures:
            smaller = smaller._replace(size=smaller.size // 2)
            if self.within(smaller) is not None:
                cures.append(f"n_components={smaller.size} fits")
        here = f"{as_size(room)} are free"
        if self.limit is not None:
            here = f"memory_limit allows {as_size(room)}"
            cures.append(
                f"memory_limit='{least_limit(self.request, self.table, room)}' does"
            )
        cure = " and ".join(cures) or "use fewer columns, or a machine with more memory"
        raise MemoryError(
            f"{self.features.text} of {self.table.n_rows:,} rows need {as_size(need)} "
            f"of memory, and {here}: {cure}."
        )


def plan_fit(request: FitRequest, table: TableShape) -> Plan:
    """Plan a fit of a table that is described, by the memory limit of the settings
    or the memory that is free; MemoryError where it does not fit.
    """
    planner = Planner(request, table)
    features = planner.features
    gathered = planner.gathered
    way = planner.within(features) or planner.refuse()
    passes = [way.passes]
    if table.sample is None and not (table.in_memory and gathered):
        # Weights of classes are known after a first look, and decide the statistics
        looks = 1 if gathered or request.class_weight is None else 2
        passes.insert(0, Pass("the files are read" if gathered else LOOK, looks))
    # Passes over rows that are not in memory, for another loss of classes
    compares = (
        request.classes
        and request.loss == request.alpha == "auto"
        and request.solver != "exact"
    )
    if not gathered and (compares or request.loss not in ("auto", "squared")):
        most = "at most, if it serves" if compares else "at most"
        what = f"gradients of another loss than the squared one, {most}"
        passes.append(Pass(what, POLICY.most_passes))
    # Rows that are mapped at once take 64 MB with their features, or a sixteenth
    n_bytes = Blocks.most_bytes
    if planner.limit is not None:
        n_bytes = min(n_bytes, planner.limit // 16)
    entry = 4 if features.dense else 12
    block = max(n_bytes // (entry * max(table.n_columns, features.size)), 256)
    engine = current_engine()
    workers = ""
    if not gathered and engine.is_remote:
        workers = f"{engine.n_workers:,} of {type(engine).__name__}"
    about = "about " if table.estimated else ""
    return Plan(
        data=f"{table.what}: {about}{table.n_rows:,} rows x {table.n_columns:,} "
        "columns",
        model=features.text,
        gathered=gathered,
        passes=tuple(passes),
        sample_rows=planner.sample,
        block_rows=int(min(block, max(table.n_rows, 1))),
        peak_bytes=planner.base + way.n_bytes,
        solver=way.solver,
        reason="; ".join(part for part in (features.why, way.reason) if part),
        workers=workers,
    )


def least_limit(request: FitRequest, table: TableShape, room: int) -> str:
    """The least memory limit that works, in steps of a tenth from what is too little
    and what libraries take, as settings take it.
    """
    limit = room + POLICY.loaded_bytes
    while limit < LARGEST_LIMIT:
        # The solver is chosen by the limit, too
        with settings(memory_limit=as_size(limit)):
            planner = Planner(request, table)
            if planner.within(planner.features):
                break
        limit = int(MORE * limit)
    return as_size(limit)


def refuse_limit(request: FitRequest, table: TableShape) -> NoReturn:
    """Raise MemoryError for a limit that does not even hold so few rows that all of
    them are the sample.
    """
    limit = current().memory_limit or 0
    rows_bytes = GATHERED_SHARE * AROUND * table.n_rows * row_bytes(table.n_columns)
    least = least_limit(request, table, int(rows_bytes))
    raise MemoryError(
        f"{table.n_rows:,} rows of {table.n_columns:,} columns need "
        f"{as_size(rows_bytes)} of memory for a fit, and memory_limit allows "
        f"{as_size(limit)}: memory_limit='{least}' works."
    )
