"""Rows in the bins of a map, counted in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.engines.local import in_threads
from bochner.features.binning import BinningFeatures


def count_rows(bins: BinningFeatures, source: Any, rows: int) -> NDArray[np.float64]:
    """Number the bins of all rows of a source, and return the rows' weight in each, shape (D,).

    Parameters
    ----------
    bins : BinningFeatures
        Drawn, without buckets; ready for use afterwards.
    source : Source
    rows : int
        Of a block.
    """
    counts = [np.zeros(0) for _ in bins.values_]
    for X, _, weight in source.blocks(rows):
        stored = bins.fit_store(X)
        own = weight if stored.order is None else weight[stored.order]

        def add(p: int, ids: NDArray = stored.ids, own: NDArray = own) -> None:
            found = np.bincount(ids[p], own, len(counts[p]))
            found[: len(counts[p])] += counts[p]
            counts[p] = found

        in_threads(add, range(len(counts)))
    bins.finalize()
    return np.concatenate(counts)
