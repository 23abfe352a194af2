"""
Novelty detection
=================

``NoveltyDetector`` learns where rows are usual, and reports new ones that are not. It combines two measures of how
alone a row is: the share of rows in its random bins, and its leverage in a space of Fourier features. The offset is
set so that a given share of usual rows, here 2 %, is reported as novel.

Usual rows form a ring. Points in the middle and outside are both unusual: a detector that measures the distance from
the centre would miss the former.

See also :doc:`/unsupervised/novelty`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from bochner import NoveltyDetector
from bochner.display import NoveltyDisplay

rng = np.random.default_rng(0)
angle = rng.uniform(0, 2 * np.pi, 3000)
ring = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.08 * rng.standard_normal(
    (3000, 2)
)
detector = NoveltyDetector(contamination=0.02, random_state=0).fit(ring[:2000])

strangers = rng.uniform(-2, 2, size=(100, 2))
strangers = strangers[np.abs(np.hypot(*strangers.T) - 1) > 0.4]
new = np.concatenate([ring[2000:], strangers])
NoveltyDisplay.from_estimator(detector, new).plot()
plt.show()

# %%
# Of 1,000 new rows from the ring few are reported as novel, of the strangers nearly all.
usual, strange = (detector.predict(rows) == -1 for rows in (ring[2000:], strangers))
truth = np.arange(len(new)) < 1000
print(
    f"novel: {100 * usual.mean():.1f} % of usual rows,",
    f"{100 * strange.mean():.1f} % of strangers",
)
print(
    f"area under the ROC curve: {roc_auc_score(truth, detector.score_samples(new)):.4f}"
)
