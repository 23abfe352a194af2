"""Median distances, against all pairs by NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from bochner.data.array_source import ArraySource
from bochner.features.distances import median_distance, median_gaussian, pair_distances

X = np.random.default_rng(0).standard_normal((31, 4))
X[X < -0.8] = 0


def all_pairs(A, p):
    D = np.linalg.norm(A[:, np.newaxis] - A, ord=p, axis=2)
    return D[np.triu_indices(len(A), 1)]


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_median_is_that_of_all_pairs(p, kind):
    assert_allclose(
        median_distance(kind(X), p=p), np.median(all_pairs(X, p)), rtol=1e-12
    )


@pytest.mark.parametrize("p", [1, 2])
def test_weights_are_equal_rows_and_equal_rows_are_no_pairs(p):
    weight = np.random.default_rng(1).integers(0, 4, len(X))
    repeated = np.repeat(X, weight, axis=0)
    D = all_pairs(repeated, p)
    for found in (
        median_distance(X, weight.astype(float), p),
        median_distance(repeated, p=p),
    ):
        assert_allclose(found, np.median(D[D > 0]), rtol=1e-12)


def test_far_from_the_origin():
    assert_allclose(median_distance(X + 1e9), median_distance(X), rtol=1e-6)


def test_rows_that_are_all_equal():
    assert median_distance(np.zeros((5, 2))) == median_distance(np.ones((1, 2))) == 1
    assert median_distance(np.array([[0.0], [0.0], [0.0], [3.0]])) == 3
    assert [len(part) for part in pair_distances(np.zeros((5, 2)))] == [0, 0]


def test_gaussian_is_the_inverse_of_e_at_the_median():
    kernel = median_gaussian(ArraySource(X, np.empty((len(X), 0))), 0)
    values = kernel(X)[np.triu_indices(len(X), 1)]
    assert_allclose(np.median(values), np.exp(-1), rtol=1e-12)


def test_sparse_rows_without_an_entry_have_no_pairs():
    assert median_distance(sp.csr_array((50, 100))) == 1.0
