"""The held-out loss of exact kernel ridge regression on a small block of rows, and its gradient.

A block has t rows to fit and m rows to judge by. With K the kernel, 1 the constant kernel of an intercept and lambda
the ridge term,

    A = K_tt + 1 1' + lambda I,    a = A^-1 y_t,    e = (K_mt + 1 1') a - y_m,    L = |e|^2 / m,

summed over the outputs. With b = A^-1 (K_mt + 1 1')' (2 e / m) the derivatives are

    dL / dK_mt = (2 e / m) a',    dL / dK_tt = -b a',    dL / dlog lambda = -lambda sum(b * a),

and a metric's own parameters follow from W = dL/dK * K and the distances, O(rows^2) operations a column.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import LinAlgError

from bochner.engines import lapack


class BlockGradient(NamedTuple):
    """Loss of a block and its derivatives.

    Attributes
    ----------
    loss : float
        Mean squared error of the rows that judge, summed over the outputs.
    metric : array
        By the logarithms of the scales, shape (p,), or by the entries of the linear map and the logarithm of its size,
        shape (q^2 + 1,).
    log_noise : float
        By the logarithm of the ridge term.
    """

    loss: float
    metric: NDArray[np.float64]
    log_noise: float


class Workspace:
    """Arrays of a block, taken once: to have fresh ones from the system in every step would cost as much as the work.

    Parameters
    ----------
    rows, n_fit : int
    dtype : dtype
        Of the distances and their sums.
    """

    def __init__(self, rows: int, n_fit: int, dtype: DTypeLike) -> None:
        self.K, self.W = np.empty((rows, n_fit), dtype), np.empty((rows, n_fit), dtype)
        self.C, self.A = np.empty((rows, n_fit)), np.empty((n_fit, n_fit), order="F")
        self.n_fit = n_fit


def diagonal_loss(
    kernel: str, B: NDArray, y: NDArray, space: Workspace, log_scales: NDArray, log_noise: float
) -> BlockGradient:
    """Loss and gradient for one scale a column.

    Parameters
    ----------
    kernel : {"laplacian", "gaussian"}
        exp(-sum_m s_m |x_m - y_m|), or exp(-sum_m s_m^2 (x_m - y_m)^2 / 2).
    B : array of shape (p, rows)
        The block, transposed; the rows to fit first. Its dtype is that of the work of O(rows^2 p).
    y : array of shape (rows, K)
    space : Workspace
    log_scales : array of shape (p,)
        log s.
    log_noise : float
        log lambda.
    """
    s, n_fit = np.exp(log_scales), space.n_fit
    if kernel == "laplacian":
        from bochner.loops.distances import distance_sums, laplacian_block

        scales = s.astype(B.dtype)
        fit = np.ascontiguousarray(B[:, :n_fit])
        laplacian_block(B, fit, scales, space.K)
        loss, W, log_noise_gradient = _weights(space, y, log_noise)
        sums = np.zeros(len(B))
        distance_sums(B, fit, W, sums)
        return BlockGradient(loss, -s * sums, log_noise_gradient)
    X = B * s[:, np.newaxis].astype(B.dtype)
    _gaussian(X, space)
    loss, W, log_noise_gradient = _weights(space, y, log_noise)
    fit = X[:, :n_fit]
    squares = np.square(X) @ W.sum(axis=1) + np.square(fit) @ W.sum(axis=0) - 2 * ((X @ W) * fit).sum(axis=1)
    return BlockGradient(loss, -squares.astype(np.float64), log_noise_gradient)


def linear_loss(
    kernel: str, B: NDArray, y: NDArray, space: Workspace, A: NDArray, size: float, log_noise: float
) -> BlockGradient:
    """Loss and gradient for a linear map of the first columns, as `diagonal_loss` does for scales.

    Parameters
    ----------
    A : array of shape (q, q)
        With z = size (A x_1, x_2), x_1 the first q columns: exp(-|z - z'|_1), or exp(-|z - z'|_2^2 / 2).
    size : float
        Its logarithm's derivative is the last entry of `metric`, after those by the entries of A.
    """
    q, n_fit = len(A), space.n_fit
    Z = B * B.dtype.type(size)
    Z[:q] = A.astype(B.dtype) @ Z[:q]
    fit = np.ascontiguousarray(Z[:, :n_fit])
    if kernel == "laplacian":
        from bochner.loops.distances import laplacian_block, sign_sums

        laplacian_block(Z, fit, np.ones(len(Z), B.dtype), space.K)
        loss, W, log_noise_gradient = _weights(space, y, log_noise)
        V, U = np.zeros_like(Z), np.zeros_like(fit)
        sign_sums(Z, fit, W, V, U)
    else:
        _gaussian(Z, space)
        loss, W, log_noise_gradient = _weights(space, y, log_noise)
        V = Z * W.sum(axis=1) - fit @ W.T
        U = Z @ W - fit * W.sum(axis=0)
    by_size = (U * fit).sum(dtype=np.float64) - (V * Z).sum(dtype=np.float64)
    gradient = size * (U[:q] @ B[:q, :n_fit].T - V[:q] @ B[:q].T).astype(np.float64)
    return BlockGradient(loss, np.append(gradient, by_size), log_noise_gradient)


def _gaussian(X: NDArray, space: Workspace) -> None:
    """Write the Gaussian kernel of the columns of X into the workspace."""
    D, squares = space.K, np.square(X).sum(axis=0)
    np.matmul(X.T, X[:, : space.n_fit], out=D)
    D -= squares[:, np.newaxis] / 2
    D -= squares[: space.n_fit] / 2
    np.exp(np.minimum(D, 0, out=D), out=D)


def _weights(space: Workspace, y: NDArray, log_noise: float) -> tuple[float, NDArray, float]:
    """Loss, dL/dK * K in the dtype of K, and the derivative by the logarithm of the ridge term."""
    noise, n_fit, C, A = np.exp(log_noise), space.n_fit, space.C, space.A
    np.add(space.K, 1.0, out=C)
    A[:] = C[:n_fit].T
    A[np.diag_indices(n_fit)] += noise
    try:
        lapack.potrf(A)
    except LinAlgError:
        space.W[:] = 0
        return np.nan, space.W, 0.0
    lapack.potrs(A, a := np.array(y[:n_fit], np.float64, order="F"))
    e = C[n_fit:] @ a - y[n_fit:]
    u = e * (2 / len(e))
    lapack.potrs(A, b := np.asfortranarray(C[n_fit:].T @ u))
    np.matmul(np.concatenate([-b, u]).astype(space.W.dtype), a.T.astype(space.W.dtype), out=space.W)
    np.multiply(space.W, space.K, out=space.W)
    return float(np.square(e).sum() / len(e)), space.W, float(-noise * (b * a).sum())
