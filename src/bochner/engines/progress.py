"""Progress of long work on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]


def no_advance(rows: int) -> None:
    """Tell nobody of the rows that are done."""


@contextmanager
def progress(label: str, total: int | None, shown: bool) -> Iterator[Advance]:
    """Yield ``advance(rows)``, which moves a bar on standard error; silent where that is no terminal.

    It tells how many rows a second are done and how long the rest will take. Where the total is not known (None) the
    bar pulses.
    """
    if not shown or not sys.stderr.isatty():
        yield no_advance
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    share = [] if total is None else [TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn()]
    columns = TextColumn("{task.description}"), BarColumn(), *share, TextColumn("{task.fields[speed]}")
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total, speed="")

        def advance(rows: int) -> None:
            bar.advance(task, rows)
            speed = bar.tasks[0].speed
            if speed:
                bar.update(task, speed=f"{speed:,.0f} rows/s")

        yield advance


def log(text: str, shown: bool) -> None:
    """Print a line on standard error; silent where that is no terminal."""
    if shown and sys.stderr.isatty():
        print(text, file=sys.stderr)
