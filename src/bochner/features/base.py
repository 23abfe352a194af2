"""What every feature map shares."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from bochner.engines.local import for_rows
from bochner.kernels import Kernel

TILE_BYTES = 2 << 20
Rows: TypeAlias = "NDArray | sp.csr_array"


class KernelParameter(BaseEstimator):
    """An estimator with a parameter ``kernel``, which its ``set_params`` copies before changing it.

    One kernel may thus serve several estimators, or be a default, and ``kernel__lengthscale`` of one of them is
    still its own.
    """

    kernel: Any

    def set_params(self, **params: Any) -> Any:
        """Set parameters by name, ``kernel__lengthscale`` and the like on a copy of the kernel."""
        if isinstance(self.kernel, Kernel) and any(name.startswith("kernel__") for name in params):
            self.kernel = clone(self.kernel)
        return super().set_params(**params)


class FeatureMap(KernelParameter):
    """A map from rows to D dense features, computed tile by tile so that a tile's features stay in a core's cache.

    The rows that these methods take are checked already: float32 or float64, dense or CSR.
    """

    n_features_in_: int

    @property
    @abstractmethod
    def n_features_out(self) -> int:
        """Number D of columns of the map as it was drawn."""

    @abstractmethod
    def write(self, X: Rows, out: NDArray) -> None:
        """Write the features of a few rows into the first columns of `out`, C-contiguous, (b, >= D), dtype of X."""

    def rows(self, X: Rows, out: NDArray | None = None, *, pieces: int | None = None) -> NDArray:
        """Features of the rows, in the first columns of `out` where it is given; other columns are left alone.

        The work is shared by as many threads as there are, or by as many as there are to be `pieces` of rows.
        """
        Z = np.empty((X.shape[0], self.n_features_out), X.dtype) if out is None else out
        tile = self._tile_rows(X.dtype)

        def loop(start: int, stop: int) -> None:
            for a in range(start, stop, tile):
                b = min(a + tile, stop)
                self.write(X[a:b], Z[a:b])

        for_rows(loop, X.shape[0], pieces)
        return Z

    def dot(self, X: Rows, coef: NDArray) -> NDArray:
        """Features of the rows times coefficients of shape (D, K), never holding more than a tile of features."""
        result = np.empty((X.shape[0], coef.shape[1]), X.dtype)

        def loop(start: int, stop: int) -> None:
            tile = min(self._tile_rows(X.dtype), stop - start)
            Z = np.empty((tile, self.n_features_out), X.dtype)
            for a in range(start, stop, tile):
                b = min(a + tile, stop)
                self.write(X[a:b], Z[: b - a])
                np.matmul(Z[: b - a], coef, out=result[a:b])

        for_rows(loop, X.shape[0])
        return result

    def _tile_rows(self, dtype: np.dtype) -> int:
        return max(1, TILE_BYTES // (self.n_features_out * dtype.itemsize))
