"""Other losses than the squared one on the features of a ridge regression: sweeps over
the grids of bins, Newton's method for all other features.

Numbers have Huber's, a quantile's or Poisson's loss, which begin at the ridge solution.
Classes have the logistic or the squared hinge loss, which begin at the shares of the
classes, with bins of single columns beside the features; or a stack of the squared and
the logistic loss, where that is clearly better for the rows held out. These rows also
tell the ridge penalty and how many steps to take: as in ridge regression on bins, to
stop early regularises.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.estimators.class_probabilities import (
    LARGEST_SCORE,
    by_class,
    fit_stack,
    fit_temperature,
    link_of,
    log_losses,
    probabilities,
    stacked_scores,
)
from bochner.estimators.loss_problem import LossFit, LossProblem
from bochner.estimators.ridge import solve
from bochner.estimators.ridge.out_of_sample import UnseenRows
from bochner.estimators.ridge.ridge_problem import (
    Iterations,
    Needs,
    RidgeProblem,
    RidgeSolution,
    StoredProblem,
)
from bochner.features import (
    BinningFeatures,
    Metric,
    MetricFeatures,
)
from bochner.features.base import FeatureMap
from bochner.features.concatenate import ConcatenatedFeatures
from bochner.features.distances import median
from bochner.features.leaves import leaves, resized, size_name
from bochner.features.metric import mean_distances
from bochner.kernels import Additive, Kernel, Laplacian
from bochner.planning.cost_model import may_compare_losses
from bochner.selection.lengthscale import class_shares
from bochner.selection.policy import POLICY
from bochner.selection.validation import (
    HeldOutPredictions,
    alphas_to_try,
    mean_and_error,
    sets_held_out,
)
from bochner.solvers.factors import factorise
from bochner.solvers.iterative import IterativeRidge
from bochner.solvers.loss_passes import PassLimits, minimise_in_passes
from bochner.solvers.losses import (
    Huber,
    Logistic,
    Loss,
    Multinomial,
    Poisson,
    Quantile,
    SquaredHinge,
)
from bochner.solvers.newton import Point
from bochner.solvers.sweeps import has_grids_alone

# Deviations up to which errors are squared: 95 % efficient for normal ones (Huber,
# 1981)
EFFICIENT = 1.345
NORMAL_MEDIAN = 0.6745  # of the size of a standard normal number
# Ratio of spreads of errors that agree; fits of one loss at the most
SETTLED_RATIO, MOST_SPREADS = 1.1, 6
ROUNDED = 0.1  # deviations within which the pinball loss is rounded off
SEPARATED = (
    "the features separate the classes, and only the ridge penalty keeps the "
    "scores finite"
)
# Of the logistic loss, where one row of a large weight makes all others sure
LEAST_CURVATURE = 1e-6
# Mean distances of coordinates by which grids of single columns separate levels
APART = 64.0
USUAL_SLOPE = 2.0  # of the logit by a score, where no rows tell it


def stored_problem(
    design: Design, fitted: RidgeSolution, task: RidgeProblem
) -> StoredProblem:
    """The features of a ridge solution, and the rows that are held out.

    Raises
    ------
    MemoryError
        Where the features do not fit in memory.
    """
    if fitted.stored is not None:
        return fitted.stored
    ridge = IterativeRidge(
        Design(design.source, fitted.features, design.dtype), task.seed
    )
    if not isinstance(ridge.blocks, list):
        raise MemoryError(
            "The features do not fit in memory: use loss='squared', or a smaller "
            "n_components."
        )
    source = design.source
    folds = sets_held_out(design, task.seed, task.held_out)
    fold_designs = [
        Design(source.take(np.flatnonzero(fold.fitted)), fitted.features, design.dtype)
        for fold in folds
    ]
    return StoredProblem(
        ridge, folds, [factorise(one, 1).coef(fitted.alpha).T for one in fold_designs]
    )


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
            loss_fit = replace(problem, tol=task.tol, relative=1.0).fit(
                begun, tuple(alphas), validated=True
            )
        else:
            loss_fit = problem.fit(
                begun, tuple(np.array(POLICY.number_shares) * fitted.alpha * mean)
            )
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
    return problem.fit(
        problem.at_ridge(fitted, None, *_transform(design, loss)), (alpha,), n_steps
    )


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
        targets, weight = (
            np.concatenate(parts)
            for parts in zip(
                *((target_block.y, target_block.weight) for target_block in blocks),
                strict=True,
            )
        )
        means = np.average(targets, axis=0, weights=weight)[:, np.newaxis].astype(
            np.float64
        )
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
    return (
        Huber(EFFICIENT * spread)
        if name == "huber"
        else Quantile(quantile, ROUNDED * spread)
    )


def _transform(design: Design, loss: Loss) -> tuple[NDArray, NDArray | float]:
    """Slope and origin that turn predictions of the ridge regression to fitted
    values of the loss, (K, 1) and (K,).
    """
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
        Whether the last part of the features are functions of single columns, which the
        ridge solution had not.
    beginning : {"ridge", "prior"}
    by_newton : bool
        Whether Newton's method has minimised the loss of bins alone, not sweeps.
    """

    alpha: float
    slope: float = 1.0
    linear: bool = False
    beginning: str = "ridge"
    by_newton: bool = False

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
    loss : {"squared", "logistic", "squared_hinge", "stacked"}
    features : FeatureMap
    coef : array of shape (D, K) or (D, 2K)
    intercept : array of shape (K,) or (2K,)
    link : array of shape (2,)
    alpha : float
    start : Start
    n_steps : int or None
        Sweeps, or steps of Newton's method.
    held_out_predictions : HeldOutPredictions or None
    reason : str
    stack : array of shape (3,) or None
        See `fit_stack`; the first K columns of coefficients are then of the squared
        loss, the others of the logistic.
    unseen : UnseenRows or None
        Rows, and the classifier without them; of a stack with the coefficients of both
        losses.
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
    stack: NDArray | None = None
    unseen: UnseenRows | None = None

    @property
    def largest(self) -> float:
        """The largest score that counts."""
        return largest_score(self.loss)


def largest_score(loss: str) -> float:
    """The largest score that counts by a loss: only the squared one knows one."""
    return LARGEST_SCORE if loss == "squared" else np.inf


def class_loss(name: str, n_outputs: int) -> Loss:
    """The loss of a name, for `n_outputs` outputs; one stands for two classes."""
    if name == "squared_hinge":
        return SquaredHinge()
    return Logistic() if n_outputs == 1 else Multinomial()


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
    squared = as_squared(fitted)
    worthwhile = POLICY.worth_passes
    if not is_sample or fitted.features.is_dense:
        worthwhile = 0.0
    if loss == "squared" or (squared.held_out_predictions is None and loss == "auto"):
        return squared
    grids, dense = _sizes(fitted.features)
    size = design.source.n_rows, dense, grids, design.source.n_outputs
    if loss == "auto" and not may_compare_losses(*size):
        return squared._replace(
            reason="there are too many rows, classes and features to compare losses: "
            "request loss='logistic'"
        )
    try:
        if alphas is not None:
            return _at_ridge(design, fitted, task, loss, alphas)
        if loss == "auto" and not (fitted.has_grids_alone or fitted.is_linear):
            return squared._replace(
                reason="losses are compared for bins alone and for linear models: "
                "request loss='logistic'"
            )
        return _from_prior(
            design, fitted, task, loss, column_groups, worthwhile, is_sample
        )
    except MemoryError:
        if loss != "auto":
            raise
        return squared._replace(reason="the features do not fit in memory")


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
    dense = fitted.features.is_dense
    compared_design, held_out = _compared_rows(sample, fitted, task)
    if compared_design.source.n_counted < POLICY.fewest_compared and loss == "auto":
        return squared._replace(
            reason="there are too many classes and features to compare losses"
        )
    weight = fitted.weight or sample.source.total_weight
    share = compared_design.source.total_weight / weight if dense else 1.0
    stopping = (
        None if fitted.n_iter is None or dense else Iterations(2 * fitted.n_iter, True)
    )
    needs = Needs(True, evaluated=task.needs.evaluated)
    compared_task = replace(
        task,
        alpha=share * fitted.alpha,
        held_out=held_out,
        stopping=stopping,
        needs=needs,
    )
    first = solve(
        "direct" if fitted.n_iter is None else "cg", compared_design, compared_task
    )
    given = None if alphas is None else share * alphas
    class_fit = fit_classes(
        compared_design,
        first,
        compared_task,
        loss,
        given,
        column_groups,
        is_sample=True,
    )
    if class_fit.loss == "squared":
        return squared._replace(reason=class_fit.reason)
    K = fitted.coef.shape[1]
    features = class_fit.features
    coef = class_fit.coef[:, -K:].T
    if (
        class_fit.start.linear and dense
    ):  # whose functions of single columns keep their ridge penalty
        features = ConcatenatedFeatures.beside(
            fitted.features, features.parts[-1], features.scales[-1] ** 2 / share
        )
        coef = coef * np.where(
            np.arange(coef.shape[1]) < len(fitted.coef), 1.0, np.sqrt(share)
        )
    alpha = class_fit.alpha / share
    begun = (coef, class_fit.intercept[-K:])
    design = passes.of(passes.source, features, True)
    most = POLICY.most_passes if alphas is None else POLICY.most_iterations
    coef, intercept = go_on_in_passes(
        design, compared_design.source, class_fit.loss, alpha, begun, task, most
    )
    both = side_by_side(
        fitted,
        class_fit._replace(coef=coef, intercept=intercept),
        class_fit.loss == "stacked",
    )
    start = replace(class_fit.start, alpha=fitted.alpha)
    return class_fit._replace(
        features=features,
        coef=both.coef,
        intercept=both.intercept,
        alpha=alpha,
        start=start,
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
    name : {"logistic", "stacked", "squared_hinge"}
        Of a stack the logistic part.
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
        per_pass = POLICY.newton_iterations * POLICY.resumed_steps
    limits = PassLimits(task.tol, most, per_pass, lambda: task.budget.is_over)
    solution = minimise_in_passes(
        ridge, sample_ridge, loss, alpha, (coef, ridge.centred(coef, intercept)), limits
    )
    whole = np.ascontiguousarray(solution.coef.T.astype(passes.dtype))
    return whole, ridge.uncentred(solution.coef, solution.offset)


def _compared_rows(
    sample: Design, fitted: RidgeSolution, task: RidgeProblem
) -> tuple[Design, NDArray | None]:
    """As many rows in memory as losses are compared on, seen through a fitted map;
    which of them are held out.
    """
    (P, D), source = _sizes(fitted.features), sample.source
    most = int(
        min(
            POLICY.raced_rows,
            POLICY.most_compared / (source.n_outputs * (P + POLICY.dense_work * D)),
        )
    )
    rows = np.flatnonzero(source.weights)
    if len(rows) > most:
        rows = np.sort(
            np.random.default_rng(task.seed).choice(rows, most, replace=False)
        )
    return sample.of(
        source.take(rows), fitted.features, True
    ), None if task.held_out is None else task.held_out[rows]


def as_squared(fitted: RidgeSolution) -> ClassFit:
    """The ridge solution as a classifier."""
    K = fitted.coef.shape[1]
    seen = fitted.held_out_predictions
    link = link_of(seen, max(K, 2))
    solution = fitted.features, fitted.coef, fitted.intercept
    start = Start(fitted.alpha)
    return ClassFit(
        "squared",
        *solution,
        link,
        fitted.alpha,
        start,
        None,
        seen,
        unseen=fitted.unseen,
    )


def _at_ridge(
    design: Design,
    fitted: RidgeSolution,
    task: RidgeProblem,
    name: str,
    alphas: NDArray,
) -> ClassFit:
    """The classifier by another loss with given ridge penalties, on the same
    features, from the ridge solution on.
    """
    seen = fitted.held_out_predictions
    link = (
        np.array([USUAL_SLOPE, 0.0])
        if seen is None
        else fit_temperature(*by_class(seen))
    )
    slope = float(link[0]) if name == "logistic" else 1.0
    ridge, folds, without = stored_problem(design, fitted, task)
    problem = LossProblem(
        ridge,
        folds,
        class_loss(name, fitted.coef.shape[1]),
        task.tol,
        budget=task.budget,
    )
    loss_fit = problem.fit(
        problem.at_ridge(fitted, without, slope), tuple(alphas), validated=True
    )
    return _as_fitted(name, loss_fit, ridge.design.features, Start(fitted.alpha, slope))


def _as_fitted(
    name: str,
    loss_fit: LossFit,
    features: FeatureMap,
    start: Start,
    reason: str = "as given",
) -> ClassFit:
    """The classifier of another loss, calibrated on the rows held out."""
    seen = loss_fit.held_out_predictions
    link = np.array([1.0, 0.0]) if seen is None else fit_temperature(*by_class(seen))
    if all(_separated(*pair) for pair in loss_fit.fitted):
        reason += f"; {SEPARATED}"
    of_loss = (
        loss_fit.coef,
        loss_fit.intercept,
        link,
        loss_fit.alpha,
        start,
        loss_fit.n_steps,
        seen,
        reason,
    )
    return ClassFit(name, features, *of_loss, unseen=loss_fit.unseen)


def _from_prior(
    design: Design,
    fitted: RidgeSolution,
    task: RidgeProblem,
    name: str,
    column_groups: NDArray,
    worthwhile: float,
    by_newton: bool,
) -> ClassFit:
    """The classifier by another loss; or for "auto" what is best.

    Bins of single columns stand beside other bins where that is clearly better for the
    rows held out, which also tell the ridge penalty. For "auto" the scores are a stack
    of those of the squared and the logistic loss, where that is clearly better than the
    squared one; what gains nothing in the first few steps is given up.
    """
    squared = as_squared(fitted)
    automatic = name == "auto"
    stored = stored_problem(design, fitted, task)
    name = "logistic" if automatic else name
    unit = _penalty_unit(stored.ridge, fitted, name)
    loss = class_loss(name, fitted.coef.shape[1])
    problem = LossProblem(
        stored.ridge, stored.folds, loss, budget=task.budget, by_newton=by_newton
    )
    if not problem.folds:
        loss_fit = problem.fit(problem.at_prior(), (unit,))
        return _as_other(name, loss_fit, problem, stored, fitted)
    is_hopeless = None
    if automatic:
        before = problem.predictions_at(problem.at_ridge(fitted, stored.without))
        if len(before.weight) >= POLICY.fewest_looked:

            def is_hopeless(values: NDArray) -> bool:
                gain, noise, _ = _gain_of_both(before, problem.predictions([values]))
                return gain < noise

    part = replace(problem, budget=task.budget.first_of(2))
    # Few grids tell whether single columns are of use, and the ridge penalty
    few = _with_few_grids(part, task.seed)
    asked = is_hopeless if few is part else None
    trial = few.first_trial(unit, asked)
    beside = _beside_columns(few, unit, column_groups, task.seed)
    if beside is not None:
        other_trial = beside.first_trial(unit, asked)
        useful = trial.given_up or few.is_clearly_better(other_trial, trial)
        beside, trial = (beside, other_trial) if useful else (None, trial)
    trial = (beside or few).search(trial, unit)
    if few is part:
        part = beside or part
    else:
        if beside is not None:
            part = _beside_columns(part, unit, column_groups, task.seed) or part
        trial = part.trial(part.at_prior(), trial.alpha, is_hopeless)
    if trial.given_up:
        *_, reason = _gain_of_both(before, problem.predictions(trial.fitted))
        return squared._replace(reason=reason)
    problem = replace(part, budget=task.budget)
    other = _as_other(name, problem.fit_after(trial), problem, stored, fitted)
    if not automatic:
        return other
    compared_squared = squared._replace(
        link=link_of(before, max(before.targets.shape[1], 2)),
        held_out_predictions=before,
    )
    best = _stacked(compared_squared, other, fitted, worthwhile)
    if best.loss == "squared":
        return squared._replace(reason=best.reason)
    at_ridge = problem.at_ridge(fitted, stored.without)
    return (
        best._replace(unseen=problem.unseen(trial.end, at_ridge))
        if best.stack is not None
        else best
    )


def _as_other(
    name: str,
    loss_fit: LossFit,
    problem: LossProblem,
    stored: StoredProblem,
    fitted: RidgeSolution,
) -> ClassFit:
    """The classifier of a loss that began at the shares of the classes."""
    beside = len(problem.ridge.maps) > len(stored.ridge.maps)
    start = Start(fitted.alpha, 1.0, beside, loss_fit.start, problem.by_newton)
    return _as_fitted(name, loss_fit, problem.ridge.design.features, start)


def _gain_of_both(
    before: HeldOutPredictions, after: HeldOutPredictions
) -> tuple[float, float, str]:
    """By how much a stack of the squared and another loss has less log loss for the
    rows held out than the squared one, with the standard error; and both in words.
    """
    stacked = _combined(before, after, fit_stack(before, after)).distinct()
    before = before.distinct()
    one = log_losses(before, link_of(before, max(before.targets.shape[1], 2)))
    two = log_losses(stacked, np.array([1.0, 0.0]), np.inf)
    gain, noise = mean_and_error(one - two, before.weight, before.group)
    share = before.weight / before.weight.sum()
    text = (
        f"at first sight the log loss is {share @ one:.4f}, and {share @ two:.4f} with "
        "the logistic loss too"
    )
    return gain, noise, text


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
        return float(alphas_to_try(ridge)[0] / POLICY.bin_alphas[0])
    seen = fitted.held_out_predictions
    curvature = 1.0
    if name == "logistic":
        p = np.array([0.2])
        if seen is not None:
            link = fit_temperature(*by_class(seen))
            p = probabilities(by_class(seen).scores, link)
        curvature = max(float(np.mean(p * (1 - p))), LEAST_CURVATURE)
    least = POLICY.least_unit * min(float(ridge.design.source.weights.max()), 1.0)
    return max(2 * curvature * fitted.alpha, least)


def _with_few_grids(problem: LossProblem, seed: int) -> LossProblem:
    """The problem with few of the grids; itself where there are not many more, or the
    features are others.
    """
    ridge = problem.ridge
    features = ridge.design.features
    share = POLICY.searched_grids / max(_sizes(features)[0], 1)
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
    weight = POLICY.additive_weight * unit / _row_weight(ridge.design)
    return replace(problem, ridge=ridge.beside(part, weight))


def _row_weight(design: Design) -> float:
    """What a distinct row weighs."""
    return design.source.total_weight / len(
        np.unique(design.row_hashes[np.flatnonzero(design.source.weights)])
    )


def fit_classes_again(
    ridge: IterativeRidge,
    fitted: RidgeSolution,
    loss: str,
    alpha: float,
    n_steps: int,
    start: Start,
) -> LossFit:
    """The classifier for other rows, with what an earlier fit chose.

    `ridge` has the features of that fit; `fitted` is the ridge regression, on those
    without the functions of single columns; the others are as of a `ClassFit`.
    """
    problem = LossProblem(
        ridge,
        [],
        class_loss(loss, fitted.coef.shape[1]),
        by_newton=start.by_newton,
    )
    at_ridge = start.beginning == "ridge"
    begun = (
        problem.at_ridge(fitted, None, start.slope) if at_ridge else problem.at_prior()
    )
    return problem.fit(begun, (alpha,), n_steps)


def _separated(Y: NDArray, F: NDArray) -> bool:
    """Whether the scores (K, n) of rows, whose targets are Y, separate all of them."""
    if len(Y) == 1:
        return bool((Y * F > 0).all())
    return bool((np.where(Y > 0, F, np.inf).min(axis=0) >= F.max(axis=0)).all())


def _combined(
    before: HeldOutPredictions, after: HeldOutPredictions, stack: NDArray
) -> HeldOutPredictions:
    """The scores by a stack of both losses."""
    return after._replace(
        predicted=stacked_scores(np.hstack([before.predicted, after.predicted]), stack)
    )


def _stacked(
    squared: ClassFit, other: ClassFit, fitted: RidgeSolution, worthwhile: float
) -> ClassFit:
    """The stack of both losses, or the logistic loss alone where the squared one adds
    nothing to it; the squared loss where neither is better.
    """
    before = squared.held_out_predictions
    after = other.held_out_predictions
    assert before is not None
    assert after is not None
    stack = fit_stack(before, after)
    if not stack[:2].any():
        return _better(squared, other, worthwhile)
    solution = side_by_side(fitted, other, True)
    seen = _combined(before, after, stack)
    both = other._replace(
        loss="stacked",
        coef=solution.coef,
        intercept=solution.intercept,
        link=fit_temperature(*by_class(seen)),
        held_out_predictions=seen,
        stack=stack,
    )
    return _better(squared, both, worthwhile)


def side_by_side(
    solution: RidgeSolution, loss_fit: LossFit | ClassFit, stacked: bool
) -> RidgeSolution:
    """The solution by another loss; or both next to one another, (D, 2K).

    Then the coefficients by the squared loss are zero for the functions of single
    columns.
    """
    if not stacked:
        return replace(solution, coef=loss_fit.coef, intercept=loss_fit.intercept)
    padded = np.pad(
        solution.coef, ((0, len(loss_fit.coef) - len(solution.coef)), (0, 0))
    )
    intercept = np.concatenate([solution.intercept, loss_fit.intercept])
    return replace(
        solution,
        coef=np.ascontiguousarray(np.hstack([padded, loss_fit.coef])),
        intercept=intercept,
    )


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
    if not isinstance(X, np.ndarray) or X.shape[1] > POLICY.most_linear:
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


def _better(squared: ClassFit, other: ClassFit, worthwhile: float) -> ClassFit:
    """The other loss where the log loss of the rows held out is clearly less and their
    error is not clearly more.

    The gain must be a share of the log loss that is worthwhile.
    """
    seen = [
        predictions
        for predictions in (squared.held_out_predictions, other.held_out_predictions)
        if predictions is not None
    ]
    before, after = (predictions.distinct() for predictions in seen)
    one = log_losses(before, squared.link, squared.largest)
    two = log_losses(after, other.link, other.largest)
    share = before.weight / before.weight.sum()
    gain, noise = mean_and_error(one - two, before.weight, before.group)
    missed, missed_noise = mean_and_error(
        _misses(after) - _misses(before), before.weight, before.group
    )
    name = "both losses" if other.stack is not None else "the logistic loss"
    text = (
        f"validation log loss {share @ two:.4f} with {name}, {share @ one:.4f} "
        "with the squared loss"
    )
    if gain <= POLICY.clear * noise:
        return squared._replace(reason=text)
    if gain < worthwhile * share @ one:
        return squared._replace(
            reason=f"{text}, which is too little where not all rows are compared"
        )
    if missed > POLICY.clearly_worse * missed_noise:
        return squared._replace(
            reason=f"{text}, which misclassifies fewer rows (by {missed:.2%} of all)"
        )
    return other._replace(reason=text + other.reason.removeprefix("as given"))


def _misses(predictions: HeldOutPredictions) -> NDArray:
    """Share of each row that is of another class than the one of the largest score."""
    scores, targets, _ = by_class(predictions)
    share = class_shares(targets)
    return 1 - share[np.arange(len(share)), scores.argmax(axis=1)]
