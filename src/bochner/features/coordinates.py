"""Feature maps of learned coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from bochner.features.base import FeatureMap
from bochner.features.boundary import any_arrays
from bochner.features.dense import Centres, DenseFeatures, Rows
from bochner.features.metric import Metric
from bochner.features.stored import Stored
from bochner.kernels import Kernel
from bochner.sources.dask_map import lazy


class MetricFeatures(FeatureMap):
    """A feature map of learned coordinates.

    Parameters
    ----------
    metric : Metric
    features : FourierFeatures or BinningFeatures
        Not changed: a copy is fitted. Its kernel is a kernel of the coordinates.

    Attributes
    ----------
    features_ : FeatureMap
        The fitted copy.
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    TypeError, ValueError
        At fit: not a metric, or not a feature map; rows with other columns than the metric.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import BinningFeatures
    >>> from bochner.features import MetricFeatures
    >>> from bochner.kernels import Laplacian
    >>> from bochner.selection import learn_metric
    >>> X = np.random.default_rng(0).standard_normal((500, 3))
    >>> metric = learn_metric(X, X[:, 0] > 0, random_state=0)
    >>> features = MetricFeatures(metric, BinningFeatures(Laplacian(), 20, random_state=0))
    >>> features.fit_transform(X).nnz == 500 * 20
    True
    """

    features_: FeatureMap

    def __init__(self, metric: Metric, features: FeatureMap) -> None:
        self.metric = metric
        self.features = features

    def draw(self, n_features: int) -> MetricFeatures:
        """Draw the map for the coordinates of `n_features` columns."""
        self._check(n_features)
        self.n_features_in_ = n_features
        self.features_ = clone(self.features).draw(self.metric.n_features_out_)
        return self

    def _check(self, n_features: int) -> None:
        if not isinstance(self.metric, Metric) or not isinstance(self.features, FeatureMap):
            raise TypeError("metric must be a Metric and features a feature map such as FourierFeatures().")
        if n_features != self.metric.n_features_in_:
            raise ValueError(f"The metric is one of {self.metric.n_features_in_} columns, and X has {n_features}.")

    @property
    def kernel(self) -> Kernel | None:
        """Kernel of the coordinates."""
        return getattr(self.features, "kernel", None)

    @property
    def n_features_out(self) -> int:
        """Number of features."""
        return self.features_.n_features_out

    @property
    def dense(self) -> DenseFeatures | None:
        """The map as one to dense arrays; None where it is sparse."""
        inner: Any = getattr(self, "features_", self.features)
        dense = inner.dense
        return None if dense is None else DenseOfCoordinates(self.metric, dense)

    @property
    def sample_rows(self) -> int:
        """Rows of a sample that the map has use for."""
        return self.features_.sample_rows

    def fit_sample(self, X: Rows, weight: NDArray) -> None:
        """Show the coordinates of a sample of the rows to the map."""
        self.features_.fit_sample(self.metric.coordinates(X), weight)

    def fit_rows(self, X: Rows) -> None:
        """Show the coordinates of training rows to the map."""
        self.features_.fit_rows(self.metric.coordinates(X))

    def fit_store(self, X: Rows, packed: bool = False, centres: Centres | None = None) -> Stored:
        """Features of training rows, of which the map takes note."""
        dense = self.dense
        return (
            self.features_.fit_store(self.metric.coordinates(X), packed)
            if dense is None
            else dense.store(X, packed, centres)
        )

    def store(self, X: Rows, packed: bool = False, centres: Centres | None = None) -> Stored:
        """Features of the rows, held in memory."""
        dense = self.dense
        return (
            self.features_.store(self.metric.coordinates(X), packed)
            if dense is None
            else dense.store(X, packed, centres)
        )

    def stored_bytes(self, dtype: np.dtype, packed: bool) -> int:
        """Memory that a stored row takes."""
        return self.features_.stored_bytes(dtype, packed)

    def finalize(self) -> None:
        """Finalize the map."""
        self.features_.finalize()

    def check_occupancy(self) -> None:
        """Let the map warn."""
        self.features_.check_occupancy()

    def dot(self, X: Rows, coef: NDArray) -> NDArray:
        """Features of the rows times coefficients of shape (D, K)."""
        dense = self.dense
        return self.features_.dot(self.metric.coordinates(X), coef) if dense is None else dense.dot(X, coef)

    @lazy
    @any_arrays
    def transform(self, X: Any) -> Any:
        """Compute the features.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)

        Returns
        -------
        What the map gives: an array, or a csr_matrix.
        """
        X = self._checked(X, reset=False)
        return self.features_.transform(self.metric.coordinates(X))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the map's columns."""
        check_is_fitted(self)
        return self.features_.get_feature_names_out()


class DenseOfCoordinates(DenseFeatures):
    """Dense features of the coordinates of rows.

    Parameters
    ----------
    metric : Metric
    features : DenseFeatures
        Of coordinates.
    """

    def __init__(self, metric: Metric, features: DenseFeatures) -> None:
        self.metric, self.features = metric, features

    @property
    def n_features_out(self) -> int:
        return self.features.n_features_out

    def bounds(self) -> NDArray | None:
        return self.features.bounds()

    def write(self, X: Rows, out: NDArray) -> None:
        self.features.write(self.metric.coordinates(X), out)
