"""The single maps inside of a map, their kernels, and copies of a map with other
seeds or sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from bochner.arrays import Floats
from bochner.data.table_input import as_dense
from bochner.features.base import FeatureMap
from bochner.features.concatenate import ConcatenatedFeatures
from bochner.features.metric import Metric, MetricFeatures
from bochner.features.transformer import as_map
from bochner.kernels import Kernel, Stationary
from bochner.kernels.functions import FromSpectrum


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

    def coordinates(self, X: Any) -> Any:
        """Checked rows of the whole as the map sees them."""
        for metric in self.metrics:
            X = metric.coordinates(X)
        return X

    def rows(self, X: Any) -> Any:
        """Coordinates of rows that are not checked, in the metrics around the map."""
        for metric in self.metrics:
            X = metric.transform(X)
        return X


def leaves(
    features: Any, weight: float = 1.0, metrics: tuple[Metric, ...] = ()
) -> Iterator[LeafMap]:
    """Go through the single maps of a map: the fitted ones, or its parameters where it
    is not fitted.

    Parameters
    ----------
    features : FeatureMap, or a transformer
    weight, metrics : float and tuple of Metric
        With which it stands itself in another one.
    """
    if isinstance(features, ConcatenatedFeatures):
        maps = getattr(features, "maps_", features.maps)
        weights = getattr(features, "weights_", features.weights)
        shares = (
            np.ones(len(maps)) if weights is None else np.asarray(weights, np.float64)
        )
        for part, share in zip(maps, shares.tolist(), strict=True):
            yield from leaves(part, weight * share, metrics)
    elif isinstance(features, MetricFeatures):
        inner = getattr(features, "features_", features.features)
        yield from leaves(inner, weight, (*metrics, features.metric))
    else:
        yield LeafMap(weight, metrics, features)


def kernel_of(features: Any) -> Kernel | None:
    """The kernel of which a single map is one; None where that is not known."""
    kernel = getattr(features, "kernel", None)
    return kernel if isinstance(kernel, Kernel) else None


def estimated_kernel(features: Any) -> Callable[[Any, Any], NDArray]:
    """The kernel that the inner products of a single map estimate, of rows and other
    rows.

    Where grids split a column with a probability q only, each factor k_j of a column of
    the map's kernel counts as 1 - q + q k_j. TypeError where the kernel is not known.
    """
    kernel = kernel_of(features)
    share = getattr(features, "column_share", 1.0)
    if kernel is None:
        raise TypeError(
            f"The kernel of {type(features).__name__} is not known: give it as "
            "kernel=, one of bochner.kernels or a callable of (X, Y)."
        )
    return kernel if share == 1 else partial(_column_mixture, kernel, share)


def has_exact_kernel(leaf: LeafMap) -> bool:
    """Whether the kernel that a single map estimates is known by a formula."""
    kernel = kernel_of(leaf.features)
    if kernel is None or (isinstance(kernel, FromSpectrum) and kernel.exact is None):
        return False
    mixed = getattr(leaf.features, "column_share", 1.0) != 1.0
    return not mixed or all(
        isinstance(one, Stationary) for _, factors in kernel.terms() for one in factors
    )


def kernel_between(
    features: FeatureMap, X: Any, Y: Any, exactly: bool = False
) -> Floats:
    """The kernel of a fitted map between checked rows, (n, m).

    It is that of the features of single maps without a kernel, and, with `exactly`, of
    those whose kernel has no formula.
    """
    total = np.zeros((X.shape[0], Y.shape[0]))
    for leaf in leaves(features):
        rows = leaf.coordinates(X)
        others = leaf.coordinates(Y)
        is_known = kernel_of(leaf.features) is not None
        if has_exact_kernel(leaf) if exactly else is_known:
            kernel = estimated_kernel(leaf.features)
            values = kernel(as_dense(rows), as_dense(others))
        else:
            map_rows = leaf.features.map_rows
            values = as_dense(map_rows(rows) @ map_rows(others).T)
        total += leaf.weight * np.asarray(values, np.float64)
    return total


def mark_encoded(*parts: Any) -> None:
    """Mark maps, with all that is in them, metrics and kernels as of rows in units
    that an encoder has made.
    """
    for part in parts:
        for inner in _with_all_within(part):
            inner.encoded_ = True


def refuse_encoded(name: str, part: Any) -> None:
    """Raise ValueError where a map or kernel, or a metric in it, is of rows in units
    that an encoder had made.
    """
    if isinstance(part, ConcatenatedFeatures):
        part.check_parameters()
    if any(getattr(inner, "encoded_", False) for inner in _with_all_within(part)):
        raise ValueError(
            f"{name} was taken from a fitted model and is in the units of that model's "
            "encoder, but here it would see the columns in their own units. To use "
            "what was learned on other rows, call refit on the fitted model, and "
            "resized(factor).refit for another number of features; or give a new one "
            "in the units of the columns, such as "
            "FourierFeatures(Gaussian(lengthscale))."
        )


def _with_all_within(part: Any) -> Iterator[Any]:
    """A map and the metrics and maps in it; a kernel and those of which it is made;
    a metric alone.
    """
    yield part
    if isinstance(part, Kernel):
        for inner in vars(part).values():
            if isinstance(inner, Kernel):
                yield from _with_all_within(inner)
    elif not isinstance(part, Metric):
        # Maps side by side were drawn as copies of their parameters, which can be
        # taken alone
        for features in (part, *getattr(part, "maps", ())):
            for leaf in leaves(features):
                yield from (*leaf.metrics, leaf.features)


def _column_mixture(kernel: Kernel, share: float, X: NDArray, Y: NDArray) -> Floats:
    """Sum over the terms of the products of 1 - q + q k_j over their factors and
    columns.
    """
    total = np.zeros((len(X), len(Y)))
    d = X.shape[1]
    for variance, factors in kernel.terms():
        values = np.full(total.shape, float(variance))
        for factor in factors:
            for j in factor.columns(d).tolist():
                # The kernel of rows that differ in one column alone
                if isinstance(factor, Stationary):
                    scale = float(np.broadcast_to(factor.lengthscale, d)[j])
                    alone = clone(factor).set_params(lengthscale=scale)
                    of_column = alone(X[:, [j]], Y[:, [j]])
                else:
                    is_column = np.arange(d) == j
                    of_column = factor(X * is_column, Y * is_column)
                values *= 1 - share + share * of_column
        total += values
    return total


def is_dense(features: Any) -> bool:
    """Whether the features of a map are dense, drawn or not; those of transformers
    of other libraries are.
    """
    return all(getattr(leaf.features, "is_dense", True) for leaf in leaves(features))


def seeded(features: Any, seed: int) -> FeatureMap:
    """Copy a map or a transformer, which gets `seed` where it has none; those within
    it get different ones.
    """
    copy = as_map(clone(features))
    if isinstance(copy, ConcatenatedFeatures):
        copy.check_parameters()
    parts = [leaf.features for leaf in leaves(copy)]
    for m, part in enumerate(parts):
        unset = [
            name
            for name, value in part.get_params().items()
            if value is None
            # Of the map or of something within it, such as a step of a pipeline
            and (name == "random_state" or name.endswith("__random_state"))
        ]
        for k, name in enumerate(unset):
            part.set_params(**{name: (seed + m + k * len(parts)) % 2**31})
    return copy


def fixed(features: FeatureMap) -> FeatureMap:
    """Copy a fitted map, not drawn, with the weights that it has learned; the same
    seeds draw the same again.
    """
    copy = clone(features)
    if isinstance(features, ConcatenatedFeatures):
        copy.set_params(weights=list(features.weights_))
    return copy


def resized(features: FeatureMap, factor: float) -> FeatureMap:
    """Copy a fitted map, not drawn, with `factor` times the grids of its bins and the
    features of its dense maps.

    The weights of maps side by side stay; what has no size of its own stays as it is.
    """
    if isinstance(features, ConcatenatedFeatures):
        maps = [resized(part, factor) for part in features.maps]
        weights: Any = getattr(features, "weights_", features.weights)
        return ConcatenatedFeatures(maps, None if weights is None else list(weights))
    if isinstance(features, MetricFeatures):
        return MetricFeatures(features.metric, resized(features.features, factor))
    copy = clone(features)
    name = size_name(features)
    if name is not None:
        size = max(round(factor * getattr(features, name) / 2) * 2, 2)
        copy.set_params(**{name: size})
    return copy


def size_name(features: Any) -> str | None:
    """Parameter that is the size of a map; None where there is none."""
    for name in ("n_grids", "n_components"):
        if isinstance(getattr(features, name, None), int | np.integer):
            return name
    return None


def sizes_of(features: FeatureMap) -> tuple[int, int]:
    """Numbers of grids and of dense features."""
    sizes = [(size_name(leaf.features), leaf.features) for leaf in leaves(features)]
    grids = sum(feature_map.n_grids for name, feature_map in sizes if name == "n_grids")
    return grids, sum(
        feature_map.n_components
        for name, feature_map in sizes
        if name == "n_components"
    )
