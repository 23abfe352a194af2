"""Checks of the numbers that bounds and sizes are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from bochner.arrays import Floats
from bochner.blocks import BLOCK_ROWS
from bochner.kernels import Kernel
from bochner.kernels.base import check_count, check_positive


def check_components(n_components: Any, paired: bool) -> None:
    """Raise TypeError or ValueError unless `n_components` is a number of columns,
    even where they are paired.
    """
    check_count(n_components, "n_components")
    if paired and n_components % 2:
        raise ValueError(
            "n_components must be even where cosines and sines are paired, got "
            f"{n_components}: use {n_components + 1}, or paired=False."
        )


def relative(eps: Any, kernel: Kernel) -> float:
    """The error in units of k(x, x)."""
    check_positive(eps, "eps")
    return float(eps) / kernel.variance


def log_probability(delta: Any) -> float:
    """Logarithm of a probability; ValueError where `delta` is none."""
    if not isinstance(delta, Real) or not 0 < float(delta) < 1:
        raise ValueError(f"delta must be a probability between 0 and 1, got {delta!r}.")
    return float(np.log(float(delta)))


EXACT_ROWS = 2000  # up to which all pairs of rows are compared


@dataclass(frozen=True)
class Region:
    """The set M of rows that a bound is about.

    Attributes
    ----------
    n_features : int
    rows : array of shape (n, d), or None where only a diameter is known
    known : float or None
        The diameter where there are no rows.
    """

    n_features: int
    rows: NDArray | None
    known: float | None = None

    def box(self) -> tuple[NDArray, NDArray]:
        """Least and largest value of each column, shape (d,)."""
        rows: Any = self.rows
        low, high = rows.min(axis=0), rows.max(axis=0)
        return low.astype(np.float64), high.astype(np.float64)

    def ranges(self) -> Floats:
        """Range of each column, shape (d,)."""
        if self.rows is None:
            return np.full(self.n_features, self.known)
        low, high = self.box()
        return high - low

    def diameter(self, units: NDArray) -> float:
        """Largest distance of two rows whose columns are multiplied by `units`, shape
        (d,).

        Exact up to 2,000 rows; else at most twice it, the lesser of the diagonal of the
        box around the rows and of twice the largest distance from its centre.
        """
        if self.rows is None:
            return float(self.known * np.max(units))
        low, high = self.box()
        # Taken out, so that squares stay finite
        size = float(np.max((high - low) * units))
        if size == 0:
            return 0.0
        centre = low + (high - low) / 2
        scale = units / size
        if len(self.rows) <= EXACT_ROWS:
            U = (self.rows - centre) * scale
            squares = np.einsum("ij,ij->i", U, U)
            apart = np.add.outer(squares, squares) - 2 * (U @ U.T)
            return size * float(np.sqrt(apart.max()))
        radius = 0.0
        for a in range(0, len(self.rows), BLOCK_ROWS):
            U = (self.rows[a : a + BLOCK_ROWS] - centre) * scale
            radius = max(radius, float(np.linalg.norm(U, axis=1).max()))
        return size * min(float(np.linalg.norm((high - low) * scale)), 2 * radius)


def region_of(
    X: ArrayLike | None, diameter: float | None, n_features: int | None
) -> Region:
    """Rows, or a diameter and a number of columns, checked."""
    if X is None:
        if diameter is None or n_features is None:
            raise TypeError("Give the rows X, or else both diameter and n_features.")
        check_count(n_features, "n_features")
        if not isinstance(diameter, Real) or not 0 <= float(diameter) < np.inf:
            raise ValueError(
                f"diameter must be a finite number from 0 on, got {diameter!r}."
            )
        return Region(int(n_features), None, float(diameter))
    if diameter is not None or n_features is not None:
        raise TypeError(
            "X determines diameter and n_features: give either X or these two."
        )
    rows = dense_rows(X)
    return Region(rows.shape[1], rows)


def dense_rows(X: Any) -> NDArray:
    """Rows as a finite array of shape (n, d), float32 or float64."""
    if sp.issparse(X):
        raise TypeError(
            "X is sparse; the extent of rows needs a dense array: pass X.toarray(), "
            "or a diameter."
        )
    rows = np.asarray(X)
    if rows.dtype != np.float32:
        rows = np.asarray(rows, dtype=np.float64)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(
            f"X must have rows and columns, got shape {rows.shape}. A single row is "
            "[[...]]."
        )
    if not np.isfinite(rows).all():
        raise ValueError(
            "X has values that are missing or infinite: drop those rows, or impute "
            "the values."
        )
    return rows
