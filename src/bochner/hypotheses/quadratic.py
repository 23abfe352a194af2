"""Tails of weighted sums of chi-squared variables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NODES = 192
NEGLIGIBLE = 1e-13  # of the variance: the least weights count by their mean
UNDERFLOW = -45.0  # of the logarithm of the integrand beside its peak


def weighted_chi2_sf(x: float, weights: NDArray) -> float:
    """P(sum_i w_i c_i > x) of independent chi-squared c_i with one degree of freedom, by inversion.

    With K(s) = -1/2 sum log(1 - 2 s w_i), and a path that crosses the real axis at c in (0, 1 / (2 max w)),

        P = 1 / (2 pi i) int exp(K(s) - s x) ds / s,

    and c < 0 gives P - 1. Imhof (1961) takes the imaginary axis, on which the integrand waves and falls slowly. Here
    the path is a parabola s = c + i t + a t^2 through the saddle point, K'(c) = x, with a third of K'''(c) / (2 K''(c))
    as its a: along it the integrand has almost one phase and falls as a bell does, so that its sum over equal steps of
    t converges faster than any power of their number (Rice, 1980). The relative error is about 1e-10, far out as well.

    Parameters
    ----------
    x : float
    weights : array of shape (r,)
        Not negative.

    References
    ----------
    Imhof, "Computing the Distribution of Quadratic Forms in Normal Variables", Biometrika 1961. Rice, "Distribution of
    Quadratic Forms in Normal Random Variables - Evaluation by Numerical Integration", SIAM Journal on Scientific and
    Statistical Computing 1980.
    """
    w = np.sort(np.asarray(weights, np.float64))
    total = w.sum()
    if not total > 0:
        return 1.0
    w, x = w / total, x / total
    kept = np.cumsum(w**2) > NEGLIGIBLE * np.sum(w**2)
    w, x = w[kept], x - float(w[~kept].sum())
    if x <= 0:
        return 1.0
    c = _crossing(x, w)
    found = _integral(x, w, c)
    return float(np.clip(found if c > 0 else 1 + found, 0.0, 1.0))


def _integral(x: float, w: NDArray, c: float) -> float:
    """The integral over the parabola, by symmetry twice that over t > 0."""
    ratios = w / (1 - 2 * c * w)
    curvature = 2 * np.sum(ratios**2)
    a = 8 * np.sum(ratios**3) / (6 * curvature)
    peak = _exponent(np.array([c]), x, w)[0]

    def heights(t: NDArray) -> NDArray:
        return _exponent(c + 1j * t + a * t * t, x, w) - peak

    end = 2 / np.sqrt(curvature)
    while heights(np.array([end])).real[0] > UNDERFLOW:
        end *= 1.25
    t = end / NODES * np.arange(NODES + 1)
    values = (np.exp(heights(t)) * (1j + 2 * a * t) / (c + 1j * t + a * t * t)).imag
    return float(np.exp(peak) * (values.sum() - values[0] / 2) * end / (NODES * np.pi))


def _exponent(s: NDArray, x: float, w: NDArray) -> NDArray:
    """K(s) - s x, shape (T,)."""
    return -0.5 * np.log(1 - 2 * s[:, np.newaxis] * w).sum(axis=1) - s * x


def _crossing(x: float, w: NDArray) -> float:
    """The saddle point, at a distance from the pole at zero."""
    c, apart = _saddle(x, w), min(0.5 / np.sqrt(2 * np.sum(w**2)), 0.25 / w.max())
    return max(c, apart) if c > 0 else min(c, -apart)


def _saddle(x: float, w: NDArray) -> float:
    """The s below 1 / (2 max w) with sum w / (1 - 2 s w) = x."""
    from scipy.optimize import brentq

    end = 0.5 / w.max()
    low = -0.5 * len(w) / x - end  # where the sum is below x, since each term is below 1 / (2 |s|)
    high = end - 0.25 / x  # where it is above, by the term of the largest weight alone
    return float(brentq(lambda s: np.sum(w / (1 - 2 * s * w)) - x, low, high, xtol=1e-14 * end, maxiter=500))
