"""The number of features."""

import numpy as np
from numpy.typing import NDArray

SMALLEST, LARGEST = 128, 2048
WORK = 2e12
FEWEST_GRIDS, MOST_GRIDS = 50, 200
ENTRIES = 100_000_000


def choose_n_components(n_rows: int, weights: NDArray | None = None) -> int:
    """Number of features for `n_rows` rows: 2 n, at least 128 and at most 2,048, fewer beyond half a million rows.

    Weights that are whole numbers count as so many rows. The work of the normal equations, n D^2, is held to 2e12
    operations (ten seconds on two cores), but D stays at 512 or more.
    """
    affordable = max(np.sqrt(WORK / n_rows), 512)
    if weights is not None:
        n_rows = int(weights.sum() if (weights == np.rint(weights)).all() else np.count_nonzero(weights))
    return 2 * round(min(max(2 * n_rows, SMALLEST), LARGEST, affordable) / 2)


def choose_n_grids(n_rows: int) -> int:
    """Number of grids for `n_rows` rows: 200, fewer beyond half a million rows, 50 at least."""
    return int(min(max(ENTRIES // max(n_rows, 1), FEWEST_GRIDS), MOST_GRIDS))
