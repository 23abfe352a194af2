"""The vector arithmetic of conjugate gradients, each line one pass over its arrays;
sums are in double precision.

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
