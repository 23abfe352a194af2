"""Hashes of the content of rows: equal rows have equal ones, wherever and in whatever order they come."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

TILE_ROWS = 1 << 12


def row_hashes(X: NDArray | sp.csr_array) -> NDArray[np.uint64]:
    """Numbers of 64 bits that are equal for equal rows and hardly ever for others, dense or sparse; shape (n,)."""
    multipliers = np.random.default_rng(0).integers(1, 2**63, X.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    if isinstance(X, sp.csr_array | sp.csr_matrix):
        return mixed(sp.csr_array((_bits(X.data), X.indices, X.indptr), shape=X.shape) @ multipliers)
    sums = [(_bits(X[a : a + TILE_ROWS]) * multipliers).sum(axis=1) for a in range(0, len(X), TILE_ROWS)]
    return mixed(np.concatenate(sums or [np.empty(0, np.uint64)]))


def uniform(hashes: NDArray[np.uint64], seed: int) -> NDArray[np.float64]:
    """Numbers from 0 to 1 that the hashes and a seed decide, as good as random; shape (n,)."""
    salt = np.random.default_rng(seed).integers(2**63, dtype=np.uint64)
    return (mixed(hashes ^ salt) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _bits(values: NDArray) -> NDArray[np.uint64]:
    """Values as whole numbers, zero for zeros of either sign."""
    values = np.ascontiguousarray(values + values.dtype.type(0))
    bits = values.view(f"u{values.dtype.itemsize}").astype(np.uint64)
    return bits ^ (bits >> np.uint64(32))  # small whole numbers in double precision have zeros in their lower half


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers whose every bit depends on all bits of those given: the finaliser of SplitMix64 (Steele et al., 2014)."""
    x = numbers ^ (numbers >> np.uint64(30))
    x = x * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
