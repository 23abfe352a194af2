"""Errors of rows left out of a machine, by conjugate gradients on its stored features without their fold."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.data.hashes import uniform
from bochner.estimators.ridge.spread import LEARNED_ROWS, Affine, CalibrationRows
from bochner.normal import NormalEquations
from bochner.solvers.iterative import IterativeRidge
from bochner.tuning.held_out import HeldOutPredictions
from bochner.tuning.policy import POLICY

N_FOLDS = 2  # of the rows that the scale is learned from; more change nothing
STEPS = 12  # iterations for bins, which are regularised by stopping
TOL = 3e-2  # relative error, where there are no bins


class Grouped(NamedTuple):
    """Observations, and the number of the design's row that each of the rows as they came is part of, shape (n,)."""

    rows: CalibrationRows
    number: NDArray[np.intp]

    @property
    def own(self) -> NDArray[np.intp]:
        """Number of the design's row that each observation is part of."""
        return self.number[self.rows.observations.row]


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

    def solve(self, kept: NDArray) -> Found:
        """Fit the rows of a mask."""
        equations = self.ridge.equations(kept)
        penalty = np.tile(self.penalty, (equations.shape[0], 1))
        most, tol = (POLICY.most_iterations, TOL) if self.ridge.is_dense else (STEPS, 0.0)
        return self._found(equations, self.ridge.solve(equations, penalty, tol, most).coef)

    def solved(self, kept: NDArray, coef: NDArray) -> Found:
        """What goes with coefficients that the rows of a mask gave before."""
        return self._found(self.ridge.equations(kept), coef)

    def _found(self, equations: NormalEquations, coef: NDArray) -> Found:
        intercept = self.ridge.intercept(equations, coef)
        return Found(Affine(coef.T, intercept), self.ridge.predict(equations, coef))


def calibrate_iteratively(machine: Machine, grouped: Grouped, folds: Folds) -> CalibrationRows:
    """Predict rows by machines without their fold: those that calibrate, and others that a scale may be learned from.

    Where one fold calibrates, intervals are about the machine without it. Its coefficients are those of the stored
    features, whose maps' scales are `machine.ridge.scales`.
    """
    rows = grouped.rows
    source = machine.ridge.design.source
    counted = source.weights > 0
    predicted, centre = np.full((source.n_rows, source.n_outputs), np.nan), None
    if len(folds.masks) == 1:
        judge = folds.masks[0] & counted
        rows = replace(rows, judge=judge[grouped.own])
        found = machine.solved(counted & ~judge, folds.coef)
        predicted[judge], centre = found.predicted[judge], found.linear
        if not rows.few:
            _predict_folds(machine, counted & ~judge, predicted, rows.seed)
    elif folds.masks:
        predicted[_of_folds(folds.masks)] = folds.predicted
        rows = rows.judged_by_all() if rows.few else rows
    return rows.with_predictions(predicted[grouped.own], centre)


def observed(predictions: HeldOutPredictions, masks: list[NDArray[np.bool_]], grouped: Grouped) -> HeldOutPredictions:
    """Predictions for observations, by those for the design's rows that were held out in turn.

    Parameters
    ----------
    predictions : HeldOutPredictions
        Of one fold after the other.
    masks : list of bool arrays
        Of the folds.
    grouped : Grouped
    """
    held_out, rows = _of_folds(masks), grouped.rows
    place = np.full(len(masks[0]), -1)
    place[held_out] = np.arange(len(held_out))
    place = place[grouped.own]
    some = np.flatnonzero(place >= 0)
    place = place[some]
    fold = None if predictions.rows is None or predictions.rows.fold is None else predictions.rows.fold[place]
    return rows.held_out(some, predictions.predicted[place], fold=fold)


def _of_folds(masks: list[NDArray[np.bool_]]) -> NDArray[np.intp]:
    """Numbers of the rows that were held out, one fold after the other."""
    return np.concatenate([np.flatnonzero(mask) for mask in masks])


def _predict_folds(machine: Machine, others: NDArray, predicted: NDArray, seed: int) -> None:
    """Predict rows of the design by machines without their fold and those that calibrate, as many as are enough."""
    fold = (N_FOLDS * uniform(machine.ridge.design.row_hashes, seed + 1)).astype(int)
    wanted = min(N_FOLDS, -(-N_FOLDS * LEARNED_ROWS // int(np.count_nonzero(others))))
    for k in range(wanted):
        left = others & (fold == k)
        if left.any() and (others & ~left).any():
            predicted[left] = machine.solve(others & ~left).predicted[left]
