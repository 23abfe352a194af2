"""Ridge regression of an estimator by conjugate gradients: choose the penalty, choose when to stop, solve."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.data.array_source import ArraySource
from bochner.data.hashes import uniform
from bochner.design.design import Design
from bochner.design.normal import NormalEquations
from bochner.engines.journal import Keeper
from bochner.estimators.ridge.error_scale import LEARNED_ROWS, Affine, CalibrationRows
from bochner.estimators.ridge.problem import Fitted, RidgeTask, Stage, given_alphas
from bochner.features.base import FeatureMap
from bochner.features.concatenate import ConcatenatedFeatures
from bochner.planning.solver import Task, by_leverage
from bochner.selection.policy import POLICY
from bochner.selection.split import rows_held_out
from bochner.selection.validation import (
    HeldOut,
    HeldOutPredictions,
    HeldOutRun,
    alphas_to_try,
    choose_penalty,
    compared,
)
from bochner.solvers.cg import KeptState, Solution, System, conjugate_gradients
from bochner.solvers.factors import PrimalFactor
from bochner.solvers.iterative import ROUNDING_ERROR, IterativeRidge

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


N_FOLDS = 2  # of the rows that the scale is learned from; more change nothing
STEPS = 12  # iterations for bins, which are regularised by stopping
TOL = 3e-2  # relative error, where there are no bins


class Grouped(NamedTuple):
    """Observations, and the number of the design's row that each of the rows as they came is part of, shape (n,)."""

    rows: CalibrationRows
    number: NDArray[np.intp]

    @property
    def own(self) -> NDArray[np.intp]:
        """Number of the design's row that each observation is part of."""
        return self.number[self.rows.observations.row]


class Folds(NamedTuple):
    """Rows of the design that were held out in turn.

    Attributes
    ----------
    masks : list of bool arrays of shape (n,)
        All rows, where they are few; or one fold of those that nothing was learned from.
    predicted : array of shape (m, K)
        By machines without them, one fold after the other.
    coef : array of shape (K, D)
        Of the machine without the fold, if it is one.
    """

    masks: list[NDArray[np.bool_]]
    predicted: NDArray
    coef: NDArray


class Found(NamedTuple):
    """Coefficients of features that are not centred, and predictions of all rows of the design, shape (n, K)."""

    linear: Affine
    predicted: NDArray


class Machine(NamedTuple):
    """What was solved, and the ridge terms of its maps, shape (M,)."""

    ridge: IterativeRidge
    penalty: NDArray

    def solve(self, kept: NDArray) -> Found:
        """Fit the rows of a mask."""
        equations = self.ridge.equations(kept)
        penalty = np.tile(self.penalty, (equations.shape[0], 1))
        most, tol = (POLICY.most_iterations, TOL) if self.ridge.is_dense else (STEPS, 0.0)
        return self._found(equations, self.ridge.solve(equations, penalty, tol, most).coef)

    def solved(self, kept: NDArray, coef: NDArray) -> Found:
        """What goes with coefficients that the rows of a mask gave before."""
        return self._found(self.ridge.equations(kept), coef)

    def _found(self, equations: NormalEquations, coef: NDArray) -> Found:
        intercept = self.ridge.intercept(equations, coef)
        return Found(Affine(coef.T, intercept), self.ridge.predict(equations, coef))


def calibrate_iteratively(machine: Machine, grouped: Grouped, folds: Folds) -> CalibrationRows:
    """Predict rows by machines without their fold: those that calibrate, and others that a scale may be learned from.

    Where one fold calibrates, intervals are about the machine without it. Its coefficients are those of the stored
    features, whose maps' scales are `machine.ridge.scales`.
    """
    rows = grouped.rows
    source = machine.ridge.design.source
    counted = source.weights > 0
    predicted, centre = np.full((source.n_rows, source.n_outputs), np.nan), None
    if len(folds.masks) == 1:
        judge = folds.masks[0] & counted
        rows = replace(rows, judge=judge[grouped.own])
        found = machine.solved(counted & ~judge, folds.coef)
        predicted[judge], centre = found.predicted[judge], found.linear
        if not rows.few:
            _predict_folds(machine, counted & ~judge, predicted, rows.seed)
    elif folds.masks:
        predicted[_of_folds(folds.masks)] = folds.predicted
        rows = rows.judged_by_all() if rows.few else rows
    return rows.with_predictions(predicted[grouped.own], centre)


def observed(predictions: HeldOutPredictions, masks: list[NDArray[np.bool_]], grouped: Grouped) -> HeldOutPredictions:
    """Predictions for observations, by those for the design's rows that were held out in turn.

    Parameters
    ----------
    predictions : HeldOutPredictions
        Of one fold after the other.
    masks : list of bool arrays
        Of the folds.
    grouped : Grouped
    """
    held_out, rows = _of_folds(masks), grouped.rows
    place = np.full(len(masks[0]), -1)
    place[held_out] = np.arange(len(held_out))
    place = place[grouped.own]
    some = np.flatnonzero(place >= 0)
    place = place[some]
    fold = None if predictions.rows is None or predictions.rows.fold is None else predictions.rows.fold[place]
    return rows.held_out(some, predictions.predicted[place], fold=fold)


def _of_folds(masks: list[NDArray[np.bool_]]) -> NDArray[np.intp]:
    """Numbers of the rows that were held out, one fold after the other."""
    return np.concatenate([np.flatnonzero(mask) for mask in masks])


def _predict_folds(machine: Machine, others: NDArray, predicted: NDArray, seed: int) -> None:
    """Predict rows of the design by machines without their fold and those that calibrate, as many as are enough."""
    fold = (N_FOLDS * uniform(machine.ridge.design.row_hashes, seed + 1)).astype(int)
    wanted = min(N_FOLDS, -(-N_FOLDS * LEARNED_ROWS // int(np.count_nonzero(others))))
    for k in range(wanted):
        left = others & (fold == k)
        if left.any() and (others & ~left).any():
            predicted[left] = machine.solve(others & ~left).predicted[left]


Keep = Callable[[str], AbstractContextManager[Keeper | None]]


def nothing_kept(digest: str) -> AbstractContextManager[None]:
    """No keeper."""
    return nullcontext()


def solve_stream(design: Design, sample: ArraySource, task: RidgeTask, keep: Keep = nothing_kept) -> Fitted:
    """Solve for all rows by conjugate gradients, from the solution for a sample of them in memory, which judges.

    Of bins only those have a column that a row of the sample is in, so that their table does not grow with the rows.
    Dense features are solved for to the tolerance; bins half as many iterations again as served the sample, which is
    how they are regularised.

    Parameters
    ----------
    design : Design
        Of all rows.
    sample : ArraySource
    task : RidgeTask
    keep : callable (digest of the choices) -> context manager of a Keeper or None, optional
        Keeps what is done.
    """
    seen = Design(sample, design.features, design.dtype)
    share = seen.source.total_weight / design.source.total_weight
    dense, alphas = design.features.is_dense, given_alphas(task.alpha)
    first = solve_iteratively(seen, task if alphas is None or not dense else replace(task, alpha=alphas * share))
    all_rows = design.of(design.source, first.features, fixed=True)
    n_iter = POLICY.most_iterations if dense else max(2, -(-(first.n_iter or 0) // 2))
    ridge = IterativeRidge(all_rows, task.seed)
    equations = ridge.equations()
    if alphas is None:  # the weight of all rows may not have been known before
        share = seen.source.total_weight / equations.weight
    scale = share if dense else 1.0
    stop = task.tol if dense else 0.0, n_iter
    found = _solved(ridge, equations, first.alpha / scale, stop, first.coef, keep)
    return replace(
        found,
        alphas=first.alphas / scale,
        scores=first.scores,
        held_out_predictions=first.held_out_predictions,
        calibration=first.calibration,
    )


def solve_stream_again(design: Design, coef: NDArray, task: RidgeTask, direct: bool, keep: Keep) -> Fitted:
    """Solve for other rows with a map, a ridge term and a number of iterations that served before.

    Parameters
    ----------
    design : Design
        Its map is fixed.
    coef : array of shape (D, K)
        What was found before.
    task : RidgeTask
        With one alpha.
    direct : bool
        Whether to solve by the moments.
    keep : callable
        See `solve_stream`.
    """
    alphas = given_alphas(task.alpha)
    assert alphas is not None
    if not direct:
        ridge, dense = IterativeRidge(design, task.seed), design.features.is_dense
        n_iter = POLICY.most_iterations if dense or task.n_iter is None else task.n_iter
        return _solved(ridge, ridge.equations(), float(alphas[0]), (task.tol if dense else 0.0, n_iter), coef, keep)
    with keep(_digest(coef)) as keeper:
        factor = PrimalFactor(design.moments(keeper), 1, overwrite=True, place=design.place)
    coef = factor.coef(float(alphas[0])).astype(design.dtype)
    return Fitted(design.features, coef, factor.intercept(coef), float(alphas[0]), alphas, None, None)


def _solved(
    ridge: IterativeRidge,
    equations: NormalEquations,
    alpha: float,
    stop: tuple[float, int],
    start: NDArray,
    keep: Keep,
) -> Fitted:
    """Conjugate gradients to a tolerance, or for so many iterations, from coefficients of shape (D, K)."""
    design, (tol, n_iter) = ridge.design, stop
    system = ridge.system(equations, np.full((equations.shape[0], len(ridge.maps)), alpha))
    with keep(_digest(start)) as keeper:
        solution = _iterate(system, equations.rhs, tol, n_iter, start.T, keeper)
    if tol:
        solution.warn(tol)
    coef = np.ascontiguousarray(solution.coef.T.astype(design.dtype))
    found = coef, ridge.intercept(equations, solution.coef), alpha, np.array([alpha]), None, None
    return Fitted(design.features, *found, solution.n_iter, solution.residual)


def _digest(coef: NDArray) -> str:
    """Hash of coefficients, by which fits are told apart."""
    return blake2b(np.ascontiguousarray(coef).tobytes(), digest_size=16).hexdigest()


def _iterate(system: System, rhs: NDArray, tol: float, n_iter: int, start: NDArray, keeper: Keeper | None) -> Solution:
    """Conjugate gradients, the state of which is kept after each iteration."""
    if keeper is None:
        return conjugate_gradients(system, rhs, tol, n_iter, start=start)
    kept = KeptState(keeper)
    with kept.keeping():
        begin = start if kept.start is None else kept.start
        return conjugate_gradients(system, rhs, tol, n_iter, start=begin, keep=kept.keep)
