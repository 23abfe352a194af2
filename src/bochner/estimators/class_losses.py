"""Other losses of classes than the squared one: the logistic or the squared hinge loss,
by sweeps over the grids of bins or Newton's method for all other features.

They begin at the shares of the classes, with bins of single columns beside the features
where they serve. Rows held out tell that, whether the squared loss is as good, the
ridge penalty and how many steps to take: as in ridge regression on bins, to stop early
regularises.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.design.design import Design
from bochner.estimators.class_probabilities import (
    LARGEST_SCORE,
    by_class,
    fit_link,
    fit_temperature,
    log_losses,
    probabilities,
)
from bochner.estimators.loss_problem import (
    AIM,
    LossFit,
    LossProblem,
    LossTrial,
)
from bochner.estimators.ridge.out_of_sample import UnseenRows
from bochner.estimators.ridge.ridge_problem import (
    RidgeProblem,
    RidgeSolution,
    stored_problem,
)
from bochner.estimators.ridge.solve import solved_on_part
from bochner.estimators.single_columns import beside_columns
from bochner.features.base import FeatureMap
from bochner.features.leaves import resized, sizes_of
from bochner.selection.budget import may_compare_losses
from bochner.selection.few_rows import class_shares
from bochner.selection.policy import POLICY
from bochner.selection.validation import (
    HeldOutPredictions,
    average,
    bin_penalty_unit,
    mean_and_error,
)
from bochner.solvers.iterative import IterativeRidge
from bochner.solvers.losses import (
    Loss,
    SquaredHinge,
    log_loss_of,
)
from bochner.solvers.sweeps import has_grids_alone

SEPARATED = (
    "the features separate the classes, and only the ridge penalty keeps the "
    "scores finite"
)
# Of the logistic loss, where one row of a large weight makes all others sure
LEAST_CURVATURE = 1e-6


@dataclass(frozen=True)
class Start:
    """How another loss was minimised, as a refit repeats it.

    Attributes
    ----------
    alpha : float
        Of the ridge regression.
    has_single_columns : bool
        Whether the last part of the features are functions of single columns, which the
        ridge solution had not.
    by_newton : bool
        Whether Newton's method has minimised the loss of bins alone, not sweeps.
    tol : float
        Relative error at which it stopped; zero where rows held out told the steps.
    """

    alpha: float
    has_single_columns: bool = False
    by_newton: bool = False
    tol: float = 0.0

    def penalty_in_passes(self, alpha: float, features: FeatureMap) -> float:
        """The ridge penalty with which passes of Newton's method go on: few sweeps over
        bins, each a part of the way, regularise more than these do.
        """
        swept = not self.by_newton and not any(part.is_dense for part in features.parts)
        return LossProblem.penalty_of_newton(alpha) if swept else alpha


class ClassFit(NamedTuple):
    """A fitted classifier.

    Attributes
    ----------
    loss : {"squared", "logistic", "squared_hinge"}
    features : FeatureMap
    coef : array of shape (D, K)
    intercept : array of shape (K,)
    alpha : float
    start : Start
    n_steps : int or None
        Sweeps, or steps of Newton's method.
    held_out_predictions : HeldOutPredictions or None
    reason : str
    unseen : UnseenRows or None
        Rows, and the classifier without them.
    """

    loss: str
    features: FeatureMap
    coef: NDArray
    intercept: NDArray
    alpha: float
    start: Start
    n_steps: int | None
    held_out_predictions: HeldOutPredictions | None
    reason: str = "as given"
    unseen: UnseenRows | None = None


def largest_score(loss: str) -> float:
    """The largest score that counts by a loss: only the squared one knows one."""
    return LARGEST_SCORE if loss == "squared" else np.inf


def class_loss(name: str, n_outputs: int) -> Loss:
    """The loss of a name, for `n_outputs` outputs; one stands for two classes."""
    if name == "squared_hinge":
        return SquaredHinge()
    return log_loss_of(n_outputs)


def fit_classes(
    design: Design,
    fitted: RidgeSolution,
    task: RidgeProblem,
    loss: str,
    alphas: NDArray | None,
    column_groups: NDArray,
    is_sample: bool = False,
) -> ClassFit:
    """The classifier by the loss that is asked for, or for "auto" by the log loss and
    the errors of the rows held out.

    Parameters
    ----------
    loss : {"auto", "squared", "logistic", "squared_hinge"}
    alphas : array of shape (A,) or None
        Ridge penalties, where they are given.
    column_groups : int array of shape (d,)
        Encoded columns of one number are one column of the input.
    is_sample : bool, default=False
        Whether passes over all rows will continue. These are steps of Newton's method;
        of bins the gain must be worth them.
    """
    K = fitted.coef.shape[1]
    is_automatic = loss == "auto"
    if loss == "squared" or is_automatic:
        squared = as_squared(fitted)
        if loss == "squared" or squared.held_out_predictions is None:
            return squared
        grids, dense = sizes_of(fitted.features)
        if not may_compare_losses(design.source.n_rows, dense, grids, K):
            return squared._replace(
                reason="there are too many rows, classes and features to compare "
                "losses: request loss='logistic'"
            )
        is_binned = fitted.stored is not None and has_grids_alone(
            fitted.stored.ridge.blocks
        )
        if not (is_binned or fitted.is_linear):
            return squared._replace(
                reason="losses are compared for bins alone and for linear models: "
                "request loss='logistic'"
            )
    is_few = design.source.n_counted <= POLICY.folded_rows
    if fitted.is_linear and fitted.stored is None and is_few:
        # Nothing was learned of the rows for it: all are held out in turn, as those of
        # one set may be of some classes only
        task = replace(task, held_out=None)
    try:
        stored = stored_problem(design, fitted, task)
    except MemoryError:
        if not is_automatic:
            raise
        return squared._replace(reason="the features do not fit in memory")
    name = "logistic" if is_automatic else loss
    problem = LossProblem(
        stored.ridge,
        stored.folds,
        class_loss(name, K),
        budget=task.budget,
        by_newton=is_sample,
    )
    start = Start(fitted.alpha, by_newton=is_sample)
    if alphas is not None:
        problem = replace(problem, tol=task.tol)
        loss_fit = problem.fit_given(problem.at_prior(), alphas)
        return _as_fitted(name, loss_fit, problem, replace(start, tol=task.tol))
    unit = _penalty_unit(stored.ridge, fitted, name)
    if not problem.folds:
        loss_fit = problem.fit(problem.at_prior(), unit)
        return _as_fitted(name, loss_fit, problem, start)
    # Some of very many rows decide on the loss, single columns and the ridge penalty
    deciding, deciding_unit = problem, unit
    if design.source.n_counted > POLICY.most_raced:
        part = solved_on_part(design, fitted, task, fitted.n_iter)
        fitted = part.solution
        stored = stored_problem(part.design, fitted, part.task)
        deciding = replace(problem, ridge=stored.ridge, folds=stored.folds)
        deciding_unit = _penalty_unit(stored.ridge, fitted, name)
    aim = np.inf
    if is_automatic:
        # The squared loss without the rows held out, which the other is to be better
        # than
        before = deciding.predictions_at(deciding.at_ridge(fitted, stored.without))
        before = before.distinct()
        squared_losses = log_losses(before, fit_link(*by_class(before)))
        aim = AIM * average(squared_losses, before.weight)
    searched, trial = _searched(
        replace(deciding, budget=task.budget.first_of(2)),
        deciding_unit,
        column_groups,
        task.seed,
        aim,
    )
    reason = "as given"
    if is_automatic:
        after = searched.predictions(trial.fitted)
        is_partial = is_sample and not fitted.features.is_dense
        worthwhile = 1 - POLICY.pays[0] if is_partial else 0.0
        is_better, reason = _compared(
            before, squared_losses, after, worthwhile, fitted.is_linear
        )
        if deciding is not problem:
            reason += f", on {deciding.ridge.design.n_rows:,} of the rows"
        if not is_better:
            return squared._replace(reason=reason)
    has_columns = searched.ridge is not deciding.ridge
    start = replace(start, has_single_columns=has_columns)
    if deciding is problem:
        problem = replace(searched, budget=task.budget)
    else:
        if has_columns:
            beside = beside_columns(problem, unit, column_groups, task.seed)
            assert beside is not None
            problem = beside
        alpha = trial.alpha * unit / deciding_unit
        trial = problem.trial_from_prior(alpha)
    loss_fit = problem.fit_after(trial, problem.at_prior())
    return _as_fitted(name, loss_fit, problem, start, reason)


def _searched(
    problem: LossProblem,
    unit: float,
    column_groups: NDArray,
    seed: int,
    aim: float,
) -> tuple[LossProblem, LossTrial]:
    """The problem, with bins of single columns beside the features where they are
    clearly better for the rows held out; and its trial with the best ridge penalty.

    Sweeps whose loss does not come down to the aim have no other penalty tried.
    """
    # Few grids tell whether single columns are of use, and the ridge penalty
    few = _with_few_grids(problem, seed)
    is_whole = few is problem
    asked = aim if is_whole and problem.sweeps else np.inf
    beside = beside_columns(few, unit, column_groups, seed)
    trial = few.first_trial(unit, asked)
    if beside is not None:
        other_trial = beside.first_trial(unit, asked)
        if few.is_clearly_better(other_trial, trial):
            few, trial = beside, other_trial
        else:
            beside = None
    if trial.loss > asked:
        return few, trial
    trial = few.search(trial)
    if is_whole:
        return few, trial
    if beside is not None:
        problem = beside_columns(problem, unit, column_groups, seed) or problem
    return problem, problem.trial_from_prior(trial.alpha, aim)


def as_squared(fitted: RidgeSolution) -> ClassFit:
    """The ridge solution as a classifier."""
    return ClassFit(
        "squared",
        fitted.features,
        fitted.coef,
        fitted.intercept,
        fitted.alpha,
        Start(fitted.alpha),
        None,
        fitted.held_out_predictions,
        unseen=fitted.unseen,
    )


def _as_fitted(
    name: str,
    loss_fit: LossFit,
    problem: LossProblem,
    start: Start,
    reason: str = "as given",
) -> ClassFit:
    """The classifier of another loss."""
    if all(_separated(*pair) for pair in loss_fit.fitted):
        reason += f"; {SEPARATED}"
    return ClassFit(
        name,
        problem.ridge.design.features,
        loss_fit.coef,
        loss_fit.intercept,
        loss_fit.alpha,
        start,
        loss_fit.n_steps,
        loss_fit.held_out_predictions,
        reason,
        loss_fit.unseen,
    )


def _penalty_unit(ridge: IterativeRidge, fitted: RidgeSolution, name: str) -> float:
    """The unit of the ridge penalties of another loss.

    That of bins is their kernel's variance times what a distinct row weighs; that of
    dense features is the ridge regression's penalty, where a row weighs what it does by
    the loss, if that leaves scores of any likely size.
    """
    if not ridge.is_dense:
        return bin_penalty_unit(ridge)
    seen = fitted.held_out_predictions
    curvature = 1.0
    if name == "logistic":
        p = np.array([0.2])
        if seen is not None:
            scores, *others = by_class(seen)
            p = probabilities(scores, fit_temperature(scores, *others))
        curvature = max(float(np.mean(p * (1 - p))), LEAST_CURVATURE)
    row_weight = ridge.design.source.total_weight / ridge.design.n_distinct
    return max(2 * curvature * fitted.alpha, POLICY.least_unit * row_weight)


def _with_few_grids(problem: LossProblem, seed: int) -> LossProblem:
    """The problem with few of the grids; itself where there are not many more, or the
    features are others.
    """
    ridge = problem.ridge
    features = ridge.design.features
    share = POLICY.trial_grids[1] / max(sizes_of(features)[0], 1)
    if not has_grids_alone(ridge.blocks) or share > 1 / 2:
        return problem
    few = resized(features, share).draw(features.n_features_in_)
    design = Design(ridge.design.source, few, ridge.design.dtype)
    return replace(problem, ridge=IterativeRidge(design, seed))


def fit_classes_again(
    ridge: IterativeRidge, loss: str, alpha: float, n_steps: int, start: Start
) -> LossFit:
    """The classifier for other rows, with what an earlier fit chose.

    `ridge` has the features of that fit; the others are as of a `ClassFit`.
    """
    problem = LossProblem(
        ridge,
        [],
        class_loss(loss, ridge.design.source.n_outputs),
        start.tol,
        by_newton=start.by_newton,
    )
    return problem.fit(problem.at_prior(), alpha, n_steps)


def _separated(Y: NDArray, F: NDArray) -> bool:
    """Whether the scores (K, n) of rows, whose targets are Y, separate all of them."""
    if len(Y) == 1:
        return bool((Y * F > 0).all())
    return bool((np.where(Y > 0, F, np.inf).min(axis=0) >= F.max(axis=0)).all())


def _compared(
    before: HeldOutPredictions,
    one: NDArray,
    after: HeldOutPredictions,
    worthwhile: float,
    is_linear: bool,
) -> tuple[bool, str]:
    """Whether the logistic loss, of the predictions `after`, is better than the squared
    one: the log loss of the rows held out, `one` of distinct rows, is clearly less, by
    a share of itself that is worthwhile, and that gain is as clear as any growth of
    their error; and the reason. Of a linear model, whose probabilities it makes, it
    need not be clearly less.
    """
    after = after.distinct()
    two = log_losses(after, fit_temperature(*by_class(after)), np.inf)
    share = before.weight / before.weight.sum()
    gain, noise = mean_and_error(one - two, before.weight, before.group)
    missed, missed_noise = mean_and_error(
        _misses(after) - _misses(before), before.weight, before.group
    )
    text = (
        f"validation log loss {share @ two:.4f} with the logistic loss, "
        f"{share @ one:.4f} with the squared loss"
    )
    if gain <= (-POLICY.clear if is_linear else POLICY.clear) * noise:
        return False, text
    if worthwhile and gain < worthwhile * share @ one:
        return False, f"{text}, which is too little where not all rows are compared"
    if missed * noise > max(POLICY.certain * noise, gain) * missed_noise:
        return False, f"{text}, which misclassifies fewer rows (by {missed:.2%} of all)"
    return True, text


def _misses(predictions: HeldOutPredictions) -> NDArray:
    """Share of each row that is of another class than the one of the largest score."""
    scores, targets, _ = by_class(predictions)
    share = class_shares(targets)
    return 1 - share[np.arange(len(share)), scores.argmax(axis=1)]
