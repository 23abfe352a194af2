"""Features in 8 bits: the rounding is at most bound / 254, and products are those of
the rounded features.
"""

import numpy as np
import pytest

from bochner import FourierFeatures
from bochner.data.weights import unit_weights
from bochner.features.stored import StoredBytes
from bochner.kernels import Gaussian, Laplacian

UNIT = np.finfo(np.float32).eps / 2


def held(n, D, dtype=np.float32, spread=0.0):
    rng = np.random.default_rng(0)
    bounds, centre = rng.uniform(0.01, 2, D), spread * rng.uniform(-1, 1, D)
    Z = (centre + rng.uniform(-1, 1, (n, D)) * bounds).astype(dtype)
    bytes_ = StoredBytes(n, bounds, centre)
    for start in range(0, n, 10):
        bytes_.put(start, Z[start : start + 10])
    return bytes_, bounds, Z


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_rounding(dtype, spread):
    """Half a step, bound / 254, and what is rounded before: the scale, the product,
    entry and centre, half eps each.
    """
    bytes_, bounds, Z = held(57, 33, dtype, spread)
    Z[0], Z[1], Z[2] = bytes_.centre + bounds, bytes_.centre - bounds, bytes_.centre
    bytes_.put(0, Z[:10])
    error = np.abs(bytes_.Z * bytes_.unit - (Z - bytes_.centre))
    assert np.all(
        error
        <= bounds / 254 + 3 * np.finfo(dtype).eps * (bounds + np.abs(bytes_.centre))
    )
    np.testing.assert_array_equal(bytes_.Z[0], 127)
    np.testing.assert_array_equal(bytes_.Z[1], -127)
    np.testing.assert_array_equal(bytes_.Z[2], 0)


@pytest.mark.parametrize("bound", [0.0, 1e-45, 1e-38, 1e-30])
def test_vanishing_columns(bound):
    bytes_ = StoredBytes(2, np.array([bound, 1.0]), np.zeros(2))
    bytes_.put(0, np.array([[bound, 0.5], [-bound, 1.0]], np.float32))
    assert np.all(np.abs(bytes_.Z[:, 0] * bytes_.unit[0]) <= bound + 1e-36)
    np.testing.assert_array_equal(bytes_.Z[:, 1], [64, 127])


@pytest.mark.slow
@pytest.mark.parametrize(("n", "D"), [(1, 1), (3, 5), (4, 1), (57, 33), (300, 64)])
def test_products(n, D):
    """Sums of m products in single precision, in any order: m roundings, and a few
    of factors.
    """
    bytes_, _, _ = held(n, D)
    Z = bytes_.Z * bytes_.unit
    rng = np.random.default_rng(1)
    for dtype in (np.float32, np.float64):
        V, Q = rng.standard_normal((2, 3, D)).astype(dtype)
        weight = rng.uniform(0, 2, n).astype(dtype)
        T = rng.standard_normal((3, n)).astype(dtype)
        found = bytes_.forward(V)
        assert np.all(
            np.abs(found - V @ Z.T) <= (D + 6) * UNIT * (np.abs(V) @ np.abs(Z.T))
        )

        total = Q.copy()
        bytes_.backward(T, total)
        size = np.abs(Q) + np.abs(T) @ np.abs(Z)
        assert np.all(np.abs(total - (Q + T @ Z)) <= (n + 6) * UNIT * size)

        for given, own in ((weight, weight), (unit_weights(n), np.ones(n))):
            total = Q.copy()
            bytes_.normal(V, given, total)
            size = np.abs(Q) + (np.abs(V) @ np.abs(Z.T) * own) @ np.abs(Z)
            expected = Q + (V.astype(float) @ Z.T * own) @ Z
            assert np.all(np.abs(total - expected) <= (D + n + 12) * UNIT * size)

        total = Q[0].copy()
        bytes_.squares(weight[np.newaxis], total[np.newaxis])
        expected = Q[0] + weight.astype(float) @ Z**2
        size = np.abs(Q[0]) + weight @ Z**2
        assert np.all(np.abs(total - expected) <= (n + 10) * UNIT * size)


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_packed_fourier_features(paired, dtype):
    kernel = 3.0 * Gaussian(2.0) + Laplacian()
    features = FourierFeatures(kernel, 31, paired=paired, random_state=0).draw(3)
    X = np.random.default_rng(0).standard_normal((200, 3)).astype(dtype)
    packed = features.store(X, packed=True)
    assert isinstance(packed, StoredBytes)
    assert (
        packed.Z.nbytes
        == 200 * features.stored_bytes(np.dtype(dtype), True)
        == 200 * 31
    )
    assert (
        features.stored_bytes(np.dtype(dtype), False) == 31 * np.dtype(dtype).itemsize
    )
    Z, bounds = features.rows(X), features.bounds()
    assert np.all(
        np.abs(packed.Z * packed.unit - Z)
        <= bounds / 254 + 3 * np.finfo(dtype).eps * bounds
    )
    np.testing.assert_array_equal(features.store(X).Z, Z)
