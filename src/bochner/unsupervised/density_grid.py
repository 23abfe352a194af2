"""Sums of Gaussian kernels on a grid: linear binning, a Gaussian filter, linear interpolation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product as choices

import numpy as np
from numpy.typing import NDArray

MOST_POINTS = 1 << 24
STEPS = 4.0, 3.0, 2.0  # grid points in a bandwidth: the first that the grid's size allows
REACH = 8  # bandwidths from a row beyond which its kernel is zero


@dataclass(frozen=True)
class DensityGrid:
    """Rows shared among the points of a grid.

    With steps s, sharing a row among the corners of its cell and reading a straight line between points both convolve
    with a hat, whose variance is s^2 / 6; between them the grid is convolved with a Gaussian of variance h^2 - s^2 / 3.
    The whole has the variance h^2, integrates to one, and has the Gaussian's fourth moment up to O(s^4).

    Attributes
    ----------
    low : array of shape (d,)
        The first point.
    step, bandwidth : arrays of shape (d,)
    shape : array of shape (d,), int64
    points : array of shape (m,), int64
        Numbers of the points that have rows.
    weights : array of shape (m,)
        Share of all rows at each.
    n_rows : float
        Sum of the rows' weights.
    """

    low: NDArray[np.float64]
    step: NDArray[np.float64]
    bandwidth: NDArray[np.float64]
    shape: NDArray[np.int64]
    points: NDArray[np.int64]
    weights: NDArray[np.float64]
    n_rows: float

    def filled(self, blocks: Iterable[tuple[NDArray, NDArray]]) -> DensityGrid:
        """The grid with rows, blocks of which are (X, weight)."""
        total, n_rows = np.zeros(int(np.prod(self.shape))), 0.0
        for X, weight in blocks:
            place = np.clip((X - self.low) / self.step, 0, self.shape - 1.000001)
            first = np.floor(place).astype(np.int64)
            rest = place - first
            for corner in choices((0, 1), repeat=len(self.shape)):
                share = np.prod(np.where(corner, rest, 1 - rest), axis=1)
                number = np.ravel_multi_index(tuple((first + corner).T), tuple(self.shape))
                total += np.bincount(number, share * weight, len(total))
            n_rows += float(weight.sum())
        points = np.flatnonzero(total)
        return replace(self, points=points, weights=total[points] / n_rows, n_rows=n_rows)

    def rows_between(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Least and greatest point of the grid that has rows, along each column."""
        place = np.array(np.unravel_index(self.points, tuple(self.shape)))
        return self.low + self.step * place.min(axis=1), self.low + self.step * place.max(axis=1)

    @property
    def spread(self) -> NDArray[np.float64]:
        """Standard deviation of the Gaussian on the grid, in the unit of each column."""
        return np.sqrt(self.bandwidth**2 - self.step**2 / 3)

    def table(self) -> NDArray[np.float64]:
        """Densities at all points, of the grid's shape."""
        from scipy.ndimage import gaussian_filter1d

        found = np.zeros(int(np.prod(self.shape)))
        found[self.points] = self.weights / np.prod(self.step)
        found = found.reshape(self.shape)
        for axis, sigma in enumerate(self.spread / self.step):
            found = gaussian_filter1d(found, sigma, axis, mode="constant", truncate=REACH)
        return found

    @property
    def floor(self) -> float:
        """Least logarithm of a density: of one row as far as a kernel reaches."""
        constant = len(self.shape) * np.log(2 * np.pi) / 2 + np.log(self.bandwidth).sum()
        return float(-np.log(self.n_rows) - constant - REACH**2 / 2)

    def log_density(self, X: NDArray, table: NDArray) -> NDArray[np.float64]:
        """Logarithms of the densities at rows, shape (n,), by the grid's `table`."""
        from scipy.ndimage import map_coordinates

        with np.errstate(over="ignore"):
            place = np.clip((X - self.low) / self.step, -1, self.shape)
        density = map_coordinates(table, place.T, order=1, mode="constant")
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(density), self.floor)

    def draw(self, n_samples: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Rows drawn from the density, shape (n_samples, d)."""
        points = self.points[rng.choice(len(self.points), n_samples, p=self.weights / self.weights.sum())]
        place = np.column_stack(np.unravel_index(points, tuple(self.shape)))
        hat = rng.triangular(-1, 0, 1, place.shape)
        return self.low + self.step * (place + hat) + self.spread * rng.standard_normal(place.shape)


def grid_of(low: NDArray, high: NDArray, bandwidth: NDArray, most: int = MOST_POINTS) -> DensityGrid:
    """An empty grid for rows between `low` and `high`, which reaches as far as their kernels.

    Raises
    ------
    ValueError
        Where it would have too many points.
    """
    for steps in STEPS:
        step, margin = bandwidth / steps, REACH * steps + 1
        sizes = (high - low) / step + 2 * margin + 2
        if np.prod(sizes) <= most:
            shape, none = sizes.astype(np.int64), np.empty(0)
            return DensityGrid(low - margin * step, step, bandwidth, shape, none.astype(np.int64), none, 0.0)
    raise ValueError(
        f"The bandwidth, {bandwidth.tolist()}, is small against the range of the rows, {(high - low).tolist()}: its "
        f"grid would have {np.prod(sizes):.1e} points and may have {most:,}. Use a larger bandwidth, clip far rows, "
        "or use fewer columns."
    )
