"""
A first fit
===========

A regressor without arguments learns a noisy sine, and says how sure it is.
"""

# %%
# Two hundred noisy values of a sine make the training set.

import numpy as np

from bochner import KernelMachineRegressor
from bochner.display import BandDisplay

rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, (300, 1))
y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(300)
model = KernelMachineRegressor(uncertainty=True, random_state=0).fit(X, y)

# %%
# The display draws the predictions along the column, with an interval that holds 90 % of new targets.

BandDisplay.from_estimator(model, X, y).plot()
