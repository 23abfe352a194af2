"""A source of rows seen through a feature map: every reduction that solvers ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import n_distinct
from bochner.data.array_source import Block
from bochner.data.table_input import finite_predictions
from bochner.design.device_moments import DeviceMoments, moments_bytes
from bochner.design.moments import Moments
from bochner.design.passes import Group, Groups, Passes
from bochner.design.reductions import (
    OWN_MOMENTS_FEATURES,
    Blocks,
    SumOverRows,
    factor_bytes,
    require_factor_memory,
)
from bochner.devices.device import Device
from bochner.engines.base import Engine
from bochner.engines.local import LOCAL, available_memory, limited, shards
from bochner.engines.progress import Advance, no_advance
from bochner.engines.sums import reduce
from bochner.features.base import Centres, DenseFeatures, FeatureMap
from bochner.features.binning import DenseBins, hashed_bins
from bochner.features.device_features import DeviceFeatures, on_device
from bochner.features.stored import StoredRows
from bochner.sources.stream import even_ranges

STORED_BYTES = 1 << 30
STORED_SHARE = 0.5
# Of parts at most, whose sums are added in a tree: no more workers have something to do
# in a pass
RANGES = 256
# Of a block of a worker; of its memory, as it may come to hold two groups
GROUP_BYTES, HELD_SHARE = 1 << 26, 0.5
# Times fewer rows at once where a map numbers their bins, which takes several times the
# memory of the rows
LEARNED = 4
SHARD_ROWS = 1024
# Rows for each feature of a shard of many rows
MANY_ROWS, LARGE_SHARD, MOST_LARGE_SHARDS = 1 << 20, 64, 1024
BINNED_ROWS = 1 << 16
UNKNOWN_ROWS = 1 << 40  # where nobody knows how many


@dataclass(eq=False)
class Design:
    """The rows of a source, mapped to features one block at a time; never all of them
    at once.

    Parameters
    ----------
    source : ArraySource, or another Source
        Of another one there are passes alone, and samples.
    features : FeatureMap
        Drawn already.
    dtype : dtype, default=float32
        Precision of the features; sums over blocks are in float64 always.
    advance : callable, optional
        Called with the number of rows done after each block.
    fixed : bool, default=False
        Whether the map has its training rows already, and is to take note of no others.
    place : Device, optional
        The device that computes moments, stored features and predictions; the map must
        be one for it.
    engine : Engine, optional
        What runs the passes; one that is remote takes rows that are read part by part,
        and maps that are fixed.
    """

    source: Any
    features: FeatureMap
    dtype: Any = np.float32
    advance: Advance = no_advance
    fixed: bool = False
    place: Device | None = None
    engine: Engine = LOCAL

    def __post_init__(self) -> None:
        self.dtype = np.dtype(self.dtype)

    @property
    def dense(self) -> DenseFeatures:
        """The map to dense features, as which hashed bins may stand; TypeError where
        there are none.
        """
        dense = self.features.dense
        if dense is None and hashed_bins(self.features) is not None:
            return DenseBins(self.features)
        if dense is None:
            raise TypeError(
                f"{type(self.features).__name__} are not dense features: store them."
            )
        return dense

    @cached_property
    def row_hashes(self) -> NDArray:
        """Numbers of the rows, shape (n,), by which equal ones are known."""
        return self.source.row_hashes()

    @cached_property
    def n_distinct(self) -> int:
        """Number of different rows of positive weight."""
        return n_distinct(self.row_hashes[np.flatnonzero(self.source.weights)])

    def telling(self, advance: Advance) -> Design:
        """A design like this one, which tells of the rows that are done."""
        return replace(self, advance=advance)

    def by(self, engine: Engine) -> Design:
        """A design like this one, whose passes another engine runs."""
        return replace(self, engine=engine)

    def of(
        self, source: Any, features: FeatureMap | None = None, fixed: bool = False
    ) -> Design:
        """A design of other rows, and of another map where one is given."""
        features = self.features if features is None else features
        return replace(self, source=source, features=features, fixed=fixed)

    @cached_property
    def on_device(self) -> DeviceFeatures | None:
        """The map on the device, where there is one."""
        return (
            None
            if self.place is None
            else on_device(self.features, self.place, self.dtype)
        )

    def counted(self) -> Design:
        """The rows that have weight."""
        return self.of(self.source.counted())

    def distinct(self) -> Design:
        """Equal rows as one, with their weight and mean target."""
        return self.of(self.source.distinct())

    @property
    def block_rows(self) -> int:
        """Rows of a block, such that they and their features take 64 MB each at most;
        at least 256.

        A memory limit makes them fewer, and what is free does not, for the bits of sums
        depend on it.
        """
        inputs = self.features.n_features_in_ * self.dtype.itemsize
        row = max(inputs, self.features.stored_bytes(self.dtype, packed=False))
        return max(256, min(limited(Blocks.most_bytes) // row, self.n_rows))

    @property
    def n_rows(self) -> int:
        """Number of rows; many, where it is not known."""
        return UNKNOWN_ROWS if self.source.n_rows is None else self.source.n_rows

    def _blocks(self, rows: int) -> Blocks:
        return Blocks(self.source, rows, self.dtype, self.advance)

    def mapped(self, most: int | None = None) -> Iterator[Block]:
        """Yield blocks, of `most` rows at the most, with their features in the place
        of X.
        """
        dense = self.dense
        rows = max(
            256, Blocks.most_bytes // (dense.n_features_out * self.dtype.itemsize)
        )
        for X, y, weight in self._blocks(min(self.block_rows, rows, most or rows)):
            yield Block(dense.rows(X), y, weight)

    def whole(self) -> Block:
        """All rows with their features in the place of X, held at once."""
        X, y, weight = self.source.whole()
        return Block(self.dense.rows(X.astype(self.dtype, copy=False)), y, weight)

    def moments(self) -> Moments:
        """Weighted moments of features and targets, in one pass and O(D^2 + block)
        memory.

        Threads sum the moments of shards of the rows that do not depend on their
        number, unless D is so large that one sum must do, of whose products they make
        panels. An interrupt stops all of them at their next block. What is summed at
        once depends on the rows and the map alone, and neither on threads nor on the
        memory that is free. Workers of another engine sum the same shards, to the same
        bits; but where one sum must do here, theirs are several, and the last bits
        differ.

        Raises
        ------
        MemoryError
            Before the pass, where the moments and their factorisation would not fit in
            memory that is free.
        """
        D = self.features.n_features_out
        K = self.source.n_outputs
        columns = D + K + 1
        size = self.dtype.itemsize
        spans = self.spans()
        shared = len(spans) == 1
        binned = hashed_bins(self.features) is not None
        device = self.on_device
        features: Any = device
        if device is not None:
            rows = self._device_rows(device)
            empty: Callable[[], Moments] = partial(DeviceMoments, D, K, self.dtype)
            n_bytes = moments_bytes(D, K)
        elif binned:
            # Counts, or sums in float64
            features = self.features
            rows = min(max(256, self.block_rows // 2), BINNED_ROWS)
            empty = partial(Moments, D, K, np.float64)
            n_bytes = 8 * columns**2 + 2 * Blocks.most_bytes + Blocks.reading_bytes
        else:
            # Where there is one sum all threads make each product, block by block
            features = self.dense
            rows = max(256, self.block_rows // 2)
            empty = partial(Moments, D, K, self.dtype, shared)
            n_bytes = columns**2 * (8 + size) + rows * columns * size
            n_bytes += Blocks.reading_bytes
        n_sums = 1 if shared else len(spans).bit_length()
        blocks = min(4 * rows * columns * size, 2 * limited(Blocks.most_bytes))
        require_factor_memory(
            factor_bytes(D, D, K, self.dtype, binned, n_sums, blocks), D
        )
        work = SumOverRows(empty, rows, n_bytes, self.dtype)
        moments = self.reduce(work, features, spans)
        return Moments.holding(
            np.require(moments.matrix, None, "W"),
            moments.n_rows,
            moments.n_outputs,
            moments.dtype,
        )

    def reduce(
        self, work: SumOverRows, features: Any, spans: Sequence[tuple[int, int]]
    ) -> Any:
        """The sum of a statistic over all rows, by the threads of this process or by
        the workers of the engine.

        The shards are added in a fixed binary tree, wherever they are computed. It has
        the same bits on any number of threads and workers.

        Parameters
        ----------
        work : SumOverRows
        features : object
            The map, or what else the statistic sees rows through.
        spans : sequence of (int, int)
            Parts of each shard: the first, and the one after the last.
        """
        if self.engine.is_remote:
            items = [self.source.part_range(*span) for span in spans]
            shared = (self.source.without_parts(), features)
            return reduce(
                self.engine,
                items,
                work,
                shared,
                advance=lambda k: self.advance(items[k].n_rows),
            )
        work = replace(work, advance=self.advance)
        if len(spans) == 1:
            total = work.empty()
            total.add(
                features, Blocks(self.source, work.rows, work.dtype, self.advance)
            )
            return total
        return reduce(
            LOCAL, [self.source.span(*span) for span in spans], work, (None, features)
        )

    def _device_rows(self, features: DeviceFeatures) -> int:
        """Rows of a block for a device."""
        return max(256, min(features.block_rows, self.n_rows))

    def spans(self) -> list[tuple[int, int]]:
        """Ranges of parts whose moments are summed by themselves: a power of two of
        them, by the rows and D alone.

        Some for the threads, of few rows; more for workers, of so many rows that adding
        up costs nothing beside. Where there is memory for one sum alone, this
        process has one range. Other processes have a sum each then, over few ranges,
        which are as cheap to add as they are large.
        """
        few, many = _shard_rows(self.features.n_features_out)
        if self.has_one_sum and not self.engine.is_remote:
            return [(0, self.source.n_parts)]
        if self.has_one_sum:
            return self.shards(few if self.features.is_dense else many)
        return max(self.shards(few), self.shards(many, most=MOST_LARGE_SHARDS), key=len)

    def shards(self, rows: int, **most: int) -> list[tuple[int, int]]:
        """Ranges of parts of at least `rows` rows each; see
        `bochner.engines.local.shards`.
        """
        parts = self.source.n_parts
        return shards(parts, -(-rows * parts // max(self.n_rows, 1)), **most)

    @property
    def has_one_sum(self) -> bool:
        """Whether several sums would take too much memory, of many rows also those that
        wait for one another.

        A device has one.
        """
        D = self.features.n_features_out
        if self.on_device is not None:
            return True
        waiting = 2 if self.n_rows >= MANY_ROWS else 1
        return (
            waiting * D > OWN_MOMENTS_FEATURES or hashed_bins(self.features) is not None
        )

    def store(self, packed: bool, centres: Centres = None) -> Any:
        """Blocks with stored features in the place of X, for any number of passes; the
        map takes note of the rows.

        They stay in memory where half of what is free can hold them; otherwise every
        pass computes them again. Those of a fixed map are computed by the workers of
        the engine, where it has such, and stay there.

        Parameters
        ----------
        packed : bool
            Whether dense features may be rounded to 8 bits.
        centres : sequence of array or None, one for each part of the map, optional
            Taken from the features.

        Returns
        -------
        list of StoredRows, Passes or Groups
        """
        if self.engine.is_remote and (self.fixed or self.features.is_dense):
            return self._groups(centres)
        device = self.on_device
        row = self.features.stored_bytes(self.dtype, packed and device is None)
        free = available_memory()
        if device is not None and not device.place.is_host:
            free = device.place.free_bytes()
        fits_memory = free is None or row * self.n_rows <= STORED_SHARE * free
        if device is not None:
            passes = self.again(centres)
            return list(passes) if fits_memory else passes
        if not fits_memory:
            if self.fixed:
                return self.again(centres)
            # The map takes note of all rows, if it asks for any
            if not self.features.is_dense:
                row = self.features.stored_bytes(self.dtype, packed=False)
                for X, _, _ in self._blocks(
                    max(self._stored_rows(row) // LEARNED, 256)
                ):
                    self.features.fit_rows(X)
            self.features.finalize()
            return self.again(centres)
        store = self.features.store if self.fixed else self.features.fit_store
        blocks = [
            StoredRows(store(X, packed, centres), y, weight)
            for X, y, weight in self._blocks(self._stored_rows(row))
        ]
        self.features.finalize()
        return blocks

    def _stored_rows(self, row: int) -> int:
        """Rows of a stored block: 1 GB of features and 64 MB of their columns at
        most, or what the limit allows.
        """
        inputs = limited(Blocks.most_bytes) // (
            self.features.n_features_in_ * self.dtype.itemsize
        )
        return max(256, min(limited(STORED_BYTES) // row, inputs, self.n_rows))

    def again(self, centres: Centres = None) -> Passes:
        """Blocks with stored features, computed again and without rounding in every
        pass.
        """
        features: Any = self.on_device
        if features is None:
            features = self.features
            rows = self._stored_rows(features.stored_bytes(self.dtype, packed=False))
        else:
            rows = self._device_rows(features)
        return Passes(self.source, features, self.dtype, rows, centres, self.advance)

    def _groups(self, centres: Centres) -> Groups:
        """The blocks on the workers of the engine, held there where it and their
        memory allow it.
        """
        engine = self.engine
        passes = replace(self, place=None).again(centres)
        n_groups = max(int(getattr(engine, "n_processes", engine.n_workers)), 1)
        ranges = self.source.part_ranges(RANGES)
        edges = even_ranges([one.n_rows or len(one.parts) for one in ranges], n_groups)
        groups = [Group(first, tuple(ranges[first:stop])) for first, stop in edges]
        row = self.features.stored_bytes(self.dtype, packed=False)
        free = (
            getattr(engine, "worker_memory", None)
            or (available_memory() or 0) // n_groups
        )
        most = max(sum(one.n_rows for one in group.ranges) for group in groups)
        need = (row + 8 * (self.source.n_outputs + 1)) * most
        held = (
            engine.keeps_results
            and self.source.n_rows is not None
            and need <= HELD_SHARE * free
        )
        rows = max(256, min(passes.rows, GROUP_BYTES // row))
        return Groups(engine, replace(passes, rows=rows), groups, row, held)

    def predict(self, coef: NDArray, intercept: NDArray) -> NDArray:
        """Predictions Z coef + intercept of all rows, shape (n, K); ValueError where
        they overflow.
        """
        coef = coef.astype(self.dtype, copy=False)
        result = np.empty((self.source.n_rows, coef.shape[1]))
        device = self.on_device
        rows = self.block_rows if device is None else self._device_rows(device)
        inputs = (X for X, _, _ in self._blocks(rows))
        products = (
            (self.features.dot(X, coef) for X in inputs)
            if device is None
            else device.products(inputs, coef)
        )
        done = 0
        for block_products in products:
            result[done : done + len(block_products)] = block_products
            done += len(block_products)
        result += intercept
        return finite_predictions(result)


def _shard_rows(n_features: int) -> tuple[int, int]:
    """Rows that a shard has at least, where there are some for the threads, and
    where there are many.
    """
    return max(2 * n_features, SHARD_ROWS), LARGE_SHARD * max(n_features, SHARD_ROWS)


def sums_at_once(n_rows: int, n_features: int) -> int:
    """How many sums over shards of `n_rows` rows in all there are at a time, of a map
    that has no one sum.
    """
    few, many = _shard_rows(n_features)
    return max(
        len(shards(n_rows, few)), len(shards(n_rows, many, MOST_LARGE_SHARDS))
    ).bit_length()
