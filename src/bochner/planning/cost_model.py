"""What each way to solve a ridge problem costs, and which solver is therefore chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.design.design import sums_at_once
from bochner.design.reductions import factor_bytes
from bochner.engines.costs import COSTS, Costs
from bochner.engines.local import available_memory
from bochner.features.base import FeatureMap
from bochner.features.binning import hashed_bins
from bochner.features.nystroem import has_kernel_rows
from bochner.planning.measured_costs import machine_costs
from bochner.selection.metric_learning import schedule
from bochner.selection.policy import POLICY
from bochner.solvers.iterative import GRAM_LIMIT, LEVERAGE_ROWS, PACKED_ENTRIES, SKETCH, sampled_rows
from bochner.solvers.shifted import TRIDIAGONAL_LIMIT

SEEN_ROWS, WALK = 4096, 7  # rows whose leave-one-out errors are looked at, and ridge penalties of a walk
USUAL_RATIO, USUAL_ITERATIONS, ITERATION_POWER = 1.6e-5, 25.0, -0.28  # see `iterations`
LEAST_ITERATIONS = 7.0
SUMS = 1.15  # of a Gram matrix, over its products alone
AROUND = 1.4  # of conjugate gradients, over passes, samples and factors alone
WORTH_ROUNDING = 1e12
GAIN, CHOSEN_GAIN = 2.0, 1.1  # times as fast as a direct solution, and where alpha was chosen before
WORTH_MEASURING = 1e11  # n D^2, half a second
SETTLED_SHARE, AGAIN_SHARE = 0.45, 0.4  # of the iterations, till predictions have settled, and from a start nearby
LEARNED, LEARNED_BLOCK, FEW_COLUMNS = (1.0, 2.0), 512, 40  # metrics, of few or very many rows and of others
SIZES, LARGER, FEW_BINNED = 20, 3, 16  # trials of bins at a small size, and candidates at the next one; columns
CALLS = 300  # gradient steps, as long as which all takes that does not grow with the rows
PENALTIES, NEWTON_PASSES = 3, 33  # of the logistic loss that are tried, and passes of a run
LEVERAGE_SHARE, LEVERAGE_GAIN = 0.4, 1.5  # of the iterations, by rows drawn by leverage; what they must save


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
        Whether the ridge penalty that is given was chosen, so that iterations may stop where predictions have settled.
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
    def is_open(self) -> bool:
        """Whether there are several ridge penalties to choose from."""
        return self.alphas is None or len(self.alphas) > 1


def choose_solver(solver: str, features: FeatureMap, size: ProblemSize, costs: Costs | None = None) -> SolverChoice:
    """Choose between the Gram matrix with its factors and conjugate gradients.

    Answers of the first are exact for every ridge penalty, so that the second must be twice as fast on a problem of
    some seconds; where the ridge penalty was chosen before, a tenth faster.

    Parameters
    ----------
    solver : {"auto", "direct", "cg", "exact"}
    features : FeatureMap
        Drawn.
    size : ProblemSize
    costs : Costs, optional
        By default the usual ones, and for larger problems those of this machine.

    Raises
    ------
    ValueError
        Where a direct solution is asked for and the features are sparse.
    """
    if solver != "exact" and has_kernel_rows(features):
        return SolverChoice("exact", "with so few rows the exact kernel costs no more than features")
    return solver_in_memory(solver, features.is_dense, features.n_features_out, size, costs)


def solver_in_memory(solver: str, dense: bool, D: int, size: ProblemSize, costs: Costs | None = None) -> SolverChoice:
    """The same by the number of features alone, and whether they are dense."""
    if solver == "exact":
        return SolverChoice(solver, "as requested")
    if not dense:
        if solver == "direct":
            raise ValueError("solver='direct' needs dense features; bins are solved by solver='cg' or 'auto'.")
        return SolverChoice("cg", "the features are sparse")
    if solver != "auto":
        return SolverChoice(solver, "as requested")
    costs = costs or costs_for(size.n_rows, D)
    direct, iterative = direct_seconds(D, size, costs), iterative_seconds(D, size, costs)
    free, dtype = available_memory(), np.float64 if size.double else np.float32
    if free is not None and 0.8 * free < factor_bytes(size.n_rows, D, size.n_outputs, dtype):
        return SolverChoice("cg", f"the Gram matrix of {D:,} features does not fit in the free memory")
    figures = f"about {iterative:.2g} s with conjugate gradients, {direct:.2g} s with the Gram matrix"
    if size.n_rows * D**2 > WORTH_ROUNDING and iterative < direct / (CHOSEN_GAIN if size.penalty_selected else GAIN):
        return SolverChoice("cg", figures)
    return SolverChoice("direct", figures)


def costs_for(n_rows: int, D: int) -> Costs:
    """The usual costs, and for larger problems those of this machine."""
    return machine_costs() if n_rows * D**2 > WORTH_MEASURING else COSTS


def choose_streamed_solver(solver: str, features: FeatureMap, size: ProblemSize) -> SolverChoice:
    """Choose for rows that are read again in every pass: a single pass of sums if they fit in memory.

    Parameters
    ----------
    solver : {"auto", "direct", "cg"}
        As it is given.
    features : FeatureMap
        Drawn.
    size : ProblemSize
    """
    D = features.n_features_out
    if not features.is_dense and (hashed_bins(features) is None or POLICY.hashed_columns < D):
        return SolverChoice("cg", "the columns of bins are too many for a Gram matrix")
    if solver != "auto":
        return SolverChoice(solver, "as given")
    free, dtype = available_memory(), np.dtype(np.float64 if size.double else np.float32)
    binned, sums = not features.is_dense, sums_at_once(size.n_rows, D)
    if free is not None and 0.8 * free < factor_bytes(D, D, size.n_outputs, dtype, binned, sums):
        return SolverChoice("cg", f"the Gram matrix of {D:,} features does not fit in the free memory")
    return SolverChoice("direct", "one pass over the rows")


def iterations(alpha: float, weight: float) -> float:
    """Iterations of conjugate gradients on preconditioned Fourier features to a tolerance of 1e-2.

    They grow as the ridge penalty falls, about as (alpha / weight)^-0.28: on Forest, california_housing, cpu_act, MNIST
    and Adult with 3,000 and 6,000 features of two lengthscales each, alpha / weight from 1e-8 to 2e-3, the formula was
    off by a factor of 1.3 in the median and of 2.5 at most, too many where 1,000 features leave less to solve for.
    """
    many = USUAL_ITERATIONS * (max(alpha / weight, 1e-12) / USUAL_RATIO) ** ITERATION_POWER
    return float(np.clip(many, LEAST_ITERATIONS, POLICY.most_iterations))


def direct_seconds(D: int, size: ProblemSize, costs: Costs = COSTS) -> float:
    """Seconds of a direct solution: the matrix, its factors, and leave-one-out errors."""
    precision, N = costs.double if size.double else 1.0, min(size.n_rows, D)
    product = costs.product * precision
    sums = size.n_rows * D * (_feature_seconds(size, costs) + SUMS * N * costs.gram * precision)
    seen = min(size.n_rows, SEEN_ROWS) * N**2 * product / 2
    looked = size.is_open or size.out_of_sample
    if size.is_open and N <= TRIDIAGONAL_LIMIT:
        return sums + 4 / 3 * N**3 * costs.reduction + 4 * seen
    walk = (WALK if size.alphas is None else len(size.alphas)) if size.is_open else 1
    return sums + walk * (N**3 / 2 * product + (2 * seen if looked else 0.0))


def iterative_seconds(D: int, size: ProblemSize, costs: Costs = COSTS) -> float:
    """Seconds of all runs of conjugate gradients: for the ridge penalty, for rows left out, and for the solution.

    The final fit starts from the solutions of earlier ones, if there are any.
    """
    n, K = size.n_rows, size.n_outputs
    steps = _steps(size)
    feature = _feature_seconds(size, costs)
    total = n * D * feature + _sample_seconds(D, costs)
    folds = POLICY.n_folds if n <= POLICY.folded_rows else 1
    if size.is_open:
        candidates = len(POLICY.shares) if size.alphas is None else len(size.alphas)
        rows = min(n, POLICY.compared_rows)
        columns = candidates * min(K, POLICY.traced_outputs)
        total += rows * D * feature + _sample_seconds(D, costs) if rows < n else 0.0
        total += folds * candidates * _factor_seconds(D, costs)
        total += folds * POLICY.traced_iterations * _step_seconds(rows, D, columns, size, costs)
    if by_leverage(D, size):
        total += _leverage_seconds(n, D, costs)
        steps *= LEVERAGE_SHARE
    runs = folds + AGAIN_SHARE if size.out_of_sample else 1.0
    equations = folds * size.out_of_sample + 1
    total += equations * (_step_seconds(n, D, K + 1, size, costs) / 2 + _factor_seconds(D, costs))
    return AROUND * (total + max(runs * steps, LEAST_ITERATIONS) * _step_seconds(n, D, K, size, costs))


def choice_seconds(n_rows: int, n_columns: int, n_outputs: int, costs: Costs = COSTS) -> float:
    """Seconds of the choice of a model: metrics are learned, and bins and Fourier features tried, few of them.

    Many columns are taken for those of pictures, which keep their unit: their principal components have scales, and
    there are no bins.
    """
    plan, alone, wide = schedule(n_rows), n_rows > POLICY.most_raced, n_columns > POLICY.wide
    blocks = [plan.block] if plan.early_block is None else [plan.early_block, plan.block]
    area = float(np.mean(np.square(blocks))) / LEARNED_BLOCK**2
    metrics = LEARNED[0] if alone or wide or n_rows < POLICY.rows_for_full_learning else LEARNED[1]
    columns = POLICY.principal if wide else n_columns
    steps = metrics * plan.steps * area * (1 + columns / FEW_COLUMNS)
    seconds = (CALLS + steps) * costs.gradient_step
    if not wide:
        entries = n_rows * float(np.clip(POLICY.trial_entries / n_rows, *POLICY.trial_grids))
        larger = 0 if alone else LARGER * POLICY.growth
        number, one = entries * _bin_seconds(n_columns, costs), entries * _bin_pass(n_outputs, costs)
        seconds += (SIZES + larger) * number + (SIZES * POLICY.trial_steps + larger * POLICY.final_steps) * one
    if not alone:
        rows, D = min(n_rows, POLICY.screened_rows[1]), POLICY.n_components[1] // 2
        trial = costs.direct(rows, n_columns, min(D, rows), n_outputs) / costs.double
        seconds += (2 if wide else 1) * trial
    return seconds


def bins_seconds(n: int, n_columns: int, P: int, n_outputs: int, steps: int, costs: Costs = COSTS) -> float:
    """Seconds of the solution for stored bins: once without the rows that tell the iterations, and once with them."""
    return 2 * n * P * (_bin_seconds(n_columns, costs) + steps * _bin_pass(n_outputs, costs))


def may_compare_losses(n: int, D: int, P: int, n_outputs: int) -> bool:
    """Whether rows, D dense features, P grids and outputs are few enough to compare the logistic loss with another."""
    return n * n_outputs * (P + POLICY.dense_work * D) <= POLICY.most_compared


def other_loss_seconds(
    n: int, n_columns: int, D: int, P: int, n_outputs: int, costs: Costs = COSTS, compared: bool = True
) -> float:
    """Seconds for another loss on D dense features and P grids.

    Parameters
    ----------
    compared : bool, default=True
        Whether it is the logistic loss beside the squared one, on some rows first, and on all where these are few.
    """

    def passes(rows: int, D: int, P: int, runs: float) -> float:
        single = n_columns * len(POLICY.additive_scales) if n_columns <= POLICY.most_linear else 0
        grids = P + (min(single, P) if P else single)  # functions of single columns beside
        dense = costs.byte_pass + (n_outputs - 1) * costs.byte_column
        one = grids * _bin_pass(n_outputs, costs) + D * dense
        return rows * (runs * NEWTON_PASSES * one + grids * _bin_seconds(n_columns, costs) + D * costs.feature)

    kept = SUMS * n * D * min(n, D) * costs.gram  # the ridge solution without the rows held out
    if not compared:
        return kept + passes(n, D, P, PENALTIES + 1)
    if n < POLICY.fewest_compared:
        return 0.0
    few = min(D, POLICY.looked_features), min(P, POLICY.looked_grids)
    looked = passes(min(n, POLICY.looked_rows + POLICY.looked_validation), *few, PENALTIES)
    return looked + kept + passes(n, D, P, 2) if may_compare_losses(n, D, P, n_outputs) else looked


def _bin_seconds(n_columns: int, costs: Costs) -> float:
    """Seconds to number a bin of a row."""
    return costs.bin * (1 + n_columns / FEW_BINNED) / 2


def _bin_pass(n_outputs: int, costs: Costs) -> float:
    """Seconds of an entry of stored bins, there and back."""
    return costs.bin_pass * (0.5 + 0.5 * n_outputs)


def by_leverage(D: int, size: ProblemSize) -> bool:
    """Whether rows of the preconditioner drawn by their leverage save more time than they cost, by the usual costs.

    The solution depends on them, so that the machine at hand must not decide.
    """
    n = size.n_rows
    if D <= GRAM_LIMIT or n < 2 * LEVERAGE_ROWS * D:
        return False
    runs = 1 + AGAIN_SHARE if size.out_of_sample else 1.0
    saved = (1 - LEVERAGE_SHARE) * runs * _steps(size) * _step_seconds(n, D, size.n_outputs, size, COSTS)
    return saved > LEVERAGE_GAIN * _leverage_seconds(n, D, COSTS)


def _steps(size: ProblemSize) -> float:
    """Iterations of the run for a middle ridge penalty."""
    middle = USUAL_RATIO * size.weight if size.alphas is None else float(np.median(size.alphas))
    settled = size.out_of_sample and (size.penalty_selected or size.is_open)
    return iterations(middle, size.weight) * (SETTLED_SHARE if settled else 1.0)


def _feature_seconds(size: ProblemSize, costs: Costs) -> float:
    """Seconds of a feature of a row: a pair of cosine and sine takes a product of the columns."""
    return (costs.feature + max(size.n_columns - 16, 0) / 2 * costs.product) * (costs.double if size.double else 1.0)


def _leverage_seconds(n: int, D: int, costs: Costs) -> float:
    """Seconds of leverage scores, and of the features and the matrix of the drawn rows."""
    scores = n * D * (costs.byte_pass + (SKETCH - 1) * costs.byte_column) / 2
    return scores + LEVERAGE_ROWS * D**2 * (costs.feature + D * costs.gram) + D**3 / 2 * costs.product


def _sample_seconds(D: int, costs: Costs) -> float:
    """Seconds of the matrix of the preconditioner's rows."""
    if D <= GRAM_LIMIT:
        return 4 * D**3 * costs.gram + 4 / 3 * D**3 * costs.reduction
    return sampled_rows(D) ** 2 * D * costs.gram


def _factor_seconds(D: int, costs: Costs) -> float:
    """Seconds of the preconditioner's factors for a ridge penalty."""
    return 0.0 if D <= GRAM_LIMIT else sampled_rows(D) ** 3 / 2 * costs.product


def _step_seconds(rows: int, D: int, columns: int, size: ProblemSize, costs: Costs) -> float:
    """Seconds of an iteration for several right-hand sides at once."""
    entry = costs.float_pass + (columns - 1) * costs.float_column
    entry *= costs.double if size.double else 1.0
    if rows * D > PACKED_ENTRIES:
        entry = costs.byte_pass + (columns - 1) * costs.byte_column
    m = D if D <= GRAM_LIMIT else sampled_rows(D)
    return rows * D * entry + m * (2 * D + m) * (costs.factor_entry + 5 * costs.product * (columns - 1))
