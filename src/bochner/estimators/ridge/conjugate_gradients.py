"""Ridge regression by conjugate gradients: choose the penalty, choose when to stop,
solve.

What is open is decided by validation rows: the penalty, and for bins also the number of
iterations, for to stop early regularises too. The validation rows, or folds of all of
few rows, have predictions by a model that has not seen them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.blocks import LARGE_SAMPLE_ROWS
from bochner.data.array_source import ArraySource
from bochner.data.hashes import uniform
from bochner.design.design import Design
from bochner.design.normal import NormalEquations
from bochner.estimators.ridge.out_of_sample import (
    LinearPredictor,
    OutOfSample,
    UnseenRows,
)
from bochner.estimators.ridge.ridge_problem import (
    Iterations,
    RidgeProblem,
    RidgeSolution,
    StoredProblem,
)
from bochner.features.base import FeatureMap
from bochner.features.concatenate import ConcatenatedFeatures
from bochner.planning.solver_choice import by_leverage
from bochner.selection.choose import ValidationOutcome
from bochner.selection.policy import POLICY
from bochner.selection.split import validation_rows
from bochner.selection.validation import (
    HeldOut,
    HeldOutRun,
    alphas_to_try,
    choose_penalty,
    compared,
)
from bochner.solvers.iterative import IterativeRidge

# For which there are 500 iterations; a smaller one has more, in proportion to its
# logarithm
USUAL_TOL = 1e-2
# Of the rows that the scale of errors is learned from; more change nothing
SCALE_FOLDS = 2
SCALE_STEPS = 12  # iterations for bins in these, which are regularised by stopping
SCALE_TOL = 3e-2  # relative error, where there are no bins


class Stop(NamedTuple):
    """When to stop: at the relative error `tol`, or after `n_iter` iterations; and the
    run without the validation rows before.

    Where `start` has the coefficients of that run, shape (K, D), conjugate gradients go
    on from them.
    """

    tol: float
    n_iter: int
    run: HeldOutRun | None = None
    start: NDArray | None = None


def solve_iteratively(design: Design, problem: RidgeProblem) -> RidgeSolution:
    """Solve by conjugate gradients; what the problem leaves open is chosen on
    validation rows.
    """
    features = design.features
    source = design.source
    needs = problem.needs
    is_open = problem.is_open or features.learns_weights
    is_chosen = isinstance(problem.stopping, ValidationOutcome)
    bins_alone = not any(part.is_dense for part in features.parts)
    stores_alone = problem.stores_alone and bins_alone
    searched = is_open and not (is_chosen or stores_alone)
    # From the solution without the validation rows
    goes_on = is_chosen or (
        isinstance(problem.stopping, Iterations) and problem.stopping.then_half
    )
    smaller = compared(design, problem.seed) if searched else None
    design, mask, number = merged(design, problem)
    ridge = IterativeRidge(design, problem.seed)
    held_out = None
    if mask is not None and np.count_nonzero(mask) < POLICY.fewest_evaluated:
        # Folds of all rows tell more, unless a choice by these rows ends iterations
        mask = mask if goes_on else None
    if searched or needs.out_of_sample or goes_on:
        held_out = HeldOut(ridge, problem.seed, mask, problem.budget)
    if stores_alone and isinstance(ridge.blocks, list):
        # Stored features without coefficients, for another loss
        K = source.n_outputs
        folds = [] if held_out is None else held_out.folds
        tried = np.zeros(0) if problem.alphas is None else problem.alphas
        return RidgeSolution(
            features,
            np.zeros((0, K), design.dtype),
            np.zeros(K),
            float(tried[0]) if len(tried) else 0.0,
            tried,
            stored=StoredProblem(ridge, folds, []),
        )
    compared_on = held_out
    if smaller is not None:
        compared_on = HeldOut(
            IterativeRidge(smaller, problem.seed), problem.seed, budget=problem.budget
        )
    # The ridge penalties of the maps, as given, or the best on validation rows
    alphas = problem.alphas
    if alphas is None:
        alphas = alphas_to_try(
            compared_on.ridge if compared_on else ridge, design.source.total_weight
        )
    scores = None
    penalty = np.full(len(ridge.maps), alphas[len(alphas) // 2])
    if searched and compared_on and compared_on.folds:
        penalty, scores = choose_penalty(compared_on, alphas)
    # Rows of the preconditioner may better be drawn by their leverage
    if ridge.is_dense and len(ridge.maps) == 1 and isinstance(ridge.blocks, list):
        weight = design.source.total_weight
        size = int(ridge.edges[-1]), design.source.n_rows, source.n_outputs
        if by_leverage(*size, float(np.median(penalty)) / weight):
            ridge.draw_by_leverage(float(penalty[0]))
    stop = stop_of(problem, held_out, penalty)
    solution, intercept = ridge.fit(
        penalty, stop.tol, stop.n_iter, start=stop.start, visit=problem.ends
    )
    if stop.tol and not problem.budget.is_over:
        solution.warn(stop.tol)
    least = float(penalty.min())
    run = stop.run
    n_iter = solution.n_iter
    if run is not None and stop.start is not None:
        n_iter = run.n_done or n_iter
    if isinstance(features, ConcatenatedFeatures) and features.learns_weights:
        features = features.with_weights(least / penalty)
    calibration = unseen = None
    predictions = None if run is None else run.predictions
    if held_out is not None and needs.observations and needs.out_of_sample:
        rows = OutOfSample.of(source, problem.seed, problem.held_out)
        number = number[rows.row]
        if predictions is not None:
            # For observations, by those for rows of the design
            rows_held_out = _rows_of(held_out)
            place = np.full(design.n_rows, -1)
            place[rows_held_out] = np.arange(len(rows_held_out))
            numbers = np.flatnonzero(place[number] >= 0)
            place = place[number[numbers]]
            assert predictions.fold is not None
            predictions = rows.held_out(
                numbers, predictions.predicted[place], fold=predictions.fold[place]
            )
        if needs.error_scale:
            calibrated_by = run
            if run is None and held_out.folds:
                calibrated_by = held_out.trace(penalty, 0.0, steps=n_iter)
            calibration = calibrate_iteratively(
                held_out,
                features,
                penalty,
                rows,
                number,
                calibrated_by,
                problem.ends,
            )
    coefs = []
    if run is not None:
        coefs = [_of_map(coef.T, ridge, features) for coef in run.coefs]
    stored = None
    if isinstance(ridge.blocks, list):
        # Features of the solution are in memory, where another loss finds them
        weighted = ridge
        has_learned = features is not design.features
        if has_learned and isinstance(features, ConcatenatedFeatures):
            weighted = ridge.weighted(features)
        folds = [] if held_out is None else held_out.folds
        stored = StoredProblem(weighted, folds, [coef.T for coef in coefs])
    if needs.evaluated and held_out is not None and run is not None:
        # Rows held out, with the solutions without them
        functions = [
            LinearPredictor(coef, ridge.uncentred(fold_coef, offset))
            for coef, fold_coef, offset in zip(
                coefs, run.coefs, run.offsets, strict=True
            )
        ]
        of_map = ridge.design.of(ridge.design.source, features, fixed=True)
        unseen = UnseenRows.of_sets(of_map, held_out.folds, functions)
    return RidgeSolution(
        features,
        _of_map(solution.coef.T, ridge, features),
        intercept,
        least,
        alphas,
        scores,
        predictions,
        n_iter,
        solution.residual,
        calibration,
        stored,
        unseen=unseen,
    )


def merged(
    design: Design, problem: RidgeProblem
) -> tuple[Design, NDArray | None, NDArray]:
    """Merge equal rows of bins, if that saves much.

    Where iterations stop by the outcome of a choice, the validation rows and the rows
    that become one are those of the choice. Where half as many iterations follow, or a
    tolerance ends those for many rows of bins, the content of rows decides which
    validate, and all others that are equal become one. Where there are as many
    iterations as in an earlier fit, all equal rows become one. Else none do.

    Returns the design, its validation rows if they are decided, and for each row the
    number of its row in the design.
    """
    source = design.source
    held_out = problem.held_out
    stopping = problem.stopping
    if stopping is None:
        by_content = (
            held_out is None
            and not design.features.is_dense
            and source.n_counted > POLICY.folded_rows
        )
    else:
        by_content = isinstance(stopping, Iterations) and stopping.then_half
    if by_content and (problem.merges or held_out is None):
        held_out = validation_rows(source, design.row_hashes, problem.seed)
    if not problem.merges or (stopping is None and not by_content):
        return design, held_out, np.arange(source.n_rows)
    if isinstance(stopping, ValidationOutcome):
        first_duplicate = stopping.split.first_duplicate
    else:
        alone = None
        if by_content and held_out is not None:
            alone = held_out | (source.weights <= 0)
        first_duplicate = source.first_duplicates(design.row_hashes, alone)
    rows, leads = source.merged(first_duplicate)
    number = np.arange(source.n_rows)
    if not leads.all():
        number = (np.cumsum(leads) - 1)[first_duplicate]
    return (
        design.of(rows, fixed=design.fixed),
        None if held_out is None else held_out[leads],
        number,
    )


def stop_of(problem: RidgeProblem, held_out: HeldOut | None, penalty: NDArray) -> Stop:
    """When to stop, and the run without the validation rows that tells it.

    By the outcome of a choice: where the losses of its validation rows stall, or are
    least, if they have clearly risen since; and half as many iterations further with
    all rows. By an earlier fit: after as many iterations as that had, with half of them
    after the others where it was so.

    By a tolerance, where the penalty of bins is to be chosen: where validation rows are
    predicted best, or at the tolerance if that comes first. Where predictions are
    wanted: at the tolerance, or where they have settled, if the penalty was chosen and
    the tolerance is not small. Else at the tolerance.
    """
    stopping = problem.stopping
    if isinstance(stopping, ValidationOutcome):
        assert held_out is not None
        run = held_out.trace(penalty, 0.0, stopping.losses)
        if run.is_overdone:
            # Coefficients that fit noise would stay, and make scores too large
            run = held_out.trace(penalty, 0.0, stopping.losses, run.n_iter)
        return _half_as_many(run)
    if stopping is not None:
        if stopping.then_half and held_out is not None and held_out.folds:
            return _half_as_many(held_out.trace(penalty, 0.0, steps=stopping.n_iter))
        return Stop(0.0, stopping.n_iter)
    tol = problem.tol
    most = round(POLICY.most_iterations * max(1.0, np.log(tol) / np.log(USUAL_TOL)))
    if held_out is None or not held_out.folds:
        return Stop(tol, most)
    if problem.alphas is None and not held_out.ridge.is_dense:
        run = held_out.trace(penalty, tol)
        late = run.n_iter >= POLICY.traced_iterations - 1
        return Stop(tol, most, run) if late else Stop(0.0, run.n_iter, run)
    if problem.needs.out_of_sample:
        settled = tol >= USUAL_TOL and (problem.penalty_selected or problem.is_open)
        run = held_out.solve(penalty, tol, settled)
        return Stop(run.error, most, run, run.coef)
    return Stop(tol, most)


def _half_as_many(run: HeldOutRun) -> Stop:
    """Continue from a run without the validation rows, with half as many iterations."""
    return Stop(0.0, -(-run.n_done // 2), run, run.coef)


def _of_map(coef: NDArray, ridge: IterativeRidge, features: FeatureMap) -> NDArray:
    """Coefficients of the stored features, (D, K), as those of a map, which may have
    learned its weights since.
    """
    coef = np.ascontiguousarray(coef.astype(ridge.design.dtype))
    if len(coef) and features is not ridge.design.features:
        scales = np.repeat(features.scales, np.diff(ridge.edges))[:, np.newaxis]
        coef = coef / scales.astype(coef.dtype)
    return coef


def calibrate_iteratively(
    held_out: HeldOut,
    features: FeatureMap,
    penalty: NDArray,
    rows: OutOfSample,
    number: NDArray,
    run: HeldOutRun | None,
    visit: Callable[[NDArray, int], bool],
) -> OutOfSample:
    """Out-of-sample predictions of observations that calibrate, and of those from
    which the error scale is learned.

    Where one fold calibrates, intervals are about the machine without it.

    Parameters
    ----------
    held_out : HeldOut
        Rows of the design that were held out in turn: all, where they are few, or a
        fold that nothing was learned from.
    features : FeatureMap
        Of which the coefficients of that machine are.
    penalty : array of shape (M,)
    number : int array of shape (m,)
        The row of the design that each observation is part of.
    run : HeldOutRun or None
        The machines without them; None where there are no folds.
    visit
        See `conjugate_gradients`.
    """
    ridge = held_out.ridge
    folds = held_out.folds
    source = ridge.design.source
    predicted = np.full((source.n_rows, source.n_outputs), np.nan)
    if run is None:
        return replace(rows, predicted=predicted[number])
    if len(folds) > 1:
        predicted[_rows_of(held_out)] = run.predictions.predicted
        rows = rows.all_calibrating() if rows.few else rows
        return replace(rows, predicted=predicted[number])
    calibrating = folds[0].held_out & (source.validation_weights > 0)
    others = folds[0].fitted & (source.weights > 0)
    rows = replace(rows, calibrating=calibrating[number])
    equations = ridge.equations(others)
    predicted[calibrating] = ridge.predict(equations, run.coef)[calibrating]
    # Where splits are given, halves by chance would tell one row of a group by others
    if not rows.few and source.splits is None:
        # Rows of the design by machines without their fold and those that calibrate,
        # for as many folds as give enough rows
        fold = uniform(ridge.design.row_hashes, rows.seed + 1)
        fold = (SCALE_FOLDS * fold).astype(int)
        wanted = -(-SCALE_FOLDS * LARGE_SAMPLE_ROWS // int(np.count_nonzero(others)))
        most, tol = SCALE_STEPS, 0.0
        if ridge.is_dense:
            most, tol = POLICY.most_iterations, SCALE_TOL
        for k in range(min(SCALE_FOLDS, wanted)):
            fold_rows = others & (fold == k)
            rest = others & ~fold_rows
            if fold_rows.any() and rest.any():
                rest_equations = ridge.equations(rest)
                columns = np.tile(penalty, (rest_equations.shape[0], 1))
                coef = ridge.solve(rest_equations, columns, tol, most, visit=visit).coef
                predicted[fold_rows] = ridge.predict(rest_equations, coef)[fold_rows]
    centre = LinearPredictor(
        _of_map(run.coef.T, ridge, features), ridge.intercept(equations, run.coef)
    )
    return replace(rows, predicted=predicted[number], centre=centre)


def _rows_of(held_out: HeldOut) -> NDArray:
    """Numbers of the rows that were held out, one fold after the other."""
    return np.concatenate([np.flatnonzero(fold.held_out) for fold in held_out.folds])


def solve_from_sample(
    design: Design, problem: RidgeProblem, sample: ArraySource
) -> RidgeSolution:
    """Solve for all rows of a stream, from the solution for a sample of them in memory,
    which decides what is open.

    Of bins only those have a column that a row of the sample is in, so that their table
    does not grow with the rows. Dense features are solved for to the tolerance; bins
    half as many iterations again as served the sample, which is how they are
    regularised.
    """
    dense = design.features.is_dense
    alphas = problem.alphas
    share = sample.total_weight / design.source.total_weight
    of_sample = problem
    if dense and alphas is not None:
        of_sample = replace(problem, alpha=alphas * share)
    first = solve_iteratively(Design(sample, design.features, design.dtype), of_sample)
    ridge = IterativeRidge(
        design.of(design.source, first.features, fixed=True), problem.seed
    )
    equations = ridge.equations()
    if alphas is None:  # the weight of all rows may not have been known before
        share = sample.total_weight / equations.weight
    tol, n_iter = problem.tol, POLICY.most_iterations
    if not dense:
        share = 1.0
        tol, n_iter = 0.0, max(2, -(-(first.n_iter or 0) // 2))
    solution = _solved(ridge, equations, first.alpha / share, tol, n_iter, first.coef.T)
    return replace(
        solution,
        alphas=first.alphas / share,
        scores=first.scores,
        held_out_predictions=first.held_out_predictions,
        calibration=first.calibration,
        unseen=first.unseen,
    )


def go_on(design: Design, problem: RidgeProblem, start: NDArray) -> RidgeSolution:
    """Solve for the rows of a stream from coefficients, (D, K), with the map and the
    penalty that gave them.
    """
    tol, n_iter = problem.tol, POLICY.most_iterations
    if not design.features.is_dense:
        tol = 0.0
        if isinstance(problem.stopping, Iterations):
            n_iter = problem.stopping.n_iter
    assert problem.alphas is not None
    ridge = IterativeRidge(design, problem.seed)
    alpha = float(problem.alphas[0])
    return _solved(ridge, ridge.equations(), alpha, tol, n_iter, start.T)


def _solved(
    ridge: IterativeRidge,
    equations: NormalEquations,
    alpha: float,
    tol: float,
    n_iter: int,
    start: NDArray,
) -> RidgeSolution:
    """Run conjugate gradients from a start, (K, D)."""
    penalty = np.full(len(ridge.maps), alpha)
    solution, intercept = ridge.fit(penalty, tol, n_iter, start, equations)
    if tol:
        solution.warn(tol)
    return RidgeSolution(
        ridge.design.features,
        np.ascontiguousarray(solution.coef.T.astype(ridge.design.dtype)),
        intercept,
        alpha,
        np.array([alpha]),
        n_iter=solution.n_iter,
        residual=solution.residual,
        weight=equations.weight,
    )
