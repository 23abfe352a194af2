"""Candidates that are iterated side by side, judged after every iteration by rows that are held out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.features.stored import Stored
from bochner.normal import NormalEquations
from bochner.solvers.iterative import IterativeRidge
from bochner.tuning.policy import POLICY

Losses = Callable[[NDArray], NDArray]
Stalls = Callable[[NDArray], bool]


class Fold(NamedTuple):
    """Equations of rows that are fitted, and rows that judge: their features, weights of shape (m,), and losses.

    The losses are a function of predictions of shape (K, m), and of shape (m,).
    """

    equations: NormalEquations
    features: Stored
    weight: NDArray
    losses: Losses


def mixture(n_outputs: int, size: int) -> NDArray:
    """Orthonormal combinations of the outputs, shape (K, size), by which many of them are judged.

    Their directions are uniform: of random signs some would be those of the sum of all classes, which is a constant.
    """
    return np.linalg.qr(np.random.default_rng(0).standard_normal((n_outputs, size)))[0]


def average(losses: NDArray, weight: NDArray) -> float:
    """Weighted mean; infinite where one is no number."""
    mean = float(weight @ losses / weight.sum())
    return mean if np.isfinite(mean) else np.inf


def standard_error(losses: NDArray, weight: NDArray) -> float:
    """Standard error of the weighted mean."""
    share = weight / weight.sum()
    return float(np.sqrt(np.square(share * (losses - share @ losses)).sum()))


def never(least: NDArray) -> bool:
    """Whether nothing is gained, for those who do not ask."""
    return False


def stalls(least: NDArray) -> bool:
    """Whether the last few iterations together brought nothing worthwhile."""
    n = POLICY.patience
    return len(least) > n and bool(least[-1 - n] - least[-1] <= POLICY.worthwhile * least[-1])


def stalls_for_long(least: NDArray) -> bool:
    """Whether none of the last few iterations brought anything worthwhile, and one more did not."""
    last = least[-2 - POLICY.patience :]
    enough = len(last) == 2 + POLICY.patience
    return enough and bool((last[1:] >= last[:-1] * (1 - POLICY.worthwhile)).all())


class Trace:
    """Mean losses of candidates after each iteration, and the predictions of the best candidate when it was best.

    Where there is nothing to solve for, and so no iteration, they are those of the mean. `curves`, of shape (steps, A),
    are the least losses up to an iteration, and `coef` those after the last of `n_done`.

    Parameters
    ----------
    fold : Fold
    n_candidates, steps : int
    mix : array of shape (K, M), optional
        Combinations of the outputs that are fitted in their place.
    """

    def __init__(self, fold: Fold, n_candidates: int, steps: int, mix: NDArray | None = None) -> None:
        equations, self.fold, self.n_candidates = fold.equations, fold, n_candidates
        rhs, mean = equations.rhs, equations.target_mean
        if mix is not None:
            rhs, mean = mix.T.astype(equations.dtype) @ rhs, mix.T @ mean
        self.rhs, self.mean = np.tile(rhs, (n_candidates, 1)), np.tile(mean, n_candidates)
        self.candidate, self.n_iter, self.n_done = 0, 0, 0
        self.predicted = np.tile(mean[:, np.newaxis], len(fold.weight))
        self.losses = fold.losses(self.predicted)
        self.curves = np.full((steps, n_candidates), average(self.losses, fold.weight))
        self.coef = np.zeros_like(self.rhs)
        self.least = np.full(n_candidates, np.inf)  # none before the first iteration

    def run(self, ridge: IterativeRidge, penalties: NDArray, tol: float, stalls: Stalls = never) -> Trace:
        """Iterate with the penalties of the candidates, shape (A, M), until their least loss stalls.

        Parameters
        ----------
        ridge : IterativeRidge
        tol : float
            Relative error at which to stop anyway.
        stalls : callable (least losses of any candidate so far) -> bool
        """
        columns = np.repeat(penalties, len(self.rhs) // len(penalties), axis=0)

        def visit(coef: NDArray, n_iter: int) -> bool:
            self.visit(coef, n_iter)
            return stalls(self.curves[:n_iter].min(axis=1))

        self.coef = ridge.solve(self.fold.equations, columns, tol, len(self.curves), self.rhs, visit).coef
        return self

    def visit(self, coef: NDArray, n_iter: int) -> None:
        """Judge the coefficients of all candidates after an iteration."""
        offset = coef @ self.fold.equations.feature_mean - self.mean
        F = (self.fold.features.forward(coef) - offset[:, np.newaxis]).reshape(self.n_candidates, *self.predicted.shape)
        each = [self.fold.losses(f) for f in F]
        means = np.array([average(losses, self.fold.weight) for losses in each])
        best, self.n_done = int(np.argmin(means)), n_iter
        if n_iter == 1 or means[best] < self.least.min():
            self.candidate, self.n_iter = best, n_iter
            self.losses, self.predicted = each[best], F[best].copy()
        self.least = np.minimum(means, self.least)
        self.curves[n_iter - 1 :] = self.least
