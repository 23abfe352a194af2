"""Makes the columns that `bochner predict` writes: predictions, and how sure they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bochner.cli.errors import CommandError, errors_of
from bochner.cli.saved import SavedModel
from bochner.inputs.predictions import named_columns


@dataclass(frozen=True)
class PredictionOptions:
    """Columns besides the predictions.

    Attributes
    ----------
    interval : float or None
        Coverage of prediction intervals, columns `lower` and `upper`.
    std : bool
        Standard deviations.
    proba : bool or None
        A probability for each class; None where the model has classes.
    """

    interval: float | None = None
    std: bool = False
    proba: bool | None = None

    def check(self, saved: SavedModel) -> None:
        """Raise CommandError where the model cannot predict what is asked for."""
        option = "--std" if self.interval is None else "--interval"
        if saved.task == "regression" and self.proba:
            raise CommandError(
                f"{saved.path}: predicts numbers, and --proba is for classes; use --interval or --std for uncertainty"
            )
        if self.interval is None and not self.std:
            return
        if saved.task == "classification":
            raise CommandError(
                f"{saved.path}: predicts classes, and {option} is for regression; use --proba for probabilities"
            )
        if not getattr(saved.model, "uncertainty", False):
            raise CommandError(
                f"{saved.path}: was fitted without uncertainty, which {option} needs; fit it again with 'bochner fit "
                "--uncertainty' (in Python, uncertainty=True)"
            )


def predictions(saved: SavedModel, X: Any, options: PredictionOptions) -> dict[str, Any]:
    """Columns by name: one of predictions for each target, and the other columns asked for."""
    name = "target" if saved.target is None else saved.target
    if saved.task == "classification":
        columns = {f"{name}_predicted": pa.array(saved.model.predict(X))}
        if options.proba is not False:
            proba = saved.model.predict_proba(X)
            for k, label in enumerate(saved.model.classes_.tolist()):
                columns[f"{name}_probability_{label}"] = pa.array(proba[:, k])
        return columns
    return named_columns(name, _numbers(saved, X, options))


def _numbers(saved: SavedModel, X: Any, options: PredictionOptions) -> dict[str, NDArray[np.float64]]:
    """Predictions and the other columns asked for, each of shape (n,) or (n, K)."""
    if options.std:
        mean, std = saved.model.predict(X, return_std=True)
        found = {"predicted": mean, "std": std}
    else:
        found = {"predicted": saved.model.predict(X)}
    if options.interval is not None:
        with errors_of(saved.path):  # the rows are sound by now: what is refused is the coverage
            ends = saved.model.predict_interval(X, coverage=options.interval)
        found |= {"lower": ends[..., 0], "upper": ends[..., 1]}
    return found
