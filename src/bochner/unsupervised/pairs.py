"""Distances of pairs of rows, by which lengthscales are chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.data.draws import draw_rows

PAIR_ROWS = 512  # each of which is compared with all others
PAIR_ENTRIES, FEWEST_ROWS = 1 << 22, 64  # of those rows, which are fewer where columns are very many
FINEST, MEETING = (
    0.4,
    0.0015,
)  # lengthscale of bins over the median distance; share of pairs that share a bin, at least,
NARROW = 4  # of a kernel so many times narrower


def pairs_of(X: Any, weight: NDArray, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    """At most 512 of the rows, dense, drawn by weight, and the share of each."""
    rows, factors = draw_rows(weight, min(PAIR_ROWS, max(PAIR_ENTRIES // X.shape[1], FEWEST_ROWS)), rng)
    own = weight[rows] * (1.0 if factors is None else factors)
    few = X[rows]
    return np.asarray(few.toarray() if sp.issparse(few) else few, np.float64), own / own.sum()


def distances(X: NDArray, p: int) -> NDArray[np.float64]:
    """Distances of all pairs by the sum of absolute differences (p = 1) or their squares' root (p = 2), (n, n)."""
    from scipy.spatial.distance import cdist

    return cdist(X, X, "cityblock" if p == 1 else "euclidean")


def median_distance(X: NDArray, share: NDArray, p: int) -> float:
    """Weighted median distance of pairs of different rows, 1 where there are none."""
    D, W = distances(X, p), np.outer(share, share)
    own, mass = D[D > 0], W[D > 0]
    if not len(own):
        return 1.0
    order = np.argsort(own)
    total = np.cumsum(mass[order])
    return float(own[order[np.searchsorted(total, total[-1] / 2)]])


def bin_lengthscale(X: NDArray, share: NDArray) -> float:
    """Lengthscale of the bins: fine, but such that with a quarter of it one in 700 pairs of rows would share a bin.

    In many columns all pairs are about as far from one another, and finer bins would hold one row each.
    """
    D, W = distances(X, 1), np.outer(share, share)
    apart = D > 0
    own, mass = D[apart], W[apart] / max(W[apart].sum(), np.finfo(float).tiny)
    length = FINEST * median_distance(X, share, 1)
    while len(own) and mass @ np.exp(-NARROW * own / length) < MEETING:
        length *= 2**0.25
    return float(length)
