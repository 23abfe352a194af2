"""The spread of a machine's errors by factorisations: leave-one-out errors, and the scale by another factor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bochner.data.draws import draw_rows
from bochner.data.sources import ArraySource
from bochner.design import Design
from bochner.estimators.ridge.spread import (
    FEWEST_ROWS,
    LEARNED_ROWS,
    SCORED_ROWS,
    Affine,
    Rows,
    Spread,
    distinct_numbers,
    roots_of,
)
from bochner.solvers.factors import DualFactor, FeatureFactor, factorise
from bochner.solvers.leave_one_out import DualLeaveOneOut, PrimalLeaveOneOut
from bochner.solvers.path import choose_alpha


def spread_directly(design: Design, factor: FeatureFactor, alpha: float, rows: Rows) -> Spread:
    """Learn the scale from leave-one-out errors, by its own ridge term, and score the rows that calibrate.

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
    judge, others = _some(rows.judge, SCORED_ROWS, rng), _some(rows.others, LEARNED_ROWS, rng)
    looked = np.sort(np.concatenate([judge, others]))
    rows = rows.judged_by(np.isin(np.arange(len(rows.weight)), judge))
    predicted = np.full(rows.targets.shape, np.nan)
    predicted[looked] = left_out(design, factor, alpha, looked)
    if few:
        return rows.spread(predicted)
    source = design.source.take(others)
    roots, bounds = roots_of(rows.targets[others] - predicted[others], source.weights)
    scale = factorise(Design(ArraySource(source.X, roots, source.weights, source.encode), *_map(design)), 2)
    best, _, _ = choose_alpha(scale, scale.gcv)
    coef = scale.coef(best).astype(design.dtype)
    intercept, found = scale.intercept(coef), np.full(rows.targets.shape, np.nan)
    found[looked] = Design(design.source.take(looked), *_map(design)).predict(coef, intercept)
    return rows.spread(predicted, None, Affine(coef, intercept), found, bounds)


def left_out(design: Design, factor: FeatureFactor, alpha: float, looked: NDArray[np.intp]) -> NDArray[np.float64]:
    """Leave-one-out predictions of rows, (m, K); equal ones that are looked at are left out together."""
    if isinstance(factor, DualFactor):
        return DualLeaveOneOut(factor).predict(alpha)[distinct_numbers(design.source)[looked]]
    some = design.source.take(looked)
    found = PrimalLeaveOneOut(Design(some.distinct(), *_map(design)), factor).predict(alpha)
    return found[distinct_numbers(some)]


def _some(mask: NDArray[np.bool_], size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Numbers of some of the rows of a mask; all of them if they are no more."""
    return draw_rows(np.where(mask, 1.0, 0.0), size, rng)[0] if mask.any() else np.empty(0, np.intp)


def _map(design: Design) -> tuple:
    """The map and the precision of its features."""
    return design.features, design.dtype
