"""The held-out loss of exact kernel ridge regression on a small block of rows, and its gradient.

A block has t rows to fit and m validation rows. With K the kernel, 1 the constant kernel of an intercept and lambda
the ridge penalty,

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

from bochner.engines import algebra

SINGLE_NOISE = 1e-2  # ridge penalty, of whose matrix the factors in single precision are accurate enough for a gradient


class Minibatch(NamedTuple):
    """The rows of a block, and the kinds of their columns.

    Attributes
    ----------
    B : array of shape (p, rows)
        The block, transposed; the rows to fit first. Its dtype is that of the work.
    y : array of shape (rows, K)
    n_pairs : int
        The first so many columns and as many after them are two rising functions of the same numbers.
    binary : int array
        Columns of 0 and one other number, which is positive; none of the pairs.
    """

    B: NDArray
    y: NDArray
    n_pairs: int = 0
    binary: NDArray = np.empty(0, np.intp)

    def varying(self) -> tuple[Minibatch, NDArray[np.intp]]:
        """The columns that vary in this block, pairs together, and their numbers."""
        each, q = np.ptp(self.B, axis=1) > 0, self.n_pairs
        each[:q] = each[q : 2 * q] = each[:q] | each[q : 2 * q]
        varies = np.flatnonzero(each)
        if len(varies) == len(self.B):
            return self, varies
        n_pairs = int(np.searchsorted(varies, q))
        return Minibatch(self.B[varies], self.y, n_pairs, np.flatnonzero(np.isin(varies, self.binary))), varies


class BlockGradient(NamedTuple):
    """Loss of a block and its derivatives.

    Attributes
    ----------
    loss : float
        Mean squared error of the validation rows, summed over the outputs.
    metric : array
        By the logarithms of the scales, shape (p,), or by the entries of the linear map and the logarithm of its size,
        shape (q^2 + 1,).
    log_noise : float
        By the logarithm of the ridge penalty.
    """

    loss: float
    metric: NDArray[np.float64]
    log_noise: float


class Workspace:
    """Arrays of a block, allocated once: fresh ones in every step would cost as much as the work.

    Parameters
    ----------
    rows, n_fit : int
    dtype : dtype
        Of the distances, and of all work but the factors of nearly singular matrices.
    """

    def __init__(self, rows: int, n_fit: int, dtype: DTypeLike) -> None:
        self.K, self.W, self.D = (np.empty((rows, n_fit), dtype) for _ in range(3))
        self.factors = {np.dtype(own): np.empty((n_fit, n_fit), own, order="F") for own in (dtype, np.float64)}
        self.n_fit = n_fit


def diagonal_loss(
    kernel: str, block: Minibatch, space: Workspace, log_scales: NDArray, log_noise: float
) -> BlockGradient:
    """Loss and gradient for one scale a column.

    Parameters
    ----------
    kernel : {"laplacian", "gaussian"}
        exp(-sum_m s_m |x_m - y_m|), or exp(-sum_m s_m^2 (x_m - y_m)^2 / 2).
    block : Minibatch
    log_scales : array of shape (p,)
        log s.
    log_noise : float
        log lambda.
    """
    s, n_fit = np.exp(log_scales), space.n_fit
    scaled = block.B * s[:, np.newaxis].astype(block.B.dtype)
    if kernel == "laplacian":
        from bochner.loops.coordinates import add_distances

        loose = _begin(scaled, block, space)
        add_distances(loose, np.ascontiguousarray(loose[:, :n_fit]), space.D)
        loss, W, log_noise_gradient = _weights(space, block.y, log_noise)
        return BlockGradient(loss, -_weighted_distances(scaled, block.binary, W), log_noise_gradient)
    _gaussian(scaled, space)
    loss, W, log_noise_gradient = _weights(space, block.y, log_noise)
    fit = scaled[:, :n_fit]
    squares = np.square(scaled) @ W.sum(axis=1) + np.square(fit) @ W.sum(axis=0) - 2 * ((scaled @ W) * fit).sum(axis=1)
    return BlockGradient(loss, -squares.astype(np.float64), log_noise_gradient)


def linear_loss(
    kernel: str, block: Minibatch, space: Workspace, A: NDArray, size: float, log_noise: float
) -> BlockGradient:
    """Loss and gradient for a linear map of the first columns, as `diagonal_loss` does for scales.

    Parameters
    ----------
    A : array of shape (q, q)
        With z = size (A x_1, x_2), x_1 the first q columns, none of them binary: exp(-|z - z'|_1), or
        exp(-|z - z'|_2^2 / 2).
    size : float
        Its logarithm's derivative is the last entry of `metric`, after those by the entries of A.
    """
    B, q, n_fit = block.B, len(A), space.n_fit
    Z = B * B.dtype.type(size)
    Z[:q] = A.astype(B.dtype) @ Z[:q]
    if kernel == "laplacian":
        from bochner.loops.coordinates import add_distances, sign_sums

        loose = _begin(Z, block, space)
        add_distances(loose, np.ascontiguousarray(loose[:, :n_fit]), space.D)
    else:
        _gaussian(Z, space)
    loss, W, log_noise_gradient = _weights(space, block.y, log_noise)
    mixed, fit = Z[:q], np.ascontiguousarray(Z[:q, :n_fit])
    if kernel == "laplacian":
        V, U = np.zeros_like(mixed), np.zeros_like(fit)
        sign_sums(mixed, fit, W, V, U)
    else:
        V, U = mixed * W.sum(axis=1) - fit @ W.T, mixed @ W - fit * W.sum(axis=0)
    degree = 1 if kernel == "laplacian" else 2
    by_size = -degree * float(np.vdot(W, space.D))
    gradient = size * (U @ B[:q, :n_fit].T - V @ B[:q].T).astype(np.float64)
    return BlockGradient(loss, np.append(gradient, by_size), log_noise_gradient)


def _begin(X: NDArray, block: Minibatch, space: Workspace) -> NDArray:
    """Write the L1 distances by the binary columns of X, products of matrices; the other columns, pairs as one."""
    q, D, n_fit = block.n_pairs, space.D, space.n_fit
    T, loose = X[block.binary], np.delete(X, block.binary, axis=0)
    if len(T):
        ends = T.sum(axis=0)
        np.matmul((-2 * T / _tops(T)).T, T[:, :n_fit], out=D)
        D += ends[:, np.newaxis]
        D += ends[:n_fit]
        np.maximum(D, 0, out=D)  # equal rows have rounding errors
    else:
        D[:] = 0
    return np.concatenate([loose[:q] + loose[q : 2 * q], loose[2 * q :]]) if q else loose


def _weighted_distances(X: NDArray, binary: NDArray, W: NDArray) -> NDArray[np.float64]:
    """Sum_ij W_ij |x_im - x_jm| of each column m, shape (p,)."""
    from bochner.loops.coordinates import distance_sums

    n_fit, sums = W.shape[1], np.zeros(len(X))
    loose, T = np.delete(X, binary, axis=0), X[binary]
    own = np.zeros(len(loose))
    distance_sums(loose, np.ascontiguousarray(loose[:, :n_fit]), W, own)
    sums[np.delete(np.arange(len(X)), binary)] = own
    fit = T[:, :n_fit]
    sums[binary] = T @ W.sum(axis=1) + fit @ W.sum(axis=0) - 2 * ((T / _tops(T) @ W) * fit).sum(axis=1)
    return sums


def _tops(T: NDArray) -> NDArray:
    """The greater number of each binary column, shape (b, 1)."""
    tops = T.max(axis=1, keepdims=True)
    return np.where(tops > 0, tops, T.dtype.type(1))


def _gaussian(X: NDArray, space: Workspace) -> None:
    """Write half of the squared distances of the columns of X into the workspace."""
    D, squares = space.D, np.square(X).sum(axis=0) / 2
    np.matmul(-X.T, X[:, : space.n_fit], out=D)
    D += squares[:, np.newaxis]
    D += squares[: space.n_fit]
    np.maximum(D, 0, out=D)


def _weights(space: Workspace, y: NDArray, log_noise: float) -> tuple[float, NDArray, float]:
    """Loss, dL/dK * K in the dtype of K = exp(-D), and the derivative by the logarithm of the ridge penalty."""
    noise, n_fit, K, W = float(np.exp(log_noise)), space.n_fit, space.K, space.W
    np.exp(np.negative(space.D, out=K), out=K)
    dtype = K.dtype if noise > SINGLE_NOISE else np.dtype(np.float64)
    A = space.factors[dtype]
    np.add(K[:n_fit], 1.0, out=A.T, dtype=dtype)
    A[np.diag_indices(n_fit)] += dtype.type(noise)
    try:
        algebra.potrf(A)
    except LinAlgError:
        W[:] = 0
        return np.nan, W, 0.0
    y, out = y.astype(dtype), K[n_fit:]
    algebra.potrs(A, a := np.array(y[:n_fit], order="F"))
    e = out @ a + a.sum(axis=0) - y[n_fit:]
    u = e * dtype.type(2 / len(e))
    algebra.potrs(A, b := np.asfortranarray(out.T @ u + u.sum(axis=0)))
    both, a = np.concatenate([-b, u]).astype(W.dtype), a.astype(W.dtype)
    (np.multiply if a.shape[1] == 1 else np.matmul)(both, a.T, out=W)  # the first is faster for one output
    np.multiply(W, K, out=W)
    return float(np.square(e).sum() / len(e)), W, float(-noise * np.vdot(b, a))
