"""The seven candidates for a model: when each of them applies, and how it is fitted.

Bins have about a third of the grids of the model. Fourier features, alone and beside
bins, are tried with few; alone for classes with more, as long as these pay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from bochner.engines.costs import gram_work
from bochner.features import (
    FourierFeatures,
)
from bochner.features.metric import MetricFeatures
from bochner.kernels import Gaussian, Stationary
from bochner.selection.budget import (
    stored_within_limit,
    within_limit,
)
from bochner.selection.comparison import (
    WIDE,
    CandidateResult,
    Maps,
    Race,
    concatenate,
)
from bochner.selection.few_rows import share_unit
from bochner.selection.kernel_candidates import (
    fit_isotropic,
    fit_scaled,
    trial_rows,
)
from bochner.selection.linear import fit_linear
from bochner.selection.metric_learning import (
    LearnedMetric,
)
from bochner.selection.policy import POLICY
from bochner.selection.problem import Problem
from bochner.selection.sizes import (
    SizedMetric,
    grids,
    n_features,
    n_trial_features,
)

EXCLUDED = "the arguments exclude it"
NO_TIME = "the time limit left no time for it"
LEADS = "was clearly better in a first look"
ON_REQUEST = "classes have it on request"
NO_BINS = "the columns keep their common unit, for which no bins are learned"


def why_no_map(problem: Problem, n_mixed: int) -> str | None:
    """Reason why bins cannot have a linear map of `n_mixed` numeric columns; None if
    they can.
    """
    least, most = POLICY.rows_for_full_learning, POLICY.most_raced
    if not least <= problem.n_rows <= most:
        return (
            f"for bins it needs {least:,} to {most:,} rows, and there are "
            f"{problem.n_rows:,}"
        )
    if problem.sparse:
        return "the rows are sparse"
    if n_mixed < 2:
        return "there are fewer than two numeric columns"
    return (
        f"there are more than {POLICY.wide} numeric columns"
        if n_mixed > POLICY.wide
        else None
    )


def why_no_halves(problem: Problem) -> str | None:
    """Reason why random halves of the columns are not tried; None if they are."""
    if problem.space.metric == "full":
        return EXCLUDED
    if problem.is_large:
        return f"there are more than {POLICY.most_raced:,} rows"
    least = POLICY.rows_for_full_learning
    few = problem.n_rows < least or problem.n_columns < 2
    return f"it needs {least:,} rows of two columns or more" if few else None


@dataclass(frozen=True)
class LearnedMetrics:
    """What was learned from the rows before candidates are fitted.

    Attributes
    ----------
    metrics : mapping of str to LearnedMetric
        By the names of what they are for.
    scaled : SizedMetric or None
        The metric for bins.
    mapped : SizedMetric or None
        That one with a linear map on top.
    halves : SizedMetric or None
        That one for grids that split each column with probability 1/2.
    common_unit : Stationary or None
        The kernel of columns that had better keep their common unit.
    n_grids : int
        Of bins at their final size.
    leader : CandidateKind or None
        A linear model of sparse rows, or bins of many rows, that were clearly better
        in a first look, so that nothing else is tried.
    """

    metrics: Mapping[str, LearnedMetric]
    scaled: SizedMetric | None = None
    mapped: SizedMetric | None = None
    halves: SizedMetric | None = None
    common_unit: Stationary | None = None
    n_grids: int = 0
    leader: CandidateKind | None = None

    @property
    def bins(self) -> list[SizedMetric]:
        """Metrics of all grids that split every column."""
        return [part for part in (self.scaled, self.mapped) if part is not None]


class CandidateKind(NamedTuple):
    """A kind of model.

    Attributes
    ----------
    name : str
    rank : int
        Simpler ones have lower ranks.
    why_not : callable (Race, LearnedMetrics) -> str or None
        Why it is not tried, by what is known and in the time that is left; None where
        it is.
    fit : callable (CandidateKind, Race, LearnedMetrics) -> CandidateResult
    """

    name: str
    rank: int
    why_not: Callable[[Race, LearnedMetrics], str | None]
    fit: Callable[[CandidateKind, Race, LearnedMetrics], CandidateResult]


def fit_bins(
    parts: Callable[[LearnedMetrics], list[SizedMetric]],
    kind: CandidateKind,
    race: Race,
    learned_metrics: LearnedMetrics,
) -> CandidateResult:
    """Fit bins whose grids are divided among some of the metrics."""
    problem = race.problem
    metrics = parts(learned_metrics)
    of_size = partial(grids, metrics, seed=problem.seed + 1)
    if (
        len(metrics) == 1
        and metrics[0] is learned_metrics.scaled
        and not problem.has_time
    ):
        # A trial that is cut short tells less than that of fewer grids
        few = problem.n_trial_grids
        return CandidateResult(kind.name, kind.rank, few, metrics[0].trial, of_size)
    n_grids = min(
        POLICY.growth * problem.trial_grids(race.validator.n_rows),
        learned_metrics.n_grids,
    )
    features = concatenate(of_size(n_grids)).draw(problem.n_columns)
    penalties = np.full((1, len(metrics)), metrics[-1].alpha)
    trial = race.validator.iterate(
        features,
        penalties,
        POLICY.traced_iterations,
        by_logistic=(
            race.validator.classes
            and problem.space.logistic
            and problem.n_rows > POLICY.simple_rows
        ),
    )
    return CandidateResult(kind.name, kind.rank, n_grids, trial, of_size)


def fit_hybrid(
    kind: CandidateKind,
    race: Race,
    learned_metrics: LearnedMetrics,
    penalties: tuple[float, float] | None = None,
) -> CandidateResult:
    """Fit bins and Fourier features side by side, each with their own metrics.

    A trial with as many Fourier features as they have in a trial of their own, and with
    more grids than tell the size of a metric, tells the ridge penalties of Fourier
    features and of bins, unless these are given.
    """
    problem = race.problem
    learned = learned_metrics.metrics["fourier"]
    kernel = Gaussian(float(np.exp(-learned.sizes[0])))
    few = n_trial_features(problem)
    rows = trial_rows(race)
    least = min(
        POLICY.hybrid_growth * problem.trial_grids(rows.n_rows),
        learned_metrics.n_grids,
    )
    most = problem.space.n_components or max(
        2, min(POLICY.hybrid_features, stored_within_limit(problem.split.n_rows))
    )

    def of_size(n_grids: int) -> Maps:
        D = few if n_grids <= least < learned_metrics.n_grids else most
        waves = FourierFeatures(kernel, D, random_state=problem.seed + 3)
        smooth = MetricFeatures(learned.metric, waves)
        return [(1.0, smooth), *grids(learned_metrics.bins, n_grids, problem.seed + 1)]

    factors = zip(*POLICY.hybrid_alphas, strict=True)
    smooth, rough = (problem.penalties(each)[:, 0] for each in factors)
    pairs = [penalties] if penalties else list(np.broadcast(smooth, rough))
    tried = np.array([[a] + [b] * len(learned_metrics.bins) for a, b in pairs])
    both = concatenate(of_size(least)).draw(problem.n_columns)
    trial = rows.iterate(both, tried, POLICY.traced_iterations, POLICY.near)
    return CandidateResult(kind.name, kind.rank, least, trial, of_size)


def _why_not_linear(race: Race, learned_metrics: LearnedMetrics) -> str | None:
    """Not if another map, metric or size was requested."""
    space = race.problem.space
    if (space.features, space.metric, space.n_components) != ("auto", "auto", None):
        return EXCLUDED
    if race.problem.has_sparse_linear:
        return None
    if learned_metrics.common_unit is not None:
        return f"there are more than {POLICY.wide} columns of a common unit"
    return NO_TIME if learned_metrics.bins and not race.problem.has_time else None


def _why_no_bins(race: Race, learned_metrics: LearnedMetrics) -> str | None:
    """Not for numbers, of which bins stand beside Fourier features."""
    if race.problem.space.features in ("fourier", "hybrid"):
        return EXCLUDED
    if learned_metrics.scaled is None:
        return NO_BINS
    beside = (
        _why_not_hybrid(race, learned_metrics) is None
        and not race.validator.is_classifier
    )
    return "its bins stand beside Fourier features in another" if beside else None


def _why_not_scaled(race: Race, learned_metrics: LearnedMetrics) -> str | None:
    """Not if a linear map was requested and learned."""
    asked = race.problem.space.metric == "full" and learned_metrics.mapped is not None
    return EXCLUDED if asked else _why_no_bins(race, learned_metrics)


def _why_not_mapped(race: Race, learned_metrics: LearnedMetrics) -> str | None:
    why = _why_no_bins(race, learned_metrics)
    if why or learned_metrics.mapped is not None:
        return why
    if race.problem.space.metric == "ard":
        return EXCLUDED
    assert learned_metrics.scaled is not None
    return why_no_map(race.problem, learned_metrics.scaled.learned.n_mixed) or NO_TIME


def _why_not_halves(race: Race, learned_metrics: LearnedMetrics) -> str | None:
    why = _why_no_bins(race, learned_metrics)
    if why or learned_metrics.halves is not None:
        return why
    return why_no_halves(race.problem) or NO_TIME


def _why_not_fourier(race: Race, learned_metrics: LearnedMetrics) -> str | None:
    """If bins apply too, only while enough time is left."""
    if race.problem.space.features not in ("auto", "fourier"):
        return EXCLUDED
    has_time = "fourier" in learned_metrics.metrics and (
        not learned_metrics.bins or race.problem.has_time
    )
    return None if has_time else NO_TIME


def _why_not_isotropic(race: Race, learned_metrics: LearnedMetrics) -> str | None:
    """Not of numbers, nor of enough rows of classes, whose columns are in different
    units, if lengthscales were learned for them.
    """
    problem = race.problem
    if problem.space.metric != "auto":
        return EXCLUDED
    learned = (
        "fourier" in learned_metrics.metrics
        and learned_metrics.common_unit is None
        and (problem.is_fully_learned or not race.validator.is_classifier)
    )
    if learned and not share_unit(problem.validator.fitted, problem.column_units):
        return (
            "the columns are in different units, and lengthscales of each were learned"
        )
    return _why_not_fourier(race, learned_metrics)


def _why_not_hybrid(race: Race, learned_metrics: LearnedMetrics) -> str | None:
    """If requested; or for numbers with time left."""
    problem = race.problem
    if problem.space.features != "auto":
        return None if problem.space.features == "hybrid" else EXCLUDED
    if race.validator.is_classifier:
        return ON_REQUEST
    if not learned_metrics.bins and learned_metrics.common_unit is not None:
        return NO_BINS
    if (
        not learned_metrics.bins
        or "fourier" not in learned_metrics.metrics
        or not problem.has_time
    ):
        return NO_TIME
    return None


LINEAR = CandidateKind("linear model", -1, _why_not_linear, fit_linear)
FOURIER = CandidateKind(
    "Fourier features, learned lengthscales", 1, _why_not_fourier, fit_scaled
)
BINS_ALONE = CandidateKind(
    "random binning, learned lengthscales",
    2,
    _why_not_scaled,
    partial(fit_bins, lambda learned_metrics: learned_metrics.bins[:1]),
)
HYBRID = CandidateKind(
    "Fourier features and random binning", 4, _why_not_hybrid, fit_hybrid
)
CANDIDATES = (
    HYBRID,
    LINEAR,
    FOURIER,
    CandidateKind("one lengthscale", 0, _why_not_isotropic, fit_isotropic),
    CandidateKind(
        "random binning, learned lengthscales and linear map",
        3,
        _why_not_mapped,
        partial(fit_bins, lambda learned_metrics: learned_metrics.bins),
    ),
    BINS_ALONE,
    CandidateKind(
        "random binning, random halves of the columns",
        2,
        _why_not_halves,
        partial(
            fit_bins,
            lambda learned_metrics: (
                [learned_metrics.halves] if learned_metrics.halves else []
            ),
        ),
    ),
)


def candidates(race: Race, learned_metrics: LearnedMetrics) -> list[CandidateKind]:
    """Candidates that are still to be fitted.

    The race notes why others are not tried. Of many sparse columns only a linear model
    is, and where a kind was clearly better in a first look only that one.
    """
    fitted = [entry.rank for entry in race.entries]
    others = [kind for kind in CANDIDATES if kind.rank not in fitted]
    leader = learned_metrics.leader
    if race.problem.is_sparse_and_wide or leader is not None:
        why = WIDE if leader is None else f"{leader.name} {LEADS}"
        leader = leader or LINEAR
        race.not_tried.update({kind.name: why for kind in others if kind != leader})
        return [kind for kind in others if kind == leader]
    reasons = [(kind, kind.why_not(race, learned_metrics)) for kind in others]
    race.not_tried.update(
        {kind.name: why for kind, why in reasons if why and why != EXCLUDED}
    )
    return [kind for kind, why in reasons if why is None]


def features_that_pay(race: Race, entry: CandidateResult) -> int:
    """Number of Fourier features of the final model: two or four times as many if
    doubling them paid.

    A time limit makes them fewer.
    """
    problem = race.problem
    validator = race.screened
    D = n_features(problem)
    few = problem.n_rows < POLICY.rows_a_feature * D
    if problem.space.n_components is not None or few:
        return D
    half = concatenate(entry.of_size(max(entry.size // 2, 1))).draw(problem.n_columns)
    trial = validator.solve(half, np.array([entry.trial.share]), None)
    before = validator.average(trial.losses)
    after = validator.average(entry.losses)
    if after >= before:
        return max(entry.size, D // 2)
    factor = 2 ** sum(after <= pays * before for pays in POLICY.pays)
    most = max(int(np.sqrt(gram_work(POLICY.gram_seconds) / problem.n_rows)), D)
    size = problem.n_rows, problem.n_columns, problem.n_outputs
    timed = problem.budget.stage("solution").n_components(*size)
    return within_limit(
        int(min(D * factor, POLICY.most_features, most, timed)), problem.n_outputs
    )
