"""Arithmetic of several long vectors at once, the rows of arrays of shape (K, D), on
all threads and in place.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats
from bochner.blocks import TILE_ENTRIES
from bochner.engines.local import fold, shards

SHORT = 1 << 13  # entries of vectors that NumPy combines as fast as compiled loops


def row_sums(a: NDArray) -> Floats:
    """Sums of rows, shape (K,), in double precision."""
    return a.sum(axis=1, dtype=np.float64)


def inner(a: NDArray, b: NDArray) -> float:
    """Inner product of all entries, in double precision, without compiled loops."""
    return float(np.sum(a * b, dtype=np.float64))


def dots(a: NDArray, b: NDArray) -> Floats:
    """Inner products of corresponding rows, shape (K,), summed in double precision."""
    if _is_short(a):
        return _short_dots(a, b)
    from bochner.loops.vectors import dot

    return _each(lambda k, part: dot(a[k, part], b[k, part]), a)


def add_scaled(
    a: NDArray, b: NDArray, factors: NDArray, shares: NDArray | None = None
) -> Floats:
    """Add factors_k b_k to each row a_k, or to shares_k a_k; b has K rows or one.
    Squared lengths of the sums, shape (K,).
    """
    shares = np.ones(len(a)) if shares is None else shares
    if _is_short(a):
        a *= shares[:, np.newaxis]
        a += factors[:, np.newaxis] * b
        return _short_dots(a, a)
    from bochner.loops.vectors import combine

    shares = shares.astype(a.dtype)
    factors = factors.astype(a.dtype)
    last = len(b) - 1
    return _each(
        lambda k, part: combine(
            a[k, part], shares[k], b[min(k, last), part], factors[k]
        ),
        a,
    )


def update_direction(
    p: NDArray, z: NDArray, ratios: NDArray, penalty: NDArray, q: NDArray
) -> Floats:
    """Turn each p_k to z_k + ratios_k p_k, and q to p times its penalty, (K, D) or
    (K, 1); products p_k'q_k.
    """
    add_scaled(p, z, np.ones(len(p)), ratios)
    if penalty.shape[1] > 1:
        return scale(p, penalty, q)
    np.multiply(p, penalty, out=q)
    return dots(p, q)


def scale(r: NDArray, factors: NDArray, z: NDArray) -> Floats:
    """Write the products of r and factors, of K rows or one, into z; inner products
    of the rows of r and z.
    """
    if _is_short(r):
        return _short_dots(r, np.multiply(r, factors, out=z))
    from bochner.loops.vectors import scale

    last = len(factors) - 1
    return _each(
        lambda k, part: scale(r[k, part], factors[min(k, last), part], z[k, part]), r
    )


def _is_short(a: NDArray) -> bool:
    """Whether NumPy is as fast: in double precision, which few fits have, nothing is
    compiled then.
    """
    return a.dtype == np.float64 and a.size <= SHORT


def _short_dots(a: NDArray, b: NDArray) -> Floats:
    return np.einsum("kd,kd->k", a, b)


def _each(work: Callable[[int, slice], float], a: NDArray) -> Floats:
    """Sums over the pieces of each row of what `work(row, piece)` returns."""

    def piece(share: tuple[int, int]) -> Floats:
        return np.array([work(k, slice(*share)) for k in range(len(a))], np.float64)

    if a.shape[1] < 2 * TILE_ENTRIES:  # one piece, by compiled loops alone
        return piece((0, a.shape[1]))
    return fold(piece, shards(a.shape[1], TILE_ENTRIES))
