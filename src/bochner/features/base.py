"""What every feature map shares."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from bochner.engines.algebra import product
from bochner.engines.local import for_rows, require_memory
from bochner.features.stored import Stored, StoredBytes, StoredFloats
from bochner.kernels import Kernel

TILE_BYTES, TILE_ROWS = 2 << 20, 4096
REMEDY = "Transform in blocks of rows, or fit a KernelMachine, which never holds it."
Rows: TypeAlias = "NDArray | sp.csr_array"


class KernelParameter(BaseEstimator):
    """An estimator with a parameter ``kernel``, which its ``set_params`` copies before changing it.

    One kernel may thus serve several estimators, or be a default, and ``kernel__lengthscale`` of one of them is
    still its own.
    """

    def set_params(self, **params: Any) -> Any:
        """Set parameters by name, ``kernel__lengthscale`` and the like on a copy of the kernel."""
        kernel = params.get("kernel", self.get_params(deep=False).get("kernel"))
        inner = [name for name in params if name.startswith("kernel__")]
        if inner and isinstance(kernel, str):
            raise ValueError(f"kernel is {kernel!r}, which has no {inner[0]}: give a kernel, as kernel=Gaussian().")
        if inner and "kernel" not in params and isinstance(kernel, Kernel):
            self.kernel: Any = clone(kernel)
        return super().set_params(**params)


class FeatureMap(TransformerMixin, KernelParameter):
    """A map from rows to D features, and a scikit-learn transformer.

    The rows that the methods here take are checked already: float32 or float64, dense or CSR.
    """

    n_features_in_: int

    def _checked(self, X: Any, *, reset: bool = True) -> Rows:
        """Rows as the methods take them; their columns are noted, or else compared with those that were."""
        if not reset:
            check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset)

    @property
    def parts(self) -> list[FeatureMap]:
        """The maps that stand side by side here, one as a rule."""
        return [self]

    @property
    def scales(self) -> NDArray[np.float64]:
        """Factor on the features of each part, shape (M,)."""
        return np.ones(1)

    @property
    def learns_weights(self) -> bool:
        """Whether an estimator is to learn the weights of the parts."""
        return False

    @property
    @abstractmethod
    def n_features_out(self) -> int:
        """Number D of columns of the map."""

    @abstractmethod
    def draw(self, n_features: int) -> FeatureMap:
        """Draw what is random in the map, for `n_features` columns."""

    def observe(self, X: Rows, weight: NDArray | None = None) -> None:
        """Take note of a sample of the rows and their weights, shape (n,), one each by default, before all."""
        self._observe(X, np.ones(X.shape[0]) if weight is None else weight)

    def _observe(self, X: Rows, weight: NDArray) -> None:
        """Take note where the map depends on its rows."""

    @property
    def is_dense(self) -> bool:
        """Whether `rows` can give the features as a dense array."""
        return False

    @abstractmethod
    def store(self, X: Rows, packed: bool = False) -> Stored:
        """Features of the rows, held in memory; `packed` allows a rounding of them to 8 bits."""

    @abstractmethod
    def stored_bytes(self, dtype: np.dtype, packed: bool) -> int:
        """Memory that one stored row takes, in bytes."""

    def learn(self, X: Rows, packed: bool = False) -> Stored:
        """Hold training rows, of which the map takes note where its columns depend on them."""
        return self.store(X, packed)

    def settle(self) -> None:
        """Take note that the last training row has been learnt; only then is D known."""

    def caution(self) -> None:
        """Warn where the training rows and the map do not suit each other."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @abstractmethod
    def dot(self, X: Rows, coef: NDArray) -> NDArray:
        """Features of the rows times coefficients of shape (D, K), never holding more than a tile of features."""


class DenseFeatureMap(FeatureMap):
    """A map to dense features, computed tile by tile so that a tile's features stay in a core's cache."""

    _centre: NDArray | None = None

    @property
    def is_dense(self) -> bool:
        """Dense it is."""
        return True

    @abstractmethod
    def write(self, X: Rows, out: NDArray) -> None:
        """Write the features of a few rows into the first columns of `out`, C-contiguous, (b, >= D), dtype of X."""

    def bounds(self) -> NDArray | None:
        """Largest size of the entries of each column, shape (D,); None where they have none."""
        return None

    def centre_on(self, X: Rows, weight: NDArray) -> None:
        """Take the mean features of some rows from all that are held from now on.

        Equations about the mean stay the same, and lose no digits to a mean that is large beside the deviations.
        """
        Z = self.rows(X)
        share = weight / weight.sum()
        self._centre = product(share[np.newaxis], Z.astype(np.float64, copy=False))[0]

    @property
    def centre(self) -> NDArray[np.float64]:
        """What is taken from stored features, shape (D,)."""
        return np.zeros(self.n_features_out) if self._centre is None else self._centre

    def store(self, X: Rows, packed: bool = False) -> Stored:
        bounds = self.bounds() if packed else None
        if bounds is not None:
            return self._store_bytes(X, bounds + np.abs(self.centre))
        Z = self.rows(X)
        if self._centre is not None:
            Z -= self._centre.astype(Z.dtype)
        return StoredFloats(Z)

    def _store_bytes(self, X: Rows, bounds: NDArray) -> StoredBytes:
        held, centre = StoredBytes(X.shape[0], bounds), self.centre.astype(X.dtype)
        tile = self._tile_rows(X.dtype)

        def loop(start: int, stop: int) -> None:
            Z = np.empty((min(tile, stop - start), self.n_features_out), X.dtype)
            for a in range(start, stop, tile):
                b = min(a + tile, stop)
                self.write(X[a:b], Z[: b - a])
                Z[: b - a] -= centre
                held.put(a, Z[: b - a])

        for_rows(loop, X.shape[0], tile)
        return held

    def stored_bytes(self, dtype: np.dtype, packed: bool) -> int:
        return self.n_features_out * (1 if packed and self.bounds() is not None else dtype.itemsize)

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

    def _require_output(self, X: Rows, cure: str = REMEDY) -> None:
        """Raise MemoryError, which names the cure, where the features of all rows do not fit."""
        what = f"The array of {X.shape[0]:,} x {self.n_features_out:,} features"
        require_memory(X.shape[0] * self.n_features_out * X.dtype.itemsize, what, cure)

    def dot(self, X: Rows, coef: NDArray) -> NDArray:
        """Features of the rows times coefficients of shape (D, K), never holding more than a tile of features."""
        result = np.empty((X.shape[0], coef.shape[1]), X.dtype)

        tile = self._tile_rows(X.dtype)

        def loop(start: int, stop: int) -> None:
            Z = np.empty((min(tile, stop - start), self.n_features_out), X.dtype)
            for a in range(start, stop, tile):
                b = min(a + tile, stop)
                self.write(X[a:b], Z[: b - a])
                np.matmul(Z[: b - a], coef, out=result[a:b])

        for_rows(loop, X.shape[0], tile)
        return result

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_centre"}

    def _tile_rows(self, dtype: np.dtype) -> int:
        return max(1, min(TILE_BYTES // (self.n_features_out * dtype.itemsize), TILE_ROWS))
