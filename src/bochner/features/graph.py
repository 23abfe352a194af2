"""The graph of all pairs of rows that anchor features stand for, by sums over the rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh

from bochner.engines.blas import single_threaded_blas
from bochner.features.anchors import AnchorFeatures
from bochner.features.base import FeatureMap
from bochner.features.leaves import leaves

SMALLEST = 1e-12  # eigenvalue that tells of a direction, over the largest


@dataclass(frozen=True)
class AnchorGraph:
    """W = Z L^-1 Z' = A A', A = Z L^-1/2, L = diag(Z'1), for anchor features Z of n rows, each of sum one.

    No weight is negative, and all degrees are one: W 1 = Z 1 = 1. What is asked of the n x n matrix comes of the small
    one A'A = L^-1/2 Z'Z L^-1/2, as (I - a W)^-1 Y = Y + a A (I - a A'A)^-1 A'Y. With weights of the rows, sums are
    weighted.

    Attributes
    ----------
    gram : array of shape (m, m)
        Z'Z.
    degrees : array of shape (m,)
        Z'1.
    weight : float
        Number of rows, or sum of their weights.

    References
    ----------
    Liu, He and Chang, "Large Graph Construction for Scalable Semi-Supervised Learning", ICML 2010, equation 6.
    """

    gram: NDArray
    degrees: NDArray
    weight: float

    @classmethod
    def of(cls, blocks: Iterable[tuple[sp.csr_matrix, NDArray]], n_features: int) -> Self:
        """Sum over blocks of features, shape (b, m), and the weights of their rows, shape (b,)."""
        gram, degrees, total = np.zeros((n_features, n_features)), np.zeros(n_features), 0.0
        for Z, weight in blocks:
            weighted = sp.csr_matrix(sp.diags_array(weight) @ Z, dtype=np.float64)
            gram += (Z.T @ weighted).toarray()
            degrees += np.ravel(weighted.sum(axis=0))
            total += float(weight.sum())
        return cls(gram, degrees, total)

    @property
    def scale(self) -> NDArray[np.float64]:
        """L^-1/2, zero for landmarks of no row, shape (m,)."""
        alive = self.degrees > 0
        return np.where(alive, 1 / np.sqrt(np.where(alive, self.degrees, 1)), 0.0)

    @property
    def reduced(self) -> NDArray[np.float64]:
        """A'A, shape (m, m), with the eigenvalues of W but for zeros."""
        return self.scale[:, np.newaxis] * self.gram * self.scale

    def eigenvectors(self, k: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The largest eigenvalues of W, and P of shape (m, k) with Z P their eigenvectors, also of new rows."""
        values, vectors = leading(self.reduced, k)
        return values, self.scale[:, np.newaxis] * vectors / np.sqrt(values)


@single_threaded_blas()
def leading(matrix: NDArray, k: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The k largest eigenvalues of a symmetric matrix, fewer where others are zero, the largest first; signs fixed."""
    m = len(matrix)
    values, vectors = eigh(matrix, subset_by_index=[max(m - k, 0), m - 1])
    kept = np.flatnonzero(values > SMALLEST * max(values[-1], 0))[::-1]
    values, vectors = values[kept], vectors[:, kept]
    largest = np.abs(vectors).argmax(axis=0)
    return values, vectors * np.where(vectors[largest, np.arange(len(kept))] < 0, -1.0, 1.0)


def is_anchored(features: FeatureMap) -> bool:
    """Whether a map is one of anchors alone, maybe of learned coordinates."""
    found = list(leaves(features))
    return len(found) == 1 and isinstance(found[0].features, AnchorFeatures)
