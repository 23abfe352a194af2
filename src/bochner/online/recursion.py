"""Recursive least squares with forgetting, in blocks of rows.

With a factor f a row that came j rows ago has the weight f^j, and the solution after n rows is

    min_w  sum_i f^(n - i) s_i (y_i - b - z_i'w)^2 + alpha ||w||^2.

A block of b rows, F = diag(f^(b - 1), ..., f, 1) times their weights, moves the matrix of its equations to

    A <- f^b A + Z'F Z + (1 - f^b) alpha I,

which begins as alpha I. The last term restores what forgetting takes of the ridge penalty, which else would be gone
after some multiples of 1 / (1 - f) rows, and directions in which no row lies would be left to rounding errors. So A is
S + alpha I at all times, with S <- f^b S + Z'F Z: it is enough to let sums of products decay, and to add the ridge
penalty when the equations are solved. No inverse is carried along, hence no error in it either.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bochner.design.moments import Moments
from bochner.solvers.factors import PrimalFactor


@dataclass
class RecursiveSums:
    """Decaying sums of products of the columns of [Z, Y, 1], as of `Moments`.

    Attributes
    ----------
    matrix : array of shape (D + K + 1, D + K + 1)
    n_outputs : int
        Columns K of Y.
    n_rows : int
        That have come, those forgotten included.
    """

    matrix: NDArray[np.float64]
    n_outputs: int
    n_rows: int = 0

    @classmethod
    def empty(cls, n_features: int, n_outputs: int) -> RecursiveSums:
        """Sums of no rows."""
        return cls(np.zeros((n_features + n_outputs + 1,) * 2), n_outputs)

    def workspace(self, rows: int) -> NDArray[np.float64]:
        """Return an empty array for a block, whose first columns are for the features."""
        return np.empty((rows, len(self.matrix)))

    def add(self, A: NDArray, y: NDArray, weight: NDArray, forgetting: float) -> None:
        """Forget a little of the rows so far, and add those of a block, the last of which is the newest.

        Parameters
        ----------
        A : array of shape (b, D + K + 1)
            Whose first columns hold Z; overwritten.
        y : array of shape (b, K)
        weight : array of shape (b,)
        forgetting : float
            Above 0, at most 1.
        """
        if forgetting < 1:
            np.multiply(self.matrix, forgetting ** len(y), out=self.matrix)
            weight = weight * forgetting ** np.arange(len(y) - 1, -1, -1.0)
        self._moments().add_block(A, y, weight)
        self.n_rows += len(y)

    def solve(self, alpha: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Coefficients, shape (D, K), and intercepts, shape (K,); zeros where all weight is forgotten."""
        if not self.matrix[-1, -1] > 0:
            return np.zeros((len(self.matrix) - self.n_outputs - 1, self.n_outputs)), np.zeros(self.n_outputs)
        return PrimalFactor(self._moments(), 1).solve(alpha)

    def _moments(self) -> Moments:
        """The sums as moments, which share their memory."""
        return Moments.holding(self.matrix, self.n_rows, self.n_outputs, np.float64)
