"""From a table to rows of numbers, and from a map to a drawn one: what every estimator on features begins with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bochner.data.array_source import ArraySource, as_it_is
from bochner.data.encodings import NumberColumns
from bochner.data.table import TableEncoder
from bochner.data.table_statistic import TableStatistic
from bochner.estimators.checks import normalised_weights
from bochner.features.base import FeatureMap, Rows
from bochner.features.leaves import leaves
from bochner.kernels import Kernel


def encode(X: Any, weights: NDArray | None, with_std: bool) -> TableEncoder:
    """Fit the encoder of a table; ValueError where nothing is in it.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d)
        Checked.
    weights : array of shape (n,) or None
    with_std : bool
        Whether columns of numbers get unit variance.
    """
    return _checked(TableEncoder(with_std=with_std).fit(X, sample_weight=normalised_weights(weights)))


def encoder_of(statistic: TableStatistic, with_std: bool) -> TableEncoder:
    """The encoder of rows that a statistic is of; otherwise as `encode`."""
    return _checked(TableEncoder.of(statistic, with_std=with_std))


def _checked(encoder: TableEncoder) -> TableEncoder:
    if not encoder.n_features_out_:
        raise ValueError("X has no value in any row of any column.")
    encoder.forget_categories()
    return encoder


def encoded_source(
    encoder: TableEncoder,
    X: Any,
    y: NDArray,
    weights: NDArray | None,
    dtype: DTypeLike,
    targets: Callable[[NDArray], NDArray],
) -> ArraySource:
    """The rows of a table, encoded block by block."""
    return ArraySource(X, y, weights, partial(encoder.encode, dtype=dtype), targets)


def rows_to_map(encoder: TableEncoder, X: Any, dtype: DTypeLike) -> ArraySource:
    """The rows of a table without targets."""
    return encoded_source(encoder, X, np.empty((X.shape[0], 0)), None, dtype, as_it_is)


def draw(features: FeatureMap, encoder: TableEncoder, source: ArraySource, seed: int) -> Rows:
    """Draw a map for the encoded columns, and show it some rows; these."""
    _check_lengthscales(features, encoder)
    features.draw(encoder.n_features_out_)
    X, _, weight = source.sample(features.sample_rows, np.random.default_rng(seed)).whole()
    features.fit_sample(X, weight)
    return X


def _check_lengthscales(features: FeatureMap, encoder: TableEncoder) -> None:
    """Raise ValueError, which names the encoded columns, where a kernel of these has lengthscales of other ones."""
    try:
        for leaf in leaves(features):
            kernel = getattr(leaf.features, "kernel", None)
            if not leaf.metrics and isinstance(kernel, Kernel):
                kernel.check_features(encoder.n_features_out_)
    except ValueError as error:
        names = ", ".join(encoder.get_feature_names_out()[:20])
        raise ValueError(f"{error} The encoded columns are: {names}.") from None


def column_units(encoder: TableEncoder) -> NDArray | None:
    """What one unit of each encoded column is in the unit of the input; None where not all are numbers."""
    numbers = [column for column in encoder.columns_ if isinstance(column, NumberColumns)]
    whole = numbers and len(numbers[0].scale) == encoder.n_features_out_
    return numbers[0].scale if whole else None
