"""
Calibrated probabilities
========================

A probability of 0.8 should be right eight times out of ten. Scores of a machine become probabilities by a function
that is fitted to held-out rows, so that they are as sure as they may be.

The picture compares a machine with naive Bayes on the breast cancer data of scikit-learn, by five-fold
cross-validation. Naive Bayes counts columns that say the same several times over, and is too sure. Below each curve is
the histogram of the predicted probabilities.

See also :doc:`/guide/classes`.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB

from bochner import KernelMachineClassifier
from bochner.display import ReliabilityDisplay
from bochner.kernels import Gaussian

X, y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
models = {
    "kernel machine": KernelMachineClassifier(
        Gaussian(8.0), n_components=400, random_state=0
    ),
    "naive Bayes": GaussianNB(),
}

figure = plt.figure(figsize=(7, 4.6), layout="constrained")
for place, (name, model) in zip(
    figure.subfigures(1, 2, squeeze=False).ravel(), models.items(), strict=True
):
    proba = cross_val_predict(model, X, y, cv=5, method="predict_proba")
    ReliabilityDisplay.from_predictions(y, proba, n_bins=8).plot(place.add_subplot())
    place.suptitle(f"{name}, log loss {log_loss(y, proba):.3f}", fontsize="medium")
plt.show()
