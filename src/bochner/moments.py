"""The mergeable statistic of ridge regression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bochner.data.weights import are_unit
from bochner.engines.algebra import gram
from bochner.engines.blas import single_threaded_blas

COPIED = 256  # rows and columns that are turned at a time


class Centred(NamedTuple):
    """Moments about the weighted means, which is what an unpenalised intercept leaves of the problem."""

    gram: NDArray  # (D, D)
    cross: NDArray  # (D, K)
    total: NDArray  # (K,), sums of squares of the targets
    feature_mean: NDArray  # (D,)
    target_mean: NDArray  # (K,)


class Moments:
    """Weighted sums of products of the columns of A = [Z, Y, 1]: the matrix A'WA in float64, and the row count.

    It holds Z'WZ, Z'WY, Y'WY and all weighted sums and means, and adds: the moments of two sets of rows are the sum
    of theirs. A block's product is taken in the precision of the block by one symmetric BLAS call and added in float64.

    Parameters
    ----------
    n_features : int
        Columns D of Z.
    n_outputs : int
        Columns K of Y.
    dtype : dtype, default=float32
        Precision of the blocks.
    shared : bool, default=False
        Whether all threads make one block's product, in panels, which takes a tenth more operations.
    """

    def __init__(self, n_features: int, n_outputs: int, dtype: DTypeLike = np.float32, shared: bool = False) -> None:
        self.n_features, self.n_outputs, self.dtype, self.shared = n_features, n_outputs, np.dtype(dtype), shared
        self.n_columns = n_features + n_outputs + 1
        self.matrix = np.zeros((self.n_columns, self.n_columns))
        self.n_rows = 0
        self._product: NDArray | None = None

    @classmethod
    def holding(cls, matrix: NDArray, n_rows: int, n_outputs: int, dtype: DTypeLike) -> Moments:
        """Moments whose matrix, of shape (D + K + 1, D + K + 1), is summed already."""
        moments = cls(len(matrix) - n_outputs - 1, n_outputs, dtype)
        moments.matrix, moments.n_rows = matrix, n_rows
        return moments

    def workspace(self, rows: int) -> NDArray:
        """Return an empty array for a block of A; its first `n_features` columns are for the features."""
        return np.empty((rows, self.n_columns), self.dtype)

    def add_block(self, A: NDArray, y: NDArray, weight: NDArray) -> None:
        """Add the rows of A, shape (b, n_columns), whose first columns hold Z; A is overwritten.

        Parameters
        ----------
        A : array of shape (b, D + K + 1)
        y : array of shape (b, K)
        weight : array of shape (b,)
        """
        A[:, self.n_features : -1] = y
        A[:, -1] = 1
        if not are_unit(weight):
            A *= np.sqrt(weight, dtype=self.dtype)[:, np.newaxis]
        if self._product is None:
            self._product = np.empty(self.matrix.shape, self.dtype)
        with single_threaded_blas():
            self.matrix += gram(A, self._product) if self.shared else np.matmul(A.T, A, out=self._product)
        self.n_rows += int(np.count_nonzero(weight))

    def trim(self) -> Moments:
        """Free what only further blocks need."""
        self._product = None
        return self

    def state(self) -> dict[str, NDArray]:
        """All that it holds: the rows of the lower triangle one after the other, the figures, an empty array."""
        sizes = np.arange(1, self.n_columns + 1)
        lower, first = np.empty(int(sizes.sum())), 0
        for row, size in zip(self.matrix, sizes.tolist(), strict=True):
            lower[first : first + size] = row[:size]
            first += size
        figures = np.array([self.n_features, self.n_outputs, self.n_rows, self.shared], np.int64)
        return {"lower": lower, "figures": figures, "dtype": np.empty(0, self.dtype)}

    @classmethod
    def of(cls, state: Mapping[str, NDArray]) -> Moments:
        """The moments of a `state`, to the bit."""
        n_features, n_outputs, n_rows, shared = state["figures"].tolist()
        moments = cls(n_features, n_outputs, state["dtype"].dtype, bool(shared))
        moments.n_rows = n_rows
        lower, matrix, first = state["lower"], moments.matrix, 0
        for size, row in enumerate(matrix, 1):
            row[:size] = lower[first : first + size]
            first += size
        for start in range(0, len(matrix), COPIED):
            part, rest = slice(start, start + COPIED), slice(start + COPIED, None)
            matrix[part, rest] = matrix[rest, part].T
            own = matrix[part, part]
            own += np.tril(own, -1).T
        return moments

    def __iadd__(self, other: Moments) -> Moments:
        self.matrix += other.matrix
        self.n_rows += other.n_rows
        self.dtype, self._product = np.promote_types(self.dtype, other.dtype), None
        return self

    def __add__(self, other: Moments) -> Moments:
        total = Moments(self.n_features, self.n_outputs, self.dtype)
        total += self
        total += other
        return total

    def __isub__(self, other: Moments) -> Moments:
        self.matrix -= other.matrix
        self.n_rows -= other.n_rows
        return self

    def __sub__(self, other: Moments) -> Moments:
        """Moments without those of some of the rows."""
        rest = Moments(self.n_features, self.n_outputs, self.dtype)
        rest += self
        rest -= other
        return rest

    @property
    def weight(self) -> float:
        """Sum of the weights; the number of rows where there are none."""
        return float(self.matrix[-1, -1])

    def centred(self) -> Centred:
        """Moments about the weighted means."""
        D = self.n_features
        means = self.matrix[-1, :-1] / self.weight
        feature_mean, target_mean = means[:D], means[D:]
        gram = self.matrix[:D, :D].copy()
        for start in range(0, D, 512):
            part = slice(start, start + 512)
            gram[part] -= self.weight * np.outer(feature_mean[part], feature_mean)
        cross = self.matrix[:D, D:-1] - self.weight * np.outer(feature_mean, target_mean)
        squares = np.diagonal(self.matrix)[D:-1] - self.weight * target_mean**2
        return Centred(gram, cross, np.maximum(squares, 0.0), feature_mean, target_mean)

    def centred_trace(self) -> float:
        """Trace of the centred Gram matrix: total variance of the features."""
        D = self.n_features
        squares = np.diagonal(self.matrix)[:D] - self.matrix[-1, :D] ** 2 / self.weight
        return float(np.maximum(squares, 0.0).sum())
