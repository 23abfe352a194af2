"""The first page of the benchmarks, and figures of the README, from
docs/benchmarks/accuracy.json and the page of Table 1.

``python -m benchmarks overview`` writes both; `accuracy` does so too after a run.
"""

from __future__ import annotations

import json
import re
from typing import Any

import accuracy
from report import PAGE, table

STORE = PAGE.with_suffix("") / "accuracy.json"
README = PAGE.parents[1] / "README.md"
WRITTEN = ("errors", "table 1", "time and memory")  # in the README, between marks
MARKS = [
    (f"<!-- python -m benchmarks overview: {name} -->", f"<!-- end of {name} -->")
    for name in WRITTEN
]
PROBLEMS = {
    "cpu_act": "cpu_act, RMSE / standard deviation",
    "california_housing": "california_housing, RMSE / standard deviation",
    "house_16H": "house_16H, RMSE / standard deviation",
    "adult": "adult, text and numbers, % wrong",
    "phoneme": "phoneme, % wrong",
    "letter": "letter, % wrong",
    "connect4": "connect4, % wrong",
    "kddcup99": "kddcup99, 10 % file to corrected file, % wrong",
    accuracy.TYPES: "Forest Cover, seven types, % wrong",
    "mnist": "MNIST, % wrong",
}
TABLE_1 = PAGE.with_suffix("") / "table-1-of-rahimi-and-recht-2007.md"
# Of the problems of that page: their names in the README, and the best published
# results
PUBLISHED = {
    "CPU, regression": ("CPU, regression", "3.6 % in 20 s (Fourier features)"),
    "Adult, classification": ("Adult", "14.8 % in 73 min (CVM)"),
    "Forest Cover, classification": (
        "Forest Cover",
        "2.2 % in 25 min (bins; exact SVM in 44 h)",
    ),
    "KDDCUP99, classification, learned from the 10 percent file": (
        "KDD Cup 1999, from the 10 percent file",
        "7.3 % in 1.5 min (Fourier features); 6.2 % in 1.4 s (CVM), 18 % with rows "
        "reshuffled",
    ),
}
FIRST = r"([\d.]+)"  # the first number of a text
FILES, FIT = (
    "100,000,000 rows of files",
    "fit, 522,000 x 54, D = 2,000, alpha chosen too, solver=",
)
LOOK, DEFAULT = (
    f"D = 500, {FILES}, a look at all of them first",
    f"no arguments, {FILES}",
)
INTERVALS, CONFORMAL = "california_housing, 90 % intervals", r"CQR: ([\d.]+)"
TASKS: list[
    tuple
    # Tasks of the README, what was measured in words, and the figures in these: see
    # `over_machines`
] = [
    (
        "Forest Cover, 522,000 rows, default settings",
        "{} % wrong, in {} times the training time of LightGBM with 500 trees of 255 "
        "leaves ({} % wrong)",
        ("learning", "covtype: its test error"),
        ("learning", "covtype: fit", 4),
        (
            "forest",
            "the same: time of fit over LightGBM's, 500 trees of 255 leaves",
            1,
            r"its error ([\d.]+)",
        ),
    ),
    (
        "100 million rows x 20 columns in Parquet files, 500 Fourier features",
        "{} million rows a second, {} GB of memory",
        ("scale", f"{LOOK}: by the clock"),
        ("scale", f"{LOOK}: peak memory", 1, FIRST, 1000.0),
    ),
    (
        "the same rows, default settings",
        "{} minutes, {} GB; {} times the error of 10 million rows fitted in memory",
        ("scale", f"{DEFAULT}: fit", 1, FIRST, 60.0),
        ("scale", f"{DEFAULT}: peak memory", 1, FIRST, 1000.0),
        ("scale", f"{DEFAULT}: error / sd", 4),
    ),
    (
        "522,000 rows x 54 columns, 2,000 Fourier features, ridge penalty selected",
        "{} times the time of the Gram matrix by BLAS, {} GB; by `solver='direct'` "
        "{} times, {} GB however many rows",
        ("speed", f"{FIT}'auto'", 4),
        ("speed", f"{FIT}'auto': extra memory", 1, FIRST, 1000.0),
        ("speed", f"{FIT}'direct'", 4),
        ("speed", f"{FIT}'direct': extra memory", 1, FIRST, 1000.0),
    ),
    (
        "the same rows, 5,000 Fourier features",
        "conjugate gradients are {} times faster than the Gram matrix, at the same "
        "error",
        (
            "forest",
            "Fourier ridge, D = 5,000: Gram matrix and Cholesky over conjugate "
            "gradients",
        ),
    ),
    (
        "feature map, against scikit-learn's `RBFSampler`",
        "{} times the rows a second in float32, {} times in float64, {} times the "
        "kernel error",
        (
            "speed",
            "transform to 2,000 features, float32: rows a second over RBFSampler's",
        ),
        (
            "speed",
            "transform to 2,000 features, float64: rows a second over RBFSampler's",
        ),
        ("speed", "kernel error (RMS) at equal D, ours over RBFSampler's"),
    ),
    (
        "fit and predict, against `RBFSampler` with `Ridge`, 200,000 rows",
        "{} times faster, one part in {} of the memory",
        ("speed", "RBFSampler + Ridge over ours, 200,000 x 54 float64: time"),
        ("speed", "the same: peak extra memory"),
    ),
    (
        "predict with 2,000 features",
        "{} microseconds a row in batches, {} ms for a single row",
        ("speed", "predict at D = 2,000, a row of many"),
        ("speed", "predict at D = 2,000, a single row"),
    ),
    (
        "90 % prediction intervals, california_housing",
        "{} % of the targets inside, mean width {} standard deviations, Winkler "
        "score {}; LightGBM's quantiles with "
        "conformal correction: {} %, {}, {}",
        ("uncertainty", f"{INTERVALS}: % covered"),
        ("uncertainty", f"{INTERVALS}: mean width / sd"),
        ("uncertainty", f"{INTERVALS}: Winkler score / sd"),
        ("uncertainty", f"{INTERVALS}: % covered", 3, CONFORMAL),
        ("uncertainty", f"{INTERVALS}: mean width / sd", 3, CONFORMAL),
        ("uncertainty", f"{INTERVALS}: Winkler score / sd", 3, CONFORMAL),
    ),
]
LEARNERS = ("bochner", "CatBoost", "LightGBM", "LightGBM, tuned", "XGBoost")
HEAD = """\
# Benchmarks

![Test error against processor time of many learners](figures/error_against_time.png)

*Each point is a learner with its default settings, as a median over {n} tables, with the quartiles of the error: test error
over the lowest of the table, and processor seconds of a fit over those of LightGBM; {machine}.*

## Test errors

{ranks} [The page on accuracy](benchmarks/accuracy-with-default-settings.md) has all tables, the log losses, times and how
it was measured.

"""
PAGES = """\
## All measurements

Each page is written by a script of `benchmarks/` and names the command that repeats it.
`python -m benchmarks data FOLDER` fetches the tables, and compares their checksums with those of the tables measured
here. Set `BOCHNER_DATA` to that folder, and install the libraries for comparison with `pip install ".[peers]"`. Some
tables have a column for each kind of machine: a run on one machine leaves the columns of the others, which
`docs/benchmarks/*.json` keeps. "1.12 x" means 1.12 times the reference in the last column, measured in the same run.
"Target" is our own goal, which was set before the measurement.

```{toctree}
:maxdepth: 1
:glob:

benchmarks/*
```
"""


def errors(kept: dict[str, Any]) -> str:
    """Median errors of learners on some tables, as the page on accuracy has them, and
    the seconds of our fit.
    """
    measured = {
        label: kept["measured"][name]
        for name, label in PROBLEMS.items()
        if name in kept["measured"]
    }
    unit = {label: "RMSE / sd" if "RMSE" in label else "% wrong" for label in measured}
    shown = {
        label: {learner: found[learner] for learner in LEARNERS if learner in found}
        for label, found in measured.items()
    }
    seconds = accuracy.middle(measured, dict.fromkeys(measured, "fit"))["bochner"]
    lines = [
        [label, *cells, f"{float(f'{seconds[label]:.2g}'):g} s"]
        for label, *cells in accuracy.bold_medians(shown, unit, 3)
    ]
    return table(
        ["data set and error", *LEARNERS, "`bochner` trains, one thread"], lines
    )


def ranks(kept: dict[str, Any]) -> str:
    """Sentences on ranks, and on how often we have the lower error and log loss."""
    measured = kept["measured"]
    errors = accuracy.on_all_tables(measured)
    mean = accuracy.mean_ranks(errors)
    named = ", ".join(f"{learner} {rank:.1f}" for learner, rank in mean.items())
    sentences = [
        f"Mean ranks of the test error on {len(measured)} tables, 1 is best: {named}."
    ]
    for learner in ("CatBoost", "LightGBM, tuned"):
        words = {}
        for what, measure in (
            ("error", accuracy.errors_of(measured)),
            ("log loss", dict.fromkeys(measured, "log loss")),
        ):
            ours = accuracy.compared(accuracy.middle(measured, measure), learner)
            words[what] = f"{ours.lower} of {ours.n} tables (p = {ours.p:.2g})"
        sentences.append(
            f"Against {learner} bochner has the lower error on {words['error']}, and "
            f"the lower log loss on {words['log loss']}."
        )
    return " ".join(sentences)


def overview() -> str:
    """The first page."""
    kept = json.loads(STORE.read_text())
    head = HEAD.format(
        n=len(kept["measured"]), machine=kept["machine"], ranks=ranks(kept)
    )
    picture = (
        "![Mean ranks of the learners, with the critical "
        "difference](figures/ranks.png)\n"
    )
    return "\n".join([head + errors(kept) + "\n", picture, PAGES])


def readme() -> str:
    """The table of errors of the README, and the sentences on ranks and the machine."""
    kept = json.loads(STORE.read_text())
    return f"{errors(kept)}\n\n{ranks(kept)} Measured on {kept['machine']}.\n"


def table_1() -> str:
    """The best published results of the paper's Table 1, and those of default
    settings, from its page.
    """
    page, lines = TABLE_1.read_text("utf-8"), []
    for problem, (label, published) in PUBLISHED.items():
        section = page.partition(f"| **{problem}**")[2]
        error, seconds = re.findall(
            r"^\| ours, no arguments \| ([\d.]+)[^|]*% \| ([\d.]+)",
            section,
            re.MULTILINE,
        )[0]
        lines.append([label, published, f"{error} % in {float(seconds):.2g} s"])
    return table(["problem", "published", "`bochner`"], lines) + "\n"


def time_and_memory() -> str:
    """What tasks take, each figure over all kinds of machines that it is kept of."""
    lines = [
        [task, text.format(*(over_machines(*figure) for figure in figures))]
        for task, text, *figures in TASKS
    ]
    return table(["task", "measured"], lines) + "\n"


def over_machines(
    script: str, what: str, column: int = 1, number: str = FIRST, unit: float = 1.0
) -> str:
    """A figure of a script, or the least and the largest of it over the kinds of
    machines that it is kept of.
    """
    parts = json.loads((STORE.parent / f"{script}.json").read_text("utf-8")).values()
    rows = [
        row
        for part in parts
        for kept in part.values()
        for row in kept["rows"]
        if row[0] == what
    ]
    values = [
        float(found[1]) / unit
        for row in rows
        if (found := re.search(number, str(row[column])))
    ]
    low, high = (f"{end(values):.3g}" for end in (min, max))
    return low if low == high else f"{low} to {high}"


def with_figures(text: str) -> str:
    """The README with its figures renewed."""
    for (start, end), figures in zip(
        MARKS, (readme(), table_1(), time_and_memory()), strict=True
    ):
        before, _, rest = text.partition(start)
        text = f"{before}{start}\n{figures}{end}{rest.partition(end)[2]}"
    return text


def main() -> None:
    """Write the first page and the figures of the README."""
    PAGE.write_text(overview())
    README.write_text(with_figures(README.read_text("utf-8")))
    print(f"wrote {PAGE} and {README}")


if __name__ == "__main__":
    main()
