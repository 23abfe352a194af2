"""Regression whose rows come in parts, or are read in passes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from bochner.data.table_statistic import Summary
from bochner.engines.blas import single_threaded_blas
from bochner.estimators.ridge import Fitted
from bochner.estimators.streamed import StreamedMachine
from bochner.features.boundary import any_arrays
from bochner.inputs.targets import Standardised
from bochner.inputs.training import encoded_source, given, given_batch
from bochner.selection.budget import Budget
from bochner.selection.choose import Choice
from bochner.sources.scan import TableSummary

CheckedTarget = tuple[NDArray[np.float64], NDArray[np.float64] | None, NDArray[np.float64], NDArray[np.float64]]


def mean_and_scale(moments: Summary) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and deviations of targets; ValueError where they are too large to be standardised."""
    scale = np.sqrt(moments.squares / moments.weight)
    if not np.isfinite(scale).all():
        raise ValueError("The target holds values too large to standardise: divide it by a constant.")
    scale = np.where(scale > 0, scale, moments.high - moments.low)  # squares of tiny values vanish
    scale[moments.low == moments.high] = 1.0
    return moments.mean, scale


class NumbersInParts(StreamedMachine):
    """What a regressor does with rows that come in parts."""

    target_mean_: NDArray[np.float64]
    target_scale_: NDArray[np.float64]
    _one_target: bool

    @abstractmethod
    def _checked_target(self, X: Any, y: Any, sample_weight: Any) -> CheckedTarget:
        """Targets, weights, and the targets' means and deviations."""

    @abstractmethod
    def _keep_scale(self, y: NDArray, mean: NDArray, scale: NDArray) -> None:
        """Keep how predictions become targets."""

    @any_arrays
    def prepare(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Select everything but the coefficients on a sample of the rows, before `partial_fit` adds all rows.

        The encoder, the scale of the targets, the kernel or learned metric and the draws of the map are then fixed. The
        features are Fourier features, or hashed bins. At most 4,096 rows of the sample are kept to select alpha; they
        are not part of the sums.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`; from a source that is larger than memory a sample is drawn.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If the parameters need all rows at once: another loss than the squared one, standard deviations,
            solver="exact", alpha="loo", or a map whose columns are sparse and too many.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import KernelMachineRegressor
        >>> X = np.random.default_rng(0).uniform(size=(3000, 2))
        >>> y = np.sin(4 * X[:, 0]) + X[:, 1]
        >>> model = KernelMachineRegressor(random_state=0).prepare(X[:1000], y[:1000])
        >>> for first in range(0, 3000, 500):
        ...     model = model.partial_fit(X[first : first + 500], y[first : first + 500])
        >>> bool(model.score(X, y) > 0.99)
        True
        """
        self._begin()
        self._refuse("rows that come in batches")
        X, y, sample_weight, stream = given(X, y, sample_weight)
        if stream is not None:
            rows, _ = self._seen(stream, self._look(stream), "summed")
        else:
            X = self._rows(X, reset=True)
            y, weight, mean, scale = self._checked_target(X, y, sample_weight)
            rows = self._prepare(X, y, weight, Standardised(mean, scale))._replace(way="summed")
            self._keep_scale(y, mean, scale)
        self._prepare_sums(rows)
        return self

    @available_if(StreamedMachine._can_sum)
    @any_arrays
    @single_threaded_blas()
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to the fit, with the same result as if all had come at once.

        On the first call everything else is selected on these rows, unless `prepare` has been called; where they are
        fewer than 256, again whenever the number of rows has doubled, until there are 256. A model that is saved before
        then holds these rows. The coefficients are computed at first use.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d)
        y : array of shape (n,) or (n, K), or str
        sample_weight : array of shape (n,) or str, optional

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As in `prepare`; if columns or targets differ from those of the first rows.

        Warns
        -----
        UserWarning
            After `fit`, which keeps no sums: the fit starts again with these rows.
        """
        self._started()
        X, y, sample_weight = given_batch(X, y, sample_weight)
        X, y, sample_weight = self._with_first(X, y, sample_weight)
        X = self._rows(X, reset=False)
        y, weight, mean, _ = self._checked_target(X, y, sample_weight)
        self._check_targets(y, mean)
        if self._first is None:
            self._caution_ignored(X, weight, "prepare")
        targets = Standardised(self.target_mean_, self.target_scale_)
        return self._add(encoded_source(self.encoder_, X, y, weight, np.float64, targets))

    def _targets_of(self, overview: TableSummary) -> Standardised:
        assert overview.targets is not None
        mean, scale = mean_and_scale(overview.targets)
        self._keep_scale(overview.sample.y, mean, scale)
        return Standardised(mean, scale)

    def _keep_solution(self, fitted: Fitted, choice: Choice | None) -> None:
        self._take(fitted, choice)
        self.spread_ = self._spread_by(fitted.calibration, Budget())
        self.coef_ = fitted.coef

    def _check_targets(self, y: NDArray, mean: NDArray) -> None:
        """Raise ValueError where there are others than in the first rows."""
        if len(mean) != len(self.target_mean_) or (y.ndim == 1) != self._one_target:
            raise ValueError(f"The model was fitted to {len(self.target_mean_)} targets, and y has shape {y.shape}.")
