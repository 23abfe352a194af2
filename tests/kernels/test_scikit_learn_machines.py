"""scikit-learn's exact machines take our kernels as callables."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import SpectralClustering
from sklearn.decomposition import KernelPCA
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import SVC

from bochner.kernels import Gaussian, Laplacian, Matern

X = np.random.default_rng(0).standard_normal((40, 3))
y = np.sin(X[:, 0]) + X[:, 1]
NEW = np.random.default_rng(1).standard_normal((7, 3))
KERNEL = 0.5 * Gaussian([1.0, 2.0, 3.0]) + Laplacian(2.0) * Matern(nu=2.5)


def test_two_rows(case):
    kernel, rows = (
        case.kernel(3),
        np.rint(2 * np.random.default_rng(0).standard_normal((6, 3))),
    )
    K = kernel(rows)
    for i, j in ((0, 0), (0, 1), (4, 2)):
        value = kernel(rows[i], rows[j])
        assert type(value) is float
        assert value == pytest.approx(K[i, j], rel=1e-12, abs=1e-15)
        assert kernel(rows[i].tolist(), rows[j].tolist()) == value


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match="two dimensions"):
        KERNEL(X[0], X)
    with pytest.raises(ValueError, match="two dimensions"):
        KERNEL(X, X[0])
    with pytest.raises(ValueError, match="same number"):
        KERNEL(X[0], X[1, :2])
    with pytest.raises(TypeError, match="sparse"):
        KERNEL(sp.csr_array(X))


def test_pairwise_kernels():
    np.testing.assert_allclose(
        pairwise_kernels(X, NEW, metric=KERNEL), KERNEL(X, NEW), rtol=1e-12
    )


def test_kernel_ridge():
    model = clone(KernelRidge(alpha=0.1, kernel=KERNEL)).fit(X, y)
    expected = (
        KernelRidge(alpha=0.1, kernel="precomputed")
        .fit(KERNEL(X), y)
        .predict(KERNEL(NEW, X))
    )
    np.testing.assert_allclose(model.predict(NEW), expected, rtol=1e-9)


def test_kernel_pca():
    found = KernelPCA(3, kernel=Gaussian(2.0)).fit(X).transform(NEW)
    expected = KernelPCA(3, kernel="rbf", gamma=1 / 8).fit(X).transform(NEW)
    np.testing.assert_allclose(np.abs(found), np.abs(expected), rtol=0, atol=1e-9)


def test_svc():
    found = SVC(kernel=Gaussian(2.0)).fit(X, y > 0).decision_function(NEW)
    expected = SVC(kernel="rbf", gamma=1 / 8).fit(X, y > 0).decision_function(NEW)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)


def test_spectral_clustering():
    rows = np.concatenate([X[:20] - 4, X[20:] + 4])
    found = SpectralClustering(2, affinity=Gaussian(2.0), random_state=0).fit_predict(
        rows
    )
    assert len(set(found[:20])) == len(set(found[20:])) == 1
    assert found[0] != found[-1]
