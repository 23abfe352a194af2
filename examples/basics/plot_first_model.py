"""
A first model, and what it has learned
======================================

``KernelMachineRegressor`` takes a table as it is: numbers, text, dates and missing values. Without arguments it holds
out some of the rows, learns a lengthscale and a monotone warp for each column, tries several kinds of features, and
keeps the one that predicts the held-out rows best.

The table below is made up: prices of flats that depend on area, town, year of sale and noise, and a column that plays
no part. The picture shows the share of each column in the learned distance of two rows, and the warps of the columns.

See also :doc:`/tuning`.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from bochner import KernelMachineRegressor
from bochner.display import MetricDisplay

rng = np.random.default_rng(0)
n = 1500
flats = pd.DataFrame(
    {
        "area [m²]": rng.lognormal(4.3, 0.4, n),
        "town": rng.choice(["Basel", "Bern", "Genf"], n),
        "sold": pd.Timestamp("2018-01-01")
        + pd.to_timedelta(rng.integers(0, 2500, n), "D"),
        "door colour": rng.uniform(size=n),
    }
)
town = flats["town"].map({"Basel": 7.0, "Bern": 6.0, "Genf": 9.0}).to_numpy(float)
years = (flats["sold"] - flats["sold"].min()).dt.days.to_numpy() / 365
price = pd.Series(
    town * flats["area [m²]"] ** 0.9 * 1.04**years + rng.normal(0, 15, n),
    name="price [k€]",
)
flats.loc[::50, "town"] = None  # some are not known

model = KernelMachineRegressor(random_state=0).fit(flats[:1000], price[:1000])
print(f"R² on 500 new rows: {model.score(flats[1000:], price[1000:]):.3f}")

# %%
# The column that plays no part has almost no share. A warp is steep where the prediction changes with the column, and
# level where it does not.
MetricDisplay.from_estimator(model).plot()
plt.show()

# %%
# ``report_`` says what was tried, with the loss on the held-out rows, and why one of them was chosen.
print(model.report_)
