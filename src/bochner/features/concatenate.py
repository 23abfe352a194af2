"""Several feature maps side by side, whose kernels add, and the columns themselves,
often one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import pairwise, starmap
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OneToOneFeatureMixin, clone
from sklearn.utils.validation import _check_feature_names_in as check_feature_names_in
from sklearn.utils.validation import check_is_fitted

from bochner.arrays import Floats
from bochner.data.table_input import as_dense
from bochner.features.base import (
    Centres,
    DenseFeatureMap,
    DenseFeatures,
    FeatureMap,
    Rows,
)
from bochner.features.stored import StoredTogether
from bochner.features.transformer import as_map

SMALLEST = np.finfo(np.float64).tiny  # unit of a column, whose inverse is finite


class LinearFeatures(OneToOneFeatureMixin, DenseFeatureMap):
    """The standardised columns: z(x)'z(y) is the linear kernel.

    A local kernel needs many features for a trend over the whole range of the data. In
    a `ConcatenatedFeatures` this map represents the trend.

    Attributes
    ----------
    mean_, scale_ : arrays of shape (d,)
        z = (x - mean) / scale; a constant column becomes zero.
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    ValueError
        At transform: a different number of columns.
    NotFittedError
        At transform, before fit.

    Examples
    --------
    >>> from bochner import LinearFeatures
    >>> LinearFeatures().fit_transform([[1.0, 0.0], [3.0, 0.0]])
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    def draw(self, n_features: int) -> LinearFeatures:
        """Set the means to zero and the scales to one, before any rows are seen."""
        self.mean_ = np.zeros(n_features)
        self.scale_ = np.ones(n_features)
        self.n_features_in_ = n_features
        return self

    def fit_sample(self, X: Rows, weight: NDArray) -> None:
        """Measure weighted means and deviations, in units of the largest entries, so
        that squares stay finite.
        """
        from sklearn.preprocessing import StandardScaler

        share = weight / weight.max()
        low, high = (np.ravel(as_dense(m)) for m in (X.min(axis=0), X.max(axis=0)))
        unit = np.maximum(np.maximum(-low, high).astype(np.float64), SMALLEST)
        is_sparse = sp.issparse(X)
        scaled = X @ sp.diags_array(1 / unit) if is_sparse else X / unit
        scaler = StandardScaler(with_mean=not is_sparse)
        # Rounding may leave equal entries a variance below zero
        with np.errstate(invalid="ignore"):
            scaler.fit(scaled, sample_weight=share)
            deviation = np.sqrt(scaler.var_) * unit
        varies = (low < high) & (deviation > 0)
        self.scale_ = np.where(varies, deviation, 1.0)
        self.mean_ = np.where(low == high, low, scaler.mean_ * unit)

    @property
    def n_features_out(self) -> int:
        """Number of columns."""
        return self.n_features_in_

    def write(self, X: Rows, out: NDArray) -> None:
        """Write the standardised columns of a few rows into the first columns of
        `out`.
        """
        try:
            with np.errstate(over="raise"):
                out[:, : self.n_features_out] = (as_dense(X) - self.mean_) / self.scale_
        except FloatingPointError:
            raise ValueError(
                f"Input X holds values too large for {out.dtype} after scaling; drop "
                "or clip such values."
            ) from None


class ConcatenatedFeatures(FeatureMap, DenseFeatures):
    """Feature maps side by side, z(x) = [sqrt(w_1) z_1(x), sqrt(w_2) z_2(x), ...], so
    that k = w_1 k_1 + w_2 k_2 + ...

    As Rahimi and Recht (2007) remark, Fourier features suit the smooth part of a
    target, and random binning features the local part. `LinearFeatures` add a linear
    part.

    Parameters
    ----------
    maps : sequence of feature maps or scikit-learn transformers
        These are not changed: copies are fitted, those of transformers as
        `TransformerFeatures`.
    weights : array of shape (M,) or None, default=None
        Positive weights. None is 1 for each map; but in a `KernelMachineRegressor` or
        `KernelMachineClassifier` None selects the weights by validation loss.

    Attributes
    ----------
    maps_ : list
        The fitted copies.
    weights_ : array of shape (M,)
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    ValueError, TypeError
        At fit: no maps, or something else than a map; weights that are not positive, or
        not one for each map.
    NotFittedError
        At transform, before fit.

    Examples
    --------
    >>> from bochner import (
    ...     BinningFeatures,
    ...     ConcatenatedFeatures,
    ...     FourierFeatures,
    ...     LinearFeatures,
    ... )
    >>> from bochner.kernels import Gaussian, Laplacian
    >>> fourier, bins = (
    ...     FourierFeatures(Gaussian(2.0), 100),
    ...     BinningFeatures(Laplacian(2.0), 50),
    ... )
    >>> features = ConcatenatedFeatures([fourier, bins, LinearFeatures()])
    >>> features.fit_transform([[0.0, 1.0], [1.0, 1.0], [4.0, 0.0]]).shape[0]
    3
    """

    def __init__(
        self, maps: Sequence[FeatureMap], weights: ArrayLike | None = None
    ) -> None:
        self.maps = maps
        self.weights = weights

    def draw(self, n_features: int) -> ConcatenatedFeatures:
        """Draw copies of every map."""
        self.check_parameters()
        maps = [as_map(clone(part)).draw(n_features) for part in self.maps]
        self._hold(maps, np.ones(len(maps)) if self.weights is None else self.weights)
        return self

    def _hold(self, maps: list[FeatureMap], weights: ArrayLike) -> None:
        """Take these drawn maps, with their weights."""
        self.maps_ = maps
        self.weights_ = np.array(weights, np.float64)
        self.n_features_in_ = maps[0].n_features_in_
        self.edges_ = np.zeros(len(maps) + 1, np.int64)
        self._lay_out()

    @classmethod
    def of_fitted(
        cls, maps: list[FeatureMap], weights: ArrayLike
    ) -> ConcatenatedFeatures:
        """Fitted maps side by side, which are neither copied nor changed."""
        joined = cls(maps, weights)
        joined._hold(maps, weights)
        return joined

    def with_weights(self, weights: ArrayLike) -> ConcatenatedFeatures:
        """The fitted maps with other weights, shape (M,)."""
        other = copy(self)
        other.weights_ = np.array(weights, dtype=np.float64)
        return other

    @classmethod
    def beside(
        cls, features: FeatureMap, part: FeatureMap, weight: float
    ) -> ConcatenatedFeatures:
        """A fitted map with another fitted one beside it, of the given weight."""
        weights = [*np.square(features.scales), weight]
        return cls.of_fitted([*features.parts, part], weights)

    def but_last(self) -> FeatureMap:
        """The fitted map without its last part."""
        if len(self.maps_) == 2 and self.weights_[0] == 1:
            return self.maps_[0]
        return self.of_fitted(self.maps_[:-1], list(self.weights_[:-1]))

    def check_parameters(self) -> None:
        """Raise TypeError or ValueError where the maps or their weights are none."""
        maps = self.maps
        if not isinstance(maps, list | tuple) or not maps:
            raise TypeError(
                "maps must be a list of feature maps such as FourierFeatures(), got "
                f"{maps!r}."
            )
        try:
            for part in maps:
                as_map(part)
        except TypeError as error:
            raise TypeError(
                f"maps must be a list of feature maps or transformers: {error}"
            ) from None
        if any(isinstance(part, ConcatenatedFeatures) for part in maps):
            raise TypeError(
                "maps must not contain ConcatenatedFeatures: put all maps into one "
                "list."
            )
        if self.weights is not None:
            weights = np.asarray(self.weights)
            if weights.shape != (len(maps),) or weights.dtype.kind not in "iuf":
                raise ValueError(
                    f"weights must be {len(maps)} numbers, one for each map, got "
                    f"{self.weights!r}."
                )
            if not np.all((weights > 0) & np.isfinite(weights)):
                raise ValueError(
                    f"weights must be positive and finite, got {self.weights!r}."
                )

    def _lay_out(self) -> None:
        self.edges_[1:] = np.cumsum([part.n_features_out for part in self.maps_])

    @property
    def inner(self) -> list[FeatureMap]:
        """The fitted maps."""
        return self.maps_

    def fit_sample(self, X: Rows, weight: NDArray) -> None:
        """Show a sample of the rows to every map, and lay out the columns of those
        whose number it decides.
        """
        super().fit_sample(X, weight)
        self._lay_out()

    def fit_store(
        self, X: Rows, packed: bool = False, centres: Centres = None
    ) -> StoredTogether:
        """Features of training rows, of which every map takes note."""
        stores = [part.fit_store for part in self.maps_]
        return self._together(stores, X, packed, centres)

    def finalize(self) -> None:
        """Finalize every map, and lay out their columns."""
        super().finalize()
        self._lay_out()

    @property
    def n_features_out(self) -> int:
        """Number of columns of all maps."""
        return int(self.edges_[-1])

    @property
    def is_dense(self) -> bool:
        """Whether the features of all maps are dense."""
        return all(part.is_dense for part in self.maps_)

    def write(self, X: Rows, out: NDArray) -> None:
        """Write the features of a few rows, where all are dense, into the first
        columns of `out`.
        """
        for part, scale, columns in self._each():
            Z = np.empty((X.shape[0], columns.stop - columns.start), out.dtype)
            part.write(X, Z)
            np.multiply(Z, scale, out=out[:, columns])

    @property
    def learns_weights(self) -> bool:
        """Whether an estimator is to learn the weights."""
        return self.weights is None and len(self.maps) > 1

    @property
    def parts(self) -> list[FeatureMap]:
        """The fitted maps."""
        return self.maps_

    @property
    def scales(self) -> Floats:
        """Roots of the weights."""
        return np.sqrt(self.weights_)

    def store(
        self, X: Rows, packed: bool = False, centres: Centres = None
    ) -> StoredTogether:
        """Features of every map, held in memory."""
        return self._together([part.store for part in self.maps_], X, packed, centres)

    def _together(
        self, stores: list[Callable[..., Any]], X: Rows, packed: bool, centres: Centres
    ) -> StoredTogether:
        """What methods of the maps store, side by side."""
        centres = [None] * len(stores) if centres is None else centres
        held = [
            store(X, packed, [centre])
            for store, centre in zip(stores, centres, strict=True)
        ]
        return StoredTogether(held, self.scales, self.edges_)

    def map_rows(self, X: Rows) -> NDArray | sp.csr_matrix:
        """Features of rows that are checked: an array or, where one of the maps gives
        such, a csr_matrix.
        """
        if self.is_dense:
            self.require_output(X, self.remedy)
            return self.rows(X)
        parts = [_as_csr(part.map_rows(X)) * scale for part, scale, _ in self._each()]
        return sp.csr_matrix(sp.hstack(parts, format="csr"))

    def dot(self, X: Rows, coef: NDArray) -> NDArray:
        """Features of the rows times coefficients of shape (D, K), map by map."""
        result = np.zeros((X.shape[0], coef.shape[1]), X.dtype)
        for part, scale, columns in self._each():
            result += part.dot(X, coef[columns]) * scale
        return result

    def _each(self) -> Iterator[tuple[Any, float, slice]]:
        """The maps with the factors on their features, and their columns."""
        columns = starmap(slice, pairwise(self.edges_))
        return zip(self.maps_, self.scales.tolist(), columns, strict=True)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the maps' columns."""
        check_is_fitted(self)
        columns = check_feature_names_in(self, input_features)
        names = [
            f"{m}_{name}"
            for m, part in enumerate(self.maps_)
            for name in part.get_feature_names_out(columns)
        ]
        return np.array(names, object)


def _as_csr(Z: NDArray | sp.csr_matrix) -> sp.csr_matrix:
    """Features as sparse rows, of dense ones with all entries, zeros too."""
    if sp.issparse(Z):
        return Z
    n, D = Z.shape
    columns = np.tile(np.arange(D, dtype=np.int32), n)
    return sp.csr_matrix((Z.ravel(), columns, np.arange(n + 1) * D), shape=Z.shape)
