"""
Kernels by column: a trend and a weekly rhythm
==============================================

Kernels add and multiply. ``Subspace`` lets a kernel see some of the columns only, so that a sum of a smooth kernel of
time and a periodic kernel of time says: a slow trend, plus a pattern that comes again. ``Periodic`` has a spectrum of
single lines, at multiples of the base frequency.

The data are made up: 40 weeks of a daily quantity, of which the last 12 are predicted. The periodic part goes on after
the last training day; the trend returns to the mean, as nothing is known about it there.

See also :doc:`/guide/bochner`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bochner import FourierFeatures, KernelMachineRegressor
from bochner.display import KernelDisplay
from bochner.kernels import Gaussian, Periodic

rng = np.random.default_rng(0)
day = np.arange(280.0)[:, np.newaxis]
weekly = np.array([0.0, 0.3, 0.4, 0.4, 0.6, 1.5, 1.2])[np.arange(280) % 7]
y = weekly + 0.8 * np.sin(day[:, 0] / 60) + 0.15 * rng.standard_normal(280)
known = day[:, 0] < 196

kernel = Gaussian(40.0) + Periodic(period=7.0, lengthscale=0.7)
model = KernelMachineRegressor(kernel, n_components=400, alpha=0.1, random_state=0).fit(
    day[known], y[known]
)
predicted = model.predict(day)

figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
ax.plot(day[known], y[known], ".", color="#767676", label="training days")
ax.plot(day[~known], y[~known], ".", color="#D55E00", label="later days")
ax.plot(day, predicted, color="#0072B2", linewidth=1.2, label="prediction")
ax.set_xlabel("Day")
ax.set_ylabel("Quantity")
ax.spines[["top", "right"]].set_visible(False)
figure.legend(loc="outside upper left", ncols=3, frameon=False)
plt.show()

# %%
# The kernel over the distance of two days. Days a whole number of weeks apart have most in common, and less so the
# farther apart they are.
features = FourierFeatures(kernel, n_components=400, random_state=0).fit(day)
KernelDisplay.from_estimator(features, max_distance=70.0).plot()
plt.show()
