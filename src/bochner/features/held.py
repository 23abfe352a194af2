"""Features of a block of rows, held in memory for repeated products with Z and Z'.

Vectors are the rows of their arrays, V of shape (K, D) and T of shape (K, rows), so that each is contiguous.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

TILE_ROWS = 256


class HeldRows(NamedTuple):
    """Consecutive rows with their features; y of shape (n, K), weight of shape (n,) or None."""

    features: Held
    y: NDArray
    weight: NDArray | None


SMALLEST_BOUND = 1e-36  # of a column, whose 127th part has a finite inverse in single precision


class Held(ABC):
    """Features Z of n rows; all products are of the rows from `start` to `stop`, by one thread."""

    n_rows: int

    @abstractmethod
    def forward(self, V: NDArray, start: int, stop: int) -> NDArray:
        """V Z', of shape (K, stop - start)."""

    @abstractmethod
    def backward(self, T: NDArray, start: int, stop: int, Q: NDArray) -> None:
        """Add T Z to Q; T : array of shape (K, stop - start); Q : array of shape (K, D)."""

    @abstractmethod
    def squares(self, weight: NDArray, start: int, stop: int, q: NDArray) -> None:
        """Add the diagonal of Z'WZ to q, of shape (D,)."""

    def normal(self, V: NDArray, weight: NDArray | None, start: int, stop: int, Q: NDArray) -> None:
        """Add V Z'WZ to Q."""
        T = self.forward(V, start, stop)
        if weight is not None:
            T *= weight[start:stop]
        self.backward(T, start, stop, Q)


class HeldFloats(Held):
    """Dense features as they are.

    Parameters
    ----------
    Z : array of shape (n, D)
    """

    def __init__(self, Z: NDArray) -> None:
        self.Z, self.n_rows = Z, len(Z)

    def forward(self, V: NDArray, start: int, stop: int) -> NDArray:
        return V.astype(self.Z.dtype, copy=False) @ self.Z[start:stop].T

    def backward(self, T: NDArray, start: int, stop: int, Q: NDArray) -> None:
        Q += T @ self.Z[start:stop]

    def squares(self, weight: NDArray, start: int, stop: int, q: NDArray) -> None:
        q += np.einsum("i,ij,ij->j", weight[start:stop], self.Z[start:stop], self.Z[start:stop])


class HeldBytes(Held):
    """Dense features in 8 bits each, with a rounding error of at most bound / 254 (Zhang et al., 2019).

    A quarter of the memory of single precision, and a product with Z'Z reads every row once.

    Parameters
    ----------
    n_rows : int
    bounds : array of shape (D,)
        Largest size of the entries of each column.

    References
    ----------
    Zhang, May, Dao and Re, "Low-Precision Random Fourier Features for Memory-Constrained Kernel Approximation",
    AISTATS 2019 (there with random rounding; errors of this size do not need it).
    """

    def __init__(self, n_rows: int, bounds: NDArray) -> None:
        self.unit = np.maximum(bounds, SMALLEST_BOUND) / 127
        self.Z, self.n_rows = np.empty((n_rows, len(bounds)), np.int8), n_rows

    def put(self, start: int, Z: NDArray) -> None:
        """Round the features of consecutive rows, the first of which is row `start`."""
        from bochner.loops.bytes import quantise

        quantise(Z, (1 / self.unit).astype(Z.dtype), self.Z[start : start + len(Z)])

    def forward(self, V: NDArray, start: int, stop: int) -> NDArray:
        from bochner.loops.bytes import project

        T = np.empty((len(V), stop - start), np.float32)
        project(self.Z[start:stop], (V * self.unit).astype(np.float32), T)
        return T

    def backward(self, T: NDArray, start: int, stop: int, Q: NDArray) -> None:
        from bochner.loops.bytes import back_project

        sums = np.zeros(Q.shape, np.float32)
        back_project(self.Z[start:stop], np.ascontiguousarray(T, np.float32), sums)
        Q += sums * self.unit

    def squares(self, weight: NDArray, start: int, stop: int, q: NDArray) -> None:
        for a in range(start, stop, TILE_ROWS):
            b = min(a + TILE_ROWS, stop)
            Z = self.Z[a:b].astype(np.float32)
            q += np.einsum("i,ij,ij->j", weight[a:b].astype(np.float32), Z, Z) * self.unit**2

    def normal(self, V: NDArray, weight: NDArray | None, start: int, stop: int, Q: NDArray) -> None:
        from bochner.loops.bytes import normal

        sums = np.zeros(Q.shape, np.float32)
        weight = np.ones(stop - start, np.float32) if weight is None else weight[start:stop].astype(np.float32)
        normal(self.Z[start:stop], weight, (V * self.unit).astype(np.float32), sums)
        Q += sums * self.unit


class HeldBins(Held):
    """Bins of random grids, one entry a row and grid.

    Parameters
    ----------
    ids : int32 array of shape (P, n)
        Number of the row's bin in its grid, -1 for none.
    values : array of shape (P, n), or (P, 1) where all entries of a grid are equal
    offsets : int64 array of shape (P + 1,)
        First column of each grid; may be filled in later.
    """

    def __init__(self, ids: NDArray, values: NDArray, offsets: NDArray) -> None:
        self.ids, self.values, self.offsets, self.n_rows = ids, values, offsets, ids.shape[1]

    def forward(self, V: NDArray, start: int, stop: int) -> NDArray:
        from bochner.loops.bins import gather

        V = np.ascontiguousarray(V)
        self._check(V)
        T = np.zeros((len(V), stop - start), V.dtype)
        gather(self.ids, self.values.astype(V.dtype, copy=False), self.offsets, V, start, stop, T)
        return T

    def backward(self, T: NDArray, start: int, stop: int, Q: NDArray) -> None:
        from bochner.loops.bins import scatter

        self._check(Q)
        T = np.ascontiguousarray(T, Q.dtype)
        scatter(self.ids, self.values.astype(Q.dtype, copy=False), self.offsets, T, start, stop, Q)

    def squares(self, weight: NDArray, start: int, stop: int, q: NDArray) -> None:
        squared = HeldBins(self.ids, np.square(self.values), self.offsets)
        squared.backward(weight[np.newaxis, start:stop], start, stop, q[np.newaxis])

    def _check(self, vectors: NDArray) -> None:
        """The loops check no bounds."""
        if vectors.shape[1] != self.offsets[-1]:
            raise ValueError(f"There are {self.offsets[-1]} features, and vectors of length {vectors.shape[1]}.")


class HeldTogether(Held):
    """Features of several maps side by side.

    Parameters
    ----------
    parts : sequence of Held
    scales : array of shape (M,)
        Factor on the features of each.
    edges : int64 array of shape (M + 1,)
        First column of each, and the end of the last; may be filled in later.
    """

    def __init__(self, parts: Sequence[Held], scales: NDArray, edges: NDArray) -> None:
        self.parts, self.scales, self.edges, self.n_rows = parts, scales, edges, parts[0].n_rows

    def _columns(self, m: int) -> slice:
        return slice(self.edges[m], self.edges[m + 1])

    def forward(self, V: NDArray, start: int, stop: int) -> NDArray:
        T = np.zeros((len(V), stop - start), V.dtype)
        for m, part in enumerate(self.parts):
            own = np.multiply(V[:, self._columns(m)], self.scales[m], dtype=V.dtype)
            T += part.forward(own, start, stop)
        return T

    def backward(self, T: NDArray, start: int, stop: int, Q: NDArray) -> None:
        for m, part in enumerate(self.parts):
            own = np.zeros((len(Q), self.edges[m + 1] - self.edges[m]), Q.dtype)
            part.backward(T, start, stop, own)
            own *= self.scales[m]
            Q[:, self._columns(m)] += own

    def squares(self, weight: NDArray, start: int, stop: int, q: NDArray) -> None:
        for m, part in enumerate(self.parts):
            own = np.zeros(self.edges[m + 1] - self.edges[m], q.dtype)
            part.squares(weight, start, stop, own)
            q[self._columns(m)] += own * self.scales[m] ** 2
