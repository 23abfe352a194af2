"""
Sets of classes
===============

Where a single answer would often be wrong, a set of classes can still hold the true one as often as is asked for.
``predict_set`` takes the most probable classes until a threshold from held-out rows is reached. The sets are large
where classes overlap, and hold one class elsewhere.

Three overlapping clouds show it. Colours tell how many classes a set of 95 % holds; the title says how many of 2,000
new rows have their class in it.

See also :doc:`/guide/classes`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from bochner import KernelMachineClassifier

X, y = make_blobs(
    4000, centers=[[0, 0], [2.5, 0], [1.2, 2.2]], cluster_std=0.9, random_state=0
)
model = KernelMachineClassifier(n_components=300, random_state=0).fit(
    X[:2000], y[:2000]
)

side = np.linspace(-3, 6, 150)
grid = np.stack(np.meshgrid(side, side), axis=2).reshape(-1, 2)
sizes = model.predict_set(grid, coverage=0.95).sum(axis=1).reshape(150, 150)
held = model.predict_set(X[2000:], coverage=0.95)[np.arange(2000), y[2000:]].mean()

figure, ax = plt.subplots(figsize=(5, 4), layout="constrained")
filled = ax.contourf(
    side,
    side,
    sizes,
    levels=[0.5, 1.5, 2.5, 3.5],
    colors=["white", "#cccccc", "#777777"],
)
for label, (colour, marker) in enumerate(
    (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "D"))
):
    across, up = X[2000:2600][y[2000:2600] == label].T
    ax.scatter(across, up, s=8, color=colour, marker=marker, linewidths=0)
bar = figure.colorbar(filled, ax=ax, ticks=[1, 2, 3], label="Classes in the set")
ax.set_xlabel("First column")
ax.set_ylabel("Second column")
ax.set_title(
    f"{100 * held:.1f} % of the sets hold the true class", loc="left", fontsize="medium"
)
plt.show()
