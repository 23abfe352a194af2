"""Kernel ridge regression by random features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bochner.arrays import Floats
from bochner.data.outliers import outer_fences
from bochner.data.weights import checked_weight
from bochner.design.design import Design
from bochner.devices.conversion import any_arrays
from bochner.engines.blas import single_threaded_blas
from bochner.engines.local import at_most
from bochner.estimators.cross_fitting import cross_fitted, with_larger_errors
from bochner.estimators.extrapolation import PredictionBounds
from bochner.estimators.loss_problem import LossFit
from bochner.estimators.machine import KernelMachine, Prepared, Targets, solved
from bochner.estimators.number_losses import fit_numbers, fit_numbers_again
from bochner.estimators.parameters import NUMBER_LOSSES, ROBUST_LOSSES
from bochner.estimators.posterior import Posterior
from bochner.estimators.posterior_fit import fit_posterior
from bochner.estimators.ridge.interval_calibration import (
    ErrorScale,
    fit_error_scale,
)
from bochner.estimators.ridge.out_of_sample import OutOfSample
from bochner.estimators.ridge.ridge_problem import RidgeProblem, RidgeSolution
from bochner.features.base import FeatureMap
from bochner.inputs.checks import checked_numbers, require_one_of, threads_of
from bochner.inputs.scoring import score_of_rows
from bochner.inputs.targets import (
    Clipped,
    Standardised,
    log_counts,
    mean_and_scale,
    target_moments,
)
from bochner.inputs.training import Target, TrainingRows
from bochner.kernels import Kernel
from bochner.selection.budget import Budget
from bochner.selection.choose import Choice
from bochner.solvers.conformal import require_coverage
from bochner.sources.dask_parts import is_collection
from bochner.sources.rowwise import rowwise


class KernelMachineRegressor(RegressorMixin, KernelMachine):
    """Kernel ridge regression in linear time, by random features.

    Fits  min_w sum_i s_i (y_i - b - z(x_i)'w)^2 + alpha ||w||^2  with z a random
    feature map of the kernel: Fourier features or random bins. Fourier features need
    one pass over the rows and O(D^2) memory, or conjugate gradients; bins always use
    conjugate gradients. By default the kernel, the lengthscales, alpha and D are
    selected from the data. Up to 250 distinct rows the model is by default the exact
    kernel machine with one lengthscale. This lengthscale, alpha, the kernel (Gaussian
    or Laplacian) and the scaling of the columns are then selected by leave-one-out
    errors. Lengthscales of each column and alpha of the greatest marginal likelihood
    are taken where folds of the rows are predicted better by them. Below 2,000 rows it
    is the exact kernel machine with learned lengthscales, where rows held out prefer
    it. Exact kernel machines keep the training rows.

    Parameters
    ----------
    kernel : Kernel or str, default="auto"
        A `bochner.kernels.Kernel` is used as given, on columns in their own units, and
        nothing is learned. A name ("gaussian", "laplacian", "hat", "smoothbins",
        "cauchy", "matern12", "matern32", "matern52", "rationalquadratic") is a kernel
        of standardised columns whose lengthscales are learned. Only "laplacian", "hat"
        and "smoothbins" have bins. "auto" selects the kernel.
    features : FeatureMap, transformer or str, default="auto"
        "fourier" is `FourierFeatures`, for smooth targets; "binning" is
        `BinningFeatures`, for local, rough targets; "hybrid" is both side by side;
        "auto" is the one with the lowest validation loss, or a linear model if it is as
        good (with a named kernel "fourier"); sparse rows of more than 1,000 columns
        have a linear model at once. A map is copied and drawn with its own
        kernel and size: `kernel` must be "auto", and `n_components` has no effect. A
        `ConcatenatedFeatures` without weights gets the weights of lowest validation
        loss, and is fitted by conjugate gradients. A scikit-learn transformer, such as
        `Nystroem`, or a pipeline of them, is fitted on at most 4,096 encoded rows, and
        wrapped in `TransformerFeatures`.
    n_components : int or "auto", default="auto"
        Number of Fourier features, of binning grids, or of each. For Fourier features
        "auto" is 2 n, between 512 and 2,048, fewer beyond half a million rows, and up
        to 8,192 if that lowers the validation loss. For grids it is 50 million / n,
        between 50 and 800, and fewer for many outputs.
    metric : {"auto", "isotropic", "ard", "full"}, default="auto"
        "isotropic": one lengthscale for all columns, after scaling. "ard": a learned
        lengthscale and monotone warp for each column. "full": a learned linear map on
        top (see `bochner.selection.learn_metric`). "auto" has the lowest loss on
        validation rows, which are set aside before anything is learned (about a fifth
        of the rows, or 10,000). With fewer than 250 distinct rows, or more than 8,192
        columns, "auto" is "isotropic"; of numbers only where lengthscales of each
        column are not clearly better. It alone tries jumps in the warps of bins, where
        a random forest splits columns, up to 200,000 rows. For bins the linear map is
        learned from 2,000 to 200,000 dense rows with two or more numeric columns;
        otherwise "full" falls back to "ard", with a warning.
    alpha : float, sequence of float, "auto", "loo" or "gcv", default="auto"
        Ridge penalty, as in scikit-learn's `KernelRidge`. From a sequence, or from a
        path with "auto", the value of lowest exact leave-one-out error is selected.
        This error is computed on up to 4,096 rows; with "loo" on all rows, in a second
        pass. "gcv" minimises generalised cross-validation, without a second pass. "loo"
        and "gcv" need the direct solver and Fourier features. With "cg" the validation
        error decides.
    loss : {"squared", "huber", "quantile", "poisson"}, default="squared"
        What the fit minimises, plus the ridge penalty. "huber" is for targets with
        outliers: errors beyond 1.345 times the spread of the model's own errors count
        by their size, not by its square. "quantile" is the pinball loss, smoothed over
        a tenth of that spread. "poisson" is the deviance of counts with a log link, for
        non-negative targets. All but "squared" start at the ridge regression, and
        go on by sweeps over the grids of bins, or else by Newton's method. Features and
        metric are selected by squared errors, for "huber" and "quantile" of targets
        clipped at three times the interquartile range beyond the quartiles.
    quantile : float, default=0.5
        The quantile that loss="quantile" fits; 0.5 is the median. Predictions are
        shifted by a constant until this share of the rows that the fit held out lies
        below them, within a standard error.
    solver : {"auto", "direct", "cg", "exact"}, default="auto"
        "direct" factorises the D x D Gram matrix Z'WZ, which must be dense. "cg" uses
        conjugate gradients on features that are stored in memory if they fit. "auto" is
        "cg" for bins, for a Gram matrix that does not fit in memory, and for large
        problems: n D^2 above 10^12, and more than 200 features an output. "exact"
        uses the n x n kernel matrix of all rows in place of features: factorised up to
        20,000 rows, and solved by preconditioned conjugate gradients beyond. It is the
        model that features approximate, with the same alpha, for comparison.
    tol : float, default=1e-2
        Relative error of the "cg" solution, in the norm of the matrix of the equations;
        for "exact" at most 1e-3. If alpha is selected, "cg" may stop earlier: at the
        iteration of lowest validation loss, as in any model with learned bins, or, by
        default, when the predictions of validation rows have settled. With `tol` below
        5e-3, or a given alpha below 1e-8 n where there may be bins, all is computed in
        double precision.
    uncertainty : bool or {"intervals", "std"}, default=False
        Whether the fit also learns the uncertainty of its predictions. "intervals" is
        for `predict_interval` and `predict_quantile`, and costs about a fifth of a fit.
        "std" is for `predict` with ``return_std=True`` and `sample_y`, and costs one or
        two seconds of CPU time. True is for both. Up to 500 distinct rows the fit is
        repeated for it without parts of the rows, ten times, or five times from 250
        rows on.
    time_limit : float or None, default=None
        Time limit of a fit in seconds, without compilation. It leads to fewer
        candidates, steps and grids, and to the same model as none where it is long
        enough. None sets no limit. The exact solver ignores it.
    random_state : int, RandomState or None, default=None
        Seed of the features, and of the samples used for selection.
    verbose : int, default=0
        If positive, show progress on a terminal.
    numeric_features : sequence of int or str, "all" or None, default=None
        Columns, by number or name, whose integers are quantities; "all" for all
        columns. In others of 3 different integers or more, each in two rows on average,
        a fit of more than 250 rows takes these for codes of categories where the mean
        targets of the integers follow neither their order nor a cubic. `report_` and
        ``print(model.encoder_)`` name such columns.
    text_features : sequence of int or str, "all" or None, default=None
        Columns, by number or name, whose text is never read as dates or numbers; "all"
        for all columns. Otherwise text such as 31/12/2017, 23.4 kg, $2,399 or 5 % is,
        where all of a column is written so, or for numbers nine tenths of it; a warning
        says so. Columns of a categorical type stay as they are.
    day_first : bool or None, default=None
        Whether 1/2/2017 is in February where all dates of a column may have days or
        months first; see `TableEncoder`.
    bounded : bool, default=True
        Whether predictions stay near the range of the targets of the fit. How far they
        may go beyond it is decided by the errors at rows left out of the fit: far where
        these are small, as of a clean linear trend, and hardly where they are a third
        of the deviation of the targets or more, or near that of the targets at this
        end; see `bounds_`. Explanations and samples of functions (`sample_y`) are of
        the function without bounds.
    cv : int, splitter, iterable or None, default=None
        Which rows validate which, by scikit-learn's convention: a number of folds, a
        splitter such as `GroupKFold`, `TimeSeriesSplit` or `PredefinedSplit`, or an
        iterable of pairs of row numbers, to fit and to validate. All that is chosen,
        calibrated and reported goes by these splits; the split with most rows to fit is
        the one by which models are compared. Each row validates once, of several splits
        in that with most rows to fit. The model is then solved for all rows. None holds
        rows out by chance, or whole `groups` where `fit` is given these.

    Attributes
    ----------
    kernel_ : Kernel or None
        In units of the encoded columns, or of the learned coordinates; None if the map
        has no single kernel (`ConcatenatedFeatures`, `LinearFeatures`). For the kernel
        between rows as they are see `kernel_matrix`.
    features_ : FeatureMap
        The fitted map; for the exact solver `KernelRows`, the kernel with all training
        rows, or these on learned coordinates.
    metric_ : Metric or None
        The learned metric (of the last map, if there are several), or that of the
        kernel's lengthscales. Its ``names_`` are those of the encoded columns.
    report_ : Report or None
        The candidates and why one was selected: ``print(model.report_)``. None if
        nothing was to be learned, or there are too few rows; beyond 8,192 encoded
        columns, and for classes whose weights leave too few rows, it has no candidates,
        and says what was not tried.
    importance_ : Importance
        Permutation importance of the columns with standard errors, on rows that the
        evaluated function has not seen: validation rows by the function without them,
        or rows left out one at a time. Its `rows` say which; they are training rows
        where there was no such function, as with conjugate gradients and a given
        `alpha`. No attribute with more than 200 columns, or where a time limit left no
        time: then, and for more exact values, call `importance`. After `partial_fit` it
        is measured when it is read; after `refit` it is still that of `fit`.
    feature_importances_ : array of shape (d,)
        The importance in `importance_` as shares: values below zero are zero, and the
        sum is 1. It raises where there is no `importance_`. Shares of columns in the
        learned distance are ``metric_.relevance_``.
    solver_ : {"direct", "cg", "exact"}
    solver_reason_ : str
        Why this solver was used, in words.
    n_iter_ : int or None
        Number of iterations of conjugate gradients; None if there were none.
    residual_ : float or None
        Norm of the residual of the equations over that of their right-hand side, the
        largest over the targets; None if there were no iterations.
    encoder_ : TableEncoder
        Turns input rows into the numeric columns of the kernel.
    alpha_ : float
        The ridge penalty of the fit.
    alphas_ : array of shape (A,)
        The ridge penalties tried, ascending.
    alpha_scores_ : array of shape (A,), or None if alpha was given or learned
        Criterion of each: mean squared error divided by the variances of the targets.
    feature_weights_ : array of shape (D, K)
        Coefficients of the features, for standardised targets.
    intercept_ : array of shape (K,)
        Intercepts, for standardised targets.
    target_mean_, target_scale_ : arrays of shape (K,)
        Predictions are ``(z(x)'feature_weights_ + intercept_) * target_scale_ +
        target_mean_``; with loss="poisson" the exponential of that.
    bounds_ : PredictionBounds or None
        Predictions beyond ``bounds_.ends``, the least and the greatest of each target,
        count as these. None with ``bounded=False``, where fewer than 50 rows could be
        left out of the fit or none were (beyond 200 columns, and with dense features
        and conjugate gradients of a given `alpha`), and where not all targets were seen
        (``open_source(sample=)``, `partial_fit`). With several targets each has its
        own.
    loss_ : str
        The loss that was minimised; a later change of `loss` has no effect before the
        next fit.
    n_steps_ : int
        Number of sweeps over the grids of bins, or of Newton steps; only with another
        loss than "squared".
    spread_ : ErrorScale or None
        With ``uncertainty=True`` or "intervals": the spread of the errors, which gives
        the intervals.
    posterior_ : Posterior
        With ``uncertainty=True`` or "std": the variances of the function and of the
        noise.
    level_variances_ : dict of str to array of shape (K,)
        With `uncertainty`: by the number of a column of text the variance of the
        standardised targets between its levels, by which intervals and deviations are
        wider for a level that the fit did not see.
    background_ : array of shape (B, D'), or None
        Encoded training rows, 100 at most and 200 kB, drawn by their weights: what
        `explain` compares rows with.
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    ValueError, TypeError
        At fit: parameters out of range; infinite values; missing values in sparse
        matrices; negative weights; a missing or non-numeric target; "binning" with a
        kernel that is not a mixture of hats, such as Gaussian; solver="direct", or
        alpha "loo" or "gcv", with bins.
    MemoryError
        Before any work, if the D^2 moments of the direct solver, or blocks of the exact
        one, do not fit in the free memory.

    Warns
    -----
    ConvergenceWarning
        At fit, if conjugate gradients do not reach `tol` in 500 iterations (more for a
        `tol` below 1e-2, in proportion to its logarithm).
    UserWarning
        At fit, if a requested device is not used, if metric="full" learns no linear
        map, or if most rows are alone in their bins, which then carry no information
        about new rows. For later rows, if most values of a column of categories are
        levels that the fit did not see, or if a column has missing values that had none
        in the fit.

    References
    ----------
    Rahimi and Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007.
    Rudi, Carratino and Rosasco, "FALKON: An Optimal Large Scale Kernel Method", NIPS
    2017 (preconditioned conjugate gradients).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import KernelMachineRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelMachineRegressor(random_state=0).fit(X[:350], y[:350])
    >>> bool(model.score(X[350:], y[350:]) > 0.5)
    True

    A step function, with random binning features:

    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(1200, 2))
    >>> y = np.floor(4 * X[:, 0]) + np.floor(3 * X[:, 1])
    >>> model = KernelMachineRegressor(features="binning", random_state=0).fit(
    ...     X[:900], y[:900]
    ... )
    >>> (
    ...     bool(model.score(X[900:], y[900:]) > 0.9),
    ...     model.solver_,
    ...     model.features_.n_features_out > 800,
    ... )
    (True, 'cg', True)
    """

    # what goes with a call is no metadata of the rows
    __metadata_request__predict: ClassVar = {
        "return_std": UNUSED,
        "return_cov": UNUSED,
        "noise": UNUSED,
        "n_jobs": UNUSED,
        "out": UNUSED,
    }
    score = score_of_rows

    losses: ClassVar = ("squared", *NUMBER_LOSSES)
    spread_: ErrorScale | None = solved()
    bounds_: PredictionBounds | None = solved()
    posterior_: Posterior

    def __init__(
        self,
        kernel: Kernel | str = "auto",
        features: FeatureMap | str = "auto",
        n_components: int | str = "auto",
        metric: str = "auto",
        alpha: Any = "auto",
        loss: str = "squared",
        quantile: float = 0.5,
        solver: str = "auto",
        tol: float = 1e-2,
        uncertainty: bool | str = False,
        time_limit: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
        numeric_features: Any = None,
        text_features: Any = None,
        day_first: bool | None = None,
        bounded: bool = True,
        cv: Any = None,
    ) -> None:
        self.kernel = kernel
        self.features = features
        self.n_components = n_components
        self.metric = metric
        self.alpha = alpha
        self.loss = loss
        self.solver = solver
        self.tol = tol
        self.time_limit = time_limit
        self.random_state = random_state
        self.verbose = verbose
        self.numeric_features = numeric_features
        self.text_features = text_features
        self.day_first = day_first
        self.cv = cv
        self.quantile = quantile
        self.uncertainty = uncertainty
        self.bounded = bounded

    @any_arrays
    def prepare(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Select everything but the coefficients on a sample of the rows, before
        `partial_fit` adds all rows.

        The encoder, the scale of the targets, the kernel or learned metric and the
        draws of the map are then fixed. The features are Fourier features, or hashed
        bins. At most 4,096 rows of the sample are kept to select alpha; they are not
        part of the sums.

        Parameters
        ----------
        X, y, sample_weight, groups
            As in `fit`; from a source that is larger than memory a sample is drawn.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the parameters need all rows at once: another loss than the squared one,
            standard deviations, solver="exact", alpha="loo", or a map whose columns are
            sparse and too many.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import KernelMachineRegressor
        >>> X = np.random.default_rng(0).uniform(size=(3000, 2))
        >>> y = np.sin(4 * X[:, 0]) + X[:, 1]
        >>> model = KernelMachineRegressor(random_state=0).prepare(X[:1000], y[:1000])
        >>> for first in range(0, 3000, 500):
        ...     model = model.partial_fit(
        ...         X[first : first + 500], y[first : first + 500]
        ...     )
        >>> bool(model.score(X, y) > 0.99)
        True
        """
        return self._prepare_parts(X, y, sample_weight, groups)

    @available_if(KernelMachine._can_sum)
    @any_arrays
    @single_threaded_blas()
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        half_life: float | None = None,
    ) -> Self:
        """Add rows to the fit, with the same result as if all had come at once.

        On the first call everything else is selected on these rows, unless `prepare`
        has been called; where they are fewer than 256, again whenever the number of
        rows has doubled, until there are 256. A model that is saved before then holds
        these rows. The coefficients are computed at first use.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        y : array of shape (n,) or (n, K), or str
        sample_weight : array of shape (n,) or str, optional
        half_life : float, optional
            Number of rows after which a row counts half: before n rows are added, the
            sums of all earlier ones are scaled by 2^(-n / half_life), and the rows of a
            batch decay alike, by their distance from the last one. So batches of any
            size give the same sums. Time is counted in rows, whatever their weights
            are, and `alpha` does not decay. All that is chosen before, by the first
            rows or by `prepare`, is chosen without decay. None, the default, forgets
            nothing.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As in `prepare`; if `half_life` is no positive number; if columns or targets
            differ from those of the first rows; after `fit` or `finalize`, which keep
            no sums. The model then stays as it was.
        """
        self._add_part(X, y, sample_weight, half_life)
        assert self._sums is not None
        self._caution_moved(self._sums)
        return self

    def _begin(self) -> None:
        super()._begin()
        self.loss_ = self.loss

    def _checked_target(self, X: Any, y: Any, sample_weight: Any) -> Target:
        """Targets, weights, and the targets' means and deviations."""
        y = checked_numbers(self, X, y)
        weight = checked_weight(sample_weight, X)
        values = y.reshape(len(y), -1)
        bounds = PredictionBounds.of(values, weight)
        # A first batch is checked before a fit begins
        if getattr(self, "loss_", self.loss) in ROBUST_LOSSES:
            values = np.clip(values, *outer_fences(values, weight))
        moments = target_moments(values, weight)
        return Target(y, weight, *mean_and_scale(moments), bounds)

    def _learn_target(self, rows: TrainingRows, classes: Any = None) -> Targets:
        if rows.summary is None:
            self._range = rows.target.bounds
            self._store_scale(rows.target)
            return self._solver_targets(rows.target)
        seen = rows.summary.targets
        assert seen is not None
        # Where the first rows alone were looked at, nobody has seen all targets
        self._range = None
        if rows.summary.n_seen == rows.summary.n_rows:
            self._range = PredictionBounds.of(np.stack([seen.low, seen.high]), None)
        self._store_scale(Target(rows.y, None, *mean_and_scale(seen)))
        return self._known_targets()

    @property
    def _has_log_link(self) -> bool:
        """Whether predictions are exponentials of the model's scores."""
        return self.loss_ == "poisson"

    def _store_scale(self, target: Target) -> None:
        """Store the mean and scale that turn predictions into targets."""
        self.target_mean_ = target.mean
        self.target_scale_ = target.scale
        if self._has_log_link:
            self.target_mean_ = np.zeros_like(target.mean)
            self.target_scale_ = np.ones_like(target.scale)
        self._one_target = target.y.ndim == 1

    def _solver_targets(self, target: Target) -> Targets:
        """Targets of the ridge regression: standardised, logarithms of counts, or
        without outliers.
        """
        if self._has_log_link:
            return log_counts(target.y, target.weight)
        if self.loss_ in ROBUST_LOSSES:
            return Clipped(
                target.mean, target.scale, *outer_fences(target.y, target.weight)
            )
        return Standardised(target.mean, target.scale)

    def _known_targets(self) -> Standardised:
        return Standardised(self.target_mean_, self.target_scale_)

    def _choose(self, rows: Prepared) -> Choice | None:
        targets = rows.source.targets
        if isinstance(targets, Clipped):
            # By what far targets cost a squared loss, features would be worse for all
            # other rows
            near = targets.are_near(rows.source.y, rows.source.weights)
            rows = rows._replace(source=rows.source.weighted(near))
        return super()._choose(rows)

    def _refuse_other_targets(self, target: Target, in_parts: bool = False) -> None:
        K = len(self.target_mean_)
        y = target.y
        if len(target.mean) != K or (y.ndim == 1) != self._one_target:
            raise ValueError(
                f"The model was fitted to {K} targets, and y has shape {y.shape}."
            )

    def _refuse_unlike(self, target: Target, other: Target) -> None:
        if target.y.shape[1:] != other.y.shape[1:]:
            raise ValueError(
                f"y has shape {target.y.shape}, and that of validation "
                f"{other.y.shape}: give as many targets."
            )

    def _by_loss(
        self,
        design: Design,
        solution: RidgeSolution,
        problem: RidgeProblem,
        target: Target,
        passes: Design | None,
    ) -> LossFit | None:
        if self.loss_ == "squared":
            return None
        return fit_numbers(
            design,
            solution,
            replace(problem, budget=problem.budget.stage("loss")),
            self.loss_,
            self.quantile,
            self._aims(target),
            self._request.alphas,
        )

    def _aims(self, target: Target) -> NDArray:
        """Targets of the loss, shape (n, K)."""
        if self._has_log_link:
            return np.maximum(target.y.reshape(len(target.y), -1), 0)
        return Standardised(target.mean, target.scale)(target.y)

    def _store(
        self,
        solution: RidgeSolution,
        choice: Choice | None,
        loss_fit: LossFit | None = None,
        rows: Prepared | None = None,
        design: Design | None = None,
    ) -> None:
        super()._store(solution, choice)
        bounds = None
        targets = self._known_targets()
        if self.bounded and self._range is not None:
            unseen = (loss_fit or solution).unseen
            bounds = self._range.learned(
                unseen, self._seed(), targets, self._has_log_link
            )
        self._store_bounds(bounds)
        budget = Budget() if rows is None else rows.budget
        self.spread_ = self._fit_error_scale(
            solution.calibration, targets, budget.stage("intervals")
        )
        if rows is not None and design is not None and self._request.wants("std"):
            stage = budget.stage("deviations")
            groups = self.encoder_.column_groups()
            self.posterior_ = fit_posterior(
                design, solution, rows.seed, self.spread_, groups, stage
            )
        self.feature_weights_ = (
            solution.coef if loss_fit is None else self._store_loss(solution, loss_fit)
        )

    def _store_bounds(self, bounds: PredictionBounds | None) -> None:
        """Keep the bounds of the predictions, which the report tells."""
        self.bounds_ = bounds
        if self.report_ is not None:
            ends = [] if bounds is None else bounds.ends.T.tolist()
            self.report_ = replace(self.report_, bounds=ends)

    def _store_loss(self, solution: RidgeSolution, loss_fit: LossFit) -> NDArray:
        """Store what another loss decides, and return its coefficients."""
        if self.report_ is not None:
            self.report_ = replace(self.report_, outliers=0.0)
        self._ridge_alpha = solution.alpha
        self._fitted_loss = loss_fit.loss
        self.n_steps_ = loss_fit.n_steps
        self.alpha_ = loss_fit.alpha
        self.intercept_ = loss_fit.intercept
        return loss_fit.coef

    def _solve_other_rows(self, rows: TrainingRows) -> None:
        target = rows.target
        spread = getattr(self, "spread_", None)
        seed = self._seed() if spread is None else spread.seed
        budget = Budget()
        source = self._other_rows(rows, self._solver_targets(target))
        bounds = self.bounds_
        if bounds is not None:
            bounds = replace(target.bounds, reach=bounds.reach)
        self._store_bounds(bounds)
        if self.loss_ == "squared":
            design, _, solution = self._solve_again(
                source, seed, self.features_, self.alpha_, bool(self.uncertainty)
            )
            if self.uncertainty:
                crossed = cross_fitted(self, rows, source, seed, budget)
                solution = with_larger_errors(solution, crossed)
            scaled = Standardised(target.mean, target.scale)
            calibration = solution.calibration
            self.spread_ = self._fit_error_scale(calibration, scaled, budget, spread)
            coef = solution.coef
            if hasattr(self, "posterior_"):
                groups = self.encoder_.column_groups()
                self.posterior_ = fit_posterior(
                    design, solution, self._seed(), self.spread_, groups, budget
                )
        else:
            design, problem, solution = self._solve_again(
                source, seed, self.features_, self._ridge_alpha
            )
            loss_fit = fit_numbers_again(
                design,
                solution,
                problem,
                self._fitted_loss,
                self.alpha_,
                self.n_steps_,
                self._aims(target),
            )
            coef = self._store_loss(solution, loss_fit)
        self._store_scale(target)
        self.feature_weights_ = coef

    def _go_on(self, design: Design, problem: RidgeProblem) -> None:
        super()._go_on(design, problem)
        self._store_bounds(None)  # as nobody has seen the range of all targets

    def _fit_error_scale(
        self,
        rows: OutOfSample | None,
        targets: Standardised,
        budget: Budget,
        former: ErrorScale | None = None,
    ) -> ErrorScale | None:
        """The error scale from out-of-sample predictions of standardised targets, if
        intervals are wanted; with a former map if given.
        """
        if rows is None or not self._request.wants("intervals"):
            return None
        if self.bounds_ is not None:
            rows = replace(rows, predicted=self.bounds_.within(rows.predicted, targets))
        groups = self.encoder_.column_groups()
        return fit_error_scale(rows, groups, budget, former)

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        n_jobs: int | None = None,
        *,
        return_cov: bool = False,
        noise: bool = True,
        out: Any = None,
    ) -> Any:
        """Predict targets and, on request, their standard deviations or covariances.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or a source
        return_std : bool, default=False
            Whether to return standard deviations of new targets too; see `posterior_`.
        n_jobs : int or None, default=None
            Maximum number of threads. None and -1 use all that the process may use. The
            result does not depend on it.
        return_cov : bool, default=False
            Whether to return the covariances of new targets too, for rows in memory.
        noise : bool, default=True
            Whether deviations and covariances are those of new targets. Else they are
            those of the function: how well its value at the rows is known.
        out : path-like, optional
            A Parquet or CSV file (by its suffix), to which predictions are written
            block by block.

        Returns
        -------
        array of shape (n,) or (n, K), or Path
            In the library and on the device of X; from NumPy in double precision, else
            in that of X. For a Dask array, a Dask array; for a Dask data frame, a
            series or a data frame with its index; neither is computed yet. With `out`,
            the path of the file.
        std : array of the same shape
            With `return_std` and without `out`.
        covariance : array of shape (n, n) or (n, n, K)
            With `return_cov`. Levels of text that the fit did not see add to the
            variances alone.

        Raises
        ------
        ValueError
            With `return_std` or `return_cov`, if the model was fitted without
            ``uncertainty=True`` or "std"; with both, or with `return_cov` for rows that
            are not in memory.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_diabetes
        >>> from bochner import KernelMachineRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = KernelMachineRegressor(
        ...     "gaussian", uncertainty="std", random_state=0
        ... ).fit(X[:350], y[:350])
        >>> _, std = model.predict(X[350:], return_std=True, noise=False)
        >>> _, covariance = model.predict(X[350:], return_cov=True, noise=False)
        >>> np.allclose(np.sqrt(np.diag(covariance)), std)
        True
        """
        if return_cov:
            if return_std or out is not None or is_collection(X):
                raise ValueError(
                    "return_cov is for rows in memory, without return_std and out: the "
                    "diagonal of the covariances holds the squares of the deviations."
                )
            covariances = self._covariances(X, noise)
            return self._predict(X, False, noise, n_jobs), covariances
        if return_std and out is None and is_collection(X):
            deviations = self._deviations(X, noise, n_jobs)
            return self._predict(X, False, noise, n_jobs), deviations
        return self._predict(X, return_std, noise, n_jobs, out=out)

    @rowwise("predicted")
    def _predict(
        self,
        X: Any,
        return_std: bool,
        noise: bool,
        n_jobs: int | None,
        *,
        out: Any = None,
    ) -> Any:
        """Means, or means and standard deviations; the latter not of collections."""
        scores = self._scores(X, n_jobs)
        values = self._predictions(scores)
        mean = values[:, 0] if self._one_target else values
        return (mean, self._deviations(X, noise, n_jobs)) if return_std else mean

    def _predictions(self, scores: NDArray) -> Floats:
        """Predictions, shape (n, K), of the solver's."""
        values = self._known_targets().inverse(scores, self._has_log_link)
        return values if self.bounds_ is None else self.bounds_.clipped(values)

    @rowwise("std")
    def _deviations(self, X: Any, noise: bool, n_jobs: int | None) -> Floats:
        """Standard deviations of new targets, or of the function, of the shape of
        predictions.
        """
        posterior = self._posterior()
        with single_threaded_blas(), at_most(threads_of(n_jobs)):
            rows = self._encoded(X, self.feature_weights_.dtype)
            variances, noise_variances = posterior.variances(self.features_, rows)
        if noise:
            variances = variances + noise_variances
        std = np.sqrt(variances + self._unseen_variances(X)) * self.target_scale_
        return std[:, 0] if self._one_target else std

    @any_arrays
    def _covariances(self, X: Any, noise: bool) -> Floats:
        """Covariances of new targets, or of the function's values, at n rows."""
        posterior = self._posterior()
        with single_threaded_blas():
            rows = self._encoded(X, self.feature_weights_.dtype)
            covariance = posterior.covariances(self.features_, rows)
            diagonal = np.diag_indices(rows.shape[0])
            covariance[diagonal] += self._unseen_variances(X)
            if noise:
                covariance[diagonal] += posterior.variances(self.features_, rows)[1]
        covariance *= np.square(self.target_scale_)
        return covariance[:, :, 0] if self._one_target else covariance

    @any_arrays
    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Floats:
        """Draw functions from the posterior and evaluate them, without the noise of
        targets.

        This uses pathwise conditioning (Wilson et al., 2020): whole functions are
        drawn, so the same seed gives values of the same functions at other rows.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        n_samples : int, default=1
        random_state : int, RandomState or None, default=None
            Seed of the functions.

        Returns
        -------
        array of shape (n, n_samples), or (n, K, n_samples) for several targets

        Raises
        ------
        ValueError
            If the model was fitted without ``uncertainty=True`` or "std", or
            `n_samples` is no positive integer.

        References
        ----------
        Wilson, Borovitskiy, Terenin, Mostowsky and Deisenroth, "Efficiently Sampling
        Functions from Gaussian Process Posteriors", ICML 2020 (arXiv:2002.09309);
        "Pathwise Conditioning of Gaussian Processes", JMLR 2021 (arXiv:2011.04026).

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_diabetes
        >>> from bochner import KernelMachineRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = KernelMachineRegressor(
        ...     "gaussian", uncertainty="std", random_state=0
        ... ).fit(X[:350], y[:350])
        >>> functions = model.sample_y(X[350:], n_samples=3, random_state=0)
        >>> (
        ...     functions.shape,
        ...     np.allclose(
        ...         functions[:5], model.sample_y(X[350:355], 3, random_state=0)
        ...     ),
        ... )
        ((92, 3), True)
        """
        posterior = self._posterior()
        require_one_of("n_samples", n_samples, "a positive integer")
        seed = int(check_random_state(random_state).randint(2**31))
        with single_threaded_blas():
            mean = self._scores(X)
            rows = self._encoded(X, self.feature_weights_.dtype)
            drawn = posterior.sample(
                self.features_, rows, n_samples, np.random.default_rng(seed)
            )
        drawn += mean[:, :, np.newaxis]
        drawn = drawn * self.target_scale_[:, None] + self.target_mean_[:, None]
        return drawn[:, 0] if self._one_target else drawn

    def _posterior(self) -> Posterior:
        check_is_fitted(self)
        if not hasattr(self, "posterior_"):
            raise ValueError(
                "Standard deviations and samples need a posterior: fit with "
                "uncertainty=True or 'std', as in "
                "KernelMachineRegressor(uncertainty=True)."
            )
        return self.posterior_

    @rowwise()
    def predict_interval(
        self, X: Any, coverage: float = 0.9, n_jobs: int | None = None
    ) -> Floats:
        """Predict intervals that contain the target of a new row with a given
        probability.

        The ends of an interval are the quantiles (1 - coverage) / 2 and (1 + coverage)
        / 2 of `predict_quantile`: f(x) + sigma(x) times two quantiles of the scores (y
        - f(x)) / sigma(x) of rows that the model has not seen. The scale sigma is a
        second model with a metric of its own, fitted to out-of-sample errors of other
        rows. With few rows (fewer than 400 to learn it from) all give scores, by the
        sigma that is fitted without each, or by a constant sigma where that is about as
        likely, and below 100 rows.

        Exact copies of a row are one observation. Different targets at the same inputs
        are several.

        **Up to 500 distinct rows** the scores come from cross-validation: everything is
        chosen and fitted again without a tenth of the rows, or a fifth from 250 rows
        on. f is the model of `predict`. This has no proof; the user guide has the
        coverage that was measured.

        **With more rows**, if conjugate gradients solve for a learned metric or for
        more than 5,000 rows, the scores are those of validation rows, about a fifth of
        the rows or 10,000, and f is the model without them, not that of `predict`,
        which is finally fitted on all rows. If the rows and a new one are exchangeable,
        the interval contains the new target with a probability of at least `coverage`,
        and at most 2 / (m + 1) more with m validation rows and no equal scores, on
        average over rows and draws, for any distribution (split conformal prediction).
        Not covered by the proof is that the same rows select the model and the number
        of iterations, a choice of one among some ten.

        **Otherwise**, with the direct and the exact solver and with folds of up to
        5,000 rows of a given kernel, f is the model of `predict`, and a score is that
        of the model without its row or fold, but with the other rows (jackknife). The
        coverage is close to the nominal one if a single row changes the model little
        (Barber et al., 2021, section 5, on stability). With weights it is the coverage
        of a row drawn by weight.

        A quantile between two scores is the outer one where there is a proof, and
        interpolated where there is none (Hyndman and Fan, 1996, type 6).

        No interval has this coverage conditionally on x: that is impossible without
        assumptions on the distribution.

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
            Lower and upper ends. If a hundredth of the targets are at their least or
            greatest value (counts, ratings, censored targets), no end exceeds it, which
            costs at most 1 / (n + 1) of coverage at each end.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the model was fitted without ``uncertainty=True`` or "intervals", if the
            coverage is outside (0, 1), or if there are too few calibration rows: a
            coverage c needs (1 + c) / (1 - c), 19 for 0.9.

        References
        ----------
        Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005. Lei,
        G'Sell, Rinaldo, Tibshirani and Wasserman, "Distribution-Free Predictive
        Inference for Regression", JASA 2018, section 5.2. Barber, Candes, Ramdas and
        Tibshirani, "Predictive Inference with the Jackknife+", Annals of Statistics
        2021. Hyndman and Fan, "Sample Quantiles in Statistical Packages", The American
        Statistician 1996.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import KernelMachineRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-2, 2, (2000, 1))
        >>> y = np.sin(3 * X[:, 0]) + (0.1 + 0.4 * (X[:, 0] > 0)) * rng.standard_normal(
        ...     2000
        ... )
        >>> model = KernelMachineRegressor(
        ...     "gaussian", uncertainty="intervals", random_state=0
        ... ).fit(X[:1000], y[:1000])
        >>> low, high = model.predict_interval(X[1000:], coverage=0.9).T
        >>> bool(0.86 < np.mean((low <= y[1000:]) & (y[1000:] <= high)) < 0.94)
        True
        >>> left, right = model.predict_interval([[-1.0], [1.0]])
        >>> bool(np.ptp(right) > 3 * np.ptp(left))
        True
        """
        require_coverage(coverage)
        return self._quantiles(
            X, np.array([(1 - coverage) / 2, (1 + coverage) / 2]), n_jobs
        )

    @rowwise()
    def predict_quantile(
        self, X: Any, q: float | Sequence[float], n_jobs: int | None = None
    ) -> Floats:
        """Predict quantiles of the target of new rows.

        They are f(x) + sigma(x) times quantiles of the scores of `predict_interval`,
        with the same coverage: where that has a proof, the target is at most the
        quantile q with a probability of at least q if q >= 1/2, and less than it with a
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
            If the model was fitted without ``uncertainty=True`` or "intervals", if q is
            outside (0, 1), or if there are too few calibration rows for it: (1 - q) / q
            are needed, or q / (1 - q).

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import KernelMachineRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((600, 2))
        >>> y = X[:, 0] + 0.1 * rng.exponential(size=600)
        >>> model = KernelMachineRegressor(
        ...     "gaussian", uncertainty="intervals", random_state=0
        ... ).fit(X[:500], y[:500])
        >>> quantiles = model.predict_quantile(X[500:], [0.1, 0.5, 0.9])
        >>> quantiles.shape, bool((np.diff(quantiles) >= 0).all())
        ((100, 3), True)
        """
        asked = np.asarray(q, dtype=np.float64)
        if asked.ndim > 1 or not asked.size or not ((asked > 0) & (asked < 1)).all():
            raise ValueError(
                f"q must be one or several probabilities between 0 and 1, got {q!r}."
            )
        quantiles = self._quantiles(X, np.atleast_1d(asked), n_jobs)
        return quantiles if asked.ndim else quantiles[..., 0]

    @single_threaded_blas()
    def _quantiles(self, X: Any, q: Floats, n_jobs: int | None) -> Floats:
        """Quantiles of shape (n, Q) or (n, K, Q)."""
        check_is_fitted(self)
        spread = self.spread_
        if spread is None:
            raise ValueError(
                "The exact solver has no leave-one-out errors where it iterates, "
                "beyond 20,000 rows: use solver='auto'."
                if self.solver_ == "exact" and self._request.wants("intervals")
                else "Intervals and quantiles need a fit with uncertainty=True or "
                "'intervals'."
            )
        # A proof, which whole ranks keep, has only a model without the scored rows
        factors = spread.scores.quantiles(q, guaranteed=spread.centre is not None)
        centre = self._scores(X, n_jobs, spread.centre)
        if self.bounds_ is not None:
            centre = self.bounds_.within(centre, self._known_targets())
        scale = np.ones(centre.shape)
        if spread.size is not None:
            roots = self._scores(X, n_jobs, spread.size.roots, spread.size.features)
            scale = spread.size.of_roots(roots)
        reach = scale[:, :, np.newaxis] * factors.T
        unseen = np.asarray(self._unseen_variances(X))
        if unseen.any():
            # By as much as quantiles of a normal distribution between the levels
            between = np.sqrt(unseen)[:, :, np.newaxis] * ndtri(q)
            reach = np.sign(between + reach) * np.hypot(reach, between)
        mean, unit = self.target_mean_, self.target_scale_
        ends = (centre[:, :, np.newaxis] + reach) * unit[:, None] + mean[:, None]
        low, high = spread.limits_in_units(mean, unit)
        ends = np.clip(ends, low[:, None], high[:, None])
        return ends[:, 0] if self._one_target else ends

    def _unseen_variances(self, X: Any) -> NDArray | float:
        """Variances, of standardised targets, that levels of text which the fit did
        not see add: (n, K), or 0.
        """
        variances = getattr(self, "level_variances_", {})
        X = self._rows(X, reset=False, cautions=False) if variances else X
        return self.encoder_.unseen_variances(X, variances)
