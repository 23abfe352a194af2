"""Columns to coordinates that are scaled or warped."""

import numpy as np

from bochner.loops.compile import compiled

TILE_ROWS = 256  # whose columns stay in the cache


@compiled
def write_coordinates(X, source, scale, warps, U):
    """Write coordinate i of the rows of X, scale_i x_j with j = source_i, or its warp, into column i of U.

    X : array of shape (n, d); source : int64 array of shape (m,); scale : array of shape (m,); U : shape (n, m).
    warps : coordinates that are warped, int64 array of shape (w,), knots and levels of shape (w, k), slopes (w,).
    """
    warped, knots, levels, slopes = warps
    low = np.empty(TILE_ROWS, np.uint64)
    for a in range(0, X.shape[0], TILE_ROWS):
        rows, out = X[a : a + TILE_ROWS], U[a : a + TILE_ROWS]
        for r in range(rows.shape[0]):
            for i in range(source.shape[0]):
                out[r, i] = rows[r, source[i]] * scale[i]
        for w in range(warped.shape[0]):
            i = warped[w]
            _warp(rows[:, source[i]], knots[w], levels[w], slopes[w], low[: rows.shape[0]], out[:, i])


@compiled
def _warp(x, knots, levels, slope, low, out):
    """Write the piecewise linear function through (knots, levels) at x into out; `slope` beyond it.

    All rows go through the halvings of the knots together, in vector registers: branches that depend on the values
    would cost eight times as much. low : uint64 array of the length of x, which becomes the last knot below each.
    """
    low[:], size, last = 0, knots.shape[0], np.uint64(knots.shape[0] - 1)
    while size > 1:
        half = np.uint64(size // 2)
        for r in range(x.shape[0]):
            low[r] += half if x[r] >= knots[low[r] + half] else np.uint64(0)
        size -= size // 2
    for r in range(x.shape[0]):
        v, i, j = np.float64(x[r]), low[r], min(low[r] + np.uint64(1), last)
        inside = levels[i] + (v - knots[i]) / (knots[j] - knots[i]) * (levels[j] - levels[i])
        above = levels[last] + slope * (v - knots[last])
        below = levels[0] + slope * (v - knots[0])
        out[r] = below if v < knots[0] else (above if v >= knots[last] else inside)
