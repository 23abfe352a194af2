"""Runs `bochner demo`: three data sets that are always there, two lines of Python each."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.loops.clock import CLOCK

CODE = """\
model = KernelMachineClassifier(random_state=0).fit(X_train, y_train)
score = model.score(X_test, y_test)
"""
SEED, TEST_SIZE = 0, 0.25


def demo() -> dict[str, Any]:
    """Fit and score on data that scikit-learn brings along."""
    from sklearn import datasets

    began, worked = time.perf_counter(), CLOCK.seconds()
    results = [
        _run("digits", datasets.load_digits, _classifier),
        _run("breast cancer", datasets.load_breast_cancer, _classifier),
        _run("diabetes", datasets.load_diabetes, _regressor),
    ]
    compiling = max(time.perf_counter() - began - (CLOCK.seconds() - worked), 0.0)
    return {"command": "demo", "code": CODE, "results": results, "compile_seconds": compiling, "notes": []}


def _classifier(X_train: NDArray, X_test: NDArray, y_train: NDArray, y_test: NDArray) -> tuple[Any, float]:
    from bochner import KernelMachineClassifier

    model = KernelMachineClassifier(random_state=0).fit(X_train, y_train)
    score = model.score(X_test, y_test)
    return model, score


def _regressor(X_train: NDArray, X_test: NDArray, y_train: NDArray, y_test: NDArray) -> tuple[Any, float]:
    from bochner import KernelMachineRegressor

    model = KernelMachineRegressor(random_state=0).fit(X_train, y_train)
    score = model.score(X_test, y_test)
    return model, score


def _run(name: str, load: Callable[..., Any], learn: Callable[..., tuple[Any, float]]) -> dict[str, Any]:
    from sklearn.model_selection import train_test_split

    from bochner.scores import summaries as scores

    X, y = load(return_X_y=True)
    classes = learn is _classifier
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=TEST_SIZE, random_state=SEED, stratify=y if classes else None
    )
    start = CLOCK.seconds()
    model, score = learn(X_train, X_test, y_train, y_test)
    seconds = CLOCK.seconds() - start
    if classes:
        shares = np.bincount(y_train) / len(y_train)
        measured = scores.classification(y_test, model.predict(X_test), model.predict_proba(X_test), shares)["accuracy"]
    else:
        measured = scores.regression(y_test, model.predict(X_test), y_train.mean())["r2"]
    return {
        "data": name,
        "rows": len(y),
        "columns": X.shape[1],
        "score": "accuracy" if classes else "r2",
        **measured,
        "value": score,
        "seconds": seconds,
    }
