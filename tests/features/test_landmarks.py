"""Landmarks of the kernel that a map stands for, and functions drawn from its
Gaussian process.
"""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem

from bochner import (
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    LinearFeatures,
)
from bochner.features import Metric, MetricFeatures, TransformerFeatures
from bochner.features.nystroem import KernelRows, LandmarkFeatures, PriorFunctions
from bochner.kernels import FromSpectrum, Gaussian, Laplacian

rng = np.random.default_rng(0)
X, NEW = rng.standard_normal((60, 3)), rng.standard_normal((8, 3))
METRIC = Metric(3, [0, 2], [2.0, 1.0])
U = X[:, [0, 2]] * [2.0, 1.0]
FOURIER, BINS = (
    FourierFeatures(Gaussian(2.0), 50, random_state=0),
    BinningFeatures(Laplacian(3.0), 20, random_state=0),
)


def mixture(share, scale, X):
    """Kernel of grids that split each column with a probability."""
    distances = np.abs(X[:, np.newaxis] - X[np.newaxis]) / scale
    return np.prod(1 - share + share * np.exp(-distances), axis=2)


STANDARD = (X - X.mean(axis=0)) / X.std(axis=0)
KERNELS = {
    "fourier": (FOURIER, Gaussian(2.0)(X)),
    "bins": (BINS, Laplacian(3.0)(X)),
    "rows": (KernelRows(Gaussian(2.0)), Gaussian(2.0)(X)),
    "coordinates": (MetricFeatures(METRIC, BINS), Laplacian(3.0)(U)),
    "halves": (
        BinningFeatures(Laplacian(3.0), 20, column_share=0.5, random_state=0),
        mixture(0.5, 3.0, X),
    ),
    "linear": (LinearFeatures(), STANDARD @ STANDARD.T),
    "together": (
        ConcatenatedFeatures([FOURIER, BINS, LinearFeatures()], [2.0, 1.0, 0.5]),
        2 * Gaussian(2.0)(X) + Laplacian(3.0)(X) + 0.5 * STANDARD @ STANDARD.T,
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_is_that_of_the_map(name):
    features, exact = KERNELS[name]
    landmarks = LandmarkFeatures(clone(features).fit(X), X[:40])
    np.testing.assert_allclose(landmarks.values(X), exact[:, :40], atol=1e-12)
    np.testing.assert_allclose(landmarks.variance(X), np.diag(exact), atol=1e-12)
    Z = landmarks.rows(X)
    np.testing.assert_allclose((Z @ Z.T)[:40, :40], exact[:40, :40], atol=1e-8)
    assert (np.square(Z).sum(axis=1) <= np.diag(exact) + 1e-8).all()


@pytest.mark.parametrize(
    "features",
    [
        TransformerFeatures(Nystroem(n_components=10, random_state=0)),
        FourierFeatures(
            FromSpectrum(lambda size, d, rng: rng.standard_normal((size, d))),
            30,
            random_state=0,
        ),
    ],
)
def test_features_stand_for_a_kernel_without_a_formula(features):
    features = features.fit(X)
    landmarks, Z = LandmarkFeatures(features, X[:5]), features.transform(X)
    np.testing.assert_allclose(landmarks.values(X), Z @ Z[:5].T, atol=1e-12)
    np.testing.assert_allclose(
        landmarks.variance(X), np.square(Z).sum(axis=1), atol=1e-12
    )


@pytest.mark.parametrize(
    "name", ["fourier", "bins", "coordinates", "halves", "linear", "together"]
)
def test_prior_functions_have_the_covariance_of_the_kernel(name):
    """Means of products of 40 draws of 50 functions, by z-score."""
    features, exact = KERNELS[name]
    features = clone(features).fit(X)
    draws = np.stack(
        [
            PriorFunctions(features, 50, np.random.default_rng(s))(X[:6])
            for s in range(40)
        ]
    )
    products = np.einsum("sik,sjk->sij", draws, draws) / 50
    z = (products.mean(axis=0) - exact[:6, :6]) / (products.std(axis=0) / np.sqrt(40))
    assert np.abs(z).max() < 5


def test_prior_functions_are_functions():
    features = ConcatenatedFeatures([FOURIER, BINS]).fit(X)
    function = PriorFunctions(features, 3, np.random.default_rng(0))
    np.testing.assert_allclose(function(NEW)[2:4], function(NEW[2:4]), atol=1e-12)
