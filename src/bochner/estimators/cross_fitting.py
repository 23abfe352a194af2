"""Predictions for few rows by machines that are fitted, and chosen, without their
fold.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bochner.arrays import Floats, n_distinct
from bochner.data.array_source import ArraySource
from bochner.data.hashes import observation_hashes
from bochner.data.row_splits import Fold
from bochner.engines.local import in_threads
from bochner.estimators.ridge.out_of_sample import OutOfSample
from bochner.estimators.ridge.ridge_problem import RidgeSolution
from bochner.inputs.training import TrainingRows
from bochner.notices import quiet
from bochner.selection.budget import Budget
from bochner.selection.policy import POLICY
from bochner.selection.split import fold_numbers
from bochner.selection.validation import HeldOutPredictions

# Of the folds of splits, where the others are enough to learn the scale of errors from
CALIBRATING_SHARE = 0.6
# Which intervals of up to 96 % need, and some more
FEWEST_CALIBRATING_GROUPS = 60


def cross_fitted(
    machine: Any,
    rows: TrainingRows,
    source: ArraySource,
    seed: int,
    budget: Budget,
) -> tuple[OutOfSample, HeldOutPredictions] | None:
    """Predict all rows by machines without their fold; rows with splits by machines
    that are fitted to those of each split.

    Parameters
    ----------
    machine : KernelMachine
    rows : TrainingRows
        Checked, in memory.
    source : ArraySource
        Those rows, encoded.
    seed : int
    budget : Budget
        The time that is left for this and for the machine itself.

    Returns
    -------
    OutOfSample, HeldOutPredictions
        All observations, and those that have predictions as the posterior takes them.
        None where there are more than 500 distinct rows or 5,000 rows, or with splits
        more than 50,000 rows or ten splits; where nothing is chosen; where there are
        rows that only validate; where the time limit leaves no time; or where a part of
        the rows cannot be fitted.
    """
    splits = source.splits
    request = machine._request
    is_open = request.is_named or request.alphas is None or len(request.alphas) > 1
    # Else the solver has exact leave-one-out errors
    is_chosen = is_open or machine.solver_ == "cg"
    if not is_chosen or (splits and splits.validation_weight is not None):
        return None
    most = POLICY.screened_rows if splits else POLICY.folded_rows
    if source.n_counted > most:
        return None
    observations = OutOfSample.of(source, seed).all_calibrating()
    if splits is None:
        folds = _folds_of_few(observations)
    else:
        folds = splits.folds_like_all(source.weights)
    if folds is None or len(folds) > max(POLICY.crossed_folds):
        return None
    # Machines of a part of the time choose otherwise, and their errors are no measure
    # of this one: folds of few rows have the limit of the machine, or are not fitted
    seconds = budget.seconds_left / (len(folds) + 1)
    fewest_seconds = POLICY.short_limit
    options: dict[str, Any] = {"uncertainty": False, "verbose": 0, "random_state": seed}
    if splits is None:
        fewest_seconds = budget.elapsed  # a fold takes as long as the fit
    elif budget.limit is not None:
        options["time_limit"] = seconds
    if seconds < fewest_seconds:
        return None
    part_of_time = budget.first_of(2)
    held_out = [np.flatnonzero(fold.held_out[observations.row]) for fold in folds]

    def predict_fold(k: int) -> Floats | None:
        if splits is None and part_of_time.is_over:
            return None
        part = rows.take(np.flatnonzero(folds[k].fitted))
        left_out = rows.take(observations.row[held_out[k]])
        one = machine.for_part(cv=_cv_of_part(machine.cv, part), **options)
        with quiet():
            one.fit(part.X, part.y, part.weight, part.groups)
            return source.targets(np.asarray(one.predict(left_out.X), np.float64))

    predicted = np.full(observations.targets.shape, np.nan)
    fold_of = np.full(len(observations.row), -1)
    try:
        for k, values in enumerate(in_threads(predict_fold, range(len(folds)))):
            if values is None:
                return None
            predicted[held_out[k]] = values
            fold_of[held_out[k]] = k
    except ValueError:  # what is asked for needs more rows than are left
        return None
    seen = np.flatnonzero(fold_of >= 0)
    predictions = observations.held_out(seen, predicted[seen], fold=fold_of[seen])
    if splits is not None:
        # Those of the first folds calibrate, where the others are enough to learn the
        # scale of errors from; else all calibrate
        calibrates = fold_of < max(CALIBRATING_SHARE * len(folds), 1)
        group = observations.group_of(np.flatnonzero(calibrates))
        partly = replace(observations, calibrating=calibrates)
        is_enough = group is None or n_distinct(group) >= FEWEST_CALIBRATING_GROUPS
        if is_enough and not partly.few:
            observations = partly
    return replace(observations, predicted=predicted), predictions


def with_larger_errors(
    solution: RidgeSolution, crossed: tuple[OutOfSample, HeldOutPredictions] | None
) -> RidgeSolution:
    """The solution of a refit with the errors of machines that were chosen without each
    fold, where these are larger than those of its own rows left out.

    The latter are too small where the rows chose the model in an earlier fit, and the
    former where other rows did. Rows of groups are left out by the former alone.
    """
    of_model = solution.held_out_predictions
    if crossed is None:
        return solution
    calibration, predictions = crossed
    if of_model is not None and predictions.group is None:
        losses = [
            np.average(np.square(each.targets - each.predicted), 0, each.weight).mean()
            for each in (of_model, predictions)
        ]
        if losses[0] >= losses[1]:
            return solution
    return replace(solution, calibration=calibration, held_out_predictions=predictions)


def _folds_of_few(observations: OutOfSample) -> list[Fold] | None:
    """Ten folds, or five of more rows; None where rows are too many or one."""
    n_different = n_distinct(observations.inputs)
    m = len(observations.row)
    if m < 2 or n_different > POLICY.crossed_rows:
        return None
    n_folds = min(POLICY.crossed_folds[n_different > POLICY.few_rows], m)
    # Targets at equal inputs by their order, so that folds are the same in any unit
    targets = observations.targets.reshape(m, -1)
    order = np.lexsort((*targets.T, observations.inputs))
    inputs = observations.inputs[order]
    is_first = np.append(True, inputs[1:] != inputs[:-1])
    firsts = np.maximum.accumulate(np.where(is_first, np.arange(m), 0))
    place = np.empty(m)
    place[order] = np.arange(m) - firsts
    hashes = observation_hashes(observations.inputs, place[:, np.newaxis])
    fold = fold_numbers(hashes, observations.seed, n_folds)
    of_rows = np.where(observations.number < 0, -1, fold[observations.number])
    return [Fold(of_rows == k, of_rows != k) for k in range(n_folds)]


def _cv_of_part(cv: Any, part: TrainingRows) -> Any:
    """The splitter for a part of the rows, or as many folds as usual where it makes
    more splits than the part has rows or groups; none where it knows only all rows.
    """
    from sklearn.model_selection import PredefinedSplit

    if isinstance(cv, int | np.integer):
        return cv
    if not hasattr(cv, "split") or isinstance(cv, PredefinedSplit):
        return None
    n_units = part.X.shape[0] if part.groups is None else n_distinct(part.groups)
    n_splits = getattr(cv, "n_splits", None)
    is_too_fine = isinstance(n_splits, int) and n_splits > n_units
    return min(POLICY.n_folds, n_units) if is_too_fine else cv
