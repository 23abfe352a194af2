"""Copies of maps for another fit: with seeds, or with the weights that were learned."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from bochner.features.base import FeatureMap
from bochner.features.concatenate import ConcatenatedFeatures
from bochner.features.leaves import leaves
from bochner.features.transformer import as_map


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


def _is_seed(name: str) -> bool:
    """Whether a parameter is the seed of a map or of something within it, such as a step of a pipeline."""
    return name == "random_state" or name.endswith("__random_state")
