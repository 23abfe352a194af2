"""Losses of classes in passes over rows that are not in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.estimators.class_losses import (
    ClassFit,
    as_squared,
    class_loss,
    fit_classes,
)
from bochner.estimators.ridge.ridge_problem import (
    RidgeProblem,
    RidgeSolution,
)
from bochner.estimators.ridge.solve import solved_on_part
from bochner.features.concatenate import ConcatenatedFeatures
from bochner.selection.policy import POLICY
from bochner.solvers.iterative import IterativeRidge
from bochner.solvers.loss_passes import minimise_in_passes
from bochner.solvers.newton import Point


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
    part = solved_on_part(sample, fitted, task, n_iter)
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
