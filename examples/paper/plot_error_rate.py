"""
How fast the error falls, and what Claim 1 promises
===================================================

Claim 1 of the paper bounds the largest error of the kernel over a compact region, with high probability. It holds for
any number D of features, and it is loose: the errors that one measures are several times smaller. Both fall as one
over the root of D.

The picture shows the mean and the largest error over all pairs of 100 rows against D, with the range of ten draws,
dashed lines c / sqrt(D), and the guaranteed error. ``required_components`` turns the bound around: it says how many
features are enough for an error that one can live with.

See also :doc:`/theory`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bochner import FourierFeatures
from bochner.display import ErrorDisplay
from bochner.kernels import Gaussian
from bochner.theory import guaranteed_error, kernel_error, required_components

X = np.random.default_rng(0).standard_normal((100, 3))
kernel = Gaussian(2.0)
features = FourierFeatures(kernel, sampling="iid", random_state=0)
ErrorDisplay.from_estimator(
    features,
    X,
    sizes=(16, 64, 256, 1024, 4096),
    bound=lambda D: guaranteed_error(kernel, X, n_components=D),
).plot()
plt.show()

# %%
# For an error of 0.1 anywhere in the region, with probability 0.95:
n_components = required_components(0.1, 0.05, kernel, X)
print(f"{n_components:,} features are enough")
print(kernel_error(features.set_params(n_components=1000).fit(X), X, random_state=0))
