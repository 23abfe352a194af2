"""The vector arithmetic of conjugate gradients, each line one pass over its arrays;
sums are in double precision.

And factors and quadratic forms of tridiagonal matrices, and the moments of columns.
"""

import numpy as np

from bochner.loops.compile import compiled, compiled_sums


@compiled_sums
def dot(a, b):
    """Return the inner product of two arrays."""
    total = 0.0
    for i in range(a.shape[0]):
        total += np.float64(a[i]) * np.float64(b[i])
    return total


@compiled_sums
def combine(a, share, b, factor):
    """Overwrite a by share a + factor b, and return its squared length."""
    total = 0.0
    for i in range(a.shape[0]):
        a[i] = factor * b[i] + share * a[i]
        total += np.float64(a[i]) * np.float64(a[i])
    return total


@compiled_sums
def scale(r, inverse, z):
    """Write the products of r and inverse into z, and return r'z."""
    total = 0.0
    for i in range(r.shape[0]):
        z[i] = r[i] * inverse[i]
        total += np.float64(r[i]) * np.float64(z[i])
    return total


@compiled
def factorise(pivots, ratios):
    """Overwrite a tridiagonal matrix by D and what stands beside the diagonal of L, L D
    L' the matrix, and return whether it is positive definite.

    pivots, ratios : arrays of shape (D,): the diagonal, and zero and what stands beside
    it.
    """
    for j in range(1, pivots.shape[0]):
        # NaN is not positive either
        if not pivots[j - 1] > 0:
            return False
        beside = ratios[j]
        ratios[j] = beside / pivots[j - 1]
        pivots[j] -= ratios[j] * beside
    return pivots[-1] > 0


@compiled
def forms(pivots, ratios, U, x, out):
    """Add u'T^-1 u of each column u of U, of shape (D, m), to `out`, T = L diag(pivots)
    L'.

    ratios : array of shape (D,), zero and what stands beside the diagonal of L. x, out
    : zeroed arrays of shape (m,).
    """
    for j in range(U.shape[0]):
        ratio, inverse, u = ratios[j], 1 / pivots[j], U[j]
        for i in range(x.shape[0]):
            x[i] = u[i] - ratio * x[i]
            out[i] += x[i] * x[i] * inverse


@compiled
def column_moments(
    values, weight, weights, mean, residual, squares, low, high, between
):
    """Weighted moments and extremes of columns, NaN being missing.

    values : array of shape (n, q); weight : array of shape (n,), positive. low, high :
    arrays of shape (q,), infinity and minus infinity before. Of shape (q,), zeros
    before: weights, the sum of those that have a value; mean; residual, room for what
    rounding leaves; squares, the sum of squared deviations from the mean; between,
    whether a value lies strictly between the extremes.
    """
    for i in range(values.shape[0]):
        w, row = weight[i], values[i]
        for j in range(row.shape[0]):
            v = row[j]
            weights[j] += w if v == v else 0.0
            mean[j] += w * v if v == v else 0.0
            low[j] = v if v < low[j] else low[j]
            high[j] = v if v > high[j] else high[j]
    for j in range(mean.shape[0]):
        mean[j] = mean[j] / weights[j] if weights[j] > 0 else 0.0
    for i in range(values.shape[0]):
        w, row = weight[i], values[i]
        for j in range(row.shape[0]):
            v = row[j]
            d = v - mean[j] if v == v else 0.0
            residual[j] += w * d
            squares[j] += w * d * d
            between[j] |= (v > low[j]) & (v < high[j])
    # The sum of the deviations is what rounding has left in the mean
    for j in range(mean.shape[0]):
        error = residual[j] / weights[j] if weights[j] > 0 else 0.0
        squares[j] = max(squares[j] - weights[j] * error * error, 0.0)
        mean[j] += error
