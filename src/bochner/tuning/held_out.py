"""Ridge terms and the number of iterations from rows that are held out.

Candidates are solved side by side as columns of one run of conjugate gradients, whose cost is mostly that of reading
the features; the held-out error of each is traced after every iteration, for to stop early regularises too.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.data.hashes import uniform
from bochner.design import Design
from bochner.features.stored import Stored
from bochner.normal import NormalEquations
from bochner.solvers.iterative import IterativeRidge
from bochner.solvers.ridge import best_alpha

MOST_HELD_OUT = 10_000
FOLDED_ROWS = 5_000
N_FOLDS = 5
TRIAL_ROWS = 1 << 14
TRACED_ITERATIONS, PATIENCE, WORTHWHILE = 24, 3, 1e-3
TRACED_OUTPUTS, MOST_ITERATIONS = 2, 500
ALPHAS = np.array([0.01, 0.1, 1.0, 10.0])
SHARES = np.array([1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1])
WEIGHT_STEPS, WEIGHT_ROUNDS = np.array([0.1, 10.0]), 1


def rows_held_out(hashes: NDArray, weights: NDArray, seed: int) -> NDArray[np.bool_]:
    """Which rows to hold out, about a fifth of those with weight, about 10,000 at most, shape (n,).

    The content of a row decides, so that equal rows are held out together, in any order and from any part of the data.
    """
    counted = weights > 0
    share = min(1 / N_FOLDS, MOST_HELD_OUT / max(int(counted.sum()), 1))
    return counted & (uniform(hashes, seed) < share)


def folds(hashes: NDArray, weights: NDArray, seed: int) -> list[NDArray[np.bool_]]:
    """Five sets of rows that together are all those with weight, each shape (n,); equal rows are in one, by content."""
    _, group = np.unique(np.where(weights > 0, uniform(hashes, seed), 2.0), return_inverse=True)
    size = -(-len(np.unique(group[weights > 0])) // N_FOLDS)
    return [(group // max(size, 1) == k) & (weights > 0) for k in range(N_FOLDS)]


class HeldOutPredictions(NamedTuple):
    """Predictions for rows that the model has not seen, their targets, both of shape (n, K), and weights, (n,)."""

    predicted: NDArray
    truth: NDArray
    weight: NDArray


class _Rows(NamedTuple):
    features: Stored
    y: NDArray
    weight: NDArray


class HeldOut:
    """Rows held out of a ridge regression: a fifth, 10,000 at most; all rows in turn where there are few.

    Equal rows are held out together, lest one tell of the other; a row of weight zero is as none.

    Parameters
    ----------
    ridge : IterativeRidge
    seed : int
    rows : bool array of shape (n,), optional
        These ones instead.

    Attributes
    ----------
    folds : list of bool arrays of shape (n,)
        The rows that are held out at a time; empty where all rows are equal.
    """

    def __init__(self, ridge: IterativeRidge, seed: int, rows: NDArray | None = None) -> None:
        self.ridge = ridge
        source = ridge.design.source
        if rows is not None:
            masks = [rows]
        elif source.n_counted <= FOLDED_ROWS:
            masks = folds(ridge.design.row_hashes, source.weights, seed)
        else:
            masks = [rows_held_out(ridge.design.row_hashes, source.weights, seed)]
        counted = source.weights > 0
        self.folds = [mask for mask in masks if mask.any() and not mask[counted].all()]
        self._rows = [self._hold(mask) for mask in self.folds]

    def _hold(self, mask: NDArray) -> _Rows:
        design = self.ridge.design
        X, y, weight = design.source.take(np.flatnonzero(mask)).whole()
        return _Rows(self.ridge.store(X.astype(design.dtype, copy=False), self.ridge.packed), y, weight)

    def scores(self, penalties: NDArray) -> NDArray:
        """Mean squared error of candidates, summed over the outputs, at the best number of iterations for each.

        Parameters
        ----------
        penalties : array of shape (A, M)
            Ridge terms of the maps.

        Returns
        -------
        array of shape (A,)
        """
        K = self.ridge.design.source.n_outputs
        mix = _mixture(K) if K > TRACED_OUTPUTS else None
        traces = [
            _Trace(self.ridge.equations(~mask), rows, len(penalties), mix, not self.ridge.is_dense)
            for mask, rows in zip(self.folds, self._rows, strict=True)
        ]
        columns = np.repeat(penalties, min(K, TRACED_OUTPUTS), axis=0)
        for trace in traces:
            self.ridge.solve(trace.equations, columns, 1e-3, TRACED_ITERATIONS, trace.rhs, trace.visit)
        losses = np.sum([trace.losses for trace in traces], axis=0)
        return losses.min(axis=0) / sum(rows.weight.sum() for rows in self._rows)

    def run(
        self, penalty: NDArray, tol: float, traced: bool, loss: Callable[[NDArray], float] | None = None
    ) -> tuple[int, HeldOutPredictions]:
        """Predict the held-out rows with given ridge terms.

        Parameters
        ----------
        penalty : array of shape (M,)
        tol : float
            Relative error of the solutions.
        traced : bool
            Stop at the number of iterations that is best for the rows.
        loss : callable (predictions of shape (K, n)) -> float, optional
            By which it is best, instead of the squared error.

        Returns
        -------
        n_iter : int
            That number, at least 1; the most that there may be where not `traced`.
        HeldOutPredictions
        """
        parts, steps = [], []
        K = self.ridge.design.source.n_outputs
        for mask, rows in zip(self.folds, self._rows, strict=True):
            trace = _Trace(self.ridge.equations(~mask), rows, loss=loss)
            columns = np.tile(penalty, (K, 1))
            if traced:
                self.ridge.solve(trace.equations, columns, tol, TRACED_ITERATIONS, trace.rhs, trace.visit)
            else:
                coef = self.ridge.solve(trace.equations, columns, tol, MOST_ITERATIONS, trace.rhs).coef
                trace.visit(coef, 1)
            steps.append(trace.best_iteration)
            parts.append((trace.best.T + trace.equations.target_mean, rows.y, rows.weight))
        n_iter = max(1, round(float(np.median(steps)))) if traced else MOST_ITERATIONS
        return n_iter, HeldOutPredictions(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


class _Trace:
    """Held-out errors of several candidates after each iteration, and the best predictions of a single one.

    Where there is nothing to solve for, and so no iteration, they are those of the mean. With `mix`, of shape (M, K),
    they are those of M combinations of the outputs.
    """

    def __init__(
        self,
        equations: NormalEquations,
        rows: _Rows,
        n_candidates: int = 1,
        mix: NDArray | None = None,
        impatient: bool = True,
        loss: Callable[[NDArray], float] | None = None,
    ) -> None:
        self.impatient, self.loss = impatient, loss
        self.equations, self.rows, self.n_candidates = equations, rows, n_candidates
        self.truth, self.rhs = (rows.y - equations.target_mean).T, equations.rhs
        if mix is not None:
            self.truth, self.rhs = mix @ self.truth, mix.astype(equations.dtype) @ self.rhs
        if n_candidates > 1:
            self.rhs = np.tile(self.rhs, (n_candidates, 1))
        self.losses = np.full((TRACED_ITERATIONS, n_candidates), (np.square(self.truth) * rows.weight).sum())
        self.best, self.best_iteration = np.zeros_like(self.truth), 0

    def visit(self, coef: NDArray, n_iter: int) -> bool:
        """Trace an iteration; true where the last few brought nothing worthwhile to any candidate."""
        offset = (coef @ self.equations.feature_mean)[:, np.newaxis]
        fitted = self.rows.features.forward(coef) - offset
        fitted = fitted.reshape(self.n_candidates, *self.truth.shape)
        if self.loss is None:
            losses = (np.square(self.truth - fitted).sum(axis=1) * self.rows.weight).sum(axis=1)
        else:
            losses = np.array([self.loss(fitted[0] + self.equations.target_mean[:, np.newaxis])])
        before = self.losses[: n_iter - 1].min(axis=0, initial=np.inf)  # none before the first
        if n_iter == 1 or losses[0] < before[0]:
            self.best, self.best_iteration = fitted[0], n_iter
        self.losses[n_iter - 1 :] = np.minimum(losses, before)
        if n_iter <= PATIENCE or not self.impatient:
            return False
        gain = self.losses[n_iter - 1 - PATIENCE].min() - self.losses[n_iter - 1].min()
        return bool(gain <= WORTHWHILE * self.losses[n_iter - 1].min())


def _mixture(n_outputs: int) -> NDArray:
    """Two orthogonal combinations of the outputs, shape (2, K), whose squares keep the sum of theirs in expectation.

    Their directions are uniform: of random signs some would be those of the sum of all classes, which is a constant.
    """
    directions, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((n_outputs, TRACED_OUTPUTS)))
    return directions.T * np.sqrt(n_outputs / TRACED_OUTPUTS)


def _counted(design: Design) -> NDArray[np.intp]:
    """The rows that have weight."""
    return np.flatnonzero(design.source.weights)


def trial(design: Design, seed: int) -> Design | None:
    """Return a design of 16,384 of the rows, on which candidates are compared; None where there are no more."""
    sample = design.source.sample(TRIAL_ROWS, np.random.default_rng(seed))
    return None if sample.n_rows == design.source.n_rows else Design(sample, deepcopy(design.features), design.dtype)


def candidates(ridge: IterativeRidge, weight: float | None = None) -> NDArray:
    """Ridge terms to try, shape (A,).

    For dense features shares of the centred trace of Z'WZ, from where rounding would show. For bins from 0.01 to 10
    times the kernel's variance and what a distinct row weighs, equal ones taken together.

    Parameters
    ----------
    ridge : IterativeRidge
    weight : float, optional
        Sum of the weights of all rows, where `ridge` has some of them.
    """
    binned = [not part.is_dense for part in ridge.maps]
    if not any(binned):
        equations = ridge.equations()
        trace = float(equations.diagonal().sum()) or 1.0
        return SHARES * trace * (1.0 if weight is None else weight / equations.weight)
    squares = np.zeros(int(ridge.edges[-1]))
    for features, y, own in ridge.blocks:
        features.squares(np.ones(len(y)) if own is None else own, squares)
    trace = sum(squares[a:b].sum() for a, b, own in zip(ridge.edges, ridge.edges[1:], binned, strict=False) if own)
    distinct = len(np.unique(ridge.design.row_hashes[_counted(ridge.design)]))
    mantissa, exponent = np.frexp(trace / sum(binned) / distinct)
    return ALPHAS * np.ldexp(np.round(mantissa, 9), exponent)  # 1, not 1 - 1e-16


def choose_penalty(held: HeldOut, alphas: NDArray) -> tuple[NDArray, NDArray]:
    """Choose alpha, and where several maps are to be weighted a factor on it for each, one after the other.

    Parameters
    ----------
    alphas : array of shape (A,)

    Returns
    -------
    penalty : array of shape (M,)
        Ridge terms of the maps.
    scores : array of shape (A,)
        Of the alphas.
    """
    features, n_maps = held.ridge.design.features, len(held.ridge.maps)
    scores = held.scores(np.tile(alphas[:, np.newaxis], (1, n_maps)))
    penalty = np.full(n_maps, best_alpha(alphas, scores))
    for m in np.tile(np.arange(n_maps), WEIGHT_ROUNDS if features.learns_weights else 0):
        judge = np.tile(penalty, (1 + len(WEIGHT_STEPS), 1))
        judge[1:, m] *= WEIGHT_STEPS
        penalty = judge[np.nanargmin(held.scores(judge))]
    return penalty, scores
