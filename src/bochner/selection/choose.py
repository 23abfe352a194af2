"""The model chosen from the data: metric, map, size and ridge penalties, on rows held
out before anything is learned.

Metrics are learned on blocks of rows, sizes found by trials with few grids or features,
and candidates race: what is clearly behind at a small size is not fitted at a larger
one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import call
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from bochner.data.array_source import Block
from bochner.engines.local import in_threads, n_threads
from bochner.features import BinningFeatures
from bochner.features.base import FeatureMap
from bochner.features.leaves import leaves
from bochner.kernels import Stationary
from bochner.kernels.catalogue import SEPARABLE
from bochner.selection.candidates import (
    FOURIER,
    HYBRID,
    LINEAR,
    LearnedMetrics,
    SizedMetric,
    candidates,
    features_that_pay,
    grids,
    isotropic,
    refit,
    search_size,
    why_no_halves,
    why_no_map,
    with_linear_map,
)
from bochner.selection.comparison import (
    BINS,
    ONLY,
    CandidateResult,
    Race,
    concatenate,
)
from bochner.selection.metric_learning import (
    MetricTask,
    Schedule,
    learn,
    learning_sample,
    map_schedule,
    schedule,
)
from bochner.selection.policy import POLICY
from bochner.selection.problem import Problem
from bochner.selection.report import Report
from bochner.selection.split import Split
from bochner.selection.validation import HeldOutPredictions, Losses

# Standard errors behind a linear model of sparse columns, from which neither bins nor
# Fourier features have their metrics learned to the end
BEHIND = 1.0
SIZED = {  # names under which the search of sizes is reported
    "bins": "random binning",
    "linear map": "random binning, linear map",
    "random halves": "random binning, random halves of the columns",
}


@dataclass(frozen=True)
class Model:
    """The selected model, which can be fitted on any rows.

    Attributes
    ----------
    features : FeatureMap
        Not drawn.
    alpha : float or None
        None for Fourier features, which may be solved directly.
    report : Report
    alpha_per_weight : float
        Of Fourier features: the ridge penalty for a unit of weight.
    is_open : bool
        Whether the ridge penalty is still to be chosen.
    unmapped : str or None
        Why there is no linear map, where one was requested.
    """

    features: FeatureMap
    alpha: float | None
    report: Report
    alpha_per_weight: float = 0.0
    unmapped: str | None = None
    is_open: bool = False


@dataclass(frozen=True)
class ValidationOutcome:
    """Split and losses of the validation rows, for the final fit on all rows.

    Losses are a function of predictions of these rows, of shape (K, m).
    """

    split: Split
    losses: Losses


class Choice(NamedTuple):
    """The selected model, its validation, and cross-validated predictions if there
    are few rows.
    """

    model: Model
    outcome: ValidationOutcome | None = None
    predictions: HeldOutPredictions | None = None


def choose(problem: Problem) -> Choice:
    """Select a model."""
    race = Race(problem)
    space = problem.space
    common_unit = _common_unit(race)
    known = LearnedMetrics({})
    sample = None
    if not problem.is_sparse_and_wide:
        sample = learning_sample(problem.validator.fitted, problem.seed)
        with race.stage("metric"):
            if problem.has_sparse_linear and _linear_leads(race, sample):
                known = replace(known, linear_leads=True)
            else:
                known = _learn_metrics(race, sample, common_unit)
    if problem.is_large and (space.features == "binning" or known.bins_lead):
        model = _without_comparison(race, known)
    else:
        with race.stage("candidates"):
            for some in candidates(race, known):
                race.enter([partial(kind.fit, kind, race, known) for kind in some])
            # In small trials bins converge too late to lose, and what is as good as a
            # linear model may be better yet
            best = min(race.entries, key=race.loss)
            doubtful = not best.has_bins or any(one.is_linear for one in race.near())
            if doubtful and problem.budget.has(POLICY.hasty_share):
                race.enlarge()
        if (
            problem.is_refolded
            and common_unit is None
            and problem.budget.has(POLICY.patient_share)
        ):
            with race.stage("folds"):
                _compare_on_folds(race, known)
        entry, reason = race.decide()
        if sample is not None:
            with race.stage("linear map"):
                entry = _or_with_map(race, known, sample, entry)
        report = _with_rows_curve(race, entry, race.report(entry.name, reason))
        if entry.has_bins:
            model = _iterated(race, known, entry, report)
        else:
            model = _solved_directly(race, entry, report)
    if space.metric == "full":
        model = replace(model, unmapped=_why_unmapped(problem, model, known.metrics))
    return Choice(
        model, ValidationOutcome(problem.split, problem.validator.final_losses)
    )


def _or_with_map(
    race: Race, known: LearnedMetrics, sample: Block, entry: CandidateResult
) -> CandidateResult:
    """Bins beside Fourier features, a part of them with a linear map where that is
    better.

    It takes as long to learn as the metrics, so that it is only tried for numbers where
    bins are better than none.
    """
    problem = race.problem
    base = known.scaled
    alone = [one for one in race.entries if not one.has_bins]
    if entry.name != HYBRID.name or base is None or known.mapped or not alone:
        return entry
    useful = race.loss(entry) < min(map(race.loss, alone))
    if race.pooled or problem.validator.classes or problem.space.metric == "ard":
        return entry
    timely = problem.budget.has(POLICY.patient_share)
    if not useful or not timely or why_no_map(problem, base.learned.n_mixed):
        return entry
    plan = map_schedule(_limited(schedule(problem.n_rows), problem, 1))
    mapped = with_linear_map(problem, sample, plan, base)
    race.note_sizes(SIZED["linear map"], mapped.tried)
    other = HYBRID.fit(HYBRID, race, replace(known, mapped=mapped))
    if race.loss(other) >= race.loss(entry):
        return entry
    race.entries[race.entries.index(entry)] = other
    return other


def _common_unit(race: Race) -> Stationary | None:
    """The isotropic kernel if many columns, such as pixels, had better keep their
    common unit; else None.
    """
    problem = race.problem
    wide = (
        problem.n_columns > POLICY.wide
        and not problem.sparse
        and problem.column_units is not None
    )
    if not wide or problem.space.metric != "auto":
        return None
    with race.stage("one lengthscale"):
        kernel = isotropic(problem)
    return kernel if np.ndim(kernel.lengthscale) else None


def _metric_tasks(
    problem: Problem, sample: Block, common_unit: Stationary | None
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
    plan = _limited(schedule(problem.n_rows), problem, len(binned + dense))
    plans = [plan, plan]
    if (
        problem.is_large
    ):  # where blocks of near rows alone may lead astray, which are better otherwise
        plans[1] = _limited(schedule(POLICY.rows_for_full_learning), problem, 2)
    tasks = {
        name: MetricTask("laplacian", sample, groups, plans[k], seed + k, parts)
        for k, name in enumerate(binned)
    }
    return tasks | {
        name: _fourier_task(problem, sample, plans[1], common_unit) for name in dense
    }


def _fourier_task(
    problem: Problem, sample: Block, plan: Schedule, common_unit: Stationary | None
) -> MetricTask:
    """The metric to learn for Fourier features, by the distance of the kernel that
    is named.
    """
    full = problem.space.metric == "full"
    kernel = (
        "laplacian" if problem.space.kernel in (*SEPARABLE, "matern12") else "gaussian"
    )
    if common_unit is not None:
        factors = 1 / np.asarray(common_unit.lengthscale)
        return MetricTask(
            kernel,
            sample,
            problem.column_groups,
            plan,
            problem.seed,
            common_unit=factors,
        )
    parts = "value" if full or problem.sparse else "both"
    mapped = map_schedule(plan) if full and not problem.sparse else None
    if kernel == "gaussian":
        plan = replace(
            plan, block=min(plan.block, POLICY.gaussian_block), early_block=None
        )
    return MetricTask(
        kernel, sample, problem.column_groups, plan, problem.seed, parts, mapped
    )


def _limited(plan: Schedule, problem: Problem, n_tasks: int) -> Schedule:
    """The schedule limited to a share of the time left, for tasks that run in
    parallel.
    """
    if problem.budget.limit is None:
        return plan
    rounds = -(-n_tasks // n_threads())
    return replace(
        plan, seconds=POLICY.learning_share * problem.budget.left / max(rounds, 1)
    )


def _learn_metrics(
    race: Race, sample: Block, common_unit: Stationary | None
) -> LearnedMetrics:
    """Learn a metric for bins and one for Fourier features, look at both, and learn
    what may still win.

    For classes and many rows, few steps tell whether Fourier features are hopeless: if
    not, their metric is learned again with all.
    """
    problem = race.problem
    tasks = _metric_tasks(race.problem, sample, common_unit)
    looks = _look_is_short(problem, tasks)
    tried = tasks | {"fourier": _shortened(tasks["fourier"])} if looks else tasks
    metrics = dict(zip(tried, in_threads(learn, list(tried.values())), strict=True))
    known = LearnedMetrics(metrics, common_unit=common_unit)
    if "bins" not in metrics:
        return known
    base, fourier = _look(race, known)
    leads = fourier is not None and race.better(
        fourier.losses, base.trial.losses, POLICY.hopeless
    )
    leads &= (
        problem.is_fully_learned and problem.space.metric != "full"
    )  # more is open, and was not requested
    leads &= not problem.is_large  # where nothing more is
    hopeless = fourier is not None and race.better(
        base.trial.losses, fourier.losses, POLICY.hopeless
    )
    work = {} if leads else _more_for_bins(problem, sample, base)
    if looks and not hopeless:
        work["fourier"] = partial(learn, tasks["fourier"])
    elif fourier is not None:
        race.add(fourier)
    others = dict(zip(work, in_threads(call, list(work.values())), strict=True))
    metrics |= {"fourier": others.pop("fourier")} if "fourier" in others else {}
    for name, one in {"bins": base, **others}.items():
        race.note_sizes(SIZED[name], one.tried)
    return LearnedMetrics(
        metrics,
        base,
        others.get("linear map"),
        others.get("random halves"),
        common_unit,
        problem.n_grids(base.seconds),
        leads,
        hopeless and problem.is_large,
    )


def _linear_leads(race: Race, sample: Block) -> bool:
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
    tasks = _metric_tasks(problem, sample, None)
    looked = [_shortened(tasks[name]) for name in ("bins", "fourier")]
    bins, fourier = in_threads(learn, looked)
    known = LearnedMetrics({"bins": bins, "fourier": fourier})
    sized, waves = _look(race, known)
    if waves is None:
        return False
    leads = all(
        race.better(linear.losses, losses, BEHIND)
        for losses in (sized.trial.losses, waves.losses)
    )
    if leads:
        race.add(waves)
        race.note_sizes(SIZED["bins"], sized.tried)
    return leads


def _with_rows_curve(race: Race, entry: CandidateResult, report: Report) -> Report:
    """The report of a choice with losses of the chosen candidate for fewer rows,
    where there is time for them.
    """
    if not race.problem.budget.has(POLICY.patient_share):
        return report
    with race.stage("fewer rows"):
        return replace(report, rows=race.rows_curve(entry))


def _compare_on_folds(race: Race, known: LearnedMetrics) -> None:
    """Compare candidates that are near each other on more folds of few rows, a fifth
    of which tells little.
    """
    if len(race.near()) > 1:
        race.enlarge()
    near = race.near()
    if len(near) > 1:
        others = in_threads(
            lambda k: _of_fold(race, known, near, k), range(1, 1 + POLICY.refolds)
        )
        race.pool(near, [other for other in others if other])


def _of_fold(
    race: Race, known: LearnedMetrics, near: Sequence[CandidateResult], k: int
) -> Race | None:
    """Near candidates on another fold, with metrics of its own, learned in few
    steps; None where it is empty.
    """
    problem = race.problem.of_fold(k)
    if problem is None:
        return None
    used = {
        "bins": any(one.has_bins for one in near),
        "fourier": any(one.rank in (1, 4) for one in near),
    }
    tasks = _metric_tasks(
        problem, learning_sample(problem.validator.fitted, problem.seed), None
    )
    metrics = {
        name: learn(_shortened(task)) for name, task in tasks.items() if used.get(name)
    }
    scaled = None
    if "bins" in metrics and known.scaled is not None:
        start = known.scaled.predicted_size(metrics["bins"])
        scaled = search_size(problem, metrics["bins"], start)
    own = replace(known, metrics=metrics, scaled=scaled)
    other = Race(problem)
    other.enter([partial(refit, entry, other, own) for entry in near])
    other.enlarge()
    return other


def _look_is_short(problem: Problem, tasks: Mapping[str, MetricTask]) -> bool:
    """Whether a metric of few steps tells if Fourier features may win, where bins
    alone stand against them.
    """
    both = "bins" in tasks and "fourier" in tasks and problem.space.features == "auto"
    plain = problem.space.metric != "full" and problem.budget.limit is None
    return (
        both
        and plain
        and (problem.validator.classes or problem.is_large)
        and problem.is_fully_learned
    )


def _shortened(task: MetricTask) -> MetricTask:
    """Copy a task, to learn its metric in few steps."""
    return replace(
        task,
        schedule=replace(
            task.schedule, steps=min(task.schedule.steps, POLICY.look_steps)
        ),
    )


def _look(
    race: Race, known: LearnedMetrics
) -> tuple[SizedMetric, CandidateResult | None]:
    """Find the size of the metric for bins, and fit Fourier features beside, where
    they apply and there is time.
    """
    problem = race.problem
    work: list[Callable[[], Any]] = [
        partial(search_size, problem, known.metrics["bins"])
    ]
    if (
        "fourier" in known.metrics
        and problem.space.features == "auto"
        and problem.budget.has(POLICY.patient_share)
    ):
        work.append(partial(FOURIER.fit, FOURIER, race, known))
    base, *fourier = in_threads(call, work)
    return base, fourier[0] if fourier else None


def _more_for_bins(
    problem: Problem, sample: Block, base: SizedMetric
) -> dict[str, Callable[[], Any]]:
    """What else may be better for bins alone than a metric: a linear map on top, or
    random halves of the columns.
    """
    work: dict[str, Callable[[], Any]] = {}
    if not problem.budget.has(POLICY.patient_share):
        return work
    first = problem.allows_bins_alone or problem.space.metric == "full"
    mappable = not why_no_map(problem, base.learned.n_mixed)
    if first and mappable and problem.space.metric != "ard":
        plan = map_schedule(_limited(schedule(problem.n_rows), problem, 1))
        work["linear map"] = partial(with_linear_map, problem, sample, plan, base)
    if problem.allows_bins_alone and why_no_halves(problem) is None:
        work["random halves"] = partial(
            search_size, problem, base.learned, base.size + 1, 0.5
        )
    return work


def _without_comparison(race: Race, known: LearnedMetrics) -> Model:
    """Bins of many rows without a comparison at a larger size, which would take as
    long as the fit.
    """
    problem = race.problem
    best = known.scaled
    assert best is not None
    name = "random binning, learned lengthscales"
    of_size = partial(grids, [best], seed=problem.seed + 1)
    entry = CandidateResult(name, BINS, problem.n_trial_grids, best.trial, of_size)
    race.add(entry)
    reason = (
        "better by far than Fourier features in a first look"
        if known.bins_lead
        else ONLY
    )
    report = _with_rows_curve(race, entry, race.report(name, reason))
    features = concatenate(grids([best], known.n_grids, problem.seed + 1))
    return Model(features, best.alpha * problem.split.largest_weight, report)


def _solved_directly(race: Race, entry: CandidateResult, report: Report) -> Model:
    """A model of Fourier features, as many as pay; or a linear one, whose ridge
    penalty all rows choose, if few any.
    """
    entry = entry.larger() if entry.larger else entry
    per_weight = float(entry.trial.penalty[0] / race.screened.weight.sum())
    features = concatenate(
        entry.of_size(entry.size if entry.is_linear else features_that_pay(race, entry))
    )
    is_open = entry.is_linear or race.problem.is_refolded
    return Model(clone(features), None, report, per_weight, is_open=is_open)


def _iterated(
    race: Race, known: LearnedMetrics, entry: CandidateResult, report: Report
) -> Model:
    """Maps weighted so that one ridge penalty serves all of them."""
    maps = entry.of_size(known.n_grids)
    penalty = entry.trial.penalty
    largest_weight = race.problem.split.largest_weight
    least = penalty.min()
    weighted = [
        (weight * least / own, part)
        for (weight, part), own in zip(maps, penalty, strict=True)
    ]
    if len(maps) > 1:
        parts = [
            f"{_in_words(part)}, ridge penalty {own * largest_weight:.3g}"
            for (_, part), own in zip(maps, penalty, strict=True)
        ]
        report = replace(report, parts=parts)
    return Model(clone(concatenate(weighted)), float(least) * largest_weight, report)


def _in_words(part: FeatureMap) -> str:
    """The kind and size of a single map."""
    (leaf,) = leaves(part)
    mapped = any(metric.linear_.size for metric in leaf.metrics)
    if isinstance(leaf.features, BinningFeatures):
        return f"{leaf.features.n_grids:,} grids" + " of a linear map" * mapped
    return f"{leaf.features.n_components:,} Fourier features"


def _why_unmapped(
    problem: Problem, model: Model, metrics: Mapping[str, Any]
) -> str | None:
    """Reason why the selected map has no linear map; None if it has one."""
    parts = [leaf for leaf in leaves(model.features) if leaf.metrics]
    if any(metric.linear_.size for part in parts for metric in part.metrics):
        return None
    if problem.sparse:
        return "the rows are sparse"
    binned = [own for name, own in metrics.items() if name != "fourier"]
    if not binned or all(part.features.is_dense for part in parts):
        return f"{model.report.chosen} had {model.report.reason}"
    return (
        why_no_map(problem, binned[0].n_mixed) or "the time limit left no time for it"
    )
