"""Preconditioned conjugate gradients for ridge regression."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from bochner.solvers.preconditioners import Preconditioner
from bochner.vectors import descend, dots, redirect

DELAY = 4
TINY = float(np.finfo(np.float64).tiny)


class Solution(NamedTuple):
    """What an iterative solver found.

    Attributes
    ----------
    coef : array of shape (K, D)
    n_iter : int
    residual : float
        Length of the residual over that of the right-hand side, the largest of the K.
    error : float
        Estimated error over the solution, both in the norm of the matrix, the largest of the K.
    converged : bool
        Whether the error is at most the tolerance that was asked for.
    """

    coef: NDArray
    n_iter: int
    residual: float
    error: float
    converged: bool

    def warn(self, tol: float) -> None:
        """Issue a ConvergenceWarning with the residual where the tolerance was not reached."""
        if not self.converged:
            warnings.warn(
                f"Conjugate gradients stopped after {self.n_iter} iterations at a relative residual of "
                f"{self.residual:.1e} and an error of {self.error:.1e}, above tol={tol:.1e}: take a larger alpha or a "
                "larger tol.",
                ConvergenceWarning,
                stacklevel=2,
            )


def conjugate_gradients(
    operator: Callable[[NDArray, NDArray], NDArray],
    rhs: NDArray,
    penalty: NDArray,
    precondition: Preconditioner,
    tol: float,
    max_iter: int,
    visit: Callable[[NDArray, int], bool] = lambda coef, n_iter: False,
) -> Solution:
    """Solve V (A + penalty) = rhs, A positive semidefinite, for several right-hand sides at once from V = 0.

    Each right-hand side moves along its own direction, with its own penalty; A is applied once for all of them.

    Iteration j lowers the squared error in the norm of the matrix by step_j rho_j, exactly, and from zero all of them
    add up to the solution's own squared norm. What the last four iterations gained thus estimates the error before
    them, and the iterations stop when that is at most `tol` (Strakos and Tichy, 2002). In this norm the error
    bounds that of the predictions on the training rows.

    Parameters
    ----------
    operator : callable (P, Q)
        Adds P A to Q, both of shape (K, D), and returns the inner products of the rows of P and P A, shape (K,).
    rhs : array of shape (K, D)
    penalty : array of shape (K, D) or (K, 1)
        Ridge term of each coefficient.
    precondition : callable (R, Z)
        Writes approximate solutions Z for residuals R, both of shape (K, D), and returns the inner products of their
        rows, shape (K,).
    tol : float
        Relative error at which to stop.
    max_iter : int
    visit : callable (coef, n_iter) -> bool, optional
        Called after every iteration; a true value ends them.

    References
    ----------
    Hestenes and Stiefel, "Methods of Conjugate Gradients for Solving Linear Systems", 1952. Strakos and Tichy, "On
    Error Estimation in the Conjugate Gradient Method and Why It Works in Finite Precision Computations", 2002.
    """
    x, r = np.zeros_like(rhs), rhs.copy()
    p, rho = np.zeros_like(rhs), np.ones(len(rhs))
    q, z = np.empty_like(rhs), np.empty_like(rhs)
    size = left = dots(rhs, rhs)
    gains: list[NDArray] = []
    error = 1.0 if size.any() else 0.0
    while error > tol and len(gains) < max_iter:
        former, rho = rho, precondition(r, z)
        ratio = rho / np.maximum(former, TINY) if gains else np.zeros(len(rhs))
        penalised = redirect(p, z, ratio, penalty, q)
        step = _quotient(rho, penalised + operator(p, q))
        left = descend(x, r, p, q, step)
        gains.append(step * rho)
        if len(gains) > DELAY:
            total = np.sum(gains, axis=0)
            error = float(np.sqrt(_quotient(np.sum(gains[-DELAY:], axis=0), total)).max())
        if visit(x, len(gains)) or not step.any():
            break
    residual = float(np.sqrt(_quotient(left, size)).max())
    error = min(error, residual) if gains and not step.any() else error
    return Solution(x, len(gains), residual, error, error <= tol)


def _quotient(a: NDArray, b: NDArray) -> NDArray:
    """Quotient a / b, and zero where b is not positive: nothing is left to gain there. No number stays none."""
    return np.where(b <= TINY, 0.0, a) / np.where(b <= TINY, 1.0, b)
