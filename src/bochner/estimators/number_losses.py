"""The loss of a regressor: Huber's, a quantile's or Poisson's, from the ridge solution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.design import Design
from bochner.estimators.reweighted import LossTask, at_ridge, fit_loss, stored
from bochner.estimators.ridge import Fitted, RidgeTask, Stage
from bochner.features.distances import median
from bochner.solvers.losses import Huber, Loss, Poisson, Quantile
from bochner.tuning.policy import POLICY

EFFICIENT = 1.345  # deviations up to which errors are squared: 95 % efficient for normal ones (Huber, 1981)
NORMAL_MEDIAN = 0.6745  # of the size of a standard normal number
ROUNDED = 0.1  # deviations within which the pinball loss is rounded off
HALF = 0.5  # mean counts that are added before logarithms
LARGEST_COUNT = 1e30


@dataclass(frozen=True)
class LogCounts:
    """Standardised logarithms of counts, more by half of their mean, of means and deviations of shape (K,)."""

    added: NDArray[np.float64]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    def __call__(self, y: NDArray) -> NDArray[np.float64]:
        """Targets of some rows, shape (b, K)."""
        return (np.log(np.maximum(y.reshape(len(y), -1), 0) + self.added) - self.mean) / self.scale


def log_counts(y: NDArray, weight: NDArray | None) -> LogCounts:
    """The logarithms with which a Poisson regression begins.

    Raises
    ------
    ValueError
        Where a count is negative, or larger than single precision holds, or all are zero.
    """
    counted = slice(None) if weight is None else weight > 0
    y, weight = y.reshape(len(y), -1)[counted], None if weight is None else weight[counted]
    if (y < 0).any():
        raise ValueError("loss='poisson' needs counts, and the target has negative values: use loss='squared'.")
    if y.max() > LARGEST_COUNT:
        raise ValueError(
            f"loss='poisson' needs counts of at most {LARGEST_COUNT:.0e}: divide the target by a constant."
        )
    mean = np.average(y, axis=0, weights=weight)
    if not (mean > 0).all():
        raise ValueError("loss='poisson' needs a count above zero, and the target has none.")
    logs = np.log(y + HALF * mean)
    centre = np.average(logs, axis=0, weights=weight)
    scale = np.sqrt(np.average(np.square(logs - centre), axis=0, weights=weight))
    return LogCounts(HALF * mean, centre, np.where(scale > 0, scale, 1.0))


class NumberFit(NamedTuple):
    """Coefficients by another loss.

    Attributes
    ----------
    coef : array of shape (D, K)
    intercept : array of shape (K,)
    loss : Loss
    alpha : float
        Of the loss.
    n_steps : int
    """

    coef: NDArray
    intercept: NDArray
    loss: Loss
    alpha: float
    n_steps: int


def fit_numbers(
    design: Design, fitted: Fitted, task: RidgeTask, name: str, quantile: float, y: NDArray, given: NDArray | None
) -> NumberFit:
    """The regressor by another loss.

    Parameters
    ----------
    name : {"huber", "quantile", "poisson"}
    quantile : float
    y : array of shape (n, K)
        Targets of the loss: standardised ones, or counts.
    given : array of shape (A,) or None
        Ridge terms, where they are given.
    """
    stage = _aimed(stored(design, fitted, task), y)
    loss = number_loss(name, quantile, fitted)
    begun = at_ridge(stage, fitted, *_transform(design, name))
    means = _means(stage, loss)
    if given is not None:
        wanted = LossTask(loss, tuple(given), task.tol)
    else:
        penalties = tuple(np.array(POLICY.number_shares) * fitted.alpha * means.mean())
        wanted = LossTask(loss, penalties, relative=means / means.mean())
    found = fit_loss(stage, wanted, [begun], calibrated=False)
    return NumberFit(found.coef, found.intercept, loss, found.penalty, found.n_steps)


def fit_again(
    design: Design, fitted: Fitted, task: RidgeTask, loss: Loss, alpha: float, n_steps: int, y: NDArray
) -> NumberFit:
    """The regressor for other rows, with all that was chosen."""
    stage = _aimed(stored(design, fitted, task), y)._replace(masks=[], without=[])
    begun = at_ridge(stage, fitted, *_transform(design, "poisson" if isinstance(loss, Poisson) else "huber"))
    means = _means(stage, loss)
    wanted = LossTask(loss, (alpha,), n_steps=n_steps, relative=means / means.mean())
    found = fit_loss(stage, wanted, [begun], calibrated=False)
    return NumberFit(found.coef, found.intercept, loss, alpha, n_steps)


def number_loss(name: str, quantile: float, fitted: Fitted) -> Loss:
    """The loss of a name, in units of the spread of the ridge regression's errors for single rows held out."""
    if name == "poisson":
        return Poisson()
    seen, spread = fitted.held_out_predictions, np.ones((fitted.coef.shape[1], 1))
    if seen is not None:
        sizes = np.abs(seen.targets - seen.predicted).T / NORMAL_MEDIAN
        spread = np.array([[median(own, seen.weight)] for own in sizes])
    spread = np.where(spread > 0, spread, 1.0)
    return Huber(EFFICIENT * spread) if name == "huber" else Quantile(quantile, ROUNDED * spread)


def _means(stage: Stage, loss: Loss) -> NDArray[np.float64]:
    """Weighted mean second derivatives of the outputs, shape (K, 1): mean counts, or one."""
    if not isinstance(loss, Poisson):
        return np.ones((stage.ridge.design.source.n_outputs, 1))
    y = np.concatenate([block.y for block in stage.ridge.blocks])
    weight = np.concatenate([block.weight for block in stage.ridge.blocks])
    return np.average(y, axis=0, weights=weight)[:, np.newaxis].astype(np.float64)


def _transform(design: Design, name: str) -> tuple[NDArray, NDArray | float]:
    """Slope and origin that turn predictions of the ridge regression to fitted values of the loss, (K, 1) and (K,)."""
    targets: Any = design.source.targets
    if name == "poisson":
        return targets.scale[:, np.newaxis], targets.mean
    return np.ones((design.source.n_outputs, 1)), 0.0


def _aimed(stage: Stage, y: NDArray) -> Stage:
    """The same rows with other targets."""
    edges = np.cumsum([0, *(len(block.y) for block in stage.ridge.blocks)])
    blocks = [block._replace(y=y[a:b]) for block, a, b in zip(stage.ridge.blocks, edges, edges[1:], strict=False)]
    return stage._replace(ridge=stage.ridge.holding(blocks))
