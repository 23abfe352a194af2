"""Passes over features that are not all held here: computed block by block, or on
the workers of an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from bochner.design.reductions import Blocks
from bochner.engines.base import Engine
from bochner.engines.progress import Advance, no_advance
from bochner.engines.sums import RangeSum, whole, with_sum
from bochner.features.base import Centres, FeatureMap
from bochner.features.device_features import DeviceFeatures
from bochner.features.stored import StoredRows
from bochner.sources.stream import PartRange

SENT_BYTES = 1 << 20  # of an argument that is sent with each work


class PassSums:
    """Sums over rows, as attributes; those of two sets of rows add up."""

    def __iadd__(self, other: Self) -> Self:
        for name, value in vars(other).items():
            vars(self)[name] += value
        return self


@dataclass(frozen=True)
class Passes:
    """Blocks whose features are computed again in every pass, without rounding, by a
    map that has its training rows.

    Attributes
    ----------
    source : Source
    features : FeatureMap, or DeviceFeatures
    dtype : dtype
    rows : int
        Of a block.
    centres : sequence of array or None, one for each part of the map, or None
        Taken from the features.
    advance : callable
    """

    source: Any
    features: FeatureMap | DeviceFeatures
    dtype: np.dtype
    rows: int
    centres: Centres
    advance: Advance = no_advance

    @property
    def many(self) -> bool:
        """Whether there may be more rows than sums of bins in single precision
        resolve.
        """
        return not self.features.is_dense

    def __iter__(self) -> Iterator[StoredRows]:
        return self.features.stored(
            Blocks(self.source, self.rows, self.dtype, self.advance), self.centres
        )

    def without_parts(self) -> Passes:
        """These passes without their rows."""
        return replace(self, source=self.source.without_parts(), advance=no_advance)

    def with_parts(self, span: PartRange) -> Passes:
        """These passes over the rows of a span."""
        return replace(self, source=self.source.with_parts(span))


class Group(NamedTuple):
    """Consecutive ones of the ranges of parts that sums are made of, from the first
    of them on, or their blocks.
    """

    first: int
    ranges: tuple[Any, ...]


@dataclass(frozen=True)
class GroupWork:
    """Work on the ranges of a group, whose blocks are held or else computed again.

    Attributes
    ----------
    work : callable (blocks, ...), or None
        None makes a group that holds its blocks.
    n_bytes : int
        Memory of a call.
    whole_worker : bool
        Whether it may use all threads of its worker.
    """

    work: Callable[..., Any] | None
    n_bytes: int
    whole_worker: bool = True

    def __call__(
        self, group: Group, passes: Passes | None, *arguments: Any
    ) -> Group | list[RangeSum]:
        """Do the work on the blocks, or on those that a map makes of the parts, and
        add what may be added.
        """
        ranges = (
            group.ranges if passes is None else map(passes.with_parts, group.ranges)
        )
        if self.work is None:
            return Group(group.first, tuple(list(blocks) for blocks in ranges))
        sums: list[RangeSum] = []
        for k, blocks in enumerate(ranges, group.first):
            sums = with_sum(sums, RangeSum(k, 1, self.work(blocks, *arguments)))
        return sums


class Groups:
    """Blocks of features on the workers of an engine, a group of consecutive ones for
    each; they never come here.

    A group is one work in each pass, whatever worker does it. Its ranges are added in
    the tree of `reduce`: sums have the same bits with any number of workers.

    Parameters
    ----------
    engine : Engine
        One that is remote.
    passes : Passes
        Over all rows.
    groups : sequence of Group
    row_bytes : int
        Memory that the features of a row take.
    held : bool
        Whether workers keep the features, and do not compute them again in every pass.

    Attributes
    ----------
    many : bool
        As of `Passes`.
    """

    def __init__(
        self,
        engine: Engine,
        passes: Passes,
        groups: Sequence[Group],
        row_bytes: int,
        held: bool,
    ) -> None:
        self.engine = engine
        self.advance = passes.advance
        self.held = held
        self.many = passes.many
        self.n_rows = [sum(span.n_rows for span in group.ranges) for group in groups]
        self.n_bytes = 3 * passes.rows * row_bytes + Blocks.reading_bytes
        shared = engine.share(passes.without_parts())
        self.passes = None if held else shared
        self.groups: list[Any] = list(groups)
        if held:
            self.groups = [
                engine.submit(
                    GroupWork(None, row_bytes * n_rows + self.n_bytes), group, shared
                )
                for group, n_rows in zip(groups, self.n_rows, strict=True)
            ]

    def total(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Return the sum of ``work(blocks, *arguments)`` over the ranges; it must
        have ``+=``.
        """
        sent = [
            self.engine.share(value)
            if getattr(value, "nbytes", 0) > SENT_BYTES
            else value
            for value in arguments
        ]
        task = GroupWork(work, self.n_bytes)
        sums = list[RangeSum]()
        handles = [
            self.engine.submit(task, group, self.passes, *sent) for group in self.groups
        ]
        for n_rows, group_sums in zip(
            self.n_rows, self.engine.results(handles), strict=True
        ):
            for one in deepcopy(group_sums):  # which may be read-only
                sums = with_sum(sums, one)
            self.advance(n_rows)
        return whole(sums)


def summed(blocks: Any, work: Callable[..., Any], *arguments: Any) -> Any:
    """What ``work(blocks, *arguments)`` sums over all blocks, which is done where
    they are: here, or by the groups.
    """
    return (
        blocks.total(work, *arguments)
        if isinstance(blocks, Groups)
        else work(blocks, *arguments)
    )
