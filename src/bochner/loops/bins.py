"""Grids and their bins, the inner loops of random binning features.

A bin is a vector of whole numbers, floor(x_j / pitch_j - shift_j); its hash is their sum weighted by random 64-bit
multipliers, modulo 2^64. The bins of one grid are numbered in the order of their first row: `keys[k]` is the hash of
bin k, and `slots` an open-addressing table of the numbers, -1 where empty, of which at most half is full.
"""

import numpy as np

from bochner.loops.compile import compiled, compiled_exactly, use_wide_vectors

_FAR = 2.0**62 - 512  # coordinates beyond share a bin; with 9 trailing zero bits its hash is random, with 62 it is not
_NEAR, _ANCHOR = 2**50, 1.5 * 2**52
_ANCHOR_BITS = np.int64(np.array(_ANCHOR).view(np.int64))
_BUMP = 30.0**0.5


@compiled_exactly
def _cell(x, inverse, shift):
    t = np.floor(x * inverse - shift)
    return np.int64(min(max(t, -_FAR), _FAR))


@compiled_exactly
def hash_dense(X, low, high, inverses, shifts, multipliers, out):
    """Hash the rows of X, given by columns, in one grid.

    X : array of shape (d, b); low, high : arrays of shape (d,), least and greatest value of each of its rows.
    inverses, shifts : arrays of shape (F, d), one over the pitches of F lattices and their shifts over the pitches.
    multipliers : int64 array of shape (F, d). out : int64 array of shape (b,).

    A whole number below 2^50 that is added to 1.5 times 2^52 stands in the last bits of the sum, which are taken as
    they are: few processors turn eight numbers into integers at once.
    """
    use_wide_vectors()
    out[:] = 0
    constant = np.int64(0)
    for f in range(inverses.shape[0]):
        for j in range(X.shape[0]):
            inverse, shift, multiplier = inverses[f, j], shifts[f, j], multipliers[f, j]
            first, last = _cell(low[j], inverse, shift), _cell(high[j], inverse, shift)
            column = X[j]
            if first == last:
                constant += multiplier * first
            elif first > -_NEAR and last < _NEAR:
                constant -= multiplier * _ANCHOR_BITS
                for i in range(column.shape[0]):
                    anchored = np.floor(column[i] * inverse - shift) + _ANCHOR
                    out[i] += multiplier * np.float64(anchored).view(np.int64)
            else:
                for i in range(column.shape[0]):
                    out[i] += multiplier * _cell(column[i], inverse, shift)
    for i in range(out.shape[0]):
        out[i] += constant


@compiled_exactly
def hash_sparse(indptr, indices, data, inverses, shifts, multipliers, out):
    """Hash the rows of a CSR matrix in one grid, equal to `hash_dense` of the same rows."""
    constant = np.int64(0)
    for f in range(inverses.shape[0]):
        for j in range(inverses.shape[1]):
            constant += multipliers[f, j] * _cell(0.0, inverses[f, j], shifts[f, j])
    for i in range(out.shape[0]):
        total = constant
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            for f in range(inverses.shape[0]):
                inverse, shift = inverses[f, j], shifts[f, j]
                total += multipliers[f, j] * (_cell(data[k], inverse, shift) - _cell(0.0, inverse, shift))
        out[i] = total


@compiled
def weigh(X, inverses, shifts, smooth, out):
    """Multiply `out` by sqrt(30) s (1 - s) for each column of X in each smooth lattice, s the place inside the bin.

    X : array of shape (d, b); inverses, shifts : arrays of shape (F, d); smooth : bool array of shape (F,). Beyond 2^62
    pitches a row's place is not known, and its weight is 0. Columns of infinite pitch have no weight.
    """
    for f in range(inverses.shape[0]):
        if not smooth[f]:
            continue
        for j in range(X.shape[0]):
            column, inverse, shift = X[j], inverses[f, j], shifts[f, j]
            if inverse == 0:
                continue
            for i in range(column.shape[0]):
                t = column[i] * inverse - shift
                s = t - np.floor(t) if abs(t) < _FAR else 0.0
                out[i] *= _BUMP * s * (1 - s)


@compiled
def _slot(key, mask):
    """Scatter the bits of a hash (a finaliser of xor-shifts and multiplications), and take the last ones."""
    h = np.uint64(key)
    h ^= h >> np.uint64(32)
    h *= np.uint64(0xD6E8FEB86659FD93)
    h ^= h >> np.uint64(32)
    return np.int64(h & np.uint64(mask))


@compiled
def number(hashes, keys, counts, slots, count, ids):
    """Number the bins of some rows, new ones from `count` on, and count their rows.

    Writes the number of each row's bin into `ids` and returns the new number of bins.
    """
    mask = slots.shape[0] - 1
    for i in range(hashes.shape[0]):
        key = hashes[i]
        slot = _slot(key, mask)
        while slots[slot] >= 0 and keys[slots[slot]] != key:
            slot = (slot + 1) & mask
        if slots[slot] < 0:
            slots[slot] = count
            keys[count] = key
            count += 1
        k = slots[slot]
        counts[k] += 1
        ids[i] = k
    return count


@compiled
def fill(keys, slots):
    """Enter the bins of one grid, all different, into its empty table."""
    mask = slots.shape[0] - 1
    for k in range(keys.shape[0]):
        slot = _slot(keys[k], mask)
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = k


@compiled
def bucket(hashes, n_buckets, ids):
    """Write a bucket below `n_buckets`, at most 2^31, for each hash."""
    for i in range(hashes.shape[0]):
        h = np.uint64(hashes[i])
        h ^= h >> np.uint64(32)
        h *= np.uint64(0xD6E8FEB86659FD93)
        ids[i] = np.int32(((h >> np.uint64(32)) * np.uint64(n_buckets)) >> np.uint64(32))


@compiled
def gather(ids, values, offsets, V, start, stop, T):
    """Add V Z' to T for the rows from `start` to `stop` of Z.

    ids : int32 array of shape (P, n), -1 for no bin; values : array of shape (P, n), or (P, 1) where each grid has one;
    offsets : array of shape (P,), the first column of each grid; V : array of shape (K, D); T : (K, stop - start).
    """
    P = ids.shape[0]
    for p in range(0, P, 2):
        if values.shape[1] == 1 and p + 1 < P:
            for k in range(V.shape[0]):
                v, w, a, b = V[k, offsets[p] :], V[k, offsets[p + 1] :], values[p, 0], values[p + 1, 0]
                _gather_two(ids[p, start:stop], ids[p + 1, start:stop], v, w, a, b, T[k])
            continue
        for q in range(p, min(p + 2, P)):
            row, weights = ids[q, start:stop], values[q, start:stop] if values.shape[1] > 1 else values[q]
            for k in range(V.shape[0]):
                _gather_one(row, V[k, offsets[q] :], weights, T[k])


@compiled
def _gather_two(first, second, v, w, a, b, t):
    """Add a v and b w at the rows' bins in two grids: one pass over t for both."""
    zero = t.dtype.type(0)
    for i in range(t.shape[0]):
        one = v[first[i]] if first[i] >= 0 else zero
        other = w[second[i]] if second[i] >= 0 else zero
        t[i] += a * one + b * other


@compiled
def _gather_one(row, v, weights, t):
    many = weights.shape[0] > 1
    for i in range(t.shape[0]):
        if row[i] >= 0:
            t[i] += weights[i if many else 0] * v[row[i]]


@compiled
def scatter(ids, values, offsets, T, Q):
    """Add T Z to Q, of shape (K, D); T : array of shape (K, n); the other arguments are those of `gather`."""
    P = ids.shape[0]
    for p in range(0, P, 2):
        if values.shape[1] == 1 and p + 1 < P:
            for k in range(T.shape[0]):
                v, w, a, b = Q[k, offsets[p] :], Q[k, offsets[p + 1] :], values[p, 0], values[p + 1, 0]
                _scatter_two(ids[p], ids[p + 1], T[k], a, b, v, w)
            continue
        for q in range(p, min(p + 2, P)):
            for k in range(T.shape[0]):
                _scatter_one(ids[q], T[k], values[q], Q[k, offsets[q] :])


@compiled
def _scatter_two(first, second, t, a, b, v, w):
    """Add a t and b t to v and w at the rows' bins in two grids, whose additions do not wait for one another."""
    for i in range(t.shape[0]):
        if first[i] >= 0:
            v[first[i]] += a * t[i]
        if second[i] >= 0:
            w[second[i]] += b * t[i]


@compiled
def _scatter_one(row, t, weights, v):
    many = weights.shape[0] > 1
    for i in range(t.shape[0]):
        if row[i] >= 0:
            v[row[i]] += weights[i if many else 0] * t[i]
