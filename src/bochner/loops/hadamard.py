"""Fast Walsh-Hadamard transforms, the inner loop of structured frequencies."""

import numpy as np

from bochner.loops.compile import compiled

LANES = 16  # rows that are transformed side by side, in vector registers


@compiled
def _transform(buffer):
    """Overwrite the columns of `buffer`, shape (n, LANES) with n a power of two, by H times them, entries of H ±1.

    Two levels of butterflies at a time, so that the buffer is read and written half as often.
    """
    n = buffer.shape[0]
    h = 1
    while 4 * h <= n:
        for block in range(0, n, 4 * h):
            for j in range(block, block + h):
                for i in range(LANES):
                    a, b = buffer[j, i], buffer[j + h, i]
                    c, d = buffer[j + 2 * h, i], buffer[j + 3 * h, i]
                    s, t, u, v = a + b, a - b, c + d, c - d
                    buffer[j, i], buffer[j + h, i] = s + u, t + v
                    buffer[j + 2 * h, i], buffer[j + 3 * h, i] = s - u, t - v
        h *= 4
    if h < n:
        for j in range(h):
            for i in range(LANES):
                a, b = buffer[j, i], buffer[j + h, i]
                buffer[j, i], buffer[j + h, i] = a + b, a - b


@compiled
def project(Y, signs, lengths, out):
    """Write lengths * (H D_r ... H D_1 y) for each row y and each block of signs into the first columns of `out`.

    Y : array of shape (b, n), n a power of two. signs : array of shape (B, rounds, n), entries ±1. lengths : array of
    shape (m,), m <= B n. out : array of shape (b, >= m).
    """
    rows, n, m = Y.shape[0], Y.shape[1], lengths.shape[0]
    columns = np.empty((n, LANES), Y.dtype)
    buffer = np.empty((n, LANES), Y.dtype)
    for first in range(0, rows, LANES):
        there = min(LANES, rows - first)
        columns[:] = 0
        for i in range(there):
            for j in range(n):
                columns[j, i] = Y[first + i, j]
        for block in range(signs.shape[0]):
            for j in range(n):
                sign = signs[block, 0, j]
                for i in range(LANES):
                    buffer[j, i] = sign * columns[j, i]
            _transform(buffer)
            for r in range(1, signs.shape[1]):
                for j in range(n):
                    sign = signs[block, r, j]
                    for i in range(LANES):
                        buffer[j, i] *= sign
                _transform(buffer)
            start = block * n
            stop = min(n, m - start)
            for i in range(there):
                target = out[first + i, start : start + stop]
                for j in range(stop):
                    target[j] = lengths[start + j] * buffer[j, i]
