"""Functions drawn from the Gaussian process whose kernel a map stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from bochner.features.base import FeatureMap
from bochner.features.binning import BinningFeatures
from bochner.features.dense import Rows
from bochner.features.fourier import FourierFeatures
from bochner.features.landmarks import has_exact_kernel
from bochner.features.leaves import LeafMap, leaves

N_COMPONENTS = 4096  # whose estimate of the kernel is off by a percent or two
N_BUCKETS = 1024  # of each grid, for bins that no row has been in


class PriorFunctions:
    """Functions drawn from a Gaussian process of mean zero and the kernel of a fitted map.

    Random combinations of fresh Fourier features of the kernel, or of fresh bins that are hashed, so that a function
    has a value everywhere; of the map's own features where these have no kernel beside.

    Parameters
    ----------
    features : FeatureMap
        Fitted.
    n_functions : int
        Number S of functions.
    rng : Generator
    """

    def __init__(self, features: FeatureMap, n_functions: int, rng: np.random.Generator) -> None:
        self._parts: list[tuple[LeafMap, FeatureMap, NDArray]] = []
        for leaf in leaves(features):
            fresh = _fresh(leaf, features.n_features_in_, int(rng.integers(2**31)))
            coef = rng.standard_normal((fresh.n_features_out, n_functions)) * np.sqrt(leaf.weight)
            self._parts.append((leaf, fresh, coef))

    def __call__(self, X: Rows) -> NDArray[np.float64]:
        """Values at some rows, shape (n, S)."""
        total: Any = 0.0
        for leaf, fresh, coef in self._parts:
            rows: Any = X.astype(np.float64, copy=False)
            for metric in leaf.metrics:
                rows = metric.coordinates(rows)
            total = total + fresh.dot(rows, coef)
        return total


def _fresh(leaf: LeafMap, n_features: int, seed: int) -> FeatureMap:
    """A map of the same kernel that is drawn again, for rows as the single map sees them."""
    fresh: Any = leaf.features
    if not has_exact_kernel(leaf):
        return fresh
    n_features = leaf.metrics[-1].n_features_out_ if leaf.metrics else n_features
    if getattr(fresh, "column_share", 1.0) != 1.0:
        mixture: BinningFeatures = clone(fresh).set_params(n_buckets=N_BUCKETS, random_state=seed)
        return mixture.draw(n_features)
    return FourierFeatures(fresh.kernel, N_COMPONENTS, sampling="iid", random_state=seed).draw(n_features)
