"""The number of features where nothing is learned."""

import numpy as np
from numpy.typing import NDArray

from bochner.engines.costs import COSTS
from bochner.reductions import factor_bytes
from bochner.settings import current
from bochner.tuning.policy import POLICY


def choose_n_components(n_rows: int, weights: NDArray | None = None) -> int:
    """Number of features for `n_rows` rows: 2 n, at least 128 and at most 2,048, fewer beyond half a million rows.

    Weights that are whole numbers count as so many rows. The sums of the normal equations, n D^2, are held to ten
    seconds, but D stays at 512 or more.
    """
    affordable = max(np.sqrt(COSTS.gram_work(POLICY.gram_seconds) / n_rows), POLICY.fewest_affordable)
    if weights is not None:
        n_rows = int(weights.sum() if (weights == np.rint(weights)).all() else np.count_nonzero(weights))
    least, most = POLICY.n_components
    return 2 * round(min(max(2 * n_rows, least), most, affordable) / 2)


def within_limit(n_components: int, n_outputs: int) -> int:
    """So many features, or half of them again and again until their direct solution takes a part of the memory limit.

    The limit decides, and not what is free, so that the same model is chosen again.
    """
    limit, (least, _) = current().memory_limit, POLICY.n_components
    if limit is None:
        return n_components
    most = POLICY.limited_share * (limit - POLICY.loaded_bytes)
    while n_components > least and factor_bytes(n_components, n_components, n_outputs, np.float32) > most:
        n_components = max(2 * (n_components // 4), least)
    return n_components


def grids_within_limit(n_rows: int) -> float:
    """Grids whose bins of so many rows take a part of the memory limit; without one as many as there may be."""
    limit = current().memory_limit
    if limit is None:
        return np.inf
    return max(
        POLICY.limited_share * (limit - POLICY.loaded_bytes) / (POLICY.bin_bytes * n_rows), POLICY.trial_grids[0]
    )


def choose_n_grids(n_rows: int) -> int:
    """Number of grids for `n_rows` rows: 200, fewer beyond half a million rows, 50 at least."""
    least, most = POLICY.n_grids
    return int(min(max(POLICY.usual_entries // max(n_rows, 1), least), most))
