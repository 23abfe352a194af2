"""Moments of a map that a device computes, which sums their products.

Products of Z'Z are taken in the precision of Z, or in float64 on devices where that is
as fast, in panels of the lower triangle, since PyTorch has no symmetric product for
them; each 16,384 rows are added in float64, as sums of many rows would lose digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.blocks import LARGE_BLOCK_ROWS
from bochner.data.array_source import ArraySource
from bochner.data.weights import are_unit
from bochner.design.moments import Moments
from bochner.design.reductions import Blocks
from bochner.devices.device import Device, to_host
from bochner.devices.device_fourier import with_smaller_blocks
from bochner.engines.algebra import copy_triangle
from bochner.engines.local import in_turn, shards, tiles
from bochner.features.device_features import LANES, DeviceFeatures
from bochner.settings import current

PANEL = 2048  # columns
STRIP = 256  # rows


def moments_bytes(n_features: int, n_outputs: int) -> int:
    """Memory here of the moments of a shard that a device sums."""
    return 2 * 8 * (n_features + n_outputs + 1) ** 2 + LANES * Blocks.reading_bytes


class DeviceMoments(Moments):
    """Moments whose products a device sums."""

    def add(self, features: DeviceFeatures, blocks: Blocks) -> None:  # type: ignore[override]
        """Add the blocks; smaller ones, from the beginning, where the device has too
        little memory.

        Raises
        ------
        MemoryError
            Where it has too little for these, too.
        """

        def summed(rows: int) -> tuple[NDArray, int]:
            """The matrix of blocks of `rows` rows each, and their number of rows of
            positive weight.
            """
            total = GramSum(features.place, self.n_features, self.n_outputs + 1)
            n_rows = 0

            def prepared() -> Iterator[tuple[NDArray | None, ...]]:
                """Of each block [Y, 1] and roots of weights, None where they are one,
                and coordinates.

                Several threads read some parts each, always in the same order.
                """
                nonlocal n_rows
                source = blocks.source
                is_alone = current().memory_limit is not None
                is_alone |= isinstance(source, ArraySource)
                spans = shards(source.n_parts, 1, 1 if is_alone else LANES)
                lanes = [
                    iter(replace(blocks, source=source.span(*span), rows=rows))
                    for span in spans
                ]
                for X, y, weight in in_turn(lanes):
                    E = np.column_stack([y, np.ones(len(y))])
                    root = None
                    if not are_unit(weight):
                        root = np.sqrt(weight)[:, np.newaxis]
                        E *= root
                        root = root.astype(features.dtype)
                    n_rows += int(np.count_nonzero(weight))
                    yield E.astype(features.dtype), root, *features.coordinates(X)

            for E, root, *coordinates in features.place.ahead(prepared()):
                Z = features.of(*coordinates)
                if root is not None:
                    Z *= root
                total.add(Z, E)
            factors = np.concatenate([features.amplitudes, np.ones(self.n_outputs + 1)])
            matrix = total.host()
            matrix *= factors
            matrix *= factors[:, np.newaxis]
            return matrix, n_rows

        matrix, n_rows = with_smaller_blocks(
            summed,
            blocks.rows,
            features.place,
            features.row_bytes,
            8 * self.n_columns**2,
        )
        if self.n_rows:
            self.matrix += matrix
        else:
            self.matrix = matrix  # there may be memory for one
        self.n_rows += n_rows


class GramSum:
    """The sum of A'A over blocks of A = [Z, E], in float64.

    Parameters
    ----------
    place : Device
        Where the blocks lie.
    n_columns : int
        Columns D of Z.
    n_beside : int
        Columns K of E, such as targets and ones.
    """

    def __init__(self, place: Device, n_columns: int, n_beside: int) -> None:
        self.place = place
        self.n_columns = n_columns
        zeros = np.zeros((n_columns + n_beside, n_columns + n_beside))
        self._total: Any = place.put(zeros) if place.has_double else zeros

    def add(self, Z: Any, E: Any) -> None:
        """Add the products of rows. Where this fails for want of memory, a part of them
        may have been added.

        Parameters
        ----------
        Z : array of shape (b, D)
            On the device.
        E : array of shape (b, K)
            On the device, in the precision of Z.
        """
        # Products of a block are one sum, before it is added in double precision
        for rows in tiles(0, Z.shape[0], LARGE_BLOCK_ROWS):
            self._add(Z[rows], E[rows])

    def _add(self, Z: Any, E: Any) -> None:
        place = self.place
        D = self.n_columns
        if not place.has_double:
            A = place.torch.cat([Z, E], dim=1)
            self._total += to_host(place.product(A.T, A))
            return
        if place.has_equal_double:
            Z = Z.double()
            E = E.double()
        for panel in tiles(0, D, PANEL):
            down = slice(panel.start, D)
            self._total[down, panel].add_(place.product(Z[:, down].T, Z[:, panel]))
        self._total[D:, :D].add_(products_beside(place, E, Z))
        self._total[D:, D:].add_(products_beside(place, E, E))

    def host(self) -> NDArray:
        """The sum as an array of NumPy, of shape (D + K, D + K), symmetric."""
        total = to_host(self._total)
        if self.place.is_host or not self.place.has_double:
            total = total.copy()
        copy_triangle(total, below=False)
        return total


def products_beside(place: Device, E: Any, Z: Any) -> Any:
    """E'Z in float64 for few columns E, of strips of rows each in their precision.

    Products of so few columns may be sums row after row, which lose a digit of long
    columns of ones.
    """
    whole = Z.shape[0] // STRIP * STRIP
    products = place.product(E[whole:].T, Z[whole:]).double()
    if whole:
        left_strips, right_strips = (
            A[:whole].reshape(whole // STRIP, STRIP, A.shape[1]) for A in (E, Z)
        )
        products += place.product(left_strips.mT, right_strips).double().sum(dim=0)
    return products
