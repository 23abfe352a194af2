"""A source of rows seen through a feature map: every reduction that solvers ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bochner.data.sources import ArraySource, Block
from bochner.engines.local import require_memory
from bochner.features.base import FeatureMap
from bochner.moments import Moments

BLOCK_BYTES = 64 << 20
Advance = Callable[[int], None]


class Design:
    """The rows of a source, mapped to features one block at a time; never all of them at once.

    Parameters
    ----------
    source : ArraySource
    features : FeatureMap
        Drawn already.
    dtype : dtype, default=float32
        Precision of the features; sums over blocks are in float64 always.
    advance : callable, optional
        Called with the number of rows done after each block.
    """

    def __init__(
        self,
        source: ArraySource,
        features: FeatureMap,
        dtype: DTypeLike = np.float32,
        advance: Advance = lambda rows: None,
    ) -> None:
        self.source, self.features, self.dtype, self.advance = source, features, np.dtype(dtype), advance

    @property
    def block_rows(self) -> int:
        """Rows of a block, such that its features take 64 MB; at least 256."""
        return max(256, min(BLOCK_BYTES // (self.features.n_components * self.dtype.itemsize), self.source.n_rows))

    def _blocks(self) -> Iterator[Block]:
        for X, y, weight in self.source.blocks(self.block_rows):
            yield Block(X if X.dtype == self.dtype else X.astype(self.dtype), y, weight)
            self.advance(len(y))

    def mapped(self) -> Iterator[Block]:
        """Yield the blocks with their features in the place of X."""
        for X, y, weight in self._blocks():
            yield Block(self.features.rows(X), y, weight)

    def moments(self) -> Moments:
        """Weighted moments of features and targets, in one pass and O(D^2 + block) memory.

        Raises
        ------
        MemoryError
            Before the pass, where the moments and their factorisation would not fit the memory that is free.
        """
        D, K = self.features.n_components, self.source.n_outputs
        require_moments_memory(D, K, self.dtype)
        moments = Moments(D, K, self.dtype)
        workspace = moments.workspace(self.block_rows)
        for X, y, weight in self._blocks():
            A = workspace[: len(y)]
            self.features.rows(X, out=A)
            moments.add_block(A, y, weight)
        return moments

    def predict(self, coef: NDArray, intercept: NDArray) -> NDArray:
        """Predictions Z coef + intercept of all rows, shape (n, K)."""
        coef = coef.astype(self.dtype)
        result, done = np.empty((self.source.n_rows, coef.shape[1])), 0
        for X, _, _ in self._blocks():
            result[done : done + X.shape[0]] = self.features.dot(X, coef)
            done += X.shape[0]
        result += intercept
        return result


def require_moments_memory(n_features: int, n_outputs: int, dtype: DTypeLike) -> None:
    """Raise MemoryError where moments, their factorisation and a block do not fit the memory that is free."""
    entries = (n_features + n_outputs + 1) ** 2
    need = entries * (5 * 8 + np.dtype(dtype).itemsize) + 2 * BLOCK_BYTES
    require_memory(need, f"Ridge regression on {n_features:,} features", "Take a smaller n_components.")
