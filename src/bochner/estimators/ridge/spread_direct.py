"""The spread of a machine's errors by the factorisation that it was solved by.

The scale is learned with the inverse that is there: its coefficients are (G + a I)^-1 c, G of all rows and c the
moments of the roots of some, in proportion. A factor for these rows alone would cost another fit. The errors of rows
that it is learned from are those of rows left out too, y - f over 1 - w h, but where there are more rows than features
the leverages h = z'(G + alpha I)^-1 z are estimates: means of (z'v)^2 over draws v = (G + alpha I)^-1 (A'e +
alpha^(1/2) e'), whose covariance is (G + alpha I)^-1 for normal e and e'.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bochner.data.draws import draw_rows
from bochner.design import Design
from bochner.estimators.ridge.spread import FEWEST_ROWS, LEARNED_ROWS, Affine, Rows, Spread, distinct_numbers, roots_of
from bochner.solvers.factors import DualFactor, FeatureFactor
from bochner.solvers.leave_one_out import DualLeaveOneOut, PrimalLeaveOneOut

SMOOTHING = 5.0  # times the ridge term, where another one costs little
SCORED_ROWS, SCORED_WORK = (2_048, 10_000), 1 << 35  # rows that are scored, and their number times that of pairs
SKETCH, LARGEST_LEVERAGE = 32, 0.9


def spread_directly(design: Design, factor: FeatureFactor, alpha: float, rows: Rows) -> Spread:
    """Learn the scale from errors of rows that are left out, and score others that calibrate, left out one by one.

    Parameters
    ----------
    design : Design
        Of the rows.
    factor : FeatureFactor
        Of all of them.
    alpha : float
    rows : Rows
    """
    few = np.count_nonzero(rows.others) < FEWEST_ROWS
    if few:
        rows = rows.judged_by(True)
    rng = np.random.default_rng(rows.seed)
    size = int(np.clip(SCORED_WORK // design.features.n_features_out**2, *SCORED_ROWS))
    judge, others = _some(rows.judge, size, rng), _some(rows.others, LEARNED_ROWS, rng)
    rows = rows.judged_by(np.isin(np.arange(len(rows.weight)), judge))
    predicted = np.full(rows.targets.shape, np.nan)
    predicted[judge] = left_out(design, factor, alpha, judge)
    if few:
        return rows.spread(predicted)
    if isinstance(factor, DualFactor):
        errors = rows.targets[others] - left_out(design, factor, alpha, others)
    else:
        errors = _nearly_left_out(_of(design, others), factor, alpha, rng)
    roots, bounds = roots_of(errors, rows.weight[others])
    scale = _regression(_of(design, others), factor, alpha, roots)
    found = np.full(rows.targets.shape, np.nan)
    found[judge] = _of(design, judge).predict(scale.coef, scale.intercept)
    return rows.spread(predicted, None, scale, found, bounds)


def _regression(design: Design, factor: FeatureFactor, alpha: float, targets: NDArray) -> Affine:
    """Ridge regression of other targets, (m, K), of some of the rows, by the factor of all."""
    weight = design.source.weights
    mean = weight @ targets / weight.sum()
    smooth = SMOOTHING * alpha if factor.inverse.serves_paths else alpha
    coef = factor.applied(smooth, _cross(design, factor, targets - mean) * (factor.weight / weight.sum()))
    coef = coef.astype(design.dtype)
    return Affine(coef, mean - factor.feature_mean @ coef)


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


def left_out(design: Design, factor: FeatureFactor, alpha: float, looked: NDArray[np.intp]) -> NDArray[np.float64]:
    """Leave-one-out predictions of rows, (m, K); equal ones that are looked at are left out together."""
    if isinstance(factor, DualFactor):
        return DualLeaveOneOut(factor).predict(alpha)[distinct_numbers(design.source)[looked]]
    some = _of(design, looked)
    return PrimalLeaveOneOut(some.distinct(), factor).predict(alpha)[distinct_numbers(some.source)]


def _some(mask: NDArray[np.bool_], size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Numbers of some of the rows of a mask; all of them if they are no more."""
    return draw_rows(np.where(mask, 1.0, 0.0), size, rng)[0] if mask.any() else np.empty(0, np.intp)


def _of(design: Design, rows: NDArray[np.intp]) -> Design:
    """The design of some of the rows."""
    return Design(design.source.take(rows), design.features, design.dtype)
