"""Bayesian linear regression on features, by their moments.

With noise of variance s2 on the targets, weights u of independent prior variance s2 /
alpha and a flat prior on the intercept, the mean is ridge regression, and the
function's variance at a row of features z is s2 times

    h(z) = 1 / W + u'(G + alpha I)^-1 u,    u = z - mean,

G the centred moments and W the sum of the weights. A training row of weight w that is
left out has h / (1 - w h).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from bochner.arrays import Floats
from bochner.design.moments import Moments
from bochner.engines.algebra import product, shifted_cholesky, solve_lower
from bochner.engines.local import require_memory

ROUNDING = 1e-13  # of the trace of the moments
LEAST_LEFT = 1e-9  # of 1 - w h


@dataclass(frozen=True)
class LinearPosterior:
    """What the rows tell of the weights.

    Attributes
    ----------
    mean : array of shape (D,)
        Of the features.
    root : array of shape (D, D)
        Inverse of the lower Cholesky factor of G + alpha I.
    weight : float
        Sum of the rows' weights.
    """

    mean: Floats
    root: Floats
    weight: float

    def forms(self, Z: NDArray, total: NDArray | float = 1.0) -> Floats:
        """h(z) of each row of features, shape (n,): the variance of the function over
        that of the noise.

        Of sums of rows with factors, and of the function's values, `total` is the sum
        of the factors, shape (n,).
        """
        half = product(Z - np.multiply.outer(total, self.mean), self.root.T)
        return np.square(total) / self.weight + np.einsum("ij,ij->i", half, half)

    def covariances(self, Z: NDArray, n_outputs: int) -> Floats:
        """Covariances of the function at n rows of features over the variance of the
        noise, shape (n, n); MemoryError where those of all outputs do not fit.
        """
        n_rows = len(Z)
        require_memory(
            8 * n_rows**2 * (n_outputs + 3),
            f"The covariance matrix of {n_rows:,} rows",
            "Use fewer rows, or sample_y.",
        )
        half = product(Z - self.mean, self.root.T)
        return 1 / self.weight + product(half, half.T)

    def spread(self, normal: NDArray) -> Floats:
        """Deviations of the weights over that of the noise, of shape (D, S), from
        standard normal numbers.
        """
        return product(self.root.T, normal)


def posterior_of(moments: Moments, alpha: float) -> LinearPosterior:
    """The posterior for a ridge penalty."""
    centred = moments.centred()
    rounding = ROUNDING * (float(np.trace(centred.gram)) or 1.0)
    lower = shifted_cholesky(centred.gram, alpha, rounding)
    return LinearPosterior(
        centred.feature_mean, solve_lower(lower, np.eye(len(lower))), moments.weight
    )


def leave_one_out_errors(
    posterior: LinearPosterior,
    moments: Moments,
    Z: NDArray,
    y: NDArray,
    weight: NDArray,
) -> tuple[Floats, Floats]:
    """Errors of training rows by the model that is left without each, (n, K), and h
    of that model, (n,).
    """
    centred = moments.centred()
    coef = product(posterior.root.T, product(posterior.root, centred.cross))
    errors = y - centred.target_mean - product(Z - posterior.mean, coef)
    h = posterior.forms(Z)
    residual_share = np.maximum(1 - weight * h, LEAST_LEFT)
    return errors / residual_share[:, np.newaxis], h / residual_share


def forms_without_each(
    posterior: LinearPosterior, Z: NDArray, weight: NDArray
) -> Floats:
    """Forms h of training rows by the model that is left without each, shape (n,)."""
    h = posterior.forms(Z)
    return h / np.maximum(1 - weight * h, LEAST_LEFT)


def forms_without(
    moments: Moments, alpha: float, Z: NDArray, weight: NDArray, fold: NDArray[np.intp]
) -> Floats:
    """Forms h of training rows by the model that is left without all rows of the same
    fold, shape (n,).

    Parameters
    ----------
    moments : Moments
        Of all rows.
    Z : array of shape (n, D)
    weight : array of shape (n,)
    fold : int array of shape (n,)
    """
    D = moments.n_features
    K = moments.n_outputs
    forms = np.empty(len(Z))
    for k in np.unique(fold):
        fold_rows = np.flatnonzero(fold == k)
        part = Moments(D, K, np.float64, shared=True)
        A = part.workspace(len(fold_rows))
        A[:, :D] = Z[fold_rows]
        part.add_block(
            A, np.zeros((len(fold_rows), K)), weight[fold_rows]
        )  # the variance asks for no targets
        forms[fold_rows] = posterior_of(moments - part, alpha).forms(Z[fold_rows])
    return forms


def noise_variance(errors: NDArray, forms: NDArray, weight: NDArray) -> Floats:
    """Most likely variance of the noise, shape (K,), where errors of rows left out have
    the variance s2 (1 + h).

    Of leave-one-out errors R this is the mean of R^2 (1 - h), h the leverage.

    Parameters
    ----------
    errors : array of shape (n, K)
    forms : array of shape (n,)
        h of each row.
    weight : array of shape (n,)
    """
    return (weight / weight.sum() / (1 + forms)) @ np.square(errors)


# Mean and deviation of its prior; that of log signal has deviation 1 about the constant
# noise
SLOPE = 1.0, 0.5
# Of level, slope and log signal; constant noise has level 0
BOUNDS = [(-10.0, 10.0), (0.0, 2.0), (-3.0, 3.0)]
REACH = 0.99  # quantile of h of the rows left out
# Logarithm of the likelihood by which a scale must beat constant noise: 28 draws of it
# gained up to 5.9
GAIN = 6.0
SMALLEST = 1e-30  # variance


class Noise(NamedTuple):
    """Parameters of the variances, shape (K,) each.

    Attributes
    ----------
    level, slope : arrays of shape (K,)
        Where the slope is 0 noise is constant.
    signal : array of shape (K,)
        Variance of the function for each unit of h, up to `reach`.
    constant : array of shape (K,)
        Variance of the function for each unit of h beyond `reach`, the most likely
        variance of constant noise: so the function returns to the prior far away, of
        which rows left out tell nothing.
    reach : float
    """

    level: Floats
    slope: Floats
    signal: Floats
    constant: Floats
    reach: float = np.inf

    def noise(self, g: NDArray) -> Floats:
        """Variances of the noise, shape (n, K)."""
        return np.exp(2 * (self.level + self.slope * g))

    def function(self, forms: NDArray) -> Floats:
        """Variances of the function, shape (n, K)."""
        near = np.minimum(forms, self.reach)[:, np.newaxis]
        return self.signal * near + self.constant * (forms[:, np.newaxis] - near)


def constant_noise(variance: NDArray) -> Noise:
    """Noise that is the same everywhere."""
    variance = np.maximum(variance, SMALLEST)
    return Noise(np.log(variance) / 2, np.zeros_like(variance), variance, variance)


def fit_noise(
    errors: NDArray, forms: NDArray, g: NDArray, weight: NDArray, constant: NDArray
) -> Noise:
    """Fit the parameters to errors of rows left out.

    Parameters
    ----------
    errors, g : arrays of shape (n, K)
        Errors, and logarithms of their sizes by regressions that have not seen the
        rows.
    forms : array of shape (n,)
        h of the rows.
    weight : array of shape (n,)
    constant : array of shape (K,)
        Most likely variance of constant noise.
    """
    weight = weight * (np.count_nonzero(weight) / weight.sum())
    level, slope, constant, _, _ = constant_noise(constant)
    signal = constant.copy()
    for k, variance in enumerate(constant.tolist()):
        parameters = _fit_one(errors[:, k], forms, g[:, k], weight, variance)
        if parameters is not None:
            level[k], slope[k], signal[k] = parameters
    return Noise(level, slope, signal, constant, float(np.quantile(forms, REACH)))


def _fit_one(
    errors: NDArray, forms: NDArray, g: NDArray, weight: NDArray, constant: float
) -> tuple[float, float, float] | None:
    """Level, slope and signal of one target; None where constant noise is about as
    likely.
    """
    squares = np.square(errors) / constant
    centre = float(weight @ g / weight.sum())
    shifted = g - centre

    def loss(p: NDArray) -> tuple[float, NDArray]:
        noise = np.exp(2 * (p[0] + p[1] * shifted))
        signal = np.exp(p[2]) * forms
        total = noise + signal
        by_total = weight * (1 - squares / total) / total / 2
        prior = ((p[1] - SLOPE[0]) ** 2 / SLOPE[1] ** 2 + p[2] ** 2) / 2
        value = weight @ (np.log(total) + squares / total) / 2 + prior
        by_level = 2 * by_total * noise
        gradient = [
            by_level.sum(),
            by_level @ shifted + (p[1] - SLOPE[0]) / SLOPE[1] ** 2,
            by_total @ signal + p[2],
        ]
        return float(value), np.array(gradient)

    flat, sloped = (
        minimize(
            loss,
            [0.0, slope[1], 0.0],
            jac=True,
            method="L-BFGS-B",
            bounds=[BOUNDS[0], slope, BOUNDS[2]],
        )
        for slope in ((0.0, 0.0), BOUNDS[1])
    )
    if not flat.fun - sloped.fun > GAIN:
        return None
    level, slope, signal = sloped.x.tolist()
    return (
        level - slope * centre + float(np.log(constant)) / 2,
        slope,
        float(np.exp(signal)) * constant,
    )
