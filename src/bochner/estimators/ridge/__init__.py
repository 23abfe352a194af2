"""Ridge regression as estimators ask for it: one problem, one solution, a module for
each way to solve it.
"""

from __future__ import annotations

from numpy.typing import NDArray

from bochner.design.design import Design
from bochner.estimators.ridge.conjugate_gradients import (
    go_on,
    solve_from_sample,
    solve_iteratively,
)
from bochner.estimators.ridge.direct import solve_directly, solve_exactly
from bochner.estimators.ridge.ridge_problem import (
    Iterations,
    Needs,
    RidgeProblem,
    RidgeSolution,
    given_alphas,
)

__all__ = [
    "Iterations",
    "Needs",
    "RidgeProblem",
    "RidgeSolution",
    "given_alphas",
    "solve",
    "solve_directly",
    "solve_from_sample",
    "solve_others_in_passes",
]


def solve(solver: str, design: Design, problem: RidgeProblem) -> RidgeSolution:
    """Solve a ridge regression on rows in memory; solver is "direct", "cg" or
    "exact".
    """
    if solver == "direct":
        return solve_directly(design, problem)
    return (
        solve_iteratively(design, problem)
        if solver == "cg"
        else solve_exactly(design, problem)
    )


def solve_others_in_passes(
    solver: str, design: Design, problem: RidgeProblem, start: NDArray
) -> RidgeSolution:
    """Solve for the rows of a stream, with a fixed map and penalty, from the
    coefficients, (D, K), that were found for other rows.
    """
    if solver == "direct":
        return solve_directly(design, problem, design.moments())
    return go_on(design, problem, start)
