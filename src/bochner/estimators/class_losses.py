"""The loss of a classifier: the squared one, logistic or squared hinge, as given or by the rows held out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.design import Design
from bochner.estimators.calibration import (
    LARGEST_SCORE,
    by_class,
    fit_temperature,
    link_of,
    log_losses,
    probabilities,
    shares,
)
from bochner.estimators.reweighted import (
    Beginning,
    LossFit,
    LossTask,
    at_columns,
    at_ridge,
    fit_loss,
    held_out_at,
    linear_minimum,
    mean_loss,
    sets_held_out,
    some_rows,
    stored,
    with_columns,
)
from bochner.estimators.ridge import Fitted, RidgeTask, Stage
from bochner.features import LinearFeatures
from bochner.features.base import FeatureMap
from bochner.solvers.iterative import IterativeRidge, Without
from bochner.solvers.losses import Logistic, Loss, Multinomial, SquaredHinge
from bochner.tuning.held_out import HeldOutPredictions
from bochner.tuning.policy import POLICY
from bochner.tuning.trace import standard_error

SEPARATED = "the features separate the classes, and only the ridge penalty keeps the scores finite"
LEAST_CURVATURE = 1e-6  # of the logistic loss, where one row of a large weight makes all others sure
USUAL_SLOPE = 2.0  # of the logit by a score, where no rows tell it


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


def fit_classes(design: Design, fitted: Fitted, task: RidgeTask, loss: str, alphas: NDArray | None) -> ClassFit:
    """The classifier by the loss that is asked for, or for "auto" by the log loss and the errors of the rows held out.

    Parameters
    ----------
    loss : {"auto", "squared", "logistic", "squared_hinge"}
    alphas : array of shape (A,) or None
        Ridge terms, where they are given.
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


def _why_not(design: Design, task: RidgeTask, squared: ClassFit) -> str | None:
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
    held_out = None if task.held_out is None else task.held_out[rows]
    masks = sets_held_out(some, replace(task, held_out=held_out))[:1]
    if not masks:
        return "there are too few rows"
    part = _linear_part(some, task.seed)
    ridge = IterativeRidge(Design(some.source, part, design.dtype), task.seed)
    if not isinstance(ridge.blocks, list):
        return "the columns do not fit in memory"
    stage, loss = Stage(ridge, masks, None), class_loss("logistic", some.source.n_outputs)
    limits = POLICY.newton_steps, POLICY.traced_iterations
    point = linear_minimum(ridge, Without(ridge.blocks, ~masks[0]), loss, task.tol, *limits)
    alone = held_out_at(stage, Beginning("columns", point, [point]), loss)
    link = fit_temperature(*by_class(alone))
    alone, seen = alone.distinct(), seen.distinct()
    two, two_noise = _mean(log_losses(alone, link, np.inf), alone.weight)
    one, one_noise = _mean(log_losses(seen, squared.link), seen.weight)
    if two - one <= float(np.hypot(one_noise, two_noise)):
        return None
    return f"validation log loss {one:.4f}, and {two:.4f} with the columns alone"


def as_squared(fitted: Fitted) -> ClassFit:
    """The ridge solution as a classifier."""
    K, seen = fitted.coef.shape[1], fitted.held_out_predictions
    link = link_of(seen, max(K, 2))
    solution = fitted.features, fitted.coef, fitted.intercept
    return ClassFit("squared", *solution, link, fitted.alpha, Start(fitted.alpha), None, seen)


def _by_loss(
    design: Design, fitted: Fitted, task: RidgeTask, name: str, alphas: NDArray | None
) -> tuple[ClassFit, HeldOutPredictions | None]:
    """The classifier by another loss, with the columns themselves as features too where the ridge term is open.

    The second are the predictions of the ridge regression for the rows held out, as it was fitted without them.
    """
    K, seen = fitted.coef.shape[1], fitted.held_out_predictions
    link = np.array([USUAL_SLOPE, 0.0]) if seen is None else fit_temperature(*by_class(seen))
    slope = float(link[0]) if name == "logistic" else 1.0
    penalties, stage = _penalties(fitted, link, alphas, name), stored(design, fitted, task)
    linear = alphas is None and fitted.features.n_features_in_ <= POLICY.most_linear
    if linear:
        stage = with_columns(stage, _linear_part(design, task.seed), penalties[0] / POLICY.linear_penalty)
    loss = class_loss(name, K)
    beginnings = [at_ridge(stage, fitted, slope)]
    before = None
    if stage.masks:
        begun = held_out_at(stage, beginnings[0], loss)
        before = begun._replace(predicted=begun.predicted / slope)
        if linear:
            columns = at_columns(stage, loss, task.tol)
            if mean_loss(held_out_at(stage, columns, loss), loss) <= POLICY.near * mean_loss(begun, loss):
                beginnings.append(columns)
    wanted = LossTask(loss, penalties, 0.0 if alphas is None else task.tol)
    found = fit_loss(stage, wanted, beginnings, calibrated=True)
    start = Start(fitted.alpha, slope, linear, found.beginning)
    return _as_classifier(name, stage, found, start), before


class Chosen(NamedTuple):
    """What an earlier fit chose: loss, ridge term, steps of Newton's method, where they began, and the features."""

    loss: str
    alpha: float
    n_steps: int
    start: Start
    features: FeatureMap


def fit_again(design: Design, fitted: Fitted, task: RidgeTask, chosen: Chosen) -> tuple[FeatureMap, NDArray, NDArray]:
    """Features, coefficients and intercepts for other rows, with all that was chosen.

    `fitted` is the ridge regression, on the features without the columns.
    """
    start, features = chosen.start, chosen.features
    stage, loss = stored(design, fitted, task), class_loss(chosen.loss, fitted.coef.shape[1])
    stage = stage._replace(masks=[], without=[])
    if start.linear:
        stage = with_columns(stage, features.parts[-1], float(features.scales[-1] ** 2))
    begun = at_ridge(stage, fitted, start.slope) if start.beginning == "ridge" else at_columns(stage, loss, task.tol)
    found = fit_loss(stage, LossTask(loss, (chosen.alpha,), 0.0, chosen.n_steps), [begun], calibrated=False)
    return stage.ridge.design.features, found.coef, found.intercept


def _as_classifier(name: str, stage: Stage, found: LossFit, start: Start) -> ClassFit:
    predictions = found.held_out_predictions
    link = np.array([1.0, 0.0]) if predictions is None else fit_temperature(*by_class(predictions))
    solution = stage.ridge.design.features, found.coef, found.intercept
    reason = f"as given; {SEPARATED}" if all(_separated(*pair) for pair in found.fitted) else "as given"
    return ClassFit(name, *solution, link, found.penalty, start, found.n_steps, predictions, reason)


def _separated(Y: NDArray, F: NDArray) -> bool:
    """Whether the scores (K, n) of rows, whose targets are Y, tell all of them apart."""
    if len(Y) == 1:
        return bool((Y * F > 0).all())
    return bool((np.where(Y > 0, F, np.inf).min(axis=0) >= F.max(axis=0)).all())


def _penalties(fitted: Fitted, link: NDArray, alphas: NDArray | None, name: str) -> tuple[float, ...]:
    """Ridge terms to try: those given; or the ridge regression's, where a row weighs what it does by this loss."""
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
    gain, noise = _mean(one - two, before.weight)
    missed, missed_noise = _mean(_misses(after) - _misses(before), before.weight)
    text = f"validation log loss {share @ two:.4f} with the logistic loss, {share @ one:.4f} with the squared loss"
    if gain <= POLICY.clear * noise:
        return squared._replace(reason=text)
    if missed > POLICY.clear * missed_noise:
        return squared._replace(reason=f"{text}, which misclassifies fewer rows (by {missed:.2%} of all)")
    return other._replace(reason=text + other.reason.removeprefix("as given"))


def _mean(losses: NDArray, weight: NDArray) -> tuple[float, float]:
    """Weighted mean, and its standard error."""
    return float(weight / weight.sum() @ losses), standard_error(losses, weight)


def _misses(predictions: HeldOutPredictions) -> NDArray:
    """Share of each row that is of another class than the one of the largest score."""
    scores, targets, _ = by_class(predictions)
    share = shares(targets)
    return 1 - share[np.arange(len(share)), scores.argmax(axis=1)]
