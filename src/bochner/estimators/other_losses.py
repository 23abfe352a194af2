"""Other losses than the squared one: Newton's method on the features of a ridge regression.

It begins at the ridge solution, or at the minimum for the columns alone where these are the last part of the features.
The rows that are held out tell which is better, and how many steps to take: as in ridge regression on bins, to stop
early regularises. Numbers have Huber's, a quantile's or Poisson's loss; classes the logistic or squared hinge loss, as
given, or where it is clearly better for the rows held out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bochner.design.design import Design
from bochner.estimators.calibration import LARGEST_SCORE, by_class, fit_temperature, link_of, log_losses, probabilities
from bochner.estimators.ridge.ridge_problem import RidgeProblem, RidgeSolution, StoredProblem
from bochner.features import LinearFeatures
from bochner.features.base import FeatureMap
from bochner.features.distances import median
from bochner.features.stored import StoredRows
from bochner.selection.budget import Budget
from bochner.selection.lengthscale import class_shares
from bochner.selection.policy import POLICY
from bochner.selection.validation import HeldOutPredictions, LeftOut, average, mean_and_error, sets_held_out
from bochner.solvers.factors import factorise
from bochner.solvers.iterative import IterativeRidge, Without
from bochner.solvers.losses import Huber, Logistic, Loss, Multinomial, Poisson, Quantile, SquaredHinge
from bochner.solvers.newton import NewtonSolution, Reweighted, minimise, precondition

EFFICIENT = 1.345  # deviations up to which errors are squared: 95 % efficient for normal ones (Huber, 1981)
NORMAL_MEDIAN = 0.6745  # of the size of a standard normal number
ROUNDED = 0.1  # deviations within which the pinball loss is rounded off
HALF = 0.5  # mean counts that are added before logarithms
LARGEST_COUNT = 1e30
SEPARATED = "the features separate the classes, and only the ridge penalty keeps the scores finite"
LEAST_CURVATURE = 1e-6  # of the logistic loss, where one row of a large weight makes all others sure
USUAL_SLOPE = 2.0  # of the logit by a score, where no rows tell it

Point: TypeAlias = tuple[NDArray, NDArray]  # coefficients, (K, D), and offsets for features as they are stored, (K,)


class WarmStart(NamedTuple):
    """Where to begin: "ridge" or "columns"; the point on all rows, and then that without each set held out."""

    name: str
    points: list[Point]


class LossFit(NamedTuple):
    """Coefficients by another loss.

    Attributes
    ----------
    coef : array of shape (D, K)
    intercept : array of shape (K,)
    loss : Loss
    alpha : float
        The ridge penalty.
    start : {"ridge", "columns"}
    n_steps : int
        Of Newton's method.
    held_out_predictions : HeldOutPredictions or None
    fitted : list of pairs of arrays of shape (K, n)
        Targets and fitted values of the rows, block by block.
    """

    coef: NDArray
    intercept: NDArray
    loss: Loss
    alpha: float
    start: str
    n_steps: int
    held_out_predictions: HeldOutPredictions | None
    fitted: list[tuple[NDArray, NDArray]]


class _Trial(NamedTuple):
    """A start and a ridge penalty, the steps that were best for the rows held out, their loss and fitted values."""

    start: WarmStart
    alpha: float
    n_steps: int
    loss: float
    fitted: list[NDArray]


@dataclass(frozen=True)
class LossProblem:
    """Another loss on the stored features of a ridge regression.

    Attributes
    ----------
    ridge : IterativeRidge
    masks : list of bool arrays of shape (n,)
        Rows that are held out, a set at a time.
    loss : Loss
    tol : float
        Relative error at which to stop; zero where rows held out tell the steps.
    relative : array of shape (K, 1) or float
        Factors on the ridge penalties, for each output.
    budget : Budget
        Of the time for it: steps and trials end with it.
    """

    ridge: IterativeRidge
    masks: list[NDArray[np.bool_]]
    loss: Loss
    tol: float = 0.0
    relative: NDArray | float = 1.0
    budget: Budget = field(default_factory=Budget)

    def at_ridge(
        self,
        fitted: RidgeSolution,
        without: Sequence[NDArray] | None,
        slope: NDArray | float = 1.0,
        origin: NDArray | float = 0.0,
    ) -> WarmStart:
        """A multiple of the ridge solution; features beside its own begin with coefficients of zero.

        What is held out hardly moves the mean, so that the offset of all rows serves everywhere.

        Parameters
        ----------
        without : list of arrays of shape (K, D) or None
            Coefficients without each set.
        slope : float or array of shape (K, 1)
        origin : float or array of shape (K,)
            Added.
        """
        K = fitted.coef.shape[1]

        def widened(coef: NDArray) -> NDArray:
            return np.pad(slope * coef, ((0, 0), (0, int(self.ridge.edges[-1]) - coef.shape[1])))

        whole = widened(fitted.coef.T)
        offset = self.ridge.centred(whole, np.ravel(slope) * fitted.intercept) + np.broadcast_to(origin, K)
        return WarmStart("ridge", [(whole, offset), *((widened(coef), offset) for coef in without or [])])

    def at_columns(self, tol: float) -> WarmStart:
        """The minimum for the last part of the features alone, which are the columns; of many rows some are enough."""
        ridge, source = self.ridge, self.ridge.design.source
        rows = some_rows(source.n_rows, POLICY.most_begun, ridge.seed)
        alone = IterativeRidge(Design(source.take(rows), ridge.maps[-1], ridge.design.dtype), ridge.seed)
        points = []
        for blocks in (alone.blocks, *(Without(alone.blocks, ~mask[rows]) for mask in self.masks)):
            of_columns, offset = linear_minimum(alone, blocks, self.loss, tol, is_late=self.late(POLICY.begun_share))
            coef = np.zeros((len(of_columns), int(ridge.edges[-1])))
            coef[:, ridge.edges[-2] :] = of_columns / ridge.scales[-1]
            points.append((coef, ridge.centred(coef, alone.uncentred(of_columns, offset))))
        return WarmStart("columns", points)

    def fit(
        self, starts: list[WarmStart], alphas: Sequence[float], n_steps: int | None = None, validated: bool = False
    ) -> LossFit:
        """Minimise the loss.

        Parameters
        ----------
        starts : list of WarmStart
        alphas : sequence of float
            Ridge penalties to try, twice what they add to the loss times the squares of the coefficients.
        n_steps : int, optional
            Steps that served an earlier fit of the same model.
        validated : bool, default=False
            Whether fitted values of rows that are held out are wanted in any case.
        """
        ridge, start, alpha, predictions = self.ridge, starts[0], alphas[0], None
        if self.masks and n_steps is None and (validated or not self.tol):
            best = min(self._trials(starts, alphas), key=lambda trial: trial.loss)
            start, alpha, n_steps = best[:3]
            predictions = self.predictions(best.fitted)
        if self.tol or n_steps is None:
            n_steps = POLICY.newton_steps
        problem = self._problem(start.points[0], alpha)
        found = self._minimise(problem, n_steps)
        coef, intercept = found.coef.T.astype(ridge.design.dtype), ridge.uncentred(found.coef, found.offset)
        fitted = [(rows.Y, rows.F) for rows in problem.rows]
        way = self.loss, alpha, start.name, found.n_steps
        return LossFit(np.ascontiguousarray(coef), intercept, *way, predictions, fitted)

    def mean_loss(self, seen: HeldOutPredictions) -> float:
        """Mean loss of fitted values of rows held out."""
        return average(self.loss.value(seen.targets.T, seen.predicted.T), seen.weight)

    def predictions_at(self, start: WarmStart) -> HeldOutPredictions:
        """Fitted values of the rows held out before any step, with their targets and weights."""
        pairs = zip(self.masks, start.points[1:], strict=True)
        return self.predictions(
            [_Trace(self._problem(point, 0.0, mask), self, mask).fitted[0] for mask, point in pairs]
        )

    def predictions(self, fitted: list[NDArray]) -> HeldOutPredictions:
        """Fitted values of all rows held out, (K, m) for each set, with their targets and weights."""
        y = np.concatenate([block.y for block in self.ridge.blocks])
        weight = np.concatenate([block.weight for block in self.ridge.blocks])
        predicted = np.concatenate(fitted, axis=1).T.astype(np.float64)
        rows = np.concatenate([np.flatnonzero(mask) for mask in self.masks])
        X = self.ridge.design.source.take(rows).whole().X
        return HeldOutPredictions(predicted, y[rows], weight[rows], LeftOut(X, weight[rows]))

    def late(self, share: float) -> Callable[[], bool]:
        """Whether a share of the time that is left now is over."""
        budget = self.budget.part(share)
        return lambda: budget.is_over

    def _trials(self, starts: list[WarmStart], alphas: Sequence[float]) -> list[_Trial]:
        """One of each start and ridge penalty, as far as there is time."""
        pairs, trials = [(start, alpha) for start in starts for alpha in alphas], list[_Trial]()
        whole = replace(self, budget=self.budget.part(POLICY.traced_share))
        for k, (start, alpha) in enumerate(pairs):
            if not trials or not whole.budget.is_over:
                trials.append(replace(whole, budget=whole.budget.part(1 / (len(pairs) - k)))._try(start, alpha))
        return trials

    def _try(self, start: WarmStart, alpha: float) -> _Trial:
        """Fit without the rows of each set, and find the steps, none perhaps, that are best for them."""
        traces = []
        for k, (mask, point) in enumerate(zip(self.masks, start.points[1:], strict=True)):
            problem, own = self._problem(point, alpha, mask), self.budget.part(1 / (len(self.masks) - k))
            traces.append(_Trace(problem, self, mask))
            replace(self, budget=own)._minimise(problem, POLICY.newton_steps, traces[-1])
        length = max(len(trace.losses) for trace in traces)
        curves = [np.pad(trace.losses, (0, length - len(trace.losses)), "edge") for trace in traces]
        mean = np.average(curves, axis=0, weights=[trace.weight.sum() for trace in traces])
        best = length - 1 if self.tol else int(np.argmin(mean))
        fitted = [trace.fitted[min(best, len(trace.fitted) - 1)] for trace in traces]
        return _Trial(start, alpha, best, float(mean[best]), fitted)

    def _problem(self, at: Point, alpha: float, mask: NDArray | None = None) -> Reweighted:
        """The loss with a ridge penalty, from a point on, on all rows or without those of a mask."""
        blocks = self.ridge.blocks if mask is None else Without(self.ridge.blocks, ~mask)
        penalty = np.full((len(at[0]), 1), alpha) * self.relative
        return Reweighted(blocks, self.loss, penalty, *at, self.ridge.dtype)

    def _minimise(self, problem: Reweighted, n_steps: int, trace: _Trace | None = None) -> NewtonSolution:
        """To the tolerance, or for so many steps of a few iterations each; `trace` may stop the latter."""
        inverse = partial(precondition, self.ridge)
        if not self.tol:
            look = trace or (lambda problem, n_steps: False)
            return minimise(problem, inverse, 0.0, n_steps, POLICY.newton_iterations, look, self.late(1.0))
        most = POLICY.most_iterations
        found = minimise(problem, inverse, self.tol, most, most, is_late=self.late(1.0))
        if trace is not None:
            trace(problem, found.n_steps)
        return found


class _Trace:
    """Losses of rows held out before the first step and after each, and their fitted values, (K, m).

    Parameters
    ----------
    problem : Reweighted
        Before the first step.
    of : LossProblem
    mask : bool array of shape (n,)
    """

    def __init__(self, problem: Reweighted, of: LossProblem, mask: NDArray) -> None:
        edges = np.cumsum([0, *(rows.Y.shape[1] for rows in problem.rows)])
        self.masks, self.weight = [mask[a:b] for a, b in pairwise(edges)], of.ridge.design.source.weights[mask]
        self.losses, self.fitted = list[float](), list[NDArray]()
        self(problem, 0)

    def __call__(self, problem: Reweighted, n_steps: int) -> bool:
        """Note the losses; whether the last step brought nothing worthwhile."""
        Y, F = (
            np.concatenate([part[:, own] for part, own in zip(parts, self.masks, strict=True)], axis=1)
            for parts in ([rows.Y for rows in problem.rows], [rows.F for rows in problem.rows])
        )
        self.fitted.append(F)
        self.losses.append(average(problem.loss.value(Y, F), self.weight))
        return n_steps > 1 and self.losses[-2] - self.losses[-1] <= POLICY.worthwhile * abs(self.losses[-1])


def stored_problem(design: Design, fitted: RidgeSolution, task: RidgeProblem) -> StoredProblem:
    """The features of a ridge solution, and the rows that are held out.

    Raises
    ------
    MemoryError
        Where the features do not fit in memory.
    """
    if fitted.stored is not None:
        return fitted.stored
    ridge = IterativeRidge(Design(design.source, fitted.features, design.dtype), task.seed)
    if not isinstance(ridge.blocks, list):
        raise MemoryError("The features do not fit in memory: use loss='squared', or a smaller n_components.")
    source, masks = design.source, sets_held_out(design, task.seed, task.held_out)
    kept = [Design(source.take(np.flatnonzero(~mask)), fitted.features, design.dtype) for mask in masks]
    return StoredProblem(ridge, masks, [factorise(one, 1).coef(fitted.alpha).T for one in kept])


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
    is_late: Callable[[], bool] = lambda: False,
) -> Point:
    """The minimum for standardised columns, on some of the rows, by so many steps of so many iterations at the most."""
    K = ridge.design.source.n_outputs
    none, penalty = np.zeros((K, int(ridge.edges[-1]))), np.full((K, 1), POLICY.linear_penalty)
    problem = Reweighted(blocks, loss, penalty, none, np.zeros(K), ridge.dtype)
    found = minimise(problem, partial(precondition, ridge), tol, most_steps, most, is_late=is_late)
    return found.coef, found.offset


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


def fit_numbers(
    design: Design,
    fitted: RidgeSolution,
    task: RidgeProblem,
    name: str,
    quantile: float,
    y: NDArray,
    given: NDArray | None,
) -> LossFit:
    """The regressor by another loss.

    Parameters
    ----------
    name : {"huber", "quantile", "poisson"}
    quantile : float
    y : array of shape (n, K)
        Targets of the loss: standardised ones, or counts.
    given : array of shape (A,) or None
        Ridge penalties, where they are given.
    """
    stored, loss = stored_problem(design, fitted, task), number_loss(name, quantile, fitted)
    problem, mean = _of_numbers(stored, loss, y, stored.masks)
    problem = replace(problem, budget=task.budget)
    begun = problem.at_ridge(fitted, stored.without, *_transform(design, loss))
    if given is not None:
        return replace(problem, tol=task.tol, relative=1.0).fit([begun], tuple(given))
    return problem.fit([begun], tuple(np.array(POLICY.number_shares) * fitted.alpha * mean))


def fit_numbers_again(
    design: Design, fitted: RidgeSolution, task: RidgeProblem, loss: Loss, alpha: float, n_steps: int, y: NDArray
) -> LossFit:
    """The regressor for other rows, with all that was chosen."""
    problem, _ = _of_numbers(stored_problem(design, fitted, task), loss, y, [])
    return problem.fit([problem.at_ridge(fitted, None, *_transform(design, loss))], (alpha,), n_steps)


def _of_numbers(stored: StoredProblem, loss: Loss, y: NDArray, masks: list[NDArray]) -> tuple[LossProblem, float]:
    """The problem for targets y, and the mean second derivative, over which penalties are of those of each output."""
    ridge = stored.ridge
    edges = np.cumsum([0, *(len(block.y) for block in ridge.blocks)])
    blocks = [block._replace(y=y[a:b]) for block, a, b in zip(ridge.blocks, edges, edges[1:], strict=False)]
    means = np.ones((ridge.design.source.n_outputs, 1))
    if isinstance(loss, Poisson):
        targets, weight = (
            np.concatenate(parts) for parts in zip(*((own.y, own.weight) for own in blocks), strict=True)
        )
        means = np.average(targets, axis=0, weights=weight)[:, np.newaxis].astype(np.float64)
    return LossProblem(ridge.holding(blocks), masks, loss, relative=means / means.mean()), means.mean()


def number_loss(name: str, quantile: float, fitted: RidgeSolution) -> Loss:
    """The loss of a name, in units of the spread of the ridge regression's errors for single rows held out."""
    if name == "poisson":
        return Poisson()
    seen, spread = fitted.held_out_predictions, np.ones((fitted.coef.shape[1], 1))
    if seen is not None:
        sizes = np.abs(seen.targets - seen.predicted).T / NORMAL_MEDIAN
        spread = np.array([[median(own, seen.weight)] for own in sizes])
    spread = np.where(spread > 0, spread, 1.0)
    return Huber(EFFICIENT * spread) if name == "huber" else Quantile(quantile, ROUNDED * spread)


def _transform(design: Design, loss: Loss) -> tuple[NDArray, NDArray | float]:
    """Slope and origin that turn predictions of the ridge regression to fitted values of the loss, (K, 1) and (K,)."""
    targets: Any = design.source.targets
    if isinstance(loss, Poisson):
        return targets.scale[:, np.newaxis], targets.mean
    return np.ones((design.source.n_outputs, 1)), 0.0


@dataclass(frozen=True)
class Start:
    """Where another loss began.

    Attributes
    ----------
    alpha : float
        Of the ridge regression.
    slope : float
        Factor on its solution.
    linear : bool
        Whether the last part of the features are the columns themselves, which the ridge solution had not.
    beginning : {"ridge", "columns"}
    """

    alpha: float
    slope: float = 1.0
    linear: bool = False
    beginning: str = "ridge"


class ClassFit(NamedTuple):
    """A fitted classifier.

    Attributes
    ----------
    loss : {"squared", "logistic", "squared_hinge"}
    features : FeatureMap
    coef : array of shape (D, K)
    intercept : array of shape (K,)
    link : array of shape (2,)
    alpha : float
    start : Start
    n_steps : int or None
        Of Newton's method.
    held_out_predictions : HeldOutPredictions or None
    reason : str
    """

    loss: str
    features: FeatureMap
    coef: NDArray
    intercept: NDArray
    link: NDArray
    alpha: float
    start: Start
    n_steps: int | None
    held_out_predictions: HeldOutPredictions | None
    reason: str = "as given"

    @property
    def largest(self) -> float:
        """The largest score that counts."""
        return largest_score(self.loss)


def largest_score(loss: str) -> float:
    """The largest score that counts by a loss: only the squared one knows one."""
    return LARGEST_SCORE if loss == "squared" else np.inf


def class_loss(name: str, n_outputs: int) -> Loss:
    """The loss of a name, for as many outputs; one stands for two classes."""
    if name == "squared_hinge":
        return SquaredHinge()
    return Logistic() if n_outputs == 1 else Multinomial()


def fit_classes(
    design: Design, fitted: RidgeSolution, task: RidgeProblem, loss: str, alphas: NDArray | None
) -> ClassFit:
    """The classifier by the loss that is asked for, or for "auto" by the log loss and the errors of the rows held out.

    Parameters
    ----------
    loss : {"auto", "squared", "logistic", "squared_hinge"}
    alphas : array of shape (A,) or None
        Ridge penalties, where they are given.
    """
    squared = as_squared(fitted)
    if loss == "squared" or (squared.held_out_predictions is None and loss == "auto"):
        return squared
    if loss != "auto":
        return _by_loss(design, fitted, task, loss, alphas)[0]
    if reason := _why_not(design, task, squared):
        return squared._replace(reason=reason)
    try:
        other, before = _by_loss(design, fitted, task, "logistic", alphas)
    except MemoryError:
        return squared._replace(reason="the features do not fit in memory")
    return squared if before is None else _better(squared, other, before)


def _why_not(design: Design, task: RidgeProblem, squared: ClassFit) -> str | None:
    """Why the logistic loss is not tried: where it pays most, already the columns alone do as well by it.

    It is in rare classes, and in classes that depend on many columns a little each, that squared errors rank badly. The
    columns alone are fitted to some of the rows, which takes little.
    """
    seen = squared.held_out_predictions
    assert seen is not None
    if squared.features.n_features_in_ > POLICY.most_linear:
        return f"there are more than {POLICY.most_linear:,} columns"
    rows = some_rows(design.source.n_rows, POLICY.most_screened, task.seed)
    some = Design(design.source.take(rows), squared.features, design.dtype)
    masks = sets_held_out(some, task.seed, None if task.held_out is None else task.held_out[rows])[:1]
    if not masks:
        return "there are too few rows"
    ridge = IterativeRidge(Design(some.source, _linear_part(some, task.seed), design.dtype), task.seed)
    if not isinstance(ridge.blocks, list):
        return "the columns do not fit in memory"
    problem = LossProblem(ridge, masks, class_loss("logistic", some.source.n_outputs), budget=task.budget)
    limits = POLICY.newton_steps, POLICY.traced_iterations, problem.late(POLICY.begun_share)
    point = linear_minimum(ridge, Without(ridge.blocks, ~masks[0]), problem.loss, task.tol, *limits)
    alone = problem.predictions_at(WarmStart("columns", [point, point]))
    link = fit_temperature(*by_class(alone))
    alone, seen = alone.distinct(), seen.distinct()
    two, two_noise = mean_and_error(log_losses(alone, link, np.inf), alone.weight)
    one, one_noise = mean_and_error(log_losses(seen, squared.link), seen.weight)
    if two - one <= float(np.hypot(one_noise, two_noise)):
        return None
    return f"validation log loss {one:.4f}, and {two:.4f} with the columns alone"


def as_squared(fitted: RidgeSolution) -> ClassFit:
    """The ridge solution as a classifier."""
    K, seen = fitted.coef.shape[1], fitted.held_out_predictions
    link = link_of(seen, max(K, 2))
    solution = fitted.features, fitted.coef, fitted.intercept
    return ClassFit("squared", *solution, link, fitted.alpha, Start(fitted.alpha), None, seen)


def _by_loss(
    design: Design, fitted: RidgeSolution, task: RidgeProblem, name: str, alphas: NDArray | None
) -> tuple[ClassFit, HeldOutPredictions | None]:
    """The classifier by another loss, with the columns themselves as features too where the ridge penalty is open.

    The second are the predictions of the ridge regression for the rows held out, as it was fitted without them.
    """
    K, seen = fitted.coef.shape[1], fitted.held_out_predictions
    link = np.array([USUAL_SLOPE, 0.0]) if seen is None else fit_temperature(*by_class(seen))
    slope = float(link[0]) if name == "logistic" else 1.0
    penalties = _penalties(fitted, link, alphas, name)
    ridge, masks, without = stored_problem(design, fitted, task)
    linear = alphas is None and fitted.features.n_features_in_ <= POLICY.most_linear
    if linear:
        ridge = ridge.beside(_linear_part(design, task.seed), penalties[0] / POLICY.linear_penalty)
    tol = 0.0 if alphas is None else task.tol
    problem = LossProblem(ridge, masks, class_loss(name, K), tol, budget=task.budget)
    starts, before = [problem.at_ridge(fitted, without, slope)], None
    if masks:
        begun = problem.predictions_at(starts[0])
        before = begun._replace(predicted=begun.predicted / slope)
        if linear:
            columns = problem.at_columns(task.tol)
            if problem.mean_loss(problem.predictions_at(columns)) <= POLICY.near * problem.mean_loss(begun):
                starts.append(columns)
    found = problem.fit(starts, penalties, validated=True)
    predictions = found.held_out_predictions
    link = np.array([1.0, 0.0]) if predictions is None else fit_temperature(*by_class(predictions))
    reason = f"as given; {SEPARATED}" if all(_separated(*pair) for pair in found.fitted) else "as given"
    solution = ridge.design.features, found.coef, found.intercept, link, found.alpha
    start = Start(fitted.alpha, slope, linear, found.start)
    return ClassFit(name, *solution, start, found.n_steps, predictions, reason), before


def fit_classes_again(
    ridge: IterativeRidge, fitted: RidgeSolution, tol: float, loss: str, alpha: float, n_steps: int, start: Start
) -> LossFit:
    """The classifier for other rows, with what an earlier fit chose.

    `ridge` has the features of that fit; `fitted` is the ridge regression, on those without the columns; the others are
    as of a `ClassFit`.
    """
    problem = LossProblem(ridge, [], class_loss(loss, fitted.coef.shape[1]))
    at_ridge = start.beginning == "ridge"
    begun = problem.at_ridge(fitted, None, start.slope) if at_ridge else problem.at_columns(tol)
    return problem.fit([begun], (alpha,), n_steps)


def _separated(Y: NDArray, F: NDArray) -> bool:
    """Whether the scores (K, n) of rows, whose targets are Y, tell all of them apart."""
    if len(Y) == 1:
        return bool((Y * F > 0).all())
    return bool((np.where(Y > 0, F, np.inf).min(axis=0) >= F.max(axis=0)).all())


def _penalties(fitted: RidgeSolution, link: NDArray, alphas: NDArray | None, name: str) -> tuple[float, ...]:
    """Ridge penalties to try: those given; or the ridge regression's, where a row weighs what it does by this loss."""
    if alphas is not None:
        return tuple(alphas)
    curvature = 2.0
    if name == "logistic":
        seen = fitted.held_out_predictions
        p = np.array([0.2]) if seen is None else probabilities(by_class(seen).scores, link)
        curvature = 2 * max(float(np.mean(p * (1 - p))), LEAST_CURVATURE)
    shares = POLICY.dense_shares if fitted.features.is_dense else (1.0,)
    return tuple(curvature * fitted.alpha * share for share in shares)


def _linear_part(design: Design, seed: int) -> LinearFeatures:
    """The standardised columns, fitted to the rows."""
    X, _, weight = design.source.sample(POLICY.ranked_rows, np.random.default_rng(seed)).whole()
    part = LinearFeatures().draw(X.shape[1])
    part.fit_sample(X, weight)
    return part


def _better(squared: ClassFit, other: ClassFit, before: HeldOutPredictions) -> ClassFit:
    """The other loss where the log loss of the rows held out is clearly less and their error is not clearly more."""
    assert other.held_out_predictions is not None
    before, after = before.distinct(), other.held_out_predictions.distinct()
    one, two = log_losses(before, squared.link, squared.largest), log_losses(after, other.link, other.largest)
    share = before.weight / before.weight.sum()
    gain, noise = mean_and_error(one - two, before.weight)
    missed, missed_noise = mean_and_error(_misses(after) - _misses(before), before.weight)
    text = f"validation log loss {share @ two:.4f} with the logistic loss, {share @ one:.4f} with the squared loss"
    if gain <= POLICY.clear * noise:
        return squared._replace(reason=text)
    if missed > POLICY.clear * missed_noise:
        return squared._replace(reason=f"{text}, which misclassifies fewer rows (by {missed:.2%} of all)")
    return other._replace(reason=text + other.reason.removeprefix("as given"))


def _misses(predictions: HeldOutPredictions) -> NDArray:
    """Share of each row that is of another class than the one of the largest score."""
    scores, targets, _ = by_class(predictions)
    share = class_shares(targets)
    return 1 - share[np.arange(len(share)), scores.argmax(axis=1)]
