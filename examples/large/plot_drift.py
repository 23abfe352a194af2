"""
Streams that drift
==================

``OnlineKernelRegressor`` learns by recursive least squares on random features: each block of rows is predicted,
scored, and then learned. With a half life, older rows count less and less, so that the model follows a target that
changes.

The target is a sine whose phase moves. A model that remembers all rows is soon wrong; one with a half life of 300 rows
keeps up; one with a half life of 20 rows keeps up as well, but has too few rows to average the noise away.

See also :doc:`/unsupervised/online`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bochner import OnlineKernelRegressor
from bochner.display import DriftDisplay

rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, size=(8000, 1))
y = np.sin(2 * X[:, 0] + np.arange(8000) / 2000) + 0.5 * rng.standard_normal(8000)

models = {
    "all rows": OnlineKernelRegressor(n_components=60, random_state=0),
    "half life 300": OnlineKernelRegressor(
        n_components=60, half_life=300, random_state=0
    ),
    "half life 20": OnlineKernelRegressor(
        n_components=60, half_life=20, random_state=0
    ),
}
for first in range(0, 8000, 400):
    for model in models.values():
        model.partial_fit(X[first : first + 400], y[first : first + 400])

DriftDisplay.from_estimator(models).plot()
plt.show()
