"""
Forest Cover, all rows
======================

The largest experiment of the paper classifies 522,000 plots of forest by 54 columns. An exact support vector machine
took 44 hours, and random binning features took 25 minutes. The features are sparse, with one entry for each grid, so
that conjugate gradients solve the ridge regression in seconds today.

The page reads ``covtype.parquet`` from the folder ``BOCHNER_DATA``. Without that file it makes a synthetic table of
the same shape: 581,012 rows, 10 numbers and 44 columns of 0 and 1, whose classes fill boxes. To fit all rows in a few
seconds the metric is learned on 20,000 of them, and only 20 grids are drawn.

See also :doc:`/guide/bins`.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from bochner import KernelMachineClassifier
from bochner.display import MetricDisplay

rng = np.random.default_rng(0)
path = Path(os.environ.get("BOCHNER_DATA", "")) / "covtype.parquet"
if path.is_file():
    forest = pd.read_parquet(path)
    y = forest.pop("target").to_numpy() == 2
    names, X = list(forest.columns), forest.to_numpy(np.float32)
else:
    X = np.zeros((581_012, 54), np.float32)
    X[:, :10] = rng.uniform(size=(len(X), 10))
    X[np.arange(len(X)), 10 + rng.integers(44, size=len(X))] = 1
    y = (
        np.floor(5 * X[:, 0]) + np.floor(3 * X[:, 1]) + X[:, 10:20].sum(axis=1)
    ) % 2 == 1
    names = [f"number {j}" for j in range(10)] + [f"type {j}" for j in range(44)]
order = rng.permutation(len(y))
train, test = order[:522_000], order[522_000:]
X = pd.DataFrame(X, columns=names)

# %%
# The fit holds out rows, learns a lengthscale for each column from a sample, and solves for the coefficients of some
# 100,000 bins with all 522,000 rows. The picture shows which columns decide.
model = KernelMachineClassifier(
    features="binning", metric="ard", n_components=20, random_state=0
)
model.fit(X.iloc[train], y[train])
print(
    f"{100 * (1 - model.score(X.iloc[test], y[test])):.2f} %",
    f"of {len(test):,} test rows wrong",
)
print(f"{model.n_iter_} iterations of conjugate gradients")

MetricDisplay.from_estimator(model, n_warps=0).plot()
plt.show()
