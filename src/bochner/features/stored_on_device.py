"""Dense features of a block of rows, held on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.data.weights import are_unit
from bochner.features.on_device import DeviceFeatures
from bochner.features.stored import Stored


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
