"""Goes through the single maps inside of a map: those side by side, and those of learned coordinates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from bochner.features.concatenate import ConcatenatedFeatures
from bochner.features.coordinates import MetricFeatures
from bochner.features.metric import Metric


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
