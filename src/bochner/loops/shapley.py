"""Shapley values of products of factors, a factor for each column: the inner loops of exact explanations.

A wave exp(i sum_l a_l) of a row, and one of a background row with angles b_l, agree in the middles of the angles: with
h_l = (a_l - b_l) / 2 the value of a coalition is a corner of prod_l (cos h_l + i s sin h_l), s = 1 for columns that are
in it and -1 for others, times exp(i sum_l (a_l + b_l) / 2). The Shapley value of column k is then an integral over the
diagonal of the cube, 2 i sin h_k times the mean over s in [-1, 1] of the product of all factors but its own. At -s this
is the conjugate of what it is at s, so that the real parts at the positive half of the nodes of an even Gauss-Legendre
rule are its mean, exactly where the rule has as many nodes as half the columns.
"""

import numpy as np

from bochner.loops.compile import compiled_inside, compiled_sums, use_wide_vectors

WAVES = 32  # that go through all columns and nodes together, and stay in the fastest cache
_C, _S, _R, _I, _P, _Q, _SUM, _PARTS = (np.uint64(k) for k in range(8))  # rows of a column in the work array
_ONE, _STEP = np.uint64(1), np.uint64(WAVES)


@compiled_inside
def _all_but_one(work, n_active, x, w):
    """Add the real parts of the products of all factors but one at a node, times its weight, to the sum of each column.

    These are products of the factors before the column, times those of the factors after it.
    """
    for t in range(_STEP):
        work[_PARTS + _R, t] = w
        work[_PARTS + _I, t] = 0.0
        work[n_active * _PARTS + _P, t] = 1.0
        work[n_active * _PARTS + _Q, t] = 0.0
    for a in range(n_active):
        at = (a + _ONE) * _PARTS
        after = at + _PARTS
        for t in range(_STEP):
            c, s = work[at + _C, t], x * work[at + _S, t]
            p, q = work[at + _R, t], work[at + _I, t]
            work[after + _R, t] = p * c - q * s
            work[after + _I, t] = p * s + q * c
    for a in range(n_active):
        at = (n_active - a) * _PARTS
        before = at - _PARTS
        for t in range(_STEP):
            c, s = work[at + _C, t], x * work[at + _S, t]
            p, q = work[at + _P, t], work[at + _Q, t]
            work[at + _SUM, t] += work[at + _R, t] * p - work[at + _I, t] * q
            work[before + _P, t] = p * c - q * s
            work[before + _Q, t] = p * s + q * c


@compiled_sums
def add_waves(row_angles, background_angles, differ, rules, coef, values):
    """Add the Shapley values of waves, summed over the background rows, to `values`, shape (n, d, K).

    row_angles, background_angles : cosines and sines of half the angles, of shape (n, d, m) and (B, d, m), m a multiple
    of WAVES, and of their sums over the columns, (n, m) and (B, m). differ : bool array of shape (n, B, d). rules :
    number of nodes for each number of columns that differ, shape (d + 1,), and the positive nodes and their weights, in
    row h those of a rule of h. coef : real and imaginary parts of the coefficients, each of shape (K, m).

    What belongs to a column is side by side in one array, and indices are unsigned, so that the compiler knows that
    nothing overlaps.
    """
    use_wide_vectors()
    cosines, sines, real, imaginary = row_angles
    other_cosines, other_sines, other_real, other_imaginary = background_angles
    sizes, nodes, weights = rules
    work, active = np.empty((7 * (cosines.shape[1] + 2), WAVES)), np.empty(cosines.shape[1], np.int64)
    for block in range(np.uint64(cosines.shape[2] // WAVES)):
        first = block * _STEP
        for i in range(cosines.shape[0]):
            for b in range(other_cosines.shape[0]):
                count = 0
                for j in range(active.shape[0]):
                    if differ[i, b, j]:
                        active[count] = j
                        count += 1
                n_active, size = np.uint64(count), sizes[count]
                for a in range(n_active):
                    j, at = active[a], (a + _ONE) * _PARTS
                    for t in range(_STEP):
                        c, s = cosines[i, j, first + t], sines[i, j, first + t]
                        e, f = other_cosines[b, j, first + t], other_sines[b, j, first + t]
                        work[at + _C, t] = c * e + s * f
                        work[at + _S, t] = s * e - c * f
                        work[at + _SUM, t] = 0.0
                for h in range(size):
                    _all_but_one(work, n_active, nodes[size, h], weights[size, h])
                for k in range(values.shape[2]):
                    for t in range(_STEP):
                        c, s = real[i, first + t], imaginary[i, first + t]
                        e, f = other_real[b, first + t], other_imaginary[b, first + t]
                        turned = coef[0][k, first + t] * (c * f + s * e) + coef[1][k, first + t] * (c * e - s * f)
                        work[_R, t] = -2 * turned
                    for a in range(n_active):
                        at, total = (a + _ONE) * _PARTS, 0.0
                        for t in range(_STEP):
                            total += work[_R, t] * work[at + _S, t] * work[at + _SUM, t]
                        values[i, active[a], k] += total
