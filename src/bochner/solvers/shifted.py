"""The inverse of a symmetric matrix plus any multiple of the identity."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from bochner.engines.algebra import cholesky_below, copy_triangle, solve_cholesky, solve_lower
from bochner.solvers.tridiagonal import Tridiagonal

TRIDIAGONAL_LIMIT = 3000
PROBES = 64


class ShiftedInverse(ABC):
    """(M + alpha I)^-1 for any alpha, M symmetric and positive semidefinite.

    Where alpha is so small that rounding leaves the matrix indefinite, as much of the rounding error of its trace is
    added as is needed.

    Attributes
    ----------
    serves_paths : bool
        Whether further alphas cost little.
    """

    serves_paths: bool

    @abstractmethod
    def solve(self, alphas: NDArray, B: NDArray) -> NDArray:
        """Solutions for the rows of B, of shape (m, N), for each alpha; shape (A, m, N)."""

    @abstractmethod
    def forms(self, alphas: NDArray, U: NDArray) -> NDArray:
        """Quadratic forms u'(M + alpha I)^-1 u of the rows of U, of shape (n, N); shape (A, n)."""

    @abstractmethod
    def traces(self, alphas: NDArray) -> NDArray:
        """Traces of the inverses, shape (A,)."""


class TridiagonalInverse(ShiftedInverse):
    """By Q T Q' = M, T tridiagonal: every alpha costs O(N^2) or less.

    Takes 4/3 N^3 operations, half of them at the speed of memory. Prefer it for several alphas, and N of at most a few
    thousand.

    Parameters
    ----------
    matrix : array of shape (N, N)
        C-ordered, and overwritten.
    rounding : float
    """

    serves_paths = True

    def __init__(self, matrix: NDArray, rounding: float) -> None:
        self.matrix, self.rounding = Tridiagonal(matrix), rounding

    def _factors(self, alphas: NDArray) -> list[tuple[NDArray, NDArray]]:
        return [self.matrix.factors(alpha, self.rounding) for alpha in alphas]

    def solve(self, alphas: NDArray, B: NDArray) -> NDArray:
        rotated = self.matrix.rotate(B)
        solutions = np.stack([self.matrix.solve(factors, rotated) for factors in self._factors(alphas)])
        return self.matrix.back(solutions.reshape(-1, B.shape[1])).reshape(solutions.shape)

    def forms(self, alphas: NDArray, U: NDArray) -> NDArray:
        return self.matrix.forms(self._factors(alphas), self.matrix.rotate(U))

    def traces(self, alphas: NDArray) -> NDArray:
        return (1 / (self.matrix.values()[:, np.newaxis] + alphas)).sum(axis=0)


class CholeskyInverse(ShiftedInverse):
    """By Cholesky factors, one at a time: N^3 / 3 operations for each alpha.

    Prefer it for a single alpha, or for large N, where a search over a few alphas costs less. A factor is below the
    diagonal of the matrix, which is kept above.

    Parameters
    ----------
    matrix : array of shape (N, N)
        Of which the lower triangle is read, and which is overwritten; C-ordered, also a part of a larger one.
    rounding : float
    """

    serves_paths = False

    def __init__(self, matrix: NDArray, rounding: float) -> None:
        copy_triangle(matrix, below=False)
        self.matrix, self.rounding, self._diagonal = matrix, rounding, np.diagonal(matrix).copy()
        self._alpha: float | None = None

    def _factor(self, alpha: float) -> NDArray:
        if alpha != self._alpha:
            self._alpha = None
            cholesky_below(self.matrix, self._diagonal, alpha, self.rounding)
            self._alpha = alpha
        return self.matrix

    def solve(self, alphas: NDArray, B: NDArray) -> NDArray:
        return np.stack([solve_cholesky(self._factor(alpha), B.T).T for alpha in alphas])

    def forms(self, alphas: NDArray, U: NDArray) -> NDArray:
        forms = []
        for alpha in alphas:
            half = solve_lower(self._factor(alpha), U.T, dtype=U.dtype)
            forms.append(np.einsum("ij,ij->j", half, half))
        return np.array(forms)

    def traces(self, alphas: NDArray) -> NDArray:
        """Estimates by 64 fixed random signs (Hutchinson), of a deviation below sqrt(2 N / 64) / alpha."""
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(PROBES, len(self.matrix)))
        return np.einsum("akn,kn->a", self.solve(alphas, signs), signs) / PROBES


def shifted_inverse(matrix: NDArray, n_alphas: int, rounding: float) -> ShiftedInverse:
    """The cheaper one for choosing among so many alphas, or for the only one; the matrix is overwritten."""
    many = n_alphas > 1 and len(matrix) <= TRIDIAGONAL_LIMIT
    return TridiagonalInverse(matrix, rounding) if many else CholeskyInverse(matrix, rounding)
