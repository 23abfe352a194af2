"""
Learned warps of house prices, as maps
======================================

House prices depend on place at several scales: two miles matter in a city, and fifty do not in a desert. One
lengthscale cannot say so. The metric of a machine has a monotone warp w for each column: it stretches a column where
the target changes fast, and shrinks it where the target is level. Distances are those of the warped columns.

The page reads ``california_housing.parquet`` from the folder ``BOCHNER_DATA``. Without that file a synthetic table of
the same columns takes its place, with two invented cities.

See also :doc:`/guide/metrics`.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from bochner import KernelMachineRegressor
from bochner.display import MetricDisplay

rng = np.random.default_rng(0)
path = Path(os.environ.get("BOCHNER_DATA", "")) / "california_housing.parquet"
if path.is_file():
    houses = pd.read_parquet(path).sample(6000, random_state=0)
    price = houses.pop("target") / 1e3
else:
    cities = np.array([[-122.3, 37.8], [-118.2, 34.0]])
    at = rng.uniform([-124.0, 32.5], [-114.5, 42.0], size=(6000, 2))
    at[:4000] = cities[rng.integers(2, size=4000)] + rng.normal(0, 0.25, (4000, 2))
    gap = np.min([np.hypot(*(at - city).T) for city in cities], axis=0)
    houses = pd.DataFrame(at, columns=["longitude", "latitude"])
    houses["housingMedianAge"] = rng.uniform(1, 52, 6000)
    houses["medianIncome"] = rng.lognormal(1.2, 0.45, 6000)
    price = (
        40 * houses["medianIncome"] + 250 * np.exp(-gap / 0.2) + rng.normal(0, 20, 6000)
    )
price = pd.Series(price, name="price [k$]")

model = KernelMachineRegressor(
    n_components=1000, features="fourier", random_state=0
).fit(houses, price)
MetricDisplay.from_estimator(model, n_warps=8).plot(sharey=False)
plt.show()

# %%
# The same on a map. The lines are equidistant in the warped longitude and latitude: they are dense where a step to the
# side changes the price most. The colours are predicted prices of a house with median values in all other columns,
# left white where no house is within a quarter of a degree.
n = 120
east = np.linspace(houses["longitude"].min(), houses["longitude"].max(), n)
north = np.linspace(houses["latitude"].min(), houses["latitude"].max(), n)
rows = pd.DataFrame({name: np.full(n * n, houses[name].median()) for name in houses})
rows["longitude"], rows["latitude"] = (
    axis.ravel() for axis in np.meshgrid(east, north)
)

figure, ax = plt.subplots(figsize=(6, 5), layout="constrained")
far = (
    cKDTree(houses[["longitude", "latitude"]]).query(rows[["longitude", "latitude"]])[0]
    > 0.25
)
shown = np.ma.masked_array(model.predict(rows), far).reshape(n, n)
limits = dict(zip(("vmin", "vmax"), np.quantile(price, [0.02, 0.98]), strict=True))
image = ax.pcolormesh(east, north, shown, cmap="viridis", shading="nearest", **limits)
for warp in MetricDisplay.from_estimator(model, n_warps=20).warps:
    if warp.name in ("longitude", "latitude"):
        w, x = np.asarray(warp.w), np.asarray(warp.x)
        lines = np.interp(np.linspace(w[0], w[-1], 25), w, x)
        draw = ax.axvline if warp.name == "longitude" else ax.axhline
        for place in lines:
            draw(place, color="#D55E00", linewidth=0.5)
ax.set_xlabel("Longitude [degrees]")
ax.set_ylabel("Latitude [degrees]")
ax.set_xlim(east[0], east[-1])
ax.set_ylim(north[0], north[-1])
figure.colorbar(image, ax=ax, label="Predicted price [k$]")
plt.show()
