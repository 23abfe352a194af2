"""The reductions of a design whose dense features a device computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Place
from bochner.data.sources import ArraySource, Block, Source
from bochner.data.weights import are_unit, weights_of
from bochner.engines.local import shards
from bochner.engines.prefetch import DEPTH, in_turn
from bochner.features.base import FeatureMap
from bochner.features.dense import Centres, Rows
from bochner.features.device_blocks import pieces
from bochner.features.on_device import DeviceFeatures, on_device
from bochner.features.stored import StoredRows
from bochner.features.stored_on_device import StoredOnDevice
from bochner.moments import Moments
from bochner.reductions import Work
from bochner.settings import current

LANES = 8  # threads that read for a device
WAITING = LANES * (DEPTH + 2)  # blocks


@dataclass(frozen=True)
class SumOnDevice(Work):
    """The moments of dense features, which a device computes and adds up.

    Attributes
    ----------
    place : Place
    precision : {"full", "fast"}
    """

    place: Place | None = None
    precision: str = "full"

    def __call__(self, source: Source, features: FeatureMap) -> Moments:
        """Sum over the blocks."""
        assert self.place is not None
        mapped = on_device(features, self.place, self.dtype)
        assert mapped is not None
        sums = DeviceSums(mapped, self.n_outputs, self.precision)
        for X, y, weight in self._read(source):
            for products in pieces(sums.products, self.place, self.n_features, X, y, weight):
                sums.add(products)
        return sums.moments()

    def empty(self) -> Moments:
        """Moments of no rows."""
        return Moments(self.n_features, self.n_outputs, self.dtype)

    def add(self, moments: Moments, source: Source, features: FeatureMap) -> Moments:
        """Add all blocks of a source in place."""
        moments += self(source, features)
        return moments

    def _read(self, source: Source) -> Iterator[Block]:
        """Yield the blocks of a source, of which several threads read some parts each, always in the same order."""
        lanes = 1 if current().memory_limit is not None or isinstance(source, ArraySource) else LANES
        return in_turn([self.blocks(source.span(*span)) for span in shards(source.n_parts, 1, lanes)])


class Products(NamedTuple):
    """Of the rows of a block: Z'WZ on the device, or where sums are, and Z'WE and E'WE, E = [Y, 1].

    All are over the largest weight, `most`; `n_rows` have one above zero.
    """

    gram: Any
    cross: NDArray
    rest: NDArray
    most: float
    n_rows: int


class DeviceSums:
    """Sums of products of the columns of A = [Z, Y, 1], of which those of Z by itself stay on the device.

    The features are without amplitudes, and weights over the largest of a block: what is multiplied lies in [-1, 1].

    Parameters
    ----------
    features : DeviceFeatures
    n_outputs : int
    precision : {"full", "fast"}
    """

    def __init__(self, features: DeviceFeatures, n_outputs: int, precision: str) -> None:
        self.features, self.place, self.precision = features, features.place, precision
        D, columns = len(features.amplitudes), n_outputs + 1
        self.double = self.place.has_double
        self.gram: Any = self.place.put(np.zeros((D, D))) if self.double else np.zeros((D, D))
        self.cross, self.rest, self.n_rows = np.zeros((D, columns)), np.zeros((columns, columns)), 0

    def products(self, X: Rows, y: NDArray, weight: NDArray) -> Products:
        """Products of a block."""
        place, xp, E = self.place, self.place.xp, np.column_stack([y, np.ones(len(y))])
        most, Z = 1.0, self.features.rows(X)
        if not are_unit(weight):
            most = float(weight.max(initial=0.0)) or 1.0
            root = np.sqrt(weight / most)[:, np.newaxis]
            E = E * root
            Z = Z * place.put(root.astype(self.features.dtype))
        cross = place.product(xp.matrix_transpose(Z), place.put(E.astype(self.features.dtype)))
        gram = place.gram(Z, self.precision)
        del Z
        gram = xp.astype(gram, xp.float64) if self.double else place.host(gram)
        return Products(gram, place.host(cross), E.T @ E, most, int(np.count_nonzero(weight)))

    def add(self, of: Products) -> None:
        """Add the products of a block."""
        self.gram += of.gram if of.most == 1 else of.gram * of.most
        self.cross += of.most * of.cross
        self.rest += of.most * of.rest
        self.n_rows += of.n_rows

    def moments(self) -> Moments:
        """The sums so far, of the features with their amplitudes."""
        amplitudes, (D, columns) = self.features.amplitudes, self.cross.shape
        matrix = np.empty((D + columns, D + columns))
        np.multiply(self.place.host(self.gram) if self.double else self.gram, amplitudes, out=matrix[:D, :D])
        matrix[:D, :D] *= amplitudes[:, np.newaxis]
        np.multiply(self.cross, amplitudes[:, np.newaxis], out=matrix[:D, D:])
        matrix[D:, :D], matrix[D:, D:] = matrix[:D, D:].T, self.rest
        return Moments.holding(matrix, self.n_rows, columns - 1, self.features.dtype)


def stored_on_device(
    blocks: Iterator[Block], features: DeviceFeatures, scales: NDArray, centres: Centres | None
) -> Iterator[StoredRows]:
    """Yield blocks with features that the device holds, in the place of X.

    Parameters
    ----------
    blocks : iterator of Block
    features : DeviceFeatures
    scales : array of shape (M,)
        Factors on the features of each part of the map.
    centres : sequence of array, one for each part, optional
        Taken from the features of the parts.
    """
    centre = None
    if centres is not None:
        parts = zip(scales, centres, strict=True)
        centre = np.concatenate([scale * own for scale, own in parts if own is not None])

    def store(X: Any) -> StoredOnDevice:
        return StoredOnDevice(features, features.rows(X), centre)

    for X, y, weight in blocks:
        first = 0
        for stored in pieces(store, features.place, len(features.amplitudes), X):
            rows = slice(first, first + stored.n_rows)
            yield StoredRows(stored, y[rows], weights_of(weight, rows))
            first = rows.stop


def predict_on_device(blocks: Iterator[Block], features: DeviceFeatures, coef: NDArray) -> Iterator[NDArray]:
    """Yield products Z coef of some rows after the other, each of shape (b, K)."""
    place = features.place
    V = place.put((coef * features.amplitudes[:, np.newaxis]).astype(features.dtype))

    def predict(X: Any) -> NDArray:
        return place.host(place.product(features.rows(X), V))

    for X, _, _ in blocks:
        yield from pieces(predict, place, len(coef), X)
