"""The sizes of learned metrics: how many bins or waves a unit of them has, found by
trials with few grids or features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bochner.features import BinningFeatures
from bochner.features.metric import MetricFeatures
from bochner.kernels import Laplacian
from bochner.selection.budget import choose_n_components, within_limit
from bochner.selection.comparison import Maps
from bochner.selection.forest import tree_splits
from bochner.selection.metric_learning import (
    LearnedMetric,
    LearningRows,
    MetricTask,
    learn_full,
    learn_jumps,
    limited,
    schedule,
    shortened,
)
from bochner.selection.policy import POLICY
from bochner.selection.problem import Problem
from bochner.selection.validation import ValidationResult
from bochner.solvers.line_search import Tried, coarser_minimum, walk_downhill


@dataclass(frozen=True)
class SizedMetric:
    """A metric with its best size: the base-2 logarithm of the factor on its
    coordinates.

    Seconds are those of a trial; a grid splits a column with probability
    `column_share`. The trial is that of the best size, and `tried` are all sizes with
    their losses.
    """

    learned: LearnedMetric
    size: float
    trial: ValidationResult
    seconds: float
    tried: list[tuple[float, float]]
    column_share: float = 1.0

    @property
    def alpha(self) -> float:
        """The best ridge penalty of the trial."""
        return float(self.trial.penalty[0])


def search_size(
    problem: Problem,
    learned: LearnedMetric,
    start: float | None = None,
    share: float = 1.0,
) -> SizedMetric:
    """Find the size of a metric by trials with few grids, in steps of 2.

    Between these it is where a parabola through the best size and its neighbours is
    least, or coarser by as much as raises it by half a standard error of the paired
    losses: of sizes that are as good within the noise the coarser one has fewer bins.
    """
    validator = problem.validator.mapped(learned.metric)

    def try_size(size: float, factors: tuple[float, ...]) -> ValidationResult:
        bins = BinningFeatures(
            Laplacian(2.0**-size),
            problem.n_trial_grids,
            column_share=share,
            random_state=problem.seed,
        )
        drawn = bins.draw(validator.X.shape[1])
        return validator.iterate(drawn, problem.penalties(factors), POLICY.trial_steps)

    tried: Tried[float, ValidationResult] = Tried(
        lambda size: try_size(size, (POLICY.first_alpha,))
    )

    def loss(size: float) -> float:
        return validator.average(tried[size].losses)

    best = float(round(learned.sizes[-1] / np.log(2))) if start is None else start
    best = walk_downhill(loss, best, 1.0, POLICY.most_steps)
    is_hasty = not problem.has_time
    if best - 1 in tried and best + 1 in tried:
        _, noise = validator.mean_and_error(tried[best - 1].losses - tried[best].losses)
        best += coarser_minimum(
            (loss(best - 1), loss(best), loss(best + 1)), POLICY.clear * noise
        )
    nearest = min(tried, key=lambda size: abs(size - best))
    final = (
        tried[nearest]
        if is_hasty
        else try_size(nearest if problem.is_large else best, POLICY.bin_alphas)
    )
    seconds = float(np.median([trial.seconds for trial in tried.values()]))
    sizes = [(size, loss(size)) for size in tried]
    return SizedMetric(learned, best, final, seconds, sizes, share)


def with_linear_map(
    problem: Problem, sample: LearningRows, base: SizedMetric
) -> SizedMetric:
    """Learn a linear map on top of a metric, and search for its size; half of the time
    of trials is for the search.
    """
    plan = limited(schedule(problem.n_rows), problem.trials.first_of(2))
    task = MetricTask(
        "laplacian", sample, problem.column_groups, plan, problem.seed + 1
    )
    learned = learn_full(task, base.learned)
    return search_size(problem, learned, base.size + _growth(base.learned, learned))


def with_jumps(
    problem: Problem, sample: LearningRows, base: SizedMetric
) -> SizedMetric:
    """Learn jumps in the warps of a metric, in few steps as the scales are learned
    already, and search for its size.
    """
    plan = limited(shortened(schedule(problem.n_rows)), problem.trials.first_of(2))
    task = MetricTask("laplacian", sample, problem.column_groups, plan, problem.seed)
    splits = tree_splits(problem.validator, problem.seed)
    learned = learn_jumps(task, base.learned, splits)
    return search_size(problem, learned, base.size + _growth(base.learned, learned))


def _growth(before: LearnedMetric, after: LearnedMetric) -> float:
    """Base-2 logarithm of the factor that suits blocks of near rows for one metric,
    over that for another.
    """
    return float((after.sizes[-1] - before.sizes[-1]) / np.log(2))


def grids(parts: Sequence[SizedMetric], n_grids: int, seed: int) -> Maps:
    """Binning features whose grids are divided among metrics; the kernel is the mean
    of theirs.
    """
    maps: Maps = []
    for i, part in enumerate(parts):
        n_part_grids = max(n_grids // len(parts) + (i < n_grids % len(parts)), 1)
        kernel = Laplacian(2.0**-part.size)
        bins = BinningFeatures(
            kernel, n_part_grids, column_share=part.column_share, random_state=seed + i
        )
        maps.append((1 / len(parts), MetricFeatures(part.learned.metric, bins)))
    return maps


def n_features(problem: Problem) -> int:
    """Number of Fourier features: as given, or one a row (512 to 2,048), within the
    memory limit.
    """
    if problem.space.n_components is not None:
        return problem.space.n_components
    usual = choose_n_components(min(problem.n_rows, POLICY.screened_rows) // 2)
    outputs = problem.n_outputs
    stage = problem.budget.stage("solution")
    timely = stage.n_components(problem.n_rows, problem.n_columns, outputs)
    return within_limit(int(min(usual, timely)), outputs)


def n_trial_features(problem: Problem) -> int:
    """Number of Fourier features of a trial, of which a memory limit may leave few."""
    D = n_features(problem)
    return max(min(D // 2 if problem.is_large else D // 8, POLICY.n_components[0]), 1)
