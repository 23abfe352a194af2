"""Plans a fit before any work: the method `plan` of the estimators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier

from bochner.engines.chosen import chosen
from bochner.engines.costs import COSTS, Costs
from bochner.engines.local import available_memory
from bochner.estimators.costs import machine_costs
from bochner.estimators.described import described
from bochner.estimators.ridge import given_alphas
from bochner.estimators.solver import WORTH_MEASURING, Task, plan
from bochner.estimators.ways import Map, block_rows, held_way, look, reading, streamed_ways, working_bytes
from bochner.estimators.work import Plan, Rows, Way
from bochner.features import BinningFeatures, FourierFeatures
from bochner.features.base import FeatureMap
from bochner.features.boundary import any_arrays
from bochner.features.leaves import leaves
from bochner.inputs.training import AROUND, GATHERED_SHARE, gathers, row_bytes, sampled_rows
from bochner.kernels import Gaussian, Laplacian
from bochner.selection.policy import POLICY
from bochner.settings import as_size, current, settings

CHOICE_SECONDS, CHOICE_ROW = 5.0, 2e-5  # of what is learned on a sample, and for each of its rows
MORE = 1.1  # ratio of one size to the next, among those that might fit
LEAST_SIZE = 16
LEAST_LIMIT, LARGEST_LIMIT = 1 << 20, 1 << 60  # bytes among which a limit that works is looked for


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
        elsewhere = not rows.held and chosen().is_remote
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
        alphas = given_alphas(self.alpha)
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
    engine = chosen()
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
