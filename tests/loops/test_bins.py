"""Grids, tables and sparse products against NumPy and dictionaries."""

import numpy as np
import pytest

import bochner.features.stored as module_of_stored
import exact
from bochner.data.weights import unit_weights
from bochner.features.grids import Table
from bochner.features.stored import StoredBins, StoredFloats, StoredTogether
from bochner.loops.bins import bucket, hash_dense, hash_sparse, number, weigh

EPS = np.finfo(float).eps
PRECISIONS = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def lattices(F, d, seed=0):
    rng = np.random.default_rng(seed)
    pitches = rng.gamma(2.0, size=(F, d)) * 0.3
    return (
        pitches,
        rng.uniform(size=(F, d)) * pitches,
        rng.integers(-(2**63), 2**63, (F, d)),
    )


def hashes_of(X, pitches, shifts, multipliers):
    """Sums of products of Python's integers, modulo 2^64; the farthest cell is 2^62
    - 512.
    """
    cells = np.floor(exact.places(X, pitches[None], shifts[None]))[0].reshape(
        len(X), -1
    )
    factors = [int(m) for m in multipliers.ravel()]
    found = []
    for row in cells:
        numbers = [max(min(int(c), 2**62 - 512), 512 - 2**62) for c in row]
        total = sum(m * c for m, c in zip(factors, numbers, strict=True)) % 2**64
        found.append(total - 2**64 if total >= 2**63 else total)
    return np.array(found, np.int64)


@PRECISIONS
@pytest.mark.parametrize(("F", "d"), [(1, 1), (1, 5), (3, 4)])
def test_hashes(dtype, F, d):
    pitches, shifts, multipliers = lattices(F, d)
    rng = np.random.default_rng(1)
    X = (rng.standard_normal((200, d)) * (rng.random((200, d)) < 0.5)).astype(dtype)
    X[:, 0] = 0.25
    X[5, -1], X[6, -1], X[7, -1] = 1e30, -1e30, -0.0
    expected = hashes_of(X, pitches, shifts, multipliers)
    forms = 1 / pitches, shifts / pitches, multipliers
    found = np.empty(200, np.int64)
    hash_dense(
        np.ascontiguousarray(X.T),
        X.min(axis=0).astype(float),
        X.max(axis=0).astype(float),
        *forms,
        found,
    )
    np.testing.assert_array_equal(found, expected)
    found[:] = 0
    rows, columns = np.nonzero(X)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=200))]).astype(
        np.int32
    )
    hash_sparse(indptr, columns.astype(np.int32), X[rows, columns], *forms, found)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("size", [2.0**49, 2.0**51, 2.0**53, 2.0**61])
def test_hashes_of_many_cells(size):
    """Up to where numbers of cells no longer fit the last bits of a number."""
    X = np.random.default_rng(0).uniform(-size, size, (300, 2))
    pitches, shifts, multipliers = (
        np.ones((1, 2)),
        np.array([[0.25, 0.5]]),
        lattices(1, 2)[2],
    )
    found = np.empty(300, np.int64)
    hash_dense(
        np.ascontiguousarray(X.T),
        X.min(axis=0),
        X.max(axis=0),
        pitches,
        shifts,
        multipliers,
        found,
    )
    np.testing.assert_array_equal(found, hashes_of(X, pitches, shifts, multipliers))


def test_far_cells_have_hashes_of_their_own():
    """Those of 0 and of all cells too far to be numbered, in 1000 draws of the
    multipliers: 2^-54 to meet by chance.
    """
    rng = np.random.default_rng(0)
    X = np.array([[0.3, 1e300, -1e300]])
    one = np.ones((1, 1))
    for multiplier in rng.integers(-(2**63), 2**63, 1000):
        found = np.empty(3, np.int64)
        hash_dense(
            X,
            X.min(axis=1),
            X.max(axis=1),
            one,
            0 * one,
            np.array([[multiplier]]),
            found,
        )
        assert len(set(found)) == 3


@pytest.mark.parametrize("size", [1, 5, 64, 1000])
def test_numbers(size):
    """By order of appearance, in tables half full, with hashes that share their last
    bits; until there is no room.
    """
    rng = np.random.default_rng(size)
    pool = np.concatenate(
        [
            rng.integers(-(2**63), 2**63, size),
            np.arange(size) << 32,
            np.arange(size) - size // 2,
        ]
    )
    stream = rng.choice(pool, 3 * size)
    numbers = {}
    expected = [numbers.setdefault(key, len(numbers)) for key in stream.tolist()]
    keys, counts = np.empty(len(numbers), np.int64), np.zeros(len(numbers), np.int32)
    slots, ids = (
        np.full(2 << (len(numbers) - 1).bit_length(), -1, np.int32),
        np.empty(len(stream), np.int32),
    )
    half = len(stream) // 2
    count, done = number(stream[:half], keys, counts, slots, 0, ids)
    assert done == half
    count, done = number(stream[half:], keys, counts, slots, count, ids[half:])
    assert done == len(stream) - half
    np.testing.assert_array_equal(ids, expected)
    assert keys[:count].tolist() == list(numbers)
    np.testing.assert_array_equal(counts[:count], np.bincount(expected))
    new = np.setdiff1d(np.arange(1 << 40, (1 << 40) + size + 1), stream)[:1]
    more, ids = np.append(stream, new), np.empty(len(stream) + 1, np.int32)
    assert number(more, keys, counts, slots, count, ids) == (count, len(stream))
    table, found = Table(1), np.empty(len(stream), np.int32)
    table.number(stream, found)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(table.counts[: table.count], np.bincount(expected))


@pytest.mark.parametrize("n_buckets", [1, 2, 7, 1000, 2**31 - 1])
def test_buckets_are_in_range_and_even(n_buckets):
    """Of multiples, as hashes of consecutive cells are: chi-square, z below 5."""
    rng = np.random.default_rng(0)
    n = 20_000
    ids = np.empty(n, np.int32)
    for multiplier in rng.integers(-(2**63), 2**63, 20):
        with np.errstate(over="ignore"):
            hashes = np.arange(n) * multiplier
        bucket(hashes, n_buckets, ids)
        assert ids.min() >= 0
        assert ids.max() < n_buckets
    if 1 < n_buckets <= 1000:
        bucket(rng.integers(-(2**63), 2**63, n), n_buckets, ids)
        expected = n / n_buckets
        chi2 = (
            (np.bincount(ids, minlength=n_buckets) - expected) ** 2 / expected
        ).sum()
        assert abs(chi2 - (n_buckets - 1)) <= 5 * np.sqrt(2 * (n_buckets - 1))


@PRECISIONS
def test_weights(dtype):
    pitches, shifts, _ = lattices(3, 4)
    X = np.random.default_rng(1).standard_normal((50, 4)).astype(dtype)
    X[0, 0] = 1e30
    smooth = np.array([True, False, True])
    found = np.full(50, 0.5, dtype)
    weigh(np.ascontiguousarray(X.T), 1 / pitches, shifts / pitches, smooth, found)
    t = exact.places(X, pitches[None], shifts[None])[0][:, smooth].reshape(50, -1)
    s = t - np.floor(t)
    expected = 0.5 * np.prod(np.sqrt(30) * s * (1 - s), axis=1)
    # Eight factors of 1.37 at most; a place is wrong by eps |t|, a factor by sqrt(30)
    # of that and a few roundings.
    bound = (
        1.37**8
        * 8
        * (np.sqrt(30) * 2 * EPS * np.abs(t[1:]).max() + 4 * np.finfo(dtype).eps)
    )
    assert np.all(np.abs(found - expected)[1:] <= bound)
    assert found[0] == 0
    wide = np.array([[1e300, -1e300, 1.0]])
    found = np.ones(3)
    weigh(wide, np.array([[1e20]]), np.array([[0.5]]), np.array([True]), found)
    np.testing.assert_array_equal(found[:2], 0)


def bins(P, n, sizes, dtype, weighted, seed=0):
    """Held bins, a seventh of them missing, and Z itself."""
    rng = np.random.default_rng(seed)
    ids = np.array([rng.integers(0, size, n) for size in sizes], np.int32)
    ids[rng.random(ids.shape) < 1 / 7] = -1
    values = rng.uniform(0.1, 1, (P, n if weighted else 1)).astype(dtype)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    Z = np.zeros((n, offsets[-1]))
    for p, i in zip(*np.nonzero(ids >= 0), strict=True):
        Z[i, offsets[p] + ids[p, i]] = values[p, i if weighted else 0]
    return StoredBins(ids, values, offsets), Z


def bins_in_order(dtype, weighted):
    """The same, stored in another order of the rows."""
    held, Z = bins(3, 50, (3, 9, 31), dtype, weighted)
    order = np.random.default_rng(5).permutation(50)
    values = held.values[:, order] if weighted else held.values
    return StoredBins(held.ids[:, order], values, held.offsets, order), Z


def held_together(dtype):
    """Bins beside floats, and their scaled features."""
    one, Z = bins(4, 50, (3, 9, 1, 30), dtype, False)
    own = np.random.default_rng(3).standard_normal((50, 5)).astype(dtype)
    other, Y = bins(2, 50, (6, 2), dtype, True, seed=1)
    scales, edges = np.array([0.5, 2.0, 3.0]), np.array([0, 43, 48, 56])
    held = StoredTogether([one, StoredFloats(own), other], scales, edges)
    return held, np.hstack([0.5 * Z, 2 * own.astype(float), 3 * Y])


HELD = {
    "odd": lambda dtype: bins(3, 50, (3, 9, 31), dtype, False),
    "plain": lambda dtype: bins(4, 50, (3, 9, 1, 30), dtype, False),
    "weighted": lambda dtype: bins(4, 50, (3, 9, 1, 30), dtype, True),
    "in order": lambda dtype: bins_in_order(dtype, False),
    "weighted, in order": lambda dtype: bins_in_order(dtype, True),
    "together": held_together,
    "floats": lambda dtype: (lambda Z: (StoredFloats(Z), Z.astype(float)))(
        np.random.default_rng(0).standard_normal((50, 43)).astype(dtype)
    ),
}


@pytest.mark.slow
@PRECISIONS
@pytest.mark.parametrize("name", HELD)
@pytest.mark.parametrize("threads", [1, 3])
def test_held_products(name, dtype, threads, monkeypatch):
    """Sums of m products, in any order: m + 3 roundings of half eps on each."""
    monkeypatch.setattr("bochner.engines.local.n_threads", lambda: threads)
    monkeypatch.setattr(module_of_stored, "TILE_ROWS", 5)
    monkeypatch.setattr(module_of_stored, "LITTLE", 0)
    held, Z = HELD[name](dtype)
    assert held.n_rows == 50
    D, unit = Z.shape[1], np.finfo(dtype).eps / 2
    rng = np.random.default_rng(9)
    V, weight = (
        rng.standard_normal((3, D)).astype(dtype),
        rng.uniform(0, 2, 50).astype(dtype),
    )
    T, Q = (
        rng.standard_normal((3, 50)).astype(dtype),
        rng.standard_normal((3, D)).astype(dtype),
    )

    found = held.forward(V)
    assert found.dtype == dtype
    assert found.shape == (3, 50)
    assert np.all(np.abs(found - V @ Z.T) <= (D + 6) * unit * (np.abs(V) @ np.abs(Z.T)))

    total = Q.copy()
    held.backward(T, total)
    bound = (50 + 6) * unit * (np.abs(Q) + np.abs(T) @ np.abs(Z))
    assert np.all(np.abs(total - (Q + T.astype(float) @ Z)) <= bound)

    own = weight.astype(float)
    for given, w in ((weight, own), (unit_weights(len(own)), np.ones_like(own))):
        total = Q.copy()
        held.normal(V, given, total)
        size = np.abs(Q) + (np.abs(V) @ np.abs(Z.T) * w) @ np.abs(Z)
        expected = Q + (V.astype(float) @ Z.T * w) @ Z
        assert np.all(np.abs(total - expected) <= (D + 50 + 12) * unit * size)

    squares = Q[0].copy()
    held.squares(weight[np.newaxis], squares[np.newaxis])
    size = np.abs(Q[0]) + own @ Z**2
    assert np.all(np.abs(squares - (Q[0] + own @ Z**2)) <= (50 + 10) * unit * size)


def test_held_takes_any_layout():
    held, _ = bins(4, 50, (3, 9, 1, 30), np.float64, False)
    V = np.random.default_rng(0).standard_normal((43, 2))
    frozen = V.T.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(held.forward(V.T), held.forward(frozen))


def test_held_vectors_of_another_length_are_refused():
    held, _ = bins(4, 50, (3, 9, 1, 30), np.float64, False)
    for call in (
        lambda: held.forward(np.ones((1, 42))),
        lambda: held.backward(np.ones((1, 50)), np.ones((1, 42))),
        lambda: held.squares(np.ones((1, 50)), np.ones((1, 44))),
    ):
        with pytest.raises(
            ValueError, match="There are 43 features, and vectors of length 4"
        ):
            call()
