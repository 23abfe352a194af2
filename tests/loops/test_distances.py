"""Kernels of the rows of blocks, and sums over them, against plain broadcasts."""

import numpy as np
import pytest

from bochner.loops.coordinates import kernel_rows, nearness, sign_sums, weigh_rows

PRECISIONS = pytest.mark.parametrize("dtype", [np.float32, np.float64])
SHAPES = pytest.mark.parametrize(
    ("p", "rows", "fit"), [(2, 1, 1), (2, 9, 7), (6, 2, 1), (6, 40, 31), (4, 17, 17)]
)
OUTPUTS = pytest.mark.parametrize("outputs", [1, 3])


def pairs(rows, fit, k=0):
    """Which pairs of rows meet: rows to fit above the diagonal, the others all."""
    return np.triu(np.ones((rows, fit), bool), k) | (np.arange(rows) >= fit)[:, None]


def block(p, rows, fit, dtype):
    """A block, and weights above the diagonal; entries are multiples of 1/4, so that
    many are equal.
    """
    rng = np.random.default_rng(p + rows)
    X = (rng.integers(-8, 9, (p, rows)) / 4).astype(dtype)
    W = np.where(pairs(rows, fit, 1), rng.standard_normal((rows, fit)), 0)
    return X, W.astype(dtype)


def gaps(X, fit):
    """Differences of all pairs in double precision, shape (p, rows, fit)."""
    return X.astype(float)[:, :, None] - X.astype(float)[:, None, :fit]


@PRECISIONS
@SHAPES
class TestBlocks:
    def test_kernel_rows(self, p, rows, fit, dtype):
        X, _ = block(p, rows, fit, dtype)
        K, F = np.full((rows, fit), 0.5, dtype), np.full((fit, fit), 7, dtype)
        kernel_rows(X, K, F, dtype(0.25))
        expected = np.exp(-0.5 - np.abs(gaps(X, fit)).sum(axis=0))
        meet, eps = pairs(rows, fit), np.finfo(dtype).eps
        np.testing.assert_allclose(K[meet], expected[meet], rtol=20 * eps)
        np.testing.assert_array_equal(K[~meet], 0.5)
        of_fit = expected[:fit] + 1 + 0.25 * np.eye(fit)
        np.testing.assert_allclose(F[meet[:fit]], of_fit[meet[:fit]], rtol=20 * eps)
        np.testing.assert_array_equal(F[~meet[:fit]], 7)

    @OUTPUTS
    def test_weigh_rows(self, p, rows, fit, dtype, outputs):
        X, K = block(p, rows, fit, dtype)
        K += ~pairs(rows, fit, 1)
        rng = np.random.default_rng(1)
        P, A = (rng.standard_normal((outputs, rows)).astype(dtype) for _ in range(2))
        factors = P.T @ A[:, :fit] + A.T @ P[:, :fit]
        expected = np.where(pairs(rows, fit, 1), K.astype(float) * factors, 0)
        sums, eps = np.full(p, 7.0), np.finfo(dtype).eps
        weigh_rows(K, P, A, X, sums, np.full(fit, np.inf, dtype))
        np.testing.assert_allclose(
            K, expected, rtol=0, atol=20 * eps * max(np.abs(expected).max(), 1)
        )
        terms = expected * np.abs(gaps(X, fit))
        tolerance = 20 * (fit + rows) * eps * (7 + np.abs(terms).sum(axis=(1, 2)))
        assert np.all(np.abs(sums - 7 - terms.sum(axis=(1, 2))) <= tolerance)

    def test_sign_sums(self, p, rows, fit, dtype):
        Z, W = block(p, rows, fit, dtype)
        S = np.full(Z.shape, 3, dtype)
        sign_sums(Z, W, S)
        terms = W.astype(float) * np.sign(gaps(Z, fit))
        expected, size = 3 + terms.sum(axis=2), 3 + np.abs(terms).sum(axis=2)
        expected[:, :fit] -= terms.sum(axis=1)
        size[:, :fit] += np.abs(terms).sum(axis=1)
        assert np.all(np.abs(S - expected) <= (fit + rows) * np.finfo(dtype).eps * size)

    def test_nearness(self, p, rows, fit, dtype):
        X = np.ascontiguousarray(block(p, rows, fit, dtype)[0].T)
        scales, out = (
            np.linspace(0.1, 0.9, p).astype(dtype),
            np.full(rows, np.nan, dtype),
        )
        nearness(X, X[rows // 2], scales, out)
        expected = np.abs(X - X[rows // 2]).astype(float) @ scales
        np.testing.assert_allclose(out, expected, rtol=(p + 1) * np.finfo(dtype).eps)
        assert out[rows // 2] == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernels_of_distances(dtype):
    """Rows at distances from below zero, as rounding makes them, to far ones, which
    are nothing beside 1.
    """
    d = np.concatenate([[-1e-6, 0.0], np.geomspace(1e-7, 1e4, 500)]).astype(dtype)
    K = d[:, np.newaxis].copy()
    kernel_rows(np.empty((0, len(d)), dtype), K, np.empty((1, 1), dtype), dtype(0))
    expected = np.exp(-np.maximum(d.astype(float), 0))
    tolerance = (4 - np.log(np.maximum(expected, 2.0**-64))) * np.finfo(dtype).eps
    assert np.all(
        np.abs(K[:, 0] - np.maximum(expected, 2.0**-64))
        <= tolerance * np.maximum(expected, 2.0**-64)
    )


@pytest.mark.slow
def test_loops_read_what_is_frozen(frozen):
    X, W = block(4, 12, 9, np.float64)
    P, scales = np.ones((1, 12)), np.linspace(0.5, 1, 4)

    def all_of(X, W, P, rows, scales):
        K, F, near, factor = (
            np.zeros(W.shape),
            np.zeros((9, 9)),
            np.empty(len(rows)),
            np.empty(9),
        )
        sums, S = np.zeros(4), np.zeros(X.shape)
        kernel_rows(X, K, F, 0.1)
        weigh_rows(K, P, P, X, sums, factor)
        sign_sums(X, W, S)
        nearness(rows, rows[0], scales, near)
        return K, F, sums, S, near

    given = X, W, P, np.ascontiguousarray(X.T), scales
    for one, other in zip(all_of(*given), all_of(*frozen(*given)), strict=True):
        np.testing.assert_allclose(
            one, other, rtol=1e-14, atol=1e-14
        )  # sums may be taken in another order
