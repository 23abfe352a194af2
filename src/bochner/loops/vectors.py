"""The vector arithmetic of conjugate gradients, each line one pass over its arrays; sums are in double precision."""

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
def descend(x, r, p, q, step):
    """Add step p to x, take step q from r, and return the squared length of r."""
    total = 0.0
    for i in range(x.shape[0]):
        x[i] += step * p[i]
        r[i] -= step * q[i]
        total += np.float64(r[i]) * np.float64(r[i])
    return total


@compiled
def accumulate(a, b, factor):
    """Add factor b to a, and return zero."""
    for i in range(a.shape[0]):
        a[i] += factor * b[i]
    return 0.0


@compiled_sums
def penalise(q, p, penalty):
    """Add the products of p and penalty, an array of the length of p or of length 1, to q; return p'q."""
    total = 0.0
    if penalty.shape[0] == 1:
        only = penalty[0]
        for i in range(q.shape[0]):
            q[i] += only * p[i]
            total += np.float64(p[i]) * np.float64(q[i])
    else:
        for i in range(q.shape[0]):
            q[i] += penalty[i] * p[i]
            total += np.float64(p[i]) * np.float64(q[i])
    return total


@compiled
def redirect(p, z, ratio):
    """Overwrite p by z + ratio p, and return zero."""
    for i in range(p.shape[0]):
        p[i] = z[i] + ratio * p[i]
    return 0.0
