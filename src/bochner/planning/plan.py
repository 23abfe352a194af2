"""Plans a fit before any work: what it will read and hold, and by which solver, by
the schema and number of rows.
"""

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
from bochner.engines.current import current_engine
from bochner.engines.local import available_memory, n_threads
from bochner.features import BinningFeatures
from bochner.features.base import FeatureMap
from bochner.features.leaves import leaves
from bochner.inputs.training import (
    AROUND,
    GATHERED_SHARE,
    gathers,
    row_bytes,
    sampled_rows,
)
from bochner.markup import table
from bochner.planning.cost_model import (
    AGAIN_SHARE,
    USUAL_RATIO,
    ProblemSize,
    iterations,
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
# Of a bin in the table and the vectors; bins of a grid for each row of the sample
BIN_BYTES, OCCUPIED = 56, 0.25
# Iterations to the usual tolerance, where the choice does not tell how many
BIN_STEPS = 30
MORE = 1.1  # ratio of one size to the next, among those that might fit
LEAST_SIZE = 16
LOOK = "statistics of the columns and targets, and a sample"
COMPARED = (
    "bins and larger maps may be selected by validation loss; the plan "
    "assumes the usual size"
)
COMPARED_BINS = (
    "bins and Fourier features are compared; the plan assumes bins, "
    "which take more passes and memory"
)
# Bytes among which a limit that works is looked for
LEAST_LIMIT, LARGEST_LIMIT = 1 << 20, 1 << 60


class Pass(NamedTuple):
    """Passes over all rows: what each does, and how many there are."""

    what: str
    times: int


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
    sample: int | None = None
    names: tuple[str, ...] | None = None
    target: Any = None


@dataclass(frozen=True)
class SolverPlan:
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
        passes = [("", f"{times(one.times)}: {one.what}") for one in self.passes]
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
            ("because", self.reason),
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


def table_shape(
    X: Any,
    y: Any,
    classes: bool = False,
    sample: int | None = None,
    exclude: Collection[str] = (),
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
            "an iterator can be read only once: open it with bochner.open_source, "
            "then plan and fit the result."
        )
    if not isinstance(X, TableSource) and not is_streamed(X):
        return _held(X, y, classes)
    apart = is_collection(y) or is_delayed(y) or isinstance(y, np.ndarray)
    targets = [y] if isinstance(y, str) else [] if y is None or apart else list(y)
    wanted = Selection(exclude=tuple(exclude), named=tuple(targets))
    found = (
        X
        if isinstance(X, TableSource)
        else _csv_shape(X, exclude) or open_selected(X, wanted, sample=sample)
    )
    schema = found.schema
    names = None if isinstance(schema, int) else tuple(schema.names)
    left_out = set(names or ()) & {*targets, *exclude}
    n_rows, estimated = (
        (_n_rows(found), False)
        if isinstance(found, TableSource)
        else (found.n_rows, True)
    )
    known = isinstance(schema, pa.Schema) and targets and targets[0] in schema.names
    return TableShape(
        found.what,
        n_rows,
        (schema if isinstance(schema, int) else len(schema)) - len(left_out),
        1 if classes else _n_outputs(y) if apart else max(len(targets), 1),
        in_memory=False,
        estimated=estimated,
        sample=sample or getattr(found, "sample", None),
        names=names,
        target=schema.field(targets[0]).type
        if known and isinstance(schema, pa.Schema)
        else None,
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
    return TableShape(
        f"{type(X).__name__} in memory", shape[0], shape[1] - named, n_outputs
    )


def _n_outputs(y: Any) -> int:
    shape: Any = np.shape(y) if isinstance(y, list | tuple) else getattr(y, "shape", ())
    return int(shape[1]) if len(shape) > 1 else 1


@dataclass(frozen=True)
class CsvShape:
    """What the first lines and the sizes of CSV files tell."""

    schema: pa.Schema
    n_rows: int
    what: str


def _csv_shape(data: Any, exclude: Collection[str]) -> CsvShape | None:
    """Shape of CSV files by their first lines and sizes; None for other data."""
    if not isinstance(data, str | os.PathLike | list | tuple) or is_delayed(data):
        return None
    files = files_of(data)
    if kind_of(files[0]) not in ("csv", "tsv"):
        return None
    what = f"{len(files):,} CSV file{'s' if len(files) > 1 else ''}"
    schemas = [
        whole_file(file).first_types() for file in (files if exclude else files[:1])
    ]
    require(dict.fromkeys(name for schema in schemas for name in schema.names), exclude)
    return CsvShape(schemas[0], sum(map(estimated_rows, files)), what)


def _n_rows(source: TableSource) -> int:
    if source.n_rows is not None:
        return source.n_rows
    raise ValueError(
        f"{source.what}: the number of rows is not known before they are read, so "
        "there is no plan."
    )


def estimated_rows(path: str | os.PathLike[str]) -> int:
    """Rows of a file of text, by its size and its first lines."""
    total = os.path.getsize(path)
    codec = compression_of(path)
    with arrow_file(path) as file:
        stream = file if codec is None else pa.CompressedInputStream(file, codec)
        try:
            lines, read = stream.read(HEAD).count(b"\n"), file.tell()
        except OSError as error:
            raise SourceError(
                f"{path}: damaged file ({error}); copy it again"
            ) from error
    return max(round(total * lines / max(read, 1)) - 1, 1)


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
    """Rows that are mapped at once: they and their features take 64 MB at most, or a
    sixteenth of a limit.
    """
    n_bytes = (
        Blocks.most_bytes if limit is None else min(Blocks.most_bytes, limit // 16)
    )
    entry = 4 if features.dense else 12
    return int(
        min(
            max(n_bytes // (entry * max(rows.n_columns, features.size)), 256),
            max(rows.n_rows, 1),
        )
    )


def working_bytes(limit: int | None) -> int:
    """Memory of batches as they are read and encoded, on all threads."""
    n_bytes = 4 * READ_BYTES * n_threads()
    return n_bytes if limit is None else min(n_bytes, limit // 4)


def plan_in_memory(
    rows: TableShape, features: MapSize, size: ProblemSize, solver: str
) -> SolverPlan:
    """The way to fit rows in memory."""
    n, D = rows.n_rows, features.size
    solver, reason = solver_in_memory(solver, features.dense, D, size)
    if not features.dense:
        return SolverPlan(
            "cg",
            Pass("iterations on the stored bins", features.steps),
            12 * n * D,
            reason,
        )
    if solver == "direct":
        n_bytes = factor_bytes(n, D, rows.n_outputs, np.float32)
        return SolverPlan(
            solver, Pass("the moments of the features", 1), n_bytes, reason
        )
    if solver == "exact":
        return SolverPlan(solver, Pass("all kernel values", 1), 12 * n * n, reason)
    steps = round(iterations(USUAL_RATIO * size.weight, size.weight))
    return SolverPlan(
        solver, Pass("iterations on the stored features", steps), n * D, reason
    )


def plans_in_passes(
    rows: TableShape, features: MapSize, size: ProblemSize, solver: str, sample: int
) -> list[SolverPlan]:
    """The ways to fit rows that are read again in every pass, the better ones first;
    a sample of them is in memory.
    """
    if features.dense:
        n_bytes = factor_bytes(rows.n_rows, features.size, rows.n_outputs, np.float32)
        direct = SolverPlan(
            "direct", Pass("the moments of the features", 1), n_bytes, "one pass"
        )
        ways = [direct, _dense_iterations(rows, features, size)]
    else:
        columns, ways = features.size * features.n_buckets, []
        if 0 < columns <= POLICY.hashed_columns:
            n_bytes = factor_bytes(
                rows.n_rows, columns, rows.n_outputs, np.float32, binned=True
            )
            ways = [
                SolverPlan(
                    "direct",
                    Pass("the moments of the bins in buckets", 1),
                    n_bytes,
                    "one pass",
                )
            ]
        ways += [_bin_iterations(rows, features, sample)]
    return [way for way in ways if solver in ("auto", way.solver)] or ways[-1:]


def _dense_iterations(
    rows: TableShape, features: MapSize, size: ProblemSize
) -> SolverPlan:
    D = features.size
    m = D if D <= GRAM_LIMIT else preconditioner_rows(D)
    sampled = (
        4 * D * min(4 * D, rows.n_rows) + 24 * D * D
        if D <= GRAM_LIMIT
        else 4 * m * D + 24 * m * m
    )
    n_bytes = sampled + 2 * Blocks.most_bytes + 40 * D * rows.n_outputs
    steps = round(AGAIN_SHARE * iterations(USUAL_RATIO * size.weight, size.weight)) + 1
    reason = f"the Gram matrix of {D:,} features does not fit"
    return SolverPlan(
        "cg",
        Pass("iterations, which compute the features again", steps),
        n_bytes,
        reason,
    )


def _bin_iterations(rows: TableShape, features: MapSize, sample: int) -> SolverPlan:
    columns = features.size * features.n_buckets or features.size * OCCUPIED * sample
    n_bytes = (
        int(columns * (16 + (BIN_BYTES - 16) * rows.n_outputs)) + 2 * Blocks.most_bytes
    )
    steps = max(features.steps // 2, 2)  # from the solution for the sample
    reason = "bins are fitted on a sample first, whose table of bins is kept"
    return SolverPlan(
        "cg", Pass("iterations, which look the bins up again", steps), n_bytes, reason
    )


class Planner:
    """A fit of a table under a memory limit: where its rows are, which features it has,
    and how it could be solved.

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

    def __init__(
        self, request: FitRequest, table: TableShape, limit: int | None
    ) -> None:
        remote = not table.in_memory and current_engine().is_remote
        self.request, self.table, self.limit = request, table, limit
        self.gathered = table.sample is None and gathers(
            table.n_rows, table.n_columns, limit, remote
        )
        sample = (
            table.n_rows
            if self.gathered
            else table.sample or sampled_rows(table.n_columns, limit)
        )
        self.sample = min(sample, table.n_rows)
        self.features, self.learned, self.why = self._map()
        self.base = self._row_bytes() + working_bytes(limit)

    def plan(self, room: int | None) -> Plan:
        """The plan of the best way to solve that takes no more memory; MemoryError,
        which says what would fit.
        """
        table, features, way = self.table, self.features, self.within(room)
        if way is None:
            raise MemoryError(self._refusal(room or 0))
        is_read = table.sample is None and not (table.in_memory and self.gathered)
        first = (
            (Pass("the files are read" if self.gathered else LOOK, 1),)
            if is_read
            else ()
        )
        engine = current_engine()
        about = "about " if table.estimated else ""
        return Plan(
            data=f"{table.what}: {about}{table.n_rows:,} rows x {table.n_columns:,} "
            "columns",
            model=features.text,
            gathered=self.gathered,
            passes=(*first, way.passes, *self._loss_passes()),
            sample_rows=self.sample,
            block_rows=block_rows(table, features, self.limit),
            peak_bytes=self.base + way.n_bytes,
            solver=way.solver,
            reason="; ".join(part for part in (self.why, way.reason) if part),
            workers=f"{engine.n_workers:,} of {type(engine).__name__}"
            if not self.gathered and engine.is_remote
            else "",
        )

    @property
    def _compares_losses(self) -> bool:
        """Whether the fit compares the logistic loss with the squared one."""
        request = self.request
        return (
            request.classes
            and request.loss == "auto"
            and request.alpha == "auto"
            and request.solver != "exact"
        )

    def _loss_passes(self) -> tuple[Pass, ...]:
        """Passes over rows that are not in memory, for another loss of classes."""
        if self.gathered or not (
            self._compares_losses or self.request.loss not in ("auto", "squared")
        ):
            return ()
        most = "at most, if it serves" if self._compares_losses else "at most"
        what = f"gradients of another loss than the squared one, {most}"
        return (Pass(what, POLICY.most_passes),)

    def _final_grids(self) -> int:
        """Grids of bins that are learned."""
        outputs = 1 + (self.table.n_outputs - 1) / POLICY.outputs_for_half
        return int(
            np.clip(POLICY.final_entries / self.sample / outputs, *POLICY.final_grids)
        )

    def within(
        self, room: int | None, features: MapSize | None = None
    ) -> SolverPlan | None:
        """The best way, with other features where some are given, that takes no more
        memory; None where none does.
        """
        ways = self._solver_plans(features or self.features)
        return next(
            (way for way in ways if room is None or self.base + way.n_bytes <= room),
            None,
        )

    def _solver_plans(self, features: MapSize) -> list[SolverPlan]:
        """The ways to solve, the better ones first."""
        request, table = self.request, self.table
        n, double = table.n_rows, request.dtype(table.n_rows).itemsize == 8
        alphas, unseen = given_alphas(request.alpha), request.needs_unseen
        if alphas is None and self.learned:  # chosen with the map
            alphas = np.array([USUAL_RATIO * n])
        size = ProblemSize(
            n,
            table.n_outputs,
            float(n),
            alphas,
            unseen,
            double,
            self.learned,
            table.n_columns,
        )
        if not self.gathered:
            return plans_in_passes(
                table, features, size, request.asked_solver, self.sample
            )
        return [plan_in_memory(table, features, size, request.asked_solver)]

    def _map(self) -> tuple[MapSize, bool, str]:
        """The map that the parameters and the number of rows lead to, whether it is
        learned, and why.
        """
        request, table = self.request, self.table
        if not isinstance(request.features, str):
            return _given(request.features, table.n_columns), False, ""
        wanted = request.of_outputs(request.learnable(), table.n_rows, table.n_outputs)
        learned = wanted is not None and request.may_learn(
            wanted, self.sample, table.n_columns
        )
        wanted = wanted if learned else request.features
        many = self.sample > POLICY.most_raced
        if wanted in ("binning", "hybrid") or (wanted == "auto" and learned and many):
            P = request.size(table.n_rows)
            if learned and isinstance(request.n_components, str):
                P = self._final_grids()
            text = f"bins of {P:,} grids" + (
                " beside Fourier features" if wanted == "hybrid" else ""
            )
            why = COMPARED_BINS if wanted == "auto" else ""
            return (
                MapSize(
                    text, P, False, steps=POLICY.final_steps if learned else BIN_STEPS
                ),
                learned,
                why,
            )
        D = request.size(table.n_rows)
        return (
            MapSize(f"{D:,} Fourier features", D, True),
            learned,
            COMPARED if wanted == "auto" and learned else "",
        )

    def _row_bytes(self) -> int:
        """Bytes of the rows in memory, all of them or the sample, without those that
        are there already.
        """
        table = self.table
        if self.gathered and table.in_memory:
            return table.n_rows * (4 * table.n_columns + 40)
        return int(
            (AROUND if self.gathered else 1.0)
            * self.sample
            * row_bytes(table.n_columns)
        )

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
            cures.append(
                f"memory_limit='{least_limit(self.request, self.table, room)}' does"
            )
        cure = " and ".join(cures) or "use fewer columns, or a machine with more memory"
        here = (
            f"{as_size(room)} are free"
            if self.limit is None
            else f"memory_limit allows {as_size(room)}"
        )
        what = f"{self.features.text} of {self.table.n_rows:,} rows"
        return f"{what} need {as_size(need)} of memory, and {here}: {cure}."


def plan_fit(request: FitRequest, table: TableShape) -> Plan:
    """Plan a fit of a table that is described, by the memory limit of the settings
    or the memory that is free.
    """
    limit = current().memory_limit
    return Planner(request, table, limit).plan(
        available_memory() if limit is None else limit
    )


def least_limit(request: FitRequest, table: TableShape, room: int) -> str:
    """The least memory limit that works, in steps of a tenth from what is too
    little, as settings take it.
    """
    enough = max(room, LEAST_LIMIT)
    with settings(memory_limit=None):  # lest the plan itself be refused
        while (
            enough < LARGEST_LIMIT
            and Planner(request, table, enough).within(enough) is None
        ):
            enough = int(MORE * enough)
    return as_size(MORE * enough)


def refuse_limit(request: FitRequest, table: TableShape) -> None:
    """Raise MemoryError for a limit that does not even hold so few rows that all of
    them are the sample.
    """
    limit, rows_bytes = (
        current().memory_limit or 0,
        GATHERED_SHARE * AROUND * table.n_rows * row_bytes(table.n_columns),
    )
    least = least_limit(request, table, int(rows_bytes) + POLICY.loaded_bytes)
    raise MemoryError(
        f"{table.n_rows:,} rows of {table.n_columns:,} columns need "
        f"{as_size(rows_bytes)} of memory for a fit, and "
        f"memory_limit allows {as_size(limit)}: memory_limit='{least}' is the least "
        "that works."
    )


def _given(features: FeatureMap, n_columns: int) -> MapSize:
    """A map that was given."""
    drawn = clone(features).draw(n_columns)
    maps = [leaf.features for leaf in leaves(drawn)]
    bins = [one for one in maps if isinstance(one, BinningFeatures)]
    if drawn.is_dense:
        return MapSize(
            f"{drawn.n_features_out:,} features of {type(features).__name__}",
            drawn.n_features_out,
            True,
        )
    buckets = int(bins[0].n_buckets or 0) if len(maps) == len(bins) == 1 else 0
    grids = sum(int(one.n_grids) for one in bins)
    text = f"bins of {grids:,} grids" + (
        f" in {buckets:,} buckets each" if buckets else ""
    )
    return MapSize(
        text + (" beside other features" if len(maps) > len(bins) else ""),
        grids,
        False,
        buckets,
    )
