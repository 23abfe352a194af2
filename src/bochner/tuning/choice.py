"""The model chosen from the data: metric, map, size and ridge terms, on rows held out before anything is learned.

The candidates, from the simplest to the largest: Fourier features with one lengthscale for all columns; with a learned
scale for each; bins with learned scales and warps; grids on random halves of the columns; some of the grids with a
learned linear map on top; these bins and Fourier features side by side. Metrics are learned on blocks of rows, sizes
found by trials with few grids, and each candidate is fitted once at its final size on all rows but those that judge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bochner.engines.local import in_threads
from bochner.features.base import FeatureMap
from bochner.features.metric import MetricFeatures
from bochner.kernels import Stationary
from bochner.tuning import bins as binning
from bochner.tuning import dense
from bochner.tuning.bins import SizedMetric
from bochner.tuning.held_out import HeldOutPredictions
from bochner.tuning.judge import CLEAR
from bochner.tuning.learning import Schedule
from bochner.tuning.metrics import (
    MANY_ROWS,
    SOME_ROWS,
    Learned,
    Sample,
    learn_diagonal,
    learn_full,
    learn_principal,
    learning_sample,
    schedule,
)
from bochner.tuning.problem import JudgedMap, Problem, concatenate
from bochner.tuning.report import Report

WIDE = 100  # columns
AGAIN = "bins, second start"
# Simple candidates are preferred for classes; for numbers those of several parts, as waves alone err on outliers.
PREFERRED = {"squared error": -1, "log loss": 1}
GAUSSIAN_BLOCK, FEWEST_SUBSET = 384, 4
STEP_SECONDS, LEARNING_SHARE, FEWEST_STEPS = 1e-3, 0.2, 20
PATIENT_SHARE, HASTY_SHARE = 0.6, 0.4  # of a time limit that must be left for more candidates
HYBRID_FITS = 25  # of bins, which bins and Fourier features side by side may cost


@dataclass
class Choice:
    """The model that was chosen.

    Attributes
    ----------
    features : FeatureMap
        Not drawn.
    alpha : float or None
        None for Fourier features, which may be solved directly.
    n_iter : int or None
        Iterations of conjugate gradients; None where they are to be chosen on the rows held out.
    held_out_predictions : HeldOutPredictions or None
        Predictions of the rows held out.
    held_out : bool array of shape (n,)
    first_duplicate : int array of shape (n,)
        The first of the rows to fit that are equal to each; held-out ones are apart.
    loss : callable (predictions of shape (K, m)) -> float
        Mean loss of the m rows held out.
    report : Report
    alpha_per_weight : float
        Of Fourier features: the ridge term for a unit of weight.
    unmapped : str or None
        Why there is no linear map, where one was asked for.
    """

    features: FeatureMap
    alpha: float | None
    n_iter: int | None
    held_out_predictions: HeldOutPredictions | None
    held_out: NDArray
    first_duplicate: NDArray
    loss: Callable[[NDArray], float]
    report: Report
    alpha_per_weight: float = 0.0
    unmapped: str | None = None


def choose(problem: Problem) -> Choice:
    """Choose a model."""
    space = problem.space
    sample = learning_sample(problem.judge.fitted, problem.seed, 2 * problem.n_columns)
    one = _image_kernel(problem)
    with problem.stage("metric"):
        learned = _learn(problem, sample, one)
    bins = _bins(problem, sample, learned)
    if problem.is_large and bins and space.features != "hybrid":
        choice = _unjudged(problem, bins[0])
    else:
        with problem.stage("candidates"):
            _judge(problem, learned, bins, one)
        choice = _decide(problem)
    if space.metric == "full":
        choice.unmapped = _unmapped(problem, choice, learned)
    return choice


def _unmapped(problem: Problem, choice: Choice, learned: dict[str, Learned]) -> str | None:
    """Why no metric of the chosen map has a linear map, if that is so."""
    maps = getattr(choice.features, "maps", [choice.features])  # not drawn yet
    parts = [part for part in maps if isinstance(part, MetricFeatures)]
    if any(part.metric.linear_.size for part in parts):
        return None
    if problem.sparse:
        return "the rows are sparse"
    names = [name for name in learned if name != "fourier"]
    if not names or all(part.is_dense for part in parts):
        return f"{problem.report.chosen} had {problem.report.reason}"
    why = binning.why_no_map(problem, learned[names[0]].n_mixed)
    return why or "the time limit left no time for it"


def _image_kernel(problem: Problem) -> Stationary | None:
    """The isotropic kernel of many columns that had better keep their common unit, as pixels; else None."""
    wide = problem.n_columns > WIDE and not problem.sparse and problem.units is not None
    if not wide or problem.space.metric != "auto":
        return None
    with problem.stage("one lengthscale"):
        kernel = dense.isotropic(problem)
    return kernel if np.ndim(kernel.lengthscale) else None


def _learn(problem: Problem, sample: Sample, image: Stationary | None) -> dict[str, Learned]:
    """Learn the metrics of the candidates, two at a time."""
    features, seed = problem.space.features, problem.seed
    jobs = []
    if features != "fourier" and (image is None or features != "auto"):
        parts = "value" if problem.sparse else "both"
        jobs.append(("bins", "laplacian", parts))
        if not (problem.sparse or problem.is_large) and problem.n_rows >= SOME_ROWS and _mostly_numeric(sample.X):
            jobs.append((AGAIN, "laplacian", parts))
    if features in ("fourier", "hybrid") or (features == "auto" and not problem.is_large):
        kernel = dense.gradient_kernel(problem.space.kernel)
        plain = problem.sparse or problem.space.metric == "full"
        jobs.append(("fourier", kernel, "value" if plain else "both" if image is None else "principal"))
    plan = _plan(problem, sample, len(jobs))

    def learn(job: tuple[str, str, str]) -> Learned:
        name, kernel, parts = job
        if parts == "principal":
            assert image is not None
            return learn_principal(sample, 1 / np.asarray(image.lengthscale), plan, seed)
        own = plan if kernel == "laplacian" else replace(plan, block=min(plan.block, GAUSSIAN_BLOCK))
        diagonal = learn_diagonal(kernel, sample, problem.column_groups, own, seed + (name == AGAIN), parts)
        if name == "fourier" and problem.space.metric == "full" and not problem.sparse:
            return learn_full(kernel, sample, diagonal, plan, seed)
        return diagonal

    return dict(zip([job[0] for job in jobs], in_threads(learn, jobs), strict=True))


def _plan(problem: Problem, sample: Sample, n_jobs: int) -> Schedule:
    """Steps of the learning, fewer where a fifth of the time limit asks for that."""
    plan = schedule(problem.n_rows, problem.n_columns)
    each = STEP_SECONDS * (plan.block / 512) ** 2 * (1 + sample.X.shape[1] / 30) * n_jobs
    return replace(plan, steps=int(np.clip(LEARNING_SHARE * problem.budget.left / each, FEWEST_STEPS, plan.steps)))


def _mostly_numeric(X: NDArray) -> bool:
    """Whether half of the columns that vary have more than two values."""
    low, high = X.min(axis=0), X.max(axis=0)
    return bool(2 * ((low < X) & (high > X)).any(axis=0).sum() >= (high > low).sum())


def _bins(problem: Problem, sample: Sample, learned: dict[str, Learned]) -> list[SizedMetric]:
    """The metrics for bins, each in its best size, the best one first, and that one with a linear map on top last."""
    names = [name for name in learned if name != "fourier"]
    with problem.stage("sizes"):
        bins = [binning.search_size(problem, name, learned[name]) for name in names]
    bins.sort(key=lambda one: one.loss)
    if bins and problem.budget.left > PATIENT_SHARE * (problem.budget.limit or 0.0):
        mapped = binning.with_linear_map(problem, sample, bins[0])
        bins += [] if mapped is None else [mapped]
    return bins


def _unjudged(problem: Problem, one: SizedMetric) -> Choice:
    """Bins without a comparison, which would take as long as the fit itself."""
    problem.report.chosen = "bins, learned scales"
    problem.report.reason = f"the model for more than {MANY_ROWS:,} rows"
    problem.plan_grids(one.seconds, 1)
    maps, judge = binning.grids([one], problem.n_grids, problem.seed + 1), problem.judge
    alpha = one.penalty * problem.largest
    return Choice(
        concatenate(maps), alpha, None, None, problem.held_out, problem.first_duplicate, judge.mean_loss, problem.report
    )


def _judge(problem: Problem, learned: dict[str, Learned], bins: list[SizedMetric], image: Stationary | None) -> None:
    """Fit every candidate at its final size, from the simplest to the largest, and judge it."""
    space, limit = problem.space, problem.budget.limit or 0.0
    asked = space.features == "hybrid"
    hybrid = asked or (bool(bins) and space.features == "auto" and problem.n_rows <= dense.HYBRID_ROWS)
    if bins:
        problem.plan_grids(bins[0].seconds, len(bins) + hybrid)
    scaled = [one for one in bins if not one.learned.metric.linear_.size]
    if bins and space.features != "hybrid":
        if space.metric != "full" or len(bins) == len(scaled):
            binning.judge_bins(problem, "bins, learned scales", scaled)
        if len(bins) > len(scaled):
            binning.judge_bins(problem, "bins, learned scales and linear map", bins)
        many = problem.n_columns >= FEWEST_SUBSET and problem.n_rows >= SOME_ROWS
        if many and space.metric != "full" and problem.budget.left > PATIENT_SHARE * limit:
            best = scaled[0]
            halves = binning.search_size(problem, "random halves", best.learned, best.size + 1, 0.5)
            binning.judge_bins(problem, "bins, random halves of the columns", [halves])
    if space.features in ("auto", "fourier") and (not bins or problem.budget.left > PATIENT_SHARE * limit):
        families = {}
        if space.metric == "auto":
            kernel = dense.isotropic(problem) if image is None else image
            families["Fourier features, one lengthscale"] = dense.Family(None, lambda _: kernel, [1.0])
        name = "Fourier features, learned scales" + ("" if image is None else " of principal components")
        dense.judge_fourier(problem, families | {name: dense.family(problem, learned["fourier"])})
    longest = max((entry.judged.seconds for entry in problem.entries), default=0.0)
    if asked or (hybrid and problem.budget.left > max(HASTY_SHARE * limit, HYBRID_FITS * longest * (limit > 0))):
        dense.judge_hybrid(problem, learned["fourier"], bins)


def _decide(problem: Problem) -> Choice:
    """The least loss, but of several that are as good within the noise the one that is preferred."""
    judge, report = problem.judge, problem.report
    best = min(problem.entries, key=lambda entry: entry.loss)
    preferred = sorted(problem.entries, key=lambda entry: PREFERRED[report.criterion] * entry.rank)
    chosen = next(entry for entry in preferred if not _clearly_better(problem, best, entry))
    report.chosen, report.reason = chosen.name, _reason(problem, chosen, best)
    judged, maps = chosen.judged, chosen.maps
    if not judged.n_iter:
        enlarge = concatenate(dense.enlarge(problem, chosen))
        alpha = float(judged.penalty[0] / problem.screened.weight.sum())
        return Choice(
            enlarge, None, None, None, problem.held_out, problem.first_duplicate, judge.mean_loss, report, alpha
        )
    held_out_predictions, truth = None, judge.truth
    if truth.shape == judged.predicted.shape:
        held_out_predictions = HeldOutPredictions(judge.unscaled(judged.predicted), truth, judge.weight_out)
    alpha = float(judged.penalty.min()) * problem.largest
    maps = [
        (weight * judged.penalty.min() / own, part) for (weight, part), own in zip(maps, judged.penalty, strict=True)
    ]
    return Choice(
        concatenate(maps),
        alpha,
        judged.n_iter,
        held_out_predictions,
        problem.held_out,
        problem.first_duplicate,
        judge.mean_loss,
        report,
    )


def _clearly_better(problem: Problem, one: JudgedMap, other: JudgedMap) -> bool:
    """Whether one candidate's held-out losses are lower than another's by more than their noise."""
    judge, gain = problem.judge, other.judged.losses - one.judged.losses
    return judge.average(gain) > CLEAR * judge.standard_error(gain)


def _reason(problem: Problem, chosen: JudgedMap, best: JudgedMap) -> str:
    if len(problem.entries) == 1:
        return "the only candidate that the arguments leave"
    if chosen is best:
        return "the least loss on the rows held out"
    return f"within the noise of the least loss on the rows held out, that of {best.name}, and preferred"
