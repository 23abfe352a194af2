"""Losses of classes together on a few features, by the limited-memory BFGS method.

A step of Newton's method is one of all classes, and a row far beyond the others cuts it
where it leads that row astray; this method needs no step to be as long as the quadratic
model says.

References
----------
Liu and Nocedal, "On the limited memory BFGS method for large scale optimization",
Mathematical Programming 1989.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bochner.solvers.cg import never
from bochner.solvers.newton import Point, Reweighted

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

ITERATIONS = 6  # of a step, which cost about as much as one of Newton's method


def minimise_by_lbfgs(
    problem: Reweighted,
    max_steps: int,
    visit: Callable[[Reweighted, int], bool] = never,
    is_late: Callable[[], bool] = never,
) -> int:
    """Minimise a penalised loss, and return the number of steps of `ITERATIONS`
    iterations each.

    Parameters
    ----------
    problem : Reweighted
        At its start.
    max_steps : int
    visit : callable (problem, n_steps) -> bool, optional
        Called after every step; a true value ends them.
    is_late : callable () -> bool, optional
        Asked after every step; a true value ends them.
    """
    from scipy.optimize import minimize

    shape = problem.coef.shape
    n_iterations = n_steps = 0

    def point(values: NDArray) -> Point:
        coef, offset = np.split(values, [problem.coef.size])
        return coef.reshape(shape).astype(problem.dtype), offset.copy()

    def objective(values: NDArray) -> tuple[float, NDArray]:
        """The mean loss of the rows with the penalty, and its gradient."""
        coef, offset = point(values)
        fitted = problem.fitted(coef, offset)
        by_coef, by_offset = problem.gradient(fitted, coef)
        gradient = np.append(by_coef, by_offset) / problem.weight
        return problem.objective(fitted, coef) / problem.weight, gradient

    def take_step(values: NDArray) -> bool:
        """Go to a point; whether that is to be the last one."""
        nonlocal n_steps
        n_steps += 1
        coef, offset = point(values)
        problem.move_to(coef, offset, problem.fitted(coef, offset))
        return visit(problem, n_steps) or is_late()

    def after_iteration(intermediate_result: OptimizeResult) -> None:
        nonlocal n_iterations
        n_iterations += 1
        if n_iterations % ITERATIONS == 0 and take_step(intermediate_result.x):
            raise StopIteration

    result = minimize(
        objective,
        np.append(problem.coef, problem.offset),
        jac=True,
        method="L-BFGS-B",
        callback=after_iteration,
        options={"maxiter": max_steps * ITERATIONS, "ftol": 0.0, "gtol": 1e-8},
    )
    # It may come to its end between two steps
    if n_iterations % ITERATIONS:
        take_step(result.x)
    return n_steps
