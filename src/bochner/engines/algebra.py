"""Dense linear algebra on threads of our own.

Work is cut by the shapes alone, so that the bits of results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import DTypeLike, NDArray

from bochner.engines import lapack
from bochner.engines.blas import single_threaded_blas
from bochner.engines.local import in_threads

PANEL, TILE = 256, 512  # rows or columns of what one thread takes at a time
SMALL = 1 << 20  # multiplications that are not worth sharing
SINGLE = 2  # right-hand sides that are solved for one by one, as LAPACK copies the factor
FEW = 16  # right-hand sides, for which inverses of blocks do not pay
SHIFTS = 40  # each three times as large as the last: from the rounding of a number to far beyond it
R = TypeVar("R")


def product(A: NDArray, B: NDArray, out: NDArray | None = None) -> NDArray:
    """Return A B, shape (n, m), by tiles of its rows, or of its columns where there are few rows."""
    (n, k), m = A.shape, B.shape[1]
    if out is None:
        out = np.empty((n, m), np.result_type(A, B))
    if n * k * m <= SMALL or max(n, m) <= PANEL:
        with single_threaded_blas():
            return np.matmul(A, B, out=out)
    tall = n >= m
    tiles = _tiles(0, max(n, m), TILE if tall else PANEL)

    def tile(part: slice) -> None:
        rows, columns = (part, slice(None)) if tall else (slice(None), part)
        np.matmul(A[rows], B[:, columns], out=out[rows, columns])

    in_threads(tile, tiles)
    return out


def gram(A: NDArray, out: NDArray) -> NDArray:
    """Write A'A into `out`, of shape (D, D), by panels of its columns; symmetric to the bit."""
    D = A.shape[1]
    if D <= TILE:
        with single_threaded_blas():
            return np.matmul(A.T, A, out=out)

    def panel(part: slice) -> None:
        below = slice(part.start, D)
        np.matmul(A[:, below].T, A[:, part], out=out[below, part])
        out[part, part.stop :] = out[part.stop :, part].T
        own = out[part, part]
        own[:] = np.tril(own) + np.tril(own, -1).T

    in_threads(panel, _tiles(0, D, PANEL))
    return out


def cholesky(matrix: NDArray) -> NDArray:
    """Return the lower Cholesky factor of a symmetric C-ordered matrix, of which the lower triangle is overwritten.

    Entries above the diagonal stay what they were. Raises LinAlgError where the matrix is not positive definite.
    """
    n = len(matrix)
    for k in range(0, n, PANEL):
        end = min(k + PANEL, n)
        own, tiles = slice(k, end), _tiles(end, n, PANEL)
        corner = np.asfortranarray(matrix[own, own])
        with single_threaded_blas():
            lapack.potrf(corner)
        matrix[own, own] = corner

        def divide(part: slice, own: slice = own, corner: NDArray = corner) -> None:
            lapack.trtrs(corner, rows := np.asfortranarray(matrix[part, own].T))
            matrix[part, own] = rows.T

        def update(part: slice, own: slice = own, end: int = end) -> None:
            known = matrix[part, own] @ matrix[end : part.stop, own].T
            known[:, part.start - end :] = np.tril(known[:, part.start - end :])
            matrix[part, end : part.stop] -= known

        in_threads(divide, tiles)
        in_threads(update, tiles[::-1])
    return matrix


def with_least_shift(factorise: Callable[[float], R], shift: float, rounding: float, largest: float) -> R:
    """Return ``factorise(shift)``, with as much more of a shift as rounding makes necessary.

    Parameters
    ----------
    factorise : callable (shift) -> R
        LinAlgError where the shifted matrix is not positive definite.
    shift : float
    rounding : float
        Error of the entries of the matrix, at least that of `largest` in double precision.
    largest : float
        A bound of the eigenvalues.

    Raises
    ------
    LinAlgError
        Where the matrix holds values that are not numbers, or errors larger than `largest`.
    """
    rounding = max(rounding, np.finfo(np.float64).eps * largest)
    for _ in range(SHIFTS):
        try:
            return factorise(shift)
        except LinAlgError:
            if not np.isfinite(largest):
                break
            shift, rounding = shift + rounding, 3 * rounding
    raise LinAlgError("The matrix contains NaN or infinity, or rounding errors larger than its diagonal.")


def shifted_cholesky(gram: NDArray, shift: float, rounding: float) -> NDArray:
    """Lower factor of gram + shift I; see `with_least_shift`."""
    diagonal = np.diagonal(gram)

    def factorise(shift: float) -> NDArray:
        shifted = gram.copy()
        np.fill_diagonal(shifted, diagonal + shift)
        return cholesky(shifted)

    return with_least_shift(factorise, shift, rounding, float(np.abs(diagonal).sum()))


def cholesky_below(matrix: NDArray, diagonal: NDArray, shift: float, rounding: float) -> NDArray:
    """Overwrite the lower triangle of a matrix by the factor of what is above its diagonal, which stays there.

    So one matrix is enough for any number of shifts. See `with_least_shift`.

    Parameters
    ----------
    matrix : array of shape (n, n)
        Its diagonal is overwritten too.
    diagonal : array of shape (n,)
        To which the shift is added.
    """

    def factorise(shift: float) -> NDArray:
        copy_triangle(matrix, below=True)
        np.fill_diagonal(matrix, diagonal + shift)
        return cholesky(matrix)

    return with_least_shift(factorise, shift, rounding, float(np.abs(diagonal).sum()))


def copy_triangle(matrix: NDArray, below: bool) -> None:
    """Overwrite what is below the diagonal by what is above it, or the other way round."""
    whole = matrix if below else matrix.T

    def tile(part: slice) -> None:
        own, rest = whole[part, part], slice(part.stop, len(matrix))
        own[...] = np.triu(own) + np.triu(own, 1).T
        whole[rest, part] = whole[part, rest].T

    in_threads(tile, _tiles(0, len(matrix), PANEL))


def solve_lower(lower: NDArray, B: NDArray, transposed: bool = False, dtype: DTypeLike | None = None) -> NDArray:
    """Solve L X = B, or L'X = B, for the columns of B, of shape (D, m); what is above the diagonal of L is not read.

    A block of rows after the other: the inverses of the blocks on the diagonal make products of all of it. L is rounded
    to another precision block by block, where one is asked for.
    """
    n, dtype = len(lower), lower.dtype if dtype is None else np.dtype(dtype)
    blocks = _tiles(0, n, PANEL)
    inverses = in_threads(lambda own: _inverse(lower[own, own].astype(dtype, copy=False), transposed), blocks)
    steps = list(zip(blocks, inverses, strict=True))

    def tile(part: slice) -> NDArray:
        X = np.array(B[:, part], dtype, order="C")
        for own, inverse in reversed(steps) if transposed else steps:
            rest = slice(own.stop, n) if transposed else slice(0, own.start)
            factor = lower[rest, own].T if transposed else lower[own, rest]
            X[own] -= factor.astype(dtype, copy=False) @ X[rest]
            X[own] = inverse @ X[own]
        return X

    return np.hstack(in_threads(tile, _tiles(0, B.shape[1], TILE)))


def _inverse(lower: NDArray, transposed: bool) -> NDArray:
    inverse = np.eye(len(lower), dtype=lower.dtype, order="F")
    lapack.trtrs(np.asfortranarray(lower), inverse)
    return inverse.T if transposed else inverse


def solve_cholesky(lower: NDArray, B: NDArray) -> NDArray:
    """Solve L L'X = B for the columns of B, of shape (D, m)."""
    if B.shape[1] <= FEW:
        X = np.array(B, lower.dtype, order="F")
        with single_threaded_blas():
            if B.shape[1] > SINGLE:
                lapack.potrs(lower, X)
            else:
                for column in X.T:
                    lapack.trsv(lower, column)
                    lapack.trsv(lower, column, transposed=True)
        return X
    return solve_lower(lower, solve_lower(lower, B), transposed=True)


def _tiles(start: int, stop: int, size: int) -> list[slice]:
    """Consecutive ranges of at most so many numbers."""
    return [slice(a, min(a + size, stop)) for a in range(start, stop, size)]
