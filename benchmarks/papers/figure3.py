"""Figure 3 of Rahimi and Recht (NIPS 2007): Forest Cover by random binning features.

    python -m benchmarks figure3

Test error against the number of training rows, test error against the number of grids
P, training time against P. Every fit learns its lengthscales again, from its own
training rows.
"""

from __future__ import annotations

import numpy as np

from cells import Cell, Result, grouped, middle, run, spread
from datasets import load
from report import pyplot, save_figure, table, write_section
from runner import timed

ROWS = (1000, 3000, 10_000, 30_000, 100_000, 300_000, 522_000)
GRIDS = (1, 2, 5, 10, 20, 50, 100, 200)
SEEDS, P, N = 3, 50, 522_000
NOTE = f"""\
Forest Cover as two classes, n training rows, P grids with learned lengthscales; median and range over {SEEDS} seeds.
"""


def work(cell: Cell) -> Result:
    """Percent wrong."""
    from bochner import KernelMachineClassifier

    X, y, X_test, y_test = load("covtype")
    rows = np.random.default_rng(cell["seed"]).permutation(len(y))[: cell["n"]]
    X, X_test = X.to_numpy(np.float32)[rows], X_test.to_numpy(np.float32)
    model = KernelMachineClassifier(
        features="binning",
        metric="ard",
        n_components=cell["grids"],
        random_state=cell["seed"],
    )
    type(model)(random_state=0).fit(X[:300], y[rows[:300]] == 2)  # loads compiled code
    predicted, result = timed(model, X, y[rows] == 2, X_test)
    return result | {"wrong": 100 * float(np.mean(predicted != (y_test == 2)))}


def cells() -> list[Cell]:
    """By rows at 50 grids, then by grids at all rows."""
    sizes = [(n, P) for n in ROWS] + [(N, grids) for grids in GRIDS if grids != P]
    return [
        {"n": n, "grids": grids, "seed": seed, "limit": 300}
        for n, grids in sizes
        for seed in range(SEEDS)
    ]


def page(results: list[tuple[Cell, Result]]) -> None:
    """Both tables, and the figure."""
    groups = grouped(results, "n", "grids")
    lines = [
        [
            f"{n:,}",
            grids,
            spread(own, "wrong", 3),
            spread(own, "fit", 3),
            f"{middle(own, 'predict') or np.nan:.2f}",
        ]
        for (n, grids), own in sorted(groups.items())
    ]
    body = table(["n", "P", "test error, %", "training, s", "predict, us a row"], lines)
    body += f"\n\n{NOTE}\n![Figure 3](figures/figure3.png)\n"
    draw(groups)
    write_section(
        "Figure 3 of Rahimi and Recht (2007)", "python -m benchmarks figure3", body
    )


def draw(groups: dict[tuple, list[Result]]) -> None:
    """The three curves, with the range over seeds."""
    plt = pyplot()
    by_rows = [(n, own) for (n, grids), own in sorted(groups.items()) if grids == P]
    by_grids = [(grids, own) for (n, grids), own in sorted(groups.items()) if n == N]
    panels = [
        (by_rows, "wrong", "Training rows", "Test error, %"),
        (by_grids, "wrong", "Grids P", "Test error, %"),
        (by_grids, "fit", "Grids P", "Training time, s"),
    ]
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
    for ax, (points, what, label, unit) in zip(axes, panels, strict=True):
        known = [(x, [one[what] for one in own if what in one]) for x, own in points]
        x, values = [x for x, own in known if own], [own for _, own in known if own]
        centre = np.array([np.median(own) for own in values])
        ends = np.array(
            [[np.median(own) - min(own), max(own) - np.median(own)] for own in values]
        ).T
        ax.errorbar(x, centre, ends, marker="o", capsize=3, color="#0072B2")
        ax.set(xscale="log", xlabel=label, ylabel=unit, ylim=(0, None))
        ax.spines[["top", "right"]].set_visible(False)
    save_figure(figure, "figure3.png", 110)


if __name__ == "__main__":
    run("figure3", cells(), work, page)
