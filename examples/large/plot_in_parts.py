"""
Fit in parts, and merge
=======================

The statistic behind a fit is a sum over rows. Parts of a table can therefore be added up in any order and on different
machines, and give the model of all rows. ``prepare`` makes the choices on a first sample; ``partial_fit`` adds rows;
``merge`` adds the sums of several models.

The picture shows the test error while 20 parts arrive, at two machines that never see each other's rows, and the error
of the merged model.

See also :doc:`/large`.
"""

from copy import deepcopy

import matplotlib.pyplot as plt
import numpy as np

from bochner import KernelMachineClassifier, merge

rng = np.random.default_rng(0)
X = rng.uniform(size=(4000, 4))
y = np.where(
    np.sin(6 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(4000) > 0.8, "yes", "no"
)
X_test, y_test = X[2000:], y[2000:]

first = KernelMachineClassifier(
    features="fourier", n_components=300, random_state=0
).prepare(X[:200], y[:200])
machines = [deepcopy(first), deepcopy(first)]
seen: list[int] = []
errors: list[list[float]] = [[], []]
for part in range(10):
    for k, machine in enumerate(machines):
        start = 100 * (2 * part + k)
        machine.partial_fit(X[start : start + 100], y[start : start + 100])
        errors[k].append(1 - machine.score(X_test, y_test))
    seen.append(100 * (part + 1))
merged = merge(machines)
whole = deepcopy(first).partial_fit(X[:2000], y[:2000])
print(
    "Largest difference of the merged coefficients from those of one fit:",
    np.abs(merged.feature_weights_ - whole.feature_weights_).max(),
)

# %%
figure, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
for k, (colour, marker) in enumerate((("#0072B2", "o"), ("#D55E00", "s"))):
    ax.plot(
        seen,
        100 * np.array(errors[k]),
        color=colour,
        marker=marker,
        label=f"machine {k + 1}",
    )
ax.axhline(
    100 * (1 - merged.score(X_test, y_test)),
    color="black",
    linestyle="--",
    label="merged",
)
ax.set_xlabel("Rows seen by a machine")
ax.set_ylabel("Test rows wrong [%]")
ax.spines[["top", "right"]].set_visible(False)
figure.legend(loc="outside upper left", ncols=3, frameon=False)
plt.show()
