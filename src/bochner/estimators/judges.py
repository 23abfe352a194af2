"""Some of the rows that are summed, kept to judge: the same ones in whatever parts and order the rows come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.data.array_source import ArraySource
from bochner.data.hashes import uniform
from bochner.sources.rows import concat

MOST = 4096


@dataclass
class Judges:
    """The distinct rows whose content has the smallest hashes, with their weight and mean target.

    A row that is among them at last has been so from its first copy on, so that sums over its copies are complete
    ("k minimum values": Beyer, Haas, Reinwald, Sismanis and Gemulla, 2007).

    Attributes
    ----------
    X : array of shape (m, d), or data, indices, row starts and shape of a CSR matrix
        Encoded.
    y : array of shape (m, K)
    weight : array of shape (m,)
    place : array of shape (m,)
        Hashes as numbers from 0 to 1, ascending.
    """

    X: Any
    y: NDArray[np.float64]
    weight: NDArray[np.float64]
    place: NDArray[np.float64]

    @classmethod
    def of(cls, source: ArraySource, seed: int) -> Judges:
        """Those among the rows of a source."""
        counted = source.take(np.flatnonzero(source.weights)) if source.n_counted < source.n_rows else source
        place = uniform(counted.row_hashes(), seed)
        some = np.flatnonzero(place <= np.partition(place, MOST - 1)[MOST - 1]) if len(place) > MOST else None
        if some is not None:
            counted, place = counted.take(some), place[some]
        return _least(*counted.whole(), place)

    def __add__(self, other: Judges) -> Judges:
        parts = [(one.y, one.weight, one.place) for one in (self, other)]
        return _least(concat([self.rows, other.rows]), *(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    @property
    def rows(self) -> Any:
        """Encoded rows, an array or a CSR matrix."""
        return sp.csr_array(self.X[:3], shape=tuple(self.X[3])) if isinstance(self.X, tuple) else self.X

    @property
    def source(self) -> ArraySource:
        """The rows as a source."""
        return ArraySource(self.rows, self.y, self.weight)


def _least(X: Any, y: NDArray, weight: NDArray, place: NDArray) -> Judges:
    """The rows of the smallest places, equal ones as one."""
    kept, first, group = np.unique(place, return_index=True, return_inverse=True)
    total = np.bincount(group, weight).astype(np.float64)
    mean = np.stack([np.bincount(group, weight * column) for column in y.T], axis=1) / total[:, np.newaxis]
    X = X[first[:MOST]]
    plain = (X.data, X.indices, X.indptr, X.shape) if sp.issparse(X) else np.ascontiguousarray(X)
    return Judges(plain, mean[:MOST], total[:MOST], kept[:MOST])
