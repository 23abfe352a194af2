"""The ways to fit a table that is too large for memory or not, with what each takes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bochner.engines.costs import Costs
from bochner.engines.local import n_threads
from bochner.estimators.solver import Task, direct_seconds, iterations, iterative_seconds
from bochner.estimators.work import Pass, Rows, Way
from bochner.reductions import BLOCK_BYTES, factor_bytes
from bochner.selection.policy import POLICY
from bochner.solvers.iterative import GRAM_LIMIT, sampled_rows
from bochner.sources.base import READ_BYTES

LOOK_ENTRY = 3e-8  # seconds of a thread for an entry of the one look at all rows
BIN, HASHED_PAIR = 2.5e-6 / 50, 5e-9  # the same for a bin of a row in a pass, and for a pair of these in their moments
BIN_BYTES, OCCUPIED = 56, 0.25  # of a bin in the table and the vectors; bins of a grid for each row of the sample
AGAIN = 0.4  # of the iterations, from the solution for a sample
USUAL_SHARE = 1.6e-5  # ridge term over the sum of the weights
BIN_STEPS = 30  # iterations to the usual tolerance, where the choice does not tell how many


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
    m = D if D <= GRAM_LIMIT else sampled_rows(D)
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
