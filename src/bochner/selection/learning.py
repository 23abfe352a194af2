"""What is learned from the rows before candidates are fitted: metrics, and what may
still win.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import call
from typing import Any

import numpy as np

from bochner.engines.local import in_threads
from bochner.kernels import Stationary
from bochner.kernels.catalogue import SEPARABLE
from bochner.selection.candidates import (
    BINS_ALONE,
    FOURIER,
    LINEAR,
    LearnedMetrics,
    why_no_halves,
    why_no_map,
)
from bochner.selection.comparison import (
    CandidateResult,
    Race,
)
from bochner.selection.kernel_candidates import isotropic
from bochner.selection.metric_learning import (
    LearningRows,
    MetricTask,
    Schedule,
    learn,
    limited,
    schedule,
    shortened,
)
from bochner.selection.policy import POLICY
from bochner.selection.problem import Problem
from bochner.selection.sizes import (
    SizedMetric,
    search_size,
    with_linear_map,
)

SIZED = {  # names under which the search of sizes is reported
    "bins": "random binning",
    "linear map": "random binning, linear map",
    "jumps": "random binning, jumps",
    "random halves": "random binning, random halves of the columns",
}


def common_unit_kernel(race: Race) -> Stationary | None:
    """The isotropic kernel if many columns, such as pixels, had better keep their
    common unit; else None.
    """
    problem = race.problem
    space = problem.space
    if (
        not space.has_common_unit
        or space.metric != "auto"
        or problem.n_columns <= POLICY.wide
        or problem.column_units is None
        or problem.sparse
    ):
        return None
    with race.stage("one lengthscale"):
        kernel = isotropic(problem)
    return kernel if np.ndim(kernel.lengthscale) else None


def metric_tasks(
    problem: Problem, sample: LearningRows, common_unit: Stationary | None
) -> dict[str, MetricTask]:
    """The metrics to learn for bins and for Fourier features."""
    space = problem.space
    groups = problem.column_groups
    seed = problem.seed
    parts = "value" if problem.sparse else "both"
    binned = []
    dense = []
    if space.features != "fourier" and (
        common_unit is None or space.features != "auto"
    ):
        binned = ["bins"]
    one = problem.budget.is_short and problem.is_fully_learned and common_unit is None
    if space.features in ("fourier", "hybrid") or (
        space.features == "auto" and not one
    ):
        dense = ["fourier"]
    n_tasks = len(binned + dense)
    alone = problem.allows_bins_alone and space.features == "auto"
    longest = schedule(problem.n_rows, alone)
    stage = problem.budget.stage("learning")
    plan = limited(longest, stage, n_tasks)
    tasks = {
        name: MetricTask("laplacian", sample, groups, plan, seed, parts)
        for name in binned
    }
    # Of many rows blocks of near ones alone may lead Fourier features astray
    rows = POLICY.rows_for_full_learning if problem.is_large else problem.n_rows
    plan = limited(schedule(rows), stage, n_tasks)
    if alone and binned and problem.is_fully_learned:
        # Bins of classes are better as a rule, and fewer steps tell where they are not
        plan = shortened(plan)
    return tasks | {
        name: _fourier_task(problem, sample, plan, common_unit) for name in dense
    }


def _fourier_task(
    problem: Problem,
    sample: LearningRows,
    plan: Schedule,
    common_unit: Stationary | None,
) -> MetricTask:
    """The metric to learn for Fourier features, by the distance of the kernel that
    is named.
    """
    full = problem.space.metric == "full"
    kernel = (
        "laplacian" if problem.space.kernel in (*SEPARABLE, "matern12") else "gaussian"
    )
    parts = "value" if full or problem.sparse else "both"
    is_full = full and not problem.sparse
    factors = None
    if common_unit is not None:
        factors = 1 / np.asarray(common_unit.lengthscale)
    elif kernel == "gaussian":
        plan = replace(plan, early_block=None)
    groups = problem.column_groups
    seed = problem.seed
    return MetricTask(kernel, sample, groups, plan, seed, parts, is_full, factors)


def learn_metrics(
    race: Race, sample: LearningRows, common_unit: Stationary | None
) -> LearnedMetrics:
    """Learn a metric for bins and one for Fourier features side by side, look at both,
    and learn what may still win.
    """
    problem = race.problem
    tasks = metric_tasks(race.problem, sample, common_unit)
    metrics = dict(zip(tasks, in_threads(learn, list(tasks.values())), strict=True))
    learned_metrics = LearnedMetrics(metrics, common_unit=common_unit)
    if "bins" not in metrics:
        return learned_metrics
    base, fourier = _look(race, learned_metrics)
    leader = None
    if fourier is not None:
        race.add(fourier)
        is_ahead = race.validator.better(
            base.trial.losses, fourier.losses, POLICY.certain
        )
        leader = BINS_ALONE if problem.is_large and is_ahead else None
    work = _more_for_bins(problem, sample, base)
    others = dict(zip(work, in_threads(call, list(work.values())), strict=True))
    for name, one in {"bins": base, **others}.items():
        race.note_sizes(SIZED[name], one.tried)
    return LearnedMetrics(
        metrics,
        base,
        others.get("linear map"),
        others.get("random halves"),
        common_unit,
        problem.n_grids(base.seconds),
        leader,
    )


def linear_leads(race: Race, sample: LearningRows) -> bool:
    """Whether a linear model of sparse columns is clearly better than bins and than
    Fourier features, whose metrics were learned in few steps.

    The linear model is in the race then and otherwise, and Fourier features are where
    nothing else will be tried.
    """
    problem = race.problem
    linear = LINEAR.fit(LINEAR, race, LearnedMetrics({}))
    race.add(linear)
    if problem.budget.is_short:
        return False
    tasks = metric_tasks(problem, sample, None)
    looked = [
        replace(task, schedule=shortened(task.schedule)) for task in tasks.values()
    ]
    metrics = dict(zip(tasks, in_threads(learn, looked), strict=True))
    learned_metrics = LearnedMetrics(metrics)
    sized, waves = _look(race, learned_metrics)
    if waves is None:
        return False
    leads = all(
        race.validator.better(linear.losses, losses, POLICY.near)
        for losses in (sized.trial.losses, waves.losses)
    )
    if leads:
        race.add(waves)
        race.note_sizes(SIZED["bins"], sized.tried)
    return leads


def _look(
    race: Race, learned_metrics: LearnedMetrics
) -> tuple[SizedMetric, CandidateResult | None]:
    """Find the size of the metric for bins, and fit Fourier features beside, where
    they apply and there is time.
    """
    problem = race.problem
    work: list[Callable[[], Any]] = [
        partial(search_size, problem, learned_metrics.metrics["bins"])
    ]
    if (
        "fourier" in learned_metrics.metrics
        and problem.space.features == "auto"
        and problem.has_time
    ):
        work.append(partial(FOURIER.fit, FOURIER, race, learned_metrics))
    base, *fourier = in_threads(call, work)
    return base, fourier[0] if fourier else None


def _more_for_bins(
    problem: Problem, sample: LearningRows, base: SizedMetric
) -> dict[str, Callable[[], Any]]:
    """What else may be better for bins alone than a metric: a linear map on top, or
    random halves of the columns.
    """
    work: dict[str, Callable[[], Any]] = {}
    if not problem.has_time:
        return work
    first = problem.allows_bins_alone or problem.space.metric == "full"
    mappable = not why_no_map(problem, base.learned.n_mixed)
    if first and mappable and problem.space.metric != "ard":
        work["linear map"] = partial(with_linear_map, problem, sample, base)
    if problem.allows_bins_alone and why_no_halves(problem) is None:
        work["random halves"] = partial(
            search_size, problem, base.learned, base.size + 1, 0.5
        )
    return work
