"""The plane in which rows of any number of columns are drawn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Plane(NamedTuple):
    """A plane among rows.

    Attributes
    ----------
    centre : array of shape (d,)
    directions : array of shape (2, d)
    """

    centre: NDArray[np.float64]
    directions: NDArray[np.float64]

    @classmethod
    def of(cls, rows: NDArray) -> Plane:
        """The columns themselves where they are two, or else the first two principal components, their signs fixed."""
        d = rows.shape[1]
        if d == 2:
            return cls(np.zeros(2), np.eye(2))
        if d == 1:
            return cls(np.zeros(1), np.array([[1.0], [0.0]]))
        apart = rows - rows.mean(axis=0)
        _, directions = np.linalg.eigh(apart.T @ apart)
        directions = directions[:, [-1, -2]].T
        largest = np.abs(directions).argmax(axis=1)
        return cls(rows.mean(axis=0), directions * np.sign(directions[np.arange(2), largest])[:, np.newaxis])

    def points(self, rows: NDArray) -> NDArray[np.float64]:
        """Rows in the plane, shape (n, 2)."""
        return (rows - self.centre) @ self.directions.T
