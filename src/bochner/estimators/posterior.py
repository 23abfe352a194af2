"""The posterior of a fitted regressor: deviations of its predictions, and functions drawn from it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.data.draws import draw_rows
from bochner.data.hashes import row_hashes
from bochner.data.sources import ArraySource
from bochner.design import Design
from bochner.estimators.ridge import Fitted
from bochner.features.base import FeatureMap
from bochner.features.dense import DenseFeatures, Rows
from bochner.features.landmarks import LandmarkFeatures, has_exact_kernel
from bochner.features.leaves import leaves
from bochner.features.prior import PriorFunctions
from bochner.moments import Moments
from bochner.solvers.posterior import (
    LinearPosterior,
    forms_without,
    leave_one_out_errors,
    noise_variance,
    posterior_of,
)
from bochner.solvers.scale import LogScale, Noise, constant_noise, fit_log_scale, fit_noise

N_LANDMARKS, SUMMED_ROWS = 1024, 8192
SCALE_ROWS = 4096  # that tell the scale of the noise
FEWEST_ERRORS = 2048  # of the model itself that tell it alone
FEWEST_SCALE_ROWS = 50
OWN_FEATURES = 4096  # whose moments are taken where no kernel stands behind them
BLOCK_ROWS = 4096


class Errors(NamedTuple):
    """Errors of rows that a model has not seen, (n, K), features of the rows, (n, D), h, weights and hashes, (n,)."""

    errors: NDArray[np.float64]
    Z: NDArray[np.float64]
    forms: NDArray[np.float64]
    weight: NDArray[np.float64]
    hashes: NDArray[np.uint64]


class Posterior:
    """The Gaussian process of a fitted map's kernel, given the rows, in units of standardised targets.

    Its mean is that of the model. Its variance is that of Bayesian linear regression on the Nystroem features of up to
    1,024 landmarks, which know the exact kernel, and the mass of the kernel that these do not reach, so that far from
    all rows it returns to the prior; the features of the model itself are too sure by a fifth where there are 2,000 of
    them ("variance starvation"). Features without a kernel behind them are taken as they are.

    Attributes
    ----------
    landmarks_ : array of shape (m, d) or None
        Encoded rows; None where the features are taken as they are.
    landmark_root_ : array of shape (m, m) or None
        Inverse of the Cholesky factor of their kernel matrix.
    mean_, root_, weight_ : see `LinearPosterior`
    alpha_ : float
    level_, slope_, signal_, constant_, reach_ : arrays of shape (K,) and float, see `Noise`
    scale_coef_, scale_intercept_, scale_low_, scale_high_ : arrays or None, see `LogScale`
        None where the noise is constant.
    """

    landmarks_: NDArray | None
    landmark_root_: NDArray | None
    scale_coef_: NDArray | None

    def __init__(self, basis: DenseFeatures, linear: LinearPosterior, alpha: float) -> None:
        landmarks = basis if isinstance(basis, LandmarkFeatures) else None
        self.landmarks_ = None if landmarks is None else landmarks.landmarks
        self.landmark_root_ = None if landmarks is None else landmarks.root
        self.mean_, self.root_, self.weight_ = linear
        self.alpha_ = alpha

    @property
    def linear(self) -> LinearPosterior:
        """That of the weights."""
        return LinearPosterior(self.mean_, self.root_, self.weight_)

    def take(self, noise: Noise, scale: LogScale | None) -> None:
        """Keep the variances of the noise and of the function."""
        self.level_, self.slope_, self.signal_, self.constant_, self.reach_ = noise
        none = scale is None or not noise.slope.any()
        self.scale_coef_, self.scale_intercept_, self.scale_low_, self.scale_high_ = (
            (None, None, None, None) if none or scale is None else scale
        )

    def basis(self, features: FeatureMap) -> DenseFeatures:
        """The features that the variance is of, for the map of the model."""
        if self.landmarks_ is not None:
            return LandmarkFeatures(features, self.landmarks_, self.landmark_root_)
        assert features.dense is not None
        return features.dense

    def forms(self, basis: DenseFeatures, X: Rows, Z: NDArray) -> NDArray[np.float64]:
        """Variance of the function over that of the noise, of rows X with features Z, shape (n,)."""
        return self.linear.forms(Z) + missed(basis, X, Z) / self.alpha_

    @property
    def noise(self) -> Noise:
        """Parameters of the variances."""
        return Noise(self.level_, self.slope_, self.signal_, self.constant_, self.reach_)

    def scale(self, Z: NDArray) -> NDArray[np.float64]:
        """Logarithm of the size of errors at rows with features Z, shape (n, K), as far as the noise depends on it."""
        if self.scale_coef_ is None:
            return np.zeros((len(Z), len(self.level_)))
        return LogScale(self.scale_coef_, self.scale_intercept_, self.scale_low_, self.scale_high_)(Z)

    def variances(self, features: FeatureMap, X: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Variances of the function and of the noise at encoded rows, each of shape (n, K)."""
        basis, parameters, K = self.basis(features), self.noise, len(self.level_)
        function, noise = np.empty((X.shape[0], K)), np.empty((X.shape[0], K))
        for a in range(0, X.shape[0], BLOCK_ROWS):
            rows = X[a : a + BLOCK_ROWS].astype(np.float64)
            Z = basis.rows(rows)
            function[a : a + len(Z)] = parameters.function(self.forms(basis, rows, Z))
            noise[a : a + len(Z)] = parameters.noise(self.scale(Z))
        return function, noise

    def sample(self, features: FeatureMap, X: Rows, n_samples: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Functions less their mean at encoded rows, shape (n, K, S), by pathwise conditioning.

        A function of the prior, less what the landmarks tell of it, is independent of the weights of their features;
        these are drawn from their posterior. Both are functions of the row and the generator alone.
        """
        basis, K = self.basis(features), len(self.level_)
        normal = rng.standard_normal((len(self.mean_) + 1, K * n_samples))
        weights, constant = self.linear.spread(normal[:-1]), normal[-1] / np.sqrt(self.weight_)
        prior = PriorFunctions(features, K * n_samples, rng) if isinstance(basis, LandmarkFeatures) else None
        told = None if prior is None else self.landmark_root_ @ prior(self.landmarks_)
        result = np.empty((X.shape[0], K, n_samples))
        for a in range(0, X.shape[0], BLOCK_ROWS):
            rows = X[a : a + BLOCK_ROWS].astype(np.float64)
            Z = basis.rows(rows)
            values = (Z - self.mean_) @ weights + constant
            if prior is not None:
                values += (prior(rows) - Z @ told) / np.sqrt(self.alpha_)
            forms = self.forms(basis, rows, Z)
            size = np.sqrt(self.noise.function(forms) / forms[:, np.newaxis])
            result[a : a + len(Z)] = values.reshape(len(Z), K, n_samples) * size[:, :, np.newaxis]
        return result


def missed(basis: DenseFeatures, X: Rows, Z: NDArray) -> NDArray[np.float64] | float:
    """What of the kernel k(x, x) the features do not reach, shape (n,)."""
    if not isinstance(basis, LandmarkFeatures):
        return 0.0
    return np.maximum(basis.variance(X) - np.einsum("ij,ij->i", Z, Z), 0.0)


def fit_posterior(design: Design, fitted: Fitted, seed: int) -> Posterior:
    """The posterior of a model that was fitted to the rows of a design.

    Parameters
    ----------
    design : Design
    fitted : Fitted
        With predictions for rows left out, where there are such: they tell the variance of the noise. Else it is told
        by leave-one-out errors of the regression on the features of the posterior.
    seed : int
        Of landmarks and samples of rows.
    """
    features, rng = fitted.features, np.random.default_rng(seed)
    source = ArraySource(*_counted(design.source, SUMMED_ROWS, rng))
    X, y, weight = source.whole()
    basis = _basis(features, source, rng)
    Z = basis.rows(X)
    whole = len(y) == design.source.n_counted
    moments = _moments(Z, y, weight)
    if not isinstance(basis, LandmarkFeatures) and not whole:
        moments = Design(design.source, features, np.float64).moments()
    linear = posterior_of(moments, fitted.alpha)
    posterior = Posterior(basis, linear, fitted.alpha)  # of the weights; the variances are still to come
    loo = _leave_one_out(posterior, basis, moments, ArraySource(X, y, weight), Z)
    own = _own_errors(posterior, basis, moments, fitted, rng, whole)
    posterior.take(*_noise(loo, own, rng))
    return posterior


def _counted(source: ArraySource, size: int, rng: np.random.Generator) -> tuple[NDArray, NDArray, NDArray]:
    """Rows with weight, at most `size` drawn by it, with weights that keep the sum; X dense, in double precision."""
    rows, factors = draw_rows(source.weights, size, rng)
    X, y, weight = source.take(rows).whole()
    weight = weight if factors is None else weight * factors
    X = X if isinstance(X, np.ndarray) else X.toarray()
    return X.astype(np.float64), y, weight * (source.total_weight / weight.sum())


def _basis(features: FeatureMap, source: ArraySource, rng: np.random.Generator) -> DenseFeatures:
    """Features of landmarks; those of the map itself where no kernel stands behind them, and they are not too many."""
    own = features.dense
    if own is not None and own.n_features_out <= OWN_FEATURES and not any(map(has_exact_kernel, leaves(features))):
        return own
    X, _, weight = source.distinct().whole()
    rows, _ = draw_rows(weight, N_LANDMARKS, rng)
    return LandmarkFeatures(features, X[rows])


def _moments(Z: NDArray, y: NDArray, weight: NDArray) -> Moments:
    moments = Moments(Z.shape[1], y.shape[1], np.float64, shared=True)
    for a in range(0, len(Z), BLOCK_ROWS):
        part = slice(a, a + BLOCK_ROWS)
        A = moments.workspace(len(Z[part]))
        A[:, : Z.shape[1]] = Z[part]
        moments.add_block(A, y[part], weight[part])
    return moments


def _leave_one_out(
    posterior: Posterior, basis: DenseFeatures, moments: Moments, source: ArraySource, Z: NDArray
) -> Errors:
    """Leave-one-out errors of the regression on the features of the posterior."""
    X, y, weight = source.whole()
    errors, forms = leave_one_out_errors(posterior.linear, moments, Z, y, weight)
    return Errors(errors, Z, forms + missed(basis, X, Z) / posterior.alpha_, weight, row_hashes(X))


def _own_errors(
    posterior: Posterior,
    basis: DenseFeatures,
    moments: Moments,
    fitted: Fitted,
    rng: np.random.Generator,
    whole: bool,
) -> Errors | None:
    """Errors of the model itself for rows that it has not seen, where these are known."""
    found = fitted.held_out_predictions
    if found is None or found.rows is None:
        return None
    kept, _ = draw_rows(found.weight, SCALE_ROWS, rng)
    X, own = found.rows.X[kept], found.rows.weight[kept]
    X = (X if isinstance(X, np.ndarray) else X.toarray()).astype(np.float64)
    Z, fold = basis.rows(X), found.rows.fold
    if fold is None or not whole:
        h = posterior.linear.forms(Z)
        forms = h / np.maximum(1 - own * h, 1e-9) if whole else h
    else:
        forms = forms_without(moments, posterior.alpha_, Z, own, fold[kept])
    errors = (found.targets - found.predicted)[kept]
    return Errors(errors, Z, forms + missed(basis, X, Z) / posterior.alpha_, found.weight[kept], row_hashes(X))


def _noise(loo: Errors, own: Errors | None, rng: np.random.Generator) -> tuple[Noise, LogScale | None]:
    """Variances, by errors of the model itself where there are such; the scale of the noise by the more errors."""
    judged = loo if own is None else own
    constant = noise_variance(judged.errors, judged.forms, judged.weight)
    many = len(judged.errors) >= min(FEWEST_ERRORS, len(loo.errors) / 2)
    learned = judged if many else loo
    rows = np.sort(rng.permutation(len(learned.errors))[:SCALE_ROWS])
    if len(judged.errors) < FEWEST_SCALE_ROWS or not constant.all():
        return constant_noise(constant), None
    scale, left_out = fit_log_scale(learned.Z[rows], learned.errors[rows], learned.weight[rows])
    g = scale(judged.Z)
    seen, place = _places(judged.hashes, learned.hashes[rows])
    g[seen] = left_out[place]
    return fit_noise(judged.errors, judged.forms, g, judged.weight, constant), scale


def _places(hashes: NDArray, among: NDArray) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Which of the hashes are among others, and where in these."""
    order = np.argsort(among)
    place = order[np.minimum(np.searchsorted(among[order], hashes), len(among) - 1)]
    seen = among[place] == hashes
    return seen, place[seen]
