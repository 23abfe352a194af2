"""The model chosen from the data: metric, map, size and ridge penalties, on rows held
out before anything is learned.

Metrics are learned on blocks of rows and sized by trials with few grids or features
(`bochner.selection.learning`), candidates are compared on the rows held out
(`bochner.selection.comparison`), and what was chosen becomes a model of its full size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from numpy.typing import NDArray
from sklearn.base import clone

from bochner.engines.local import in_threads
from bochner.features.base import FeatureMap
from bochner.features.leaves import leaves
from bochner.selection.candidates import (
    LINEAR,
    LearnedMetrics,
    candidates,
    features_that_pay,
    why_no_map,
)
from bochner.selection.comparison import (
    Race,
    concatenate,
)
from bochner.selection.learning import (
    common_unit_kernel,
    learn_metrics,
    linear_leads,
)
from bochner.selection.metric_learning import (
    learning_sample,
)
from bochner.selection.problem import Problem
from bochner.selection.refinements import or_with_jumps, or_with_map
from bochner.selection.report import Report
from bochner.selection.split import Split
from bochner.selection.validation import HeldOutPredictions, Losses


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

    Losses are a function of predictions of the validation rows, of shape (K, m).
    """

    split: Split
    losses: Losses


class Choice(NamedTuple):
    """The selected model, its validation, cross-validated predictions if there are few
    rows, and the losses of the validation rows in the comparison of candidates.
    """

    model: Model
    outcome: ValidationOutcome | None = None
    predictions: HeldOutPredictions | None = None
    losses: NDArray | None = None


def choose(problem: Problem) -> Choice:
    """Select a model."""
    race = Race(problem)
    common_unit = common_unit_kernel(race)
    learned_metrics = LearnedMetrics({})
    sample = None
    if not problem.is_sparse_and_wide:
        sample = learning_sample(problem.validator.fitted, problem.seed)
        with race.stage("metric"):
            if problem.has_sparse_linear and linear_leads(race, sample):
                learned_metrics = replace(learned_metrics, leader=LINEAR)
            else:
                learned_metrics = learn_metrics(race, sample, common_unit)
    with race.stage("candidates"):
        for entry in in_threads(
            lambda kind: kind.fit(kind, race, learned_metrics),
            candidates(race, learned_metrics),
        ):
            race.add(entry)
    entry, reason = race.decide()
    if sample is not None:
        with race.stage("jumps"):
            jumping = or_with_jumps(race, learned_metrics, sample, entry)
        if jumping is not None:
            reason = f"better by more than a standard error than {entry.name}"
            learned_metrics, entry = jumping
        with race.stage("linear map"):
            entry = or_with_map(race, learned_metrics, sample, entry)
    report = race.report(entry.name, reason)
    if problem.has_time:
        with race.stage("fewer rows"):
            report = replace(report, rows=race.rows_curve(entry))
    if entry.is_exact:
        features = concatenate(entry.of_size(entry.size))
        per_weight = entry.trial.share
        model = Model(features, None, report, per_weight)
        return Choice(model, losses=entry.losses)
    if entry.has_bins:
        # Maps weighted so that one ridge penalty serves all of them
        maps = entry.of_size(learned_metrics.n_grids)
        penalty = entry.trial.penalty
        least = penalty.min()
        weighted = [
            (weight * least / map_penalty, part)
            for (weight, part), map_penalty in zip(maps, penalty, strict=True)
        ]
        report = replace(report, parts=race.parts(maps, penalty))
        alpha = float(least) * problem.split.largest_weight
        model = Model(clone(concatenate(weighted)), alpha, report)
    else:
        # Fourier features, as many as pay; or a linear model, whose ridge penalty all
        # rows choose, if few any
        larger = entry.larger() if entry.larger else entry
        per_weight = float(larger.trial.penalty[0] / race.screened.weight.sum())
        size = larger.size if larger.is_linear else features_that_pay(race, larger)
        features = clone(concatenate(larger.of_size(size)))
        is_open = larger.is_linear or problem.is_small
        model = Model(features, None, report, per_weight, is_open=is_open)
    if problem.space.metric == "full":
        model = replace(
            model, unmapped=_why_unmapped(problem, model, learned_metrics.metrics)
        )
    outcome = ValidationOutcome(problem.split, problem.validator.final_losses)
    return Choice(model, outcome, losses=entry.losses)


def _why_unmapped(
    problem: Problem, model: Model, metrics: Mapping[str, Any]
) -> str | None:
    """Reason why the selected map has no linear map; None if it has one."""
    parts = [leaf for leaf in leaves(model.features) if leaf.metrics]
    if any(metric.linear_.size for part in parts for metric in part.metrics):
        return None
    if problem.sparse:
        return "the rows are sparse"
    binned = [
        learned_metric for name, learned_metric in metrics.items() if name != "fourier"
    ]
    if not binned or all(part.features.is_dense for part in parts):
        return f"{model.report.chosen} had {model.report.reason}"
    return (
        why_no_map(problem, binned[0].n_mixed) or "the time limit left no time for it"
    )
