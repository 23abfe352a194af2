"""Errors and costs of the schemes of sampling: against independent draws, exact
kernels, and scikit-learn.

python -m benchmarks sampling [--only NAME ...]
"""

from __future__ import annotations

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from bochner import FourierFeatures
from bochner.kernels import Gaussian, Laplacian, Matern
from report import Row
from runner import repeats, run, seconds

SCHEMES = ("iid", "orthogonal", "structured", "qmc", "leverage")
SEEDS = max(2, repeats(50))


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def root_mean_square(Z: np.ndarray, K: np.ndarray) -> float:
    """Error over pairs of different rows."""
    return float(np.sqrt(((Z @ Z.T - K)[np.triu_indices(len(K), 1)] ** 2).mean()))


def errors() -> list[Row]:
    """Gaussian kernel of lengthscale 4, 16 columns, D = 256, 300 standard normal
    rows.
    """
    X = normal(300, 16)
    K = Gaussian(4.0)(X)
    maps = {
        scheme: [
            FourierFeatures(Gaussian(4.0), 256, sampling=scheme, random_state=seed)
            for seed in range(SEEDS)
        ]
        for scheme in SCHEMES
    }
    maps["RBFSampler"] = [
        RBFSampler(gamma=1 / 32, n_components=256, random_state=seed)
        for seed in range(SEEDS)
    ]
    found = {
        name: np.array([root_mean_square(m.fit_transform(X), K) for m in own])
        for name, own in maps.items()
    }
    base = found["iid"].mean()
    bars = {"orthogonal": "0.62", "structured": "0.72", "qmc": "0.72"}
    return [
        (
            f"kernel RMSE, d = 16, D = 256, {name}",
            f"{one.mean():.4f} ± {one.std(ddof=1) / np.sqrt(SEEDS):.4f}, "
            f"{one.mean() / base:.3f} of iid",
            f"{bars[name]} of iid"
            if name in bars
            else "below RBFSampler"
            if name != "RBFSampler"
            else "",
        )
        for name, one in found.items()
    ]


def few_columns() -> list[Row]:
    """Gaussian kernel of lengthscale sqrt(d), D = 200, 300 standard normal rows of d
    columns, 20 seeds.
    """
    rows = []
    for d in (1, 2, 3, 5, 8):
        X, kernel = normal(300, d), Gaussian(np.sqrt(d))
        K = kernel(X)
        found = {}
        for scheme in ("iid", "orthogonal", "qmc", "leverage", "auto"):
            maps = [
                FourierFeatures(kernel, 200, sampling=scheme, random_state=seed)
                for seed in range(20)
            ]
            found[scheme] = float(
                np.mean([root_mean_square(one.fit_transform(X), K) for one in maps])
            )
        ratios = ", ".join(
            f"{name} {error / found['iid']:.2f}"
            for name, error in found.items()
            if name != "iid"
        )
        rows.append(
            (
                f"kernel RMSE over that of iid, d = {d}, D = 200",
                ratios,
                "auto at most orthogonal",
            )
        )
    return rows


def matern() -> list[Row]:
    """Largest error over all pairs of 300 standard normal rows of 10 columns, D =
    50,000, median of 3 seeds.
    """
    rows = []
    X = normal(300, 10)
    for lengthscale in (2.0, 4.0):
        kernel = Matern(lengthscale, nu=1.5)
        K = kernel(X)
        for scheme in ("orthogonal", "qmc"):
            largest = []
            for seed in range(3):
                Z = FourierFeatures(
                    kernel, 50_000, sampling=scheme, random_state=seed
                ).fit_transform(X)
                largest.append(np.abs(Z @ Z.T - K).max())
            bar = "0.015" if scheme == "orthogonal" else ""
            rows.append(
                (f"Matern 3/2, lengthscale {lengthscale:g}, d = 10, D = 50,000, " f"largest error, {scheme}",
                 f"{np.median(largest):.4f}", bar)
            )  # fmt: skip
    return rows


def structured() -> list[Row]:
    """Time of all features of 4,096 rows, orthogonal by matrix products over
    structured; and where they are even.
    """
    rows = []
    for d, D in (
        (784, 16384),
        (784, 4096),
        (256, 16384),
        (128, 8192),
        (64, 8192),
        (32, 8192),
    ):
        for dtype in (np.float32, np.float64):
            X, out = normal(4096, d).astype(dtype), np.zeros((4096, D), dtype)
            times = {}
            for scheme in ("orthogonal", "structured"):
                features = FourierFeatures(
                    Gaussian(np.sqrt(d)), D, sampling=scheme, random_state=0
                ).fit(X)
                times[scheme] = seconds(lambda: features.rows(X, out))  # noqa: B023 - called at once
            drawn = FourierFeatures(Gaussian(np.sqrt(d)), D, random_state=0).fit(X)
            chosen = "structured" if drawn.sign_flips_ is not None else "orthogonal"
            rows.append(
                (
                    f"features, d = {d}, D = {D:,}, {np.dtype(dtype).name}: matrix "
                    "product over structured",
                    f"{times['orthogonal'] / times['structured']:.2f} times "
                    f"({chosen} by default)",
                    "2" if (d, D) == (784, 16384) else "",
                )
            )
    return rows


def leverage() -> list[Row]:
    """Ridge for exact kernel ridge, 1,000 rows: RMS difference of predictions on new
    rows, median of 200 seeds.
    """
    rows = []
    for d, kernel, D, alpha in (
        (1, Laplacian(1.0), 50, 1.0),
        (2, Gaussian(0.7), 100, 0.1),
        (5, Laplacian(3.0), 200, 1.0),
    ):
        rng = np.random.default_rng(0)
        X = rng.uniform(-2, 2, (1500, d))
        y = np.sin(3 * X[:, 0]) * np.cos(X[:, -1]) + 0.1 * rng.standard_normal(1500)
        train, new = slice(0, 1000), slice(1000, None)
        exact = KernelRidge(kernel="precomputed", alpha=alpha).fit(
            kernel(X[train]), y[train]
        )
        truth, base = exact.predict(kernel(X[new], X[train])), None
        for scheme in ("iid", "orthogonal", "qmc", "leverage"):
            found = []
            for seed in range(200):
                features = FourierFeatures(
                    kernel, D, sampling=scheme, random_state=seed
                ).fit(X[train])
                model = Ridge(alpha, fit_intercept=False).fit(
                    features.transform(X[train]), y[train]
                )
                found.append(
                    np.sqrt(
                        (
                            (model.predict(features.transform(X[new])) - truth) ** 2
                        ).mean()
                    )
                )
            base = base or np.median(found)
            what = (
                f"difference from exact kernel ridge, d = {d}, D = {D}, "
                f"{kernel!r}, {scheme}"
            )
            rows.append(
                (
                    what,
                    f"{np.median(found):.4f}, {np.median(found) / base:.2f} of iid",
                    "",
                )
            )
    return rows


if __name__ == "__main__":
    run(
        "Sampling schemes",
        __file__,
        __doc__,
        {
            "errors": errors,
            "few_columns": few_columns,
            "matern": matern,
            "structured": structured,
            "leverage": leverage,
        },
    )
