"""Numerical Fourier transforms of functions of a distance: step 1 of Algorithm 1.

A function k of the distance is a kernel of d features where it is a mixture of mean
waves, k(r) = E Omega_d(w r) over a distribution of lengths w >= 0 (Bochner; Schoenberg,
1938). Omega_d(t), the mean of cos(<t e, x>) over the directions x for any one e, is
Gamma(d/2) (2 / t)^(d/2 - 1) J_(d/2 - 1)(t), and cos t for d = 1. This module finds the
distribution.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear
from scipy.special import gammaln, jv, loggamma
from threadpoolctl import threadpool_limits

from bochner.kernels.hats import OCTAVES, Function, decay_range
from bochner.kernels.spectral_measures import Separable

# Features up to which the transform is inverted; beyond, rounding would be multiplied
# too much
TRANSFORMED = 10
NODES = 2**17  # of the transform
FADE_WIDTH = 6.0  # width in log r over which the function is faded out at either end
FUNCTION_ERROR = 1e-14  # relative error expected of the values of a function
# Error of a characteristic function that FUNCTION_ERROR may cause
TOLERATED_ERROR = 1e-6
# Spread of the blur in nodes: exp(-(2 pi)^2 / 2) = 3e-9 is left of the highest
# frequency
LEAST_BLUR = 2.0
# Sum of negative probabilities from which a function is no kernel; kernels have up to
# 1e-7
NEGATIVE_MASS = 1e-4
TRIMMED_TAIL = 1e-8  # probability cut off at either end, where rounding rules

CELLS = 320  # of a mixture
ROUNDS = 30  # of the fit, of which kernels need some 10
RIDGE = 1e-5  # weight of its probabilities, which alone would be near to dependent
# Error of a mixture from which a function is no kernel; those of kernels are up to 2e-4
LARGEST_MISFIT = 1e-3
# T^2 / (2 d) up to which a mean wave is summed, in TERMS, to exp(16) eps = 1e-9; beyond
# it is < 1e-3
SERIES = 16.0
TERMS = 100

SMALL_DROP = 1e-4  # 1 - k at which second differences at 0 start
ROUNDING_CHANGE = 1e-6  # relative change of a second difference that is rounding


@dataclass(frozen=True)
class Lengths:
    """Distribution of the length of isotropic frequencies in some dimension.

    Parameters
    ----------
    quantile : callable array -> array of the same shape
        Inverse of the distribution function of the length.
    second_moment : float
        Variance of a coordinate, the mean of length^2 / d; may be infinite.
    """

    quantile: Function
    second_moment: float


def cosine_law(function: Function) -> Separable:
    """Distribution of one coordinate of the frequencies of a product over the features
    of function(|x - y|).

    It is symmetric about 0, and its absolute value is the length of `hankel_law` for
    one feature.

    Parameters
    ----------
    function : callable array -> array
        Of distances t >= 0, 1 at 0; hashable.

    Raises
    ------
    ValueError
        If the function does not fall to 0, jumps at 0, or its transform is negative:
        where, and by how much.
    """
    law = hankel_law(function, 1)
    return Separable(
        lambda u: np.sign(u - 0.5) * law.quantile(np.abs(2 * u - 1)), law.second_moment
    )


def hankel_law(function: Function, n_features: int) -> Lengths:
    """Distribution of the lengths of the frequencies of function(||x - y||) of
    `n_features` features.

    Up to 10 features the transform is inverted (`_invert`), to 1e-4 of k at any
    distance where k is smooth. Beyond, the inverse multiplies rounding beyond use but
    mixtures of waves are easily fitted (`_fit`); a kernel of more features is one of
    10, so that the transform still tells what is none. A function that oscillates up to
    distances of some 1000 scales, where the nodes do not resolve it, and has not fallen
    to about 1e-3 there (for one feature; to less for more) may be taken for none.

    Parameters
    ----------
    function : callable array -> array
        Of distances r >= 0, 1 at 0; hashable.
    n_features : int

    Raises
    ------
    ValueError
        If the function does not fall to 0, jumps at 0, or is no kernel of `n_features`
        columns: where its transform is negative, and by how much, or by how much all
        mixtures of waves miss it.
    """
    return _law(function, n_features, function(2.0**OCTAVES).tobytes())


@lru_cache(maxsize=64)
def _law(function: Function, d: int, values: bytes) -> Lengths:
    """The distribution by a function that may be the method of an object that
    changes, hence by its values too.
    """
    k = np.frombuffer(values)
    first, last = decay_range(k, "No kernel")
    scale = 2.0 ** OCTAVES[np.argmax(k < np.exp(-0.5))]
    ends = float(OCTAVES[first] * np.log(2)), float(OCTAVES[last] * np.log(2))
    log_lengths, masses = _invert(function, min(d, TRANSFORMED), *ends, scale)
    negative = np.cumsum(np.minimum(masses, 0))
    if negative[-1] < -NEGATIVE_MASS:
        start, end = np.exp(
            log_lengths[np.searchsorted(negative / negative[-1], [1e-3, 1 - 1e-3])]
        )
        features = (
            f"{d} feature{'s' * (d > 1)}"
            if d <= TRANSFORMED
            else f"{TRANSFORMED} features, let alone {d}"
        )
        cure = "Use another function"
        if d > 1:
            cure = (
                "Use fewer features or another function, or, if it is convex, "
                "Coordinatewise and BinningFeatures"
            )
        raise ValueError(
            f"function is not a kernel of {features}: its transform is negative "
            f"between the frequencies {start:.3g} and {end:.3g}, where probabilities "
            f"sum to {negative[-1]:.3g}. {cure}."
        )
    if d > TRANSFORMED:
        log_lengths, masses = _fit(function, d, *ends)
    # Inverse of the distribution function, log-linear in the cells
    h = log_lengths[1] - log_lengths[0]
    shares = np.append(0, np.maximum.accumulate(np.maximum(np.cumsum(masses), 0)))
    shares = np.clip(
        (shares / shares[-1] - TRIMMED_TAIL) / (1 - 2 * TRIMMED_TAIL), 0, 1
    )
    edges = log_lengths[0] + h * (np.arange(len(shares)) - 0.5)
    within = slice(np.flatnonzero(shares == 0)[-1], np.argmax(shares == 1) + 1)
    shares = shares[within]
    edges = edges[within]
    # -k''(0) as the limit of 2 (1 - k(r)) / r^2, by Aitken's rule; infinite where
    # changes do not shrink
    r = 2.0 ** OCTAVES[np.argmax(np.abs(1 - k) > SMALL_DROP) - 1] / np.array(
        [1.0, 2.0, 4.0]
    )
    ratio = 2 * (1 - function(r)) / r / r
    before, after = np.diff(ratio)
    curvature = np.inf
    if abs(after) <= ROUNDING_CHANGE * abs(ratio[2]):
        curvature = float(ratio[2])
    elif abs(after) < 0.9 * abs(before):
        curvature = float(ratio[2] + after**2 / (before - after))
    return Lengths(lambda u: np.exp(np.interp(u, shares, edges)), curvature)


def _invert(
    function: Function,
    d: int,
    low: float,
    high: float,
    scale: float,
) -> tuple[NDArray, NDArray]:
    """Probabilities of cells of the log length, from the characteristic function of log
    w.

    The Mellin transform turns the mixture k(r) = E Omega_d(w r) into a product, which
    at imaginary arguments reads

        integral of k(e^x) e^(i x tau) dx = E[w^(-i tau)] M(tau),
        M(tau) = 2^(i tau - 1) Gamma(d/2) Gamma(i tau / 2) / Gamma((d - i tau) / 2).

    From k a Gaussian of like scale s is subtracted, whose w has E[w^(-i tau)] = (s^2 /
    2)^(i tau / 2) Gamma((d - i tau) / 2) / Gamma(d/2), so that the difference vanishes
    at both ends and two fast Fourier transforms do the rest (FFTLog: Hamilton, 2000). 1
    / M grows like |tau|^(d/2). It is stopped by exp(-sigma^2 tau^2 / 2), which
    multiplies w by an independent exp(sigma z), z normal, and thus makes nothing
    negative: k moves by sigma^2 / 2 (r d/dr)^2 k, and at a kink by 0.4 sigma times the
    change of slope. The least sigma that makes at most TOLERATED_ERROR of
    FUNCTION_ERROR is 0.010 for d = 10, and for few features that of two nodes, some
    0.0006.
    """
    low = low - FADE_WIDTH
    high = high + FADE_WIDTH + np.log(1 / TRIMMED_TAIL) / d
    h = (high - low) / NODES
    x = low + h * np.arange(NODES)
    fade = (
        np.sin(np.pi / 2 * np.clip(np.minimum(x - low, high - x) / FADE_WIDTH, 0, 1))
        ** 2
    )
    difference = function(np.exp(x)) - np.exp(
        -(np.minimum(np.exp(x) / scale, 40) ** 2) / 2
    )
    tau = 2 * np.pi / (high - low) * np.arange(1, NODES // 2 + 1)
    transform = (
        h
        * np.exp(1j * tau * low)
        * np.fft.rfft(difference * np.sin(np.pi / 2 * fade) ** 2)[1:].conj()
    )
    gaussian = loggamma((d - 1j * tau) / 2) - gammaln(d / 2)
    inverse = gaussian - loggamma(1j * tau / 2) + (1 - 1j * tau) * np.log(2)
    excess = np.maximum(inverse.real - np.log(TOLERATED_ERROR / FUNCTION_ERROR), 0)
    sigma = max(np.sqrt(np.max(2 * excess / tau**2)), LEAST_BLUR * h)
    law = (
        np.exp(gaussian + 1j * tau * np.log(scale / np.sqrt(2)))
        + np.exp(inverse) * transform
    )
    law *= np.exp(-((sigma * tau) ** 2) / 2 - 1j * tau * high)
    return x - low - high, np.fft.irfft(np.append(1, law), NODES)


def _fit(
    function: Function, d: int, low: float, high: float
) -> tuple[NDArray, NDArray]:
    """Probabilities of cells of the log length that mix waves to the function, the
    nearest in least squares.

    Omega_d decays by exp(-t^2 / (2 d)), nearly: the mixture hardly depends on more of
    the distribution than is fitted.
    """
    h = (high - low + 4) / CELLS
    x = low - 1 + h * np.arange(CELLS)
    y = np.log(d) / 2 - x[::-1]
    within = np.arange(-2, 3) / 5
    waves = mean_wave(
        d, np.exp(x[0] + y[0] + h * (np.arange(2 * CELLS - 1)[:, None] + within))
    ).mean(axis=1)
    A = waves[np.arange(CELLS)[:, None] + np.arange(CELLS)]
    k = function(np.exp(x))
    rows = np.vstack([A, RIDGE * np.eye(CELLS)])
    with threadpool_limits(1, "blas"):  # many small systems
        masses = lsq_linear(
            rows,
            np.append(k, np.zeros(CELLS)),
            (0, np.inf),
            method="bvls",
            max_iter=ROUNDS,
        ).x
    error = np.abs(A @ masses - k)
    if error.max() > LARGEST_MISFIT:
        raise ValueError(
            f"function is not a kernel of {d} features: all mixtures of their waves "
            f"miss it, the nearest by {error.max():.3g} at distance "
            f"{np.exp(x[error.argmax()]):.3g}. Use fewer features or another function."
        )
    return y, masses


def mean_wave(d: int, t: NDArray) -> NDArray:
    """Omega_d(t), by its series sum_j (-t^2 / 4)^j / (j! (d/2)_j) near 0 and by
    Bessel's function beyond.
    """
    near = np.minimum(t, np.sqrt(2 * d * SERIES))
    series = np.ones(t.shape)
    for j in range(TERMS, 0, -1):
        series = 1 - series * near**2 / (4 * j * (d / 2 + j - 1))
    logarithm = gammaln(d / 2) + (d / 2 - 1) * np.log(2 / np.maximum(t, near.max()))
    return np.where(
        t > near, jv(d / 2 - 1, t) * np.exp(np.minimum(logarithm, 700)), series
    )
