"""What a regressor tells as a Gaussian process: deviations, and functions drawn from its posterior."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bochner.data.array_source import ArraySource
from bochner.design import Design
from bochner.engines.blas import single_threaded_blas
from bochner.engines.local import at_most
from bochner.estimators.base import KernelMachine
from bochner.estimators.posterior import Posterior
from bochner.estimators.posterior_fit import ScaleMap, refit_posterior
from bochner.estimators.ridge.error_scale import scale_map
from bochner.features.base import FeatureMap
from bochner.features.boundary import any_arrays
from bochner.inputs.checks import threads_of
from bochner.inputs.targets import Standardised
from bochner.inputs.training import encoded_source, rows_to_map
from bochner.selection.budget import Budget


class GaussianProcess(KernelMachine):
    """A regressor whose fit keeps the posterior."""

    posterior_: Posterior
    target_mean_: NDArray[np.float64]
    target_scale_: NDArray[np.float64]
    _one_target: bool

    @any_arrays
    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> NDArray[np.float64]:
        """Draw functions from the posterior and evaluate them, without the noise of targets.

        This uses pathwise conditioning (Wilson et al., 2020): whole functions are drawn, so the same seed gives values
        of the same functions at other rows.

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
            If the model was fitted without ``uncertainty=True``, or `n_samples` is not positive.

        References
        ----------
        Wilson, Borovitskiy, Terenin, Mostowsky and Deisenroth, "Efficiently Sampling Functions from Gaussian Process
        Posteriors", ICML 2020 (arXiv:2002.09309); "Pathwise Conditioning of Gaussian Processes", JMLR 2021
        (arXiv:2011.04026).

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from bochner import KernelMachineRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = KernelMachineRegressor(uncertainty=True, random_state=0).fit(X[:350], y[:350])
        >>> functions = model.sample_y(X[350:], n_samples=3, random_state=0)
        >>> functions.shape, bool((functions[:5] == model.sample_y(X[350:355], 3, random_state=0)).all())
        ((92, 3), True)
        """
        posterior = self._posterior()
        if not isinstance(n_samples, Integral) or isinstance(n_samples, bool):
            raise TypeError(f"n_samples must be an integer, got {n_samples!r:.200}.")
        if n_samples < 1:
            raise ValueError(f"n_samples must be positive, got {n_samples}.")
        seed = int(check_random_state(random_state).randint(2**31))
        with single_threaded_blas():
            mean = self._scores(X)
            rows = self._encoded(X)
            drawn = posterior.sample(self.features_, rows, n_samples, np.random.default_rng(seed))
        drawn += mean[:, :, np.newaxis]
        drawn = drawn * self.target_scale_[:, np.newaxis] + self.target_mean_[:, np.newaxis]
        return drawn[:, 0] if self._one_target else drawn

    def _posterior_again(
        self, X: Any, y: NDArray[np.float64], weights: NDArray[np.float64] | None, targets: Standardised
    ) -> Posterior:
        """The posterior for other rows; the noise is that of the fit."""
        source = encoded_source(self.encoder_, X, y, weights, self.coef_.dtype, targets)
        design, seed = Design(source, self.features_, self.coef_.dtype), check_random_state(self.random_state)
        units = self.target_scale_ / targets.scale
        scale = self._scale_map(Budget())
        return refit_posterior(design, self._posterior(), units, int(seed.randint(2**31)), scale)

    def _scale_map(self, budget: Budget) -> ScaleMap:
        """How to choose the map of the size of errors: that of the intervals, where these have one."""
        spread = getattr(self, "spread_", None)

        def choose(rows: ArraySource) -> FeatureMap:
            own = None if spread is None else spread.features
            return own or scale_map(rows, self.encoder_.column_groups(), 0, budget)

        return choose

    def _deviations(self, X: Any, n_jobs: int | None) -> NDArray[np.float64]:
        """Standard deviations of new targets, of the shape of predictions."""
        posterior = self._posterior()
        with single_threaded_blas(), at_most(threads_of(n_jobs)):
            function, noise = posterior.variances(self.features_, self._encoded(X))
        std = np.sqrt(function + noise) * self.target_scale_
        return std[:, 0] if self._one_target else std

    def _encoded(self, X: Any) -> Any:
        """Rows as the map takes them."""
        return rows_to_map(self.encoder_, self._rows(X, reset=False), self.coef_.dtype).whole().X

    def _posterior(self) -> Posterior:
        check_is_fitted(self)
        if not hasattr(self, "posterior_"):
            raise ValueError(
                "Standard deviations and samples need a posterior: fit with uncertainty=True or 'std', as in "
                "KernelMachineRegressor(uncertainty=True)."
            )
        return self.posterior_
