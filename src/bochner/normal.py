"""The normal equations of ridge regression as an operator, without the D x D matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bochner.engines.local import MIN_ROWS_PER_THREAD, for_rows, n_threads
from bochner.features.held import HeldRows


class NormalEquations:
    """V -> V Z'WZ about the weighted mean, which is what an unpenalised intercept leaves of the problem.

    With m = Z'w / sum(w) the mean row of Z, the operator is V -> V (Z'WZ - sum(w) m m'), one pass over the features.

    Parameters
    ----------
    blocks : iterable of HeldRows
        Iterated once a product.
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
    target_squares : array of shape (K,)
        Weighted sums of squares of the targets about their means.
    rhs : array of shape (K, D)
        (y - mean)'WZ.
    """

    def __init__(self, blocks: Iterable[HeldRows], n_features: int, n_outputs: int, dtype: DTypeLike) -> None:
        self.blocks, self.dtype = blocks, np.dtype(dtype)
        self.threads = n_threads()
        totals, squares, self.n_rows = np.zeros(n_outputs + 1), np.zeros(n_outputs), 0

        def targets(block: HeldRows, start: int, stop: int) -> NDArray:
            weight = np.ones(stop - start) if block.weight is None else block.weight[start:stop]
            return np.vstack([block.y[start:stop].T * weight, weight])

        def work(block: HeldRows, start: int, stop: int, Q: NDArray) -> None:
            block.features.backward(targets(block, start, stop).astype(self.dtype), start, stop, Q)

        sums = self._reduce(work, (n_outputs + 1, n_features))
        for block in self.blocks:
            T = targets(block, 0, len(block.y))
            totals += T.sum(axis=1)
            squares += (T[:-1] * block.y.T).sum(axis=1)
            self.n_rows += int(np.count_nonzero(T[-1]))
        self.weight = float(totals[-1])
        self.feature_mean = (sums[-1] / self.weight).astype(self.dtype)
        self.target_mean = totals[:-1] / self.weight
        self.target_squares = np.maximum(squares - self.weight * self.target_mean**2, 0.0)
        self.rhs = sums[:-1] - self.target_mean[:, np.newaxis].astype(self.dtype) * sums[-1]

    @property
    def shape(self) -> tuple[int, int]:
        """K and D."""
        return self.rhs.shape

    def _reduce(self, work: Callable[[HeldRows, int, int, NDArray], None], shape: tuple[int, ...]) -> NDArray:
        """Sum what `work` adds for all rows, each thread to an array of its own."""
        own = [np.zeros(shape, self.dtype) for _ in range(self.threads)]
        for block in self.blocks:
            rows = block.features.n_rows
            pieces = max(1, min(self.threads, rows // MIN_ROWS_PER_THREAD))
            edges = [rows * k // pieces for k in range(pieces + 1)]

            def share(k: int, _: int, block: HeldRows = block, edges: list[int] = edges) -> None:
                work(block, edges[k], edges[k + 1], own[k])

            for_rows(share, pieces, pieces)
        for array in own[1:]:
            own[0] += array
        return own[0]

    def __call__(self, V: NDArray) -> NDArray:
        """V (Z'WZ - sum(w) m m'), of shape (K, D)."""

        def work(block: HeldRows, start: int, stop: int, Q: NDArray) -> None:
            block.features.normal(V, block.weight, start, stop, Q)

        V = np.ascontiguousarray(V, self.dtype)
        Q = self._reduce(work, V.shape)
        Q -= (self.weight * (V @ self.feature_mean)).astype(self.dtype)[:, np.newaxis] * self.feature_mean
        return Q

    def diagonal(self) -> NDArray:
        """Diagonal of the centred matrix, shape (D,), not negative."""

        def work(block: HeldRows, start: int, stop: int, q: NDArray) -> None:
            weight = np.ones(block.features.n_rows) if block.weight is None else block.weight
            block.features.squares(weight.astype(self.dtype), start, stop, q)

        diagonal = self._reduce(work, self.feature_mean.shape)
        diagonal -= (self.weight * np.square(self.feature_mean, dtype=np.float64)).astype(self.dtype)
        return np.maximum(diagonal, 0)

    def intercept(self, coef: NDArray) -> NDArray:
        """Intercepts that go with coefficients of shape (K, D), shape (K,)."""
        return self.target_mean - coef @ self.feature_mean
