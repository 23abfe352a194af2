"""What a fitted model shows of itself: importances of columns, gradients, the report page and the diagram."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from bochner.data.array_source import ArraySource
from bochner.data.table import TableEncoder
from bochner.design.design import Design
from bochner.devices.conversion import any_arrays
from bochner.features.base import FeatureMap
from bochner.features.leaves import resized
from bochner.features.metric import Metric, MetricFeatures, with_relevance
from bochner.markup import number, percent, table

GRADIENT_ROWS, STEP = 1000, 0.5
DENSE_ENTRIES = 30_000_000
MOST_COLUMNS = 5


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


class Reported:
    """A model that shows itself."""

    features_: FeatureMap
    verbose: int

    @any_arrays
    def report_html(self, X: Any, y: Any, out: str | Path | None = None) -> str | Path:
        """Write an HTML page about the fitted model: its scores, selection, learned metric and errors.

        The page is one file without scripts or external resources. It shows the scores on the given rows and those of a
        baseline, the candidates, the learned metric, the error against the number of rows and of features, the
        calibration or the residuals, the worst rows, partial dependence, the error of the kernel approximation, costs
        and versions.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
            Rows that the model has not seen; otherwise the scores are too good. From more rows 50,000 are drawn.
        y : array of shape (n,)
            Targets (one column), or labels.
        out : path-like, optional
            File to write.

        Returns
        -------
        str or Path
            The page, or the path of the file.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If there are several targets, labels that the model does not know, or fewer than 20 rows.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from bochner import KernelMachineRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = KernelMachineRegressor(random_state=0).fit(X[:350], y[:350])
        >>> page = model.report_html(X[350:], y[350:])
        >>> page.startswith("<!DOCTYPE html>"), "http" in page
        (True, False)
        """
        from bochner.report import write_report

        check_is_fitted(self)
        return write_report(self, X, y, out)

    def resized(self, factor: float = 1.0) -> Self:
        """Return a copy of the fitted model with a map of another size, to be fitted by `refit`.

        All that was chosen stays but the number of features, or of grids. Intervals and deviations are left out.

        Parameters
        ----------
        factor : float, default=1.0
            Of the size.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from bochner import KernelMachineRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = KernelMachineRegressor(features="fourier", n_components=64, random_state=0).fit(X, y)
        >>> model.resized(2).refit(X, y).features_.n_features_out
        128
        """
        check_is_fitted(self)
        other = copy.copy(self)
        other.verbose = 0
        if factor != 1:
            other.features_ = resized(self.features_, factor).draw(self.features_.n_features_in_)
        for name in ("spread_", "posterior_"):
            vars(other).pop(name, None)
        return other

    def _html_repr(self) -> str:
        """The diagram of scikit-learn, and below it what was learned."""
        diagram = estimator_html_repr(self)
        if not hasattr(self, "coef_"):
            return diagram
        rows = [(name, value) for name, value in self._learned().items() if value]
        return diagram + table("Learned", ("quantity", "value"), rows, words=(0, 1))

    def _learned(self) -> dict[str, str]:
        """What the fit has found, in a few lines."""
        report, shares = getattr(self, "report_", None), getattr(self, "feature_importances_", None)
        facts = {
            "model": "" if report is None else f"{report.chosen}: {report.reason}",
            "features": f"{self.features_.n_features_out:,}",
            "ridge penalty": number(getattr(self, "alpha_", None)),
            "solver": f"{getattr(self, 'solver_', '')}: {getattr(self, 'solver_reason_', '')}",
        }
        if shares is not None:
            names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(len(shares))])
            most = sorted(zip(shares, map(str, names), strict=True), key=lambda one: -one[0])[:MOST_COLUMNS]
            facts["most relevant columns"] = ", ".join(f"{name} {percent(share)}" for share, name in most if share)
        return facts
