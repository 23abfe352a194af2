"""The posterior of a fitted regressor: deviations of its predictions, and functions
drawn from it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats
from bochner.engines.algebra import product
from bochner.estimators.ridge.interval_calibration import (
    ErrorSize,
)
from bochner.features.base import DenseFeatures, FeatureMap, Rows
from bochner.features.nystroem import LandmarkFeatures, PriorFunctions
from bochner.solvers.posterior_variance import (
    LinearPosterior,
    Noise,
)

BLOCK_ROWS = 4096


class Posterior:
    """The Gaussian process of a fitted map's kernel, given the rows, in units of
    standardised targets.

    Its mean is that of the model. Its variance is that of Bayesian linear regression on
    the Nystroem features of up to 1,024 landmarks, which know the exact kernel, and the
    mass of the kernel that these do not reach, so that far from all rows it returns to
    the prior; the features of the model itself are too sure by a fifth where there are
    2,000 of them ("variance starvation"). Features without a kernel behind them are
    taken as they are.

    Attributes
    ----------
    landmarks_ : array of shape (m, d)
        Encoded rows; none where the features are taken as they are.
    landmark_root_ : array of shape (m, m)
        Inverse of the Cholesky factor of their kernel matrix.
    mean_, root_, weight_ : see `LinearPosterior`
        The weights of the rows are over their mean: those of observations are relative.
    alpha_ : float
        The ridge penalty over the mean weight.
    level_, slope_, signal_, constant_, reach_ : arrays (K,), see `Noise`
    size_ : ErrorSize or None
        Of the errors; None where the noise is constant.
    """

    def __init__(
        self,
        basis: DenseFeatures,
        linear: LinearPosterior,
        alpha: float,
        noise: Noise,
        size: ErrorSize | None,
    ) -> None:
        self.landmarks_ = self.landmark_root_ = np.empty((0, 0))
        if isinstance(basis, LandmarkFeatures):
            self.landmarks_ = basis.landmarks
            self.landmark_root_ = basis.root
        self.mean_ = linear.mean
        self.root_ = linear.root
        self.weight_ = linear.weight
        self.alpha_ = alpha
        self.level_, self.slope_, self.signal_, self.constant_, self.reach_ = noise
        self.size_ = size

    @property
    def linear(self) -> LinearPosterior:
        """That of the weights."""
        return LinearPosterior(self.mean_, self.root_, self.weight_)

    @property
    def noise(self) -> Noise:
        """Parameters of the variances."""
        return Noise(
            self.level_, self.slope_, self.signal_, self.constant_, self.reach_
        )

    def basis(self, features: FeatureMap) -> DenseFeatures:
        """The features that the variance is of, for the map of the model."""
        if len(self.landmarks_):
            return LandmarkFeatures(features, self.landmarks_, self.landmark_root_)
        assert features.dense is not None
        return features.dense

    def forms(self, basis: DenseFeatures, X: Rows, Z: NDArray) -> Floats:
        """Variance of the function over that of the noise, of rows X with features
        Z, shape (n,): of the weights, and of what the features do not reach.

        The latter is k(x, x) - |z(x)|^2 over alpha, which is the noise over the prior's
        variance.
        """
        return self.linear.forms(Z) + missed(basis, X, Z) / self.alpha_

    def variances(self, features: FeatureMap, X: Rows) -> tuple[Floats, Floats]:
        """Variances of the function and of the noise at encoded rows, each of shape
        (n, K).
        """
        basis = self.basis(features)
        parameters = self.noise
        K = len(self.level_)
        function = np.empty((X.shape[0], K))
        noise = np.empty((X.shape[0], K))
        for a in range(0, X.shape[0], BLOCK_ROWS):
            rows = X[a : a + BLOCK_ROWS].astype(np.float64)
            Z = basis.rows(rows)
            function[a : a + len(Z)] = parameters.function(self.forms(basis, rows, Z))
            sizes = np.ones((len(Z), K)) if self.size_ is None else self.size_(rows)
            noise[a : a + len(Z)] = parameters.noise(np.log(sizes))
        return function, noise

    def covariances(self, features: FeatureMap, X: Rows) -> Floats:
        """Covariances of the function's values at n encoded rows, shape (n, n, K).

        They are those of the functions that `sample` draws, and have the variances on
        the diagonal.
        """
        basis = self.basis(features)
        X = X.astype(np.float64)
        Z = basis.rows(X)
        # Over those of the noise: of the weights, and of what features do not reach
        ratios = self.linear.covariances(Z, len(self.level_))
        if isinstance(basis, LandmarkFeatures):
            ratios += _beyond(features, X, Z) / self.alpha_
        forms = self.forms(basis, X, Z)
        np.fill_diagonal(ratios, forms)
        scale = np.sqrt(self.noise.function(forms) / forms[:, np.newaxis])
        return ratios[:, :, np.newaxis] * scale[:, np.newaxis] * scale

    def variances_of_sums(self, features: FeatureMap, X: Rows, A: NDArray) -> Floats:
        """Variances of the sums A f of the function's values f at encoded rows, shape
        (G, K).

        Parameters
        ----------
        features : FeatureMap
        X : array of shape (n, d)
        A : array of shape (G, n)
        """
        basis = self.basis(features)
        X = X.astype(np.float64)
        Z = basis.rows(X)
        forms = self.linear.forms(product(A, Z), A.sum(axis=1))
        if isinstance(basis, LandmarkFeatures):
            beyond = _beyond(features, X, Z)
            missed_variances = np.einsum("gi,gi->g", product(A, beyond), A)
            forms += np.maximum(missed_variances, 0.0) / self.alpha_
        return self.noise.function(forms)

    def sample(
        self, features: FeatureMap, X: Rows, n_samples: int, rng: np.random.Generator
    ) -> Floats:
        """Functions less their mean at encoded rows, shape (n, K, S), by pathwise
        conditioning.

        A function of the prior, less what the landmarks tell of it, is independent of
        the weights of their features; these are drawn from their posterior. Both are
        functions of the row and the generator alone.
        """
        basis = self.basis(features)
        K = len(self.level_)
        normal = rng.standard_normal((len(self.mean_) + 1, K * n_samples))
        weights = self.linear.spread(normal[:-1])
        constant = normal[-1] / np.sqrt(self.weight_)
        if isinstance(basis, LandmarkFeatures):
            # What the landmarks tell of functions of the prior, and of the features
            # by whose combinations they are drawn
            prior = PriorFunctions(features, K * n_samples, rng)
            told = basis.root @ prior(basis.landmarks)
            prior_features = prior.features(basis.landmarks)
            if prior_features is not None:
                told_features = basis.root @ prior_features
        result = np.empty((X.shape[0], K, n_samples))
        for a in range(0, X.shape[0], BLOCK_ROWS):
            rows = X[a : a + BLOCK_ROWS].astype(np.float64)
            Z = basis.rows(rows)
            values = (Z - self.mean_) @ weights + constant
            if isinstance(basis, LandmarkFeatures):
                beyond = prior(rows) - Z @ told
                prior_features = prior.features(rows)
                if prior_features is not None:
                    # The kernel's estimate by which functions are drawn is off by
                    # little, but of what the landmarks leave that may be much: values
                    # are scaled to the variance that the kernel itself leaves.
                    drawn = np.square(prior_features - product(Z, told_features))
                    least = np.finfo(np.float64).tiny
                    share = missed(basis, rows, Z) / np.maximum(
                        drawn.sum(axis=1), least
                    )
                    beyond = beyond * np.sqrt(share)[:, np.newaxis]
                values += beyond / np.sqrt(self.alpha_)
            forms = self.forms(basis, rows, Z)
            size = np.sqrt(self.noise.function(forms) / forms[:, np.newaxis])
            result[a : a + len(Z)] = (
                values.reshape(len(Z), K, n_samples) * size[:, :, np.newaxis]
            )
        return result


def missed(basis: DenseFeatures, X: Rows, Z: NDArray) -> Floats | float:
    """What of the kernel k(x, x) the features do not reach, shape (n,)."""
    if not isinstance(basis, LandmarkFeatures):
        return 0.0
    return np.maximum(basis.variance(X) - np.einsum("ij,ij->i", Z, Z), 0.0)


def _beyond(features: FeatureMap, X: Rows, Z: NDArray) -> Floats:
    """The kernel of n rows less what features of landmarks tell of it, (n, n)."""
    rows = as_doubles(X)
    kernel = LandmarkFeatures(features, rows, np.empty((0, 0)))
    return kernel.values(rows) - product(Z, Z.T)


def as_doubles(X: Rows) -> Floats:
    return (X if isinstance(X, np.ndarray) else X.toarray()).astype(np.float64)
