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
from bochner.features.nystroem import exact_map
from bochner.selection.policy import POLICY
from bochner.selection.validation import HeldOutPredictions
from bochner.solvers.factors import (
    DualFactor,
    DualLeaveOneOut,
    FeatureFactor,
    KernelFactor,
    LeaveOneOut,
    PrimalLeaveOneOut,
    errors_of_parts,
    factorise,
)
from bochner.solvers.kernel_matrix import centred_kernel, solve_exact
from bochner.solvers.line_search import Score

# Rows that calibrate, twice which tell the scale of errors, and their number times that
# of pairs of features
CALIBRATING_ROWS, SCORED_WORK = (2_048, 10_000), 1 << 35
# Scores of all outputs, beyond which fewer rows are scored
SCORED_VALUES, FEWEST_SCORED = 1 << 20, 512
# Of an exact machine, whose leave-one-out errors choose the ridge penalty
EXACT_ROWS = 2048
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
    size = _n_evaluated(factor.n_rows, design.features.n_features_out, problem)
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


def _n_evaluated(n_rows: int, n_features: int, problem: RidgeProblem) -> int:
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


def solve_exactly(design: Design, problem: RidgeProblem) -> RidgeSolution:
    """Solve by the kernel matrix of all rows; its map has exact kernel values as
    features.

    What is open is chosen on all distinct rows, or 2,048 of more, by the leave-one-out
    errors of an exact machine of those rows: like the variance of noise, which it
    stands for, it is no matter of the number of rows. Of 2,048 and less "gcv" is what
    it says.
    """
    counted = design.counted()
    needs = problem.needs
    source = counted.source.distinct()
    distinct = source.whole()
    X, y, weight = distinct
    features = exact_map(design.features).fit(X)
    # The ridge penalty, those that are tried, and their scores
    alphas = problem.alphas
    scores = None
    if problem.is_open:
        rows, factors = draw_rows(
            weight, EXACT_ROWS, np.random.default_rng(problem.seed)
        )
        sample = source.take(rows).whole()
        values = Design(source, exact_map(counted.features).fit(sample.X)).dense
        factor = KernelFactor(
            centred_kernel(values, sample.X, sample.weight),
            sample.y,
            sample.weight,
            problem.n_alphas,
        )
        score: Score = DualLeaveOneOut(factor, sample.weight * factors)
        if problem.criterion == "gcv" and len(rows) == source.n_rows:
            factor.merge(counted)
            score = factor.gcv
        alpha, alphas, scores = choose_penalty_by(score, alphas, factor)
    else:
        assert alphas is not None
        alpha = float(alphas[0])
    scored = evaluated = None
    if needs.out_of_sample:
        scored, factors = _drawn_rows(design, source, problem, SAMPLE_ROWS)
    few = _n_evaluated(len(y), len(y), problem)
    if few:
        fewest = POLICY.fewest_evaluated
        evaluated, counts = _drawn_rows(design, source, problem, few, fewest)
    solution = solve_exact(
        Design(source, features, design.dtype).dense,
        distinct,
        alpha,
        problem.tol,
        problem.seed,
        scored,
        evaluated,
    )
    predictions = calibration = unseen = None
    if scored is not None and solution.errors is not None:
        if needs.observations:
            # Of the observations that some of the distinct rows stand for
            observed = OutOfSample.of(design.source, problem.seed, problem.held_out)
            observed = observed.all_calibrating() if observed.few else observed
            errors = np.full(y.shape, np.nan)
            one_minus_leverage = np.ones(len(y))
            factor_of_row = np.ones(len(y))
            errors[scored] = solution.errors
            one_minus_leverage[scored] = solution.one_minus_leverage
            factor_of_row[scored] = factors
            number = distinct_numbers(design.source)[observed.row]
            predicted = observed.targets - errors_of_parts(
                errors[number],
                one_minus_leverage[number],
                observed.targets - y[number],
                observed.weight / weight[number],
            )
            calibration = replace(observed, predicted=predicted)
            seen = np.flatnonzero(calibration.seen)
            predictions = calibration.held_out(
                seen, predicted[seen], factor_of_row[number[seen]]
            )
        else:
            targets = y[scored]
            predictions = HeldOutPredictions(
                targets - solution.errors, targets, weight[scored] * factors, X[scored]
            )
    elif scored is not None and design.features.is_dense:
        same = replace(problem, alpha=alpha, needs=needs._replace(error_scale=False))
        predictions = solve_directly(design, same).held_out_predictions
    if evaluated is not None and solution.influence is not None:
        counted_weight = weight[evaluated] * counts
        unseen_rows = ArraySource(X[evaluated], y[evaluated], counted_weight)
        unseen = UnseenRows(
            Design(unseen_rows, features, design.dtype),
            [LinearPredictor(solution.coef, solution.intercept)],
            np.zeros(len(evaluated), np.intp),
            Influence(*solution.influence),
            LEFT_OUT,
        )
    return RidgeSolution(
        features,
        solution.coef,
        solution.intercept,
        alpha,
        alphas,
        scores,
        predictions,
        solution.n_iter,
        solution.residual,
        calibration if needs.error_scale else None,
        unseen=unseen,
    )


def _drawn_rows(
    design: Design,
    distinct: ArraySource,
    problem: RidgeProblem,
    size: int,
    fewest: int = SAMPLE_ROWS // 2,
) -> tuple[NDArray, NDArray | float]:
    """Some distinct rows, of validation rows if these are not too few, and factors
    on their weights.
    """
    among = np.arange(distinct.n_rows)
    validating = problem.validating(design.source, fewest)
    if validating is not design.source:
        hashes = validating.row_hashes()
        row_numbers = np.flatnonzero(np.isin(distinct.row_hashes(), hashes))
        among = row_numbers if len(row_numbers) else among
    chosen, factors = draw_rows(
        distinct.weights[among], size, np.random.default_rng(problem.seed)
    )
    return among[chosen], factors
