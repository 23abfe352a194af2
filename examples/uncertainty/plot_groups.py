"""
Intervals for new patients
==========================

Rows of one patient are alike. If some of them validate a fit to the others, they are nearly known, and intervals are
far too narrow for anybody new. With ``groups=`` no patient is on both sides, and each counts as one in the intervals.

See also :doc:`/guide/splits`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bochner import KernelMachineRegressor

rng = np.random.default_rng(0)
patient = np.repeat(np.arange(100), 10)
X = rng.normal(size=(100, 3))[patient] + 0.05 * rng.normal(size=(1000, 3))
effect = rng.normal(size=100)
y = np.sin(2 * X[:, 0]) + effect[patient] + 0.1 * rng.normal(size=1000)
known = patient < 60
models = {
    "by chance": KernelMachineRegressor(
        uncertainty="intervals", n_components=200, random_state=0
    ).fit(X[known], y[known]),
    "by groups": KernelMachineRegressor(
        uncertainty="intervals", n_components=200, random_state=0
    ).fit(X[known], y[known], groups=patient[known]),
}

# %%
# The share of each new patient's rows that lie in their intervals of 90 %. By groups nearly all patients are covered
# as a whole, and a few are not: these are the tenth that 90 % leaves out. By chance most are missed.
fig, axes = plt.subplots(2, 1, figsize=(6, 4), sharex=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    low, high = model.predict_interval(X[~known], coverage=0.9).T
    inside = (low <= y[~known]) & (y[~known] <= high)
    shares = np.array([inside[patient[~known] == k].mean() for k in range(60, 100)])
    ax.bar(range(40), np.sort(shares), color="#0072B2")
    ax.axhline(0.9, color="black", linestyle="--", linewidth=1)
    ax.set(ylim=(0, 1.05), ylabel="share covered")
    ax.set_title(f"held out {name}: {100 * inside.mean():.0f} % of all rows")
axes[1].set_xlabel("new patients, by share")
plt.show()

# %%
# What it costs is width: nothing is known of a new patient's own level, and the intervals say so.
for name, model in models.items():
    width = np.diff(model.predict_interval(X[~known], coverage=0.9)).mean()
    print(f"held out {name}: mean width {width:.2f}")
