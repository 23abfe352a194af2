"""Plans a fit before any work: what it will read, hold and compute, by the schema and the number of rows."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from sklearn.base import clone, is_classifier

from bochner.data.files import COMPRESSED, kind_by_content
from bochner.design.reductions import BLOCK_BYTES, factor_bytes
from bochner.devices.conversion import any_arrays
from bochner.engines.costs import COSTS, Costs
from bochner.engines.current import current_engine
from bochner.engines.local import available_memory, n_threads
from bochner.features import BinningFeatures, FourierFeatures
from bochner.features.base import FeatureMap
from bochner.features.leaves import leaves
from bochner.inputs.training import AROUND, GATHERED_SHARE, gathers, row_bytes, sampled_rows
from bochner.kernels import Gaussian, Laplacian
from bochner.markup import table
from bochner.planning.measured_costs import machine_costs
from bochner.planning.solver import WORTH_MEASURING, Task, direct_seconds, iterations, iterative_seconds, plan
from bochner.selection.policy import POLICY
from bochner.settings import as_size, current, settings
from bochner.solvers.iterative import GRAM_LIMIT
from bochner.solvers.iterative import sampled_rows as preconditioner_rows
from bochner.sources.base import READ_BYTES, SourceError, TableSource
from bochner.sources.csv_files import whole_span
from bochner.sources.dask_parts import is_collection, is_delayed
from bochner.sources.opening import is_streamed, open_selected
from bochner.sources.paths import files_of, kind_of
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
AGAIN = 0.4  # of the iterations, from the solution for a sample
USUAL_SHARE = 1.6e-5  # ridge term over the sum of the weights
BIN_STEPS = 30  # iterations to the usual tolerance, where the choice does not tell how many
CHOICE_SECONDS, CHOICE_ROW = 5.0, 2e-5  # of what is learned on a sample, and for each of its rows
MORE = 1.1  # ratio of one size to the next, among those that might fit
LEAST_SIZE = 16
LEAST_LIMIT, LARGEST_LIMIT = 1 << 20, 1 << 60  # bytes among which a limit that works is looked for


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


def described(X: Any, y: Any, classes: bool = False, sample: int | None = None, exclude: Collection[str] = ()) -> Rows:
    """What there is to fit, by the schema and the numbers of rows alone.

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
    found = X if isinstance(X, TableSource) else _glance(X, exclude) or open_selected(X, wanted, sample=sample)
    schema = found.schema
    names = None if isinstance(schema, int) else tuple(schema.names)
    left_out = set(names or ()) & {*targets, *exclude}
    n_rows, estimated = (_n_rows(found), False) if isinstance(found, TableSource) else (found.n_rows, True)
    known = isinstance(schema, pa.Schema) and targets and targets[0] in schema.names
    return Rows(
        found.what,
        n_rows,
        (schema if isinstance(schema, int) else len(schema)) - len(left_out),
        1 if classes else _columns(y) if apart else max(len(targets), 1),
        held=False,
        estimated=estimated,
        entry_seconds=_entry_seconds(found),
        sample=sample or getattr(found, "sample", None),
        names=names,
        target=schema.field(targets[0]).type if known and isinstance(schema, pa.Schema) else None,
    )


def _columns(y: Any) -> int:
    shape: Any = getattr(y, "shape", ())
    return int(shape[1]) if len(shape) > 1 else 1


def _held(X: Any, y: Any, classes: bool) -> Rows:
    shape = np.shape(X)
    if len(shape) != 2:
        raise ValueError(f"X must have rows and columns, and has shape {shape}.")
    named = isinstance(y, str)
    n_outputs = 1 if named else _n_outputs(y, classes)
    return Rows(f"{type(X).__name__} in memory", shape[0], shape[1] - named, n_outputs)


@dataclass(frozen=True)
class Glance:
    """What the first lines and the sizes of CSV files tell."""

    schema: pa.Schema
    n_rows: int
    what: str
    sparse: bool = False


def _glance(data: Any, exclude: Collection[str]) -> Glance | None:
    """What is seen of CSV files without reading them; None of all else."""
    if not isinstance(data, str | os.PathLike | list | tuple) or is_delayed(data):
        return None
    files = files_of(data)
    if kind_of(files[0]) not in ("csv", "tsv"):
        return None
    what = f"{len(files):,} CSV file{'s' if len(files) > 1 else ''}"
    schemas = [whole_span(file).schema([], {}) for file in (files if exclude else files[:1])]
    require(dict.fromkeys(name for schema in schemas for name in schema.names), exclude)
    return Glance(schemas[0], sum(map(estimated_rows, files)), what)


def _n_rows(source: TableSource) -> int:
    if source.n_rows is not None:
        return source.n_rows
    raise ValueError(f"{source.what}: the number of rows is not known before they are read, so there is no plan.")


def estimated_rows(path: str | os.PathLike[str]) -> int:
    """Rows of a file of text, by its size and its first lines."""
    total = os.path.getsize(path)
    with open(path, "rb") as head:
        content = kind_by_content(head.read(1 << 12))
    codec = content if content in COMPRESSED else None
    with pa.OSFile(os.fspath(path)) as file:
        stream = file if codec is None else pa.CompressedInputStream(file, codec)
        try:
            lines, read = stream.read(HEAD).count(b"\n"), file.tell()
        except OSError as error:
            raise SourceError(f"{path}: damaged file ({error}); copy it again") from error
    return max(round(total * lines / max(read, 1)) - 1, 1)


def _entry_seconds(source: TableSource | Glance) -> float:
    if source.sparse:
        return SPARSE_ENTRY
    return TEXT_ENTRY if any(kind in source.what for kind in ("CSV", "TSV")) else ENTRY


def _n_outputs(y: Any, classes: bool) -> int:
    if y is None:
        return 1
    if classes:
        n_classes = len(np.unique(np.asarray(y)))
        return 1 if n_classes <= 2 else n_classes
    shape = np.shape(y)
    return shape[1] if len(shape) > 1 else 1


class Map(NamedTuple):
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


def look(rows: Rows) -> Pass:
    """The pass before all others: columns, targets, sample."""
    return Pass("statistics of the columns and targets, and a sample", 1, _reading(rows) + _spread(rows, LOOK_ENTRY))


def reading(rows: Rows) -> Pass:
    """The only pass over files, where all rows are taken into memory."""
    return Pass("the files are read", 1, _reading(rows))


def block_rows(rows: Rows, features: Map, limit: int | None) -> int:
    """Rows that are mapped at once: they and their features take 64 MB at most, or a sixteenth of a limit."""
    n_bytes = BLOCK_BYTES if limit is None else min(BLOCK_BYTES, limit // 16)
    entry = 4 if features.dense else 12
    return int(min(max(n_bytes // (entry * max(rows.n_columns, features.size)), 256), max(rows.n_rows, 1)))


def streamed_ways(rows: Rows, features: Map, task: Task, solver: str, costs: Costs) -> list[Way]:
    """The ways to fit rows that are read again in every pass, the better ones first."""
    if features.dense:
        ways = [_dense_direct(rows, features, task, costs), _dense_iterations(rows, features, task, costs)]
    else:
        columns = features.size * features.n_buckets
        ways = [_hashed_direct(rows, features, costs)] if 0 < columns <= POLICY.hashed_columns else []
        ways += [_bin_iterations(rows, features)]
    return [way for way in ways if solver in ("auto", way.solver)] or ways[-1:]


def held_way(rows: Rows, features: Map, task: Task, solver: str, costs: Costs) -> Way:
    """The way of a solver that is chosen already, on rows in memory."""
    n, D, K = rows.n_rows, features.size, rows.n_outputs
    if not features.dense:
        one = _bin_seconds(rows, features)
        passes = (Pass("iterations on the stored bins", features.steps, features.steps * one),)
        return Way("cg", passes, 0.0, 12 * n * D, 4.0 * features.steps * n * D * K, "")
    if solver == "direct":
        N = min(n, D)
        passes = (Pass("the moments of the features", 1, direct_seconds(D, task, costs)),)
        n_bytes = factor_bytes(n, D, K, np.float32)
        return Way(solver, passes, 0.0, n_bytes, float(n * D * N + N**3 / 3), "")
    steps = round(iterations(USUAL_SHARE * task.weight, task.weight))
    if solver == "exact":
        return Way(solver, (Pass("all kernel values", 1, costs.gram * n**3),), 0.0, 12 * n * n, n**3 / 3, "")
    passes = (Pass("iterations on the stored features", steps, iterative_seconds(D, task, costs)),)
    return Way(solver, passes, 0.0, n * D, 4.0 * steps * n * D * K, "")


def _dense_direct(rows: Rows, features: Map, task: Task, costs: Costs) -> Way:
    n, D = rows.n_rows, features.size
    sums = Pass("the moments of the features", 1, direct_seconds(D, task, costs) + _reading(rows))
    n_bytes = factor_bytes(n, D, rows.n_outputs, np.float32)
    return Way("direct", (sums,), 0.0, n_bytes, float(n * D * (D + 2 * rows.n_columns) + D**3 / 3), "one pass")


def _dense_iterations(rows: Rows, features: Map, task: Task, costs: Costs) -> Way:
    n, D, K = rows.n_rows, features.size, rows.n_outputs
    m = D if D <= GRAM_LIMIT else preconditioner_rows(D)
    held = 4 * D * min(4 * D, n) + 24 * D * D if D <= GRAM_LIMIT else 4 * m * D + 24 * m * m
    steps = round(AGAIN * iterations(USUAL_SHARE * task.weight, task.weight)) + 1
    one = n * D * (2 * costs.feature + costs.float_pass * K) + _reading(rows)
    passes = (Pass("iterations, which compute the features again", steps, steps * one),)
    flops = steps * float(n) * D * (2 * rows.n_columns + 4 * K) + float(m) ** 2 * D
    reason = f"the Gram matrix of {D:,} features does not fit"
    return Way("cg", passes, m**2 * D * costs.gram, held + 2 * BLOCK_BYTES + 40 * D * K, flops, reason)


def _hashed_direct(rows: Rows, features: Map, costs: Costs) -> Way:
    n, P, C = rows.n_rows, features.size, features.size * features.n_buckets
    sums = Pass("the moments of the bins in buckets", 1, _per_row(rows, HASHED_PAIR * P * P) + _reading(rows))
    flops = float(n) * P * (P + rows.n_columns) + C**3 / 3
    n_bytes = factor_bytes(n, C, rows.n_outputs, np.float32, binned=True)
    return Way("direct", (sums,), C**3 / 2 * costs.product, n_bytes, flops, "one pass")


def _bin_iterations(rows: Rows, features: Map) -> Way:
    n, P, K = rows.n_rows, features.size, rows.n_outputs
    columns = P * features.n_buckets or P * OCCUPIED * (rows.sample or 0)
    steps = max(features.steps // 2, 2)  # from the solution for the sample
    one = _bin_seconds(rows, features) + _reading(rows)
    passes = (Pass("iterations, which look the bins up again", steps, steps * one),)
    n_bytes = int(columns * (16 + (BIN_BYTES - 16) * K)) + 2 * BLOCK_BYTES
    flops = steps * float(n) * P * (rows.n_columns + 4 * K)
    first = features.steps * _bin_seconds(rows, features) * (rows.sample or 0) / max(n, 1)
    return Way("cg", passes, first, n_bytes, flops, "bins are fitted on a sample first, whose table of bins is kept")


def _bin_seconds(rows: Rows, features: Map) -> float:
    return _per_row(rows, BIN * features.size * (0.5 + 0.5 * rows.n_outputs))


def _reading(rows: Rows) -> float:
    return _spread(rows, rows.entry_seconds)


def _spread(rows: Rows, entry: float) -> float:
    return _per_row(rows, entry * rows.n_columns)


def _per_row(rows: Rows, seconds: float) -> float:
    return rows.n_rows * seconds / n_threads()


def working_bytes(limit: int | None) -> int:
    """Memory of batches as they are read and encoded, on all threads."""
    n_bytes = 4 * READ_BYTES * n_threads()
    return n_bytes if limit is None else min(n_bytes, limit // 4)


class Case(NamedTuple):
    """What is planned under a limit.

    Attributes
    ----------
    rows : Rows
        With the size of the sample.
    gathered : bool
    features : Map
    learned : bool
        Whether the map is learned from the data.
    why : list of str
    ways : list of Way
    base : int
        Bytes beside those of the ways.
    """

    rows: Rows
    gathered: bool
    features: Map
    learned: bool
    why: list[str]
    ways: list[Way]
    base: int

    def within(self, room: int | None) -> Way | None:
        """The best way that takes no more memory."""
        return next((way for way in self.ways if room is None or self.base + way.n_bytes <= room), None)


class Planned:
    """A fit that can be planned."""

    features: Any
    n_components: Any
    metric: str
    alpha: Any
    solver: str
    tol: float

    @any_arrays
    def plan(self, X: Any, y: Any = None) -> Plan:
        """Estimate what `fit` would read, hold and compute, without fitting.

        Only the names of columns and the numbers of rows are read; where a file does not store them, they are estimated
        from its size. Parameters that are selected from the data ("auto") are planned as their usual values for so many
        rows and columns.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or whatever `bochner.open_source` takes
        y : array of shape (n,) or (n, K), or str or list of str, optional
            Targets; for a source the names of their columns.

        Returns
        -------
        Plan
            With `passes`, `block_rows`, `sample_rows`, `peak_bytes` in bytes, `flops`, `seconds`, `solver`, `gathered`,
            `reason` and `cures`. It prints as a small table.

        Raises
        ------
        MemoryError
            If no way to fit needs so little memory as is free, or as ``bochner.settings(memory_limit=...)`` allows. The
            message names what would fit.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import KernelMachineRegressor
        >>> plan = KernelMachineRegressor(features="fourier", n_components=500).plan(np.zeros((10_000, 20)))
        >>> plan.solver, plan.gathered, plan.n_passes
        ('direct', True, 1)
        """
        return self.plan_rows(described(X, y, is_classifier(self)))

    def plan_rows(self, rows: Rows) -> Plan:
        """Plan a fit of a table that is described."""
        limit = current().memory_limit
        room = available_memory() if limit is None else limit
        case = self._case(rows, limit)
        way = case.within(room)
        if way is None:
            raise MemoryError(self._refusal(rows, case, room or 0, limit is not None))
        unseen, rows, gathered = rows.sample is not None, case.rows, case.gathered
        first = () if (rows.held and gathered) or unseen else (reading(rows) if gathered else look(rows),)
        passes = (*first, *way.passes)
        seconds = way.seconds + sum(one.seconds for one in passes)
        seconds += CHOICE_SECONDS + CHOICE_ROW * (rows.sample or 0) if case.learned else 0.0
        return Plan(
            data=_data(rows),
            model=case.features.text,
            gathered=gathered,
            passes=passes,
            sample_rows=rows.sample or 0,
            block_rows=block_rows(rows, case.features, limit),
            peak_bytes=case.base + way.n_bytes,
            flops=way.flops,
            seconds=seconds,
            solver=way.solver,
            reason="; ".join(part for part in (*case.why, way.reason) if part),
            cures=_cures(rows, case.features, way, gathered),
            workers="" if gathered else _workers(),
        )

    def _case(self, rows: Rows, limit: int | None) -> Case:
        """What a limit leads to."""
        elsewhere = not rows.held and current_engine().is_remote
        gathered = rows.sample is None and gathers(rows.n_rows, rows.n_columns, limit, elsewhere)
        sample = rows.n_rows if gathered else min(rows.sample or sampled_rows(rows.n_columns, limit), rows.n_rows)
        rows = replace(rows, sample=sample)
        features, learned, why = self._planned_map(rows)
        ways = self._ways(rows, features, gathered, learned)
        return Case(rows, gathered, features, learned, why, ways, _row_memory(rows, gathered) + working_bytes(limit))

    def _refusal(self, rows: Rows, case: Case, room: int, limited: bool) -> str:
        """That nothing fits, and what would."""
        need = case.base + min(way.n_bytes for way in case.ways)
        smaller, cures = self._smaller(case, room), []
        if smaller is not None:
            cures.append(f"n_components={smaller} fits")
        if limited:
            cures.append(f"memory_limit='{self._least_limit(rows, room)}' does")
        cure = " and ".join(cures) or "use fewer columns, or a machine with more memory"
        here = f"memory_limit allows {as_size(room)}" if limited else f"{as_size(room)} are free"
        return f"{case.features.text} of {rows.n_rows:,} rows need {as_size(need)} of memory, and {here}: {cure}."

    def _least_limit(self, rows: Rows, room: int) -> str:
        """The least memory limit that works, in steps of a tenth from what is too little, as settings take it."""
        enough = max(room, LEAST_LIMIT)
        with settings(memory_limit=None):  # lest the plan itself be refused
            while enough < LARGEST_LIMIT and self._case(rows, enough).within(enough) is None:
                enough = int(MORE * enough)
        return as_size(MORE * enough)

    def _refuse_limit(self, rows: Rows) -> None:
        """Raise MemoryError for a limit that does not even hold so few rows that all of them are the sample."""
        limit, held = current().memory_limit or 0, GATHERED_SHARE * AROUND * rows.n_rows * row_bytes(rows.n_columns)
        least = self._least_limit(rows, int(held) + POLICY.loaded_bytes)
        raise MemoryError(
            f"{rows.n_rows:,} rows of {rows.n_columns:,} columns need {as_size(held)} of memory for a fit, and "
            f"memory_limit allows {as_size(limit)}: memory_limit='{least}' is the least "
            "that works."
        )

    def _ways(self, rows: Rows, features: Map, gathered: bool, learned: bool) -> list[Way]:
        """The ways to solve, the better ones first."""
        alphas = None if isinstance(self.alpha, str) else np.unique(np.asarray(self.alpha, dtype=np.float64))
        calibrated = bool(getattr(self, "_is_calibrated", False))
        size = (rows.n_rows, rows.n_outputs, float(rows.n_rows))
        task = Task(*size, alphas, calibrated, self.tol < 5e-3, learned, rows.n_columns)
        costs: Costs = machine_costs() if rows.n_rows * features.size**2 > WORTH_MEASURING else COSTS
        if not gathered:
            return streamed_ways(rows, features, task, self._planned_solver(), costs)
        chosen = plan(self._planned_solver(), _drawn(features, rows.n_columns), task, costs)
        way = held_way(rows, features, task, chosen.solver, costs)
        return [replace(way, reason=chosen.reason)]

    def _smaller(self, case: Case, room: int) -> int | None:
        """The largest map that fits, to two digits; None where there is none."""
        some: float = case.features.size
        while (some := some / MORE) >= LEAST_SIZE:
            features = case.features._replace(size=_two_digits(some))
            ways = self._ways(case.rows, features, case.gathered, case.learned)
            if case._replace(ways=ways).within(room) is not None:
                return features.size
        return None

    def _planned_solver(self) -> str:
        criteria = isinstance(self.alpha, str) and self.alpha != "auto"
        return "direct" if criteria and self.solver == "auto" else self.solver

    def _planned_map(self, rows: Rows) -> tuple[Map, bool, list[str]]:
        """The map that the arguments and the numbers of rows lead to; whether it is learned; why."""
        if not isinstance(self.features, str):
            return _given(self.features, rows.n_columns), False, []
        n = min(rows.sample or rows.n_rows, rows.n_rows)
        wanted = self._wanted_features() if self._is_named else None  # type: ignore[attr-defined]
        wide = rows.n_columns > POLICY.most_learned_columns
        learned = wanted is not None and self.metric != "isotropic" and n >= POLICY.fewest_rows and not wide
        if not learned:
            wanted = self.features
        many = n > POLICY.rows_for_bins_alone
        if wanted in ("binning", "hybrid") or (wanted == "auto" and learned and many):
            steps = POLICY.final_steps if learned else Map("", 0, False).steps
            P = self._planned_grids(rows, n, learned)
            text = f"bins of {P:,} grids" + (" beside Fourier features" if wanted == "hybrid" else "")
            why = f"bins are used beyond {POLICY.rows_for_bins_alone:,} rows" if wanted == "auto" else ""
            return Map(text, P, False, steps=steps), learned, [why]
        D = int(self._n_components(rows.n_rows, None))  # type: ignore[attr-defined]
        compared = wanted == "auto" and learned
        why = (
            "bins and larger maps may be selected by validation loss; the plan assumes the usual size"
            if compared
            else ""
        )
        return Map(f"{D:,} Fourier features", D, True), learned, [why]

    def _planned_grids(self, rows: Rows, n: int, learned: bool) -> int:
        if not learned or not isinstance(self.n_components, str):
            return int(self._n_components(rows.n_rows, None))  # type: ignore[attr-defined]
        outputs = 1 + (rows.n_outputs - 1) / POLICY.outputs_for_half
        return int(np.clip(POLICY.final_entries / n / outputs, *POLICY.final_grids))


def _given(features: FeatureMap, n_columns: int) -> Map:
    """A map that was given."""
    drawn = clone(features).draw(n_columns)
    maps = [leaf.features for leaf in leaves(drawn)]
    bins = [one for one in maps if isinstance(one, BinningFeatures)]
    if drawn.is_dense:
        return Map(f"{drawn.n_features_out:,} features of {type(features).__name__}", drawn.n_features_out, True)
    buckets = int(bins[0].n_buckets or 0) if len(maps) == len(bins) == 1 else 0
    grids = sum(int(one.n_grids) for one in bins)
    text = f"bins of {grids:,} grids" + (f" in {buckets:,} buckets each" if buckets else "")
    return Map(text + (" beside other features" if len(maps) > len(bins) else ""), grids, False, buckets)


def _workers() -> str:
    """Who runs the passes, where these are others than the threads of this process."""
    engine = current_engine()
    return f"{engine.n_workers:,} of {type(engine).__name__}" if engine.is_remote else ""


def _drawn(features: Map, n_columns: int) -> FeatureMap:
    """A map of that size, for those who ask whether it is dense, and how large."""
    if features.dense:
        return FourierFeatures(Gaussian(), features.size, random_state=0).draw(n_columns)
    return BinningFeatures(Laplacian(), 1, random_state=0).draw(n_columns)


def _row_memory(rows: Rows, gathered: bool) -> int:
    """Of the rows in memory: all, but for what is there already, or the sample."""
    if gathered and rows.held:
        return rows.n_rows * (4 * rows.n_columns + 40)
    held = rows.n_rows if gathered else rows.sample or 0
    return int((AROUND if gathered else 1.0) * held * row_bytes(rows.n_columns))


def _two_digits(number: float) -> int:
    return int(float(f"{number:.2g}"))


def _data(rows: Rows) -> str:
    about = "about " if rows.estimated else ""
    return f"{rows.what}: {about}{rows.n_rows:,} rows x {rows.n_columns:,} columns"


def _cures(rows: Rows, features: Map, way: Way, gathered: bool) -> tuple[str, ...]:
    """What would take less time."""
    cures = []
    n_passes = sum(one.times for one in way.passes)
    if not gathered and n_passes > 1:
        if not features.dense:
            buckets = 2 ** int(np.log2(max(POLICY.hashed_columns // features.size, 1)))
            cures.append(f"one pass: BinningFeatures(n_buckets={buckets}), or features='fourier'")
        else:
            cures.append("one pass: fewer n_components, whose Gram matrix fits in memory")
    reading = rows.entry_seconds * rows.n_columns * rows.n_rows
    if not gathered and rows.entry_seconds > 5e-8 and reading * n_passes > 60:
        cures.append("Parquet files are read several times as fast")
    return tuple(cures)
