"""Where a number stands among others: its tail share, beyond the greatest one too."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

KNOTS = 256
DIGITS = 1e-6  # of the range, to which values are rounded
ROUNDING = 1e-12  # of the greatest value, below which values differ by rounding alone
TAIL = 0.02  # share of the rows whose excess tells how fast the tail falls


def tail_table(values: NDArray, weight: NDArray) -> NDArray[np.float64]:
    """Knots of the function log P(at least t), shape (m, 2): values t ascending, and the logarithms, falling.

    They lie at every row where there are few, else evenly in the rank and in its logarithm. Equal values are one knot,
    at the middle of their ranks.

    Parameters
    ----------
    values : array of shape (n,)
    weight : array of shape (n,)
        A weight of w counts as w equal rows.
    """
    values, weight = values[weight > 0], weight[weight > 0]
    unit = max(DIGITS * float(np.ptp(values)), ROUNDING * float(np.abs(values).max())) or 1.0
    own, group = np.unique(-np.rint(values / unit) * unit, return_inverse=True)
    mass = np.bincount(group, weight)
    middle = (np.cumsum(mass) - mass / 2) / mass.sum()
    own, log_share = -own, np.log(middle)
    if len(own) > KNOTS:
        edges = np.linspace(log_share[0], log_share[-1], KNOTS)
        ranks = np.linspace(0, len(own) - 1, KNOTS).astype(int)
        kept = np.unique([*np.searchsorted(log_share, edges).clip(0, len(own) - 1), *ranks])
        own, log_share = own[kept], log_share[kept]
    return np.column_stack([own, log_share])[::-1].copy()


def log_tail(table: NDArray, values: NDArray) -> NDArray[np.float64]:
    """Log P(at least t) of some values, shape (n,), straight between the knots and beyond them.

    Beyond the greatest knot it falls as it did over the last 2 % of the rows, as an exponential tail would; below the
    least it rises on towards 0, so that no two values are equal.
    """
    t, log_share = table.T
    found = np.interp(values, t, log_share)
    over, under = np.maximum(values - t[-1], 0.0), np.maximum(t[0] - values, 0.0)
    if len(t) == 1:
        return found - over - log_share[0] * under / (1 + under)
    start = min(int(np.searchsorted(-log_share, -np.log(TAIL))), len(t) - 2)
    slope = (log_share[-1] - log_share[start]) / (t[-1] - t[start])
    return found + slope * over - log_share[0] * under / (t[-1] - t[0] + under)
