"""Bins of single columns beside those of all columns, for losses of classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bochner.design.design import Design
from bochner.estimators.loss_problem import (
    LossProblem,
)
from bochner.features import (
    BinningFeatures,
    Metric,
    MetricFeatures,
)
from bochner.features.leaves import leaves, sizes_of
from bochner.features.metric import mean_distances
from bochner.kernels import Additive, Kernel, Laplacian
from bochner.selection.policy import POLICY
from bochner.solvers.sweeps import has_grids_alone

# Mean distances of coordinates by which grids of single columns separate levels
APART = 64.0


def beside_columns(
    problem: LossProblem, unit: float, column_groups: NDArray, seed: int
) -> LossProblem | None:
    """The problem with bins of single columns beside other bins; None where the
    features are others, or the columns too many.
    """
    ridge = problem.ridge
    if not has_grids_alone(ridge.blocks):
        return None
    part = additive_part(ridge.design, column_groups, seed)
    if part is None:
        return None
    design = ridge.design
    row_weight = design.source.total_weight / design.n_distinct
    weight = POLICY.additive_weight * unit / row_weight
    return replace(problem, ridge=ridge.beside(part, weight))


def additive_part(
    design: Design, column_groups: NDArray, seed: int
) -> MetricFeatures | None:
    """Bins of single columns, whose kernel of variance 1 is a sum over them; None for
    sparse rows and many columns.

    Columns are as the learned metric warps them. The levels of a nominal column have a
    cell each. Where bins have few grids, because there are many rows, those of single
    columns are as few.
    """
    X, _, weight = design.source.sample(
        POLICY.compared_rows, np.random.default_rng(seed)
    ).whole()
    if not isinstance(X, np.ndarray) or X.shape[1] > POLICY.wide:
        return None
    learned = next(
        (metric for leaf in leaves(design.features) for metric in leaf.metrics), None
    )
    metric = learned or Metric(X.shape[1], np.arange(X.shape[1]), np.ones(X.shape[1]))
    distances = mean_distances(
        metric.rescaled(np.ones(len(metric.source_))).coordinates(X), weight
    )
    varying_columns = np.flatnonzero(distances > 1 / np.finfo(np.float64).max)
    if not len(varying_columns):
        return None
    of_column = column_groups[metric.source_[varying_columns]]
    groups = [
        np.flatnonzero(of_column == group_number)
        for group_number in np.unique(of_column)
    ]
    factors = np.zeros(len(distances))
    factors[varying_columns] = 1 / distances[varying_columns]
    for group in groups:
        if len(set(metric.source_[varying_columns[group]])) > 1:
            factors[varying_columns[group]] *= APART
    grids = sizes_of(design.features)[0]
    lists = [group.tolist() for group in groups]
    scales = (
        POLICY.additive_scales[: max(grids // len(groups), 1)]
        if grids
        else POLICY.additive_scales
    )
    kernel: Kernel = Additive(Laplacian(scales[0]), lists)
    for scale in scales[1:]:
        kernel = kernel + Additive(Laplacian(scale), lists)
    n_grids = len(groups) * len(scales)
    bins = BinningFeatures(kernel * (1 / n_grids), n_grids, random_state=seed)
    return MetricFeatures(metric.rescaled(factors), bins).draw(X.shape[1])
