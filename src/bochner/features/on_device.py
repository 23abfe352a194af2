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
    n_columns : int
        Of the rows.
    parts : tuple of (metrics, Waves)
    amplitudes : array of shape (D,), float64
        With the roots of the weights of the parts.
    """

    place: Place
    dtype: np.dtype
    n_columns: int
    parts: tuple[tuple[tuple[Metric, ...], Waves], ...]
    amplitudes: NDArray[np.float64]

    @property
    def block_rows(self) -> int:
        """Rows of a block, by the memory of the device that is free: a power of two."""
        return block_rows(self.place, (ARRAYS * len(self.amplitudes) + 2 * self.n_columns) * self.dtype.itemsize)

    def rows(self, X: Rows) -> Any:
        """Features of rows of the processor, without amplitudes, shape (b, D), on the device."""
        dense = as_dense(X).astype(self.dtype, copy=False)
        whole = self.place.put(dense) if any(not metrics for metrics, _ in self.parts) else None
        found = []
        for metrics, waves in self.parts:
            U: Any = dense
            for metric in metrics:
                U = metric.coordinates(U)
            found.append(waves.rows(self.place.put(U) if metrics else whole))
        return found[0] if len(found) == 1 else self.place.xp.concat(found, axis=1)


def on_device(features: Any, place: Place, dtype: DTypeLike) -> DeviceFeatures | None:
    """A drawn map on a device; None where parts of it are no Fourier features, or the device has not the precision."""
    dtype, parts, amplitudes = np.dtype(dtype), [], []
    if dtype == np.float64 and not place.has_double:
        return None
    for leaf in leaves(features):
        if not isinstance(leaf.features, FourierFeatures):
            return None
        parts.append((leaf.metrics, Waves.of(leaf.features, place, dtype)))
        amplitudes.append(np.sqrt(leaf.weight) * leaf.features.bounds())
    return DeviceFeatures(place, dtype, features.n_features_in_, tuple(parts), np.concatenate(amplitudes))
