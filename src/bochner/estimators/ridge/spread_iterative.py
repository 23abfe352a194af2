"""The spread of a machine's errors by conjugate gradients on its stored features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.data.hashes import uniform
from bochner.estimators.ridge.spread import FEWEST_ROWS, LEARNED_ROWS, Rows, Spread, roots_of
from bochner.solvers.iterative import IterativeRidge
from bochner.tuning.policy import POLICY

N_FOLDS = 3  # of the rows that the scale is learned from; more change nothing
SMOOTHING = 10.0  # times the ridge terms
STEPS = 12  # iterations for bins, which are regularised by stopping
TOL = 3e-2  # relative error, where there are no bins


class Grouped(NamedTuple):
    """Rows as they came, and the number of the design's row that each is part of, shape (n,)."""

    rows: Rows
    number: NDArray[np.intp]


class Known(NamedTuple):
    """Predictions of rows of the design, by their numbers (m,), without them; shape (m, K)."""

    rows: NDArray[np.intp]
    predicted: NDArray


class Machine(NamedTuple):
    """What was solved: ridge terms of the maps, shape (M,), and the iterations that it took."""

    ridge: IterativeRidge
    penalty: NDArray
    n_iter: int

    def solve(self, kept: NDArray, steps: int, targets: NDArray | None = None, factor: float = 1.0) -> _Found:
        """Fit rows of the design, a mask, to its targets or other ones, with so many times the ridge terms."""
        ridge, dense = self.ridge, self.ridge.is_dense
        equations = ridge.equations(kept, targets)
        penalty = np.tile(factor * self.penalty, (equations.shape[0], 1))
        most, tol = (POLICY.most_iterations, TOL) if dense else (steps, 0.0)
        coef = ridge.solve(equations, penalty, tol, most).coef
        return _Found(coef, ridge.intercept(equations, coef), ridge.predict(equations, coef))


class _Found(NamedTuple):
    """Coefficients (K, D), intercepts (K,) for features that are not centred, and predictions of all rows, (n, K)."""

    coef: NDArray
    intercept: NDArray
    predicted: NDArray


def spread_iteratively(machine: Machine, grouped: Grouped, known: Known | None) -> Spread:
    """Learn the scale from errors of rows by machines without their fold, and score those that calibrate.

    Coefficients are those of the stored features, whose maps' scales are `machine.ridge.scales`.

    Parameters
    ----------
    machine : Machine
    grouped : Grouped
    known : Known or None
        Of all rows by folds, as there are where they are few, or of those that calibrate. None where these have yet to
        be predicted by a machine without them.
    """
    rows, number = grouped
    predicted = np.full((machine.ridge.design.source.n_rows, rows.targets.shape[1]), np.nan)
    counted = machine.ridge.design.source.weights > 0
    judge = np.zeros(len(counted), bool)
    judge[number[rows.judge]] = True
    if known is None:
        predicted[judge] = machine.solve(counted & ~judge, machine.n_iter).predicted[judge]
    else:
        predicted[known.rows] = known.predicted
    others = counted & ~judge
    by_folds = bool(np.isfinite(predicted[others]).all())
    if np.count_nonzero(others) < FEWEST_ROWS:
        if by_folds:
            rows.all_judge()
        return rows.with_one_scale(predicted[number])
    if not by_folds:
        _predict_folds(machine, others, predicted, rows.seed)
    return _scaled(machine, grouped, predicted, others)


def _predict_folds(machine: Machine, others: NDArray, predicted: NDArray, seed: int) -> None:
    """Predict rows of the design by machines without their fold and those that calibrate, as many as are enough."""
    fold = (N_FOLDS * uniform(machine.ridge.design.row_hashes, seed + 1)).astype(int)
    wanted = min(N_FOLDS, -(-N_FOLDS * LEARNED_ROWS // int(np.count_nonzero(others))))
    for k in range(wanted):
        left = others & (fold == k)
        if left.any():
            steps = min(machine.n_iter, STEPS)
            predicted[left] = machine.solve(others & ~left, steps).predicted[left]


def _scaled(machine: Machine, grouped: Grouped, predicted: NDArray, others: NDArray) -> Spread:
    """Fit the scale to the errors of rows that do not calibrate."""
    rows, number = grouped
    learned = others & np.isfinite(predicted).all(axis=1)
    own = rows.others & learned[number]
    weight = np.where(own, rows.weight, 0.0)
    errors = np.where(own[:, np.newaxis], rows.targets - predicted[number], 0.0)
    roots, bounds = roots_of(errors, weight)
    found = machine.solve(learned, STEPS, _means(roots, weight, number, len(learned)), SMOOTHING)
    return rows.with_scale(predicted[number], found.predicted[number], found.coef.T, found.intercept, bounds)


def _means(values: NDArray, weight: NDArray, number: NDArray, n: int) -> NDArray[np.float64]:
    """Weighted means of values of the rows, (m, K), over those that are one row of the design; zero of none, (n, K)."""
    total = np.bincount(number, weight, n)
    sums = np.stack([np.bincount(number, weight * column, n) for column in values.T], axis=1)
    return sums / np.where(total > 0, total, 1.0)[:, np.newaxis]
