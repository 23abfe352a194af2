"""The kernel that a map stands for, by landmarks: the Nystroem features, and what they leave of the variance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from bochner.engines.algebra import product, shifted_cholesky, solve_lower
from bochner.features.base import FeatureMap
from bochner.features.dense import DenseFeatures, Rows
from bochner.features.leaves import LeafMap, leaves
from bochner.kernels import Kernel
from bochner.kernels.drawn import FromSpectrum
from bochner.kernels.stationary import Stationary

TILE = 512  # rows that are compared with all landmarks at a time
ROUNDING = 1e-12  # of the kernel matrix of the landmarks, over its trace


def has_exact_kernel(leaf: LeafMap) -> bool:
    """Whether the kernel that a single map estimates is known by a formula."""
    kernel = getattr(leaf.features, "kernel", None)
    if not isinstance(kernel, Kernel) or (isinstance(kernel, FromSpectrum) and kernel.exact is None):
        return False
    mixed = getattr(leaf.features, "column_share", 1.0) != 1.0
    return not mixed or all(isinstance(one, Stationary) for _, factors in kernel.terms() for one in factors)


class LandmarkFeatures(DenseFeatures):
    """Features z(x) = L^-1 [k(x, x_1), ..., k(x, x_m)], L L' = k of the landmarks (Williams and Seeger, 2001).

    The kernel k is the one that a fitted map estimates, of learned coordinates where there are such, and the weighted
    sum of those of its parts; where it has no formula, the inner product of the features. k(x, x) - |z(x)|^2 is what
    the landmarks do not tell of a function's value at x: its variance given its values at the landmarks.

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
    Williams and Seeger, "Using the Nystroem Method to Speed Up Kernel Machines", NIPS 2000.
    """

    def __init__(self, features: FeatureMap, landmarks: NDArray, root: NDArray | None = None) -> None:
        self._parts = [_Part(leaf, landmarks) for leaf in leaves(features)]
        self.landmarks = landmarks
        self.root = self._root() if root is None else root

    def _root(self) -> NDArray[np.float64]:
        within = self.values(self.landmarks)
        rounding = ROUNDING * float(np.trace(within)) or 1.0
        lower = shifted_cholesky(within, rounding, rounding)
        return solve_lower(lower, np.eye(len(lower)))

    @property
    def n_features_out(self) -> int:
        """Number of landmarks."""
        return len(self.landmarks)

    def values(self, X: Rows) -> NDArray[np.float64]:
        """Kernel with the landmarks, shape (b, m)."""
        X = np.asarray(X if isinstance(X, np.ndarray) else X.toarray(), np.float64)
        total = np.zeros((len(X), len(self.landmarks)))
        for part in self._parts:
            total += part.values(X)
        return total

    def variance(self, X: Rows) -> NDArray[np.float64]:
        """k(x, x) of each row, shape (b,)."""
        return np.sum([part.variance(X) for part in self._parts], axis=0)

    def write(self, X: Rows, out: NDArray) -> None:
        """Write the features of a few rows into the first columns of `out`."""
        out[:, : len(self.landmarks)] = product(self.values(X), self.root.T)

    def _tile_rows(self, dtype: np.dtype) -> int:
        return TILE


class _Part:
    """The kernel of a single map with the landmarks, times its weight."""

    def __init__(self, leaf: LeafMap, landmarks: NDArray) -> None:
        self.leaf, self.exact = leaf, has_exact_kernel(leaf)
        self.share = getattr(leaf.features, "column_share", 1.0)
        rows = self._coordinates(np.asarray(landmarks, np.float64))
        self.others = rows if self.exact else self._features(rows)

    def _coordinates(self, X: Rows) -> Any:
        for metric in self.leaf.metrics:
            X = metric.coordinates(X)
        return X

    def _features(self, rows: Rows) -> NDArray[np.float64]:
        dense = self.leaf.features.dense
        return dense.rows(rows) if dense is not None else self.leaf.features.transform(rows)

    def values(self, X: NDArray) -> Any:
        """Kernel with the landmarks, shape (b, m)."""
        rows = self._coordinates(X)
        if not self.exact:
            return self.leaf.weight * np.asarray(_dense(self._features(rows) @ self.others.T))
        kernel = self.leaf.features.kernel
        values = kernel(rows, self.others) if self.share == 1 else column_mixture(kernel, self.share, rows, self.others)
        return self.leaf.weight * values

    def variance(self, X: Rows) -> NDArray[np.float64]:
        """k(x, x) of each row."""
        if self.exact:
            return np.full(X.shape[0], self.leaf.weight * self.leaf.features.kernel.variance)
        Z = _dense(self._features(self._coordinates(X.astype(np.float64))))
        return self.leaf.weight * np.einsum("ij,ij->i", Z, Z)


def _dense(Z: Any) -> NDArray:
    return Z if isinstance(Z, np.ndarray) else Z.toarray()


def column_mixture(kernel: Kernel, share: float, X: NDArray, Y: NDArray) -> NDArray[np.float64]:
    """Kernel of grids that split each column with a probability: prod_j (1 - q + q k_j) for a product kernel.

    Parameters
    ----------
    kernel : Kernel
        Of terms whose leaves are `Stationary` products over the columns.
    share : float
        The probability q.
    X, Y : arrays of shape (n, d) and (m, d)
    """
    total = np.zeros((len(X), len(Y)))
    for variance, factors in kernel.terms():
        values = np.full(total.shape, variance)
        for leaf in factors:
            for j, scale in enumerate(np.broadcast_to(leaf.scales(X.shape[1]), X.shape[1]).tolist()):
                own = clone(leaf).set_params(lengthscale=scale)
                values *= 1 - share + share * own(X[:, j : j + 1], Y[:, j : j + 1])
        total += values
    return total
