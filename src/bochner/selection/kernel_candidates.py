"""Candidates of one kernel, exact or by Fourier features: one lengthscale, or learned
ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from bochner.features import FourierFeatures
from bochner.features.base import FeatureMap
from bochner.features.metric import Metric, MetricFeatures
from bochner.features.nystroem import KernelRows
from bochner.kernels import Gaussian, Kernel, Stationary
from bochner.kernels.catalogue import NAMED
from bochner.selection.comparison import CandidateResult, Maps, Race
from bochner.selection.exact import validate_exactly
from bochner.selection.few_rows import choose_for_few
from bochner.selection.lengthscale import choose_kernel
from bochner.selection.policy import POLICY
from bochner.selection.problem import Problem
from bochner.selection.sizes import n_features, n_trial_features
from bochner.selection.validation import Validator
from bochner.solvers.line_search import Tried, walk_downhill

if TYPE_CHECKING:
    from bochner.selection.candidates import CandidateKind, LearnedMetrics


def isotropic(problem: Problem) -> Stationary:
    """The kernel with one lengthscale for all columns, or for all in their common
    unit.
    """
    space = problem.space
    fitted = problem.validator.fitted
    way = space.kernel, problem.column_units, space.alphas, problem.seed
    return choose_kernel(fitted, *way, budget=problem.trials)


def losses_of_one_lengthscale(
    problem: Problem, kernel: Kernel | None, alpha_per_weight: float
) -> NDArray:
    """Validation losses of one lengthscale for all columns, shape (n,).

    They are those of the exact kernel with its ridge penalty where leave-one-out errors
    have chosen both; else, as where the user splits the rows, those of Fourier features
    with the penalty that is best for the validation rows.
    """
    if kernel is not None:
        kernel_rows = KernelRows(kernel)
        return validate_exactly(problem.validator, kernel_rows, alpha_per_weight).losses
    features = FourierFeatures(
        isotropic(problem), n_features(problem), random_state=problem.seed + 1
    ).draw(problem.n_columns)
    shares = np.array(POLICY.shares)
    return problem.validator.solve(features, shares, problem.alphas).losses


def trial_rows(race: Race) -> Validator:
    """The rows of trials of Fourier features, alone and beside bins."""
    if race.problem.is_large:
        return race.screened.subsample(POLICY.compared_rows)
    return race.screened


def fit_fourier(
    kind: CandidateKind,
    race: Race,
    metric: Metric | None,
    make: Callable[[float], Kernel],
    starts: list[float],
) -> CandidateResult:
    """Fit Fourier features of a metric, or of the encoded columns, at the best
    lengthscale.

    Around the best of the sizes to start with it is looked for by fits with few
    features.
    """
    problem = race.problem
    D = n_features(race.problem)
    shares = np.array(POLICY.shares)
    few = n_trial_features(problem)
    more = max(D // 2, 1)

    def mapped(rows: Validator) -> Validator:
        return rows if metric is None else rows.mapped(metric)

    rows_of_trials = mapped(trial_rows(race))

    def fit(
        size: float, n_components: int, shares: NDArray, rows: Validator
    ) -> CandidateResult:
        def part(n_components: int) -> FourierFeatures:
            return FourierFeatures(
                make(size), n_components, random_state=problem.seed + 1
            )

        def of_size(n_components: int) -> Maps:
            features = part(n_components)
            return [
                (1.0, features if metric is None else MetricFeatures(metric, features))
            ]

        features = part(n_components).draw(rows.X.shape[1])
        trial = rows.solve(features, shares, problem.alphas)
        return CandidateResult(kind.name, kind.rank, n_components, trial, of_size)

    tried: Tried[float, CandidateResult] = Tried(
        lambda size: fit(size, few, shares, rows_of_trials)
    )

    def loss(size: float) -> float:
        return race.loss(tried[size])

    best = start = min(starts, key=loss)
    if problem.has_time:
        best *= 2 ** walk_downhill(
            lambda power: loss(start * 2**power), 0.0, 0.5, POLICY.most_steps
        )
    entry = replace(
        tried[best], sizes=[(-float(np.log2(size)), loss(size)) for size in tried]
    )
    nearest = int(np.argmin(np.abs(np.log(shares / entry.trial.share))))
    around = shares[max(nearest - 2, 0) : nearest + 2]
    if problem.is_large and nearest == 0:
        around = np.array([POLICY.smallest_share, *around])
    # Bins of classes have nearly their final size, beside which few features would seem
    # worse than they are
    grows = race.validator.is_classifier and not problem.is_large
    while grows and entry.size < more and problem.has_time:
        doubled = fit(best, min(2 * entry.size, more), around, rows_of_trials)
        if race.loss(doubled) > POLICY.pays[1] * race.loss(entry):
            break
        entry = replace(doubled, sizes=entry.sizes)

    def larger() -> CandidateResult:
        return fit(best, more, around, mapped(race.screened))

    # Of very many rows the trial has fewer than the penalty is for
    is_final = entry.size == more and not problem.is_large
    return entry if is_final else replace(entry, larger=larger)


def fit_exact(
    kind: CandidateKind, problem: Problem, metric: Metric | None
) -> CandidateResult | None:
    """Fit the exact kernel of the encoded columns, or of a metric of theirs, at the
    lengthscale and ridge penalty of the least leave-one-out errors; None where
    arguments, rows or time are not for that.
    """
    if not problem.may_be_exact(metric is not None):
        return None
    rows = problem.split.fit
    kernel = problem.space.kernel
    units = problem.column_units
    if metric is not None:
        rows = replace(rows, X=metric.coordinates(rows.X.astype(np.float64)))
        kernel = "gaussian" if kernel == "auto" else kernel
        units = None
    is_classifier = problem.validator.is_classifier
    way = kernel, units, None, is_classifier, rows.n_rows, problem.seed
    few = choose_for_few(rows, *way)
    if few is None:
        return None
    kernel_rows: FeatureMap = KernelRows(few.kernel)
    if metric is not None:
        kernel_rows = MetricFeatures(metric, kernel_rows)
    trial = validate_exactly(problem.validator, kernel_rows, few.alpha_per_weight)
    return CandidateResult(
        kind.name, kind.rank, trial.n_rows, trial, lambda size: [(1.0, kernel_rows)]
    )


def fit_isotropic(
    kind: CandidateKind, race: Race, learned_metrics: LearnedMetrics
) -> CandidateResult:
    """Fit one lengthscale: Gaussian or Laplacian, columns scaled or not. Few rows have
    the exact kernel, more of them Fourier features.
    """
    exact = fit_exact(kind, race.problem, None)
    if exact is not None:
        return exact
    kernel = (
        isotropic(race.problem)
        if learned_metrics.common_unit is None
        else learned_metrics.common_unit
    )

    def make(size: float) -> Kernel:
        return clone(kernel).set_params(
            lengthscale=np.asarray(kernel.lengthscale) * size
        )

    return fit_fourier(kind, race, None, make, [1.0])


def fit_scaled(
    kind: CandidateKind, race: Race, learned_metrics: LearnedMetrics
) -> CandidateResult:
    """Fit Fourier features with learned lengthscales of columns or of principal
    components.
    """
    kernel = race.problem.space.kernel
    learned = learned_metrics.metrics["fourier"]
    exact_kind = kind._replace(name="exact kernel, learned lengthscales")
    exact = fit_exact(exact_kind, race.problem, learned.metric)
    if exact is not None:
        return exact
    if learned_metrics.common_unit is not None:
        kind = kind._replace(name=kind.name + " of principal components")
    starts = list(dict.fromkeys(np.exp(-np.round(learned.sizes, 1)).tolist()))
    return fit_fourier(
        kind,
        race,
        learned.metric,
        Gaussian if kernel == "auto" else NAMED[kernel],
        starts,
    )
