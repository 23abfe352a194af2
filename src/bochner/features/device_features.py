"""Dense feature maps on a device: which device, the map there, and its stored features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bochner.data.weights import are_unit
from bochner.devices.device import Device, parse_device
from bochner.devices.device_fourier import DeviceFourier, as_dense, block_rows
from bochner.features.base import Rows
from bochner.features.fourier import FourierFeatures
from bochner.features.leaves import leaves
from bochner.features.metric import Metric
from bochner.features.stored import Stored
from bochner.notices import warn
from bochner.settings import current

ARRAYS = 4  # of D columns at a time: angles, features and what is made of them


@dataclass(frozen=True)
class DeviceFeatures:
    """Waves of rows, and of learned coordinates of them, which the processor computes; side by side.

    Features are without their amplitudes, so that all entries lie in [-1, 1]: with the amplitudes a, Z diag(a) are the
    features of the map.

    Attributes
    ----------
    place : Device
    dtype : dtype
    views : tuple of tuple of Metric
        What the waves see of the rows: the rows themselves, or coordinates by metrics, one after the other.
    waves : tuple of (int, Waves)
        With the numbers of their views.
    amplitudes : array of shape (D,), float64
        With the roots of the weights of the parts.
    """

    place: Device
    dtype: np.dtype
    views: tuple[tuple[Metric, ...], ...]
    waves: tuple[tuple[int, DeviceFourier], ...]
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


def on_device(features: Any, place: Device, dtype: DTypeLike) -> DeviceFeatures | None:
    """A drawn map on a device; None where parts of it are not Fourier features, or the device has not the precision."""
    dtype, views, waves, amplitudes = np.dtype(dtype), list[tuple[Metric, ...]](), [], []
    if dtype == np.float64 and not place.has_double:
        return None
    for leaf in leaves(features):
        if not isinstance(leaf.features, FourierFeatures):
            return None
        if leaf.metrics not in views:
            views.append(leaf.metrics)
        waves.append((views.index(leaf.metrics), DeviceFourier.of(leaf.features, place, dtype)))
        amplitudes.append(np.sqrt(leaf.weight) * leaf.features.bounds())
    return DeviceFeatures(place, dtype, tuple(views), tuple(waves), np.concatenate(amplitudes))


class StoredOnDevice(Stored):
    """Features Z on a device; vectors come and go as arrays of NumPy.

    Parameters
    ----------
    features : DeviceFeatures
    Z : array of shape (n, D), on the device
        Without amplitudes; the centre is taken from it in place.
    centre : array of shape (D,), optional
        What is taken from each column, in the units of the map.
    """

    fused = True

    def __init__(self, features: DeviceFeatures, Z: Any, centre: NDArray | None = None) -> None:
        self.place, self.dtype, self.amplitudes = features.place, features.dtype, features.amplitudes
        self.n_rows = int(Z.shape[0])
        if centre is not None:
            Z -= self._put(np.divide(centre, self.amplitudes, out=np.zeros(len(centre)), where=self.amplitudes > 0))
        self.Z = Z

    def forward(self, V: NDArray) -> NDArray:
        return self.place.host(self._forward(V))

    def backward(self, T: NDArray, Q: NDArray) -> None:
        self._add(self.place.product(self._put(T), self.Z), Q)

    def squares(self, weight: NDArray, q: NDArray) -> None:
        found = self.place.product(self._put(weight[np.newaxis]), self.Z * self.Z)
        q += self.place.host(found)[0] * np.square(self.amplitudes)

    def normal(self, V: NDArray, weight: NDArray, Q: NDArray) -> None:
        T = self._forward(V)
        if not are_unit(weight):
            T = T * self._put(weight)
        self._add(self.place.product(T, self.Z), Q)

    def _forward(self, V: NDArray) -> Any:
        return self.place.product(self._put(V * self.amplitudes), self.place.xp.matrix_transpose(self.Z))

    def _add(self, product: Any, Q: NDArray) -> None:
        Q += self.place.host(product) * self.amplitudes

    def _put(self, array: NDArray) -> Any:
        return self.place.put(array.astype(self.dtype, copy=False))


SQUARED = "squared", "auto"


def current_device() -> Device | None:
    """The device of the settings; None for the processor."""
    return parse_device(current().device)


def device_for_fit(features: Any, solver: str, loss: str, dtype: np.dtype) -> Device | None:
    """The device for a fit; None, with a warning that says why, for one that stays on the processor."""
    device = current_device()
    if device is None:
        return None
    others = {type(leaf.features).__name__ for leaf in leaves(features)} - {FourierFeatures.__name__}
    reasons = {
        f"{' and '.join(sorted(others))} are not Fourier features": bool(others),
        "weights of several maps are learned": features.learns_weights,
        "solver='exact' compares all rows": solver == "exact",
        f"loss={loss!r} is not the squared loss": loss not in SQUARED,
        "it has no double precision, which so small a fit, tol or alpha needs": dtype == np.float64
        and not device.has_double,
    }
    why = next((reason for reason, holds in reasons.items() if holds), None)
    if why is not None:
        warn(f"The fit runs on the CPU, and the device {device} is not used: {why}.")
        return None
    return device
