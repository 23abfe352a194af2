"""The columns themselves, as features."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.sparsefuncs import mean_variance_axis

from bochner.data.table_input import as_dense
from bochner.features.base import DenseFeatureMap, Rows

SMALLEST = np.finfo(np.float32).tiny  # unit of a column, whose inverse is finite in either precision


class LinearFeatures(OneToOneFeatureMixin, DenseFeatureMap):
    """The standardised columns: z(x)'z(y) is the linear kernel.

    A local kernel needs many features for a trend over the whole range of the data. In a `ConcatenatedFeatures` this
    map represents the trend.

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

    def __init__(self) -> None: ...

    def draw(self, n_features: int) -> LinearFeatures:
        """Set the means to zero and the scales to one, before any rows are seen."""
        self.mean_, self.scale_ = np.zeros(n_features), np.ones(n_features)
        self.n_features_in_ = n_features
        return self

    def fit_sample(self, X: Rows, weight: NDArray) -> None:
        """Measure weighted means and deviations, in units of the largest entries, so that squares stay finite."""
        share = weight / weight.max()
        low, high = (np.ravel(as_dense(m)) for m in (X.min(axis=0), X.max(axis=0)))
        unit = np.maximum(np.maximum(-low, high), SMALLEST).astype(np.float64)
        if sp.issparse(X):
            scaled = sp.csr_array(X @ sp.diags_array(1 / unit))
            mean, variance = mean_variance_axis(scaled, axis=0, weights=share.astype(scaled.dtype))
        else:
            scaled = X / unit
            mean = np.average(scaled, axis=0, weights=share)
            variance = np.average(np.square(scaled - mean), axis=0, weights=share)
        constant = (low == high) | (variance == 0)
        self.scale_ = np.where(constant, 1.0, np.sqrt(variance) * unit)
        self.mean_ = np.where(low == high, low, mean * unit)

    @property
    def n_features_out(self) -> int:
        """Number of columns."""
        return self.n_features_in_

    def write(self, X: Rows, out: NDArray) -> None:
        """Write the standardised columns of a few rows into the first columns of `out`."""
        try:
            with np.errstate(over="raise"):
                out[:, : self.n_features_out] = (as_dense(X) - self.mean_) / self.scale_
        except FloatingPointError:
            cure = "drop or clip such values"
            raise ValueError(f"Input X holds values too large for {out.dtype} after scaling; {cure}.") from None
