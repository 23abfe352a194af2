"""Scales of errors against dense algebra."""

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
import scipy.sparse as sp

from bochner import FourierFeatures
from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.estimators.ridge import interval_calibration
from bochner.estimators.ridge.direct import (
    calibrate_directly,
    left_out,
)
from bochner.estimators.ridge.interval_calibration import (
    fit_error_scale,
    fit_error_size,
    limits_of,
    roots_of,
)
from bochner.estimators.ridge.out_of_sample import OutOfSample, distinct_numbers
from bochner.kernels import Gaussian
from bochner.selection.budget import Budget
from bochner.solvers.factors import factorise
from bochner.solvers.posterior_variance import fit_noise, noise_variance

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (600, 2))
Y = np.stack([np.sin(2 * X[:, 0]), X[:, 1]], axis=1) + 0.2 * RNG.standard_normal(
    (600, 2)
)
WEIGHT = RNG.uniform(0.5, 2.0, 600)
ALPHA = 0.7


def design(n_features):
    features = FourierFeatures(Gaussian(1.0), n_features, random_state=0).fit(X)
    return Design(ArraySource(X, Y, WEIGHT), features, np.float64)


def dense(Z, weight, targets, alpha):
    """Coefficients of a ridge regression about the weighted means."""
    A = Z - weight @ Z / weight.sum()
    G = (A * weight[:, np.newaxis]).T @ A
    return np.linalg.solve(
        G + alpha * np.eye(Z.shape[1]), (A * weight[:, np.newaxis]).T @ targets
    )


@pytest.mark.parametrize("n_features", [50, 700], ids=["more rows", "more features"])
def test_predictions_for_rows_left_out_are_exact(n_features):
    all_rows = design(n_features)
    rows = calibrate_directly(
        all_rows, factorise(all_rows, 1), ALPHA, OutOfSample.of(all_rows.source, 0)
    )
    some = np.arange(0, 600, 20)
    expected = refits(
        all_rows.features.transform(X), WEIGHT, Y, ALPHA, some[:, np.newaxis]
    )[some]
    assert 0 < rows.calibrating[some].sum() < 30
    errors = (rows.targets - rows.predicted)[some]
    np.testing.assert_allclose(errors / expected, 1, rtol=1e-6)


def test_rows_that_calibrate_tell_nothing_of_the_scale():
    some = design(50)
    factor = factorise(some, 1)
    rows = calibrate_directly(some, factor, ALPHA, OutOfSample.of(some.source, 0))
    before = fit_error_scale(rows, np.arange(2), Budget())
    other = replace(rows, targets=np.where(rows.calibrating[:, np.newaxis], 100 * Y, Y))
    after = fit_error_scale(other, np.arange(2), Budget())
    np.testing.assert_array_equal(after.size.roots.coef, before.size.roots.coef)
    assert np.ptp(after.scores.values) > 50 * np.ptp(before.scores.values)


def test_a_limit_is_where_a_hundredth_of_the_weight_and_ten_rows_are():
    y = np.linspace(0, 1, 1000)[:, np.newaxis].repeat(4, axis=1)
    y[:12, 1], y[:5, 2], y[-9:, 2], y[-20:, 3] = 0, 0, 1, 1
    weight = np.ones(1000)
    infinite = np.inf
    np.testing.assert_array_equal(
        limits_of(y, weight),
        [[-infinite, 0, -infinite, -infinite], [infinite, infinite, infinite, 1]],
    )
    weight[:12] = 0.1
    assert (limits_of(y, weight)[0] == -infinite).all()


def test_roots_have_bounds_that_are_positive():
    roots, bounds = roots_of(
        np.array([[0.0], [4.0], [-9.0], [100.0]]), np.array([1.0, 1.0, 1.0, 0.0])
    )
    np.testing.assert_array_equal(roots[:, 0], [0, 2, 3, 10])
    assert 0 < bounds[0, 0] < bounds[1, 0] <= 3
    assert (roots_of(np.zeros((5, 1)), np.ones(5))[1] > 0).all()


def sizes(n, slope, seed):
    """Rows with errors of deviation exp(slope x), and a map for their sizes."""
    draws = np.random.default_rng(seed)
    X = draws.standard_normal((n, 2))
    errors = np.exp(slope * X[:, :1]) * draws.standard_normal((n, 1))
    features = FourierFeatures(Gaussian(3.0), 128, random_state=0).fit(X)
    return X, errors, features


@pytest.mark.parametrize("seed", range(3))
def test_noise_that_depends_on_the_row_is_found(seed):
    X, errors, features = sizes(2000, 0.8, seed)
    rows = ArraySource(X, errors, np.ones(2000))
    size, left_out = fit_error_size(rows, features, np.arange(2), 0, 2000, Budget())
    constant = np.mean(errors**2, axis=0)
    g = np.log(left_out())
    noise = fit_noise(errors, np.full(2000, 0.1), g, np.ones(2000), constant)
    new = np.random.default_rng(9).uniform(-1.5, 1.5, (500, 2))
    deviations = np.log(noise.noise(np.log(size(new)))[:, 0]) / 2
    assert np.corrcoef(deviations, new[:, 0])[0, 1] > 0.98
    assert abs(np.polyfit(new[:, 0], deviations, 1)[0] - 0.8) < 0.12


@pytest.mark.parametrize("seed", range(5))
def test_noise_that_is_constant_stays_so(seed):
    X, errors, features = sizes(1000, 0.0, seed)
    rows = ArraySource(X, errors, np.ones(1000))
    _, left_out = fit_error_size(rows, features, np.arange(2), 0, 1000, Budget())
    constant = noise_variance(errors, np.zeros(1000), np.ones(1000))
    noise = fit_noise(
        errors, np.full(1000, 1e-3), np.log(left_out()), np.ones(1000), constant
    )
    assert noise.slope == 0
    np.testing.assert_allclose(noise.noise(np.zeros((1, 1)))[0], constant)


@pytest.mark.parametrize("n", [60, 400])  # fewer and more rows than features
def test_sizes_of_errors_leave_each_row_out(n, monkeypatch):
    """Against regressions without the row, by dense algebra."""
    X, errors, features = sizes(n, 0.5, 0)
    monkeypatch.setattr(interval_calibration, "choose_alpha", lambda *rest: (0.3,))
    weight = np.random.default_rng(3).uniform(0.5, 2, n)
    size, left_out = fit_error_size(
        ArraySource(X, errors, weight), features, np.arange(2), 0, n, Budget()
    )
    Z = features.transform(X)
    roots = np.sqrt(np.abs(errors))
    expected = []
    for i in range(0, n, 7):
        others = np.where(np.arange(n) == i, 0.0, weight)
        centre = others @ Z / others.sum()
        coef = dense(Z, others, roots - others @ roots / others.sum(), 0.3)
        expected.append(others @ roots / others.sum() + (Z[i] - centre) @ coef)
    np.testing.assert_allclose(left_out()[::7], size.of_roots(expected), rtol=1e-6)


def test_equal_rows_have_one_number():
    rows = ArraySource(
        np.array([[1.0], [2.0], [1.0], [3.0], [2.0]]),
        np.zeros((5, 1)),
        np.array([1.0, 1, 1, 0, 1]),
    )
    np.testing.assert_array_equal(distinct_numbers(rows), [0, 1, 0, 0, 1])


def refits(Z, weight, targets, alpha, rows):
    """Errors of sets of rows by dense ridge regressions without them."""
    found = np.full(targets.shape, np.nan)
    for left in rows:
        w = weight.copy()
        w[left] = 0
        coef = dense(Z, w, targets, alpha)
        mean = w @ (targets - Z @ coef) / w.sum()
        found[left] = targets[left] - mean - Z[left] @ coef
    return found


@pytest.mark.parametrize("n_features", [50, 300], ids=["more rows", "more features"])
@pytest.mark.parametrize("copies", [False, True], ids=["measured again", "copied"])
def test_a_row_is_left_out_as_new_ones_come(n_features, copies):
    """Of rows of equal inputs the one alone, of copies all of them: against refits
    of the rows as they came.
    """
    rng = np.random.default_rng(1)
    rows = np.repeat(X[:40], 3, axis=0)
    y = (
        np.repeat(Y[:40], 3, axis=0)
        if copies
        else np.repeat(Y[:40], 3, axis=0) + rng.standard_normal((120, 2))
    )
    weight = rng.uniform(0.5, 2.0, 120)
    features = FourierFeatures(Gaussian(1.0), n_features, random_state=0).fit(rows)
    design = Design(ArraySource(rows, y, weight), features, np.float64)
    found = OutOfSample.of(design.source, 0)
    m = 40 if copies else 120
    assert len(found.targets) == m
    np.testing.assert_allclose(found.weight.sum(), weight.sum())
    left = left_out(design, factorise(design, 1), ALPHA, found, np.arange(m))
    groups = np.arange(120).reshape(m, -1)
    expected = refits(features.transform(rows), weight, y, ALPHA, groups)[groups[:, 0]]
    np.testing.assert_allclose(found.targets - left, expected, atol=1e-8)


def test_equal_rows_are_copies_unless_they_may_be_equal_by_chance():
    """Columns of few values, and targets of few values, come together again;
    continuous ones do not.
    """
    rng = np.random.default_rng(0)
    places, ratings = (
        rng.integers(0, 3, (400, 2)).astype(float),
        rng.integers(1, 6, (400, 1)).astype(float),
    )
    assert len(OutOfSample.of(ArraySource(places, ratings)).row) == 400
    numbers = rng.standard_normal((100, 1))
    twice = ArraySource(
        np.repeat(places[:100], 4, axis=0), np.repeat(numbers, 4, axis=0)
    )
    found = OutOfSample.of(twice)
    np.testing.assert_array_equal(found.weight, np.full(100, 4.0))
    np.testing.assert_array_equal(found.row, np.arange(0, 400, 4))
    np.testing.assert_array_equal(found.number, np.repeat(np.arange(100), 4))
    rated = ArraySource(
        np.repeat(numbers, 4, axis=0),
        np.repeat(ratings[:100], 4, axis=0),
        np.tile([1, 2, 0, 0.5], 100),
    )
    found = OutOfSample.of(rated)
    np.testing.assert_allclose(found.weight, np.full(100, 3.5))
    assert (found.number[2::4] == -1).all()


def test_sparse_columns_of_continuous_values_make_copies(monkeypatch):
    """As dense ones do; columns of few stored values are not looked at one by one."""
    rng = np.random.default_rng(0)
    words = np.where(
        rng.random((60, 5000)) < 0.01, rng.integers(1, 4, (60, 5000)), 0
    ).astype(float)
    numbers = np.c_[words, rng.standard_normal(60)]
    counts = Mock(wraps=np.unique)
    for inputs in (words, numbers):
        twice, y = (
            np.repeat(inputs, 2, axis=0),
            np.repeat(rng.integers(0, 3, (60, 1)), 2, axis=0).astype(float),
        )
        dense = OutOfSample.of(ArraySource(twice, y))
        with monkeypatch.context() as patch:
            patch.setattr(np, "unique", counts)
            found = OutOfSample.of(ArraySource(sp.csr_array(twice), y))
        np.testing.assert_array_equal(found.number, dense.number)
        assert len(found.row) == (120 if inputs is words else 60)
    assert counts.call_count < 10
