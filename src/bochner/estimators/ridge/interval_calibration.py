"""The size of the errors of a model at a row, learned from rows that it has not seen,
and the scores by which intervals are calibrated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats
from bochner.blocks import LARGE_SAMPLE_ROWS, SAMPLE_ROWS
from bochner.data.array_source import ArraySource
from bochner.data.weights import draw_rows
from bochner.design.design import Design
from bochner.engines.algebra import product
from bochner.estimators.ridge.out_of_sample import (
    FEWEST_ROWS,
    LinearPredictor,
    OutOfSample,
)
from bochner.features import FourierFeatures
from bochner.features.base import FeatureMap
from bochner.selection.budget import Budget
from bochner.selection.choose import choose
from bochner.selection.lengthscale import choose_kernel
from bochner.selection.policy import POLICY
from bochner.selection.problem import SearchSpace, prepare
from bochner.solvers.conformal import Scores, in_order
from bochner.solvers.factors import PrimalLeaveOneOut, factorise, leave_one_out
from bochner.solvers.line_search import choose_alpha
from bochner.solvers.posterior_variance import GAIN

# Of rows whose squares single precision holds, in which metrics are learned
FARTHEST = 1e18
# Errors, from which on a scale is learned from those of the rows that calibrate: of 60
# a scale that was clearly likelier made Winkler scores up to 1.3 times as large
FEWEST_SCORES = 100
# Quantiles of the roots that it was learned from, between which predicted ones are kept
BOUNDS = (0.05, 0.99)
# Of the weight and rows, by which the least or greatest target is a limit
LIMIT_SHARE, LIMIT_ROWS = 0.01, 10


@dataclass
class ErrorSize:
    """The size of a model's errors at a row: the square of a root that ridge regression
    on random features predicts.

    Attributes
    ----------
    roots : LinearPredictor
    bounds : array of shape (2, K)
        Of the roots.
    features : FeatureMap
        The map of the roots.
    """

    roots: LinearPredictor
    bounds: Floats
    features: FeatureMap

    def of_roots(self, roots: NDArray) -> Floats:
        """Sizes of shape (n, K) from predicted roots, within their bounds."""
        return np.square(np.clip(roots, *self.bounds))

    def __call__(self, X: NDArray) -> Floats:
        """Sizes at encoded rows, shape (n, K)."""
        assert self.features.dense is not None
        Z = self.features.dense.rows(X)
        return self.of_roots(product(Z, self.roots.coef) + self.roots.intercept)


@dataclass
class ErrorScale:
    """Scale of the errors of a fitted model, and scores of rows that neither have seen;
    targets are standardised.

    Attributes
    ----------
    centre : LinearPredictor or None
        The model without the rows that calibrate, about which intervals are; None for
        the fitted model itself.
    size : ErrorSize or None
        The scale; None where one scale, 1, serves all inputs.
    limits : array of shape (2, K)
        Least and greatest targets that there are; infinite where the rows show none.
    scores : Scores
        Signed errors over the scale.
    seed : int
        By which rows calibrate.
    """

    centre: LinearPredictor | None
    size: ErrorSize | None
    limits: Floats
    scores: Scores
    seed: int

    @property
    def features(self) -> FeatureMap | None:
        """The map of the size of errors, where they have one."""
        return None if self.size is None else self.size.features

    def limits_in_units(self, mean: Floats, scale: Floats) -> Floats:
        """The limits in the units of the targets, shape (2, K), of their means and
        scales: whole numbers where these are the limits once they are standardised,
        others farther out by the rounding, lest targets at a limit lie beyond it.
        """
        ends = self.limits * scale + mean
        whole = np.rint(ends)
        is_whole = (whole - mean) / scale == self.limits
        finite_sizes = np.where(is_whole, 0.0, np.abs(mean) + np.abs(ends))
        outward = np.array([[-4.0], [4.0]]) * np.spacing(finite_sizes)
        return np.where(is_whole, whole, ends + outward)


def fit_error_scale(
    rows: OutOfSample,
    column_groups: NDArray,
    budget: Budget,
    former: ErrorScale | None = None,
) -> ErrorScale:
    """Learn the error scale from rows that do not calibrate, if there are enough, and
    score those that do.

    Of fewer rows, where all calibrate and nothing is proved of their coverage, it is
    learned from these, each of which is scored by the scale without it. It must then be
    clearly likelier than one scale for all.

    Parameters
    ----------
    rows : OutOfSample
    column_groups : int array of shape (d,)
        Encoded columns of one number have one scale.
    budget : Budget
        The time that is left for a metric.
    former : ErrorScale, optional
        One of the same model, whose map is taken.
    """
    errors = rows.targets - rows.predicted
    learned = np.flatnonzero(rows.seen & ~rows.calibrating)
    calibrating = np.flatnonzero(rows.seen & rows.calibrating)
    scores = errors[calibrating]
    size = None
    if len(learned) >= FEWEST_ROWS:
        n_learned, n_scored = budget.shrunk((LARGE_SAMPLE_ROWS, SAMPLE_ROWS))
        drawn, factors = draw_rows(
            rows.weight[learned], n_learned, np.random.default_rng(rows.seed)
        )
        learned = learned[drawn]
        size, _ = fit_error_size(
            ArraySource(
                rows.rows_of(learned).X,
                errors[learned],
                rows.weight[learned] * factors,
            ),
            None if former is None else former.features,
            column_groups,
            rows.seed,
            n_scored,
            budget,
        )
        design = Design(rows.rows_of(calibrating), size.features, np.float64)
        roots = design.predict(size.roots.coef, size.roots.intercept)
        scores = scores / size.of_roots(roots)
    weight = rows.weight[calibrating]
    group = rows.group_of(calibrating)
    is_free = rows.centre is None and group is None
    if is_free and not len(learned) and len(calibrating) >= FEWEST_SCORES:
        learned_size, sizes_left_out = fit_error_size(
            ArraySource(rows.rows_of(calibrating).X, scores, weight),
            None if former is None else former.features,
            column_groups,
            rows.seed,
            len(calibrating),
            budget,
        )
        sizes = sizes_left_out()
        if gain(scores, sizes, weight) > GAIN:
            size = learned_size
            scores = scores / sizes
    return ErrorScale(
        rows.centre,
        size,
        limits_of(rows.targets, rows.weight),
        in_order(scores, weight, group),
        rows.seed,
    )


def gain(errors: NDArray, sizes: NDArray, weight: NDArray) -> float:
    """By how much the logarithm of the likelihood of errors grows, all shape (n, K),
    where sizes are their scale, but for a common factor, in place of one for all;
    errors have Laplace's distribution.
    """
    share = (weight / weight.sum())[:, np.newaxis]
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.log((share * abs(errors)).sum(axis=0))
        each = np.log((share * abs(errors) / sizes).sum(axis=0))
        each += (share * np.log(sizes)).sum(axis=0)
        return float(len(errors) * (one - each).sum())


def fit_error_size(
    rows: ArraySource,
    features: FeatureMap | None,
    column_groups: NDArray,
    seed: int,
    n_scored: int,
    budget: Budget,
) -> tuple[ErrorSize, Callable[[], Floats]]:
    """Learn the size of errors.

    Parameters
    ----------
    rows : ArraySource
        Encoded rows with the errors, by a model that has not seen them, as targets.
    features : FeatureMap or None
        The map to use; None to select and draw one, with one lengthscale where the
        budget is short.
    column_groups : int array of shape (d,)
        Columns of one number have one scale.
    seed : int
        Of the map, and of the rows that choose the ridge penalty, by their
        leave-one-out errors.
    n_scored : int
        Number of these at most.
    budget : Budget
        Of the selection of a map.

    Returns
    -------
    ErrorSize
    callable () -> array of shape (n, K)
        Sizes at the rows, by the regression without each.
    """
    roots, bounds = roots_of(rows.y, rows.weights)
    rows = ArraySource(rows.X, roots, rows.weights)
    if features is None:
        d = rows.X.shape[1]
        held = abs(rows.X).max() < FARTHEST
        problem = None
        if held and d <= POLICY.most_features and not budget.is_short:
            space = SearchSpace(
                "fourier",
                "ard",
                n_components=POLICY.n_components[0],
                fewest_rows=POLICY.fewest_scale_rows,
            )
            stages = "learning", "trials", "solution"
            problem = prepare(
                rows.encoded(np.float32),
                column_groups,
                None,
                space,
                False,
                seed,
                Budget(budget.limit, stages, budget.start),
            )
        if problem is not None:
            features = choose(problem).model.features
        else:
            kernel = choose_kernel(rows, "gaussian", None, None, seed, budget=budget)
            features = FourierFeatures(
                kernel, POLICY.n_components[0], random_state=seed
            )
        features.draw(d)
        sample = rows.sample(features.sample_rows, np.random.default_rng(seed))
        X, _, weight = sample.whole()
        features.fit_sample(X, weight)
    design = Design(rows, features, np.float64)
    factor = factorise(design, 2)
    drawn, factors = draw_rows(rows.weights, n_scored, np.random.default_rng(seed))
    scored = design.of(rows.take(drawn))
    score = leave_one_out(factor, scored, scored.source.weights * factors)
    alpha = choose_alpha(factor, score)[0]
    size = ErrorSize(LinearPredictor(*factor.solve(alpha)), bounds, features)
    return size, lambda: size.of_roots(PrimalLeaveOneOut(design, factor).predict(alpha))


def roots_of(errors: NDArray, weight: NDArray) -> tuple[NDArray, NDArray]:
    """Roots of the errors' sizes, shape (n, K), and the bounds of predicted ones,
    shape (2, K).
    """
    roots = np.sqrt(np.abs(errors))
    counted = roots[weight > 0]
    # Its square is above zero too, where all errors are zero
    least = 1e-6 * counted.max(axis=0) + np.sqrt(np.finfo(np.float64).tiny)
    return roots, np.maximum(np.quantile(counted, BOUNDS, axis=0), least)


def limits_of(targets: NDArray, weight: NDArray) -> Floats:
    """Least and greatest target, shape (2, K), where a hundredth of the weight and ten
    rows lie; else infinite.

    Such targets are counts, ratings or censored: what they cannot be is no part of an
    interval. A new row lies beyond all n others at one end with a probability of at
    most 1 / (n + 1), so that no more coverage is lost.
    """
    counted = targets[weight > 0]
    counted_weight = weight[weight > 0]
    ends = np.stack([counted.min(axis=0), counted.max(axis=0)])
    there = [counted == end for end in ends]
    heavy = np.stack(
        [counted_weight @ rows >= LIMIT_SHARE * counted_weight.sum() for rows in there]
    )
    many = np.stack([rows.sum(axis=0) >= LIMIT_ROWS for rows in there])
    return np.where(heavy & many, ends, np.array([[-np.inf], [np.inf]]))
