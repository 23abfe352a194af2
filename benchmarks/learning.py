"""What it costs to learn metric, map and size inside fit: ``python benchmarks/learning.py [NAME ...]``."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import numpy as np

from accuracy import prepared
from runner import Row, run, seconds

SEEDS = 3
LIMITS = ((16_512, 8, 2.0), (16_512, 8, 5.0), (100_000, 20, 5.0), (100_000, 20, 20.0))


def waves(n_rows: int, n_columns: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A smooth target of three columns, and a step in a fourth, under some noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_columns), dtype=np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + (X[:, 3] > 0.5) + 0.3 * rng.standard_normal(n_rows)
    return X, y


def timed(model: Any, X: Any, y: np.ndarray) -> float:
    """Seconds of a fit."""
    start = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - start


def forest() -> list[Row]:
    """Forest Cover without arguments, against LightGBM in the same run."""
    from lightgbm import LGBMClassifier

    from bochner import KernelMachineClassifier

    data = prepared("covtype")
    KernelMachineClassifier(random_state=0).fit(data.X[:20_000], data.y[:20_000])  # loads compiled code
    boosted = LGBMClassifier(n_estimators=500, num_leaves=255, verbose=-1)
    ours, theirs, errors, learning = [], [], [], []
    for seed in range(SEEDS):
        theirs.append(timed(boosted, data.X, data.y))
        model = KernelMachineClassifier(random_state=seed)
        ours.append(timed(model, data.X, data.y))
        errors.append(100 * np.mean(model.predict(data.X_test) != data.y_test))
        learning.append(sum(model.report_.seconds.values()))
    wrong = 100 * np.mean(boosted.predict(data.X_test) != data.y_test)
    ratio = median(a / b for a, b in zip(ours, theirs, strict=True))
    return [
        (
            "Forest, no argument: test error",
            f"{median(errors):.2f} % ({min(errors):.2f} - {max(errors):.2f})",
            "<= 2.0 %",
        ),
        (
            "the same: whole fit over LightGBM's, 500 trees of 255 leaves",
            f"{ratio:.2f} ({median(ours):.1f} s and {median(theirs):.1f} s; its error {wrong:.2f} %)",
            "<= 1.0",
        ),
        (
            "the same: of it the choice of metric and size",
            f"{median(learning):.1f} s",
            "<= 5 s, or twice the final fit",
        ),
    ]


def small() -> list[Row]:
    """Fits of few rows, compiled code warm."""
    from bochner import KernelMachineRegressor

    rows: list[Row] = []
    for n_rows, n_columns, bar in ((150, 8, "<= 0.5 s"), (1000, 20, "<= 1 s")):
        X, y = waves(n_rows, n_columns)
        took = seconds(lambda X=X, y=y: KernelMachineRegressor(random_state=0).fit(X, y), 5)
        rows.append((f"fit {n_rows:,} x {n_columns}, compiled code warm", f"{took:.2f} s", bar))
    return rows


def cost() -> list[Row]:
    """Seconds of the choice and of the final fit as rows grow."""
    from bochner import KernelMachineRegressor

    rows: list[Row] = []
    KernelMachineRegressor(random_state=0).fit(*waves(3000, 20))
    for n_rows in (10_000, 100_000, 1_000_000):
        X, y = waves(n_rows, 20)
        model = KernelMachineRegressor(random_state=0)
        whole = timed(model, X, y)
        chosen = sum(model.report_.seconds.values())
        text = f"{chosen:.1f} s of {whole:.1f} s ({model.report_.chosen})"
        rows.append((f"choice of the model, {n_rows:,} x 20", text, "<= 5 s, or twice the final fit"))
    return rows


def limits() -> list[Row]:
    """Fits with a time limit."""
    from bochner import KernelMachineRegressor

    rows: list[Row] = []
    KernelMachineRegressor(random_state=0).fit(*waves(3000, 20))
    for n_rows, n_columns, limit in LIMITS:
        X, y = waves(n_rows, n_columns)
        model = KernelMachineRegressor(time_limit=limit, random_state=0)
        took = median(timed(model, X, y) for _ in range(SEEDS))
        score = model.score(*waves(5000, n_columns, 1))
        text = f"{took:.1f} s (R2 {score:.3f}, {model.report_.chosen})"
        rows.append((f"time_limit={limit:g}, {n_rows:,} x {n_columns}", text, f"<= {1.2 * limit:g} s"))
    return rows


BENCHMARKS = {"forest": forest, "small": small, "cost": cost, "limits": limits}


if __name__ == "__main__":
    run("Learning inside fit", __file__, __doc__, BENCHMARKS)
