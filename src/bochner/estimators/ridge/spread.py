"""How far the targets of new rows lie from their predictions: a scale that follows the inputs, and scores.

The scale sigma(x) is a model of its own, with a metric learned for it: what moves the noise need not move the mean. Its
target is the square root of |y - f(x)|, f a model that has not seen the row; the root is near to symmetric and needs no
offset where errors vanish. Rows that calibrate are others than those that it is learned from. Their scores
(y - f(x)) / sigma(x) tell by their quantiles how many scales the ends of an interval are away (Lei et al., 2018,
section 5.2, "locally weighted").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bochner.data.draws import draw_rows
from bochner.data.sources import ArraySource
from bochner.design import Design
from bochner.estimators.ridge.observations import Observations
from bochner.features.base import FeatureMap
from bochner.solvers.conformal import Scores, in_order
from bochner.solvers.factors import factorise
from bochner.solvers.leave_one_out import leave_one_out
from bochner.solvers.path import choose_alpha
from bochner.tuning.budget import Budget
from bochner.tuning.error_scale import scale_map
from bochner.tuning.held_out import HeldOutPredictions, LeftOut
from bochner.tuning.split import rows_held_out

FEWEST_ROWS = 400  # that a scale is learned from; of fewer it is one for all
LEARNED_ROWS = 16_384  # that are enough for it
SCORED_ROWS = 4096  # that are enough to choose its penalty
BOUNDS = (0.05, 0.99)  # quantiles of the roots that it was learned from, between which predicted ones are kept
LIMIT_SHARE, LIMIT_ROWS = 0.01, 10  # of the weight and rows, by which the least or greatest target is a limit


@dataclass
class Affine:
    """A function of the features: coefficients of shape (D, K) and intercepts of shape (K,)."""

    coef: NDArray
    intercept: NDArray[np.float64]


@dataclass
class Spread:
    """Scale of the errors of a fitted model, and scores of rows that neither have seen; targets are standardised.

    Attributes
    ----------
    centre : Affine or None
        The model without the rows that calibrate, about which intervals are; None for the fitted model itself.
    roots : Affine or None
        Predicts the root of the scale; None where one scale, 1, serves all inputs.
    bounds : array of shape (2, K)
        Of the root of the scale.
    limits : array of shape (2, K)
        Least and greatest targets that there are; infinite where the rows show none.
    scores : Scores
        Signed errors over the scale.
    seed : int
        By which rows calibrate.
    features : FeatureMap or None
        The map of the roots; None for that of the model, as in files of version 0.2.
    """

    centre: Affine | None
    roots: Affine | None
    bounds: NDArray[np.float64]
    limits: NDArray[np.float64]
    scores: Scores
    seed: int
    features: FeatureMap | None = None

    def scale(self, roots: NDArray) -> NDArray[np.float64]:
        """Scale of shape (n, K) from its predicted roots."""
        return scale_of(roots, self.bounds)


@dataclass(frozen=True)
class CalibrationRows:
    """Observations, and predictions for them by models that have not seen them.

    Attributes
    ----------
    source : ArraySource
        The rows of a fit as they came, also those that solvers take for one.
    observations : Observations
        Of these.
    targets : array of shape (m, K)
    judge : bool array of shape (m,)
        Those that calibrate.
    seed : int
        By which these were held out.
    predicted : array of shape (m, K)
        NaN where there is no prediction.
    centre : Affine or None
        The model that has not seen those that calibrate, if it is one.
    """

    source: ArraySource
    observations: Observations
    targets: NDArray[np.float64]
    judge: NDArray[np.bool_]
    seed: int
    predicted: NDArray[np.float64]
    centre: Affine | None = None

    @classmethod
    def of(cls, source: ArraySource, seed: int, held_out: NDArray | None = None) -> CalibrationRows:
        """Those of a source, of which the ones calibrate that were held out, or others by their content."""
        found = Observations.of(source)
        judge = rows_held_out(found.inputs, found.weight, seed) if held_out is None else held_out[found.row]
        targets = source.targets(source.y[found.row])
        return cls(source, found, targets, judge, seed, np.full(targets.shape, np.nan))

    @property
    def weight(self) -> NDArray[np.float64]:
        """Weights of the observations."""
        return self.observations.weight

    def rows_of(self, some: NDArray[np.intp] | slice = slice(None)) -> ArraySource:
        """The rows of some of the observations, encoded, with the weights of these."""
        return self.observations.source(self.source, some)

    def held_out(
        self,
        some: NDArray[np.intp],
        predicted: NDArray,
        factors: NDArray | float | None = None,
        fold: NDArray[np.intp] | None = None,
    ) -> HeldOutPredictions:
        """Some of the observations with predictions, (m, K), factors on how much they count, and their folds."""
        weight = self.weight[some]
        counted = weight if factors is None else weight * factors
        return HeldOutPredictions(predicted, self.targets[some], counted, LeftOut(self.rows_of(some).X, weight, fold))

    @property
    def few(self) -> bool:
        """Whether too few are left to learn a scale from, so that all calibrate."""
        return int(np.count_nonzero(~self.judge)) < FEWEST_ROWS

    def judged_by_all(self) -> CalibrationRows:
        """The same, all calibrating."""
        return replace(self, judge=np.ones(len(self.judge), bool))

    def with_predictions(self, predicted: NDArray, centre: Affine | None = None) -> CalibrationRows:
        """The same with predictions, (m, K), by models that have not seen them."""
        return replace(self, predicted=predicted, centre=centre)

    def mapped(self, change: Callable[[NDArray], NDArray]) -> CalibrationRows:
        """The same, the coefficients of the centre changed."""
        return replace(self, centre=self.centre and replace(self.centre, coef=change(self.centre.coef)))


def fit_spread(
    rows: CalibrationRows, column_groups: NDArray, budget: Budget, features: FeatureMap | None = None
) -> Spread:
    """Learn the scale from errors of rows that do not calibrate, if they are not too few, and score those that do.

    Parameters
    ----------
    rows : CalibrationRows
    column_groups : int array of shape (d,)
        Encoded columns of one number have one scale.
    budget : Budget
        The time that is left for a metric.
    features : FeatureMap, optional
        The map of the scale, where one has been chosen before.
    """
    seen = np.isfinite(rows.predicted).all(axis=1)
    errors, limits = rows.targets - rows.predicted, limits_of(rows.targets, rows.weight)
    learned = np.flatnonzero(seen & ~rows.judge)
    judge = np.flatnonzero(seen & rows.judge)
    if len(learned) < FEWEST_ROWS:
        scores = in_order(errors[judge], rows.weight[judge])
        return Spread(rows.centre, None, np.ones((2, errors.shape[1])), limits, scores, rows.seed)
    drawn, factors = draw_rows(rows.weight[learned], LEARNED_ROWS, np.random.default_rng(rows.seed))
    learned = learned[drawn]
    some = rows.rows_of(learned)
    some = some if factors is None else some.weighted(factors)
    roots, bounds = roots_of(errors[learned], some.weights)
    some = ArraySource(some.X, roots, some.weights)
    features = features or scale_map(some, column_groups, rows.seed, budget)
    found = _regression(Design(some, features, np.float64), rows.seed)
    predicted = Design(rows.rows_of(judge), features, np.float64).predict(found.coef, found.intercept)
    scores = in_order(errors[judge] / scale_of(predicted, bounds), rows.weight[judge])
    return Spread(rows.centre, found, bounds, limits, scores, rows.seed, features)


def _regression(design: Design, seed: int) -> Affine:
    """Ridge regression with the penalty of the least leave-one-out error of some of the rows."""
    factor, source = factorise(design, 2), design.source
    rows, factors = draw_rows(source.weights, SCORED_ROWS, np.random.default_rng(seed))
    scored = design.of(source.take(rows))
    counts = scored.source.weights if factors is None else scored.source.weights * factors
    alpha = choose_alpha(factor, leave_one_out(factor, lambda: scored, counts))[0]
    coef = factor.coef(alpha)
    return Affine(coef, factor.intercept(coef))


def scale_of(roots: NDArray, bounds: NDArray) -> NDArray[np.float64]:
    """Scale of errors, shape (n, K), from its predicted roots, within their bounds."""
    return np.square(np.clip(roots, *bounds))


def roots_of(errors: NDArray, weight: NDArray) -> tuple[NDArray, NDArray]:
    """Roots of the errors' sizes, shape (n, K), and the bounds of predicted ones, shape (2, K)."""
    roots = np.sqrt(np.abs(errors))
    counted = roots[weight > 0]
    least = 1e-6 * counted.max(axis=0) + np.finfo(np.float64).tiny
    return roots, np.maximum(np.quantile(counted, BOUNDS, axis=0), least)


def limits_of(targets: NDArray, weight: NDArray) -> NDArray[np.float64]:
    """Least and greatest target, shape (2, K), where a hundredth of the weight and ten rows lie; else infinite.

    Such targets are counts, ratings or censored: what they cannot be is no part of an interval. A new row lies beyond
    all n others at one end with a probability of at most 1 / (n + 1), so that no more coverage is lost.
    """
    counted, own = targets[weight > 0], weight[weight > 0]
    ends = np.stack([counted.min(axis=0), counted.max(axis=0)])
    there = [counted == end for end in ends]
    heavy = np.stack([own @ rows >= LIMIT_SHARE * own.sum() for rows in there])
    many = np.stack([rows.sum(axis=0) >= LIMIT_ROWS for rows in there])
    return np.where(heavy & many, ends, np.array([[-np.inf], [np.inf]]))
