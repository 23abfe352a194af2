"""Draws of frequencies from a kernel's spectral measure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.special import ndtr

from bochner.kernels import Kernel, Stationary
from bochner.kernels.measures import Isotropic

SAMPLINGS = ("orthogonal", "iid")


def draw_frequencies(
    kernel: Kernel, n_frequencies: int, n_features: int, sampling: str, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw frequencies and weights with k(x, y) = E sum_j weights_j cos(frequencies_j'(x - y)).

    A sum of kernels splits the draws over its terms, in proportion to their variances (Neyman's allocation: the
    deviation of a term's estimate is proportional to its variance); a product adds independent frequencies, one of
    each factor.

    Returns
    -------
    frequencies : array of shape (n_features, n_frequencies)
        In radians per unit of the columns.
    weights : array of shape (n_frequencies,)

    Raises
    ------
    ValueError
        If there are fewer frequencies than terms in the kernel, or `sampling` is not a known scheme.
    """
    if sampling not in SAMPLINGS:
        raise ValueError(f"sampling must be one of {SAMPLINGS}, got {sampling!r}.")
    terms = kernel.terms()
    counts = allocate([variance for variance, _ in terms], n_frequencies, "n_components")
    blocks = [
        sum(_draw_leaf(leaf, count, n_features, sampling, rng) for leaf in leaves)
        for (_, leaves), count in zip(terms, counts, strict=True)
    ]
    weights = [np.full(count, variance / count) for (variance, _), count in zip(terms, counts, strict=True)]
    return np.hstack(blocks), np.concatenate(weights)


def allocate(variances: Sequence[float], total: int, name: str) -> NDArray[np.int64]:
    """Share `total` draws in proportion to the variances, at least one each, by largest remainders.

    Raises ValueError, which tells to raise the parameter `name`, where there are fewer draws than variances.
    """
    weights = np.array(variances)
    if total < len(weights):
        raise ValueError(
            f"The kernel is a sum of {len(weights)} terms and only {total} draws would be made; "
            f"each term needs one: raise {name}."
        )
    shares = weights / weights.sum() * (total - len(weights))
    counts = 1 + np.floor(shares).astype(np.int64)
    order = np.argsort(np.floor(shares) - shares, kind="stable")
    counts[order[: total - counts.sum()]] += 1
    return counts


def _draw_leaf(leaf: Stationary, size: int, n_features: int, sampling: str, rng: np.random.Generator) -> NDArray:
    measure = leaf.spectral_measure()
    if isinstance(measure, Isotropic):
        unit = _directions(size, n_features, sampling, rng) * measure.radii(rng, size, n_features)
    elif sampling == "iid":
        unit = measure.quantile(rng.uniform(np.finfo(float).tiny, 1.0, (n_features, size)))
    else:
        normal = _directions(size, n_features, sampling, rng) * np.sqrt(rng.chisquare(n_features, size))
        unit = measure.quantile(np.clip(ndtr(normal), np.finfo(float).tiny, 1 - 2**-53))
    return unit / leaf.scales(n_features).reshape(-1, 1)


def _directions(size: int, n_features: int, sampling: str, rng: np.random.Generator) -> NDArray:
    """Unit vectors of uniform direction, the columns of an array of shape (n_features, size).

    "orthogonal": in groups of `n_features` columns, each a Haar orthogonal matrix (Yu et al., 2016). Any one column
    is uniform on the sphere, so that estimates stay unbiased; the columns of a group repel one another.
    """
    normal = rng.standard_normal((n_features, size))
    if sampling == "iid":
        return normal / np.linalg.norm(normal, axis=0)
    groups = [normal[:, start : start + n_features] for start in range(0, size, n_features)]
    return np.hstack([_orthonormal(group) for group in groups])


def _orthonormal(normal: NDArray) -> NDArray:
    """Haar-distributed orthonormal columns from normal ones: QR with positive diagonal of R (Mezzadri, 2007).

    Few long columns are nearly orthogonal already, so that R may be taken from the Cholesky factor of their products.
    """
    d, size = normal.shape
    if d >= 4 * size:
        return solve_triangular(np.linalg.cholesky(normal.T @ normal), normal.T, lower=True).T
    Q, R = np.linalg.qr(normal)
    return Q * np.where(np.diag(R) < 0, -1.0, 1.0)
