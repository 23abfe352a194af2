"""Arithmetic of several long vectors at once, the rows of arrays of shape (K, D), on all threads and in place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bochner.engines.local import fold, shards

ENTRIES = 1 << 16  # of a piece at the least


def dots(a: NDArray, b: NDArray) -> NDArray[np.float64]:
    """Inner products of corresponding rows, shape (K,), summed in double precision."""
    from bochner.loops.vectors import dot

    return _each(lambda k, part: dot(a[k, part], b[k, part]), a)


def add_scaled(a: NDArray, b: NDArray, factors: NDArray) -> None:
    """Add factors_k b_k to each row a_k; b has K rows or one."""
    from bochner.loops.vectors import add_scaled

    factors, last = factors.astype(a.dtype), len(b) - 1
    _each(lambda k, part: add_scaled(a[k, part], b[min(k, last), part], factors[k]), a)


def update_solution(x: NDArray, r: NDArray, p: NDArray, q: NDArray, steps: NDArray) -> NDArray[np.float64]:
    """Move each x_k by steps_k along p_k and r_k against q_k; squared lengths of the new r, shape (K,)."""
    from bochner.loops.vectors import update_solution

    steps = steps.astype(x.dtype)
    return _each(lambda k, part: update_solution(x[k, part], r[k, part], p[k, part], q[k, part], steps[k]), x)


def update_direction(p: NDArray, z: NDArray, ratios: NDArray, penalty: NDArray, q: NDArray) -> NDArray[np.float64]:
    """Turn each p_k to z_k + ratios_k p_k, and q to p times its penalty, (K, D) or (K, 1); products p_k'q_k."""
    from bochner.loops.vectors import update_direction

    ratios, narrow = ratios.astype(p.dtype), penalty.shape[1] == 1
    whole = slice(None)
    return _each(
        lambda k, part: update_direction(
            p[k, part], z[k, part], ratios[k], penalty[k, whole if narrow else part], q[k, part]
        ),
        p,
    )


def scale(r: NDArray, factors: NDArray, z: NDArray) -> NDArray[np.float64]:
    """Write the products of r and factors, of K rows or one, into z; inner products of the rows of r and z."""
    from bochner.loops.vectors import scale

    last = len(factors) - 1
    return _each(lambda k, part: scale(r[k, part], factors[min(k, last), part], z[k, part]), r)


def _each(work: Callable[[int, slice], float], a: NDArray) -> NDArray[np.float64]:
    """Sums over the pieces of each row of what `work(row, piece)` returns."""

    def piece(share: tuple[int, int]) -> NDArray[np.float64]:
        return np.array([work(k, slice(*share)) for k in range(len(a))], np.float64)

    if a.shape[1] < 2 * ENTRIES:  # one piece, by compiled loops alone
        return piece((0, a.shape[1]))
    return fold(piece, shards(a.shape[1], ENTRIES))
