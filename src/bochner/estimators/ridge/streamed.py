"""Ridge regression on rows that are read again in every pass, of which a sample in memory judges."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from bochner.data.sources import ArraySource
from bochner.design import Design
from bochner.engines.journal import Keeper
from bochner.estimators.ridge.iterative import solve_iteratively
from bochner.estimators.ridge.task import Fitted, RidgeTask, given_alphas
from bochner.normal import NormalEquations
from bochner.solvers.cg import Solution, System, conjugate_gradients
from bochner.solvers.factors import PrimalFactor
from bochner.solvers.iterative import IterativeRidge
from bochner.solvers.kept import KeptState
from bochner.tuning.policy import POLICY

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
