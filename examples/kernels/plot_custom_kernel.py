"""
A kernel of your own, by its Fourier transform
==============================================

``Radial`` takes any function of the distance and computes its spectral distribution by a numerical Fourier transform,
the first step of Algorithm 1. Here it is a Wendland function, (1 - r)^4 (4 r + 1) up to r = 1 and zero beyond, which is
positive definite in up to three dimensions. Its support is compact: rows farther apart than the lengthscale do not
influence each other.

A function whose transform turns negative is no kernel. It is refused with the place where that happens.

See also :doc:`/guide/bochner`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bochner import FourierFeatures, KernelMachineRegressor
from bochner.display import KernelDisplay, SpectrumDisplay
from bochner.kernels import Radial

wendland = Radial(lambda r: np.maximum(0, 1 - r) ** 4 * (4 * r + 1), lengthscale=3.0)
X = np.random.default_rng(0).uniform(0, 10, size=(800, 2))
features = FourierFeatures(
    wendland, n_components=1000, sampling="iid", random_state=0
).fit(X)

figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.2), layout="constrained")
KernelDisplay.from_estimator(features, X, max_distance=5.0).plot(left)
SpectrumDisplay.from_estimator(features).plot(right)
plt.show()

# %%
# The kernel goes into a machine as any other does.
y = np.sin(X[:, 0]) * np.cos(X[:, 1])
model = KernelMachineRegressor(wendland, n_components=1000, random_state=0).fit(
    X[:600], y[:600]
)
print(f"R² on new rows: {model.score(X[600:], y[600:]):.3f}")

# %%
# A box is not a kernel: its Fourier transform is a sine over its argument, which is negative in places.
try:
    FourierFeatures(Radial(lambda r: (r < 1).astype(float)), n_components=100).fit(X)
except ValueError as error:
    print(error)
