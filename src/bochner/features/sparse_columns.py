"""The columns of sparse rows as features: the linear kernel of text and of counts."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from bochner.features.base import FeatureMap, Rows
from bochner.features.stored import require_length


class SparseColumns(FeatureMap):
    """The columns of sparse rows, times a factor each: z(x)'z(y) is a linear kernel.

    They are neither centred nor standardised, so that they stay sparse: of thousands of
    columns of counts or TF-IDF a row has a few entries. `LinearFeatures` are for dense
    rows.

    Parameters
    ----------
    factors : array of shape (d,) or None, default=None
        Positive factors of the columns; 1 by default.

    Attributes
    ----------
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    ValueError
        At fit: `factors` are not one positive number for each column. At transform: a
        different number of columns.
    NotFittedError
        At transform, before fit.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from bochner.features import SparseColumns
    >>> X = csr_array([[0.0, 3.0, 0.0], [1.0, 0.0, 2.0]])
    >>> SparseColumns(factors=[1.0, 2.0, 1.0]).fit_transform(X).toarray()
    array([[0., 6., 0.],
           [1., 0., 2.]])
    """

    def __init__(self, factors: ArrayLike | None = None) -> None:
        self.factors = factors

    def draw(self, n_features: int) -> SparseColumns:
        """Take the factors for `n_features` columns."""
        given = np.ones(n_features) if self.factors is None else self.factors
        self.factors_ = np.asarray(given, np.float64)
        positive = bool((self.factors_ > 0).all() and np.isfinite(self.factors_).all())
        if self.factors_.shape != (n_features,) or not positive:
            raise ValueError(
                f"factors must be {n_features} positive numbers, one for each column "
                "of X."
            )
        self.n_features_in_ = n_features
        self._row_entries = float(n_features)
        return self

    def fit_sample(self, X: Rows, weight: NDArray) -> None:
        """Take note of how many entries a row has, which tells the memory of rows."""
        self._row_entries = sp.csr_array(X).nnz / max(X.shape[0], 1)

    @property
    def n_features_out(self) -> int:
        """Number of columns."""
        return self.n_features_in_

    def map_rows(self, X: Rows) -> sp.csr_matrix:
        """The columns of rows that are checked, times their factors."""
        factors = sp.diags_array(self.factors_.astype(X.dtype))
        return sp.csr_matrix(sp.csr_matrix(X) @ factors)

    def stored_bytes(self, dtype: np.dtype, packed: bool) -> int:
        """Memory of the entries of a row."""
        return int(self._row_entries * (4 + dtype.itemsize)) + 8

    def dot(self, X: Rows, coef: NDArray) -> NDArray:
        """Features of the rows times coefficients of shape (d, K)."""
        require_length(coef, self.n_features_out)
        factors = self.factors_[:, np.newaxis].astype(coef.dtype)
        return np.asarray(X @ (factors * coef)).astype(coef.dtype, copy=False)
