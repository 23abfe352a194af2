"""What a plan says a fit takes, and what it takes: ``python -m benchmarks plans [--only NAME ...]``.

Fourier features solved both ways: seconds that the costs of this machine foretell, over the processor seconds of the
fit for each thread, which other processes at the same time change little. Ridge terms are given but where it says
"chosen"; classes have probabilities, numbers have none.
"""

from __future__ import annotations

import time
from functools import partial
from typing import NamedTuple

import numpy as np

from datasets import load
from report import Row
from runner import run, size

DIRECT_WORK = 1.5e12  # n D^2, beyond which there is no direct solution here
WITHIN = "1.5 either way"


class Case(NamedTuple):
    """Rows, features, ridge term (None: chosen), and whether the labels are classes or the numbers -1 and 1."""

    n_rows: int
    D: int
    alpha: float | None
    classes: bool


CASES = {
    "covtype": [
        Case(261_000, 5000, 0.1, True),
        Case(261_000, 5000, 1.0, False),
        Case(100_000, 4000, 10.0, True),
        Case(100_000, 2000, None, True),
        Case(500_000, 1000, 1.0, False),
        Case(50_000, 6000, 0.1, False),
        Case(20_000, 3000, None, False),
        Case(20_000, 1500, 0.1, True),
    ],
    "mnist": [
        Case(60_000, 4000, 1.0, True),
        Case(60_000, 2000, 0.1, True),
        Case(20_000, 3000, None, True),
        Case(10_000, 6000, 1.0, True),
    ],
}


def foretold_and_taken(data: str, case: Case, solver: str) -> tuple[float, float, float, int | None]:
    """Seconds foretold, seconds taken, processor seconds for each thread, and iterations."""
    from bochner import FourierFeatures, KernelMachineClassifier, KernelMachineRegressor
    from bochner.engines.local import n_threads
    from bochner.kernels import Gaussian
    from bochner.planning.cost_model import ProblemSize, direct_seconds, iterative_seconds, other_loss_seconds
    from bochner.planning.measured_costs import machine_costs

    rows, n = load(data), size(case.n_rows)
    X, labels = rows.X.to_numpy(np.float32)[:n], rows.y[:n]
    X = X / 255 if data == "mnist" else (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-3)
    labels = labels if data == "mnist" else labels == 2
    machine, y = KernelMachineRegressor, np.where(labels, 1.0, -1.0)
    if case.classes:
        machine, y = KernelMachineClassifier, labels
    features, alpha = FourierFeatures(Gaussian(5.0), case.D), "auto" if case.alpha is None else case.alpha
    model = machine(features=features, alpha=alpha, solver=solver, random_state=0).fit(X[:2000], y[:2000])
    costs, start, busy = machine_costs(), time.perf_counter(), time.process_time()
    model.fit(X, y)
    busy, taken = (time.process_time() - busy) / n_threads(), time.perf_counter() - start
    alphas = None if case.alpha is None else np.array([case.alpha])
    K = len(model.classes_) if case.classes and len(model.classes_) > 2 else 1
    sizes, wide = (n, K, float(n)), model.feature_weights_.dtype == np.float64
    task = ProblemSize(*sizes, alphas, case.classes, wide, n_columns=X.shape[1])
    foretell = direct_seconds if solver == "direct" else iterative_seconds
    foretold = foretell(case.D, task, costs)
    if case.classes and case.alpha is None:  # then losses are compared
        foretold += other_loss_seconds(n, X.shape[1], case.D, 0, K, costs)
    return foretold, taken, busy, model.n_iter_


def measure(data: str) -> list[Row]:
    """A row for each case and solver."""
    rows = []
    for case in CASES[data]:
        kind = "classes" if case.classes else "numbers"
        what = f"{data}, {case.n_rows:,} rows, D = {case.D:,}, alpha {case.alpha or 'chosen'}, {kind}"
        for solver, name in (("cg", "conjugate gradients"), ("direct", "Gram matrix")):
            if solver == "direct" and case.n_rows * case.D**2 > DIRECT_WORK:
                continue
            foretold, taken, busy, n_iter = foretold_and_taken(data, case, solver)
            steps = f"; {n_iter} iterations" if n_iter else ""
            text = f"{foretold / busy:.2f} ({foretold:.2f} s of {busy:.2f} s; {taken:.1f} s by the clock{steps})"
            rows.append(Row(f"{what}: {name}, seconds foretold over taken", text, WITHIN))
            print(*rows[-1][:2], flush=True)
    return rows


BENCHMARKS = {data: partial(measure, data) for data in CASES}


if __name__ == "__main__":
    run("Solver plans", __file__, __doc__, BENCHMARKS)
