"""The columns that a metric is learned on: for each numeric column its value and its rank.

For the L1 distance a |z - z'| + b |r - r'| = |w(x) - w(x')| with the monotone w = a z + b r, so that the scales of the
two make a learned warp, and after learning they collapse into one column. z carries on beyond the range of the rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bochner.features.metric import Metric
from bochner.tuning.policy import POLICY

UNIFORM_UNIT = np.sqrt(12)  # ranks in [0, 1] times this have unit variance


class Basis:
    """Basis columns of encoded rows.

    Columns with two values become 0 and 1, columns that have no meaning one by one stay as they are, and constant ones
    are left out.

    Parameters
    ----------
    X : array of shape (n, d)
        Dense rows.
    column_groups : int array of shape (d,)
        Columns of one number have one scale.
    parts : {"both", "value"}
        What numeric columns become.
    rng : numpy.random.Generator

    Attributes
    ----------
    points : float32 array of shape (n, p)
    column_groups : int array of shape (p,)
        Columns of the basis with one number have one scale.
    start : array of shape (p,)
        Logarithms of scales to begin with.
    numeric : int array
        Columns of X with more than two values.
    n_pairs : int
        The first so many columns of the points are values, whose ranks follow.
    """

    def __init__(self, X: NDArray, column_groups: NDArray, parts: str, rng: np.random.Generator) -> None:
        low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
        grouped = np.bincount(column_groups)[column_groups] > 1
        between = ((low < X) & (high > X)).any(axis=0)
        self.n_features_in = X.shape[1]
        self.plain = np.flatnonzero((high > low) & (grouped | ~between))
        self.numeric = np.flatnonzero((high > low) & ~grouped & between)
        sample = X if len(X) <= POLICY.ranked_rows else X[rng.choice(len(X), POLICY.ranked_rows, replace=False)]
        self.ranks = [_rank_function(sample[:, j]) for j in self.numeric]
        # Shares of the range first: in any unit of a column its squares are then within range.
        origin, unit = np.where(grouped, 0.0, low), np.where(grouped, 1.0, high - low)
        values = (X[:, self.numeric] - origin[self.numeric]) / unit[self.numeric]
        mean, deviation = values.mean(axis=0), values.std(axis=0)
        self.mean = origin[self.numeric] + mean * unit[self.numeric]
        self.deviation = np.maximum(deviation * unit[self.numeric], np.finfo(float).tiny)
        self.unit = unit[self.plain]
        ranked = [np.interp(X[:, j], *rank) for j, rank in zip(self.numeric, self.ranks, strict=True)]
        R = np.stack(ranked, axis=1) if ranked else np.empty(values.shape)
        Z = (values - mean) / deviation
        P = (X[:, self.plain] - origin[self.plain]) / self.unit
        kept = [Z, R] if parts == "both" else [Z]
        self.parts, self.n_pairs = parts, len(self.numeric) if parts == "both" else 0
        self.points = np.concatenate([*kept, P], axis=1, dtype=np.float32)
        free = np.arange(len(self.numeric) * len(kept))
        _, tied = np.unique(column_groups[self.plain], return_inverse=True)
        self.column_groups = np.concatenate([free, len(free) + tied])
        width = max(len(self.numeric) + len(self.plain), 1)
        self.start = np.full(len(self.column_groups), -0.5 * np.log(width))
        self.start[: len(free)] -= np.log(len(kept))

    def coordinates(self, kernel: str, log_scales: NDArray) -> Metric:
        """Return the metric with these scales; for the L1 distance every numeric column is one warped coordinate."""
        s, q = np.exp(log_scales), len(self.numeric)
        own = s[len(s) - len(self.plain) :] / self.unit
        slopes = s[:q] / self.deviation
        factors = np.zeros(q) if self.parts == "value" else s[len(s) - len(own) - q : len(s) - len(own)]
        return self._collapsed(slopes, factors, own) if kernel == "laplacian" else self._apart(slopes, factors, own)

    def _collapsed(self, slopes: NDArray, factors: NDArray, own: NDArray) -> Metric:
        """Values and ranks as one coordinate for each numeric column: the sum of two distances that grow together."""
        source, q = np.concatenate([self.numeric, self.plain]), len(self.numeric)
        if not factors.any():
            return Metric(self.n_features_in, source, np.concatenate([slopes, own]))
        levels = [
            slope * (x - mean) + factor * r
            for (x, r), slope, mean, factor in zip(self.ranks, slopes, self.mean, factors, strict=True)
        ]
        warps = {"knots": _padded([x for x, _ in self.ranks]), "levels": _padded(levels), "slopes": slopes}
        return Metric(self.n_features_in, source, np.concatenate([np.ones(q), own]), warped=np.arange(q), **warps)

    def _apart(self, slopes: NDArray, factors: NDArray, own: NDArray) -> Metric:
        """Values and ranks as coordinates of their own, those that there are."""
        first, second = np.flatnonzero(slopes), np.flatnonzero(factors)
        source = np.concatenate([self.numeric[first], self.numeric[second], self.plain])
        scale = np.concatenate([slopes[first], np.ones(len(second)), own])
        levels = _padded([factors[i] * self.ranks[i][1] for i in second])
        warps = {
            "knots": _padded([self.ranks[i][0] for i in second]),
            "levels": levels,
            "slopes": 0.0 * factors[second],
        }
        return Metric(self.n_features_in, source, scale, warped=len(first) + np.arange(len(second)), **warps)


def _rank_function(x: NDArray) -> tuple[NDArray, NDArray]:
    """Knots and mid-ranks, of unit variance where uniform, of the values of a column; 256 at most."""
    values, counts = np.unique(x.astype(np.float64), return_counts=True)
    ranks = (np.cumsum(counts) - counts / 2) / counts.sum()
    if len(values) > POLICY.n_knots:
        space = np.linspace(ranks[0], ranks[-1], POLICY.n_knots)
        kept = np.unique(np.minimum(np.searchsorted(ranks, space), len(values) - 1))
        values, ranks = values[kept], ranks[kept]
    return values, UNIFORM_UNIT * ranks


def _padded(rows: list[NDArray]) -> NDArray:
    """Rows of one length, the last entry of shorter ones repeated."""
    width = max((len(row) for row in rows), default=0)
    return np.array([np.pad(row, (0, width - len(row)), mode="edge") for row in rows]).reshape(len(rows), width)
