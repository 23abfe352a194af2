"""Exact kernel ridge regression against random features on a sine: ``python -m
benchmarks sine``.

y = sin(2 pi x) + noise of deviation 0.1, x uniform on [0, 1]; Gaussian kernel of
lengthscale 0.1, D = 100, alpha = 0.1 for all; errors against the noiseless function at
1,000 points. Where JAX is installed, random features as its tutorials write them,
compiled beforehand; and the kernel matrix, exact and by 100 and 10,000 features, as
pictures.
"""

from __future__ import annotations

import time
from importlib.util import find_spec
from statistics import median

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.metrics.pairwise import rbf_kernel

from bochner import KernelMachineRegressor
from bochner.kernels import Gaussian
from report import pyplot, save_figure, table, write_section

SIZES = (100, 300, 1000, 3000, 10_000, 30_000)
LENGTHSCALE, ALPHA = 0.1, 0.1
NOTE = """\
Fit of y = sin(2 pi x) plus noise of standard deviation 0.1 at n uniform x; RMSE against the noiseless function.
Gaussian kernel with lengthscale 0.1, alpha = 0.1, 100 random features. Exact: one run, with a Cholesky factorisation.
The others: median of five. JAX: single precision on the CPU, compiled beforehand.

The exact kernel matrix, and its estimates by 100 and 10,000 features: ![](figures/sine.png)
"""


def cholesky_in_place(K: np.ndarray, block: int = 2000) -> None:
    """Overwrite the lower triangle by the Cholesky factor, block by block, without a
    second matrix of n x n.
    """
    for start in range(0, len(K), block):
        here, below = slice(start, start + block), slice(start + block, None)
        K[here, here] = np.linalg.cholesky(K[here, here])
        K[below, here] = solve_triangular(
            K[here, here], K[below, here].T, lower=True, check_finite=False
        ).T
        for column in range(start + block, len(K), block):
            there = slice(column, column + block)
            K[column:, there] -= K[column:, here] @ K[there, here].T


def exact(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> tuple[float, np.ndarray]:
    """Seconds of the fit, and predictions, by the Cholesky factor of the kernel
    matrix.
    """
    gamma = 1 / (2 * LENGTHSCALE**2)
    start = time.perf_counter()
    K = rbf_kernel(X, X, gamma)
    K[np.diag_indices(len(K))] += ALPHA
    cholesky_in_place(K)
    half = solve_triangular(K.T, y - y.mean(), trans="T", check_finite=False)
    dual = solve_triangular(K.T, half, check_finite=False)
    return time.perf_counter() - start, rbf_kernel(X_test, X, gamma) @ dual + y.mean()


def random_features(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray
) -> tuple[float, np.ndarray]:
    """Median seconds of five fits, and predictions."""
    model = KernelMachineRegressor(
        Gaussian(LENGTHSCALE), n_components=100, alpha=ALPHA, random_state=0
    )
    times = []
    for _ in range(5):
        start = time.perf_counter()
        model.fit(X, y)
        times.append(time.perf_counter() - start)
    return median(times), model.predict(X_test)


def in_jax(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray
) -> tuple[float, np.ndarray]:
    """The same by ten lines of JAX in single precision: median seconds of five fits,
    and predictions.
    """
    import jax
    import jax.numpy as jnp

    W = jax.random.normal(jax.random.key(0), (X.shape[1], 50)) / LENGTHSCALE

    def features(rows: jax.Array) -> jax.Array:
        return jnp.hstack([jnp.cos(rows @ W), jnp.sin(rows @ W)]) / jnp.sqrt(50.0)

    @jax.jit
    def fit(rows: jax.Array, targets: jax.Array) -> jax.Array:
        Z = features(rows)
        return jnp.linalg.solve(Z.T @ Z + ALPHA * jnp.eye(100), Z.T @ targets)

    rows, targets = jnp.asarray(X), jnp.asarray(y)
    fit(rows, targets).block_until_ready()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        coef = fit(rows, targets).block_until_ready()
        times.append(time.perf_counter() - start)
    return median(times), np.asarray(features(jnp.asarray(X_test)) @ coef)


def pictures() -> None:
    """Kernel matrices of 300 rows in docs/figures."""
    from bochner import FourierFeatures
    from bochner.display import GramDisplay

    X = np.sort(np.random.default_rng(0).uniform(size=(300, 1)), axis=0)
    features = FourierFeatures(Gaussian(LENGTHSCALE), sampling="iid", random_state=0)
    pyplot()
    save_figure(
        GramDisplay.from_estimator(features, X, order="given").plot().figure_,
        "sine.png",
        90,
    )


def main() -> None:
    """Measure and write the section."""
    methods = [exact, random_features] + [in_jax] * (find_spec("jax") is not None)
    X_test = np.linspace(0, 1, 1000)[:, np.newaxis]
    truth = np.sin(2 * np.pi * X_test[:, 0])
    rows = []
    for n in SIZES:
        rng = np.random.default_rng(n)
        X = rng.uniform(size=(n, 1))
        y = np.sin(2 * np.pi * X[:, 0]) + 0.1 * rng.standard_normal(n)
        cells = []
        times = []
        for method in methods:
            method(X[:100], y[:100], X_test)
            elapsed, predicted = method(X, y, X_test)
            times.append(elapsed)
            cells += [
                f"{1e3 * elapsed:,.1f}",
                f"{np.sqrt(np.mean((predicted - truth) ** 2)):.4f}",
            ]
        cells += ["not installed"] * (6 - len(cells))
        ratio = times[0] / times[1]
        rows.append(
            [f"{n:,}", *cells, f"{ratio:.2g}" if ratio < 10 else f"{ratio:,.0f}"]
        )
        print(*rows[-1], flush=True)
    header = [
        "n",
        "exact fit, ms",
        "exact RMSE",
        "random features, ms",
        "RMSE",
        "JAX, ms",
        "RMSE",
        "exact over ours",
    ]
    pictures()
    body = table(header, rows) + "\n\n" + NOTE
    write_section(
        "Exact and random features on a sine",
        "python -m benchmarks sine",
        body,
        ("jax",),
    )


if __name__ == "__main__":
    main()
