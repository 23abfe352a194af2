"""Shapley values of default models: exact ones, those of shap.PermutationExplainer, and
TreeSHAP on LightGBM.

python -m benchmarks explain [--only NAME ...]

Needs the packages shap and lightgbm; what is missing is left out. Times are processor
seconds, on all threads.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from bochner import KernelMachineClassifier, KernelMachineRegressor
from bochner.estimators.explained_scores import explained_function
from datasets import Split, load
from report import Results, Row, columns
from runner import run, size

ROWS, BACKGROUND, EVALUATIONS, TREES = size(1000), 100, 500, 500
SAMPLED_ROWS = 10  # that shap explains, which takes minutes for all
MOST_FITTED = size(50_000)


def coded(
    rows: Split,
) -> tuple[np.ndarray, np.ndarray, Callable[[np.ndarray], pd.DataFrame]]:
    """Training and test rows as numbers, text by its codes; and the way back."""
    both = pd.concat([rows.X, rows.X_test])
    levels = {
        name: pd.unique(both[name].astype(object))
        for name in both
        if not pd.api.types.is_numeric_dtype(both[name].dtype)
    }

    def numbers(X: pd.DataFrame) -> np.ndarray:
        codes = {
            name: pd.Categorical(X[name], levels[name]).codes
            if name in levels
            else X[name]
            for name in X
        }
        return np.column_stack(
            [np.asarray(column, np.float64) for column in codes.values()]
        )

    def back(Z: np.ndarray) -> pd.DataFrame:
        whole = {name: Z[:, j] for j, name in enumerate(both)}
        return pd.DataFrame(
            {
                name: levels[name][z.astype(int)] if name in levels else z
                for name, z in whole.items()
            }
        ).astype({name: both[name].dtype for name in levels})

    return numbers(rows.X), numbers(rows.X_test), back


def measured(work: Callable[[], Any]) -> tuple[Any, float]:
    """What a call gives, and its processor seconds."""
    start = time.process_time()
    given = work()
    return given, time.process_time() - start


def explained(name: str) -> list[Row]:
    """The rows of one table."""
    rows = load(name)
    some = np.random.default_rng(0).permutation(len(rows.y))[:MOST_FITTED]
    rows = rows._replace(X=rows.X.iloc[some], y=rows.y[some])
    classes = rows.y.dtype.kind in "OU" or len(np.unique(rows.y)) < 20
    model = (KernelMachineClassifier if classes else KernelMachineRegressor)(
        random_state=0
    ).fit(rows.X, rows.y)
    X, background = rows.X_test.iloc[:ROWS], rows.X.iloc[:BACKGROUND]
    model.explain(X[:2], background)  # compiled, and not counted
    found, spent = measured(lambda: model.explain(X, background))
    way = "exact" if found.is_exact else "some bins sampled"
    named = (
        f"{name}, {len(rows.y):,} rows, {X.shape[1]} columns, {model.report_.chosen}"
    )
    table: list[Row] = [
        (
            f"{named}: explain, {way}",
            f"{1000 * spent / len(X):.1f} s for 1,000 rows",
            "20 s on two cores",
        )
    ]
    size_of_values = float(np.sqrt(np.square(found.values).mean()))
    if found.errors is not None:
        error = float(np.sqrt(np.square(found.errors).mean())) / size_of_values
        table.append(
            (
                f"{name}: standard error over the size of a value",
                f"{100 * error:.2f} %",
                "",
            )
        )
    return (
        table
        + by_permutations(name, model, rows, found, size_of_values)
        + by_trees(name, rows, classes)
    )


def by_permutations(
    name: str, model: Any, rows: Split, found: Any, size_of_values: float
) -> list[Row]:
    """The same model explained by shap's permutations, a few rows."""
    try:
        import shap
    except ImportError:
        print("shap is not installed", file=sys.stderr)
        return []
    train, test, back = coded(rows)
    unit = explained_function(model)

    def scores(Z: np.ndarray) -> np.ndarray:
        frame = back(Z)
        if unit.unit != "log-odds":
            return model.predict(frame)
        return float(model.link_[0]) * model.decision_function(frame)

    explainer = shap.PermutationExplainer(
        scores, shap.maskers.Independent(train[:BACKGROUND], BACKGROUND), seed=0
    )
    some, spent = measured(
        lambda: explainer(test[:SAMPLED_ROWS], max_evals=EVALUATIONS, silent=True)
    )
    figures = [
        (
            f"{name}: shap.PermutationExplainer, {EVALUATIONS} evaluations a row",
            f"{1000 * spent / SAMPLED_ROWS:.0f} s for 1,000 rows",
            "",
        )
    ]
    error = np.sqrt(np.square(some.values - found.values[:SAMPLED_ROWS]).mean())
    figures.append(
        (
            f"{name}: difference of its values, over the size of a value",
            f"{100 * error / size_of_values:.2f} %",
            "",
        )
    )
    return figures


def by_trees(name: str, rows: Split, classes: bool) -> list[Row]:
    """TreeSHAP on LightGBM, interventional with the same background rows, and along
    the paths of the trees.
    """
    try:
        import lightgbm
        import shap
    except ImportError:
        return []
    train, test, _ = coded(rows)
    machine = (lightgbm.LGBMClassifier if classes else lightgbm.LGBMRegressor)(
        n_estimators=TREES, verbose=-1
    )
    trees = machine.fit(train, rows.y)
    explainer = shap.TreeExplainer(
        trees.booster_, train[:BACKGROUND], feature_perturbation="interventional"
    )
    few = test[: max(ROWS // 10, 1)]
    _, spent = measured(lambda: explainer.shap_values(few, check_additivity=False))
    _, along = measured(lambda: trees.predict(test[:ROWS], pred_contrib=True))
    return [
        (
            f"{name}: TreeSHAP on LightGBM, {TREES} trees, interventional",
            f"{1000 * spent / len(few):.1f} s for 1,000 rows",
            "",
        ),
        (
            f"{name}: the same, path-dependent",
            f"{1000 * along / ROWS:.1f} s for 1,000 rows",
            "",
        ),
    ]


BENCHMARKS = {
    name: partial(explained, name)
    for name in ("california_housing", "adult", "cpu_act", "house_16H", "covtype")
}

ABOUT = """Seconds are those of all threads together, so that a target of 20 s on two cores is one of 40. Rows are
compared with 100 background rows. Both explainers of one model differ by the errors of both where ours samples."""


def body(results: Results) -> str:
    """What the figures are of, and their table."""
    return f"{ABOUT}\n\n{columns(results)}"


if __name__ == "__main__":
    run(
        "Explanations",
        __file__,
        __doc__,
        BENCHMARKS,
        body,
        packages=("shap", "lightgbm"),
    )
