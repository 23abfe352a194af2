"""What is known of a fitted map: the kernel that it estimates, the variance of its estimates, and its claim.

Maps are told apart by their attributes, for this part of the package does not know theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.kernels import Kernel
from bochner.theory.claims import binning_claim, fourier_claim, least_error
from bochner.theory.spread import Region

Pairs = Callable[[Any, Any], NDArray]  # from rows and as many others, a number for each pair of them
GRAM = 64  # rows of the kernel matrices of which the diagonals are taken


def dense(X: Any) -> NDArray[np.float64]:
    """Rows as a kernel takes them."""
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


def pairwise(kernel: Callable[[Any, Any], NDArray]) -> Pairs:
    """The kernel of pairs of rows, from small matrices."""

    def values(A: Any, B: Any) -> NDArray:
        A, B = dense(A), dense(B)
        blocks = [np.diagonal(kernel(A[a : a + GRAM], B[a : a + GRAM])) for a in range(0, len(A), GRAM)]
        return np.concatenate(blocks).astype(np.float64)

    return values


def unwrapped(features: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The map behind an estimator or a metric, and what turns rows into its rows."""
    if hasattr(features, "encoder_") and hasattr(features, "features_"):
        inner, prepare = unwrapped(features.features_)
        return inner, lambda X: prepare(features.encoder_.encode(X, dtype=np.float64))
    if hasattr(features, "metric") and hasattr(features, "features_"):
        inner, prepare = unwrapped(features.features_)
        return inner, lambda X: prepare(features.metric.transform(X))
    return features, lambda X: X


def exact_values(features: Any) -> Pairs:
    """The kernel that a map estimates, of pairs of its rows."""
    inner, prepare = unwrapped(features)
    if inner is not features:
        values = exact_values(inner)
        return lambda A, B: values(prepare(A), prepare(B))
    if hasattr(features, "maps_"):
        parts = [(weight, exact_values(part)) for weight, part in zip(features.weights_, features.maps_, strict=True)]
        return lambda A, B: np.sum([weight * values(A, B) for weight, values in parts], axis=0)
    if getattr(features, "column_share", 1.0) < 1:
        raise ValueError(
            "With column_share below 1 the kernel of the map is a mixture over subsets of the columns: give it as "
            "kernel=, a callable of (X, Y)."
        )
    kernel = getattr(features, "kernel", None)
    if isinstance(kernel, Kernel):
        return pairwise(kernel)
    if kernel is None and hasattr(features, "mean_") and hasattr(features, "scale_"):  # the columns themselves
        return lambda A, B: products(features.transform(A), features.transform(B))
    raise TypeError(
        f"The kernel of {type(features).__name__} is not known: give it as kernel=, one of bochner.kernels or a "
        "callable of (X, Y)."
    )


def products(A: Any, B: Any) -> NDArray[np.float64]:
    """Inner products of rows and as many others, in float64."""
    if sp.issparse(A):
        return np.asarray(A.astype(np.float64).multiply(B.astype(np.float64)).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", np.asarray(A, np.float64), np.asarray(B, np.float64))


Spread = Callable[[Any, Any], tuple[NDArray, NDArray]]  # bias and variance of z(x)'z(y), for each pair of rows


def spread(features: Any) -> Spread | None:
    """Bias and variance of z(x)'z(y) over independent draws of frequencies or grids; None where they are not known.

    A frequency of weight u gives u cos(w'D), of variance u^2 ((1 + k(2 D)) / 2 - k(D)^2); one with a random offset
    u^2 / 2 more, of cos(w'(x + y) + 2 b). A grid gives u for rows in one bin, which they are with probability k; in
    one of B buckets they are with probability p = k + (1 - k) / B, so that the variance is u^2 p (1 - p) and the bias
    p - k of the kernel. Each of the terms of a kernel has draws by itself.
    """
    inner, prepare = unwrapped(features)
    if inner is not features:
        known = spread(inner)
        return known and (lambda A, B: known(prepare(A), prepare(B)))
    if hasattr(features, "maps_"):
        return _of_parts(features.weights_, [spread(part) for part in features.maps_])
    kernel = getattr(features, "kernel", None)
    if kernel is None and hasattr(features, "mean_") and hasattr(features, "scale_"):
        return lambda A, B: (np.zeros(A.shape[0]), np.zeros(A.shape[0]))
    if not isinstance(kernel, Kernel):
        return None
    if hasattr(features, "frequencies_") and features.sampling != "leverage":
        m, lone = features.frequencies_.shape[1], len(features.offsets_)
        return _over_terms(kernel, m, lambda k, k2: (np.zeros_like(k), (1 + k2) / 2 - k**2), lone / 2)
    if hasattr(features, "pitches_") and not features._smooth.any():
        by_chance = 1 / features.n_buckets if features.n_buckets else 0.0
        return _over_terms(kernel, len(features.values_), lambda k, k2: _meetings(k, by_chance), 0.0)
    return None


def _meetings(k: NDArray, by_chance: float) -> tuple[NDArray, NDArray]:
    """Bias and variance of one grid's estimate, whose bins share a column with the probability `by_chance`."""
    bias = (1 - k) * by_chance
    return bias, (k + bias) * (1 - k - bias)


def _of_parts(weights: NDArray, parts: list[Spread | None]) -> Spread | None:
    """Bias and variance of a weighted sum of independent maps."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None

    def values(A: Any, B: Any) -> tuple[NDArray, NDArray]:
        each = [part(A, B) for part in known]
        bias = sum(weight * own for weight, (own, _) in zip(weights, each, strict=True))
        return bias, sum(weight**2 * own for weight, (_, own) in zip(weights, each, strict=True))

    return values


def _over_terms(
    kernel: Kernel, draws: int, of_term: Callable[[NDArray, NDArray], tuple[NDArray, NDArray]], more: float
) -> Spread:
    """Bias and variance of the sum of the terms' estimates, which share the draws in proportion to their variances."""
    total = kernel.variance
    terms = [(variance, [pairwise(leaf) for leaf in leaves]) for variance, leaves in kernel.terms()]

    def values(A: Any, B: Any) -> tuple[NDArray, NDArray]:
        A, B = dense(A), dense(B)
        bias, squares = np.zeros(len(A)), np.full(len(A), more * total**2 / draws**2)
        for variance, leaves in terms:
            at, twice = (np.prod([leaf(U, V) for leaf in leaves], axis=0) for U, V in ((A, B), (2 * A, 2 * B)))
            off, own = of_term(at, twice)
            bias += variance * off
            squares += variance * total / draws * np.maximum(own, 0.0)
        return bias, squares

    return values


def guarantee(features: Any, rows: Callable[[], Any], confidence: float, new_bins: bool) -> tuple[float | None, str]:
    """Error that no pair exceeds with a probability of `confidence`, and which claim says so, or why none does."""
    try:
        if hasattr(features, "frequencies_"):
            lone, m = len(features.offsets_), features.frequencies_.shape[1]
            if features.sampling == "leverage":
                return None, "Claim 1 is about frequencies of the kernel's own law, not drawn by leverage"
            if 0 < lone < m:
                return None, "Claim 1 is about an even number of components"
            paired = lone == 0
            claim, size = fourier_claim(features.kernel, _region(rows()), paired), features.n_features_out
            name = "Claim 1" if paired else "Claim 1 with offsets"
            name += "" if features.sampling == "iid" else ", which is about independent frequencies"
        elif hasattr(features, "pitches_"):
            if features.n_buckets is not None:
                return None, "Claim 2 is about bins of their own, not about buckets that they share"
            if new_bins:
                return None, "Claim 2 is about rows in bins that training rows occupy, and some rows are in new ones"
            claim, size = binning_claim(features.kernel, _region(rows()), "brackets"), len(features.values_)
            name = "Claim 2, by brackets"
        else:
            return None, f"no claim about {type(features).__name__}"
        return features.kernel.variance * least_error(claim, size, 1 - confidence), name
    except ValueError as error:
        return None, str(error)


def _region(X: Any) -> Region:
    if sp.issparse(X):
        raise ValueError("the rows are sparse; their extent needs a dense array")
    X = np.asarray(X)
    return Region(X.shape[1], X if X.dtype == np.float32 else X.astype(np.float64))
