"""What the regressor and the classifier share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.design.reductions import factor_bytes, require_factor_memory
from bochner.engines.blas import single_threaded_blas
from bochner.engines.costs import COSTS
from bochner.engines.local import at_most
from bochner.engines.progress import log, progress
from bochner.estimators.interpretation import Interpretation, Reported, metric_of
from bochner.estimators.parameters import BINNED, CRITERIA, NUMBER_LOSSES, check_parameters
from bochner.estimators.ridge import Iterations, Needs, RidgeProblem, RidgeSolution, given_alphas, solve
from bochner.features import BinningFeatures, FourierFeatures
from bochner.features.base import FeatureMap, KernelParameter
from bochner.features.binning import hashed
from bochner.features.device_features import current_device, device_for_fit
from bochner.features.leaves import fixed, is_dense, seeded
from bochner.features.transformer import as_map
from bochner.inputs.checks import checked_rows, threads_of
from bochner.inputs.training import column_units, draw, encode, encoded_source, rows_to_map
from bochner.kernels import Kernel
from bochner.notices import warn
from bochner.planning.solver import Task, plan, plan_stream
from bochner.selection.budget import Budget, choose_n_components, choose_n_grids
from bochner.selection.choose import Choice, choose
from bochner.selection.lengthscale import choose_kernel
from bochner.selection.policy import POLICY
from bochner.selection.problem import Problem, SearchSpace, prepare

MAPS: dict[str, Callable[..., FeatureMap]] = {
    "auto": FourierFeatures,
    "fourier": FourierFeatures,
    "binning": BinningFeatures,
    "hybrid": FourierFeatures,  # where there is too little to learn from
}
NAMES = {"direct": "the Gram matrix", "cg": "conjugate gradients", "exact": "the kernel matrix of all rows"}
SINGLE_TOL, SINGLE_TOL_A_ROW = 5e-3, 1e-8  # ten times the error that bins were left with: 2e-4 of 300,000 rows
SINGLE_ALPHA_A_ROW = 1e-9  # ridge term over the trace of the Gram matrix, of whose rounding less would be noise
FEWEST_HASHED, HASHED_COLUMNS = 2_048, 6_400  # of bins that are not given, whose Gram matrix is factorised in seconds
HASHED_A_ROW = 8  # columns for each row that they are chosen by
BINNED_WORK_COLUMNS = 1000


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
        Whether the source has all rows; if not, whether the others are read in passes, or summed once as they come.
    """

    source: ArraySource
    dtype: np.dtype
    seed: int
    budget: Budget
    n_rows: int
    weight: float
    way: str = "whole"


class KernelMachine(Reported, Interpretation, KernelParameter):
    """Ridge regression on random features; everything that is not given is selected from the data."""

    def __init__(
        self,
        kernel: Kernel | str = "auto",
        features: FeatureMap | str = "auto",
        n_components: int | str = "auto",
        metric: str = "auto",
        alpha: Any = "auto",
        loss: str = "squared",
        solver: str = "auto",
        tol: float = 1e-2,
        time_limit: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
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

    def _prepare(self, X: Any, y: NDArray, weights: NDArray | None, targets: Callable[[NDArray], NDArray]) -> Prepared:
        """Learn the encoding of the columns; the rows so encoded, and the seed and the time of the fit."""
        seed, budget = self._seed(), Budget(self.time_limit)
        self.encoder_ = encode(X, weights, with_std=self._is_named)
        dtype = self._dtype(len(y), weights)
        source = encoded_source(self.encoder_, X, y, weights, dtype, targets)
        return Prepared(source, dtype, seed, budget, source.n_rows, source.total_weight)

    def _seed(self) -> int:
        """Seed of a fit."""
        return int(check_random_state(self.random_state).randint(2**31))

    @property
    def _is_named(self) -> bool:
        """Whether neither a map nor a kernel is given."""
        return isinstance(self.features, str) and not isinstance(self.kernel, Kernel)

    @property
    def _is_calibrated(self) -> bool:
        """Whether the fit needs predictions for rows that it has not seen."""
        return is_classifier(self) or bool(getattr(self, "uncertainty", False)) or self.loss != "squared"

    def _wants(self, kind: str) -> bool:
        """Whether the fit is to keep what deviations ("std") or "intervals" need."""
        return getattr(self, "uncertainty", False) in (True, kind)

    def _plan(self, rows: Prepared, choice: Choice | None) -> tuple[Design, RidgeProblem]:
        """Draw the map, and decide how to solve for its coefficients."""
        source, dtype, seed = rows.source, rows.dtype, rows.seed
        self.report_ = None if choice is None else choice.model.report
        features = self._features(rows) if choice is None else choice.model.features
        self.metric_ = metric_of(features, draw(features, self.encoder_, source, seed), seed)
        self.kernel_ = getattr(features, "kernel", None)
        alpha, held_out, chosen, calibrated = self.alpha, None, False, self._is_calibrated
        uncertain, merges = self._wants("intervals"), self.loss not in NUMBER_LOSSES
        if choice is not None:
            held_out = None if choice.verdict is None else choice.verdict.split.held_out
            if isinstance(alpha, str) and alpha == "auto" and not choice.model.is_open:
                alpha, chosen = choice.model.alpha_per_weight * rows.weight, True
        size, wide = (rows.n_rows, source.n_outputs, rows.weight), dtype.itemsize == 8
        problem = self._problem_size(*size, alpha, wide, chosen, self.encoder_.n_features_out_)
        if rows.way == "whole":
            self.solver_, self.solver_reason_ = plan(self._solver(features), features, problem)
        else:
            self.solver_, self.solver_reason_ = plan_stream(self._solver(features), features, problem)
        needs = Needs(calibrated, not is_classifier(self), uncertain)
        task = RidgeProblem(alpha, self.tol, seed, held_out, None, needs, chosen, merges)
        if choice is not None and choice.model.alpha is not None:
            dtype, self.solver_, self.solver_reason_ = np.dtype(np.float32), "cg", "taken over from the selection"
            task = replace(task, alpha=choice.model.alpha, stopping=choice.verdict, penalty_selected=False)
        log(f"Solving by {NAMES[self.solver_]}: {self.solver_reason_}.", bool(self.verbose))
        if self.solver_ == "direct":
            D = features.n_features_out
            require_factor_memory(factor_bytes(rows.n_rows, D, source.n_outputs, dtype), D)
        return Design(source, features, dtype, place=device_for_fit(features, self.solver_, self.loss, dtype)), task

    def _problem_size(
        self, n_rows: int, n_outputs: int, weight: float, alpha: Any, wide: bool, chosen: bool, n_columns: int
    ) -> Task:
        """The size of the ridge problem, by which the solver is chosen and a fit is planned."""
        return Task(n_rows, n_outputs, weight, given_alphas(alpha), self._is_calibrated, wide, chosen, n_columns)

    def _progress(self, rows: Prepared) -> AbstractContextManager[Callable[[int], None]]:
        """A bar of the rows that are done; of iterations it is not known beforehand how many there will be."""
        return progress("Fitting", rows.n_rows if self.solver_ == "direct" else None, bool(self.verbose))

    def _take(self, fitted: RidgeSolution, choice: Choice | None) -> None:
        """Keep what was found, all but the coefficients, which make the model a fitted one."""
        self._keep(fitted)
        if choice is None:  # else rows that are held out have judged the bins
            self.features_.check_occupancy()
        self.alpha_, self.alphas_, self.alpha_scores_ = fitted.alpha, fitted.alphas, fitted.scores
        given = given_alphas(self.alpha)
        if choice is not None and given is not None:
            self.alphas_ = given

    def _keep(self, fitted: RidgeSolution) -> None:
        """Keep what the rows alone decide."""
        self.features_, self.intercept_ = fitted.features, fitted.intercept
        self.n_iter_, self.residual_ = fitted.n_iter, fitted.residual

    def _solve_again(
        self, source: ArraySource, seed: int, features: FeatureMap, alpha: float, uncertain: bool = False
    ) -> tuple[Design, RidgeProblem, RidgeSolution]:
        """Ridge regression on other rows with all that was chosen; the spread of the errors is found again too."""
        features = fixed(features)
        draw(features, self.encoder_, source, seed)
        n_iter = None if features.is_dense else self.n_iter_
        stopping = None if n_iter is None else Iterations(n_iter, bool(n_iter and self.report_))
        needs, merges = Needs(uncertain, not is_classifier(self), uncertain), self.loss not in NUMBER_LOSSES
        task = RidgeProblem(alpha, self.tol, seed, None, stopping, needs, merges=merges)
        dtype = self.coef_.dtype
        design = Design(source, features, dtype, place=device_for_fit(features, self.solver_, self.loss, dtype))
        with progress("Fitting", None, bool(self.verbose)) as advance:
            fitted = solve(self.solver_, design.telling(advance), task)
        self._keep(fitted)
        return design, task, fitted

    def _other_rows(
        self,
        X: Any,
        y: NDArray,
        weights: NDArray | None,
        targets: Callable[[NDArray], NDArray],
        seed: int | None = None,
    ) -> tuple[ArraySource, int]:
        """Rows as the fit encoded its own, and a seed, if none is given."""
        if seed is None:
            seed = self._seed()
        return encoded_source(self.encoder_, X, y, weights, self.coef_.dtype, targets), seed

    def _choose(self, rows: Prepared) -> Choice | None:
        """The model learned from the data; None where the arguments or the number of rows leave nothing to learn."""
        features = self._wanted_features(rows.way == "summed")
        if features is None:
            return None
        columns, n_rows = self.encoder_.n_features_out_, rows.source.n_rows
        fewest, choice = self._fewest_learned(features), None
        if self._may_learn(features, n_rows, columns):
            with progress("Selecting the model", None, bool(self.verbose)):
                problem = self._problem(rows, features, fewest)
                choice = None if problem is None else choose(problem)
        if choice is None and self._asks_to_learn(features):
            raise ValueError(
                f"metric={self.metric!r} with features={self.features!r} needs at least {fewest} distinct training "
                f"rows and a fifth more for validation, at most {POLICY.most_learned_columns:,} encoded columns, and a "
                f"target that varies; there are {n_rows:,} rows (duplicates included) and {columns:,} columns. Use "
                "metric='isotropic' and features='fourier' or 'binning'."
            )
        unmapped = None if choice is None else choice.model.unmapped
        if unmapped is not None:
            warn(
                f"metric='full' learned no linear map: {unmapped}. Lengthscales of the columns were learned instead, "
                "as with metric='ard'."
            )
        return choice

    def _problem(self, rows: Prepared, features: str, fewest: int) -> Problem | None:
        """The search for a model; None where too few distinct rows are left to learn from."""
        n_components = None if isinstance(self.n_components, str) else int(self.n_components)
        alphas = given_alphas(self.alpha)
        n_rows = rows.n_rows if rows.way == "streamed" else 0
        space = SearchSpace(features, self.metric, self.kernel, n_components, alphas, fewest, n_rows)
        encoded, groups = rows.source.encoded(np.float32), self.encoder_.column_groups()
        return prepare(encoded, groups, column_units(self.encoder_), space, is_classifier(self), rows.seed, rows.budget)

    def _wanted_features(self, summed: bool = False) -> str | None:
        """The maps that the arguments allow to be learned; None for none."""
        if not self._is_named or self.metric == "isotropic":
            return None
        direct = self.solver in ("direct", "exact") or (isinstance(self.alpha, str) and self.alpha != "auto")
        if self.features in BINNED:
            return self.features if self.kernel in ("auto", "laplacian") and not direct else None
        return "fourier" if direct or summed or self.kernel != "auto" or self.features == "fourier" else "auto"

    def _asks_to_learn(self, features: str) -> bool:
        """Whether the arguments leave no other choice than a learned map."""
        return self.metric != "auto" or features == "hybrid"

    def _fewest_learned(self, features: str) -> int:
        """Rows by which a map is learned at the least."""
        return POLICY.fewest_asked_rows if self._asks_to_learn(features) else POLICY.fewest_rows

    def _may_learn(self, features: str, n_rows: int, n_columns: int) -> bool:
        """Whether a map is learned by so many rows of so many columns, if they differ."""
        return n_columns <= POLICY.most_learned_columns and n_rows >= self._fewest_learned(features)

    def _dtype(self, n_rows: int, weight: NDArray | None) -> np.dtype:
        """Double precision where that costs a fraction of a second, or where single precision does not reach `tol`."""
        if self.solver == "exact":
            return np.dtype(np.float64)
        given = given_alphas(self.alpha)
        lost = given is not None and given[0] < SINGLE_ALPHA_A_ROW * n_rows
        binned = given is not None and self.tol < SINGLE_TOL_A_ROW * n_rows and self._may_be_binned
        if self.tol < SINGLE_TOL or lost or binned:
            return np.dtype(np.float64)
        binned = not (isinstance(self.features, str) and self.features != "binning")
        columns = BINNED_WORK_COLUMNS if binned else self._n_components(n_rows, weight)
        return np.dtype(np.float64 if n_rows * columns**2 <= COSTS.gram_work(POLICY.double_seconds) else np.float32)

    @property
    def _may_be_binned(self) -> bool:
        """Whether there may be bins, whose sums in single precision more rows make less exact."""
        return self.features != "fourier" if isinstance(self.features, str) else not is_dense(as_map(self.features))

    def _n_components(self, n_rows: int, weight: NDArray | None) -> int:
        if not isinstance(self.n_components, str):
            return int(self.n_components)
        if self.time_limit is not None and self.features != "binning":
            affordable = int(np.sqrt(COSTS.gram_work(POLICY.direct_share * self.time_limit) / n_rows))
            return min(choose_n_components(n_rows, weight), max(affordable, POLICY.n_components[0]))
        return choose_n_grids(n_rows) if self.features == "binning" else choose_n_components(n_rows, weight)

    def _solver(self, features: FeatureMap) -> str:
        """The solver as given, or the only one that the criterion for alpha or the weights of the maps allow."""
        criteria = isinstance(self.alpha, str) and self.alpha in CRITERIA
        if criteria and (self.solver == "cg" or not features.is_dense):
            why = "with solver='cg'" if self.solver == "cg" else "for bins, which have no such solver,"
            raise ValueError(f"alpha={self.alpha!r} needs the direct solver; {why} use alpha='auto'.")
        return "cg" if self.solver == "auto" and features.learns_weights else self._asked_solver

    @property
    def _asked_solver(self) -> str:
        """The solver as given, or the only one that the criterion for alpha allows."""
        criteria = isinstance(self.alpha, str) and self.alpha in CRITERIA
        return "direct" if criteria and self.solver == "auto" else self.solver

    def _features(self, rows: Prepared) -> FeatureMap:
        """The map as it is given, or with a kernel that is, or with one lengthscale for all columns."""
        if not isinstance(self.features, str):
            return seeded(self.features, rows.seed)
        kernel = self.kernel if isinstance(self.kernel, Kernel) else self._choose_kernel(rows)
        size = self._n_components(rows.n_rows, rows.source.weights if rows.n_rows == rows.source.n_rows else None)
        features = MAPS[self.features](kernel, size, random_state=rows.seed)
        if rows.way == "summed" and not features.is_dense:
            return hashed(features, hashed_columns(rows.n_rows))
        return features

    def _choose_kernel(self, rows: Prepared) -> Kernel:
        with progress("Selecting the kernel", None, bool(self.verbose)):
            alphas, binned = given_alphas(self.alpha), self.features == "binning"
            units, quick = column_units(self.encoder_), rows.budget.limit is not None
            return choose_kernel(rows.source, self.kernel, units, alphas, rows.seed, binned, quick)

    def _scores(self, X: Any, n_jobs: int | None = None) -> NDArray[np.float64]:
        """RidgeSolution function at the rows of X, shape (n, K), on so many threads at most."""
        check_is_fitted(self)
        return self._mapped(X, self.coef_, self.intercept_, n_jobs)

    @single_threaded_blas()
    def _mapped(
        self, X: Any, coef: NDArray, intercept: NDArray, n_jobs: int | None, features: FeatureMap | None = None
    ) -> NDArray[np.float64]:
        """Any coefficients of the features, or of other ones, (D, K), at the rows of X, shape (n, K)."""
        threads = threads_of(n_jobs)
        X = self._rows(X, reset=False)
        source = rows_to_map(self.encoder_, X, self.coef_.dtype)
        with at_most(threads):
            own = features or self.features_
            return Design(source, own, self.coef_.dtype, place=current_device()).predict(coef, intercept)

    def _rows(self, X: Any, *, reset: bool) -> Any:
        """X as a data frame or as a finite array or CSR matrix of real numbers, its columns checked."""
        return checked_rows(self, X, reset=reset)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def _begin(self) -> None:
        """Check the parameters and forget an earlier fit, so that a fit that fails leaves no mixture behind."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.endswith("__")]:
            delattr(self, name)
        check_parameters(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def hashed_columns(n_rows: int) -> int:
    """Columns of hashed bins that are chosen by so many rows: a large Gram matrix of few rows costs minutes."""
    return min(max(HASHED_A_ROW * n_rows, FEWEST_HASHED), HASHED_COLUMNS)
