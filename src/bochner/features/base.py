"""What every feature map shares."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from bochner.blocks import BLOCK_ROWS, SAMPLE_ROWS
from bochner.data.array_source import Block
from bochner.data.columns import require_finite
from bochner.data.table_input import (
    checked_sparse,
    frame_names,
    require_names,
    require_width,
)
from bochner.data.weights import unit_weights
from bochner.devices.conversion import any_arrays
from bochner.engines.algebra import product
from bochner.engines.local import for_tiles, require_memory
from bochner.features.stored import (
    Stored,
    StoredBytes,
    StoredFloats,
    StoredRows,
    StoredSparse,
)
from bochner.kernels import Kernel
from bochner.kernels.base import Marked
from bochner.sources.dask_parts import blocks_of, first_blocks, is_collection
from bochner.sources.rows import concat
from bochner.sources.rowwise import rowwise

TILE_BYTES = 2 << 20
Rows: TypeAlias = "NDArray | sp.csr_array"
T = TypeVar("T")
# What is taken from the features of each part; None where nothing is
Centres: TypeAlias = "Sequence[NDArray | None] | None"


def random_generator(random_state: Any) -> np.random.Generator:
    """Return a generator of a map, seeded by what `random_state` of scikit-learn draws
    first.
    """
    seeds = check_random_state(random_state).randint(2**31, size=4)
    return np.random.default_rng(seeds)


class DenseFeatures(ABC):
    """Computes dense features of rows, in tiles that stay in a core's cache."""

    @property
    @abstractmethod
    def n_features_out(self) -> int:
        """Number D of columns."""

    @abstractmethod
    def write(self, X: Rows, out: NDArray) -> None:
        """Write the features of a few rows into the first columns of `out`,
        C-contiguous, (b, >= D), dtype of X.
        """

    def bounds(self) -> NDArray | None:
        """Largest size of the entries of each column, shape (D,); None where they
        have none.
        """
        return None

    def rows(self, X: Rows, out: NDArray | None = None) -> NDArray:
        """Features of the rows, in the first columns of `out` where it is given;
        other columns are left alone.
        """
        Z = np.empty((X.shape[0], self.n_features_out), X.dtype) if out is None else out

        def write(rows: slice) -> None:
            self.write(X[rows], Z[rows])

        for_tiles(write, X.shape[0], self._tile_rows(X.dtype))
        return Z

    def store(self, X: Rows, packed: bool = False, centres: Centres = None) -> Stored:
        """Features of the rows, held in memory; see `FeatureMap.store`."""
        centre = None if centres is None else centres[0]
        bounds = self.bounds() if packed else None
        if bounds is None:
            Z = self.rows(X)
            if centre is not None:
                Z -= centre.astype(Z.dtype)
            return StoredFloats(Z)
        centre = np.zeros(len(bounds)) if centre is None else centre
        stored = StoredBytes(X.shape[0], bounds + np.abs(centre), centre)

        def put(rows: slice) -> None:
            part = X[rows]
            Z = np.empty((part.shape[0], self.n_features_out), X.dtype)
            self.write(part, Z)
            stored.put(rows.start, Z)

        for_tiles(put, X.shape[0], self._tile_rows(X.dtype))
        return stored

    def stored_bytes(self, dtype: np.dtype, packed: bool) -> int:
        """Memory that one stored row takes, in bytes."""
        return self.n_features_out * (
            1 if packed and self.bounds() is not None else dtype.itemsize
        )

    def dot(self, X: Rows, coef: NDArray) -> NDArray:
        """Features of the rows times coefficients of shape (D, K), never holding
        more than a tile of features.
        """
        result = np.empty((X.shape[0], coef.shape[1]), X.dtype)

        def multiply(rows: slice) -> None:
            part = X[rows]
            Z = np.empty((part.shape[0], self.n_features_out), X.dtype)
            self.write(part, Z)
            with np.errstate(over="ignore", invalid="ignore"):
                np.matmul(Z, coef, out=result[rows])

        for_tiles(multiply, X.shape[0], self._tile_rows(X.dtype))
        return result

    def require_output(self, X: Rows, cure: str) -> None:
        """Raise MemoryError, which names the cure, where the features of all rows do
        not fit.
        """
        what = f"The array of {X.shape[0]:,} x {self.n_features_out:,} features"
        require_memory(X.shape[0] * self.n_features_out * X.dtype.itemsize, what, cure)

    def _tile_rows(self, dtype: np.dtype) -> int:
        row = max(self.n_features_out * dtype.itemsize, 1)
        return max(1, min(TILE_BYTES // row, BLOCK_ROWS))


class Cached:
    """What is made of the arrays of an object once, for later calls, and never part of
    a file.
    """

    _caches: dict[str, Any]
    # Attributes that no file has, and that loading leaves out: the loops trust what is
    # kept
    _unsaved: ClassVar[frozenset[str]] = frozenset({"_caches", "_rng"})

    def _cached(self, name: str, build: Callable[[], T]) -> T:
        """What `build()` makes; of two threads that come first both make it, and
        either one is kept.
        """
        caches = self.__dict__.setdefault("_caches", {})
        if name not in caches:
            caches[name] = build()
        return caches[name]

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: state[name] for name in state if name not in self._unsaved}


ENCODE = "Impute such values, or encode them by a TableEncoder before the map."


class KernelParameter(BaseEstimator):
    """An estimator with a parameter ``kernel``, which its ``set_params`` copies before
    changing it.

    One kernel may thus serve several estimators, or be a default, and
    ``kernel__lengthscale`` of one of them is still its own.
    """

    def set_params(self, **params: Any) -> Any:
        """Set parameters by name, ``kernel__lengthscale`` and the like on a copy of
        the kernel.
        """
        kernel = params.get("kernel", self.get_params(deep=False).get("kernel"))
        inner = [name for name in params if name.startswith("kernel__")]
        if inner and isinstance(kernel, str):
            raise ValueError(
                f"kernel is {kernel!r}, which has no {inner[0]}: give a kernel, as "
                "kernel=Gaussian()."
            )
        if inner and "kernel" not in params and isinstance(kernel, Kernel):
            self.kernel: Any = clone(kernel)
        return super().set_params(**params)


class FeatureMap(
    Marked, Cached, ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelParameter
):
    """A map from rows to D features, and a scikit-learn transformer.

    `fit` takes all rows at once. Who has them in blocks calls, in this order,

    1. `draw(n_features)`, for what is random,
    2. `fit_sample(X, weight)`, for what depends on a sample of the rows: means,
       landmarks, leverages,
    3. `fit_store(X)` with every block of training rows, whose features come back
       stored: bins are numbered here,
    4. `finalize()`, after the last of them, from which on the number of features is
       known,
    5. `check_occupancy()`, which warns where the training rows and the map do not suit
       each other.

    A map does not change thereafter, until it is drawn again. The rows that these
    methods take are checked already: float32 or float64, dense or CSR.
    """

    n_features_in_: int
    # Of a data frame, also where they are no strings
    _frame_names: list[str] | None = None
    remedy: ClassVar[str] = (
        "Transform in blocks of rows, or fit a KernelMachine, which never holds it."
    )

    @any_arrays
    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the map, and fit the parts that depend on the rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d), or such a collection of Dask
            From a Dask collection a map to dense features is fitted on the first 4,096
            rows; bins are numbered in all partitions, one after the other.
        y : ignored

        Returns
        -------
        self
        """
        if is_collection(X):
            # One partition is held at a time
            first = concat(
                [self._checked(part) for part in first_blocks(X, SAMPLE_ROWS)]
            )
        else:
            first = self._checked(X)
        self.draw(first.shape[1])
        self.fit_sample(first, unit_weights(first.shape[0]))
        if is_collection(X) and not self.is_dense:
            for part in blocks_of(X):
                self.fit_rows(self._checked(part))
        else:
            self.fit_rows(first)
        self.finalize()
        self.check_occupancy()
        return self

    @abstractmethod
    def draw(self, n_features: int) -> Self:
        """Draw the random part of the map, for `n_features` columns."""

    @property
    def inner(self) -> Sequence[FeatureMap]:
        """The drawn maps that are inside of this one, as a rule none."""
        return ()

    def seen(self, X: Rows) -> Rows:
        """Checked rows as the maps inside see them."""
        return X

    def fit_sample(self, X: Rows, weight: NDArray) -> None:
        """Fit what depends on a sample of the rows and their weights, shape (n,)."""
        for part in self.inner:
            part.fit_sample(self.seen(X), weight)

    def fit_rows(self, X: Rows) -> None:
        """Register training rows."""
        for part in self.inner:
            part.fit_rows(self.seen(X))

    def fit_store(
        self, X: Rows, packed: bool = False, centres: Centres = None
    ) -> Stored:
        """Register training rows, and store their features as `store` does."""
        self.fit_rows(X)
        return self.store(X, packed, centres)

    def finalize(self) -> None:
        """Complete the map after the last training row."""
        for part in self.inner:
            part.finalize()

    def check_occupancy(self) -> None:
        """Warn if the map does not suit the training rows."""
        for part in self.inner:
            part.check_occupancy()

    def _checked(self, X: Any, *, reset: bool = True) -> Rows:
        """Rows as the methods take them; their columns are noted, or else compared
        with those that were.
        """
        name = type(self).__name__
        if not reset:
            check_is_fitted(self)
        if isinstance(X, str | os.PathLike):
            raise TypeError(
                f"{name} takes rows in memory, or a collection of Dask, not a path: "
                "read it first, or give the map to a model, whose fit reads files."
            )
        given = X
        X = checked_sparse(X)
        try:
            X = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=(np.float64, np.float32),
                ensure_all_finite=False,
            )
        except np.exceptions.DTypePromotionError:
            raise ValueError(
                "X holds dates or other columns that are no numbers; encode them "
                f"before the map, by make_pipeline(TableEncoder(), {name}(...))."
            ) from None
        except ValueError as error:
            if "could not convert string" not in str(error):
                raise
            raise ValueError(
                f"X holds text ({error}); encode it before the map, with "
                f"make_pipeline(TableEncoder(), {name}(...))."
            ) from None
        if reset:
            require_width(X.shape[1])
            self._frame_names = frame_names(given)
        else:
            require_names(self._frame_names, given)
        require_finite(X, getattr(self, "feature_names_in_", None), cure=ENCODE)
        return X

    @property
    def sample_rows(self) -> int:
        """Rows of a sample that `fit_sample` has use for."""
        return max((part.sample_rows for part in self.inner), default=SAMPLE_ROWS)

    @property
    def parts(self) -> list[FeatureMap]:
        """The maps that stand side by side here, one as a rule."""
        return [self]

    @property
    def scales(self) -> NDArray:
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

    @property
    def dense(self) -> DenseFeatures | None:
        """The drawn map as one to dense arrays; None where its features are sparse."""
        return self if self.is_dense and isinstance(self, DenseFeatures) else None

    @property
    def is_dense(self) -> bool:
        """Whether the features of the drawn map are dense."""
        return False

    def centres(self, X: Rows, weight: NDArray) -> list[NDArray | None]:
        """Mean features of some rows of the dense parts, None for the others: what may
        be taken from stored features.

        Equations about the mean stay the same, and lose no digits to a mean that is
        large beside the deviations.
        """
        share = (weight / weight.sum())[np.newaxis]
        means = list[NDArray | None]()
        for part in self.parts:
            Z = None if part.dense is None else part.dense.rows(X).astype(np.float64)
            means.append(None if Z is None else product(share, Z)[0])
        return means

    def store(self, X: Rows, packed: bool = False, centres: Centres = None) -> Stored:
        """Features of the rows, held in memory; by default as sparse rows.

        Parameters
        ----------
        packed : bool, default=False
            Whether dense ones may be rounded to 8 bits.
        centres : sequence of array or None, one for each of `parts`, optional
            Taken from the features.
        """
        return StoredSparse(self.map_rows(X))

    def stored(self, blocks: Iterable[Block], centres: Centres) -> Iterator[StoredRows]:
        """Yield blocks with their features, as `store` holds them, in the place of
        X.
        """
        for X, y, weight in blocks:
            yield StoredRows(self.store(X, centres=centres), y, weight)

    def stored_bytes(self, dtype: np.dtype, packed: bool) -> int:
        """Memory that one stored row takes, in bytes."""
        return sum(part.stored_bytes(dtype, packed) for part in self.inner)

    @abstractmethod
    def dot(self, X: Rows, coef: NDArray) -> NDArray:
        """Features of the rows times coefficients of shape (D, K), never holding
        more than a tile of features.
        """

    @abstractmethod
    def map_rows(self, X: Rows) -> Any:
        """Features of rows that are checked, as `transform` returns them.

        Raises MemoryError, which names the cure, where they do not fit.
        """

    @rowwise(takes_files=False)
    def transform(self, X: Any) -> Any:
        """Compute the features.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d), or such a collection of Dask
            float32 gives float32; everything else float64. Sparse rows are not made
            dense as a whole.

        Returns
        -------
        array of shape (n, D), or csr_matrix of a map whose features are sparse
            For a Dask collection a Dask array, not computed yet.
        """
        return self.map_rows(self._checked(X, reset=False))

    @property
    def _n_features_out(self) -> int:
        """Number of columns, of which scikit-learn makes names."""
        return self.n_features_out

    def _in(self, dtype: np.dtype, name: str) -> NDArray:
        """An array of the map in a precision, made once after a draw."""
        return self._cached(
            f"{name} in {dtype}", lambda: getattr(self, name).astype(dtype)
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class DenseFeatureMap(DenseFeatures, FeatureMap):
    """A map whose features are always dense."""

    is_dense = True

    def map_rows(self, X: Rows) -> NDArray:
        """Features of rows that are checked, shape (n, D)."""
        self.require_output(X, self.remedy)
        return self.rows(X)
