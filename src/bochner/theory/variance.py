"""Bias and variance of the estimates of a map, over independent draws of what is random in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.features.binning import BinningFeatures
from bochner.features.fourier import FourierFeatures
from bochner.features.leaves import leaves
from bochner.features.linear import LinearFeatures
from bochner.kernels import Kernel
from bochner.theory.exact import dense, pairwise

BiasAndVariance = Callable[[Any, Any], tuple[NDArray, NDArray]]  # bias and variance of z(x)'z(y), for each pair of rows


def bias_and_variance(features: Any) -> BiasAndVariance | None:
    """Bias and variance of z(x)'z(y) over independent draws of frequencies or grids; None where they are not known.

    A frequency of weight u gives u cos(w'D), of variance u^2 ((1 + k(2 D)) / 2 - k(D)^2); one with a random offset
    u^2 / 2 more, of cos(w'(x + y) + 2 b). A grid gives u for rows in one bin, which they are with probability k; in
    one of B buckets they are with probability p = k + (1 - k) / B, so that the variance is u^2 p (1 - p) and the bias
    p - k of the kernel. Each of the terms of a kernel has draws by itself, and so has each of the maps side by side.
    """
    parts = [(leaf, _of_single(leaf.features)) for leaf in leaves(features)]
    known = [(leaf, own) for leaf, own in parts if own is not None]
    if len(known) < len(parts):
        return None

    def values(A: Any, B: Any) -> tuple[NDArray, NDArray]:
        each = [(leaf.weight, *own(leaf.rows(A), leaf.rows(B))) for leaf, own in known]
        bias = np.sum([weight * own for weight, own, _ in each], axis=0)
        return bias, np.sum([weight**2 * own for weight, _, own in each], axis=0)

    return values


def _of_single(features: Any) -> BiasAndVariance | None:
    if isinstance(features, LinearFeatures):
        return lambda A, B: (np.zeros(A.shape[0]), np.zeros(A.shape[0]))
    if isinstance(features, FourierFeatures) and features.sampling != "leverage":
        m, lone = features.frequencies_.shape[1], len(features.offsets_)
        return _over_terms(features.kernel, m, lambda k, k2: (np.zeros_like(k), (1 + k2) / 2 - k**2), lone / 2)
    if isinstance(features, BinningFeatures) and not features._smooth.any():
        by_chance = 1 / features.n_buckets if features.n_buckets else 0.0
        return _over_terms(features.kernel, len(features.values_), lambda k, k2: _meetings(k, by_chance), 0.0)
    return None


def _meetings(k: NDArray, by_chance: float) -> tuple[NDArray, NDArray]:
    """Bias and variance of one grid's estimate, whose bins share a column with the probability `by_chance`."""
    bias = (1 - k) * by_chance
    return bias, (k + bias) * (1 - k - bias)


def _over_terms(
    kernel: Kernel, draws: int, of_term: Callable[[NDArray, NDArray], tuple[NDArray, NDArray]], more: float
) -> BiasAndVariance:
    """Bias and variance of the sum of the terms' estimates, which share the draws in proportion to their variances."""
    total = kernel.variance
    terms = [(variance, [pairwise(leaf) for leaf in factors]) for variance, factors in kernel.terms()]

    def values(A: Any, B: Any) -> tuple[NDArray, NDArray]:
        A, B = dense(A), dense(B)
        bias, squares = np.zeros(len(A)), np.full(len(A), more * total**2 / draws**2)
        for variance, factors in terms:
            at, twice = (np.prod([factor(U, V) for factor in factors], axis=0) for U, V in ((A, B), (2 * A, 2 * B)))
            off, own = of_term(at, twice)
            bias += variance * off
            squares += variance * total / draws * np.maximum(own, 0.0)
        return bias, squares

    return values
