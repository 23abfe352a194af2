"""
Figure 1: a random line, wound around a circle
==============================================

The first map of the paper draws a frequency w from the Fourier transform of the kernel, projects a row x onto it, and
winds the line w'x around the unit circle. The place on the circle, (cos w'x, sin w'x), is a pair of features. Rows
that lie near each other land near each other; whole wavelengths do not count.

By Bochner's theorem the mean of cos(w'(x - y)) over all frequencies is the kernel k(x, y). One frequency is a crude
estimate, and D / 2 of them are a good one: its error falls as one over the root of D.

See also :doc:`/guide/fourier`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bochner import FourierFeatures
from bochner.display import CircleDisplay, KernelDisplay
from bochner.kernels import Gaussian

X = np.random.default_rng(0).uniform(0, 10, size=(300, 2))
features = FourierFeatures(
    Gaussian(2.0), n_components=200, sampling="iid", random_state=0
).fit(X)

# %%
# On the left 300 rows, the crests of one wave as dashed lines, and an arrow one wavelength long. On the right the same
# rows on the circle, with the same colours.
lengths = np.linalg.norm(features.frequencies_, axis=0)
# One whose waves are short enough to wind around more than once
frequency = int(np.argmin(np.abs(lengths - 1.2)))
CircleDisplay.from_estimator(features, X, frequency=frequency).plot()
plt.show()

# %%
# All 100 frequencies together: z(x)'z(x + t e) against the kernel, over the distance t. The band has two known
# standard deviations of 100 independent pairs of features.
KernelDisplay.from_estimator(features, X, n_draws=0, max_distance=8.0).plot()
plt.show()
