"""Ridge regression of an estimator by the moments of all rows and their factorisation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bochner.data.weights import draw_rows
from bochner.design.design import Design
from bochner.design.moments import Moments
from bochner.estimators.ridge.error_scale import LEARNED_ROWS, CalibrationRows, distinct_numbers
from bochner.estimators.ridge.problem import SCORED_ROWS, Fitted, RidgeTask, decide
from bochner.selection.validation import HeldOutPredictions, LeftOut
from bochner.solvers.factors import (
    DualFactor,
    DualLeaveOneOut,
    FeatureFactor,
    LeaveOneOut,
    PrimalFactor,
    PrimalLeaveOneOut,
    has_few_rows,
)


def solve_directly(design: Design, task: RidgeTask) -> Fitted:
    """Solve by the moments of all rows and their factorisation."""
    if not has_few_rows(design):
        return solve_moments(design.moments(), design, task, overwrite=True)
    factor = DualFactor(design, _n_alphas(task))
    return _solve(factor, DualLeaveOneOut(factor), design, task)


def solve_moments(moments: Moments, design: Design, task: RidgeTask, overwrite: bool = False) -> Fitted:
    """Solve by the moments of rows, of which those of the design, all or some of them, judge.

    Parameters
    ----------
    overwrite : bool, default=False
        Whether the moments may be lost, to save memory.
    """
    factor = PrimalFactor(moments, _n_alphas(task), overwrite=overwrite, place=design.place)
    return _solve(factor, _scored(design, factor, task), design, task)


def _n_alphas(task: RidgeTask) -> int:
    """How many ridge terms are tried; two stand for a search."""
    return 2 if task.alphas is None else len(task.alphas)


def _solve(factor: FeatureFactor, loo: LeaveOneOut, design: Design, task: RidgeTask) -> Fitted:
    """Choose the ridge term, and solve."""
    best, alphas, scores = decide(factor.gcv if task.alpha == "gcv" else loo, task.alphas, factor)
    predictions = calibration = None
    if task.individual and (task.calibrated or task.uncertain):
        rows = CalibrationRows.of(design.source, task.seed, task.held_out)
        if task.calibrated:
            predictions = _observed(design, factor, best, rows, task)
        if task.uncertain:
            calibration = calibrate_directly(design, factor, best, rows)
    elif task.calibrated:
        predictions = HeldOutPredictions(loo.predict(best), loo.y, loo.weight, _left_out(design, loo))
    coef = factor.coef(best).astype(design.dtype)
    path = best, alphas, scores, predictions
    return Fitted(design.features, coef, factor.intercept(coef), *path, calibration=calibration)


def _observed(
    design: Design, factor: FeatureFactor, alpha: float, rows: CalibrationRows, task: RidgeTask
) -> HeldOutPredictions:
    """Leave-one-out predictions of observations held out, if not too few; of some of many, drawn by weight."""
    among = np.arange(len(rows.judge))
    if task.held_out is not None and rows.judge.sum() >= SCORED_ROWS // 2:
        among = np.flatnonzero(rows.judge)
    drawn, factors = draw_rows(rows.weight[among], SCORED_ROWS, np.random.default_rng(task.seed))
    some = among[drawn]
    return rows.held_out(some, left_out(design, factor, alpha, rows, some), factors)


def _left_out(design: Design, loo: LeaveOneOut) -> LeftOut:
    """The rows whose leave-one-out errors are known."""
    source = loo.design.source if isinstance(loo, PrimalLeaveOneOut) else design.counted().distinct().source
    X, _, weight = source.whole()
    return LeftOut(X, weight)


def _scored(design: Design, factor: FeatureFactor, task: RidgeTask) -> PrimalLeaveOneOut:
    """Leave-one-out errors of rows held out, if not too few; of some of many, drawn by weight; of equal ones as one.

    All rows of equal inputs are left out together, those that were not drawn too.
    """
    source, held_out = design.source, task.held_out
    if held_out is not None and held_out.sum() >= SCORED_ROWS // 2:
        source = source.take(np.flatnonzero(held_out))
    size = source.n_rows if task.alpha == "loo" else SCORED_ROWS
    rows, factors = draw_rows(source.weights, size, np.random.default_rng(task.seed))
    counts = np.zeros(source.n_rows)
    counts[rows] = source.weights[rows] * (1.0 if factors is None else factors)
    hashes = source.row_hashes()
    if len(rows) < source.n_rows:
        copies = np.flatnonzero(np.isin(hashes, hashes[rows]))
        source, hashes, counts = source.take(copies), hashes[copies], counts[copies]
    first_duplicate = source.first_duplicates(hashes)
    distinct, leads = source.merged(first_duplicate, most=1.0)
    counts = np.bincount(first_duplicate, counts, len(counts))[leads]
    return PrimalLeaveOneOut(Design(distinct, design.features, design.dtype), factor, counts)


CALIBRATING_ROWS, SCORED_WORK = (2_048, 10_000), 1 << 35  # rows that are scored, and their number times that of pairs
SKETCH, LARGEST_LEVERAGE = 32, 0.9


def calibrate_directly(design: Design, factor: FeatureFactor, alpha: float, rows: CalibrationRows) -> CalibrationRows:
    """Predict rows that calibrate, left out one by one, and others that a scale may be learned from.

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
        rows = rows.judged_by_all()
    rng = np.random.default_rng(rows.seed)
    size = int(np.clip(SCORED_WORK // design.features.n_features_out**2, *CALIBRATING_ROWS))
    judge, others = _some(rows.judge, size, rng), _some(~rows.judge, LEARNED_ROWS, rng)
    exact = np.concatenate([judge, others]) if isinstance(factor, DualFactor) else judge
    predicted = np.full(rows.targets.shape, np.nan)
    predicted[exact] = left_out(design, factor, alpha, rows, exact)
    if not few and not isinstance(factor, DualFactor):
        errors = _nearly_left_out(_of(design, rows, others), factor, alpha, rng)
        predicted[others] = rows.targets[others] - errors
    return rows.with_predictions(predicted)


def _nearly_left_out(design: Design, factor: FeatureFactor, alpha: float, rng: np.random.Generator) -> NDArray:
    """Errors of some of the rows, shape (m, K), over one less an estimate of their leverage."""
    weight, D = design.source.weights, len(factor.feature_mean)
    normal = rng.standard_normal((len(weight), SKETCH)) / np.sqrt(weight)[:, np.newaxis]
    drawn = _cross(design, factor, normal) * np.sqrt(factor.weight / weight.sum())
    V = factor.applied(alpha, drawn + np.sqrt(alpha) * rng.standard_normal((D, SKETCH)))
    coef = factor.coef(alpha)
    both = design.predict(np.hstack([coef, V]), np.concatenate([factor.intercept(coef), -factor.feature_mean @ V]))
    K = coef.shape[1]
    leverage = weight * (np.square(both[:, K:]).mean(axis=1) + 1 / factor.weight)
    errors = design.source.targets(design.source.y) - both[:, :K]
    return errors / (1 - np.minimum(leverage, LARGEST_LEVERAGE))[:, np.newaxis]


def _cross(design: Design, factor: FeatureFactor, targets: NDArray) -> NDArray[np.float64]:
    """Weighted moments of the features, about the mean of all rows, and targets of the rows, shape (D, K)."""
    total, done = np.zeros((len(factor.feature_mean), targets.shape[1])), 0
    for Z, _, weight in design.mapped():
        T = targets[done : done + len(Z)] * weight[:, np.newaxis]
        total += Z.T @ T.astype(Z.dtype)
        total -= np.outer(factor.feature_mean, T.sum(axis=0))
        done += len(Z)
    return total


def left_out(
    design: Design, factor: FeatureFactor, alpha: float, rows: CalibrationRows, some: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Leave-one-out predictions of some of the observations, (m, K), exact."""
    if isinstance(factor, DualFactor):
        own, number = rows.observations, distinct_numbers(design.source)
        targets, number = rows.targets[some], number[own.row[some]]
        return targets - DualLeaveOneOut(factor).errors_of_parts(alpha, number, targets, own.weight[some])
    return PrimalLeaveOneOut(_of(design, rows, some), factor).predict(alpha)


def _some(mask: NDArray[np.bool_], size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Numbers of some of the rows of a mask; all of them if they are no more."""
    return draw_rows(np.where(mask, 1.0, 0.0), size, rng)[0] if mask.any() else np.empty(0, np.intp)


def _of(design: Design, rows: CalibrationRows, some: NDArray[np.intp]) -> Design:
    """The design of some of the observations."""
    return Design(rows.rows_of(some), design.features, design.dtype)
