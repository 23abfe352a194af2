"""Cosines and sines of the rows on a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Place, to_host
from bochner.features.dense import Rows
from bochner.features.device_blocks import block_rows, pieces


@dataclass(frozen=True)
class Waves:
    """Fourier features on a device, without their amplitudes, so that all entries lie in [-1, 1].

    Angles are in radians: the libraries' own cosines and sines lose no digit of a large angle, so that none has to be
    taken to turns, which would read and write all angles twice more.

    Attributes
    ----------
    place : Place
    frequencies : array of shape (d, m), on the device
    offsets : array of shape (q,), on the device
        Of the last q frequencies, which have a cosine only.
    amplitudes : array of shape (D,), float64
        Of the columns; NumPy's.
    """

    place: Place
    frequencies: Any
    offsets: Any
    amplitudes: NDArray[np.float64]

    @classmethod
    def of(cls, features: Any, place: Place, dtype: np.dtype) -> Waves:
        """Those of drawn FourierFeatures, in a precision."""
        frequencies, offsets = (
            place.put(array.astype(dtype)) for array in (features.frequencies_, features.offsets_ % (2 * np.pi))
        )
        return cls(place, frequencies, offsets, features.bounds())

    def rows(self, X: Any) -> Any:
        """Features of the rows without amplitudes, shape (b, D); X is on the device, of the same precision."""
        xp, lone = self.place.xp, int(self.offsets.shape[0])
        angles = self.place.product(X, self.frequencies)
        pairs = int(angles.shape[1]) - lone
        if not lone:
            return _both(xp, angles)
        shifted = angles[:, pairs:] + self.offsets
        if not pairs:
            return xp.cos(shifted)
        paired = angles[:, :pairs]
        return xp.concat([xp.cos(paired), xp.sin(paired), xp.cos(shifted)], axis=1)

    @property
    def row_bytes(self) -> int:
        """Memory that a row takes, about."""
        d, size = self.frequencies.shape[0], 8 if self.frequencies.dtype == self.place.xp.float64 else 4
        return (3 * len(self.amplitudes) + d) * size


def as_dense(X: Rows) -> NDArray:
    """Rows as an array of NumPy, with all their zeros."""
    return X if isinstance(X, np.ndarray) else X.toarray()


def features_by(features: Any, X: Rows, place: Place) -> NDArray:
    """What FourierFeatures make of checked rows of the processor, computed by a device in blocks."""
    waves, found = Waves.of(features, place, X.dtype), np.empty((X.shape[0], features.n_features_out), X.dtype)
    amplitudes, rows = waves.amplitudes.astype(X.dtype), block_rows(place, waves.row_bytes)

    def compute(block: Rows) -> NDArray:
        return place.host(waves.rows(place.put(as_dense(block))))

    done = 0
    for start in range(0, X.shape[0], rows):
        for Z in pieces(compute, place, waves.row_bytes, X[start : start + rows]):
            np.multiply(Z, amplitudes, out=found[done : done + len(Z)])
            done += len(Z)
    return found


def features_there(features: Any, X: Any, place: Place) -> Any:
    """What FourierFeatures make of rows on a device, which never leave it.

    Raises
    ------
    ValueError
        Where X is no table of the columns of the fit, or holds values that are not finite.
    """
    xp, (d, name) = place.xp, (features.n_features_in_, type(features).__name__)
    if X.ndim != 2 or X.shape[1] != d:
        raise ValueError(f"X has shape {tuple(X.shape)}, but {name} is expecting {d} features as input, a row each.")
    if X.dtype not in (xp.float32, xp.float64):
        X = xp.astype(X, xp.float64 if place.has_double else xp.float32)
    if not bool(xp.all(xp.isfinite(X))):
        raise ValueError("Input X contains NaN or infinity. Impute, drop or clip such values.")
    features.check_rows(HostColumns(X))
    dtype = np.dtype(np.float64 if X.dtype == xp.float64 else np.float32)
    waves, n = Waves.of(features, place, dtype), X.shape[0]
    amplitudes = place.put(waves.amplitudes.astype(dtype))

    def compute(rows: Any) -> Any:
        Z = waves.rows(rows)
        Z *= amplitudes
        return Z

    found = list(pieces(compute, place, waves.row_bytes, X))
    return found[0] if n == found[0].shape[0] else xp.concat(found)


def _both(xp: Any, angles: Any) -> Any:
    """Cosines of all angles beside their sines, written where they stay by a library that can."""
    if not hasattr(xp, "from_numpy"):  # all but PyTorch
        return xp.concat([xp.cos(angles), xp.sin(angles)], axis=1)
    n, m = angles.shape
    Z = angles.new_empty((n, 2 * m))
    xp.cos(angles, out=Z[:, :m])
    xp.sin(angles, out=Z[:, m:])
    return Z


class HostColumns:
    """Rows on a device, of which columns that are asked for become arrays of NumPy."""

    def __init__(self, X: Any) -> None:
        self.X, self.shape = X, X.shape

    def __getitem__(self, key: Any) -> NDArray:
        return to_host(self.X[key])
