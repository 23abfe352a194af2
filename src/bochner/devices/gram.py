"""Sums of Z'Z over blocks of rows, on a device, as exact as float32.

Tensor cores multiply FP16 some ten times as fast as float32, and add in float32. With H = Z in FP16 and L = Z - H in
FP16, Z = H + L up to 2^-22 of each column's largest entry, and

    Z'Z = H'H + H'L + (H'L)' + L'L,

whose last term is below float32's rounding and is left out, but for its diagonal, which is of one sign: two products in
place of one, by symmetry. H'H is taken in panels of the lower triangle, since no library has a symmetric product for
it. Sums of many rows would lose what this keeps, also for how tensor cores round their sums: each 16,384 rows are added
in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bochner.devices.device import Device
    from bochner.devices.libraries import Standard

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
        Columns K of E, such as targets and ones, whose products are taken in float32 throughout.
    precision : {"full", "fast"}, default="full"
        As exact as float32, or as fast as tensor cores are, with errors of 1e-3.
    unit : bool, default=False
        Whether no entry of Z exceeds 1 in size, which saves two passes over it; cosines and sines before they are
        multiplied by their amplitudes are so.
    """

    def __init__(
        self, place: Device, n_columns: int, n_beside: int = 0, precision: str = "full", unit: bool = False
    ) -> None:
        self.place, self.n_columns, self.precision, self.unit = place, n_columns, precision, unit
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
        place, D = self.place, self.n_columns
        if self._adds_in_place:
            add_gram(place.library, self._total, Z, self.precision, self.unit)
            if E is not None:
                _plus(self._total[D:, :D], products_beside(place, E, Z))
                _plus(self._total[D:, D:], products_beside(place, E, E))
            return
        A = Z if E is None else place.xp.concat([Z, E], axis=1)
        product = place.gram(A, self.precision)
        self._total = self._total + (
            place.xp.astype(product, place.xp.float64) if place.has_double else place.host(product)
        )

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


def gram(library: Standard, Z: Any, precision: str, unit: bool = False) -> Any:
    """Z'Z of one block, in the precision of Z."""
    if not library.in_place:
        return library.matmul(library.xp.matrix_transpose(Z), Z, precision)
    total = library.xp.zeros((Z.shape[1], Z.shape[1]), dtype=Z.dtype, device=library.device_of(Z))
    add_gram(library, total, Z, precision, unit)
    mirror(total, library.xp)
    return total


def add_gram(library: Standard, total: Any, Z: Any, precision: str, unit: bool = False) -> None:
    """Add Z'Z to the lower triangle of a matrix, in panels; some of what is above the diagonal changes as well."""
    if library.has_halves(Z):
        _add_split(library, total, Z, precision, unit)
    else:
        _add_panels(total[: Z.shape[1], : Z.shape[1]], Z, library.matmul)


def _panels(n_columns: int) -> Iterator[tuple[slice, slice]]:
    """The columns of each panel, and the rows from its diagonal down."""
    return ((slice(a, min(a + PANEL, n_columns)), slice(a, n_columns)) for a in range(0, n_columns, PANEL))


def _add_panels(total: Any, Z: Any, product: Callable[[Any, Any], Any], scale: Any = None) -> None:
    for own, down in _panels(Z.shape[1]):
        _plus(total[down, own], _scaled(product(Z[:, down].T, Z[:, own]), scale, down, own))


def _add_split(library: Standard, total: Any, Z: Any, precision: str, unit: bool) -> None:
    """Add H'H and, unless it is to be fast, H'L and its transpose."""
    scale = None if unit else _powers(library.xp, Z)
    H, L = halves(library, Z if scale is None else Z / scale)
    _add_panels(total, H, library.half_product, scale)
    if precision == "fast":
        return
    everything = slice(0, Z.shape[1])
    squares = library.squares(L)
    _plus_diagonal(library.xp, total, squares if scale is None else squares * scale**2)
    for own, down in _panels(Z.shape[1]):
        cross = _scaled(library.half_product(H.T, L[:, own]), scale, everything, own)
        _plus(total[down, own], cross[down, :])
        _plus(total[own, : own.stop], cross[: own.stop, :].T)


def halves(library: Standard, Z: Any) -> tuple[Any, Any]:
    """H and L of FP16 with Z = H + L up to 2^-25, for entries of at most 1 in size."""
    H = library.xp.astype(Z, library.xp.float16)
    L = library.xp.empty_like(H)
    library.module.subtract(Z, H, out=L)
    return H, L


def _powers(xp: Any, Z: Any) -> Any:
    """The power of two for each column that its entries do not exceed."""
    largest = xp.max(xp.abs(Z), axis=0)
    return 2.0 ** xp.ceil(xp.log2(xp.where(largest > 0, largest, xp.ones_like(largest))))


def _scaled(product: Any, scale: Any, rows: slice, columns: slice) -> Any:
    return product if scale is None else product * scale[rows, None] * scale[None, columns]


def _plus(part: Any, addend: Any) -> None:
    """Add to a part of an array where it lies."""
    part += addend


def _plus_diagonal(xp: Any, total: Any, addend: Any) -> None:
    """Add to the first entries of a square matrix's diagonal."""
    step, n = total.shape[1] + 1, addend.shape[0]
    flat = xp.reshape(total, (-1,), copy=False)
    _plus(flat[: n * step : step], addend)


def mirror(total: Any, xp: Any) -> None:
    """Make a matrix symmetric by its lower triangle."""
    for own, down in _panels(total.shape[0]):
        below = slice(own.stop, down.stop)
        total[own, below] = total[below, own].T
        block = total[own, own]
        total[own, own] = xp.tril(block) + xp.tril(block, k=-1).T
