"""What a fitted model says of its columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bochner.data.array_source import ArraySource
from bochner.data.table import TableEncoder
from bochner.design import Design
from bochner.features.base import FeatureMap
from bochner.features.boundary import any_arrays
from bochner.features.coordinates import MetricFeatures
from bochner.features.metric import Metric
from bochner.features.relevance import with_relevance

GRADIENT_ROWS, STEP = 1000, 0.5
DENSE_ENTRIES = 30_000_000


class Interpretation:
    """Importances of the columns of the input, by the metric and by the fitted function."""

    encoder_: TableEncoder
    features_: FeatureMap
    metric_: Metric | None
    coef_: NDArray
    intercept_: NDArray

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """Share of each input column in the mean distance of two rows, by the metric: shape (d,), summing to 1."""
        check_is_fitted(self)
        shares = _relevance(self.features_)
        if shares is None and self.metric_ is not None:
            shares = self.metric_.relevance_
        if shares is None:
            raise AttributeError("feature_importances_ needs a kernel with lengthscales, or a learned metric.")
        return np.bincount(self.encoder_.sources(), shares, self.encoder_.n_features_in_).astype(np.float64)

    @any_arrays
    def average_gradient(self, X: Any) -> NDArray[np.float64]:
        """Mean absolute gradient of the fitted function, by finite differences.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
            Rows at which gradients are computed; from more than 1,000 rows 1,000 are drawn at random.

        Returns
        -------
        array of shape (d,)
            Change of a prediction (for classes, of a score) when a column changes by its standard deviation in these
            rows: the mean over rows and outputs. For a column of text, the sum over its categories.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import KernelMachineRegressor
        >>> X = np.random.default_rng(0).uniform(size=(150, 2))
        >>> model = KernelMachineRegressor(random_state=0).fit(X, np.sin(3 * X[:, 0]))
        >>> steep, flat = model.average_gradient(X)
        >>> bool(steep > 10 * flat)
        True
        """
        check_is_fitted(self)
        X = self._rows(X, reset=False)  # type: ignore[attr-defined]
        source = ArraySource(X, np.empty((X.shape[0], 0)), None, self.encoder_.transform)
        block = source.sample(GRADIENT_ROWS, np.random.default_rng(0)).whole()
        Z: NDArray = block.X.toarray() if sp.issparse(block.X) else block.X  # type: ignore[union-attr]
        gradient = np.zeros(Z.shape[1])
        for j in np.flatnonzero(np.ptp(Z, axis=0)):
            two = np.unique(Z[:, j])
            below, above = Z.copy(), Z.copy()
            if len(two) == 2:
                below[:, j], above[:, j] = two
            else:
                below[:, j] -= STEP / 2 * Z[:, j].std()
                above[:, j] += STEP / 2 * Z[:, j].std()
            run = (above[:, j] - below[:, j]).mean()
            gradient[j] = np.abs(self._of_encoded(above) - self._of_encoded(below)).mean() / run * Z[:, j].std()
        return np.bincount(self.encoder_.sources(), gradient, self.encoder_.n_features_in_).astype(np.float64)

    def _of_encoded(self, Z: NDArray) -> NDArray:
        """The fitted function at encoded rows, in the units of the targets."""
        source = ArraySource(Z, np.empty((len(Z), 0)))
        predicted = Design(source, self.features_, self.coef_.dtype).predict(self.coef_, self.intercept_)
        return predicted * getattr(self, "target_scale_", 1.0)


def _relevance(features: FeatureMap) -> NDArray | None:
    """Relevance of the encoded columns, the mean of those of the maps by their weights; None without metrics."""
    parts = [
        (scale**2, part.metric.relevance_)
        for part, scale in zip(features.parts, features.scales, strict=True)
        if isinstance(part, MetricFeatures)
    ]
    return sum(weight * own for weight, own in parts) / sum(weight for weight, _ in parts) if parts else None


def metric_of(features: FeatureMap, X: Any, seed: int) -> Metric | None:
    """The learned metric of a map, of its last part where it has several; or that of a kernel with lengthscales.

    Parameters
    ----------
    features : FeatureMap
    X : array or sparse matrix of shape (n, d)
        Some encoded rows.
    seed : int
    """
    learned = [part.metric for part in features.parts if isinstance(part, MetricFeatures)]
    if learned:
        return learned[-1]
    kernel = getattr(features, "kernel", None)
    lengthscale = getattr(kernel, "lengthscale", None) if getattr(kernel, "has_metric", False) else None
    if lengthscale is None or X.shape[0] * X.shape[1] > DENSE_ENTRIES:
        return None
    d = X.shape[1]
    metric = Metric(d, np.arange(d), np.broadcast_to(1 / np.asarray(lengthscale, np.float64), d))
    return with_relevance(metric, X.toarray() if sp.issparse(X) else X, seed)
