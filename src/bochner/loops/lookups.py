"""Numbers of known bins, and sums of their coefficients without arrays of the numbers in between.

The tables of all grids stand one after the other in one array of slots, each with a power of two of them, of which at
most half are full: the number of a bin, -1 where empty. Indices are unsigned, for which no sign is looked at: a
look-up takes half the time.
"""

import numpy as np

from bochner.loops.bins import _cell, hash_dense
from bochner.loops.compile import compiled, compiled_exactly, compiled_inside

_ONE, _MIX = np.uint64(1), np.uint64(0xD6E8FEB86659FD93)


@compiled_inside
def _shift(slots):
    """Bits of a hash beyond those that name a slot."""
    return np.uint64(64) - np.uint64(np.log2(slots.shape[0]))


@compiled_inside
def _slot(key, shift):
    """The first slot to look at: the leading bits of a product, on which all bits of the hash have an effect."""
    return (np.uint64(key) * _MIX) >> shift


@compiled_inside
def _find(key, shift, keys, slots):
    """The number of a bin, -1 for none."""
    slot, mask = _slot(key, shift), np.uint64(slots.shape[0] - 1)
    k = slots[slot]
    while k >= 0 and keys[np.uint32(k)] != key:
        slot = (slot + _ONE) & mask
        k = slots[slot]
    return k


@compiled
def fill_tables(keys, offsets, starts, slots):
    """Enter the bins of some grids, all different within each, into their empty tables.

    offsets, starts : int64 arrays of shape (P + 1,), the first bin and the first slot of each grid, and the ends.
    """
    for p in range(offsets.shape[0] - 1):
        own, table = keys[offsets[p] : offsets[p + 1]], slots[starts[p] : starts[p + 1]]
        shift, mask = _shift(table), np.uint64(table.shape[0] - 1)
        for k in range(own.shape[0]):
            slot = _slot(own[k], shift)
            while table[slot] >= 0:
                slot = (slot + _ONE) & mask
            table[slot] = k


@compiled
def look_up(hashes, keys, slots, ids):
    """Write the numbers of the rows' bins in one grid into `ids`, -1 for bins that have none."""
    shift = _shift(slots)
    for i in range(hashes.shape[0]):
        ids[i] = _find(hashes[i], shift, keys, slots)


@compiled_exactly
def add_coefficients(columns, low, high, lattices, tables, coef, sums):
    """Add the coefficients of the rows' bins in all grids, times the value of each grid, to `sums`.

    columns : array of shape (d, b); low, high : arrays of shape (d,), least and greatest value of each of its rows.
    lattices : inverses, shifts and multipliers of shape (P, F, d), values of shape (P,). tables : keys, offsets, starts
    and slots. coef : array of shape (D, K); sums : float64 array of shape (b, K).
    """
    inverses, shifts, multipliers, values = lattices
    keys, offsets, starts, slots = tables
    hashes = np.empty(columns.shape[1], np.int64)
    for p in range(values.shape[0]):
        hash_dense(columns, low, high, inverses[p], shifts[p], multipliers[p], hashes)
        own, table = slice(offsets[p], offsets[p + 1]), slots[starts[p] : starts[p + 1]]
        if sums.shape[1] == 1:
            _add_one(hashes, keys[own], table, values[p], coef[own, 0], sums[:, 0])
        else:
            _add_some(hashes, keys[own], table, values[p], coef[own], sums)


@compiled_exactly
def _add_one(hashes, keys, slots, value, coef, sums):
    shift = _shift(slots)
    for i in range(hashes.shape[0]):
        k = _find(hashes[i], shift, keys, slots)
        if k >= 0:
            sums[i] += value * coef[np.uint32(k)]


@compiled_exactly
def _add_some(hashes, keys, slots, value, coef, sums):
    shift = _shift(slots)
    for i in range(hashes.shape[0]):
        k = _find(hashes[i], shift, keys, slots)
        if k >= 0:
            for c in range(sums.shape[1]):
                sums[i, c] += value * coef[np.uint32(k), c]


@compiled_exactly
def add_few(X, lattices, tables, coef, sums):
    """Do what `add_coefficients` does, to the bit, for a few rows of an array of shape (b, d).

    They are hashed one by one, and in the loop over the grids no part of an array is named, which would cost more than
    what is done with it.
    """
    inverses, shifts, multipliers, values = lattices
    keys, offsets, starts, slots = tables
    for i in range(X.shape[0]):
        for p in range(values.shape[0]):
            key = np.int64(0)
            for f in range(inverses.shape[1]):
                for j in range(X.shape[1]):
                    key += multipliers[p, f, j] * _cell(X[i, j], inverses[p, f, j], shifts[p, f, j])
            first, start, size = offsets[p], starts[p], starts[p + 1] - starts[p]
            slot = np.int64(_slot(key, np.uint64(64) - np.uint64(np.log2(size))))
            while slots[start + slot] >= 0 and keys[first + slots[start + slot]] != key:
                slot = (slot + 1) & (size - 1)
            k = slots[start + slot]
            if k >= 0:
                for c in range(sums.shape[1]):
                    sums[i, c] += values[p] * coef[first + k, c]
