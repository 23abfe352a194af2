"""Ridge regression by the moments of all rows and their factorisation, or that of the
kernel matrix of few rows.

Predictions for rows by models that have not seen them follow from the same
factorisation. Those for rows that calibrate intervals are exact. Those that the scale
of errors is learned from are y - f over 1 - w h, but where there are more rows than
features the leverages h = z'(G + alpha I)^-1 z are estimates: means of (z'v)^2 over
draws v = (G + alpha I)^-1 (A'e + alpha^(1/2) e'), whose covariance is (G + alpha I)^-1
for normal e and e'.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bochner.data.array_source import ArraySource, Block
from bochner.data.weights import draw_rows
from bochner.design.design import Design
from bochner.design.moments import Moments
from bochner.estimators.ridge.interval_calibration import (
    LEARNED_ROWS,
    CalibrationRows,
    LinearPredictor,
    distinct_numbers,
)
from bochner.estimators.ridge.ridge_problem import (
    SCORED_ROWS,
    RidgeProblem,
    RidgeSolution,
    choose_penalty_by,
)
from bochner.estimators.ridge.unseen import (
    MOST_DIRECTIONS,
    Influence,
    UnseenRows,
    leave_one_out_rows,
)
from bochner.features import LinearFeatures
from bochner.features.leaves import leaves
from bochner.features.nystroem import exact_map
from bochner.selection.policy import POLICY
from bochner.selection.validation import HeldOutPredictions, LeftOut
from bochner.solvers.factors import (
    DualFactor,
    DualLeaveOneOut,
    FeatureFactor,
    KernelFactor,
    LeaveOneOut,
    PrimalFactor,
    PrimalLeaveOneOut,
    errors_of_parts,
    has_few_rows,
)
from bochner.solvers.kernel_matrix import ExactSolution, centred_kernel, solve_exact
from bochner.solvers.line_search import Score

# Rows that are scored, and their number times that of pairs
CALIBRATING_ROWS, SCORED_WORK = (2_048, 10_000), 1 << 35
# Scores of all outputs, beyond which fewer rows are scored
SCORED_VALUES, FEWEST_SCORED = 1 << 20, 512
SKETCH, LARGEST_LEVERAGE = 32, 0.9
# Of an exact machine, whose leave-one-out errors choose the ridge penalty
EXACT_ROWS = 2048
# Share of the rows that are left out one at a time, and the fewest of them
EVALUATED_SHARE, FEWEST_EVALUATED = 0.05, 200
LEFT_OUT, HELD_OUT = "rows left out one at a time", "validation rows"


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
    factor: FeatureFactor
    if moments is None and has_few_rows(design):
        factor = DualFactor(design, problem.n_alphas)
    else:
        moments = design.moments() if moments is None else moments
        factor = PrimalFactor(
            moments, problem.n_alphas, overwrite=overwrite, place=design.place
        )
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
    predictions = calibration = None
    if needs.observations and (needs.out_of_sample or needs.error_scale):
        rows = CalibrationRows.of(design.source, problem.seed, problem.held_out)
        if needs.out_of_sample:
            predictions = _observed(design, factor, alpha, rows, problem)
        if needs.error_scale:
            calibration = calibrate_directly(design, factor, alpha, rows)
    elif loo is not None and needs.out_of_sample:
        predictions = HeldOutPredictions(
            loo.predict(alpha), loo.y, loo.weight, _left_out(design, loo)
        )
    coef = factor.coef(alpha).astype(design.dtype)
    solution_fields = coef, factor.intercept(coef), alpha, alphas, scores, predictions
    unseen = (
        _evaluated(design, factor, alpha, problem)
        if needs.evaluated and not problem.budget.is_over
        else None
    )
    return RidgeSolution(
        design.features, *solution_fields, calibration=calibration, unseen=unseen
    )


def _evaluated(
    design: Design, factor: FeatureFactor, alpha: float, problem: RidgeProblem
) -> UnseenRows:
    """Some distinct rows, each left out by itself: those that the map was not
    learned from, if it was by others.
    """
    source = design.source
    name = LEFT_OUT
    held_out = problem.held_out
    if (
        held_out is not None
        and held_out.sum() >= POLICY.evaluated_rows[0]
        and not _is_linear(design)
    ):
        source = source.take(np.flatnonzero(held_out))
        name = HELD_OUT
    rows, counts = _with_copies(
        source,
        _n_evaluated(factor.n_rows, design.features.n_features_out, problem),
        problem.seed,
    )
    return leave_one_out_rows(
        Design(rows, design.features, design.dtype), factor, alpha, counts, name
    )


def _observed(
    design: Design,
    factor: FeatureFactor,
    alpha: float,
    rows: CalibrationRows,
    problem: RidgeProblem,
) -> HeldOutPredictions:
    """Leave-one-out predictions of observations held out, if not too few; of some of
    many, drawn by weight.
    """
    among = np.arange(len(rows.calibrating))
    if problem.held_out is not None and rows.calibrating.sum() >= SCORED_ROWS // 2:
        among = np.flatnonzero(rows.calibrating)
    drawn, factors = draw_rows(
        rows.weight[among], SCORED_ROWS, np.random.default_rng(problem.seed)
    )
    observation_numbers = among[drawn]
    return rows.held_out(
        observation_numbers,
        left_out(design, factor, alpha, rows, observation_numbers),
        factors,
    )


def _left_out(design: Design, loo: LeaveOneOut) -> LeftOut:
    """The rows whose leave-one-out errors are known."""
    source = (
        loo.design.source
        if isinstance(loo, PrimalLeaveOneOut)
        else design.counted().distinct().source
    )
    X, _, weight = source.whole()
    return LeftOut(X, weight)


def _is_linear(design: Design) -> bool:
    return all(
        isinstance(leaf.features, LinearFeatures) for leaf in leaves(design.features)
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

    Below a time limit of one second they are fewer in proportion, for many outputs of
    two. All rows of equal inputs are left out together, those that were not drawn too.
    """
    source = design.source
    held_out = problem.held_out
    if held_out is not None and held_out.sum() >= SCORED_ROWS // 2:
        source = source.take(np.flatnonzero(held_out))
    seconds = problem.budget.seconds
    values = min(POLICY.timed_scores * seconds, SCORED_VALUES)
    most = SCORED_ROWS * np.clip(seconds, 0.125, 1)
    fewest = FEWEST_SCORED * np.clip(seconds / 2, 0.25, 1)
    few = int(min(most, max(values / source.n_outputs, fewest)))
    rows, counts = _with_copies(
        source, source.n_rows if problem.criterion == "loo" else few, problem.seed
    )
    return PrimalLeaveOneOut(
        Design(rows, design.features, design.dtype), factor, counts
    )


def _with_copies(
    source: ArraySource, size: int, seed: int
) -> tuple[ArraySource, NDArray[np.float64]]:
    """Some rows, drawn by weight, as distinct ones with the weight of all their
    copies; and how much they count.
    """
    rows, factors = draw_rows(source.weights, size, np.random.default_rng(seed))
    counts = np.zeros(source.n_rows)
    counts[rows] = source.weights[rows] * (1.0 if factors is None else factors)
    hashes = source.row_hashes()
    if len(rows) < source.n_rows:
        copies = np.flatnonzero(np.isin(hashes, hashes[rows]))
        source = source.take(copies)
        hashes = hashes[copies]
        counts = counts[copies]
    first_duplicate = source.first_duplicates(hashes)
    distinct, leads = source.merged(first_duplicate, most=1.0)
    return distinct, np.bincount(first_duplicate, counts, len(counts)).astype(
        np.float64
    )[leads]


def calibrate_directly(
    design: Design, factor: FeatureFactor, alpha: float, rows: CalibrationRows
) -> CalibrationRows:
    """Leave-one-out predictions of calibration rows, and of rows from which the error
    scale is learned.

    Parameters
    ----------
    design : Design
        Of the rows.
    factor : FeatureFactor
        Of all of them.
    alpha : float
    rows : CalibrationRows
    """
    few = rows.few
    if few:
        rows = rows.all_calibrating()
    rng = np.random.default_rng(rows.seed)
    size = int(
        np.clip(SCORED_WORK // design.features.n_features_out**2, *CALIBRATING_ROWS)
    )
    calibrating = _drawn_of(rows.calibrating, size, rng)
    others = _drawn_of(~rows.calibrating, LEARNED_ROWS, rng)
    exact = (
        np.concatenate([calibrating, others])
        if isinstance(factor, DualFactor)
        else calibrating
    )
    predicted = np.full(rows.targets.shape, np.nan)
    predicted[exact] = left_out(design, factor, alpha, rows, exact)
    if not few and not isinstance(factor, DualFactor):
        errors = _nearly_left_out(_design_of(design, rows, others), factor, alpha, rng)
        predicted[others] = rows.targets[others] - errors
    return rows.with_predictions(predicted)


def _nearly_left_out(
    design: Design, factor: FeatureFactor, alpha: float, rng: np.random.Generator
) -> NDArray:
    """Approximate leave-one-out errors of some rows, shape (m, K), by estimated
    leverages.
    """
    weight = design.source.weights
    D = len(factor.feature_mean)
    normal = rng.standard_normal((len(weight), SKETCH)) / np.sqrt(weight)[:, np.newaxis]
    drawn = _cross(design, factor, normal) * np.sqrt(factor.weight / weight.sum())
    V = factor.applied(alpha, drawn + np.sqrt(alpha) * rng.standard_normal((D, SKETCH)))
    coef = factor.coef(alpha)
    both = design.predict(
        np.hstack([coef, V]),
        np.concatenate([factor.intercept(coef), -factor.feature_mean @ V]),
    )
    K = coef.shape[1]
    leverage = weight * (np.square(both[:, K:]).mean(axis=1) + 1 / factor.weight)
    errors = design.source.targets(design.source.y) - both[:, :K]
    return errors / (1 - np.minimum(leverage, LARGEST_LEVERAGE))[:, np.newaxis]


def _cross(
    design: Design, factor: FeatureFactor, targets: NDArray
) -> NDArray[np.float64]:
    """Weighted moments of the features, about the mean of all rows, and targets of
    the rows, shape (D, K).
    """
    total = np.zeros((len(factor.feature_mean), targets.shape[1]))
    done = 0
    for Z, _, weight in design.mapped():
        T = targets[done : done + len(Z)] * weight[:, np.newaxis]
        total += Z.T @ T.astype(Z.dtype)
        total -= np.outer(factor.feature_mean, T.sum(axis=0))
        done += len(Z)
    return total


def left_out(
    design: Design,
    factor: FeatureFactor,
    alpha: float,
    rows: CalibrationRows,
    observation_numbers: NDArray[np.intp],
) -> NDArray[np.float64]:
    """Leave-one-out predictions of some of the observations, (m, K), exact."""
    if isinstance(factor, DualFactor):
        observations = rows.observations
        number = distinct_numbers(design.source)
        targets = rows.targets[observation_numbers]
        number = number[observations.row[observation_numbers]]
        return targets - DualLeaveOneOut(factor).errors_of_parts(
            alpha, number, targets, observations.weight[observation_numbers]
        )
    return PrimalLeaveOneOut(
        _design_of(design, rows, observation_numbers), factor
    ).predict(alpha)


def _drawn_of(
    mask: NDArray[np.bool_], size: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Numbers of some of the rows of a mask; all of them if they are no more."""
    return (
        draw_rows(np.where(mask, 1.0, 0.0), size, rng)[0]
        if mask.any()
        else np.empty(0, np.intp)
    )


def _design_of(
    design: Design, rows: CalibrationRows, observation_numbers: NDArray[np.intp]
) -> Design:
    """The design of some of the observations."""
    return Design(rows.rows_of(observation_numbers), design.features, design.dtype)


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
    alpha, alphas, scores = _alpha(counted, source, problem)
    rows, factors = (
        _drawn_rows(design, source, problem, SCORED_ROWS)
        if needs.out_of_sample
        else (None, 1.0)
    )
    few = _n_evaluated(len(y), len(y), problem)
    evaluated, evaluated_factors = (
        _drawn_rows(design, source, problem, few, POLICY.evaluated_rows[0])
        if few
        else (None, 1.0)
    )
    kernel_rows = Design(source, features, design.dtype).dense
    solution = solve_exact(
        kernel_rows, distinct, alpha, problem.tol, problem.seed, rows, evaluated
    )
    predictions = calibration = None
    if rows is not None and solution.errors is not None and needs.observations:
        calibration, predictions = _of_distinct_rows(
            design, problem, distinct, rows, factors, solution
        )
    elif rows is not None and solution.errors is not None:
        left_out = LeftOut(X[rows], weight[rows])
        predictions = HeldOutPredictions(
            y[rows] - solution.errors, y[rows], left_out.weight * factors, left_out
        )
    elif rows is not None and design.features.is_dense:
        same = replace(problem, alpha=alpha, needs=needs._replace(error_scale=False))
        predictions = solve_directly(design, same).held_out_predictions
    unseen = None
    if evaluated is not None and solution.influence is not None:
        X = X[evaluated]
        y = y[evaluated]
        weight = weight[evaluated] * evaluated_factors
        function = LinearPredictor(solution.coef, solution.intercept)
        name = LEFT_OUT
        fold = np.zeros(len(evaluated), np.intp)
        influence = Influence(*solution.influence)
        unseen = UnseenRows(
            ArraySource(X, y, weight),
            features,
            design.dtype,
            [function],
            fold,
            influence,
            name,
        )
    path = (
        features,
        solution.coef,
        solution.intercept,
        alpha,
        alphas,
        scores,
        predictions,
        solution.n_iter,
        solution.residual,
    )
    return RidgeSolution(
        *path, calibration if needs.error_scale else None, unseen=unseen
    )


def _drawn_rows(
    design: Design,
    distinct: ArraySource,
    problem: RidgeProblem,
    size: int,
    fewest: int = SCORED_ROWS // 2,
) -> tuple[NDArray[np.intp], NDArray | float]:
    """Some distinct rows, of validation rows if these are not too few, and factors
    on their weights.
    """
    among = np.arange(distinct.n_rows)
    if problem.held_out is not None and problem.held_out.sum() >= fewest:
        hashes = design.source.take(np.flatnonzero(problem.held_out)).row_hashes()
        row_numbers = np.flatnonzero(np.isin(distinct.row_hashes(), hashes))
        among = row_numbers if len(row_numbers) else among
    chosen, factors = draw_rows(
        distinct.weights[among], size, np.random.default_rng(problem.seed)
    )
    return among[chosen], 1.0 if factors is None else factors


def _of_distinct_rows(
    design: Design,
    problem: RidgeProblem,
    distinct: Block,
    scored: NDArray[np.intp],
    scored_factors: NDArray | float,
    solution: ExactSolution,
) -> tuple[CalibrationRows, HeldOutPredictions]:
    """Leave-one-out predictions of the observations that some of the distinct rows
    stand for.
    """
    rows, n, K = (
        CalibrationRows.of(design.source, problem.seed, problem.held_out),
        *distinct.y.shape,
    )
    rows = rows.all_calibrating() if rows.few else rows
    errors = np.full((n, K), np.nan)
    one_minus_leverage = np.ones(n)
    factors = np.ones(n)
    errors[scored], one_minus_leverage[scored], factors[scored] = (
        solution.errors,
        solution.one_minus_leverage,
        scored_factors,
    )
    number = distinct_numbers(design.source)[rows.observations.row]
    share = rows.weight / distinct.weight[number]
    deviation = rows.targets - distinct.y[number]
    rows = rows.with_predictions(
        rows.targets
        - errors_of_parts(errors[number], one_minus_leverage[number], deviation, share)
    )
    observation_numbers = np.flatnonzero(np.isfinite(rows.predicted).all(axis=1))
    return rows, rows.held_out(
        observation_numbers,
        rows.predicted[observation_numbers],
        factors[number[observation_numbers]],
    )


def _alpha(
    counted: Design, source: ArraySource, problem: RidgeProblem
) -> tuple[float, NDArray, NDArray | None]:
    """The ridge penalty, those that were tried, and their scores."""
    if not problem.is_open:
        assert problem.alphas is not None
        return float(problem.alphas[0]), problem.alphas, None
    rows, factors = draw_rows(
        source.weights, EXACT_ROWS, np.random.default_rng(problem.seed)
    )
    X, y, weight = source.take(rows).whole()
    sample = Design(source, exact_map(counted.features).fit(X)).dense
    factor = KernelFactor(
        centred_kernel(sample, X, weight), y, weight, problem.n_alphas
    )
    score: Score = DualLeaveOneOut(
        factor, None if factors is None else weight * factors
    )
    if problem.criterion == "gcv" and len(rows) == source.n_rows:
        factor.merge(counted)
        score = factor.gcv
    return choose_penalty_by(score, problem.alphas, factor)
