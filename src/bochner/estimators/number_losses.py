"""Other losses of numbers than the squared one, which begin at the ridge solution:
Huber's, a quantile's or Poisson's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.data.hashes import row_hashes
from bochner.design.design import Design
from bochner.estimators.loss_problem import (
    LossFit,
    LossProblem,
    LossTrial,
    WarmStart,
)
from bochner.estimators.ridge.ridge_problem import (
    RidgeProblem,
    RidgeSolution,
    StoredProblem,
    stored_problem,
)
from bochner.features.distances import median, weighted_quantile
from bochner.selection.validation import HeldOutPredictions, average
from bochner.solvers.losses import Huber, Loss, Poisson, Quantile

# Deviations up to which errors are squared: 95 % efficient for normal ones (Huber,
# 1981)
EFFICIENT = 1.345
NORMAL_MEDIAN = 0.6745  # of the size of a standard normal number
# Ratio of spreads of errors that agree; fits of one loss at the most
SETTLED_RATIO, MOST_SPREADS = 1.1, 6
ROUNDED = 0.1  # deviations within which the pinball loss is rounded off
# Of conjugate gradients in a step, at the most. The rates of counts, and so what their
# rows weigh in a step, may differ by orders of magnitude: after four iterations the
# small rates are hardly fitted at all.
ITERATIONS = 16
# Times the ridge regression's, the penalty that the search for one begins with
FIRST_PENALTY = 3.0


def fit_numbers(
    design: Design,
    fitted: RidgeSolution,
    task: RidgeProblem,
    name: str,
    quantile: float,
    y: NDArray,
    alphas: NDArray | None,
) -> LossFit:
    """The regressor by another loss.

    Parameters
    ----------
    name : {"huber", "quantile", "poisson"}
    quantile : float
    y : array of shape (n, K)
        Targets of the loss: standardised ones, or counts.
    alphas : array of shape (A,) or None
        Ridge penalties, where they are given.
    """
    stored = stored_problem(design, fitted, task)
    spread = error_spread(fitted.held_out_predictions, fitted.coef.shape[1])
    tol = 0.0 if alphas is None else task.tol
    # The mean second derivative of each output: counts bend by their rates
    bends = np.ones_like(spread)
    if name == "poisson":
        bends = np.average(y, axis=0, weights=design.source.weights)[:, np.newaxis]
    mean_bend = np.exp(np.log(bends).mean())

    def problem_of(spread: NDArray) -> LossProblem:
        # In units of a spread of errors, or of a scale of counts
        loss: Loss = Quantile(quantile, ROUNDED * spread)
        if name == "poisson":
            loss = Poisson(bends / mean_bend)
        elif name == "huber":
            loss = Huber(EFFICIENT * spread)
        return replace(_of_numbers(stored, loss, y), tol=tol, budget=task.budget)

    problem = problem_of(spread)
    begun = problem.at_ridge(fitted, stored.without, *_transform(design, problem.loss))
    alpha = FIRST_PENALTY * fitted.alpha * mean_bend
    if not problem.folds:
        return problem.fit(begun, alpha if alphas is None else float(alphas[0]))

    def searched(problem: LossProblem, start: WarmStart, alpha: float) -> LossTrial:
        if alphas is None:
            return problem.trial_searched(start, alpha)
        return problem.trial_given(start, alphas)

    trial = searched(problem, begun, alpha)
    for _ in range(MOST_SPREADS - 1):
        # The loss is in units of the spread of errors. That of the ridge regression is
        # too large where outliers have moved it, so the loss is minimised again in
        # units of its own errors, until these no longer fall.
        held_out = problem.predictions(trial.fitted)
        smaller = np.minimum(spread, error_spread(held_out, len(spread)))
        settled = (smaller > spread / SETTLED_RATIO).all()
        if name == "poisson" or settled or task.budget.is_over:
            break
        spread = smaller
        start = begun if problem.sweeps else trial.end
        other_problem = problem_of(spread)
        other = searched(other_problem, start, trial.alpha)
        # From the ridge solution on, a loss that is hardly rounded off may not be
        # minimised, as few rows bend it.
        other_held_out = other_problem.predictions(other.fitted)
        loss = other_problem.loss
        if mean_loss(loss, other_held_out) > mean_loss(loss, held_out):
            break
        problem = other_problem
        trial = other
    best = problem.fit_after(trial, begun)
    if isinstance(best.loss, Quantile):
        best = _shifted(best, with_shift(best.loss, best.held_out_predictions))
    return best


def fit_numbers_again(
    design: Design,
    fitted: RidgeSolution,
    task: RidgeProblem,
    loss: Loss,
    alpha: float,
    n_steps: int,
    y: NDArray,
) -> LossFit:
    """The regressor for other rows, with all that was chosen."""
    stored = stored_problem(design, fitted, task)._replace(folds=[])
    problem = _of_numbers(stored, loss, y)
    begun = problem.at_ridge(fitted, [], *_transform(design, loss))
    loss_fit = problem.fit(begun, alpha, n_steps)
    return _shifted(loss_fit, loss) if isinstance(loss, Quantile) else loss_fit


def mean_loss(loss: Loss, held_out: HeldOutPredictions) -> float:
    """The mean loss of rows held out."""
    losses = loss.value(held_out.targets.T, held_out.predicted.T)
    return average(losses, held_out.weight)


def with_shift(loss: Quantile, held_out: HeldOutPredictions | None) -> Quantile:
    """The loss with the least shift of fitted values by which the share of the rows
    held out that lie below them is q, within a standard error.

    Fits of many features adapt to their rows: where 90 % of these lie below a fitted
    quantile, only 80 % of new rows may. Where targets end sharply, as at zero, the
    rounding of the loss moves small quantiles across the end.
    """
    if held_out is None:
        return loss
    group = held_out.group
    if group is None and held_out.X is not None:
        # A copy of a row is no evidence of its own
        hashes = row_hashes(held_out.X), row_hashes(held_out.targets)
        group = np.unique(np.column_stack(hashes), axis=0, return_inverse=True)[1]
    share = held_out.weight / held_out.weight.sum()
    if group is not None:
        share = np.bincount(group, share)
    error = np.sqrt(loss.q * (1 - loss.q) * np.square(share).sum())
    ends = [
        [
            weighted_quantile(errors, held_out.weight, level)
            if 0 < level < 1
            else np.copysign(np.inf, level - loss.q)
            for errors in (held_out.targets - held_out.predicted).T
        ]
        for level in (loss.q - error, loss.q + error)
    ]
    low, high = np.array(ends)
    return replace(loss, shift=np.clip(0.0, low, high))


def _shifted(loss_fit: LossFit, loss: Quantile) -> LossFit:
    """A fit with the shift of its loss."""
    held_out = loss_fit.held_out_predictions
    if held_out is not None:
        held_out = held_out._replace(predicted=held_out.predicted + loss.shift)
    return loss_fit._replace(
        intercept=loss_fit.intercept + loss.shift,
        loss=loss,
        held_out_predictions=held_out,
    )


def _of_numbers(stored: StoredProblem, loss: Loss, y: NDArray) -> LossProblem:
    """The problem for targets y."""
    ridge = stored.ridge
    edges = np.cumsum([0, *(len(block.y) for block in ridge.blocks)])
    blocks = [
        block._replace(y=y[a:b])
        for block, a, b in zip(ridge.blocks, edges, edges[1:], strict=False)
    ]
    problem = LossProblem(
        ridge.holding(blocks), stored.folds, loss, n_iterations=ITERATIONS
    )
    if isinstance(loss, Poisson):
        return problem
    # Those of the ridge regression have no outliers
    fences = np.concatenate([block.y for block in ridge.blocks]).T
    unavoidable = loss.value(y.T, fences) - loss.value(fences, fences)
    return replace(problem, unavoidable=unavoidable)


def error_spread(
    held_out: HeldOutPredictions | None, n_outputs: int
) -> NDArray[np.float64]:
    """Deviation of normal errors of the same median size as those of rows held out,
    (K, 1); 1 where none are known.
    """
    if held_out is None:
        return np.ones((n_outputs, 1))
    sizes = np.abs(held_out.targets - held_out.predicted).T / NORMAL_MEDIAN
    spread = np.array(
        [[median(output_sizes, held_out.weight)] for output_sizes in sizes]
    )
    return np.where(spread > 0, spread, 1.0)


def _transform(design: Design, loss: Loss) -> tuple[NDArray, NDArray | float]:
    """Slope and origin that turn predictions of the ridge regression to fitted
    values of the loss, (K, 1) and (K,).
    """
    targets: Any = design.source.targets
    if isinstance(loss, Poisson):
        return targets.scale[:, np.newaxis], targets.mean
    return np.ones((design.source.n_outputs, 1)), 0.0
