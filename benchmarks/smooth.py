"""Where weights inside the bins help: ``python benchmarks/smooth.py``.

Smooth and rough targets of uniform rows in d dimensions, 8,000 to train and 2,000 to
test, with noise of a tenth of the target's deviation. Each map has 100 grids or 1,000
Fourier features; of its lengthscales, in steps of 2, the one with the least held-out
error counts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bochner import BinningFeatures, FourierFeatures, KernelMachineRegressor
from bochner.features.base import FeatureMap
from bochner.kernels import Gaussian, Laplacian, SmoothBins
from report import table, write_section

MAPS: dict[str, Callable[[float], FeatureMap]] = {
    "bins, Laplacian": lambda scale: BinningFeatures(Laplacian(2 * scale), 100),
    "bins, SmoothBins": lambda scale: BinningFeatures(SmoothBins(scale), 100),
    "Fourier, Gaussian": lambda scale: FourierFeatures(Gaussian(scale), 1000),
}
SCALES = 0.125 * 2.0 ** np.arange(6)


def smooth(X: np.ndarray) -> np.ndarray:
    """Sum of sines of each column and of the products of neighbours."""
    return np.sin(4 * X).sum(axis=1) + np.sin(3 * X[:, 1:] * X[:, :-1]).sum(axis=1)


def rough(X: np.ndarray) -> np.ndarray:
    """Steps of each column, and of the products of neighbours."""
    return np.floor(4 * X).sum(axis=1) + np.floor(4 * X[:, 1:] * X[:, :-1]).sum(axis=1)


def error(
    target: Callable[[np.ndarray], np.ndarray],
    d: int,
    draw: Callable[[float], FeatureMap],
    seed: int,
) -> float:
    """Test error (RMSE over the noiseless target's deviation) at the best
    lengthscale.
    """
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(10_000, d)).astype(np.float32)
    truth = target(X)
    y = truth + 0.1 * truth.std() * rng.standard_normal(len(X))
    fits = [
        KernelMachineRegressor(
            features=draw(scale * np.sqrt(d)), solver="cg", random_state=seed
        ).fit(X[:8_000], y[:8_000])
        for scale in SCALES
    ]
    best = min(fits, key=lambda model: model.alpha_scores_.min())
    return float(
        np.sqrt(np.mean((best.predict(X[8_000:]) - truth[8_000:]) ** 2)) / truth.std()
    )


def main() -> None:
    """Measure and write the section."""
    rows = []
    for target in (smooth, rough):
        for d in (2, 3, 5, 8):
            errors = [
                np.median([error(target, d, draw, seed) for seed in range(3)])
                for draw in MAPS.values()
            ]
            rows.append([target.__name__, d, *(f"{value:.4f}" for value in errors)])
            print(rows[-1], flush=True)
    body = (
        table(["target", "d", *MAPS], rows)
        + "\n\nRMSE over the deviation of the noiseless target; median of 3 seeds."
    )
    write_section("Smooth bins", "python benchmarks/smooth.py", body)


if __name__ == "__main__":
    main()
