"""
Effects: partial dependence, single rows, and accumulated effects
=================================================================

Partial dependence is the mean prediction if all rows get the same value of a column. Grey lines are single rows: where
they cross, the column acts together with another one. The band is the interval of the mean by the posterior.

Two columns of this example are nearly equal, and only the first has an effect. Rows whose first column is changed alone
are then unlike any data. Accumulated local effects compare neighbouring values only, among rows that have them.

:doc:`/guide/explanations` says what each picture means and does not mean.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from bochner import KernelMachineRegressor

rng = np.random.default_rng(0)
first = rng.uniform(-2, 2, 2000)
X = pd.DataFrame(
    {
        "first": first,
        "twin": first + 0.2 * rng.standard_normal(2000),
        "switch": rng.choice([-1, 1], 2000),
    }
)
y = first**2 + X["switch"] * first + 0.2 * rng.standard_normal(2000)
model = KernelMachineRegressor(uncertainty=True, random_state=0).fit(X, y)

columns = ["first", "twin", "switch"]
partial = model.effects(X, columns)
accumulated = model.effects(X, columns, kind="accumulated")
for one, other in zip(partial, accumulated, strict=True):
    print(f"{one.column:7s} partial {one.span[0]:.2f}, accumulated {other.span[0]:.2f}")

figure, axes = plt.subplots(2, 3, figsize=(7, 4.6), layout="constrained")
partial.plot(axes[0])
accumulated.plot(axes[1])
plt.show()
