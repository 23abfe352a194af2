"""What the regressor and the classifier share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from narwhals.dependencies import is_into_dataframe
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from bochner.data.sources import ArraySource
from bochner.data.table import TableEncoder, check_frame
from bochner.data.table_encodings import NumberColumns
from bochner.design import Design, require_factor_memory
from bochner.engines.blas import single_threaded_blas
from bochner.engines.progress import log, progress
from bochner.estimators.checks import normalised_weights, refuse_infinite, refuse_unencoded
from bochner.estimators.interpretation import Interpretation, metric_of
from bochner.estimators.parameters import check_parameters
from bochner.estimators.solving import (
    SCORED_ROWS,
    Fitted,
    given_alphas,
    solve_again,
    solve_as_chosen,
    solve_directly,
    solve_exactly,
    solve_iteratively,
)
from bochner.features import BinningFeatures, FourierFeatures
from bochner.features.base import FeatureMap, KernelParameter, Rows
from bochner.features.copies import fixed, seeded
from bochner.features.metric import MetricFeatures
from bochner.kernels import Kernel
from bochner.tuning.bandwidth import choose_kernel
from bochner.tuning.choice import Choice, choose
from bochner.tuning.cost import SolverChoice, Task, plan
from bochner.tuning.held_out import HeldOutPredictions
from bochner.tuning.problem import FEWEST_ASKED_ROWS, FEWEST_ROWS, Budget, SearchSpace, prepare
from bochner.tuning.size import SMALLEST, choose_n_components, choose_n_grids

MAPS: dict[str, Callable[..., FeatureMap]] = {
    "auto": FourierFeatures,
    "fourier": FourierFeatures,
    "binning": BinningFeatures,
    "hybrid": FourierFeatures,  # where there is too little to learn from
}
NAMES = {"direct": "the Gram matrix", "cg": "conjugate gradients", "exact": "the kernel matrix of all rows"}
DOUBLE_PRECISION_WORK = 3e10
SINGLE_TOL, SINGLE_TOL_A_ROW = 5e-3, 1e-8  # ten times the error that bins were left with: 2e-4 of 300,000 rows
SINGLE_ALPHA_A_ROW = 1e-9  # ridge term over the trace of the Gram matrix, of whose rounding less would be noise
BINNED_WORK_COLUMNS, MOST_LEARNED_COLUMNS = 1000, 4096
DIRECT_RATE = 1e11  # n D^2 a second, of two cores


class KernelMachine(Interpretation, KernelParameter):
    """Ridge regression on random features, with whatever is left open chosen from the data."""

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

    def _fit(
        self, X: Any, y: NDArray, weight: NDArray | None, targets: Callable[[NDArray], NDArray]
    ) -> tuple[NDArray, HeldOutPredictions | None]:
        """Fit the columns of ``targets(y)`` on checked X.

        Everything but `coef_` is set, which makes the model a fitted one. Returns it and, for classifiers, predictions
        for rows by a model that has not seen them.
        """
        seed, budget = int(check_random_state(self.random_state).randint(2**31)), Budget(self.time_limit)
        named = isinstance(self.features, str) and not isinstance(self.kernel, Kernel)
        self.encoder_ = TableEncoder(with_std=named).fit(X, sample_weight=normalised_weights(weight))
        if not self.encoder_.n_features_out_:
            raise ValueError("X has no value in any row of any column.")
        dtype = self._dtype(len(y), weight)
        source = ArraySource(X, y, weight, partial(self.encoder_.encode, dtype=dtype), targets)
        self.encoder_.forget_categories()
        choice = self._choose(source, seed, budget) if named else None
        self.report_ = None if choice is None else choice.report
        self.features_ = self._features(source, seed, budget) if choice is None else choice.features
        self.metric_ = metric_of(self.features_, self._draw(self.features_, source, seed), seed)
        self.kernel_ = getattr(self.features_, "kernel", None)
        fitted = self._solve(source, choice, dtype, seed)
        self.features_ = self.features_ if fitted.features is None else fitted.features
        if choice is None:  # else rows that are held out have judged the bins
            self.features_.check_occupancy()
        self.alpha_, self.alphas_, self.alpha_scores_ = fitted.alpha, fitted.alphas, fitted.scores
        given = given_alphas(self.alpha)
        if choice is not None and given is not None:
            self.alphas_ = given
        self.n_iter_, self.residual_ = fitted.n_iter, fitted.residual
        self.intercept_ = fitted.intercept
        return fitted.coef, fitted.held_out_predictions

    def _refit(self, X: Any, y: NDArray, weight: NDArray | None, targets: Callable[[NDArray], NDArray]) -> NDArray:
        """Fit the columns of ``targets(y)`` on checked X with all that was chosen; everything but `coef_` is set."""
        seed, dtype = int(check_random_state(self.random_state).randint(2**31)), self.coef_.dtype
        source = ArraySource(X, y, weight, partial(self.encoder_.encode, dtype=dtype), targets)
        features = fixed(self.features_)
        self._draw(features, source, seed)
        with progress("Fitting", None, bool(self.verbose)) as advance:
            design = Design(source, features, dtype, advance)
            fitted = solve_again(design, self.solver_, self.alpha_, self.n_iter_, self.tol, seed)
        self.features_ = features if fitted.features is None else fitted.features
        self.n_iter_, self.residual_, self.intercept_ = fitted.n_iter, fitted.residual, fitted.intercept
        return fitted.coef

    def _solve(self, source: ArraySource, choice: Choice | None, dtype: np.dtype, seed: int) -> Fitted:
        """Solve for the coefficients, by the way that was chosen or that costs less."""
        settled = choice is not None and choice.alpha is not None
        alphas, weight = given_alphas(self.alpha), source.total_weight
        if alphas is None and choice is not None:
            alphas = np.array([choice.alpha_per_weight * weight])
        task = Task(source.n_rows, source.n_outputs, weight, alphas, is_classifier(self), dtype.itemsize == 8)
        chosen = plan(self._solver(self.features_), self.features_, task)
        if settled:
            dtype, chosen = np.dtype(np.float32), SolverChoice("cg", "the choice was made by it")
        self.solver_, self.solver_reason_ = chosen
        log(f"Solving by {NAMES[chosen.solver]}: {chosen.reason}.", bool(self.verbose))
        if chosen.solver == "direct":
            require_factor_memory(source.n_rows, self.features_.n_features_out, source.n_outputs, dtype)
        passes = source.n_rows if chosen.solver == "direct" else None  # iterations are not known beforehand
        with progress("Fitting", passes, bool(self.verbose)) as advance:
            design = Design(source, self.features_, dtype, advance)
            calibrated = is_classifier(self)
            if choice is not None and choice.alpha is not None:
                return solve_as_chosen(design, choice, seed, calibrated)
            alpha, held_out = self.alpha, None
            if choice is not None:
                held_out = choice.held_out
                if isinstance(alpha, str) and alpha == "auto":
                    alpha = choice.alpha_per_weight * source.total_weight
            if chosen.solver == "exact":
                return solve_exactly(design, alpha, self.tol, seed, calibrated, held_out)
            if chosen.solver == "direct":
                return solve_directly(design, alpha, seed, calibrated, held_out)
            return solve_iteratively(design, alpha, self.tol, seed, calibrated, held_out)

    def _choose(self, source: ArraySource, seed: int, budget: Budget) -> Choice | None:
        """The model learned from the data; None where the arguments or the number of rows leave nothing to learn."""
        features = self._wanted_features()
        if self.metric == "isotropic" or features is None:
            return None
        asked = self.metric != "auto" or features == "hybrid"
        columns, rows = self.encoder_.n_features_out_, source.n_rows
        fewest = FEWEST_ASKED_ROWS if asked else FEWEST_ROWS
        choice = None
        if columns <= MOST_LEARNED_COLUMNS and rows >= fewest:
            choice = self._search(source, features, fewest, seed, budget)
        if choice is None and asked:
            raise ValueError(
                f"metric={self.metric!r} with features={self.features!r} is learned from at least {fewest} distinct "
                f"rows and a fifth more to judge by, of at most {MOST_LEARNED_COLUMNS:,} encoded columns, on a target "
                f"that varies; there are {rows:,} rows, equal ones among them, and {columns:,} columns. Take "
                "metric='isotropic', and "
                "features='fourier' or 'binning'."
            )
        if choice is not None and choice.unmapped is not None:
            warnings.warn(
                f"metric='full' learned no linear map: {choice.unmapped}. The scales of the columns were learned, as "
                "by metric='ard'.",
                stacklevel=5,
            )
        return choice

    def _search(self, source: ArraySource, features: str, fewest: int, seed: int, budget: Budget) -> Choice | None:
        n_components = None if isinstance(self.n_components, str) else int(self.n_components)
        alphas = given_alphas(self.alpha)
        space = SearchSpace(features, self.metric, self.kernel, n_components, alphas, self.time_limit, fewest)
        with progress("Choosing the model", None, bool(self.verbose)):
            rows, groups = source.encoded(np.float32), self.encoder_.column_groups()
            problem = prepare(rows, groups, self._units(), space, is_classifier(self), seed, budget)
            return None if problem is None else choose(problem)

    def _wanted_features(self) -> str | None:
        """The maps that the arguments allow to be learned; None for none."""
        direct = self.solver in ("direct", "exact") or (isinstance(self.alpha, str) and self.alpha != "auto")
        if self.features in ("binning", "hybrid"):
            return self.features if self.kernel in ("auto", "laplacian") and not direct else None
        return "fourier" if direct or self.kernel != "auto" or self.features == "fourier" else "auto"

    def _dtype(self, n_rows: int, weight: NDArray | None) -> np.dtype:
        """Double precision where that costs a fraction of a second, or where single precision does not reach `tol`."""
        if self.solver == "exact":
            return np.dtype(np.float64)
        given = given_alphas(self.alpha)
        lost = given is not None and (self.tol < SINGLE_TOL_A_ROW * n_rows or given[0] < SINGLE_ALPHA_A_ROW * n_rows)
        if self.tol < SINGLE_TOL or lost:
            return np.dtype(np.float64)
        binned = not (isinstance(self.features, str) and self.features != "binning")
        columns = BINNED_WORK_COLUMNS if binned else self._n_components(n_rows, weight)
        return np.dtype(np.float64 if n_rows * columns**2 <= DOUBLE_PRECISION_WORK else np.float32)

    def _n_components(self, n_rows: int, weight: NDArray | None) -> int:
        if not isinstance(self.n_components, str):
            return int(self.n_components)
        if self.time_limit is not None and self.features != "binning":
            affordable = int(np.sqrt(DIRECT_RATE * self.time_limit / 4 / n_rows))
            return min(choose_n_components(n_rows, weight), max(affordable, SMALLEST))
        return choose_n_grids(n_rows) if self.features == "binning" else choose_n_components(n_rows, weight)

    def _solver(self, features: FeatureMap) -> str:
        """The solver as given, or the only one that the criterion for alpha or the weights of the maps allow."""
        criteria = isinstance(self.alpha, str) and self.alpha in ("gcv", "loo")
        if criteria and (self.solver == "cg" or not features.is_dense):
            why = "with solver='cg'" if self.solver == "cg" else "for bins, which have no such solver,"
            raise ValueError(f"alpha={self.alpha!r} needs the direct solver; {why} take alpha='auto'.")
        if self.solver == "auto" and features.learns_weights:
            return "cg"
        return "direct" if criteria and self.solver == "auto" else self.solver

    def _features(self, source: ArraySource, seed: int, budget: Budget) -> FeatureMap:
        """The map as it is given, or with a kernel that is, or with one lengthscale for all columns."""
        if not isinstance(self.features, str):
            return seeded(self.features, seed)
        kernel = self.kernel if isinstance(self.kernel, Kernel) else self._choose_kernel(source, seed, budget)
        return MAPS[self.features](kernel, self._n_components(source.n_rows, source.weights), random_state=seed)

    def _draw(self, features: FeatureMap, source: ArraySource, seed: int) -> Rows:
        """Draw a map for the encoded columns, and show it some rows; these."""
        self._check_lengthscales(features)
        features.draw(self.encoder_.n_features_out_)
        X, _, weight = source.sample(SCORED_ROWS, np.random.default_rng(seed)).whole()
        features.fit_sample(X, weight)
        return X

    def _check_lengthscales(self, features: FeatureMap) -> None:
        try:
            for part in getattr(features, "maps", [features]):
                if not isinstance(part, MetricFeatures) and isinstance(getattr(part, "kernel", None), Kernel):
                    part.kernel.check_features(self.encoder_.n_features_out_)
        except ValueError as error:
            names = ", ".join(self.encoder_.get_feature_names_out()[:20])
            raise ValueError(f"{error} These are, as encoded: {names}.") from None

    def _units(self) -> NDArray | None:
        """What one unit of each encoded column is in the unit of the input; None where not all are numbers."""
        numbers = [column for column in self.encoder_.columns_ if isinstance(column, NumberColumns)]
        whole = numbers and len(numbers[0].scale) == self.encoder_.n_features_out_
        return numbers[0].scale if whole else None

    def _choose_kernel(self, source: ArraySource, seed: int, budget: Budget) -> Kernel:
        with progress("Choosing the kernel", None, bool(self.verbose)):
            alphas, binned = given_alphas(self.alpha), self.features == "binning"
            quick = budget.limit is not None
            return choose_kernel(source, self.kernel, self._units(), alphas, seed, binned, quick)

    @single_threaded_blas()
    def _scores(self, X: Any) -> NDArray[np.float64]:
        """Fitted function at the rows of X, shape (n, K)."""
        check_is_fitted(self)
        X = self._rows(X, reset=False)
        encode = partial(self.encoder_.encode, dtype=self.coef_.dtype)
        source = ArraySource(X, np.empty((X.shape[0], 0)), None, encode)
        return Design(source, self.features_, self.coef_.dtype).predict(self.coef_, self.intercept_)

    def _rows(self, X: Any, *, reset: bool) -> Any:
        """X as a data frame or as a finite array or CSR matrix of real numbers, its columns checked."""
        if is_into_dataframe(X):
            check_frame(X)
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        refuse_unencoded(X)
        X = validate_data(self, X, reset=reset, accept_sparse="csr", dtype="numeric", ensure_all_finite=False)
        refuse_infinite(X)
        return X

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
