"""Rows to dense features, tile by tile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.engines.algebra import product
from bochner.engines.local import for_rows, require_memory
from bochner.features.stored import Stored, StoredBytes, StoredFloats

TILE_BYTES, TILE_ROWS = 2 << 20, 4096
Rows: TypeAlias = "NDArray | sp.csr_array"
Centres: TypeAlias = "Sequence[NDArray | None]"


class DenseFeatures(ABC):
    """Computes dense features of rows, in tiles that stay in a core's cache."""

    @property
    @abstractmethod
    def n_features_out(self) -> int:
        """Number D of columns."""

    @abstractmethod
    def write(self, X: Rows, out: NDArray) -> None:
        """Write the features of a few rows into the first columns of `out`, C-contiguous, (b, >= D), dtype of X."""

    def bounds(self) -> NDArray | None:
        """Largest size of the entries of each column, shape (D,); None where they have none."""
        return None

    def rows(self, X: Rows, out: NDArray | None = None) -> NDArray:
        """Features of the rows, in the first columns of `out` where it is given; other columns are left alone."""
        Z = np.empty((X.shape[0], self.n_features_out), X.dtype) if out is None else out
        tile = self._tile_rows(X.dtype)

        def loop(start: int, stop: int) -> None:
            for a in range(start, stop, tile):
                b = min(a + tile, stop)
                self.write(X[a:b], Z[a:b])

        for_rows(loop, X.shape[0], tile)
        return Z

    def mean(self, X: Rows, weight: NDArray) -> NDArray[np.float64]:
        """Weighted mean features of some rows, shape (D,)."""
        Z = self.rows(X)
        share = weight / weight.sum()
        return product(share[np.newaxis], Z.astype(np.float64, copy=False))[0]

    def store(self, X: Rows, packed: bool = False, centres: Centres | None = None) -> Stored:
        """Features of the rows, held in memory; see `FeatureMap.store`."""
        centre = None if centres is None else centres[0]
        bounds = self.bounds() if packed else None
        if bounds is not None:
            return self._store_bytes(X, bounds, np.zeros(len(bounds)) if centre is None else centre)
        Z = self.rows(X)
        if centre is not None:
            Z -= centre.astype(Z.dtype)
        return StoredFloats(Z)

    def _store_bytes(self, X: Rows, bounds: NDArray, centre: NDArray) -> StoredBytes:
        stored = StoredBytes(X.shape[0], bounds + np.abs(centre), centre)
        self._each_tile(X, stored.put)
        return stored

    def stored_bytes(self, dtype: np.dtype, packed: bool) -> int:
        """Memory that one stored row takes, in bytes."""
        return self.n_features_out * (1 if packed and self.bounds() is not None else dtype.itemsize)

    def dot(self, X: Rows, coef: NDArray) -> NDArray:
        """Features of the rows times coefficients of shape (D, K), never holding more than a tile of features."""
        result = np.empty((X.shape[0], coef.shape[1]), X.dtype)

        def multiply(a: int, Z: NDArray) -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                np.matmul(Z, coef, out=result[a : a + len(Z)])

        self._each_tile(X, multiply)
        return result

    def _each_tile(self, X: Rows, use: Callable[[int, NDArray], object]) -> None:
        """Call ``use(a, Z)`` with the features of each tile, from row a on; the next are written over them."""
        tile = self._tile_rows(X.dtype)

        def loop(start: int, stop: int) -> None:
            Z = np.empty((min(tile, stop - start), self.n_features_out), X.dtype)
            for a in range(start, stop, tile):
                own = Z[: min(tile, stop - a)]
                self.write(X[a : a + len(own)], own)
                use(a, own)

        for_rows(loop, X.shape[0], tile)

    def require_output(self, X: Rows, cure: str) -> None:
        """Raise MemoryError, which names the cure, where the features of all rows do not fit."""
        what = f"The array of {X.shape[0]:,} x {self.n_features_out:,} features"
        require_memory(X.shape[0] * self.n_features_out * X.dtype.itemsize, what, cure)

    def _tile_rows(self, dtype: np.dtype) -> int:
        return max(1, min(TILE_BYTES // (self.n_features_out * dtype.itemsize), TILE_ROWS))
