"""Dense linear algebra on all threads: products, Cholesky factors, LAPACK's own
routines, leading eigenvectors.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import (
    CFUNCTYPE,
    PYFUNCTYPE,
    byref,
    c_char,
    c_char_p,
    c_int,
    c_void_p,
    py_object,
    pythonapi,
)
from functools import cache
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import LinAlgError, cython_blas, cython_lapack, eigh

from bochner.arrays import Floats
from bochner.blocks import TILE_ROWS
from bochner.engines.blas import single_threaded_blas
from bochner.engines.local import in_threads, tiles

LETTERS = {"f": "s", "d": "d"}
NO_FACTOR = "The matrix is not positive definite, or singular."


@cache
def _routine(name: str, n_arguments: int) -> Callable[..., None]:
    """A routine of SciPy's BLAS or LAPACK, all of whose arguments are pointers."""
    library = cython_blas if name in cython_blas.__pyx_capi__ else cython_lapack
    capsule = library.__pyx_capi__[name]
    named = PYFUNCTYPE(c_char_p, py_object)(("PyCapsule_GetName", pythonapi))
    pointer = PYFUNCTYPE(c_void_p, py_object, c_char_p)(
        ("PyCapsule_GetPointer", pythonapi)
    )
    return CFUNCTYPE(None, *[c_void_p] * n_arguments)(pointer(capsule, named(capsule)))


def _call(routine: str, *arguments: Any) -> None:
    """Call a routine on text, integers, arrays, of which the first decides the
    precision, and pointers as they are; matrices are in Fortran's order.
    """
    dtype = next(one.dtype for one in arguments if isinstance(one, np.ndarray))
    pointers = list[Any]()
    for one in arguments:
        if isinstance(one, np.ndarray):
            if one.dtype != dtype:
                raise TypeError(
                    f"Arrays of types {one.dtype} and {dtype} do not match."
                )
            pointers.append(one.ctypes.data)
            if one.ndim > 1:
                pointers.append(byref(c_int(_leading(one))))
        elif isinstance(one, str):
            pointers.append(byref(c_char(one.encode())))
        else:
            pointers.append(byref(c_int(one)) if isinstance(one, int) else one)
    _routine(LETTERS[dtype.char] + routine, len(pointers))(*pointers)


def _lapack(routine: str, *arguments: Any) -> None:
    """Call a routine of LAPACK; LinAlgError where its INFO says that there is no
    result.
    """
    info = c_int(0)
    _call(routine, *arguments, byref(info))
    if info.value:
        raise LinAlgError(NO_FACTOR)


def _leading(matrix: NDArray) -> int:
    """Distance of the columns of a matrix in Fortran's order, whose columns are
    contiguous.
    """
    size, (n, m), (rows, columns) = matrix.itemsize, matrix.shape, matrix.strides
    distance = columns // size if m > 1 else max(n, 1)
    if (rows != size and n > 1) or columns % size or distance < n:
        raise ValueError("The matrix is not in Fortran order.")
    return distance


def _triangle(lower: NDArray) -> tuple[str, NDArray]:
    """A lower triangle in Fortran's order, and where it is then."""
    fortran = lower.strides[0] <= lower.strides[1]
    return ("L", lower) if fortran else ("U", lower.T)


def potrf(matrix: NDArray) -> None:
    """Overwrite the lower triangle, in either order, by the lower Cholesky factor;
    LinAlgError where there is none.
    """
    place, factor = _triangle(matrix)
    _lapack("potrf", place, len(factor), factor)


def trtrs(lower: NDArray, B: NDArray) -> None:
    """Overwrite B by the solution X of L X = B; LinAlgError where L is singular."""
    _lapack("trtrs", "L", "N", "N", *B.shape, lower, B)


def trsv(lower: NDArray, b: NDArray, transposed: bool = False) -> None:
    """Overwrite the vector b by the solution of L x = b, or L'x = b, L in either
    order; nothing is copied to do so.
    """
    place, factor = _triangle(lower)
    way = "T" if transposed == (place == "L") else "N"
    _call("trsv", place, way, "N", len(b), factor, b, 1)


def potrs(lower: NDArray, B: NDArray) -> None:
    """Overwrite B by the solution X of L L'X = B, L in either order."""
    place, factor = _triangle(lower)
    _lapack("potrs", place, *B.shape, factor, B)


def sytrd(matrix: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Reduce a symmetric matrix to a tridiagonal one by Householder reflections, and
    overwrite it by their vectors.

    Returns
    -------
    diagonal, beside, factors : arrays of shape (n,), (n - 1,), (n - 1,)
        Of the tridiagonal matrix T = Q'A Q, and of the reflections H_i = I - factors_i
        v_i v_i', Q = H_1 ... H_(n-1). v_i is 0 up to entry i, 1 at the next one, and
        below the subdiagonal of column i of the matrix beyond.
    """
    n = len(matrix)
    diagonal, beside, factors = np.empty((3, n), matrix.dtype)
    work = np.empty(64 * n, matrix.dtype)
    _lapack("sytrd", "L", n, matrix, diagonal, beside, factors, work, len(work))
    return diagonal, beside[: n - 1], factors[: n - 1]


def pttrs(pivots: NDArray, ratios: NDArray, B: NDArray) -> None:
    """Overwrite B, in Fortran's order, by the solution X of L D L' X = B, where L has
    these ratios below its diagonal.
    """
    _lapack("pttrs", *B.shape, pivots, ratios, B)


PANEL = 256  # rows or columns of a triangle that one thread takes at a time
SMALL = 1 << 20  # multiplications that are not worth sharing
# Right-hand sides that are solved for one by one, as LAPACK copies the factor
SINGLE = 2
FEW = 16  # right-hand sides, for which inverses of blocks do not pay
# Each three times as large as the last: from the rounding of a number to far beyond it
SHIFTS = 40
R = TypeVar("R")


def product(A: NDArray, B: NDArray) -> NDArray:
    """Return A B, shape (n, m), by tiles of its rows, or of its columns where there
    are few rows.
    """
    (n, k), m = A.shape, B.shape[1]
    out = np.empty((n, m), np.result_type(A, B))
    if n * k * m <= SMALL or max(n, m) <= PANEL:
        with single_threaded_blas():
            return np.matmul(A, B, out=out)
    tall = n >= m

    def tile(part: slice) -> None:
        rows, columns = (part, slice(None)) if tall else (slice(None), part)
        np.matmul(A[rows], B[:, columns], out=out[rows, columns])

    in_threads(tile, tiles(0, max(n, m), TILE_ROWS if tall else PANEL))
    return out


def gram(A: NDArray, out: NDArray | None = None) -> NDArray:
    """Return A'A, shape (D, D), by panels of its columns; symmetric to the bit."""
    D = A.shape[1]
    if out is None:
        out = np.empty((D, D), A.dtype)
    if D <= TILE_ROWS:
        with single_threaded_blas():
            return np.matmul(A.T, A, out=out)

    def panel(part: slice) -> None:
        below = slice(part.start, D)
        np.matmul(A[:, below].T, A[:, part], out=out[below, part])

    in_threads(panel, tiles(0, D, PANEL))
    copy_triangle(out, below=False)
    return out


def cholesky(matrix: NDArray) -> NDArray:
    """Return the lower Cholesky factor of a symmetric C-ordered matrix, of which the
    lower triangle is overwritten.

    Entries above the diagonal stay what they were. Raises LinAlgError where the matrix
    is not positive definite.
    """
    for panel in tiles(0, len(matrix), PANEL):
        _eliminate(matrix, panel)
    return matrix


def _eliminate(matrix: NDArray, panel: slice) -> None:
    """One panel of a factor, and what is left below of the matrix."""
    end = panel.stop
    below = tiles(end, len(matrix), PANEL)
    corner = np.asfortranarray(matrix[panel, panel])
    with single_threaded_blas():
        potrf(corner)
    matrix[panel, panel] = corner

    def divide(part: slice) -> None:
        trtrs(corner, rows := np.asfortranarray(matrix[part, panel].T))
        matrix[part, panel] = rows.T

    def update(part: slice) -> None:
        products = matrix[part, panel] @ matrix[end : part.stop, panel].T
        products[:, part.start - end :] = np.tril(products[:, part.start - end :])
        matrix[part, end : part.stop] -= products

    in_threads(divide, below)
    in_threads(update, below[::-1])


def with_least_shift(
    factorise: Callable[[float], R], shift: float, rounding: float, largest: float
) -> R:
    """Return ``factorise(shift)``, with as much more of a shift as rounding makes
    necessary.

    Parameters
    ----------
    factorise : callable (shift) -> R
        LinAlgError where the shifted matrix is not positive definite.
    shift : float
    rounding : float
        Error of the entries of the matrix, at least that of `largest` in double
        precision.
    largest : float
        A bound of the eigenvalues.

    Raises
    ------
    LinAlgError
        Where the matrix holds values that are not numbers, or errors larger than
        `largest`.
    """
    rounding = max(rounding, np.finfo(np.float64).eps * largest)
    for _ in range(SHIFTS):
        try:
            return factorise(shift)
        except LinAlgError:
            if not np.isfinite(largest):
                break
            shift = shift + rounding
            rounding = 3 * rounding
    raise LinAlgError(
        "The matrix contains NaN or infinity, or rounding errors larger than its "
        "diagonal."
    )


def shifted_cholesky(gram: NDArray, shift: float, rounding: float) -> NDArray:
    """Lower factor of gram + shift I; see `with_least_shift`."""
    lower = gram.copy()
    copy_triangle(lower, below=False)
    return cholesky_below(lower, np.diagonal(gram), shift, rounding)


def cholesky_below(
    matrix: NDArray, diagonal: NDArray, shift: float, rounding: float
) -> NDArray:
    """Overwrite the lower triangle of a matrix by the factor of what is above its
    diagonal, which stays there.

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
    """Overwrite what is below the diagonal by what is above it, or the other way
    round.
    """
    whole = matrix if below else matrix.T

    def tile(part: slice) -> None:
        diagonal_tile = whole[part, part]
        rest = slice(part.stop, len(matrix))
        diagonal_tile[...] = np.triu(diagonal_tile) + np.triu(diagonal_tile, 1).T
        whole[rest, part] = whole[part, rest].T

    in_threads(tile, tiles(0, len(matrix), PANEL))


def solve_lower(
    lower: NDArray, B: NDArray, transposed: bool = False, dtype: DTypeLike | None = None
) -> NDArray:
    """Solve L X = B, or L'X = B, for the columns of B, of shape (D, m); what is above
    the diagonal of L is not read.

    A block of rows after the other: the inverses of the blocks on the diagonal make
    products of all of it. L is rounded to another precision block by block, where one
    is asked for.
    """
    n = len(lower)
    dtype = lower.dtype if dtype is None else np.dtype(dtype)
    blocks = tiles(0, n, PANEL)

    def inverse_of(block: slice) -> NDArray:
        corner = np.asfortranarray(lower[block, block].astype(dtype, copy=False))
        inverse = np.eye(len(corner), dtype=dtype, order="F")
        trtrs(corner, inverse)
        return inverse.T if transposed else inverse

    steps = list(zip(blocks, in_threads(inverse_of, blocks), strict=True))

    def tile(part: slice) -> NDArray:
        X = np.array(B[:, part], dtype, order="C")
        for block, inverse in reversed(steps) if transposed else steps:
            rest = slice(block.stop, n) if transposed else slice(0, block.start)
            factor = lower[rest, block].T if transposed else lower[block, rest]
            X[block] -= factor.astype(dtype, copy=False) @ X[rest]
            X[block] = inverse @ X[block]
        return X

    return np.hstack(in_threads(tile, tiles(0, B.shape[1], TILE_ROWS)))


def solve_cholesky(lower: NDArray, B: NDArray) -> NDArray:
    """Solve L L'X = B for the columns of B, of shape (D, m)."""
    if B.shape[1] <= FEW:
        X = np.array(B, lower.dtype, order="F")
        with single_threaded_blas():
            if B.shape[1] > SINGLE:
                potrs(lower, X)
            else:
                for column in X.T:
                    trsv(lower, column)
                    trsv(lower, column, transposed=True)
        return X
    return solve_lower(lower, solve_lower(lower, B), transposed=True)


DENSE = 1000  # rows, up to which LAPACK is as fast
SPARE, ROUNDS, DEGREE = 20, 8, 8
LEAST_EDGE = 1e-3  # of the damped part, over the largest eigenvalue


def binary_unit(largest: Any) -> Any:
    """The power of two above each number, in units of which squares neither overflow
    nor vanish; 1 for zero.
    """
    return np.ldexp(1.0, np.clip(np.frexp(largest)[1], -1021, 1023))


SMALLEST = 1e-12  # eigenvalue that tells of a direction, over the largest


@single_threaded_blas()
def leading(matrix: Any, count: int) -> tuple[Floats, Floats]:
    """Largest eigenvalues of a matrix that has none below zero, and their vectors;
    fewer where others are zero.

    Parameters
    ----------
    matrix : array or sparse array of shape (m, m)
        Symmetric.
    count : int

    Returns
    -------
    array of shape (k,)
        The largest first.
    array of shape (m, k)
        Of length one, the largest entry of each positive.
    """
    m = matrix.shape[0]
    count = min(count, m)
    if m <= max(DENSE, 2 * (count + SPARE)):
        dense = matrix.toarray() if sp.issparse(matrix) else matrix
        values, vectors = eigh(dense, subset_by_index=[m - count, m - 1])
    else:
        values, vectors = _filtered(matrix, count)
    nonzero = np.flatnonzero(values > SMALLEST * max(float(values[-1]), 0.0))[::-1]
    vectors = vectors[:, nonzero]
    largest = np.abs(vectors).argmax(axis=0)
    negative = vectors[largest, np.arange(len(nonzero))] < 0
    return values[nonzero], vectors * np.where(negative, -1.0, 1.0)


def _filtered(matrix: Any, count: int) -> tuple[Floats, Floats]:
    """Leading eigenpairs by filtered subspace iteration, the smallest first.

    Each round damps what is below the least of the block by a Chebyshev polynomial
    (Zhou, Saad, Tiago and Chelikowsky, 2006). Its work does not depend on the gaps: of
    a graph in many parts the value one is as frequent as these, where Lanczos' method
    stalls.
    """
    start = np.random.default_rng(0).standard_normal((matrix.shape[0], count + SPARE))
    Q = np.linalg.qr(start)[0]
    for _ in range(ROUNDS):
        values, inner = np.linalg.eigh(Q.T @ (matrix @ Q))
        Q = Q @ inner
        edge = max(values[0], LEAST_EDGE * values[-1], np.finfo(np.float64).tiny)
        half = float(edge) / 2
        before = Q
        now = (matrix @ Q) / half - Q
        for _ in range(DEGREE - 1):
            before, now = now, 2 * ((matrix @ now) / half - now) - before
        Q = np.linalg.qr(now)[0]
    values, inner = np.linalg.eigh(Q.T @ (matrix @ Q))
    return values[SPARE:], (Q @ inner)[:, SPARE:]
