"""Direct solution or conjugate gradients, by what each would cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.engines.costs import COSTS
from bochner.engines.local import available_memory
from bochner.features.base import FeatureMap
from bochner.solvers.iterative import GRAM_LIMIT, MOST_SAMPLED, PACKED_ENTRIES
from bochner.solvers.shifted import TRIDIAGONAL_LIMIT
from bochner.tuning.policy import POLICY

SEEN_ROWS, WALK = 4096, 7  # rows whose leave-one-out errors are looked at, and ridge terms of a walk
USUAL_RATIO, USUAL_ITERATIONS, ITERATION_POWER = 1.6e-5, 25.0, -0.28  # see `iterations`
LEAST_ITERATIONS = 7.0
WORTH_ROUNDING = 1e12


class SolverChoice(NamedTuple):
    """How the ridge problem is solved, and why.

    Attributes
    ----------
    solver : {"direct", "cg", "exact"}
    reason : str
        For people.
    """

    solver: str
    reason: str


@dataclass(frozen=True)
class Task:
    """What is to be solved.

    Attributes
    ----------
    n_rows, n_outputs : int
    weight : float
        Sum of the rows' weights.
    alphas : array of shape (A,) or None
        The ridge terms that are given; None where they are chosen too.
    calibrated : bool
        Whether predictions of rows left out are wanted too.
    wide : bool, default=False
        Whether features are in double precision.
    """

    n_rows: int
    n_outputs: int
    weight: float
    alphas: NDArray | None
    calibrated: bool
    wide: bool = False

    @property
    def searched(self) -> bool:
        """Whether there are several ridge terms to choose from."""
        return self.alphas is None or len(self.alphas) > 1


def plan(solver: str, features: FeatureMap, task: Task) -> SolverChoice:
    """Choose between the Gram matrix with its factors and conjugate gradients.

    Answers of the first are exact for every ridge term, so that the second must be twice as fast on a problem of some
    seconds.

    Parameters
    ----------
    solver : {"auto", "direct", "cg", "exact"}
    features : FeatureMap
        Drawn.
    task : Task

    Raises
    ------
    ValueError
        Where a direct solution is asked for and the features are sparse.
    """
    if solver == "exact":
        return SolverChoice(solver, "as asked for")
    if not features.is_dense:
        if solver == "direct":
            raise ValueError("solver='direct' needs dense features; bins are solved by solver='cg' or 'auto'.")
        return SolverChoice("cg", "the features are sparse")
    if solver != "auto":
        return SolverChoice(solver, "as asked for")
    D = features.n_features_out
    direct, iterative = direct_seconds(D, task), iterative_seconds(D, task)
    free = available_memory()
    if free is not None and 0.8 * free < 44 * min(D, task.n_rows) ** 2:
        return SolverChoice("cg", f"the Gram matrix of {D:,} features does not fit the memory that is free")
    figures = f"about {iterative:.2g} s by conjugate gradients, {direct:.2g} s by the Gram matrix"
    if task.n_rows * D**2 > WORTH_ROUNDING and iterative < direct / 2:
        return SolverChoice("cg", figures)
    return SolverChoice("direct", figures)


def iterations(alpha: float, weight: float) -> float:
    """Iterations of conjugate gradients on preconditioned Fourier features to a tolerance of 1e-2.

    They grow as the ridge term falls, about as (alpha / weight)^-0.28: on Forest, california_housing, cpu_act, MNIST
    and Adult with 3,000 and 6,000 features of two lengthscales each, alpha / weight from 1e-8 to 2e-3, the formula was
    off by a factor of 1.3 in the median and of 2.5 at most, too many where 1,000 features leave less to solve for.
    """
    many = USUAL_ITERATIONS * (max(alpha / weight, 1e-12) / USUAL_RATIO) ** ITERATION_POWER
    return float(np.clip(many, LEAST_ITERATIONS, POLICY.most_iterations))


def direct_seconds(D: int, task: Task) -> float:
    """Seconds of the smaller matrix, of its factors, and of the leave-one-out errors that are looked at."""
    product, N = COSTS.product * (1 + task.wide), min(task.n_rows, D)
    sums = task.n_rows * D * (COSTS.feature + N * product)
    seen = min(task.n_rows, SEEN_ROWS) * N**2 * product
    looked = task.searched or task.calibrated
    if task.searched and N <= TRIDIAGONAL_LIMIT:
        return sums + 4 / 3 * N**3 * COSTS.reduction + 4 * seen
    walk = (WALK if task.alphas is None else len(task.alphas)) if task.searched else 1
    return sums + walk * (N**3 * COSTS.product + (2 * seen if looked else 0.0))


def iterative_seconds(D: int, task: Task) -> float:
    """Seconds of all runs of conjugate gradients: for the ridge term, for rows left out, and for the solution."""
    n, K = task.n_rows, task.n_outputs
    middle = USUAL_RATIO * task.weight if task.alphas is None else float(np.median(task.alphas))
    steps = iterations(middle, task.weight)
    total = n * D * COSTS.feature + _sample_seconds(D, 1)
    folds = POLICY.n_folds if n <= POLICY.folded_rows else 1
    if task.searched:
        candidates = len(POLICY.shares) if task.alphas is None else len(task.alphas)
        rows = min(n, POLICY.compared_rows)
        anew = rows * D * COSTS.feature if rows < n else 0.0
        columns = candidates * min(K, POLICY.traced_outputs)
        total += anew + _sample_seconds(D, candidates)
        total += folds * POLICY.traced_iterations * _step_seconds(rows, D, columns, task)
    runs = 1 + (folds if task.calibrated else 0)
    return total + runs * steps * _step_seconds(n, D, K, task)


def _sample_seconds(D: int, n_factors: int) -> float:
    """Of the preconditioner, for so many ridge terms."""
    if D <= GRAM_LIMIT:
        return 4 * D**3 * COSTS.product + 4 / 3 * D**3 * COSTS.reduction
    m = min(D // 2, MOST_SAMPLED)
    return m**2 * D * COSTS.product + n_factors * m**3 * COSTS.product


def _step_seconds(rows: int, D: int, columns: int, task: Task) -> float:
    """Of an iteration for so many right-hand sides at once."""
    packed = rows * D > PACKED_ENTRIES
    entry = COSTS.byte_pass * columns if packed else (COSTS.float_pass + 4 * COSTS.product * columns) * (1 + task.wide)
    m = D if D <= GRAM_LIMIT else min(D // 2, MOST_SAMPLED)
    return rows * D * entry + m * (D + m) * (COSTS.factor_entry + 4 * COSTS.product * columns)
