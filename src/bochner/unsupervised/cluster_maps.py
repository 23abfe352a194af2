"""The maps of clusterings: anchors by themselves, or waves and bins of a scale that the rows decide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.design import Design
from bochner.features import AnchorFeatures, BinningFeatures, ConcatenatedFeatures, FourierFeatures, MetricFeatures
from bochner.features.base import FeatureMap
from bochner.features.copies import seeded
from bochner.features.distances import median_distance, median_gaussian, paired_rows
from bochner.features.hashed import hashed
from bochner.features.transformer import as_map
from bochner.kernels import Laplacian
from bochner.reductions import typed_blocks
from bochner.unsupervised.base import Opened

NAMES = "anchors", "fourier", "binning"
NEIGHBORS = 4  # anchors of a row: of 3 to 5 the most steady on pictures of digits
MOST_ANCHORS, FEWEST_ANCHORS, ROWS_EACH = 1000, 10, 3  # rows that each has; of fewer a graph falls apart
MOST_COLUMNS = 4096  # of hashed bins, whose Gram matrix is held


def map_of(features: Any, rows: Opened, seed: int) -> FeatureMap:
    """Return a map that is not drawn yet: a copy of the one given, or one by name, of the scale of the rows.

    A Gaussian kernel gets the lengthscale with which it is exp(-1) at the median squared distance of two rows, a
    Laplacian one that with which it is exp(-1) at their median L1 distance. So no pair is all that counts, nor none.

    Parameters
    ----------
    features : FeatureMap, scikit-learn transformer, or one of "anchors", "fourier", "binning"
    rows : Opened
    seed : int
        Of a map that has none.
    """
    if not isinstance(features, str):
        return bounded(seeded(features, seed))
    if features == "anchors":
        most = max(rows.n_rows // ROWS_EACH, FEWEST_ANCHORS)
        return AnchorFeatures(min(most, MOST_ANCHORS), NEIGHBORS, random_state=seed)
    if features == "fourier":
        return FourierFeatures(median_gaussian(rows.sample, seed), random_state=seed)
    if features == "binning":
        kernel = Laplacian(median_distance(*paired_rows(rows.sample, seed), p=1))
        return bounded(BinningFeatures(kernel, random_state=seed))
    raise ValueError(f"features must be a feature map or one of {', '.join(map(repr, NAMES))}, got {features!r}.")


def bounded(features: FeatureMap) -> FeatureMap:
    """The map with bins in so many columns that their Gram matrix can be held."""
    inner: Any = features
    while isinstance(inner, MetricFeatures):
        inner = inner.features
    if isinstance(inner, ConcatenatedFeatures):
        return ConcatenatedFeatures([bounded(as_map(part)) for part in inner.maps], inner.weights)
    return hashed(features, MOST_COLUMNS) if isinstance(inner, BinningFeatures) and not inner.n_buckets else features


def mapped(rows: Opened, features: FeatureMap) -> Iterator[tuple[Any, NDArray]]:
    """Yield features of blocks of the rows, an array or sparse rows of shape (b, D), and the weights."""
    block_rows = Design(rows.source, features).block_rows
    for X, _, weight in typed_blocks(rows.source, block_rows, np.dtype(np.float32)):
        yield (features.transform(X) if features.dense is None else features.dense.rows(X)), weight
