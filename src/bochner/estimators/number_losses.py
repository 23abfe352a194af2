"""Other losses of numbers than the squared one, which begin at the ridge solution:
Huber's, a quantile's or Poisson's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.design.design import Design
from bochner.estimators.loss_problem import LossFit, LossProblem
from bochner.estimators.ridge.ridge_problem import (
    RidgeProblem,
    RidgeSolution,
    StoredProblem,
    stored_problem,
)
from bochner.features.distances import median
from bochner.selection.validation import HeldOutPredictions
from bochner.solvers.losses import Huber, Loss, Poisson, Quantile

# Deviations up to which errors are squared: 95 % efficient for normal ones (Huber,
# 1981)
EFFICIENT = 1.345
NORMAL_MEDIAN = 0.6745  # of the size of a standard normal number
# Ratio of spreads of errors that agree; fits of one loss at the most
SETTLED_RATIO, MOST_SPREADS = 1.1, 6
ROUNDED = 0.1  # deviations within which the pinball loss is rounded off
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
    for _ in range(MOST_SPREADS):
        loss = number_loss(name, quantile, spread)
        problem, mean = _of_numbers(stored, loss, y)
        problem = replace(problem, budget=task.budget)
        begun = problem.at_ridge(fitted, stored.without, *_transform(design, loss))
        if alphas is not None:
            problem = replace(problem, tol=task.tol, relative=1.0)
            loss_fit = problem.fit_given(begun, alphas)
        else:
            first = FIRST_PENALTY * fitted.alpha * mean
            loss_fit = problem.fit_searched(begun, first)
        # The loss is in units of the spread of errors. That of the ridge regression is
        # too large where outliers have moved it, so the loss is minimised again in
        # units of its own errors, until these no longer fall.
        before = spread
        spread = np.minimum(
            spread, error_spread(loss_fit.held_out_predictions, len(spread))
        )
        settled = (spread > before / SETTLED_RATIO).all()
        if (
            name == "poisson"
            or loss_fit.held_out_predictions is None
            or settled
            or task.budget.is_over
        ):
            break
    return loss_fit


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
    problem, _ = _of_numbers(stored, loss, y)
    begun = problem.at_ridge(fitted, [], *_transform(design, loss))
    return problem.fit(begun, alpha, n_steps)


def _of_numbers(
    stored: StoredProblem, loss: Loss, y: NDArray
) -> tuple[LossProblem, float]:
    """The problem for targets y, and the mean second derivative, over which
    penalties are of those of each output.
    """
    ridge = stored.ridge
    edges = np.cumsum([0, *(len(block.y) for block in ridge.blocks)])
    blocks = [
        block._replace(y=y[a:b])
        for block, a, b in zip(ridge.blocks, edges, edges[1:], strict=False)
    ]
    means = np.ones((ridge.design.source.n_outputs, 1))
    if isinstance(loss, Poisson):
        weights = ridge.design.source.weights
        means = np.average(y, axis=0, weights=weights)[:, np.newaxis]
    return LossProblem(
        ridge.holding(blocks), stored.folds, loss, relative=means / means.mean()
    ), means.mean()


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


def number_loss(name: str, quantile: float, spread: NDArray[np.float64]) -> Loss:
    """The loss of a name, in units of a spread of errors, (K, 1)."""
    if name == "poisson":
        return Poisson()
    if name == "huber":
        return Huber(EFFICIENT * spread)
    return Quantile(quantile, ROUNDED * spread)


def _transform(design: Design, loss: Loss) -> tuple[NDArray, NDArray | float]:
    """Slope and origin that turn predictions of the ridge regression to fitted
    values of the loss, (K, 1) and (K,).
    """
    targets: Any = design.source.targets
    if isinstance(loss, Poisson):
        return targets.scale[:, np.newaxis], targets.mean
    return np.ones((design.source.n_outputs, 1)), 0.0
