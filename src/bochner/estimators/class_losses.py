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

from bochner.data.array_source import ArraySource
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
    Iterations,
    Needs,
    RidgeProblem,
    RidgeSolution,
    stored_problem,
)
from bochner.estimators.ridge.solve import SOLVERS
from bochner.features import (
    BinningFeatures,
    Metric,
    MetricFeatures,
)
from bochner.features.base import FeatureMap
from bochner.features.concatenate import ConcatenatedFeatures
from bochner.features.leaves import leaves, resized, size_name
from bochner.features.metric import mean_distances
from bochner.kernels import Additive, Kernel, Laplacian
from bochner.selection.budget import may_compare_losses
from bochner.selection.lengthscale import class_shares
from bochner.selection.policy import POLICY
from bochner.selection.validation import (
    HeldOutPredictions,
    average,
    bin_penalty_unit,
    mean_and_error,
)
from bochner.solvers.iterative import IterativeRidge
from bochner.solvers.loss_passes import minimise_in_passes
from bochner.solvers.losses import (
    Loss,
    SquaredHinge,
    log_loss_of,
)
from bochner.solvers.newton import Point
from bochner.solvers.sweeps import has_grids_alone

SEPARATED = (
    "the features separate the classes, and only the ridge penalty keeps the "
    "scores finite"
)
# Of the logistic loss, where one row of a large weight makes all others sure
LEAST_CURVATURE = 1e-6
# Mean distances of coordinates by which grids of single columns separate levels
APART = 64.0


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
        grids, dense = _sizes(fitted.features)
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
        part = _solved_on_part(design, fitted, task, fitted.n_iter)
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
            beside = _beside_columns(problem, unit, column_groups, task.seed)
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
    beside = _beside_columns(few, unit, column_groups, seed)
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
        problem = _beside_columns(problem, unit, column_groups, seed) or problem
    return problem, problem.trial_from_prior(trial.alpha, aim)


def fit_classes_in_passes(
    passes: Design,
    sample: Design,
    fitted: RidgeSolution,
    task: RidgeProblem,
    loss: str,
    alphas: NDArray | None,
    column_groups: NDArray,
) -> ClassFit:
    """The classifier for rows that are read in passes, from the classifier of a sample
    in memory on.

    Rows of the sample decide all but the coefficients. Where other losses are taken, a
    few passes move their coefficients from those for some of the rows to those for all.
    As in ridge regression the penalty of dense features is one for a unit of weight,
    and that of bins, which are not let converge, is the same for any number of rows. As
    bins gain from more rows, some rows tell less about them, and "auto" takes another
    loss where it gains much.

    Parameters
    ----------
    passes : Design
        Of all rows.
    sample : Design
        Of those in memory, of which `task` is.
    fitted : RidgeSolution
        Of all rows.
    """
    squared = as_squared(fitted)
    n_iter = None if fitted.n_iter is None else 2 * fitted.n_iter
    part = _solved_on_part(sample, fitted, task, n_iter)
    if part.design.source.n_counted <= POLICY.simple_rows and loss == "auto":
        return squared._replace(
            reason="there are too many classes and features to compare losses"
        )
    share = part.share
    class_fit = fit_classes(
        part.design,
        part.solution,
        part.task,
        loss,
        None if alphas is None else share * alphas,
        column_groups,
        is_sample=True,
    )
    if class_fit.loss == "squared":
        return squared._replace(reason=class_fit.reason)
    features = class_fit.features
    coef = class_fit.coef.T
    # Functions of single columns keep their ridge penalty
    if class_fit.start.has_single_columns and fitted.features.is_dense:
        features = ConcatenatedFeatures.beside(
            fitted.features, features.parts[-1], features.scales[-1] ** 2 / share
        )
        coef = coef * np.where(
            np.arange(coef.shape[1]) < len(fitted.coef), 1.0, np.sqrt(share)
        )
    alpha = class_fit.alpha / share
    begun = (coef, class_fit.intercept)
    design = passes.of(passes.source, features, True)
    most = POLICY.most_passes if alphas is None else POLICY.most_iterations
    coef, intercept = go_on_in_passes(
        design, part.design.source, class_fit.loss, alpha, begun, task, most
    )
    return class_fit._replace(
        features=features,
        coef=coef,
        intercept=intercept,
        alpha=alpha,
        start=replace(class_fit.start, alpha=fitted.alpha),
    )


def go_on_in_passes(
    passes: Design,
    sample: ArraySource,
    name: str,
    alpha: float,
    begun: Point,
    task: RidgeProblem,
    most: int,
) -> tuple[NDArray, NDArray]:
    """Coefficients, (D, K), and intercepts of another loss for all rows.

    Parameters
    ----------
    passes : Design
        Of all rows, and a map that is fixed.
    sample : ArraySource
        Some of them in memory, which tell the second derivatives.
    name : {"logistic", "squared_hinge"}
    alpha : float
    begun : tuple of arrays of shapes (K, D) and (K,)
        Coefficients and intercepts to begin with.
    most : int
        Passes; a few regularise bins.
    """
    coef, intercept = begun
    ridge = IterativeRidge(passes, task.seed)
    sample_ridge = IterativeRidge(
        Design(sample, passes.features, passes.dtype, fixed=True),
        task.seed,
        ridge.centres,
    )
    loss = class_loss(name, len(coef))
    per_pass = POLICY.most_iterations
    if most < POLICY.most_iterations and not passes.features.parts[0].is_dense:
        per_pass = POLICY.most_passes * POLICY.resumed_steps
    begun = coef, ridge.centred(coef, intercept)
    coef, offset = minimise_in_passes(
        ridge,
        sample_ridge,
        loss,
        alpha,
        begun,
        task.tol,
        most,
        per_pass,
        lambda: task.budget.is_over,
    )
    whole = np.ascontiguousarray(coef.T.astype(passes.dtype))
    return whole, ridge.uncentred(coef, offset)


class PartSolution(NamedTuple):
    """The ridge solution of the rows that losses are compared on.

    Attributes
    ----------
    design : Design
        Of these rows, seen through the map of the solution of all.
    solution : RidgeSolution
    task : RidgeProblem
        What it solves.
    share : float
        Of its ridge penalty in that of all rows, which is the share of the weight for
        dense features.
    """

    design: Design
    solution: RidgeSolution
    task: RidgeProblem
    share: float


def _solved_on_part(
    design: Design, fitted: RidgeSolution, task: RidgeProblem, n_iter: int | None
) -> PartSolution:
    """Solve again on as many rows in memory as losses are compared on, with the map
    and the ridge penalty of a solution.

    Parameters
    ----------
    fitted : RidgeSolution
        Of all rows, perhaps of more than are in memory.
    n_iter : int or None
        Iterations for bins, those of all rows among them; None where a factor or a
        tolerance served.
    """
    (P, D), source = _sizes(fitted.features), design.source
    cost_of_row = source.n_outputs * max(P + POLICY.dense_work * D, 1.0)
    most = int(min(POLICY.raced_rows, POLICY.most_compared / cost_of_row))
    rows = np.flatnonzero(source.weights)
    if len(rows) > most:
        rows = np.sort(
            np.random.default_rng(task.seed).choice(rows, most, replace=False)
        )
    part = design.of(source.take(rows), fitted.features, True)
    share = 1.0
    stopping = None
    if fitted.features.is_dense:
        weight = fitted.weight or source.total_weight
        share = part.source.total_weight / weight
    elif n_iter is not None:
        stopping = Iterations(n_iter, True)
    task = replace(
        task,
        alpha=share * fitted.alpha,
        held_out=None if task.held_out is None else task.held_out[rows],
        stopping=stopping,
        needs=Needs(True, evaluated=task.needs.evaluated),
    )
    is_direct = fitted.n_iter is None and len(fitted.coef) > 0
    solution = SOLVERS["direct" if is_direct else "cg"](part, task)
    return PartSolution(part, solution, task, share)


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


def _sizes(features: FeatureMap) -> tuple[int, int]:
    """Numbers of grids and of dense features."""
    sizes = [(size_name(leaf.features), leaf.features) for leaf in leaves(features)]
    grids = sum(feature_map.n_grids for name, feature_map in sizes if name == "n_grids")
    return grids, sum(
        feature_map.n_components
        for name, feature_map in sizes
        if name == "n_components"
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
    share = POLICY.trial_grids[1] / max(_sizes(features)[0], 1)
    if not has_grids_alone(ridge.blocks) or share > 1 / 2:
        return problem
    few = resized(features, share).draw(features.n_features_in_)
    design = Design(ridge.design.source, few, ridge.design.dtype)
    return replace(problem, ridge=IterativeRidge(design, seed))


def _beside_columns(
    problem: LossProblem, unit: float, column_groups: NDArray, seed: int
) -> LossProblem | None:
    """The problem with bins of single columns beside other bins; None where the
    features are others, or the columns too many.
    """
    ridge = problem.ridge
    if not has_grids_alone(ridge.blocks):
        return None
    part = additive_part(ridge.design, column_groups, seed)
    if part is None:
        return None
    design = ridge.design
    row_weight = design.source.total_weight / design.n_distinct
    weight = POLICY.additive_weight * unit / row_weight
    return replace(problem, ridge=ridge.beside(part, weight))


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


def additive_part(
    design: Design, column_groups: NDArray, seed: int
) -> MetricFeatures | None:
    """Bins of single columns, whose kernel of variance 1 is a sum over them; None for
    sparse rows and many columns.

    Columns are as the learned metric warps them. The levels of a nominal column have a
    cell each. Where bins have few grids, because there are many rows, those of single
    columns are as few.
    """
    X, _, weight = design.source.sample(
        POLICY.compared_rows, np.random.default_rng(seed)
    ).whole()
    if not isinstance(X, np.ndarray) or X.shape[1] > POLICY.wide:
        return None
    learned = next(
        (metric for leaf in leaves(design.features) for metric in leaf.metrics), None
    )
    metric = learned or Metric(X.shape[1], np.arange(X.shape[1]), np.ones(X.shape[1]))
    distances = mean_distances(
        metric.rescaled(np.ones(len(metric.source_))).coordinates(X), weight
    )
    varying_columns = np.flatnonzero(distances > 1 / np.finfo(np.float64).max)
    if not len(varying_columns):
        return None
    of_column = column_groups[metric.source_[varying_columns]]
    groups = [
        np.flatnonzero(of_column == group_number)
        for group_number in np.unique(of_column)
    ]
    factors = np.zeros(len(distances))
    factors[varying_columns] = 1 / distances[varying_columns]
    for group in groups:
        if len(set(metric.source_[varying_columns[group]])) > 1:
            factors[varying_columns[group]] *= APART
    grids = _sizes(design.features)[0]
    lists = [group.tolist() for group in groups]
    scales = (
        POLICY.additive_scales[: max(grids // len(groups), 1)]
        if grids
        else POLICY.additive_scales
    )
    kernel: Kernel = Additive(Laplacian(scales[0]), lists)
    for scale in scales[1:]:
        kernel = kernel + Additive(Laplacian(scale), lists)
    n_grids = len(groups) * len(scales)
    bins = BinningFeatures(kernel * (1 / n_grids), n_grids, random_state=seed)
    return MetricFeatures(metric.rescaled(factors), bins).draw(X.shape[1])


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
