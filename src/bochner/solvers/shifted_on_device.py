"""The inverse of a large symmetric matrix plus any multiple of the identity, on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import NDArray

from bochner.devices.device import Device
from bochner.engines.algebra import with_least_shift
from bochner.solvers.shifted import ShiftedInverse

FEWEST, COPIES = 1024, 4  # columns that are worth the way; matrices that the device holds at a time


class DeviceInverse(ShiftedInverse):
    """By Cholesky factors in float64, one at a time, which stay on the device.

    Prefer it for large N where float64 is fast there.

    Parameters
    ----------
    place : Device
    matrix : array of shape (N, N)
        Of which the lower triangle is read.
    rounding : float
    """

    serves_paths = False

    def __init__(self, place: Device, matrix: NDArray, rounding: float) -> None:
        if not np.isfinite(matrix).all():
            raise LinAlgError("The matrix contains NaN or infinity.")
        self.place, self.rounding, self.trace = place, rounding, float(np.trace(matrix))
        self.matrix = place.put(matrix)
        self._alpha, self._lower = np.nan, self.matrix

    def _factor(self, alpha: float) -> Any:
        if alpha != self._alpha:
            self._lower = self.matrix  # lest the device hold two factors
            self._lower = with_least_shift(
                lambda shift: self.place.cholesky(self._shifted(shift)), alpha, self.rounding, self.trace
            )
            self._alpha = alpha
        return self._lower

    def _shifted(self, shift: float) -> Any:
        xp, n = self.place.xp, self.matrix.shape[0]
        same = xp.eye(n, dtype=xp.bool, device=self.place.device)
        return xp.where(same, self.matrix + shift, self.matrix)

    def _half(self, alpha: float, B: NDArray) -> Any:
        """The solution of L X = B' for rows B, of shape (N, m)."""
        right = self.place.put(np.ascontiguousarray(B.T, np.float64))
        return self.place.solve_triangular(self._factor(alpha), right)

    def solve(self, alphas: NDArray, B: NDArray) -> NDArray:
        whole = (
            self.place.solve_triangular(self._factor(alpha), self._half(alpha, B), transposed=True)
            for alpha in alphas.tolist()
        )
        return np.stack([self.place.host(X).T for X in whole])

    def forms(self, alphas: NDArray, U: NDArray) -> NDArray:
        halves = (self._half(alpha, U) for alpha in alphas.tolist())
        return np.stack([self.place.host(self.place.xp.sum(half * half, axis=0)) for half in halves])


def serves(place: Device | None, n_columns: int) -> bool:
    """Whether a device is to factorise a matrix of so many columns."""
    if place is None or n_columns < FEWEST or not place.has_fast_double:
        return False
    free = place.free_bytes()
    return free is None or COPIES * 8 * n_columns**2 <= free
