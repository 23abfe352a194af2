"""Makes the picture of the README from docs/benchmarks/peers.json: ``python
docs/figures/readme_picture.py``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

FIGURES = Path(__file__).parent
PANELS = {
    "california_housing": "california_housing: 20,640 rows, 8 columns",
    "house_16H": "house_16H: 22,784 rows, 16 columns",
}
FAMILIES = {
    "bochner": ("#0072B2", "*", ("bochner",)),
    "gradient boosting": (
        "#D55E00",
        "o",
        ("LightGBM", "XGBoost", "HistGradientBoosting"),
    ),
    "other kernel machines": ("#666666", "s", ()),
}
PLACES = {  # of the labels beside their points: right, up, alignment
    "SVC / SVR": (3, -15, "left"),
    "Nystroem + ridge": (7, -6, "left"),
    "ThunderSVM": (8, -8, "left"),
    "neo-ls-svm": (-7, 3, "right"),
    "RBFSampler + ridge": (-7, -8, "right"),
    "RBFSampler + ridge, tuned": (0, 15, "center"),
    "LightGBM": (-7, -3, "right"),
    "LightGBM, tuned": (0, 8, "center"),
    ("LightGBM, tuned", "house_16H"): (0, -14, "center"),
    ("XGBoost", "california_housing"): (2, -13, "left"),
    ("XGBoost", "house_16H"): (-7, 2, "right"),
    ("HistGradientBoosting", "house_16H"): (0, -14, "center"),
}


def measured(name: str) -> dict[str, tuple[float, float]]:
    """Seconds of the fit and test error of each learner that finished, as they are
    kept.
    """
    kept = json.loads(
        (FIGURES.parent / "benchmarks" / "peers.json").read_text("utf-8")
    )["errors and seconds"]
    return {
        learner: (seconds, error) for learner, (error, seconds) in kept[name].items()
    }


def family(learner: str) -> str:
    """Name of the family that a learner belongs to."""
    return next(
        (name for name, (*_, starts) in FAMILIES.items() if learner.startswith(starts)),
        "other kernel machines",
    )


def draw(ax: Any, name: str) -> None:
    """Draw one panel: a labelled point for each learner."""
    for learner, (seconds, error) in measured(name).items():
        colour, marker, _ = FAMILIES[family(learner)]
        ax.plot(
            seconds, error, marker, color=colour, markersize=13 if marker == "*" else 6
        )
        label = learner.replace("bochner, 1 s", "bochner, time_limit=1")
        right, up, side = PLACES.get(
            (learner, name), PLACES.get(learner, (7, 3, "left"))
        )
        ax.annotate(
            label,
            (seconds, error),
            (right, up),
            textcoords="offset points",
            ha=side,
            color=colour,
            fontsize=8,
        )
    ax.set(
        xscale="log",
        xlim=(0.02, 120),
        title=PANELS[name],
        xlabel="time of the fit, seconds (lower is better)",
    )
    ax.set_ylabel("test RMSE / standard deviation (lower is better)")
    ax.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
    ax.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """Write ``error_against_time.png``."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    for ax, name in zip(axes, PANELS, strict=True):
        draw(ax, name)
    for name, (colour, marker, _) in FAMILIES.items():
        axes[0].plot([], [], marker, color=colour, label=name, markersize=9)
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=3,
        frameon=False,
    )
    axes[0].set_ylim(bottom=0.35)
    axes[1].set_ylim(bottom=0.52)
    figure.savefig(FIGURES / "error_against_time.png", dpi=130)


if __name__ == "__main__":
    main()
