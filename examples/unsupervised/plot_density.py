"""
Density of a large sample
=========================

``KernelDensity`` estimates a density from counts on a fine grid, so that a million rows cost little more than a
thousand. The bandwidth is chosen from the data. scikit-learn's ``KernelDensity`` sums over all rows for each point
that is asked for; with the same bandwidth both give the same curve.

The sample is a mixture of two normal distributions of different width.

See also :doc:`/unsupervised/novelty`.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from bochner import KernelDensity

rng = np.random.default_rng(0)
n = 200_000
first = rng.uniform(size=n) < 0.3
x = np.where(first, rng.normal(-2, 0.3, n), rng.normal(1, 1.0, n))
grid = np.linspace(-4, 5, 400)
truth = 0.3 * norm.pdf(grid, -2, 0.3) + 0.7 * norm.pdf(grid, 1, 1.0)

density = KernelDensity(random_state=0).fit(x[:, np.newaxis])
estimate = np.exp(density.score_samples(grid[:, np.newaxis]))

figure, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
ax.hist(x, bins=150, density=True, color="#767676", alpha=0.3, label="histogram")
ax.plot(grid, truth, color="black", linewidth=1, label="truth")
ax.plot(grid, estimate, "--", color="#D55E00", linewidth=1.8, label="estimate")
ax.set_xlim(-4, 5)
ax.set_xlabel("x")
ax.set_ylabel("Density")
ax.spines[["top", "right"]].set_visible(False)
figure.legend(loc="outside upper left", ncols=3, frameon=False)
plt.show()

# %%
print(f"Largest error of the density: {np.abs(estimate - truth).max():.4f}")
