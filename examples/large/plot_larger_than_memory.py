"""
Tables larger than memory
=========================

A machine reads Parquet, Arrow, CSV and LIBSVM files block by block. Its sums have the size of the features, not of the
rows: ``memory_limit`` says how much it may hold. All choices are made on a sample, and the coefficients follow from
all rows, in one pass for Fourier features.

The page writes 200,000 rows to a temporary folder of Parquet files, and fits them within 1.5 GB, most of which is what
Python and its libraries take by themselves. The picture shows the predictions against the truth along one column.

See also :doc:`/large`.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
from pyarrow import parquet

import bochner
from bochner import KernelMachineRegressor

rng = np.random.default_rng(0)
folder = tempfile.TemporaryDirectory()
for part in range(4):
    area, age = rng.uniform(20, 200, 50_000), rng.uniform(0, 100, 50_000)
    price = 3 * area * (1 + 0.3 * np.cos(age / 15)) + 20 * rng.standard_normal(50_000)
    rows = pa.table({"area": area, "age": age, "price": price})
    parquet.write_table(rows, Path(folder.name) / f"part{part}.parquet")

# %%
# The target is given by its name, and ``plan`` says beforehand what will be read and held. This table would
# fit into memory; ``sample`` asks to treat it as one that does not. The result has the same bits for any number of
# threads.
source = bochner.open_source(folder.name, sample=20_000)
model = KernelMachineRegressor(n_components=300, features="fourier", random_state=0)
with bochner.settings(memory_limit="1.5 GB"):
    print(model.plan(source, "price"))
    model.fit(source, "price")

age = np.linspace(0, 100, 300)
new = pa.table({"area": np.full(300, 100.0), "age": age})
figure, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
ax.plot(
    age, 300 * (1 + 0.3 * np.cos(age / 15)), color="black", linewidth=1, label="truth"
)
ax.plot(age, model.predict(new), "--", color="#D55E00", linewidth=2, label="prediction")
ax.set_xlabel("Age [years], at an area of 100 m²")
ax.set_ylabel("Price [k$]")
ax.spines[["top", "right"]].set_visible(False)
figure.legend(loc="outside upper left", ncols=2, frameon=False)
plt.show()
folder.cleanup()
