"""
Fourier features or bins?
=========================

Fourier features suit smooth targets. Random bins suit rough and local ones: steps, thresholds, small islands. By
default a machine tries both, and their union, on rows that it holds out, and takes the simplest whose loss is within
the noise of the least.

Two targets of the same two columns show it: a wave, and a chessboard. The pictures show the losses by size of the
lengthscales above, and the candidates with their standard errors.

See also :doc:`/guide/bins`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bochner import KernelMachineRegressor
from bochner.display import SizeDisplay

rng = np.random.default_rng(0)
X = rng.uniform(size=(1500, 2))
noise = 0.1 * rng.standard_normal(1500)
targets = {
    "a wave": np.sin(5 * X[:, 0]) * np.cos(4 * X[:, 1]),
    "a chessboard": (np.floor(4 * X[:, 0]) + np.floor(4 * X[:, 1])) % 2,
}

models = {}
for name, target in targets.items():
    models[name] = KernelMachineRegressor(random_state=0).fit(
        X[:1000], (target + noise)[:1000]
    )
    error = np.sqrt(np.mean((models[name].predict(X[1000:]) - target[1000:]) ** 2))
    print(f"{name}: error {error:.3f}")
    print(models[name].report_)

# %%
# The wave:
SizeDisplay.from_estimator(models["a wave"]).plot()
plt.show()

# %%
# The chessboard:
SizeDisplay.from_estimator(models["a chessboard"]).plot()
plt.show()

# %%
# What both predict, side by side with the targets.
side = np.linspace(0, 1, 100)
grid = np.stack(np.meshgrid(side, side), axis=2).reshape(-1, 2)
figure, axes = plt.subplots(1, 2, figsize=(7, 3.3), layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    image = ax.imshow(
        model.predict(grid).reshape(100, 100),
        extent=(0, 1, 0, 1),
        origin="lower",
        cmap="viridis",
    )
    ax.set_title(f"Prediction of {name}", loc="left", fontsize="medium")
    figure.colorbar(image, ax=ax, shrink=0.8)
plt.show()
