"""Ridge regression by the kernel matrix of rows, with the exact kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bochner.blocks import SAMPLE_ROWS
from bochner.data.array_source import ArraySource
from bochner.data.weights import draw_rows
from bochner.design.design import Design
from bochner.estimators.ridge.direct import (
    LEFT_OUT,
    n_evaluated,
    solve_directly,
)
from bochner.estimators.ridge.out_of_sample import (
    Influence,
    LinearPredictor,
    OutOfSample,
    UnseenRows,
    distinct_numbers,
)
from bochner.estimators.ridge.ridge_problem import (
    RidgeProblem,
    RidgeSolution,
    choose_penalty_by,
)
from bochner.features.nystroem import exact_map
from bochner.selection.policy import POLICY
from bochner.selection.validation import HeldOutPredictions
from bochner.solvers.factors import (
    DualLeaveOneOut,
    KernelFactor,
    errors_of_parts,
)
from bochner.solvers.kernel_matrix import centred_kernel, solve_exact
from bochner.solvers.line_search import Score

# Of an exact machine, whose leave-one-out errors choose the ridge penalty
EXACT_ROWS = 2048


def solve_exactly(design: Design, problem: RidgeProblem) -> RidgeSolution:
    """Solve by the kernel matrix of all rows; its map has exact kernel values as
    features.

    What is open is chosen on all distinct rows, or 2,048 of more, by the leave-one-out
    errors of an exact machine of those rows: like the variance of noise, which it
    stands for, it is no matter of the number of rows. Of 2,048 and less "gcv" is what
    it says.
    """
    counted = design.counted()
    needs = problem.needs
    source = counted.source.distinct()
    distinct = source.whole()
    X, y, weight = distinct
    features = exact_map(design.features).fit(X)
    # The ridge penalty, those that are tried, and their scores
    alphas = problem.alphas
    scores = None
    if problem.is_open:
        rows, factors = draw_rows(
            weight, EXACT_ROWS, np.random.default_rng(problem.seed)
        )
        sample = source.take(rows).whole()
        values = Design(source, exact_map(counted.features).fit(sample.X)).dense
        factor = KernelFactor(
            centred_kernel(values, sample.X, sample.weight),
            sample.y,
            sample.weight,
            problem.n_alphas,
        )
        score: Score = DualLeaveOneOut(factor, sample.weight * factors)
        if problem.criterion == "gcv" and len(rows) == source.n_rows:
            factor.merge(counted)
            score = factor.gcv
        alpha, alphas, scores = choose_penalty_by(score, alphas, factor)
    else:
        assert alphas is not None
        alpha = float(alphas[0])
    scored = evaluated = None
    if needs.out_of_sample:
        scored, factors = _drawn_rows(design, source, problem, SAMPLE_ROWS)
    few = n_evaluated(len(y), len(y), problem)
    if few:
        fewest = POLICY.fewest_evaluated
        evaluated, counts = _drawn_rows(design, source, problem, few, fewest)
    solution = solve_exact(
        Design(source, features, design.dtype).dense,
        distinct,
        alpha,
        problem.tol,
        problem.seed,
        scored,
        evaluated,
    )
    predictions = calibration = unseen = None
    if scored is not None and solution.errors is not None:
        if needs.observations:
            # Of the observations that some of the distinct rows stand for
            observed = OutOfSample.of(design.source, problem.seed, problem.held_out)
            observed = observed.all_calibrating() if observed.few else observed
            errors = np.full(y.shape, np.nan)
            one_minus_leverage = np.ones(len(y))
            factor_of_row = np.ones(len(y))
            errors[scored] = solution.errors
            one_minus_leverage[scored] = solution.one_minus_leverage
            factor_of_row[scored] = factors
            number = distinct_numbers(design.source)[observed.row]
            predicted = observed.targets - errors_of_parts(
                errors[number],
                one_minus_leverage[number],
                observed.targets - y[number],
                observed.weight / weight[number],
            )
            calibration = replace(observed, predicted=predicted)
            seen = np.flatnonzero(calibration.seen)
            predictions = calibration.held_out(
                seen, predicted[seen], factor_of_row[number[seen]]
            )
        else:
            targets = y[scored]
            predictions = HeldOutPredictions(
                targets - solution.errors, targets, weight[scored] * factors, X[scored]
            )
    elif scored is not None and design.features.is_dense:
        same = replace(problem, alpha=alpha, needs=needs._replace(error_scale=False))
        predictions = solve_directly(design, same).held_out_predictions
    if evaluated is not None and solution.influence is not None:
        counted_weight = weight[evaluated] * counts
        unseen_rows = ArraySource(X[evaluated], y[evaluated], counted_weight)
        unseen = UnseenRows(
            Design(unseen_rows, features, design.dtype),
            [LinearPredictor(solution.coef, solution.intercept)],
            np.zeros(len(evaluated), np.intp),
            Influence(*solution.influence),
            LEFT_OUT,
        )
    return RidgeSolution(
        features,
        solution.coef,
        solution.intercept,
        alpha,
        alphas,
        scores,
        predictions,
        solution.n_iter,
        solution.residual,
        calibration if needs.error_scale else None,
        unseen=unseen,
    )


def _drawn_rows(
    design: Design,
    distinct: ArraySource,
    problem: RidgeProblem,
    size: int,
    fewest: int = SAMPLE_ROWS // 2,
) -> tuple[NDArray, NDArray | float]:
    """Some distinct rows, of validation rows if these are not too few, and factors
    on their weights.
    """
    among = np.arange(distinct.n_rows)
    validating = problem.validating(design.source, fewest)
    if validating is not design.source:
        hashes = validating.row_hashes()
        row_numbers = np.flatnonzero(np.isin(distinct.row_hashes(), hashes))
        among = row_numbers if len(row_numbers) else among
    chosen, factors = draw_rows(
        distinct.weights[among], size, np.random.default_rng(problem.seed)
    )
    return among[chosen], factors
