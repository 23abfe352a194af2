"""The normal equations of ridge regression as an operator, without the D x D matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bochner.arrays import Floats
from bochner.data.weights import are_unit
from bochner.design.passes import Groups, PassSums, summed
from bochner.design.vector_arithmetic import add_scaled, dots, row_sums
from bochner.features.stored import StoredRows


@dataclass
class Totals(PassSums):
    """Sums over rows that are needed once.

    Attributes
    ----------
    sums : array of shape (K + 1, D)
        [y, 1]'WZ.
    weights : array of shape (K + 1,)
        [y, 1]'w.
    squares : array of shape (D,)
        Diagonal of Z'WZ, where there are many rows; else zero.
    n_rows : int
        Rows of positive weight.
    """

    sums: NDArray
    weights: NDArray
    squares: NDArray
    n_rows: int


@dataclass
class Products(PassSums):
    """A product with the centred matrix, shape (K, D), and inner products, shape
    (K,), of some of the rows.
    """

    product: NDArray
    squares: Floats


@dataclass(frozen=True)
class Sums:
    """How sums over blocks are taken.

    Attributes
    ----------
    dtype : dtype
        Of the sums of a block.
    many : bool
        Whether there are so many rows that sums grow by little in the end: those of
        blocks are added in double precision then.
    """

    dtype: np.dtype
    many: bool

    def zeros(self, *shape: int) -> NDArray:
        """The sum over no blocks."""
        return np.zeros(shape, np.float64 if self.many else self.dtype)

    def add(self, total: NDArray, add: Callable[[NDArray], object]) -> None:
        """Let ``add(sums)`` add the sums of a block to the total, or to zeros that
        are added to it.
        """
        if not self.many:
            add(total)
            return
        block_sums = np.zeros(total.shape, self.dtype)
        add(block_sums)
        total += block_sums

    def totals(
        self, blocks: Iterable[StoredRows], n_features: int, n_outputs: int
    ) -> Totals:
        """Sums of features, targets and weights."""
        sums = self.zeros(n_outputs + 1, n_features)
        squares = self.zeros(n_features)
        weights = np.zeros(n_outputs + 1)
        n_rows = 0
        for features, y, weight in blocks:
            T = np.ones((n_outputs + 1, len(y)), self.dtype)
            T[:-1] = y.T
            if not are_unit(weight):
                T *= weight.astype(self.dtype, copy=False)
            self.add(sums, partial(features.backward, T))
            weights += row_sums(T)
            self.add(
                squares[np.newaxis],
                partial(features.squares, weight[np.newaxis].astype(self.dtype)),
            )
            n_rows += int(np.count_nonzero(T[-1]))
        return Totals(sums, weights, squares, n_rows)

    def centred_product(
        self,
        blocks: Iterable[StoredRows],
        V: NDArray,
        feature_mean: NDArray,
        total: NDArray | None = None,
    ) -> Products:
        """V (Z'WZ about a mean row of all rows, which these need not be), added to a
        total where one is given.

        The rows of V Z' are centred, between the ways there and back. That keeps the
        digits that a difference of large sums would lose, and their sums of squares
        are the inner products.
        """
        total = self.zeros(*V.shape) if total is None else total
        squares = np.zeros(len(V))
        weighted_sums = np.zeros(len(V))
        offset = (V @ feature_mean)[:, np.newaxis]
        for features, _, weight in blocks:
            T = features.forward(V)
            T -= offset.astype(T.dtype, copy=False)
            weighted = T if are_unit(weight) else T * weight.astype(T.dtype, copy=False)
            squares += dots(weighted, T)
            weighted_sums += row_sums(weighted)
            self.add(total, partial(features.backward, weighted))
        add_scaled(total, feature_mean[np.newaxis], -weighted_sums)
        return Products(total, squares)


class NormalEquations:
    """V -> V Z'WZ about the weighted mean, which is what an unpenalised intercept
    leaves of the problem.

    With m = Z'w / sum(w) the mean row of Z, the operator is V -> V (Z'WZ - sum(w) m
    m'), one pass over the features.

    Parameters
    ----------
    blocks : iterable of StoredRows, or Groups
        Iterated once a product; of groups each is, where it is. With an attribute
        `many` that is true the sums of blocks are added in double precision, and the
        diagonal is summed in the first pass, with all else.
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

    def __init__(
        self,
        blocks: Iterable[StoredRows] | Groups,
        n_features: int,
        n_outputs: int,
        dtype: DTypeLike,
    ) -> None:
        self.dtype = np.dtype(dtype)
        self.blocks = blocks
        self.sums = Sums(self.dtype, bool(getattr(blocks, "many", False)))
        totals: Totals = summed(blocks, self.sums.totals, n_features, n_outputs)
        sums = totals.sums
        weights = totals.weights
        self.n_rows = totals.n_rows
        self._squares = totals.squares
        self.weight = float(weights[-1])
        self.feature_mean = (sums[-1] / self.weight).astype(self.dtype)
        self.target_mean = weights[:-1] / self.weight
        add_scaled(sums[:-1], sums[-1:], -self.target_mean)
        self.rhs = sums[:-1].astype(self.dtype, copy=False)

    @property
    def shape(self) -> tuple[int, int]:
        """K and D."""
        return self.rhs.shape

    def __call__(self, V: NDArray) -> NDArray:
        """V (Z'WZ - sum(w) m m'), of shape (K, D)."""
        Q = np.zeros(V.shape, self.dtype)
        self.add(V, Q)
        return Q

    def add(self, V: NDArray, Q: NDArray) -> Floats:
        """Add the product of V to Q, and return the inner products of the rows of V and
        the product, shape (K,).
        """
        V = np.ascontiguousarray(V, self.dtype)
        if isinstance(self.blocks, list) and any(
            block.features.fused for block in self.blocks
        ):
            # Features that are read once are centred by the outer product of the means
            product = self.sums.zeros(*V.shape)
            for features, _, weight in self.blocks:
                self.sums.add(product, partial(features.normal, V, weight))
            factors = -self.weight * (V @ self.feature_mean)
            add_scaled(product, self.feature_mean[np.newaxis], factors)
            Q += product
            return dots(V, product)
        work = self.sums.centred_product
        if isinstance(self.blocks, Groups) or self.sums.many or Q.dtype != self.dtype:
            products: Products = summed(self.blocks, work, V, self.feature_mean)
            Q += products.product.astype(Q.dtype, copy=False)
            return products.squares
        return work(self.blocks, V, self.feature_mean, Q).squares

    def diagonal(self) -> NDArray:
        """Diagonal of the centred matrix, shape (D,), not negative."""
        diagonal = self._squares.astype(self.dtype)
        diagonal -= (
            self.weight * np.square(self.feature_mean, dtype=np.float64)
        ).astype(self.dtype)
        return np.maximum(diagonal, 0, out=diagonal)

    def intercept(self, coef: NDArray) -> NDArray:
        """Intercepts that go with coefficients of shape (K, D), shape (K,)."""
        return self.target_mean - coef @ self.feature_mean
