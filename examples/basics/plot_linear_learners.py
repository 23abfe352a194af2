"""
Any linear learner on the features
==================================

A feature map is a scikit-learn transformer. Behind it any linear learner becomes a kernel machine: a linear support
vector machine becomes one with a Gaussian kernel, stochastic gradient descent becomes an online one, k-means becomes
kernel k-means, and so on.

The pictures show the decision regions of four linear classifiers on the same 300 Fourier features of two interleaved
half circles, which no straight line separates. The losses differ, the regions hardly do: what bends the border is the
map.

See also :doc:`/howto/linear`.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons
from sklearn.inspection import DecisionBoundaryDisplay
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from bochner import FourierFeatures
from bochner.kernels import Gaussian

X, y = make_moons(400, noise=0.2, random_state=0)
learners = {
    "LinearSVC": LinearSVC(C=1.0),
    "LogisticRegression": LogisticRegression(C=10.0),
    "SGDClassifier": SGDClassifier(alpha=1e-3, random_state=0),
    "RidgeClassifier": RidgeClassifier(alpha=0.1),
}

figure, axes = plt.subplots(
    2, 2, figsize=(7, 5.4), layout="constrained", sharex=True, sharey=True
)
for ax, (name, learner) in zip(axes.flat, learners.items(), strict=True):
    features = FourierFeatures(Gaussian(0.5), n_components=300, random_state=0)
    machine = make_pipeline(features, learner).fit(X, y)
    DecisionBoundaryDisplay.from_estimator(
        machine,
        X,
        response_method="predict",
        cmap="RdBu",
        alpha=0.25,
        ax=ax,
        grid_resolution=200,
    )
    for label, colour, marker in ((0, "#D55E00", "s"), (1, "#0072B2", "o")):
        ax.scatter(*X[y == label].T, s=10, color=colour, marker=marker, linewidths=0)
    ax.set_title(
        f"{name}: {100 * machine.score(X, y):.1f} % right",
        loc="left",
        fontsize="medium",
    )
plt.show()
