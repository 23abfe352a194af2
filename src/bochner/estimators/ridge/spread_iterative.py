"""The spread of a machine's errors by conjugate gradients on its stored features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.data.hashes import uniform
from bochner.estimators.ridge.spread import FEWEST_ROWS, LEARNED_ROWS, Affine, Rows, Spread, roots_of
from bochner.normal import NormalEquations
from bochner.solvers.iterative import IterativeRidge
from bochner.tuning.policy import POLICY

N_FOLDS = 2  # of the rows that the scale is learned from; more change nothing
SMOOTHING = 10.0  # times the ridge terms
STEPS = 12  # iterations for bins, which are regularised by stopping
TOL = 3e-2  # relative error, where there are no bins


class Grouped(NamedTuple):
    """Rows as they came, and the number of the design's row that each is part of, shape (n,)."""

    rows: Rows
    number: NDArray[np.intp]


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

    def solve(self, kept: NDArray, targets: NDArray | None = None, smoothing: float = 1.0) -> Found:
        """Fit the rows of a mask, to their targets or other ones, with so many times the ridge terms."""
        equations = self.ridge.equations(kept, targets)
        penalty = np.tile(smoothing * self.penalty, (equations.shape[0], 1))
        most, tol = (POLICY.most_iterations, TOL) if self.ridge.is_dense else (STEPS, 0.0)
        return self._found(equations, self.ridge.solve(equations, penalty, tol, most).coef)

    def solved(self, kept: NDArray, coef: NDArray) -> Found:
        """What goes with coefficients that the rows of a mask gave before."""
        return self._found(self.ridge.equations(kept), coef)

    def _found(self, equations: NormalEquations, coef: NDArray) -> Found:
        intercept = self.ridge.intercept(equations, coef)
        return Found(Affine(coef.T, intercept), self.ridge.predict(equations, coef))


def spread_iteratively(machine: Machine, grouped: Grouped, folds: Folds) -> Spread:
    """Learn the scale from errors of rows by machines without their fold, and score those that calibrate.

    Where one fold calibrates, intervals are about the machine without it. Coefficients are those of the stored
    features, whose maps' scales are `machine.ridge.scales`.
    """
    rows, number = grouped
    source = machine.ridge.design.source
    counted = source.weights > 0
    predicted, centre = np.full((source.n_rows, source.n_outputs), np.nan), None
    if len(folds.masks) == 1:
        judge = folds.masks[0] & counted
        rows = rows.judged_by(judge[number])
        found = machine.solved(counted & ~judge, folds.coef)
        predicted[judge], centre = found.predicted[judge], found.linear
        others = counted & ~judge
        if np.count_nonzero(others) >= FEWEST_ROWS:
            _predict_folds(machine, others, predicted, rows.seed)
    elif folds.masks:
        predicted[np.concatenate([np.flatnonzero(mask) for mask in folds.masks])] = folds.predicted
        judge = np.bincount(number[rows.judge], minlength=source.n_rows) > 0
        others = counted & ~judge
        if np.count_nonzero(others) < FEWEST_ROWS:
            rows = rows.judged_by(True)
    if not folds.masks or np.count_nonzero(others) < FEWEST_ROWS:
        return rows.spread(predicted[number], centre)
    return _scaled(machine, Grouped(rows, number), predicted, others, centre)


def _predict_folds(machine: Machine, others: NDArray, predicted: NDArray, seed: int) -> None:
    """Predict rows of the design by machines without their fold and those that calibrate, as many as are enough."""
    fold = (N_FOLDS * uniform(machine.ridge.design.row_hashes, seed + 1)).astype(int)
    wanted = min(N_FOLDS, -(-N_FOLDS * LEARNED_ROWS // int(np.count_nonzero(others))))
    for k in range(wanted):
        left = others & (fold == k)
        if left.any() and (others & ~left).any():
            predicted[left] = machine.solve(others & ~left).predicted[left]


def _scaled(machine: Machine, grouped: Grouped, predicted: NDArray, others: NDArray, centre: Affine | None) -> Spread:
    """Fit the scale to the errors of rows that do not calibrate."""
    rows, number = grouped
    learned = others & np.isfinite(predicted).all(axis=1)
    weight = np.where(learned[number], rows.weight, 0.0)
    errors = np.where(weight[:, np.newaxis] > 0, rows.targets - predicted[number], 0.0)
    roots, bounds = roots_of(errors, weight)
    found = machine.solve(learned, _means(roots, weight, number, len(learned)), SMOOTHING)
    return rows.spread(predicted[number], centre, found.linear, found.predicted[number], bounds)


def _means(values: NDArray, weight: NDArray, number: NDArray, n: int) -> NDArray[np.float64]:
    """Weighted means of values of the rows, (m, K), over those that are one row of the design; zero of none, (n, K)."""
    total = np.bincount(number, weight, n)
    sums = np.stack([np.bincount(number, weight * column, n) for column in values.T], axis=1)
    return sums / np.where(total > 0, total, 1.0)[:, np.newaxis]
