"""Ridge regression on rows in memory, by the solver that is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bochner.design.design import Design
from bochner.estimators.ridge.conjugate_gradients import solve_iteratively
from bochner.estimators.ridge.direct import solve_directly
from bochner.estimators.ridge.exact import solve_exactly
from bochner.estimators.ridge.ridge_problem import (
    Iterations,
    Needs,
    RidgeProblem,
    RidgeSolution,
)
from bochner.features.leaves import sizes_of
from bochner.selection.policy import POLICY

SOLVERS = {
    "direct": solve_directly,
    "cg": solve_iteratively,
    "exact": solve_exactly,
}


class PartSolution(NamedTuple):
    """The ridge solution of the rows that losses are compared on.

    Attributes
    ----------
    design : Design
        Of these rows, seen through the map of the solution of all.
    solution : RidgeSolution
    task : RidgeProblem
        What it solves.
    share : float
        Of its ridge penalty in that of all rows, which is the share of the weight for
        dense features.
    """

    design: Design
    solution: RidgeSolution
    task: RidgeProblem
    share: float


def solved_on_part(
    design: Design, fitted: RidgeSolution, task: RidgeProblem, n_iter: int | None
) -> PartSolution:
    """Solve again on as many rows in memory as losses are compared on, with the map
    and the ridge penalty of a solution.

    Parameters
    ----------
    fitted : RidgeSolution
        Of all rows, perhaps of more than are in memory.
    n_iter : int or None
        Iterations for bins, those of all rows among them; None where a factor or a
        tolerance served.
    """
    (P, D), source = sizes_of(fitted.features), design.source
    cost_of_row = source.n_outputs * max(P + POLICY.dense_work * D, 1.0)
    most = int(min(POLICY.raced_rows, POLICY.most_compared / cost_of_row))
    rows = np.flatnonzero(source.weights)
    if len(rows) > most:
        rows = np.sort(
            np.random.default_rng(task.seed).choice(rows, most, replace=False)
        )
    part = design.of(source.take(rows), fitted.features, True)
    share = 1.0
    stopping = None
    if fitted.features.is_dense:
        weight = fitted.weight or source.total_weight
        share = part.source.total_weight / weight
    elif n_iter is not None:
        stopping = Iterations(n_iter, True)
    task = replace(
        task,
        alpha=share * fitted.alpha,
        held_out=None if task.held_out is None else task.held_out[rows],
        stopping=stopping,
        needs=Needs(True, evaluated=task.needs.evaluated),
    )
    is_direct = fitted.n_iter is None and len(fitted.coef) > 0
    solution = SOLVERS["direct" if is_direct else "cg"](part, task)
    return PartSolution(part, solution, task, share)
