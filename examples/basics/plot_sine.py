"""
A sine, exactly and by random features
======================================

Kernel ridge regression finds the function f that minimises the squared error on the training rows plus a ridge
penalty. The exact solution takes the n x n kernel matrix: memory grows with the square of the rows, and time with the
cube. Random Fourier features replace that matrix by a product Z Z' with a fixed number of columns, so that both grow
linearly.

Here both learn one period of a sine from 200 noisy rows, with the Gaussian kernel of lengthscale 0.5 and the ridge
penalty 0.001. The kernel is wide for this sine, and little is held back by the penalty: a hard case for few features.
With 100 of them the curve is within a few hundredths of the exact one, much less than the noise of 0.1; 1,000 leave
hardly any gap.

See also :doc:`/guide/ridge`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.kernel_ridge import KernelRidge

from bochner import KernelMachineRegressor
from bochner.kernels import Gaussian

rng = np.random.default_rng(0)
X = rng.uniform(size=(200, 1))
y = np.sin(2 * np.pi * X[:, 0]) + 0.1 * rng.standard_normal(200)
grid = np.linspace(0, 1, 500)[:, np.newaxis]
truth = np.sin(2 * np.pi * grid[:, 0])

lengthscale, alpha = 0.5, 1e-3
exact = KernelRidge(alpha=alpha, kernel="rbf", gamma=1 / (2 * lengthscale**2)).fit(X, y)
features = KernelMachineRegressor(
    Gaussian(lengthscale), n_components=100, alpha=alpha, random_state=0
).fit(X, y)
more = KernelMachineRegressor(
    Gaussian(lengthscale), n_components=1000, alpha=alpha, random_state=0
).fit(X, y)

# %%
# The upper panel shows data, truth and both fits; the lower one the errors of the fits against the truth.
curves = {
    "exact kernel ridge": exact.predict(grid),
    "100 random features": features.predict(grid),
}
looks = {
    "exact kernel ridge": ("#0072B2", "-"),
    "100 random features": ("#D55E00", "--"),
}

figure, (top, below) = plt.subplots(
    2, 1, figsize=(7, 5), sharex=True, height_ratios=[3, 1], layout="constrained"
)
top.scatter(X[:, 0], y, s=10, color="#767676", alpha=0.6, linewidths=0, label="data")
top.plot(grid, truth, color="black", linewidth=1, label="truth")
for name, predicted in curves.items():
    colour, line = looks[name]
    top.plot(grid, predicted, line, color=colour, linewidth=2, label=name)
    below.plot(grid, predicted - truth, line, color=colour, linewidth=1.5)
below.axhline(0, color="black", linewidth=0.8)
top.set_ylabel("y")
below.set_xlabel("x")
below.set_ylabel("Error")
figure.legend(loc="outside upper center", ncols=4, frameon=False)
plt.show()

# %%
# The figures behind the picture: root mean squared errors against the truth.
for name, predicted in (curves | {"1,000 random features": more.predict(grid)}).items():
    print(f"{name:22s} {np.sqrt(np.mean((predicted - truth) ** 2)):.4f}")
