"""
Streams that drift
==================

``partial_fit`` of a machine adds rows to its sums. With a half life, older rows count less and less, so that the model
follows a target that changes. To score a model on rows that arrive, predict them first, and add them afterwards.

The target is a sine whose phase moves. A model that remembers all rows is soon wrong; one with a half life of 300 rows
keeps up; one with a half life of 20 rows keeps up as well, but has too few rows to average the noise away.

See also :doc:`/large`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import r2_score

from bochner import KernelMachineRegressor
from bochner.kernels import Gaussian

rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, size=(8000, 1))
y = np.sin(2 * X[:, 0] + np.arange(8000) / 2000) + 0.5 * rng.standard_normal(8000)

half_lives = {"all rows": None, "half life 300": 300, "half life 20": 20}
scores = {}
for name, half_life in half_lives.items():
    model = KernelMachineRegressor(
        Gaussian(1.0), n_components=60, alpha=0.1, random_state=0
    )
    model.prepare(X[:400], y[:400])
    scores[name] = []
    for first in range(0, 8000, 200):
        rows = slice(first, first + 200)
        if first:
            scores[name].append(r2_score(y[rows], model.predict(X[rows])))
        model.partial_fit(X[rows], y[rows], half_life=half_life)

# %%
# Each block of 200 rows is predicted, then learned. The noise alone leaves a score of 0.67.

fig, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
for name, values in scores.items():
    ax.plot(np.arange(200, 8000, 200), values, label=name)
ax.set(xlabel="rows so far", ylabel="R² of the next 200 rows")
ax.legend(frameon=False)
plt.show()
