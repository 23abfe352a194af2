"""Rows as observations: exact copies of a row are one, repeated measurements at the
same inputs are several.

Least squares may take equal rows of inputs as one row, of their mean target. What they
tell of the noise may not: the targets vary about that mean, and the error of a row is
that of one row, however much it weighs. New rows are exchangeable with the
observations, which therefore are what calibrates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats, Indices
from bochner.data.array_source import ArraySource
from bochner.data.hashes import mixed, row_hashes
from bochner.data.weights import draw_rows
from bochner.design.design import Design
from bochner.engines.algebra import product
from bochner.features import FourierFeatures
from bochner.features.base import FeatureMap
from bochner.selection.budget import Budget
from bochner.selection.choose import choose
from bochner.selection.lengthscale import choose_kernel
from bochner.selection.policy import POLICY
from bochner.selection.problem import SearchSpace, prepare
from bochner.selection.split import rows_held_out
from bochner.selection.validation import HeldOutPredictions, LeftOut
from bochner.solvers.conformal import Scores, in_order
from bochner.solvers.factors import PrimalLeaveOneOut, factorise, leave_one_out
from bochner.solvers.line_search import choose_alpha

# Of the distinct rows: where no column has more values than that, equal rows may be
# chance
CHANCE_SHARE = 0.5
EXAMINED_ROWS = 1 << 13  # in which values are counted
FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Observations:
    """Rows of positive weight, with copies merged.

    Attributes
    ----------
    row : int array of shape (m,)
        Number of a row of the source that holds each.
    weight : array of shape (m,)
        Of all its copies.
    inputs, hashes : arrays of shape (m,)
        Hashes of the inputs, and of inputs and targets.
    number : int array of shape (n,)
        Of the observation that each row of the source is, -1 without weight.
    """

    row: Indices
    weight: Floats
    inputs: NDArray[np.uint64]
    hashes: NDArray[np.uint64]
    number: Indices

    @classmethod
    def of(cls, source: ArraySource) -> Observations:
        """Those of a source."""
        counts = np.maximum(source.weights, source.validation_weights)
        row = np.flatnonzero(counts)
        weight = np.asarray(counts, np.float64)[row]
        inputs = source.row_hashes()[row]
        hashes = observation_hashes(inputs, source.y[row].reshape(len(row), -1))
        _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
        if len(first) == len(row) or _equal_by_chance(
            source.take(row[np.sort(first)[:EXAMINED_ROWS]])
        ):
            first = group = np.arange(len(row))
        rank = np.argsort(np.argsort(first))  # in the order of the rows
        group = rank[group]
        first = np.sort(first)
        number = np.full(source.n_rows, -1)
        number[row] = group
        weight = np.bincount(group, weight, len(first)).astype(np.float64)
        return cls(row[first], weight, inputs[first], hashes[first], number)

    def source(
        self, source: ArraySource, observation_numbers: Indices | slice = slice(None)
    ) -> ArraySource:
        """The rows of some of them, encoded, with their weights."""
        X, y, _ = source.take(self.row[observation_numbers]).whole()
        return ArraySource(X, y, self.weight[observation_numbers])


def observation_hashes(
    inputs: NDArray[np.uint64], targets: NDArray
) -> NDArray[np.uint64]:
    """Hashes of rows by those of their inputs, (n,), and their targets, (n, K)."""
    return mixed(inputs * FACTOR + row_hashes(targets))


def _equal_by_chance(distinct: ArraySource) -> bool:
    """Whether rows may be equal by chance, because each column and target has few
    values.

    With a column of continuous values, or such targets, equal rows are copies.
    """
    X, y, _ = distinct.whole()
    most = CHANCE_SHARE * len(y)
    if any(len(np.unique(column)) > most for column in y.T):
        return False
    columns: Iterable[NDArray] = X.T
    if not isinstance(X, np.ndarray):
        X = X.tocsc()
        many = np.flatnonzero(
            np.diff(X.indptr) >= most - 1
        )  # values that are stored, with zero; others are too few
        columns = (X[:, [j]].toarray() for j in many)
    return all(len(np.unique(column)) <= most for column in columns)


def distinct_numbers(source: ArraySource) -> Indices:
    """Index of each row among the distinct rows of positive weight, shape (n,); 0
    without weight.
    """
    counted = np.flatnonzero(source.weights)
    counted_rows = source.take(counted)
    counted_rows = ArraySource(*counted_rows.whole(), content=counted_rows.content)
    first_duplicate = counted_rows.first_duplicates(counted_rows.row_hashes())
    number = np.zeros(source.n_rows, np.intp)
    number[counted] = (
        np.cumsum(first_duplicate == np.arange(counted_rows.n_rows)) - 1
    )[first_duplicate]
    return number


# Of rows whose squares single precision holds, in which metrics are learned
FARTHEST = 1e18


def scale_map(
    rows: ArraySource, column_groups: NDArray, seed: int, budget: Budget
) -> FeatureMap:
    """Select and draw the map of the error scale.

    Parameters
    ----------
    rows : ArraySource
        Encoded rows with the roots of their errors, by a model that has not seen them,
        as targets.
    column_groups : int array of shape (d,)
        Columns of one number have one scale.
    seed : int
    budget : Budget
        Where it is short there is one lengthscale.
    """
    space = SearchSpace(
        "fourier",
        "ard",
        n_components=POLICY.scale_features,
        fewest_rows=POLICY.fewest_scale_rows,
    )
    problem = None
    d = rows.X.shape[1]
    held = abs(rows.encoded(np.float64).X).max() < FARTHEST
    if held and d <= POLICY.most_learned_columns and not budget.is_short:
        problem = prepare(
            rows.encoded(np.float32),
            column_groups,
            None,
            space,
            False,
            seed,
            budget.divided("learning", "trials", "solution"),
        )
    if problem is None:
        kernel = choose_kernel(rows, "gaussian", None, None, seed, budget=budget)
        features: FeatureMap = FourierFeatures(
            kernel, POLICY.scale_features, random_state=seed
        )
    else:
        features = choose(problem).model.features
    features.draw(d)
    X, _, weight = rows.sample(
        features.sample_rows, np.random.default_rng(seed)
    ).whole()
    features.fit_sample(X, weight)
    return features


FEWEST_ROWS = 400  # that a scale is learned from; of fewer it is one for all
LEARNED_ROWS = 16_384  # that are enough for it
SCORED_ROWS = 4096  # that are enough to choose its penalty
# Quantiles of the roots that it was learned from, between which predicted ones are kept
BOUNDS = (
    0.05,
    0.99,
)
# Of the weight and rows, by which the least or greatest target is a limit
LIMIT_SHARE, LIMIT_ROWS = 0.01, 10


@dataclass
class LinearPredictor:
    """A function of the features: coefficients of shape (D, K) and intercepts of
    shape (K,).
    """

    coef: NDArray
    intercept: Floats


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
    calibrating : bool array of shape (m,)
        Those that calibrate.
    seed : int
        By which these were held out.
    predicted : array of shape (m, K)
        NaN where there is no prediction.
    centre : LinearPredictor or None
        The model that has not seen those that calibrate, if it is one.
    """

    source: ArraySource
    observations: Observations
    targets: Floats
    calibrating: NDArray[np.bool_]
    seed: int
    predicted: Floats
    centre: LinearPredictor | None = None

    @classmethod
    def of(
        cls, source: ArraySource, seed: int, held_out: NDArray | None = None
    ) -> CalibrationRows:
        """Those of a source, of which the ones calibrate that were held out, or
        others by their content.
        """
        observations = Observations.of(source)
        calibrating = (
            rows_held_out(observations.inputs, observations.weight, seed)
            if held_out is None
            else held_out[observations.row]
        )
        targets = source.targets(source.y[observations.row])
        return cls(
            source,
            observations,
            targets,
            calibrating,
            seed,
            np.full(targets.shape, np.nan),
        )

    @property
    def row(self) -> Indices:
        """Number of a row of the source that holds each observation, shape (m,)."""
        return self.observations.row

    @property
    def weight(self) -> Floats:
        """Weights of the observations."""
        return self.observations.weight

    def rows_of(
        self, observation_numbers: Indices | slice = slice(None)
    ) -> ArraySource:
        """The rows of some observations, encoded, with the observations' weights."""
        return self.observations.source(self.source, observation_numbers)

    def held_out(
        self,
        observation_numbers: Indices,
        predicted: NDArray,
        factors: NDArray | float | None = None,
        fold: Indices | None = None,
    ) -> HeldOutPredictions:
        """Some of the observations with predictions, (m, K), factors on how much
        they count, and their folds.
        """
        weight = self.weight[observation_numbers]
        group = self.source.group
        counted = weight if factors is None else weight * factors
        return HeldOutPredictions(
            predicted,
            self.targets[observation_numbers],
            counted,
            LeftOut(self.rows_of(observation_numbers).X, weight, fold),
            None if group is None else group[self.row[observation_numbers]],
        )

    def in_order(self, scores: NDArray, observation_numbers: Indices) -> Scores:
        """The scores of some of the observations, (m, K), by which these calibrate."""
        group = self.source.group
        if group is not None:
            group = group[self.row[observation_numbers]]
        return in_order(scores, self.weight[observation_numbers], group)

    @property
    def few(self) -> bool:
        """Whether too few are left to learn a scale from, so that all calibrate."""
        return int(np.count_nonzero(~self.calibrating)) < FEWEST_ROWS

    def all_calibrating(self) -> CalibrationRows:
        """Copy the rows, all of which calibrate."""
        return replace(self, calibrating=np.ones(len(self.calibrating), bool))

    def with_predictions(
        self, predicted: NDArray, centre: LinearPredictor | None = None
    ) -> CalibrationRows:
        """Copy the rows with predictions, (m, K), by models that have not seen them."""
        return replace(self, predicted=predicted, centre=centre)


def fit_error_scale(
    rows: CalibrationRows,
    column_groups: NDArray,
    budget: Budget,
    features: FeatureMap | None = None,
) -> ErrorScale:
    """Learn the error scale from rows that do not calibrate, if there are enough, and
    score those that do.

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
    errors = rows.targets - rows.predicted
    limits = limits_of(rows.targets, rows.weight)
    learned = np.flatnonzero(seen & ~rows.calibrating)
    calibrating = np.flatnonzero(seen & rows.calibrating)
    if len(learned) < FEWEST_ROWS:
        scores = rows.in_order(errors[calibrating], calibrating)
        return ErrorScale(rows.centre, None, limits, scores, rows.seed)
    n_learned, n_scored = budget.shrunk(
        (LEARNED_ROWS, SCORED_ROWS), POLICY.scale_seconds
    )
    drawn, factors = draw_rows(
        rows.weight[learned], n_learned, np.random.default_rng(rows.seed)
    )
    learned = learned[drawn]
    learned_rows = rows.rows_of(learned)
    learned_rows = learned_rows if factors is None else learned_rows.weighted(factors)
    size, _ = fit_error_size(
        ArraySource(learned_rows.X, errors[learned], learned_rows.weights),
        lambda roots: features or scale_map(roots, column_groups, rows.seed, budget),
        rows.seed,
        n_scored,
    )
    predicted = Design(rows.rows_of(calibrating), size.features, np.float64).predict(
        size.roots.coef, size.roots.intercept
    )
    scores = rows.in_order(errors[calibrating] / size.of_roots(predicted), calibrating)
    return ErrorScale(rows.centre, size, limits, scores, rows.seed)


# Chooses the map of the size of errors for rows whose targets are roots of errors
ScaleMap = Callable[[ArraySource], FeatureMap]


def fit_error_size(
    rows: ArraySource, choose_map: ScaleMap, seed: int, n_scored: int
) -> tuple[ErrorSize, Callable[[], Floats]]:
    """Learn the size of errors.

    Parameters
    ----------
    rows : ArraySource
        Encoded rows with the errors, by a model that has not seen them, as targets.
    choose_map : callable
    seed : int
        Of the rows that choose the ridge penalty, by their leave-one-out errors.
    n_scored : int
        Number of these at most.

    Returns
    -------
    ErrorSize
    callable () -> array of shape (n, K)
        Sizes at the rows, by the regression without each.
    """
    roots, bounds = roots_of(rows.y, rows.weights)
    rows = ArraySource(rows.X, roots, rows.weights)
    design = Design(rows, choose_map(rows), np.float64)
    factor = factorise(design, 2)
    drawn, factors = draw_rows(rows.weights, n_scored, np.random.default_rng(seed))
    scored = design.of(rows.take(drawn))
    counts = (
        scored.source.weights if factors is None else scored.source.weights * factors
    )
    alpha = choose_alpha(factor, leave_one_out(factor, lambda: scored, counts))[0]
    size = ErrorSize(LinearPredictor(*factor.solve(alpha)), bounds, design.features)
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
