"""A symmetric matrix as Q T Q', against NumPy."""

import numpy as np
import pytest

from bochner.engines import local
from bochner.engines.algebra import cholesky_below, shifted_cholesky
from bochner.solvers.shifted import Tridiagonal

SIZES = pytest.mark.parametrize("D", [1, 2, 3, 64, 65, 66, 200])
EPS = np.finfo(float).eps


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def gram(D, rows=None):
    A = normal(rows or D + 9, D)
    return A.T @ A


@SIZES
def test_is_the_matrix(D):
    G = gram(D)
    matrix = Tridiagonal(G.copy())
    Q = matrix.rotate(np.eye(D))
    T = (
        np.diag(matrix.diagonal)
        + np.diag(matrix.beside, 1)
        + np.diag(matrix.beside, -1)
    )
    np.testing.assert_allclose(Q @ Q.T, np.eye(D), rtol=0, atol=50 * EPS)
    np.testing.assert_allclose(
        Q @ T @ Q.T, G, rtol=0, atol=50 * EPS * np.linalg.norm(G, 2)
    )
    np.testing.assert_allclose(matrix.back(np.eye(D)), Q.T, rtol=0, atol=50 * EPS)
    np.testing.assert_allclose(
        matrix.values(),
        np.linalg.eigvalsh(G),
        rtol=0,
        atol=50 * EPS * np.linalg.norm(G, 2),
    )
    assert (
        np.linalg.norm(G, 2) * (1 - 50 * EPS)
        <= matrix.bound()
        <= 3 * np.linalg.norm(G, 2)
    )


def test_only_the_upper_triangle_is_read():
    G = gram(30)
    whole, half = Tridiagonal(G.copy()), Tridiagonal(np.triu(G))
    np.testing.assert_array_equal(whole.diagonal, half.diagonal)
    np.testing.assert_array_equal(whole.rotate(np.eye(30)), half.rotate(np.eye(30)))


@SIZES
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_solutions_and_forms_for_any_shift(D, dtype, monkeypatch):
    G, Z = gram(D), normal(700, D, seed=1)
    matrix, shifts = Tridiagonal(G.copy()), [1e-3, 1.0, 100.0]
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(local, "n_threads", lambda threads=threads: threads)
        U = matrix.rotate(Z.astype(dtype))
        factors = [matrix.factors(shift, 0.0) for shift in shifts]
        found.append(
            (
                matrix.forms(factors, U),
                [matrix.back(matrix.solve(own, U[:5])) for own in factors],
            )
        )
    assert U.dtype == dtype
    for forms, solutions in found[1:]:
        np.testing.assert_array_equal(forms, found[0][0])
        np.testing.assert_array_equal(solutions, found[0][1])
    tolerance = 2e-5 if dtype == np.float32 else 1e-11
    for shift, forms, solution in zip(shifts, *found[0], strict=True):
        expected = np.linalg.solve(G + shift * np.eye(D), Z.T).T
        sizes = np.linalg.norm(expected[:5], axis=1, keepdims=True)
        condition = (np.linalg.norm(G, 2) + shift) / (np.linalg.eigvalsh(G)[0] + shift)
        assert np.all(np.abs(solution - expected[:5]) <= tolerance * condition * sizes)
        np.testing.assert_allclose(
            forms, (Z * expected).sum(axis=1), rtol=tolerance * condition
        )


def test_without_reflections():
    """Diagonal matrices, zeros and equal columns leave nothing to reflect, or too
    little.
    """
    for G in (
        np.diag([3.0, 1.0, 2.0]),
        np.zeros((4, 4)),
        np.ones((70, 70)),
        np.eye(80),
    ):
        matrix = Tridiagonal(G.copy())
        D = len(G)
        x = matrix.back(
            matrix.solve(matrix.factors(0.5, 1e-12), matrix.rotate(np.eye(D)))
        )
        np.testing.assert_allclose(
            x @ (G + 0.5 * np.eye(D)), np.eye(D), rtol=0, atol=1e-12
        )


def test_rounding_is_added_where_the_matrix_is_singular():
    G = gram(50, rows=10)
    matrix = Tridiagonal(G.copy())
    pivots, _ = matrix.factors(0.0, 1e-13 * np.trace(G))
    assert np.all(pivots > 0)
    with pytest.raises(np.linalg.LinAlgError, match="NaN or infinity"):
        Tridiagonal(np.full((5, 5), np.nan)).factors(1.0, 1.0)


def test_every_search_for_a_shift_ends():
    """Also where no rounding error is told, where all is zero, and where more than
    rounding is missing.
    """
    indefinite = np.array([[1.0, 2.0], [2.0, 1.0]])
    for factors in (
        lambda: Tridiagonal(indefinite.copy()).factors(0.0, 0.0)[0],
        lambda: shifted_cholesky(indefinite, 0.0, 0.0),
        lambda: cholesky_below(indefinite.copy(), np.ones(2), 0.0, 0.0),
    ):
        assert np.isfinite(factors()).all()
    far = np.array([[1e-30, 1.0], [1.0, 1e-30]])
    for matrix in (np.zeros((2, 2)), np.full((2, 2), np.nan)):
        with pytest.raises(np.linalg.LinAlgError, match="NaN or infinity"):
            Tridiagonal(matrix.copy()).factors(0.0, 0.0)
    for matrix in (np.zeros((2, 2)), far):
        with pytest.raises(
            np.linalg.LinAlgError, match="NaN or infinity, or rounding errors"
        ):
            shifted_cholesky(matrix, 0.0, 0.0)
        with pytest.raises(
            np.linalg.LinAlgError, match="NaN or infinity, or rounding errors"
        ):
            cholesky_below(matrix.copy(), np.diagonal(matrix).copy(), 0.0, 0.0)
