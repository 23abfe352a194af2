"""Kernel ridge regression of an estimator by the kernel matrix of all rows."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.data.array_source import ArraySource, Block
from bochner.data.weights import draw_rows
from bochner.design.design import Design
from bochner.estimators.ridge.direct import solve_directly
from bochner.estimators.ridge.error_scale import CalibrationRows, distinct_numbers
from bochner.estimators.ridge.problem import SCORED_ROWS, Fitted, RidgeTask, decide
from bochner.features.nystroem import exact_map
from bochner.selection.validation import HeldOutPredictions, LeftOut
from bochner.solvers.exact import ExactSolution, centred_kernel, solve_exact
from bochner.solvers.factors import DualLeaveOneOut, KernelFactor, errors_of_parts
from bochner.solvers.line_search import Score

EXACT_ROWS = 2048


def solve_exactly(design: Design, task: RidgeTask) -> Fitted:
    """Solve by the kernel matrix of all rows; its map has exact kernel values as features.

    What is open is chosen on all distinct rows, or 2,048 of more, by the leave-one-out errors of an exact machine of
    these: like the variance of noise, which it stands for, it is no matter of the number of rows. Of 2,048 and less
    "gcv" is what it says.
    """
    counted = design.counted()
    source = counted.source.distinct()
    distinct = source.whole()
    X, y, weight = distinct
    features = exact_map(design.features).fit(X)
    kernel_rows = Design(source, features, design.dtype).dense
    best, alphas, scores = _alpha(counted, source, task)
    seen = _seen(design, source, task) if task.calibrated else None
    rows = None if seen is None else seen.rows
    found = solve_exact(kernel_rows, distinct, best, task.tol, task.seed, rows)
    predictions = calibration = None
    if seen is not None and found.errors is not None and task.individual:
        calibration, predictions = _calibrated(design, task, distinct, seen, found)
    elif seen is not None and found.errors is not None:
        left_out = LeftOut(X[seen.rows], weight[seen.rows])
        predicted, targets = y[seen.rows] - found.errors, y[seen.rows]
        predictions = HeldOutPredictions(predicted, targets, left_out.weight * seen.factors, left_out)
    elif seen is not None and design.features.is_dense:
        predictions = solve_directly(design, replace(task, alpha=best, uncertain=False)).held_out_predictions
    path = best, alphas, scores, predictions
    calibration = calibration if task.uncertain else None
    return Fitted(features, found.coef, found.intercept, *path, found.n_iter, found.residual, calibration)


def _calibrated(
    design: Design, task: RidgeTask, distinct: Block, seen: _Seen, found: ExactSolution
) -> tuple[CalibrationRows, HeldOutPredictions]:
    """Leave-one-out predictions of the observations that some of the distinct rows stand for."""
    rows, n, K = CalibrationRows.of(design.source, task.seed, task.held_out), *distinct.y.shape
    rows = rows.judged_by_all() if rows.few else rows
    errors, left, factors = np.full((n, K), np.nan), np.ones(n), np.ones(n)
    errors[seen.rows], left[seen.rows], factors[seen.rows] = found.errors, found.left, seen.factors
    number = distinct_numbers(design.source)[rows.observations.row]
    share, deviation = rows.weight / distinct.weight[number], rows.targets - distinct.y[number]
    rows = rows.with_predictions(rows.targets - errors_of_parts(errors[number], left[number], deviation, share))
    some = np.flatnonzero(np.isfinite(rows.predicted).all(axis=1))
    return rows, rows.held_out(some, rows.predicted[some], factors[number[some]])


def _alpha(counted: Design, source: ArraySource, task: RidgeTask) -> tuple[float, NDArray, NDArray | None]:
    """The ridge term, those that were tried, and their scores."""
    given = task.alphas
    if given is not None and len(given) == 1:
        return float(given[0]), given, None
    rows, factors = draw_rows(source.weights, EXACT_ROWS, np.random.default_rng(task.seed))
    X, y, weight = source.take(rows).whole()
    sample = Design(source, exact_map(counted.features).fit(X)).dense
    factor = KernelFactor(centred_kernel(sample, X, weight), y, weight, 2 if given is None else len(given))
    score: Score = DualLeaveOneOut(factor, None if factors is None else weight * factors)
    if task.alpha == "gcv" and len(rows) == source.n_rows:
        factor.merge(counted)
        score = factor.gcv
    return decide(score, given, factor)


class _Seen(NamedTuple):
    """Numbers of distinct rows whose predictions are looked at, and factors on their weights."""

    rows: NDArray[np.intp]
    factors: NDArray | float


def _seen(design: Design, source: ArraySource, task: RidgeTask) -> _Seen:
    among = _held_out_among(design, source, task.held_out)
    chosen, factors = draw_rows(source.weights[among], SCORED_ROWS, np.random.default_rng(task.seed))
    return _Seen(among[chosen], 1.0 if factors is None else factors)


def _held_out_among(design: Design, distinct: ArraySource, held_out: NDArray | None) -> NDArray[np.intp]:
    """Numbers of the distinct rows that are among those held out, if these are not too few; else of all."""
    every = np.arange(distinct.n_rows)
    if held_out is None or held_out.sum() < SCORED_ROWS // 2:
        return every
    hashes = design.source.take(np.flatnonzero(held_out)).row_hashes()
    found = np.flatnonzero(np.isin(distinct.row_hashes(), hashes))
    return found if len(found) else every
