"""Anchor features: each row by its nearest landmarks (Liu, He and Chang, 2010)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from bochner.blocks import BLOCK_ROWS
from bochner.data.hashes import distinct_rows
from bochner.data.outliers import drawn
from bochner.data.table_input import as_dense
from bochner.engines.blas import single_threaded_blas
from bochner.engines.local import STEP, for_tiles, require_memory
from bochner.features.base import FeatureMap, Rows
from bochner.features.stored import require_length
from bochner.kernels.base import check_count

MOST_ROWS = 32  # of the sample, for each landmark: more do not make better ones
EPOCHS = 4  # in which k-means sees each row, some at a time
AXES_ROWS = 8192  # rows of which principal directions are
TILE_BYTES = 4 << 20  # of the distances of the rows that a thread looks at together
FEWEST_NEIGHBOURS, MOST_NEIGHBOURS, CONNECTED, SHOWN_ROWS = 3, 8, 0.99, 2
LEAST = 1e-6  # of the weight of the nearest landmark, so that weights are positive
# Of rows whose directions tell more than their lengths
FEWEST_COLUMNS, SPREAD, LOWEST = 16, 0.5, 0.25


class AnchorFeatures(FeatureMap):
    """Weights of each row on its nearest landmarks: sparse, positive, and summing to
    one.

    The landmarks u_1, ..., u_m are found by k-means. For the s landmarks nearest to a
    row x,

        z_j(x) = w_j / sum_l w_l,   w_j = 1 - ‖x - u_j‖^2 / h(x)^2,

    with h(x) the distance of landmark s + 1. A weight falls to zero before its landmark
    leaves the s nearest, so that features are continuous, and h(x) adapts to the
    density of the rows. They are the features of graph methods, where a row resembles
    its neighbours and no other rows: W = Z L^-1 Z' with L = diag(Z'1) is a graph of all
    pairs of rows, with non-negative weights and degrees of one. As features of a
    regression they interpolate between the landmarks.

    Parameters
    ----------
    n_components : int, default=1000
        Number m of landmarks; fewer if there are fewer distinct rows.
    n_neighbors : int or "auto", default=3
        Number s of landmarks of a row. "auto" is the smallest of 3 to 8 for which the
        graph connects all but a hundredth of the rows, or 8 if none does.
    n_directions : int or None, default=32
        Number q of principal directions in which distances are measured, if there are
        more columns; the others are mostly noise, and cost time. None for all.
    normalize : bool or "auto", default="auto"
        Whether rows are normalised, after subtracting the minimum of each column.
        "auto" does so if many columns seem to share a unit and a frequent minimum, as
        pixels and counts do.
    random_state : int, RandomState or None, default=None
        Seed of the landmarks.

    Attributes
    ----------
    landmarks_ : array of shape (m, q)
        In the coordinates that `coordinates` returns.
    directions_ : array of shape (d, q) or None
        Principal directions; None for the columns themselves.
    origin_ : array of shape (d,)
        Subtracted from rows: the minima if they are normalised, else the means; zeros
        if the map was fitted on sparse rows.
    normalized_ : bool
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    TypeError, ValueError
        At fit: numbers that are not positive integers; an invalid `normalize`. At
        transform: a different number of columns.
    NotFittedError
        At transform, before fit.

    References
    ----------
    Liu, He and Chang, "Large Graph Construction for Scalable Semi-Supervised Learning",
    ICML 2010, equations 2 and 6.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import AnchorFeatures
    >>> X = np.random.default_rng(0).standard_normal((500, 2))
    >>> Z = AnchorFeatures(
    ...     n_components=50, n_neighbors=3, random_state=0
    ... ).fit_transform(X)
    >>> Z.shape, Z.nnz == 500 * 3, bool(np.allclose(Z.sum(axis=1), 1))
    ((500, 50), True, True)
    """

    def __init__(
        self,
        n_components: int = 1000,
        n_neighbors: int | str = 3,
        *,
        n_directions: int | None = 32,
        normalize: bool | str = "auto",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.n_directions = n_directions
        self.normalize = normalize
        self.random_state = random_state

    def draw(self, n_features: int) -> AnchorFeatures:
        """Forget the landmarks, for `n_features` columns; new ones are chosen among
        the rows.
        """
        check_count(self.n_components, "n_components", 31)
        if self.n_neighbors != "auto":
            check_count(self.n_neighbors, "n_neighbors", 31)
        if self.n_directions is not None:
            check_count(self.n_directions, "n_directions", 31)
        if not isinstance(self.normalize, bool | np.bool_) and self.normalize != "auto":
            raise ValueError(
                f"normalize must be True, False or 'auto', got {self.normalize!r}."
            )
        self.seed_ = int(check_random_state(self.random_state).randint(2**31))
        self.landmarks_ = np.empty((0, n_features))
        self.origin_ = np.zeros(n_features)
        self.directions_: NDArray | None = None
        self.normalized_ = False
        self.reach_ = 0
        self.n_features_in_ = n_features
        self._caches = {}
        return self

    @single_threaded_blas()
    def fit_sample(self, X: Rows, weight: NDArray) -> None:
        """Find the landmarks of a sample of the rows, by k-means on 32 rows for each
        of them at most.
        """
        from sklearn.cluster import MiniBatchKMeans

        rng = np.random.default_rng(self.seed_)
        counted = drawn(np.flatnonzero(weight), self.sample_rows, rng)
        X = X[counted]
        weight = weight[counted]
        self._caches = {}
        self.normalized_ = bool(self.normalize)
        if self.normalize == "auto":
            self.normalized_ = _has_directions(X)
        self.directions_ = None
        if isinstance(X, np.ndarray):
            if self.normalized_:
                self.origin_ = X.min(axis=0).astype(np.float64)
            else:
                self.origin_ = X.mean(axis=0, dtype=np.float64)
        seeds = rng.integers(2**31, size=2).tolist()
        if self.n_directions is not None and int(self.n_directions) < X.shape[1]:
            from sklearn.decomposition import TruncatedSVD

            # Rows of a table may be sorted
            chosen = drawn(np.arange(X.shape[0]), AXES_ROWS, seeds[0])
            # The directions of largest variance, of sparse rows of largest squares
            rows = X[chosen]
            mass = weight[chosen]
            scale = np.sqrt(mass / mass.mean())
            if isinstance(X, np.ndarray):
                rows = self.coordinates(rows)
                rows -= np.average(rows, axis=0, weights=mass).astype(rows.dtype)
            elif self.normalized_:
                lengths = _lengths_from(np.zeros(X.shape[1], X.dtype), rows)
                scale = scale / np.where(lengths > 0, lengths, 1)
            rows = sp.diags_array(scale) @ rows
            q = int(self.n_directions)
            self.directions_ = np.eye(X.shape[1], q)
            if abs(rows).max():
                axes = TruncatedSVD(q, random_state=seeds[0]).fit(rows)
                self.directions_ = axes.components_.T
        # Centres of k-means of distinct rows, in order; the rows themselves where these
        # are not more
        first, mass = distinct_rows(X, weight)
        U = self.coordinates(X[first])
        if len(U) > self.n_components:
            means = MiniBatchKMeans(
                int(self.n_components), init="random", n_init=1, batch_size=BLOCK_ROWS,
                max_iter=EPOCHS, tol=0.0, max_no_improvement=None,
                reassignment_ratio=0.0, random_state=seeds[1],
            )  # fmt: skip
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                U = means.fit(U, sample_weight=mass / mass.mean()).cluster_centers_
        self.landmarks_ = np.unique(U, axis=0)
        self.reach_ = max(min(self._most_neighbors, len(self.landmarks_) - 1), 1)
        if isinstance(self.n_neighbors, str):
            # The fewest landmarks of a row, of at least three, by which nearly all rows
            # are in one part of the graph
            m = self.n_features_out
            shown = rng.permutation(X.shape[0])[: SHOWN_ROWS * m]
            ids = self.neighbors(X[shown])[0]
            n_rows, most = ids.shape
            for s in range(min(FEWEST_NEIGHBOURS, most), most):
                entries = np.ones(n_rows * s), ids[:, :s].ravel()
                Z = sp.csr_array((*entries, np.arange(n_rows + 1) * s), (n_rows, m))
                part = connected_components(sp.csr_array(Z.T @ Z), directed=False)[1]
                if np.bincount(part[ids[:, 0]]).max() >= CONNECTED * n_rows:
                    self.reach_ = s
                    break

    @property
    def sample_rows(self) -> int:
        """Rows of a sample that k-means has use for."""
        return MOST_ROWS * int(self.n_components)

    @property
    def _most_neighbors(self) -> int:
        if isinstance(self.n_neighbors, str):
            return MOST_NEIGHBOURS
        return int(self.n_neighbors)

    @property
    def n_features_out(self) -> int:
        """Number m of landmarks, 0 until there are rows."""
        return len(self.landmarks_)

    def coordinates(self, X: Rows) -> NDArray:
        """Rows as they are compared with landmarks, shape (n, q): from the origin,
        in the principal directions.
        """
        origin = self._in(X.dtype, "origin_")
        is_turned = self.directions_ is not None
        directions = self._in(X.dtype, "directions_") if is_turned else None
        if is_turned and not isinstance(X, np.ndarray):
            U = X @ directions - origin @ directions
            lengths = _lengths_from(origin, X)
        else:
            U = as_dense(X) - origin
            lengths = np.sqrt(np.einsum("ij,ij->i", U, U))
            U = U @ directions if is_turned else U
        if not self.normalized_:
            return U
        return U / np.where(lengths > 0, lengths, lengths.dtype.type(1))[:, np.newaxis]

    def neighbors(self, X: Rows) -> tuple[NDArray[np.int32], NDArray]:
        """Nearest landmarks of the rows, the nearest first, and their weights, both
        of shape (n, s).
        """
        s = self.reach_
        ids = np.empty((X.shape[0], s), np.int32)
        weights = np.empty((X.shape[0], s), X.dtype)
        row_bytes = len(self.landmarks_) * X.dtype.itemsize
        tile = max(TILE_BYTES // row_bytes // STEP, 1) * STEP

        def find(rows: slice) -> None:
            landmarks = self._in(X.dtype, "landmarks_")
            U = self.coordinates(X[rows])
            # Squared distances from all landmarks
            with np.errstate(over="ignore", invalid="ignore"):
                D = U @ landmarks.T
                D *= -2
                D += np.einsum("ij,ij->i", landmarks, landmarks)
                squares = np.einsum("ij,ij->i", U, U)
                D += squares[:, np.newaxis]
            # Rows so far that no landmark is nearer than another
            largest = np.finfo(D.dtype).max
            D[~(squares < largest / 4)] = largest
            ids[rows], weights[rows] = _nearest(np.maximum(D, 0, out=D), s)

        for_tiles(find, X.shape[0], tile)
        return ids, weights

    def map_rows(self, X: Rows) -> sp.csr_matrix:
        """Features of rows that are checked, with s entries in a row, the largest
        first.
        """
        need = 2 * X.shape[0] * self.stored_bytes(X.dtype, packed=False)
        require_memory(need, f"The landmarks of {X.shape[0]:,} rows", self.remedy)
        ids, weights = self.neighbors(X)
        wide = np.int32 if ids.size < 2**31 else np.int64
        starts = np.arange(len(ids) + 1, dtype=wide) * self.reach_
        entries = weights.ravel(), ids.ravel(), starts
        return sp.csr_matrix(entries, shape=(len(ids), self.n_features_out))

    def stored_bytes(self, dtype: np.dtype, packed: bool) -> int:
        """Memory of one row's landmarks and weights."""
        return self._most_neighbors * (4 + dtype.itemsize) + 8

    def dot(self, X: Rows, coef: NDArray) -> NDArray:
        """Features of the rows times coefficients of shape (m, K)."""
        require_length(coef, self.n_features_out)
        return np.asarray(self.map_rows(X) @ coef).astype(coef.dtype, copy=False)

    def __sklearn_is_fitted__(self) -> bool:
        return len(getattr(self, "landmarks_", ())) > 0


def _lengths_from(origin: NDArray, X: sp.csr_array) -> NDArray:
    """Distances of sparse rows from a point."""
    squares = np.ravel(X.power(2).sum(axis=1)) - 2 * (X @ origin) + origin @ origin
    return np.sqrt(np.maximum(squares, 0))


def _nearest(distances: NDArray, s: int) -> tuple[NDArray, NDArray]:
    """The s least of each row's squared distances, in order, and their weights."""
    reach = min(s + 1, distances.shape[1])
    numbers = np.argpartition(distances, reach - 1, axis=1)[:, :reach]
    near = np.take_along_axis(distances, numbers, axis=1)
    order = np.argsort(near, axis=1, kind="stable")
    numbers = np.take_along_axis(numbers, order, axis=1)[:, :s]
    near = np.take_along_axis(near, order, axis=1)
    width = np.maximum(near[:, -1:], np.finfo(near.dtype).tiny)
    weights = np.maximum(1 - near[:, :s] / width, LEAST)
    return numbers, weights / weights.sum(axis=1, keepdims=True)


def _has_directions(X: Rows) -> bool:
    """Whether many columns go equally far from a least value that is frequent, as
    pixels and counts do.
    """
    low, high = (np.ravel(as_dense(m)) for m in (X.min(axis=0), X.max(axis=0)))
    varies = np.flatnonzero(low < high)
    spans = (high - low)[varies]
    if len(varies) < FEWEST_COLUMNS or np.mean(spans >= SPREAD * spans.max()) < SPREAD:
        return False
    if isinstance(X, np.ndarray):
        return bool(np.mean(X[:, varies] == low[varies]) >= LOWEST)
    most = (1 - LOWEST) * X.shape[0] * len(varies)
    return bool((low >= 0).all() and X.nnz <= most)
