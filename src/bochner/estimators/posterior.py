"""The posterior of a fitted regressor: deviations of its predictions, and functions drawn from it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bochner.features.base import FeatureMap
from bochner.features.dense import DenseFeatures, Rows
from bochner.features.landmarks import LandmarkFeatures
from bochner.features.prior import PriorFunctions
from bochner.solvers.posterior import LinearPosterior, LogScale, Noise

BLOCK_ROWS = 4096


class Posterior:
    """The Gaussian process of a fitted map's kernel, given the rows, in units of standardised targets.

    Its mean is that of the model. Its variance is that of Bayesian linear regression on the Nystroem features of up to
    1,024 landmarks, which know the exact kernel, and the mass of the kernel that these do not reach, so that far from
    all rows it returns to the prior; the features of the model itself are too sure by a fifth where there are 2,000 of
    them ("variance starvation"). Features without a kernel behind them are taken as they are.

    Attributes
    ----------
    landmarks_ : array of shape (m, d)
        Encoded rows; none where the features are taken as they are.
    landmark_root_ : array of shape (m, m)
        Inverse of the Cholesky factor of their kernel matrix.
    mean_, root_, weight_ : see `LinearPosterior`
    alpha_ : float
    level_, slope_, signal_, constant_, reach_ : arrays of shape (K,) and float, see `Noise`
    scale_coef_, scale_intercept_, scale_low_, scale_high_ : arrays, see `LogScale`
    scale_features_ : FeatureMap or None
        The map that the scale is of; None where the noise is constant, and for the features of the variance in files of
        version 0.2.
    """

    scale_features_: FeatureMap | None = None

    def __init__(
        self,
        basis: DenseFeatures,
        linear: LinearPosterior,
        alpha: float,
        noise: Noise,
        scale: LogScale,
        scale_features: FeatureMap | None,
    ) -> None:
        self.landmarks_ = self.landmark_root_ = np.empty((0, 0))
        if isinstance(basis, LandmarkFeatures):
            self.landmarks_, self.landmark_root_ = basis.landmarks, basis.root
        self.mean_, self.root_, self.weight_ = linear
        self.alpha_ = alpha
        self.level_, self.slope_, self.signal_, self.constant_, self.reach_ = noise
        self.scale_coef_, self.scale_intercept_, self.scale_low_, self.scale_high_ = scale
        self.scale_features_ = scale_features

    @property
    def linear(self) -> LinearPosterior:
        """That of the weights."""
        return LinearPosterior(self.mean_, self.root_, self.weight_)

    @property
    def noise(self) -> Noise:
        """Parameters of the variances."""
        return Noise(self.level_, self.slope_, self.signal_, self.constant_, self.reach_)

    @property
    def scale(self) -> LogScale:
        """Regression of the logarithm of the size of errors; zero where the noise is constant."""
        return LogScale(self.scale_coef_, self.scale_intercept_, self.scale_low_, self.scale_high_)

    def basis(self, features: FeatureMap) -> DenseFeatures:
        """The features that the variance is of, for the map of the model."""
        if len(self.landmarks_):
            return LandmarkFeatures(features, self.landmarks_, self.landmark_root_)
        assert features.dense is not None
        return features.dense

    def forms(self, basis: DenseFeatures, X: Rows, Z: NDArray) -> NDArray[np.float64]:
        """Variance of the function over that of the noise, of rows X with features Z, shape (n,)."""
        return function_forms(self.linear, basis, self.alpha_, X, Z)

    def variances(self, features: FeatureMap, X: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Variances of the function and of the noise at encoded rows, each of shape (n, K)."""
        basis, parameters, K = self.basis(features), self.noise, len(self.level_)
        function, noise = np.empty((X.shape[0], K)), np.empty((X.shape[0], K))
        for a in range(0, X.shape[0], BLOCK_ROWS):
            rows = X[a : a + BLOCK_ROWS].astype(np.float64)
            Z = basis.rows(rows)
            function[a : a + len(Z)] = parameters.function(self.forms(basis, rows, Z))
            noise[a : a + len(Z)] = parameters.noise(self._sizes(rows, Z))
        return function, noise

    def _sizes(self, X: Rows, Z: NDArray) -> NDArray[np.float64]:
        """Logarithms of the sizes of errors at rows with features Z, shape (n, K)."""
        if not len(self.scale_coef_):
            return np.zeros((len(Z), len(self.level_)))
        return self.scale(Z if self.scale_features_ is None else features_of(self.scale_features_, X))

    def sample(self, features: FeatureMap, X: Rows, n_samples: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Functions less their mean at encoded rows, shape (n, K, S), by pathwise conditioning.

        A function of the prior, less what the landmarks tell of it, is independent of the weights of their features;
        these are drawn from their posterior. Both are functions of the row and the generator alone.
        """
        basis, K = self.basis(features), len(self.level_)
        normal = rng.standard_normal((len(self.mean_) + 1, K * n_samples))
        weights, constant = self.linear.spread(normal[:-1]), normal[-1] / np.sqrt(self.weight_)
        prior = PriorFunctions(features, K * n_samples, rng) if isinstance(basis, LandmarkFeatures) else None
        told = self.landmark_root_ @ prior(self.landmarks_) if prior is not None else np.empty(0)
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


def features_of(features: FeatureMap, X: Rows) -> NDArray[np.float64]:
    """Dense features of rows, shape (n, D)."""
    assert features.dense is not None
    return features.dense.rows(X)


def function_forms(
    linear: LinearPosterior, basis: DenseFeatures, alpha: float, X: Rows, Z: NDArray
) -> NDArray[np.float64]:
    """Variance of the function over that of the noise: of the weights, and of what features Z of rows X do not reach.

    Shape (n,). The latter is k(x, x) - |z(x)|^2 over alpha, which is the noise over the prior's variance.
    """
    return linear.forms(Z) + missed(basis, X, Z) / alpha


def missed(basis: DenseFeatures, X: Rows, Z: NDArray) -> NDArray[np.float64] | float:
    """What of the kernel k(x, x) the features do not reach, shape (n,)."""
    if not isinstance(basis, LandmarkFeatures):
        return 0.0
    return np.maximum(basis.variance(X) - np.einsum("ij,ij->i", Z, Z), 0.0)
