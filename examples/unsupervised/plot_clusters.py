"""
Clusters that hang together, and clusters that are compact
==========================================================

``SpectralClustering`` looks for groups that are connected, in a graph of landmarks which never becomes an n x n
matrix. ``KernelKMeans`` looks for groups that are compact. Both have ``predict`` for new rows.

On two rings only the first one finds what the eye sees; on three clouds both agree. The last picture shows the rows of
the clouds in the coordinates that spectral clustering finds, where groups are far apart, and how many rows each group
has.

See also :doc:`/unsupervised/clusters`.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_blobs, make_circles
from sklearn.metrics import adjusted_rand_score

from bochner import KernelKMeans, SpectralClustering
from bochner.display import ClusterDisplay, EmbeddingDisplay

tables = {
    "rings": make_circles(1000, factor=0.4, noise=0.05, random_state=0),
    "clouds": make_blobs(1000, centers=3, cluster_std=0.9, random_state=1),
}
figure, axes = plt.subplots(2, 2, figsize=(7, 6), layout="constrained")
models = {}
for row, (name, (X, truth)) in zip(axes, tables.items(), strict=True):
    k = len(set(truth.tolist()))
    for ax, kind in zip(row, (SpectralClustering, KernelKMeans), strict=True):
        models[name, kind] = model = kind(k, random_state=0).fit(X)
        EmbeddingDisplay(X, model.labels_, ("First column", "Second column")).plot(
            ax, s=6
        )
        score = adjusted_rand_score(truth, model.labels_)
        ax.set_title(
            f"{kind.__name__}: Rand index {score:.2f}",
            loc="left",
            fontsize="medium",
            pad=22,
        )
plt.show()

# %%
ClusterDisplay.from_estimator(models["clouds", SpectralClustering]).plot()
plt.show()
