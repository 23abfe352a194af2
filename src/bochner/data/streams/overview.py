"""One look at all rows of a table: everything that must be known of them before any choice is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bochner.data.streams.base import Batch, TableSource
from bochner.data.streams.roles import Roles
from bochner.data.table_statistic import Summary, TableStatistic


@dataclass
class Overview:
    """What all rows are like; those of two tables add up.

    Attributes
    ----------
    table : TableStatistic
        Of the columns to learn from.
    targets : Summary or None
        Of targets that are numbers, one part for each.
    classes : dict of label to float, or None
        Weight of each label, where targets are labels.
    n_rows : int
    weight, largest_weight : float
    sample : Batch
        Rows with the smallest hashes of a seed and their number, in their order; X without targets and weights.
    counts : list of int
        Rows of each part.
    checksums : list of int
        Of the content of each part.
    """

    table: TableStatistic
    targets: Summary | None
    classes: dict[Any, float] | None
    n_rows: int
    weight: float
    largest_weight: float
    sample: Batch
    counts: list[int]
    checksums: list[int]


def look(source: TableSource, roles: Roles, labels: bool, seed: int, size: int) -> Overview:
    """Look at all rows once, on all threads.

    Parameters
    ----------
    source : TableSource
    roles : Roles
    labels : bool
        Whether the targets are labels, which are counted, not numbers.
    seed : int
        Of the sample.
    size : int
        Rows of the sample, at most.
    """
    raise NotImplementedError


def gathered(source: TableSource, roles: Roles) -> Batch:
    """All rows in memory: what `fit` takes."""
    raise NotImplementedError
