"""Random binning features with learned metrics as candidates for a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bochner.features import BinningFeatures
from bochner.features.metric import MetricFeatures
from bochner.kernels import Laplacian
from bochner.tuning.judge import CLEAR, Judge, Trial
from bochner.tuning.metrics import Learned, Sample, learn_full, schedule
from bochner.tuning.problem import Maps, Problem, concatenate

LAMBDAS, FINER, LAMBDA = np.array([0.03, 0.3]), np.array([0.03, 0.1, 0.3, 1.0]), np.array([0.1])
TRIAL_STEPS, FEW_STEPS, STEPS = 12, 8, 24
FARTHEST, STEP = 20, 0.5
ROWS_FOR_MAP, MOST_MIXED = (2_000, 200_000), 128


@dataclass
class SizedMetric:
    """A metric, and the size of it that suits the rows.

    Attributes
    ----------
    name : str
    learned : Learned
    size : float
        Logarithm to base 2 of the factor on the coordinates.
    loss : float
    penalty : float
    seconds : float
        Of a trial.
    column_share : float
        Probability with which a grid splits a column.
    """

    name: str
    learned: Learned
    size: float
    loss: float
    penalty: float
    seconds: float
    column_share: float = 1.0


def penalties(problem: Problem, lambdas: NDArray) -> NDArray:
    """Ridge terms to try, shape (A, 1): those that are given, or multiples of what a distinct row weighs."""
    given = problem.alphas
    return (lambdas * problem.unit if given is None else given)[:, np.newaxis]


def search_size(
    problem: Problem, name: str, learned: Learned, start: float | None = None, share: float = 1.0
) -> SizedMetric:
    """Find the size of a metric by trials with few grids, in steps of 2 and then of the root of 2.

    Between these it is where a parabola through the best size and its neighbours is least, or coarser by as much as
    raises it by half a standard error of the paired losses: of sizes that are as good within the noise the coarser one
    has fewer bins.
    """
    judge, few = problem.judge, problem.is_large
    U, V = learned.metric.coordinates(judge.X), learned.metric.coordinates(judge.X_out)
    tried: dict[float, Trial] = {}

    def at(size: float, lambdas: NDArray) -> Trial:
        kernel, seed = Laplacian(2.0**-size), problem.seed
        features = BinningFeatures(kernel, problem.n_trial_grids, column_share=share, random_state=seed)
        steps = FEW_STEPS if few else TRIAL_STEPS
        return judge.iterate(features.draw(U.shape[1]), U, V, penalties(problem, lambdas), steps)

    def loss(size: float) -> float:
        if size not in tried:
            tried[size] = at(size, LAMBDA if few else LAMBDAS)
            problem.report.sizes.append((name, float(size), judge.average(tried[size].losses)))
        return judge.average(tried[size].losses)

    best = float(round(learned.sizes[-1] / np.log(2))) if start is None else start
    for step in (1.0, 0.5):
        best = descend(loss, best, step)
    best = coarse(tried, best, judge)
    final = tried[min(tried, key=lambda size: abs(size - best))] if few else at(best, FINER)
    seconds = float(np.median([judged.seconds for judged in tried.values()]))
    return SizedMetric(name, learned, best, judge.average(final.losses), float(final.penalty[0]), seconds, share)


def coarse(tried: dict[float, Trial], best: float, judge: Judge) -> float:
    """The coarsest size that is as good within the noise, by a parabola through the best one and its neighbours."""
    around = [tried.get(best + way) for way in (-STEP, 0.0, STEP)]
    if any(one is None for one in around):
        return best
    below, at, above = (judge.average(one.losses) for one in around if one is not None)
    bend = (below - 2 * at + above) / 2
    if not 0 < bend < np.inf:
        return best
    least = best + STEP * (below - above) / (4 * bend)
    coarser = tried[best - STEP].losses - tried[best].losses
    back = STEP * np.sqrt(CLEAR * judge.standard_error(coarser) / bend)
    return float(np.clip(least - back, best - STEP, best + STEP))


def descend(loss: Callable[[float], float], size: float, step: float, farthest: float = FARTHEST) -> float:
    """Walk to a size whose neighbours are no better, one way as long as that pays before a look the other way."""
    for way in (step, -step):
        moved = False
        while abs(size) < farthest and loss(size + way) < loss(size):
            size, moved = size + way, True
        if moved:
            break
    return size


def why_no_map(problem: Problem, n_mixed: int) -> str | None:
    """Why bins have no linear map of `n_mixed` numeric columns; None where they may have one."""
    least, most = ROWS_FOR_MAP
    if not least <= problem.n_rows <= most:
        return f"for bins it is learned from {least:,} to {most:,} rows, and there are {problem.n_rows:,}"
    if problem.sparse:
        return "the rows are sparse"
    if n_mixed < 2:
        return "there are fewer than two numeric columns"
    return f"there are more than {MOST_MIXED} numeric columns" if n_mixed > MOST_MIXED else None


def with_linear_map(problem: Problem, sample: Sample, base: SizedMetric) -> SizedMetric | None:
    """The same metric with a linear map learned on top; None where there is too little or too much to map."""
    if problem.space.metric == "ard" or why_no_map(problem, base.learned.n_mixed) is not None:
        return None
    with problem.stage("metric"):
        plan = schedule(problem.n_rows, problem.n_columns)
        full = learn_full("laplacian", sample, base.learned, plan, problem.seed + 1)
    with problem.stage("sizes"):
        return search_size(problem, "linear map", full, base.size)


def grids(parts: list[SizedMetric], n_grids: int, seed: int) -> Maps:
    """Binning features whose grids are shared among metrics: their kernels' mean."""
    maps: Maps = []
    for i, part in enumerate(parts):
        share = n_grids // len(parts) + (i < n_grids % len(parts))
        kernel, own = Laplacian(2.0**-part.size), max(share, 1)
        bins = BinningFeatures(kernel, own, column_share=part.column_share, random_state=seed + i)
        maps.append((1 / len(parts), MetricFeatures(part.learned.metric, bins)))
    return maps


def judge_bins(problem: Problem, name: str, parts: list[SizedMetric]) -> None:
    """Fit bins at their final size, and judge them."""
    maps = grids(parts, problem.n_grids, problem.seed + 1)
    penalty = np.full((1, len(parts)), parts[-1].penalty)
    judge = problem.judge
    features = concatenate(maps).draw(problem.n_columns)
    problem.note(
        name, judge.iterate(features, judge.X, judge.X_out, penalty, STEPS), maps, problem.n_grids, 1 + len(parts)
    )
