"""Other models beside those of the command, fitted on the same training rows and
scored on the same test rows.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from threadpoolctl import threadpool_limits

from bochner.blocks import HELD_ENTRIES
from bochner.cli.failures import Facts
from bochner.cli.hold_out import Split
from bochner.cli.tables import SCORED_ROWS, drawn_rows
from bochner.cli.target import score, with_target
from bochner.data.outliers import drawn
from bochner.data.table import TableEncoder
from bochner.data.table_input import as_dense
from bochner.settings import current
from bochner.sources.base import TableSource

# Bytes of the memory limit for each of rows times columns times classes
MOST_BYTES_SHARE = 64
FEWEST = 1000  # rows, unless there are no more: a model of fewer would be no match


def other_models(classes: bool) -> Facts:
    """Models of scikit-learn with default settings, by their names: of standardised
    columns, and of trees.
    """
    linear: Any = LogisticRegression(max_iter=300) if classes else Ridge()
    boosted: Any = (
        HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    )
    return {
        "linear model": make_pipeline(StandardScaler(), linear),
        "gradient boosting": boosted(random_state=0),
    }


def reference_scores(
    split: Split, n_train: int, model: Any, baseline: Any, path: Path
) -> Facts | None:
    """Scores of other models, which learn the training rows of a model, or a sample
    where these are too many, and read their columns as it does.

    Parameters
    ----------
    split : Split
        With test rows, that the model was scored on.
    n_train : int
        Training rows with a target.
    model : fitted KernelMachineRegressor or KernelMachineClassifier
    baseline : object
        What a model without inputs predicts, as for the model's own score.
    path : Path
        Of the table, for messages.

    Returns
    -------
    dict or None
        `rows` that they learned, and the `scores` of each by its name. None where the
        columns and classes are so many that too few rows could be learned in a short
        time.
    """
    assert split.test is not None
    classes = getattr(model, "classes_", None)
    n_outputs = 1 if classes is None or len(classes) == 2 else len(classes)
    limit = current().memory_limit
    entries = HELD_ENTRIES
    if limit is not None:
        entries = min(entries, limit // MOST_BYTES_SHARE)
    n_columns = model.encoder_.n_features_out_
    most = min(entries // (n_columns * n_outputs), SCORED_ROWS, n_train)
    if most < min(FEWEST, n_train):
        return None
    # A share of the training rows, drawn by chance
    share = most / n_train
    X, *beside = split.train
    if isinstance(X, TableSource):
        # Names of the target, the weights and the groups
        batch: Any = drawn_rows(X, share, 1, *beside[:1])
        task = "regression" if classes is None else "classification"
        name = beside[0] if beside else "target"
        X, target = with_target(batch.X, batch.y, name, task, path, [])
        X = X.drop_columns(beside[2:]) if beside[2:] else X
        y = target.values
    else:
        rows = drawn(np.arange(n_train), most, 12)
        X, y = X.take(rows), beside[0][rows]
    scores = {}
    # Threads would wait for one another
    with threadpool_limits(1), warnings.catch_warnings():
        # That a linear model has not quite converged is no matter for its score
        warnings.simplefilter("ignore")
        for name, other in other_models(classes is not None).items():
            # A class with a single row, or without any, is more than some models of
            # scikit-learn can learn.
            with suppress(ValueError):
                dense = FunctionTransformer(as_dense)
                encoder = TableEncoder(
                    text_features=model.text_features, day_first=model.day_first
                )
                fitted = make_pipeline(encoder, dense, other).fit(X, y)
                # Of classes that are not among the rows drawn there is no share
                has_all = classes is None or len(fitted.classes_) == len(classes)
                of_baseline = baseline if has_all else None
                scores[name] = score(fitted, *split.test, of_baseline)[0]
    return {"rows": len(y), "scores": scores} if scores else None
