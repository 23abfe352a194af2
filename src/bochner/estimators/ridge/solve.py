"""Ridge regression on rows in memory, by the solver that is asked for."""

from __future__ import annotations

from bochner.estimators.ridge.conjugate_gradients import solve_iteratively
from bochner.estimators.ridge.direct import solve_directly, solve_exactly

SOLVERS = {
    "direct": solve_directly,
    "cg": solve_iteratively,
    "exact": solve_exactly,
}
