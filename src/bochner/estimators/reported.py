"""What people see of a fitted model: the diagram in a notebook, and the report page."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Self

from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from bochner.features.base import FeatureMap
from bochner.features.boundary import any_arrays
from bochner.features.copies import resized
from bochner.markup import number, percent, table

MOST_COLUMNS = 5


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
        from bochner.report_page import report_page

        check_is_fitted(self)
        return report_page(self, X, y, out)

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
