"""Writes the page of kernels, a card for each row of the table, with pictures of the
kernel and its distribution.
"""

import re
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[1] / "generated" / "kernels.md"
DISTANCES = np.linspace(0, 4, 401)
INTRODUCTION = """# Kernels at a glance

Each card shows a kernel k over distance, for one column and lengthscale 1, above 2,000 of its frequencies. A kernel
that is flat at 0 has few high frequencies, and makes smooth functions. A kernel with a cusp at 0 has many, and makes
rough ones. Kernels with a distribution of pitches have random bins too. [Formulas and details](../kernels.md) are on a
page of their own, and each name links to the reference.

::::{grid} 1 2 3 3
:gutter: 3
"""
CARD = """:::{{grid-item-card}} {{py:class}}`{title} <bochner.kernels.{name}>`
:img-top: pictures/kernels/{file}.svg
:img-alt: The kernel {title} over distance, and a histogram of its frequencies

| | |
|---|---|
| k | {formula} |
| frequencies | {frequencies} |
| pitches | {pitches} |
:::
"""


def picture(kernel, path):
    """A kernel over distance, and the frequencies that a feature map draws."""
    from matplotlib.figure import Figure

    from bochner import FourierFeatures

    values = kernel(DISTANCES[:, None], np.zeros((1, 1)))[:, 0]
    frequencies = (
        FourierFeatures(kernel, 4000, sampling="iid", random_state=0)
        .fit(np.zeros((2, 1)))
        .frequencies_
    )
    figure = Figure(figsize=(3.2, 2.6), layout="constrained")
    above, below = figure.subplots(2, 1)
    above.plot(DISTANCES, values, color="#0072B2", linewidth=2)
    above.axhline(0, color="0.8", linewidth=0.8, zorder=0)
    above.set_ylabel("k")
    below.hist(
        np.ravel(frequencies), bins=60, range=(-8, 8), density=True, color="#D55E00"
    )
    below.set_ylabel("frequencies")
    below.set_yticks([])
    for ax in (above, below):
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
    figure.savefig(path)


def escaped(text):
    """Text of a cell of a table in Markdown, with the letters of formulas."""
    text = text.replace("prod_j", "∏").replace("delta", "δ")
    return text.replace("|", "\\|").replace("_", "\\_").replace("*", "\\*")


def write(app):
    """Write the page and draw the pictures that are not there yet."""
    from kernel_table import KERNELS, title

    folder = PAGE.parent / "pictures" / "kernels"
    folder.mkdir(parents=True, exist_ok=True)
    cards = []
    for kernel in KERNELS:
        name = title(kernel)
        file = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        if not (folder / f"{file}.svg").exists():
            picture(kernel, folder / f"{file}.svg")
        cells = {
            "formula": kernel.formula,
            "frequencies": kernel.spectrum,
            "pitches": kernel.pitches,
        }
        cells = {key: escaped(value) for key, value in cells.items()}
        cards.append(
            CARD.format(title=name, name=type(kernel).__name__, file=file, **cells)
        )
    text = "\n".join([INTRODUCTION, *cards, "::::\n"])
    if not PAGE.exists() or PAGE.read_text("utf-8") != text:
        PAGE.write_text(text, "utf-8")


def setup(app):
    """Write before pages are read."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
