"""The map on which the size of errors is learned: Fourier features of a metric of its own.

A column may move the noise and not the mean, so that the metric of the model ignores it. Of too few rows for a metric
there is one lengthscale for all columns.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bochner.data.sources import ArraySource
from bochner.features import FourierFeatures
from bochner.features.base import FeatureMap
from bochner.tuning.budget import Budget
from bochner.tuning.choose import choose
from bochner.tuning.kernel import choose_kernel
from bochner.tuning.policy import POLICY
from bochner.tuning.problem import SearchSpace, prepare


def scale_map(rows: ArraySource, column_groups: NDArray, seed: int, budget: Budget) -> FeatureMap:
    """Choose and draw the map.

    Parameters
    ----------
    rows : ArraySource
        Encoded rows with the roots of their errors, by a model that has not seen them, as targets.
    column_groups : int array of shape (d,)
        Columns of one number have one scale.
    seed : int
    budget : Budget
        Where little of it is left there is one lengthscale.
    """
    space = SearchSpace("fourier", "ard", n_components=POLICY.scale_features, fewest_rows=POLICY.fewest_scale_rows)
    problem, d = None, rows.X.shape[1]
    if d <= POLICY.most_learned_columns and budget.has(POLICY.patient_share):
        problem = prepare(rows.encoded(np.float32), column_groups, None, space, False, seed, budget)
    if problem is None:
        kernel = choose_kernel(rows, "gaussian", None, None, seed, quick=True)
        features: FeatureMap = FourierFeatures(kernel, POLICY.scale_features, random_state=seed)
    else:
        features = choose(problem).model.features
    features.draw(d)
    X, _, weight = rows.sample(features.sample_rows, np.random.default_rng(seed)).whole()
    features.fit_sample(X, weight)
    return features
