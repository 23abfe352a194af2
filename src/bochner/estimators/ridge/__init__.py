"""Ridge regression as estimators ask for it: one problem, one solution, a module for
each way to solve it.
"""

from __future__ import annotations

from numpy.typing import NDArray

from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.design.moments import Moments
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
]


def solve(
    solver: str,
    design: Design,
    problem: RidgeProblem,
    *,
    moments: Moments | None = None,
    sample: ArraySource | None = None,
    start: NDArray | None = None,
) -> RidgeSolution:
    """Solve a ridge regression.

    Parameters
    ----------
    solver : {"direct", "cg", "exact"}
    design : Design
        In memory; or a stream, with `sample` or `start`.
    problem : RidgeProblem
    moments : Moments, optional
        Of all rows, for a direct solution, where those of the design are some of them,
        which are scored.
    sample : ArraySource, optional
        Rows in memory that decide what is open, for conjugate gradients on a stream.
    start : array of shape (D, K), optional
        What was found for other rows with the same fixed map and penalty, where the
        design is a stream.
    """
    if sample is not None:
        return solve_from_sample(design, problem, sample)
    if start is None:
        if solver == "direct":
            return solve_directly(design, problem, moments, overwrite=moments is None)
        return (
            solve_iteratively(design, problem)
            if solver == "cg"
            else solve_exactly(design, problem)
        )
    if solver == "direct":
        return solve_directly(design, problem, design.moments())
    return go_on(design, problem, start)
