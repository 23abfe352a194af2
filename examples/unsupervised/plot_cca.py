"""
What two tables have in common
==============================

Canonical correlation analysis looks for a direction in each of two tables whose scores correlate most. ``KernelCCA``
does so in spaces of random features, and finds relations that are not linear.

Two sensors see the same angle: one its cosine and noise, the other the angle itself and noise. No linear score of the
one correlates with one of the other. The picture shows the first pair of scores on rows that were not learned from.
"""

import matplotlib.pyplot as plt
import numpy as np

from bochner import KernelCCA
from bochner.display import EmbeddingDisplay

rng = np.random.default_rng(0)
angle = rng.uniform(-3, 3, 1500)
X = np.column_stack([np.cos(angle), rng.standard_normal(1500)])
Y = np.column_stack([angle, rng.standard_normal(1500)])

model = KernelCCA(n_components=1, random_state=0).fit(X[:1000], Y[:1000])
scores = np.column_stack([one[:, 0] for one in model.transform(X[1000:], Y[1000:])])
print(f"correlation of the columns {np.corrcoef(X[:, 0], Y[:, 0])[0, 1]:+.2f}")
print(f"correlation of the scores  {np.corrcoef(scores.T)[0, 1]:+.2f}, on new rows")

EmbeddingDisplay(
    scores, np.abs(angle[1000:]), ("Score of the first table", "Score of the second"), "Angle [rad]"
).plot()
plt.show()
