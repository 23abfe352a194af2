"""The machine behind the regressor and the classifier: one fit for rows in memory,
in passes and in parts.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from bochner.arrays import Floats
from bochner.data.alike_rows import (
    column_of_groups,
    column_of_time,
    repeated_observations,
)
from bochner.data.array_source import ArraySource, rows_of
from bochner.data.hashes import (
    are_levels,
    may_come_again,
    near_copies,
    row_hashes,
)
from bochner.data.row_splits import ROWS_ALONE, SPLITS_OF_CV
from bochner.data.table import TableEncoder, TargetRows
from bochner.data.table_input import finite_predictions
from bochner.data.table_statistic import has_common_unit
from bochner.design.design import Design
from bochner.design.reductions import factor_bytes, require_factor_memory
from bochner.devices.conversion import any_arrays
from bochner.engines.blas import single_threaded_blas
from bochner.engines.local import at_most
from bochner.engines.progress import log, progress
from bochner.estimators import explained_scores, interpretation
from bochner.estimators.cross_fitting import cross_fitted
from bochner.estimators.incremental import (
    FirstRows,
    FixedByFirstRows,
    PartialFitState,
    SolvedAttribute,
    check_half_life,
    decay_of,
    decayed,
    left_after,
    solved,
)
from bochner.estimators.measured_importance import n_evaluated
from bochner.estimators.parameters import (
    CLASS_LOSSES,
    NUMBER_LOSSES,
    check_parameters,
)
from bochner.estimators.ridge.conjugate_gradients import go_on, solve_from_sample
from bochner.estimators.ridge.direct import solve_directly
from bochner.estimators.ridge.ridge_problem import (
    Iterations,
    Needs,
    RidgeProblem,
    RidgeSolution,
)
from bochner.estimators.ridge.solve import SOLVERS
from bochner.features import BinningFeatures, FourierFeatures
from bochner.features.base import FeatureMap
from bochner.features.binning import hashed
from bochner.features.device_features import current_device, device_for_fit
from bochner.features.leaves import (
    fixed,
    is_dense,
    kernel_between,
    mark_encoded,
    refuse_encoded,
    resized,
    seeded,
)
from bochner.features.nystroem import KernelRows, NystroemFeatures, estimated_map
from bochner.inputs.checks import require_one_of, require_target, threads_of
from bochner.inputs.opened import exceeds_limit, given_batch, open_data
from bochner.inputs.splits import row_splits, with_validation
from bochner.inputs.targets import Signs
from bochner.inputs.training import (
    Target,
    TrainingRows,
    column_units,
    draw,
    open_training,
    rows_to_map,
)
from bochner.kernels import Kernel
from bochner.notices import warn
from bochner.planning.plan import Plan, plan_fit, refuse_limit
from bochner.planning.request import BY_SPLITS, FitRequest, given_alphas
from bochner.planning.solver_choice import (
    NAMES,
    ProblemSize,
    choose_solver,
    choose_streamed_solver,
    penalty_ratio,
)
from bochner.planning.table_shape import TableShape, table_shape
from bochner.selection.budget import Budget
from bochner.selection.choose import Choice, Model, choose
from bochner.selection.few_rows import choose_for_few
from bochner.selection.kernel_candidates import losses_of_one_lengthscale
from bochner.selection.lengthscale import choose_kernel
from bochner.selection.likelihood import LENGTHSCALE_EACH, or_lengthscale_each
from bochner.selection.policy import POLICY
from bochner.selection.problem import Problem, SearchSpace, prepare
from bochner.selection.report import of_no_candidates
from bochner.selection.validation import are_mixed, mixture
from bochner.settings import current
from bochner.sources.rowwise import require_fitted

Targets = Callable[[NDArray], NDArray]
# Of bins that are not given, whose Gram matrix is factorised in seconds
FEWEST_HASHED, HASHED_COLUMNS = 2_048, 6_400
HASHED_A_ROW = 8  # columns for each row that they are chosen by
# That tell the means of features, and precondition their equations, of a fit where all
# is chosen
FIRST_ROWS = 20_000
OF_FIT = " of the fit before"  # what is said of an importance that a refit keeps


class Prepared(NamedTuple):
    """Rows to fit, or a sample of them, encoded.

    Attributes
    ----------
    source : ArraySource
    dtype : dtype
        Of their features.
    seed : int
    budget : Budget
    n_rows : int
        Of all rows, as their weight.
    weight : float
    way : {"whole", "streamed", "summed"}
        Whether the source has all rows; if not, whether the others are read in passes,
        or summed once as they come.
    """

    source: ArraySource
    dtype: np.dtype
    seed: int
    budget: Budget
    n_rows: int
    weight: float
    way: str = "whole"


class KernelMachine(FixedByFirstRows, interpretation.Interpretable):
    """Ridge regression on random features; everything that is not given is selected
    from the data.

    Subclasses say what targets are and which losses there are, by the methods that are
    abstract here.
    """

    # what goes with a call is no metadata of the rows
    __metadata_request__fit: ClassVar = {"validation": UNUSED}
    __metadata_request__partial_fit: ClassVar = {"half_life": UNUSED}

    losses: ClassVar[tuple[str, ...]]
    features: FeatureMap | str
    n_components: int | str
    metric: str
    alpha: Any
    loss: str
    solver: str
    tol: float
    time_limit: float | None
    verbose: int
    numeric_features: Any
    text_features: Any
    day_first: bool | None
    cv: Any
    encoder_: TableEncoder
    features_: FeatureMap
    feature_weights_: NDArray = solved()
    intercept_: NDArray = solved()
    alpha_: float = solved()
    alphas_: NDArray = solved()
    alpha_scores_: NDArray | None = solved()
    n_iter_: int | None = solved()
    residual_: float | None = solved()
    uncertainty: bool | str = False
    class_weight: Any = None
    _sums: PartialFitState | None = None
    _learns_from_few: bool = False
    _validated_on: str = ""

    # What subclasses say of targets and losses

    @abstractmethod
    def prepare(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fix everything but the coefficients."""

    @abstractmethod
    def _checked_target(self, X: Any, y: Any, sample_weight: Any) -> Target:
        """Targets of checked rows X; TypeError or ValueError, which says what to do,
        where they are none.
        """

    @abstractmethod
    def _learn_target(self, rows: TrainingRows, classes: Any = None) -> Targets:
        """Store the scale of the targets, or the classes; return how the solver's
        targets are made of them.
        """

    @abstractmethod
    def _known_targets(self) -> Targets:
        """How the solver's targets are made, as stored."""

    @abstractmethod
    def _refuse_other_targets(self, target: Target, in_parts: bool = False) -> None:
        """Raise ValueError where targets are of another kind than those of the fit."""

    @abstractmethod
    def _refuse_unlike(self, target: Target, other: Target) -> None:
        """Raise ValueError where targets of rows that only validate are of another kind
        than those to fit.
        """

    @abstractmethod
    def _by_loss(
        self,
        design: Design,
        solution: RidgeSolution,
        problem: RidgeProblem,
        target: Target,
        passes: Design | None,
    ) -> Any:
        """The solution by the loss that is wanted, from that by the squared loss;
        None where these are the same.

        The design is of rows in memory. Where all rows are read in passes, these are
        some of them, and `passes` is the design of all. The budget of the problem is
        that of the fit.
        """

    @abstractmethod
    def _solve_other_rows(self, rows: TrainingRows) -> None:
        """Solve for rows of `_told_apart` with all that was chosen."""

    def _count_targets(self, target: Target, remaining_share: float) -> None:
        """Take note of the targets of a batch that joins the sums, of which a share
        is left.
        """

    def _with_class_weights(self, rows: TrainingRows) -> TrainingRows:
        """Rows with the weights that parameters give them."""
        return rows

    # Fits

    def _open(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        groups: Any,
        *,
        is_new: bool,
        **options: Any,
    ) -> TrainingRows:
        """The rows, checked, those of a new fit or others, with the splits by which
        they validate; options of `open_training`.
        """
        if self.cv is not None or groups is not None:
            self._request.refuse_rows_alone()
        if is_new:
            self._group_column = groups if isinstance(groups, str) else None
        check = partial(self._checked, is_new=is_new)
        options |= {"seed": self._seed(), "is_new": is_new, "groups": groups}
        rows = open_training(self, X, y, sample_weight, check, **options)
        if rows.y is None:
            require_target(self, None)
        if self.cv is None and rows.groups is None:
            return rows
        splits = row_splits(self.cv, rows.target.y, rows.groups, is_classifier(self))
        return replace(rows, splits=splits)

    def _checked(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        is_new: bool = False,
        cautions: bool = True,
    ) -> TrainingRows:
        """Rows in memory, checked."""
        X = self._rows(X, reset=is_new, cautions=cautions)
        return TrainingRows(X, self._checked_target(X, y, sample_weight))

    @any_arrays
    @single_threaded_blas()
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        validation: Any = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or a source
            The rows of paths, folders and sources need not fit in memory; if there are
            many, the model is selected on a sample. Arrays of any library work too;
            Fourier features of PyTorch's tensors are computed on their device.
        y : array of shape (n,) or (n, K), or str or list of str
            Numbers for regression; several targets are each scaled to unit variance for
            the selection of alpha and kernel. Labels of shape (n,) for classification:
            numbers, strings or booleans. Or the columns of X that hold them.
        sample_weight : array of shape (n,) or str, optional
            Non-negative weights. A weight of w is equivalent to w equal rows. If alpha
            is selected, only ratios of weights matter. What is learned on samples of
            the rows may differ from that of equal rows within its noise.
        groups : array of shape (n,) or str, optional
            To which group each row belongs, such as a patient, shop or machine, or the
            column of X that tells it, which is then no input. A row never validates a
            fit to others of its group, so that what is chosen, calibrated and reported
            holds for rows of new groups.
        validation : tuple (X, y) or (X, y, sample_weight), optional
            Rows in memory by which choices are made, in the place of rows held out of
            X, and uncertainty is calibrated. The model is not fitted to them.

        Returns
        -------
        self
        """
        self._begin()
        request = self._request
        budget = request.budget()
        refusal = self._refusal("rows that are read in passes", validation=validation)
        rows = self._open(X, y, sample_weight, groups, is_new=True, refusal=refusal)
        if rows.are_all:
            if not refusal and exceeds_limit(rows.X):
                refuse_limit(request, table_shape(rows.X, rows.y, is_classifier(self)))
            if validation is not None:
                # The rows by which the user wants choices to be made
                if rows.splits is not None:
                    raise ValueError(
                        "validation= says already which rows validate: leave out "
                        "groups and cv."
                    )
                is_tuple = isinstance(validation, tuple | list)
                if not is_tuple or len(validation) not in (2, 3):
                    raise ValueError(
                        "validation must be a pair (X, y), or (X, y, sample_weight), "
                        f"got {type(validation).__name__}."
                    )
                request.refuse_rows_alone()
                given = *validation, *[None] * (3 - len(validation))
                X, y, sample_weight, _, stream = open_data(*given)
                if stream is not None:
                    raise ValueError(
                        "validation must fit the memory, and it is a larger source: "
                        "give some of its rows."
                    )
                others = self._checked(X, y, sample_weight, cautions=False)
                self._refuse_unlike(rows.target, others.target)
                rows = with_validation(rows, others)
        rows = self._with_class_weights(rows)
        targets = self._learn_target(rows)
        if rows.are_all:
            n_outputs = targets(rows.target.y[:1]).shape[1]
            # As many rows as a time limit allows, 2,000 at least
            n_rows, n_columns = rows.X.shape
            held = rows.X.nnz / max(n_rows, 1) if issparse(rows.X) else n_columns
            timely = budget.n_rows(held + n_outputs)
            fewest = min(POLICY.rows_for_full_learning, n_rows)
            if timely < fewest:
                least = budget.seconds * fewest / timely
                warn(
                    f"time_limit={budget.limit:g} is too short for this table: the fit "
                    f"takes {least:.1g} seconds at least."
                )
            most = max(timely, fewest)
            if n_rows > most:
                log(
                    f"The time limit leaves time for {int(most):,} of {n_rows:,} rows.",
                    bool(self.verbose),
                )
                rng = np.random.default_rng(self._seed())
                rows = rows.take(np.sort(rng.choice(n_rows, int(most), replace=False)))
            rows = _told_apart(rows)
        way = "whole" if rows.are_all else "streamed"
        prepared, source = self._encode(rows, targets, way, budget)
        self._note_rows_that_belong_together(rows, targets, budget)
        # Steps of few rows are so short that threads would wait for each other
        with at_most(1 if prepared.n_rows <= POLICY.few_rows else None):
            choice = self._choose(prepared)
            design, problem = self._draw_and_plan(prepared, choice)
            crossed = None
            if self.uncertainty and rows.are_all:
                # Predictions for all rows by machines without their fold
                crossed = cross_fitted(
                    self, rows, prepared.source, prepared.seed, budget
                )
        if crossed is not None:
            # The model is that of a fit without uncertainty
            is_split = prepared.source.splits is not None
            needs = problem.needs._replace(out_of_sample=is_split, error_scale=False)
            problem = replace(problem, needs=needs)
        # Of iterations it is not known beforehand how many there will be
        n_done = prepared.n_rows if self.solver_ == "direct" else None
        with progress("Fitting", n_done, bool(self.verbose)) as advance:
            begun = budget.elapsed
            passes = None
            if rows.stream is None:
                solution = SOLVERS[self.solver_](design.telling(advance), problem)
            else:
                passes = design.telling(advance).of(source).by(rows.stream.engine)
                # Else each thread reads for itself
                ahead = self.solver_ == "cg" or passes.has_one_sum
                passes = passes.of(replace(source, ahead=ahead))
                if self.solver_ == "direct":
                    sums = PartialFitState.empty(design, problem, choice).plus(passes)
                    solution = sums.solve(
                        design.features, design.place, problem.needs.evaluated
                    )
                else:
                    solution = solve_from_sample(passes, problem, prepared.source)
            solution = replace(solution, seconds=budget.elapsed - begun)
            problem = replace(problem, budget=budget)
            loss_fit = self._by_loss(design, solution, problem, rows.target, passes)
        if crossed is not None:
            calibration, predictions = crossed
            solution = replace(
                solution, calibration=calibration, held_out_predictions=predictions
            )
        self._store(solution, choice, loss_fit, prepared, design)
        self._measure(
            (loss_fit or solution).unseen,
            prepared.source,
            prepared.seed,
            budget,
        )
        return self

    def _note_rows_that_belong_together(
        self, rows: TrainingRows, targets: Targets, budget: Budget
    ) -> None:
        """Say where rows that validate the fit may be much like those that it is fitted
        to, or, where it is given which do, that they are too few.
        """
        is_validated = self._request.learnable() or self._request.needs_unseen
        if not is_validated:
            return
        if rows.splits is not None:
            n_rows = len(rows.splits.held_out_in)
            n_validating = np.count_nonzero(rows.splits.held_out_in >= 0)
            if n_validating < min(POLICY.fewest_evaluated, n_rows / POLICY.n_folds):
                warn(
                    f"Only {n_validating:,} of {n_rows:,} rows validate this fit, so "
                    "that chance decides what it chooses by them. Let "
                    f"{POLICY.fewest_evaluated} rows or more validate, or leave "
                    "validation= and cv= out."
                )
            return
        if budget.is_short:
            return
        if name := column_of_groups(self.encoder_, rows.X, self._seed()):
            warn(
                f"Rows that share a value of {name!r} are much alike in the other "
                "columns. If new rows come with new values of it, pass this column as "
                f"groups= (--group {name!r} in the command): else rows are validated "
                "on others like them, and scores and intervals promise too much."
            )
        if name := column_of_time(self.encoder_, rows.X, targets(rows.target.y)):
            warn(
                f"Targets of neighbours in {name!r} are much alike. If new rows are "
                f"later ones, sort the rows by {name!r} and pass cv=TimeSeriesSplit() "
                f"(--time {name!r} in the command): else rows are validated on their "
                "neighbours on both sides, and scores and intervals promise too much."
            )

    @any_arrays
    @single_threaded_blas()
    def refit(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> Self:
        """Fit the same model on other rows, without a new selection; for example on all
        rows, after scoring it.

        The encoder, the kernel or learned metric, the draws of the map, the ridge
        penalty, the calibration of probabilities and, for bins, the number of
        iterations are kept. Bins and coefficients are those of the new rows. If rows
        are read in passes, bins keep their columns, and intervals their scores.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or a source
            Rows with the same columns as in the fit.
        y : array of shape (n,) or (n, K)
            As many targets as in the fit, or labels among those of the fit.
        sample_weight : array of shape (n,), optional
        groups : array of shape (n,) or str, optional
            As in `fit`; what is calibrated again goes by them.

        Returns
        -------
        self

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If columns or targets differ from those of the fit, or there are new labels.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from bochner import KernelMachineRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = KernelMachineRegressor(random_state=0).fit(X[:350], y[:350])
        >>> score, alpha = model.score(X[350:], y[350:]), model.alpha_
        >>> bool(model.refit(X, y).alpha_ == alpha)
        True
        """
        check_is_fitted(self)
        groups = self._column_of_groups(X) if groups is None else groups
        spread = vars(self).get("spread_")
        if groups is None and spread is not None and spread.scores.unit == "groups":
            raise ValueError(
                "The intervals of this model hold for new groups: pass groups= to "
                "refit too, or fit again without groups."
            )
        loses_splits = self._validated_on == ROWS_ALONE or (
            self._validated_on == SPLITS_OF_CV and self.cv is None
        )
        if self.uncertainty and loses_splits:
            warn(
                f"This model was validated on {self._validated_on}, which refit does "
                "not have: intervals and deviations are now calibrated by rows held "
                "out by chance. Fit again where that is not what new rows are like."
            )
        # An importance is of the fit before, as other rows are fitted now
        importance = vars(self).get("importance_")
        if importance is not None and not importance.rows.endswith(OF_FIT):
            self.importance_ = replace(importance, rows=importance.rows + OF_FIT)
        refusal = ""
        is_exact = self.solver_ == "exact" and not self._is_exact_by_default
        if is_exact or self.loss_ in NUMBER_LOSSES:
            refusal = (
                "This fit needed all rows in memory, and so does refit: give rows in "
                "memory, or fit again."
            )
        rows = self._open(
            X,
            y,
            sample_weight,
            groups,
            is_new=False,
            refusal=refusal,
            first=FIRST_ROWS,
            stays=True,
        )
        rows = self._with_class_weights(rows)
        if rows.are_all:
            self._refuse_other_targets(rows.target)
            self._caution_ignored(rows.X, rows.target.weight, "fit")
            self._solve_other_rows(_told_apart(rows))
        else:
            # Rows that are read in passes, with the bins that there were
            assert rows.stream is not None
            dtype = self.feature_weights_.dtype
            self.encoder_ = self.encoder_.open_to_levels()
            encode = partial(self.encoder_.encode, dtype=dtype)
            training_set = rows.encoded(
                self.encoder_, dtype, self._known_targets(), encode
            )
            stopping = None if self.n_iter_ is None else Iterations(self.n_iter_)
            problem = RidgeProblem(
                self.alpha_, self.tol, self._seed(), stopping=stopping
            )
            n_rows = rows.stream.table.n_rows
            features = self.features_
            if self._is_exact_by_default:
                features = self._estimated_features(n_rows)
                features.draw(self.encoder_.n_features_out_)
            with progress("Fitting", n_rows, bool(self.verbose)) as advance:
                place = device_for_fit(features, self.solver_, "squared", dtype)
                design = training_set.design(
                    features, dtype, advance=advance, fixed=True, place=place
                )
                self._go_on(design, problem)
        # Sums of the rows before, to which none can be added any more
        self._sums = self._first = None
        return self

    def _go_on(self, design: Design, problem: RidgeProblem) -> None:
        """Solve for the rows of a stream with the map and the penalty of the fit,
        from its coefficients on.
        """
        if self.solver_ == "direct":
            solution = solve_directly(design, problem, design.moments())
        else:
            solution = go_on(design, problem, self.feature_weights_)
        self._store_solution(solution)
        self.feature_weights_ = solution.coef

    def _prepare_parts(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        groups: Any,
        classes: Any = None,
    ) -> Self:
        """Select everything but the coefficients on some rows, and prepare the sums."""
        self._begin()
        if refusal := self._refusal("rows that come in batches", in_parts=True):
            raise ValueError(refusal)
        if isinstance(self.class_weight, str):
            raise ValueError(
                "class_weight='balanced' needs all rows at once: give a dict of "
                "label to weight."
            )
        opened = self._open(X, y, sample_weight, groups, is_new=True, stays=True)
        opened = self._with_class_weights(opened)
        targets = self._learn_target(opened, classes)
        rows, _ = self._encode(opened, targets, "summed", self._request.budget())
        self._request.refuse_unsummed()
        choice = self._choose(rows)
        if choice is not None and not is_dense(choice.model.features):
            features = hashed(choice.model.features, hashed_columns(rows.n_rows))
            model = replace(choice.model, features=features, alpha=None, is_open=True)
            choice = Choice(model, choice.outcome)
        design, problem = self._draw_and_plan(rows, choice)
        if self.solver_ != "direct":
            raise ValueError(
                f"Partial fits need the Gram matrix: {self.solver_reason_}."
            )
        self._keep_features(design.features)
        self._sums = PartialFitState.empty(design, problem, choice)
        return self

    def _add_part(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        half_life: float | None,
        **options: Any,
    ) -> Self:
        """Add rows to the sums; the first ones, with options of `prepare`, fix all else
        while they are few.

        A batch that is refused, or interrupted, leaves the model as it was before.
        """
        if self._sums is None and "feature_weights_" in vars(self):
            raise ValueError(
                f"This {type(self).__name__} is fitted, and fit, refit and finalize "
                "keep no sums to add rows to. To fit in parts, call prepare with a "
                "sample of the rows and then partial_fit with all of them; to fit this "
                "model on other rows, call refit with all rows."
            )
        X, y, sample_weight = given_batch(
            X, y, sample_weight, self._column_of_groups(X)
        )
        check_half_life(half_life)
        before = dict(vars(self))
        try:
            is_first = self._sums is None
            is_settled = self._first is None
            rows = self._checked(
                X, y, sample_weight, is_first, not is_first and is_settled
            )
            X = rows.X
            decay = decay_of(X.shape[0], half_life)
            remaining_share = left_after(X.shape[0], half_life)
            if not is_first:
                self._refuse_other_targets(rows.target, in_parts=True)
            if not is_settled:
                # Refuses columns of another kind
                self.encoder_.encode(X, np.float64)
            if is_first or not is_settled:
                first = FirstRows.after(self._first, X, y, sample_weight, half_life)
                if first.are_due:
                    self.prepare(first.X, first.y, first.weight, **options)
                    rows = self._checked(first.X, first.y, first.weight, cautions=False)
                    X = rows.X
                    decay = first.decay
                self._first = first.settled()
            # Rows decay by their age in the batch, and what has been summed before by
            # the rows of the batch.
            rows = self._with_class_weights(rows)
            weight = decayed(rows.weight, decay, X)
            rows = replace(rows, target=rows.target._replace(weight=weight))
            if self._first is None:
                self._caution_ignored(X, weight, "prepare")
            source = rows.source(self.encoder_, np.float64, self._known_targets())
            assert self._sums is not None
            design = Design(
                source, self.features_, self._sums.dtype, place=current_device()
            )
            self._sums = self._sums.plus(design, remaining_share)
            self._count_targets(rows.target, remaining_share)
            self._forget()
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _store(
        self,
        solution: RidgeSolution,
        choice: Choice | None,
        loss_fit: Any = None,
        rows: Prepared | None = None,
        design: Design | None = None,
    ) -> None:
        """Keep what a fit has found; subclasses set the coefficients last, which make
        the model a fitted one.

        Parameters
        ----------
        solution : RidgeSolution
            By the squared loss.
        choice : Choice or None
            What was learned before.
        loss_fit : object, optional
            The solution by another loss, see `_by_loss`.
        rows : Prepared, optional
            The rows, where all are in memory.
        design : Design, optional
            The rows, mapped to features.
        """
        self._store_solution(solution)
        if choice is None:  # else validation rows have told whether bins serve
            self.features_.check_occupancy()
        self.alpha_ = solution.alpha
        self.alphas_ = solution.alphas
        self.alpha_scores_ = solution.scores
        alphas = self._request.alphas
        if choice is not None and alphas is not None:
            self.alphas_ = alphas

    def _store_solution(self, solution: RidgeSolution) -> None:
        """Keep what the rows alone decide, all but the coefficients."""
        self._keep_features(solution.features)
        self.intercept_ = solution.intercept
        self.n_iter_ = solution.n_iter
        self.residual_ = solution.residual

    def _keep_features(self, features: FeatureMap) -> None:
        """Keep the fitted map, and mark what is learned where it is in units that
        the encoder has made.
        """
        self.features_ = features
        if self.encoder_.with_std:
            learned = features, self.metric_, self.kernel_
            mark_encoded(*(part for part in learned if part is not None))

    # From rows to a solution

    def _encode(
        self, rows: TrainingRows, targets: Targets, way: str, budget: Budget
    ) -> tuple[Prepared, Any]:
        """Learn the encoding of the columns; the rows from which all else is
        learned, and all rows.
        """
        seed = self._seed()
        self.encoder_ = encoder = rows.encoder(
            self._request.is_named, self.text_features, self.day_first
        )
        encoder.require_columns(self.numeric_features)
        enough = rows.X.shape[0] >= POLICY.rows_for_full_learning
        y = targets(rows.target.y)
        targeted = TargetRows(rows.X, y, rows.weight, seed, rows.fold)
        if self._request.learnable() and rows.X.shape[0] > POLICY.few_rows:
            encoder = encoder.without_noise(targeted)
            encoder = encoder.with_codes(targeted, self.numeric_features)
        self.encoder_ = encoder
        if way != "summed":
            statistic = None if rows.summary is None else rows.summary.table
            self.encoder_ = encoder = encoder.with_seen_levels(targeted, statistic)
            # Of classes, few rows tell shares of levels worse than their codes do
            tells_means = enough or not is_classifier(self)
            if self._request.learnable() and tells_means and way == "whole":
                self.encoder_, encoder = encoder.with_level_means(targeted)
        if self.uncertainty:
            self.level_variances_ = self.encoder_.level_variances(targeted)
        many = POLICY.gathered_rows  # if nobody knows
        dtype = self._request.dtype(
            rows.n_rows or many, rows.weight if rows.stream is None else None
        )
        training_set = rows.encoded(encoder, dtype, targets, uncounted=many)
        source = training_set.source
        prepared = Prepared(
            training_set.sample,
            dtype,
            seed,
            budget,
            training_set.n_rows,
            source.total_weight,
            way,
        )
        return prepared, source

    def _choose(self, rows: Prepared) -> Choice | None:
        """The model learned from the data, or of few rows the one that their
        leave-one-out errors choose; None where there is neither.
        """
        choice = self._choose_learned(rows)
        if rows.way != "whole":
            return choice
        if choice is not None:
            few = None
            if isinstance(choice.model.features, KernelRows):
                # All rows choose its lengthscale, not those that are fitted alone
                few = self._choose_for_few(rows, POLICY.simple_rows)
            if few is None:
                return choice
            model = replace(few.model, report=choice.model.report)
            return few._replace(model=model)
        # Few rows have one lengthscale; or, of numbers, lengthscales of each column,
        # where these are clearly better for rows held out
        few = self._choose_for_few(rows, POLICY.few_rows)
        size = rows.source.n_rows, self.encoder_.n_features_out_, rows.source.n_outputs
        is_compared = self._request.compares_few(*size)
        if not is_compared or (few is None and rows.source.splits is None):
            return few
        problem = self._problem(rows, "auto", POLICY.fewest_learned)
        if problem is None:
            return few
        group = problem.validator.group_out
        if group is not None and not np.ptp(group):
            # A single group tells no error of its losses
            return few
        choice = choose(problem)
        assert choice.losses is not None
        unseen = few
        if few is not None and few.model.report.chosen == LENGTHSCALE_EACH:
            # Learned from the rows held out too, they would seem better than they are
            fitted = rows._replace(source=problem.validator.fitted)
            unseen = self._choose_for_few(fitted, POLICY.few_rows) or few
        # Fitted to the rows that the others are learned from
        kernel, alpha_per_weight = None, 0.0
        if unseen is not None:
            features = unseen.model.features
            assert isinstance(features, KernelRows | NystroemFeatures | FourierFeatures)
            kernel, alpha_per_weight = features.kernel, unseen.model.alpha_per_weight
        losses = losses_of_one_lengthscale(problem, kernel, alpha_per_weight)
        leads = problem.validator.better(choice.losses, losses, POLICY.near)
        return choice if leads else few

    def _choose_learned(self, rows: Prepared) -> Choice | None:
        """The model learned from the data; None where the arguments or the number of
        rows leave nothing to learn.
        """
        features = self._request.learnable(rows.way == "summed")
        if features is None:
            return None
        columns = self.encoder_.n_features_out_
        n_rows = rows.source.n_rows
        fewest = self._request.fewest_rows(features)
        choice = None
        features = str(
            self._request.of_outputs(features, rows.n_rows, rows.source.n_outputs)
        )
        is_sparse = rows.way == "whole" and issparse(rows.source.X)
        if self._request.may_learn(features, n_rows, columns, is_sparse):
            with progress("Selecting the model", None, bool(self.verbose)):
                problem = self._problem(rows, features, fewest)
                choice = None if problem is None else choose(problem)
        if choice is not None:
            if choice.model.unmapped is not None:
                warn(
                    "metric='full' learned no linear map: "
                    f"{choice.model.unmapped}. Lengthscales of the columns were "
                    "learned instead, as with metric='ard'."
                )
        elif self._request.must_learn(features):
            raise ValueError(
                f"metric={self.metric!r} with features={self.features!r} needs at "
                f"least {fewest} distinct rows, at most "
                f"{POLICY.most_features:,} encoded "
                "columns, and a target that varies; there are "
                f"{n_rows:,} rows (duplicates included) and {columns:,} columns. Use "
                "metric='isotropic' and features='fourier' or 'binning'."
            )
        return choice

    def _choose_for_few(self, rows: Prepared, most_rows: int) -> Choice | None:
        """One lengthscale and ridge penalty by leave-one-out errors of few rows, or
        lengthscales of each column by their likelihood; None where arguments or rows
        are not for that.

        The map is the exact kernel with the rows, unless features, their number or
        their solver are asked for: of 100 and 200 images of digits, 784 columns, 2,048
        Fourier features lose a percent of the rows, and take longer. Other losses than
        the squared one have features of which all rows are landmarks.
        """
        # Leave-one-out errors know nothing of splits
        if (
            rows.source.splits is not None
            or isinstance(self.kernel, Kernel)
            or self.features not in ("auto", "fourier")
        ):
            return None
        groups = self.encoder_.column_groups()
        few = choose_for_few(
            rows.source,
            self.kernel,
            column_units(self.encoder_),
            self._request.alphas,
            is_classifier(self),
            most_rows,
            rows.seed,
            rows.budget,
        )
        if few is None:
            return None
        if (
            self._request.may_have_lengths
            and most_rows == POLICY.few_rows
            and 1 < len(groups) <= POLICY.wide
        ):
            few = or_lengthscale_each(few, groups, rows.budget)
        by_kernel = self.solver == "exact" or self._request.may_be_exact
        features: FeatureMap = KernelRows(few.kernel)
        if not by_kernel:
            size = POLICY.n_components[1]
            is_size_open = isinstance(self.n_components, str)
            if not is_size_open:
                size = int(self.n_components)
            features = FourierFeatures(few.kernel, size, random_state=rows.seed)
            other_loss = self.loss not in ("auto", "squared")
            if other_loss and is_size_open and self.features == "auto":
                # As exact as the kernel, in columns for losses that need them
                features = NystroemFeatures(
                    few.kernel, most_rows, random_state=rows.seed
                )
        # A ridge penalty that was chosen without outliers would be too small for a fit
        # to all rows
        is_open = rows.source.total_weight < rows.weight
        model = Model(features, None, few.report, few.alpha_per_weight, is_open=is_open)
        return Choice(model, predictions=few.predictions if by_kernel else None)

    def _problem(self, rows: Prepared, features: str, fewest: int) -> Problem | None:
        """The search for a model; None where too few distinct rows are left to learn
        from.
        """
        K = rows.source.n_outputs
        alphas = self._request.alphas
        labels = is_classifier(self)
        # Sums are of one map of hashed bins, and a linear map would be beside another
        is_single = rows.way == "summed" and self.metric == "auto"
        space = SearchSpace(
            features,
            "ard" if is_single else self.metric,
            self.kernel,
            None if isinstance(self.n_components, str) else int(self.n_components),
            alphas,
            fewest,
            rows.n_rows if rows.way == "streamed" else 0,
            K,
            labels and alphas is None and self.loss in ("auto", "logistic"),
            has_common_unit(self.encoder_.statistic_),
            alphas is None
            and rows.way == "whole"
            and rows.source.splits is None
            and self._request.may_be_exact,
        )
        encoded = rows.source.encoded(np.float32)
        if (
            features == "fourier"
            and are_mixed(K, encoded.n_rows)
            and isinstance(encoded.targets, Signs)
        ):
            mixed = encoded.targets.mixed(mixture(K, POLICY.mixtures))
            encoded = replace(encoded, targets=mixed)
            labels = False
        return prepare(
            encoded,
            self.encoder_.column_groups(),
            column_units(self.encoder_),
            space,
            labels,
            rows.seed,
            rows.budget,
        )

    def _features(self, rows: Prepared) -> FeatureMap:
        """The map as it is given, or with a kernel that is, or with one lengthscale
        for all columns.
        """
        if not isinstance(self.features, str):
            return seeded(self.features, rows.seed)
        if isinstance(self.kernel, Kernel):
            kernel = self.kernel
        else:
            quick = None
            if rows.budget.limit is not None:
                quick = rows.budget.stage("learning", "trials")
            with progress("Selecting the kernel", None, bool(self.verbose)):
                kernel = choose_kernel(
                    rows.source,
                    self.kernel,
                    column_units(self.encoder_),
                    self._request.alphas,
                    rows.seed,
                    self.features == "binning",
                    quick,
                )
        weights = rows.source.weights if rows.n_rows == rows.source.n_rows else None
        size = self._request.size(
            rows.n_rows, weights, self.encoder_.n_features_out_, rows.source.n_outputs
        )
        # Fourier features for hybrids too, where there is too little to learn from
        kind = BinningFeatures if self.features == "binning" else FourierFeatures
        features: FeatureMap = kind(kernel, size, random_state=rows.seed)
        if rows.way == "summed" and not features.is_dense:
            return hashed(features, hashed_columns(rows.n_rows))
        return features

    def _draw_and_plan(
        self, rows: Prepared, choice: Choice | None
    ) -> tuple[Design, RidgeProblem]:
        """Draw the map, and decide how to solve for its coefficients."""
        source = rows.source
        splits = source.splits
        if rows.way == "summed":
            # Rows of parts that come later have none
            source = replace(source, splits=None)
        request = self._request
        encoder = self.encoder_
        n_columns = encoder.n_features_out_
        dtype = rows.dtype
        seed = rows.seed
        self._validated_on = "" if splits is None else splits.what_validates
        self.report_ = None
        if choice is not None:
            features = choice.model.features
            self.report_ = replace(
                choice.model.report,
                codes=encoder.codes,
                written=encoder.written,
                left_out=encoder.left_out,
                validated_on=self._validated_on,
            )
        else:
            features = self._features(rows)
            why = ""
            if n_columns > POLICY.most_features:
                why = f"there are more than {POLICY.most_features:,} encoded columns"
            elif (
                len(getattr(self, "classes_", ())) > 1
                and source.n_counted > POLICY.few_rows
            ):
                fewest = POLICY.few_rows + 1
                why = f"the weights of the classes leave fewer than {fewest} rows"
            if why and request.learnable():
                self.report_ = of_no_candidates(features.is_dense, why)
        metric = interpretation.metric_of(
            features, draw(features, encoder, source, seed), seed
        )
        self.metric_ = (
            None if metric is None else metric.named(encoder.get_feature_names_out())
        )
        self.kernel_ = getattr(features, "kernel", None)
        self.background_ = explained_scores.background_rows(source, seed)
        alpha = self.alpha
        held_out = None
        chosen = False
        if choice is not None:
            held_out = None if choice.outcome is None else choice.outcome.split.held_out
            is_chosen = not choice.model.is_open or (
                splits is not None and choice.model.alpha_per_weight > 0
            )
            if isinstance(alpha, str) and alpha == "auto" and is_chosen:
                alpha = choice.model.alpha_per_weight * rows.weight
                chosen = True
        chooser = choose_solver if rows.way == "whole" else choose_streamed_solver
        ratio = penalty_ratio(given_alphas(alpha), rows.weight)
        size = ProblemSize(rows.n_rows, source.n_outputs, dtype, ratio)
        self.solver_, self.solver_reason_ = chooser(
            request.solver_for(features), features, size
        )
        if source.splits is not None:
            self.solver_ = "cg"
            self.solver_reason_ = BY_SPLITS
        # Rows are left out of conjugate gradients where they choose the ridge penalty;
        # factorisations leave out each row for nothing
        is_given = request.alphas is not None and len(request.alphas) == 1
        is_searched = self.solver_ == "cg" and not is_given
        needs = Needs(
            request.needs_unseen or source.splits is not None or is_searched,
            not is_classifier(self),
            request.wants("intervals"),
            n_evaluated(encoder.n_features_in_),
        )
        problem = RidgeProblem(
            alpha,
            self.tol,
            seed,
            held_out,
            None,
            needs,
            chosen,
            self.loss not in NUMBER_LOSSES,
            rows.budget.stage("solution"),
            rows.way == "whole"
            and self.loss in CLASS_LOSSES
            and not features.learns_weights,
        )
        if choice is not None and choice.model.alpha is not None:
            dtype = np.dtype(np.float32)
            self.solver_ = "cg"
            self.solver_reason_ = "same solver as in model selection"
            problem = replace(
                problem,
                alpha=choice.model.alpha,
                stopping=choice.outcome,
                penalty_selected=False,
            )
        log(
            f"Solving by {NAMES[self.solver_]}: {self.solver_reason_}.",
            bool(self.verbose),
        )
        if self.solver_ == "direct":
            D = features.n_features_out
            require_factor_memory(
                factor_bytes(rows.n_rows, D, source.n_outputs, dtype), D
            )
        place = device_for_fit(features, self.solver_, self.loss, dtype)
        return Design(source, features, dtype, place=place), problem

    @property
    def _is_exact_by_default(self) -> bool:
        """Whether the kernel matrix was taken for few rows, and not asked for."""
        return self.solver_ == "exact" and self.solver == "auto"

    def _estimated_features(
        self, n_rows: int | None, weights: NDArray | None = None
    ) -> FeatureMap:
        """Fourier features of the kernel, for more rows than its matrix is taken
        for.
        """
        self.solver_ = "direct"
        self.solver_reason_ = "more rows than the exact kernel is taken for"
        shape = self.encoder_.n_features_out_, len(self.intercept_)
        size = self._request.size(n_rows or POLICY.gathered_rows, weights, *shape)
        return estimated_map(self.features_, size, self._seed())

    def _solve_again(
        self,
        source: ArraySource,
        seed: int,
        features: FeatureMap,
        alpha: float,
        uncertain: bool = False,
        stores_alone: bool = False,
    ) -> tuple[Design, RidgeProblem, RidgeSolution]:
        """Ridge regression on other rows with all that was chosen; the spread of the
        errors is found again too.

        Bins are stored and not solved for where `stores_alone`.
        """
        features = fixed(features)
        if self._is_exact_by_default and source.n_counted > POLICY.folded_rows:
            features = self._estimated_features(source.n_rows, source.weights)
        draw(features, self.encoder_, source, seed)
        n_iter = None if features.is_dense else self.n_iter_
        stopping = None
        if n_iter is not None:
            learned = self.report_ and self.report_.candidates
            stopping = Iterations(n_iter, bool(n_iter and learned))
        problem = RidgeProblem(
            alpha,
            self.tol,
            seed,
            stopping=stopping,
            needs=Needs(uncertain, not is_classifier(self), uncertain),
            merges=self.loss_ not in NUMBER_LOSSES,
            stores_alone=stores_alone,
        )
        dtype = self.feature_weights_.dtype
        place = device_for_fit(features, self.solver_, self.loss, dtype)
        design = Design(source, features, dtype, place=place)
        with progress("Fitting", None, bool(self.verbose)) as advance:
            solution = SOLVERS[self.solver_](design.telling(advance), problem)
        self._store_solution(solution)
        return design, problem, solution

    def _other_rows(self, rows: TrainingRows, targets: Targets) -> ArraySource:
        """Rows as the fit encoded its own."""
        y = targets(rows.target.y)
        seed = self._seed() if self.encoder_.has_level_means else 0
        targeted = TargetRows(rows.X, y, rows.weight, seed, rows.fold)
        self.encoder_ = encoder = self.encoder_.with_seen_levels(targeted)
        if self.uncertainty:
            self.level_variances_ = encoder.level_variances(targeted)
        if encoder.has_level_means:
            self.encoder_, encoder = encoder.with_level_means(targeted)
        return rows.source(encoder, self.feature_weights_.dtype, targets)

    # What the parameters ask for

    @property
    def _request(self) -> FitRequest:
        """The parameters, by which a fit and its plan decide alike."""
        return FitRequest(self)

    def _refusal(
        self, rows: str, in_parts: bool = False, validation: Any = None
    ) -> str:
        """What to say of rows that are not all in memory, where parameters ask for what
        needs that; else empty.
        """
        what = self._request.needs_all(in_parts)
        if what is None and validation is None:
            return ""
        what = what or "validation"
        return (
            f"{what} needs all rows in memory, and these are {rows}: leave it out, or "
            f"use at most {POLICY.gathered_rows:,} rows, without sample=, and a "
            "memory_limit that holds them."
        )

    def _can_sum(self) -> bool:
        """Whether the parameters allow partial fits; AttributeError, which says why,
        where they do not.
        """
        try:
            self._request.refuse_unsummed()
        except ValueError as error:
            raise AttributeError(str(error)) from error
        return True

    # Sums over parts

    def _forget(self) -> None:
        """Drop what is solved for again when it is read."""
        for name in list(vars(self)):
            if isinstance(getattr(type(self), name, None), SolvedAttribute):
                delattr(self, name)

    def _solve_if_needed(self) -> None:
        """Solve for the rows that are summed so far, where these have changed since."""
        if self._sums is None or "feature_weights_" in vars(self):
            return
        if not self._sums.n_rows:
            raise NotFittedError(
                f"This {type(self).__name__} is prepared, and has no rows yet: call "
                "partial_fit."
            )
        self._store(self._sums.solve(self.features_, current_device()), None)

    def finalize(self) -> Self:
        """Solve for the rows so far and drop the sums, so that the model is smaller but
        accepts no more rows.

        Returns
        -------
        self

        Raises
        ------
        NotFittedError
            If the model has no rows yet.
        """
        check_is_fitted(self)
        self._solve_if_needed()
        self._measure_if_needed()
        self._sums = self._first = None
        return self

    def _without_sums(self) -> Self:
        """A copy, solved for, that takes no more rows."""
        self._solve_if_needed()
        other = copy(self)
        other._sums = other._first = None
        return other

    def __add__(self, other: Any) -> Self:
        """The model of the rows of both; see `bochner.merge`."""
        if type(other) is not type(self):
            return NotImplemented
        if self._sums is None or other._sums is None:
            raise ValueError(
                "Only models that prepare and partial_fit have made can be merged."
            )
        merged = copy(self)
        merged._sums = self._sums + other._sums
        merged._first = None
        merged._forget()
        return merged

    @property
    def coef_(self) -> NDArray:
        """Absent: tools that find `coef_` take it for one weight for each column.

        Raises
        ------
        AttributeError
            Always. `feature_weights_` holds the coefficients of the features, and
            `feature_importances_` the shares of the columns.
        """
        raise AttributeError(
            f"{type(self).__name__} has no coef_, because its coefficients belong to "
            "random features and not to columns: see feature_weights_ for these, and "
            "feature_importances_ for the columns."
        )

    def __sklearn_is_fitted__(self) -> bool:
        return "feature_weights_" in vars(self) or self._sums is not None

    def _begin(self) -> None:
        """Check the parameters and forget an earlier fit, so that a fit that fails
        leaves no mixture behind.
        """
        self._forget_fit()
        check_parameters(self)
        for name in ("features", "kernel"):
            if not isinstance(getattr(self, name), str):
                refuse_encoded(name, getattr(self, name))
        self._sums = self._first = None
        self._has_cautioned = False

    # Answers

    def _scores(
        self,
        X: Any,
        n_jobs: int | None = None,
        function: Any = None,
        features: FeatureMap | None = None,
    ) -> Floats:
        """The fitted function at the rows of X, shape (n, K), on at most `n_jobs`
        threads; or another function.

        Parameters
        ----------
        X : rows in memory
        n_jobs : int or None
        function : object with `coef` of shape (D, K) and `intercept`, optional
            In the place of the fitted one.
        features : FeatureMap, optional
            In the place of the fitted one.
        """
        require_fitted(self)
        coef, intercept = self.feature_weights_, self.intercept_
        if function is not None:
            coef, intercept = function.coef, function.intercept
        threads = threads_of(n_jobs)
        dtype = self.feature_weights_.dtype
        feature_map = features or self.features_
        if feature_map.n_features_out != len(coef):
            raise NotFittedError(
                f"The map of this {type(self).__name__} has another size since it was "
                "fitted: call refit with rows first."
            )
        Z = self.encoder_.encode_few(X, dtype) if current().device is None else None
        if Z is not None:
            with at_most(1):
                scores = feature_map.dot(Z, coef.astype(dtype, copy=False))
            return finite_predictions(scores.astype(np.float64) + intercept)
        with single_threaded_blas(), at_most(threads):
            source = rows_to_map(self.encoder_, self._rows(X, reset=False), dtype)
            design = Design(source, feature_map, dtype, place=current_device())
            return design.predict(coef, intercept)

    @any_arrays
    def kernel_matrix(self, X: Any, Y: Any = None) -> Floats:
        """Kernel of the model between rows, which the inner products of its features
        estimate.

        Rows are in their own units: they go through the encoder and the learned metric,
        of which `kernel_` knows nothing. A map of which no kernel is known counts by
        the inner products of its features.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        Y : array, sparse matrix or data frame of shape (m, d), optional
            By default X.

        Returns
        -------
        array of shape (n, m)

        Raises
        ------
        NotFittedError
            Before `fit`.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import KernelMachineRegressor
        >>> X = np.random.default_rng(0).uniform(size=(300, 2))
        >>> model = KernelMachineRegressor(solver="exact", random_state=0).fit(
        ...     X, np.sin(4 * X[:, 0])
        ... )
        >>> K = model.kernel_matrix(X[:5], X)
        >>> scores = K @ model.feature_weights_ + model.intercept_
        >>> np.allclose(
        ...     scores * model.target_scale_ + model.target_mean_,
        ...     model.predict(X[:5])[:, np.newaxis],
        ... )
        True
        """
        require_fitted(self)
        rows = self._encoded(X, np.float64)
        others = rows if Y is None else self._encoded(Y, np.float64)
        return kernel_between(self.features_, rows, others)

    def _encoded(self, X: Any, dtype: Any) -> Any:
        """Rows as the map sees them."""
        return rows_to_map(self.encoder_, self._rows(X, reset=False), dtype).whole().X

    @any_arrays
    def plan(self, X: Any, y: Any = None) -> Plan:
        """Estimate what `fit` would read and hold, and how it would solve, without
        fitting.

        Only the names of columns and the numbers of rows are read; where a file does
        not store them, they are estimated from its size. Parameters that are selected
        from the data ("auto") are planned as their usual values for tables of that
        size.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or a source
        y : array of shape (n,) or (n, K), or str or list of str, optional
            Targets; for a source the names of their columns.

        Returns
        -------
        Plan
            With `passes`, `block_rows`, `sample_rows`, `peak_bytes` in bytes, `solver`,
            `gathered` and `reason`. It prints as a small table.

        Raises
        ------
        MemoryError
            If no way to fit needs so little memory as is free, or as
            ``bochner.settings(memory_limit=...)`` allows. The message names what would
            fit.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import KernelMachineRegressor
        >>> plan = KernelMachineRegressor(features="fourier", n_components=500).plan(
        ...     np.zeros((10_000, 20))
        ... )
        >>> plan.solver, plan.gathered, plan.n_passes
        ('direct', True, 1)
        """
        return self.plan_rows(table_shape(X, y, is_classifier(self)))

    def plan_rows(self, rows: TableShape) -> Plan:
        """Plan a fit of a table that is described."""
        check_parameters(self)
        return plan_fit(self._request, rows)

    def resized(self, factor: float = 1.0) -> Self:
        """Return a copy of the fitted model with a map of another size, to be fitted by
        `refit`.

        All that was chosen stays but the number of features, or of grids. Intervals and
        deviations are left out.

        Parameters
        ----------
        factor : float, default=1.0
            Of the size.

        Raises
        ------
        ValueError
            If the factor is not a positive number.
        NotFittedError
            If the model has no rows yet.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from bochner import KernelMachineRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = KernelMachineRegressor(
        ...     features="fourier", n_components=64, random_state=0
        ... ).fit(X, y)
        >>> model.resized(2).refit(X, y).features_.n_features_out
        128
        """
        check_is_fitted(self)
        require_one_of("factor", factor, "a positive number")
        self._solve_if_needed()
        other = copy(self)
        other._sums = other._first = None
        other.verbose = 0
        if factor != 1:
            other._keep_features(
                resized(self.features_, factor).draw(self.features_.n_features_in_)
            )
        for name in ("spread_", "posterior_"):
            other.__dict__.pop(name, None)
        return other

    def for_part(self, **parameters: Any) -> Self:
        """A machine for a part of the rows of this one, which learns where this one
        did, however few they are.

        Parameters
        ----------
        **parameters
            In the place of those of this machine.
        """
        # Splits belong to all rows, and generators of such cannot be copied
        part = copy(self).set_params(cv=None)
        part = clone(part).set_params(**parameters)
        # Few rows, whose kernel leave-one-out errors choose, have had no such stage
        compared = self.report_ is not None and "candidates" in self.report_.seconds
        part._learns_from_few = compared
        return part


def _told_apart(rows: TrainingRows) -> TrainingRows:
    """Checked rows, near copies of a row as copies, and of few rows those with one
    target as one row; and by what rows differ, where that is not what they hold. Where
    it is given which rows validate which, copies are as they come.

    Validation rows, and errors of rows left out, leave all copies of a row out too, as
    these would tell of it. Where fewer than a tenth of the rows differ, and all columns
    are of categories or numbers with few values, or the different rows are too few to
    learn from, or equal ones mostly have different targets, equal rows are levels that
    come again: to leave a level out would be to know nothing of it. There each row
    stands for itself; where both are so, fewer than a third must differ.
    """
    X = rows.X
    first = None if rows.splits is not None else near_copies(X, rows.weight)
    if first is None:
        return rows
    y = rows.y
    assert y is not None
    different = np.flatnonzero(first == np.arange(len(first)))
    n_different, n_rows = len(different), len(first)
    come_again = may_come_again(n_different, n_rows, is_likely=True)
    if come_again:
        # Most rows equal rows whose targets are not all the same
        hashes = row_hashes(y.reshape(n_rows, -1))
        has_others = np.zeros(n_rows, bool)
        has_others[first[hashes != hashes[first]]] = True
        have_others = bool(has_others[first].mean() > 0.5)
        hold_levels = are_levels(rows_of(X, different))
        is_likely = have_others and hold_levels
        come_again = is_likely or (
            may_come_again(n_different, n_rows) and (have_others or hold_levels)
        )
    if not come_again:
        rows = replace(rows, X=rows_of(X, first))
        # A weight of w is w equal rows for whatever counts rows, as errors of means do;
        # of many rows such errors are small either way
        repeated = None
        if n_different <= POLICY.simple_rows:
            repeated = repeated_observations(rows.X, y, first)
        return rows if repeated is None else rows.merged(repeated)
    order = np.argsort(first, kind="stable")
    ordered = first[order]
    occurrence = np.empty(len(first))
    occurrence[order] = np.arange(len(first)) - np.searchsorted(ordered, ordered)
    content = np.column_stack([row_hashes(X)[first] >> np.uint64(11), occurrence])
    return replace(rows, content=content)


def hashed_columns(n_rows: int) -> int:
    """Columns of hashed bins that are chosen by `n_rows` rows: a large Gram matrix of
    few rows costs minutes.
    """
    return min(max(HASHED_A_ROW * n_rows, FEWEST_HASHED), HASHED_COLUMNS)


def merge(models: Any) -> Any:
    """Merge models that were fitted in parts into one model of all their rows.

    Parameters
    ----------
    models : sequence of KernelMachineRegressor or KernelMachineClassifier
        Copies of one prepared model (see `prepare`), each after `partial_fit` on its
        own rows.

    Returns
    -------
    A new model; its coefficients are computed at first use. Rows that have decayed by
    `half_life` have the weights that they have in their own model, as if the last rows
    of all models had come at the same time.

    Raises
    ------
    ValueError
        If there is no model, or the models are not copies of one.

    Examples
    --------
    >>> import numpy as np
    >>> from copy import deepcopy
    >>> from bochner import KernelMachineRegressor, merge
    >>> X = np.random.default_rng(0).uniform(size=(3000, 2))
    >>> y = np.sin(4 * X[:, 0]) + X[:, 1]
    >>> first = KernelMachineRegressor(random_state=0).prepare(X[:1000], y[:1000])
    >>> parts = [
    ...     deepcopy(first).partial_fit(X[rows], y[rows])
    ...     for rows in (slice(0, 2000), slice(2000, 3000))
    ... ]
    >>> bool(merge(parts).score(X, y) > 0.99)
    True
    """
    models = list(models)
    if not models:
        raise ValueError("There is no model to merge.")
    kinds = {type(model).__name__ for model in models}
    if len(kinds) > 1 or not isinstance(models[0], KernelMachine):
        raise ValueError(
            f"These cannot be merged: {', '.join(sorted(kinds))}; give models of one "
            "class, copies of one that is prepared."
        )
    total = models[0]
    for model in models[1:]:
        total = total + model
    return total if len(models) > 1 else copy(total)
