"""What may still improve a candidate with bins once it is chosen: jumps in the warps of
columns, and a linear map.
"""

from __future__ import annotations

from dataclasses import replace

from bochner.selection.candidates import (
    BINS_ALONE,
    HYBRID,
    LearnedMetrics,
    fit_hybrid,
    why_no_map,
)
from bochner.selection.comparison import CandidateResult, Race
from bochner.selection.learning import SIZED
from bochner.selection.metric_learning import LearningRows
from bochner.selection.policy import POLICY
from bochner.selection.sizes import with_jumps, with_linear_map


def or_with_jumps(
    race: Race,
    learned_metrics: LearnedMetrics,
    sample: LearningRows,
    entry: CandidateResult,
) -> tuple[LearnedMetrics, CandidateResult] | None:
    """Metrics with jumps in the warps of columns, and the best candidate with bins of
    them; None where there is none or it is not clearly better than the chosen one,
    where that is a linear model, which is preferred, and of many rows or in little
    time, where telling takes too long.

    Trials of few grids tell first whether there is something to jumps.
    """
    problem = race.problem
    base = learned_metrics.scaled
    binned = [candidate for candidate in race.entries if candidate.has_bins]
    if base is None or not binned or entry.is_linear or problem.space.metric != "auto":
        return None
    if problem.is_large or not len(base.learned.metric.warped_):
        return None
    # Under a time limit a linear map and the model's own grids come first
    if problem.trials.seconds_left < 2 * problem.trials.elapsed:
        return None
    jumping = with_jumps(problem, sample, base)
    race.note_sizes(SIZED["jumps"], jumping.tried)
    losses = jumping.trial.losses
    if not problem.validator.better(losses, base.trial.losses, POLICY.near):
        return None
    metrics = {**learned_metrics.metrics, "bins": jumping.learned}
    both = replace(learned_metrics, metrics=metrics, scaled=jumping, mapped=None)
    rank = min(binned, key=race.loss).rank
    kind = HYBRID if rank == HYBRID.rank else BINS_ALONE
    other = replace(kind.fit(kind, race, both), name=f"{kind.name}, with jumps")
    race.add(other)
    if not race.validator.better(other.losses, entry.losses, POLICY.near):
        return None
    return both, other


def or_with_map(
    race: Race,
    learned_metrics: LearnedMetrics,
    sample: LearningRows,
    entry: CandidateResult,
) -> CandidateResult:
    """Bins beside Fourier features, a part of them with a linear map where that is
    better.

    It takes as long to learn as the metrics, so that it is only tried for numbers whose
    bins were compared with none, and taken.
    """
    problem = race.problem
    base = learned_metrics.scaled
    is_compared = entry.rank == HYBRID.rank and len(race.entries) > 1
    if not is_compared or base is None or learned_metrics.mapped:
        return entry
    if problem.validator.is_classifier or problem.space.metric == "ard":
        return entry
    if not problem.has_time or why_no_map(problem, base.learned.n_mixed):
        return entry
    mapped = with_linear_map(problem, sample, base)
    race.note_sizes(SIZED["linear map"], mapped.tried)
    first, second = entry.trial.penalty[:2].tolist()
    both = replace(learned_metrics, mapped=mapped)
    other = replace(fit_hybrid(HYBRID, race, both, (first, second)), name=entry.name)
    if race.loss(other) >= race.loss(entry):
        return entry
    race.entries[race.entries.index(entry)] = other
    return other
