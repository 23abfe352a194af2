"""Dense feature maps on a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bochner.arrays import Place
from bochner.features.dense import Rows
from bochner.features.device_blocks import block_rows
from bochner.features.fourier import FourierFeatures
from bochner.features.leaves import leaves
from bochner.features.metric import Metric
from bochner.features.waves import Waves, as_dense

ARRAYS = 4  # of D columns at a time: angles, features and what is made of them


@dataclass(frozen=True)
class DeviceFeatures:
    """Waves of rows, and of learned coordinates of them, which the processor computes; side by side.

    Features are without their amplitudes, so that all entries lie in [-1, 1]: with the amplitudes a, Z diag(a) are the
    features of the map.

    Attributes
    ----------
    place : Place
    dtype : dtype
    views : tuple of tuple of Metric
        What the waves see of the rows: the rows themselves, or coordinates by metrics, one after the other.
    waves : tuple of (int, Waves)
        With the numbers of their views.
    amplitudes : array of shape (D,), float64
        With the roots of the weights of the parts.
    """

    place: Place
    dtype: np.dtype
    views: tuple[tuple[Metric, ...], ...]
    waves: tuple[tuple[int, Waves], ...]
    amplitudes: NDArray[np.float64]

    @property
    def row_bytes(self) -> int:
        """Memory that a row takes, about."""
        columns = ARRAYS * len(self.amplitudes) + sum(2 * waves.frequencies.shape[0] for _, waves in self.waves)
        return columns * self.dtype.itemsize

    @property
    def block_rows(self) -> int:
        """Rows of a block, by the memory of the device that is free: a power of two."""
        return block_rows(self.place, self.row_bytes)

    def coordinates(self, X: Rows) -> tuple[NDArray, ...]:
        """What the waves see of rows, each an array of NumPy."""
        found = []
        for metrics in self.views:
            U = X
            for metric in metrics:
                U = metric.coordinates(U)
            found.append(as_dense(U).astype(self.dtype, copy=False))
        return tuple(found)

    def of(self, *coordinates: Any) -> Any:
        """Features without amplitudes, shape (b, D), of what the waves see, on the device."""
        if len(self.waves) == 1 or not self.place.library.in_place:
            found = [waves.rows(coordinates[view]) for view, waves in self.waves]
            return found[0] if len(found) == 1 else self.place.xp.concat(found, axis=1)
        X, first = coordinates[0], 0
        Z = self.place.xp.empty((X.shape[0], len(self.amplitudes)), dtype=X.dtype, device=self.place.device)
        for view, waves in self.waves:
            last = first + len(waves.amplitudes)
            waves.write(coordinates[view], Z[:, first:last])
            first = last
        return Z


def on_device(features: Any, place: Place, dtype: DTypeLike) -> DeviceFeatures | None:
    """A drawn map on a device; None where parts of it are not Fourier features, or the device has not the precision."""
    dtype, views, waves, amplitudes = np.dtype(dtype), list[tuple[Metric, ...]](), [], []
    if dtype == np.float64 and not place.has_double:
        return None
    for leaf in leaves(features):
        if not isinstance(leaf.features, FourierFeatures):
            return None
        if leaf.metrics not in views:
            views.append(leaf.metrics)
        waves.append((views.index(leaf.metrics), Waves.of(leaf.features, place, dtype)))
        amplitudes.append(np.sqrt(leaf.weight) * leaf.features.bounds())
    return DeviceFeatures(place, dtype, tuple(views), tuple(waves), np.concatenate(amplitudes))
