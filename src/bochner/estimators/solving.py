"""The two ways to solve the ridge problem of an estimator."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bochner.data.draws import draw_rows
from bochner.data.sources import ArraySource
from bochner.design import Design
from bochner.features.base import FeatureMap
from bochner.features.concatenate import ConcatenatedFeatures
from bochner.features.rows import exact_map
from bochner.solvers.exact import centred_kernel, solve_exact
from bochner.solvers.iterative import ROUNDING_ERROR, IterativeRidge, RidgeFit
from bochner.solvers.ridge import (
    DualFactor,
    DualLeaveOneOut,
    Factor,
    FeatureFactor,
    KernelFactor,
    PrimalLeaveOneOut,
    Score,
    best_alpha,
    choose_alpha,
    factorise,
)
from bochner.tuning.choice import Choice
from bochner.tuning.held_out import (
    FOLDED_ROWS,
    MOST_ITERATIONS,
    TRACED_ITERATIONS,
    HeldOut,
    HeldOutPredictions,
    candidates,
    choose_penalty,
    rows_held_out,
    trial,
)

SCORED_ROWS, EXACT_ROWS = 4096, 2048
USUAL_TOL = 1e-2  # for which there are 500 iterations; a smaller one has more, in proportion to its logarithm


@dataclass
class Fitted:
    """Coefficients, and how they were found.

    Attributes
    ----------
    coef : array of shape (D, K)
    intercept : array of shape (K,)
    alpha : float
    alphas : array of shape (A,)
        What was tried, ascending.
    scores : array of shape (A,) or None
        Mean squared error of each on rows left out.
    held_out_predictions : HeldOutPredictions or None
        Predictions for rows by a model that has not seen them, where they were asked for and there are any.
    n_iter : int or None
    residual : float or None
    features : FeatureMap or None
        The map that the coefficients are of, where it is another one.
    """

    coef: NDArray
    intercept: NDArray
    alpha: float
    alphas: NDArray
    scores: NDArray | None
    held_out_predictions: HeldOutPredictions | None
    n_iter: int | None = None
    residual: float | None = None
    features: FeatureMap | None = None


def given_alphas(alpha: object) -> NDArray | None:
    """Ridge terms as the user gives them, ascending; None where they are to be chosen."""
    return None if isinstance(alpha, str) else np.unique(np.asarray(alpha, dtype=np.float64))


def solve_directly(
    design: Design, alpha: object, seed: int, calibrated: bool, held_out: NDArray | None = None
) -> Fitted:
    """Solve by the moments of all rows and their factorisation.

    Parameters
    ----------
    alpha : float, sequence of float, "auto", "loo" or "gcv"
    seed : int
        Of the sample of rows whose leave-one-out errors are looked at.
    calibrated : bool
        Whether leave-one-out predictions are wanted.
    held_out : bool array of shape (n,), optional
        Rows that the features were not learned from, of which the sample then is, if they are not too few.
    """
    given = given_alphas(alpha)
    factor = factorise(design, 2 if given is None else len(given))
    loo = DualLeaveOneOut(factor) if isinstance(factor, DualFactor) else _scored(design, factor, alpha, seed, held_out)
    best, alphas, scores = _decide(factor.gcv if alpha == "gcv" else loo, given, factor)
    held_out_predictions = HeldOutPredictions(loo.predict(best), loo.y, loo.weight) if calibrated else None
    coef = factor.coef(best).astype(design.dtype)
    return Fitted(coef, factor.intercept(coef), best, alphas, scores, held_out_predictions)


def _scored(
    design: Design, factor: FeatureFactor, alpha: object, seed: int, held_out: NDArray | None
) -> PrimalLeaveOneOut:
    """Leave-one-out errors of rows held out, if not too few; of some of many, drawn by weight; of equal ones as one."""
    source = design.source
    if held_out is not None and held_out.sum() >= SCORED_ROWS // 2:
        source = source.take(np.flatnonzero(held_out))
    if alpha == "loo" and design.source.n_rows > SCORED_ROWS:
        return PrimalLeaveOneOut(Design(source, design.features, design.dtype), factor)
    rows, factors = draw_rows(source.weights, SCORED_ROWS, np.random.default_rng(seed))
    some = ArraySource(*source.take(rows).whole())
    first_duplicate = some.first_duplicates(some.row_hashes())
    distinct, leads = some.merged(first_duplicate, most=1.0)
    counts = None
    if factors is not None:
        counts = np.bincount(first_duplicate, some.weights * factors, len(rows))[leads]
    return PrimalLeaveOneOut(Design(distinct, design.features, design.dtype), factor, counts)


def _decide(score: Score, given: NDArray | None, factor: Factor) -> tuple[float, NDArray, NDArray | None]:
    """Alpha, those tried, and their scores."""
    if given is None:
        return choose_alpha(factor, score)
    if len(given) == 1:
        return float(given[0]), given, None
    scores = score(given)
    return best_alpha(given, scores), given, scores


def solve_exactly(
    design: Design, alpha: object, tol: float, seed: int, calibrated: bool, held_out: NDArray | None = None
) -> Fitted:
    """Solve by the kernel matrix of all rows.

    Parameters
    ----------
    alpha : float, sequence of float, "auto", "loo" or "gcv"
        What is open is chosen on all distinct rows, or 2,048 of more, by the leave-one-out errors of an exact machine
        of these: like the variance of noise, which it stands for, it is no matter of the number of rows. Of 2,048 and
        less "gcv" is what it says.
    tol : float
        Relative error of conjugate gradients, which serve where there are too many rows to factorise the matrix.
    calibrated : bool
        Whether leave-one-out predictions are wanted.
    held_out : bool array of shape (n,), optional
        Rows that the features were not learned from, of which those predictions then are, if they are not too few.
    """
    given, counted = given_alphas(alpha), design.counted()
    source = counted.source.distinct()
    rows = source.whole()
    X, y, weight = rows
    features = exact_map(design.features).fit(X)
    kernel_rows = Design(source, features, design.dtype).dense
    if given is not None and len(given) == 1:
        best, alphas, scores = float(given[0]), given, None
    else:
        some, factors = draw_rows(weight, EXACT_ROWS, np.random.default_rng(seed))
        sample = Design(source, exact_map(design.features).fit(X[some])).dense
        kernel = centred_kernel(sample, X[some], weight[some])
        factor = KernelFactor(kernel, y[some], weight[some], 2 if given is None else len(given))
        score: Score = DualLeaveOneOut(factor, None if factors is None else weight[some] * factors)
        if alpha == "gcv" and len(some) == len(y):
            factor.merge(counted)
            score = factor.gcv
        best, alphas, scores = _decide(score, given, factor)
    if not calibrated:
        found = solve_exact(kernel_rows, rows, best, tol, seed)
        return Fitted(found.coef, found.intercept, best, alphas, scores, None, found.n_iter, found.residual, features)
    new = _held_out_among(design, source, held_out)
    seen, factors = draw_rows(weight[new], SCORED_ROWS, np.random.default_rng(seed))
    seen = new[seen]
    found = solve_exact(kernel_rows, rows, best, tol, seed, seen)
    held_out_predictions = None
    if found.errors is not None:
        held_out_predictions = HeldOutPredictions(
            y[seen] - found.errors, y[seen], weight[seen] * (1.0 if factors is None else factors)
        )
    elif design.features.is_dense:
        held_out_predictions = solve_directly(design, best, seed, True, held_out).held_out_predictions
    return Fitted(
        found.coef, found.intercept, best, alphas, scores, held_out_predictions, found.n_iter, found.residual, features
    )


def _held_out_among(design: Design, distinct: ArraySource, held_out: NDArray | None) -> NDArray[np.intp]:
    """Numbers of the distinct rows that are among those held out, if these are not too few; else of all."""
    every = np.arange(distinct.n_rows)
    if held_out is None or held_out.sum() < SCORED_ROWS // 2:
        return every
    hashes = design.source.take(np.flatnonzero(held_out)).row_hashes()
    found = np.flatnonzero(np.isin(distinct.row_hashes(), hashes))
    return found if len(found) else every


def solve_iteratively(
    design: Design, alpha: object, tol: float, seed: int, calibrated: bool, held_out: NDArray | None = None
) -> Fitted:
    """Solve by conjugate gradients; what is left open is chosen on rows that are held out.

    Parameters
    ----------
    alpha : float, sequence of float, or "auto"
    tol : float
        Relative error of the solution; for bins whose alpha is chosen, so is the number of iterations instead.
    calibrated : bool
        Whether predictions for rows left out are wanted.
    held_out : bool array of shape (n,), optional
        Rows that the features were not learned from, which alone are then left out at last.
    """
    features, given = design.features, given_alphas(alpha)
    weighted = features.learns_weights
    open_choice = given is None or len(given) > 1 or weighted
    smaller = trial(design, seed) if open_choice else None
    if held_out is None and not features.is_dense:
        design, held_out = _without_repeats(design, seed)
    ridge = IterativeRidge(design, seed)
    held = HeldOut(ridge, seed, held_out) if open_choice or calibrated else None
    judge = held if smaller is None else HeldOut(IterativeRidge(smaller, seed), seed)
    alphas, scores = given, None
    if alphas is None:
        alphas = candidates(judge.ridge if judge else ridge, design.source.total_weight)
    penalty = np.full(len(ridge.maps), alphas[len(alphas) // 2])
    if open_choice and judge and judge.folds:
        penalty, scores = choose_penalty(judge, alphas)
    n_iter, held_out_predictions = MOST_ITERATIONS, None
    traced = given is None and not ridge.is_dense
    if held and held.folds and (traced or calibrated):
        n_iter, held_out_predictions = held.run(penalty, tol, traced)
        if n_iter >= TRACED_ITERATIONS - 1:
            n_iter = MOST_ITERATIONS
    if n_iter < MOST_ITERATIONS:
        found = ridge.fit(penalty, 0.0, n_iter)
    else:
        most = round(MOST_ITERATIONS * max(1.0, np.log(tol) / np.log(USUAL_TOL)))
        found = ridge.fit(penalty, tol, most, refined=tol < ROUNDING_ERROR)
        found.solution.warn(tol)
    fitted = _fitted(ridge, found, float(penalty.min()), held_out_predictions)
    fitted = replace(fitted, alphas=alphas, scores=scores)
    return _weighted(fitted, ridge, penalty.min() / penalty) if weighted else fitted


def _weighted(fitted: Fitted, ridge: IterativeRidge, weights: NDArray) -> Fitted:
    """The same function by a map with weights that were learned."""
    assert isinstance(ridge.design.features, ConcatenatedFeatures)
    features = ridge.design.features.with_weights(weights)
    scales = np.repeat(features.scales, np.diff(ridge.edges))[:, np.newaxis].astype(fitted.coef.dtype)
    return replace(fitted, coef=fitted.coef / scales, features=features)


def solve_as_chosen(design: Design, choice: Choice, seed: int, calibrated: bool) -> Fitted:
    """Solve by conjugate gradients with the ridge term and the number of iterations of a choice.

    Where it leaves the number open, that is the best for the rows held out.
    """
    assert choice.alpha is not None
    design, held_out = _merged(design, choice.first_duplicate, choice.held_out)
    ridge = IterativeRidge(design, seed)
    penalty = np.full(len(ridge.maps), choice.alpha)
    n_iter, held_out_predictions = choice.n_iter, choice.held_out_predictions
    if n_iter is None or (calibrated and held_out_predictions is None):
        traced, held_out_predictions = HeldOut(ridge, seed, held_out).run(penalty, 0.0, True, choice.loss)
        n_iter = traced if n_iter is None else n_iter
    return _iterated(ridge, penalty, choice.alpha, n_iter, held_out_predictions)


def _iterated(
    ridge: IterativeRidge,
    penalty: NDArray,
    alpha: float,
    n_iter: int,
    held_out_predictions: HeldOutPredictions | None,
) -> Fitted:
    """The solution after so many iterations."""
    return _fitted(ridge, ridge.fit(penalty, 0.0, n_iter), alpha, held_out_predictions)


def _fitted(
    ridge: IterativeRidge, found: RidgeFit, alpha: float, held_out_predictions: HeldOutPredictions | None
) -> Fitted:
    """A solution of conjugate gradients as that of an estimator."""
    solution, coef = found.solution, np.ascontiguousarray(found.solution.coef.T.astype(ridge.design.dtype))
    path = np.array([alpha]), None, held_out_predictions
    return Fitted(coef, found.intercept, alpha, *path, solution.n_iter, solution.residual)


def solve_again(design: Design, solver: str, alpha: float, n_iter: int | None, tol: float, seed: int) -> Fitted:
    """Solve for other rows as a model was solved for its own: with its solver, ridge term, and iterations for bins.

    Parameters
    ----------
    solver : {"direct", "cg", "exact"}
    alpha : float
    n_iter : int or None
        Iterations that served, which regularise bins.
    tol : float
        Of conjugate gradients on dense features.
    """
    if solver == "exact":
        return solve_exactly(design, alpha, tol, seed, False)
    if solver == "direct":
        return solve_directly(design, alpha, seed, False)
    if design.features.is_dense or n_iter is None:
        return solve_iteratively(design, alpha, tol, seed, False)
    source, _ = design.source.merged(design.source.first_duplicates(design.source.row_hashes()))
    ridge = IterativeRidge(Design(source, design.features, design.dtype, design.advance), seed)
    return _iterated(ridge, np.full(len(ridge.maps), alpha), alpha, n_iter, None)


def _merged(design: Design, first_duplicate: NDArray, held_out: NDArray) -> tuple[Design, NDArray]:
    """The design and the rows held out of it, where equal rows may be one."""
    source, leads = design.source.merged(first_duplicate)
    return Design(source, design.features, design.dtype, design.advance), held_out[leads]


def _without_repeats(design: Design, seed: int) -> tuple[Design, NDArray | None]:
    """The same where rows are still to be held out; None of few rows, which are held out in turn."""
    source = design.source
    counted = source.weights > 0
    if counted.sum() <= FOLDED_ROWS:
        return design, None
    held_out = rows_held_out(design.row_hashes, source.weights, seed)
    return _merged(design, source.first_duplicates(design.row_hashes, held_out | ~counted), held_out)
