"""Plans a fit before any work: the method `plan` of the estimators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier

from bochner.engines.costs import COSTS, Costs
from bochner.engines.local import available_memory
from bochner.estimators.costs import machine_costs
from bochner.estimators.described import described
from bochner.estimators.ridge import given_alphas
from bochner.estimators.sizes import AROUND, gathers, row_bytes, sampled_rows
from bochner.estimators.solver import WORTH_MEASURING, Task, plan
from bochner.estimators.ways import Map, block_rows, held_way, look, reading, streamed_ways, working_bytes
from bochner.estimators.work import Plan, Rows, Way, size
from bochner.features import BinningFeatures, FourierFeatures
from bochner.features.base import FeatureMap
from bochner.features.leaves import leaves
from bochner.kernels import Gaussian, Laplacian
from bochner.settings import current
from bochner.tuning.policy import POLICY

CHOICE_SECONDS, CHOICE_ROW = 5.0, 2e-5  # of what is learned on a sample, and for each of its rows
MORE = 1.1  # ratio of one size to the next, among those that might fit
LEAST_SIZE = 16
MOST_LEARNED_COLUMNS = 4096


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

    def plan(self, X: Any, y: Any = None) -> Plan:
        """Tell what `fit` would read, hold and compute, before any of it.

        Nothing is read but the names of columns and the numbers of rows; where a file does not tell these, they are
        estimated from its size. What is left to be chosen from the data ("auto") is planned as what their numbers of
        rows and columns lead to as a rule.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or whatever `bochner.open_source` takes
        y : array of shape (n,) or (n, K), or str or list of str, optional
            Targets; of a source the names of their columns.

        Returns
        -------
        Plan
            With `passes`, `block_rows`, `sample_rows`, `peak_bytes` in bytes, `flops`, `seconds`, `solver`, `gathered`,
            `reason` and `cures`; printed it is a small table.

        Raises
        ------
        MemoryError
            Where no way fits the memory that is free, or allowed by ``bochner.settings(memory_limit=...)``; it names
            what would.

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
        rows, gathered = case.rows, case.gathered
        first = () if gathered and rows.held else (reading(rows) if gathered else look(rows),)
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
        )

    def _case(self, rows: Rows, limit: int | None) -> Case:
        """What a limit leads to."""
        gathered = rows.sample is None and gathers(rows.n_rows, rows.n_columns, limit)
        sample = rows.n_rows if gathered else min(rows.sample or sampled_rows(rows.n_columns, limit), rows.n_rows)
        rows = replace(rows, sample=sample)
        features, learned, why = self._planned_map(rows)
        ways = self._ways(rows, features, gathered, learned)
        return Case(rows, gathered, features, learned, why, ways, _row_memory(rows, gathered) + working_bytes(limit))

    def _cures(rows: Rows, features: Map, way: Way, gathered: bool) -> tuple[str, ...]:
    """What would take less time."""
    cures = []
    n_passes = sum(one.times for one in way.passes)
    if not gathered and n_passes > 1:
        if not features.dense:
            buckets = 2 ** int(np.log2(max(POLICY.hashed_columns // features.size, 1)))
            cures.append(f"one pass: BinningFeatures(n_buckets={buckets}), or features='fourier'")
        else:
            cures.append(f"one pass: n_components of {POLICY.hashed_columns:,} at most, where the memory suffices")
    reading = rows.entry_seconds * rows.n_columns * rows.n_rows
    if not gathered and rows.entry_seconds > 5e-8 and reading * n_passes > 60:
        cures.append("Parquet files are read several times as fast")
    return tuple(cures)
