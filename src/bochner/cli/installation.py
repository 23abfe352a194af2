"""Tries out an installation: `bochner demo`."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from bochner import KernelMachineClassifier, KernelMachineRegressor
from bochner.cli.failures import Facts
from bochner.cli.references import other_models
from bochner.estimators import loop_cache
from bochner.loops.clock import CLOCK
from bochner.scores import summaries as scores

CODE = """\
model = KernelMachineClassifier(random_state=0).fit(X_train, y_train)
score = model.score(X_test, y_test)
"""
FUNCTION, FUNCTION_ROWS = "Friedman's function", 3000


def demo() -> Facts:
    """Fit and score on data that scikit-learn brings along or makes, beside other
    models.
    """
    began = time.perf_counter()
    worked = CLOCK.seconds()
    # All loops, also those of later fits and reports; where they cannot be kept, those
    # of the demonstration remain.
    with suppress(OSError):
        loop_cache.warmup()
    function = partial(datasets.make_friedman1, random_state=0)
    results = [
        _fit_and_score(FUNCTION, *function(FUNCTION_ROWS, noise=1.0)),
        _fit_and_score("digits", *datasets.load_digits(return_X_y=True), classes=True),
        _fit_and_score("diabetes", *datasets.load_diabetes(return_X_y=True)),
    ]
    compiling = max(time.perf_counter() - began - (CLOCK.seconds() - worked), 0.0)
    variance = np.var(function(FUNCTION_ROWS, noise=0.0)[1])
    notes = [
        f"{FUNCTION} has noise, which limits R² to {variance / (variance + 1):.2f}.",
        f"diabetes has {results[-1]['rows']:,} rows only: of so few, a linear model "
        "may be as good.",
    ]
    return {
        "code": CODE,
        "results": results,
        "compile_seconds": compiling,
        "notes": notes,
    }


def warmup() -> Facts:
    """Compile all inner loops and cache them."""
    return loop_cache.warmup()._asdict() | {"notes": []}


def _fit_and_score(
    name: str, X: NDArray, y: NDArray, *, classes: bool = False
) -> Facts:
    labels = y if classes else None
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.25, random_state=0, stratify=labels
    )
    model: Any
    start = CLOCK.seconds()
    if classes:
        model = KernelMachineClassifier(random_state=0).fit(X_train, y_train)
    else:
        model = KernelMachineRegressor(random_state=0).fit(X_train, y_train)
    score = model.score(X_test, y_test)
    seconds = CLOCK.seconds() - start
    predicted = model.predict(X_test)
    if classes:
        shares = np.bincount(y_train) / len(y_train)
        proba = model.predict_proba(X_test)
        measured = scores.classification(y_test, predicted, proba, shares)["accuracy"]
    else:
        measured = scores.regression(y_test, predicted, y_train.mean())["r2"]
    with threadpool_limits(1):  # threads would wait for one another
        others = {
            other: one.fit(X_train, y_train).score(X_test, y_test)
            for other, one in other_models(classes).items()
        }
    return {
        "data": name,
        "rows": len(y),
        "columns": X.shape[1],
        "score": "accuracy" if classes else "r2",
        **measured,
        "value": score,
        "others": others,
        "seconds": seconds,
    }
