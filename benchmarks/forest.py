"""Forest Cover by random binning and by conjugate gradients: ``python -m benchmarks
forest [--only NAME ...]``.

Class 2 against the rest, 522,000 training rows by
``numpy.random.default_rng(0).permutation``, the other 59,012 test rows, read once. The
lengthscales are given: they were learned by stochastic gradients on the held-out loss
of the exact kernel on blocks of training rows, then by coordinate search on 20,000
held-out training rows.
"""

from __future__ import annotations

import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from accuracy import arrays, few
from datasets import load as load_data
from report import Row
from runner import QUICK, repeats, run, seconds

# Of the columns in their order, in their units
LENGTHSCALES = [
    44.6,
    1570,
    295,
    185,
    104,
    167,
    135,
    80.8,
    518,
    177,
    0.0763,
    0.242,
    0.0533,
    0.24,
    0.711,
    0.353,
    0.114,
    0.24,
    10.7,
    152,
    7.86,
    7.33,
    0.627,
    1.36,
    0.552,
    6.85,
    1.78,
    28.1,
    1.97,
    4.42,
    1.13,
    16.5,
    4.04,
    3.39,
    1.79,
    2.45,
    2.29,
    1.88,
    30.9,
    1.39,
    0.18,
    1.79,
    2.59,
    2.15,
    0.281,
    1.75,
    1.71,
    1.25,
    10.1,
    0.802,
    66.3,
    5.86,
    2.4,
    8.83,
]
SEEDS = repeats(3)
# Lengthscale of the Gaussian kernel, in standard deviations of each column
SMOOTH = 2.5


def forest() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows and cover types 1 to 7, train and test."""
    data = arrays(load_data("covtype"))
    return tuple(map(few, data)) if QUICK else data


def timed(work: Any) -> tuple[float, Any]:
    """Seconds of a call, and what it returned."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def binning() -> list[Row]:
    """Test errors and times of fits against LightGBM's."""
    from lightgbm import LGBMClassifier

    from bochner import KernelMachineClassifier, save
    from bochner.kernels import Laplacian

    X, cover, X_test, cover_test = forest()

    def fit(y: np.ndarray, n_grids: int, seed: int) -> tuple[float, float, Any]:
        model = KernelMachineClassifier(
            Laplacian(LENGTHSCALES), "binning", n_grids, random_state=seed
        )
        took, _ = timed(lambda: model.fit(X, y))
        truth = cover_test if y is cover else cover_test == 2
        return took, 100 * float(np.mean(model.predict(X_test) != truth)), model

    fit(cover == 2, 8, 0)
    boosted = LGBMClassifier(n_estimators=500, num_leaves=255, verbose=-1)
    theirs, ours, all_types, errors, more, seven = [], [], [], [], [], []
    for seed in range(SEEDS):
        theirs.append(timed(lambda: boosted.fit(X, cover == 2))[0])
        took, error, model = fit(cover == 2, 50, seed)
        ours.append(took)
        errors.append(error)
        took, error, _ = fit(cover, 50, seed)
        all_types.append(took)
        seven.append(error)
        more.append(fit(cover == 2, 200, seed)[:2])
    wrong = 100 * float(np.mean(boosted.predict(X_test) != (cover_test == 2)))
    predict = seconds(lambda: model.predict(X_test))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save(model, path)
        size = os.path.getsize(path) / model.features_.n_features_out
    ratio = median(a / b for a, b in zip(ours, theirs, strict=True))
    slower = median(a / b for a, b in zip(all_types, ours, strict=True))
    return [
        (
            "P = 50, alpha chosen too: test error",
            f"{median(errors):.2f} % ({spread(errors)})",
            "<= 2.1 %",
        ),
        (
            "the same: time of fit over LightGBM's, 500 trees of 255 leaves",
            f"{ratio:.2f} ({median(ours):.1f} s and {median(theirs):.1f} s; its "
            f"error {wrong:.2f} %)",
            "<= 1.0",
        ),
        (
            "P = 200: test error",
            f"{median(e for _, e in more):.2f} % in {median(t for t, _ in more):.1f} s",
            "<= 1.9 %",
        ),
        (
            "all seven cover types, P = 50: test error",
            f"{median(seven):.2f} % ({spread(seven)})",
            "<= 3.5 %",
        ),
        (
            "the same: time of fit over that of two classes",
            f"{slower:.1f} ({median(all_types):.1f} s)",
            "< 4",
        ),
        ("predict 59,012 rows, P = 50", f"{predict:.3f} s", "<= 0.2 s"),
        ("model file, P = 50, bytes an occupied bin", f"{size:.1f}", "<= 16"),
    ]


def spread(values: list[float]) -> str:
    """Least and greatest."""
    return f"{min(values):.2f} - {max(values):.2f}"


def iteration() -> list[Row]:
    """Number the bins, and iterate on them, against reading them."""
    from bochner import BinningFeatures
    from bochner.data.weights import unit_weights
    from bochner.design.normal import NormalEquations
    from bochner.features.stored import StoredRows
    from bochner.kernels import Laplacian
    from bochner.solvers.cg import System, conjugate_gradients
    from bochner.solvers.preconditioners import jacobi

    X, cover, _, _ = forest()
    features = BinningFeatures(Laplacian(LENGTHSCALES), 50, random_state=0)

    def number() -> Any:
        features.draw(X.shape[1])
        stored = features.fit_store(X)
        features.finalize()
        return stored

    numbering = seconds(number, 3)
    stored = number()
    y = np.where(cover == 2, 1.0, -1.0)[:, np.newaxis]
    equations = NormalEquations(
        [StoredRows(stored, y, unit_weights(len(y)))],
        features.n_features_out,
        1,
        np.dtype(np.float32),
    )
    penalty = np.full((1, 1), 0.1, np.float32)
    system = System(equations.add, penalty, jacobi(equations.diagonal(), penalty))
    V = equations.rhs.copy()

    def iterate(times: int) -> float:
        solve = partial(conjugate_gradients, system, equations.rhs, 0.0, times)
        return seconds(solve, 3)

    half = len(stored.ids) // 2
    with ThreadPoolExecutor(2) as pool:

        def stream() -> None:
            list(
                pool.map(
                    np.max, [stored.ids[:half], stored.ids[half:], V, equations.rhs]
                )
            )

        def once() -> tuple[float, float, float]:
            return (
                (iterate(30) - iterate(10)) / 20,
                seconds(lambda: stored.forward(V), 3),
                seconds(stream, 3),
            )

        ratios = [once() for _ in range(5)]
    step = median(a for a, _, _ in ratios)
    return [
        (
            "hash and number the bins of 522,000 x 54, P = 50",
            f"{numbering:.2f} s",
            "<= 1.5 s",
        ),
        (
            "an iteration over one read of the indices and of the entries that they "
            "name",
            f"{median(a / b for a, b, _ in ratios):.1f} ({step * 1e3:.0f} ms)",
            "<= 2.5",
        ),
        (
            "the same over a read of the same arrays from end to end",
            f"{median(a / c for a, _, c in ratios):.1f}",
            "",
        ),
        (
            "occupied bins; rows per bin",
            f"{features.n_features_out:,}; {features.rows_per_bin_:.1f}",
            "",
        ),
    ]


def fourier() -> list[Row]:
    """Fourier ridge by conjugate gradients on 8-bit features against the Gram
    matrix.
    """
    from bochner import KernelMachineRegressor
    from bochner.kernels import Gaussian

    X, cover, X_test, cover_test = forest()
    y, truth = np.where(cover == 2, 1.0, -1.0), np.where(cover_test == 2, 1.0, -1.0)
    scale = X.std(axis=0)
    kernel = Gaussian(SMOOTH * np.where(scale > 0, scale, 1.0))

    def fit(n_components: int, **options: Any) -> tuple[float, float, np.ndarray]:
        # Bounds need rows that were left out, which these fits by iterations have not
        model = KernelMachineRegressor(
            kernel,
            "fourier",
            n_components,
            alpha=1.0,
            bounded=False,
            random_state=0,
            **options,
        )
        took, _ = timed(lambda: model.fit(X, y))
        predicted = model.predict(X_test)
        return took, 100 * float(np.mean(np.sign(predicted) != truth)), predicted

    block = np.random.default_rng(0).standard_normal((8192, 4000), dtype=np.float32)
    rate = 8192 * 4000**2 / seconds(lambda: block.T @ block, 5)
    fit(5000, solver="cg")
    direct, error, predicted = fit(5000, solver="direct")
    iterative = [fit(5000, solver="cg") for _ in range(3)]
    exact, _, again = fit(5000, solver="cg", tol=1e-3)
    large = fit(20_000, solver="cg")
    off = np.linalg.norm(again - predicted) / np.linalg.norm(predicted)
    took = median(seconds for seconds, _, _ in iterative)
    counted = len(X) * 20_000**2 / rate
    return [
        (
            "Fourier ridge, D = 5,000: Gram matrix and Cholesky over conjugate "
            "gradients",
            f"{direct / took:.1f} ({direct:.0f} s and {took:.1f} s)",
            ">= 4",
        ),
        (
            "the same: test errors",
            f"{error:.2f} % and {iterative[0][1]:.2f} %",
            "within 0.05 points",
        ),
        (
            "the same with tol=1e-3: relative difference of predictions",
            f"{off:.1e} in {exact:.0f} s",
            "<= 1e-3",
        ),
        (
            "D = 20,000: time of n D^2 operations at the rate of BLAS over the fit",
            f"{counted / large[0]:.1f} ({counted:.0f} s and {large[0]:.0f} s; test "
            f"error {large[1]:.2f} %)",
            ">= 8",
        ),
    ]


BENCHMARKS = {"binning": binning, "iteration": iteration, "fourier": fourier}


if __name__ == "__main__":
    run("Forest Cover", __file__, __doc__, BENCHMARKS)
