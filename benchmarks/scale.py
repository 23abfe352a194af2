"""Fits of more rows than memory holds: ``python -m benchmarks scale [--only NAME
...]``.

Seeded rows of 20 float32 columns in Parquet files, 100 million of them (8 GB), or as
many as BOCHNER_SCALE_ROWS says; they are written once, to the folder
BOCHNER_SCALE_DATA. Memory is that of a process of its own, beyond what it held after
its imports; its highest mark is read every 20 ms. A process's compiled code is loaded
before the clock starts, but where memory is limited: there it counts.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

import scale_cluster
import scale_data
from report import Row
from runner import QUICK, repeats, run, size
from scale_fit import Done, Job, fitted
from scale_same import differences
from scale_watch import Watched

MILLION = 10**6
ROWS = int(
    float(
        os.environ.get("BOCHNER_SCALE_ROWS")
        or (4 * MILLION if QUICK else 100 * MILLION)
    )
)
HELD, LIMITED, ONE_GROUP = (min(ROWS, n * MILLION) for n in (4, 10, 2))
SAMPLE, SMALL_SAMPLE, UNSEEN = 200_000, 20_000, 200_000
LIMITS = ("0.3 GB", "0.6 GB", "1 GB", "2 GB")
MODELS = {
    "given": "D = 500",
    "default": "no arguments",
    "cg": "D = 500 by conjugate gradients",
}


def note(*words: object) -> None:
    """Tell who waits of what is done."""
    print(*words, file=sys.stderr, flush=True)


def streamed(n: int, **options: object) -> Job:
    """A fit of the first `n` rows from their files; with a sample where they are so
    few that memory would be taken.
    """
    from bochner.selection.policy import POLICY

    most = POLICY.sampled_rows if options.get("model") == "default" else SAMPLE
    sample = None if n > POLICY.gathered_rows else min(most, n // 4)
    return Job(str(scale_data.folder(n)), **{"sample": sample, **options})


def measured(job: Job) -> tuple[Watched, Done]:
    """Run a job that must come to its end."""
    found, took = fitted(job)
    if took.refused:
        sys.exit(f"{job} came to no end: {found} {took}")
    note(
        job,
        took._replace(digest=took.digest[:8]),
        f"{(found.peak - found.base) / 1e6:.0f} MB",
    )
    return found, took


def extra(found: Watched) -> float:
    """Megabytes at the peak, over those at the beginning."""
    return (found.peak - found.base) / 1e6


def data() -> list[Row]:
    """Writing the rows, or finding them there."""
    start = time.perf_counter()
    folder = scale_data.folder(ROWS)
    took = time.perf_counter() - start
    n_bytes = sum(file.stat().st_size for file in folder.iterdir())
    what = (
        f"{ROWS:,} x {scale_data.COLUMNS} float32: {len(list(folder.iterdir()))} "
        "Parquet files"
    )
    return [Row(what, f"{n_bytes / 1e9:.2f} GB, there after {took:.0f} s")]


def feature_pass() -> list[Row]:
    """One pass of D = 500 over files, against the same fit of arrays in memory."""
    sample = min(SAMPLE, HELD // 4)
    few = Job(str(scale_data.folder(HELD)), sample=sample)
    held = Job(few.data, in_memory=True)
    pairs = [(measured(held), measured(few)) for _ in range(repeats(3))]
    cpu, clock = (
        median(getattr(a[1], key) for a, _ in pairs) / HELD
        for key in ("cpu", "seconds")
    )
    runs = {f"{HELD:,} rows in memory": (HELD, *median_of([a for a, _ in pairs]))}
    runs[f"{HELD:,} rows of files, sample given"] = (
        HELD,
        *median_of([b for _, b in pairs]),
    )
    if ROWS > HELD:
        runs[f"{ROWS:,} rows of files, sample given"] = (
            ROWS,
            *measured(streamed(ROWS, sample=sample)),
        )
        runs[f"{ROWS:,} rows of files, a look at all of them first"] = (
            ROWS,
            *measured(streamed(ROWS)),
        )
    rows = []
    for what, (n, found, took) in runs.items():
        least, most = (">= 0.8 x", "<= 1,500 MB") if "sample" in what else ("", "")
        limit = "" if "memory" in what else "rows a second from memory"
        rates = [
            ("by the clock", took.seconds, clock),
            ("by processor seconds", took.cpu, cpu),
        ]
        for by, seconds, theirs in rates:
            text = f"{n / seconds / 1e6:.3f} million rows a second"
            rows.append(
                Row(
                    f"D = 500, {what}: {by}",
                    text,
                    least,
                    limit,
                    theirs * n / seconds if limit else None,
                )
            )
        rows.append(
            Row(f"D = 500, {what}: peak memory", f"{extra(found):.0f} MB", most)
        )
    return rows


def median_of(runs: Sequence[tuple[Watched, Done]]) -> tuple[Watched, Done]:
    """The run of median processor seconds."""
    return sorted(runs, key=lambda one: one[1].cpu)[len(runs) // 2]


def default() -> list[Row]:
    """A fit without arguments of all rows from files, against one of a tenth of them
    in memory.
    """
    few = ROWS // 10
    base = measured(
        Job(str(scale_data.folder(few)), "default", in_memory=True, n_unseen=UNSEEN)
    )[1]
    found, took = measured(streamed(ROWS, model="default", n_unseen=UNSEEN))
    what, theirs = f"no arguments, {ROWS:,} rows of files", f"{few:,} rows in memory"
    rows = []
    for name, bar, key in (
        ("error / sd", "<= 1.02 x", "error"),
        ("error / sd, but for the noise", "", "distance"),
    ):
        ours, other = getattr(took, key), getattr(base, key)
        rows.append(
            Row(
                f"{what}: {name}",
                f"{ours:.4f}",
                bar,
                f"{theirs}: {other:.4f}",
                ours / other,
            )
        )
    fit = f"{took.seconds:.0f} s, {took.cpu:.0f} processor seconds: {took.about}"
    return [
        *rows,
        Row(f"{what}: peak memory", f"{extra(found):.0f} MB", "<= 3,000 MB"),
        Row(
            f"{what}: fit",
            fit,
            "",
            f"{theirs}: {base.about}",
            took.seconds / base.seconds,
        ),
    ]


def linear() -> list[Row]:
    """Processor seconds from few rows to all."""
    sizes = [n for n in (10**5, 10**6, 10**7, 10**8) if n < ROWS] + [ROWS]
    rows = []
    for sample, name in ((SMALL_SAMPLE, "sample given"), (None, "as it comes")):
        took = []
        for n in sizes:
            job = Job(str(scale_data.folder(n)), sample=sample)
            took.append(
                median(
                    measured(job)[1].cpu
                    for _ in range(repeats(5 if n <= MILLION else 1))
                )
            )
        microseconds = 1e6 * np.array(took) / sizes
        slope = np.polyfit(np.log(sizes), np.log(took), 1)[0]
        what = f"D = 500, {sizes[0]:,} to {ROWS:,} rows of files, {name}"
        text = ", ".join(f"{one:.2f}" for one in microseconds)
        rows += [
            Row(
                f"{what}: log-log slope of processor seconds",
                f"{slope:.3f}",
                "1.00 +- 0.02",
            ),
            Row(f"{what}: processor microseconds a row", text),
            Row(
                f"{what}: the most over the least",
                f"{microseconds.max() / microseconds.min():.2f}",
                "<= 1.10",
            ),
        ]
    return rows


def limits() -> list[Row]:
    """Peaks under memory limits, with all that a process loads counted."""
    folder = scale_data.folder(LIMITED)
    places = {
        f"{LIMITED:,} rows": (str(folder), ("given", "default")),
        f"one row group of {ONE_GROUP:,}": (
            str(scale_data.one_group(ONE_GROUP)),
            ("given",),
        ),
    }
    rows = []
    for place, (path, models) in places.items():
        for model in models:
            measured(
                Job(str(scale_data.folder(min(ROWS, 10**5))), model)
            )  # its code is compiled from here on
            for limit in LIMITS:
                found, took = fitted(
                    Job(path, model, settings={"memory_limit": limit}, warm=False)
                )
                ratio = extra(found) / (1000 * float(limit.split()[0]))
                text = (
                    f"refused: {took.refused}"
                    if took.refused
                    else f"{extra(found):.0f} MB in {took.seconds:.0f} s"
                )
                note(model, limit, text)
                rows.append(
                    Row(
                        f"limit {limit}, {MODELS[model]}, {place}",
                        text,
                        "<= 1.1 x",
                        "the limit",
                        ratio,
                    )
                )
    return rows


def same() -> list[Row]:
    """Predictions of one model, however its rows came."""
    n = size(200_000)
    with tempfile.TemporaryDirectory() as folder:
        found = differences(n, n // 10, Path(folder))
    what = f"D = 500, {n:,} rows, largest difference of predictions over sd"
    return [
        Row(f"{what}: arrays and {name}", f"{value:.1e}", "<= 1e-5")
        for name, value in found.items()
    ]


BENCHMARKS = {
    "data": data,
    "pass": feature_pass,
    "default": default,
    "linear": linear,
    "limits": limits,
    "same": same,
    "cluster": scale_cluster.speed,
    "workers": scale_cluster.workers,
}


if __name__ == "__main__":
    run("Tables larger than memory", __file__, __doc__, BENCHMARKS)
