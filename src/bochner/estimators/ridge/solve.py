"""Ridge regression on rows in memory, by the solver that is asked for."""

from __future__ import annotations

from bochner.design.design import Design
from bochner.estimators.ridge.conjugate_gradients import solve_iteratively
from bochner.estimators.ridge.direct import solve_directly, solve_exactly
from bochner.estimators.ridge.ridge_problem import RidgeProblem, RidgeSolution

SOLVERS = {
    "direct": solve_directly,
    "cg": solve_iteratively,
    "exact": solve_exactly,
}


def solve(solver: str, design: Design, problem: RidgeProblem) -> RidgeSolution:
    """Solve a ridge regression; solver is "direct", "cg" or "exact"."""
    return SOLVERS[solver](design, problem)
