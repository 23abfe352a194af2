"""The held-out loss of exact kernel ridge regression on a small block of rows, and its
gradient.

A block has t rows to fit and m validation rows. With K the kernel, 1 the constant
kernel of an intercept and lambda the ridge penalty,

    F = K_tt + 1 1' + lambda I,    a = F^-1 y_t,
    e = (K_mt + 1 1') a - y_m,    L = |e|^2 / m,

summed over the outputs. With u = 2 e / m and b = F^-1 (K_mt + 1 1')' u the derivatives
are

    dL / dK_mt = u a',    dL / dK_tt = -b a',    dL / dlog lambda = -lambda sum(b * a),

and a metric's own parameters follow from W = dL/dK * K and the distances, O(rows^2)
operations a column. As K_tt is symmetric, it is computed above the diagonal only, where
W_ij = -(b_i a_j + b_j a_i) K_ij counts both of its halves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import LinAlgError, get_blas_funcs

from bochner.engines import algebra


class Minibatch(NamedTuple):
    """The rows of a block, and the kinds of their columns.

    Attributes
    ----------
    B : array of shape (p, rows)
        The block, transposed; the rows to fit first. Its dtype is that of the work.
    y : array of shape (rows, K)
    n_pairs : int
        The first `n_pairs` columns and the next `n_pairs` are two rising functions of
        the same numbers.
    binary : int array
        Columns of 0 and one other number, which is positive; none of the pairs.
    """

    B: NDArray
    y: NDArray
    n_pairs: int = 0
    binary: NDArray = np.empty(0, np.intp)

    def varying(self) -> tuple[Minibatch, NDArray[np.intp]]:
        """The columns that vary in this block, pairs together, and their numbers."""
        each = np.ptp(self.B, axis=1) > 0
        q = self.n_pairs
        each[:q] = each[q : 2 * q] = each[:q] | each[q : 2 * q]
        varies = np.flatnonzero(each)
        if len(varies) == len(self.B):
            return self, varies
        n_pairs = int(np.searchsorted(varies, q))
        return Minibatch(
            self.B[varies],
            self.y,
            n_pairs,
            np.flatnonzero(np.isin(varies, self.binary)),
        ), varies


class BlockGradient(NamedTuple):
    """Loss of a block and its derivatives.

    Attributes
    ----------
    loss : float
        Mean squared error of the validation rows, summed over the outputs.
    metric : array
        By the logarithms of the scales, shape (p,), or by the entries of the linear map
        and the logarithm of its size, shape (q^2 + 1,).
    log_noise : float
        By the logarithm of the ridge penalty.
    """

    loss: float
    metric: NDArray[np.float64]
    log_noise: float


class Workspace:
    """Arrays of a block, allocated once: fresh ones in every step would cost as much as
    the work.

    Parameters
    ----------
    rows, n_fit : int
    dtype : dtype
        Of all work. Single precision is accurate enough for a gradient at every ridge
        penalty that is allowed.
    """

    def __init__(self, rows: int, n_fit: int, dtype: DTypeLike) -> None:
        self.K = np.empty((rows, n_fit), dtype)
        self.F = np.empty((n_fit, n_fit), dtype)
        self.n_fit = n_fit
        self.factor = np.zeros(n_fit, dtype)


class _Squares(NamedTuple):
    """Columns whose distances, `factor` (S_i + S_j - 2 L_i X_j) summed over them,
    are products of matrices.
    """

    S: NDArray
    L: NDArray
    X: NDArray
    factor: float

    def write(self, K: NDArray) -> None:
        """Write the distances of all rows and those to fit."""
        if not len(self.X):
            K[:] = 0
            return
        ends = self.factor * self.S.sum(axis=0, keepdims=True, dtype=K.dtype)
        one = np.ones_like(ends)
        left_matrix = np.concatenate([-2 * self.factor * self.L, ends, one])
        np.matmul(
            left_matrix.T, np.concatenate([self.X, one, ends])[:, : K.shape[1]], out=K
        )

    def weighted(self, W: NDArray) -> NDArray:
        """Sum_ij W_ij (S_im + S_jm - 2 L_im X_jm) of each column m."""
        n_fit = W.shape[1]
        if not len(self.X):
            return np.empty(0)
        one = np.ones(len(W), W.dtype)
        products = ((self.L @ W) * self.X[:, :n_fit]).sum(axis=1)
        sums: NDArray = (
            self.S @ (W @ one[:n_fit]) + self.S[:, :n_fit] @ (one @ W) - 2 * products
        )
        return sums


def _squares(X: NDArray) -> _Squares:
    """Half of the squared distances of columns."""
    return _Squares(np.square(X), X, X, 0.5)


def _flags(T: NDArray) -> _Squares:
    """The L1 distances of columns of 0 and one other number each."""
    if not len(T):
        return _Squares(T, T, T, 1.0)
    tops = T.max(axis=1, keepdims=True)
    return _Squares(T, T / np.where(tops > 0, tops, T.dtype.type(1)), T, 1.0)


def diagonal_loss(
    kernel: str,
    block: Minibatch,
    space: Workspace,
    log_scales: NDArray,
    log_noise: float,
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
    X = block.B * np.exp(log_scales).astype(block.B.dtype)[:, np.newaxis]
    q = block.n_pairs
    binary = block.binary
    if kernel == "gaussian":
        loss, _, log_noise_gradient = _weigh(
            _squares(X), X[:0], X[:0], block.y, space, log_noise
        )
        column_sums = _squares(X).weighted(space.K)
    else:
        loose = np.delete(X, binary, axis=0) if len(binary) else X
        flags = _flags(X[binary])
        columns = np.concatenate([loose[:q] + loose[q : 2 * q], loose[2 * q :]])
        loss, sums, log_noise_gradient = _weigh(
            flags, columns, loose, block.y, space, log_noise
        )
        column_sums = (
            sums
            if not len(binary)
            else np.insert(
                sums, binary - np.arange(len(binary)), flags.weighted(space.K)
            )
        )
    return BlockGradient(loss, -column_sums.astype(np.float64), log_noise_gradient)


def linear_loss(
    kernel: str,
    block: Minibatch,
    space: Workspace,
    A: NDArray,
    size: float,
    log_noise: float,
) -> BlockGradient:
    """Loss and gradient for a linear map of the first columns, as `diagonal_loss` does
    for scales.

    Parameters
    ----------
    A : array of shape (q, q)
        With z = size (A x_1, x_2), x_1 the first q columns, none of them binary:
        exp(-|z - z'|_1), or exp(-|z - z'|_2^2 / 2).
    size : float
        Its logarithm's derivative is the last entry of `metric`, after those by the
        entries of A.
    """
    from bochner.loops.coordinates import sign_sums

    B = block.B
    q = len(A)
    n_fit = space.n_fit
    Z = B * B.dtype.type(size)
    Z[:q] = A.astype(B.dtype) @ Z[:q]
    mixed = Z[:q]
    rest = _squares(Z[q:])
    loose = Z[:0]
    if kernel == "gaussian":
        loss, sums, log_noise_gradient = _weigh(
            _squares(Z), loose, loose, block.y, space, log_noise
        )
        W = space.K
        S = mixed * W.sum(axis=1) - mixed[:, :n_fit] @ W.T
        S[:, :n_fit] += mixed[:, :n_fit] * W.sum(axis=0) - mixed @ W
    else:
        rest = _flags(Z[block.binary])
        columns = np.delete(Z, block.binary, axis=0)
        loss, sums, log_noise_gradient = _weigh(
            rest, columns, columns[q:], block.y, space, log_noise
        )
        sign_sums(mixed, space.K, S := np.zeros_like(mixed))
    by_size = -float(np.vdot(mixed, S) + sums.sum() + rest.weighted(space.K).sum())
    return BlockGradient(
        loss,
        np.append(-size * (S @ B[:q].T).astype(np.float64), by_size),
        log_noise_gradient,
    )


def _weigh(
    squares: _Squares,
    columns: NDArray,
    loose: NDArray,
    y: NDArray,
    space: Workspace,
    log_noise: float,
) -> tuple[float, NDArray, float]:
    """Write W = dL/dK * K over K, the kernel of the L1 distances of some columns and
    the distances of other ones.

    Returns
    -------
    loss : float
    sums : array
        Sum_ij W_ij |x_im - x_jm| of each loose column m.
    log_noise : float
        Derivative of the loss by the logarithm of the ridge penalty.
    """
    from bochner.loops.coordinates import kernel_rows, weigh_rows

    K = space.K
    F = space.F
    n_fit = space.n_fit
    n_loose = len(loose)
    dtype = K.dtype
    noise = float(np.exp(log_noise))
    columns = _even(columns)
    loose = _even(loose)
    sums = np.zeros(len(loose))
    squares.write(K)
    kernel_rows(columns, K, F, dtype.type(noise))
    lower = F.T  # in Fortran's order
    try:
        algebra.potrf(lower)
    except LinAlgError:
        K[:] = 0
        return np.nan, sums[:n_loose], 0.0
    y = y.astype(dtype, copy=False)
    out = K[n_fit:]
    a = _solve(lower, y[:n_fit])
    e = out @ a + a.sum(axis=0) - y[n_fit:]
    u = e * dtype.type(2 / len(e))
    b = _solve(lower, out.T @ u + u.sum(axis=0))
    P, A = (
        np.ascontiguousarray(np.concatenate(both).T)
        for both in ([-b, u], [a, np.zeros_like(u)])
    )
    weigh_rows(K, P, A, loose, sums, space.factor)
    return (
        float(np.square(e).sum() / len(e)),
        sums[:n_loose],
        float(-noise * np.vdot(b, a)),
    )


def _solve(lower: NDArray, B: NDArray) -> NDArray:
    """Solve L L'X = B, L in Fortran's order; one column by SciPy's function, as
    `algebra` would take as long to call BLAS as that works.
    """
    if B.shape[1] > 1:
        return algebra.solve_cholesky(lower, B)
    trsv = get_blas_funcs("trsv", dtype=lower.dtype)
    forward = trsv(lower, B[:, 0], lower=1)
    X: NDArray = trsv(lower, forward, lower=1, trans=1, overwrite_x=1)[:, np.newaxis]
    return X


def _even(X: NDArray) -> NDArray:
    """Columns and one of zeros where their number is odd, as the loops take two at a
    time.
    """
    return np.concatenate([X, np.zeros_like(X[: len(X) % 2])])
