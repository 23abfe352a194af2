"""Campaigns against what the library promises to withstand; ``docs/reliability.md``
tells what they have found.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from report import tables
from runner import repeats, run

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "campaigns"))
MEMORY = 8 * 2**30  # bytes of addresses that a campaign may take
HEADER = ["campaign", "tried", "failed", "processor seconds", "slowest, s"]
NOTE = (
    "Failed: what broke the promise of its campaign. The first failures are "
    "printed while a campaign runs."
)


def campaign(
    name: str, verdicts: Iterator[tuple[str, str, float]]
) -> tuple[str, str, str, str, str]:
    """Count verdicts of cases, what is wrong with each ("" for nothing) and its
    seconds.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # what a shell starts in the background ignores it
    tried = failed = 0
    slowest, before = 0.0, used()
    for case, wrong, seconds in to_the_end(verdicts):
        tried, failed, slowest = tried + 1, failed + bool(wrong), max(slowest, seconds)
        if wrong and failed <= 20:
            print(f"{name}: {case}: {wrong}", file=sys.stderr, flush=True)
    return (
        name,
        f"{tried:,}",
        f"{failed:,}",
        f"{used() - before:,.0f}",
        f"{slowest:.2f}",
    )


def to_the_end(
    verdicts: Iterator[tuple[str, str, float]],
) -> Iterator[tuple[str, str, float]]:
    """Verdicts, and one of a campaign that ends in an error, lest the others that it
    has are lost.
    """
    try:
        yield from verdicts
    except Exception as error:
        traceback.print_exc()
        yield "campaign", f"ended by {type(error).__name__}: {error}", 0.0


def used() -> float:
    """Processor seconds of this process and of those that it has waited for."""
    return sum(
        sum(resource.getrusage(who)[:2])
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )


def numbers() -> list[tuple[str, str, str, str, str]]:
    """Fits of numbers at the edge."""
    import numbers_at_the_edge

    def verdicts() -> Iterator[tuple[str, str, float]]:
        for seed in range(repeats(10_000)):
            case, found = numbers_at_the_edge.judge(seed)
            yield case, found.wrong, found.seconds

    return [campaign("numbers at the edge", verdicts())]


def models() -> list[tuple[str, str, str, str, str]]:
    """Model files that are damaged, with bounds of arrays checked in the compiled
    loops.
    """
    os.environ["NUMBA_BOUNDSCHECK"] = "1"
    folder = Path(tempfile.mkdtemp())
    os.environ["NUMBA_CACHE_DIR"] = str(folder / "cache")
    import damaged_models
    import numpy as np

    subjects, watch = damaged_models.subjects(folder), damaged_models.Watch()

    def verdicts(kind: str) -> Iterator[tuple[str, str, float]]:
        for seed in range(repeats(3400)):
            subject, rng = (
                subjects[seed % len(subjects)],
                np.random.default_rng([seed, len(kind)]),
            )
            content = damaged_models.MUTATIONS[kind](subject.content, rng)
            found = damaged_models.judge(
                subject, content, kind == "tree", folder / "mutant", watch
            )
            yield f"{seed} {subject.name}", found.wrong, found.seconds

    def by_commands() -> Iterator[tuple[str, str, float]]:
        predicting = [subject for subject in subjects if subject.predicts]
        for seed in range(repeats(3400)):
            start = time.process_time()
            case, wrong = damaged_models.judge_command(
                seed, predicting[seed % len(predicting)], folder
            )
            yield case, wrong, time.process_time() - start

    found = [
        campaign(f"model files, {kind}", verdicts(kind))
        for kind in damaged_models.MUTATIONS
    ]
    return [*found, campaign("model files, sealed trees in commands", by_commands())]


def guided() -> list[tuple[str, str, str, str, str]]:
    """Model files of a fuzzer that is guided by coverage."""
    import guided_models

    folder, runs = Path(tempfile.mkdtemp()), 1000
    rounds = (
        guided_models.judge(folder, runs, seed)
        for seed in range(max(repeats(20_000) // runs, 1))
    )
    return [campaign(f"model files, guided by coverage, rounds of {runs:,}", rounds)]


def hostile() -> list[tuple[str, str, str, str, str]]:
    """Tables that are damaged or hostile."""
    import hostile_tables

    folder = Path(tempfile.mkdtemp())
    model = hostile_tables.usual_model(folder)

    def verdicts() -> Iterator[tuple[str, str, float]]:
        for seed in range(repeats(100_000)):
            case, found = hostile_tables.judge(seed, folder, model)
            yield case, found.wrong, found.seconds

    return [campaign("tables", verdicts())]


def killed() -> list[tuple[str, str, str, str, str]]:
    """Commands that are killed, interrupted and terminated."""
    import kills
    import numpy as np

    commands, rng = kills.trials(Path(tempfile.mkdtemp())), np.random.default_rng(0)

    def verdicts(number: signal.Signals) -> Iterator[tuple[str, str, float]]:
        for _ in range(repeats(70 if number == signal.SIGKILL else 17)):
            for trial in commands:
                start = time.perf_counter()
                yield (
                    trial.name,
                    kills.kill(trial, number, rng),
                    time.perf_counter() - start,
                )

    def timed(
        judge: Callable[[int], str], number: int
    ) -> Iterator[tuple[str, str, float]]:
        for seed in range(repeats(number)):
            start = time.perf_counter()
            yield f"seed {seed}", judge(seed), time.perf_counter() - start

    numbers = signal.SIGKILL, signal.SIGINT, signal.SIGTERM
    rows = [
        campaign(f"commands, {number.name}", verdicts(number)) for number in numbers
    ]
    return [
        *rows,
        campaign("compilations, SIGKILL", timed(kills.killed_compilation, 20)),
    ]


def faults() -> list[tuple[str, str, str, str, str]]:
    """Commands on a machine with full disks, little memory, odd names and files that
    change.
    """
    import machine_faults

    lab, number = machine_faults.Lab(Path(tempfile.mkdtemp())), repeats(100)

    def verdicts(kind: str) -> Iterator[tuple[str, str, float]]:
        for seed in range(max(number // machine_faults.COSTLY.get(kind, 1), 1)):
            yield machine_faults.judge(kind, seed, lab)

    def limits() -> Iterator[tuple[str, str, float]]:
        for seed in range(max(number // 5, 1)):
            yield machine_faults.within_limit(lab.folder, seed)

    try:
        rows = [
            campaign(f"machine, {kind}", verdicts(kind))
            for kind in machine_faults.KINDS
        ]
        return [*rows, campaign("machine, memory limit", limits())]
    finally:
        lab.close()


def pages() -> list[tuple[str, str, str, str, str]]:
    """Report pages and notebooks with hostile names, in a browser."""
    import hostile_pages

    path = Path(tempfile.mkdtemp()) / "page.html"

    def verdicts(window: hostile_pages.Window) -> Iterator[tuple[str, str, float]]:
        for seed in range(repeats(500)):
            case, found = hostile_pages.judge(seed, path, window)
            yield case, found.wrong, found.seconds

    with hostile_pages.window() as window:
        return [campaign("pages with hostile names", verdicts(window))]


def processors() -> list[tuple[str, str, str, str, str]]:
    """Fits by the code for other processors."""
    import other_processors

    folder = Path(tempfile.mkdtemp())
    own = other_processors.fitted_as({}, folder)

    def verdicts() -> Iterator[tuple[str, str, float]]:
        for name, variables in other_processors.settings().items():
            start = time.perf_counter()
            found = other_processors.fitted_as(variables, folder)
            seconds = 2 * (time.perf_counter() - start) / len(own)
            for case, wrong in other_processors.judge(own, found):
                yield f"{name}: {case}", wrong, seconds

    return [campaign("other processors", verdicts())]


def clusters() -> list[tuple[str, str, str, str, str]]:
    """Fits on clusters and pools that lose workers."""
    import lost_workers

    folder = Path(tempfile.mkdtemp())
    kinds = {
        "Dask clusters": lost_workers.on_dask,
        "pools of processes": lost_workers.on_pools,
    }
    return [campaign(name, work(repeats(200), folder)) for name, work in kinds.items()]


def life() -> list[tuple[str, str, str, str, str]]:
    """Fits, threads, forks and interrupts in one process."""
    import long_life

    kinds = long_life.KINDS.items()
    return [
        campaign(name, work(-(-repeats(10_000) // long_life.SHARE[name])))
        for name, work in kinds
    ]


PARTS: dict[str, Callable[[], list[tuple[str, str, str, str, str]]]] = {
    "numbers": numbers,
    "models": models,
    "guided": guided,
    "tables": hostile,
    "kills": killed,
    "pages": pages,
    "processors": processors,
    "machine": faults,
    "clusters": clusters,
    "life": life,
}

if __name__ == "__main__":
    run("Reliability", __file__, __doc__, PARTS, tables(HEADER, NOTE))
