"""Progress of long work on a terminal, or in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

Advance = Callable[[int], None]


def no_advance(rows: int) -> None:
    """Tell nobody of the rows that are done."""


def is_watched() -> bool:
    """Whether standard error is a terminal, or this is a notebook that can show a
    bar, which takes ipywidgets.
    """
    if sys.stderr.isatty():
        return True
    if "IPython" not in sys.modules:
        return False
    try:
        import ipywidgets  # noqa: F401
    except ImportError:
        return False
    from rich.console import Console

    return Console(stderr=True).is_jupyter


@contextmanager
def progress(label: str, total: int | None, shown: int) -> Iterator[Advance]:
    """Yield ``advance(rows)``, which moves a bar on standard error or in a notebook;
    silent where nobody watches.

    It tells how long the rest will take. Where the total is not known (None) the bar
    pulses.
    """
    if not shown or not is_watched():
        yield no_advance
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        yield partial(bar.advance, bar.add_task(label, total=total))


def log(text: str, shown: bool) -> None:
    """Print a line on standard error; silent where that is no terminal."""
    if shown and sys.stderr.isatty():
        print(text, file=sys.stderr)
