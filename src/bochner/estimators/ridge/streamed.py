"""Ridge regression on rows that are read anew in every pass, of which a sample in memory judges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bochner.data.sources import ArraySource
from bochner.design import Design
from bochner.estimators.ridge.iterative import solve_iteratively
from bochner.estimators.ridge.task import Fitted, RidgeTask, given_alphas
from bochner.solvers.iterative import IterativeRidge
from bochner.tuning.policy import POLICY


def solve_stream(design: Design, sample: ArraySource, task: RidgeTask) -> Fitted:
    """Solve for all rows by conjugate gradients, from the solution for a sample of them in memory, which judges.

    Of bins only those have a column that a row of the sample is in, so that their table does not grow with the rows.
    Dense features are solved for to the tolerance; bins half as many iterations again as served the sample, which is
    how they are regularised.

    Parameters
    ----------
    design : Design
        Of all rows.
    sample : ArraySource
    task : RidgeTask
    """
    seen = Design(sample, design.features, design.dtype)
    share = seen.source.total_weight / design.source.total_weight
    dense, alphas = design.features.is_dense, given_alphas(task.alpha)
    first = solve_iteratively(seen, task if alphas is None or not dense else replace(task, alpha=alphas * share))
    alpha = first.alpha / share if dense else first.alpha
    ridge = IterativeRidge(Design(design.source, first.features, design.dtype, design.advance, fixed=True), task.seed)
    scales = ridge.scales  # which have taken up the weights of maps that were learned
    n_iter = POLICY.most_iterations if dense else max(2, -(-(first.n_iter or 0) // 2))
    found = ridge.fit(np.full(len(scales), alpha), task.tol if dense else 0.0, n_iter, start=first.coef.T)
    solution = found.solution
    if dense:
        solution.warn(task.tol)
    coef = np.ascontiguousarray(solution.coef.T.astype(design.dtype))
    return replace(
        first,
        coef=coef,
        intercept=found.intercept,
        alpha=alpha,
        alphas=first.alphas / share if dense else first.alphas,
        n_iter=solution.n_iter,
        residual=solution.residual,
        stage=None,
    )
