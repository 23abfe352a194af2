"""Features rounded to 8 bits: an entry z of column j is the whole number rint(127 z
/ bound_j), within -127 and 127.
"""

import numpy as np

from bochner.loops.compile import compiled, compiled_sums, use_wide_vectors


@compiled
def quantise(Z, centre, scale, out):
    """Write rint((Z - centre) scale) into the int8 array `out`; centre, scale :
    arrays of shape (D,).
    """
    use_wide_vectors()
    for i in range(Z.shape[0]):
        z, q = Z[i], out[i]
        for j in range(scale.shape[0]):
            q[j] = np.int8(np.int32(np.rint((z[j] - centre[j]) * scale[j])))


@compiled_sums
def project(Z, V, T):
    """Write V Z' into T. Z : int8 array of shape (b, D); V : array of shape (K, D);
    T : array of shape (K, b).
    """
    use_wide_vectors()
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
    use_wide_vectors()
    for i in range(Z.shape[0]):
        z = Z[i]
        for k in range(Q.shape[0]):
            q, t = Q[k], T[k, i]
            for j in range(z.shape[0]):
                q[j] += t * z[j]


@compiled
def _of(weight, i):
    """Weight of row i, zero beyond the last."""
    return weight[i] if i < weight.shape[0] else np.float32(0)


@compiled_sums
def normal(Z, weight, v, q):
    """Add v Z'WZ to q, reading Z once: six rows at a time are projected, and back while
    they are in the cache.

    Z : int8 array of shape (b, D); weight : float32 array of shape (b,); v, q : float32
    arrays of shape (D,). The last row stands with weight zero for those that six times
    some number would have beyond it.
    """
    use_wide_vectors()
    last, D = Z.shape[0] - 1, Z.shape[1]
    for i in range(0, last + 1, 6):
        a, b, c = Z[i], Z[min(i + 1, last)], Z[min(i + 2, last)]
        d, e, f = Z[min(i + 3, last)], Z[min(i + 4, last)], Z[min(i + 5, last)]
        r = s = t = u = x = y = np.float32(0)
        for j in range(D):
            r += np.float32(a[j]) * v[j]
            s += np.float32(b[j]) * v[j]
            t += np.float32(c[j]) * v[j]
            u += np.float32(d[j]) * v[j]
            x += np.float32(e[j]) * v[j]
            y += np.float32(f[j]) * v[j]
        r, s, t = r * weight[i], s * _of(weight, i + 1), t * _of(weight, i + 2)
        u, x, y = u * _of(weight, i + 3), x * _of(weight, i + 4), y * _of(weight, i + 5)
        for j in range(D):
            first = r * np.float32(a[j]) + s * np.float32(b[j]) + t * np.float32(c[j])
            q[j] += (
                first
                + u * np.float32(d[j])
                + x * np.float32(e[j])
                + y * np.float32(f[j])
            )


@compiled_sums
def normal_of_two(Z, weight, V, Q):
    """Add V Z'WZ to Q, both of shape (2, D), four rows at a time, whose entries are
    converted once for both.
    """
    use_wide_vectors()
    last, D = Z.shape[0] - 1, Z.shape[1]
    v, w, p, q = V[0], V[1], Q[0], Q[1]
    for i in range(0, last + 1, 4):
        a, b, c, d = Z[i], Z[min(i + 1, last)], Z[min(i + 2, last)], Z[min(i + 3, last)]
        r = s = t = u = x = y = z = o = np.float32(0)
        for j in range(D):
            e, f, g, h = (
                np.float32(a[j]),
                np.float32(b[j]),
                np.float32(c[j]),
                np.float32(d[j]),
            )
            r, s, t, u = r + e * v[j], s + f * v[j], t + g * v[j], u + h * v[j]
            x, y, z, o = x + e * w[j], y + f * w[j], z + g * w[j], o + h * w[j]
        k, l, m, n = (
            weight[i],
            _of(weight, i + 1),
            _of(weight, i + 2),
            _of(weight, i + 3),
        )
        r, s, t, u, x, y, z, o = r * k, s * l, t * m, u * n, x * k, y * l, z * m, o * n
        for j in range(D):
            e, f, g, h = (
                np.float32(a[j]),
                np.float32(b[j]),
                np.float32(c[j]),
                np.float32(d[j]),
            )
            p[j] += r * e + s * f + t * g + u * h
            q[j] += x * e + y * f + z * g + o * h
