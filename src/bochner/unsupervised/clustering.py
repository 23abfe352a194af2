"""Spectral clustering and kernel k-means by the features of rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClusterMixin
from threadpoolctl import threadpool_limits

from bochner.data.outliers import drawn
from bochner.design.design import Design
from bochner.design.graph import AnchorGraph, is_anchored, sum_graph
from bochner.design.reductions import Blocks
from bochner.devices.conversion import any_arrays
from bochner.engines.algebra import leading, product
from bochner.features import (
    AnchorFeatures,
    BinningFeatures,
    FourierFeatures,
)
from bochner.features.base import FeatureMap
from bochner.features.binning import hashed
from bochner.features.distances import median_distance, median_gaussian, paired_rows
from bochner.features.leaves import is_dense, seeded
from bochner.features.metric import without_metrics
from bochner.inputs.training import TrainingSet
from bochner.kernels import Laplacian
from bochner.sources.rowwise import rowwise
from bochner.unsupervised.base import RowModel

NEIGHBORS = 4  # anchors of a row: of 3 to 5 the most steady on pictures of digits
# Rows that each has; of fewer a graph falls apart
MOST_ANCHORS, FEWEST_ANCHORS, ROWS_EACH = 1000, 10, 3
MOST_COLUMNS = 4096  # of hashed bins, whose Gram matrix is held
# That k-means looks at; all others go to the nearest of its centres
MOST_ROWS = 100_000
# Of all squares of the features, below which a variance is one of rounding
ROUNDING = 1e-7
# Of the principal ones in which kernel k-means runs, and for each cluster
FEWEST_DIRECTIONS, FOR_EACH = 32, 4


class Clusterer(ClusterMixin, RowModel):
    """What clusterings share: k-means of coordinates of the rows, which are the
    features times a matrix.
    """

    learned = "labels_"
    _allowed: ClassVar = {
        "n_clusters": ("a positive integer",),
        "n_init": ("a positive integer",),
    }

    features: Any
    n_clusters: int
    n_init: int

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        features: Any = "fourier",
        n_init: int = 10,
        standardize: bool | str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.features = features
        self.n_init = n_init
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose

    @any_arrays
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the clusters.

        Parameters
        ----------
        X : array, sparse matrix, data frame, path or collection of Dask of shape (n, d)
            Files and collections are read in passes.
        y : ignored
        sample_weight : array of shape (n,), str or None, default=None
            A name is that of a column.

        Returns
        -------
        self
        """
        self._begin()
        seed = self._seed()
        rows = self._open(X, sample_weight, seed)
        counted = rows.sample.n_counted
        if rows.n_rows == rows.sample.n_rows and counted < self.n_clusters:
            raise ValueError(
                f"n_clusters is {self.n_clusters}, and X has {counted} "
                f"row{'s' * (counted != 1)} with weight: take "
                "fewer clusters."
            )
        self._find_directions(rows, seed)
        blocks = Blocks(
            rows.source,
            Design(rows.source, self.features_).block_rows,
            np.dtype(np.float32),
        )
        parts = [(self._coordinates(X), weight) for X, _, weight in blocks]
        self.embedding_ = np.concatenate([U for U, _ in parts])
        weight = np.concatenate([weight for _, weight in parts])
        # K-means of a sample of the rows that have weight; on one thread, whose sums
        # have one order
        from sklearn.cluster import KMeans

        row_numbers = drawn(np.flatnonzero(weight), MOST_ROWS, seed)
        means = KMeans(int(self.n_clusters), n_init=int(self.n_init), random_state=seed)
        with threadpool_limits(1):
            means.fit(self.embedding_[row_numbers], sample_weight=weight[row_numbers])
        self.centers_ = means.cluster_centers_
        self.labels_ = nearest(self.embedding_, self.centers_)
        self._finish(weight)
        return self

    @abstractmethod
    def _find_directions(self, rows: TrainingSet, seed: int) -> None:
        """Draw the map, a copy of the one given, or one by name, of the scale of the
        rows, and find what coordinates are, in passes over the rows.
        """

    @abstractmethod
    def _coordinates(self, X: Any) -> NDArray:
        """Coordinates of encoded rows, shape (b, k)."""

    def _finish(self, weight: NDArray) -> None:
        """Tell what else there is to the clusters, given the weights of the rows."""

    @rowwise()
    def predict(self, X: Any) -> NDArray[np.int32]:
        """Clusters of rows, shape (n,).

        Parameters
        ----------
        X : array, sparse matrix, data frame or source of shape (n, d)
            Of a collection they are a Dask array, not computed yet.
        """
        return self._mapped(
            X, lambda rows: nearest(self._coordinates(rows), self.centers_)
        )

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw the training rows, or others given as `X`, by cluster; see
        `ClusterDisplay.from_estimator`.
        """
        from bochner.display.unsupervised_displays import ClusterDisplay

        return ClusterDisplay.from_estimator(self, **options).plot(ax)


class SpectralClustering(Clusterer):
    """Spectral clustering without the matrix of all pairs of rows.

    The affinities are W = Z L^-1 Z', L = diag(Z'1), of `AnchorFeatures` Z; all degrees
    are one. The leading eigenvectors of the n x n matrix are Z P, where P is computed
    from a D x D matrix that is summed in one pass. K-means clusters their rows, scaled
    to length one. New rows are mapped by the same formula.

    Parameters
    ----------
    n_clusters : int, default=8
    features : AnchorFeatures or "anchors", default="anchors"
        "anchors" takes one for every three rows, up to 1,000. They follow bent and thin
        clusters, as graphs of neighbours do.
    n_init : int, default=10
        Number of runs of k-means, of which the best is kept.
    standardize : bool or "auto", default="auto"
        Whether to scale columns of numbers to unit variance. "auto" does so unless all
        columns share a unit, as pixels do.
    random_state : int, RandomState or None, default=None
        Seed of the features and of k-means.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    labels_ : int32 array of shape (n,)
    embedding_ : array of shape (n, k)
        Leading eigenvectors, rows of length one.
    eigenvalues_ : array of shape (k,)
        Of the affinities, the largest first; a gap after the k-th suggests k clusters.
    centers_ : array of shape (n_clusters, k)
    projection_ : array of shape (D, k)
        From features to eigenvectors.
    features_ : FeatureMap
    encoder_ : TableEncoder
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    ValueError
        At fit: numbers of clusters or runs that are not positive, more clusters than
        rows; an unknown name of features.
    NotFittedError
        At predict, before fit.

    References
    ----------
    Ng, Jordan and Weiss, "On Spectral Clustering", NIPS 2001. Chen and Cai, "Large
    Scale Spectral Clustering with Landmark-Based Representation", AAAI 2011. Wu et al.,
    "Scalable Spectral Clustering Using Random Binning Features", KDD 2018.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.metrics import adjusted_rand_score
    >>> from bochner import SpectralClustering
    >>> X, moon = make_moons(1000, noise=0.05, random_state=0)
    >>> model = SpectralClustering(n_clusters=2, random_state=0).fit(X)
    >>> adjusted_rand_score(moon, model.labels_) > 0.99
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        features: Any = "anchors",
        n_init: int = 10,
        standardize: bool | str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_clusters,
            features=features,
            n_init=n_init,
            standardize=standardize,
            random_state=random_state,
            verbose=verbose,
        )

    def _find_directions(self, rows: TrainingSet, seed: int) -> None:
        if self.features == "anchors":
            most = max(rows.n_rows // ROWS_EACH, FEWEST_ANCHORS)
            most = min(most, MOST_ANCHORS)
            features = AnchorFeatures(most, NEIGHBORS, random_state=seed)
        elif isinstance(self.features, FeatureMap) and is_anchored(self.features):
            features = seeded(self.features, seed)
        else:
            raise ValueError(
                "features must be 'anchors' or AnchorFeatures: use KernelKMeans for "
                "other maps."
            )
        self.features_ = rows.drawn(features, seed)
        graph = AnchorGraph(sum_graph(rows.design(self.features_)))
        self.eigenvalues_, vectors = graph.eigenvectors(int(self.n_clusters))
        scales = graph.root[:, np.newaxis] / np.sqrt(self.eigenvalues_)
        self.projection_ = vectors * scales

    def _coordinates(self, X: Any) -> NDArray:
        U = self.features_.dot(X, self.projection_.astype(X.dtype))
        lengths = np.linalg.norm(U, axis=1, keepdims=True)
        return U / np.maximum(lengths, np.finfo(U.dtype).tiny)


class KernelKMeans(Clusterer):
    """K-means in feature space, which finds clusters that are compact by the kernel.

    The centres lie almost in the span of the leading principal components of the
    features, and the distances in the other components are the same for all centres. So
    k-means runs on 32 components, or on 4 for each cluster if these are more.

    Parameters
    ----------
    n_clusters : int, default=8
    features : str, feature map or scikit-learn transformer, default="fourier"
        Dense features or bins. "fourier" and "binning" get their lengthscale from the
        median distance between rows. A map measures columns as `standardize` scales
        them.
    n_init : int, default=10
        Number of runs of k-means, of which the best is kept.
    standardize : bool or "auto", default="auto"
        Whether to scale columns of numbers to unit variance. "auto" does so unless all
        columns share a unit, as pixels do.
    random_state : int, RandomState or None, default=None
        Seed of the features and of k-means.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    labels_ : int32 array of shape (n,)
    embedding_ : array of shape (n, r)
        Principal components of the features.
    centers_ : array of shape (n_clusters, r)
        Means of the clusters, in these components.
    cluster_centers_ : array of shape (n_clusters, D)
        Means of the clusters in the space of the features.
    inertia_ : float
        Weighted sum of squared distances of features from their centres.
    components_, mean_ : arrays of shape (D, r) and (D,)
        Principal directions and mean of the features.
    features_ : FeatureMap
    encoder_ : TableEncoder
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    ValueError
        At fit: numbers of clusters or runs that are not positive, more clusters than
        rows; an unknown name of features.
    NotFittedError
        At predict, before fit.

    References
    ----------
    Chitta, Jin and Jain, "Efficient Kernel Clustering Using Random Fourier Features",
    ICDM 2012.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from sklearn.metrics import adjusted_rand_score
    >>> from bochner import KernelKMeans
    >>> X, blob = make_blobs(600, random_state=0, cluster_std=0.5)
    >>> model = KernelKMeans(n_clusters=3, random_state=0).fit(X)
    >>> adjusted_rand_score(blob, model.predict(X)) > 0.99
    True
    """

    def _find_directions(self, rows: TrainingSet, seed: int) -> None:
        features = self.features
        # The kernel is exp(-1) at the median distance, so no pair is all that counts
        if not isinstance(features, str):
            features = seeded(features, seed)
        elif features == "fourier":
            kernel = median_gaussian(rows.sample, seed)
            features = FourierFeatures(kernel, random_state=seed)
        elif features == "binning":
            scale = median_distance(*paired_rows(rows.sample, seed), p=1)
            features = BinningFeatures(Laplacian(scale), random_state=seed)
        else:
            raise ValueError(
                "features must be 'fourier', 'binning' or a feature map, got "
                f"{features!r}."
            )
        if not is_dense(features):
            if not isinstance(without_metrics(features), BinningFeatures):
                raise ValueError(
                    "features must be dense, or bins, got "
                    f"{type(self.features).__name__}: give FourierFeatures, "
                    "NystroemFeatures or BinningFeatures."
                )
            features = hashed(features, MOST_COLUMNS)
        self.features_ = rows.drawn(features, seed)
        moments = rows.design(self.features_).moments()
        centred, _, _, self.mean_, _ = moments.centred()
        r = max(FEWEST_DIRECTIONS, FOR_EACH * int(self.n_clusters))
        values, vectors = leading(centred, r)
        has_variance = values > ROUNDING * np.trace(moments.matrix[:-1, :-1])
        self.components_ = np.zeros((len(centred), 1))
        if has_variance.any():
            self.components_ = vectors[:, has_variance]
        self._left = max(float(np.trace(centred) - values[has_variance].sum()), 0.0)

    def _coordinates(self, X: Any) -> NDArray:
        components = self.components_.astype(X.dtype)
        mean = self.mean_.astype(X.dtype) @ components
        return self.features_.dot(X, components) - mean

    def _finish(self, weight: NDArray) -> None:
        self.cluster_centers_ = self.mean_ + self.centers_ @ self.components_.T
        apart = np.square(self.embedding_ - self.centers_[self.labels_]).sum(
            axis=1, dtype=np.float64
        )
        self.inertia_ = float(weight @ apart) + self._left


def nearest(U: NDArray, centres: NDArray) -> NDArray[np.int32]:
    """Number of the nearest centre of each row, shape (n,)."""
    centres = centres.astype(U.dtype)
    scores = product(U, np.ascontiguousarray(centres.T))
    scores = scores - np.square(centres).sum(axis=1) / 2
    return scores.argmax(axis=1).astype(np.int32)
