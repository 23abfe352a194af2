"""Principal components of features, from their moments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from bochner.engines.blas import single_threaded_blas
from bochner.features.base import FeatureMap
from bochner.features.nystroem import NystroemFeatures
from bochner.moments import Moments

ROUNDING = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-12}  # of the largest variance


class Components(NamedTuple):
    """Directions of the largest variance.

    Attributes
    ----------
    vectors : array of shape (K, D)
        Of length 1, the largest entry of each positive.
    variances : array of shape (K,)
        Descending, not negative.
    mean : array of shape (D,)
    total : float
        Variance of all directions, also of those that landmarks leave out.
    """

    vectors: NDArray[np.float64]
    variances: NDArray[np.float64]
    mean: NDArray[np.float64]
    total: float


@single_threaded_blas()
def principal_components(moments: Moments, features: FeatureMap, n_components: int | None) -> Components:
    """The leading eigenvectors of the covariance of the features; None for all that have variance."""
    D = moments.n_features
    wanted = D if n_components is None else min(n_components, D)
    trace = float(np.trace(moments.matrix[:D, :D])) / moments.weight
    centred = moments.centred()
    covariance = centred.gram / moments.weight
    total = float(np.trace(covariance))
    if isinstance(features, NystroemFeatures):
        total += max(features.kernel.variance - trace, 0.0)
    values, vectors = eigh(covariance, subset_by_index=(D - wanted, D - 1), overwrite_a=True)
    values, vectors = np.maximum(values[::-1], 0.0), vectors.T[::-1]
    least = ROUNDING[moments.dtype] * values[0]
    if n_components is None:
        some = max(int(np.count_nonzero(values > least)), 1)
        values, vectors = values[:some], vectors[:some]
    values = np.where(values > least, values, 0.0)
    largest = vectors[np.arange(len(vectors)), np.abs(vectors).argmax(axis=1)]
    return Components(vectors * np.sign(largest)[:, np.newaxis], values, centred.feature_mean, total)
