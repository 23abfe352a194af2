"""Test errors of the estimators without arguments: ``python -m benchmarks accuracy [--only NAME ...]``.

Beside them one lengthscale for all columns (metric="isotropic"), and LightGBM with its defaults.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bochner import KernelMachineClassifier, KernelMachineRegressor
from datasets import Split, categorised, load
from report import tables
from runner import QUICK, repeats, run, timed

REGRESSION = ("cpu_act", "california_housing", "house_16H")
BARS = {
    "covtype": 2.0,
    "california_housing": 0.372,
    "cpu_act": 0.121,
    "house_16H": 0.585,
    "adult": 12.9,
    "adult_a9a": 15.2,
    "kddcup99": 7.1,
    "mnist": 1.8,
    "digits": 3.0,
}
BEFORE = {  # median, least and greatest of 2026-11-22, which later ones are compared with
    "covtype": (1.869, 1.839, 1.869),
    "california_housing": (0.3619, 0.3589, 0.3664),
    "cpu_act": (0.1196, 0.1179, 0.1246),
    "house_16H": (0.5638, 0.5607, 0.5655),
    "adult": (12.55, 12.41, 12.67),
    "adult_a9a": (14.82, 14.75, 14.96),
    "kddcup99": (6.832, 6.814, 6.977),
    "mnist": (1.69, 1.69, 1.71),
    "digits": (0.8333, 0.5556, 1.111),
}
LARGE = ("covtype", "kddcup99", "mnist")
FRAMES = ("adult", "kddcup99")
SEEDS, SEEDS_OF_LARGE = 5, 3
HEADER = (
    "data, test error in",
    "median",
    "range over seeds",
    "bar",
    "median before",
    "worse by, quarter ranges",
    "one lengthscale",
    "validation loss above it",
    "LightGBM, defaults",
    "fit, s",
    "predict, us a row",
    "chosen most often",
)
NOTE = f"""\
Default settings with a fixed random_state; median over {SEEDS} seeds ({", ".join(LARGE)}: {SEEDS_OF_LARGE}). "Median
before" is of 2026-11-22. The median may be worse by at most a quarter of the range over seeds at that time, which is 1
in that column. "Validation loss above it" is the excess over the loss with one lengthscale, for the worst seed, in
standard errors. It is empty if the table is too large for this comparison."""
FEW = 2000


def prepared(name: str) -> Split:
    """Rows as an array where all columns are numbers; Forest and KDD as problems of two classes."""
    X, y, X_test, y_test = load(name)
    if name == "covtype":
        y, y_test = y == 2, y_test == 2
    if name == "kddcup99":
        y, y_test = y == "normal", y_test == "normal"
    rows = Split(X, y, X_test, y_test)
    return rows if name in FRAMES else arrays(rows)


def arrays(rows: Split) -> Split:
    """Rows as arrays in single precision."""
    return Split(rows.X.to_numpy(np.float32), rows.y, rows.X_test.to_numpy(np.float32), rows.y_test)


def error(name: str, predicted: np.ndarray, truth: np.ndarray) -> float:
    """RMSE over the deviation of the targets, or percent wrong."""
    if name in REGRESSION:
        return float(np.sqrt(np.mean((predicted - truth) ** 2)) / truth.std())
    return 100 * float(np.mean(predicted != truth))


def few(rows: Any) -> Any:
    """Some 2,000 of the rows or targets."""
    return rows[:: max(1, len(rows) // FEW)]


def tried(name: str) -> Split:
    """Rows that are prepared, few of them where the script is tried only."""
    data = prepared(name)
    return Split(*map(few, data)) if QUICK else data


def estimator(name: str, **options: Any) -> Any:
    """The estimator of that problem."""
    return (KernelMachineRegressor if name in REGRESSION else KernelMachineClassifier)(**options)


def boosted(name: str, **options: Any) -> Any:
    """LightGBM, of that problem."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    return (LGBMRegressor if name in REGRESSION else LGBMClassifier)(verbose=-1, **options)


def measure(model: Any, name: str, data: Split) -> tuple[float, float, float]:
    """Test error, seconds of fit, microseconds a row of predict."""
    predicted, result = timed(model, data.X, data.y, data.X_test)
    return error(name, predicted, data.y_test), result["fit"], result["predict"]


def above_isotropic(model: Any) -> float | None:
    """Held-out loss of the chosen candidate less that of one lengthscale, in standard errors of the latter."""
    candidates = {one.name: one for one in model.report_.candidates}
    chosen, one = (candidates.get(name) for name in (model.report_.chosen, "Fourier features, one lengthscale"))
    return None if chosen is None or one is None else (chosen.loss - one.loss) / one.standard_error


def worse(name: str, median: float) -> float:
    """How much the median error is above that before, in quarters of the range over seeds that there was."""
    before, least, greatest = BEFORE[name]
    return (median - before) / ((greatest - least) / 4)


def rows(name: str) -> list[list[str]]:
    """The row of a data set."""
    data = tried(name)
    estimator(name, random_state=0).fit(few(data.X), few(data.y))  # loads compiled code
    results, shares, chosen = [], [], []
    for seed in range(repeats(SEEDS_OF_LARGE if name in LARGE else SEEDS)):
        model = estimator(name, random_state=seed)
        results.append(measure(model, name, data))
        chosen.append(model.report_.chosen)
        shares.append(above_isotropic(model))
    isotropic = measure(estimator(name, metric="isotropic", random_state=0), name, data)[0]
    theirs, their_time, _ = measure(boosted(name), name, categorised(data))
    errors = [found for found, _, _ in results]
    median, fit, predict = np.median(results, axis=0)
    before, least, greatest = BEFORE[name]
    cells = [
        f"{name}, {'RMSE / sd' if name in REGRESSION else '% wrong'}",
        f"{median:.4g}",
        f"{min(errors):.4g} - {max(errors):.4g}",
        f"{BARS[name]:g}",
        f"{before:.4g} ({least:.4g} - {greatest:.4g})",
        f"{worse(name, median):.1f}",
        f"{isotropic:.4g}",
        "" if None in shares else f"{max(shares):.1f}",
        f"{theirs:.4g} in {their_time:.1f} s",
        f"{fit:.1f}",
        f"{predict:.1f}",
        max(set(chosen), key=chosen.count),
    ]
    return [cells]


if __name__ == "__main__":
    parts = {name: partial(rows, name) for name in BARS}
    run("Accuracy with default settings", __file__, __doc__, parts, tables(HEADER, NOTE), ("lightgbm",))
