"""Binning features whose bins are hashed: their columns are few and known from the draw on, so that moments serve."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from bochner.data.weights import are_one, unit_weights
from bochner.features.base import FeatureMap
from bochner.features.binning import BinningFeatures
from bochner.features.coordinates import MetricFeatures
from bochner.features.dense import DenseFeatures, Rows
from bochner.features.stored import StoredBins

FEWEST_BUCKETS = 128  # of a grid: its bins meet by chance with a probability of less than a percent
CURES = "fit all rows at once, with fit(source), or use n_buckets={buckets} and at most {grids:,} grids"
ROWS = 512  # that are made dense at a time


def hashed(features: FeatureMap, most_columns: int) -> FeatureMap:
    """Return a map of bins, not drawn, with its bins in buckets, of so many columns at most.

    A map that has buckets stays as it is. Another one keeps its grids where each gets 128 buckets at least, and fewer
    otherwise; they share the columns.

    Parameters
    ----------
    features : BinningFeatures, or MetricFeatures of such
        Not changed.
    most_columns : int

    Raises
    ------
    ValueError
        Where the buckets that the map has are more, or it is no such map; the message names what can be done.
    """
    if isinstance(features, MetricFeatures):
        return MetricFeatures(features.metric, hashed(features.features, most_columns))
    if isinstance(features, BinningFeatures) and features.n_buckets is None:
        n_grids = max(min(features.n_grids, most_columns // FEWEST_BUCKETS), 1)
        return clone(features).set_params(n_grids=n_grids, n_buckets=most_columns // n_grids)
    require_hashed(features, most_columns)
    return clone(features)


def require_hashed(features: FeatureMap, most_columns: int) -> None:
    """Raise ValueError, which names the cures, where a map, drawn or not, is none of bins in so few buckets."""
    inner: Any = features
    while isinstance(inner, MetricFeatures):
        inner = inner.features
    name, cures = type(inner).__name__, CURES.format(buckets=FEWEST_BUCKETS, grids=most_columns // FEWEST_BUCKETS)
    if not isinstance(inner, BinningFeatures):
        raise ValueError(f"{name} are not hashed bins: {cures}.")
    if inner.n_buckets is None:
        raise ValueError(f"The bins of {name} depend on all rows: {cures}.")
    if inner.n_grids * inner.n_buckets > most_columns:
        raise ValueError(
            f"{inner.n_grids:,} grids of {inner.n_buckets:,} buckets are more than {most_columns:,} columns, whose "
            f"moments would not fit in memory: {cures}."
        )


def hashed_bins(features: FeatureMap) -> BinningFeatures | None:
    """The drawn grids of a map of hashed bins; None of any other map."""
    inner: Any = features
    while isinstance(inner, MetricFeatures):
        inner = getattr(inner, "features_", None)
    return inner if isinstance(inner, BinningFeatures) and inner.has_buckets else None


class DenseBins(DenseFeatures):
    """Hashed bins as dense rows, zeros and all: for few rows, of which most solvers ask for nothing else.

    Parameters
    ----------
    features : FeatureMap
        Drawn, of hashed bins.
    """

    def __init__(self, features: FeatureMap) -> None:
        self.features = features

    @property
    def n_features_out(self) -> int:
        return self.features.n_features_out

    def write(self, X: Rows, out: NDArray) -> None:
        stored = self.features.store(X)
        assert isinstance(stored, StoredBins)
        out[:, : self.n_features_out] = 0.0
        columns = stored.ids.T + stored.offsets[:-1]
        out[np.arange(len(columns))[:, np.newaxis], columns] = stored.values.T

    def _tile_rows(self, dtype: np.dtype) -> int:
        return ROWS


class HeldBins:
    """Hashed bins of consecutive rows in as few bytes as tell them, with targets and weights, until there are many.

    The more rows, the less it matters that their moments go through the whole of a large matrix.

    Parameters
    ----------
    n_bytes : int
        That all of them may take, about.
    """

    def __init__(self, n_bytes: int) -> None:
        self.n_bytes, self.n_rows, self.arrays = n_bytes, 0, list[NDArray]()

    def put(self, stored: StoredBins, y: NDArray, weight: NDArray) -> None:
        """Append a block of rows; no later one has more of them than the first."""
        number = np.min_scalar_type(int(stored.offsets[1]) - 1)
        parts = [stored.ids.astype(number), stored.values, y.T, weight[np.newaxis]]
        if not self.arrays:
            most = max(self.n_bytes // sum(len(part) * part.itemsize for part in parts), stored.n_rows)
            widths = [most, most if stored.values.shape[1] > 1 else 1, most, most]
            self.arrays = [np.empty((len(part), width), part.dtype) for part, width in zip(parts, widths, strict=True)]
            self.block, self.most = stored.n_rows, most
        for array, part in zip(self.arrays, parts, strict=True):
            array[:, self.n_rows : self.n_rows + stored.n_rows] = part
        self.n_rows += stored.n_rows

    @property
    def is_full(self) -> bool:
        """Whether there may be no room for another block."""
        return self.n_rows + self.block > self.most

    def take(self) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """Numbers, values, targets and weights of all rows, to be used before others are put in their place."""
        ids, values, targets, weights = (array[:, : self.n_rows] for array in self.arrays)
        self.n_rows = 0
        weight = weights[0]
        return ids, values, targets.T, unit_weights(len(weight)) if are_one(weight) else weight
