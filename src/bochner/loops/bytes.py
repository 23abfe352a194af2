"""Features rounded to 8 bits: an entry z of column j is the whole number rint(127 z / bound_j), within -127 and 127."""

import numpy as np

from bochner.loops.compile import compiled, compiled_sums


@compiled
def quantise(Z, scale, out):
    """Write rint(Z scale) into the int8 array `out`; scale : array of shape (D,)."""
    for i in range(Z.shape[0]):
        z, q = Z[i], out[i]
        for j in range(scale.shape[0]):
            q[j] = np.int8(np.int32(np.rint(z[j] * scale[j])))


@compiled_sums
def project(Z, V, T):
    """Write V Z' into T. Z : int8 array of shape (b, D); V : array of shape (K, D); T : array of shape (K, b)."""
    for i in range(Z.shape[0]):
        z = Z[i]
        for k in range(V.shape[0]):
            v, total = V[k], V.dtype.type(0)
            for j in range(z.shape[0]):
                total += v[j] * z[j]
            T[k, i] = total


@compiled
def back_project(Z, T, Q):
    """Add T Z to Q; the shapes are those of `project`."""
    for i in range(Z.shape[0]):
        z = Z[i]
        for k in range(Q.shape[0]):
            q, t = Q[k], T[k, i]
            for j in range(z.shape[0]):
                q[j] += t * z[j]


@compiled_sums
def normal(Z, weight, V, Q):
    """Add V Z'WZ to Q, reading Z once: four rows at a time are projected, and back while they are in the cache.

    Z : int8 array of shape (b, D); weight : float32 array of shape (b,); V, Q : float32 arrays of shape (K, D).
    """
    n, D = Z.shape
    for i in range(0, n - 3, 4):
        a, b, c, d = Z[i], Z[i + 1], Z[i + 2], Z[i + 3]
        for k in range(V.shape[0]):
            v, q = V[k], Q[k]
            s, t, u, w = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
            for j in range(D):
                s += np.float32(a[j]) * v[j]
                t += np.float32(b[j]) * v[j]
                u += np.float32(c[j]) * v[j]
                w += np.float32(d[j]) * v[j]
            s, t, u, w = s * weight[i], t * weight[i + 1], u * weight[i + 2], w * weight[i + 3]
            for j in range(D):
                q[j] += s * np.float32(a[j]) + t * np.float32(b[j]) + u * np.float32(c[j]) + w * np.float32(d[j])
    for i in range(n // 4 * 4, n):
        z = Z[i]
        for k in range(V.shape[0]):
            v, q, t = V[k], Q[k], np.float32(0)
            for j in range(D):
                t += np.float32(z[j]) * v[j]
            t *= weight[i]
            for j in range(D):
                q[j] += t * np.float32(z[j])
