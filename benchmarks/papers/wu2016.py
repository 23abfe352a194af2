"""Wu, Yen, Chen and Yan (KDD 2016), "Revisiting Random Binning Features": accuracy
against the number of grids.

    python -m benchmarks wu2016

Forest Cover of seven types, 80 % of the rows to train on (their covtype-mult): bins
with learned and with one lengthscale, and Fourier features of the Laplacian and the
Gaussian kernel with as many columns as a row of bins has entries; their claim is that
bins need far fewer.
"""

from __future__ import annotations

import numpy as np

from cells import Cell, Result, grouped, run, spread
from datasets import load
from report import table, write_section
from runner import timed

GRIDS = (4, 16, 64, 256)
METHODS = (
    "bins, learned lengthscales",
    "bins, one lengthscale",
    "Fourier, Laplacian",
    "Fourier, Gaussian",
)
SEEDS = 2
NOTE = f"""\
Forest Cover with seven types, trained on 80 % of the rows; median and range over {SEEDS} seeds, each with its own
split. There are as many Fourier features as non-zero entries in a row of bins, and they have one lengthscale.
"""


def work(cell: Cell) -> Result:
    """Percent right."""
    from bochner import KernelMachineClassifier

    X, y, X_test, y_test = load("covtype")
    X, y = np.vstack([X, X_test]).astype(np.float32), np.concatenate([y, y_test])
    order = np.random.default_rng(cell["seed"]).permutation(len(y))
    train, test = order[: int(0.8 * len(y))], order[int(0.8 * len(y)) :]
    options = {
        METHODS[0]: {"features": "binning", "metric": "ard"},
        METHODS[1]: {"features": "binning", "metric": "isotropic"},
        METHODS[2]: {
            "features": "fourier",
            "metric": "isotropic",
            "kernel": "laplacian",
        },
        METHODS[3]: {
            "features": "fourier",
            "metric": "isotropic",
            "kernel": "gaussian",
        },
    }[cell["method"]]
    model = KernelMachineClassifier(
        n_components=cell["size"], random_state=cell["seed"], **options
    )
    type(model)(random_state=0).fit(X[:300], y[:300] == 2)  # loads compiled code
    predicted, result = timed(model, X[train], y[train], X[test])
    return result | {"right": 100 * float(np.mean(predicted == y[test]))}


def page(results: list[tuple[Cell, Result]]) -> None:
    """A row for each number of grids."""
    groups = grouped(results, "method", "size")
    lines = []
    for size in GRIDS:
        line = [str(size)]
        for method in METHODS:
            own = groups.get((method, size), [])
            line += [spread(own, "right", 4), spread(own, "fit", 2)]
        lines.append(line)
    header = ["grids, or Fourier features"] + [
        cell for method in METHODS for cell in (f"{method}, % right", "s")
    ]
    body = table(header, lines) + "\n\n" + NOTE
    write_section(
        "Random binning features by Wu et al. (2016)",
        "python -m benchmarks wu2016",
        body,
    )


if __name__ == "__main__":
    run(
        "wu2016",
        [
            {"method": method, "size": size, "seed": seed, "limit": 300}
            for method in METHODS
            for size in GRIDS
            for seed in range(SEEDS)
        ],
        work,
        page,
    )
