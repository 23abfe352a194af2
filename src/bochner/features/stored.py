"""Features of a block of rows, held in memory for repeated products with Z and Z'.

Vectors are the rows of their arrays, V of shape (K, D) and T of shape (K, rows), so
that each is contiguous.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.blocks import TILE_ROWS
from bochner.data.weights import are_unit
from bochner.engines.algebra import product
from bochner.engines.local import fold, for_rows, in_threads, shards, tiles

SMALL_TILE_ROWS = 256
LITTLE = 1 << 18  # entries of bins, which are read before another thread has begun
GRIDS = 4  # that the loops add to at a time
MOST_TASKS = 16  # of a product, so that threads end at about the same time


class StoredRows(NamedTuple):
    """Consecutive rows with their features; y of shape (n, K), weight of shape (n,)."""

    features: Stored
    y: NDArray
    weight: NDArray


# Of a column, whose 127th part has a finite inverse in single precision
SMALLEST_BOUND = 1e-36


class Stored(ABC):
    """Features Z of n rows; every product runs on all threads."""

    n_rows: int
    width = LITTLE  # entries of a row, or more
    # Whether `normal` reads the features once, where `forward` and `backward` would
    # twice
    fused = False

    @abstractmethod
    def forward(self, V: NDArray) -> NDArray:
        """V Z', of shape (K, n)."""

    @abstractmethod
    def backward(self, T: NDArray, Q: NDArray) -> None:
        """Add T Z to Q; T : array of shape (K, n); Q : array of shape (K, D)."""

    @abstractmethod
    def squares(self, weight: NDArray, Q: NDArray) -> None:
        """Add the diagonals of Z'WZ to Q, shape (K, D), for weights of shape (K, n)."""

    def each(self) -> Iterator[tuple[Any, slice, float]]:
        """The features of each map, with their columns and the factor on them."""
        yield self, slice(0, None), 1.0

    def squares_of(self, maps: Sequence[bool], weight: NDArray, Q: NDArray) -> None:
        """Add what `squares` adds for some of the maps."""
        for (part, columns, scale), is_wanted in zip(self.each(), maps, strict=True):
            if is_wanted:
                part.squares(scale**2 * weight, Q[:, columns])

    def normal(self, V: NDArray, weight: NDArray, Q: NDArray) -> None:
        """Add V Z'WZ to Q."""
        T = self.forward(V)
        if not are_unit(weight):
            T *= weight
        self.backward(T, Q)


class StoredFloats(Stored):
    """Dense features as they are.

    Parameters
    ----------
    Z : array of shape (n, D)
    """

    def __init__(self, Z: NDArray) -> None:
        self.Z = Z
        self.n_rows, self.width = Z.shape

    def forward(self, V: NDArray) -> NDArray:
        return product(V.astype(self.Z.dtype, copy=False), self.Z.T)

    def backward(self, T: NDArray, Q: NDArray) -> None:
        T = T.astype(self.Z.dtype, copy=False)
        Q += fold(
            lambda part: T[:, slice(*part)] @ self.Z[slice(*part)],
            shards(self.n_rows, TILE_ROWS),
        )

    def squares(self, weight: NDArray, Q: NDArray) -> None:
        for rows in tiles(0, self.n_rows, SMALL_TILE_ROWS):
            Q += weight[:, rows] @ np.square(self.Z[rows])


class StoredBytes(Stored):
    """Dense features in 8 bits each, with a rounding error of at most bound / 254
    (Zhang et al., 2019).

    A quarter of the memory of single precision, and a product with Z'Z reads every row
    once.

    Parameters
    ----------
    n_rows : int
    bounds : array of shape (D,)
        Largest size of the entries of each column, about its centre.
    centre : array of shape (D,)
        What is taken from each column.

    References
    ----------
    Zhang, May, Dao and Re, "Low-Precision Random Fourier Features for
    Memory-Constrained Kernel Approximation", AISTATS 2019 (there with random rounding;
    errors of this size do not need it).
    """

    fused = True

    def __init__(self, n_rows: int, bounds: NDArray, centre: NDArray) -> None:
        self.centre = centre
        self.unit = np.maximum(bounds, SMALLEST_BOUND) / 127
        self.Z = np.empty((n_rows, len(bounds)), np.int8)
        self.n_rows = n_rows

    def put(self, start: int, Z: NDArray) -> None:
        """Round the features of consecutive rows, the first of which is row `start`,
        less the centre.
        """
        from bochner.loops.bytes import quantise

        centre = self.centre.astype(Z.dtype)
        scale = (1 / self.unit).astype(Z.dtype)
        quantise(Z, centre, scale, self.Z[start : start + len(Z)])

    def forward(self, V: NDArray) -> NDArray:
        from bochner.loops.bytes import project

        T = np.empty((len(V), self.n_rows), np.float32)
        V = (V * self.unit).astype(np.float32)
        for_rows(lambda i, j: project(self.Z[i:j], V, T[:, i:j]), self.n_rows)
        return T

    def backward(self, T: NDArray, Q: NDArray) -> None:
        from bochner.loops.bytes import back_project

        T = T.astype(np.float32, copy=False)
        self._sum(lambda i, j, sums: back_project(self.Z[i:j], T[:, i:j], sums), Q)

    def squares(self, weight: NDArray, Q: NDArray) -> None:
        weight = weight.astype(np.float32, copy=False)
        for rows in tiles(0, self.n_rows, SMALL_TILE_ROWS):
            Z = self.Z[rows].astype(np.float32)
            Q += weight[:, rows] @ np.square(Z) * self.unit**2

    def normal(self, V: NDArray, weight: NDArray, Q: NDArray) -> None:
        from bochner.loops.bytes import normal, normal_of_two

        V = (V * self.unit).astype(np.float32)
        weight = weight.astype(np.float32)

        def work(start: int, stop: int, sums: NDArray) -> None:
            for rows in tiles(start, stop, SMALL_TILE_ROWS):
                for k in range(0, len(V) - 1, 2):
                    normal_of_two(
                        self.Z[rows], weight[rows], V[k : k + 2], sums[k : k + 2]
                    )
                if len(V) % 2:
                    normal(self.Z[rows], weight[rows], V[-1], sums[-1])

        self._sum(work, Q)

    def _sum(self, work: Callable[[int, int, NDArray], None], Q: NDArray) -> None:
        """Add to Q what `work` sums over shares of the rows, in units of the
        columns.
        """

        def piece(share: tuple[int, int]) -> NDArray:
            sums = np.zeros(Q.shape, np.float32)
            work(*share, sums)
            return sums

        Q += fold(piece, shards(self.n_rows, TILE_ROWS)) * self.unit


class StoredBins(Stored):
    """Bins of random grids, one entry a row and grid.

    Parameters
    ----------
    ids : int32 array of shape (P, n)
        Number of the row's bin in its grid, -1 for none.
    values : array of shape (P, n), or (P, 1) where all entries of a grid are equal
    offsets : int64 array of shape (P + 1,)
        First column of each grid; may be filled in later.
    order : int array of shape (n,), optional
        Number of the row that each column of `ids` and `values` is of; by default its
        own.
    """

    def __init__(
        self,
        ids: NDArray,
        values: NDArray,
        offsets: NDArray,
        order: NDArray[np.intp] | None = None,
    ) -> None:
        self.ids = ids
        self.values = values
        self.offsets = offsets
        self.n_rows = ids.shape[1]
        self.order = order
        self.width = len(ids)

    def forward(self, V: NDArray) -> NDArray:
        from bochner.loops.bins import gather, gather_weighted

        V = np.ascontiguousarray(V)
        self._check(V)
        T = np.zeros((len(V), self.n_rows), V.dtype)
        values = self._values(V.dtype)
        loop = gather if values.ndim == 1 else gather_weighted

        def add(start: int, stop: int) -> None:
            loop(self.ids, values, self.offsets, V, start, stop, T)

        if self._is_little(len(V)):
            add(0, self.n_rows)
        else:
            for_rows(add, self.n_rows)
        if self.order is None:
            return T
        rows = np.empty_like(T)
        for row, stored_row in zip(rows, T, strict=True):
            row[self.order] = stored_row
        return rows

    def backward(self, T: NDArray, Q: NDArray) -> None:
        from bochner.loops.bins import scatter, scatter_weighted

        self._check(Q)
        T = T if self.order is None else np.stack([row.take(self.order) for row in T])
        T = np.ascontiguousarray(T, Q.dtype)
        values = self._values(Q.dtype)
        loop = scatter if values.ndim == 1 else scatter_weighted
        sums = Q if Q.flags.c_contiguous else np.zeros(Q.shape, Q.dtype)
        P = len(self.ids)
        # Some of the grids at a time, whose columns are their own
        step = GRIDS * max(-(-P // (GRIDS * MOST_TASKS)), 1)
        if self._is_little(len(T)):
            step = P

        def add(first: int) -> None:
            stop = min(first + step, P)
            part = values[first : -(-stop // GRIDS) * GRIDS]
            loop(self.ids[first:stop], part, self.offsets[first:stop], T, sums)

        in_threads(add, range(0, P, step))
        if sums is not Q:
            Q += sums

    def squares(self, weight: NDArray, Q: NDArray) -> None:
        squared = np.square(self.values)
        StoredBins(self.ids, squared, self.offsets, self.order).backward(weight, Q)

    def to_csr(self, dtype: np.dtype) -> sp.csr_matrix:
        """The features as sparse rows, whose entries are in the order of the grids."""
        has_bin = self.ids.T >= 0
        D = int(self.offsets[-1])
        wide = max(D, has_bin.size) >= 2**31
        columns = (
            self.ids.T + self.offsets[:-1].astype(np.int64 if wide else np.int32)
        )[has_bin]
        values = np.broadcast_to(self.values.T.astype(dtype), has_bin.shape)[has_bin]
        starts = np.concatenate([[0], np.cumsum(has_bin.sum(axis=1))])
        Z = sp.csr_matrix((values, columns, starts), shape=(self.n_rows, D))
        return Z if self.order is None else Z[np.argsort(self.order)]

    def _values(self, dtype: np.dtype) -> NDArray:
        """The values as the loops take them: of shape (P, n), or one for each grid,
        and zeros up to a multiple of 4.
        """
        if self.values.shape[1] > 1:
            return self.values.astype(dtype, copy=False)
        P = len(self.values)
        values = np.zeros(-(-P // GRIDS) * GRIDS, dtype)
        values[:P] = self.values[:, 0]
        if P % 2:  # it is added twice
            values[P - 1 : P + 1] = values[P - 1] / 2
        return values

    def _is_little(self, n_vectors: int) -> bool:
        """Whether a product with `n_vectors` vectors is done before another thread has
        begun.
        """
        return self.ids.size * n_vectors < LITTLE

    def _check(self, vectors: NDArray) -> None:
        require_length(vectors.T, int(self.offsets[-1]))


def require_length(vectors: NDArray, n_features: int) -> None:
    """Raise ValueError where the columns of an array are not one number for each
    feature; the loops check no bounds.
    """
    if len(vectors) != n_features:
        raise ValueError(
            f"There are {n_features} features, and vectors of length {len(vectors)}."
        )


class StoredTogether(Stored):
    """Features of several maps side by side.

    Parameters
    ----------
    parts : sequence of Stored
    scales : array of shape (M,)
        Factor on the features of each.
    edges : int64 array of shape (M + 1,)
        First column of each, and the end of the last; may be filled in later.
    """

    def __init__(
        self, parts: Sequence[Stored], scales: NDArray, edges: NDArray
    ) -> None:
        self.parts = parts
        self.scales = scales
        self.edges = edges
        self.n_rows = parts[0].n_rows
        self.width = sum(part.width for part in parts)

    def each(self) -> Iterator[tuple[Any, slice, float]]:
        columns = map(slice, self.edges, self.edges[1:])
        return zip(self.parts, columns, self.scales.tolist(), strict=True)

    def forward(self, V: NDArray) -> NDArray:
        T = np.zeros((len(V), self.n_rows), V.dtype)
        for part, columns, scale in self.each():
            T += scale * part.forward(V[:, columns])
        return T

    def backward(self, T: NDArray, Q: NDArray) -> None:
        for part, columns, scale in self.each():
            part.backward(scale * T, Q[:, columns])

    def squares(self, weight: NDArray, Q: NDArray) -> None:
        self.squares_of([True] * len(self.parts), weight, Q)


class StoredSparse(Stored):
    """Features as sparse rows.

    Parameters
    ----------
    Z : csr_matrix of shape (n, D)
    """

    def __init__(self, Z: sp.csr_matrix) -> None:
        self.n_rows, self.n_features = Z.shape
        self.shares = shards(self.n_rows, TILE_ROWS)
        self.parts = [Z[slice(*share)] for share in self.shares]

    def forward(self, V: NDArray) -> NDArray:
        require_length(V.T, self.n_features)
        columns = np.ascontiguousarray(V.T)
        products = in_threads(lambda part: (part @ columns).T, self.parts)
        return np.hstack(products).astype(V.dtype, copy=False)

    def backward(self, T: NDArray, Q: NDArray) -> None:
        require_length(Q.T, self.n_features)

        def back(k: int) -> NDArray:
            columns = np.ascontiguousarray(T[:, slice(*self.shares[k])].T)
            return (self.parts[k].T @ columns).T

        Q += fold(back, range(len(self.parts)))

    def squares(self, weight: NDArray, Q: NDArray) -> None:
        for part, share in zip(self.parts, self.shares, strict=True):
            Q += (part.power(2).T @ weight[:, slice(*share)].T).T
