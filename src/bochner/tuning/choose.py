"""The model chosen from the data: metric, map, size and ridge terms, on rows held out before anything is learned.

Metrics are learned on blocks of rows, sizes found by trials with few grids or features, and each candidate is fitted
once at its final size on all rows but those that judge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from bochner.data.sources import Block
from bochner.engines.costs import COSTS
from bochner.engines.local import in_threads
from bochner.features.base import FeatureMap
from bochner.features.leaves import leaves
from bochner.kernels import Stationary
from bochner.kernels.named import SEPARABLE
from bochner.tuning.bins import add_linear_map, grids, search_size, why_no_map
from bochner.tuning.candidates import ROUNDS, Hybrid, Known, enlarge, isotropic
from bochner.tuning.comparison import Comparison, Entry, concatenate
from bochner.tuning.held_out import HeldOutPredictions
from bochner.tuning.metric.descent import Schedule
from bochner.tuning.metric.learn import Learned, Lesson, learn, learning_sample, map_schedule, schedule
from bochner.tuning.policy import POLICY
from bochner.tuning.problem import Problem
from bochner.tuning.report import Report
from bochner.tuning.split import Split
from bochner.tuning.trace import Losses

SECOND_START = "bins, second start"


@dataclass(frozen=True)
class Model:
    """The model that was chosen, which can be fitted on any rows.

    Attributes
    ----------
    features : FeatureMap
        Not drawn.
    alpha : float or None
        None for Fourier features, which may be solved directly.
    n_iter : int or None
        Iterations of conjugate gradients; None where they are to be chosen on the rows held out.
    report : Report
    alpha_per_weight : float
        Of Fourier features: the ridge term for a unit of weight.
    unmapped : str or None
        Why there is no linear map, where one was asked for.
    """

    features: FeatureMap
    alpha: float | None
    n_iter: int | None
    report: Report
    alpha_per_weight: float = 0.0
    unmapped: str | None = None


@dataclass(frozen=True)
class Verdict:
    """What the rows held out tell beside the model, for its last fit on all rows.

    Losses are a function of predictions of these rows, of shape (K, m). Predictions are there where the model made them
    at its final size.
    """

    split: Split
    losses: Losses
    predictions: HeldOutPredictions | None = None


class Choice(NamedTuple):
    """A model, and what the rows held out tell beside it."""

    model: Model
    verdict: Verdict


def choose(problem: Problem) -> Choice:
    """Choose a model."""
    so_far, space = Comparison(problem), problem.space
    sample = learning_sample(problem.judge.fitted, problem.seed)
    common_unit = _common_unit(so_far)
    lessons = _lessons(problem, sample, common_unit)
    with so_far.stage("metric"):
        metrics = dict(zip(lessons, in_threads(learn, list(lessons.values())), strict=True))
    known = _known(so_far, sample, metrics, common_unit)
    if problem.is_large and known.bins and space.features != "hybrid":
        model, predictions = _unjudged(so_far, known), None
    else:
        with so_far.stage("candidates"):
            for candidates in ROUNDS:
                applicable = [one for one in candidates if one.applies(so_far, known)]
                proposals = [one.propose(so_far, known) for one in applicable]
                so_far.fit([proposal for proposal in proposals if proposal is not None])
        entry, reason = so_far.decide()
        report = so_far.report(entry.name, reason)
        if entry.trial.n_iter:
            model, predictions = _iterated(so_far, entry, report)
        else:
            model, predictions = _solved_directly(so_far, entry, report), None
    if space.metric == "full":
        model = replace(model, unmapped=_why_unmapped(problem, model, metrics))
    return Choice(model, Verdict(problem.split, problem.judge.final_losses, predictions))


def _common_unit(so_far: Comparison) -> Stationary | None:
    """The isotropic kernel of many columns that had better keep their common unit, as pixels; else None."""
    problem = so_far.problem
    wide = problem.n_columns > POLICY.wide and not problem.sparse and problem.column_units is not None
    if not wide or problem.space.metric != "auto":
        return None
    with so_far.stage("one lengthscale"):
        kernel = isotropic(problem)
    return kernel if np.ndim(kernel.lengthscale) else None


def _lessons(problem: Problem, sample: Block, common_unit: Stationary | None) -> dict[str, Lesson]:
    """The metrics to learn for bins and for Fourier features."""
    space, groups, seed = problem.space, problem.column_groups, problem.seed
    parts, binned, dense = "value" if problem.sparse else "both", [], []
    if space.features != "fourier" and (common_unit is None or space.features != "auto"):
        some = POLICY.rows_for_full_learning <= problem.n_rows <= POLICY.rows_for_bins_alone
        twice = some and not problem.sparse and _mostly_numeric(sample.X)
        binned = ["bins", SECOND_START] if twice else ["bins"]
    if space.features in ("fourier", "hybrid") or (space.features == "auto" and not problem.is_large):
        dense = ["fourier"]
    plan = _limited(schedule(problem.n_rows), problem, len(binned + dense))
    lessons = {name: Lesson("laplacian", sample, groups, plan, seed + k, parts) for k, name in enumerate(binned)}
    return lessons | {name: _fourier_lesson(problem, sample, plan, common_unit) for name in dense}


def _fourier_lesson(problem: Problem, sample: Block, plan: Schedule, common_unit: Stationary | None) -> Lesson:
    """The metric to learn for Fourier features, by the distance of the kernel that is named."""
    full = problem.space.metric == "full"
    kernel = "laplacian" if problem.space.kernel in (*SEPARABLE, "matern12") else "gaussian"
    if common_unit is not None:
        factors = 1 / np.asarray(common_unit.lengthscale)
        return Lesson(kernel, sample, problem.column_groups, plan, problem.seed, common_unit=factors)
    parts = "value" if full or problem.sparse else "both"
    mapped = map_schedule(plan) if full and not problem.sparse else None
    if kernel == "gaussian":
        plan = replace(plan, block=min(plan.block, POLICY.gaussian_block))
    return Lesson(kernel, sample, problem.column_groups, plan, problem.seed, parts, mapped)


def _limited(plan: Schedule, problem: Problem, n_lessons: int) -> Schedule:
    """A schedule with fewer steps, where a fifth of the time left asks for that."""
    each = COSTS.gradient_step * (plan.block / 512) ** 2 * (1 + problem.n_columns / 30) * n_lessons
    affordable = POLICY.learning_share * problem.budget.left / each
    return replace(plan, steps=int(np.clip(affordable, POLICY.fewest_steps, plan.steps)))


def _mostly_numeric(X: NDArray) -> bool:
    """Whether half of the columns that vary have more than two values."""
    low, high = X.min(axis=0), X.max(axis=0)
    return bool(2 * ((low < X) & (high > X)).any(axis=0).sum() >= (high > low).sum())


def _known(so_far: Comparison, sample: Block, metrics: dict[str, Learned], common_unit: Stationary | None) -> Known:
    """The metrics, those for bins in their best sizes, and the number of grids."""
    problem, n_grids = so_far.problem, 0
    with so_far.stage("sizes"):
        bins = [search_size(so_far, name, own) for name, own in metrics.items() if name != "fourier"]
    bins.sort(key=lambda one: one.loss)
    if bins:
        seconds = bins[0].seconds
        if problem.budget.has(POLICY.patient_share):
            bins += add_linear_map(so_far, sample, bins[0])
        n_grids = problem.n_grids(seconds, len(bins) + Hybrid().may_apply(problem, True))
    return Known(metrics, bins, common_unit, n_grids)


def _unjudged(so_far: Comparison, known: Known) -> Model:
    """Bins without a comparison, which would take as long as the fit itself."""
    reason = f"the model for more than {POLICY.rows_for_bins_alone:,} rows"
    report, problem, best = so_far.report("bins, learned scales", reason), so_far.problem, known.bins[0]
    features = concatenate(grids([best], known.n_grids, problem.seed + 1))
    return Model(features, best.alpha * problem.split.largest_weight, None, report)


def _solved_directly(so_far: Comparison, entry: Entry, report: Report) -> Model:
    """Fourier features, as many as pay."""
    per_weight = float(entry.trial.penalty[0] / so_far.screened.weight.sum())
    return Model(clone(concatenate(enlarge(so_far, entry))), None, None, report, per_weight)


def _iterated(so_far: Comparison, entry: Entry, report: Report) -> tuple[Model, HeldOutPredictions | None]:
    """Maps weighted so that one ridge term serves all of them, and what was predicted where no outputs were mixed."""
    judge, trial, predictions = so_far.judge, entry.trial, None
    if judge.targets.shape == trial.predicted.shape:
        predictions = HeldOutPredictions(judge.unscaled(trial.predicted), judge.targets, judge.weight_out)
    least = trial.penalty.min()
    maps = [(weight * least / own, part) for (weight, part), own in zip(entry.maps, trial.penalty, strict=True)]
    alpha = float(least) * so_far.problem.split.largest_weight
    return Model(clone(concatenate(maps)), alpha, trial.n_iter, report), predictions


def _why_unmapped(problem: Problem, model: Model, metrics: dict[str, Learned]) -> str | None:
    """Why no metric of the chosen map has a linear map, if that is so."""
    parts = [leaf for leaf in leaves(model.features) if leaf.metrics]
    if any(metric.linear_.size for part in parts for metric in part.metrics):
        return None
    if problem.sparse:
        return "the rows are sparse"
    binned = [own for name, own in metrics.items() if name != "fourier"]
    if not binned or all(part.features.is_dense for part in parts):
        return f"{model.report.chosen} had {model.report.reason}"
    return why_no_map(problem, binned[0].n_mixed) or "the time limit left no time for it"
