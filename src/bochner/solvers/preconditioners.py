"""Approximate inverses of Z'WZ + penalty, cheap to apply, which save conjugate gradients most of their iterations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky

from bochner.vectors import dots, scale

Preconditioner = Callable[[NDArray, NDArray], NDArray]
JUDGES = 512


class Jacobi:
    """The diagonal: for bins, whose columns of one grid are orthogonal, most of the matrix.

    Parameters
    ----------
    diagonal : array of shape (D,)
        Of Z'WZ.
    penalty : array of shape (K, D) or (K, 1)
    """

    def __init__(self, diagonal: NDArray, penalty: NDArray) -> None:
        same = (penalty == penalty[:1]).all()
        self.inverse = (1 / (diagonal + (penalty[:1] if same else penalty))).astype(diagonal.dtype)

    def __call__(self, R: NDArray, Z: NDArray) -> NDArray:
        """Write residuals of shape (K, D) over the diagonal."""
        return scale(R, self.inverse, Z)


class SampledGram:
    """Inverse of w G + alpha I, G the mean Gram matrix of centred features of sampled rows, w the sum of all weights.

    One eigendecomposition serves every alpha. Prefer it for up to 2,048 features, of which several times as many rows
    can be sampled (Rudi, Carratino and Rosasco, "FALKON", NIPS 2017). Eigenvalues below the rounding error of the
    largest count as that, for a tiny alpha would take what is left of them for directions without any rows.

    Parameters
    ----------
    S : array of shape (m, D)
        Centred features times the roots of the rows' weights, of mean 1.
    """

    def __init__(self, S: NDArray) -> None:
        self.values, self.vectors = np.linalg.eigh(S.T @ S / len(S))
        self.values = np.maximum(self.values, np.finfo(self.values.dtype).eps * max(self.values[-1], 0))

    def at(self, weight: float, penalty: NDArray) -> Preconditioner:
        """Preconditioner for rows of the given sum of weights and ridge terms of shape (K,)."""
        inverse = 1 / (weight * self.values + penalty[:, np.newaxis])

        def apply(R: NDArray, Z: NDArray) -> NDArray:
            Z[:] = (R @ self.vectors * inverse) @ self.vectors.T
            return dots(R, Z)

        return apply


class SampledRows:
    """Inverse of S'S + a I, S the centred features of m < D sampled rows, scaled to all rows.

    Only an m x m matrix is factorised, for (S'S + a I)^-1 = (I - S'(SS' + a I)^-1 S) / a. The directions that m < D
    rows do not span have eigenvalues too; a = alpha + tail gives them their mean, tail, which is measured on further
    rows as what the span leaves of them. With a = alpha alone five times as many iterations are needed.

    Parameters
    ----------
    S : array of shape (m + h, D)
        Centred features times the roots of the rows' weights, of mean 1; the last h rows, a quarter and 512 at most,
        are those that measure the tail; of fewer than four rows none, and the tail is zero.

    References
    ----------
    Frangella, Tropp and Udell, "Randomized Nystrom Preconditioning", 2023 (what to do about the tail).
    """

    def __init__(self, S: NDArray) -> None:
        self.m = m = len(S) - min(JUDGES, len(S) // 4)
        gram = S @ S.T
        self.S, self.gram = S[:m], gram[:m, :m]
        self.tail = max(_left_over(gram, m), 0.0) / max(S.shape[1] - m, 1) if m < len(S) else 0.0

    def at(self, weight: float, penalty: NDArray) -> Preconditioner:
        """Preconditioner for rows of the given sum of weights and ridge terms of shape (K,)."""
        shifts, choice = np.unique(penalty + weight * self.tail, return_inverse=True)
        factors = [_factor(self.gram, shift * self.m / weight) for shift in shifts]

        def apply(R: NDArray, Z: NDArray) -> NDArray:
            single = R.astype(self.S.dtype, copy=False)
            products = self.S @ single.T
            for c, lower in enumerate(factors):
                own = choice == c
                inner = cho_solve((lower, True), products[:, own], check_finite=False)
                Z[own] = (single[own] - inner.T @ self.S) / shifts[c].astype(single.dtype)
            return dots(R, Z)

        return apply


def _left_over(gram: NDArray, m: int) -> float:
    """Mean squared length of what the span of the first m rows leaves of the others."""
    lower = _factor(gram[:m, :m], 1e-3 * float(np.trace(gram)) / len(gram))
    across = gram[:m, m:]
    inside = (across * cho_solve((lower, True), across, check_finite=False)).sum(axis=0)
    return float(np.mean(np.diagonal(gram)[m:] - inside))


def _factor(gram: NDArray, shift: float) -> NDArray:
    """Lower Cholesky factor of gram + shift I, with as much more on the diagonal as rounding makes necessary."""
    rounding = np.finfo(gram.dtype).eps * max(float(np.trace(gram)), np.finfo(np.float32).tiny)
    while True:
        shifted = gram.copy()
        np.fill_diagonal(shifted, np.diagonal(shifted) + shift)
        try:
            return cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            shift += rounding
            rounding *= 10


class Blocks:
    """A preconditioner for each of several ranges of columns.

    Parameters
    ----------
    parts : sequence of Preconditioner
    edges : array of shape (M + 1,)
        First column of each, and the end of the last.
    """

    def __init__(self, parts: Sequence[Preconditioner], edges: NDArray) -> None:
        self.parts, self.edges = parts, edges

    def __call__(self, R: NDArray, Z: NDArray) -> NDArray:
        """Apply each to its columns of the residuals."""
        ranges = zip(self.parts, self.edges, self.edges[1:], strict=False)
        return np.sum([part(R[:, first:stop], Z[:, first:stop]) for part, first, stop in ranges], axis=0)
