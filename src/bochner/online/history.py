"""Scores over time of rows that were predicted before they were learned, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

MOST_ENTRIES = 512


@dataclass
class History:
    """Losses of consecutive rows, summed over spans that double where there are too many of them.

    Attributes
    ----------
    start : int
        Rows that had come before the first one here.
    span : int
        Rows of a full entry, at least.
    entries : array of shape (m, 3)
        Rows, their weight, and their weighted losses.
    """

    start: int
    span: int
    entries: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 3)))

    def add(self, loss: NDArray, weight: NDArray) -> None:
        """Add rows, by their losses and weights, both of shape (b,)."""
        new = np.array([[len(loss), weight.sum(), weight @ loss]])
        if len(self.entries) and self.entries[-1, 0] < self.span:
            self.entries[-1] += new[0]
            return
        if len(self.entries) == MOST_ENTRIES:
            self.entries = self.entries.reshape(MOST_ENTRIES // 2, 2, 3).sum(axis=1)
            self.span *= 2
        self.entries = np.vstack([self.entries, new])

    def scores(self) -> NDArray[np.float64]:
        """Rows that had come at the end of each entry, and 1 less the mean loss of its rows, shape (m, 2)."""
        rows, weight, loss = self.entries.T
        counted = weight > 0
        return np.column_stack([self.start + np.cumsum(rows), 1 - loss / np.where(counted, weight, 1)])[counted]

    def score(self) -> float:
        """1 less the mean loss of all rows; NaN without any."""
        _, weight, loss = self.entries.sum(axis=0)
        return float(1 - loss / weight) if weight > 0 else float("nan")
