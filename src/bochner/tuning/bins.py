"""Learned metrics for random binning features, each in the size that suits the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bochner.data.sources import Block
from bochner.features import BinningFeatures
from bochner.features.coordinates import MetricFeatures
from bochner.kernels import Laplacian
from bochner.tuning.comparison import Maps
from bochner.tuning.judge import Trial
from bochner.tuning.metric.descent import Schedule
from bochner.tuning.metric.learn import Learned, Lesson, learn_full
from bochner.tuning.policy import POLICY
from bochner.tuning.problem import Problem
from bochner.tuning.search import coarser_minimum, walk_downhill


@dataclass(frozen=True)
class SizedMetric:
    """A metric in the size that suits the rows: the logarithm to base 2 of the factor on its coordinates.

    Seconds are those of a trial; a grid splits a column with probability `column_share`. The trial is that of the best
    size, and `tried` are all sizes with their losses.
    """

    learned: Learned
    size: float
    trial: Trial
    loss: float
    seconds: float
    tried: list[tuple[float, float]]
    column_share: float = 1.0

    @property
    def alpha(self) -> float:
        """The best ridge term of the trial."""
        return float(self.trial.penalty[0])


def search_size(problem: Problem, learned: Learned, start: float | None = None, share: float = 1.0) -> SizedMetric:
    """Find the size of a metric by trials with few grids, in steps of 2 and then of the root of 2.

    Between these it is where a parabola through the best size and its neighbours is least, or coarser by as much as
    raises it by half a standard error of the paired losses: of sizes that are as good within the noise the coarser one
    has fewer bins.
    """
    judge, step = problem.judge, POLICY.size_step
    U, V = learned.metric.coordinates(judge.X), learned.metric.coordinates(judge.X_out)
    tried: dict[float, Trial] = {}

    def at(size: float, factors: tuple[float, ...]) -> Trial:
        bins = BinningFeatures(
            Laplacian(2.0**-size), problem.n_trial_grids, column_share=share, random_state=problem.seed
        )
        return judge.iterate(bins.draw(U.shape[1]), U, V, problem.penalties(factors), POLICY.trial_steps)

    def loss(size: float) -> float:
        if size not in tried:
            tried[size] = at(size, POLICY.trial_alphas)
        return judge.average(tried[size].losses)

    best = float(round(learned.sizes[-1] / np.log(2))) if start is None else start
    best = walk_downhill(loss, best, 1.0, POLICY.farthest_size)
    is_hasty = not problem.budget.has(POLICY.hasty_share)
    if not is_hasty:
        best = walk_downhill(loss, best, step, POLICY.farthest_size)
    if best - step in tried and best + step in tried:
        noise = judge.standard_error(tried[best - step].losses - tried[best].losses)
        best += coarser_minimum((loss(best - step), loss(best), loss(best + step)), POLICY.clear * noise, step)
    nearest = min(tried, key=lambda size: abs(size - best))
    final = tried[nearest] if problem.is_large or is_hasty else at(best, POLICY.fine_alphas)
    seconds = float(np.median([trial.seconds for trial in tried.values()]))
    sizes = [(size, loss(size)) for size in tried]
    return SizedMetric(learned, best, final, judge.average(final.losses), seconds, sizes, share)


def why_no_map(problem: Problem, n_mixed: int) -> str | None:
    """Why bins have no linear map of `n_mixed` numeric columns; None where they may have one."""
    least, most = POLICY.rows_for_map
    if not least <= problem.n_rows <= most:
        return f"for bins it needs {least:,} to {most:,} rows, and there are {problem.n_rows:,}"
    if problem.sparse:
        return "the rows are sparse"
    if n_mixed < 2:
        return "there are fewer than two numeric columns"
    return f"there are more than {POLICY.most_mixed} numeric columns" if n_mixed > POLICY.most_mixed else None


def with_linear_map(problem: Problem, sample: Block, plan: Schedule, base: SizedMetric) -> SizedMetric:
    """The same metric with a linear map learned on top, in its size."""
    lesson = Lesson("laplacian", sample, problem.column_groups, plan, problem.seed + 1)
    learned = learn_full(lesson, base.learned, plan)
    larger = (learned.sizes[-1] - base.learned.sizes[-1]) / np.log(2)
    return search_size(problem, learned, base.size + round(2 * larger) / 2)


def grids(parts: Sequence[SizedMetric], n_grids: int, seed: int) -> Maps:
    """Binning features whose grids are shared among metrics: their kernels' mean."""
    maps: Maps = []
    for i, part in enumerate(parts):
        own = max(n_grids // len(parts) + (i < n_grids % len(parts)), 1)
        kernel = Laplacian(2.0**-part.size)
        bins = BinningFeatures(kernel, own, column_share=part.column_share, random_state=seed + i)
        maps.append((1 / len(parts), MetricFeatures(part.learned.metric, bins)))
    return maps
