"""Scales of errors against dense algebra."""

import numpy as np
import pytest

from bochner import FourierFeatures
from bochner.data.sources import ArraySource
from bochner.design import Design
from bochner.estimators.ridge.spread import Rows, distinct_numbers, limits, roots_of
from bochner.estimators.ridge.spread_direct import _nearly_left_out, _regression, left_out, spread_directly
from bochner.kernels import Gaussian
from bochner.solvers.factors import factorise

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (600, 2))
Y = np.stack([np.sin(2 * X[:, 0]), X[:, 1]], axis=1) + 0.2 * RNG.standard_normal((600, 2))
WEIGHT = RNG.uniform(0.5, 2.0, 600)
ALPHA = 0.7


def design(n_features):
    features = FourierFeatures(Gaussian(1.0), n_features, random_state=0).fit(X)
    return Design(ArraySource(X, Y, WEIGHT), features, np.float64)


def dense(Z, weight, targets, alpha):
    """Coefficients of a ridge regression about the weighted means."""
    A = Z - weight @ Z / weight.sum()
    G = (A * weight[:, np.newaxis]).T @ A
    return np.linalg.solve(G + alpha * np.eye(Z.shape[1]), (A * weight[:, np.newaxis]).T @ targets)


@pytest.mark.parametrize("n_features", [50, 800], ids=["more rows", "more features"])
def test_a_factor_solves_for_other_targets(n_features):
    """With all rows the coefficients are those of their own ridge regression."""
    some, targets = design(n_features), RNG.standard_normal((600, 3))
    factor = factorise(some, 1)
    Z = some.features.transform(X)
    found = _regression(some, factor, ALPHA, targets)
    alpha = 5 * ALPHA if factor.inverse.serves_paths else ALPHA
    np.testing.assert_allclose(found.coef, dense(Z, WEIGHT, targets, alpha), atol=1e-8)
    mean = WEIGHT @ (targets - Z @ found.coef) / WEIGHT.sum()
    np.testing.assert_allclose(found.intercept, mean, atol=1e-8)


def test_estimated_leverages_are_near_to_the_true_ones():
    some = design(50)
    factor = factorise(some, 1)
    exact = Y - left_out(some, factor, ALPHA, np.arange(600))
    found = _nearly_left_out(some, factor, ALPHA, np.random.default_rng(0))
    ratio = found / exact
    assert abs(ratio.mean() - 1) < 0.01
    assert ratio.std() < 0.06  # of leverages about 0.08, by 32 draws each


def test_rows_that_calibrate_tell_nothing_of_the_scale():
    some = design(50)
    factor = factorise(some, 1)
    rows = Rows.of(some.source, 0)
    before = spread_directly(some, factor, ALPHA, rows)
    other = np.where(rows.judge[:, np.newaxis], 100 * Y, Y)
    after = spread_directly(Design(ArraySource(X, other, WEIGHT), some.features, np.float64), factor, ALPHA, rows)
    np.testing.assert_array_equal(after.roots.coef, before.roots.coef)


def test_a_limit_is_where_a_hundredth_of_the_weight_and_ten_rows_are():
    y = np.linspace(0, 1, 1000)[:, np.newaxis].repeat(4, axis=1)
    y[:12, 1], y[:5, 2], y[-9:, 2], y[-20:, 3] = 0, 0, 1, 1
    weight = np.ones(1000)
    infinite = np.inf
    np.testing.assert_array_equal(
        limits(y, weight), [[-infinite, 0, -infinite, -infinite], [infinite, infinite, infinite, 1]]
    )
    weight[:12] = 0.1
    assert (limits(y, weight)[0] == -infinite).all()


def test_roots_have_bounds_that_are_positive():
    roots, bounds = roots_of(np.array([[0.0], [4.0], [-9.0], [100.0]]), np.array([1.0, 1.0, 1.0, 0.0]))
    np.testing.assert_array_equal(roots[:, 0], [0, 2, 3, 10])
    assert 0 < bounds[0, 0] < bounds[1, 0] <= 3
    assert (roots_of(np.zeros((5, 1)), np.ones(5))[1] > 0).all()


def test_equal_rows_have_one_number():
    rows = ArraySource(np.array([[1.0], [2.0], [1.0], [3.0], [2.0]]), np.zeros((5, 1)), np.array([1.0, 1, 1, 0, 1]))
    np.testing.assert_array_equal(distinct_numbers(rows), [0, 1, 0, 0, 1])
