"""The posterior of a fitted model, and the size of its errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats
from bochner.data.array_source import ArraySource
from bochner.data.hashes import observation_hashes, row_hashes
from bochner.data.weights import draw_rows
from bochner.design.design import Design
from bochner.design.moments import Moments
from bochner.estimators.posterior import (
    Posterior,
    as_doubles,
    missed,
)
from bochner.estimators.ridge.interval_calibration import (
    ErrorScale,
    fit_error_size,
)
from bochner.estimators.ridge.out_of_sample import OutOfSample
from bochner.estimators.ridge.ridge_problem import RidgeSolution
from bochner.features.base import DenseFeatures
from bochner.features.leaves import has_exact_kernel, leaves
from bochner.features.nystroem import LandmarkFeatures
from bochner.selection.budget import Budget
from bochner.solvers.posterior_variance import (
    LinearPosterior,
    constant_noise,
    fit_noise,
    forms_without,
    forms_without_each,
    leave_one_out_errors,
    noise_variance,
    posterior_of,
)

N_LANDMARKS, SUMMED_ROWS = 1024, 8192
SCALE_ROWS = 4096  # that tell the scale of the noise
FEWEST_ERRORS = 2048  # of the model itself that tell it alone
FEWEST_SCALE_ROWS = 50
OWN_FEATURES = 4096  # whose moments are taken where no kernel stands behind them


class Summed(NamedTuple):
    """Some rows with features of a basis, and what the moments of rows tell of the
    weights.

    Attributes
    ----------
    source : ArraySource
        Observations, dense; or some of many.
    basis : DenseFeatures
    Z : array of shape (n, D)
        Their features.
    weight : array of shape (n,)
        That they have in the moments.
    moments : Moments
        With weights over their mean, as `linear` and `alpha`.
    linear : LinearPosterior
    alpha : float
    """

    source: ArraySource
    basis: DenseFeatures
    Z: Floats
    weight: Floats
    moments: Moments
    linear: LinearPosterior
    alpha: float


class Errors(NamedTuple):
    """Errors of observations that a model has not seen, (n, K), their inputs, (n,
    d), h, weights and hashes, (n,).
    """

    errors: Floats
    X: Floats
    forms: Floats
    weight: Floats
    hashes: NDArray[np.uint64]


def fit_posterior(
    design: Design,
    fitted: RidgeSolution,
    seed: int,
    spread: ErrorScale | None,
    column_groups: NDArray,
    budget: Budget,
) -> Posterior:
    """The posterior of a model that was fitted to the rows of a design.

    Parameters
    ----------
    design : Design
    fitted : RidgeSolution
        With predictions for left-out rows, if there are any: they give the variance of
        the noise. Else it is told by leave-one-out errors of the regression on the
        features of the posterior.
    seed : int
        Of landmarks and samples of rows.
    spread : ErrorScale or None
        Of the intervals, whose map of the size of errors is taken.
    column_groups : int array of shape (d,)
        Columns of one number have one scale.
    budget : Budget
        Where little of it is left there are fewer landmarks and rows.
    """
    features = fitted.features
    rng = np.random.default_rng(seed)
    n_landmarks, n_rows, n_errors = budget.shrunk(
        (N_LANDMARKS, SUMMED_ROWS, SCALE_ROWS), power=3
    )
    # Observations, dense and in double precision; of many some, whose weights have the
    # sum of all. Weights are over their mean. Errors of left-out rows tell the noise of
    # a row of mean weight, so that another unit of the weights, which also scales the
    # penalty, is the same posterior.
    observations = OutOfSample.of(design.source)
    n_observations = len(observations.row)
    rows, factors = draw_rows(observations.weight, n_rows, rng)
    X, y, weight = observations.rows_of(rows).whole()
    weight = weight * factors
    weight = weight * (n_observations / weight.sum())
    X = as_doubles(X)
    source = ArraySource(X, y, weight)
    mean_weight = design.source.total_weight / n_observations
    # Features of landmarks; those of the map itself where no kernel stands behind them
    basis = features.dense
    if (
        basis is None
        or basis.n_features_out > OWN_FEATURES
        or any(map(has_exact_kernel, leaves(features)))
    ):
        inputs, _, input_weight = source.distinct().whole()
        landmarks, _ = draw_rows(input_weight, n_landmarks, rng)
        basis = LandmarkFeatures(features, inputs[landmarks])
    # Moments of these features, and what they tell of the weights
    Z = basis.rows(X)
    share = len(rows) / n_observations
    whole = True
    if share == 1 or isinstance(basis, LandmarkFeatures):
        whole = share == 1
        moments = Moments(Z.shape[1], y.shape[1], np.float64, shared=True)
        A = moments.workspace(len(Z))
        A[:, : Z.shape[1]] = Z
        moments.add_block(A, y, weight)
    else:
        moments = Design(design.source, features, np.float64).moments()
        moments /= mean_weight
        weight = weight * share
    alpha = fitted.alpha / mean_weight
    linear = posterior_of(moments, alpha)
    summed = Summed(source, basis, Z, weight, moments, linear, alpha)
    if not features.is_dense:
        # A ridge penalty that stands for early stopping too: ten times larger while
        # leave-one-out errors of some rows fall
        rows, _ = draw_rows(weight, FEWEST_ERRORS, rng)
        seen = summed._replace(source=source.take(rows), Z=Z[rows], weight=weight[rows])
        loss = _mean_square(_leave_one_out(seen))
        for stronger in alpha * np.logspace(1, 6, 6):
            if budget.is_over:
                break
            linear = posterior_of(moments, stronger)
            seen = seen._replace(alpha=stronger, linear=linear)
            stronger_loss = _mean_square(_leave_one_out(seen))
            if stronger_loss >= loss:
                break
            loss = stronger_loss
            summed = summed._replace(alpha=stronger, linear=linear)
    # Errors of the model itself for rows that it has not seen; h as it was without them
    held_out = fitted.held_out_predictions
    scored = None
    if held_out is not None:
        assert held_out.X is not None
        assert held_out.fitted_weight is not None
        rows, _ = draw_rows(held_out.weight, n_errors, rng)
        X = as_doubles(held_out.X[rows])
        weight = held_out.fitted_weight[rows] / mean_weight
        Z = basis.rows(X)
        if not whole:
            forms = summed.linear.forms(Z)
        elif held_out.fold is None:
            forms = forms_without_each(summed.linear, Z, weight)
        else:
            forms = forms_without(moments, summed.alpha, Z, weight, held_out.fold[rows])
        forms += missed(basis, X, Z) / summed.alpha
        targets = held_out.targets[rows]
        scored = Errors(
            targets - held_out.predicted[rows],
            X,
            forms,
            held_out.weight[rows],
            observation_hashes(row_hashes(X), targets),
        )
    learned = scored
    enough = min(FEWEST_ERRORS, n_errors, source.n_rows / 2)
    if learned is None or len(learned.errors) < enough:
        learned = _leave_one_out(summed)
    scored = scored or learned
    # Variances of noise and function by errors, and the size of errors by these or by
    # others
    constant = noise_variance(scored.errors, scored.forms, scored.weight)
    noise = constant_noise(constant)
    size = None
    if len(scored.errors) >= FEWEST_SCALE_ROWS and constant.all():
        rows = np.sort(rng.permutation(len(learned.errors))[:SCALE_ROWS])
        source = ArraySource(
            learned.X[rows], learned.errors[rows], learned.weight[rows]
        )
        size_of_row, sizes_left_out = fit_error_size(
            source,
            None if spread is None else spread.features,
            column_groups,
            0,
            SCALE_ROWS,
            budget,
        )
        sizes = size_of_row(scored.X)
        # Of rows that it was learned from, the size that is left without each
        hashes = learned.hashes[rows]
        order = np.argsort(hashes)
        place = np.searchsorted(hashes[order], scored.hashes)
        place = order[np.minimum(place, len(hashes) - 1)]
        seen_rows = hashes[place] == scored.hashes
        sizes[seen_rows] = sizes_left_out()[place[seen_rows]]
        varying = fit_noise(
            scored.errors, scored.forms, np.log(sizes), scored.weight, constant
        )
        if varying.slope.any():
            noise, size = varying, size_of_row
    return Posterior(basis, summed.linear, summed.alpha, noise, size)


def _mean_square(errors: Errors) -> float:
    squares = np.square(errors.errors).mean(axis=1)
    return float(np.average(squares, weights=errors.weight))


def _leave_one_out(summed: Summed) -> Errors:
    """Leave-one-out errors of the regression on the features of the posterior."""
    X, y, weight = summed.source.whole()
    errors, forms = leave_one_out_errors(
        summed.linear, summed.moments, summed.Z, y, summed.weight
    )
    forms += missed(summed.basis, X, summed.Z) / summed.alpha
    return Errors(errors, X, forms, weight, observation_hashes(row_hashes(X), y))
