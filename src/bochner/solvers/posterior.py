"""Bayesian linear regression on features, by their moments.

With noise of variance s2 on the targets, weights u of independent prior variance s2 / alpha and a flat prior on the
intercept, the mean is ridge regression, and the function's variance at a row of features z is s2 times

    h(z) = 1 / W + u'(G + alpha I)^-1 u,    u = z - mean,

G the centred moments and W the sum of the weights. A training row of weight w that is left out has h / (1 - w h).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.engines.algebra import product, shifted_cholesky, solve_lower
from bochner.moments import Moments

ROUNDING = 1e-13  # of the trace of the moments
LEAST_LEFT = 1e-9  # of 1 - w h


class LinearPosterior(NamedTuple):
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

    mean: NDArray[np.float64]
    root: NDArray[np.float64]
    weight: float

    def forms(self, Z: NDArray) -> NDArray[np.float64]:
        """h(z) of each row of features, shape (n,): the variance of the function over that of the noise."""
        half = product(Z - self.mean, self.root.T)
        return 1 / self.weight + np.einsum("ij,ij->i", half, half)

    def spread(self, normal: NDArray) -> NDArray[np.float64]:
        """Deviations of the weights over that of the noise, of shape (D, S), from standard normal numbers."""
        return product(self.root.T, normal)


def posterior_of(moments: Moments, alpha: float) -> LinearPosterior:
    """The posterior for a ridge term."""
    centred = moments.centred()
    rounding = ROUNDING * (float(np.trace(centred.gram)) or 1.0)
    lower = shifted_cholesky(centred.gram, alpha, rounding)
    return LinearPosterior(centred.feature_mean, solve_lower(lower, np.eye(len(lower))), moments.weight)


def leave_one_out_errors(
    posterior: LinearPosterior, moments: Moments, Z: NDArray, y: NDArray, weight: NDArray
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Errors of training rows by the model that is left without each, (n, K), and h of that model, (n,)."""
    centred = moments.centred()
    coef = product(posterior.root.T, product(posterior.root, centred.cross))
    errors = y - centred.target_mean - product(Z - posterior.mean, coef)
    h = posterior.forms(Z)
    left = np.maximum(1 - weight * h, LEAST_LEFT)
    return errors / left[:, np.newaxis], h / left


def forms_without_each(posterior: LinearPosterior, Z: NDArray, weight: NDArray) -> NDArray[np.float64]:
    """Forms h of training rows by the model that is left without each, shape (n,)."""
    h = posterior.forms(Z)
    return h / np.maximum(1 - weight * h, LEAST_LEFT)


def forms_without(
    moments: Moments, alpha: float, Z: NDArray, weight: NDArray, fold: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Forms h of training rows by the model that is left without all rows of the same fold, shape (n,).

    Parameters
    ----------
    moments : Moments
        Of all rows.
    Z : array of shape (n, D)
    weight : array of shape (n,)
    fold : int array of shape (n,)
    """
    D, K, forms = moments.n_features, moments.n_outputs, np.empty(len(Z))
    for k in np.unique(fold):
        own = np.flatnonzero(fold == k)
        part = Moments(D, K, np.float64, shared=True)
        A = part.workspace(len(own))
        A[:, :D] = Z[own]
        part.add_block(A, np.zeros((len(own), K)), weight[own])  # the variance asks for no targets
        forms[own] = posterior_of(moments - part, alpha).forms(Z[own])
    return forms


def noise_variance(errors: NDArray, forms: NDArray, weight: NDArray) -> NDArray[np.float64]:
    """Most likely variance of the noise, shape (K,), where errors of rows left out have the variance s2 (1 + h).

    Of leave-one-out errors R this is the mean of R^2 (1 - h), h the leverage.

    Parameters
    ----------
    errors : array of shape (n, K)
    forms : array of shape (n,)
        h of each row.
    weight : array of shape (n,)
    """
    return (weight / weight.sum() / (1 + forms)) @ np.square(errors)
