"""What the regressor and the classifier share."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from narwhals.dependencies import is_into_dataframe
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from bochner.data.sources import ArraySource
from bochner.data.table import TableEncoder, check_frame
from bochner.data.table_encodings import NumberColumns
from bochner.design import Design, require_moments_memory
from bochner.engines.progress import progress
from bochner.estimators.checks import refuse_infinite, refuse_unencoded
from bochner.features import FourierFeatures
from bochner.features.base import KernelParameter
from bochner.kernels import Kernel
from bochner.moments import Moments
from bochner.solvers.ridge import LeaveOneOut, Score, alpha_bounds, best_alpha, choose_alpha, factorise
from bochner.tuning.bandwidth import NAMED, choose_kernel
from bochner.tuning.size import choose_n_components

CHOICES = {"features": ("auto", "fourier"), "metric": ("auto", "isotropic"), "loss": ("squared",)}
CRITERIA = ("auto", "gcv", "loo")
SCORED_ROWS = 4096
DOUBLE_PRECISION_WORK = 3e10


class KernelMachine(KernelParameter):
    """Ridge regression on random features, with whatever is left open chosen from the data."""

    def __init__(
        self,
        kernel: Kernel | str = "auto",
        features: str = "auto",
        n_components: int | str = "auto",
        metric: str = "auto",
        alpha: Any = "auto",
        loss: str = "squared",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.features = features
        self.n_components = n_components
        self.metric = metric
        self.alpha = alpha
        self.loss = loss
        self.random_state = random_state
        self.verbose = verbose

    def _fit(
        self, X: Any, y: NDArray, weight: NDArray | None, targets: Callable[[NDArray], NDArray]
    ) -> tuple[NDArray, LeaveOneOut]:
        """Fit the columns of ``targets(y)`` on checked X.

        Everything but `coef_` is set, which makes the model a fitted one. Returns it, and the leave-one-out of the
        scored rows.
        """
        seed = int(check_random_state(self.random_state).randint(2**31))
        rows = len(y)
        D = choose_n_components(rows, weight) if isinstance(self.n_components, str) else int(self.n_components)
        dtype = np.dtype(np.float64 if rows * D**2 <= DOUBLE_PRECISION_WORK else np.float32)
        require_moments_memory(D, targets(y[:1]).shape[1], dtype)
        self.encoder_ = TableEncoder(with_std=not isinstance(self.kernel, Kernel)).fit(X, sample_weight=weight)
        if not self.encoder_.n_features_out_:
            raise ValueError("X has no value in any row of any column.")
        source = ArraySource(X, y, weight, partial(self.encoder_.encode, dtype=dtype), targets)
        self.encoder_.forget_categories()
        self.kernel_ = self.kernel if isinstance(self.kernel, Kernel) else self._choose_kernel(source, seed)
        self._check_lengthscales()
        self.features_ = FourierFeatures(self.kernel_, D, random_state=seed).draw(self.encoder_.n_features_out_)
        with progress("Fitting", len(y), bool(self.verbose)) as advance:
            moments = Design(source, self.features_, dtype, advance).moments()
        scored = source
        if not (isinstance(self.alpha, str) and self.alpha == "loo" and rows > SCORED_ROWS):
            scored = source.sample(SCORED_ROWS, np.random.default_rng(seed)).distinct()
        loo = self._solve(moments, Design(scored, self.features_, dtype))
        coef = loo.factor.coef(self.alpha_).astype(dtype)
        self.intercept_ = loo.factor.intercept(coef)
        return coef, loo

    def _check_lengthscales(self) -> None:
        try:
            self.kernel_.check_features(self.encoder_.n_features_out_)
        except ValueError as error:
            names = ", ".join(self.encoder_.get_feature_names_out()[:20])
            raise ValueError(f"{error} These are, as encoded: {names}.") from None

    def _choose_kernel(self, source: ArraySource, seed: int) -> Kernel:
        numbers = [column for column in self.encoder_.columns_ if isinstance(column, NumberColumns)]
        whole = numbers and len(numbers[0].scale) == self.encoder_.n_features_out_
        scales = numbers[0].scale if whole else None
        with progress("Choosing the kernel", None, bool(self.verbose)):
            return choose_kernel(source, self.kernel, scales, self._given_alphas(), seed)

    def _given_alphas(self) -> NDArray | None:
        return None if isinstance(self.alpha, str) else np.unique(np.asarray(self.alpha, dtype=np.float64))

    def _solve(self, moments: Moments, scored: Design) -> LeaveOneOut:
        """Factorise the moments, and set alpha as it is given or as its criterion chooses it."""
        given = self._given_alphas()
        factor = factorise(moments, 2 if given is None else len(given))
        loo = LeaveOneOut(scored, factor)
        score: Score = factor.gcv if isinstance(self.alpha, str) and self.alpha == "gcv" else loo
        self.alpha_scores_: NDArray | None = None
        if given is None:
            self.alpha_, self.alphas_, self.alpha_scores_ = choose_alpha(factor, score, alpha_bounds(moments))
        elif len(given) == 1:
            self.alpha_, self.alphas_ = float(given[0]), given
        else:
            self.alphas_, self.alpha_scores_ = given, score(given)
            self.alpha_ = best_alpha(given, self.alpha_scores_)
        return loo

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
        for name, allowed in CHOICES.items():
            value = getattr(self, name)
            if not isinstance(value, str) or value not in allowed:
                raise ValueError(f"{name} must be one of {allowed}, got {value!r}.")
        D = self.n_components
        if not (D == "auto" if isinstance(D, str) else isinstance(D, Integral) and not isinstance(D, bool)):
            raise TypeError(f"n_components must be an integer or 'auto', got {D!r}.")
        if not isinstance(D, str) and D < 1:
            raise ValueError(f"n_components must be positive, got {D}.")
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
