"""
Save a model, and load it elsewhere
===================================

A model file holds arrays and a JSON header, in the safetensors format. It contains no code, so that loading a file
from a stranger runs none. The loaded model predicts the same bits, on any machine and with any number of threads.

The picture shows what is in the file of a classifier of handwritten digits: bytes by array, the largest on top.

See also :doc:`/guide/persistence`.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from safetensors import safe_open
from sklearn.datasets import load_digits

from bochner import KernelMachineClassifier, load, save
from bochner.kernels import Gaussian

X, y = load_digits(return_X_y=True)
model = KernelMachineClassifier(
    Gaussian(25.0), n_components=1000, loss="squared", random_state=0
).fit(X[:1200], y[:1200])

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "digits.safetensors"
    save(model, path)
    again = load(path)
    with safe_open(path, "numpy") as file:
        names = list(file.keys())
        sizes = {name: file.get_tensor(name).nbytes for name in names}
    print(f"{path.stat().st_size / 1e6:.2f} MB in {len(sizes)} arrays")

same = np.array_equal(model.predict_proba(X[1200:]), again.predict_proba(X[1200:]))
print(
    f"The same probabilities, to the bit: {same};",
    f"accuracy {again.score(X[1200:], y[1200:]):.3f}",
)

# %%
# Nearly all of the file are the coefficients of the ten classes and the frequencies of the map.
names = sorted(sizes, key=lambda name: sizes[name], reverse=True)[:8]
figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
ax.barh(names, [sizes[name] / 1e3 for name in names], color="#0072B2")
ax.invert_yaxis()
ax.set_xlabel("Size [kB]")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
