"""Ridge terms and the number of iterations from rows that are held out of given features.

Candidates are solved side by side as columns of one run of conjugate gradients, whose cost is mostly that of reading
the features; the held-out error of each is traced after every iteration, for to stop early regularises too.
"""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.data.hashes import row_hashes
from bochner.design import Design
from bochner.features.dense import Rows
from bochner.features.stored import StoredRows
from bochner.solvers.iterative import IterativeRidge
from bochner.solvers.path import best_alpha
from bochner.tuning.judge import squares
from bochner.tuning.policy import POLICY
from bochner.tuning.split import folds, rows_held_out
from bochner.tuning.trace import Fold, Losses, Trace, average, mixture, never, stalls

SETTLING_STEPS = 4  # iterations from one look at held-out predictions to the next
SETTLED = 0.04  # of their root mean square error, by which they may still move then


class LeftOut(NamedTuple):
    """Rows that a model has not seen.

    Attributes
    ----------
    X : array or CSR matrix of shape (n, d)
        Encoded.
    weight : array of shape (n,)
        With which they are fitted otherwise.
    fold : int array of shape (n,) or None
        Rows with the same number were left out together; each by itself where None.
    """

    X: Rows
    weight: NDArray
    fold: NDArray[np.intp] | None = None


class HeldOutPredictions(NamedTuple):
    """Predictions for rows that the model has not seen, their targets, both of shape (n, K), and weights, (n,)."""

    predicted: NDArray
    targets: NDArray
    weight: NDArray
    rows: LeftOut | None = None

    def distinct(self) -> HeldOutPredictions:
        """Equal rows as one, of their weight and mean target: a copy is no evidence of its own."""
        if self.rows is None:
            return self
        _, first, group = np.unique(row_hashes(self.rows.X), return_index=True, return_inverse=True)
        if len(first) == len(group):
            return self
        total = np.bincount(group, self.weight)
        sums = np.stack([np.bincount(group, self.weight * column) for column in self.targets.T], axis=1)
        targets = np.where(total[:, np.newaxis] > 0, sums, self.targets[first])
        targets /= np.where(total > 0, total, 1.0)[:, np.newaxis]
        return HeldOutPredictions(self.predicted[first], targets, total)


class HeldOutRun(NamedTuple):
    """What a run without the rows held out found.

    Attributes
    ----------
    n_iter : int
        Iterations that were best for the rows; the most that there may be where they were not traced.
    predictions : HeldOutPredictions
    coefs : list of arrays of shape (K, D)
        Of each fold; where iterations were traced, those after the last one.
    error : float
        Relative error at which it was enough to stop, the largest of the folds; zero where iterations were traced.
    n_done : int
        Iterations that were traced, of the first fold.
    """

    n_iter: int
    predictions: HeldOutPredictions
    coefs: list[NDArray]
    error: float = 0.0
    n_done: int = 0

    @property
    def coef(self) -> NDArray:
        """Mean over the folds."""
        return np.mean(self.coefs, axis=0) if len(self.coefs) > 1 else self.coefs[0]


class Settling:
    """Asks after every iteration whether the predictions of the rows that judge have settled.

    They have where the last four iterations moved them by no more than a small share of what they are wrong by: the
    rest of the way, about as long again, then changes their squared error by a percent or two of itself at most.

    Parameters
    ----------
    trace : Trace
        Of one candidate.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace, self.former = trace, trace.predicted

    def __call__(self, coef: NDArray, n_iter: int) -> bool:
        """Whether they have."""
        if n_iter % SETTLING_STEPS:
            return False
        trace, former = self.trace, self.former
        trace.visit(coef, 1)
        self.former, weight = trace.predicted, trace.fold.weight
        moved = average(np.square(self.former - former).sum(axis=0), weight)
        return moved <= SETTLED**2 * average(trace.losses, weight)


class HeldOut:
    """Rows held out of a ridge regression: about a fifth or 10,000; all rows in turn where there are few.

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
        self.ridge, self._stalls = ridge, never if ridge.is_dense else stalls
        source = ridge.design.source
        if rows is not None:
            masks = [rows]
        elif source.n_counted <= POLICY.folded_rows:
            masks = folds(ridge.design.row_hashes, source.weights, seed)
        else:
            masks = [rows_held_out(ridge.design.row_hashes, source.weights, seed)]
        counted = source.weights > 0
        self.folds = [mask for mask in masks if mask.any() and not mask[counted].all()]
        self._rows = [self._stored(mask) for mask in self.folds]

    def _stored(self, mask: NDArray) -> StoredRows:
        design = self.ridge.design
        X, y, weight = design.source.take(np.flatnonzero(mask)).whole()
        return StoredRows(self.ridge.store(X.astype(design.dtype, copy=False), self.ridge.packed), y, weight)

    @property
    def _most_traced(self) -> int:
        """Iterations; bins beside Fourier features take more of them."""
        mixed = len({part.is_dense for part in self.ridge.maps}) > 1
        return POLICY.hybrid_steps if mixed else POLICY.traced_iterations

    def _trace(
        self, k: int, n_candidates: int, steps: int, mix: NDArray | None = None, losses: Losses | None = None
    ) -> Trace:
        """A trace of the rows of fold k."""
        equations, (features, y, weight) = self.ridge.equations(~self.folds[k]), self._rows[k]
        losses = losses or partial(squares, y if mix is None else y @ mix)
        return Trace(Fold(equations, features, weight, losses), n_candidates, steps, mix)

    def scores(self, penalties: NDArray) -> NDArray:
        """Mean squared error of candidates, summed over the outputs, at the best number of iterations for each.

        Many outputs are judged by two combinations, whose squares keep the sum of theirs in expectation.

        Parameters
        ----------
        penalties : array of shape (A, M)
            Ridge terms of the maps.

        Returns
        -------
        array of shape (A,)
        """
        K, most = self.ridge.design.source.n_outputs, POLICY.traced_outputs
        mix = mixture(K, most) * np.sqrt(K / most) if most < K else None
        weights, curves = [rows.weight.sum() for rows in self._rows], []
        for k in range(len(self.folds)):
            trace = self._trace(k, len(penalties), POLICY.traced_iterations, mix)
            curves.append(trace.run(self.ridge, penalties, 1e-3, self._stalls).curves)
        return np.average(curves, axis=0, weights=weights).min(axis=0)

    def trace(self, penalty: NDArray, tol: float, losses: Losses | None = None, steps: int | None = None) -> HeldOutRun:
        """Predict the held-out rows at the number of iterations, at least 1, that is best for them.

        Parameters
        ----------
        penalty : array of shape (M,)
            Ridge terms of the maps.
        tol : float
            Relative error at which to stop anyway.
        losses : callable (predictions of shape (K, n)) -> array of shape (n,), optional
            By which it is best, instead of the squared error; of a single fold.
        steps : int, optional
            Iterations to do, instead of those until the losses stall.
        """
        traces = [self._trace(k, 1, steps or self._most_traced, losses=losses) for k in range(len(self.folds))]
        for trace in traces:
            trace.run(self.ridge, penalty[np.newaxis], tol, never if steps else self._stalls)
        n_iter = max(1, round(float(np.median([trace.n_iter for trace in traces]))))
        predictions = self._predictions([trace.predicted for trace in traces])
        return HeldOutRun(n_iter, predictions, [trace.coef for trace in traces], n_done=traces[0].n_done)

    def solve(self, penalty: NDArray, tol: float, settled: bool = False) -> HeldOutRun:
        """Predict the held-out rows by solutions of a given relative error.

        Parameters
        ----------
        penalty : array of shape (M,)
            Ridge terms of the maps.
        tol : float
        settled : bool, default=False
            Stop before where the predictions have settled.
        """
        coefs, predicted, errors = [], [], []
        for k in range(len(self.folds)):
            trace = self._trace(k, 1, 1)
            visit = Settling(trace) if settled else lambda coef, n_iter: False
            columns = np.tile(penalty, (len(trace.rhs), 1))
            found = self.ridge.solve(trace.fold.equations, columns, tol, POLICY.most_iterations, visit=visit)
            trace.visit(found.coef, 1)
            coefs.append(found.coef)
            predicted.append(trace.predicted)
            errors.append(max(found.error, tol))
        return HeldOutRun(POLICY.most_iterations, self._predictions(predicted), coefs, max(errors) if settled else tol)

    def _predictions(self, predicted: list[NDArray]) -> HeldOutPredictions:
        """Those of all folds together, given with shape (K, n) for each."""
        parts = [(own.T, y, weight) for own, (_, y, weight) in zip(predicted, self._rows, strict=True)]
        F, y, weight = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        numbers = [np.flatnonzero(mask) for mask in self.folds]
        fold = np.repeat(np.arange(len(numbers)), [len(own) for own in numbers])
        X = self.ridge.design.source.take(np.concatenate(numbers)).whole().X
        return HeldOutPredictions(F, y, weight, LeftOut(X, weight, fold))


def compared(design: Design, seed: int) -> Design | None:
    """Return a design of 16,384 of the rows, on which ridge terms are compared; None where there are no more."""
    sample = design.source.sample(POLICY.compared_rows, np.random.default_rng(seed))
    return None if sample.n_rows == design.source.n_rows else Design(sample, deepcopy(design.features), design.dtype)


def alphas_to_try(ridge: IterativeRidge, weight: float | None = None) -> NDArray:
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
        return np.array(POLICY.shares) * trace * (1.0 if weight is None else weight / equations.weight)
    squared = np.zeros(int(ridge.edges[-1]))
    for features, _, weight_of_rows in ridge.blocks:
        features.squares(weight_of_rows, squared)
    trace = sum(squared[a:b].sum() for a, b, own in zip(ridge.edges, ridge.edges[1:], binned, strict=False) if own)
    distinct = len(np.unique(ridge.design.row_hashes[np.flatnonzero(ridge.design.source.weights)]))
    mantissa, exponent = np.frexp(trace / sum(binned) / distinct)
    return np.array(POLICY.bin_alphas) * np.ldexp(np.round(mantissa, 9), exponent)  # 1, not 1 - 1e-16


def choose_penalty(held_out: HeldOut, alphas: NDArray) -> tuple[NDArray, NDArray]:
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
    n_maps = len(held_out.ridge.maps)
    scores = held_out.scores(np.tile(alphas[:, np.newaxis], (1, n_maps)))
    penalty = np.full(n_maps, best_alpha(alphas, scores))
    for m in range(n_maps if held_out.ridge.design.features.learns_weights else 0):
        tried = np.tile(penalty, (1 + len(POLICY.weight_steps), 1))
        tried[1:, m] *= POLICY.weight_steps
        penalty = tried[np.nanargmin(held_out.scores(tried))]
    return penalty, scores
