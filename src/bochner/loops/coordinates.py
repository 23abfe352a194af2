"""Warps of columns: coordinates by piecewise linear functions."""

import numpy as np

from bochner.loops.compile import compiled

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
