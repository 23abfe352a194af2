"""Warps of columns: coordinates by piecewise linear functions."""

import numpy as np

from bochner.loops.compile import compiled, compiled_sums

TILE_ROWS = 256  # of which a column and its knots stay in the cache


@compiled
def warp(V, knots, levels, slopes):
    """Overwrite row w of V by its piecewise linear function through (knots_w, levels_w); slope_w beyond it.

    V : float64 array of shape (w, n), a row for each column; knots, levels : arrays of shape (w, k); slopes (w,).

    All entries of a tile go through the halvings of the knots together, in vector registers: branches that depend on
    the values would cost eight times as much. `low` becomes the last knot below each.
    """
    low, last = np.empty(TILE_ROWS, np.uint64), np.uint64(knots.shape[1] - 1)
    for w in range(V.shape[0]):
        knot, level, slope = knots[w], levels[w], slopes[w]
        for a in range(0, V.shape[1], TILE_ROWS):
            x, size = V[w, a : a + TILE_ROWS], knot.shape[0]
            low[:] = 0
            while size > 1:
                half = np.uint64(size // 2)
                for r in range(x.shape[0]):
                    low[r] += half if x[r] >= knot[low[r] + half] else np.uint64(0)
                size -= size // 2
            for r in range(x.shape[0]):
                v, i = x[r], low[r]
                j = min(i + np.uint64(1), last)
                inside = level[i] + (v - knot[i]) / (knot[j] - knot[i]) * (level[j] - level[i])
                above = level[last] + slope * (v - knot[last])
                below = level[0] + slope * (v - knot[0])
                x[r] = below if v < knot[0] else (above if v >= knot[last] else inside)


@compiled_sums
def add_distances(A, B, D):
    """Add sum_m |a_m - b_m| for all pairs of rows to D, of shape (rows of A, rows of B)."""
    for i in range(A.shape[1]):
        row = D[i]
        for m in range(A.shape[0]):
            a, b = A[m, i], B[m]
            for j in range(row.shape[0]):
                row[j] += np.abs(a - b[j])


@compiled_sums
def distance_sums(A, B, W, sums):
    """Add sum_ij W_ij |a_im - b_jm| to sums_m."""
    for i in range(A.shape[1]):
        w = W[i]
        for m in range(A.shape[0]):
            a, b = A[m, i], B[m]
            total = np.float32(0) * a
            for j in range(w.shape[0]):
                total += w[j] * np.abs(a - b[j])
            sums[m] += total


@compiled_sums
def sign_sums(A, B, W, V, U):
    """Add sum_j W_ij sign(a_im - b_jm) to V_mi, and sum_i W_ij sign(a_im - b_jm) to U_mj."""
    for i in range(A.shape[1]):
        w = W[i]
        for m in range(A.shape[0]):
            a, b, u = A[m, i], B[m], U[m]
            zero = np.float32(0) * a  # of the arrays' own precision, in which the sums then stay
            total = zero
            for j in range(w.shape[0]):
                signed = w[j] if a > b[j] else (-w[j] if a < b[j] else zero)
                total += signed
                u[j] += signed
            V[m, i] += total


@compiled_sums
def nearness(rows, anchor, scales, out):
    """Write sum_m scales_m |x_m - anchor_m| of each row, of shape (n, p), into out."""
    for i in range(rows.shape[0]):
        x = rows[i]
        total = np.float32(0) * x[0]
        for m in range(x.shape[0]):
            total += scales[m] * np.abs(x[m] - anchor[m])
        out[i] = total
