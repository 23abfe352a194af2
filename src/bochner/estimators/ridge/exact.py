"""Kernel ridge regression by the kernel matrix of all rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bochner.data.array_source import ArraySource, Block
from bochner.data.weights import draw_rows
from bochner.design.design import Design
from bochner.estimators.ridge.direct import solve_directly
from bochner.estimators.ridge.error_scale import CalibrationRows, distinct_numbers
from bochner.estimators.ridge.problem import SCORED_ROWS, RidgeProblem, RidgeSolution, choose_penalty_by
from bochner.features.nystroem import exact_map
from bochner.selection.validation import HeldOutPredictions, LeftOut
from bochner.solvers.exact import ExactSolution, centred_kernel, solve_exact
from bochner.solvers.factors import DualLeaveOneOut, KernelFactor, errors_of_parts
from bochner.solvers.line_search import Score

EXACT_ROWS = 2048


def solve_exactly(design: Design, problem: RidgeProblem) -> RidgeSolution:
    """Solve by the kernel matrix of all rows; its map has exact kernel values as features.

    What is open is chosen on all distinct rows, or 2,048 of more, by the leave-one-out errors of an exact machine of
    these: like the variance of noise, which it stands for, it is no matter of the number of rows. Of 2,048 and less
    "gcv" is what it says.
    """
    counted, needs = design.counted(), problem.needs
    source = counted.source.distinct()
    distinct = source.whole()
    X, y, weight = distinct
    features = exact_map(design.features).fit(X)
    alpha, alphas, scores = _alpha(counted, source, problem)
    rows, factors = _scored_rows(design, source, problem) if needs.out_of_sample else (None, 1.0)
    kernel_rows = Design(source, features, design.dtype).dense
    found = solve_exact(kernel_rows, distinct, alpha, problem.tol, problem.seed, rows)
    predictions = calibration = None
    if rows is not None and found.errors is not None and needs.observations:
        calibration, predictions = _of_observations(design, problem, distinct, rows, factors, found)
    elif rows is not None and found.errors is not None:
        left_out = LeftOut(X[rows], weight[rows])
        predictions = HeldOutPredictions(y[rows] - found.errors, y[rows], left_out.weight * factors, left_out)
    elif rows is not None and design.features.is_dense:
        same = replace(problem, alpha=alpha, needs=needs._replace(error_scale=False))
        predictions = solve_directly(design, same).held_out_predictions
    path = alpha, alphas, scores, predictions, found.n_iter, found.residual
    return RidgeSolution(features, found.coef, found.intercept, *path, calibration if needs.error_scale else None)


def _scored_rows(
    design: Design, distinct: ArraySource, problem: RidgeProblem
) -> tuple[NDArray[np.intp], NDArray | float]:
    """Some distinct rows, of validation rows if these are not too few, and factors on their weights."""
    among = np.arange(distinct.n_rows)
    if problem.held_out is not None and problem.held_out.sum() >= SCORED_ROWS // 2:
        hashes = design.source.take(np.flatnonzero(problem.held_out)).row_hashes()
        found = np.flatnonzero(np.isin(distinct.row_hashes(), hashes))
        among = found if len(found) else among
    chosen, factors = draw_rows(distinct.weights[among], SCORED_ROWS, np.random.default_rng(problem.seed))
    return among[chosen], 1.0 if factors is None else factors


def _of_observations(
    design: Design,
    problem: RidgeProblem,
    distinct: Block,
    scored: NDArray[np.intp],
    scored_factors: NDArray | float,
    found: ExactSolution,
) -> tuple[CalibrationRows, HeldOutPredictions]:
    """Leave-one-out predictions of the observations that some of the distinct rows stand for."""
    rows, n, K = CalibrationRows.of(design.source, problem.seed, problem.held_out), *distinct.y.shape
    rows = rows.judged_by_all() if rows.few else rows
    errors, left, factors = np.full((n, K), np.nan), np.ones(n), np.ones(n)
    errors[scored], left[scored], factors[scored] = found.errors, found.left, scored_factors
    number = distinct_numbers(design.source)[rows.observations.row]
    share, deviation = rows.weight / distinct.weight[number], rows.targets - distinct.y[number]
    rows = rows.with_predictions(rows.targets - errors_of_parts(errors[number], left[number], deviation, share))
    some = np.flatnonzero(np.isfinite(rows.predicted).all(axis=1))
    return rows, rows.held_out(some, rows.predicted[some], factors[number[some]])


def _alpha(counted: Design, source: ArraySource, problem: RidgeProblem) -> tuple[float, NDArray, NDArray | None]:
    """The ridge penalty, those that were tried, and their scores."""
    if not problem.is_open:
        assert problem.alphas is not None
        return float(problem.alphas[0]), problem.alphas, None
    rows, factors = draw_rows(source.weights, EXACT_ROWS, np.random.default_rng(problem.seed))
    X, y, weight = source.take(rows).whole()
    sample = Design(source, exact_map(counted.features).fit(X)).dense
    factor = KernelFactor(centred_kernel(sample, X, weight), y, weight, problem.n_alphas)
    score: Score = DualLeaveOneOut(factor, None if factors is None else weight * factors)
    if problem.criterion == "gcv" and len(rows) == source.n_rows:
        factor.merge(counted)
        score = factor.gcv
    return choose_penalty_by(score, problem.alphas, factor)
