"""Anchor features: each row by its nearest landmarks (Liu, He and Chang, 2010)."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from sklearn.cluster import MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_feature_names_in as check_feature_names_in
from sklearn.utils.validation import check_is_fitted

from bochner.data.streams.lazily import lazy
from bochner.engines.blas import single_threaded_blas
from bochner.engines.local import STEP, for_rows, require_memory
from bochner.features.base import REMEDY, FeatureMap
from bochner.features.boundary import any_arrays
from bochner.features.dense import Centres, Rows
from bochner.features.sparse import StoredSparse
from bochner.features.stored import require_length

MOST_ROWS = 32  # of the sample, for each landmark: more do not make better ones
BATCH_ROWS, EPOCHS = 4096, 4  # of the rows that k-means takes at a time, and how often it sees each
TILE_BYTES = 4 << 20  # of the distances of the rows that a thread looks at together
FEWEST_NEIGHBOURS, MOST_NEIGHBOURS, CONNECTED, SHOWN_ROWS = 3, 8, 0.99, 2
LEAST = 1e-6  # of the weight of the nearest landmark, so that weights are positive
MANY_COLUMNS, DIRECTIONS, MOST_COLUMNS = 64, 50, 4096  # of rows that are compared by some directions alone
FEWEST_COLUMNS, SPREAD, LOWEST = 16, 0.5, 0.25  # of rows whose directions tell more than their lengths


class AnchorFeatures(FeatureMap):
    """Weights of each row on its nearest landmarks: sparse, positive, and with the sum one.

    Of landmarks u_1, ..., u_m, which k-means finds, a row x has the s nearest ones in reach, and

        z_j(x) = w_j / sum_l w_l,   w_j = 1 - |x - u_j|^2 / h(x)^2,

    h(x) the distance of landmark s + 1. A weight fades to zero before its landmark leaves the s nearest, so that
    features are continuous, and h(x) follows the density of the rows. They carry the methods of graphs, where a row is
    to be like its neighbours and unlike all others: W = Z L^-1 Z', L = diag(Z'1), is a graph of all pairs of rows whose
    weights are nowhere negative and whose degrees are one. As features of a regression they interpolate among the
    landmarks.

    Parameters
    ----------
    n_components : int, default=1000
        Number m of landmarks; fewer where there are fewer distinct rows.
    n_neighbors : int or "auto", default=5
        Number s of landmarks of a row. "auto" is the least of 3 to 8 by which the graph of the rows is in one part, but
        for a hundredth of them; 8 where none is.
    normalize : bool or "auto", default="auto"
        Whether rows are compared by their directions, seen from the corner of least values. "auto" does so where many
        columns seem to have one unit and a least value that is frequent, as pixels and counts.
    n_directions : int, "auto" or None, default="auto"
        Principal directions of the rows that are compared, which leave out noise, and make distances cheap. "auto" is
        50 of 65 to 4,096 columns, and all of others; None is all.
    random_state : int, RandomState or None, default=None
        Seed of the landmarks.

    Attributes
    ----------
    landmarks_ : array of shape (m, d) or (m, n_directions)
        Less the origin, and of rows of length one where these are normalised.
    directions_ : array of shape (d, n_directions) or None
        Orthonormal, onto which rows are projected after that.
    origin_ : array of shape (d,)
        From which rows are seen: their least values where they are normalised, or else their means; zeros where the
        map was fitted on sparse rows.
    normalized_ : bool
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    TypeError, ValueError
        At fit: numbers that are no positive integers; another `normalize`. At transform: another number of columns.
    NotFittedError
        At transform, before fit.

    References
    ----------
    Liu, He and Chang, "Large Graph Construction for Scalable Semi-Supervised Learning", ICML 2010, equations 2 and 6.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import AnchorFeatures
    >>> X = np.random.default_rng(0).standard_normal((500, 2))
    >>> Z = AnchorFeatures(n_components=50, n_neighbors=3, random_state=0).fit_transform(X)
    >>> Z.shape, Z.nnz == 500 * 3, bool(np.allclose(Z.sum(axis=1), 1))
    ((500, 50), True, True)
    """

    def __init__(
        self,
        n_components: int = 1000,
        n_neighbors: int | str = 5,
        *,
        normalize: bool | str = "auto",
        n_directions: int | str | None = "auto",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.normalize = normalize
        self.n_directions = n_directions
        self.random_state = random_state

    def draw(self, n_features: int) -> AnchorFeatures:
        """Forget the landmarks, for `n_features` columns; new ones are chosen among the rows."""
        self._check_parameters()
        self.seed_ = int(check_random_state(self.random_state).randint(2**31))
        self.landmarks_, self.origin_ = np.empty((0, n_features)), np.zeros(n_features)
        self.normalized_, self.reach_ = False, 0
        self.directions_: NDArray[np.float64] | None = None
        self.n_features_in_ = n_features
        self._caches: dict[str, Any] = {}
        return self

    def _check_parameters(self) -> None:
        for name in ("n_components", "n_neighbors"):
            value = getattr(self, name)
            if value == "auto" and name == "n_neighbors":
                continue
            if not isinstance(value, Integral) or isinstance(value, bool):
                raise TypeError(f"{name} must be an integer, got {value!r}.")
            if not 1 <= int(value) < 2**31:
                raise ValueError(f"{name} must be positive and below 2^31, got {value}.")
        wanted = self.n_directions
        if wanted not in ("auto", None) and (not isinstance(wanted, Integral) or wanted is True or wanted < 1):
            raise ValueError(f"n_directions must be a positive integer, 'auto' or None, got {wanted!r}.")
        if not isinstance(self.normalize, bool | np.bool_) and self.normalize != "auto":
            raise ValueError(f"normalize must be True, False or 'auto', got {self.normalize!r}.")

    def fit_sample(self, X: Rows, weight: NDArray) -> None:
        """Find the landmarks of a sample of the rows, by k-means on 32 rows for each of them at most."""
        rng = np.random.default_rng(self.seed_)
        rows, most = np.flatnonzero(weight), MOST_ROWS * int(self.n_components)
        if len(rows) > most:
            rows = np.sort(rng.choice(rows, most, replace=False))
        X, weight = X[rows], weight[rows]
        self.normalized_ = _has_directions(X) if self.normalize == "auto" else bool(self.normalize)
        if not sp.issparse(X):
            self.origin_ = (X.min(axis=0) if self.normalized_ else X.mean(axis=0, dtype=np.float64)).astype(np.float64)
        seen = self._seen(X)
        self.directions_ = self._principal(seen, weight)
        if self.directions_ is not None:
            seen = np.asarray(seen @ self.directions_.astype(X.dtype))
        self.landmarks_ = _centres(seen, weight, int(self.n_components), int(rng.integers(2**31)))
        self._caches = {}
        self.reach_ = max(min(self._most_neighbors, len(self.landmarks_) - 1), 1)
        if self.n_neighbors == "auto":
            shown = rng.permutation(X.shape[0])[: SHOWN_ROWS * self.n_features_out]
            self.reach_ = _connecting(self.neighbors(X[shown])[0], self.n_features_out)

    @property
    def _most_neighbors(self) -> int:
        return MOST_NEIGHBOURS if isinstance(self.n_neighbors, str) else int(self.n_neighbors)

    @property
    def n_features_out(self) -> int:
        """Number m of landmarks, 0 until there are rows."""
        return len(self.landmarks_)

    def _seen(self, X: Rows) -> Rows:
        """Rows from the origin, of length one where they are normalised; sparse rows from zero."""
        if sp.issparse(X):
            lengths = np.sqrt(_squared_lengths(X))
            return sp.csr_array(sp.diags_array(1 / _positive(lengths)) @ X) if self.normalized_ else X
        U = X - self.origin_.astype(X.dtype)
        if self.normalized_:
            U /= _positive(np.sqrt(np.einsum("ij,ij->i", U, U)))[:, np.newaxis]
        return U

    def _principal(self, seen: Rows, weight: NDArray) -> NDArray[np.float64] | None:
        """The directions in which some rows vary most, or None for all."""
        d, wanted = seen.shape[1], self.n_directions
        if isinstance(wanted, str):
            wanted = DIRECTIONS if MANY_COLUMNS < d <= MOST_COLUMNS else None
        if wanted is None or int(wanted) >= d:
            return None
        mean = np.ravel(seen.T @ weight) / weight.sum()
        moments = _dense(
            (seen.T * weight if isinstance(seen, np.ndarray) else (seen.T @ sp.diags_array(weight))) @ seen
        )
        covariance = moments / weight.sum() - np.outer(mean, mean)
        return np.linalg.eigh(covariance.astype(np.float64))[1][:, : -int(wanted) - 1 : -1]

    def _projected(self, X: Rows, directions: NDArray) -> NDArray:
        """Rows from the origin, perhaps of length one, along the directions."""
        P = directions.astype(X.dtype)
        if not sp.issparse(X):
            return self._seen(X) @ P
        origin = self.origin_.astype(X.dtype)
        U = X @ P - origin @ P
        if self.normalized_:
            own = np.maximum(_squared_lengths(X) - 2 * (X @ origin) + origin @ origin, 0)
            U /= _positive(np.sqrt(own))[:, np.newaxis]
        return U

    def _squared_distances(self, X: Rows) -> NDArray:
        """Of some rows from all landmarks, shape (b, m); sparse rows stay so."""
        landmarks, squares = self._cached(f"landmarks of {X.dtype}", lambda: self._landmarks(X.dtype))
        if self.directions_ is not None or not sp.issparse(X):
            U = self._seen(X) if self.directions_ is None else self._projected(X, self.directions_)
            D, own = U @ landmarks.T, np.einsum("ij,ij->i", U, U)
        else:
            origin = self.origin_.astype(X.dtype)
            D = X @ landmarks.T - landmarks @ origin
            own = np.maximum(_squared_lengths(X) - 2 * (X @ origin) + origin @ origin, 0)
            if self.normalized_:
                D /= _positive(np.sqrt(own))[:, np.newaxis]
                own = (own > 0).astype(X.dtype)
        D *= -2
        D += squares
        D += own[:, np.newaxis]
        return np.maximum(D, 0, out=D)

    def _landmarks(self, dtype: np.dtype) -> tuple[NDArray, NDArray]:
        landmarks = self.landmarks_.astype(dtype)
        return landmarks, np.einsum("ij,ij->i", landmarks, landmarks)

    def neighbors(self, X: Rows) -> tuple[NDArray[np.int32], NDArray]:
        """Nearest landmarks of the rows, the nearest first, and their weights, both of shape (n, s)."""
        s, m = self.reach_, len(self.landmarks_)
        ids, weights = np.empty((X.shape[0], s), np.int32), np.empty((X.shape[0], s), X.dtype)
        tile = max(TILE_BYTES // (m * X.dtype.itemsize) // STEP, 1) * STEP

        def loop(start: int, stop: int) -> None:
            for a in range(start, stop, tile):
                own = slice(a, min(a + tile, stop))
                ids[own], weights[own] = _nearest(self._squared_distances(X[own]), s)

        for_rows(loop, X.shape[0], tile)
        return ids, weights

    def _rows(self, X: Rows) -> sp.csr_matrix:
        ids, weights = self.neighbors(X)
        starts = np.arange(len(ids) + 1, dtype=np.int32 if ids.size < 2**31 else np.int64) * self.reach_
        return sp.csr_matrix((weights.ravel(), ids.ravel(), starts), shape=(len(ids), self.n_features_out))

    def store(self, X: Rows, packed: bool = False, centres: Centres | None = None) -> StoredSparse:
        """Weights of the rows, held in memory."""
        return StoredSparse(self._rows(X))

    def stored_bytes(self, dtype: np.dtype, packed: bool) -> int:
        """Memory of one row's landmarks and weights."""
        return self._most_neighbors * (4 + dtype.itemsize) + 8

    @lazy
    @any_arrays
    def transform(self, X: Any) -> sp.csr_matrix:
        """Compute the features.

        Parameters
        ----------
        X : array or sparse matrix of shape (n, d), or such a collection of Dask
            float32 gives float32; everything else float64.

        Returns
        -------
        csr_matrix of shape (n, m), or a Dask array of such blocks
            With s entries in a row, the largest first.
        """
        X = self._checked(X, reset=False)
        need = 2 * X.shape[0] * self.stored_bytes(X.dtype, packed=False)
        require_memory(need, f"The landmarks of {X.shape[0]:,} rows", REMEDY)
        return self._rows(X)

    def dot(self, X: Rows, coef: NDArray) -> NDArray:
        """Features of the rows times coefficients of shape (m, K)."""
        require_length(coef, self.n_features_out)
        return np.asarray(self._rows(X) @ coef).astype(coef.dtype, copy=False)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names ``anchorfeatures0``, ... of the landmarks."""
        check_is_fitted(self)
        check_feature_names_in(self, input_features)
        return np.array([f"anchorfeatures{j}" for j in range(self.n_features_out)], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return len(getattr(self, "landmarks_", ())) > 0


def _squared_lengths(X: sp.csr_array) -> NDArray:
    return np.ravel(X.power(2).sum(axis=1))


def _positive(lengths: NDArray) -> NDArray:
    """Lengths to divide by, one in the place of zero."""
    return np.where(lengths > 0, lengths, lengths.dtype.type(1))


def _nearest(distances: NDArray, s: int) -> tuple[NDArray, NDArray]:
    """The s least of each row's squared distances, in order, and their weights."""
    reach = min(s + 1, distances.shape[1])
    found = np.argpartition(distances, reach - 1, axis=1)[:, :reach]
    near = np.take_along_axis(distances, found, axis=1)
    order = np.argsort(near, axis=1, kind="stable")
    found, near = np.take_along_axis(found, order, axis=1)[:, :s], np.take_along_axis(near, order, axis=1)
    width = np.maximum(near[:, -1:], np.finfo(near.dtype).tiny)
    weights = np.maximum(1 - near[:, :s] / width, LEAST)
    return found, weights / weights.sum(axis=1, keepdims=True)


def _connecting(ids: NDArray[np.int32], n_landmarks: int) -> int:
    """The fewest landmarks of a row, of at least three, by which nearly all rows are in one part of the graph."""
    n_rows, most = ids.shape
    for s in range(min(FEWEST_NEIGHBOURS, most), most):
        starts = np.arange(0, n_rows * s + 1, s)
        Z = sp.csr_array((np.ones(n_rows * s), ids[:, :s].ravel(), starts), shape=(n_rows, n_landmarks))
        part = connected_components(sp.csr_array(Z.T @ Z), directed=False)[1]
        if np.bincount(part[ids[:, 0]]).max() >= CONNECTED * n_rows:
            return s
    return most


def _has_directions(X: Rows) -> bool:
    """Whether many columns go equally far from a least value that is frequent, as pixels and counts do."""
    low, high = (np.ravel(m.toarray() if sp.issparse(m) else m) for m in (X.min(axis=0), X.max(axis=0)))
    varies = np.flatnonzero(low < high)
    spans = (high - low)[varies]
    if len(varies) < FEWEST_COLUMNS or np.mean(spans >= SPREAD * spans.max()) < SPREAD:
        return False
    if sp.issparse(X):
        return bool((low >= 0).all() and X.nnz <= (1 - LOWEST) * X.shape[0] * len(varies))
    return bool(np.mean(X[:, varies] == low[varies]) >= LOWEST)


@single_threaded_blas()
def _centres(X: Rows, weight: NDArray, most: int, seed: int) -> NDArray:
    """Centres of k-means, in order; the distinct rows themselves where these are not more."""
    rows = X if X.shape[0] > most else _dense(X)
    if X.shape[0] > most:
        means = MiniBatchKMeans(
            most, init="random", n_init=1, batch_size=BATCH_ROWS, max_iter=EPOCHS, tol=0.0,
            max_no_improvement=None, reassignment_ratio=0.0, random_state=seed,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            rows = means.fit(X, sample_weight=weight / weight.mean()).cluster_centers_
    return np.unique(rows, axis=0)


def _dense(X: Rows) -> NDArray:
    return X if isinstance(X, np.ndarray) else X.toarray()
