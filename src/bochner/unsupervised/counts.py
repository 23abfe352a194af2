"""Rows in the bins of a map, counted in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.design import Design
from bochner.engines.local import in_threads
from bochner.reductions import typed_blocks


def count_rows(design: Design) -> NDArray[np.float64]:
    """Number the bins of all rows of a design, and return the rows' weight in each, shape (D,).

    Its map is `BinningFeatures` that are drawn, without buckets, and ready for use afterwards.
    """
    bins: Any = design.features
    counts: list[NDArray] = [np.zeros(0) for _ in bins.values_]
    for X, _, weight in typed_blocks(design.source, design.block_rows, design.dtype, design.advance):
        stored = bins.fit_store(X)
        own = weight if stored.order is None else weight[stored.order]

        def add(p: int, ids: NDArray = stored.ids, own: NDArray = own) -> None:
            found: NDArray = np.bincount(ids[p], own, len(counts[p]))
            found[: len(counts[p])] += counts[p]
            counts[p] = found

        in_threads(add, range(len(counts)))
    bins.finalize()
    return np.concatenate(counts)
