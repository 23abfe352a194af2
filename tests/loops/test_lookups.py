"""Tables of bins against dictionaries, and sums of coefficients against sums over
them.
"""

import numpy as np
import pytest

from bochner.features.grids import Grids, Lookups, by_columns
from bochner.loops.bins import add_coefficients, add_few, hash_dense

PRECISIONS = pytest.mark.parametrize("dtype", [np.float32, np.float64])
EPS = np.finfo(float).eps


def tables(pools):
    """Tables of the bins of some grids, in the order of their keys."""
    offsets = np.concatenate([[0], np.cumsum([len(pool) for pool in pools])]).astype(
        np.int64
    )
    return Lookups(np.concatenate(pools), offsets, len(pools))


def pool(size, seed):
    """Hashes: random ones, ones that differ in their leading or their last bits
    only, and multiples of one number.
    """
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        multiples = np.arange(1, size) * rng.integers(-(2**63), 2**63)
    some = [
        rng.integers(-(2**63), 2**63, size),
        np.arange(size) << 32,
        np.arange(size) - size // 2,
        multiples,
    ]
    return rng.permutation(np.unique(np.concatenate(some)))


@pytest.mark.parametrize("sizes", [(1,), (3, 40, 500), (2000, 1, 7)], ids=str)
def test_numbers_are_those_of_the_keys(sizes):
    pools = [pool(size, seed) for seed, size in enumerate(sizes)]
    pools.insert(1, np.empty(0, np.int64))
    lookups = tables(pools)
    asked = np.concatenate([*pools, pool(300, 9)])
    for p, keys in enumerate(pools):
        expected, ids = (
            {key: k for k, key in enumerate(keys.tolist())},
            np.empty(len(asked), np.int32),
        )
        lookups.look_up(p, asked, ids)
        np.testing.assert_array_equal(
            ids, [expected.get(key, -1) for key in asked.tolist()]
        )


def test_tables_are_half_full_at_most():
    lookups = tables([pool(size, 0) for size in (1, 300, 3000)])
    for keys, slots in zip(
        np.diff(lookups.offsets), np.diff(lookups.starts), strict=True
    ):
        assert 2 * keys <= slots <= max(8 * keys, 2)
        assert slots & (slots - 1) == 0


def test_full_tables_of_one_bin():
    """A table of two slots, of which every hash sees one or both."""
    for key in range(9):
        ids = np.empty(3, np.int32)
        tables([np.array([key])]).look_up(0, np.array([key, 60, -7]), ids)
        np.testing.assert_array_equal(ids, [0, -1, -1])


@PRECISIONS
@pytest.mark.parametrize("K", [1, 3])
@pytest.mark.parametrize("F", [1, 2])
def test_sums_of_coefficients(K, F, dtype):
    """Of rows of which some have no bins; a few rows one by one have the same bits."""
    P, d, n, rng = 7, 5, 150, np.random.default_rng(0)
    pitches, shifts = (
        1 / rng.gamma(2.0, size=(P, F, d)),
        rng.uniform(-2, 2, size=(P, F, d)),
    )
    pitches[2, :, 0], pitches[:, 0, 3], shifts[1, 0, 4] = np.inf, np.inf, 1e30
    multipliers, values = rng.integers(-(2**63), 2**63, (P, F, d)), rng.uniform(size=P)
    grids = Grids(pitches, shifts, multipliers, values, np.zeros((P, F), bool), d)
    inverses, shifts, *_ = lattices = grids.lattices
    X = rng.standard_normal((n, d)).astype(dtype)
    X[:, 1], X[3, 2], X[4, 2], X[5, 0], X[6] = 0.25, 1e30, -1e30, 0, 0
    hashes = np.empty((P, n), np.int64)
    for p in range(P):
        hash_dense(*by_columns(X), inverses[p], shifts[p], lattices[2][p], hashes[p])
    lookups = tables([np.unique(own[: n // 2]) for own in hashes])
    coef = rng.standard_normal((len(lookups.keys), K)).astype(dtype)
    expected, size, known = np.zeros((n, K)), np.zeros((n, K)), np.zeros(n)
    for p, (first, stop) in enumerate(
        zip(lookups.offsets, lookups.offsets[1:], strict=False)
    ):
        numbers = {
            key: k for k, key in enumerate(lookups.keys[first:stop].tolist(), first)
        }
        for i, key in enumerate(hashes[p].tolist()):
            if key in numbers:
                expected[i] += lattices[3][p] * coef[numbers[key]].astype(float)
                size[i] += np.abs(lattices[3][p] * coef[numbers[key]])
                known[i] += 1
    assert np.all(known[: n // 2] == P)
    assert np.any(known[n // 2 :] < P)
    found = np.ones((n, K))
    add_coefficients(*by_columns(X), lattices, lookups.tables, coef, found)
    assert np.all(np.abs(found - 1 - expected) <= (P + 2) * EPS * (1 + size))
    few = np.ones((n, K))
    add_few(X, *grids.of_few, lookups.tables, coef, few)
    np.testing.assert_array_equal(few, found)
