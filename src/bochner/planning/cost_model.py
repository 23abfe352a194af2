"""What each way to solve a ridge problem costs, and which solver is therefore
chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.design.design import sums_at_once
from bochner.design.reductions import factor_bytes
from bochner.engines.costs import (
    BYTE_COLUMN,
    BYTE_PASS,
    DOUBLE,
    FACTOR_ENTRY,
    FEATURE,
    FLOAT_COLUMN,
    FLOAT_PASS,
    GRAM,
    PRODUCT,
    REDUCTION,
)
from bochner.engines.local import available_memory
from bochner.features.base import FeatureMap
from bochner.features.binning import hashed_bins
from bochner.features.nystroem import has_kernel_rows
from bochner.selection.policy import POLICY
from bochner.solvers.iterative import (
    GRAM_LIMIT,
    LEVERAGE_ROWS,
    PACKED_ENTRIES,
    SKETCH,
    sampled_rows,
)
from bochner.solvers.shifted import TRIDIAGONAL_LIMIT

# Rows whose leave-one-out errors are looked at, and ridge penalties of a walk
SEEN_ROWS, WALK = 4096, 7
USUAL_RATIO, USUAL_ITERATIONS, ITERATION_POWER = 1.6e-5, 25.0, -0.28  # see `iterations`
LEAST_ITERATIONS = 7.0
SUMS = 1.15  # of a Gram matrix, over its products alone
AROUND = 1.4  # of conjugate gradients, over passes, samples and factors alone
WORTH_ROUNDING = 1e12
# Times as fast as a direct solution, and where alpha was chosen before
GAIN, CHOSEN_GAIN = 2.0, 1.1
# Of the iterations, till predictions have settled, and from a start nearby
SETTLED_SHARE, AGAIN_SHARE = 0.45, 0.4
# Of the iterations, by rows drawn by leverage; what they must save
LEVERAGE_SHARE, LEVERAGE_GAIN = 0.4, 1.5


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
    weight : float
        Sum of the rows' weights.
    alphas : array of shape (A,) or None
        The ridge penalties that are given; None where they are chosen too.
    calibrated : bool
        Whether predictions of rows left out are wanted too.
    wide : bool, default=False
        Whether features are in double precision.
    chosen : bool, default=False
        Whether the ridge penalty that is given was chosen, so that iterations may stop
        where predictions have settled.
    n_columns : int, default=16
        Of the rows that features are computed of.
    """

    n_rows: int
    n_outputs: int
    weight: float
    alphas: NDArray | None
    out_of_sample: bool
    double: bool = False
    penalty_selected: bool = False
    n_columns: int = 16

    @property
    def dtype(self) -> type[np.floating]:
        """Precision of the features."""
        return np.float64 if self.double else np.float32

    @property
    def is_open(self) -> bool:
        """Whether there are several ridge penalties to choose from."""
        return self.alphas is None or len(self.alphas) > 1


def choose_solver(solver: str, features: FeatureMap, size: ProblemSize) -> SolverChoice:
    """Choose between the Gram matrix with its factors and conjugate gradients.

    Answers of the first are exact for every ridge penalty, so that the second must be
    twice as fast on a problem of some seconds; where the ridge penalty was chosen
    before, a tenth faster.

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
        return SolverChoice(
            "exact", "with so few rows the exact kernel costs no more than features"
        )
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
    direct = direct_seconds(D, size)
    iterative = iterative_seconds(D, size)
    figures = (
        f"conjugate gradients take about {iterative / direct:.2g} times the "
        "work of the Gram matrix"
    )
    gain = CHOSEN_GAIN if size.penalty_selected else GAIN
    is_faster = size.n_rows * D**2 > WORTH_ROUNDING and iterative < direct / gain
    return SolverChoice("cg" if is_faster else "direct", figures)


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


def iterations(alpha: float, weight: float) -> float:
    """Iterations of conjugate gradients on preconditioned Fourier features to a
    tolerance of 1e-2.

    They grow as the ridge penalty falls, about as (alpha / weight)^-0.28: on Forest,
    california_housing, cpu_act, MNIST and Adult with 3,000 and 6,000 features of two
    lengthscales each, alpha / weight from 1e-8 to 2e-3, the formula was off by a factor
    of 1.3 in the median and of 2.5 at most, too many where 1,000 features leave less to
    solve for.
    """
    ratio = max(alpha / weight, 1e-12) / USUAL_RATIO
    many = USUAL_ITERATIONS * ratio**ITERATION_POWER
    return float(np.clip(many, LEAST_ITERATIONS, POLICY.most_iterations))


def direct_seconds(D: int, size: ProblemSize) -> float:
    """Seconds of a direct solution: the matrix, its factors, and leave-one-out
    errors.
    """
    precision = DOUBLE if size.double else 1.0
    N = min(size.n_rows, D)
    product = PRODUCT * precision
    sums = size.n_rows * D * (_feature_seconds(size) + SUMS * N * GRAM * precision)
    seen = min(size.n_rows, SEEN_ROWS) * N**2 * product / 2
    looked = size.is_open or size.out_of_sample
    if size.is_open and N <= TRIDIAGONAL_LIMIT:
        return sums + 4 / 3 * N**3 * REDUCTION + 4 * seen
    walk = (WALK if size.alphas is None else len(size.alphas)) if size.is_open else 1
    return sums + walk * (N**3 / 2 * product + (2 * seen if looked else 0.0))


def iterative_seconds(D: int, size: ProblemSize) -> float:
    """Seconds of all runs of conjugate gradients: for the ridge penalty, for rows left
    out, and for the solution.

    The final fit starts from the solutions of earlier ones, if there are any.
    """
    n = size.n_rows
    K = size.n_outputs
    steps = _steps(size)
    feature = _feature_seconds(size)
    total = n * D * feature + _sample_seconds(D)
    folds = POLICY.n_folds if n <= POLICY.folded_rows else 1
    if size.is_open:
        candidates = len(POLICY.shares) if size.alphas is None else len(size.alphas)
        rows = min(n, POLICY.compared_rows)
        columns = candidates * min(K, POLICY.traced_outputs)
        if rows < n:
            total += rows * D * feature + _sample_seconds(D)
        step = _step_seconds(rows, D, columns, size)
        total += folds * candidates * _factor_seconds(D)
        total += folds * POLICY.traced_iterations * step
    if by_leverage(D, size):
        total += _leverage_seconds(n, D)
        steps *= LEVERAGE_SHARE
    runs = folds + AGAIN_SHARE if size.out_of_sample else 1.0
    equations = folds * size.out_of_sample + 1
    total += equations * (_step_seconds(n, D, K + 1, size) / 2 + _factor_seconds(D))
    return AROUND * (
        total + max(runs * steps, LEAST_ITERATIONS) * _step_seconds(n, D, K, size)
    )


def may_compare_losses(n: int, D: int, P: int, n_outputs: int) -> bool:
    """Whether rows, D dense features, P grids and outputs are few enough to compare
    the logistic loss with another.
    """
    return n * n_outputs * (P + POLICY.dense_work * D) <= POLICY.most_compared


def by_leverage(D: int, size: ProblemSize) -> bool:
    """Whether rows of the preconditioner drawn by their leverage save more time than
    they cost.
    """
    n = size.n_rows
    if D <= GRAM_LIMIT or n < 2 * LEVERAGE_ROWS * D:
        return False
    runs = 1 + AGAIN_SHARE if size.out_of_sample else 1.0
    step = _step_seconds(n, D, size.n_outputs, size)
    saved = (1 - LEVERAGE_SHARE) * runs * _steps(size) * step
    return saved > LEVERAGE_GAIN * _leverage_seconds(n, D)


def _steps(size: ProblemSize) -> float:
    """Iterations of the run for a middle ridge penalty."""
    middle = USUAL_RATIO * size.weight
    if size.alphas is not None:
        middle = float(np.median(size.alphas))
    settled = size.out_of_sample and (size.penalty_selected or size.is_open)
    return iterations(middle, size.weight) * (SETTLED_SHARE if settled else 1.0)


def _feature_seconds(size: ProblemSize) -> float:
    """Seconds of a feature of a row: a pair of cosine and sine takes a product of
    the columns.
    """
    return (FEATURE + max(size.n_columns - 16, 0) / 2 * PRODUCT) * (
        DOUBLE if size.double else 1.0
    )


def _leverage_seconds(n: int, D: int) -> float:
    """Seconds of leverage scores, and of the features and the matrix of the drawn
    rows.
    """
    scores = n * D * (BYTE_PASS + (SKETCH - 1) * BYTE_COLUMN) / 2
    return scores + LEVERAGE_ROWS * D**2 * (FEATURE + D * GRAM) + D**3 / 2 * PRODUCT


def _sample_seconds(D: int) -> float:
    """Seconds of the matrix of the preconditioner's rows."""
    if D <= GRAM_LIMIT:
        return 4 * D**3 * GRAM + 4 / 3 * D**3 * REDUCTION
    return sampled_rows(D) ** 2 * D * GRAM


def _factor_seconds(D: int) -> float:
    """Seconds of the preconditioner's factors for a ridge penalty."""
    return 0.0 if D <= GRAM_LIMIT else sampled_rows(D) ** 3 / 2 * PRODUCT


def _step_seconds(rows: int, D: int, columns: int, size: ProblemSize) -> float:
    """Seconds of an iteration for several right-hand sides at once."""
    entry = FLOAT_PASS + (columns - 1) * FLOAT_COLUMN
    entry *= DOUBLE if size.double else 1.0
    if rows * D > PACKED_ENTRIES:
        entry = BYTE_PASS + (columns - 1) * BYTE_COLUMN
    m = D if D <= GRAM_LIMIT else sampled_rows(D)
    return rows * D * entry + m * (2 * D + m) * (
        FACTOR_ENTRY + 5 * PRODUCT * (columns - 1)
    )
