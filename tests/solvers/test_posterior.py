"""Bayesian linear regression on features, and the size of its noise, against dense
algebra and statistics.
"""

import numpy as np

from bochner.design.moments import Moments
from bochner.solvers.posterior_variance import (
    constant_noise,
    forms_without,
    forms_without_each,
    leave_one_out_errors,
    noise_variance,
    posterior_of,
)

rng = np.random.default_rng(0)
Z, NEW, Y = (
    rng.standard_normal((80, 6)) + 1,
    rng.standard_normal((20, 6)),
    rng.standard_normal((80, 2)),
)
WEIGHT, ALPHA = rng.uniform(0.5, 3, 80), 2.5


def moments_of(Z, y, weight):
    moments = Moments(Z.shape[1], y.shape[1], np.float64)
    A = moments.workspace(len(Z))
    A[:, : Z.shape[1]] = Z
    moments.add_block(A, y, weight)
    return moments


def dense_forms(Z, weight, alpha, new):
    """Variances over that of the noise, by the precision matrix of intercept and
    weights.
    """
    A, B = (np.column_stack([np.ones(len(rows)), rows]) for rows in (Z, new))
    precision = A.T * weight @ A + np.diag([0.0] + [alpha] * Z.shape[1])
    return np.einsum("ij,ij->i", B @ np.linalg.inv(precision), B)


def test_forms_equal_dense_bayesian_regression():
    forms = posterior_of(moments_of(Z, Y, WEIGHT), ALPHA).forms(NEW)
    np.testing.assert_allclose(forms, dense_forms(Z, WEIGHT, ALPHA, NEW), rtol=1e-11)


def test_left_out_rows_equal_refits():
    moments, fold = moments_of(Z, Y, WEIGHT), np.arange(80) % 3
    posterior = posterior_of(moments, ALPHA)
    errors, forms = leave_one_out_errors(posterior, moments, Z, Y, WEIGHT)
    kept = np.arange(80) != 7
    A = np.column_stack([np.ones(80), Z])
    precision = A[kept].T * WEIGHT[kept] @ A[kept] + np.diag([0.0] + [ALPHA] * 6)
    coef = np.linalg.solve(precision, A[kept].T * WEIGHT[kept] @ Y[kept])
    np.testing.assert_allclose(errors[7], Y[7] - A[7] @ coef, rtol=1e-10)
    np.testing.assert_allclose(
        forms[7], dense_forms(Z[kept], WEIGHT[kept], ALPHA, Z[7:8])[0], rtol=1e-10
    )
    np.testing.assert_array_equal(forms, forms_without_each(posterior, Z, WEIGHT))
    together = forms_without(moments, ALPHA, Z, WEIGHT, fold)
    own = fold == 1
    np.testing.assert_allclose(
        together[own], dense_forms(Z[~own], WEIGHT[~own], ALPHA, Z[own]), rtol=1e-10
    )


def test_weights_of_the_posterior_have_its_covariance():
    posterior = posterior_of(moments_of(Z, Y, WEIGHT), ALPHA)
    root = posterior.spread(np.eye(6))
    U = Z - np.average(Z, axis=0, weights=WEIGHT)
    np.testing.assert_allclose(
        root @ root.T, np.linalg.inv(U.T * WEIGHT @ U + ALPHA * np.eye(6)), rtol=1e-10
    )


def test_noise_variance_is_unbiased():
    """Over 200 draws of weights and noise from the model, by z-score."""
    found, draws = [], np.random.default_rng(1)
    moments = moments_of(Z, Y, np.ones(80))
    posterior = posterior_of(moments, ALPHA)
    for _ in range(200):
        y = Z @ draws.standard_normal((6, 1)) * np.sqrt(0.3 / ALPHA) + np.sqrt(
            0.3
        ) * draws.standard_normal((80, 1))
        errors, forms = leave_one_out_errors(
            posterior, moments_of(Z, y, np.ones(80)), Z, y, np.ones(80)
        )
        found.append(noise_variance(errors, forms, np.ones(80))[0])
    assert abs(np.mean(found) - 0.3) < 5 * np.std(found) / np.sqrt(200)


def test_function_returns_to_the_prior_beyond_the_rows_that_judge():
    noise = constant_noise(np.array([2.0]))._replace(signal=np.array([0.5]), reach=3.0)
    np.testing.assert_allclose(
        noise.function(np.array([1.0, 3.0, 1003.0]))[:, 0], [0.5, 1.5, 2001.5]
    )
