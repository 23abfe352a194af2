"""Rows that agree but for the last digits count as copies of one another."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from bochner import KernelMachineRegressor
from bochner.data.hashes import near_copies


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(500, 3)) * [1, 1e6, 1e-6]


def test_plain_rows_have_none(X):
    assert near_copies(X) is None
    assert near_copies(X[:1]) is None
    assert near_copies(sp.csr_array(X)) is None


@pytest.mark.parametrize("noise", [0, 1e-10])
@pytest.mark.parametrize(
    "kind",
    [
        np.asarray,
        pd.DataFrame,
        pl.DataFrame,
        lambda X: X.astype(object),
        lambda X: pd.DataFrame(X).astype(object),
    ],
    ids=["array", "pandas", "polars", "objects", "frame of objects"],
)
def test_the_first_of_several_stands_for_all(X, noise, kind):
    rng = np.random.default_rng(1)
    copies = np.tile(X, (3, 1)) * (1 + noise * rng.normal(size=(1500, 3)))
    first = near_copies(kind(copies))
    np.testing.assert_array_equal(first, np.tile(np.arange(500), 3))


@pytest.mark.parametrize("n_columns", [1, 4, 20, 100])
def test_copies_in_single_precision(n_columns):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, n_columns))
    order = rng.permutation(2000)
    first = near_copies(np.vstack([X, X[order].astype(np.float32)]))
    if n_columns == 1:  # of which some of 2,000 are near one another by chance
        assert np.mean(first[2000:] == order) > 0.99
        return
    np.testing.assert_array_equal(first[:2000], np.arange(2000))
    np.testing.assert_array_equal(first[2000:], order)


@pytest.mark.parametrize("far", [1e9, -1e30, 1e300, np.nan])
def test_copies_of_rows_with_a_number_for_missing_ones(X, far):
    """Which stands apart from all others, so that they are nothing beside it."""
    X = X / [1, 1e6, 1e-6]
    X[::5, 0] = far
    order = np.random.default_rng(1).permutation(500)
    first = near_copies(np.vstack([X, X[order] * (1 + 1e-9)]))
    has_number = X[order, 0] != far
    np.testing.assert_array_equal(first[:500], np.arange(500))
    np.testing.assert_array_equal(first[500:][has_number], order[has_number])
    first = near_copies(np.vstack([X, X[order]]))
    np.testing.assert_array_equal(first[500:], order)


def test_a_chain_of_near_rows_is_no_copy_of_its_first():
    x = np.arange(4000.0) / 2 * 1e-6  # each is near the next, of a range of 1
    first = near_copies(np.concatenate([x, [0.0] * 2000, [1.0] * 2000])[:, np.newaxis])
    numbers = np.arange(4000)
    assert np.max(numbers - first[:4000]) <= 3


def test_columns_of_text_few_values_and_constants_have_to_be_equal():
    frame = pd.DataFrame(
        {
            "a": [1.0, 1.0 + 1e-9, 2.0, 1.0],
            "b": list("xyxx"),
            "c": 7.0,
            "d": [0.0, 0.0, 0.0, 1e-12],
        }
    )
    assert near_copies(frame) is None
    np.testing.assert_array_equal(near_copies(frame.assign(b="x", d=0.0)), [0, 0, 2, 0])
    assert near_copies(np.array([[1.0], [1.0 + 1e-15], [1.0]])).tolist() == [0, 1, 0]


def test_objects_have_to_be_equal():
    X = np.array(
        [["1", "a"], ["1", "b"], [None, "a"], ["1", "a"], [None, "a"]], dtype=object
    )
    assert near_copies(X).tolist() == [0, 1, 2, 0, 2]


def test_missing_values_agree(X):
    X = np.vstack([X, X[:1]])
    X[[0, -1], 1] = np.nan
    assert near_copies(X)[-1] == 0


@pytest.mark.parametrize("far", [1e300, 1.7e308, np.inf])
def test_an_outlier_does_not_make_others_alike(X, far):
    X = np.vstack([X, [[far, 0, 0]], [[-far, 0, 0]]])
    assert near_copies(X) is None


@pytest.mark.slow
def test_targets_of_near_copies_are_held_out_together(X):
    rng = np.random.default_rng(0)
    y = X[:, 0] + rng.normal(size=500)
    copies = np.tile(X, (3, 1)) * (1 + 1e-10 * rng.normal(size=(1500, 3)))
    model = KernelMachineRegressor(
        "gaussian", n_components=256, uncertainty="intervals", random_state=0
    )
    new = rng.normal(size=(1000, 3)) * [1, 1e6, 1e-6]
    low, high = model.fit(copies, np.tile(y, 3)).predict_interval(new, 0.9).T
    target = new[:, 0] + rng.normal(size=1000)
    # Of 500 rows .9 is covered with a standard error of .013; it was .5 where copies
    # told of one another.
    assert abs(np.mean((low <= target) & (target <= high)) - 0.9) < 5 * np.sqrt(
        0.09 * (1 / 500 + 1 / 1000)
    )


def test_a_frequent_number_for_missing_values_makes_no_copies():
    """It is one value of the column, whose range the others set."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    X[rng.random(500) < 0.4, 0] = -999_999
    X[:, 1] = np.where(rng.random(500) < 0.4, 1e7, X[:, 1])
    assert len(np.unique(X, axis=0)) < 500  # but for rows that miss both
    first = near_copies(X)
    np.testing.assert_array_equal(X[first], X)


def test_small_numbers_over_many_decades_are_no_copies():
    """They are if they agree to a thousandth, as one in 24 and the next one do."""
    X = 10.0 ** np.random.default_rng(0).uniform(-15, 3, (2000, 1))
    assert len(np.unique(near_copies(X))) > 1900
    assert len(np.unique(near_copies(np.vstack([X, X * (1 + 1e-12)])))) <= 2000
