"""Exact kernel machines on the rows of a choice."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone

from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.features.base import FeatureMap
from bochner.selection.budget import Budget
from bochner.selection.validation import ValidationResult, Validator
from bochner.solvers.kernel_matrix import LEAST_TOL, solve_exact


def validate_exactly(
    rows: Validator, kernel_rows: FeatureMap, alpha_per_weight: float
) -> ValidationResult:
    """Fit an exact kernel machine, with a ridge penalty for a unit of weight, and
    validate it.

    Parameters
    ----------
    rows : Validator
    kernel_rows : FeatureMap
        `KernelRows`, not drawn, or these on learned coordinates.
    alpha_per_weight : float
    """
    clock = Budget()
    features = clone(kernel_rows).draw(rows.X.shape[1])
    features.fit_rows(rows.X)
    alpha = alpha_per_weight * float(rows.weight.sum())
    fitted = rows.fitted.encoded(np.float64)
    solution = solve_exact(
        Design(fitted, features, np.float64).dense,
        fitted.whole(),
        alpha,
        LEAST_TOL,
        rows.seed,
    )
    held_out = Design(ArraySource(rows.X_out, rows.y_out), features, np.float64)
    predicted = held_out.predict(solution.coef, solution.intercept)
    return ValidationResult(
        rows.losses(predicted.T),
        np.array([alpha]),
        0,
        predicted,
        clock.elapsed,
        alpha_per_weight,
        n_rows=rows.n_rows,
    )
