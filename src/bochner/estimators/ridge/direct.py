"""Ridge regression of an estimator by the moments of all rows and their factorisation."""

from __future__ import annotations

import numpy as np

from bochner.data.draws import draw_rows
from bochner.design import Design
from bochner.estimators.ridge.spread import CalibrationRows
from bochner.estimators.ridge.spread_direct import calibrate_directly, left_out
from bochner.estimators.ridge.task import SCORED_ROWS, Fitted, RidgeTask, decide
from bochner.moments import Moments
from bochner.solvers.factors import DualFactor, FeatureFactor, PrimalFactor, has_few_rows
from bochner.solvers.leave_one_out import DualLeaveOneOut, LeaveOneOut, PrimalLeaveOneOut
from bochner.tuning.held_out import HeldOutPredictions, LeftOut


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
