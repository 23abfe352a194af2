"""How far the error moves with the seed alone: ``python -m benchmarks steady [--only
NAME ...]``.

Training and test rows stay the same, and only `random_state` differs: the draws of
random features, of validation rows, and of the rows that metrics are learned on.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from accuracy import REGRESSION, SMALL, estimator, few, measures, tried
from report import tables
from runner import cost, repeats, run

SEEDS = 8
MEASURES = ("RMSE / sd", "% wrong", "log loss")
NAMES = (*REGRESSION[:5], *SMALL)
HEADER = (
    "data, measure",
    "seeds",
    "median",
    "standard deviation",
    "worst over median",
    "processor seconds",
)
NOTE = """\
Defaults. Numbers: root mean squared error over the standard deviation of the test targets. Processor seconds are the
median of the fits."""


def rows(name: str) -> list[list[str]]:
    """The rows of a data set, one for each measure."""
    data = tried(name)
    estimator(name, random_state=0).fit(few(data.X), few(data.y))  # loads compiled code
    found = []
    seconds = []
    for seed in range(repeats(SEEDS)):
        model = estimator(name, random_state=seed)
        _, used, _ = cost(lambda model=model: model.fit(data.X, data.y))
        found.append(measures(name, model, data))
        seconds.append(used)
    lines = []
    for measure in [one for one in found[0] if one in MEASURES]:
        values = np.array([one[measure] for one in found])
        middle = np.median(values)
        lines.append(
            [
                f"{name}, {measure}",
                str(len(values)),
                f"{middle:.4g}",
                f"{values.std(ddof=1) if len(values) > 1 else 0.0:.2g}",
                f"{values.max() / middle:.3f}",
                f"{np.median(seconds):.3g}",
            ]
        )
    return lines


if __name__ == "__main__":
    parts = {name: partial(rows, name) for name in NAMES}
    run("Steadiness", __file__, __doc__, parts, tables(HEADER, NOTE))
