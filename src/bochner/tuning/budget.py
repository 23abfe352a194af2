"""The clock of a fit: seconds that are gone, and those that are left."""

from __future__ import annotations

import numpy as np

from bochner.loops.clock import CLOCK
from bochner.tuning.policy import POLICY


class Budget:
    """Seconds since it was made, and those left of a limit; those in which loops are compiled do not count.

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
        """Whether one metric is all that the limit leaves time for."""
        return self.limit is not None and self.limit < POLICY.short_limit

    @property
    def n_rows(self) -> float:
        """Rows to learn from and to try models on; infinitely many without a limit."""
        return np.inf if self.limit is None else max(POLICY.timed_rows * self.limit, POLICY.rows_for_full_learning)

    def has(self, share: float) -> bool:
        """Whether more than a share of the limit is left."""
        return self.left > share * (self.limit or 0.0)
