"""
Prediction intervals that hold
==============================

With ``uncertainty=True`` a regressor gives standard deviations, intervals and quantiles. An interval takes its width
from a second machine, which predicts the size of the errors, and its level from rows that nothing was learned from
(split conformal prediction). A share of 90 % of new targets falls into an interval of 90 %, whatever the noise is
like.

The noise of the data grows with x, and so do the intervals.

See also :doc:`/uncertainty`.
"""

import matplotlib.pyplot as plt
import numpy as np

from bochner import KernelMachineRegressor
from bochner.display import BandDisplay, CoverageDisplay, WidthDisplay

rng = np.random.default_rng(0)
X = rng.uniform(0, 10, size=(3000, 1))
y = np.sin(X[:, 0]) + (0.05 + 0.05 * X[:, 0]) * rng.standard_normal(3000)
model = KernelMachineRegressor(uncertainty=True, n_components=300, random_state=0).fit(
    X[:1500], y[:1500]
)

BandDisplay.from_estimator(model, X[1500:], y[1500:]).plot()
plt.show()

# %%
# On rows that the model has not seen: the coverage measured against the coverage asked for, and the coverage of the 90
# % intervals by tenths of x. Bars are Wilson's 95 % intervals of the measured shares.
CoverageDisplay.from_estimator(model, X[1500:], y[1500:], by=0).plot()
plt.show()

# %%
# Do the widths tell where errors are large? If they do, the 90 % quantile of the absolute errors follows the dashed
# line.
WidthDisplay.from_estimator(model, X[1500:], y[1500:]).plot()
plt.show()
