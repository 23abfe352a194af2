"""Maps whose features a device computes: which device, the map there, and its stored
features.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bochner.data.array_source import Block
from bochner.data.table_input import as_dense
from bochner.data.weights import are_unit, weights_of
from bochner.devices.device import Device, is_out_of_memory, parse_device, to_host
from bochner.devices.device_fourier import DeviceFourier, block_rows, pieces
from bochner.engines.local import limited, most_waiting
from bochner.features.base import Centres, FeatureMap, Rows
from bochner.features.leaves import LeafMap, leaves
from bochner.features.stored import Stored, StoredRows
from bochner.notices import warn
from bochner.settings import current

LANES = 8  # threads that read for a device
WAITING_BYTES = 512 << 20  # of the blocks that wait for a device
ARRAYS = 4  # of D columns at a time: angles, features and what is made of them
T = TypeVar("T")


@dataclass(frozen=True)
class DeviceFeatures:
    """A drawn map of Fourier features, maybe of learned coordinates, maybe several side
    by side, on a device.

    The processor computes coordinates, and the device the rest. Features there are
    without their amplitudes, so that all entries lie in [-1, 1]: with the amplitudes a,
    Z diag(a) are the features of the map. It can be sent to other processes, which have
    devices of the same name.

    Attributes
    ----------
    features : FeatureMap
    place : Device
    dtype : dtype
    leaves : tuple of LeafMap
        The single maps, with the metrics through which each sees the rows.
    waves : tuple of DeviceFourier
        One for each of them.
    amplitudes : array of shape (D,), float64
        With the roots of the weights of the parts.
    """

    features: FeatureMap
    place: Device
    dtype: np.dtype
    leaves: tuple[LeafMap, ...]
    waves: tuple[DeviceFourier, ...]
    amplitudes: NDArray[np.float64]

    is_dense = True

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return on_device, (self.features, self.place, self.dtype)

    @property
    def row_bytes(self) -> int:
        """Memory that a row takes, about."""
        columns = ARRAYS * len(self.amplitudes) + sum(
            2 * waves.frequencies.shape[0] for waves in self.waves
        )
        return columns * self.dtype.itemsize

    @property
    def block_rows(self) -> int:
        """Rows of a block, by the memory of the device that is free, a power of two,
        and by that of the blocks that wait.
        """
        row = self.features.n_features_in_ * self.dtype.itemsize
        most = limited(WAITING_BYTES) // (most_waiting(LANES) * row)
        return min(block_rows(self.place, self.row_bytes), most)

    def coordinates(self, X: Rows) -> tuple[NDArray, ...]:
        """What each of the waves sees of rows, as arrays of NumPy."""
        return tuple(
            as_dense(leaf.coordinates(X)).astype(self.dtype, copy=False)
            for leaf in self.leaves
        )

    def of(self, *coordinates: Any) -> Any:
        """Features without amplitudes, shape (b, D), of what the waves see, on the
        device.
        """
        X = coordinates[0]
        first = 0
        Z = self.place.torch.empty(
            (X.shape[0], len(self.amplitudes)), dtype=X.dtype, device=self.place.device
        )
        for waves, U in zip(self.waves, coordinates, strict=True):
            last = first + len(waves.amplitudes)
            waves.write(U, Z[:, first:last])
            first = last
        return Z

    def each(self, blocks: Iterable[Rows], compute: Callable[[Any], T]) -> Iterator[T]:
        """Yield ``compute(Z)`` of the features of each block, in pieces where the
        device has no memory for a whole.
        """
        for coordinates in self.place.ahead(map(self.coordinates, blocks)):
            yield from pieces(
                lambda *piece: compute(self.of(*piece)),
                self.place,
                self.row_bytes,
                *coordinates,
            )

    def rows(self, X: Rows) -> NDArray:
        """Features of rows of the processor, with their amplitudes, there, shape (n,
        D).
        """
        row_features = np.empty((X.shape[0], len(self.amplitudes)), self.dtype)
        size = self.block_rows
        done = 0
        amplitudes = self.amplitudes.astype(self.dtype)
        for Z in self.each(
            (X[a : a + size] for a in range(0, X.shape[0], size)), to_host
        ):
            np.multiply(Z, amplitudes, out=row_features[done : done + len(Z)])
            done += len(Z)
        return row_features

    def products(self, blocks: Iterable[Rows], coef: NDArray) -> Iterator[NDArray]:
        """Yield products Z coef of some rows after the other, each of shape (b, K)."""
        V = self.place.put((coef * self.amplitudes[:, np.newaxis]).astype(self.dtype))
        return self.each(blocks, lambda Z: to_host(self.place.product(Z, V)))

    def stored(self, blocks: Iterable[Block], centres: Centres) -> Iterator[StoredRows]:
        """Yield blocks with features that the device holds in the place of X; see
        `FeatureMap.stored`.
        """
        centre = None
        if centres is not None:
            parts = zip(self.features.scales, centres, strict=True)
            centre = np.concatenate(
                [scale * part for scale, part in parts if part is not None]
            )
        hold = partial(StoredOnDevice, self, centre=centre)
        for X, y, weight in blocks:
            first = 0
            for Z in self.each([X], hold):
                part = slice(first, first + Z.n_rows)
                yield StoredRows(Z, y[part], weights_of(weight, part))
                first = part.stop


def on_device(features: Any, place: Device, dtype: DTypeLike) -> DeviceFeatures | None:
    """A drawn map on a device; None where parts of it are not Fourier features, or
    the device has not the precision.
    """
    dtype = np.dtype(dtype)
    if (dtype == np.float64 and not place.has_double) or not_on_devices(features):
        return None
    parts = tuple(leaves(features))
    waves = [DeviceFourier(leaf.features, place, dtype) for leaf in parts]
    amplitudes = [np.sqrt(leaf.weight) * leaf.features.bounds() for leaf in parts]
    return DeviceFeatures(
        features, place, dtype, parts, tuple(waves), np.concatenate(amplitudes)
    )


def not_on_devices(features: Any) -> set[str]:
    """Names of the classes of single maps, drawn or not, that devices do not
    compute.
    """
    others = (
        leaf.features
        for leaf in leaves(features)
        if not getattr(leaf.features, "on_devices", False)
    )
    return {type(one).__name__ for one in others}


def features_there(features: Any, X: Any, place: Device) -> Any:
    """What FourierFeatures make of rows on a device, which never leave it.

    Raises
    ------
    ValueError
        Where X is no table of the columns of the fit, or holds values that are not
        finite.
    """
    torch = place.torch
    d = features.n_features_in_
    name = type(features).__name__
    X = place.put(X)
    if X.ndim != 2 or X.shape[1] != d:
        raise ValueError(
            f"X has shape {tuple(X.shape)}, but {name} is expecting {d} features as "
            "input, a row each."
        )
    if X.dtype not in (torch.float32, torch.float64):
        X = X.double() if place.has_double else X.float()
    if not bool(X.isfinite().all()):
        raise ValueError(
            "Input X contains NaN or infinity. Impute, drop or clip such values."
        )
    features.kernel.check_rows(HostColumns(X))
    there = on_device(
        features, place, np.float64 if X.dtype == torch.float64 else np.float32
    )
    assert there is not None
    try:
        Z = there.of(X)
        Z *= place.put(there.amplitudes.astype(there.dtype))
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        n = X.shape[0]
        D = len(there.amplitudes)
        raise place.memory_error(
            n * D * there.dtype.itemsize,
            f"The array of {n:,} x {D:,} features",
            features.remedy,
        ) from error
    return Z


class HostColumns:
    """Rows on a device, of which columns that are asked for become arrays of NumPy."""

    def __init__(self, X: Any) -> None:
        self.X = X
        self.shape = X.shape

    def __getitem__(self, key: Any) -> NDArray:
        return to_host(self.X[key])


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

    def __init__(
        self, features: DeviceFeatures, Z: Any, centre: NDArray | None = None
    ) -> None:
        self.place = features.place
        self.dtype = features.dtype
        self.amplitudes = features.amplitudes
        self.n_rows = int(Z.shape[0])
        if centre is not None:
            Z -= self._put(
                np.divide(
                    centre,
                    self.amplitudes,
                    out=np.zeros(len(centre)),
                    where=self.amplitudes > 0,
                )
            )
        self.Z = Z

    def forward(self, V: NDArray) -> NDArray:
        return to_host(self._forward(V))

    def backward(self, T: NDArray, Q: NDArray) -> None:
        self._add(self.place.product(self._put(T), self.Z), Q)

    def squares(self, weight: NDArray, Q: NDArray) -> None:
        Q += to_host(
            self.place.product(self._put(weight), self.Z * self.Z)
        ) * np.square(self.amplitudes)

    def normal(self, V: NDArray, weight: NDArray, Q: NDArray) -> None:
        T = self._forward(V)
        if not are_unit(weight):
            T = T * self._put(weight)
        self._add(self.place.product(T, self.Z), Q)

    def _forward(self, V: NDArray) -> Any:
        return self.place.product(self._put(V * self.amplitudes), self.Z.T)

    def _add(self, product: Any, Q: NDArray) -> None:
        Q += to_host(product) * self.amplitudes

    def _put(self, array: NDArray) -> Any:
        return self.place.put(array.astype(self.dtype, copy=False))


SQUARED = "squared", "auto"


def current_device() -> Device | None:
    """The device of the settings; None for the processor."""
    return parse_device(current().device)


def device_for_fit(
    features: Any, solver: str, loss: str, dtype: np.dtype
) -> Device | None:
    """The device for a fit; None, with a warning that says why, for one that stays
    on the processor.
    """
    device = current_device()
    if device is None:
        return None
    others = not_on_devices(features)
    reasons = {
        f"{' and '.join(sorted(others))} are not Fourier features": bool(others),
        "weights of several maps are learned": features.learns_weights,
        "solver='exact' compares all rows": solver == "exact",
        f"loss={loss!r} is not the squared loss": loss not in SQUARED,
        "it has no double precision, which so small a fit, tol or alpha needs": dtype
        == np.float64
        and not device.has_double,
    }
    why = next((reason for reason, holds in reasons.items() if holds), None)
    if why is not None:
        warn(f"The fit runs on the CPU, and the device {device} is not used: {why}.")
        return None
    return device
