"""Which solver a ridge problem has: the Gram matrix with its factors, which are exact
for every ridge penalty, or conjugate gradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bochner.design.design import sums_at_once
from bochner.design.reductions import factor_bytes
from bochner.engines.local import available_memory
from bochner.features.base import FeatureMap
from bochner.features.binning import hashed_bins
from bochner.features.nystroem import has_kernel_rows
from bochner.selection.policy import POLICY
from bochner.solvers.iterative import GRAM_LIMIT, LEVERAGE_ROWS

NAMES = {
    "direct": "the Gram matrix",
    "cg": "conjugate gradients",
    "exact": "the kernel matrix of all rows",
}
# Operations n D^2 of a Gram matrix, some seconds, from which iterations may be faster
LARGE_GRAM = 1e12
# Features for each output, from which they are: an iteration costs n D of all outputs
FEATURES_AN_OUTPUT = 200
# Of a sum of the rows' weights, which ridge penalties are as a rule
USUAL_RATIO = 1.6e-5
LEAST_RATIO = 1e-12  # of which it is known how many iterations it takes
# Iterations grow as the ridge penalty falls, about as this power of it: on Forest,
# california_housing, cpu_act, MNIST and Adult the formula was off by a factor of 1.3
ITERATION_POWER = -0.28
USUAL_ITERATIONS = 25  # to a tolerance of 1e-2, with the usual ridge penalty
# Rows times outputs for each feature, from which rows of the preconditioner that are
# drawn by their leverage save more time than they cost, with the usual ridge penalty
LEVERAGE_WORTH = 100
FEW_ROWS = "with so few rows the exact kernel costs no more than features"
TOO_LARGE = "the Gram matrix of {:,} features does not fit in the free memory"


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
class ProblemSize:
    """Size of a ridge problem, by which solvers are chosen.

    Attributes
    ----------
    n_rows, n_outputs : int
    dtype : dtype, default=float32
        Of the features.
    ratio : float, optional
        As of `penalty_ratio`.
    """

    n_rows: int
    n_outputs: int
    dtype: DTypeLike = np.float32
    ratio: float = USUAL_RATIO


def penalty_ratio(alphas: NDArray | None, weight: float) -> float:
    """The least of the given ridge penalties over the sum of the rows' weights; the
    usual ratio where they are to be chosen.
    """
    return USUAL_RATIO if alphas is None else float(alphas[0]) / weight


def choose_solver(solver: str, features: FeatureMap, size: ProblemSize) -> SolverChoice:
    """Choose between the Gram matrix with its factors and conjugate gradients.

    The second is taken where the first takes some seconds, there are many features for
    the outputs, and the ridge penalty is not so small that it takes many iterations.

    Parameters
    ----------
    solver : {"auto", "direct", "cg", "exact"}
    features : FeatureMap
        Drawn.
    size : ProblemSize

    Raises
    ------
    ValueError
        Where a direct solution is asked for and the features are sparse.
    """
    if solver != "exact" and has_kernel_rows(features):
        return SolverChoice("exact", FEW_ROWS)
    return solver_in_memory(solver, features.is_dense, features.n_features_out, size)


def solver_in_memory(
    solver: str, dense: bool, D: int, size: ProblemSize
) -> SolverChoice:
    """Choose the solver of rows in memory by the number of features, and whether
    they are dense.
    """
    if solver == "exact":
        return SolverChoice(solver, "as requested")
    if not dense:
        if solver == "direct":
            raise ValueError(
                "solver='direct' needs dense features; bins are solved by "
                "solver='cg' or 'auto'."
            )
        return SolverChoice("cg", "the features are sparse")
    if solver != "auto":
        return SolverChoice(solver, "as requested")
    if _is_too_large(factor_bytes(size.n_rows, D, size.n_outputs, size.dtype)):
        return SolverChoice("cg", TOO_LARGE.format(D))
    if size.n_rows * D**2 <= LARGE_GRAM:
        return SolverChoice("direct", "the Gram matrix takes a few seconds at most")
    features_needed = FEATURES_AN_OUTPUT * size.n_outputs
    if features_needed * _relative_iterations(size.ratio) >= D:
        return SolverChoice("direct", "the Gram matrix is as fast as iterations")
    return SolverChoice("cg", "faster than the Gram matrix of so large a problem")


def _is_too_large(n_bytes: int) -> bool:
    free = available_memory()
    return free is not None and 0.8 * free < n_bytes


def choose_streamed_solver(
    solver: str, features: FeatureMap, size: ProblemSize
) -> SolverChoice:
    """Choose for rows that are read again in every pass: a single pass of sums if they
    fit in memory.

    Parameters
    ----------
    solver : {"auto", "direct", "cg"}
        As it is given.
    features : FeatureMap
        Drawn.
    size : ProblemSize
    """
    D = features.n_features_out
    if not features.is_dense and (
        hashed_bins(features) is None or POLICY.hashed_columns < D
    ):
        return SolverChoice("cg", "the columns of bins are too many for a Gram matrix")
    if solver != "auto":
        return SolverChoice(solver, "as given")
    n_bytes = factor_bytes(
        D,
        D,
        size.n_outputs,
        size.dtype,
        binned=not features.is_dense,
        n_sums=sums_at_once(size.n_rows, D),
    )
    if _is_too_large(n_bytes):
        return SolverChoice("cg", TOO_LARGE.format(D))
    return SolverChoice("direct", "one pass over the rows")


def by_leverage(D: int, n_rows: int, n_outputs: int, ratio: float) -> bool:
    """Whether rows of the preconditioner drawn by their leverage save more time than
    they cost.

    Parameters
    ----------
    D, n_rows, n_outputs : int
        Features, rows and outputs.
    ratio : float
        The ridge penalty over the sum of the rows' weights.
    """
    if D <= GRAM_LIMIT or n_rows < 2 * LEVERAGE_ROWS * D:
        return False
    return n_rows * n_outputs * _relative_iterations(ratio) >= LEVERAGE_WORTH * D


def _relative_iterations(ratio: float) -> float:
    """Iterations over those for the usual ridge penalty."""
    return (max(ratio, LEAST_RATIO) / USUAL_RATIO) ** ITERATION_POWER
