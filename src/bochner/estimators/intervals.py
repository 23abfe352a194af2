"""Prediction intervals, quantiles and sets of classes, with coverage from predictions of rows left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from bochner.data.array_source import ArraySource, rows_of
from bochner.data.table import TableEncoder
from bochner.engines.blas import single_threaded_blas
from bochner.engines.local import in_threads
from bochner.estimators.base import KernelMachine
from bochner.estimators.ridge import given_alphas
from bochner.estimators.ridge.error_scale import Affine, CalibrationRows, Spread, fit_spread
from bochner.features.base import FeatureMap
from bochner.kernels import Kernel
from bochner.notices import quiet
from bochner.selection.budget import Budget
from bochner.selection.policy import POLICY
from bochner.selection.split import fold_numbers
from bochner.selection.validation import HeldOutPredictions
from bochner.solvers.conformal import mass_before, require_coverage, threshold
from bochner.sources.rowwise import rowwise


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

    @rowwise()
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

    @rowwise()
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


class PredictionSets:
    """A classifier whose fit keeps what thresholds of sets take."""

    predict_proba: Any
    classes_: NDArray

    @rowwise()
    def predict_set(self, X: Any, coverage: float = 0.9, n_jobs: int | None = None) -> NDArray[np.bool_]:
        """Predict sets of classes that contain the true class with a given probability.

        A set has the most probable class, and the next ones until their total probability exceeds a threshold: one
        class for rows that are certain, more for rows in doubt. The threshold comes from the rows that calibrate the
        probabilities: validation rows, cross-validation, or leave-one-out. Of up to 250 distinct rows it comes from
        leave-one-out scores by choices of the kernel and penalty without a tenth of the rows.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        coverage : float, default=0.9
            Between 0 and 1, exclusive.
        n_jobs : int or None, default=None
            Maximum number of threads. None and -1 use all that the process may use. The result does not depend on it.

        Returns
        -------
        bool array of shape (n, K)
            In the order of `classes_`; at least one in each row.

        Raises
        ------
        ValueError
            If `coverage` is out of range, or needs more calibration rows: 9 are needed for 0.9, 99 for 0.99.

        Notes
        -----
        For new rows from the same distribution, sets of the model *without the calibration rows* contain the true class
        with a probability of at least `coverage`, over draws of all rows (split conformal prediction; Vovk, Gammerman
        and Shafer 2005), as far as these rows did not select the model. The fitted model has seen them too. This keeps
        the coverage as far as a few rows do not change its scores (Barber, Candes, Ramdas and Tibshirani, "Predictive
        inference with the jackknife+", 2021, Theorem 5). The coverage holds on average over all rows, not within each
        class. If the most probable class is right more often than `coverage`, sets contain it alone, and cover as
        often. The scores are the adaptive ones of Romano, Sesia and Candes, "Classification with Valid and Adaptive
        Coverage", 2020, without their random part (see `bochner.solvers.conformal`).

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from sklearn.utils import shuffle
        >>> from bochner import KernelMachineClassifier
        >>> X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
        >>> model = KernelMachineClassifier(metric="isotropic", random_state=0).fit(X[:300], y[:300])
        >>> sets = model.predict_set(X[300:], coverage=0.98)
        >>> bool(sets[range(len(sets)), y[300:]].mean() > 0.97), bool(1 < sets.sum(axis=1).mean() < 1.2)
        (True, True)
        """
        probability = self.predict_proba(X, n_jobs)
        thresholds = getattr(self, "set_thresholds_", None)
        if thresholds is None:
            raise ValueError(
                "This model has no validation rows to calibrate sets of classes: fit it again, on more distinct rows "
                "unless an earlier version saved it."
            )
        return mass_before(probability) <= threshold(thresholds, coverage)


class CrossFitted(NamedTuple):
    """Observations with predictions, and the same as the posterior takes them."""

    calibration: CalibrationRows
    held_out_predictions: HeldOutPredictions


def cross_fitted(
    machine: KernelMachine,
    X: Any,
    y: NDArray[np.float64],
    weight: NDArray | None,
    source: ArraySource,
    seed: int,
    budget: Budget,
) -> CrossFitted | None:
    """Predict all rows by machines without their fold.

    Parameters
    ----------
    machine : KernelMachine
    X : array, sparse matrix or data frame of shape (n, d)
        Checked.
    y : array of shape (n,) or (n, K)
    weight : array of shape (n,) or None
    source : ArraySource
        The same rows.
    seed : int
    budget : Budget
        The time that is left for this and for the machine itself.

    Returns
    -------
    CrossFitted or None
        None where there are more than 500 distinct rows or 5,000 rows, where nothing is chosen, where the time limit
        leaves no time, or where a part of the rows cannot be fitted.
    """
    if not _chooses(machine) or source.n_counted > POLICY.crossed_observations:
        return None
    calibration = CalibrationRows.of(source, seed).judged_by_all()
    observations, m = calibration.observations, len(calibration.weight)
    n_distinct = len(np.unique(observations.inputs))
    if m < 2 or n_distinct > POLICY.crossed_rows:
        return None
    n_folds = min(POLICY.crossed_folds[n_distinct > POLICY.few_rows], m)
    seconds = budget.left / (n_folds + 1)
    if seconds < POLICY.crossed_seconds:
        return None
    fold = fold_numbers(observations.hashes, seed, n_folds)
    of_rows = np.where(observations.number < 0, -1, fold[observations.number])
    options: dict[str, Any] = {"uncertainty": False, "verbose": 0, "random_state": seed}
    if budget.limit is not None:
        options["time_limit"] = seconds

    def predicted(k: int) -> NDArray[np.float64]:
        kept, left = np.flatnonzero(of_rows != k), observations.row[fold == k]
        one = clone(machine).set_params(**options)
        with quiet():
            one.fit(rows_of(X, kept), y[kept], None if weight is None else weight[kept])
        return source.targets(np.asarray(one.predict(rows_of(X, left)), np.float64))

    found = np.empty(calibration.targets.shape)
    try:
        for k, values in enumerate(in_threads(predicted, range(n_folds))):
            found[fold == k] = values
    except ValueError:  # what is asked for needs more rows than are left
        return None
    predictions = calibration.held_out(np.arange(m), found, fold=fold)
    return CrossFitted(calibration.with_predictions(found), predictions)


def _chooses(machine: KernelMachine) -> bool:
    """Whether anything is chosen by the rows, or the solver has no exact leave-one-out errors."""
    alphas = given_alphas(machine.alpha)
    named = isinstance(machine.features, str) and not isinstance(machine.kernel, Kernel)
    return named or alphas is None or len(alphas) > 1 or machine.solver_ == "cg"
