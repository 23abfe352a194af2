"""How much each column moves a learned distance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bochner.features.metric import Metric

PAIRS = 8192


def with_relevance(metric: Metric, X: NDArray, seed: int) -> Metric:
    """Return the metric with the share of each column in the mean L1 distance of two rows.

    Parameters
    ----------
    metric : Metric
    X : array of shape (n, d)
        Of which pairs are drawn.
    seed : int
    """
    rng = np.random.default_rng(seed)
    a, b = (X[rng.integers(len(X), size=min(PAIRS, 4 * len(X)))] for _ in range(2))
    moved = np.abs(metric._unmixed(a) - metric._unmixed(b)).mean(axis=0, dtype=np.float64)
    q = metric.linear_.shape[1]
    moved[:q] *= np.abs(metric.linear_).sum(axis=0)
    total = np.bincount(metric.source_, moved, metric.n_features_in_)
    return Metric(
        metric.n_features_in_,
        metric.source_,
        metric.scale_,
        warped=metric.warped_,
        knots=metric.knots_,
        levels=metric.levels_,
        slopes=metric.slopes_,
        linear=metric.linear_ if metric.linear_.size else None,
        relevance=total / (total.sum() or 1.0),
    )
