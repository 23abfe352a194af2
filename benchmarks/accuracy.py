"""Test errors of the estimators without arguments: ``python benchmarks/accuracy.py [NAME ...] [--seeds 5]``.

Beside them one lengthscale for all columns (metric="isotropic"), and LightGBM with its defaults.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from bochner import KernelMachineClassifier, KernelMachineRegressor
from datasets import Split, categorised, load
from report import table, write_section
from runner import timed

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
LARGE = ("covtype", "kddcup99", "mnist")
FRAMES = ("adult", "kddcup99")
SEEDS_OF_LARGE = 3


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


def run(model: Any, name: str, data: Split) -> tuple[float, float, float]:
    """Test error, seconds of fit, microseconds a row of predict."""
    predicted, result = timed(model, data.X, data.y, data.X_test)
    return error(name, predicted, data.y_test), result["fit"], result["predict"]


def above_isotropic(model: Any) -> float | None:
    """Held-out loss of the chosen candidate less that of one lengthscale, in standard errors of the latter."""
    losses = {one.name: one for one in model.report_.candidates}
    one = losses.get("Fourier features, one lengthscale")
    return None if one is None else (losses[model.report_.chosen].loss - one.loss) / one.standard_error


def peer(name: str, data: Split) -> tuple[float, float]:
    """Test error and seconds of LightGBM with its defaults, strings as categories."""
    from lightgbm import LGBMClassifier, LGBMRegressor

    model = (LGBMRegressor if name in REGRESSION else LGBMClassifier)(verbose=-1)
    found, fit, _ = run(model, name, categorised(data))
    return found, fit


def row(name: str, seeds: int) -> list[str]:
    """A row of the table."""
    data = prepared(name)
    machine = KernelMachineRegressor if name in REGRESSION else KernelMachineClassifier
    found, shares, chosen = [], [], []
    for seed in range(seeds):
        model = machine(random_state=seed)
        found.append(run(model, name, data))
        chosen.append(model.report_.chosen)
        shares.append(above_isotropic(model))
    results = np.array(found)
    isotropic = run(machine(metric="isotropic", random_state=0), name, data)[0]
    theirs, their_time = peer(name, data)
    median, fit, predict = np.median(results, axis=0)
    worst = "" if None in shares else f"{max(share for share in shares if share is not None):.1f}"
    return [
        name,
        "RMSE / sd" if name in REGRESSION else "% wrong",
        f"{median:.4g}",
        f"{results[:, 0].min():.4g} - {results[:, 0].max():.4g}",
        f"{BARS[name]:g}",
        f"{isotropic:.4g}",
        worst,
        f"{theirs:.4g} in {their_time:.1f} s",
        f"{fit:.1f}",
        f"{predict:.1f}",
        max(set(chosen), key=chosen.count),
    ]


def main() -> None:
    """Measure and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(BARS))
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    run(KernelMachineRegressor(random_state=0), "cpu_act", prepared("cpu_act"))  # loads compiled code
    rows = []
    for name in options.names:
        rows.append(row(name, min(options.seeds, SEEDS_OF_LARGE) if name in LARGE else options.seeds))
        print(*rows[-1], sep=" | ", flush=True)
    header = ["data", "test error in", "median", "range over seeds", "bar", "one lengthscale", "held-out loss above it"]
    header += ["LightGBM, defaults", "fit, s", "predict, us a row", "chosen most often"]
    note = (
        f"No argument but random_state; median over {options.seeds} seeds ({', '.join(LARGE)}: "
        f"{min(options.seeds, SEEDS_OF_LARGE)}). Held-out loss above that of one lengthscale: the worst seed, in "
        "standard errors; empty where so many rows leave no comparison."
    )
    if set(options.names) == set(BARS):
        body = table(header, rows) + "\n\n" + note
        write_section("Accuracy without arguments", "python benchmarks/accuracy.py", body, ("lightgbm",))


if __name__ == "__main__":
    main()
