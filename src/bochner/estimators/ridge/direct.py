"""Ridge regression of an estimator by the moments of all rows and their factorisation."""

from __future__ import annotations

import numpy as np

from bochner.data.draws import draw_rows
from bochner.data.sources import ArraySource
from bochner.design import Design
from bochner.estimators.ridge.spread import Rows
from bochner.estimators.ridge.spread_direct import spread_directly
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
    held_out_predictions = None
    if task.calibrated:
        held_out_predictions = HeldOutPredictions(loo.predict(best), loo.y, loo.weight, _left_out(design, loo))
    coef = factor.coef(best).astype(design.dtype)
    spread = None
    if task.uncertain:
        spread = spread_directly(design, factor, best, Rows.of(design.source, task.seed, task.held_out))
    path = best, alphas, scores, held_out_predictions
    return Fitted(design.features, coef, factor.intercept(coef), *path, spread=spread)


def _left_out(design: Design, loo: LeaveOneOut) -> LeftOut:
    """The rows whose leave-one-out errors are known."""
    source = loo.design.source if isinstance(loo, PrimalLeaveOneOut) else design.counted().distinct().source
    X, _, weight = source.whole()
    return LeftOut(X, weight)


def _scored(design: Design, factor: FeatureFactor, task: RidgeTask) -> PrimalLeaveOneOut:
    """Leave-one-out errors of rows held out, if not too few; of some of many, drawn by weight; of equal ones as one."""
    source, held_out = design.source, task.held_out
    if held_out is not None and held_out.sum() >= SCORED_ROWS // 2:
        source = source.take(np.flatnonzero(held_out))
    if task.alpha == "loo" and design.source.n_rows > SCORED_ROWS:
        return PrimalLeaveOneOut(Design(source, design.features, design.dtype), factor)
    rows, factors = draw_rows(source.weights, SCORED_ROWS, np.random.default_rng(task.seed))
    some = ArraySource(*source.take(rows).whole())
    first_duplicate = some.first_duplicates(some.row_hashes())
    distinct, leads = some.merged(first_duplicate, most=1.0)
    counts = None
    if factors is not None:
        counts = np.bincount(first_duplicate, some.weights * factors, len(rows))[leads]
    return PrimalLeaveOneOut(Design(distinct, design.features, design.dtype), factor, counts)
