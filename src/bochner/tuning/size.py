"""The number of features."""

import numpy as np

SMALLEST, LARGEST = 128, 2048
WORK = 2e12


def choose_n_components(n_rows: float) -> int:
    """Number of features for `n_rows` rows: 2 n, at least 128 and at most 2,048, fewer beyond half a million rows.

    The work of the normal equations, n D^2, is held to 2e12 operations (ten seconds on two cores), but D stays at 512
    or more.
    """
    affordable = max(np.sqrt(WORK / n_rows), 512)
    return 2 * round(min(max(2 * n_rows, SMALLEST), LARGEST, affordable) / 2)
