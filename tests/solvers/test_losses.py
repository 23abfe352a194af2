"""Losses: their derivatives are those of their values, and their minima those of
other libraries.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from scipy.special import expit, softmax
from sklearn.metrics import log_loss, mean_pinball_loss, mean_poisson_deviance

from bochner.solvers.losses import (
    Huber,
    Logistic,
    Multinomial,
    Poisson,
    Quantile,
    SquaredHinge,
    logistic,
    softplus,
)

LOSSES = [
    Logistic(),
    Multinomial(),
    SquaredHinge(),
    Huber(0.7),
    Quantile(0.2, 0.3),
    Poisson(),
]


def rows(loss, K=3, n=40):
    """Targets as the loss takes them, and fitted values that are on none of its
    kinks.
    """
    rng = np.random.default_rng(0)
    F = rng.standard_normal((K, n))
    if isinstance(loss, Poisson):
        return rng.poisson(2.0, (K, n)).astype(float), F
    if isinstance(loss, Multinomial):
        return 2.0 * (rng.integers(K, size=n) == np.arange(K)[:, np.newaxis]) - 1, F
    if isinstance(loss, Logistic | SquaredHinge):
        return rng.uniform(-1, 1, (K, n)), F
    return rng.standard_normal((K, n)), F


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_gradient(loss):
    """By central differences."""
    Y, F = rows(loss)
    step, numeric = 1e-5, np.empty_like(F)
    for k in range(len(F)):
        shift = step * (np.arange(len(F)) == k)[:, np.newaxis]
        numeric[k] = (loss.value(Y, F + shift) - loss.value(Y, F - shift)) / (2 * step)
    np.testing.assert_allclose(loss.derivatives(Y, F)[0], numeric, rtol=0, atol=1e-7)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_curvature(loss):
    """By differences of the gradient, along any direction and along each output by
    itself.
    """
    Y, F = rows(loss)
    C, step = loss.derivatives(Y, F)[1], 1e-6
    T = np.random.default_rng(1).standard_normal(F.shape)
    above, below = (loss.derivatives(Y, F + way * T)[0] for way in (step, -step))
    numeric = (above - below) / (2 * step)
    np.testing.assert_allclose(loss.bend(C, T), numeric, rtol=0, atol=1e-6)
    unit = np.zeros_like(F)
    unit[1] = 1
    np.testing.assert_allclose(
        loss.diagonal(C)[1], loss.bend(C, unit)[1], rtol=1e-12, atol=1e-12
    )
    assert (loss.diagonal(C) >= 0).all()


def test_values():
    """Those of scikit-learn's metrics."""
    Y, F = rows(Multinomial())
    value = Multinomial().value(Y, F).mean()
    assert value == pytest.approx(
        log_loss(Y.argmax(axis=0), softmax(F, axis=0).T, labels=[0, 1, 2]), rel=1e-12
    )
    Y, F = rows(Poisson(), K=1)
    assert Poisson().value(Y, F).mean() == pytest.approx(
        mean_poisson_deviance(Y[0], np.exp(F[0])) / 2, rel=1e-12
    )
    Y, F = rows(Quantile(0.2, 1e-6), K=1)
    assert Quantile(0.2, 1e-6).value(Y, F).mean() == pytest.approx(
        mean_pinball_loss(Y[0], F[0], alpha=0.2), abs=1e-6
    )


def test_mean_targets():
    """Two equal rows of different classes are one of a target between, of twice the
    weight.
    """
    F = np.array([[0.3]])
    for loss in (Logistic(), SquaredHinge()):
        both = loss.value(np.array([[1.0]]), F) + loss.value(np.array([[-1.0]]), F)
        np.testing.assert_allclose(
            2 * loss.value(np.array([[0.0]]), F), both, rtol=1e-12
        )


def test_scores_of_mean_targets():
    """Where the loss of rows of a mean target is least, by SciPy."""
    for loss, y in (
        (Logistic(), np.array([-0.4])),
        (SquaredHinge(), np.array([0.3])),
        (Logistic(), np.array([0.9])),
    ):
        found = minimize_scalar(
            lambda f, loss=loss, y=y: loss.value(y[:, np.newaxis], np.array([[f]]))[0]
        )
        np.testing.assert_allclose(loss.scores_of(y), found.x, rtol=0, atol=1e-6)
    shares = np.array([0.2, 0.5, 0.3])
    np.testing.assert_allclose(
        softmax(Multinomial().scores_of(2 * shares - 1)), shares, rtol=1e-12
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logarithms_and_shares_of_any_score(dtype):
    scores = np.array([-np.inf, -800, -90, -20, -1e-9, 0, 3, 90, 800, np.inf], dtype)
    with np.errstate(all="raise", under="ignore"):
        logarithms = softplus(scores)
        shares = logistic(scores)
    assert logarithms.dtype == shares.dtype == dtype
    digits = 4 * np.finfo(dtype).eps
    tiny = np.finfo(dtype).tiny
    assert_allclose(logarithms, np.logaddexp(0, scores), rtol=digits, atol=tiny)
    assert_allclose(shares, expit(scores), rtol=20 * digits, atol=tiny)
