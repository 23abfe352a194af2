"""Liu, Huang, Chen and Suykens (TPAMI 2021), the survey of random features: schemes of
sampling at growing D.

    python -m benchmarks liu2021

Gaussian kernel: error of the kernel matrix of 1,000 rows, ||K - Z Z'|| / ||K||
(Frobenius), and test error of the ridge machine with these features, at D = 2 d, 4 d, 8
d, 16 d, 32 d for d columns. The lengthscale is the median distance.
"""

from __future__ import annotations

import numpy as np

from accuracy import REGRESSION, error
from cells import Cell, Result, grouped, middle, run
from datasets import load
from report import table, write_section

PROBLEMS = {"cpu_act": "RMSE / sd", "house_16H": "RMSE / sd", "adult_a9a": "% wrong"}
SCHEMES = ("iid", "orthogonal", "structured", "qmc", "leverage")
TIMES = (2, 4, 8, 16, 32)
SEEDS, ROWS = 3, 10_000


def work(cell: Cell) -> Result:
    """Both errors at every D, of one problem, scheme and seed."""
    from scipy.spatial.distance import pdist

    from bochner import FourierFeatures, KernelMachineClassifier, KernelMachineRegressor
    from bochner.kernels import Gaussian

    X, y, X_test, y_test = load(cell["problem"])
    rows = np.random.default_rng(cell["seed"]).permutation(len(y))[:ROWS]
    X, X_test = X.to_numpy(np.float32), X_test.to_numpy(np.float32)
    regression = cell["problem"] in REGRESSION
    mean, scale = X.mean(axis=0), X.std(axis=0)
    scale = np.where(scale > 0, scale, 1) if regression else np.ones(X.shape[1])
    X, X_test, y = (X[rows] - mean) / scale, (X_test - mean) / scale, y[rows]
    kernel = Gaussian(float(np.median(pdist(X[:1000]))))
    K = kernel(X[:1000])
    machine = KernelMachineRegressor if regression else KernelMachineClassifier
    result: Result = {}
    for times in TIMES:
        features = FourierFeatures(
            kernel,
            times * X.shape[1],
            sampling=cell["scheme"],
            random_state=cell["seed"],
        )
        Z = features.fit(X).transform(X[:1000])
        result[f"kernel {times}"] = float(
            np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K)
        )
        predicted = (
            machine(features=features, random_state=cell["seed"])
            .fit(X, y)
            .predict(X_test)
        )
        result[f"test {times}"] = error(cell["problem"], predicted, y_test)
    return result


def page(results: list[tuple[Cell, Result]]) -> None:
    """A row for each problem and scheme."""
    groups, lines, ratios = grouped(results, "problem", "scheme"), [], {}
    for problem, unit in PROBLEMS.items():
        for scheme in SCHEMES:
            own = groups.get((problem, scheme), [])
            line = [problem, scheme]
            for what in ("kernel", "test"):
                values = [middle(own, f"{what} {times}") for times in TIMES]
                line += [
                    "not measured" if value is None else f"{value:.3g}"
                    for value in values
                ]
            lines.append([*line, unit])
    for what in ("kernel", "test"):
        errors = [
            [
                value
                for scheme in SCHEMES
                if (
                    value := middle(
                        groups.get((problem, scheme), []), f"{what} {times}"
                    )
                )
            ]
            for problem in PROBLEMS
            for times in TIMES
        ]
        ratios[what] = max((max(own) / min(own) for own in errors if own), default=1.0)
    header = ["problem", "sampling", *[f"kernel, {times} d" for times in TIMES]]
    header += [*[f"test, {times} d" for times in TIMES], "test error in"]
    note = f"""\
At most {ROWS:,} training rows; median over {SEEDS} seeds. The lengthscale of the Gaussian kernel is the median
distance of 1,000 rows. The table has the error of the kernel matrix of these rows, ||K - Z Z'|| / ||K||, at D = 2 d
... 32 d features for d columns, and the test error of ridge regression on them. Between schemes the matrix error
differs up to {ratios["kernel"]:.1f}-fold, and the test error up to {ratios["test"]:.2f}-fold.
"""
    body = table(header, lines) + "\n\n" + note
    write_section(
        "Sampling schemes, after Liu et al. (2021)",
        "python -m benchmarks liu2021",
        body,
    )


if __name__ == "__main__":
    run(
        "liu2021",
        [
            {"problem": problem, "scheme": scheme, "seed": seed, "limit": 600}
            for problem in PROBLEMS
            for scheme in SCHEMES
            for seed in range(SEEDS)
        ],
        work,
        page,
    )
