"""Plans a fit before any work: what it will read, hold and compute, by the schema and the number of rows."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from sklearn.base import clone

from bochner.data.files import compression_of
from bochner.design.reductions import Blocks, factor_bytes
from bochner.engines.costs import Costs
from bochner.engines.current import current_engine
from bochner.engines.local import available_memory, n_threads
from bochner.features import BinningFeatures
from bochner.features.base import FeatureMap
from bochner.features.leaves import leaves
from bochner.inputs.training import AROUND, GATHERED_SHARE, gathers, row_bytes, sampled_rows
from bochner.markup import table
from bochner.planning.cost_model import (
    AGAIN_SHARE,
    USUAL_RATIO,
    ProblemSize,
    bins_seconds,
    choice_seconds,
    costs_for,
    direct_seconds,
    iterations,
    iterative_seconds,
    other_loss_seconds,
    solver_in_memory,
)
from bochner.planning.request import FitRequest, given_alphas
from bochner.selection.policy import POLICY
from bochner.settings import as_size, current, settings
from bochner.solvers.iterative import GRAM_LIMIT
from bochner.solvers.iterative import sampled_rows as preconditioner_rows
from bochner.sources.base import READ_BYTES, SourceError, TableSource
from bochner.sources.csv_files import whole_file
from bochner.sources.dask_parts import is_collection, is_delayed
from bochner.sources.opening import is_streamed, open_selected
from bochner.sources.paths import arrow_file, files_of, kind_of
from bochner.sources.schema import Selection, require

NAMES = {
    "direct": "direct: the Gram matrix",
    "cg": "cg: conjugate gradients",
    "exact": "exact: all kernel values",
}
HEAD = 1 << 18  # bytes of a file of text, by which its rows are estimated
ENTRY = 1.75e-8  # seconds of a thread to read an entry of a Parquet or Arrow file
TEXT_ENTRY, SPARSE_ENTRY = 1.35e-7, 2e-6  # the same of CSV and LIBSVM files
LOOK_ENTRY = 3e-8  # seconds of a thread for an entry of the one look at all rows
BIN, HASHED_PAIR = 2.5e-6 / 50, 5e-9  # the same for a bin of a row in a pass, and for a pair of these in their moments
BIN_BYTES, OCCUPIED = 56, 0.25  # of a bin in the table and the vectors; bins of a grid for each row of the sample
BIN_STEPS = 30  # iterations to the usual tolerance, where the choice does not tell how many
MORE = 1.1  # ratio of one size to the next, among those that might fit
LEAST_SIZE = 16
SLOW_ENTRY, LONG_READING = 5e-8, 60.0  # seconds: of an entry and of all passes, where another format would pay
LOOK = "statistics of the columns and targets, and a sample"
COMPARED = "bins and larger maps may be selected by validation loss; the plan assumes the usual size"
COMPARED_BINS = "bins and Fourier features are compared; the plan assumes bins, which take more passes and memory"
LEAST_LIMIT, LARGEST_LIMIT = 1 << 20, 1 << 60  # bytes among which a limit that works is looked for


class Pass(NamedTuple):
    """Passes over all rows: what each does, how many there are, and their seconds together."""

    what: str
    times: int
    seconds: float


@dataclass(frozen=True)
class TableShape:
    """The table that is to be fitted.

    Attributes
    ----------
    what : str
        Where it is, for people: "3 Parquet files".
    n_rows, n_columns, n_outputs : int
    in_memory : bool
        Already.
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
    in_memory: bool = True
    estimated: bool = False
    entry_seconds: float = 0.0
    sample: int | None = None
    names: tuple[str, ...] | None = None
    target: Any = None


@dataclass(frozen=True)
class SolverPlan:
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
        Whether all rows are in memory; otherwise each pass reads them again.
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


def table_shape(
    X: Any, y: Any, classes: bool = False, sample: int | None = None, exclude: Collection[str] = ()
) -> TableShape:
    """Describe a table by its schema and number of rows alone.

    Parameters
    ----------
    X : array, sparse matrix or data frame, or whatever `open_source` takes
    y : array, names of columns, or None
    classes : bool
        Whether the targets are labels; of those that are not at hand two are assumed.
    sample : int, optional
        First rows that are to stand for all.
    exclude : collection of str
        Columns that are left out.
    """
    if isinstance(X, Iterator):
        raise TypeError(
            "an iterator can be read only once: open it with bochner.open_source, then plan and fit the result."
        )
    if not isinstance(X, TableSource) and not is_streamed(X):
        return _held(X, y, classes)
    apart = is_collection(y) or is_delayed(y) or isinstance(y, np.ndarray)
    targets = [y] if isinstance(y, str) else [] if y is None or apart else list(y)
    wanted = Selection(exclude=tuple(exclude), named=tuple(targets))
    found = X if isinstance(X, TableSource) else _csv_shape(X, exclude) or open_selected(X, wanted, sample=sample)
    schema = found.schema
    names = None if isinstance(schema, int) else tuple(schema.names)
    left_out = set(names or ()) & {*targets, *exclude}
    n_rows, estimated = (_n_rows(found), False) if isinstance(found, TableSource) else (found.n_rows, True)
    known = isinstance(schema, pa.Schema) and targets and targets[0] in schema.names
    return TableShape(
        found.what,
        n_rows,
        (schema if isinstance(schema, int) else len(schema)) - len(left_out),
        1 if classes else _n_outputs(y) if apart else max(len(targets), 1),
        in_memory=False,
        estimated=estimated,
        entry_seconds=_entry_seconds(found),
        sample=sample or getattr(found, "sample", None),
        names=names,
        target=schema.field(targets[0]).type if known and isinstance(schema, pa.Schema) else None,
    )


def _held(X: Any, y: Any, classes: bool) -> TableShape:
    shape = np.shape(X)
    if len(shape) != 2:
        raise ValueError(f"X must have rows and columns, and has shape {shape}.")
    named = isinstance(y, str)
    n_outputs = 1 if y is None or named else _n_outputs(y)
    if classes and n_outputs == 1 and y is not None and not named:
        n_classes = len(np.unique(np.asarray(y)))
        n_outputs = 1 if n_classes <= 2 else n_classes
    return TableShape(f"{type(X).__name__} in memory", shape[0], shape[1] - named, n_outputs)


def _n_outputs(y: Any) -> int:
    shape: Any = np.shape(y) if isinstance(y, list | tuple) else getattr(y, "shape", ())
    return int(shape[1]) if len(shape) > 1 else 1


@dataclass(frozen=True)
class CsvShape:
    """What the first lines and the sizes of CSV files tell."""

    schema: pa.Schema
    n_rows: int
    what: str
    sparse: bool = False


def _csv_shape(data: Any, exclude: Collection[str]) -> CsvShape | None:
    """Shape of CSV files by their first lines and sizes; None for other data."""
    if not isinstance(data, str | os.PathLike | list | tuple) or is_delayed(data):
        return None
    files = files_of(data)
    if kind_of(files[0]) not in ("csv", "tsv"):
        return None
    what = f"{len(files):,} CSV file{'s' if len(files) > 1 else ''}"
    schemas = [whole_file(file).first_types() for file in (files if exclude else files[:1])]
    require(dict.fromkeys(name for schema in schemas for name in schema.names), exclude)
    return CsvShape(schemas[0], sum(map(estimated_rows, files)), what)


def _n_rows(source: TableSource) -> int:
    if source.n_rows is not None:
        return source.n_rows
    raise ValueError(f"{source.what}: the number of rows is not known before they are read, so there is no plan.")


def estimated_rows(path: str | os.PathLike[str]) -> int:
    """Rows of a file of text, by its size and its first lines."""
    total = os.path.getsize(path)
    codec = compression_of(path)
    with arrow_file(path) as file:
        stream = file if codec is None else pa.CompressedInputStream(file, codec)
        try:
            lines, read = stream.read(HEAD).count(b"\n"), file.tell()
        except OSError as error:
            raise SourceError(f"{path}: damaged file ({error}); copy it again") from error
    return max(round(total * lines / max(read, 1)) - 1, 1)


def _entry_seconds(source: TableSource | CsvShape) -> float:
    if source.sparse:
        return SPARSE_ENTRY
    return TEXT_ENTRY if any(kind in source.what for kind in ("CSV", "TSV")) else ENTRY


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
    steps : int
        Iterations of bins.
    """

    text: str
    size: int
    dense: bool
    n_buckets: int = 0
    steps: int = BIN_STEPS


def block_rows(rows: TableShape, features: MapSize, limit: int | None) -> int:
    """Rows that are mapped at once: they and their features take 64 MB at most, or a sixteenth of a limit."""
    n_bytes = Blocks.most_bytes if limit is None else min(Blocks.most_bytes, limit // 16)
    entry = 4 if features.dense else 12
    return int(min(max(n_bytes // (entry * max(rows.n_columns, features.size)), 256), max(rows.n_rows, 1)))


def working_bytes(limit: int | None) -> int:
    """Memory of batches as they are read and encoded, on all threads."""
    n_bytes = 4 * READ_BYTES * n_threads()
    return n_bytes if limit is None else min(n_bytes, limit // 4)


def plan_in_memory(rows: TableShape, features: MapSize, size: ProblemSize, solver: str) -> SolverPlan:
    """The way to fit rows in memory."""
    n, D, K = rows.n_rows, features.size, rows.n_outputs
    costs = costs_for(n, D)
    solver, reason = solver_in_memory(solver, features.dense, D, size, costs)
    if not features.dense:
        seconds = bins_seconds(n, rows.n_columns, D, K, features.steps, costs)
        passes = Pass("iterations on the stored bins", features.steps, seconds)
        return SolverPlan("cg", (passes,), 0.0, 12 * n * D, 4.0 * features.steps * n * D * K, reason)
    if solver == "direct":
        N, passes = min(n, D), Pass("the moments of the features", 1, direct_seconds(D, size, costs))
        return SolverPlan(
            solver, (passes,), 0.0, factor_bytes(n, D, K, np.float32), float(n * D * N + N**3 / 3), reason
        )
    if solver == "exact":
        return SolverPlan(solver, (Pass("all kernel values", 1, costs.gram * n**3),), 0.0, 12 * n * n, n**3 / 3, reason)
    steps = round(iterations(USUAL_RATIO * size.weight, size.weight))
    passes = Pass("iterations on the stored features", steps, iterative_seconds(D, size, costs))
    return SolverPlan(solver, (passes,), 0.0, n * D, 4.0 * steps * n * D * K, reason)


def plans_in_passes(
    rows: TableShape, features: MapSize, size: ProblemSize, solver: str, sample: int
) -> list[SolverPlan]:
    """The ways to fit rows that are read again in every pass, the better ones first; a sample of them is in memory."""
    costs = costs_for(rows.n_rows, features.size)
    if features.dense:
        ways = [_dense_direct(rows, features, size, costs), _dense_iterations(rows, features, size, costs)]
    else:
        hashed = 0 < features.size * features.n_buckets <= POLICY.hashed_columns
        ways = [_hashed_direct(rows, features, costs)] if hashed else []
        ways += [_bin_iterations(rows, features, sample)]
    return [way for way in ways if solver in ("auto", way.solver)] or ways[-1:]


def _dense_direct(rows: TableShape, features: MapSize, size: ProblemSize, costs: Costs) -> SolverPlan:
    n, D = rows.n_rows, features.size
    sums = Pass("the moments of the features", 1, direct_seconds(D, size, costs) + _per_entry(rows, rows.entry_seconds))
    n_bytes = factor_bytes(n, D, rows.n_outputs, np.float32)
    return SolverPlan("direct", (sums,), 0.0, n_bytes, float(n * D * (D + 2 * rows.n_columns) + D**3 / 3), "one pass")


def _dense_iterations(rows: TableShape, features: MapSize, size: ProblemSize, costs: Costs) -> SolverPlan:
    n, D, K = rows.n_rows, features.size, rows.n_outputs
    m = D if D <= GRAM_LIMIT else preconditioner_rows(D)
    sampled = 4 * D * min(4 * D, n) + 24 * D * D if D <= GRAM_LIMIT else 4 * m * D + 24 * m * m
    steps = round(AGAIN_SHARE * iterations(USUAL_RATIO * size.weight, size.weight)) + 1
    one = n * D * (2 * costs.feature + costs.float_pass * K) + _per_entry(rows, rows.entry_seconds)
    passes = (Pass("iterations, which compute the features again", steps, steps * one),)
    flops = steps * float(n) * D * (2 * rows.n_columns + 4 * K) + float(m) ** 2 * D
    reason = f"the Gram matrix of {D:,} features does not fit"
    return SolverPlan("cg", passes, m**2 * D * costs.gram, sampled + 2 * Blocks.most_bytes + 40 * D * K, flops, reason)


def _hashed_direct(rows: TableShape, features: MapSize, costs: Costs) -> SolverPlan:
    n, P, C = rows.n_rows, features.size, features.size * features.n_buckets
    one = n * HASHED_PAIR * P * P / n_threads() + _per_entry(rows, rows.entry_seconds)
    flops = float(n) * P * (P + rows.n_columns) + C**3 / 3
    n_bytes = factor_bytes(n, C, rows.n_outputs, np.float32, binned=True)
    sums = Pass("the moments of the bins in buckets", 1, one)
    return SolverPlan("direct", (sums,), C**3 / 2 * costs.product, n_bytes, flops, "one pass")


def _bin_iterations(rows: TableShape, features: MapSize, sample: int) -> SolverPlan:
    n, P, K = rows.n_rows, features.size, rows.n_outputs
    columns = P * features.n_buckets or P * OCCUPIED * sample
    steps = max(features.steps // 2, 2)  # from the solution for the sample
    bins = _bin_seconds(rows, features)
    passes = Pass(
        "iterations, which look the bins up again", steps, steps * (bins + _per_entry(rows, rows.entry_seconds))
    )
    n_bytes = int(columns * (16 + (BIN_BYTES - 16) * K)) + 2 * Blocks.most_bytes
    flops, first = steps * float(n) * P * (rows.n_columns + 4 * K), features.steps * bins * sample / max(n, 1)
    return SolverPlan(
        "cg", (passes,), first, n_bytes, flops, "bins are fitted on a sample first, whose table of bins is kept"
    )


def _bin_seconds(rows: TableShape, features: MapSize) -> float:
    """Seconds to look up all bins of all rows, on all threads."""
    return rows.n_rows * BIN * features.size * (0.5 + 0.5 * rows.n_outputs) / n_threads()


def _per_entry(rows: TableShape, seconds: float) -> float:
    """Seconds for all entries, on all threads, where one takes so many."""
    return rows.n_rows * rows.n_columns * seconds / n_threads()


class Planner:
    """A fit of a table under a memory limit: where its rows are, which features it has, and how it could be solved.

    Parameters
    ----------
    request : FitRequest
    table : Rows
    limit : int or None
        Bytes that the fit may take.

    Attributes
    ----------
    gathered : bool
        Whether all rows are in memory.
    sample : int
        Rows in memory.
    features : Map
    learned : bool
        Whether the map is learned from the data.
    why : str
        Why these features, where that is not plain.
    base : int
        Bytes beside those of the solver.
    """

    def __init__(self, request: FitRequest, table: TableShape, limit: int | None) -> None:
        remote = not table.in_memory and current_engine().is_remote
        self.request, self.table, self.limit = request, table, limit
        self.gathered = table.sample is None and gathers(table.n_rows, table.n_columns, limit, remote)
        sample = table.n_rows if self.gathered else table.sample or sampled_rows(table.n_columns, limit)
        self.sample = min(sample, table.n_rows)
        self.features, self.learned, self.why = self._map()
        self.base = self._row_bytes() + working_bytes(limit)

    def plan(self, room: int | None) -> Plan:
        """The plan of the best way to solve that takes no more memory; MemoryError, which says what would fit."""
        table, features, way = self.table, self.features, self.within(room)
        if way is None:
            raise MemoryError(self._refusal(room or 0))
        is_read = table.sample is None and not (table.in_memory and self.gathered)
        what, entry = ("the files are read", 0.0) if self.gathered else (LOOK, LOOK_ENTRY)
        first = (Pass(what, 1, _per_entry(table, table.entry_seconds + entry)),) if is_read else ()
        costs = costs_for(table.n_rows, features.size)
        passes = (*first, *way.passes, *self._loss_passes(costs))
        seconds = way.seconds + sum(one.seconds for one in passes)
        seconds += self._choice_seconds(costs)
        if self.gathered and self.request.time_limit is not None:
            seconds = min(seconds, self.request.time_limit)
        engine = current_engine()
        about = "about " if table.estimated else ""
        return Plan(
            data=f"{table.what}: {about}{table.n_rows:,} rows x {table.n_columns:,} columns",
            model=features.text,
            gathered=self.gathered,
            passes=passes,
            sample_rows=self.sample,
            block_rows=block_rows(table, features, self.limit),
            peak_bytes=self.base + way.n_bytes,
            flops=way.flops,
            seconds=seconds,
            solver=way.solver,
            reason="; ".join(part for part in (self.why, way.reason) if part),
            cures=() if self.gathered else self._cures(way),
            workers=f"{engine.n_workers:,} of {type(engine).__name__}"
            if not self.gathered and engine.is_remote
            else "",
        )

    def _choice_seconds(self, costs: Costs) -> float:
        """Seconds of the choice of the model, and of other losses than the squared one."""
        request, n, rest = self.request, self.table.n_rows, (self.table.n_outputs, costs)
        seconds = choice_seconds(self.sample, self.table.n_columns, *rest) if self.learned else 0.0
        if not (self._compares_losses or request.loss not in ("auto", "squared")):
            return seconds
        rows = n if self.gathered else min(self.sample, POLICY.raced_rows)
        D, P = (self.features.size, 0) if self.features.dense else (0, self.features.size)
        if self.why == COMPARED and self.table.n_columns <= POLICY.wide:  # bins take longer
            D, P = 0, self._final_grids()
        compared = self._compares_losses
        return seconds + other_loss_seconds(rows, self.table.n_columns, D, P, *rest, compared=compared)

    @property
    def _compares_losses(self) -> bool:
        """Whether the fit compares the logistic loss with the squared one."""
        request = self.request
        return request.classes and request.loss == "auto" and request.alpha == "auto" and request.solver != "exact"

    def _loss_passes(self, costs: Costs) -> tuple[Pass, ...]:
        """Passes over rows that are not in memory, for another loss of classes."""
        table, request = self.table, self.request
        if self.gathered or not (self._compares_losses or request.loss not in ("auto", "squared")):
            return ()
        one = table.n_rows * self.features.size * (costs.feature + costs.float_pass * table.n_outputs)
        one = (one if self.features.dense else _bin_seconds(table, self.features)) + _per_entry(
            table, table.entry_seconds
        )
        most = "at most, if it serves" if self._compares_losses else "at most"
        what = f"gradients of another loss than the squared one, {most}"
        return (Pass(what, POLICY.most_passes, POLICY.most_passes * one),)

    def _final_grids(self) -> int:
        """Grids of bins that are learned."""
        outputs = 1 + (self.table.n_outputs - 1) / POLICY.outputs_for_half
        return int(np.clip(POLICY.final_entries / self.sample / outputs, *POLICY.final_grids))

    def within(self, room: int | None, features: MapSize | None = None) -> SolverPlan | None:
        """The best way, with other features where some are given, that takes no more memory; None where none does."""
        ways = self._solver_plans(features or self.features)
        return next((way for way in ways if room is None or self.base + way.n_bytes <= room), None)

    def _solver_plans(self, features: MapSize) -> list[SolverPlan]:
        """The ways to solve, the better ones first."""
        request, table = self.request, self.table
        n, double = table.n_rows, request.dtype(table.n_rows).itemsize == 8
        alphas, unseen = given_alphas(request.alpha), request.needs_unseen
        if alphas is None and self.learned:  # chosen with the map
            alphas = np.array([USUAL_RATIO * n])
        size = ProblemSize(n, table.n_outputs, float(n), alphas, unseen, double, self.learned, table.n_columns)
        if not self.gathered:
            return plans_in_passes(table, features, size, request.asked_solver, self.sample)
        return [plan_in_memory(table, features, size, request.asked_solver)]

    def _map(self) -> tuple[MapSize, bool, str]:
        """The map that the parameters and the number of rows lead to, whether it is learned, and why."""
        request, table = self.request, self.table
        if not isinstance(request.features, str):
            return _given(request.features, table.n_columns), False, ""
        wanted = request.of_outputs(request.learnable(), table.n_rows, table.n_outputs)
        learned = wanted is not None and request.may_learn(wanted, self.sample, table.n_columns)
        wanted = wanted if learned else request.features
        many = self.sample > POLICY.most_raced
        if wanted in ("binning", "hybrid") or (wanted == "auto" and learned and many):
            P = request.size(table.n_rows)
            if learned and isinstance(request.n_components, str):
                P = self._final_grids()
            text = f"bins of {P:,} grids" + (" beside Fourier features" if wanted == "hybrid" else "")
            why = COMPARED_BINS if wanted == "auto" else ""
            return MapSize(text, P, False, steps=POLICY.final_steps if learned else BIN_STEPS), learned, why
        D = request.size(table.n_rows)
        return MapSize(f"{D:,} Fourier features", D, True), learned, COMPARED if wanted == "auto" and learned else ""

    def _row_bytes(self) -> int:
        """Bytes of the rows in memory, all of them or the sample, without those that are there already."""
        table = self.table
        if self.gathered and table.in_memory:
            return table.n_rows * (4 * table.n_columns + 40)
        return int((AROUND if self.gathered else 1.0) * self.sample * row_bytes(table.n_columns))

    def _refusal(self, room: int) -> str:
        """The message if no plan fits in memory, with what would."""
        need = self.base + min(way.n_bytes for way in self._solver_plans(self.features))
        size, cures = float(self.features.size), []
        while (size := size / MORE) >= LEAST_SIZE:
            smaller = self.features._replace(size=int(float(f"{size:.2g}")))
            if self.within(room, smaller) is not None:
                cures.append(f"n_components={smaller.size} fits")
                break
        if self.limit is not None:
            cures.append(f"memory_limit='{least_limit(self.request, self.table, room)}' does")
        cure = " and ".join(cures) or "use fewer columns, or a machine with more memory"
        here = f"{as_size(room)} are free" if self.limit is None else f"memory_limit allows {as_size(room)}"
        what = f"{self.features.text} of {self.table.n_rows:,} rows"
        return f"{what} need {as_size(need)} of memory, and {here}: {cure}."

    def _cures(self, way: SolverPlan) -> tuple[str, ...]:
        """Changes that would save time, if rows are read in each pass."""
        cures, table = [], self.table
        n_passes = sum(one.times for one in way.passes)
        if n_passes > 1 and not self.features.dense:
            buckets = 2 ** int(np.log2(max(POLICY.hashed_columns // self.features.size, 1)))
            cures.append(f"one pass: BinningFeatures(n_buckets={buckets}), or features='fourier'")
        elif n_passes > 1:
            cures.append("one pass: fewer n_components, whose Gram matrix fits in memory")
        slow = table.entry_seconds > SLOW_ENTRY
        if slow and table.entry_seconds * table.n_columns * table.n_rows * n_passes > LONG_READING:
            cures.append("Parquet files are read several times as fast")
        return tuple(cures)


def plan_fit(request: FitRequest, table: TableShape) -> Plan:
    """Plan a fit of a table that is described, by the memory limit of the settings or the memory that is free."""
    limit = current().memory_limit
    return Planner(request, table, limit).plan(available_memory() if limit is None else limit)


def least_limit(request: FitRequest, table: TableShape, room: int) -> str:
    """The least memory limit that works, in steps of a tenth from what is too little, as settings take it."""
    enough = max(room, LEAST_LIMIT)
    with settings(memory_limit=None):  # lest the plan itself be refused
        while enough < LARGEST_LIMIT and Planner(request, table, enough).within(enough) is None:
            enough = int(MORE * enough)
    return as_size(MORE * enough)


def refuse_limit(request: FitRequest, table: TableShape) -> None:
    """Raise MemoryError for a limit that does not even hold so few rows that all of them are the sample."""
    limit, rows_bytes = current().memory_limit or 0, GATHERED_SHARE * AROUND * table.n_rows * row_bytes(table.n_columns)
    least = least_limit(request, table, int(rows_bytes) + POLICY.loaded_bytes)
    raise MemoryError(
        f"{table.n_rows:,} rows of {table.n_columns:,} columns need {as_size(rows_bytes)} of memory for a fit, and "
        f"memory_limit allows {as_size(limit)}: memory_limit='{least}' is the least "
        "that works."
    )


def _given(features: FeatureMap, n_columns: int) -> MapSize:
    """A map that was given."""
    drawn = clone(features).draw(n_columns)
    maps = [leaf.features for leaf in leaves(drawn)]
    bins = [one for one in maps if isinstance(one, BinningFeatures)]
    if drawn.is_dense:
        return MapSize(f"{drawn.n_features_out:,} features of {type(features).__name__}", drawn.n_features_out, True)
    buckets = int(bins[0].n_buckets or 0) if len(maps) == len(bins) == 1 else 0
    grids = sum(int(one.n_grids) for one in bins)
    text = f"bins of {grids:,} grids" + (f" in {buckets:,} buckets each" if buckets else "")
    return MapSize(text + (" beside other features" if len(maps) > len(bins) else ""), grids, False, buckets)
