"""Predictions for few rows by machines that are fitted, and chosen, without their
fold.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats
from bochner.data.array_source import ArraySource, rows_of
from bochner.engines.local import in_threads
from bochner.estimators.machine import KernelMachine
from bochner.estimators.ridge import given_alphas
from bochner.estimators.ridge.error_scale import CalibrationRows
from bochner.kernels import Kernel
from bochner.notices import quiet
from bochner.selection.budget import Budget
from bochner.selection.policy import POLICY
from bochner.selection.split import fold_numbers
from bochner.selection.validation import HeldOutPredictions


class CrossFitted(NamedTuple):
    """Observations with predictions, and the same as the posterior takes them."""

    calibration: CalibrationRows
    held_out_predictions: HeldOutPredictions


def cross_fitted(
    machine: KernelMachine,
    X: Any,
    y: Floats,
    weight: NDArray | None,
    source: ArraySource,
    seed: int,
    budget: Budget,
) -> CrossFitted | None:
    """Predict all rows by machines without their fold.

    Parameters
    ----------
    machine : KernelMachine
    X : array, sparse matrix or data frame of shape (n, d)
        Checked.
    y : array of shape (n,) or (n, K)
    weight : array of shape (n,) or None
    source : ArraySource
        The same rows.
    seed : int
    budget : Budget
        The time that is left for this and for the machine itself.

    Returns
    -------
    CrossFitted or None
        None where there are more than 500 distinct rows or 5,000 rows, where nothing is
        chosen, where the time limit leaves no time, or where a part of the rows cannot
        be fitted.
    """
    if not _chooses(machine) or source.n_counted > POLICY.crossed_observations:
        return None
    calibration = CalibrationRows.of(source, seed).all_calibrating()
    observations = calibration.observations
    m = len(calibration.weight)
    n_distinct = len(np.unique(observations.inputs))
    if m < 2 or n_distinct > POLICY.crossed_rows:
        return None
    n_folds = min(POLICY.crossed_folds[n_distinct > POLICY.few_rows], m)
    seconds = budget.left / (n_folds + 1)
    if seconds < POLICY.crossed_seconds:
        return None
    fold = fold_numbers(observations.hashes, seed, n_folds)
    of_rows = np.where(observations.number < 0, -1, fold[observations.number])
    options: dict[str, Any] = {"uncertainty": False, "verbose": 0, "random_state": seed}
    if budget.limit is not None:
        options["time_limit"] = seconds

    def predicted(k: int) -> Floats:
        kept = np.flatnonzero(of_rows != k)
        left = observations.row[fold == k]
        one = machine.for_part(**options)
        with quiet():
            one.fit(rows_of(X, kept), y[kept], None if weight is None else weight[kept])
            return source.targets(np.asarray(one.predict(rows_of(X, left)), np.float64))

    found = np.empty(calibration.targets.shape)
    try:
        for k, values in enumerate(in_threads(predicted, range(n_folds))):
            found[fold == k] = values
    except ValueError:  # what is asked for needs more rows than are left
        return None
    predictions = calibration.held_out(np.arange(m), found, fold=fold)
    return CrossFitted(calibration.with_predictions(found), predictions)


def _chooses(machine: KernelMachine) -> bool:
    """Whether anything is chosen by the rows, or the solver has no exact
    leave-one-out errors.
    """
    alphas = given_alphas(machine.alpha)
    named = isinstance(machine.features, str) and not isinstance(machine.kernel, Kernel)
    return named or alphas is None or len(alphas) > 1 or machine.solver_ == "cg"
