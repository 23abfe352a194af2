"""Fourier features of rows on a device, in blocks that fit its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bochner.devices.device import Device, is_out_of_memory, to_host

if TYPE_CHECKING:
    from bochner.features.base import Rows

MOST_ROWS, FEWEST_ROWS = 1 << 14, 256  # of a block, whose products are summed in single precision
FREE_SHARE = 0.25  # of the free memory, for a block
TILE = 1 << 22  # angles at a time, 16 MB of which a cache of 40 MB holds with their cosines
LESS = 8  # times fewer rows, where the device has run out of memory
T = TypeVar("T")


def block_rows(place: Device, row: int) -> int:
    """Rows of a block, of so many bytes each, by the memory of the device that is free: a power of two."""
    free, rows = place.free_bytes(), MOST_ROWS
    while free is not None and rows > FEWEST_ROWS and rows * row > FREE_SHARE * free:
        rows //= 2
    return rows


def with_smaller_blocks(compute: Callable[[int], T], rows: int, device: Device, row_bytes: int, beside: int = 0) -> T:
    """Return ``compute(rows)``, or of an eighth of so many rows where the device has no memory for these.

    Parameters
    ----------
    row_bytes : int
        That a row takes.
    beside : int, default=0
        Bytes that are needed however few the rows are.

    Raises
    ------
    MemoryError
        Where that is too much, too.
    """
    for size in (rows, max(rows // LESS, 1)):
        try:
            return compute(size)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            last = error
    what, cure = f"A block of {size:,} rows", "Use a smaller n_components, or leave device= out."
    raise device.memory_error(size * row_bytes + beside, what, cure) from last


def pieces(compute: Callable[..., T], device: Device, row_bytes: int, *arrays: Any) -> Iterator[T]:
    """Yield ``compute(*arrays)``, or what it makes of an eighth of the rows at a time where there is no memory."""

    def first(rows: int) -> tuple[T, int]:
        return compute(*(array[:rows, ...] for array in arrays)), rows

    n = arrays[0].shape[0]
    found, step = with_smaller_blocks(first, n, device, row_bytes)
    yield found
    for start in range(step, n, step):
        yield compute(*(array[start : start + step, ...] for array in arrays))


@dataclass(frozen=True)
class DeviceFourier:
    """Fourier features on a device, without their amplitudes, so that all entries lie in [-1, 1].

    Angles are in radians: the libraries' own cosines and sines lose no digit of a large angle, so that none has to be
    taken to turns, which would read and write all angles twice more.

    Attributes
    ----------
    place : Device
    frequencies : array of shape (d, m), on the device
    offsets : array of shape (q,), on the device
        Of the last q frequencies, which have a cosine only.
    amplitudes : array of shape (D,), float64
        Of the columns; NumPy's.
    """

    place: Device
    frequencies: Any
    offsets: Any
    amplitudes: NDArray[np.float64]

    @classmethod
    def of(cls, features: Any, place: Device, dtype: np.dtype) -> DeviceFourier:
        """Those of drawn FourierFeatures, in a precision."""
        frequencies, offsets = (
            place.put(array.astype(dtype)) for array in (features.frequencies_, features.offsets_ % (2 * np.pi))
        )
        return cls(place, frequencies, offsets, features.bounds())

    def rows(self, X: Any) -> Any:
        """Features of the rows without amplitudes, shape (b, D); X is on the device, of the same precision."""
        xp, lone = self.place.xp, int(self.offsets.shape[0])
        if self.place.library.in_place:
            Z = xp.empty((X.shape[0], len(self.amplitudes)), dtype=X.dtype, device=self.place.device)
            self.write(X, Z)
            return Z
        angles = self.place.product(X, self.frequencies)
        pairs = int(angles.shape[1]) - lone
        paired = angles[:, :pairs]
        found = [xp.cos(paired), xp.sin(paired)] if pairs else []
        return xp.concat([*found, xp.cos(angles[:, pairs:] + self.offsets)] if lone else found, axis=1)

    def write(self, X: Any, out: Any, amplitudes: Any = None) -> None:
        """Write the features into an array of the device, shape (b, D), of a library whose arrays can be changed.

        A few rows at a time, whose angles a cache holds from the product to the last of the waves, so that memory sees
        little but the features.

        Parameters
        ----------
        amplitudes : array of shape (D,), on the device, optional
            Factors on the columns.
        """
        step = max(TILE // max(int(self.frequencies.shape[1]), 1), 1)
        for start in range(0, X.shape[0], step):
            self._write(X[start : start + step], out[start : start + step], amplitudes)

    def _write(self, X: Any, out: Any, amplitudes: Any) -> None:
        module, angles = self.place.library.module, self.place.product(X, self.frequencies)
        m = int(angles.shape[1])
        pairs = m - int(self.offsets.shape[0])
        angles[:, pairs:] += self.offsets
        for wave, start, stop, first in (
            (module.cos, 0, pairs, 0),
            (module.sin, 0, pairs, pairs),
            (module.cos, pairs, m, 2 * pairs),
        ):
            columns = slice(first, first + stop - start)
            if start < stop:
                wave(angles[:, start:stop], out=out[:, columns])
            if start < stop and amplitudes is not None:
                out[:, columns] *= amplitudes[columns]

    @property
    def row_bytes(self) -> int:
        """Memory that a row takes, about."""
        return (3 * len(self.amplitudes) + self.frequencies.shape[0]) * self.entry_bytes

    @property
    def entry_bytes(self) -> int:
        """Of a feature: 4 or 8."""
        return 8 if self.frequencies.dtype == self.place.xp.float64 else 4


def as_dense(X: Rows) -> NDArray:
    """Rows as an array of NumPy, with all their zeros."""
    return X if isinstance(X, np.ndarray) else X.toarray()


def features_by(features: Any, X: Rows, place: Device) -> NDArray:
    """What FourierFeatures make of checked rows of the processor, computed by a device in blocks."""
    waves, found = DeviceFourier.of(features, place, X.dtype), np.empty((X.shape[0], features.n_features_out), X.dtype)
    amplitudes, rows = waves.amplitudes.astype(X.dtype), block_rows(place, waves.row_bytes)

    def compute(block: Rows) -> NDArray:
        return place.host(waves.rows(place.put(as_dense(block))))

    done = 0
    for start in range(0, X.shape[0], rows):
        for Z in pieces(compute, place, waves.row_bytes, X[start : start + rows]):
            np.multiply(Z, amplitudes, out=found[done : done + len(Z)])
            done += len(Z)
    return found


def features_there(features: Any, X: Any, place: Device) -> Any:
    """What FourierFeatures make of rows on a device, which never leave it.

    Raises
    ------
    ValueError
        Where X is no table of the columns of the fit, or holds values that are not finite.
    """
    xp, (d, name) = place.xp, (features.n_features_in_, type(features).__name__)
    X = place.put(X)
    if X.ndim != 2 or X.shape[1] != d:
        raise ValueError(f"X has shape {tuple(X.shape)}, but {name} is expecting {d} features as input, a row each.")
    if X.dtype not in (xp.float32, xp.float64):
        X = xp.astype(X, xp.float64 if place.has_double else xp.float32)
    if not bool(xp.all(xp.isfinite(X))):
        raise ValueError("Input X contains NaN or infinity. Impute, drop or clip such values.")
    features.check_rows(HostColumns(X))
    dtype = np.dtype(np.float64 if X.dtype == xp.float64 else np.float32)
    waves, n = DeviceFourier.of(features, place, dtype), X.shape[0]
    amplitudes = place.put(waves.amplitudes.astype(dtype))
    if place.library.in_place:
        return _filled(waves, X, amplitudes, features.remedy)

    def compute(rows: Any) -> Any:
        Z = waves.rows(rows)
        Z *= amplitudes
        return Z

    found = list(pieces(compute, place, waves.row_bytes, X))
    return found[0] if n == found[0].shape[0] else xp.concat(found)


def _filled(waves: DeviceFourier, X: Any, amplitudes: Any, remedy: str) -> Any:
    """Features of the rows, written where they stay."""
    place, (n, D) = waves.place, (X.shape[0], len(waves.amplitudes))
    try:
        found = place.xp.empty((n, D), dtype=X.dtype, device=place.device)
        waves.write(X, found, amplitudes)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise place.memory_error(n * D * waves.entry_bytes, f"The array of {n:,} x {D:,} features", remedy) from error
    return found


class HostColumns:
    """Rows on a device, of which columns that are asked for become arrays of NumPy."""

    def __init__(self, X: Any) -> None:
        self.X, self.shape = X, X.shape

    def __getitem__(self, key: Any) -> NDArray:
        return to_host(self.X[key])
