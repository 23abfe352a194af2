"""Ridge regression of an estimator by conjugate gradients: choose the penalty, choose when to stop, solve."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.design import Design
from bochner.estimators.ridge.spread import CalibrationRows
from bochner.estimators.ridge.spread_iterative import Folds, Grouped, Machine, calibrate_iteratively, observed
from bochner.estimators.ridge.task import Fitted, RidgeTask, Stage
from bochner.estimators.solver import Task, by_leverage
from bochner.features.base import FeatureMap
from bochner.features.concatenate import ConcatenatedFeatures
from bochner.solvers.iterative import ROUNDING_ERROR, IterativeRidge
from bochner.tuning.held_out import HeldOut, HeldOutPredictions, HeldOutRun, alphas_to_try, choose_penalty, compared
from bochner.tuning.policy import POLICY
from bochner.tuning.split import rows_held_out

USUAL_TOL = 1e-2  # for which there are 500 iterations; a smaller one has more, in proportion to its logarithm


class Penalty(NamedTuple):
    """Ridge terms of the maps, shape (M,); those that were tried, ascending, and their scores, where there are such."""

    terms: NDArray
    alphas: NDArray
    scores: NDArray | None = None


class Stop(NamedTuple):
    """When to stop: at a relative error, or after so many iterations; and what was found without rows held out.

    `n_before` are the iterations of that, where these decide how many follow; `without` the coefficients of each fold.
    """

    tol: float
    n_iter: int
    predictions: HeldOutPredictions | None = None
    start: NDArray | None = None
    n_before: int | None = None
    without: list[NDArray] | None = None


def solve_iteratively(design: Design, task: RidgeTask) -> Fitted:
    """Solve by conjugate gradients; what the task leaves open is chosen on rows that are held out."""
    features = design.features
    searched = task.verdict is None and (task.is_open or features.learns_weights)
    smaller = compared(design, task.seed) if searched else None
    source = design.source
    design, held_out, number = _distinct(design, task)
    ridge = IterativeRidge(design, task.seed)
    held = HeldOut(ridge, task.seed, held_out) if searched or _judged_by_rows(task) else None
    judge = held if smaller is None else HeldOut(IterativeRidge(smaller, task.seed), task.seed)
    penalty = _penalty(ridge, judge, task, searched)
    if _by_leverage(ridge, penalty, task):
        ridge.draw_by_leverage(float(penalty.terms[0]))
    stop = _stop(held, penalty, task)
    found = ridge.fit(penalty.terms, stop.tol, stop.n_iter, 0 < stop.tol < ROUNDING_ERROR, stop.start)
    solution = found.solution
    if stop.tol:
        solution.warn(stop.tol)
    least, n_iter = float(penalty.terms.min()), stop.n_before or solution.n_iter
    if isinstance(features, ConcatenatedFeatures) and features.learns_weights:
        features = features.with_weights(least / penalty.terms)
    calibration, predictions = None, stop.predictions
    if task.individual and task.calibrated:
        assert held is not None
        grouped = Grouped(CalibrationRows.of(source, task.seed, task.held_out), number)
        if predictions is not None:
            predictions = observed(predictions, held.folds, grouped)
        if task.uncertain:
            folds = _folds(held, stop, penalty, n_iter)
            calibration = calibrate_iteratively(Machine(ridge, penalty.terms), grouped, folds)
            calibration = calibration.mapped(lambda coef: _of_map(coef, ridge, features))
    coef = _of_map(solution.coef.T, ridge, features)
    path = least, penalty.alphas, penalty.scores, predictions
    stage = None
    if isinstance(ridge.blocks, list):
        without = stop.without and [_of_map(one.T, ridge, features).T for one in stop.without]
        same = features is design.features or not isinstance(features, ConcatenatedFeatures)
        stage = Stage(ridge if same else ridge.weighted(features), held.folds if held else [], without)
    return Fitted(features, coef, found.intercept, *path, n_iter, solution.residual, calibration, stage)


def _of_map(coef: NDArray, ridge: IterativeRidge, features: FeatureMap) -> NDArray:
    """Coefficients of the stored features, (D, K), as those of a map, which may have learned its weights since."""
    coef = np.ascontiguousarray(coef.astype(ridge.design.dtype))
    if len(coef) and features is not ridge.design.features:
        coef = coef / np.repeat(features.scales, np.diff(ridge.edges))[:, np.newaxis].astype(coef.dtype)
    return coef


def _folds(held: HeldOut, stop: Stop, penalty: Penalty, n_iter: int) -> Folds:
    """The rows held out, and their predictions, which are found now if they were not before."""
    if not held.folds:
        return Folds([], np.empty(0), np.empty(0))
    if stop.predictions is not None and stop.without is not None:
        return Folds(held.folds, stop.predictions.predicted, np.mean(stop.without, axis=0))
    run = held.trace(penalty.terms, 0.0, steps=n_iter)
    return Folds(held.folds, run.predictions.predicted, run.coef)


class Distinct(NamedTuple):
    """A design of bins with equal rows as one.

    Attributes
    ----------
    design : Design
    held_out : bool array or None
        The rows to hold out of it; None where these are still open.
    number : int array of shape (n,)
        Of the row of it that each row is part of.
    """

    design: Design
    held_out: NDArray | None
    number: NDArray[np.intp]


def _distinct(design: Design, task: RidgeTask) -> Distinct:
    """Take equal rows of bins as one, where that saves much."""
    source, held_out = design.source, task.held_out
    if not task.merges:
        if held_out is None and task.resumed:
            held_out = rows_held_out(design.row_hashes, source.weights, task.seed)
        return Distinct(design, held_out, np.arange(source.n_rows))
    if task.verdict is not None:
        first_duplicate = task.verdict.split.first_duplicate
    elif task.n_iter is not None and not task.resumed:
        first_duplicate = source.first_duplicates(design.row_hashes)
    elif not task.resumed and (
        held_out is not None or design.features.is_dense or source.n_counted <= POLICY.folded_rows
    ):
        return Distinct(design, held_out, np.arange(source.n_rows))
    else:
        held_out = rows_held_out(design.row_hashes, source.weights, task.seed)
        first_duplicate = source.first_duplicates(design.row_hashes, held_out | (source.weights <= 0))
    merged, leads = source.merged(first_duplicate)
    design = design.of(merged)
    number = np.arange(source.n_rows) if leads.all() else (np.cumsum(leads) - 1)[first_duplicate]
    return Distinct(design, None if held_out is None else held_out[leads], number)


def _judged_by_rows(task: RidgeTask) -> bool:
    """Whether rows that are held out are to be predicted."""
    return task.calibrated or task.verdict is not None or task.resumed


def _penalty(ridge: IterativeRidge, judge: HeldOut | None, task: RidgeTask, searched: bool) -> Penalty:
    """The ridge terms of the maps, as given, or the best on rows held out."""
    alphas = task.alphas
    if alphas is None:
        alphas = alphas_to_try(judge.ridge if judge else ridge, ridge.design.source.total_weight)
    if searched and judge and judge.folds:
        terms, scores = choose_penalty(judge, alphas)
        return Penalty(terms, alphas, scores)
    return Penalty(np.full(len(ridge.maps), alphas[len(alphas) // 2]), alphas)


def _by_leverage(ridge: IterativeRidge, penalty: Penalty, task: RidgeTask) -> bool:
    """Whether the preconditioner of a single dense map had better have rows drawn by their leverage."""
    source, D = ridge.design.source, int(ridge.edges[-1])
    problem = Task(
        source.n_rows,
        source.n_outputs,
        source.total_weight,
        penalty.terms,
        task.calibrated,
        chosen=task.chosen or task.is_open,
    )
    return ridge.is_dense and len(ridge.maps) == 1 and isinstance(ridge.blocks, list) and by_leverage(D, problem)


def _stop(held: HeldOut | None, penalty: Penalty, task: RidgeTask) -> Stop:
    """Stop as a choice says or an earlier fit did; where rows held out are predicted best; or at the tolerance."""
    if task.verdict is not None:
        assert held is not None
        return _half_as_many(held.trace(penalty.terms, 0.0, task.verdict.losses))
    if task.resumed and held is not None and held.folds:
        return _half_as_many(held.trace(penalty.terms, 0.0, steps=task.n_iter))
    if task.n_iter is not None:
        return Stop(0.0, task.n_iter)
    most = round(POLICY.most_iterations * max(1.0, np.log(task.tol) / np.log(USUAL_TOL)))
    if held is None or not held.folds:
        return Stop(task.tol, most)
    traced = task.alphas is None and not held.ridge.is_dense
    if not (traced or task.calibrated):
        return Stop(task.tol, most)
    if not traced:
        settled = task.tol >= USUAL_TOL and (task.chosen or task.is_open)
        run = held.solve(penalty.terms, task.tol, settled)
        return Stop(run.error, most, run.predictions, run.coef, without=run.coefs)
    run = held.trace(penalty.terms, task.tol)
    if run.n_iter < POLICY.traced_iterations - 1:
        return Stop(0.0, run.n_iter, run.predictions, without=run.coefs)
    return Stop(task.tol, most, run.predictions, without=run.coefs)


def _half_as_many(run: HeldOutRun) -> Stop:
    """Go on from a run without some rows that were held out: with them half as many iterations suffice."""
    return Stop(0.0, -(-run.n_done // 2), run.predictions, run.coef, run.n_done, run.coefs)
