"""Prediction intervals and quantiles of a fitted machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bochner.data.table import TableEncoder
from bochner.engines.blas import single_threaded_blas
from bochner.estimators.ridge.error_scale import Affine, CalibrationRows, Spread, fit_spread
from bochner.features.base import FeatureMap
from bochner.features.boundary import any_arrays
from bochner.selection.budget import Budget
from bochner.solvers.conformal import require_coverage
from bochner.sources.dask_map import lazy


class Intervals:
    """Where the target of a new row lies, by scores of rows that the model has not seen."""

    coef_: NDArray
    intercept_: NDArray
    target_mean_: NDArray[np.float64]
    target_scale_: NDArray[np.float64]
    encoder_: TableEncoder
    spread_: Spread | None
    uncertainty: bool | str
    solver_: str
    _one_target: bool

    @lazy
    @any_arrays
    def predict_interval(self, X: Any, coverage: float = 0.9, n_jobs: int | None = None) -> NDArray[np.float64]:
        """Predict intervals that contain the target of a new row with a given probability.

        The ends of an interval are the quantiles (1 - coverage) / 2 and (1 + coverage) / 2 of `predict_quantile`: f(x)
        + sigma(x) times two quantiles of the scores (y - f(x)) / sigma(x) of rows that the model has not seen. The
        scale sigma is a second model with a metric of its own, fitted to out-of-sample errors of other rows. With few
        rows sigma is a constant (fewer than 400 to learn it from), and all rows give scores.

        Exact copies of a row are one observation. Different targets at the same inputs are several.

        **Up to 500 distinct rows** the scores come from cross-validation: everything is chosen and fitted again without
        a tenth of the rows, or a fifth from 250 rows on. f is the model of `predict`. This has no proof. The coverage
        that was measured for 30 rows and more is within its standard error of the nominal one (see the user guide).

        **With more rows**, if conjugate gradients solve for a learned metric or for more than 5,000 rows, the scores
        are those of validation rows, about a fifth of the rows or 10,000, and f is the model without them, not that of
        `predict`, which is finally fitted on all rows. If the rows and a new one are exchangeable, the interval
        contains the new target with a probability of at least `coverage`, and at most 2 / (m + 1) more with m
        validation rows and no equal scores, on average over rows and draws, for any distribution (split conformal
        prediction). Not covered by the proof is that the same rows select the model and the number of iterations, a
        choice of one among some ten.

        **Otherwise**, with the direct and the exact solver and with folds of up to 5,000 rows of a given kernel, f is
        the model of `predict`, and a score is that of the model without its row or fold, but with the other rows
        (jackknife). The coverage is close to the nominal one if a single row changes the model little (Barber et al.,
        2021, section 5, on stability). With weights it is the coverage of a row drawn by weight.

        No interval has this coverage conditionally on x: that is impossible without assumptions on the distribution.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        coverage : float, default=0.9
            In (0, 1). The remainder is split evenly between both ends.
        n_jobs : int or None, default=None
            Maximum number of threads. None and -1 use all that the process may use.

        Returns
        -------
        array of shape (n, 2) or (n, K, 2)
            Lower and upper ends. If a hundredth of the targets are at their least or greatest value (counts, ratings,
            censored targets), no end exceeds it, which costs at most 1 / (n + 1) of coverage at each end.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the model was fitted without ``uncertainty=True``, if the coverage is outside (0, 1), or if there are too
            few calibration rows: a coverage c needs (1 + c) / (1 - c), 19 for 0.9.

        References
        ----------
        Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005. Lei, G'Sell, Rinaldo, Tibshirani and
        Wasserman, "Distribution-Free Predictive Inference for Regression", JASA 2018, section 5.2. Barber, Candes,
        Ramdas and Tibshirani, "Predictive Inference with the Jackknife+", Annals of Statistics 2021.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import KernelMachineRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-2, 2, (3000, 1))
        >>> y = np.sin(3 * X[:, 0]) + (0.1 + 0.4 * (X[:, 0] > 0)) * rng.standard_normal(3000)
        >>> model = KernelMachineRegressor(uncertainty=True, random_state=0).fit(X[:2000], y[:2000])
        >>> low, high = model.predict_interval(X[2000:], coverage=0.9).T
        >>> bool(0.86 < np.mean((low <= y[2000:]) & (y[2000:] <= high)) < 0.94)
        True
        >>> left, right = model.predict_interval([[-1.0], [1.0]])
        >>> bool(np.ptp(right) > 3 * np.ptp(left))
        True
        """
        require_coverage(coverage)
        return self._quantiles(X, np.array([(1 - coverage) / 2, (1 + coverage) / 2]), n_jobs)

    @lazy
    @any_arrays
    def predict_quantile(self, X: Any, q: float | Sequence[float], n_jobs: int | None = None) -> NDArray[np.float64]:
        """Predict quantiles of the target of new rows.

        They are f(x) + sigma(x) times quantiles of the scores of `predict_interval`, with the same coverage: the
        target is at most the quantile q with a probability of at least q if q >= 1/2, and less than it with a
        probability of at most q if q < 1/2. They never cross.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        q : float or sequence of float
            Each in (0, 1).
        n_jobs : int or None, default=None
            Maximum number of threads. None and -1 use all that the process may use.

        Returns
        -------
        array of shape (n,), or (n, Q) for a sequence of Q
            For several targets (n, K) and (n, K, Q).

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the model was fitted without ``uncertainty=True``, if q is outside (0, 1), or if there are too few
            calibration rows for it: (1 - q) / q are needed, or q / (1 - q).

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import KernelMachineRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((600, 2))
        >>> y = X[:, 0] + 0.1 * rng.exponential(size=600)
        >>> model = KernelMachineRegressor(uncertainty=True, random_state=0).fit(X[:500], y[:500])
        >>> quantiles = model.predict_quantile(X[500:], [0.1, 0.5, 0.9])
        >>> quantiles.shape, bool((np.diff(quantiles) >= 0).all())
        ((100, 3), True)
        """
        asked = np.asarray(q, dtype=np.float64)
        if asked.ndim > 1 or not asked.size or not ((asked > 0) & (asked < 1)).all():
            raise ValueError(f"q must be one or several probabilities between 0 and 1, got {q!r}.")
        found = self._quantiles(X, np.atleast_1d(asked), n_jobs)
        return found if asked.ndim else found[..., 0]

    @single_threaded_blas()
    def _quantiles(self, X: Any, q: NDArray[np.float64], n_jobs: int | None) -> NDArray[np.float64]:
        """Quantiles of shape (n, Q) or (n, K, Q)."""
        check_is_fitted(self)
        spread = self.spread_
        if spread is None:
            raise ValueError(
                "The exact solver has no leave-one-out errors where it iterates, beyond 20,000 rows: use solver='auto'."
                if self.solver_ == "exact" and self.uncertainty
                else "Intervals and quantiles need a fit with uncertainty=True or 'intervals'."
            )
        factors = spread.scores.quantiles(q)
        centre, scale = self._centre_and_scale(X, spread, n_jobs)
        low, high = spread.limits
        ends = np.clip(centre[:, :, np.newaxis] + scale[:, :, np.newaxis] * factors.T, low[:, None], high[:, None])
        ends = ends * self.target_scale_[:, np.newaxis] + self.target_mean_[:, np.newaxis]
        return ends[:, 0] if self._one_target else ends

    def _spread_by(self, rows: CalibrationRows | None, budget: Budget, former: Spread | None = None) -> Spread | None:
        """The spread by predictions for rows, where intervals are wanted and there are such, with a former map."""
        if rows is None or self.uncertainty not in (True, "intervals"):
            return None
        return fit_spread(rows, self.encoder_.column_groups(), budget, None if former is None else former.features)

    def _centre_and_scale(self, X: Any, spread: Spread, n_jobs: int | None) -> tuple[NDArray, NDArray]:
        """Centres and scales in units of standardised targets, both of shape (n, K)."""
        centre, roots = spread.centre or Affine(self.coef_, self.intercept_), spread.roots
        centres = self._mapped(X, centre.coef, centre.intercept, n_jobs)
        if roots is None:
            return centres, np.ones(centres.shape)
        return centres, spread.scale(self._mapped(X, roots.coef, roots.intercept, n_jobs, spread.features))

    def _mapped(
        self, X: Any, coef: NDArray, intercept: NDArray, n_jobs: int | None, features: FeatureMap | None = None
    ) -> NDArray[np.float64]:
        raise NotImplementedError
