"""The reductions of a design whose dense features a device computes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.data.array_source import ArraySource, Block, Source
from bochner.data.weights import are_unit, weights_of
from bochner.design.moments import Moments
from bochner.design.reductions import Blocks
from bochner.devices.device import Device
from bochner.devices.device_fourier import pieces, with_smaller_blocks
from bochner.devices.gram import GramSum
from bochner.engines.local import shards
from bochner.engines.prefetch import DEPTH, in_turn
from bochner.engines.progress import Advance, no_advance
from bochner.features.base import Centres, FeatureMap
from bochner.features.device_features import DeviceFeatures, StoredOnDevice, on_device
from bochner.features.stored import StoredRows
from bochner.settings import current

LANES = 8  # threads that read for a device
WAITING = LANES * (DEPTH + 2)  # blocks


@dataclass(frozen=True)
class MomentsOnDevice:
    """A map to dense features whose moments a device sums; it can be sent to other processes.

    Attributes
    ----------
    features : FeatureMap
    place : Device
    dtype : dtype
    n_outputs : int
    """

    features: FeatureMap
    place: Device
    dtype: np.dtype
    n_outputs: int

    def moments(self, blocks: Blocks) -> Moments:
        """Sum over the blocks; over smaller ones, from the beginning, where the device has too little memory.

        Raises
        ------
        MemoryError
            Where it has too little for these, too.
        """
        features = on_device(self.features, self.place, self.dtype)
        assert features is not None

        def compute(rows: int) -> Moments:
            sums = DeviceSums(features, self.n_outputs)
            for block in self.place.ahead(sums.prepared(block) for block in _in_lanes(replace(blocks, rows=rows))):
                sums.add(*block)
            return sums.moments()

        n_bytes = 8 * (self.features.n_features_out + self.n_outputs + 1) ** 2
        return with_smaller_blocks(compute, blocks.rows, self.place, features.row_bytes, n_bytes)


def _in_lanes(blocks: Blocks) -> Iterator[Block]:
    """Yield the blocks of a source, of which several threads read some parts each, always in the same order."""
    source = blocks.source
    lanes = 1 if current().memory_limit is not None or isinstance(source, ArraySource) else LANES
    parts = [source.span(*span) for span in shards(source.n_parts, 1, lanes)]
    return in_turn([iter(replace(blocks, source=part)) for part in parts])


class DeviceSums:
    """Sums of products of the columns of A = [Z, Y, 1] on a device, of features without amplitudes.

    Parameters
    ----------
    features : DeviceFeatures
    n_outputs : int
    """

    def __init__(self, features: DeviceFeatures, n_outputs: int) -> None:
        self.features, self.n_outputs, self.n_rows = features, n_outputs, 0
        self.gram = GramSum(features.place, len(features.amplitudes), n_outputs + 1)

    def prepared(self, block: Block) -> tuple[NDArray | None, ...]:
        """What the device needs of a block: [Y, 1] and roots of weights, None where they are one, and coordinates."""
        X, y, weight = block
        E, root = np.column_stack([y, np.ones(len(y))]), None
        if not are_unit(weight):
            root = np.sqrt(weight)[:, np.newaxis]
            E *= root
            root = root.astype(self.features.dtype)
        self.n_rows += int(np.count_nonzero(weight))
        return E.astype(self.features.dtype), root, *self.features.coordinates(X)

    def add(self, E: Any, root: Any, *coordinates: Any) -> None:
        """Add the products of a block that lies on the device. Where this fails, a part of them may have been added."""
        Z = self.features.of(*coordinates)
        if root is not None:
            Z *= root
        self.gram.add(Z, E)

    def moments(self) -> Moments:
        """The sums so far, of the features with their amplitudes."""
        factors = np.concatenate([self.features.amplitudes, np.ones(self.n_outputs + 1)])
        matrix = self.gram.host()
        matrix *= factors
        matrix *= factors[:, np.newaxis]
        return Moments.holding(matrix, self.n_rows, self.n_outputs, self.features.dtype)


@dataclass(frozen=True)
class DevicePasses:
    """Blocks with features that the device holds in the place of X, computed again in every pass.

    Attributes
    ----------
    source : Source
    features : DeviceFeatures
    rows : int
        Of a block.
    scales : array of shape (M,)
        Factors on the features of each part of the map.
    centres : sequence of array, one for each part, or None
        Taken from the features of the parts.
    advance : callable
    """

    source: Source
    features: DeviceFeatures
    rows: int
    scales: NDArray
    centres: Centres | None
    advance: Advance = no_advance

    def __iter__(self) -> Iterator[StoredRows]:
        place, waiting = self.features.place, deque[tuple[NDArray, NDArray]]()

        def sent() -> Iterator[tuple[NDArray, ...]]:
            for X, y, weight in Blocks(self.source, self.rows, self.features.dtype, self.advance):
                waiting.append((y, weight))
                yield self.features.coordinates(X)

        for coordinates in place.ahead(sent()):
            (y, weight), first = waiting.popleft(), 0
            for stored in pieces(self._stored, place, self.features.row_bytes, *coordinates):
                rows = slice(first, first + stored.n_rows)
                yield StoredRows(stored, y[rows], weights_of(weight, rows))
                first = rows.stop

    def _stored(self, *coordinates: Any) -> StoredOnDevice:
        return StoredOnDevice(self.features, self.features.of(*coordinates), self._centre)

    @property
    def _centre(self) -> NDArray | None:
        if self.centres is None:
            return None
        parts = zip(self.scales, self.centres, strict=True)
        return np.concatenate([scale * own for scale, own in parts if own is not None])


def predict_on_device(blocks: Iterable[Block], features: DeviceFeatures, coef: NDArray) -> Iterator[NDArray]:
    """Yield products Z coef of some rows after the other, each of shape (b, K)."""
    place = features.place
    V = place.put((coef * features.amplitudes[:, np.newaxis]).astype(features.dtype))

    def predict(*coordinates: Any) -> NDArray:
        return place.host(place.product(features.of(*coordinates), V))

    for coordinates in place.ahead(features.coordinates(X) for X, _, _ in blocks):
        yield from pieces(predict, place, features.row_bytes, *coordinates)
