"""Dense linear algebra on threads of our own, against SciPy, with the same bits for
any number of threads.
"""

import numpy as np
import pytest
import scipy.linalg

from bochner.engines import algebra, local
from bochner.engines.algebra import (
    cholesky,
    cholesky_below,
    copy_triangle,
    gram,
    product,
    shifted_cholesky,
    solve_cholesky,
    solve_lower,
)
from bochner.loops.vectors import factorise

SHAPES = [
    (1, 1, 1),
    (1, 700, 900),
    (3, 900, 1100),
    (1300, 70, 40),
    (1300, 200, 1300),
    (0, 3, 2),
]
PRECISIONS = pytest.mark.parametrize("dtype", [np.float32, np.float64])
SIZES = pytest.mark.parametrize("n", [1, 2, 40, 255, 256, 257, 600])


def normal(*shape, seed=0, dtype=float):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def positive(n, dtype=float):
    A = normal(n, n + 5)
    return (A @ A.T + n * np.eye(n)).astype(dtype)


def of_any_threads(monkeypatch, work):
    """The result, which is the same to the bit for one, two and five threads."""
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(local, "n_threads", lambda threads=threads: threads)
        found.append(work())
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
    return found[0]


@pytest.mark.slow
@PRECISIONS
@pytest.mark.parametrize("shape", SHAPES)
def test_product(shape, dtype, monkeypatch):
    """Each entry within the rounding of a sum of k products, in any order."""
    n, k, m = shape
    A, B = normal(n, k, dtype=dtype), normal(k, m, seed=1, dtype=dtype)
    for left, right in ((A, B), (np.asfortranarray(A), B), (A, np.asfortranarray(B))):
        found = of_any_threads(
            monkeypatch, lambda left=left, right=right: product(left, right)
        )
        assert found.dtype == dtype
        bound = (k + 2) * np.finfo(dtype).eps * (np.abs(A).astype(float) @ np.abs(B))
        assert np.all(np.abs(found - A.astype(float) @ B) <= bound)


@PRECISIONS
@pytest.mark.parametrize("D", [1, 40, 512, 513, 1030])
def test_gram(D, dtype, monkeypatch):
    A = normal(300, D, dtype=dtype)
    found = of_any_threads(monkeypatch, lambda: gram(A, np.empty((D, D), dtype)).copy())
    bound = 302 * np.finfo(dtype).eps * (np.abs(A).T.astype(float) @ np.abs(A))
    assert np.all(np.abs(found - A.T.astype(float) @ A) <= bound)
    assert np.all(np.abs(found - found.T) <= bound)


@PRECISIONS
@SIZES
def test_cholesky_and_its_solutions(n, dtype, monkeypatch):
    matrix = positive(n, dtype)
    lower = of_any_threads(monkeypatch, lambda: np.tril(cholesky(matrix.copy())))
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(
        lower,
        scipy.linalg.cholesky(matrix.astype(float), lower=True),
        rtol=0,
        atol=n * eps * 3,
    )
    noise = lower + np.triu(np.full((n, n), np.nan, dtype), 1)
    for m in (1, 16, 17, 600):
        B = normal(n, m, seed=1, dtype=dtype)
        X = of_any_threads(monkeypatch, lambda B=B: solve_cholesky(noise, B))
        assert X.dtype == dtype
        np.testing.assert_allclose(
            matrix.astype(float) @ X, B, rtol=0, atol=50 * n * eps
        )
        for transposed, factor in ((False, lower), (True, lower.T)):
            X = of_any_threads(
                monkeypatch, lambda B=B, t=transposed: solve_lower(noise, B, t)
            )
            np.testing.assert_allclose(
                factor.astype(float) @ X, B, rtol=0, atol=50 * n * eps
            )


@SIZES
def test_a_factor_below_what_it_is_of(n, monkeypatch):
    """In the middle of a larger matrix, for one shift after the other; what is above
    the diagonal stays.
    """
    matrix, whole = positive(n), np.full((n + 3, n + 3), 7.0)
    part, diagonal = whole[1:-2, 1:-2], np.diagonal(matrix).copy()
    part[:] = np.triu(matrix)
    for shift in (1.0, 0.25):
        found = of_any_threads(
            monkeypatch, lambda s=shift: cholesky_below(part, diagonal, s, 1e-9).copy()
        )
        np.testing.assert_array_equal(np.triu(part, 1), np.triu(matrix, 1))
        lower = np.linalg.cholesky(matrix + shift * np.eye(n))
        np.testing.assert_allclose(
            np.tril(found), lower, rtol=0, atol=4 * n * np.finfo(float).eps
        )
        B = normal(n, 600, seed=1)
        for transposed in (False, True):
            rounded = solve_lower(part, B, transposed, np.float32)
            assert rounded.dtype == np.float32
            np.testing.assert_array_equal(
                rounded, solve_lower(found.astype(np.float32), B, transposed)
            )
    whole[1:-2, 1:-2] = 7.0
    assert (whole == 7.0).all()


@SIZES
def test_triangles_are_copied(n, monkeypatch):
    matrix = normal(n, n)
    for below, triangle in ((True, np.triu), (False, np.tril)):
        own = matrix.copy()
        copy_triangle(own, below)
        np.testing.assert_array_equal(own, own.T)
        np.testing.assert_array_equal(triangle(own), triangle(matrix))


def test_what_has_no_factor():
    matrix = positive(600)
    matrix[500, 500] = -1.0
    with pytest.raises(np.linalg.LinAlgError):
        cholesky(matrix)
    matrix[500, 500] = -np.inf
    with pytest.raises(np.linalg.LinAlgError):
        shifted_cholesky(matrix, 1.0, 1.0)
    with pytest.raises(np.linalg.LinAlgError):
        cholesky_below(matrix, np.diagonal(matrix).copy(), 1.0, 1.0)


def test_rounding_is_added_as_needed():
    """A matrix of rank one, of which rounding leaves nothing positive: what is added
    is the first that suffices.
    """
    matrix = np.ones((50, 50)) - 1e-9 * np.eye(50)
    lower = np.tril(shifted_cholesky(matrix, 0.0, 1e-10))
    np.testing.assert_allclose(lower @ lower.T, matrix, rtol=0, atol=1e-8)
    zero = np.tril(shifted_cholesky(np.zeros((4, 4)), 0.0, 1e-30))
    assert np.isfinite(zero).all()
    assert zero.any()


@PRECISIONS
class TestLapack:
    def test_factors_and_solutions(self, dtype):
        matrix = np.asfortranarray(positive(70, dtype))
        factor = matrix.copy(order="F")
        algebra.potrf(factor)
        lower = np.tril(factor)
        eps = np.finfo(dtype).eps
        np.testing.assert_allclose(
            lower, np.linalg.cholesky(matrix.astype(float)), rtol=0, atol=300 * eps
        )
        B = np.asfortranarray(normal(70, 3, dtype=dtype))
        for given in (factor, np.ascontiguousarray(lower)):
            algebra.potrs(given, X := B.copy(order="F"))
            np.testing.assert_allclose(matrix @ X, B, rtol=0, atol=1e4 * eps)
        algebra.trtrs(factor, X := B.copy(order="F"))
        np.testing.assert_allclose(lower @ X, B, rtol=0, atol=1e4 * eps)

    @pytest.mark.parametrize("order", "CF")
    def test_a_single_column(self, dtype, order):
        """What is above the diagonal is not read."""
        lower = np.tril(normal(60, 60, dtype=dtype)) / 60 + np.eye(60, dtype=dtype)
        given = np.array(lower + np.triu(np.full((60, 60), 7, dtype), 1), order=order)
        b = normal(60, 1, dtype=dtype)[:, 0]
        for transposed, matrix in ((False, lower), (True, lower.T)):
            algebra.trsv(given, x := b.copy(), transposed)
            np.testing.assert_allclose(
                matrix @ x, b, rtol=0, atol=100 * np.finfo(dtype).eps * np.abs(b).max()
            )

    def test_views(self, dtype):
        """Parts of larger matrices, whose other entries are left alone."""
        large = np.asfortranarray(normal(90, 90, dtype=dtype))
        large[10:80, 10:80] = positive(70, dtype)
        before = large.copy(order="F")
        algebra.potrf(large[10:80, 10:80])
        np.testing.assert_allclose(
            np.tril(large[10:80, 10:80]),
            np.linalg.cholesky(before[10:80, 10:80]),
            rtol=0,
            atol=300 * np.finfo(dtype).eps,
        )
        large[10:80, 10:80] = before[10:80, 10:80]
        np.testing.assert_array_equal(large, before)

    def test_refuses_what_it_cannot_read(self, dtype):
        with pytest.raises(ValueError, match="Fortran"):
            algebra.potrf(positive(5, dtype)[::2, ::2])
        other = np.float32 if dtype == np.float64 else np.float64
        with pytest.raises(TypeError, match="do not match"):
            algebra.potrs(
                np.asfortranarray(positive(5, dtype)), np.ones((5, 1), other, order="F")
            )
        with pytest.raises(np.linalg.LinAlgError):
            algebra.potrf(np.asfortranarray(-np.eye(3, dtype=dtype)))
        with pytest.raises(np.linalg.LinAlgError):
            algebra.trtrs(
                np.zeros((3, 3), dtype, order="F"), np.ones((3, 1), dtype, order="F")
            )


def test_small_work_is_not_shared(monkeypatch):
    monkeypatch.setattr(algebra, "in_threads", None)
    np.testing.assert_allclose(
        product(np.ones((10, 10)), np.ones((10, 10))), np.full((10, 10), 10.0)
    )


def test_tridiagonal_factors():
    """L D L', and the solutions by them, against NumPy; none where a matrix is
    indefinite or not finite.
    """
    for n in (1, 2, 30):
        beside = normal(n - 1, seed=1)
        pivots = 3 + np.abs(normal(n))
        matrix, B = (
            np.diag(pivots) + np.diag(beside, 1) + np.diag(beside, -1),
            normal(n, 4),
        )
        ratios = np.append(0.0, beside)
        assert factorise(pivots, ratios)
        lower = np.eye(n) + np.diag(ratios[1:], -1)
        np.testing.assert_allclose(
            lower @ np.diag(pivots) @ lower.T, matrix, atol=1e-14
        )
        X = B.copy(order="F")
        algebra.pttrs(pivots, ratios[1:], X)
        np.testing.assert_allclose(X, np.linalg.solve(matrix, B), rtol=1e-12)
    for diagonal in ([1.0, 1.0], [np.nan, 1.0], [1.0, np.nan]):
        beside = 2.0 if diagonal[0] == diagonal[1] else 0.5
        assert not factorise(np.array(diagonal), np.array([0.0, beside]))
