"""
What two tables have in common
==============================

Canonical correlation analysis looks for a direction in each of two tables whose scores correlate most. ``KernelCCA``
does so in spaces of random features, and finds relations that are not linear.

Two sensors see the same angle: one its noisy cosine, the other the angle itself, and each another column of noise. No
linear score of the one correlates with one of the other. The first pair of kernel scores does, also on rows that were
held out. The next pairs are finer functions of the angle. The fourth correlates on the rows of the fit only: it is
overfitted, and the line of the held-out rows shows it.

See also :doc:`/unsupervised/components`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bochner import KernelCCA
from bochner.display import CorrelationDisplay, EmbeddingDisplay

rng = np.random.default_rng(0)
angle = rng.uniform(-3, 3, 1500)
X = np.column_stack(
    [np.cos(angle) + 0.2 * rng.standard_normal(1500), rng.standard_normal(1500)]
)
Y = np.column_stack([angle, rng.standard_normal(1500)])

model = KernelCCA(n_components=4, random_state=0).fit(X[:1000], Y[:1000])
print(f"correlation of the columns {np.corrcoef(X[:, 0], Y[:, 0])[0, 1]:+.2f}")
print(
    f"correlation of the scores  {model.correlations_of(X[1000:], Y[1000:])[0]:+.2f},",
    "on rows held out",
)

CorrelationDisplay.from_estimator(model, X[1000:], Y[1000:]).plot()
plt.show()

# %%
# The first pair of scores of these rows lies near a line.
first, second = (scores[:, 0] for scores in model.transform(X[1000:], Y[1000:]))
names = "First score of X", "First score of Y"
EmbeddingDisplay(np.column_stack([first, second]), names=names).plot()
plt.show()
