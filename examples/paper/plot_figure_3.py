"""
Figure 3: more rows, more grids
===============================

The third figure of the paper shows the test error of random binning features on Forest Cover against the number of
training rows, the test error against the number of grids P, and the training time against P. Two conclusions still
hold. Rows help for as long as one has them, which is why a method must be able to take all of them. And time grows
linearly with P, while the error levels off early.

The page uses 12,000 rows of ``covtype.parquet`` from the folder ``BOCHNER_DATA``; without that file it uses a
synthetic table whose classes fill boxes. The whole figure, on 522,000 rows, is in the benchmarks.

See also :doc:`/theory`.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from bochner import KernelMachineClassifier
from bochner.display import LearningDisplay
from bochner.kernels import Laplacian

rng = np.random.default_rng(0)
path = Path(os.environ.get("BOCHNER_DATA", "")) / "covtype.parquet"
if path.is_file():
    forest = pd.read_parquet(path).sample(12_000, random_state=0)
    X, y = (
        forest.drop(columns="target").to_numpy(np.float32),
        forest["target"].to_numpy() == 2,
    )
else:
    X = rng.uniform(size=(12_000, 4)).astype(np.float32)
    y = (np.floor(4 * X[:, 0]) + np.floor(3 * X[:, 1])) % 2 == 1

# %%
# All columns have one lengthscale here, in units of their standard deviations, so that the time is that of the
# features and of the solver alone. The first two panels have means and ranges of three draws of rows and grids.
X /= X.std(axis=0) + 1e-6
model = KernelMachineClassifier(Laplacian(4.0), features="binning", alpha=1.0)
display = LearningDisplay.from_estimator(
    model.set_params(n_components=50),
    X[:10_000],
    y[:10_000],
    test=(X[10_000:], y[10_000:]),
    rows=(300, 1000, 3000, 10_000),
    sizes=(2, 10, 50, 200),
)
display.plot()
plt.show()
