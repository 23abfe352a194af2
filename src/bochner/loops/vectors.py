"""The vector arithmetic of conjugate gradients, each line one pass over its arrays; sums are in double precision.

And the quadratic forms of tridiagonal matrices.
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
def update_solution(x, r, p, q, step):
    """Add step p to x, take step q from r, and return the squared length of r."""
    total = 0.0
    for i in range(x.shape[0]):
        x[i] += step * p[i]
        r[i] -= step * q[i]
        total += np.float64(r[i]) * np.float64(r[i])
    return total


@compiled
def add_scaled(a, b, factor):
    """Add factor b to a, and return zero."""
    for i in range(a.shape[0]):
        a[i] += factor * b[i]
    return 0.0


@compiled_sums
def scale(r, inverse, z):
    """Write the products of r and inverse into z, and return r'z."""
    total = 0.0
    for i in range(r.shape[0]):
        z[i] = r[i] * inverse[i]
        total += np.float64(r[i]) * np.float64(z[i])
    return total


@compiled_sums
def update_direction(p, z, ratio, penalty, q):
    """Overwrite p by z + ratio p and q by the products of p and penalty; return p'q.

    penalty : array of the length of p, or of length 1.
    """
    total = 0.0
    if penalty.shape[0] == 1:
        only = penalty[0]
        for i in range(p.shape[0]):
            p[i] = z[i] + ratio * p[i]
            q[i] = only * p[i]
            total += np.float64(p[i]) * np.float64(q[i])
    else:
        for i in range(p.shape[0]):
            p[i] = z[i] + ratio * p[i]
            q[i] = penalty[i] * p[i]
            total += np.float64(p[i]) * np.float64(q[i])
    return total


@compiled
def forms(pivots, ratios, U, x, out):
    """Add u'T^-1 u of each column u of U, of shape (D, m), to `out`, T = L diag(pivots) L'.

    ratios : array of shape (D,), zero and what stands beside the diagonal of L. x, out : zeroed arrays of shape (m,).
    """
    for j in range(U.shape[0]):
        ratio, inverse, u = ratios[j], 1 / pivots[j], U[j]
        for i in range(x.shape[0]):
            x[i] = u[i] - ratio * x[i]
            out[i] += x[i] * x[i] * inverse
