"""The exact kernel with rows that are kept, as features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bochner.engines.local import require_memory
from bochner.features.base import DenseFeatureMap, FeatureMap
from bochner.features.coordinates import MetricFeatures
from bochner.features.dense import Rows
from bochner.features.leaves import leaves
from bochner.kernels import Kernel

TILE = 512  # rows that are compared with all that are kept at a time, for exact kernels cost as much for a few
REMEDY = "Use fewer rows, or solver='auto', whose random features need none of this."


class KernelRows(DenseFeatureMap):
    """Kernel values with all rows of the fit, z(x) = [k(x, x_1), ..., k(x, x_n)]: what exact kernel machines sum.

    Parameters
    ----------
    kernel : Kernel

    Attributes
    ----------
    rows_ : array of shape (n, d)
        The rows of the fit, dense.
    n_features_in_ : int
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def draw(self, n_features: int) -> KernelRows:
        """Keep no rows yet."""
        self.kernel.check_features(n_features)
        self.n_features_in_, self.rows_ = n_features, np.empty((0, n_features))
        return self

    def fit_rows(self, X: Rows) -> None:
        """Keep these rows, dense, after those that are kept."""
        if not isinstance(X, np.ndarray):
            require_memory(8 * X.shape[0] * X.shape[1], "An exact kernel of these sparse rows, made dense,", REMEDY)
        rows = np.array(X) if isinstance(X, np.ndarray) else X.toarray()
        self.rows_ = np.vstack([self.rows_, rows]) if len(self.rows_) else rows

    @property
    def n_features_out(self) -> int:
        """Number of rows that are kept."""
        return len(self.rows_)

    def write(self, X: Rows, out: NDArray) -> None:
        """Write the kernel values of a few rows into the first columns of `out`."""
        out[:, : len(self.rows_)] = self.kernel(X if isinstance(X, np.ndarray) else X.toarray(), self.rows_)

    def _tile_rows(self, dtype: np.dtype) -> int:
        return TILE

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names "kernelrows0", "kernelrows1", ..."""
        check_is_fitted(self, "rows_")
        return np.array([f"kernelrows{i}" for i in range(len(self.rows_))], dtype=object)


def exact_map(features: FeatureMap) -> FeatureMap:
    """Return the map whose features are exact kernel values, not fitted, for a map that estimates them.

    Raises ValueError for a map whose kernel is not known, or not one kernel.
    """
    (leaf, *others) = leaves(features)
    kernel = getattr(leaf.features, "kernel", None)
    if others or not isinstance(kernel, Kernel) or getattr(leaf.features, "column_share", 1.0) != 1.0:
        raise ValueError(
            f"solver='exact' needs a known kernel, and {type(features).__name__} have none: give kernel= in place of "
            "features=."
        )
    exact: FeatureMap = KernelRows(kernel if leaf.weight == 1 else leaf.weight * kernel)
    for metric in reversed(leaf.metrics):
        exact = MetricFeatures(metric, exact)
    return exact


def has_kernel_rows(features: Any) -> bool:
    """Whether a map is, or holds, kernel values with rows."""
    try:
        return any(isinstance(leaf.features, KernelRows) for leaf in leaves(features))
    except (TypeError, ValueError):  # parameters that a draw refuses
        return False
