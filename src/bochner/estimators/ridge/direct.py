"""Ridge regression of an estimator by the moments of all rows and their factorisation."""

from __future__ import annotations

import numpy as np

from bochner.data.draws import draw_rows
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
        seen = loo if task.merges else _scored(design, factor, task, by_target=True)
        held_out_predictions = HeldOutPredictions(seen.predict(best), seen.y, seen.weight, _left_out(design, seen))
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


def _scored(design: Design, factor: FeatureFactor, task: RidgeTask, by_target: bool = False) -> PrimalLeaveOneOut:
    """Leave-one-out errors of rows held out, if not too few; of some of many, drawn by weight.

    All copies of a row are left out with it, those that were not drawn too.

    Parameters
    ----------
    by_target : bool, default=False
        Whether only rows of the same target are copies; without, equal rows are one, of their mean target.
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
    if by_target:
        values = np.column_stack([first_duplicate, source.targets(source.y)])
        _, first, group = np.unique(values, axis=0, return_index=True, return_inverse=True)
        first_duplicate = first[np.ravel(group)]
    distinct, leads = source.merged(first_duplicate, most=1.0)
    counts = np.bincount(first_duplicate, counts, len(counts))[leads]
    return PrimalLeaveOneOut(Design(distinct, design.features, design.dtype), factor, counts)
