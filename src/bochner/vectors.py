"""Arithmetic of several long vectors at once, the rows of arrays of shape (K, D), on all threads and in place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bochner.engines.local import for_rows

ENTRIES_PER_THREAD = 1 << 16


def dots(a: NDArray, b: NDArray) -> NDArray[np.float64]:
    """Inner products of corresponding rows, shape (K,), summed in double precision."""
    from bochner.loops.vectors import dot

    return _each(lambda k, part: dot(a[k, part], b[k, part]), a)


def accumulate(a: NDArray, b: NDArray, factors: NDArray) -> None:
    """Add factors_k b_k to each row a_k; b has K rows or one."""
    from bochner.loops.vectors import accumulate

    factors, last = factors.astype(a.dtype), len(b) - 1
    _each(lambda k, part: accumulate(a[k, part], b[min(k, last), part], factors[k]), a)


def penalise(q: NDArray, p: NDArray, penalty: NDArray) -> NDArray[np.float64]:
    """Add the entries of p times their penalties, (K, D) or (K, 1), to q; inner products of the rows of p and q."""
    from bochner.loops.vectors import penalise

    narrow = penalty.shape[1] == 1
    return _each(lambda k, part: penalise(q[k, part], p[k, part], penalty[k] if narrow else penalty[k, part]), q)


def descend(x: NDArray, r: NDArray, p: NDArray, q: NDArray, steps: NDArray) -> NDArray[np.float64]:
    """Move each x_k by steps_k along p_k and r_k against q_k; squared lengths of the new r, shape (K,)."""
    from bochner.loops.vectors import descend

    steps = steps.astype(x.dtype)
    return _each(lambda k, part: descend(x[k, part], r[k, part], p[k, part], q[k, part], steps[k]), x)


def redirect(p: NDArray, z: NDArray, ratios: NDArray) -> None:
    """Turn each p_k to z_k + ratios_k p_k."""
    from bochner.loops.vectors import redirect

    ratios = ratios.astype(p.dtype)
    _each(lambda k, part: redirect(p[k, part], z[k, part], ratios[k]), p)


def multiply(a: NDArray, b: NDArray, out: NDArray) -> None:
    """Write the products of the entries of a and b, which broadcast to the shape (K, D), into `out`."""

    def part(k: int, part: slice) -> float:
        np.multiply(a[k, part], b[min(k, len(b) - 1), part if b.shape[1] > 1 else slice(0, 1)], out=out[k, part])
        return 0.0

    _each(part, a)


def _each(work: Callable[[int, slice], float], a: NDArray) -> NDArray[np.float64]:
    """Sums over the pieces of each row of what `work(row, piece)` returns."""
    pieces = None if a.shape[1] > 2 * ENTRIES_PER_THREAD else 1

    def piece(start: int, stop: int) -> list[float]:
        return [work(k, slice(start, stop)) for k in range(len(a))]

    return np.sum(for_rows(piece, a.shape[1], pieces), axis=0, dtype=np.float64)
