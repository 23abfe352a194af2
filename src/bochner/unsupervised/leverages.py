"""Leverages of rows of features: quadratic forms by a triangular factor, block by block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bochner.engines.algebra import product
from bochner.features.dense import DenseFeatures, Rows
from bochner.solvers.posterior import LEAST_LEFT, LinearPosterior

__all__ = ["LEAST_LEFT", "Leverage"]

PANEL, BLOCK_ROWS = 256, 4096


@dataclass(frozen=True)
class Leverage:
    """The form  1 / W + (z - m)'(G + alpha I)^-1 (z - m),  G the centred moments and W the weight of the rows.

    Attributes
    ----------
    root : array of shape (D, D)
        Inverse of the lower Cholesky factor, lower triangular.
    shift : array of shape (D,)
        The factor times m.
    weight : float
    """

    root: NDArray
    shift: NDArray[np.float64]
    weight: float

    @classmethod
    def of(cls, posterior: LinearPosterior, dtype: DTypeLike) -> Leverage:
        """That of all rows of the fit, in the precision of the features to come."""
        return cls(posterior.root.astype(dtype), posterior.root @ posterior.mean, posterior.weight)

    def forms(self, features: DenseFeatures, X: Rows) -> NDArray[np.float64]:
        """Forms of the rows' features, shape (n,): half of a product with all of the factor."""
        D, found = len(self.root), np.full(X.shape[0], 1 / self.weight)
        for a in range(0, X.shape[0], BLOCK_ROWS):
            Z = features.rows(X[a : a + BLOCK_ROWS])
            for j in range(0, D, PANEL):
                own = slice(j, min(j + PANEL, D))
                T = product(Z[:, : own.stop], self.root[own, : own.stop].T)
                T -= self.shift[own].astype(T.dtype)
                found[a : a + BLOCK_ROWS] += np.einsum("ij,ij->i", T, T)
        return found
