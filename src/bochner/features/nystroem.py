"""Features of exact kernel values with landmarks, or with all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from bochner.arrays import Floats
from bochner.data.hashes import distinct_rows
from bochner.data.table_input import as_dense
from bochner.engines import algebra
from bochner.engines.blas import single_threaded_blas
from bochner.engines.local import for_tiles, require_memory
from bochner.features.base import (
    DenseFeatureMap,
    DenseFeatures,
    FeatureMap,
    Rows,
    random_generator,
)
from bochner.features.fourier import FourierFeatures
from bochner.features.leaves import (
    LeafMap,
    has_exact_kernel,
    kernel_between,
    kernel_of,
    leaves,
)
from bochner.features.metric import MetricFeatures
from bochner.kernels import Gaussian, Kernel
from bochner.kernels.base import check_count, check_kernel
from bochner.kernels.spectral_measures import Isotropic
from bochner.kernels.stationary import Stationary

LEAST_EIGENVALUE = 1e-9  # over the largest one; what is below is rounding
LLOYD_STEPS = 3  # of k-means


class KernelValues(DenseFeatureMap):
    """A map of kernel values with some rows, its landmarks."""

    kernel: Kernel

    def _values(self, X: Any, landmarks: NDArray) -> NDArray:
        """Kernel with the landmarks, shape (m, d), in the precision of the rows, shape
        (b, m).
        """
        terms = self.kernel.terms()
        variance, (leaf, *_) = terms[0]
        if len(terms) != 1 or len(terms[0][1]) != 1 or type(leaf) is not Gaussian:
            rows = as_dense(X).astype(np.float64)
            return self.kernel(rows, landmarks).astype(X.dtype)
        d = self.n_features_in_
        scale = np.broadcast_to(leaf.scales(d), d)
        is_sparse = sp.issparse(X)
        dtype = np.dtype(np.float64) if is_sparse else X.dtype

        def in_units() -> tuple[NDArray, NDArray, NDArray]:
            """Centre and inverse units of the columns, and the landmarks in them, shape
            (d, m).

            Distances from the median of the landmarks lose fewer digits; of sparse rows
            nothing is taken.
            """
            centre = np.zeros(d) if is_sparse else np.median(landmarks, axis=0)
            centre = centre.astype(dtype)
            V = ((landmarks - centre.astype(np.float64)) / scale).T.astype(dtype)
            return centre, (1 / scale).astype(dtype), np.ascontiguousarray(V)

        centre, inverse, V = self._cached(f"units {dtype} {is_sparse}", in_units)
        with np.errstate(over="ignore", invalid="ignore"):
            if is_sparse:
                U = X.astype(np.float64).multiply(inverse).tocsr()
                squares = np.ravel(U.power(2).sum(axis=1))
            else:
                U = (X - centre) * inverse
                squares = np.einsum("ij,ij->i", U, U)
            # Minus halves of the squared distances over the lengthscale
            values = np.asarray(U @ V)
            values -= (squares / 2)[:, np.newaxis]
            values -= np.einsum("ij,ij->j", V, V) / 2
        # Not the difference of two infinite numbers
        values[~np.isfinite(squares)] = -np.inf
        np.exp(np.minimum(values, 0, out=values), out=values)
        if variance != 1:
            values *= variance
        return values.astype(X.dtype, copy=False)


class NystroemFeatures(KernelValues):
    """Nystroem features: z(x)'z(y) equals the kernel exactly if x or y is one of m
    landmarks.

    With K the kernel matrix of the landmarks x_1, ..., x_m, and K = V diag(s) V'
    without the eigenvalues that are zero,

        z(x) = diag(s)^-1/2 V' [k(x, x_1), ..., k(x, x_m)]

    (Williams and Seeger, 2001). Landmarks are rows. For kernels of the Euclidean
    distance three steps of k-means turn them into means of rows, which are as good as
    two or three times as many (Zhang, Tsang and Kwok, 2008). The features adapt to the
    rows, unlike Fourier features: the leading eigenvectors of many rows are accurate
    with a tenth of the columns. ‖z(x)‖^2 is below k(x, x), by more the farther x is
    from all landmarks.

    Parameters
    ----------
    kernel : Kernel, default=Gaussian()
        Any sum, product and scaling of the kernels in `bochner.kernels`, with
        lengthscales in the units of X. The Gaussian is fast; others need double
        precision.
    n_components : int, default=500
        Number m of landmarks. With at most m rows all of them are landmarks, and the
        features give the exact kernel.
    random_state : int, RandomState or None, default=None
        Seed of the draw.

    Attributes
    ----------
    landmarks_ : array of shape (m, d), float64
    root_ : array of shape (m, D), float64
        V diag(s)^-1/2. D is the rank of K, at most m.
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    TypeError
        At fit: `kernel` is not a kernel, or `n_components` is not an integer.
    ValueError
        At fit: `n_components` not positive; lengthscales that do not match the columns.
    NotFittedError
        At transform, before fit.

    References
    ----------
    Williams and Seeger, "Using the Nystroem Method to Speed Up Kernel Machines", NIPS
    2000. Zhang, Tsang and Kwok, "Improved Nystrom Low-Rank Approximation and Error
    Analysis", ICML 2008. Sterge and Sriperumbudur, "Statistical Optimality and
    Computational Efficiency of Nystrom Kernel PCA", JMLR 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.features import NystroemFeatures
    >>> from bochner.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> Z = NystroemFeatures(
    ...     Gaussian(2.0), n_components=100, random_state=0
    ... ).fit_transform(X)
    >>> bool(abs(Z @ Z.T - Gaussian(2.0)(X)).max() < 1e-6)
    True
    """

    def __init__(
        self,
        kernel: Kernel = Gaussian(),  # noqa: B008 - changed on a copy only, see FeatureMap.set_params
        n_components: int = 500,
        *,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.random_state = random_state

    def draw(self, n_features: int) -> NystroemFeatures:
        """Note the number of columns; landmarks are rows, which are still to come."""
        check_kernel(self.kernel)
        check_count(self.n_components, "n_components")
        self.kernel.check_features(n_features)
        self.n_features_in_ = n_features
        self.landmarks_ = np.zeros((0, n_features))
        self.root_ = np.zeros((0, 0))
        self._caches = {}
        return self

    @single_threaded_blas()
    def fit_sample(self, X: Rows, weight: NDArray) -> None:
        """Find the landmarks of the rows X, of which equal ones count as one, and those
        without weight not at all.
        """
        self.kernel.check_rows(X)
        rng = random_generator(self.random_state)
        counted = np.flatnonzero(weight)
        m = self.n_components
        rows = counted[distinct_rows(X[counted], weight[counted])[0]]
        require_memory(
            32 * min(len(rows), m) ** 2,
            "The kernel matrix of landmarks",
            "Use fewer n_components.",
        )
        landmarks = X[np.sort(rng.permutation(rows)[:m])]
        # Of Euclidean distances alone, of which means of rows stand for these
        is_euclidean = all(
            isinstance(leaf, Stationary)
            and isinstance(leaf.spectral_measure(), Isotropic)
            for _, factors in self.kernel.terms()
            for leaf in factors
        )
        if len(rows) > m and is_euclidean:
            self.landmarks_ = k_means(X, weight, landmarks)
        else:
            self.landmarks_ = as_dense(landmarks).astype(np.float64)
        self._caches = {}
        values, vectors = algebra.leading(
            self.kernel(self.landmarks_), len(self.landmarks_)
        )
        kept = values > LEAST_EIGENVALUE * values[0]
        self.root_ = vectors[:, kept] / np.sqrt(values[kept])

    @property
    def n_features_out(self) -> int:
        """Number D of columns, 0 until rows have been seen."""
        return int(self.root_.shape[1])

    def write(self, X: Rows, out: NDArray) -> None:
        """Write the features of a few rows into the first columns of `out`."""
        values = self._values(X, self.landmarks_)
        out[:, : self.n_features_out] = values @ self._in(X.dtype, "root_")

    def dot(self, X: Rows, coef: NDArray) -> NDArray:
        """Features of the rows times coefficients of shape (D, K), as the kernel
        times coefficients of landmarks.
        """
        folded = algebra.product(self.root_, coef.astype(np.float64)).astype(X.dtype)
        result = np.empty((X.shape[0], coef.shape[1]), X.dtype)

        def multiply(rows: slice) -> None:
            values = self._values(X[rows], self.landmarks_)
            np.matmul(values, folded, out=result[rows])

        for_tiles(multiply, X.shape[0], self._tile_rows(X.dtype))
        return result


def k_means(X: Any, weight: NDArray, centres: Any) -> Floats:
    """Centres after some steps of Lloyd's, shape (m, d), to the same bits on any
    number of threads.
    """
    n = X.shape[0]
    # Squares of entries stay finite, and their sums exact, in units of the largest one
    unit = float(algebra.binary_unit(abs(X).max()))
    X = X * (1 / unit)
    centres = as_dense(centres).astype(X.dtype) * (1 / unit)
    for _ in range(LLOYD_STEPS):
        products = X @ centres.T if sp.issparse(X) else algebra.product(X, centres.T)
        nearest = (products - np.einsum("ij,ij->i", centres, centres) / 2).argmax(
            axis=1
        )
        places = (nearest, np.arange(n))
        members = sp.csr_array((weight, places), shape=(len(centres), n))
        total = members.sum(axis=1)
        sums = as_dense(members @ X)
        nonempty = total > 0
        centres[nonempty] = sums[nonempty] / total[nonempty, np.newaxis]
    return unit * centres.astype(np.float64)


TILE = 512  # rows that are compared with all landmarks at a time
ROUNDING = 1e-12  # of the kernel matrix of the landmarks, over its trace


class LandmarkFeatures(DenseFeatures):
    """Features z(x) = L^-1 [k(x, x_1), ..., k(x, x_m)], L L' = k of the landmarks
    (Williams and Seeger, 2001).

    The kernel k is the one that a fitted map estimates, on learned coordinates if there
    are any, and the weighted sum of those of its parts; where it has no formula, the
    inner product of the features. k(x, x) - |z(x)|^2 is what the landmarks do not tell
    of a function's value at x: its variance given its values at the landmarks.

    Parameters
    ----------
    features : FeatureMap
        Fitted.
    landmarks : array of shape (m, d)
        Rows as the map takes them, dense.
    root : array of shape (m, m), optional
        L^-1, computed here where it is not given.

    References
    ----------
    Williams and Seeger, "Using the Nystroem Method to Speed Up Kernel Machines", NIPS
    2000.
    """

    def __init__(
        self, features: FeatureMap, landmarks: NDArray, root: NDArray | None = None
    ) -> None:
        self.features = features
        self.landmarks = landmarks
        if root is None:
            within = self.values(landmarks)
            rounding = ROUNDING * float(np.trace(within)) or 1.0
            lower = algebra.shifted_cholesky(within, rounding, rounding)
            root = algebra.solve_lower(lower, np.eye(len(lower)))
        self.root = root

    @property
    def n_features_out(self) -> int:
        """Number of landmarks."""
        return len(self.landmarks)

    def values(self, X: Rows) -> Floats:
        """Kernel with the landmarks, shape (b, m)."""
        rows = np.asarray(as_dense(X), np.float64)
        others = np.asarray(self.landmarks, np.float64)
        return kernel_between(self.features, rows, others, exactly=True)

    def variance(self, X: Rows) -> Floats:
        """k(x, x) of each row, shape (b,)."""
        total = np.zeros(X.shape[0])
        for leaf in leaves(self.features):
            if has_exact_kernel(leaf):
                total += leaf.weight * leaf.features.kernel.variance
                continue
            rows = leaf.coordinates(X.astype(np.float64))
            Z = as_dense(leaf.features.map_rows(rows))
            total += leaf.weight * np.einsum("ij,ij->i", Z, Z)
        return total

    def write(self, X: Rows, out: NDArray) -> None:
        """Write the features of a few rows into the first columns of `out`."""
        out[:, : len(self.landmarks)] = algebra.product(self.values(X), self.root.T)

    def _tile_rows(self, dtype: np.dtype) -> int:
        return TILE


# Rows that are compared with all that are kept at a time, for exact kernels cost as
# much for a few
ROWS_TILE = 512
EXACT_REMEDY = (
    "Use fewer rows, or solver='auto', whose random features need none of this."
)


class KernelRows(KernelValues):
    """Kernel values with all rows of the fit, z(x) = [k(x, x_1), ..., k(x, x_n)]: what
    exact kernel machines sum.

    Parameters
    ----------
    kernel : Kernel

    Attributes
    ----------
    rows_ : array of shape (n, d)
        The rows of the fit, dense.
    n_features_in_ : int
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def draw(self, n_features: int) -> KernelRows:
        """Keep no rows yet."""
        self.kernel.check_features(n_features)
        self.n_features_in_ = n_features
        self.rows_ = np.empty((0, n_features))
        return self

    def fit_rows(self, X: Rows) -> None:
        """Keep these rows, dense, after those that are kept."""
        if not isinstance(X, np.ndarray):
            require_memory(
                8 * X.shape[0] * X.shape[1],
                "An exact kernel of these sparse rows, made dense,",
                EXACT_REMEDY,
            )
        rows = np.array(as_dense(X))
        self.rows_ = np.vstack([self.rows_, rows]) if len(self.rows_) else rows
        self._caches = {}

    @property
    def n_features_out(self) -> int:
        """Number of rows that are kept."""
        return len(self.rows_)

    def write(self, X: Rows, out: NDArray) -> None:
        """Write the kernel values of a few rows into the first columns of `out`."""
        # Coefficients of little noise are large: single precision is too little
        values = self._values(X.astype(np.float64, copy=False), self.rows_)
        out[:, : len(self.rows_)] = values

    def _tile_rows(self, dtype: np.dtype) -> int:
        return ROWS_TILE


def exact_map(features: FeatureMap) -> FeatureMap:
    """Return the map whose features are exact kernel values, not fitted, for a map that
    estimates them.

    Raises ValueError for a map whose kernel is not known, or not one kernel.
    """
    (leaf, *others) = leaves(features)
    kernel = kernel_of(leaf.features)
    if others or kernel is None or getattr(leaf.features, "column_share", 1.0) != 1.0:
        raise ValueError(
            f"solver='exact' needs a known kernel, and {type(features).__name__} have "
            "none: give kernel= in place of features=."
        )
    exact = KernelRows(kernel if leaf.weight == 1 else leaf.weight * kernel)
    return _on_coordinates(leaf, exact)


def estimated_map(features: FeatureMap, n_components: int, seed: int) -> FeatureMap:
    """Return Fourier features, not drawn, that estimate the kernel whose exact values
    a fitted map has.
    """
    (leaf,) = leaves(features)
    kernel = kernel_of(leaf.features)
    assert kernel is not None
    estimated = FourierFeatures(kernel, n_components, random_state=seed)
    return _on_coordinates(leaf, estimated)


def _on_coordinates(leaf: LeafMap, features: FeatureMap) -> FeatureMap:
    """Features of the learned coordinates that a single map is of."""
    for metric in reversed(leaf.metrics):
        features = MetricFeatures(metric, features)
    return features


def has_kernel_rows(features: Any) -> bool:
    """Whether a map is, or holds, kernel values with rows."""
    try:
        return any(isinstance(leaf.features, KernelRows) for leaf in leaves(features))
    except (TypeError, ValueError):  # parameters that a draw refuses
        return False


N_COMPONENTS = 2048  # whose estimate of the kernel is off by two percent or so
N_BUCKETS = 1024  # of each grid, for bins that no row has been in


class PriorFunctions:
    """Functions drawn from a Gaussian process of mean zero and the kernel of a fitted
    map.

    Random combinations of fresh Fourier features of the kernel, or of fresh bins that
    are hashed, so that a function has a value everywhere; of the map's own features
    where these have no kernel beside.

    Parameters
    ----------
    features : FeatureMap
        Fitted.
    n_functions : int
        Number S of functions.
    rng : Generator
    """

    def __init__(
        self, features: FeatureMap, n_functions: int, rng: np.random.Generator
    ) -> None:
        self._parts = list[tuple[LeafMap, FeatureMap, NDArray]]()
        for leaf in leaves(features):
            seed = int(rng.integers(2**31))
            fresh: Any = leaf.features
            # Of the same kernel, for rows as the single map sees them
            if has_exact_kernel(leaf):
                if getattr(fresh, "column_share", 1.0) == 1:
                    fresh = FourierFeatures(
                        fresh.kernel, N_COMPONENTS, sampling="iid", random_state=seed
                    )
                else:
                    fresh = clone(fresh).set_params(
                        n_buckets=N_BUCKETS, random_state=seed
                    )
                fresh.draw(leaf.features.n_features_in_)
            coef = rng.standard_normal((fresh.n_features_out, n_functions))
            self._parts.append((leaf, fresh, coef * np.sqrt(leaf.weight)))

    def __call__(self, X: Rows) -> Floats:
        """Values at some rows, shape (n, S)."""
        X = X.astype(np.float64, copy=False)
        values = [
            fresh.dot(leaf.coordinates(X), coef) for leaf, fresh, coef in self._parts
        ]
        return np.sum(values, axis=0)

    def features(self, X: Rows) -> Floats | None:
        """The features that the functions combine, shape (n, D); None where some are
        bins, of which there are too many.
        """
        if not all(fresh.is_dense for _, fresh, _ in self._parts):
            return None
        X = X.astype(np.float64, copy=False)
        parts = [
            as_dense(fresh.map_rows(leaf.coordinates(X))) * np.sqrt(leaf.weight)
            for leaf, fresh, _ in self._parts
        ]
        return np.hstack(parts)
