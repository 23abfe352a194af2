"""Kernel regression of rows that arrive one after another."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.metadata_routing import UNUSED

from bochner.data.table_statistic import TableStatistic
from bochner.data.weights import checked_weight
from bochner.devices.conversion import any_arrays
from bochner.estimators.regressor import mean_and_scale
from bochner.inputs.checks import checked_numbers
from bochner.inputs.targets import Standardised
from bochner.inputs.training import given
from bochner.online.base import Labelled, OnlineKernelMachine
from bochner.sources.rowwise import rowwise, rowwise_score


class OnlineKernelRegressor(RegressorMixin, OnlineKernelMachine):
    """Kernel ridge regression of rows that arrive one after another, with optional forgetting of old rows.

    After n rows with weights s_i it is the solution of

        min_w  sum_i f^(n - i) s_i (y_i - b - z(x_i)'w)^2 + alpha ||w||^2,

    with z random Fourier features and f the forgetting factor. With f = 1 this is the solution of
    `KernelMachineRegressor` for all rows, for any division into batches. The algorithm is recursive least squares in
    blocks: sums of products decay by f^b with b new rows, and are factorised once for a block, so that a row costs
    O(D^2). The ridge penalty does not decay (`bochner.online.base`).

    Parameters
    ----------
    kernel : "auto", name of a kernel, or Kernel, default="auto"
        The lengthscale of a given kernel is in the units of the columns. Otherwise it is chosen by the leave-one-out
        error of the first batch; "auto" also chooses between a Gaussian and a Laplacian kernel. With forgetting, only
        as many rows of the batch are used as are remembered.
    features : {"fourier"} or map to dense features, default="fourier"
        A map is copied. With a map or a `Kernel` object, columns are centred and not scaled.
    n_components : int, default=500
        Number D of Fourier features.
    alpha : float, default=0.1
        Ridge penalty, for a sum over rows of features of length one: about the variance of the noise over that of the
        function.
    forgetting : float, default=1.0
        Factor f on the weights of earlier rows with each new one; 1 forgets nothing.
    half_life : float, optional
        Rows after which a weight is halved, instead of `forgetting`: f = 0.5^(1 / half_life).
    block_size : int, default=256
        Rows after which the equations are solved again, for the scores over time. Rows that arrive one by one are
        buffered until there are this many, or until the model is used.
    random_state : int, RandomState or None, default=None
        Seed of the features.

    Attributes
    ----------
    encoder_ : TableEncoder
        How columns become numbers, by the first batch.
    features_ : FeatureMap
    kernel_ : Kernel or None
    target_mean_, target_scale_ : arrays of shape (K,)
        Of the first batch.
    feature_weights_ : array of shape (D, K)
        For standardised targets, for all rows so far.
    intercept_ : array of shape (K,)
    n_rows_ : int
    score_history_ : array of shape (m, 2)
        Rows so far, and the score of the latest ones before they were learned: 1 minus the mean squared error over the
        variance of the target in the first batch, averaged over targets. At most 512 entries; beyond that, pairs of
        entries are merged.
    prequential_score_ : float
        The same for all rows that were predicted before they were learned.
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    ValueError, TypeError
        At fit: parameters out of range; infinite values; negative weights; a missing target; a map
        whose features are sparse, or whose weights are learned.
    NotFittedError
        At predict and the attributes of the solution, before there are rows.

    See Also
    --------
    KernelMachineRegressor : Chooses alpha and D too, and learns a metric, if all rows are available.

    Notes
    -----
    The first batch fixes the scales of columns and target, the kernel and the features. If it has fewer than 256 rows,
    they are fixed again whenever the number of rows has doubled, until there are 256. A column that is constant in the
    rows that fix the scales stays ignored: call `prepare` with a sample in which it varies.

    With forgetting, time is counted in rows, whatever their weights are. A prediction after each single row costs a
    factorisation each time, O(D^3); predictions in blocks do not.

    References
    ----------
    Haykin, "Adaptive Filter Theory" (recursive least squares, forgetting). Rahimi and Recht, "Random Features for
    Large-Scale Kernel Machines", NIPS 2007. Gama, Sebastiao and Rodrigues, "On Evaluating Stream Learning
    Algorithms", Machine Learning 2013 (predict, then learn).

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import OnlineKernelRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(6000, 1))
    >>> y = np.sin(2 * X[:, 0] + np.arange(6000) / 3000)  # which drifts
    >>> model = OnlineKernelRegressor(half_life=100, random_state=0)
    >>> for first in range(0, 6000, 500):
    ...     model = model.partial_fit(X[first : first + 500], y[first : first + 500])
    >>> bool(model.prequential_score_ > 0.9), model.score_history_.shape[1]
    (True, 2)
    """

    # what goes with a call is no metadata of the rows
    __metadata_request__predict: ClassVar = {"n_jobs": UNUSED, "out": UNUSED}
    score = rowwise_score

    target_mean_: NDArray[np.float64]
    target_scale_: NDArray[np.float64]
    _one_target: bool

    @any_arrays
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> OnlineKernelRegressor:
        """Forget everything, and learn from rows in their order: `partial_fit` from the beginning.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or what `bochner.open_source` opens
            All rows in memory are one batch; a larger source is read once, batch by batch, in its order.
        y : array of shape (n,) or (n, K), or str or list of str
            Targets, or the columns of X that hold them.
        sample_weight : array of shape (n,) or str, optional
            Non-negative. Without forgetting a weight of w counts as w equal rows.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)

    @any_arrays
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> OnlineKernelRegressor:
        """Learn from the next rows, the last of which is the newest.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`; columns and number of targets as in the first batch.

        Returns
        -------
        self
        """
        if self._sums is None:
            self._begin()
        self._learn_all(given(X, y, sample_weight))
        return self

    @any_arrays
    def prepare(self, X: Any, y: Any = None, sample_weight: Any = None) -> OnlineKernelRegressor:
        """Fix the scales, the kernel and the features by a sample of the rows, from which nothing else is learned.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`; a source must fit into memory.

        Returns
        -------
        self
        """
        return self._prepare(X, y, sample_weight)

    @rowwise("predicted")
    def predict(self, X: Any, n_jobs: int | None = None, *, out: Any = None) -> Any:
        """Predict targets by all rows so far.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or what `bochner.open_source` opens
        n_jobs : int or None, default=None
            Maximum number of threads. The result does not depend on it.
        out : path-like, optional
            A Parquet or CSV file, by its name, that predictions are written to block by block.

        Returns
        -------
        array of shape (n,) or (n, K), or Path
        """
        scores = self._scores(X, n_jobs)
        found = self._targets().inverse(scores)
        return found[:, 0] if self._one_target else found

    def _labelled(self, X: Any, y: Any, sample_weight: Any, classes: Any) -> Labelled:
        y = checked_numbers(self, X, y, "OnlineKernelClassifier")
        known = getattr(self, "target_mean_", None)
        if known is not None and (y[:1].size != len(known) or (y.ndim == 1) != self._one_target):
            raise ValueError(f"The model was fitted to {len(known)} targets, and y has shape {y.shape}.")
        return Labelled(X, y, checked_weight(sample_weight, X))

    def _fix_targets(self, y: NDArray, weight: NDArray | None) -> None:
        moments = TableStatistic.of(y.reshape(len(y), -1), weight).summary
        self.target_mean_, self.target_scale_ = mean_and_scale(moments)
        self._one_target = y.ndim == 1

    def _targets(self) -> Standardised:
        return Standardised(self.target_mean_, self.target_scale_)

    def _losses(self, scores: NDArray, targets: NDArray, weight: NDArray) -> NDArray:
        return np.square(scores - targets).mean(axis=1)
