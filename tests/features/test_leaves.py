"""The single maps of a map are those whose kernels add to its kernel."""

import numpy as np
import pytest
from sklearn.kernel_approximation import Nystroem

from bochner import (
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    LinearFeatures,
)
from bochner.features import Metric, MetricFeatures
from bochner.features.leaves import estimated_kernel, leaves
from bochner.kernels import Gaussian, Hamming, Laplacian, Subspace

X = np.random.default_rng(0).standard_normal((30, 3))
TWO, HALF = Metric(3, [0, 2], [2.0, 1.0]), Metric(2, [1], [0.5])
FOURIER, BINS = (
    FourierFeatures(Gaussian(2.0), 10, random_state=0),
    BinningFeatures(Laplacian(9.0), 5, random_state=0),
)


@pytest.mark.parametrize("fitted", [False, True])
def test_products_of_the_leaves_add_to_those_of_the_map(fitted):
    inner = ConcatenatedFeatures(
        [FOURIER, MetricFeatures(HALF, BINS)], weights=[1.0, 3.0]
    )
    features = ConcatenatedFeatures(
        [MetricFeatures(TWO, inner), LinearFeatures(), FOURIER], weights=[0.5, 2.0, 1.0]
    )
    found = list(leaves(features.fit(X) if fitted else features))
    assert [leaf.weight for leaf in found] == [0.5, 1.5, 2.0, 1.0]
    assert [len(leaf.metrics) for leaf in found] == [1, 2, 0, 0]
    assert [leaf.rows(X).shape[1] for leaf in found] == [2, 1, 3, 3]
    kinds = [type(leaf.features).__name__ for leaf in found]
    assert kinds == [
        "FourierFeatures",
        "BinningFeatures",
        "LinearFeatures",
        "FourierFeatures",
    ]
    assert all(hasattr(leaf.features, "n_features_in_") == fitted for leaf in found)
    if fitted:
        Z = features.transform(X)
        each = [(leaf.weight, leaf.features.transform(leaf.rows(X))) for leaf in found]
        np.testing.assert_allclose(
            (Z @ Z.T).toarray(), sum(weight * (own @ own.T) for weight, own in each)
        )


def test_weights_that_are_learned_are_those_of_the_fitted_map():
    features = ConcatenatedFeatures([FOURIER, BINS]).fit(X)
    features.weights_ = np.array([0.25, 0.75])
    assert [leaf.weight for leaf in leaves(features)] == [0.25, 0.75]


def test_a_single_map_is_its_own_leaf():
    for features in (FOURIER, Nystroem()):
        ((weight, metrics, own),) = leaves(features)
        assert (weight, metrics) == (1.0, ())
        assert own is features


@pytest.mark.parametrize("columns", [None, [0, 1]])
def test_categories_keep_their_lengthscales_in_grids_of_some_columns(columns):
    X = np.random.default_rng(0).integers(0, 3, (20, 2)).astype(float)
    kernel = (
        Hamming([1.0, 3.0])
        if columns is None
        else Subspace(Hamming([1.0, 3.0]), columns)
    )
    found = estimated_kernel(BinningFeatures(kernel, column_share=0.4))(X, X)
    expected = np.ones((20, 20))
    for x, lengthscale in zip(X.T, (1.0, 3.0), strict=True):
        expected *= 0.6 + 0.4 * np.where(
            np.equal.outer(x, x), 1.0, np.exp(-1 / lengthscale)
        )
    np.testing.assert_allclose(found, expected, rtol=1e-12)
