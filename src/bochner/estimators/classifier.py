"""Classification by kernel ridge regression on the classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from bochner.arrays import Floats
from bochner.data.columns import distinct
from bochner.data.weights import checked_weight
from bochner.design.design import Design
from bochner.devices.conversion import any_arrays
from bochner.engines.blas import single_threaded_blas
from bochner.estimators.class_losses import (
    ClassFit,
    as_squared,
    fit_classes,
    fit_classes_again,
    largest_score,
)
from bochner.estimators.class_losses_in_passes import (
    fit_classes_in_passes,
    go_on_in_passes,
)
from bochner.estimators.class_probabilities import (
    curve_of,
    link_of,
    per_class,
    probabilities,
    set_thresholds_of,
)
from bochner.estimators.machine import KernelMachine, Prepared, Targets, solved
from bochner.estimators.parameters import CLASS_LOSSES
from bochner.estimators.ridge.ridge_problem import (
    RidgeProblem,
    RidgeSolution,
    stored_problem,
)
from bochner.features.base import FeatureMap
from bochner.features.leaves import seeded
from bochner.inputs.checks import caution_numbers, caution_unlabelled, checked_labels
from bochner.inputs.scoring import score_of_rows
from bochner.inputs.targets import Signs
from bochner.inputs.training import Target, TrainingRows
from bochner.kernels import Kernel
from bochner.selection.choose import Choice
from bochner.selection.policy import POLICY
from bochner.solvers.conformal import mass_before, threshold
from bochner.sources.rowwise import class_columns, rowwise

FEW_ROWS = 20


class KernelMachineClassifier(ClassifierMixin, KernelMachine):
    """Kernel classification in linear time, by random features.

    As in Rahimi and Recht (2007), the fit is least squares on targets of -1 and 1;
    other losses are tried besides. K classes are K right-hand sides of one
    factorisation, or of one run of conjugate gradients. Probabilities are calibrated by
    a monotone link, or by an isotonic curve if there are enough rows. Either is fitted
    to the exact leave-one-out scores of up to 4,096 training rows or, with conjugate
    gradients, to the scores of validation rows. Up to 250 distinct rows the model is by
    default the exact kernel machine with one lengthscale. This lengthscale, the ridge
    penalty, the kernel (Gaussian or Laplacian) and the scaling of the columns are then
    selected by leave-one-out log loss, and the model keeps the training rows.

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
    loss : {"auto", "squared", "logistic", "squared_hinge"}, default="auto"
        What the fit minimises, plus the ridge penalty. "squared" has a closed-form
        solution. "logistic" is the log loss of softmax(f), with alpha = 1 / C of
        scikit-learn; it ranks rare classes better. "squared_hinge" is max(0, 1 - y f)^2
        of each class against the others. These two use sweeps over the grids of
        bins, L-BFGS for the logistic loss of several classes on at most 128 features,
        or else Newton's method; with alpha="auto" bins of the single columns are
        part of their features. "auto" is
        "squared" if `alpha` is given, up to 1,000 rows, or beyond 200 million
        rows times classes times grids. Otherwise bins alone and linear models have the
        logistic loss if its log loss on validation rows is clearly lower.
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
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply the weights of their rows; as in
        scikit-learn. Rows that are read in passes are read once more for them.
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
    classes_ : array of shape (K,)
    class_count_ : array of shape (K,)
        Weight of the rows of each class. A class without any, because its rows weigh
        nothing or none has come yet, has the probability 0 and is not predicted.
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
        Criterion of each: mean squared error, summed over the classes.
    loss_ : {"squared", "logistic", "squared_hinge"}
    loss_reason_ : str
        Why this loss was used, in words.
    n_steps_ : int or None
        Number of sweeps over the grids of bins, of Newton steps, or of six iterations
        of L-BFGS each; None if the loss needs none.
    feature_weights_ : array of shape (D, K), (D, 1) for two classes
    intercept_ : array of shape (K,) or (1,)
    link_ : array of shape (2,)
        a and b of p = softmax(a f + b f^3), with f the scores of the classes; for two
        classes f is -s / 2 and s / 2, with s the score.
    curve_ : array of shape (2, m) or None
        An isotonic curve for all classes in place of the link: scores, ascending, and
        values that p is proportional to. It is used if there are at least 1,000
        validation rows and its cross-validated log loss is clearly lower.
    set_thresholds_ : array of shape (2, m) or None
        Thresholds of `predict_set`, ascending, and the coverage that each guarantees;
        None without validation rows.
    background_ : array of shape (B, D'), or None
        Encoded training rows, 100 at most and 200 kB, drawn by their weights: what
        `explain` compares rows with.
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    ValueError, TypeError
        At fit: parameters out of range; infinite values; missing values in sparse
        matrices; negative weights; a target that is missing, continuous, or different
        in every row; "binning" with a kernel that is not a mixture of hats, such as
        Gaussian; solver="direct", or alpha "loo" or "gcv", with bins.
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
        map, if most rows are alone in their bins, which then carry no information about
        new rows, or if there is a label -1 besides 0, 1, ..., which may mark rows
        without a label. For later rows, if most values of a column of categories are
        levels that the fit did not see, or if a column has missing values that had none
        in the fit.

    References
    ----------
    Rahimi and Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007.
    Rudi, Carratino and Rosasco, "FALKON: An Optimal Large Scale Kernel Method", NIPS
    2017 (preconditioned conjugate gradients).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bochner import KernelMachineClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = KernelMachineClassifier(random_state=0).fit(X[:400], y[:400])
    >>> bool(model.score(X[400:], y[400:]) > 0.95)
    True

    A chessboard, with random binning features:

    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(1200, 2))
    >>> y = np.floor(4 * X).sum(axis=1) % 2 == 0
    >>> model = KernelMachineClassifier(features="binning", random_state=0).fit(
    ...     X[:900], y[:900]
    ... )
    >>> (
    ...     bool(model.score(X[900:], y[900:]) > 0.85),
    ...     model.solver_,
    ...     model.features_.n_features_out > 800,
    ... )
    (True, 'cg', True)
    """

    # what goes with a call is no metadata of the rows
    __metadata_request__predict: ClassVar = {"n_jobs": UNUSED, "out": UNUSED}
    __metadata_request__predict_proba: ClassVar = {"n_jobs": UNUSED, "out": UNUSED}
    __metadata_request__decision_function: ClassVar = {"n_jobs": UNUSED}
    score = score_of_rows

    losses: ClassVar = ("auto", "squared", *CLASS_LOSSES)
    loss_: str = solved()
    loss_reason_: str = solved()
    link_: NDArray = solved()
    curve_: NDArray | None = solved()
    set_thresholds_: NDArray | None = solved()
    n_steps_: int | None = solved()

    def __init__(
        self,
        kernel: Kernel | str = "auto",
        features: FeatureMap | str = "auto",
        n_components: int | str = "auto",
        metric: str = "auto",
        alpha: Any = "auto",
        loss: str = "auto",
        solver: str = "auto",
        tol: float = 1e-2,
        class_weight: dict | str | None = None,
        time_limit: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
        numeric_features: Any = None,
        text_features: Any = None,
        day_first: bool | None = None,
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
        self.class_weight = class_weight

    @any_arrays
    def prepare(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        classes: Any = None,
    ) -> Self:
        """Select everything but the coefficients on a sample of the rows, before
        `partial_fit` adds all rows.

        The encoder, the classes, the kernel or learned metric and the draws of the map
        are then fixed. The features are Fourier features, or hashed bins. At most 4,096
        rows of the sample are kept to select alpha and to calibrate probabilities; they
        are not part of the sums.

        Parameters
        ----------
        X, y, sample_weight, groups
            As in `fit`; from a source that is larger than memory a sample is drawn.
        classes : array of shape (K,), optional
            All labels that may occur; by default those of y.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the parameters need all rows at once: another loss than the squared one,
            class_weight="balanced", solver="exact", alpha="loo", or a map whose columns
            are sparse and too many.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import KernelMachineClassifier
        >>> X = np.random.default_rng(0).uniform(size=(3000, 2))
        >>> y = np.where(np.square(X).sum(axis=1) > 0.6, "out", "in")
        >>> model = KernelMachineClassifier(random_state=0).prepare(X[:1000], y[:1000])
        >>> for first in range(0, 3000, 500):
        ...     model = model.partial_fit(
        ...         X[first : first + 500], y[first : first + 500]
        ...     )
        >>> bool(model.score(X, y) > 0.97)
        True
        """
        self._prepare_parts(X, y, sample_weight, groups, classes)
        self.class_count_ = np.zeros(
            len(self.classes_)
        )  # the rows that prepare the sums are not part of them
        return self

    @available_if(KernelMachine._can_sum)
    @any_arrays
    @single_threaded_blas()
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        classes: Any = None,
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
        y : array of shape (n,) or str
        classes : array of shape (K,), optional
            All labels that may occur; needed only on the first call, if `prepare` was
            not called.
        sample_weight : array of shape (n,) or str, optional
        half_life : float, optional
            Number of rows after which a row counts half: before n rows are added, the
            sums of all earlier ones are scaled by 2^(-n / half_life), and the rows of a
            batch decay alike, by their distance from the last one. So batches of any
            size give the same sums, and the same `class_count_`. Time is counted in
            rows, whatever their weights are, and `alpha` does not decay. All that is
            chosen before, by the first rows or by `prepare`, is chosen without decay.
            None, the default, forgets nothing.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As in `prepare`; if `half_life` is no positive number; if columns differ, or
            labels are not among the classes; after `fit` or `finalize`, which keep no
            sums. The model then stays as it was.
        """
        if self._sums is None:
            classes = getattr(self, "classes_", None) if classes is None else classes
            if classes is None:
                raise ValueError(
                    "classes must be passed on the first call to partial_fit: name "
                    "all labels."
                )
        elif classes is not None and not np.array_equal(
            np.unique(classes), self.classes_
        ):
            raise ValueError(
                f"classes are not those of the first call, {self.classes_.tolist()}."
            )
        is_open = self._sums is None or self._first is not None
        self._add_part(
            X,
            y,
            sample_weight,
            half_life,
            classes=self.classes_ if classes is None else classes,
        )
        if is_open:
            self._caution_missing(self.classes_[self.class_count_ == 0])
        return self

    def __add__(self, other: Any) -> Self:
        merged = super().__add__(other)
        if merged is not NotImplemented:
            merged.class_count_ = self.class_count_ + other.class_count_
        return merged

    def _checked_target(self, X: Any, y: Any, sample_weight: Any) -> Target:
        return Target(checked_labels(self, X, y), checked_weight(sample_weight, X))

    def _with_class_weights(self, rows: TrainingRows) -> TrainingRows:
        if self.class_weight is None:
            return rows
        labels, totals = rows.label_weights()
        if isinstance(self.class_weight, str):
            # All classes of some weight get their mean one
            counted = totals > 0
            mean = totals.sum() / np.count_nonzero(counted)
            factors = np.divide(mean, totals, out=np.zeros(len(totals)), where=counted)
        else:
            # Classes of the fit may be absent from a batch, or from rows of a refit
            absent = {*getattr(self, "classes_", ())} - {*labels.tolist()}
            class_weight = {
                label: weight
                for label, weight in self.class_weight.items()
                if label not in absent
            }
            factors = compute_class_weight(class_weight, classes=labels, y=labels)
            if not (factors >= 0).all():
                weights = ", ".join(
                    f"{weight!r:.20}" for weight in class_weight.values()
                )
                raise ValueError(
                    f"class_weight must not be negative or missing, got {weights}."
                )
        return rows.with_class_weights(factors, self.verbose)

    def _learn_target(self, rows: TrainingRows, classes: Any = None) -> Targets:
        labels, weights = rows.label_weights()
        if not rows.are_all:
            # Twice, as a single row of each class would be warned of
            check_classification_targets(np.repeat(labels, 2))
        self.classes_ = labels if classes is None else np.unique(classes)
        caution_unlabelled(self.classes_)
        caution_numbers(self.classes_)
        n_rows = rows.n_rows or 0
        if len(self.classes_) == n_rows > FEW_ROWS:
            raise ValueError(
                f"The target has a different label in each of the {n_rows} rows: it "
                "looks like an identifier."
            )
        self._refuse_other_labels(labels, in_parts=True)
        self.class_count_ = np.zeros(len(self.classes_))
        self.class_count_[np.searchsorted(self.classes_, labels)] = weights
        return self._known_targets()

    def _count_targets(self, target: Target, remaining_share: float) -> None:
        numbers = np.searchsorted(self.classes_, target.y)
        counts = np.bincount(numbers, target.weight, len(self.classes_))
        self.class_count_ = remaining_share * self.class_count_ + counts

    def _known_targets(self) -> Signs:
        return Signs(self.classes_)

    def _refuse_other_targets(self, target: Target, in_parts: bool = False) -> None:
        self._refuse_other_labels(distinct(target.y), in_parts)

    def _refuse_unlike(self, target: Target, other: Target) -> None:
        new = np.setdiff1d(distinct(other.y), distinct(target.y))[:5].tolist()
        if new:
            raise ValueError(
                f"validation holds labels that y does not: {new}; leave such rows out."
            )

    def _refuse_other_labels(self, labels: NDArray, in_parts: bool) -> None:
        """Raise ValueError where labels are none of the classes."""
        new = np.setdiff1d(labels, self.classes_)[:5].tolist()
        if new and in_parts:
            raise ValueError(
                f"y holds {new}, which are not among the classes "
                f"{self.classes_[:20].tolist()}: name all classes in "
                "the first call, with classes=."
            )
        if new:
            raise ValueError(
                f"The model was fitted to other classes than {new}: fit it again."
            )

    def _by_loss(
        self,
        design: Design,
        solution: RidgeSolution,
        problem: RidgeProblem,
        target: Target,
        passes: Design | None,
    ) -> ClassFit:
        alphas = self._request.alphas
        loss = self.loss
        if loss == "auto":
            # Losses are compared where there is time and reason: a given alpha has
            # another meaning by each
            in_time = solution.seconds <= problem.budget.seconds_left
            is_open = alphas is None and self.solver_ != "exact"
            few = design.source.n_counted <= POLICY.simple_rows
            compares = is_open and (solution.is_linear or not few)
            loss = "auto" if compares and in_time else "squared"
        groups = self.encoder_.column_groups()
        problem = replace(problem, budget=problem.budget.stage("loss"))
        if passes is None or loss == "squared":
            return fit_classes(design, solution, problem, loss, alphas, groups)
        return fit_classes_in_passes(
            passes, design, solution, problem, loss, alphas, groups
        )

    def _store(
        self,
        solution: RidgeSolution,
        choice: Choice | None,
        loss_fit: ClassFit | None = None,
        rows: Prepared | None = None,
        design: Design | None = None,
    ) -> None:
        super()._store(solution, choice)
        if loss_fit is None:
            loss_fit = as_squared(solution)._replace(
                reason="other losses need all rows at once"
            )
        self.loss_ = loss_fit.loss
        self.loss_reason_ = loss_fit.reason
        seen = loss_fit.held_out_predictions
        self.link_ = link_of(seen, loss_fit.loss)
        largest = largest_score(loss_fit.loss)
        share = self._request.budget().work_share
        self.curve_ = curve_of(seen, self.link_, len(self.classes_), largest, share)
        # By choices without the rows
        few = None if choice is None else choice.predictions
        self.set_thresholds_ = set_thresholds_of(
            few or seen, self.link_, self.curve_, largest
        )
        self._keep_features(loss_fit.features)
        self.intercept_ = loss_fit.intercept
        self.alpha_ = loss_fit.alpha
        self.n_steps_ = loss_fit.n_steps
        self._start = loss_fit.start
        self.feature_weights_ = loss_fit.coef

    def _solve_other_rows(self, rows: TrainingRows) -> None:
        self._count_targets(rows.target, 0.0)
        source = self._other_rows(rows, self._known_targets())
        seed = self._seed()
        features = self.features_
        start = self._start
        inner = features.but_last() if start.has_single_columns else features
        design, problem, solution = self._solve_again(
            source, seed, inner, start.alpha, stores_alone=self.loss_ != "squared"
        )
        coef, intercept = solution.coef, solution.intercept
        if self.loss_ != "squared":
            ridge = stored_problem(design, solution, problem).ridge
            if start.has_single_columns:
                part = seeded(features.parts[-1], seed).draw(features.n_features_in_)
                ridge = ridge.beside(part, float(features.scales[-1] ** 2))
            class_fit = fit_classes_again(
                ridge, self.loss_, self.alpha_, self.n_steps_ or 0, start
            )
            self._keep_features(ridge.design.features)
            coef, intercept = class_fit.coef, class_fit.intercept
        self.feature_weights_ = coef
        self.intercept_ = intercept

    def _go_on(self, design: Design, problem: RidgeProblem) -> None:
        if self.loss_ == "squared":
            super()._go_on(design, problem)
            return
        alpha = self.alpha_
        most = POLICY.most_iterations
        if self._request.alphas is None:
            alpha = self._start.penalty_in_passes(alpha, self.features_)
            most = 2 * POLICY.most_passes
        self.feature_weights_, self.intercept_ = go_on_in_passes(
            design,
            design.source.gathered,
            self.loss_,
            alpha,
            (self.feature_weights_.T, self.intercept_),
            problem,
            most,
        )

    @rowwise()
    def decision_function(self, X: Any, n_jobs: int | None = None) -> Floats:
        """Scores of the classes.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        n_jobs : int or None, default=None
            Maximum number of threads. None and -1 use all that the process may use. The
            result does not depend on it.

        Returns
        -------
        array of shape (n,) or (n, K)
            For two classes the score of ``classes_[1]``, positive if that class is
            predicted.
        """
        scores = self._scores(X, n_jobs)
        return scores[:, 0] if len(self.classes_) <= 2 else scores

    @rowwise("predicted")
    def predict(self, X: Any, n_jobs: int | None = None, *, out: Any = None) -> Any:
        """Predict labels.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or a source
        n_jobs : int or None, default=None
            Maximum number of threads. None and -1 use all that the process may use. The
            result does not depend on it.
        out : path-like, optional
            A Parquet or CSV file (by its suffix), to which predictions are written
            block by block.

        Returns
        -------
        array of shape (n,), or Path
            In the library and on the device of X, unless labels are strings. For a Dask
            array, a Dask array; for a Dask data frame, a series with its index; neither
            is computed yet. With `out`, the path of the file.
        """
        scores = self._per_class(self._scores(X, n_jobs))
        return self.classes_[
            np.where(self.class_count_ > 0, scores, -np.inf).argmax(axis=1)
        ]

    @rowwise(class_columns)
    def predict_proba(
        self, X: Any, n_jobs: int | None = None, *, out: Any = None
    ) -> Any:
        """Predict class probabilities, calibrated on leave-one-out or validation
        scores.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or a source
        n_jobs : int or None, default=None
            Maximum number of threads. None and -1 use all that the process may use. The
            result does not depend on it.
        out : path-like, optional
            A Parquet or CSV file (by its suffix), to which predictions are written
            block by block.

        Returns
        -------
        array of shape (n, K), or Path
            In the order of `classes_`, in the library and on the device of X. For a
            Dask array, a Dask array; for a Dask data frame, one with its index and a
            column for each class; neither is computed yet. With `out`, the path of the
            file.
        """
        return self._probabilities(self._scores(X, n_jobs))

    def _per_class(self, scores: NDArray) -> NDArray:
        """One score for each class, also of two."""
        return per_class(scores) if len(self.classes_) == 2 else scores

    def _probabilities(self, scores: NDArray) -> Floats:
        """Probabilities of the classes, shape (n, C), of scores of shape (n, K)."""
        shares = probabilities(
            self._per_class(scores), self.link_, self.curve_, largest_score(self.loss_)
        )
        counted = self.class_count_ > 0
        if not counted.all():
            tiny = np.finfo(np.float64).tiny
            shares = np.where(counted, np.maximum(shares, tiny), 0.0)
            shares /= shares.sum(axis=1, keepdims=True)
        return shares

    @rowwise()
    def predict_set(
        self, X: Any, coverage: float = 0.9, n_jobs: int | None = None
    ) -> NDArray[np.bool_]:
        """Predict sets of classes that contain the true class with a given probability.

        A set has the most probable class, and the next ones until their total
        probability exceeds a threshold: one class for rows that are certain, more for
        rows in doubt. The threshold comes from the rows that calibrate the
        probabilities: validation rows, cross-validation, or leave-one-out. Of up to 250
        distinct rows it comes from leave-one-out scores by choices of the kernel and
        penalty without a tenth of the rows.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        coverage : float, default=0.9
            Between 0 and 1, exclusive.
        n_jobs : int or None, default=None
            Maximum number of threads. None and -1 use all that the process may use. The
            result does not depend on it.

        Returns
        -------
        bool array of shape (n, K)
            In the order of `classes_`; at least one in each row.

        Raises
        ------
        ValueError
            If `coverage` is out of range, or needs more calibration rows: 9 are needed
            for 0.9, 99 for 0.99.

        Notes
        -----
        For new rows from the same distribution, sets of the model *without the
        calibration rows* contain the true class with a probability of at least
        `coverage`, over draws of all rows (split conformal prediction; Vovk, Gammerman
        and Shafer 2005), as far as these rows did not select the model. The fitted
        model has seen them too. This keeps the coverage as far as a few rows do not
        change its scores (Barber, Candes, Ramdas and Tibshirani, "Predictive inference
        with the jackknife+", 2021, Theorem 5). The coverage holds on average over all
        rows, not within each class; with `class_weight`, over rows that count by it. If
        the most probable class is right more often than `coverage`, sets contain it
        alone, and cover as often. The scores are the adaptive ones of Romano, Sesia and
        Candes, "Classification with Valid and Adaptive Coverage", 2020, without their
        random part (see `bochner.solvers.conformal`).

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from sklearn.utils import shuffle
        >>> from bochner import KernelMachineClassifier
        >>> X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
        >>> model = KernelMachineClassifier(metric="isotropic", random_state=0).fit(
        ...     X[:300], y[:300]
        ... )
        >>> sets = model.predict_set(X[300:], coverage=0.98)
        >>> (
        ...     bool(sets[range(len(sets)), y[300:]].mean() > 0.97),
        ...     bool(1 < sets.sum(axis=1).mean() < 1.2),
        ... )
        (True, True)
        """
        probability = self.predict_proba(X, n_jobs)
        thresholds = getattr(self, "set_thresholds_", None)
        if thresholds is None:
            raise ValueError(
                "This model has no validation rows to calibrate sets of classes: fit "
                "it again, on more distinct rows unless an earlier version saved it."
            )
        return mass_before(probability) <= threshold(thresholds, coverage)
