"""The normal equations of ridge regression as an operator, without the D x D matrix."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bochner.data.weights import are_unit
from bochner.features.stored import StoredRows
from bochner.vectors import add_scaled, dots


class NormalEquations:
    """V -> V Z'WZ about the weighted mean, which is what an unpenalised intercept leaves of the problem.

    With m = Z'w / sum(w) the mean row of Z, the operator is V -> V (Z'WZ - sum(w) m m'), one pass over the features.

    Parameters
    ----------
    blocks : iterable of StoredRows
        Iterated once a product. With an attribute `many` that is true the sums of blocks are added in double precision,
        and the diagonal is summed in the first pass, with all else.
    n_features, n_outputs : int
        Columns D of Z and K of y.
    dtype : dtype
        Of the vectors and sums.

    Attributes
    ----------
    n_rows : int
        Rows of positive weight.
    weight : float
        Sum of the weights.
    feature_mean : array of shape (D,)
    target_mean : array of shape (K,)
    rhs : array of shape (K, D)
        (y - mean)'WZ.
    """

    def __init__(self, blocks: Iterable[StoredRows], n_features: int, n_outputs: int, dtype: DTypeLike) -> None:
        self.blocks, self.dtype = blocks, np.dtype(dtype)
        self.many = bool(getattr(blocks, "many", False))
        squares = np.zeros(n_features, np.float64 if self.many else self.dtype)
        sums = np.zeros((n_outputs + 1, n_features), squares.dtype)
        totals, self.n_rows = np.zeros(n_outputs + 1), 0
        for features, y, weight in blocks:
            T = np.ones((n_outputs + 1, len(y)), self.dtype)
            T[:-1] = y.T
            if not are_unit(weight):
                T *= weight.astype(self.dtype, copy=False)
            own = self._of_block(sums)
            features.backward(T, own)
            _add(own, sums)
            totals += T.sum(axis=1, dtype=np.float64)
            if self.many:
                own = self._of_block(squares)
                features.squares(weight.astype(self.dtype), own)
                _add(own, squares)
            self.n_rows += int(np.count_nonzero(T[-1]))
        self._squares = squares if self.many else None
        self.weight = float(totals[-1])
        self.feature_mean = (sums[-1] / self.weight).astype(self.dtype)
        self.target_mean = totals[:-1] / self.weight
        add_scaled(sums[:-1], sums[-1:], -self.target_mean)
        self.rhs = sums[:-1].astype(self.dtype, copy=False)

    def _of_block(self, total: NDArray) -> NDArray:
        """Where the sums of a block go: where there are many, of their own, as sums grow by little then."""
        return np.zeros(total.shape, self.dtype) if self.many else total

    @property
    def shape(self) -> tuple[int, int]:
        """K and D."""
        return self.rhs.shape

    def __call__(self, V: NDArray) -> NDArray:
        """V (Z'WZ - sum(w) m m'), of shape (K, D)."""
        Q = np.zeros(V.shape, self.dtype)
        self.add(V, Q)
        return Q

    def add(self, V: NDArray, Q: NDArray) -> NDArray[np.float64]:
        """Add the product of V to Q, and return the inner products of the rows of V and the product, shape (K,).

        Features that are read in memory twice, there and back, are centred by the rows of V Z' in between, of which the
        inner products are the sums of squares; others by the outer product of the means.
        """
        V = np.ascontiguousarray(V, self.dtype)
        if not isinstance(self.blocks, list) or any(block.features.fused for block in self.blocks):
            product = np.zeros(V.shape, np.float64 if self.many else self.dtype)
            for features, _, weight in self.blocks:
                own = self._of_block(product)
                features.normal(V, weight, own)
                _add(own, product)
            product = product.astype(self.dtype, copy=False)
            add_scaled(product, self.feature_mean[np.newaxis], -self.weight * (V @ self.feature_mean))
            Q += product
            return dots(V, product)
        parts = [(features, features.forward(V), weight) for features, _, weight in self.blocks]
        totals = [(T if are_unit(weight) else T * weight).sum(axis=1, dtype=np.float64) for _, T, weight in parts]
        mean = (np.sum(totals, axis=0) / self.weight).astype(self.dtype)[:, np.newaxis]
        squares = np.zeros(len(V))
        for features, T, weight in parts:
            T -= mean
            weighted = T if are_unit(weight) else T * weight.astype(self.dtype, copy=False)
            squares += dots(weighted, T)
            features.backward(weighted, Q)
        return squares

    def diagonal(self) -> NDArray:
        """Diagonal of the centred matrix, shape (D,), not negative."""
        diagonal = np.zeros(self.shape[1], self.dtype)
        if self._squares is not None:
            diagonal += self._squares
        else:
            for features, _, weight in self.blocks:
                features.squares(weight.astype(self.dtype), diagonal)
        diagonal -= (self.weight * np.square(self.feature_mean, dtype=np.float64)).astype(self.dtype)
        return np.maximum(diagonal, 0, out=diagonal)

    def intercept(self, coef: NDArray) -> NDArray:
        """Intercepts that go with coefficients of shape (K, D), shape (K,)."""
        return self.target_mean - coef @ self.feature_mean


def _add(own: NDArray, total: NDArray) -> None:
    """Add the sums of a block to those of all, where they are not the same array."""
    if own is not total:
        total += own
