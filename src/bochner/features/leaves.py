"""The single maps inside of a map, and copies of a map with other seeds or sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from bochner.features.base import FeatureMap
from bochner.features.concatenate import ConcatenatedFeatures
from bochner.features.metric import Metric, MetricFeatures
from bochner.features.transformer import as_map


class LeafMap(NamedTuple):
    """A map without maps inside, where it stands in another one.

    Attributes
    ----------
    weight : float
        Of its kernel in that of the whole.
    metrics : tuple of Metric
        Through which rows go before they reach it, in this order.
    features : FeatureMap, or a transformer
    """

    weight: float
    metrics: tuple[Metric, ...]
    features: Any

    def rows(self, X: Any) -> Any:
        """Rows of the whole as the map sees them."""
        for metric in self.metrics:
            X = metric.transform(X)
        return X


def leaves(features: Any, weight: float = 1.0, metrics: tuple[Metric, ...] = ()) -> Iterator[LeafMap]:
    """Go through the single maps of a map: the fitted ones, or its parameters where it is not fitted.

    Parameters
    ----------
    features : FeatureMap, or a transformer
    weight, metrics : float and tuple of Metric
        With which it stands itself in another one.
    """
    if isinstance(features, ConcatenatedFeatures):
        maps, weights = getattr(features, "maps_", features.maps), getattr(features, "weights_", features.weights)
        shares = np.ones(len(maps)) if weights is None else np.asarray(weights, np.float64)
        for part, share in zip(maps, shares.tolist(), strict=True):
            yield from leaves(part, weight * share, metrics)
    elif isinstance(features, MetricFeatures):
        inner = getattr(features, "features_", features.features)
        yield from leaves(inner, weight, (*metrics, features.metric))
    else:
        yield LeafMap(weight, metrics, features)


def is_dense(features: Any) -> bool:
    """Whether the features of a map are dense, drawn or not; those of transformers of other libraries are."""
    return all(getattr(leaf.features, "is_dense", True) for leaf in leaves(features))


def seeded(features: Any, seed: int) -> FeatureMap:
    """Copy a map or a transformer, which gets `seed` where it has none; those within it get different ones."""
    copy = as_map(clone(features))
    if isinstance(copy, ConcatenatedFeatures):
        copy.check_parameters()
    parts = [leaf.features for leaf in leaves(copy)]
    for m, part in enumerate(parts):
        unset = [name for name, value in part.get_params().items() if value is None and _is_seed(name)]
        part.set_params(**{name: (seed + m + k * len(parts)) % 2**31 for k, name in enumerate(unset)})
    return copy


def fixed(features: FeatureMap) -> FeatureMap:
    """Copy a fitted map, not drawn, with the weights that it has learned; the same seeds draw the same again."""
    copy = clone(features)
    if isinstance(features, ConcatenatedFeatures):
        copy.set_params(weights=list(features.weights_))
    return copy


def resized(features: FeatureMap, factor: float) -> FeatureMap:
    """Copy a fitted map, not drawn, with so many times the grids of its bins and the features of its dense maps.

    The weights of maps side by side stay; what has no size of its own stays as it is.
    """
    if isinstance(features, ConcatenatedFeatures):
        maps = [resized(part, factor) for part in features.maps]
        weights: Any = getattr(features, "weights_", features.weights)
        return ConcatenatedFeatures(maps, weights=None if weights is None else list(weights))
    if isinstance(features, MetricFeatures):
        return MetricFeatures(features.metric, resized(features.features, factor))
    copy = clone(features)
    if (name := size_name(features)) is not None:
        copy.set_params(**{name: max(round(factor * getattr(features, name) / 2) * 2, 2)})
    return copy


def size_name(features: Any) -> str | None:
    """Parameter that is the size of a map; None where there is none."""
    sized = (n for n in ("n_grids", "n_components") if isinstance(getattr(features, n, None), int | np.integer))
    return next(sized, None)


def _is_seed(name: str) -> bool:
    """Whether a parameter is the seed of a map or of something within it, such as a step of a pipeline."""
    return name == "random_state" or name.endswith("__random_state")
