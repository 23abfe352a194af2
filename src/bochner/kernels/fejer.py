"""Fejer's law, the spectral measure of the hat kernel, by its quantiles."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import sici

from bochner.kernels.measures import TINY

EXPANDED_FREQUENCY = 50.0  # from which the sine integral is expanded, to 24 terms: 24! / 50^24 = 1e-17
CONVERGED = 1e-13  # relative error of the tail probability at which a quantile is found


def fejer_quantile(u: NDArray) -> NDArray:
    """Inverse of the distribution function of Fejer's law, density (1 - cos w) / (pi w^2).

    With Si the sine integral, pi P(frequency > w) = pi / 2 - Si(w) + (1 - cos w) / w for w >= 0; the law is symmetric.
    The reciprocal r(w) of the right hand side is nearly Kepler's w - sin w: it rises from 2 / pi with
    r' = r^2 (1 - cos w) / w^2, never decreases, and keeps within 1.1 of w. As r' is 0 at the multiples of 2 pi,
    Newton's method is kept inside of brackets. The probability beyond the result is right to 1e-13 of itself, for u
    from 2.2e-308 (smaller ones count as that) to 1 - 2^-53.
    """
    u = np.asarray(u, dtype=np.float64)
    tail = np.maximum(np.minimum(u, 1 - u), TINY)
    return np.sign(u - 0.5) * _inverse_reciprocal_tail(1 / (np.pi * tail.ravel())).reshape(u.shape)


def _inverse_reciprocal_tail(r: NDArray) -> NDArray:
    w, low, high = r.copy(), np.maximum(r - 1.1, 0.0), r + 1.1
    active = np.arange(r.size)
    for _ in range(100):
        reached = _reciprocal_tail(w[active])
        wrong = np.abs(reached - r[active]) > CONVERGED * r[active]
        active, reached = active[wrong], reached[wrong]
        if not active.size:
            break
        w[active], low[active], high[active] = _step(w[active], reached, r[active], low[active], high[active])
    return w


def _step(w: NDArray, reached: NDArray, r: NDArray, low: NDArray, high: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Newton's step where it stays in the bracket, else its middle; and the narrowed bracket."""
    low, high = np.where(reached < r, w, low), np.where(reached > r, w, high)
    slope = (reached * np.sinc(w / (2 * np.pi))) ** 2 / 2
    with np.errstate(divide="ignore", over="ignore"):
        newton = w + (r - reached) / slope
    return np.where((low < newton) & (newton < high), newton, (low + high) / 2), low, high


def _reciprocal_tail(w: NDArray) -> NDArray:
    """1 / (pi P(frequency > w)) for w >= 0; where pi / 2 - Si(w) would cancel, by its asymptotic series.

    That is w pi P = 1 + Re(exp(-i w) sum_m m! (i / w)^m), m = 1, 2, ... (DLMF 6.2.20, 6.12.3, 6.12.4).
    """
    near = np.minimum(w, EXPANDED_FREQUENCY)
    reciprocal = 1 / (np.pi / 2 - sici(near)[0] + near / 2 * np.sinc(near / (2 * np.pi)) ** 2)
    far = w > EXPANDED_FREQUENCY
    x = w[far]
    series = np.zeros(len(x), dtype=np.complex128)
    for m in range(24, 0, -1):
        series = (1 + series) * (m * 1j / x)
    reciprocal[far] = x / (1 + np.cos(x) * series.real + np.sin(x) * series.imag)
    return reciprocal
