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

from bochner.cli.failures import Facts
from bochner.cli.tables import SCORED_ROWS, drawn_rows
from bochner.cli.target import Target, score, with_target
from bochner.data.table import TableEncoder
from bochner.data.table_input import as_dense
from bochner.settings import current
from bochner.sources.base import TableSource

# Rows times columns times classes; bytes of the memory limit for each
MOST_ENTRIES, MOST_BYTES_SHARE = 1 << 24, 64
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
    train: tuple[Any, ...],
    n_train: int,
    test: tuple[Any, Target],
    model: Any,
    path: Path,
) -> Facts | None:
    """Scores of other models, which learn the training rows of a model, or a sample
    where these are too many.

    Parameters
    ----------
    train : tuple
        Rows and their targets, or a source and the name of its target.
    n_train : int
        Rows of it with a target.
    test : tuple of rows and Target
        That the model was scored on.
    model : fitted KernelMachineRegressor or KernelMachineClassifier
    path : Path
        Of the table, for messages.

    Returns
    -------
    dict or None
        `rows` that they learned, and the `scores` of each by its name. None where the
        columns and classes are so many that too few rows could be learned in a short
        time.
    """
    classes = getattr(model, "classes_", None)
    n_outputs = 1 if classes is None or len(classes) == 2 else len(classes)
    limit = current().memory_limit
    entries = MOST_ENTRIES
    if limit is not None:
        entries = min(entries, limit // MOST_BYTES_SHARE)
    n_columns = model.encoder_.n_features_out_
    most = min(entries // (n_columns * n_outputs), SCORED_ROWS, n_train)
    if most < min(FEWEST, n_train):
        return None
    # A share of the training rows, drawn by chance
    share = most / n_train
    X, *names = train[:2]
    if isinstance(X, TableSource):
        drawn: Any = drawn_rows(X, share, 1, *names)
        task = "regression" if classes is None else "classification"
        name = names[0] if names else "target"
        X, target = with_target(drawn.X, drawn.y, name, task, path)
        y = target.values
    else:
        y = train[1]
        if share < 1:
            order = np.random.default_rng(12).permutation(len(y))
            rows = np.sort(order[: round(share * len(y))])
            X, y = X.take(rows), y[rows]
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
                fitted = make_pipeline(TableEncoder(), dense, other).fit(X, y)
                scores[name] = score(fitted, *test, None, path)[0]
    return {"rows": len(y), "scores": scores} if scores else None
