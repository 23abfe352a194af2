"""Other losses than the squared one: Newton's method on the features of a ridge regression.

It begins at the ridge solution, or at the minimum for the columns alone where these are the last part of the features.
The rows that are held out tell which is better, and how many steps to take: as in ridge regression on bins, to stop
early regularises.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.design import Design
from bochner.estimators.ridge import Fitted, RidgeTask, Stage
from bochner.features.base import DenseFeatureMap
from bochner.features.stored import StoredRows
from bochner.solvers.factors import factorise
from bochner.solvers.iterative import IterativeRidge, Without
from bochner.solvers.losses import Loss
from bochner.solvers.newton import NewtonSolution, Reweighted, minimise, precondition
from bochner.tuning.held_out import HeldOutPredictions, LeftOut
from bochner.tuning.policy import POLICY
from bochner.tuning.split import folds, rows_held_out
from bochner.tuning.trace import average


class Point(NamedTuple):
    """Coefficients, shape (K, D), and offsets for features as they are stored, shape (K,)."""

    coef: NDArray
    offset: NDArray


@dataclass(frozen=True)
class Beginning:
    """Where to begin.

    Attributes
    ----------
    name : {"ridge", "columns"}
    whole : Point
        On all rows.
    without : list of Point
        Without the rows of each set that is held out.
    """

    name: str
    whole: Point
    without: list[Point]


@dataclass(frozen=True)
class LossTask:
    """What is to be minimised.

    Attributes
    ----------
    loss : Loss
    penalties : tuple of float
        Ridge terms to try, twice what they add to the loss times the squares of the coefficients.
    tol : float
        Relative error at which to stop; zero where rows held out tell the steps.
    n_steps : int or None
        Steps that served an earlier fit of the same model.
    relative : array of shape (K, 1) or float
        Factors on the ridge terms, for each output.
    """

    loss: Loss
    penalties: tuple[float, ...]
    tol: float = 0.0
    n_steps: int | None = None
    relative: NDArray | float = 1.0


class LossFit(NamedTuple):
    """Coefficients by another loss.

    Attributes
    ----------
    coef : array of shape (D, K)
    intercept : array of shape (K,)
    penalty : float
    beginning : {"ridge", "columns"}
    n_steps, n_iter : int
        Of Newton's method, and of conjugate gradients in them.
    held_out_predictions : HeldOutPredictions or None
    fitted : list of pairs of arrays of shape (K, n)
        Targets and fitted values of the rows, block by block.
    """

    coef: NDArray
    intercept: NDArray
    penalty: float
    beginning: str
    n_steps: int
    n_iter: int
    held_out_predictions: HeldOutPredictions | None
    fitted: list[tuple[NDArray, NDArray]]


class _Trial(NamedTuple):
    """A beginning and a ridge term, the steps that were best for the rows held out, their loss and fitted values."""

    beginning: Beginning
    penalty: float
    n_steps: int
    loss: float
    fitted: list[NDArray]


def stored(design: Design, fitted: Fitted, task: RidgeTask) -> Stage:
    """The features of a ridge solution, and the rows that are held out.

    Raises
    ------
    MemoryError
        Where the features do not fit in memory.
    """
    if fitted.stage is not None:
        return fitted.stage
    ridge = IterativeRidge(Design(design.source, fitted.features, design.dtype), task.seed)
    if not isinstance(ridge.blocks, list):
        raise MemoryError("The features do not fit in memory: use loss='squared', or a smaller n_components.")
    source, masks = design.source, sets_held_out(design, task)
    kept = [Design(source.take(np.flatnonzero(~mask)), fitted.features, design.dtype) for mask in masks]
    return Stage(ridge, masks, [factorise(one, 1).coef(fitted.alpha).T for one in kept])


def sets_held_out(design: Design, task: RidgeTask) -> list[NDArray[np.bool_]]:
    """Sets of rows to hold out, each of shape (n,): those of the choices, or a fifth, or five folds of few rows."""
    weights, hashes = design.source.weights, design.row_hashes
    if task.held_out is not None:
        masks = [task.held_out]
    elif design.source.n_counted <= POLICY.folded_rows:
        masks = folds(hashes, weights, task.seed)
    else:
        masks = [rows_held_out(hashes, weights, task.seed)]
    return [mask for mask in masks if mask.any() and not mask[weights > 0].all()]


def with_columns(stage: Stage, part: DenseFeatureMap, weight: float) -> Stage:
    """The features with the columns beside them, fitted already, of the given weight."""
    return stage._replace(ridge=stage.ridge.beside(part, weight))


def at_ridge(stage: Stage, fitted: Fitted, slope: NDArray | float = 1.0, origin: NDArray | float = 0.0) -> Beginning:
    """A multiple of the ridge solution; features beside its own begin with coefficients of zero.

    What is held out hardly moves the mean, so that the offset of all rows serves everywhere.

    Parameters
    ----------
    slope : float or array of shape (K, 1)
    origin : float or array of shape (K,)
        Added.
    """
    ridge, K = stage.ridge, fitted.coef.shape[1]

    def widened(coef: NDArray) -> NDArray:
        return np.pad(slope * coef, ((0, 0), (0, int(ridge.edges[-1]) - coef.shape[1])))

    whole = widened(fitted.coef.T)
    offset = ridge.centred(whole, np.ravel(slope) * fitted.intercept) + np.broadcast_to(origin, K)
    without = [Point(widened(coef), offset) for coef in stage.without or []]
    return Beginning("ridge", Point(whole, offset), without)


def at_columns(stage: Stage, loss: Loss, tol: float) -> Beginning:
    """The minimum for the last part of the features alone, which are the columns; of many rows some are enough."""
    ridge, part, source = stage.ridge, stage.ridge.maps[-1], stage.ridge.design.source
    rows = some_rows(source.n_rows, POLICY.most_begun, ridge.seed)
    alone = IterativeRidge(Design(source.take(rows), part, ridge.design.dtype), ridge.seed)

    def point(blocks: Iterable[StoredRows]) -> Point:
        found = linear_minimum(alone, blocks, loss, tol)
        coef = np.zeros((len(found.coef), int(ridge.edges[-1])))
        coef[:, ridge.edges[-2] :] = found.coef / ridge.scales[-1]
        return Point(coef, ridge.centred(coef, alone.uncentred(*found)))

    without = [point(Without(alone.blocks, ~mask[rows])) for mask in stage.masks]
    return Beginning("columns", point(alone.blocks), without)


def some_rows(n_rows: int, most: int, seed: int) -> NDArray[np.intp]:
    """Numbers of the rows, or of as many as there may be, ascending."""
    return np.sort(np.random.default_rng(seed).permutation(n_rows)[:most])


def linear_minimum(
    ridge: IterativeRidge,
    blocks: Iterable[StoredRows],
    loss: Loss,
    tol: float,
    most_steps: int = POLICY.most_iterations,
    most: int = POLICY.most_iterations,
) -> Point:
    """The minimum for standardised columns, on some of the rows, by so many steps of so many iterations at the most."""
    K = ridge.design.source.n_outputs
    none, penalty = np.zeros((K, int(ridge.edges[-1]))), np.full((K, 1), POLICY.linear_penalty)
    problem = Reweighted(blocks, loss, penalty, none, np.zeros(K), ridge.dtype)
    found = minimise(problem, partial(precondition, ridge), tol, most_steps, most)
    return Point(found.coef, found.offset)


def fit_loss(stage: Stage, wanted: LossTask, beginnings: list[Beginning], calibrated: bool) -> LossFit:
    """Minimise a loss.

    Parameters
    ----------
    stage : Stage
    wanted : LossTask
    beginnings : list of Beginning
    calibrated : bool
        Whether fitted values of rows that are held out are wanted in any case.
    """
    ridge, chosen = stage.ridge, None
    if stage.masks and wanted.n_steps is None and (calibrated or not wanted.tol):
        trials = [_try(stage, wanted, one, penalty) for one in beginnings for penalty in wanted.penalties]
        chosen = min(trials, key=lambda trial: trial.loss)
    start, penalty, n_steps = beginnings[0], wanted.penalties[0], wanted.n_steps
    if chosen is not None:
        start, penalty, n_steps = chosen[:3]
    if wanted.tol or n_steps is None:
        n_steps = POLICY.newton_steps
    problem = _problem(ridge, ridge.blocks, wanted, penalty, start.whole)
    found = _minimise(ridge, problem, wanted.tol, n_steps)
    coef, intercept = found.coef.T.astype(ridge.design.dtype), ridge.uncentred(found.coef, found.offset)
    predictions = None if chosen is None else held_out_predictions(stage, chosen.fitted)
    way = penalty, start.name, found.n_steps, found.n_iter
    fitted = [(rows.Y, rows.F) for rows in problem.rows]
    return LossFit(np.ascontiguousarray(coef), intercept, *way, predictions, fitted)


def mean_loss(seen: HeldOutPredictions, loss: Loss) -> float:
    """Mean loss of fitted values of rows held out."""
    return average(loss.value(seen.targets.T, seen.predicted.T), seen.weight)


def held_out_at(stage: Stage, beginning: Beginning, loss: Loss) -> HeldOutPredictions:
    """Fitted values of the rows held out before any step, with their targets and weights."""
    traces = []
    for mask, point in zip(stage.masks, beginning.without, strict=True):
        blocks = Without(stage.ridge.blocks, ~mask)
        traces.append(_Trace(_problem(stage.ridge, blocks, LossTask(loss, ()), 0.0, point), stage, mask))
    return held_out_predictions(stage, [trace.fitted[0] for trace in traces])


def held_out_predictions(stage: Stage, fitted: list[NDArray]) -> HeldOutPredictions:
    """Fitted values of all rows held out, (K, m) for each set, with their targets and weights."""
    y = np.concatenate([block.y for block in stage.ridge.blocks])
    weight = np.concatenate([block.weight for block in stage.ridge.blocks])
    predicted = np.concatenate(fitted, axis=1).T.astype(np.float64)
    rows = np.concatenate([np.flatnonzero(mask) for mask in stage.masks])
    X = stage.ridge.design.source.take(rows).whole().X
    return HeldOutPredictions(predicted, y[rows], weight[rows], LeftOut(X, weight[rows]))


def _try(stage: Stage, wanted: LossTask, beginning: Beginning, penalty: float) -> _Trial:
    """Fit without the rows of each set, and find the steps, none perhaps, that are best for them."""
    traces = []
    for mask, point in zip(stage.masks, beginning.without, strict=True):
        problem = _problem(stage.ridge, Without(stage.ridge.blocks, ~mask), wanted, penalty, point)
        trace = _Trace(problem, stage, mask)
        _minimise(stage.ridge, problem, wanted.tol, POLICY.newton_steps, trace)
        traces.append(trace)
    length = max(len(trace.losses) for trace in traces)
    curves = [np.pad(trace.losses, (0, length - len(trace.losses)), "edge") for trace in traces]
    mean = np.average(curves, axis=0, weights=[trace.weight.sum() for trace in traces])
    best = length - 1 if wanted.tol else int(np.argmin(mean))
    fitted = [trace.fitted[min(best, len(trace.fitted) - 1)] for trace in traces]
    return _Trial(beginning, penalty, best, float(mean[best]), fitted)


class _Trace:
    """Losses of rows held out before the first step and after each, and their fitted values, (K, m).

    Parameters
    ----------
    problem : Reweighted
        Before the first step.
    stage : Stage
    mask : bool array of shape (n,)
    """

    def __init__(self, problem: Reweighted, stage: Stage, mask: NDArray) -> None:
        edges = np.cumsum([0, *(rows.Y.shape[1] for rows in problem.rows)])
        self.masks, self.weight = [mask[a:b] for a, b in pairwise(edges)], stage.ridge.design.source.weights[mask]
        self.losses, self.fitted = list[float](), list[NDArray]()
        self(problem, 0)

    def __call__(self, problem: Reweighted, n_steps: int) -> bool:
        """Judge; whether the last step brought nothing worthwhile."""
        Y, F = (
            np.concatenate([part[:, own] for part, own in zip(parts, self.masks, strict=True)], axis=1)
            for parts in ([rows.Y for rows in problem.rows], [rows.F for rows in problem.rows])
        )
        self.fitted.append(F)
        self.losses.append(average(problem.loss.value(Y, F), self.weight))
        return n_steps > 1 and self.losses[-2] - self.losses[-1] <= POLICY.worthwhile * abs(self.losses[-1])


def _problem(
    ridge: IterativeRidge, blocks: Iterable[StoredRows], wanted: LossTask, penalty: float, at: Point
) -> Reweighted:
    """The loss with a ridge term."""
    penalties = np.full((len(at.coef), 1), penalty) * wanted.relative
    return Reweighted(blocks, wanted.loss, penalties, at.coef, at.offset, ridge.dtype)


def _minimise(
    ridge: IterativeRidge, problem: Reweighted, tol: float, n_steps: int, trace: _Trace | None = None
) -> NewtonSolution:
    """To a tolerance, or for so many steps of a few iterations each; `trace` may stop the latter."""
    iterations = POLICY.most_iterations if tol else POLICY.newton_iterations
    look = (lambda problem, n_steps: False) if trace is None or tol else trace
    steps = POLICY.most_iterations if tol else n_steps
    found = minimise(problem, partial(precondition, ridge), tol, steps, iterations, look)
    if trace is not None and tol:
        trace(problem, found.n_steps)
    return found
