"""Whether the columns of a table have a unit in common."""

from __future__ import annotations

import numpy as np

from bochner.data.table_statistic import TableStatistic

FEWEST_COLUMNS, NEAR = 16, 0.5  # of a common unit: columns, and the share of them and of the greatest value


def has_common_unit(statistic: TableStatistic) -> bool:
    """Whether all columns are numbers in one unit, as pixels and counts are, so that none is to be scaled by itself.

    There are many columns, with the same least value, and half of them reach half of the greatest one.
    """
    summary = statistic.summary
    varies = summary.low < summary.high
    if set(statistic.kinds) - {"number"} or varies.sum() < FEWEST_COLUMNS or statistic.missing.any():
        return False
    low, high = summary.low[varies], summary.high[varies]
    return bool((low == low[0]).all() and np.mean(high - low[0] >= NEAR * (high.max() - low[0])) >= NEAR)
