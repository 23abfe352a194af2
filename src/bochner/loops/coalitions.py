"""Shapley values of products of factors, a factor for each column: the inner loops of
exact explanations.

A wave exp(i sum_l a_l) of a row, and one of a background row with angles b_l, agree in
the middles of the angles: with h_l = (a_l - b_l) / 2 the value of a coalition is a
corner of prod_l (cos h_l + i s sin h_l), s = 1 for columns that are in it and -1 for
others, times exp(i sum_l (a_l + b_l) / 2). The Shapley value of column k is then an
integral over the diagonal of the cube, 2 i sin h_k times the mean over s in [-1, 1] of
the product of all factors but its own. At -s this is the conjugate of what it is at s,
so that the real parts at the positive half of the nodes of an even Gauss-Legendre rule
are its mean, exactly where the rule has as many nodes as half the columns.
"""

import numpy as np

from bochner.loops.bins import bucket_of, slot_of
from bochner.loops.compile import (
    compiled_exactly,
    compiled_inside,
    compiled_sums,
    use_wide_vectors,
)

# That go through all columns and nodes together, and stay in the fastest cache
WAVES = 32
# Rows of a column in the work array
_C, _S, _R, _I, _P, _Q, _SUM, _PARTS = (np.uint64(k) for k in range(8))
_LOW = 10  # columns of whose coalitions all hashes are held
_ONE, _STEP = np.uint64(1), np.uint64(WAVES)


@compiled_inside
def _all_but_one(work, n_active, x, w):
    """Add the real parts of the products of all factors but one at a node, times its
    weight, to the sum of each column.

    These are products of the factors before the column, times those of the factors
    after it.
    """
    for t in range(_STEP):
        work[_PARTS + _R, t] = w
        work[_PARTS + _I, t] = 0.0
        work[n_active * _PARTS + _P, t] = 1.0
        work[n_active * _PARTS + _Q, t] = 0.0
    for a in range(n_active):
        offset = (a + _ONE) * _PARTS
        after = offset + _PARTS
        for t in range(_STEP):
            c, s = work[offset + _C, t], x * work[offset + _S, t]
            p, q = work[offset + _R, t], work[offset + _I, t]
            work[after + _R, t] = p * c - q * s
            work[after + _I, t] = p * s + q * c
    for a in range(n_active):
        offset = (n_active - a) * _PARTS
        before = offset - _PARTS
        for t in range(_STEP):
            c, s = work[offset + _C, t], x * work[offset + _S, t]
            p, q = work[offset + _P, t], work[offset + _Q, t]
            work[offset + _SUM, t] += (
                work[offset + _R, t] * p - work[offset + _I, t] * q
            )
            work[before + _P, t] = p * c - q * s
            work[before + _Q, t] = p * s + q * c


@compiled_inside
def _all_but_two(work, pairs, n_active, x):
    """Add the real parts of the products of all factors but two, after
    `_all_but_one` at the same node.
    """
    pair = 0
    for a in range(n_active):
        offset = (a + _ONE) * _PARTS
        for t in range(_STEP):
            work[_P, t] = work[offset + _R, t]
            work[_Q, t] = work[offset + _I, t]
        for b in range(a + _ONE, n_active):
            offset = (b + _ONE) * _PARTS
            for t in range(_STEP):
                p, q = work[_P, t], work[_Q, t]
                c, s = work[offset + _C, t], x * work[offset + _S, t]
                pairs[pair, t] += p * work[offset + _P, t] - q * work[offset + _Q, t]
                work[_P, t] = p * c - q * s
                work[_Q, t] = p * s + q * c
            pair += 1


@compiled_sums
def add_waves(row_angles, background_angles, differ, rules, coef, values):
    """Add the Shapley values of waves, summed over the background rows, to `values`,
    shape (n, d, 1, K); or their interactions, to values of shape (n, d, d, K), above
    the diagonal.

    row_angles, background_angles : cosines and sines of half the angles, of shape (n,
    d, m) and (B, d, m), m a multiple of WAVES, and of their sums over the columns, (n,
    m) and (B, m). differ : bool array of shape (n, B, d). rules : number of nodes for
    each number of columns that differ, shape (d + 1,), and the positive nodes and their
    weights, in row h those of a rule of h. coef : real and imaginary parts of the
    coefficients, each of shape (K, m).

    Interactions of two columns are -4 sin h_j sin h_k times the mean of the product of
    all other factors.

    What belongs to a column is side by side in one array, and indices are unsigned, so
    that the compiler knows that nothing overlaps.
    """
    use_wide_vectors()
    cosines, sines, real, imaginary = row_angles
    other_cosines, other_sines, other_real, other_imaginary = background_angles
    sizes, nodes, weights = rules
    d, pairwise = values.shape[1], values.shape[2] > 1
    work, active = np.empty((7 * (d + 2), WAVES)), np.empty(d, np.int64)
    pairs = np.empty((d * (d - 1) // 2 if pairwise else 0, WAVES))
    for block in range(np.uint64(real.shape[1] // WAVES)):
        first = block * _STEP
        for i in range(real.shape[0]):
            for b in range(other_real.shape[0]):
                # The factors of the columns that differ between the two rows, one after
                # another
                count = 0
                for j in range(d):
                    if differ[i, b, j]:
                        active[count] = j
                        count += 1
                n_active, size = np.uint64(count), sizes[count]
                for a in range(n_active):
                    j, offset = active[a], (a + _ONE) * _PARTS
                    for t in range(_STEP):
                        c, s = cosines[i, j, first + t], sines[i, j, first + t]
                        e, f = (
                            other_cosines[b, j, first + t],
                            other_sines[b, j, first + t],
                        )
                        work[offset + _C, t] = c * e + s * f
                        work[offset + _S, t] = s * e - c * f
                        work[offset + _SUM, t] = 0.0
                pairs[: count * (count - 1) // 2] = 0.0
                for h in range(size):
                    _all_but_one(work, n_active, nodes[size, h], weights[size, h])
                    if pairwise:
                        _all_but_two(work, pairs, n_active, nodes[size, h])
                for k in range(values.shape[3]):
                    for t in range(_STEP):
                        c, s = real[i, first + t], imaginary[i, first + t]
                        e, f = other_real[b, first + t], other_imaginary[b, first + t]
                        u, v = coef[0][k, first + t], coef[1][k, first + t]
                        even, odd = c * e - s * f, c * f + s * e
                        turned = (
                            2 * (u * even - v * odd) if pairwise else u * odd + v * even
                        )
                        work[_R, t] = -2 * turned
                    pair = 0
                    for a in range(n_active):
                        offset, total = (a + _ONE) * _PARTS, 0.0
                        if not pairwise:
                            for t in range(_STEP):
                                total += (
                                    work[_R, t]
                                    * work[offset + _S, t]
                                    * work[offset + _SUM, t]
                                )
                            values[i, active[a], 0, k] += total
                            continue
                        for other in range(a + _ONE, n_active):
                            after, total = (other + _ONE) * _PARTS, 0.0
                            for t in range(_STEP):
                                total += (
                                    work[_R, t]
                                    * work[offset + _S, t]
                                    * work[after + _S, t]
                                    * pairs[pair, t]
                                )
                            values[i, active[a], active[other], k] += total
                            pair += 1


@compiled_exactly
def add_corners(row_hashes, other, counts, table, coef, shares, values):
    """Add the Shapley values of the bins of one grid, summed over the background rows,
    to `values`.

    row_hashes, other : int64 arrays of shape (d, n) and (d, B), parts of the hashes of
    rows and of background rows by column.
    counts : array of shape (B,), how many background rows each stands for. table : keys
    and slots of the grid, and the number of its buckets, 0 for none. coef : array of
    shape (D, K), of the bins of the grid. shares : array of shape (d + 1, d + 1),
    weights of a coalition of s of m columns, without the column, in row m. values :
    array of shape (n, d, 1, K); or of shape (n, d, d, K) for the interactions of pairs
    of columns, above the diagonal.

    A row and a background row that are in different intervals of m columns span a box
    of 2^m bins, whose hashes are sums of differences. A corner that no training row has
    occupied has no coefficient. One with a coefficient is like a leaf of a tree that is
    reached if certain columns are of the row, and all others are of the background row.
    """
    keys, slots, n_buckets = table
    d, K, pairwise = values.shape[1], values.shape[3], values.shape[2] > 1
    active, deltas = np.empty(d, np.int64), np.empty(d, np.int64)
    corners, sizes = (
        np.zeros(1 << min(d, _LOW), np.int64),
        np.zeros(1 << min(d, _LOW), np.int64),
    )
    shift = np.uint64(64) - np.uint64(np.log2(max(slots.shape[0], 2)))
    for i in range(row_hashes.shape[1]):
        for b in range(other.shape[1]):
            # Columns in whose intervals the two rows differ, and the hashes of all
            # coalitions of the first of them
            count, start = 0, np.int64(0)
            for j in range(d):
                delta = row_hashes[j, i] - other[j, b]
                start += other[j, b]
                if delta != 0:
                    active[count], deltas[count] = j, delta
                    count += 1
            low = min(count, _LOW)
            for a in range(low):
                half = 1 << a
                for s in range(half):
                    corners[half + s] = corners[s] + deltas[a]
                    sizes[half + s] = sizes[s] + 1
            for high in range(1 << (count - low)):
                first, others = start, 0
                for a in range(low, count):
                    if (high >> (a - low)) & 1:
                        first, others = first + deltas[a], others + 1
                for s in range(1 << low):
                    # The number of the bin in its grid, -1 for none
                    key = first + corners[s]
                    if n_buckets > 0:
                        k = np.int64(bucket_of(key, n_buckets))
                    else:
                        slot = slot_of(key, keys, 0, slots, 0, slots.shape[0], shift)
                        k = np.int64(slots[slot])
                    if k < 0:
                        continue
                    members, size = (high << low) | s, others + sizes[s]
                    for a in range(count):
                        inside = (members >> a) & 1
                        if not pairwise:
                            share = counts[b] * (
                                shares[count, size - 1]
                                if inside
                                else -shares[count, size]
                            )
                            for c in range(K):
                                values[i, active[a], 0, c] += share * coef[k, c]
                            continue
                        for z in range(a + 1, count):
                            both = inside + ((members >> z) & 1)
                            share = (
                                counts[b]
                                * shares[count - 1, size - both]
                                * (1.0 if both != 1 else -1.0)
                            )
                            for c in range(K):
                                values[i, active[a], active[z], c] += share * coef[k, c]
