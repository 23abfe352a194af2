"""Canonical correlations of two maps' features, from their joint moments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from bochner.engines.blas import single_threaded_blas
from bochner.moments import Moments

ROUNDING = {np.dtype(np.float32): 1e-7, np.dtype(np.float64): 1e-14}  # of the largest variance


class Covariances(NamedTuple):
    """Covariances of the features of both views, and their means."""

    xx: NDArray[np.float64]  # (D, D)
    yy: NDArray[np.float64]  # (E, E)
    xy: NDArray[np.float64]  # (D, E)
    x_mean: NDArray[np.float64]  # (D,)
    y_mean: NDArray[np.float64]  # (E,)

    @classmethod
    def of(cls, moments: Moments) -> Covariances:
        """Those of the features and the targets of moments."""
        D, mean = moments.n_features, moments.matrix[-1, :-1] / moments.weight
        whole = moments.matrix[:-1, :-1] / moments.weight - np.outer(mean, mean)
        return cls(whole[:D, :D], whole[D:, D:], whole[:D, D:], mean[:D], mean[D:])

    def correlations(self, x_weights: NDArray, y_weights: NDArray) -> NDArray[np.float64]:
        """Correlation of each pair of directions, the columns of both; 0 where one of them does not vary."""
        both = np.einsum("dk,dk->k", x_weights, self.xy @ y_weights)
        squares = [np.einsum("dk,dk->k", w, C @ w) for w, C in ((x_weights, self.xx), (y_weights, self.yy))]
        scale = np.sqrt(np.maximum(squares[0], 0) * np.maximum(squares[1], 0))
        return np.divide(both, scale, out=np.zeros(len(both)), where=scale > 0)


class Whitened:
    """Covariances C as V diag(s) V', from which (C + g I)^-1/2 follows for any g, without what is rounding."""

    def __init__(self, covariance: NDArray, rounding: float) -> None:
        values, vectors = eigh(covariance)
        kept = values > rounding * max(float(values[-1]), 0.0)
        self.values, self.vectors, self.mean_variance = values[kept], vectors[:, kept], max(values.mean(), 0.0)

    def root(self, alpha: float) -> NDArray[np.float64]:
        """V (s + g)^-1/2 for g = alpha times the mean of all eigenvalues, shape (D, rank)."""
        return self.vectors / np.sqrt(self.values + alpha * self.mean_variance)


class Directions(NamedTuple):
    """Pairs of directions, the columns of both, in the order of their correlations."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]


class CanonicalPairs:
    """The directions of the largest correlations for any ridge term (Bach and Jordan, 2002).

    With R = V (s + g)^-1/2 of each view the matrix M = R_x' C_xy R_y has the correlations as singular values, and its
    singular vectors, times R_x and R_y, are the directions.
    """

    @single_threaded_blas()
    def __init__(self, covariances: Covariances, dtype: np.dtype) -> None:
        self.covariances = covariances
        self.x, self.y = (Whitened(C, ROUNDING[dtype]) for C in (covariances.xx, covariances.yy))

    @single_threaded_blas()
    def directions(self, alpha: float, n_components: int) -> Directions:
        """The leading pairs, of regularised variance 1, the largest entry of each x positive."""
        x_root, y_root = self.x.root(alpha), self.y.root(alpha)
        M = x_root.T @ self.covariances.xy @ y_root
        K = min(n_components, *M.shape)
        turned = M.shape[0] > M.shape[1]
        A = M.T if turned else M
        own = eigh(A @ A.T, subset_by_index=(len(A) - K, len(A) - 1))[1][:, ::-1]
        other = A.T @ own
        lengths = np.linalg.norm(other, axis=0)
        other = np.divide(other, lengths, out=np.zeros(other.shape), where=lengths > 0)
        x, y = x_root @ (other if turned else own), y_root @ (own if turned else other)
        signs = np.sign(x[np.abs(x).argmax(axis=0), np.arange(K)]) if len(x) else np.ones(K)
        signs = np.where(signs == 0, 1, signs)
        return Directions(x * signs, y * signs)


def choose_ridge(halves: tuple[Moments, Moments], alphas: NDArray, n_components: int) -> tuple[float, NDArray]:
    """The ridge term whose directions of each half of the rows have the largest correlations on the other half.

    Both are known from the moments alone.

    Returns
    -------
    alpha : float
        The largest of those with the largest sum.
    scores : array of shape (A,)
        Mean correlations.
    """
    known = [Covariances.of(half) for half in halves]
    pairs = [CanonicalPairs(own, half.dtype) for own, half in zip(known, halves, strict=True)]
    scores = np.zeros(len(alphas))
    for k, alpha in enumerate(alphas.tolist()):
        for own, other in ((0, 1), (1, 0)):
            found = pairs[own].directions(alpha, n_components)
            scores[k] += known[other].correlations(*found).mean() / 2
    return float(alphas[np.flatnonzero(scores == scores.max())[-1]]), scores
