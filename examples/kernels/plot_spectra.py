"""
Kernels and their spectra
=========================

Bochner's theorem: a continuous function of x - y is a kernel if and only if it is the Fourier transform of a measure
that is nowhere negative. Divided by its mass, this measure is a probability distribution, and random Fourier features
are draws from it.

Each row of the picture shows a kernel on the left and its distribution on the right. A smooth kernel has a distribution
with light tails. A kernel with a kink at zero, such as the Laplacian, needs high frequencies: its distribution has
heavy tails, and more features are needed for the same error.

See also :doc:`/guide/bochner`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bochner import FourierFeatures
from bochner.display import KernelDisplay, SpectrumDisplay
from bochner.kernels import Gaussian, Laplacian, Matern, RationalQuadratic

kernels = [Gaussian(1.0), Matern(1.0, nu=2.5), RationalQuadratic(1.0), Laplacian(1.0)]
X = np.zeros((1, 1))

figure = plt.figure(figsize=(7, 9.5), layout="constrained")
for row, kernel in zip(
    figure.subfigures(len(kernels), 1, squeeze=False).ravel(), kernels, strict=True
):
    features = FourierFeatures(
        kernel, n_components=500, sampling="iid", random_state=0
    ).fit(X)
    left, right = row.subplots(1, 2)
    KernelDisplay.from_estimator(features, max_distance=4.0, n_draws=10).plot(left)
    SpectrumDisplay.from_estimator(features).plot(right)
    row.suptitle(type(kernel).__name__, x=0.01, ha="left", fontweight="bold")
plt.show()
