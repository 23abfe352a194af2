"""
Dask arrays
===========

A machine takes collections of Dask as they are. Each chunk becomes a part of the sum, computed where the chunk lies:
on the threads of this process here, or on the workers of a ``distributed.Client`` where there is one. Predictions are
lazy Dask arrays with the chunks of their input.

The picture shows the predicted surface of 100,000 rows in chunks of 20,000. The page needs Dask:
``pip install "bochner[dask]"``.

See also :doc:`/large`.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from bochner import KernelMachineRegressor

X = da.random.default_rng(0).uniform(-3, 3, size=(100_000, 2), chunks=(20_000, 2))
noise = da.random.default_rng(1).standard_normal(100_000, chunks=20_000)
y = da.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 4 + 0.3 * noise
model = KernelMachineRegressor(
    n_components=300, features="fourier", random_state=0
).fit(X, y)

lazy = model.predict(X)
print(lazy)
error = da.sqrt(((lazy - (y - 0.3 * noise)) ** 2).mean()).compute()
print(f"Root mean squared error against the noiseless target: {error:.4f}")

# %%
side = np.linspace(-3, 3, 120)
grid = np.stack(np.meshgrid(side, side), axis=2).reshape(-1, 2)
figure, ax = plt.subplots(figsize=(5, 3.8), layout="constrained")
image = ax.contourf(
    side, side, model.predict(grid).reshape(120, 120), levels=15, cmap="viridis"
)
ax.set_xlabel("First column")
ax.set_ylabel("Second column")
figure.colorbar(image, ax=ax, label="Prediction")
plt.show()
