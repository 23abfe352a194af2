"""Rows drawn by their weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bochner.data.weights import are_unit, weights_of


def draw_rows(
    weights: NDArray, size: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.float64] | None]:
    """Draw rows without replacement, each with a probability in proportion to its weight, at most 1.

    A uniform sample of rows of very unequal weight misses most of what is summed over them. Sums over these rows with
    their weights times the factors estimate the sums over all, up to size / n, without bias (Horvitz and Thompson,
    1952). The draw is systematic, in random order; with equal weights it is a uniform one.

    Parameters
    ----------
    weights : array of shape (n,)
        Rows of weight zero are never drawn.
    size : int
        Rows to draw; all that have weight where these are no more.
    rng : Generator

    Returns
    -------
    rows : int array of shape (m,)
        Ascending.
    factors : array of shape (m,), or None where all are 1
    """
    counted = np.arange(len(weights)) if are_unit(weights) else np.flatnonzero(weights)
    if len(counted) <= size:
        return counted, None
    own = weights_of(weights, counted) / float(weights.max())
    if np.ptp(own) == 0:
        return np.sort(rng.choice(counted, size, replace=False)), None
    share = _probabilities(own, size)
    order = rng.permutation(len(counted))
    ends = np.cumsum(share[order])
    drawn = np.searchsorted(ends, (rng.uniform() + np.arange(size)) * ends[-1] / size, side="right")
    drawn = np.sort(order[np.unique(np.minimum(drawn, len(order) - 1))])
    return counted[drawn], size / len(counted) / share[drawn]


def _probabilities(weight: NDArray, size: int) -> NDArray[np.float64]:
    """Probabilities that sum to `size`, in proportion to weights of 1 at most but for rows that are certain."""
    certain = np.zeros(len(weight), bool)
    while True:
        rest = np.where(certain, 0.0, weight)
        share = np.where(certain, 1.0, (size - certain.sum()) * rest / rest.sum())
        if not (share > 1.0).any():
            return share
        certain |= share > 1.0
