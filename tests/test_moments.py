"""The statistic that adds."""

from itertools import pairwise

import numpy as np
import pytest

import exact
from bochner import FourierFeatures
from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.design.moments import Moments
from bochner.inputs.targets import Signs
from bochner.kernels import Gaussian

D, K, N = 7, 2, 60
EPS = np.finfo(float).eps


def data(n=N, seed=0, shift=0.5):
    rng = np.random.default_rng(seed)
    return (
        rng.standard_normal((n, D)) + shift,
        rng.standard_normal((n, K)) - shift,
        rng.uniform(0.1, 3, n),
    )


def moments_of(Z, Y, weight=None, dtype=np.float64, edges=None):
    moments = Moments(Z.shape[1], Y.shape[1], dtype)
    edges = [0, len(Z)] if edges is None else edges
    for a, b in pairwise(edges):
        A = moments.workspace(b - a)
        A[:, : Z.shape[1]] = Z[a:b]
        moments.add_block(A, Y[a:b], np.ones(b - a) if weight is None else weight[a:b])
    return moments


def augmented(Z, Y, weight):
    A = np.hstack([Z, Y, np.ones((len(Z), 1))])
    return (A.T * weight) @ A, (np.abs(A).T * weight) @ np.abs(A)


def assert_same(one, other, size, unit=EPS):
    """Two ways to sum n products: each entry may be off by (n + 4) units of the sum
    of its absolute terms.
    """
    assert np.all(np.abs(one.matrix - other.matrix) <= 2 * (N + 4) * unit * size)
    assert one.n_rows == other.n_rows


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "edges", [[0, 60], [0, 1, 60], [0, 20, 40, 60], list(range(61)), [0, 0, 60, 60]]
)
def test_blocks_do_not_matter(edges, weighted):
    Z, Y, weight = data()
    weight = weight if weighted else None
    matrix, size = augmented(Z, Y, np.ones(N) if weight is None else weight)
    moments = moments_of(Z, Y, weight, edges=edges)
    assert np.all(np.abs(moments.matrix - matrix) <= 2 * (N + 4) * EPS * size)
    assert moments.n_rows == N


def test_moments_of_parts_add():
    Z, Y, weight = data()
    _, size = augmented(Z, Y, weight)
    whole = moments_of(Z, Y, weight)
    parts = [
        moments_of(Z[a:b], Y[a:b], weight[a:b])
        for a, b in ((0, 13), (13, 14), (14, 60))
    ]
    assert_same(parts[0] + parts[1] + parts[2], whole, size)
    left, right = (parts[0] + parts[1]) + parts[2], parts[0] + (parts[1] + parts[2])
    np.testing.assert_allclose(
        left.matrix, right.matrix, rtol=0, atol=4 * EPS * size.max()
    )
    np.testing.assert_array_equal(
        (parts[0] + parts[1]).matrix, (parts[1] + parts[0]).matrix
    )
    empty = Moments(D, K, np.float64)
    np.testing.assert_array_equal((whole + empty).matrix, whole.matrix)


def test_adding_leaves_the_parts_alone():
    Z, Y, _ = data()
    one, two = moments_of(Z[:30], Y[:30]), moments_of(Z[30:], Y[30:])
    before = one.matrix.copy()
    total = one + two
    total.matrix[:] = 0
    np.testing.assert_array_equal(one.matrix, before)
    assert (one + Moments(D, K, np.float32)).dtype == np.float64
    assert (Moments(D, K, np.float32) + one).dtype == np.float64
    assert (Moments(D, K) + Moments(D, K)).dtype == np.float32


def test_one_weight_of_all_rows_in_one_place_of_memory():
    """As NumPy broadcasts a number: two, which is not one."""
    Z, Y, _ = data()
    found = moments_of(Z, Y, np.broadcast_to(2.0, N))
    np.testing.assert_array_equal(
        found.matrix, moments_of(Z, Y, np.full(N, 2.0)).matrix
    )
    np.testing.assert_allclose(found.matrix, 2 * moments_of(Z, Y).matrix, rtol=1e-12)


def test_weights_are_repeated_rows():
    Z, Y, _ = data()
    repeats = np.random.default_rng(1).integers(0, 4, N)
    weighted = moments_of(Z, Y, repeats.astype(float))
    repeated = moments_of(np.repeat(Z, repeats, axis=0), np.repeat(Y, repeats, axis=0))
    _, size = augmented(Z, Y, repeats)
    # sqrt(w)^2 is off by 3 eps on top.
    assert np.all(
        np.abs(weighted.matrix - repeated.matrix)
        <= 2 * (repeats.sum() + 7) * EPS * size
    )
    assert weighted.weight == pytest.approx(repeats.sum())
    assert weighted.n_rows == np.count_nonzero(repeats)
    assert weighted.n_rows == np.count_nonzero(repeats)


def test_rows_of_zero_weight_are_not_there():
    Z, Y, weight = data()
    weight[::3] = 0
    kept = weight > 0
    _, size = augmented(Z, Y, weight)
    assert_same(
        moments_of(Z, Y, weight), moments_of(Z[kept], Y[kept], weight[kept]), size
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_single_precision_is_within_its_rounding(weighted):
    Z, Y, weight = data()
    weight = weight if weighted else None
    _, size = augmented(Z, Y, np.ones(N) if weight is None else weight)
    double = moments_of(Z, Y, weight)
    for edges in ([0, N], [0, 20, 40, N]):
        single = moments_of(Z, Y, weight, np.float32, edges)
        assert single.matrix.dtype == np.float64
        # Entries and weights rounded to u, products and the sum over a block in single
        # precision: n + 8 units.
        bound = (N + 8) * np.finfo(np.float32).eps / 2
        assert np.all(np.abs(single.matrix - double.matrix) <= bound * size)


@pytest.mark.slow
def test_sums_over_blocks_are_in_double_precision():
    """A million rows of ones in blocks of a thousand: a float32 sum of blocks would
    stop at 2^24 / 1000 of them.
    """
    moments = Moments(1, 1, np.float32)
    A = moments.workspace(1000)
    for _ in range(20_000):
        A[:, 0] = 1
        moments.add_block(A, np.ones((1000, 1)), np.ones(1000))
    np.testing.assert_array_equal(moments.matrix, 2e7)
    assert moments.n_rows == 20_000_000


@pytest.mark.parametrize("shift", [0.0, 0.5, 30.0])
def test_centred(shift):
    Z, Y, weight = data(shift=shift)
    gram, cross, total, feature_mean, target_mean = exact.centred_moments(Z, Y, weight)
    moments = moments_of(Z, Y, weight)
    centred = moments.centred()
    # Centring cancels: the error is that of the raw moments, and as much again from the
    # product of the means.
    _, size = augmented(Z, Y, weight)
    bound = 6 * (N + 8) * EPS * size.max()
    np.testing.assert_allclose(centred.gram, gram, rtol=0, atol=bound)
    np.testing.assert_allclose(centred.cross, cross, rtol=0, atol=bound)
    np.testing.assert_allclose(centred.total, total, rtol=0, atol=bound)
    np.testing.assert_allclose(centred.feature_mean, feature_mean, rtol=0, atol=bound)
    np.testing.assert_allclose(centred.target_mean, target_mean, rtol=0, atol=bound)
    np.testing.assert_allclose(
        moments.centred_trace(), np.trace(gram), rtol=0, atol=D * bound
    )


def test_centred_of_many_columns():
    """More columns than a slab of the centring."""
    Z = np.random.default_rng(0).standard_normal((10, 1100))
    centred = moments_of(Z, np.zeros((10, 1))).centred()
    A = Z - Z.mean(axis=0)
    np.testing.assert_allclose(centred.gram, A.T @ A, rtol=0, atol=1e-13)


def test_centring_leaves_the_moments_alone():
    Z, Y, weight = data()
    moments = moments_of(Z, Y, weight)
    before = moments.matrix.copy()
    moments.centred().gram[:] = np.nan
    np.testing.assert_array_equal(moments.matrix, before)


def test_moments_without_some_rows():
    Z, Y, weight = data()
    _, size = augmented(Z, Y, weight)
    rest = moments_of(Z, Y, weight) - moments_of(Z[20:], Y[20:], weight[20:])
    assert_same(rest, moments_of(Z[:20], Y[:20], weight[:20]), size)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_moments_of_many_classes(dtype, weighted):
    rng, labels = np.random.default_rng(0), np.arange(70)
    X, y = rng.standard_normal((900, 3)).astype(dtype), rng.integers(0, 70, 900)
    weight = rng.uniform(0.1, 3, 900) if weighted else None
    features = FourierFeatures(Gaussian(2.0), 24, random_state=0).draw(3)
    signs = np.where(y[:, np.newaxis] == labels, 1.0, -1.0)
    expected = Moments(24, 70, np.float64)
    block = expected.workspace(900)
    features.rows(X.astype(np.float64), out=block[:, :24])
    expected.add_block(block, signs, np.ones(900) if weight is None else weight)
    for source in (
        ArraySource(X, y, weight, targets=Signs(labels)),
        ArraySource(X, signs, weight),
    ):
        found = Design(source, features, dtype).moments()
        for own, other in zip(found.centred(), expected.centred(), strict=True):
            tol = (1e-12 if dtype == np.float64 else 1e-5) * 900
            np.testing.assert_allclose(own, other, rtol=0, atol=tol)
        assert found.n_rows == expected.n_rows


def test_combinations_of_signs_are_those_of_all_columns():
    classes, mix = (
        np.array(["a", "b", "c"]),
        np.random.default_rng(0).standard_normal((3, 2)),
    )
    y = np.array(["b", "a", "c", "c"])
    np.testing.assert_allclose(Signs(classes).mixed(mix)(y), Signs(classes)(y) @ mix)
