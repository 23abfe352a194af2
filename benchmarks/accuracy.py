"""Test errors of the estimators without arguments: ``python benchmarks/accuracy.py [NAME ...] [--seeds 3]``."""

from __future__ import annotations

import argparse
import time

import numpy as np

from bochner import KernelMachineClassifier, KernelMachineRegressor
from datasets import load
from report import table, write_section

REGRESSION = ("cpu_act", "california_housing", "house_16H")
BARS = {
    "adult_a9a": 15.2,
    "adult": 14.3,
    "cpu_act": 0.19,
    "california_housing": 0.50,
    "house_16H": None,
    "digits": 3.0,
    "mnist": 2.6,
    "covtype": None,
}
ARGUMENTS = {"mnist": {"n_components": 8000}}


def run(name: str, seed: int) -> tuple[float, float, float]:
    """Test error (RMSE over deviation, or percent wrong), seconds of fit, microseconds a row of predict."""
    X, y, X_test, y_test = load(name)
    if name == "covtype":
        y, y_test = y == 2, y_test == 2
    if name != "adult":
        X, X_test = X.to_numpy(np.float32), X_test.to_numpy(np.float32)
    machine = KernelMachineRegressor if name in REGRESSION else KernelMachineClassifier
    start = time.perf_counter()
    model = machine(random_state=seed, **ARGUMENTS.get(name, {})).fit(X, y)
    fitted = time.perf_counter()
    predicted = model.predict(X_test)
    seconds = time.perf_counter() - fitted
    if name in REGRESSION:
        error = float(np.sqrt(np.mean((predicted - y_test) ** 2)) / y_test.std())
    else:
        error = 100 * float(np.mean(predicted != y_test))
    return error, fitted - start, 1e6 * seconds / len(y_test)


def main() -> None:
    """Measure and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(BARS))
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    rows = []
    for name in options.names:
        results = np.array([run(name, seed) for seed in range(1 if name == "mnist" else options.seeds)])
        error, fit, predict = np.median(results, axis=0)
        unit = "RMSE / sd" if name in REGRESSION else "% wrong"
        spread = f"{results[:, 0].min():.4g} - {results[:, 0].max():.4g}"
        bar = "" if BARS[name] is None else f"{BARS[name]:g}"
        rows.append([name, unit, f"{error:.4g}", spread, bar, f"{fit:.1f}", f"{predict:.2f}"])
        print(*rows[-1], flush=True)
    header = ["data", "test error in", "median", "range over seeds", "bar", "fit, s", "predict, us a row"]
    note = "Defaults of both estimators, except n_components=8000 for mnist (one seed); median over the seeds."
    write_section("Accuracy without arguments", "python benchmarks/accuracy.py", table(header, rows) + "\n\n" + note)


if __name__ == "__main__":
    main()
