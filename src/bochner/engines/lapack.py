"""LAPACK without Python's lock: SciPy's own routines, which `scipy.linalg` calls holding it.

Work that shares threads with such calls would wait for them; two Cholesky factorisations side by side take the time of
two. Arrays are float32 or float64 and in Fortran's order; a C-ordered array is the transpose of one.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import CFUNCTYPE, PYFUNCTYPE, byref, c_char, c_char_p, c_int, c_void_p, py_object, pythonapi
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cython_blas, cython_lapack

LETTERS = {"f": "s", "d": "d"}


@cache
def _routine(name: str, n_arguments: int) -> Callable[..., None]:
    """A routine of SciPy's BLAS or LAPACK, all of whose arguments are pointers."""
    library = cython_blas if name in cython_blas.__pyx_capi__ else cython_lapack
    capsule = library.__pyx_capi__[name]
    named = PYFUNCTYPE(c_char_p, py_object)(("PyCapsule_GetName", pythonapi))
    pointer = PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", pythonapi))
    return CFUNCTYPE(None, *[c_void_p] * n_arguments)(pointer(capsule, named(capsule)))


def _call(routine: str, *arguments: Any) -> int:
    """Call a LAPACK routine and return its INFO."""
    info = c_int(0)
    _invoke(routine, *arguments, byref(info))
    if info.value < 0:
        raise ValueError(f"Argument {-info.value} of {routine} is invalid.")
    return info.value


def _invoke(routine: str, *arguments: Any) -> None:
    """Call a routine on text, integers, arrays, of which the first decides the precision, and pointers as they are."""
    array = next(one for one in arguments if isinstance(one, np.ndarray))
    kept: list[Any] = []
    pointers: list[Any] = []
    for one in arguments:
        if isinstance(one, np.ndarray):
            if one.dtype != array.dtype:
                raise TypeError(f"Arrays of types {one.dtype} and {array.dtype} do not match.")
            pointers.append(c_void_p(one.ctypes.data))
        elif not isinstance(one, str | int):
            pointers.append(one)
        else:
            kept.append(c_char(one.encode()) if isinstance(one, str) else c_int(one))
            pointers.append(byref(kept[-1]))
    _routine(LETTERS[array.dtype.char] + routine, len(pointers))(*pointers)


def _leading(matrix: NDArray) -> int:
    """Distance of the columns of a matrix in Fortran's order, whose columns are contiguous."""
    size, (rows, columns) = matrix.itemsize, matrix.strides
    if (rows != size and len(matrix) > 1) or columns % size or (columns < size * len(matrix) and matrix.shape[1] > 1):
        raise ValueError("The matrix is not in Fortran order.")
    return max(columns // size if matrix.shape[1] > 1 else len(matrix), 1)


def potrf(matrix: NDArray) -> None:
    """Overwrite the lower triangle by the lower Cholesky factor; LinAlgError where there is none."""
    if _call("potrf", "L", len(matrix), matrix, _leading(matrix)):
        raise LinAlgError("The matrix is not positive definite.")


def trtrs(lower: NDArray, B: NDArray, transposed: bool = False) -> None:
    """Overwrite B by the solution X of L X = B or L'X = B; LinAlgError where L is singular."""
    way = "T" if transposed else "N"
    if _call("trtrs", "L", way, "N", *B.shape, lower, _leading(lower), B, _leading(B)):
        raise LinAlgError("The triangular matrix is singular.")


def trsv(lower: NDArray, b: NDArray, transposed: bool = False) -> None:
    """Overwrite the vector b by the solution of L x = b, or L'x = b, L in either order; nothing is copied to do so."""
    fortran = lower.flags.f_contiguous
    factor = lower if fortran else lower.T
    way = "T" if transposed == fortran else "N"
    _invoke("trsv", "L" if fortran else "U", way, "N", len(b), factor, _leading(factor), b, 1)


def potrs(lower: NDArray, B: NDArray) -> None:
    """Overwrite B by the solution X of L L'X = B, L in either order."""
    fortran = lower.flags.f_contiguous
    factor = lower if fortran else lower.T
    _call("potrs", "L" if fortran else "U", *B.shape, factor, _leading(factor), B, _leading(B))


def sytrd(matrix: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Reduce a symmetric matrix to a tridiagonal one by Householder reflections, and overwrite it by their vectors.

    Returns
    -------
    diagonal, beside, factors : arrays of shape (n,), (n - 1,), (n - 1,)
        Of the tridiagonal matrix T = Q'A Q, and of the reflections H_i = I - factors_i v_i v_i', Q = H_1 ... H_(n-1).
        v_i is 0 up to entry i, 1 at the next one, and below the subdiagonal of column i of the matrix beyond.
    """
    n = len(matrix)
    diagonal, (beside, factors) = np.empty(n, matrix.dtype), np.empty((2, max(n - 1, 1)), matrix.dtype)
    work = np.empty(64 * n, matrix.dtype)
    _call("sytrd", "L", n, matrix, _leading(matrix), diagonal, beside, factors, work, len(work))
    return diagonal, beside[: n - 1], factors[: n - 1]
