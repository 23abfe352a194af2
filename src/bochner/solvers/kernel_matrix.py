"""Kernel ridge regression without features: the kernel matrix of all rows.

The minimiser of sum_i w_i (y_i - b - f(x_i))^2 + alpha ||f||^2 over the functions f of
the kernel is f = sum_i c_i k(., x_i) with

    (K + alpha W^-1) c = y - b 1,    sum_i c_i = 0.

With M = K + alpha W^-1 it takes the solutions u = M^-1 y and v = M^-1 1: b = sum(u) /
sum(v), c = u - b v. A row that is left out is missed by c_i / P_ii, P = M^-1 - v v' /
sum(v).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats, Indices
from bochner.data.array_source import Block
from bochner.data.weights import draw_rows
from bochner.engines.algebra import (
    cholesky,
    gram,
    product,
    shifted_cholesky,
    solve_cholesky,
    solve_lower,
    with_least_shift,
)
from bochner.engines.local import available_memory, pause, require_memory, tiles
from bochner.features.base import DenseFeatures, Rows
from bochner.solvers.cg import System, conjugate_gradients
from bochner.solvers.preconditioners import LowRank

LARGEST_FACTORISED = 20_000  # rows; some 50 s of two cores
FACTORISED_SHARE, STORED_SHARE = 0.9, 0.6  # of the free memory
LANDMARKS, MOST_ITERATIONS, BLOCK_ROWS, COLUMNS = 2048, 500, 2048, 1024
LEAST_TOL = 1e-3  # of an oracle
LARGEST_RIDGE = 1e300


class ExactSolution(NamedTuple):
    """Coefficients of the rows, and how they were found.

    Attributes
    ----------
    coef : array of shape (n, K)
    intercept : array of shape (K,)
    n_iter : int or None
        Of conjugate gradients; None where the matrix was factorised.
    residual : float or None
    errors : array of shape (m, K) or None
        y - f of the rows that were asked for, by the model that is left without each;
        None of conjugate gradients.
    one_minus_leverage : array of shape (m,) or None
        1 - w h of the rows of `errors`, h their leverage.
    influence : tuple of arrays of shapes (p, n), (p,) and (p, K), or None
        Of other rows that were asked for. What row i adds to the function of all rows,
        which leaves the one without it, is the third times (k'first + second) at kernel
        values k with all rows: P_i, v_i / sum(v) and c_i / P_ii.
    """

    coef: Floats
    intercept: Floats
    n_iter: int | None = None
    residual: float | None = None
    errors: Floats | None = None
    one_minus_leverage: Floats | None = None
    influence: tuple[Floats, Floats, Floats] | None = None


def solve_exact(
    features: DenseFeatures,
    rows: Block,
    alpha: float,
    tol: float,
    seed: int,
    scored: Indices | None = None,
    evaluated: Indices | None = None,
) -> ExactSolution:
    """Solve for the coefficients of all rows.

    Up to 20,000 rows by a Cholesky factorisation, where the matrix fits the memory;
    else by conjugate gradients, preconditioned by the Nystroem approximation from 2,048
    rows. Their matrix is held where it fits, and else computed again in every
    iteration.

    Parameters
    ----------
    features : DenseFeatures
        Kernel values with these rows.
    rows : Block
        X, (n, d), y, (n, K), and positive weights, (n,).
    alpha : float
    tol : float
        Relative error of conjugate gradients in the norm of the matrix, at most 1e-3.
    seed : int
        Of the rows of the preconditioner.
    scored : int array of shape (m,), optional
        Rows whose leave-one-out errors are wanted.
    evaluated : int array of shape (p,), optional
        Rows whose influence is wanted.

    Raises
    ------
    MemoryError
        Before any work, where not even blocks of the matrix fit the memory that is
        free.
    """
    X, y, weight = rows
    n = len(y)
    free = available_memory()
    mean = weight @ y / weight.sum()
    targets = np.column_stack([y - mean, np.ones(n)])
    fits = free is None or 8 * n * (n + 8 * BLOCK_ROWS) <= FACTORISED_SHARE * free
    if n > LARGEST_FACTORISED or not fits:
        # Solve (R K R + alpha I) R^-1 c = R y, R the root of W, in which all rows have
        # one ridge penalty
        root = np.sqrt(weight)
        m = min(LANDMARKS, n)
        require_memory(
            8 * n * (3 * m + BLOCK_ROWS),
            f"An exact kernel machine of {n:,} rows",
            "Use fewer of them.",
        )
        # R K R by the kernel with m of the rows, drawn by their weights: S'S, S = L^-1
        # K_mn R, L L' = K_mm
        chosen, _ = draw_rows(np.square(root), m, np.random.default_rng(seed))
        across = features.rows(X[chosen], out=np.empty((len(chosen), n)))
        within = np.ascontiguousarray(across[:, chosen])
        lower = shifted_cholesky(
            within, 0.0, float(np.finfo(np.float64).eps * np.trace(within))
        )
        S = solve_lower(lower, across)
        S *= root
        variance = float(within[0, 0])
        tail = max(
            variance * float(root @ root) - float(np.square(S).sum()), 0.0
        ) / max(n - m, 1)
        preconditioner = LowRank(S, gram(np.ascontiguousarray(S.T)), tail / m)
        free = available_memory()
        K = None
        if free is None or 8 * n * n <= STORED_SHARE * free:
            K = features.rows(X, out=np.empty((n, n)))

        def operator(P: NDArray, Q: NDArray) -> NDArray:
            pause()
            B = np.ascontiguousarray((P * root).T)
            moved = (features.dot(X, B) if K is None else product(K, B)).T * root
            Q += moved
            return np.einsum("kn,kn->k", P, moved)

        rhs = np.ascontiguousarray((targets * root[:, np.newaxis]).T)
        penalty = np.full((len(rhs), 1), alpha)
        precondition = preconditioner.with_penalty(float(m), penalty[:, 0])
        tol = min(tol, LEAST_TOL)
        system = System(operator, penalty, precondition)
        iterated = conjugate_gradients(system, rhs, tol, MOST_ITERATIONS)
        iterated.warn(tol)
        coef, intercept = _without_sum((iterated.coef * root).T)
        return ExactSolution(coef, intercept + mean, iterated.n_iter, iterated.residual)
    with np.errstate(over="ignore"):
        ridge = np.minimum(alpha / weight, LARGEST_RIDGE)

    def factorised(shift: float) -> NDArray:
        K = features.rows(X, out=np.empty((n, n)))
        K.flat[:: n + 1] += ridge + shift
        return cholesky(K)

    # The ridge penalty may be below the rounding of the kernel's values, all of which
    # on the diagonal are equal
    trace = n * float(features.rows(X[:1])[0, 0])
    lower = with_least_shift(factorised, 0.0, 0.0, trace)
    solved = solve_cholesky(lower, targets)
    coef, intercept = _without_sum(solved)
    v = solved[:, -1]
    influence = None
    if evaluated is not None:
        # What rows add to the function of all, by their columns of P
        number = np.arange(len(evaluated))
        inverse = solve_cholesky(lower, _unit(n, evaluated))
        least = 1e-12 * inverse[evaluated, number]
        inverse -= np.outer(v, v[evaluated]) / v.sum()
        projected = np.maximum(inverse[evaluated, number], least)[:, np.newaxis]
        influence = inverse.T, v[evaluated] / v.sum(), coef[evaluated] / projected
    solution = ExactSolution(coef, intercept + mean, influence=influence)
    if scored is None:
        return solution
    # The diagonal of the inverse: squared lengths of columns of L^-1
    diagonal = np.empty(len(scored))
    for part in tiles(0, len(scored), COLUMNS):
        columns = solve_lower(lower, _unit(n, scored[part]))
        diagonal[part] = np.square(columns).sum(axis=0)
    # Of a row alone nothing is left
    residual_share = np.maximum(diagonal - v[scored] ** 2 / v.sum(), 1e-12 * diagonal)
    return solution._replace(
        errors=coef[scored] / residual_share[:, np.newaxis],
        one_minus_leverage=np.minimum(ridge[scored] * residual_share, 1.0),
    )


def _unit(n: int, columns: Indices) -> Floats:
    """Columns of the identity of n rows."""
    unit = np.zeros((n, len(columns)))
    unit[columns, np.arange(len(columns))] = 1.0
    return unit


def _without_sum(solved: NDArray) -> tuple[NDArray, NDArray]:
    """Coefficients that sum to zero, and the intercepts that make them."""
    u = solved[:, :-1]
    v = solved[:, -1:]
    intercept = u.sum(axis=0) / v.sum()
    return u - v * intercept, intercept


def centred_kernel(features: DenseFeatures, X: Rows, weight: NDArray) -> NDArray:
    """Kernel matrix of rows about the mean of their features, times the roots of the
    weights from both sides.
    """
    n = X.shape[0]
    K = features.rows(X, out=np.empty((n, n)))
    share = weight / weight.sum()
    mean = share @ K
    K -= mean
    K -= (mean - share @ mean)[:, np.newaxis]
    root = np.sqrt(weight)
    K *= root
    K *= root[:, np.newaxis]
    return K
