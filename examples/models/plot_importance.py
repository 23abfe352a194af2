"""
Important to the predictions, relevant to the distance
======================================================

The importance of a column is how much the loss grows when the column is permuted among rows that the model has not
seen. Its relevance is its share in the learned distance of two rows. The two are different questions, and this example
shows how far the answers can differ.

The target is a line in the first column and a fast wave in the second. The line needs no short distances, so that its
column has a small share of the distance, and yet the predictions depend on it most. The third column is noise.

:doc:`/guide/explanations` says what each picture means and does not mean.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from bochner import KernelMachineRegressor

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.uniform(-1, 1, size=(3000, 3)), columns=["line", "wave", "noise"])
y = 2 * X["line"] + np.sin(9 * X["wave"]) + 0.1 * rng.standard_normal(3000)
model = KernelMachineRegressor(random_state=0).fit(X[:2000], y[:2000])

importance = model.importance(X[2000:], y[2000:], random_state=0)
print(importance)
print("relevance in the distance:", model.metric_.relevance_.round(2).tolist())

figure, axes = plt.subplots(1, 2, figsize=(7, 2.6), layout="constrained")
importance.plot(axes[0])
axes[1].barh(X.columns, model.metric_.relevance_, color="#E69F00", height=0.7)
axes[1].invert_yaxis()
axes[1].set_title("Relevance in the distance", loc="left", fontsize=9)
axes[1].set_xlabel("Share of the mean distance", fontsize=9)
axes[1].spines[["top", "right"]].set_visible(False)
plt.show()
