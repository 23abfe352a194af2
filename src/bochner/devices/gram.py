"""Sums of Z'Z over blocks of rows, on a device.

Products of Z'Z are taken in the precision of Z, in panels of the lower triangle, since no library has a symmetric
product for it; each 16,384 rows are added in float64, as sums of many rows would lose digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.devices.device import Device

ROWS = 2**14  # of which sums are taken in float32
PANEL = 2048  # columns
STRIP = 256  # rows


class GramSum:
    """The sum of A'A over blocks of A = [Z, E], in float64.

    Parameters
    ----------
    place : Device
        Where the blocks lie.
    n_columns : int
        Columns D of Z.
    n_beside : int, default=0
        Columns K of E, such as targets and ones.
    """

    def __init__(self, place: Device, n_columns: int, n_beside: int = 0) -> None:
        self.place, self.n_columns = place, n_columns
        shape = n_columns + n_beside, n_columns + n_beside
        xp = place.xp
        self._total = (
            xp.zeros(shape, dtype=xp.float64, device=place.device) if place.has_double else np.zeros(shape, np.float64)
        )

    @property
    def _adds_in_place(self) -> bool:
        return self.place.library.in_place and self.place.has_double

    def add(self, Z: Any, beside: Any = None) -> None:
        """Add the products of rows. Where this fails for want of memory, a part of them may have been added.

        Parameters
        ----------
        Z : array of shape (b, D)
            On the device.
        beside : array of shape (b, K), optional
            On the device, in the precision of Z.
        """
        for start in range(0, Z.shape[0], ROWS):
            stop = min(start + ROWS, Z.shape[0])
            self._add(Z[start:stop, :], None if beside is None else beside[start:stop, :])

    def _add(self, Z: Any, E: Any) -> None:
        place, D, xp, matmul = self.place, self.n_columns, self.place.xp, self.place.library.matmul
        if self._adds_in_place:
            for own, down in _panels(D):
                _plus(self._total[down, own], matmul(Z[:, down].T, Z[:, own]))
            if E is not None:
                _plus(self._total[D:, :D], products_beside(place, E, Z))
                _plus(self._total[D:, D:], products_beside(place, E, E))
            return
        A = Z if E is None else xp.concat([Z, E], axis=1)
        product = matmul(xp.matrix_transpose(A), A)
        self._total = self._total + (xp.astype(product, xp.float64) if place.has_double else place.host(product))

    def host(self) -> NDArray:
        """The sum as an array of NumPy, of shape (D + K, D + K), symmetric."""
        place = self.place
        if self._adds_in_place:
            mirror(self._total, place.xp)
            total = place.host(self._total)
            return total.copy() if place.is_host else total
        total = np.array(place.host(self._total) if place.has_double else self._total)
        mirror(total, np)
        return total


def products_beside(place: Device, E: Any, Z: Any) -> Any:
    """E'Z in float64 for few columns E, of strips of rows each in their precision.

    Products of so few columns are sums row after row in some libraries, which lose a digit of long columns of ones.
    """
    xp, whole = place.xp, Z.shape[0] // STRIP * STRIP
    found = xp.astype(place.product(E[whole:, :].T, Z[whole:, :]), xp.float64)
    if whole:
        left, right = (xp.reshape(A[:whole, :], (-1, STRIP, A.shape[1])) for A in (E, Z))
        found += xp.sum(place.product(xp.matrix_transpose(left), right), axis=0, dtype=xp.float64)
    return found


def _panels(n_columns: int) -> Iterator[tuple[slice, slice]]:
    """The columns of each panel, and the rows from its diagonal down."""
    return ((slice(a, min(a + PANEL, n_columns)), slice(a, n_columns)) for a in range(0, n_columns, PANEL))


def _plus(part: Any, addend: Any) -> None:
    """Add to a part of an array where it lies."""
    part += addend


def mirror(total: Any, xp: Any) -> None:
    """Make a matrix symmetric by its lower triangle."""
    for own, down in _panels(total.shape[0]):
        below = slice(own.stop, down.stop)
        total[own, below] = total[below, own].T
        block = total[own, own]
        total[own, own] = xp.tril(block) + xp.tril(block, k=-1).T
