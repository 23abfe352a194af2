"""Regression with few targets and many rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_consistent_length

from bochner.arrays import Floats, Indices
from bochner.devices.conversion import any_arrays
from bochner.engines.algebra import binary_unit
from bochner.engines.blas import single_threaded_blas
from bochner.inputs.checks import refuse_infinite_target
from bochner.inputs.scoring import score_of_rows
from bochner.semisupervised.base import (
    SemiSupervised,
    checked_marks,
    measured,
    of_all_rows,
)
from bochner.semisupervised.smoothers import Smooth, Smoother
from bochner.sources.rowwise import rowwise
from bochner.sources.scan import TableSummary

# Of what ones have spread to, below which a row is in no part of the graph with a
# target
LEAST_SHARE = 1e-12


class SemiSupervisedRegressor(RegressorMixin, SemiSupervised):
    """Regression on rows of which few have a target, by a graph of all of them.

    The graph is that of `SemiSupervisedClassifier`. "spreading" spreads the targets,
    and the number one for each row with a target: (I - alpha S)^-1 [Y, 1]. The ratio of
    both is a mean of the targets that are near in the graph. "ridge" is least squares
    on the smoothest eigenvectors of the graph.

    Parameters
    ----------
    features : AnchorFeatures or "auto", default="auto"
        Landmarks of the graph. "auto" takes half as many as rows, between 100 and
        8,000, and connects each row to its three to eight nearest ones, as many as make
        the graph connected.
    method : {"auto", "spreading", "ridge"}, default="auto"
        "auto" is the method with the lowest leave-one-out squared error, which is
        computed exactly and without further fits.
    alpha : float or "auto", default="auto"
        How far targets spread, below 1. "auto" is 0.99.
    standardize : bool or "auto", default="auto"
        Whether to scale columns of numbers to unit variance. "auto" does so unless all
        columns share a unit, as pixels do.
    random_state : int, RandomState or None, default=None
        Seed of the landmarks.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    transduction_ : array of shape (n,) or (n, K), or None
        The target of each training row; None if the features of all rows take more than
        1 GB, or the number of rows was not known before they were read.
    method_ : {"spreading", "ridge"}
    method_scores_ : dict of str to float
        Leave-one-out squared error of each method that was tried, over the variance of
        the targets.
    features_ : AnchorFeatures
    feature_weights_ : array of shape (m, K), or (m, K + 1) by "spreading"
        Coefficients of the features.
    mean_, scale_ : arrays of shape (K,)
        Mean and standard deviation of the targets.
    n_labelled_ : int
    encoder_ : TableEncoder
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    ValueError, TypeError
        At fit: no targets, parameters out of range, infinite values.

    References
    ----------
    Zhou, Bousquet, Lal, Weston and Schoelkopf, "Learning with Local and Global
    Consistency", NIPS 2003, section 2.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import SemiSupervisedRegressor
    >>> t = np.random.default_rng(0).uniform(0, 10, 3000)
    >>> X = np.column_stack([t * np.cos(t), t * np.sin(t)])
    >>> y = np.where(np.arange(3000) < 60, t, np.nan)
    >>> model = SemiSupervisedRegressor(random_state=0).fit(X, y)
    >>> bool(np.sqrt(np.mean((model.transduction_ - t) ** 2)) < 0.5)
    True
    """

    # what goes with a call is no metadata of the rows
    __metadata_request__predict: ClassVar = {"out": UNUSED}
    score = score_of_rows

    @any_arrays
    @single_threaded_blas()
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> SemiSupervisedRegressor:
        """Fit the model.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or a source
        y : array of shape (n,) or (n, K), or name of a column, or names
            Targets; NaN and None mark rows without one. A row that lacks one of several
            targets counts as without.
        sample_weight : array of shape (n,) or str, optional
            Not negative. A weight of w counts as w equal rows do.
        groups : array of shape (n,) or str, optional
            To which group each row belongs, or the column of X that tells it, for rows
            in memory: the targets of a group are left out together where a method is
            chosen, so that it suits rows of new groups.

        Returns
        -------
        self
        """
        graph = self._fit_graph(X, y, sample_weight, groups)
        Y = graph.targets[:, :-1]
        weight = graph.weight
        self.mean_ = np.average(Y, axis=0, weights=weight)
        # Squares of tiny numbers would vanish
        unit = binary_unit(np.abs(Y).max(axis=0))
        squares = ((Y - self.mean_) / unit) ** 2
        deviation = np.sqrt(np.average(squares, axis=0, weights=weight)) * unit
        self.scale_ = np.where(deviation > 0, deviation, 1.0)
        for targets in (graph.targets, graph.given):
            targets[:, :-1] = (targets[:, :-1] - self.mean_) / self.scale_

        def judged(way: Smoother) -> tuple[float, Smooth]:
            """Squared error of targets left out, and the function."""
            smooth = way.fit(graph)
            out = smooth.left_out
            loss = np.inf
            if out is not None and len(graph.number) > 1:
                errors = (_ratio(out, way.name) - graph.targets[:, :-1]) ** 2
                loss = float(np.average(errors.mean(axis=1), weights=weight))
            return loss, smooth

        smooth = self._chosen(False, judged)
        self.feature_weights_, values = of_all_rows(graph, smooth)
        self.transduction_ = None if values is None else self._numbers(values)
        return self

    def _targets_given(self, y: Any) -> tuple[Indices, Floats]:
        """Numbers of the rows that have all of their targets, and these."""
        values = measured(checked_marks(y, self, "NaN"))
        rows = np.flatnonzero(values[:, -1])
        return rows, values[rows, :-1]

    def _checked_targets(self, X: Any, y: Any) -> NDArray:
        y = checked_marks(y, self, "NaN")
        try:
            y = y.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                "The target holds text; for classes use SemiSupervisedClassifier."
            ) from None
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        if y.ndim > 2:
            raise ValueError(f"y must have the shape (n,) or (n, K), got {y.shape}.")
        refuse_infinite_target(y)
        check_consistent_length(X, y)
        return y

    def _targets_of(self, seen: Any) -> Callable[[NDArray], NDArray]:
        """Take the number of targets of an array, or of an overview of a table."""
        y = seen.sample.y if isinstance(seen, TableSummary) else seen
        self._one_target = y.ndim == 1
        if not isinstance(seen, TableSummary) and not measured(y).any():
            several = y.ndim == 2 and bool(np.isfinite(y).any())
            raise ValueError(
                "No row has all of its targets: where they are known in other rows, "
                "fit a model for each of them."
                if several
                else "No row has a target, all are NaN: give some."
            )
        return measured

    def _numbers(self, function_values: NDArray) -> Floats:
        """Targets in their units."""
        values = _ratio(function_values, self.method_) * self.scale_ + self.mean_
        return values[:, 0] if self._one_target else values

    @rowwise("predicted")
    def predict(self, X: Any, *, out: Any = None) -> Any:
        """Predict targets, of new rows too.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or a source
        out : path-like, optional
            A Parquet or CSV file, by its name, that predictions are written to block by
            block.

        Returns
        -------
        array of shape (n,) or (n, K), or Path
        """
        return self._numbers(self._values(X))


def _ratio(function_values: NDArray, method: str) -> Floats:
    """Targets, of mean zero: what has spread over what ones have; or as they are."""
    values, share = function_values[:, :-1], function_values[:, -1:]
    if method != "spreading":
        return values
    zeros = np.zeros_like(values)
    return np.divide(values, share, out=zeros, where=share > LEAST_SHARE)
