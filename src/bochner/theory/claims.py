"""Claim 1 and Claim 2 as functions of an error and a size, and the least error for which they hold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bochner.kernels import Kernel
from bochner.theory.rates import break_rates, second_moments
from bochner.theory.region import Region

LogBound = Callable[[float, int], float]  # of eps, in units of k(0), and a size: log of a bound on the probability
SHARES = np.geomspace(1e-4, 0.95, 160)[:, np.newaxis]  # of eps that brackets may cost
PROOFS = ("brackets", "paper")


def fourier_claim(kernel: Kernel, region: Region, paired: bool = True) -> LogBound:
    """Log of Claim 1's bound, a function of eps and D."""
    moments = second_moments(kernel, region.n_features)
    seen = moments > 0
    d = int(seen.sum())
    own = np.sqrt(moments)
    product = np.sqrt(moments.sum()) * region.diameter(seen.astype(np.float64))
    product = min(product, np.sqrt(d) * region.diameter(own))
    factor, rate = (2.0**8, 1 / (8 * (d + 2))) if paired else (98.0, 1 / (32 * (d + 1)))

    def log_bound(eps: float, n_components: int) -> float:
        if eps > (2 if paired else 3):  # no error is larger
            return -np.inf
        turns = product / eps
        claim = np.log(factor) + 2 * np.log(max(turns, 1.0)) - n_components * eps**2 * rate
        if not paired:
            return float(claim)
        return float(min(claim, 2 * np.log(2 * turns))) if turns > 0 else -np.inf

    return log_bound


def binning_claim(kernel: Kernel, region: Region, proof: str) -> LogBound:
    """Log of Claim 2's bound, a function of eps and P."""
    if proof not in PROOFS:
        raise ValueError(f"proof must be one of {PROOFS}, got {proof!r}.")
    breaks = break_rates(kernel, region.n_features) * region.ranges()
    breaks = breaks[breaks > 0]
    d = len(breaks)

    def log_bound(eps: float, n_grids: int) -> float:
        if eps > 1 or not d:  # no error is larger; all rows are always in one bin
            return -np.inf
        if proof == "paper":
            return float(
                np.log(36) + np.log(n_grids) + np.log(breaks.sum()) - (n_grids * eps**2 / 8 + np.log(eps)) / (d + 1)
            )
        return float(np.min(_log_boxes(breaks, eps) - 2 * n_grids * (eps * (1 - SHARES[:, 0])) ** 2))

    return log_bound


def _log_boxes(breaks: NDArray, eps: float) -> NDArray:
    """Log of twice the number of boxes, for each share of eps that brackets may cost."""
    total = np.full(len(SHARES), np.log(2))
    for start in range(0, len(breaks), 256):
        cells = np.ceil(2 * len(breaks) * breaks[start : start + 256] / (SHARES * eps))
        total += np.log1p(cells * ((cells + 1) / 2)).sum(axis=1)
    return total


def least_error(claim: LogBound, size: int, delta: float) -> float:
    """Smallest eps, in units of k(0), that a claim exceeds with probability at most `delta`, to 1e-6 of itself."""
    goal = np.log(delta)
    low, high = np.log(1e-12), np.log(4.0)
    if claim(float(np.exp(low)), size) <= goal:
        return 0.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if claim(float(np.exp(middle)), size) <= goal else (middle, high)
    return float(np.exp(high))
