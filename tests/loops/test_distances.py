"""Distances of the rows of blocks, and sums over them, against plain broadcasts."""

import numpy as np
import pytest

from bochner.loops.coordinates import add_distances, distance_sums, nearness, sign_sums

PRECISIONS = pytest.mark.parametrize("dtype", [np.float32, np.float64])
SHAPES = pytest.mark.parametrize(("p", "rows", "fit"), [(1, 1, 1), (1, 9, 7), (5, 1, 1), (6, 40, 31), (3, 17, 17)])


def block(p, rows, fit, dtype):
    """A block, its rows to fit, and weights; entries are multiples of 1/4, so that many are equal."""
    rng = np.random.default_rng(p + rows)
    A = (rng.integers(-8, 9, (p, rows)) / 4).astype(dtype)
    return A, np.ascontiguousarray(A[:, :fit]), rng.standard_normal((rows, fit)).astype(dtype)


def gaps(A, B):
    """Differences of all pairs in double precision, shape (p, rows of A, rows of B)."""
    return A.astype(float)[:, :, None] - B.astype(float)[:, None]


@PRECISIONS
@SHAPES
class TestBlocks:
    def test_add_distances(self, p, rows, fit, dtype):
        A, B, _ = block(p, rows, fit, dtype)
        D = np.full((rows, fit), 7, dtype)
        add_distances(A, B, D)
        np.testing.assert_array_equal(D, 7 + np.abs(gaps(A, B)).sum(axis=0))  # multiples of 1/4, all of them exact

    def test_distance_sums(self, p, rows, fit, dtype):
        A, B, W = block(p, rows, fit, dtype)
        sums = np.full(p, 7.0)
        distance_sums(A, B, W, sums)
        terms = W.astype(float) * np.abs(gaps(A, B))
        tolerance = (fit + rows) * np.finfo(dtype).eps * (7 + np.abs(terms).sum(axis=(1, 2)))
        assert np.all(np.abs(sums - 7 - terms.sum(axis=(1, 2))) <= tolerance)

    def test_sign_sums(self, p, rows, fit, dtype):
        A, B, W = block(p, rows, fit, dtype)
        V, U = np.full(A.shape, 3, dtype), np.full(B.shape, 5, dtype)
        sign_sums(A, B, W, V, U)
        assert (gaps(A, B) == 0).any()
        terms = W.astype(float) * np.sign(gaps(A, B))
        eps = (fit + rows) * np.finfo(dtype).eps
        assert np.all(np.abs(V - 3 - terms.sum(axis=2)) <= eps * (3 + np.abs(terms).sum(axis=2)))
        assert np.all(np.abs(U - 5 - terms.sum(axis=1)) <= eps * (5 + np.abs(terms).sum(axis=1)))

    def test_nearness(self, p, rows, fit, dtype):
        X = np.ascontiguousarray(block(p, rows, fit, dtype)[0].T)
        scales, out = np.linspace(0.1, 0.9, p).astype(dtype), np.full(rows, np.nan, dtype)
        nearness(X, X[rows // 2], scales, out)
        expected = np.abs(X - X[rows // 2]).astype(float) @ scales
        np.testing.assert_allclose(out, expected, rtol=(p + 1) * np.finfo(dtype).eps)
        assert out[rows // 2] == 0


def test_loops_read_what_is_frozen(frozen):
    A, B, W = block(4, 12, 9, np.float64)
    scales = np.linspace(0.5, 1, 4)

    def all_of(A, B, W, X, scales):
        K, sums, V, U, near = np.zeros(W.shape), np.zeros(4), np.zeros(A.shape), np.zeros(B.shape), np.empty(len(X))
        add_distances(A, B, K)
        distance_sums(A, B, W, sums)
        sign_sums(A, B, W, V, U)
        nearness(X, X[0], scales, near)
        return K, sums, V, U, near

    given = A, B, W, np.ascontiguousarray(A.T), scales
    for one, other in zip(all_of(*given), all_of(*frozen(*given)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14, atol=1e-14)  # sums may be taken in another order
