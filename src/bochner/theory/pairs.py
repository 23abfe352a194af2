"""Draws pairs of rows and measures the errors of a map on them, block by block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing as take

from bochner.features.binning import BinningFeatures
from bochner.features.leaves import leaves
from bochner.theory.exact import Pairs, inner_products
from bochner.theory.variance import bias_and_variance

BLOCK_ENTRIES = 1 << 21  # of the features of a block of pairs
MOST_PAIRS = 2048  # in a block


def draw_pairs(n: int, n_pairs: int, rng: np.random.Generator) -> tuple[NDArray, float]:
    """Row numbers, shape (2, N), and the share of all pairs that is known from them."""
    if n >= 2 * n_pairs:
        return rng.choice(n, 2 * n_pairs, replace=False).reshape(2, -1), 0.0
    total = n * (n - 1) // 2
    if total <= n_pairs:
        return np.array(np.triu_indices(n, 1)), 1.0
    numbers = rng.choice(total, n_pairs, replace=False)
    second = np.floor((1 + np.sqrt(1 + 8 * numbers)) / 2).astype(np.int64)  # pairs (i, j), i < j, by rising j
    second -= second * (second - 1) // 2 > numbers
    return np.array([numbers - second * (second - 1) // 2, second]), n_pairs / total


class Measured(NamedTuple):
    """What pairs of rows show of a map.

    Attributes
    ----------
    values, errors : arrays of shape (N,)
        Exact kernel values, and by how much the inner products differ.
    expected : array of shape (N,) or None
        Mean squares of the errors over draws, where they are known.
    width : int
        Columns of the map.
    new_bins : bool
        Whether rows are in bins that no training row occupied.
    """

    values: NDArray
    errors: NDArray
    expected: NDArray | None
    width: int
    new_bins: bool


def measure(features: Any, prepare: Callable[[Any], Any], X: Any, pairs: NDArray, exact: Pairs, own: bool) -> Measured:
    """Go through the pairs in blocks; `exact` takes rows as the map does where the kernel is its own."""
    known = bias_and_variance(features) if own else None
    probe = features.transform(prepare(take(X, np.arange(1))))
    columns = np.shape(X)[1] if np.ndim(X) == 2 else 1
    block = max(1, min(MOST_PAIRS, BLOCK_ENTRIES // max(probe.nnz if sp.issparse(probe) else probe.shape[1], columns)))
    full = _entries(features)
    values, errors, expected, new_bins = [], [], [], False
    for a in range(0, pairs.shape[1], block):
        rows = [take(X, numbers) for numbers in pairs[:, a : a + block]]
        U, V = (prepare(part) for part in rows)
        Z = [features.transform(part) for part in (U, V)]
        values.append(exact(U, V) if own else exact(*rows))
        errors.append(inner_products(*Z) - values[-1])
        if known is not None:
            bias, variance = known(U, V)
            expected.append(bias**2 + variance)
        new_bins = new_bins or any(full and part.nnz < full * part.shape[0] for part in Z)
    together = None if known is None else np.concatenate(expected)
    return Measured(np.concatenate(values), np.concatenate(errors), together, int(probe.shape[1]), new_bins)


def _entries(features: Any) -> int:
    """Entries of a row whose bins are all occupied, where the map is one of numbered bins; else 0."""
    first, *others = (leaf.features for leaf in leaves(features))
    numbered = isinstance(first, BinningFeatures) and first.n_buckets is None and not others
    return len(first.values_) if numbered else 0
