"""Progress of long work on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(label: str, total: int | None, shown: bool) -> Iterator[Callable[[int], None]]:
    """Yield ``advance(amount)``, which moves a bar on standard error; silent where that is no terminal.

    Where the total is not known (None) the bar pulses.
    """
    if not shown or not sys.stderr.isatty():
        yield lambda amount: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %")
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda amount: bar.advance(task, amount)


def log(text: str, shown: bool) -> None:
    """Print a line on standard error; silent where that is no terminal."""
    if shown and sys.stderr.isatty():
        print(text, file=sys.stderr)
