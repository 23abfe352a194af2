"""The first page of the benchmarks, and the figures of the README, from docs/benchmarks/peers.json.

``python -m benchmarks overview`` writes both; `peers` does so too after a run.
"""

from __future__ import annotations

import json

from report import PAGE, table

STORE = PAGE.with_suffix("") / "peers.json"
README = PAGE.parents[1] / "README.md"
MARKS = "<!-- python -m benchmarks overview -->", "<!-- end -->"
PROBLEMS = {
    "cpu_act": "cpu_act, RMSE / standard deviation",
    "california_housing": "california_housing, RMSE / standard deviation",
    "house_16H": "house_16H, RMSE / standard deviation",
    "adult": "adult, text and numbers, % wrong",
    "adult_a9a": "adult, one-hot (a9a), % wrong",
    "kddcup99": "kddcup99, 10 % file to corrected file, % wrong",
    "covtype": "Forest Cover, % wrong",
    "mnist": "MNIST, % wrong",
}
LEARNERS = ("bochner", "bochner, 1 s", "LightGBM", "LightGBM, tuned", "XGBoost", "HistGradientBoosting")
HEAD = """\
# Benchmarks

![Test error against training time of fourteen models on two data sets](figures/error_against_time.png)

*Each point is one model: median test error and training time over up to five runs, on two cores of an AMD EPYC
(AVX-512).*

## Eight data sets

Median test errors with default settings, and the time that `bochner` trains. The lowest error of a row is bold.
`bochner, 1 s` has `time_limit=1`. [The comparison](benchmarks/comparison-with-other-libraries.md) has all learners,
ranges, times, memory and how it was measured.
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


def keep_peers(errors: dict[str, dict[str, list[float]]], ranks: dict[str, float]) -> None:
    """Keep median errors and seconds of a fit by data set and learner, and the mean ranks, and write the pages."""
    STORE.write_text(json.dumps({"errors and seconds": errors, "mean ranks": ranks}, indent=1) + "\n")
    main()


def rows(learners: tuple[str, ...]) -> list[list[str]]:
    """Errors of learners on each data set, the lowest of them bold, and the seconds of the fit of ours."""
    found = json.loads(STORE.read_text())["errors and seconds"]
    lines = []
    for name, label in PROBLEMS.items():
        errors = {learner: found[name][learner][0] for learner in learners if learner in found[name]}
        digits = 3 if "RMSE" in label else 1
        cells = [f"{errors[learner]:.{digits}f}" if learner in errors else "" for learner in learners]
        best = f"{min(errors.values()):.{digits}f}"
        cells = [f"**{cell}**" if cell == best else cell for cell in cells]
        lines.append([label, *cells, f"{found[name]['bochner'][1]:.2g} s"])
    return lines


def overview() -> str:
    """The first page."""
    ranks = sorted(json.loads(STORE.read_text())["mean ranks"].items(), key=lambda pair: pair[1])
    shown = table(["data set and error", *LEARNERS, "`bochner` trains in"], rows(LEARNERS))
    named = ", ".join(f"{learner} {rank:.1f}" for learner, rank in ranks)
    text = f"## Ranks\n\nMean rank of the test error over the eight data sets, 1 is best: {named}.\n"
    picture = "![Mean ranks of the learners, with the critical difference](figures/ranks.png)\n"
    return "\n".join([HEAD, shown + "\n", text, picture, PAGES])


def readme() -> str:
    """The table of errors of the README, and the sentence on ranks."""
    learners = ("bochner", "LightGBM", "LightGBM, tuned")
    ranks = json.loads(STORE.read_text())["mean ranks"]
    shown = table(["data set and error", *learners, "`bochner` trains in"], rows(learners))
    best = min(ranks, key=lambda learner: ranks[learner])
    mean = ", ".join(f"{learner} {ranks[learner]:.1f}" for learner in learners)
    return f"{shown}\n\nMean ranks among {len(ranks)} learners on these data sets: {mean}; {best} has the lowest.\n"


def with_figures(text: str) -> str:
    """The README with its figures renewed."""
    before, _, rest = text.partition(MARKS[0])
    return f"{before}{MARKS[0]}\n{readme()}{MARKS[1]}{rest.partition(MARKS[1])[2]}"


def main() -> None:
    """Write the first page and the figures of the README."""
    PAGE.write_text(overview())
    README.write_text(with_figures(README.read_text("utf-8")))
    print(f"wrote {PAGE} and {README}")


if __name__ == "__main__":
    main()
