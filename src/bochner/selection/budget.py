"""The clock of a fit: seconds that are gone, and those that are left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bochner.blocks import STORED_BYTES
from bochner.design.reductions import factor_bytes
from bochner.engines.costs import gram_work, path_seconds
from bochner.loops.clock import CLOCK
from bochner.selection.policy import POLICY
from bochner.settings import current


class Budget:
    """Clock of a fit with an optional time limit; the time of compiling loops does not
    count.

    The time left is divided among the stages of the fit that are to come, in the
    proportions of `POLICY.stages`: what one of them leaves is for all that follow.

    Parameters
    ----------
    limit : float or None, default=None
        Seconds from the start on.
    stages : tuple of str, default=()
        The stages in their order.
    start : float, optional
        Of the clock; by default now.
    """

    def __init__(
        self,
        limit: float | None = None,
        stages: tuple[str, ...] = (),
        start: float | None = None,
    ) -> None:
        self.limit = limit
        self.stages = stages
        self.start = CLOCK.seconds() if start is None else start

    def stage(self, first: str, last: str = "") -> Budget:
        """The budget of a stage that begins now, or of all from the first to the
        last; all the time left where there is no such stage.
        """
        if first not in self.stages:
            return self
        begin = self.stages.index(first)
        end = self.stages.index(last or first) + 1
        weights = [POLICY.stages[name] for name in self.stages]
        return self.part(sum(weights[begin:end]) / sum(weights[begin:]))

    def first_of(self, n_steps: int) -> Budget:
        """The budget of the first of some equal steps, of which nothing is known but
        their number.
        """
        return self.part(1 / n_steps)

    def part(self, share: float) -> Budget:
        """The budget of work that may take a share of the time left."""
        if self.limit is None:
            return self
        return Budget(self.elapsed + share * self.seconds_left, self.stages, self.start)

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.seconds_left <= 0

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return CLOCK.seconds() - self.start

    @property
    def seconds_left(self) -> float:
        """Seconds left; infinitely many without a limit."""
        return np.inf if self.limit is None else max(self.limit - self.elapsed, 0.0)

    @property
    def seconds(self) -> float:
        """Seconds of the limit; infinitely many without one."""
        return np.inf if self.limit is None else self.limit

    @property
    def is_short(self) -> bool:
        """Whether there is time to learn one metric only."""
        return self.seconds < POLICY.short_limit

    @property
    def work_share(self) -> float:
        """Of the usual work that follows the solution, the share that a short limit
        allows.
        """
        return float(np.clip(self.seconds / POLICY.short_limit, 0.125, 1.0))

    def n_components(self, n_rows: int, n_columns: int, n_outputs: int) -> float:
        """Features whose direct solution takes the time left, 512 at least; infinite
        without a limit.
        """
        if self.limit is None:
            return np.inf
        least = POLICY.n_components[0]
        size = float(POLICY.most_features)
        while (
            size > least
            and path_seconds(n_rows, n_columns, size, n_outputs) > self.seconds_left
        ):
            size /= 1.1
        return max(2 * int(size / 2), least)

    def shrunk(self, sizes: Sequence[int], power: float = 1.0) -> list[int]:
        """Sizes of work whose seconds grow with their power, smaller where little time
        is left.
        """
        factor = min(self.seconds_left / POLICY.short_limit, 1.0) ** (1 / power)
        return [max(int(factor * size), POLICY.n_components[0]) for size in sizes]

    def n_rows(self, n_cells: float) -> float:
        """Rows of a fit for which there is time, by the numbers that each has;
        infinitely many without a limit.
        """
        return POLICY.timed_cells * self.seconds / max(n_cells, 1)


def choose_n_components(n_rows: int, weights: NDArray | None = None) -> int:
    """Number of features for `n_rows` rows: 2 n, at least 512 and at most 2,048, fewer
    beyond half a million rows.

    A row counts as often as its weight says where all weights are whole numbers. The
    sums of the normal equations, n D^2, are held to ten seconds.
    """
    least, most = POLICY.n_components
    affordable = np.sqrt(gram_work(POLICY.gram_seconds) / n_rows)
    if weights is not None:
        n_rows = int(
            weights.sum()
            if (weights == np.rint(weights)).all()
            else np.count_nonzero(weights)
        )
    return 2 * round(max(min(2 * n_rows, most, affordable), least) / 2)


def within_limit(n_components: int, n_outputs: int) -> int:
    """Number of features, halved until their direct solution fits a share of the memory
    limit.

    The limit decides, and not what is free, so that the same model is chosen again.
    """
    least, _ = POLICY.n_components
    most = _limited_bytes()
    while (
        n_components > least
        and factor_bytes(n_components, n_components, n_outputs, np.float32) > most
    ):
        n_components = max(2 * (n_components // 4), least)
    return n_components


def _limited_bytes() -> float:
    """Bytes of the memory limit that features may take; infinitely many without one."""
    limit = current().memory_limit
    if limit is None:
        return np.inf
    return max(POLICY.limited_share * (limit - POLICY.loaded_bytes), 0.0)


def grids_within_limit(n_rows: int) -> float:
    """Largest number of grids whose bins fit a share of the memory limit; infinite
    without a limit.
    """
    return max(_limited_bytes() / (POLICY.bin_bytes * n_rows), POLICY.trial_grids[0])


def stored_within_limit(n_rows: int) -> int:
    """Largest number of dense features that are stored for `n_rows` rows, by a share
    of the memory limit.
    """
    return int(min(STORED_BYTES // n_rows, _limited_bytes() / (4 * n_rows)))


def choose_n_grids(n_rows: int) -> int:
    """Number of grids for `n_rows` rows: 200, fewer beyond a quarter of a million rows,
    50 at least.
    """
    least, most = POLICY.n_grids
    return int(min(max(POLICY.final_entries // max(n_rows, 1), least), most))


def may_compare_losses(n: int, D: int, P: int, n_outputs: int) -> bool:
    """Whether rows, D dense features, P grids and outputs are few enough to compare
    the logistic loss with another.
    """
    return n * n_outputs * (P + POLICY.dense_work * D) <= POLICY.most_compared
