"""Ridge regression by the moments of all rows and their factorisation, or that of the
kernel matrix of few rows.

Predictions for rows by models that have not seen them follow exactly from the same
factorisation.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats
from bochner.blocks import SAMPLE_ROWS
from bochner.data.array_source import ArraySource
from bochner.data.weights import draw_rows
from bochner.design.design import Design
from bochner.design.moments import Moments
from bochner.estimators.ridge.out_of_sample import (
    Influence,
    LinearPredictor,
    OutOfSample,
    UnseenRows,
    distinct_numbers,
)
from bochner.estimators.ridge.ridge_problem import (
    RidgeProblem,
    RidgeSolution,
    choose_penalty_by,
)
from bochner.features import LinearFeatures
from bochner.features.leaves import leaves
from bochner.selection.policy import POLICY
from bochner.selection.validation import HeldOutPredictions
from bochner.solvers.factors import (
    DualFactor,
    DualLeaveOneOut,
    FeatureFactor,
    LeaveOneOut,
    PrimalLeaveOneOut,
    factorise,
)

# Rows that calibrate, twice which tell the scale of errors, and their number times that
# of pairs of features
CALIBRATING_ROWS, SCORED_WORK = (2_048, 10_000), 1 << 35
# Scores of all outputs, beyond which fewer rows are scored
SCORED_VALUES, FEWEST_SCORED = 1 << 20, 512
# Share of the rows that are left out one at a time, and the fewest of them
EVALUATED_SHARE, FEWEST_EVALUATED = 0.05, 200
LEFT_OUT, HELD_OUT = "rows left out one at a time", "validation rows"
MOST_DIRECTIONS = 1 << 23  # numbers, 64 MB
LEAST_LEFT = 1e-9  # of the weight of a row beside its leverage


def solve_directly(
    design: Design,
    problem: RidgeProblem,
    moments: Moments | None = None,
    overwrite: bool = True,
) -> RidgeSolution:
    """Solve by a factorisation.

    Parameters
    ----------
    moments : Moments, optional
        Of all rows, of which those of the design, all or some of them, are scored; by
        default those of the design.
    overwrite : bool, default=True
        Whether the moments may be lost, to save memory.
    """
    factor = factorise(design, problem.n_alphas, moments, overwrite)
    needs = problem.needs
    by_gcv = problem.criterion == "gcv"
    loo: LeaveOneOut | None = None
    if (problem.is_open and not by_gcv) or (
        needs.out_of_sample and not needs.observations
    ):
        loo = (
            DualLeaveOneOut(factor)
            if isinstance(factor, DualFactor)
            else scored_rows(design, factor, problem)
        )
    score = factor.gcv if by_gcv or loo is None else loo
    alpha, alphas, scores = choose_penalty_by(score, problem.alphas, factor)
    predictions = calibration = unseen = None
    if needs.out_of_sample and needs.observations:
        rows = OutOfSample.of(design.source, problem.seed, problem.held_out)
        # Of observations held out, if not too few; of some of many, drawn by weight
        among = np.arange(len(rows.row))
        if problem.held_out is not None and rows.calibrating.sum() >= SAMPLE_ROWS // 2:
            among = np.flatnonzero(rows.calibrating)
        drawn, factors = draw_rows(
            rows.weight[among], SAMPLE_ROWS, np.random.default_rng(problem.seed)
        )
        numbers = among[drawn]
        predicted = left_out(design, factor, alpha, rows, numbers)
        predictions = rows.held_out(numbers, predicted, factors)
        if needs.error_scale:
            calibration = calibrate_directly(design, factor, alpha, rows)
    elif loo is not None and needs.out_of_sample:
        scored = (
            loo.design
            if isinstance(loo, PrimalLeaveOneOut)
            else design.counted().distinct()
        )
        predictions = HeldOutPredictions(
            loo.predict(alpha), loo.y, loo.weight, scored.source.whole().X
        )
    coef = factor.coef(alpha).astype(design.dtype)
    if needs.evaluated and not problem.budget.is_over:
        unseen = _evaluated(design, factor, alpha, problem)
    return RidgeSolution(
        design.features,
        coef,
        factor.intercept(coef),
        alpha,
        alphas,
        scores,
        predictions,
        calibration=calibration,
        unseen=unseen,
    )


def _evaluated(
    design: Design, factor: FeatureFactor, alpha: float, problem: RidgeProblem
) -> UnseenRows:
    """Some distinct rows, each left out by itself: those that the map was not
    learned from, if it was by others.

    Without row i of weight w the value at features z is f(z) - w k(z, z_i) (y_i -
    f(z_i)) / (1 - w k(z_i, z_i)), with k(z, z') = 1 / W + (z - mean)'(G + alpha I)^-1
    (z' - mean) in the notation of the factorisation.
    """
    source = design.source
    if not all(
        isinstance(leaf.features, LinearFeatures) for leaf in leaves(design.features)
    ):
        source = problem.validating(source, POLICY.fewest_evaluated)
    size = n_evaluated(factor.n_rows, design.features.n_features_out, problem)
    rows, counts = _distinct_rows(design, source, size, problem.seed)
    Z, y, weight = rows.whole()
    coef, intercept = factor.solve(alpha)
    U = Z.astype(np.float64) - factor.feature_mean
    V = factor.applied(alpha, np.ascontiguousarray(U.T)).T
    one_minus_leverage = 1 - weight * (1 / factor.weight + np.einsum("ij,ij->i", U, V))
    errors = (y - U @ coef - factor.target_mean) / np.maximum(
        one_minus_leverage, LEAST_LEFT
    )[:, np.newaxis]
    return UnseenRows(
        rows.of(ArraySource(rows.source.whole().X, y, counts)),
        [LinearPredictor(coef, intercept)],
        np.zeros(len(y), np.intp),
        Influence(
            V,
            1 / factor.weight - V @ factor.feature_mean,
            weight[:, np.newaxis] * errors,
        ),
        LEFT_OUT if source is design.source else HELD_OUT,
    )


def n_evaluated(n_rows: int, n_features: int, problem: RidgeProblem) -> int:
    """Rows whose influence is found for a small share of what the solution takes."""
    most = min(
        max(int(EVALUATED_SHARE * n_rows), FEWEST_EVALUATED),
        max(MOST_DIRECTIONS // n_features, 2),
    )
    return min(problem.needs.evaluated, most)


def scored_rows(
    design: Design, factor: FeatureFactor, problem: RidgeProblem
) -> PrimalLeaveOneOut:
    """Leave-one-out errors of rows held out, if not too few; of some of many, drawn by
    weight; of equal ones as one.

    Under a short time limit they are fewer. All rows of equal inputs are left out
    together, those that were not drawn too.
    """
    source = problem.validating(design.source)
    usual = min(SAMPLE_ROWS, max(SCORED_VALUES // source.n_outputs, FEWEST_SCORED))
    few = int(problem.budget.work_share * usual)
    size = source.n_rows if problem.criterion == "loo" else few
    rows, counts = _distinct_rows(design, source, size, problem.seed)
    return PrimalLeaveOneOut(rows, factor, counts)


def _distinct_rows(
    design: Design, source: ArraySource, size: int, seed: int
) -> tuple[Design, Floats]:
    """Some distinct rows of a source, drawn by the weight of all their copies, which
    they have, seen through the map of a design; and how much they count.
    """
    distinct, _ = source.merged(source.first_duplicates(source.row_hashes()), most=1.0)
    drawn, factors = draw_rows(distinct.weights, size, np.random.default_rng(seed))
    rows = distinct.take(drawn)
    return Design(rows, design.features, design.dtype), rows.weights * factors


def calibrate_directly(
    design: Design, factor: FeatureFactor, alpha: float, rows: OutOfSample
) -> OutOfSample:
    """Leave-one-out predictions of observations that calibrate, and of those from
    which the error scale is learned.

    Parameters
    ----------
    design : Design
        Of the rows.
    factor : FeatureFactor
        Of all of them.
    alpha : float
    rows : OutOfSample
    """
    rows = rows.all_calibrating() if rows.few else rows
    rng = np.random.default_rng(rows.seed)
    size = int(
        np.clip(SCORED_WORK // design.features.n_features_out**2, *CALIBRATING_ROWS)
    )
    calibrating, _ = draw_rows(rows.calibrating, size, rng)
    others, _ = draw_rows(~rows.calibrating, 2 * size, rng)
    drawn = np.concatenate([calibrating, others])
    predicted = np.full(rows.targets.shape, np.nan)
    predicted[drawn] = left_out(design, factor, alpha, rows, drawn)
    return replace(rows, predicted=predicted)


def left_out(
    design: Design,
    factor: FeatureFactor,
    alpha: float,
    rows: OutOfSample,
    numbers: NDArray,
) -> Floats:
    """Leave-one-out predictions of some of the observations, (m, K), exact."""
    if isinstance(factor, DualFactor):
        number = distinct_numbers(design.source)[rows.row[numbers]]
        targets = rows.targets[numbers]
        return targets - DualLeaveOneOut(factor).errors_of_parts(
            alpha, number, targets, rows.weight[numbers]
        )
    observed = Design(rows.rows_of(numbers), design.features, design.dtype)
    return PrimalLeaveOneOut(observed, factor).predict(alpha)
