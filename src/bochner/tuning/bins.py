"""Random binning features with learned metrics as candidates for a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bochner.features import BinningFeatures
from bochner.features.metric import MetricFeatures
from bochner.kernels import Laplacian
from bochner.tuning.metrics import Learned, Sample, learn_full, schedule
from bochner.tuning.setting import Maps, Setting, together
from bochner.tuning.trials import CLEAR, Judged, Trials

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


def penalties(setting: Setting, lambdas: NDArray) -> NDArray:
    """Ridge terms to try, shape (A, 1): those that are given, or multiples of what a distinct row weighs."""
    given = setting.alphas
    return (lambdas * setting.unit if given is None else given)[:, np.newaxis]


def search_size(
    setting: Setting, name: str, learned: Learned, start: float | None = None, share: float = 1.0
) -> SizedMetric:
    """Find the size of a metric by trials with few grids, in steps of 2 and then of the root of 2.

    Between these it is where a parabola through the best size and its neighbours is least, or coarser by as much as
    raises it by half a standard error of the paired losses: of sizes that are as good within the noise the coarser one
    has fewer bins.
    """
    trials, few = setting.trials, setting.many
    U, V = learned.metric.coordinates(trials.X), learned.metric.coordinates(trials.X_out)
    tried: dict[float, Judged] = {}

    def judge(size: float, lambdas: NDArray) -> Judged:
        kernel, seed = Laplacian(2.0**-size), setting.seed
        features = BinningFeatures(kernel, setting.n_trial_grids, column_share=share, random_state=seed)
        steps = FEW_STEPS if few else TRIAL_STEPS
        return trials.iterate(features.draw(U.shape[1]), U, V, penalties(setting, lambdas), steps)

    def loss(size: float) -> float:
        if size not in tried:
            tried[size] = judge(size, LAMBDA if few else LAMBDAS)
            setting.report.sizes.append((name, float(size), trials.average(tried[size].losses)))
        return trials.average(tried[size].losses)

    best = float(round(learned.sizes[-1] / np.log(2))) if start is None else start
    for step in (1.0, 0.5):
        best = descend(loss, best, step)
    best = coarse(tried, best, trials)
    final = tried[min(tried, key=lambda size: abs(size - best))] if few else judge(best, FINER)
    seconds = float(np.median([judged.seconds for judged in tried.values()]))
    return SizedMetric(name, learned, best, trials.average(final.losses), float(final.penalty[0]), seconds, share)


def coarse(tried: dict[float, Judged], best: float, trials: Trials) -> float:
    """The coarsest size that is as good within the noise, by a parabola through the best one and its neighbours."""
    around = [tried.get(best + way) for way in (-STEP, 0.0, STEP)]
    if any(one is None for one in around):
        return best
    below, at, above = (trials.average(one.losses) for one in around if one is not None)
    bend = (below - 2 * at + above) / 2
    if not 0 < bend < np.inf:
        return best
    least = best + STEP * (below - above) / (4 * bend)
    coarser = tried[best - STEP].losses - tried[best].losses
    back = STEP * np.sqrt(CLEAR * trials.standard_error(coarser) / bend)
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


def why_no_map(setting: Setting, n_mixed: int) -> str | None:
    """Why bins have no linear map of `n_mixed` numeric columns; None where they may have one."""
    least, most = ROWS_FOR_MAP
    if not least <= setting.n_rows <= most:
        return f"for bins it is learned from {least:,} to {most:,} rows, and there are {setting.n_rows:,}"
    if setting.sparse:
        return "the rows are sparse"
    if n_mixed < 2:
        return "there are fewer than two numeric columns"
    return f"there are more than {MOST_MIXED} numeric columns" if n_mixed > MOST_MIXED else None


def with_linear_map(setting: Setting, sample: Sample, base: SizedMetric) -> SizedMetric | None:
    """The same metric with a linear map learned on top; None where there is too little or too much to map."""
    if setting.wanted.metric == "ard" or why_no_map(setting, base.learned.n_mixed) is not None:
        return None
    with setting.stage("metric"):
        plan = schedule(setting.n_rows, setting.n_columns)
        full = learn_full("laplacian", sample, base.learned, plan, setting.seed + 1)
    with setting.stage("sizes"):
        return search_size(setting, "linear map", full, base.size)


def grids(parts: list[SizedMetric], n_grids: int, seed: int) -> Maps:
    """Binning features whose grids are shared among metrics: their kernels' mean."""
    maps: Maps = []
    for i, part in enumerate(parts):
        share = n_grids // len(parts) + (i < n_grids % len(parts))
        kernel, own = Laplacian(2.0**-part.size), max(share, 1)
        bins = BinningFeatures(kernel, own, column_share=part.column_share, random_state=seed + i)
        maps.append((1 / len(parts), MetricFeatures(part.learned.metric, bins)))
    return maps


def judge_bins(setting: Setting, name: str, parts: list[SizedMetric]) -> None:
    """Fit bins at their final size, and judge them."""
    maps = grids(parts, setting.n_grids, setting.seed + 1)
    penalty = np.full((1, len(parts)), parts[-1].penalty)
    trials = setting.trials
    features = together(maps).draw(setting.n_columns)
    setting.note(
        name, trials.iterate(features, trials.X, trials.X_out, penalty, STEPS), maps, setting.n_grids, 1 + len(parts)
    )
