"""Prediction intervals and quantiles of a fitted machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bochner.data.streams.lazily import lazy
from bochner.engines.blas import single_threaded_blas
from bochner.estimators.ridge.spread import Affine, Spread
from bochner.features.boundary import any_arrays
from bochner.solvers.conformal import require_coverage


class Intervals:
    """Where the target of a new row lies, by scores of rows that the model has not seen."""

    coef_: NDArray
    intercept_: NDArray
    target_mean_: NDArray[np.float64]
    target_scale_: NDArray[np.float64]
    spread_: Spread | None
    uncertainty: bool | str
    solver_: str
    _one_target: bool

    @lazy
    @any_arrays
    def predict_interval(self, X: Any, coverage: float = 0.9, n_jobs: int | None = None) -> NDArray[np.float64]:
        """Predict intervals that hold the target of a new row with a given probability.

        An interval is that between the quantiles (1 - coverage) / 2 and (1 + coverage) / 2 of `predict_quantile`:
        f(x) + sigma(x) times two quantiles of scores (y - f(x)) / sigma(x). The scale sigma is a second machine on the
        same features, for the errors of rows that their model has not seen. The scores are of other rows, which
        calibrate: those that are held out before anything is learned, about a fifth or 10,000. Where the rows are few,
        sigma is a constant (less than 400 rows to learn it from), and all rows calibrate if no metric was learned.

        **Proved**, where conjugate gradients solve for a learned metric or for more than 5,000 rows: f is the model
        without the rows that calibrate, and not the one of `predict`, fitted on all rows at last. If the rows and a new
        one are exchangeable, the interval holds the new target with a probability of at least `coverage`, and at most
        2 / (m + 1) more with m rows that calibrate and no equal scores, on average over rows and draws, whatever the
        distribution (split conformal prediction). **Not proved** is what it costs that these rows judged the candidates
        for the model and told when iterations stop, a choice of one among some ten.

        **Observed**, with the direct and the exact solver, and by folds of up to 5,000 rows of a given kernel: f is the
        model of `predict`, and a score is of the model without its row or fold, but with the other rows that calibrate
        (jackknife). The coverage is near to the one asked for if a row more or less moves the model little (Barber et
        al., 2021, section 5, on stability). With weights it is that of a row drawn by weight.

        No interval has this coverage at each x by itself: that is impossible without assumptions on the distribution.
        The scale sees the columns as the learned metric does: where noise follows a column that moves no mean, and is
        switched off for that, widths do not follow it.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        coverage : float, default=0.9
            In (0, 1). Each end is missed by half of the rest.
        n_jobs : int or None, default=None
            Threads to use at most, 1 for the calling one alone; None and -1 are all that the process may.

        Returns
        -------
        array of shape (n, 2) or (n, K, 2)
            Lower and upper ends. Where a hundredth of the targets lie at their least or greatest value (counts,
            ratings, censored targets), no end is beyond it, which costs a coverage of 1 / (n + 1) an end at most.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            Where the model was fitted without ``uncertainty=True``; a coverage outside of (0, 1), or one for which too
            few rows have scores: a coverage c needs (1 + c) / (1 - c), 19 for 0.9.

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

        They are f(x) + sigma(x) times quantiles of the scores that `predict_interval` is made of, with the same
        guarantee: the target is at most the quantile q with a probability of at least q where q >= 1/2, and less than
        it with a probability of at most q where q < 1/2. They never cross.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        q : float or sequence of float
            Each in (0, 1).
        n_jobs : int or None, default=None
            Threads to use at most, 1 for the calling one alone; None and -1 are all that the process may.

        Returns
        -------
        array of shape (n,), or (n, Q) for a sequence of Q
            For several targets (n, K) and (n, K, Q).

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            Where the model was fitted without ``uncertainty=True``; q outside of (0, 1), or so near to an end that too
            few rows have scores: (1 - q) / q are needed, or q / (1 - q).

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

    def _centre_and_scale(self, X: Any, spread: Spread, n_jobs: int | None) -> tuple[NDArray, NDArray]:
        """Centres and scales in units of standardised targets, both of shape (n, K), by one pass."""
        parts = [spread.centre or Affine(self.coef_, self.intercept_)]
        parts += [] if spread.roots is None else [spread.roots]
        coef, intercept = np.hstack([one.coef for one in parts]), np.concatenate([one.intercept for one in parts])
        found = self._mapped(X, coef, intercept, n_jobs)
        K = len(self.intercept_)
        return found[:, :K], spread.scale(found[:, K:] if len(parts) > 1 else np.ones((len(found), K)))

    def _mapped(self, X: Any, coef: NDArray, intercept: NDArray, n_jobs: int | None) -> NDArray[np.float64]:
        raise NotImplementedError
