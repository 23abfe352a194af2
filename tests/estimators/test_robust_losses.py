"""Losses that bound what outliers do, whatever their size."""

import numpy as np
import pytest

from bochner import KernelMachineRegressor
from bochner.data.outliers import outer_fences

N, OUTLIERS = 300, 3
SIZES = [1e2, 1e4, 1e6, 1e12]


def truth(X):
    return np.sin(2 * X[:, 0]) + X[:, 1]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(N, 3)), rng.normal(size=(500, 3))
    return X, truth(X) + 0.1 * rng.normal(size=N), new


def error(rows, y, loss):
    X, _, new = rows
    model = KernelMachineRegressor(
        "gaussian", n_components=128, loss=loss, random_state=0
    ).fit(X, y)
    return np.sqrt(np.mean(np.square(model.predict(new) - truth(new))))


@pytest.fixture(scope="module")
def clean_error(rows):
    """The error by the squared loss where there are no outliers, as a bound that no
    loss made.
    """
    return error(rows, rows[1], "squared")


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("loss", ["huber", "quantile"])
def test_outliers_of_any_size_do_bounded_harm(rows, clean_error, loss, size):
    y = rows[1].copy()
    y[:OUTLIERS] += size
    assert error(rows, y, loss) < 4 * clean_error < error(rows, y, "squared")


@pytest.mark.parametrize("loss", ["huber", "quantile"])
def test_an_error_beyond_the_fences_does_the_same_harm_whatever_its_size(rows, loss):
    errors = []
    for size in SIZES[1:]:
        y = rows[1].copy()
        y[:OUTLIERS] += size
        errors.append(error(rows, y, loss))
    assert max(errors) < 1.5 * min(errors)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["huber", "quantile"])
def test_one_outlier_in_twenty_does_the_same_harm_however_far_it_is(loss):
    """Their losses, which nothing changes, are no part of what a step must gain."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1200, 6))
    y = truth(X) + 0.5 * X[:, 2] * X[:, 3]
    outlying = rng.random(200) < 0.05
    noise = 0.2 * rng.normal(size=200)
    directions = rng.standard_normal(outlying.sum())
    errors = []
    for size in (1e2, 1e4):
        targets = y[:200] + noise
        targets[outlying] += size * directions
        model = KernelMachineRegressor(loss=loss, random_state=0)
        predicted = model.fit(X[:200], targets).predict(X[200:])
        errors.append(np.abs(predicted - y[200:]).mean())
    assert errors[1] < 1.2 * errors[0]


def smooth_rows(seed, n):
    """Rows of a smooth truth with noise, and new ones with the truth itself."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 2000, 6))
    y = truth(X) + 0.5 * X[:, 2] * X[:, 3]
    return X[:n], y[:n] + 0.2 * rng.normal(size=n), X[n:], y[n:]


def excess(model, X_new, y_new):
    return np.mean(np.square(model.predict(X_new) - y_new)) / np.var(y_new)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["huber", "quantile"])
def test_few_rows_without_outliers_are_as_good_as_by_the_squared_loss(loss):
    """Features are chosen as for the squared loss: it was four times the error."""
    excesses = []
    for seed in range(3):
        X, y, *new = smooth_rows(seed, 150)
        excesses.append(
            [
                excess(
                    KernelMachineRegressor(loss=name, random_state=0).fit(X, y), *new
                )
                for name in (loss, "squared")
            ]
        )
    robust, squared = np.log(excesses).mean(axis=0)
    assert robust < squared + np.log(1.7)


@pytest.mark.slow
@pytest.mark.parametrize("n", [150, 600])
def test_far_outliers_do_not_choose_the_features(n):
    """A tenth of the rows is far; the squared loss sees the others alone."""
    excesses = []
    for seed in range(3):
        X, y, *new = smooth_rows(seed, n)
        is_far = np.random.default_rng(seed).random(n) < 0.1
        far = y + is_far * 1e3 * np.random.default_rng(1).normal(size=n)
        robust = KernelMachineRegressor(loss="huber", random_state=0).fit(X, far)
        squared = KernelMachineRegressor(random_state=0).fit(X[~is_far], y[~is_far])
        excesses.append([excess(model, *new) for model in (robust, squared)])
    robust, squared = np.log(excesses).mean(axis=0)
    assert robust < squared + np.log(4.0)


@pytest.mark.parametrize("loss", ["huber", "quantile"])
def test_far_outliers_among_sixty_rows_are_not_fitted(loss):
    """Predictions were of the size of the outliers."""
    X, y, X_new, y_new = smooth_rows(1, 60)
    rng = np.random.default_rng(51)
    far = y + (rng.random(60) < 0.1) * 1e7 * rng.normal(size=60)
    model = KernelMachineRegressor(loss=loss, random_state=0).fit(X, far)
    assert excess(model, X_new, y_new) < 1


@pytest.mark.parametrize("loss", ["huber", "poisson"])
def test_few_rows_have_features_of_the_exact_kernel(loss):
    X, y, *_ = smooth_rows(0, 60)
    model = KernelMachineRegressor(loss=loss, random_state=0)
    model.fit(X, np.round(np.exp(y)))
    Z = model.features_.transform(model.encoder_.transform(X))
    K = model.features_.kernel(model.encoder_.transform(X))
    assert Z.shape[1] <= 60
    np.testing.assert_allclose(Z @ Z.T, K, atol=1e-6)


def test_fences_are_three_interquartile_ranges_beyond_the_quartiles():
    y = np.arange(1.0, 101.0)
    low, high = outer_fences(y, None)
    assert (low.item(), high.item()) == (25 - 3 * 50, 75 + 3 * 50)


def test_fences_of_weighted_targets_are_those_of_repeated_ones():
    rng = np.random.default_rng(0)
    y, weight = rng.normal(size=(50, 2)), rng.integers(0, 4, 50)
    weighted = outer_fences(y, weight.astype(float))
    np.testing.assert_array_equal(weighted, outer_fences(np.repeat(y, weight, 0), None))


def test_fences_of_mostly_equal_targets_are_those_of_a_larger_share():
    y = np.zeros(100)
    y[:20] = np.arange(1, 21)
    low, high = outer_fences(y, None)
    assert np.isfinite([low.item(), high.item()]).all()
    assert high.item() > 20
    assert outer_fences(np.zeros(9), None) == (-np.inf, np.inf)
