"""Nystroem features against the kernel, and against scikit-learn's."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.kernel_approximation import Nystroem

from bochner.features import NystroemFeatures
from bochner.kernels import Gaussian, Laplacian, Matern

X = np.random.default_rng(0).standard_normal((400, 4))
KERNELS = [
    Gaussian(2.0),
    3.0 * Gaussian([1.0, 2.0, 3.0, 4.0]),
    Matern(2.0, nu=1.5),
    Gaussian(2.0) + Laplacian(8.0),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_few_rows_have_the_kernel(kernel):
    Z = NystroemFeatures(kernel, random_state=0).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, kernel(X), atol=1e-6)


def test_fewer_errors_than_landmarks_that_are_rows():
    ours = NystroemFeatures(Gaussian(2.0), 60, random_state=0).fit_transform(X)
    rows = Nystroem(gamma=1 / 8, n_components=60, random_state=0).fit_transform(X)
    exact = Gaussian(2.0)(X)
    assert np.linalg.norm(ours @ ours.T - exact) < 0.8 * np.linalg.norm(
        rows @ rows.T - exact
    )


@pytest.mark.parametrize("kernel", KERNELS[:3], ids=str)
def test_products_are_those_of_the_features(kernel):
    features = NystroemFeatures(kernel, 50, random_state=0).fit(X)
    coef = np.random.default_rng(1).standard_normal((features.n_features_out, 3))
    np.testing.assert_allclose(
        features.dot(X, coef), features.transform(X) @ coef, atol=1e-9
    )
    single, double = features.transform(X.astype(np.float32)), features.transform(X)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single @ single.T, double @ double.T, atol=1e-3)
    np.testing.assert_allclose(features.transform(sp.csr_array(X)), double, atol=1e-6)


def test_far_rows_lose_no_digits():
    far = X + 1e3
    Z = (
        NystroemFeatures(Gaussian(2.0), random_state=0)
        .fit(far)
        .transform(far.astype(np.float32))
    )
    np.testing.assert_allclose(Z @ Z.T, Gaussian(2.0)(far), atol=1e-3)


def test_equal_rows_and_rows_without_weight_are_no_landmarks():
    features = NystroemFeatures(Gaussian(2.0), 10, random_state=0).draw(4)
    features.fit_sample(
        np.repeat(X[:5], 40, axis=0), np.repeat([1.0, 1.0, 1.0, 1.0, 0.0], 40)
    )
    assert len(features.landmarks_) == 4
