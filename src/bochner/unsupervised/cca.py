"""Kernel canonical correlations of two tables, from the joint moments of the
features of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from bochner.arrays import Floats, n_distinct
from bochner.data.weights import checked_weight
from bochner.design.design import Design
from bochner.design.moments import Moments
from bochner.devices.conversion import any_arrays
from bochner.engines.blas import single_threaded_blas
from bochner.engines.local import LOCAL
from bochner.engines.progress import progress
from bochner.features.base import FeatureMap
from bochner.inputs.checks import checked_rows
from bochner.inputs.opened import columns_apart
from bochner.inputs.training import Target, TrainingRows, TrainingSet, rows_to_map
from bochner.sources.rowwise import rowwise
from bochner.unsupervised.base import RowModel, map_for, precision_of
from bochner.unsupervised.paired_tables import (
    HalfOfPairs,
    given_pair,
    hashed,
    second_table,
)

# Of the largest variance
ROUNDING = {np.dtype(np.float32): 1e-7, np.dtype(np.float64): 1e-14}
ALPHAS = np.geomspace(1e-6, 10, 15)
FEWEST_HALVED = 20  # rows, of which there are halves to validate by
LANDMARKS = 1000


class KernelCCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RowModel):
    """Kernel canonical correlation analysis: directions in two feature spaces whose
    scores are most correlated.

    With z and u the features of rows x and y, C their covariances and g a ridge
    penalty, the directions are (C_zz + g_z I)^-1/2 and (C_uu + g_u I)^-1/2 times the
    singular vectors of (C_zz + g_z I)^-1/2 C_zu (C_uu + g_u I)^-1/2 (Bach and Jordan,
    2002; on random features Lopez-Paz et al., 2014). All three come from one pass over
    each half of the rows, and no n x n matrix is made.

    Parameters
    ----------
    n_components : int, default=2
        Number of pairs of directions, at most the number of features of either table.
    kernel, y_kernel : Kernel or "auto", default="auto"
        Kernels of the rows of X and of y. "auto" is a Gaussian that is exp(-1) at the
        median distance between rows. A kernel that is given measures columns as
        `standardize` scales them.
    features, y_features : FeatureMap, transformer or "auto", default="auto"
        Feature maps of both tables. "auto" is `NystroemFeatures` of the kernel with
        1,000 landmarks; another map brings its own kernel.
    alpha : float or "auto", default="auto"
        Ridge penalty relative to the mean variance of the features: g_z = alpha
        tr(C_zz) / D. "auto" selects it between 1e-6 and 10, by two-fold
        cross-validation of the correlation.
    standardize : bool or "auto", default="auto"
        Whether to scale columns of numbers to unit variance, whatever the kernels.
        "auto" does so unless all columns share a unit, as pixels do.
    random_state : int, RandomState or None, default=None
        Seed of the landmarks and of the halves of the cross-validation.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    correlations_ : array of shape (K,)
        Correlations of the scores of the training rows. They are too optimistic for
        small alpha; `score` measures them on other rows.
    alpha_ : float
        Ridge penalty that was used.
    alphas_, alpha_scores_ : arrays of shape (A,)
        Penalties that were tried, and their mean correlations on held-out rows. Only
        for alpha="auto".
    x_weights_, y_weights_ : arrays of shape (D, K) and (E, K)
        Directions, in feature space.
    x_mean_, y_mean_ : arrays of shape (D,) and (E,)
        Mean features.
    features_, y_features_ : FeatureMap
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    ValueError
        At fit: parameters out of range, tables with different numbers of rows, weights
        of one source alone. At transform: other columns.

    References
    ----------
    Bach and Jordan, "Kernel Independent Component Analysis", JMLR 2002. Lopez-Paz, Sra,
    Smola, Ghahramani and Schoelkopf, "Randomized Nonlinear Component Analysis", ICML
    2014.

    See Also
    --------
    bochner.display.CorrelationDisplay : The correlations, and the first pair of scores.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import KernelCCA
    >>> rng = np.random.default_rng(0)
    >>> angle = rng.uniform(-3, 3, 1000)
    >>> X = np.column_stack([np.cos(angle), rng.standard_normal(1000)])
    >>> Y = np.column_stack([angle, rng.standard_normal(1000)])
    >>> model = KernelCCA(n_components=1, random_state=0).fit(X[:800], Y[:800])
    >>> (
    ...     bool(model.score(X[800:], Y[800:]) > 0.95),
    ...     bool(abs(np.corrcoef(X[:, 0], Y[:, 0])[0, 1]) < 0.1),
    ... )
    (True, True)
    """

    learned = "y_weights_"
    _allowed: ClassVar = {
        "n_components": ("a positive integer",),
        "alpha": ("a number of at least 0", "auto"),
    }

    def __init__(
        self,
        n_components: int = 2,
        kernel: Any = "auto",
        features: Any = "auto",
        *,
        y_kernel: Any = "auto",
        y_features: Any = "auto",
        alpha: float | str = "auto",
        standardize: bool | str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.features = features
        self.y_kernel = y_kernel
        self.y_features = y_features
        self.alpha = alpha
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose

    @any_arrays
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the directions.

        Parameters
        ----------
        X : array, sparse matrix, data frame or source of shape (n, d)
            Files and collections are read in three passes.
        y : the same of shape (n, e), or names of columns of X
            A second table of the same rows, in the same order; one column may be an
            array of shape (n,). Two sources are read on all threads and workers where
            their parts have the same rows, as those of one table do.
        sample_weight : array of shape (n,) or str, optional
            A name is that of a column; of sources both have it.

        Returns
        -------
        self
        """
        self._begin()
        seed = self._seed()
        first, second = given_pair(X, y, sample_weight)
        dtype = np.dtype(np.float32)
        if first.stream is None or second.stream is None:
            X = checked_rows(self, first.X, reset=True)
            check_consistent_length(X, second.X)
            target = Target(None, checked_weight(first.weight, X))
            rows, others = TrainingRows(X, target), TrainingRows(second.X, target)
            dtype = precision_of(X)
        else:
            streams = first.stream.without_sample(), second.stream.without_sample()
            rows, others = (
                TrainingRows.of(one, seed, verbose=self.verbose, what=what)
                for one, what in zip(streams, "Xy", strict=True)
            )
            if rows.n_seen != others.n_seen:
                raise ValueError(
                    f"X and y have inconsistent numbers of rows, {rows.n_seen:,} and "
                    f"{others.n_seen:,}: give two "
                    "tables of the same rows."
                )
            validate_data(self, rows.X, reset=True, skip_check_array=True)
        self.encoder_ = rows.encoder(self.standardize)
        self.y_encoder_ = others.encoder(self.standardize)
        other = others.encoded(self.y_encoder_, dtype)
        encode = partial(hashed, self.encoder_, dtype)
        x = rows.encoded(self.encoder_, dtype, encode=encode)
        self.features_ = _map(self.features, self.kernel, x, seed)
        self.y_features_ = _map(self.y_features, self.y_kernel, other, seed + 1)
        # The moments of each half of the rows, in a pass for each
        halves = []
        with progress("Summing moments", x.n_rows, self.verbose) as advance:
            for is_first in (True, False):
                pairs = HalfOfPairs(
                    x.source, other.source, self.y_features_, seed, is_first
                )
                engine = x.engine if pairs.n_parts > 1 else LOCAL
                design = Design(
                    pairs, self.features_, dtype, advance, fixed=True, engine=engine
                )
                halves.append(design.moments())
        moments = halves[0] + halves[1]
        covariances = Covariances.of(moments)
        for name, C, mean in (
            ("X", covariances.xx, covariances.x_mean),
            ("y", covariances.yy, covariances.y_mean),
        ):
            if not np.trace(C) > ROUNDING[moments.dtype] * (mean @ mean):
                raise ValueError(
                    f"All rows of {name} are equal (as with 1 sample), and nothing "
                    "is correlated with what does not "
                    "vary: give rows that differ."
                )
        # The ridge penalty by the halves, if there are enough rows, and all rows
        self.alpha_ = 0.1 if self.alpha == "auto" else float(self.alpha)
        different = n_distinct(x.sample.row_hashes()[x.sample.weights > 0])
        if self.alpha == "auto" and different >= FEWEST_HALVED:
            self.alpha_, self.alpha_scores_ = choose_ridge(
                halves, ALPHAS, self.n_components
            )
            self.alphas_ = ALPHAS.copy()
        directions = CanonicalPairs(covariances, moments.dtype).directions(
            self.alpha_, self.n_components
        )
        self.x_mean_ = covariances.x_mean
        self.y_mean_ = covariances.y_mean
        self.correlations_ = covariances.correlations(*directions)
        self.x_weights_, self.y_weights_ = (
            weights.astype(moments.dtype) for weights in directions
        )
        return self

    @any_arrays
    def transform(self, X: Any, y: Any = None) -> Any:
        """Scores of rows of one table or both.

        Parameters
        ----------
        X, y : what `fit` takes
            Of shape (n, d) and (n, e); y may be columns of X.

        Returns
        -------
        array of shape (n, K), or a tuple of two where y is given
            Of a collection of Dask such a collection, not computed yet.
        """
        check_is_fitted(self)
        X, y = columns_apart(X, y)
        x_scores = self._x_transform(X)
        return x_scores if y is None else (x_scores, self._y_transform(y))

    @rowwise()
    def _x_transform(self, X: Any) -> Floats:
        """Scores of rows of the first table."""
        w = self.x_weights_
        mean = self.x_mean_
        return self._mapped(X, lambda x: self.features_.dot(x, w) - mean @ w, w.dtype)

    @rowwise(names=lambda self: self.y_encoder_.statistic_.names)
    def _y_transform(self, y: Any) -> Floats:
        """Scores of rows of the second table."""
        y = second_table(y, self.y_encoder_.n_features_in_)
        self.y_encoder_.caution_unseen(y)
        w = self.y_weights_
        mean = self.y_mean_
        rows = rows_to_map(self.y_encoder_, y, w.dtype).blocks(1 << 16)
        return np.concatenate(
            [self.y_features_.dot(block.X, w) - mean @ w for block in rows]
        )

    @any_arrays
    def score(self, X: Any, y: Any) -> float:
        """Mean correlation of the pairs of scores.

        Parameters
        ----------
        X, y : what `fit` takes
            Rows, usually not the training rows.

        Returns
        -------
        float
        """
        return float(self.correlations_of(X, y).mean())

    @any_arrays
    def correlations_of(self, X: Any, y: Any) -> Floats:
        """Correlation of each pair of scores, shape (K,).

        Parameters
        ----------
        X, y : what `fit` takes
            Rows, usually not the training rows.

        Returns
        -------
        array of shape (K,)
            0 where one of them does not vary.
        """
        check_is_fitted(self)
        X, y = columns_apart(X, y)
        tables = self._x_transform(X), self._y_transform(y)
        A, B = (np.asarray(scores) for scores in tables)
        check_consistent_length(A, B)
        A, B, one = A - A.mean(axis=0), B - B.mean(axis=0), np.eye(A.shape[1])
        return Covariances(A.T @ A, B.T @ B, A.T @ B, A[0], B[0]).correlations(one, one)

    @property
    def _n_features_out(self) -> int:
        return len(self.correlations_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def _map(features: Any, kernel: Any, table: TrainingSet, seed: int) -> FeatureMap:
    """The drawn map of one table."""
    drawn = map_for(features, kernel, table, seed, LANDMARKS)
    if drawn.dense is None:
        raise ValueError(
            "KernelCCA needs dense features on both sides: give FourierFeatures "
            "or NystroemFeatures."
        )
    return drawn


class Covariances(NamedTuple):
    """Covariances of the features of both views, and their means."""

    xx: Floats  # (D, D)
    yy: Floats  # (E, E)
    xy: Floats  # (D, E)
    x_mean: Floats  # (D,)
    y_mean: Floats  # (E,)

    @classmethod
    def of(cls, moments: Moments) -> Covariances:
        """Those of the features and the targets of moments."""
        D = moments.n_features
        mean = moments.matrix[-1, :-1] / moments.weight
        whole = moments.matrix[:-1, :-1] / moments.weight - np.outer(mean, mean)
        return cls(whole[:D, :D], whole[D:, D:], whole[:D, D:], mean[:D], mean[D:])

    def correlations(self, x_weights: NDArray, y_weights: NDArray) -> Floats:
        """Correlation of each pair of directions, the columns of both; 0 where one
        of them does not vary.
        """
        both = np.einsum("dk,dk->k", x_weights, self.xy @ y_weights)
        x_squares = np.einsum("dk,dk->k", x_weights, self.xx @ x_weights)
        y_squares = np.einsum("dk,dk->k", y_weights, self.yy @ y_weights)
        scale = np.sqrt(np.maximum(x_squares, 0) * np.maximum(y_squares, 0))
        return np.divide(both, scale, out=np.zeros(len(both)), where=scale > 0)


class CanonicalPairs:
    """The directions of the largest correlations for any ridge penalty (Bach and
    Jordan, 2002).

    With R = V (s + g)^-1/2 of each view the matrix M = R_x' C_xy R_y has the
    correlations as singular values, and its singular vectors, times R_x and R_y, are
    the directions.
    """

    @single_threaded_blas()
    def __init__(self, covariances: Covariances, dtype: np.dtype) -> None:
        self.covariances = covariances
        # Eigenvectors, eigenvalues without what is rounding, and the mean of all
        self.views = []
        for C in (covariances.xx, covariances.yy):
            values, vectors = eigh(C)
            has_variance = values > ROUNDING[dtype] * max(values[-1], 0.0)
            mean = max(values.mean(), 0.0)
            self.views.append((vectors[:, has_variance], values[has_variance], mean))
        (x, _, _), (y, _, _) = self.views
        self.core = x.T @ covariances.xy @ y

    @single_threaded_blas()
    def directions(self, alpha: float, n_components: int) -> tuple[Floats, Floats]:
        """The leading pairs, the columns of both, in the order of their correlations,
        of regularised variance 1, the largest entry of each x positive.
        """
        x_root, y_root = (
            1 / np.sqrt(values + alpha * mean) for _, values, mean in self.views
        )
        M = x_root[:, np.newaxis] * self.core * y_root
        K = min(n_components, *M.shape)
        largest = len(M) - K, len(M) - 1
        vectors = eigh(M @ M.T, subset_by_index=largest)[1][:, ::-1]
        others = M.T @ vectors
        lengths = np.linalg.norm(others, axis=0)
        zeros = np.zeros(others.shape)
        others = np.divide(others, lengths, out=zeros, where=lengths > 0)
        x = (self.views[0][0] * x_root) @ vectors
        y = (self.views[1][0] * y_root) @ others
        signs = np.ones(K)
        if len(x):
            signs = np.sign(x[np.abs(x).argmax(axis=0), np.arange(K)])
        signs = np.where(signs == 0, 1, signs)
        return x * signs, y * signs


def choose_ridge(
    halves: Sequence[Moments], alphas: NDArray, n_components: int
) -> tuple[float, NDArray]:
    """The ridge penalty whose directions of each half of the rows have the largest
    correlations on the other half.

    Both are known from the moments alone.

    Returns
    -------
    alpha : float
        The largest of those with the largest sum.
    scores : array of shape (A,)
        Mean correlations.
    """
    pairs = [CanonicalPairs(Covariances.of(half), half.dtype) for half in halves]
    scores = np.zeros(len(alphas))
    for k, alpha in enumerate(alphas.tolist()):
        for training, other in (pairs, pairs[::-1]):
            directions = training.directions(alpha, n_components)
            scores[k] += other.covariances.correlations(*directions).mean() / 2
    return float(alphas[np.flatnonzero(scores == scores.max())[-1]]), scores
