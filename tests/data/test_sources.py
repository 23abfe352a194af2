"""Rows in blocks, and equal rows as one."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge

from bochner.data.array_source import ArraySource

rng = np.random.default_rng(0)
POINTS = rng.standard_normal((20, 3))
DRAWN = rng.integers(20, size=200)
X, Y = POINTS[DRAWN], rng.standard_normal((200, 2))
WEIGHT = rng.integers(0, 4, 200).astype(float)


@pytest.mark.parametrize(
    "form", [np.asarray, sp.csr_array, lambda X: pd.DataFrame(X, columns=list("abc"))]
)
def test_equal_rows_are_one_with_their_mean_target(form):
    source = ArraySource(
        form(X),
        Y,
        WEIGHT,
        lambda part: part.to_numpy() if isinstance(part, pd.DataFrame) else part,
    )
    merged, kept = source.merged(source.first_duplicates(source.row_hashes()))
    means = pd.DataFrame(Y * WEIGHT[:, np.newaxis]).groupby(DRAWN, sort=False).sum()
    totals = pd.Series(WEIGHT).groupby(DRAWN, sort=False).sum()
    ((X_merged, Y_merged, weight),) = merged.blocks(1000)
    X_merged = X_merged.toarray() if sp.issparse(X_merged) else X_merged
    assert_array_equal(X_merged, POINTS[totals.index])
    assert_array_equal(X_merged, X[kept])
    assert_allclose(Y_merged, means / totals.to_numpy()[:, np.newaxis], atol=1e-12)
    assert_array_equal(weight, totals)


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_ridge_regression_is_the_same(weight):
    source = ArraySource(X, Y, weight)
    merged, _ = source.merged(source.first_duplicates(source.row_hashes()))
    ours = Ridge(0.5).fit(merged.X, merged.y, merged.weights)
    whole = Ridge(0.5).fit(X, Y, weight)
    assert_allclose(ours.coef_, whole.coef_, rtol=1e-10)
    assert_allclose(ours.intercept_, whole.intercept_, rtol=1e-10)


def test_rows_apart_stay_alone():
    apart = np.arange(200) < 50
    source = ArraySource(X, Y)
    first_duplicate = source.first_duplicates(source.row_hashes(), apart)
    assert_array_equal(first_duplicate[:50], np.arange(50))
    assert (first_duplicate[50:] >= 50).all()
    merged, kept = source.merged(first_duplicate)
    assert_array_equal(merged.y[:50], Y[:50])
    assert kept[:50].all()
    assert merged.n_rows == 50 + len(np.unique(DRAWN[50:]))


def test_rows_of_no_weight_have_no_target():
    weight = np.where(DRAWN == 3, 0.0, 1.0)
    source = ArraySource(X, Y, weight)
    merged, _ = source.merged(source.first_duplicates(source.row_hashes()))
    (none,) = np.flatnonzero(merged.weights == 0)
    assert_array_equal(merged.y[none], 0)


def test_few_repeats_are_left_alone():
    few = np.concatenate([rng.standard_normal((90, 3)), POINTS[[0] * 10]])
    source = ArraySource(few, np.zeros((100, 1)))
    same, kept = source.merged(source.first_duplicates(source.row_hashes()))
    assert same is source
    assert kept.all()
    assert source.distinct().n_rows == 91


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_rows_that_differ_beside_a_huge_column_are_not_equal(form):
    """In a sum of the row what is 1e-20 of it would be lost; hashes tell them apart."""
    huge = np.stack([np.full(40, 1e20), np.repeat([1.0, 2.0], 20)], axis=1)
    source = ArraySource(form(huge), np.zeros((40, 1)))
    assert len(np.unique(source.row_hashes())) == 2
    merged, _ = source.merged(source.first_duplicates(source.row_hashes()))
    column = merged.X.toarray()[:, 1] if sp.issparse(merged.X) else merged.X[:, 1]
    assert set(column) == {1.0, 2.0}
