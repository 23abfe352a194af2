"""Ridge regression as estimators ask for it: one task, one result, a module for each way to solve it."""

from bochner.estimators.ridge.direct import solve_directly, solve_moments
from bochner.estimators.ridge.exact import solve_exactly
from bochner.estimators.ridge.iterative import solve_iteratively, solve_stream, solve_stream_again
from bochner.estimators.ridge.problem import Fitted, RidgeTask, Stage, given_alphas

SOLVERS = {"direct": solve_directly, "cg": solve_iteratively, "exact": solve_exactly}

__all__ = [
    "SOLVERS",
    "Fitted",
    "RidgeTask",
    "Stage",
    "given_alphas",
    "solve_directly",
    "solve_exactly",
    "solve_iteratively",
    "solve_moments",
    "solve_stream",
    "solve_stream_again",
]
