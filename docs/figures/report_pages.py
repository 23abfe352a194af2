"""Makes the pictures of report pages: ``python docs/figures/report_pages.py``, with
bochner[browser] and Chromium.

Models of california_housing and adult are fitted on four fifths of the rows and judged
on the others. Pages go to the folder that is given, or the working one; what they have
taken is printed.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from playwright.sync_api import sync_playwright
from pyarrow import parquet

from bochner import KernelMachineClassifier, KernelMachineRegressor

FIGURES = Path(__file__).parent
SIZE = {"width": 1000, "height": 1300}
CASES = (
    (
        "california_housing",
        KernelMachineRegressor(uncertainty="intervals", random_state=0),
        "light",
    ),
    ("adult", KernelMachineClassifier(random_state=0), "dark"),
)


def write_page(
    name: str, model: KernelMachineRegressor | KernelMachineClassifier, out: Path
) -> None:
    """Fit, write the page twice, and print what the second one, with all loops
    compiled, has taken.
    """
    table = parquet.read_table(Path(os.environ["BOCHNER_DATA"]) / f"{name}.parquet")
    X = table.drop_columns(
        [column for column in ("target", "split") if column in table.column_names]
    )
    y = table["target"].combine_chunks()
    y = y.dictionary_decode() if pa.types.is_dictionary(y.type) else y
    y = y.to_numpy(zero_copy_only=False)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[: len(y) * 4 // 5], order[len(y) * 4 // 5 :]
    model.fit(X.take(train), y[train])
    for _ in range(2):
        wall, cpu = time.perf_counter(), time.process_time()
        model.report_html(X.take(test), y[test], out)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    sys.stdout.write(
        f"{name}: {wall:.1f} s, {cpu:.1f} s of processors, "
        f"{out.stat().st_size / 1e3:.0f} kB\n"
    )


def main(folder: Path) -> None:
    """Write the pages, and look at them."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, model, scheme in CASES:
            out = folder / f"{name}.html"
            write_page(name, model, out)
            page = browser.new_page(viewport=SIZE, color_scheme=scheme)
            page.goto(out.as_uri())
            page.screenshot(path=FIGURES / f"report_{name}.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve())
