"""
Smooth here, rough there: maps side by side
===========================================

The paper closes with the remark that both maps can be joined. ``ConcatenatedFeatures`` puts maps side by side: the
kernel of the whole is the weighted sum of their kernels, and the weights are learned on held-out rows.

The target is a staircase in one column, a wave in the next and a line in the third. Each part has a map that suits it.
The picture shows the effect of each column, with the other two at 0.58, and what the machine makes of it.

See also :doc:`/features`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bochner import (
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    KernelMachineRegressor,
    LinearFeatures,
)
from bochner.kernels import Gaussian, Laplacian

rng = np.random.default_rng(0)
X = rng.uniform(size=(3000, 3))


def target(X):
    return np.floor(6 * X[:, 0]) % 2 + np.sin(6 * X[:, 1]) + X[:, 2]


y = target(X) + 0.1 * rng.standard_normal(3000)
maps = {
    "Fourier features": FourierFeatures(Gaussian(0.5), n_components=300),
    "bins": BinningFeatures(Laplacian([0.2, 4.0, 4.0]), n_grids=100),
}
maps["both and a linear part"] = ConcatenatedFeatures(
    [*maps.values(), LinearFeatures()]
)

figure, axes = plt.subplots(1, 3, figsize=(7, 3), layout="constrained", sharey=True)
grid = np.linspace(0.01, 0.99, 200)
looks = dict(zip(maps, ("#56B4E9", "#E69F00", "#0072B2"), strict=True))
for name, features in maps.items():
    model = KernelMachineRegressor(features=features, random_state=0).fit(
        X[:2000], y[:2000]
    )
    error = np.sqrt(np.mean((model.predict(X[2000:]) - target(X[2000:])) ** 2))
    print(f"{name:24s} error {error:.3f}")
    for j, ax in enumerate(axes):
        rows = np.full((200, 3), 0.58)
        rows[:, j] = grid
        ax.plot(
            grid, model.predict(rows), color=looks[name], label=name if j == 0 else None
        )
for j, ax in enumerate(axes):
    rows = np.full((200, 3), 0.58)
    rows[:, j] = grid
    ax.plot(
        grid,
        target(rows),
        color="black",
        linewidth=0.8,
        label="target" if j == 0 else None,
    )
    ax.set_xlabel(f"Column {j}")
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("Prediction")
figure.legend(loc="outside upper left", ncols=4, frameon=False)
plt.show()
