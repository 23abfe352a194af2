"""Grids and their bins, the inner loops of random binning features.

A bin is a vector of whole numbers, floor(x_j / pitch_j - shift_j); its hash is their
sum weighted by random 64-bit multipliers, modulo 2^64. The bins of one grid are
numbered in the order of their first row: `keys[k]` is the hash of bin k, and `slots` an
open-addressing table of the numbers, -1 where empty, of which at most half is full.
"""

import numpy as np

from bochner.loops.compile import (
    compiled,
    compiled_exactly,
    compiled_inside,
    use_wide_vectors,
)

# Coordinates beyond share a bin; with 9 trailing zero bits its hash is random, with 62
# it is not
FAR = 2.0**62 - 512
NEAR, _ANCHOR = 2.0**50, 1.5 * 2.0**52
_ANCHOR_BITS = np.int64(np.array(_ANCHOR).view(np.int64))
_BUMP = 30.0**0.5


@compiled_inside
def _cell(x, inverse, shift):
    """The cell of a value, in loops that are compiled exactly."""
    t = np.floor(x * inverse - shift)
    t = t if t > -FAR else -FAR
    return np.int64(t if t < FAR else FAR)


@compiled_exactly
def hash_dense(X, low, high, inverses, shifts, multipliers, out):
    """Hash the rows of X, given by columns, in one grid.

    X : array of shape (d, b); low, high : arrays of shape (d,), least and greatest
    value of each of its rows.
    inverses, shifts : arrays of shape (F, d), one over the pitches of F lattices and
    their shifts over the pitches.
    multipliers : int64 array of shape (F, d). out : int64 array of shape (b,).

    A whole number below 2^50 that is added to 1.5 times 2^52 stands in the last bits of
    the sum, which are taken as they are: few processors turn eight numbers into
    integers at once.
    """
    use_wide_vectors()
    for i in range(out.shape[0]):
        out[i] = 0
    constant = np.int64(0)
    for f in range(inverses.shape[0]):
        for j in range(X.shape[0]):
            inverse, shift, multiplier = inverses[f, j], shifts[f, j], multipliers[f, j]
            first, last = (
                np.floor(low[j] * inverse - shift),
                np.floor(high[j] * inverse - shift),
            )
            column = X[j]
            if first == last and abs(first) < NEAR:
                constant += multiplier * np.int64(first)
            elif first > -NEAR and last < NEAR:
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
    """Hash the rows of a CSR matrix in one grid, equal to `hash_dense` of the same
    rows.
    """
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
                total += multipliers[f, j] * (
                    _cell(data[k], inverse, shift) - _cell(0.0, inverse, shift)
                )
        out[i] = total


@compiled
def weigh(X, inverses, shifts, smooth, out):
    """Multiply `out` by sqrt(30) s (1 - s) for each column of X in each smooth lattice,
    s the place inside the bin.

    X : array of shape (d, b); inverses, shifts : arrays of shape (F, d); smooth : bool
    array of shape (F,). Beyond 2^62 pitches a row's place is not known, and its weight
    is 0. Columns of infinite pitch have no weight.
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
                s = t - np.floor(t) if abs(t) < FAR else 0.0
                out[i] *= _BUMP * s * (1 - s)


_MIX = np.uint64(0xD6E8FEB86659FD93)


@compiled_inside
def slot_of(key, keys, first, slots, start, end, shift):
    """The slot of a hash, or the empty one that it would have, in the part of `slots`
    from `start` to `end`, whose numbers are those of `keys` from `first` on.

    The first slot to look at is told by the leading bits of a product, on which all
    bits of the hash have an effect; shift : the bits of a hash beyond those that name a
    slot.
    """
    slot = start + np.int64((np.uint64(key) * _MIX) >> shift)
    while slots[slot] >= 0 and keys[first + slots[slot]] != key:
        slot = slot + 1 if slot + 1 < end else start
    return slot


@compiled
def number(hashes, keys, counts, slots, count, ids):
    """Number the bins of some rows, new ones from `count` on, and count their rows.

    Writes the number of each row's bin into `ids`, and stops at the first row that
    `keys` has no room for. Returns the new number of bins, and the rows that are done.
    Where `count` is negative, bins that are new get the number -1, and nothing is
    counted.

    hashes, keys : int64 arrays; slots : a power of two of them.
    """
    shift = np.uint64(64) - np.uint64(np.log2(slots.shape[0]))
    for i in range(hashes.shape[0]):
        key = hashes[i]
        slot = slot_of(key, keys, 0, slots, 0, slots.shape[0], shift)
        if count < 0:
            ids[i] = slots[slot]
            continue
        if slots[slot] < 0:
            if count == keys.shape[0]:
                return count, i
            slots[slot], keys[count] = count, key
            count += 1
        k = slots[slot]
        counts[k] += 1
        ids[i] = k
    return count, hashes.shape[0]


@compiled_inside
def bucket_of(key, n_buckets):
    """The bucket of a hash."""
    h = np.uint64(key)
    h ^= h >> np.uint64(32)
    h *= _MIX
    return np.int32(((h >> np.uint64(32)) * np.uint64(n_buckets)) >> np.uint64(32))


@compiled
def bucket(hashes, n_buckets, ids):
    """Write a bucket below `n_buckets`, at most 2^31, for each hash."""
    for i in range(hashes.shape[0]):
        ids[i] = bucket_of(hashes[i], n_buckets)


@compiled
def gather(ids, values, offsets, V, start, stop, T):
    """Add V Z' to T in the rows from `start` to `stop`, where each grid has one value.

    ids : int32 array of shape (P, n), -1 for no bin; values : array of P or more, of
    which that of the last grid is a half where P is odd: grids are added in pairs, in
    one pass over T, and the last one with itself. offsets : int64 array of shape (P +
    1,), the first column of each grid; V : array of shape (K, D); T : array of shape
    (K, n).
    """
    P, zero = ids.shape[0], T.dtype.type(0)
    for p in range(0, P, 2):
        q = min(p + 1, P - 1)
        first, second, a, b = (
            ids[p, start:stop],
            ids[q, start:stop],
            values[p],
            values[q],
        )
        for k in range(V.shape[0]):
            v, w, t = V[k, offsets[p] :], V[k, offsets[q] :], T[k, start:stop]
            for i in range(t.shape[0]):
                j, m = first[i], second[i]
                t[i] += a * (v[j] if j >= 0 else zero) + b * (w[m] if m >= 0 else zero)


@compiled
def scatter(ids, values, offsets, T, Q):
    """Add T Z to Q, of shape (K, D); T : array of shape (K, n); the other arguments are
    those of `gather`.

    Four grids at a time, whose additions do not wait for one another. There are values
    up to a multiple of four: the half of a last odd grid once more, as that is added
    twice, and zeros.
    """
    last = ids.shape[0] - 1
    for p in range(0, last + 1, 4):
        q, r, s = min(p + 1, last), min(p + 2, last), min(p + 3, last)
        first, second, third, fourth = ids[p], ids[q], ids[r], ids[s]
        a, b, c, d = values[p], values[p + 1], values[p + 2], values[p + 3]
        for k in range(T.shape[0]):
            u, v, w, x = (
                Q[k, offsets[p] :],
                Q[k, offsets[q] :],
                Q[k, offsets[r] :],
                Q[k, offsets[s] :],
            )
            t = T[k]
            for i in range(t.shape[0]):
                j, l, m, o = first[i], second[i], third[i], fourth[i]
                if j >= 0:
                    u[j] += a * t[i]
                if l >= 0:
                    v[l] += b * t[i]
                if m >= 0:
                    w[m] += c * t[i]
                if o >= 0:
                    x[o] += d * t[i]


@compiled
def gather_weighted(ids, values, offsets, V, start, stop, T):
    """Add V Z' to T as `gather` does, where each row has values of its own, of shape
    (P, n).
    """
    for p in range(ids.shape[0]):
        for k in range(V.shape[0]):
            for i in range(start, stop):
                if ids[p, i] >= 0:
                    T[k, i] += values[p, i] * V[k, offsets[p] + ids[p, i]]


@compiled
def scatter_weighted(ids, values, offsets, T, Q):
    """Add T Z to Q as `scatter` does, where each row has values of its own, of shape
    (P, n).
    """
    for p in range(ids.shape[0]):
        for k in range(T.shape[0]):
            for i in range(T.shape[1]):
                if ids[p, i] >= 0:
                    Q[k, offsets[p] + ids[p, i]] += values[p, i] * T[k, i]


@compiled_exactly
def add_coefficients(columns, low, high, lattices, tables, coef, sums):
    """Add the coefficients of the rows' bins in all grids, times the value of each
    grid, to `sums`.

    columns : array of shape (d, b); low, high : arrays of shape (d,), least and
    greatest value of each of its rows.
    lattices : inverses, shifts and multipliers of shape (P, F, d), values of shape
    (P,). tables : keys, offsets, starts, bits of a hash beyond those that name a slot,
    and slots. coef : array of shape (D, K); sums : float64 array of shape (b, K).
    """
    inverses, shifts, multipliers, values = lattices
    keys, offsets, starts, bits, slots = tables
    hashes = np.empty(columns.shape[1], np.int64)
    for p in range(values.shape[0]):
        hash_dense(columns, low, high, inverses[p], shifts[p], multipliers[p], hashes)
        first, start, end, value = offsets[p], starts[p], starts[p + 1], values[p]
        for i in range(hashes.shape[0]):
            k = slots[slot_of(hashes[i], keys, first, slots, start, end, bits[p])]
            if k >= 0:
                for c in range(sums.shape[1]):
                    sums[i, c] += value * coef[first + k, c]


@compiled_exactly
def add_few(X, lattices, at_zero, reach, tables, coef, sums):
    """Do what `add_coefficients` does, to the bit, for a few rows of an array of shape
    (b, d).

    Rows are hashed one by one, in all grids at a time, and by their entries that are
    not zero: of columns of categories these are few. In the loops no part of an array
    is named, which would cost more than what is done with it.

    lattices : as of `add_coefficients`, but of shape (F, d, P). at_zero : int64 array
    of shape (P,), the hashes of a row of zeros. reach : array of shape (F, d), the
    sizes from which on a column's cells may not be near.
    """
    inverses, shifts, multipliers, values = lattices
    keys, offsets, starts, bits, slots = tables
    hashes = np.empty(values.shape[0], np.int64)
    for i in range(X.shape[0]):
        for p in range(hashes.shape[0]):
            hashes[p] = at_zero[p]
        for f in range(inverses.shape[0]):
            for j in range(X.shape[1]):
                x = np.float64(X[i, j])
                if x == 0:
                    continue
                if abs(x) < reach[f, j]:
                    for p in range(hashes.shape[0]):
                        shift = shifts[f, j, p]
                        there = np.float64(
                            np.floor(x * inverses[f, j, p] - shift) + _ANCHOR
                        ).view(np.int64)
                        zero = np.float64(np.floor(-shift) + _ANCHOR).view(np.int64)
                        hashes[p] += multipliers[f, j, p] * (there - zero)
                else:
                    for p in range(hashes.shape[0]):
                        inverse, shift = inverses[f, j, p], shifts[f, j, p]
                        hashes[p] += multipliers[f, j, p] * (
                            _cell(x, inverse, shift) - _cell(0.0, inverse, shift)
                        )
        for p in range(hashes.shape[0]):
            first, start, end = offsets[p], starts[p], starts[p + 1]
            k = slots[slot_of(hashes[p], keys, first, slots, start, end, bits[p])]
            if k >= 0:
                for c in range(sums.shape[1]):
                    sums[i, c] += values[p] * coef[first + k, c]


TILE = 16  # of a panel that is written to both sides of the diagonal


@compiled
def count_pairs(first, second, third, panels):
    """Count the rows in each bin of the first grid and each of the second, and in each
    of the first and of the third.

    first, second, third : unsigned integer arrays of shape (n,), below B; panels :
    int32 array of shape (2, B, B), which is added to.
    """
    B = panels.shape[1]
    one, other = panels[0].reshape(B * B), panels[1].reshape(B * B)
    for i in range(first.shape[0]):
        row = int(first[i]) * B
        one[row + int(second[i])] += 1
        other[row + int(third[i])] += 1


@compiled
def sum_pairs(first, second, third, of_second, of_third, panels):
    """Add values of shape (n,) for the second and the third grid, row by row, where
    `count_pairs` counts.
    """
    B = panels.shape[1]
    one, other = panels[0].reshape(B * B), panels[1].reshape(B * B)
    for i in range(first.shape[0]):
        row = int(first[i]) * B
        one[row + int(second[i])] += of_second[i]
        other[row + int(third[i])] += of_third[i]


@compiled
def sum_rows(first, T, sums):
    """Add T, of shape (K, n), to sums, of shape (K, B), in the bin of each row."""
    for k in range(T.shape[0]):
        t, total = T[k], sums[k]
        for i in range(first.shape[0]):
            total[int(first[i])] += t[i]


@compiled
def add_panel(panel, scale, below, above):
    """Add a panel times a number to a block below the diagonal, and copy the block to
    its place above.

    panel, below, above : arrays of shape (B, B); the last two are the same one on the
    diagonal.
    """
    B = panel.shape[0]
    for a in range(0, B, TILE):
        for b in range(0, B, TILE):
            for i in range(a, min(a + TILE, B)):
                for j in range(b, min(b + TILE, B)):
                    total = below[i, j] + scale * panel[i, j]
                    below[i, j] = total
                    above[j, i] = total
