"""Errors of rows left out of a machine, by the factorisation that it was solved by.

Those of rows that calibrate are exact. Those that a scale is learned from are y - f over 1 - w h, but where there are
more rows than features the leverages h = z'(G + alpha I)^-1 z are estimates: means of (z'v)^2 over draws
v = (G + alpha I)^-1 (A'e + alpha^(1/2) e'), whose covariance is (G + alpha I)^-1 for normal e and e'.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bochner.data.draws import draw_rows
from bochner.design import Design
from bochner.estimators.ridge.observations import distinct_numbers
from bochner.estimators.ridge.spread import LEARNED_ROWS, CalibrationRows
from bochner.solvers.factors import DualFactor, FeatureFactor
from bochner.solvers.leave_one_out import DualLeaveOneOut, PrimalLeaveOneOut

SCORED_ROWS, SCORED_WORK = (2_048, 10_000), 1 << 35  # rows that are scored, and their number times that of pairs
SKETCH, LARGEST_LEVERAGE = 32, 0.9


def calibrate_directly(design: Design, factor: FeatureFactor, alpha: float, rows: CalibrationRows) -> CalibrationRows:
    """Predict rows that calibrate, left out one by one, and others that a scale may be learned from.

    Parameters
    ----------
    design : Design
        Of the rows.
    factor : FeatureFactor
        Of all of them.
    alpha : float
    rows : CalibrationRows
    """
    few = rows.few
    if few:
        rows = rows.judged_by_all()
    rng = np.random.default_rng(rows.seed)
    size = int(np.clip(SCORED_WORK // design.features.n_features_out**2, *SCORED_ROWS))
    judge, others = _some(rows.judge, size, rng), _some(~rows.judge, LEARNED_ROWS, rng)
    exact = np.concatenate([judge, others]) if isinstance(factor, DualFactor) else judge
    predicted = np.full(rows.targets.shape, np.nan)
    predicted[exact] = left_out(design, factor, alpha, rows, exact)
    if not few and not isinstance(factor, DualFactor):
        errors = _nearly_left_out(_of(design, rows, others), factor, alpha, rng)
        predicted[others] = rows.targets[others] - errors
    return rows.with_predictions(predicted)


def _nearly_left_out(design: Design, factor: FeatureFactor, alpha: float, rng: np.random.Generator) -> NDArray:
    """Errors of some of the rows, shape (m, K), over one less an estimate of their leverage."""
    weight, D = design.source.weights, len(factor.feature_mean)
    normal = rng.standard_normal((len(weight), SKETCH)) / np.sqrt(weight)[:, np.newaxis]
    drawn = _cross(design, factor, normal) * np.sqrt(factor.weight / weight.sum())
    V = factor.applied(alpha, drawn + np.sqrt(alpha) * rng.standard_normal((D, SKETCH)))
    coef = factor.coef(alpha)
    both = design.predict(np.hstack([coef, V]), np.concatenate([factor.intercept(coef), -factor.feature_mean @ V]))
    K = coef.shape[1]
    leverage = weight * (np.square(both[:, K:]).mean(axis=1) + 1 / factor.weight)
    errors = design.source.targets(design.source.y) - both[:, :K]
    return errors / (1 - np.minimum(leverage, LARGEST_LEVERAGE))[:, np.newaxis]


def _cross(design: Design, factor: FeatureFactor, targets: NDArray) -> NDArray[np.float64]:
    """Weighted moments of the features, about the mean of all rows, and targets of the rows, shape (D, K)."""
    total, done = np.zeros((len(factor.feature_mean), targets.shape[1])), 0
    for Z, _, weight in design.mapped():
        T = targets[done : done + len(Z)] * weight[:, np.newaxis]
        total += Z.T @ T.astype(Z.dtype)
        total -= np.outer(factor.feature_mean, T.sum(axis=0))
        done += len(Z)
    return total


def left_out(
    design: Design, factor: FeatureFactor, alpha: float, rows: CalibrationRows, some: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Leave-one-out predictions of some of the observations, (m, K), exact."""
    if isinstance(factor, DualFactor):
        own, number = rows.observations, distinct_numbers(design.source)
        targets, number = rows.targets[some], number[own.row[some]]
        return targets - DualLeaveOneOut(factor).errors_of_parts(alpha, number, targets, own.weight[some])
    return PrimalLeaveOneOut(_of(design, rows, some), factor).predict(alpha)


def _some(mask: NDArray[np.bool_], size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Numbers of some of the rows of a mask; all of them if they are no more."""
    return draw_rows(np.where(mask, 1.0, 0.0), size, rng)[0] if mask.any() else np.empty(0, np.intp)


def _of(design: Design, rows: CalibrationRows, some: NDArray[np.intp]) -> Design:
    """The design of some of the observations."""
    return Design(rows.rows_of(some), design.features, design.dtype)
