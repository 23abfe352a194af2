"""Sparse features of a block of rows, held in memory for repeated products."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.engines.local import fold, for_rows, shards
from bochner.features.stored import SHARD_ROWS, Stored, require_length


class StoredSparse(Stored):
    """Features as sparse rows.

    Parameters
    ----------
    Z : csr_matrix of shape (n, D)
    """

    def __init__(self, Z: sp.csr_matrix) -> None:
        self.Z, self.n_rows = Z, Z.shape[0]

    def forward(self, V: NDArray) -> NDArray:
        require_length(V.T, self.Z.shape[1])
        T, columns = np.empty((len(V), self.n_rows), V.dtype), np.ascontiguousarray(V.T)

        def rows(start: int, stop: int) -> None:
            T[:, start:stop] = (self.Z[start:stop] @ columns).T

        for_rows(rows, self.n_rows)
        return T

    def backward(self, T: NDArray, Q: NDArray) -> None:
        def piece(part: tuple[int, int]) -> NDArray:
            own = slice(*part)
            return (self.Z[own].T @ np.ascontiguousarray(T[:, own].T)).T

        require_length(Q.T, self.Z.shape[1])
        Q += fold(piece, shards(self.n_rows, SHARD_ROWS))

    def squares(self, weight: NDArray, q: NDArray) -> None:
        q += self.Z.power(2).T @ weight
