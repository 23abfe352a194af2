"""The clock of a fit: seconds that are gone, and those that are left."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bochner.design.reductions import factor_bytes
from bochner.engines.costs import COSTS
from bochner.loops.clock import CLOCK
from bochner.selection.policy import POLICY
from bochner.settings import current


class Budget:
    """Clock of a fit with an optional time limit; the time of compiling loops does not count.

    Parameters
    ----------
    limit : float or None, default=None
    """

    def __init__(self, limit: float | None = None) -> None:
        self.limit, self.start = limit, CLOCK.seconds()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return CLOCK.seconds() - self.start

    @property
    def left(self) -> float:
        """Seconds left; infinitely many without a limit."""
        return np.inf if self.limit is None else max(self.limit - self.elapsed, 0.0)

    @property
    def is_short(self) -> bool:
        """Whether there is time to learn one metric only."""
        return self.limit is not None and self.limit < POLICY.short_limit

    @property
    def n_rows(self) -> float:
        """Most rows for learning and for trials; infinite without a limit."""
        return np.inf if self.limit is None else max(POLICY.timed_rows * self.limit, POLICY.rows_for_full_learning)

    def has(self, share: float) -> bool:
        """Whether more than a share of the limit is left."""
        return self.left > share * (self.limit or 0.0)


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
    """Number of features, halved until their direct solution fits a share of the memory limit.

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
    """Largest number of grids whose bins fit a share of the memory limit; infinite without a limit."""
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
