"""
Kernel matrices at 100 and 10,000 features
==========================================

The product Z Z' of random features estimates the kernel matrix without bias; each entry has a variance that falls as
one over the number D of features. A hundred times as many features make the noise ten times smaller.

The picture shows the exact matrix of 300 rows in the unit interval, sorted, for the Gaussian kernel of lengthscale
0.1, beside its estimates by 100 and by 10,000 features. The largest error and the root mean square of all errors are
printed above.

See also :doc:`/guide/fourier`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bochner import FourierFeatures
from bochner.display import GramDisplay
from bochner.kernels import Gaussian

X = np.sort(np.random.default_rng(0).uniform(size=(300, 1)), axis=0)
features = FourierFeatures(Gaussian(0.1), sampling="iid", random_state=0)
display = GramDisplay.from_estimator(
    features, X, sizes=(100, 10_000), order="given"
).plot()
plt.show()

# %%
# The ratio of the two errors is near 10, as it should be.
print(
    "RMS error, 100 over 10,000 features:",
    f"{display.rms_errors[0] / display.rms_errors[1]:.1f}",
)
