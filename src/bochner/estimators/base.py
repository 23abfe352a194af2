"""What the regressor and the classifier share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral
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
from bochner.design import Design, require_moments_memory
from bochner.engines.progress import progress, say
from bochner.estimators.checks import refuse_infinite, refuse_unencoded
from bochner.estimators.solving import SCORED_ROWS, given_alphas, solve_directly, solve_iteratively
from bochner.features import BinningFeatures, FourierFeatures
from bochner.features.base import FeatureMap, KernelParameter
from bochner.features.concatenate import seeded
from bochner.kernels import Kernel
from bochner.kernels.base import check_positive
from bochner.tuning.bandwidth import NAMED, choose_kernel
from bochner.tuning.cost import plan
from bochner.tuning.held_out import OutOfSample
from bochner.tuning.size import choose_n_components, choose_n_grids

MAPS: dict[str, Callable[..., FeatureMap]] = {
    "auto": FourierFeatures,
    "fourier": FourierFeatures,
    "binning": BinningFeatures,
}
CHOICES = {
    "features": tuple(MAPS),
    "metric": ("auto", "isotropic"),
    "loss": ("squared",),
    "solver": ("auto", "direct", "cg"),
}
NAMES = {"direct": "the Gram matrix", "cg": "conjugate gradients"}
CRITERIA = ("auto", "gcv", "loo")
DOUBLE_PRECISION_WORK = 3e10
BINNED_WORK_COLUMNS = 1000


class KernelMachine(KernelParameter):
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
        self.random_state = random_state
        self.verbose = verbose

    def _fit(
        self, X: Any, y: NDArray, weight: NDArray | None, targets: Callable[[NDArray], NDArray]
    ) -> tuple[NDArray, OutOfSample | None]:
        """Fit the columns of ``targets(y)`` on checked X.

        Everything but `coef_` is set, which makes the model a fitted one. Returns it and, for classifiers, predictions
        for rows by a model that has not seen them.
        """
        seed = int(check_random_state(self.random_state).randint(2**31))
        named = not isinstance(self.features, FeatureMap) and not isinstance(self.kernel, Kernel)
        self.encoder_ = TableEncoder(with_std=named).fit(X, sample_weight=weight)
        if not self.encoder_.n_features_out_:
            raise ValueError("X has no value in any row of any column.")
        dtype = self._dtype(len(y), weight)
        source = ArraySource(X, y, weight, partial(self.encoder_.encode, dtype=dtype), targets)
        self.encoder_.forget_categories()
        self.features_ = self._draw(source, seed)
        self.kernel_ = getattr(self.features_, "kernel", None)
        chosen = plan(self._solver(self.features_), self.features_, len(y), given_alphas(self.alpha) is None)
        self.solver_, self.solver_reason_ = chosen
        say(f"Solving by {NAMES[chosen.solver]}: {chosen.reason}.", bool(self.verbose))
        if chosen.solver == "direct":
            require_moments_memory(self.features_.n_features_out, source.n_outputs, dtype)
        passes = len(y) if chosen.solver == "direct" else None  # iterations are not known beforehand
        with progress("Fitting", passes, bool(self.verbose)) as advance:
            design = Design(source, self.features_, dtype, advance)
            calibrated = is_classifier(self)
            if chosen.solver == "direct":
                fitted = solve_directly(design, self.alpha, seed, calibrated)
            else:
                fitted = solve_iteratively(design, self.alpha, self.tol, seed, calibrated)
        self.features_.caution()
        self.alpha_, self.alphas_, self.alpha_scores_ = fitted.alpha, fitted.alphas, fitted.scores
        self.n_iter_, self.residual_ = fitted.n_iter, fitted.residual
        self.intercept_ = fitted.intercept
        return fitted.coef, fitted.unseen

    def _dtype(self, n_rows: int, weight: NDArray | None) -> np.dtype:
        """Double precision where that costs a fraction of a second."""
        binned = not (isinstance(self.features, str) and self.features != "binning")
        columns = BINNED_WORK_COLUMNS if binned else self._n_components(n_rows, weight)
        return np.dtype(np.float64 if n_rows * columns**2 <= DOUBLE_PRECISION_WORK else np.float32)

    def _n_components(self, n_rows: int, weight: NDArray | None) -> int:
        if not isinstance(self.n_components, str):
            return int(self.n_components)
        return choose_n_grids(n_rows) if self.features == "binning" else choose_n_components(n_rows, weight)

    def _solver(self, features: FeatureMap) -> str:
        """The solver as given, or the only one that the criterion for alpha or the weights of the maps allow."""
        criteria = isinstance(self.alpha, str) and self.alpha in ("gcv", "loo")
        if criteria and (self.solver == "cg" or not features.is_dense):
            why = "with solver='cg'" if self.solver == "cg" else "for bins, which have no such solver,"
            raise ValueError(f"alpha={self.alpha!r} needs the direct solver; {why} take alpha='auto'.")
        if self.solver == "auto" and features.learns_weights:
            return "cg"
        return "direct" if criteria else self.solver

    def _draw(self, source: ArraySource, seed: int) -> FeatureMap:
        """The map, drawn for the encoded columns, its kernel chosen where that is open."""
        if isinstance(self.features, FeatureMap):
            features = seeded(self.features, seed)
        else:
            kernel = self.kernel if isinstance(self.kernel, Kernel) else self._choose_kernel(source, seed)
            size = self._n_components(source.n_rows, source.weight)
            features = MAPS[self.features](kernel, size, random_state=seed)
        self._check_lengthscales(features)
        features.draw(self.encoder_.n_features_out_)
        ((X, _, weight),) = source.sample(SCORED_ROWS, np.random.default_rng(seed)).blocks(SCORED_ROWS)
        features.observe(X, weight)
        return features

    def _check_lengthscales(self, features: FeatureMap) -> None:
        try:
            for part in getattr(features, "maps", [features]):
                if isinstance(getattr(part, "kernel", None), Kernel):
                    part.kernel.check_features(self.encoder_.n_features_out_)
        except ValueError as error:
            names = ", ".join(self.encoder_.get_feature_names_out()[:20])
            raise ValueError(f"{error} These are, as encoded: {names}.") from None

    def _choose_kernel(self, source: ArraySource, seed: int) -> Kernel:
        numbers = [column for column in self.encoder_.columns_ if isinstance(column, NumberColumns)]
        whole = numbers and len(numbers[0].scale) == self.encoder_.n_features_out_
        scales = numbers[0].scale if whole else None
        with progress("Choosing the kernel", None, bool(self.verbose)):
            alphas, binned = given_alphas(self.alpha), self.features == "binning"
            return choose_kernel(source, self.kernel, scales, alphas, seed, binned)

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
        self._check_parameters()

    def _check_parameters(self) -> None:
        named = isinstance(self.kernel, str) and self.kernel in ("auto", *NAMED)
        if not isinstance(self.kernel, Kernel) and not named:
            raise ValueError(f"kernel must be a Kernel, 'auto' or one of {sorted(NAMED)}, got {self.kernel!r}.")
        if isinstance(self.features, FeatureMap) and self.kernel != "auto":
            raise ValueError("features is a map with a kernel of its own: leave kernel='auto'.")
        for name, allowed in CHOICES.items():
            value = getattr(self, name)
            if name == "features" and isinstance(value, FeatureMap):
                continue
            if not isinstance(value, str) or value not in allowed:
                raise ValueError(f"{name} must be one of {allowed}, got {value!r}.")
        D = self.n_components
        if not (D == "auto" if isinstance(D, str) else isinstance(D, Integral) and not isinstance(D, bool)):
            raise TypeError(f"n_components must be an integer or 'auto', got {D!r}.")
        if not isinstance(D, str) and D < 1:
            raise ValueError(f"n_components must be positive, got {D}.")
        check_positive(self.tol, "tol")
        self._check_alpha()

    def _check_alpha(self) -> None:
        if isinstance(self.alpha, str):
            if self.alpha not in CRITERIA:
                raise ValueError(f"alpha must be a positive number, a sequence of them, or one of {CRITERIA}.")
            return
        alphas = np.atleast_1d(np.asarray(self.alpha))
        if alphas.dtype.kind not in "iuf" or alphas.ndim > 1 or alphas.size == 0:
            raise TypeError(f"alpha must be a positive number, a sequence of them, or one of {CRITERIA}.")
        if not np.all((alphas > 0) & np.isfinite(alphas)):
            raise ValueError(f"alpha must be positive and finite, got {self.alpha!r}.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
