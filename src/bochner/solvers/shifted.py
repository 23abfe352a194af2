"""A symmetric matrix as Q T Q', T tridiagonal: for any shift its inverse at the cost
of a product.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import NDArray
from scipy.linalg import eigvalsh_tridiagonal

from bochner.blocks import TILE_ROWS
from bochner.devices.device import Device, to_host
from bochner.engines import algebra
from bochner.engines.algebra import (
    cholesky_below,
    copy_triangle,
    solve_cholesky,
    solve_lower,
    with_least_shift,
)
from bochner.engines.blas import single_threaded_blas
from bochner.engines.local import in_threads, tiles

WIDTH = 64  # reflections of a block
COLUMNS = 64  # whose forms a thread takes at a time
# Columns for which a device is worth the way; matrices that the device holds at a time
FEWEST, COPIES = 1024, 4


class Tridiagonal:
    """G = Q T Q' by Householder reflections: 4/3 D^3 operations, a third of what
    eigenvectors take.

    As eigenvectors do, it serves every shift: (G + s I)^-1 = Q (T + s I)^-1 Q', of
    which the middle takes O(D) (Elden, 1977). The reflections are kept in blocks, I - V
    S V' each (Schreiber and Van Loan, 1989), to be applied by matrix products.

    Parameters
    ----------
    matrix : array of shape (D, D)
        Symmetric, of which the upper triangle is read, and which is overwritten;
        C-ordered.

    References
    ----------
    Elden, "Algorithms for the Regularization of Ill-Conditioned Least Squares
    Problems", BIT 1977. Schreiber and Van Loan, "A Storage-Efficient WY Representation
    for Products of Householder Transformations", SIAM J. Sci. Stat. Comput. 1989.
    """

    def __init__(self, matrix: NDArray) -> None:
        with single_threaded_blas():
            self.diagonal, self.beside, factors = algebra.sytrd(matrix.T)
            self.dtype, self._largest = matrix.dtype, self.bound()
            self.blocks = []
            for part in tiles(0, len(factors), WIDTH):
                # Vectors of some reflections, in rows, and S with H_1 H_2 ... = I -
                # V'S V: the inverse of the upper triangle of V V' with 1 / factors on
                # its diagonal
                first = part.start + 1
                V = np.triu(matrix[part, first:], 1)
                np.fill_diagonal(V, 1.0)
                none = factors[part] == 0
                V[none] = 0.0
                S = np.triu(V @ V.T, 1)
                np.fill_diagonal(S, 1 / np.where(none, 1.0, factors[part]))
                S = np.ascontiguousarray(np.linalg.inv(S))
                self.blocks.append((first, V, S))

    def values(self) -> NDArray:
        """Eigenvalues, ascending, none below zero."""
        return np.maximum(eigvalsh_tridiagonal(self.diagonal, self.beside), 0.0)

    def bound(self) -> float:
        """A number that no eigenvalue exceeds (Gershgorin)."""
        beside = np.abs(self.beside)
        return float(
            (np.abs(self.diagonal) + np.append(beside, 0) + np.append(0, beside)).max()
        )

    def rotate(self, Z: NDArray) -> NDArray:
        """Return Z Q, shape (n, D), in the dtype of Z."""
        blocks = [
            (k, V.astype(Z.dtype, copy=False), S.astype(Z.dtype, copy=False))
            for k, V, S in self.blocks
        ]
        return self._apply(Z, blocks)

    def back(self, Z: NDArray) -> NDArray:
        """Return Z Q', shape (n, D)."""
        return self._apply(Z, [(k, V, S.T) for k, V, S in reversed(self.blocks)])

    def _apply(self, Z: NDArray, blocks: list[tuple[int, NDArray, NDArray]]) -> NDArray:
        U = Z.copy()

        def turn(rows: slice) -> None:
            part = U[rows]
            for k, V, S in blocks:
                part[:, k:] -= (part[:, k:] @ V.T @ S) @ V

        in_threads(turn, tiles(0, len(U), TILE_ROWS))
        return U

    def factors(self, shift: float, rounding: float) -> tuple[NDArray, NDArray]:
        """Pivots and ratios of T + shift I, with as much more on the diagonal as
        rounding makes necessary.

        The first ratio is zero; the others stand beside the diagonal of L.
        """
        from bochner.loops.vectors import factorise

        def factorised(shift: float) -> tuple[NDArray, NDArray]:
            pivots = self.diagonal + np.float64(shift)
            ratios = np.append(0.0, self.beside)
            if not factorise(pivots, ratios):
                raise LinAlgError(algebra.NO_FACTOR)
            return pivots, ratios

        return with_least_shift(factorised, float(shift), rounding, self._largest)

    def solve(self, factors: tuple[NDArray, NDArray], U: NDArray) -> NDArray:
        """Return the rows of U, of shape (m, D), times (T + shift I)^-1, in double
        precision.
        """
        pivots, ratios = factors
        X = np.array(U, np.float64, order="C")
        algebra.pttrs(pivots, ratios[1:], X.T)
        return X

    def forms(self, factors: list[tuple[NDArray, NDArray]], U: NDArray) -> NDArray:
        """Return u'(T + shift I)^-1 u of the rows of U, for each of A shifts, shape
        (A, n).
        """
        from bochner.loops.vectors import forms

        result = np.zeros((len(factors), len(U)))

        def compute(rows: slice) -> None:
            part = np.array(U[rows].T, np.float64, order="C")
            for (pivots, ratios), shift_forms in zip(
                factors, result[:, rows], strict=True
            ):
                forms(pivots, ratios, part, np.zeros(len(shift_forms)), shift_forms)

        in_threads(compute, tiles(0, len(U), COLUMNS))
        return result


TRIDIAGONAL_LIMIT = 3000
PROBES = 64


class ShiftedInverse(ABC):
    """(M + alpha I)^-1 for any alpha, M symmetric and positive semidefinite.

    Where alpha is so small that rounding leaves the matrix indefinite, as much of the
    rounding error of its trace is added as is needed.

    Attributes
    ----------
    serves_paths : bool
        Whether further alphas cost little.
    matrix : array of shape (N, N), or what stands for it
    """

    serves_paths: bool
    matrix: Any

    @abstractmethod
    def solve(self, alphas: NDArray, B: NDArray) -> NDArray:
        """Solutions for the rows of B, of shape (m, N), for each alpha; shape (A, m,
        N).
        """

    @abstractmethod
    def forms(self, alphas: NDArray, U: NDArray) -> NDArray:
        """Quadratic forms u'(M + alpha I)^-1 u of the rows of U, of shape (n, N);
        shape (A, n).
        """

    def traces(self, alphas: NDArray) -> NDArray:
        """Traces of the inverses, shape (A,).

        By default estimates by 64 fixed random signs (Hutchinson), of a deviation below
        sqrt(2 N / 64) / alpha.
        """
        signs = np.random.default_rng(0).choice(
            [-1.0, 1.0], size=(PROBES, self.matrix.shape[0])
        )
        return np.einsum("akn,kn->a", self.solve(alphas, signs), signs) / PROBES


class TridiagonalInverse(ShiftedInverse):
    """By Q T Q' = M, T tridiagonal: every alpha costs O(N^2) or less.

    Takes 4/3 N^3 operations, half of them at the speed of memory. Prefer it for several
    alphas, and N of at most a few thousand.

    Parameters
    ----------
    matrix : array of shape (N, N)
        C-ordered, and overwritten.
    rounding : float
    """

    serves_paths = True

    def __init__(self, matrix: NDArray, rounding: float) -> None:
        self.matrix = Tridiagonal(matrix)
        self.rounding = rounding

    def _factors(self, alphas: NDArray) -> list[tuple[NDArray, NDArray]]:
        return [self.matrix.factors(alpha, self.rounding) for alpha in alphas.tolist()]

    def solve(self, alphas: NDArray, B: NDArray) -> NDArray:
        rotated = self.matrix.rotate(B)
        solutions = np.stack(
            [self.matrix.solve(factors, rotated) for factors in self._factors(alphas)]
        )
        rows = solutions.reshape(-1, B.shape[1])
        return self.matrix.back(rows).reshape(solutions.shape)

    def forms(self, alphas: NDArray, U: NDArray) -> NDArray:
        return self.matrix.forms(self._factors(alphas), self.matrix.rotate(U))

    def traces(self, alphas: NDArray) -> NDArray:
        return (1 / (self.matrix.values()[:, np.newaxis] + alphas)).sum(axis=0)


class CholeskyInverse(ShiftedInverse):
    """By Cholesky factors, one at a time: N^3 / 3 operations for each alpha.

    Prefer it for a single alpha, or for large N, where a search over a few alphas costs
    less. A factor is below the diagonal of the matrix, which is kept above.

    Parameters
    ----------
    matrix : array of shape (N, N)
        Of which the lower triangle is read, and which is overwritten; C-ordered, also a
        part of a larger one.
    rounding : float
    """

    serves_paths = False

    def __init__(self, matrix: NDArray, rounding: float) -> None:
        copy_triangle(matrix, below=False)
        self.matrix = matrix
        self.rounding = rounding
        self._diagonal = np.diagonal(matrix).copy()
        self._alpha: float | None = None

    def _factor(self, alpha: float) -> NDArray:
        if alpha != self._alpha:
            self._alpha = None
            cholesky_below(self.matrix, self._diagonal, alpha, self.rounding)
            self._alpha = alpha
        return self.matrix

    def solve(self, alphas: NDArray, B: NDArray) -> NDArray:
        return np.stack(
            [solve_cholesky(self._factor(alpha), B.T).T for alpha in alphas]
        )

    def forms(self, alphas: NDArray, U: NDArray) -> NDArray:
        forms = []
        for alpha in alphas:
            half = solve_lower(self._factor(alpha), U.T, dtype=U.dtype)
            forms.append(np.einsum("ij,ij->j", half, half))
        return np.array(forms)


def shifted_inverse(matrix: NDArray, n_alphas: int, rounding: float) -> ShiftedInverse:
    """The cheaper inverse for choosing among `n_alphas` alphas, or for the only one;
    the matrix is overwritten.
    """
    if n_alphas > 1 and len(matrix) <= TRIDIAGONAL_LIMIT:
        return TridiagonalInverse(matrix, rounding)
    return CholeskyInverse(matrix, rounding)


class DeviceInverse(ShiftedInverse):
    """By Cholesky factors in float64, one at a time, which stay on the device.

    Prefer it for large N where float64 is fast there.

    Parameters
    ----------
    place : Device
    matrix : array of shape (N, N)
        Of which the lower triangle is read.
    rounding : float
    """

    serves_paths = False

    def __init__(self, place: Device, matrix: NDArray, rounding: float) -> None:
        if not np.isfinite(matrix).all():
            raise LinAlgError("The matrix contains NaN or infinity.")
        self.place = place
        self.rounding = rounding
        self.trace = float(np.trace(matrix))
        self.matrix = place.put(matrix)
        self._alpha = np.nan
        self._lower = self.matrix

    def _factor(self, alpha: float) -> Any:
        if alpha != self._alpha:
            self._lower = self.matrix  # lest the device hold two factors

            def factorised(shift: float) -> Any:
                shifted = self.matrix.clone()
                shifted.diagonal().add_(shift)
                return self.place.cholesky(shifted)

            self._lower = with_least_shift(factorised, alpha, self.rounding, self.trace)
            self._alpha = alpha
        return self._lower

    def _half(self, alpha: float, B: NDArray) -> Any:
        """The solution of L X = B' for rows B, of shape (N, m)."""
        right = self.place.put(np.ascontiguousarray(B.T, np.float64))
        return self.place.solve_triangular(self._factor(alpha), right)

    def solve(self, alphas: NDArray, B: NDArray) -> NDArray:
        whole = (
            self.place.solve_triangular(
                self._factor(alpha), self._half(alpha, B), transposed=True
            )
            for alpha in alphas.tolist()
        )
        return np.stack([to_host(X).T for X in whole])

    def forms(self, alphas: NDArray, U: NDArray) -> NDArray:
        halves = (self._half(alpha, U) for alpha in alphas.tolist())
        return np.stack([to_host((half * half).sum(dim=0)) for half in halves])


def serves(place: Device | None, n_columns: int) -> bool:
    """Whether a device is to factorise a matrix of `n_columns` columns."""
    if place is None or n_columns < FEWEST or not place.has_fast_double:
        return False
    free = place.free_bytes()
    return free is None or COPIES * 8 * n_columns**2 <= free
