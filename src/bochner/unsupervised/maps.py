"""The map of a model of rows: the one that is given, or landmarks of a kernel."""

from __future__ import annotations

from typing import Any

from bochner.data.array_source import ArraySource
from bochner.features import FourierFeatures, NystroemFeatures
from bochner.features.base import FeatureMap
from bochner.features.copies import seeded
from bochner.features.distances import median_gaussian
from bochner.features.hashed import require_hashed
from bochner.features.landmarks import has_exact_kernel
from bochner.features.leaves import LeafMap, is_dense
from bochner.kernels import Kernel

LANDMARKS, FREQUENCIES = 300, 2000
MOST_COLUMNS = 8192  # whose moments and eigenvectors take a minute and a GB


def map_for(features: Any, kernel: Any, sample: ArraySource, seed: int, n_landmarks: int = LANDMARKS) -> FeatureMap:
    """A map, not drawn yet.

    Parameters
    ----------
    features : FeatureMap, transformer or "auto"
        The last for landmarks of the kernel, or Fourier features where it has no formula.
    kernel : Kernel or "auto"
        The last for a Gaussian of the median distance.
    sample : ArraySource
        Encoded rows.
    seed : int
    n_landmarks : int

    Raises
    ------
    TypeError, ValueError
        For other words, a kernel beside a map, and bins without buckets.
    """
    if isinstance(kernel, str):
        if kernel != "auto":
            raise ValueError(f"kernel must be 'auto' or a kernel such as Gaussian(2.0), got {kernel!r}.")
    elif not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be 'auto' or a kernel such as Gaussian(2.0), got {kernel!r:.200}.")
    if not isinstance(features, str):
        if isinstance(kernel, Kernel):
            raise ValueError("A kernel was given beside a map: give the kernel to the map, features=Map(kernel).")
        drawn = seeded(features, seed)
        if not is_dense(drawn):
            require_hashed(drawn, MOST_COLUMNS)
        return drawn
    if features != "auto":
        raise ValueError(f"features must be 'auto' or a map such as FourierFeatures(), got {features!r}.")
    chosen = kernel if isinstance(kernel, Kernel) else median_gaussian(sample, seed)
    landmarks = NystroemFeatures(chosen, n_landmarks)
    exact = has_exact_kernel(LeafMap(1.0, (), landmarks))
    return seeded(landmarks if exact else FourierFeatures(chosen, FREQUENCIES), seed)
