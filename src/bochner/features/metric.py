"""Learned coordinates of the rows, and features of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_array, check_is_fitted

from bochner.arrays import Floats
from bochner.blocks import BLOCK_ENTRIES, BLOCK_ROWS, SAMPLE_ROWS
from bochner.data.columns import column_names
from bochner.data.table_input import checked_sparse
from bochner.devices.conversion import any_arrays
from bochner.engines.algebra import product
from bochner.engines.local import for_rows
from bochner.features.base import Cached, Centres, DenseFeatures, FeatureMap, Rows
from bochner.features.stored import Stored
from bochner.features.structured import of_shapes
from bochner.kernels import Kernel
from bochner.markup import cut_named, percent, table

if TYPE_CHECKING:
    from bochner.display import MetricDisplay

MOST_SHOWN = 20  # columns in a notebook


class Metric(Cached):
    """A learned metric: coordinates of the columns, some warped or mixed, that share
    one lengthscale.

    Coordinate i of a row x is scale_i x_j with j = source_i, or w_i(x_j) with a
    monotone piecewise linear w_i. If there is a linear map, it replaces the first q
    coordinates. A kernel of the distance between coordinates is a kernel of a learned
    distance between rows. `bochner.selection.learn_metric` learns metrics.

    Parameters
    ----------
    n_features_in : int
        Number d of columns of the rows.
    source : int array of shape (m,)
        Column of each coordinate. A column may have several coordinates, or none if it
        is irrelevant.
    scale : array of shape (m,)
    warped : int array of shape (w,)
        Coordinates with a warp instead of a scale.
    knots, levels : arrays of shape (w, k)
        The warps: levels at rising knots, the last knot repeated if there are fewer.
    slopes : array of shape (w,)
        Slopes of the warps beyond their knots.
    linear : array of shape (r, q), optional
    relevance : array of shape (d,), optional
        Share of each column in the mean distance of two rows.

    Attributes
    ----------
    n_features_in_, n_features_out_ : int
    relevance_ : array of shape (d,)
    names_ : tuple of d str, or None
        Names of the columns, of a metric that an estimator has learned.

    Examples
    --------
    The first column scaled, the last one warped, and the second one left out:

    >>> from bochner.features import Metric
    >>> warp = {
    ...     "warped": [1],
    ...     "knots": [[0.0, 1.0]],
    ...     "levels": [[0.0, 4.0]],
    ...     "slopes": [0.5],
    ... }
    >>> metric = Metric(3, source=[0, 2], scale=[10.0, 1.0], **warp)
    >>> metric.transform([[0.1, 7.0, 0.5], [0.2, 8.0, 3.0]])
    array([[1., 2.],
           [2., 5.]])
    """

    names_: tuple[str, ...] | None = None

    def __init__(
        self,
        n_features_in: int,
        source: ArrayLike,
        scale: ArrayLike,
        *,
        warped: ArrayLike = (),
        knots: ArrayLike = (),
        levels: ArrayLike = (),
        slopes: ArrayLike = (),
        linear: ArrayLike | None = None,
        relevance: ArrayLike | None = None,
    ) -> None:
        self.n_features_in_ = int(n_features_in)
        self.source_ = np.asarray(source, np.int64)
        self.scale_ = np.asarray(scale, np.float64)
        self.warped_ = np.asarray(warped, np.int64)
        self.slopes_ = np.asarray(slopes, np.float64)
        shape = (len(self.warped_), -1) if len(self.warped_) else (0, 0)
        self.knots_ = np.asarray(knots, np.float64).reshape(shape)
        self.levels_ = np.asarray(levels, np.float64).reshape(shape)
        linear = np.empty((0, 0)) if linear is None else linear
        self.linear_ = np.asarray(linear, np.float64)
        relevance = np.zeros(self.n_features_in_) if relevance is None else relevance
        self.relevance_ = np.asarray(relevance, np.float64)

    @property
    def n_features_out_(self) -> int:
        """Number of coordinates."""
        return len(self.source_) - self.linear_.shape[1] + len(self.linear_)

    def named(self, names: Iterable[str]) -> Metric:
        """Return a copy that shows columns by their names.

        Parameters
        ----------
        names : iterable of d str

        Returns
        -------
        Metric

        Examples
        --------
        >>> from bochner.features import Metric
        >>> Metric(2, [0, 1], [1.0, 2.0]).named(["age", "pay"]).names_
        ('age', 'pay')
        """
        metric = copy(self)
        metric.names_ = tuple(names)
        return metric

    def __repr__(self) -> str:
        warped = f", {len(self.warped_)} warped" if len(self.warped_) else ""
        mixed = f", {self.linear_.shape[1]} mixed" if self.linear_.size else ""
        return (
            f"<Metric: {self.n_features_out_} coordinates of "
            f"{self.n_features_in_} columns{warped}{mixed}>"
        )

    def _repr_html_(self) -> str:
        d = self.n_features_in_
        first = np.argsort(-self.relevance_, kind="stable")[:MOST_SHOWN]
        coordinates = np.bincount(self.source_, minlength=d)
        warped = np.bincount(self.source_[self.warped_], minlength=d)
        names = column_names(self.names_, d)
        rows = [
            (names[j], percent(self.relevance_[j]), int(coordinates[j]), int(warped[j]))
            for j in first
        ]
        caption = f"Metric: {self.n_features_out_} coordinates of {d} columns"
        if self.linear_.size:
            caption += f", {self.linear_.shape[1]} of them mixed by a linear map"
        if len(first) < d:
            caption += f", the {len(first)} most relevant columns"
        head = ("column", "relevance", "coordinates", "warped")
        return table(caption, head, cut_named(rows))

    @any_arrays
    def transform(self, X: Any) -> Rows:
        """Compute the coordinates.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d)
            float32 gives float32, everything else float64. Sparse rows stay sparse;
            warps need dense rows.

        Returns
        -------
        array or CSR matrix of shape (n, n_features_out_)
        """
        X = check_array(
            checked_sparse(X), accept_sparse="csr", dtype=[np.float64, np.float32]
        )
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} columns, but the metric was learned on "
                f"{self.n_features_in_}."
            )
        return self.coordinates(X)

    def coordinates(self, X: Rows) -> Rows:
        """Coordinates of checked rows."""
        if not isinstance(X, np.ndarray):
            if len(self.warped_) or self.linear_.size:
                raise ValueError(
                    "This metric warps or mixes columns, which needs dense rows: "
                    "call toarray()."
                )
            scale = self.scale_.astype(X.dtype)
            return sp.csr_matrix(sp.csr_matrix(X)[:, self.source_].multiply(scale))
        U = self.unmixed(X)
        if not self.linear_.size:
            return U
        q = self.linear_.shape[1]
        mixed = product(U[:, :q], self.linear_.T.astype(X.dtype))
        return mixed if q == U.shape[1] else np.hstack([mixed, U[:, q:]])

    def unmixed(self, X: NDArray) -> NDArray:
        """Coordinates of checked dense rows before the linear map, each of one
        column.
        """
        self._cached("checked", self._check_arrays)
        scale = self.scale_.astype(X.dtype)
        warped = self.source_[self.warped_]
        U = np.empty((len(X), len(self.source_)), X.dtype)

        def write(start: int, stop: int) -> None:
            rows = X[start:stop]
            out = U[start:stop]
            rows.take(self.source_, axis=1, out=out, mode="clip")
            with np.errstate(over="ignore"):  # rows far beyond those of the fit
                out *= scale
                if len(warped):
                    from bochner.loops import coordinates

                    # Double precision in a row for each column that is warped
                    V = rows[:, warped].T.astype(np.float64, order="C")
                    low = np.empty(coordinates.TILE_ROWS, np.uint64)
                    last = np.uint64(self.knots_.shape[1] - 1)
                    coordinates.warp(
                        V, self.knots_, self.levels_, self.slopes_, low, last
                    )
                    out[:, self.warped_] = V.T

        # The rows of a tile are one thread's already
        if len(X) <= BLOCK_ROWS:
            write(0, len(X))
        else:
            for_rows(write, len(X), BLOCK_ROWS)
        return U

    def _check_arrays(self) -> None:
        """Refuse arrays that do not fit together, of which the compiled loop of the
        warps would not be aware.
        """
        m = np.size(self.source_)
        w, k = np.shape(self.knots_) if np.ndim(self.knots_) == 2 else (-1, 0)
        fit = k >= min(w, 1) and of_shapes(
            [self.scale_, self.knots_, self.levels_, self.slopes_],
            [(m,), (w, k), (w, k), (w,)],
        )
        columns = (self.source_, m, self.n_features_in_), (self.warped_, w, m)
        for array, size, end in columns:
            fit = fit and of_shapes([array], [(size,)], np.int64)
            fit = fit and (not size or (array.min() >= 0 and array.max() < end))
        if not fit:
            raise ValueError(
                "The arrays of this Metric are inconsistent. Learn it again."
            )

    def mixed(self, linear: NDArray | None, relevance: NDArray | None = None) -> Metric:
        """Return this metric with its first coordinates replaced by a linear map of
        them, and with other relevances.
        """
        return Metric(
            self.n_features_in_,
            self.source_,
            self.scale_,
            warped=self.warped_,
            knots=self.knots_,
            levels=self.levels_,
            slopes=self.slopes_,
            linear=linear,
            relevance=relevance,
        )

    def rescaled(self, factors: NDArray) -> Metric:
        """Return this metric without its linear map, each coordinate times a factor,
        those of factor zero left out.
        """
        nonzero = np.flatnonzero(factors)
        is_kept = np.isin(self.warped_, nonzero)
        warped = self.warped_[is_kept]
        return Metric(
            self.n_features_in_,
            self.source_[nonzero],
            (self.scale_ * factors)[nonzero],
            warped=np.searchsorted(nonzero, warped),
            knots=self.knots_[is_kept],
            levels=self.levels_[is_kept] * factors[warped, np.newaxis],
            slopes=self.slopes_[is_kept] * factors[warped],
        )

    def plot(
        self,
        feature_names: Sequence[str] | None = None,
        ax: Any = None,
        n_warps: int = 12,
        sharey: bool = True,
        **kwargs: Any,
    ) -> MetricDisplay:
        """Draw the relevance of the columns and the warps; needs matplotlib.

        Parameters
        ----------
        feature_names : sequence of str of length d, optional
            Otherwise x0, x1, ...
        ax : matplotlib Axes, or sequence or array of them, optional
            A subplot whose place the panels take, or one Axes for each panel. None
            makes a figure.
        n_warps : int, default=12
            Number of warps drawn at most, those of the most relevant columns.
        sharey : bool, default=True
            Whether the warps have one vertical scale.
        **kwargs
            As of `MetricDisplay.plot`.

        Returns
        -------
        bochner.display.MetricDisplay
            With `figure_` and `axes_`.

        Examples
        --------
        >>> from bochner.features import Metric
        >>> metric = Metric(2, source=[0, 1], scale=[3.0, 1.0], relevance=[0.75, 0.25])
        >>> display = metric.plot(["age", "income"])
        >>> [label.get_text() for label in display.axes_[0].get_yticklabels()]
        ['age', 'income']
        """
        from bochner.display import MetricDisplay

        return MetricDisplay.from_metric(self, feature_names, n_warps).plot(
            ax, sharey=sharey, **kwargs
        )


RELEVANCE_PAIRS = 4  # other rows, whose distances from a row count for the relevance


def mean_distances(U: NDArray, weight: NDArray) -> Floats:
    """Mean absolute difference of two rows in each column, drawn by their weights
    (Gini), shape (q,).
    """
    order = U.argsort(axis=0)
    share = (weight / weight.sum())[order]
    below = share.cumsum(axis=0) - share / 2
    distances: Floats = (
        2 * share * (2 * below - 1) * np.take_along_axis(U, order, axis=0)
    ).sum(axis=0)
    return np.where(np.ptp(U, axis=0) > 0, distances, 0.0)


def with_relevance(metric: Metric, X: NDArray, seed: int) -> Metric:
    """Return the metric with the share of each column in the mean L1 distance of two
    rows.

    Parameters
    ----------
    metric : Metric
    X : array of shape (n, d)
        Of which rows are drawn, each paired with the next ones.
    seed : int
    """
    size = min(SAMPLE_ROWS, len(X), BLOCK_ENTRIES // max(X.shape[1], 1) + 1)
    rng = np.random.default_rng(seed)
    U = metric.unmixed(X[rng.choice(len(X), size, replace=False)])
    moved = np.zeros(U.shape[1])
    for shift in range(1, RELEVANCE_PAIRS + 1):
        distances = np.abs(U - np.roll(U, shift, axis=0))
        moved += distances.mean(axis=0, dtype=np.float64)
    q = metric.linear_.shape[1]
    moved[:q] *= np.abs(metric.linear_).sum(axis=0)
    total = np.bincount(metric.source_, moved, metric.n_features_in_)
    return metric.mixed(metric.linear_, total / (total.sum() or 1.0))


class MetricFeatures(FeatureMap, DenseFeatures):
    """A feature map of learned coordinates.

    Parameters
    ----------
    metric : Metric
    features : FourierFeatures or BinningFeatures
        Not changed: a copy is fitted. Its kernel is a kernel of the coordinates.

    Attributes
    ----------
    features_ : FeatureMap
        The fitted copy.
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    TypeError, ValueError
        At fit: not a metric, or not a feature map; rows with other columns than the
        metric.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import BinningFeatures
    >>> from bochner.features import MetricFeatures
    >>> from bochner.kernels import Laplacian
    >>> from bochner.selection import learn_metric
    >>> X = np.random.default_rng(0).standard_normal((500, 3))
    >>> metric = learn_metric(X, X[:, 0] > 0, random_state=0)
    >>> features = MetricFeatures(
    ...     metric, BinningFeatures(Laplacian(), 20, random_state=0)
    ... )
    >>> features.fit_transform(X).nnz == 500 * 20
    True
    """

    features_: FeatureMap

    def __init__(self, metric: Metric, features: FeatureMap) -> None:
        self.metric = metric
        self.features = features

    def draw(self, n_features: int) -> MetricFeatures:
        """Draw the map for the coordinates of `n_features` columns."""
        if not isinstance(self.metric, Metric) or not isinstance(
            self.features, FeatureMap
        ):
            raise TypeError(
                "metric must be a Metric and features a feature map such as "
                "FourierFeatures()."
            )
        if n_features != self.metric.n_features_in_:
            raise ValueError(
                f"The metric is one of {self.metric.n_features_in_} columns, and X "
                f"has {n_features}."
            )
        self.n_features_in_ = n_features
        self.features_ = clone(self.features).draw(self.metric.n_features_out_)
        return self

    @property
    def kernel(self) -> Kernel | None:
        """Kernel of the coordinates."""
        return getattr(self.features, "kernel", None)

    @property
    def n_features_out(self) -> int:
        """Number of features."""
        return self.features_.n_features_out

    @property
    def is_dense(self) -> bool:
        """Whether the features of the map are dense."""
        inner: Any = getattr(self, "features_", self.features)
        return inner.is_dense

    def write(self, X: Rows, out: NDArray) -> None:
        """Write the features of a few rows, where these are dense, into the first
        columns of `out`.
        """
        self.features_.write(self.seen(X), out)

    @property
    def inner(self) -> list[FeatureMap]:
        """The map of the coordinates."""
        return [self.features_]

    def seen(self, X: Rows) -> Rows:
        """Coordinates of the rows."""
        return self.metric.coordinates(X)

    def fit_store(
        self, X: Rows, packed: bool = False, centres: Centres = None
    ) -> Stored:
        """Features of training rows, of which the map takes note."""
        return self.features_.fit_store(self.seen(X), packed, centres)

    def store(self, X: Rows, packed: bool = False, centres: Centres = None) -> Stored:
        """Features of the rows, held in memory."""
        return self.features_.store(self.seen(X), packed, centres)

    def dot(self, X: Rows, coef: NDArray) -> NDArray:
        """Features of the rows times coefficients of shape (D, K)."""
        return self.features_.dot(self.seen(X), coef)

    def map_rows(self, X: Rows) -> Any:
        """Features of rows that are checked: an array, or a csr_matrix."""
        return self.features_.map_rows(self.seen(X))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the map's columns."""
        check_is_fitted(self)
        return self.features_.get_feature_names_out()


def without_metrics(features: Any) -> Any:
    """The map inside of any of learned coordinates, drawn where that is."""
    while isinstance(features, MetricFeatures):
        features = getattr(features, "features_", features.features)
    return features
