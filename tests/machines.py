"""Machines that tests share, each with its rows: fitted once in a process, and only
read.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bochner import KernelMachineClassifier, KernelMachineRegressor, save

N = 120  # houses
GAUSSIAN = {"kernel": "gaussian", "n_components": 64, "alpha": 0.1, "random_state": 0}


@dataclass(frozen=True)
class Machine:
    """A fitted model, the rows and targets of its fit, and its file as it was then."""

    model: Any
    X: Any
    y: np.ndarray
    path: Path
    content: bytes

    def check(self):
        """Fail where the model is no longer what was fitted."""
        again = saved(self.model, self.path.with_name("again.safetensors"))
        assert again == self.content, (
            "This test has changed a machine that tests share: it is to fit its own."
        )


def saved(model, path):
    """The bytes of the file of a model."""
    save(model, path)
    return path.read_bytes()


def fitted(model, rows, folder, weight=None):
    """A model of rows and targets, which may not be written any more where they are
    arrays.
    """
    X, y = rows
    for array in (X, y):
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
    model.fit(X, y, sample_weight=weight)
    path = folder / "model.safetensors"
    return Machine(model, X, y, path, saved(model, path))


def houses(seed=0):
    """A table of numbers, gaps, categories, codes and truths, and a price of them."""
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, N))
    kind = rng.choice(["round", "square", "long, thin"], N)
    price = 100 + 3 * np.sin(x) + z**2 + (kind == "round") + 0.1 * rng.normal(size=N)
    gaps = pa.array(
        [None if k % 10 == 0 else float(value) for k, value in enumerate(z)]
    )
    return pa.table(
        {
            "x": x,
            "z": gaps,
            "kind": kind,
            "rooms": rng.integers(1, 5, N),
            "sold": x + z > 0,
            "price": price,
        }
    )


def of_houses(target):
    """The other columns of the houses, and one of them."""
    table = houses()
    y = table[target].to_numpy(zero_copy_only=False)
    return table.drop_columns([target]), y.astype(str) if target == "kind" else y


def numbers(n_targets=1):
    """Rows of four numbers and a noisy line in them, or two."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    y = X @ [3.0, 1.0, 0.5, 0.0] + rng.normal(size=400)
    return X, y if n_targets == 1 else np.column_stack([y, np.sin(2 * X[:, 3])])


def price_regressor(folder):
    return fitted(KernelMachineRegressor(**GAUSSIAN), of_houses("price"), folder)


def kind_classifier(folder):
    return fitted(KernelMachineClassifier(**GAUSSIAN), of_houses("kind"), folder)


def sold_classifier(folder):
    return fitted(KernelMachineClassifier(**GAUSSIAN), of_houses("sold"), folder)


def line_regressor(folder):
    model = KernelMachineRegressor(
        features="fourier", metric="isotropic", n_components=200, random_state=0
    )
    return fitted(model, numbers(), folder)


def bins_regressor(folder):
    model = KernelMachineRegressor(
        kernel="laplacian",
        features="binning",
        n_components=30,
        alpha=0.1,
        uncertainty="intervals",
        random_state=0,
    )
    return fitted(model, numbers(), folder)


def hybrid_regressor(folder):
    model = KernelMachineRegressor(
        features="hybrid", metric="ard", n_components=8, random_state=0
    )
    weight = np.random.default_rng(1).uniform(size=400)
    return fitted(model, numbers(2), folder, weight)


BUILDERS = {
    builder.__name__: builder
    for builder in (
        price_regressor,
        kind_classifier,
        sold_classifier,
        line_regressor,
        bins_regressor,
        hybrid_regressor,
    )
}
