"""Where work runs: what every engine offers, and sums over parts of the rows by any of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Protocol, TypeVar

from bochner.engines.journal import Journal

T = TypeVar("T")


class Engine(Protocol):
    """A place that work can be given to: threads, processes, a cluster.

    Work and its arguments are plain objects that can be pickled, where they have to travel.
    """

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Give work away; a handle of its result. Arguments may be handles, which the work gets the results of."""

    def share(self, value: Any) -> Any:
        """A handle of a value that many calls take."""

    def result(self, handle: Any) -> Any:
        """Wait for a result; raises what the work has raised."""


def reduce(
    engine: Engine, parts: Sequence[T], work: Callable[..., Any], shared: Any = None, journal: Journal | None = None
) -> Any:
    """Return the sum of ``work(part, shared)`` over the parts, added in a fixed binary tree.

    Each result must have ``+=``, and is added to in place. The order of the additions is that of the parts, whatever
    the engine and its speed: the same bits on one thread and on many machines, and where it goes on from a journal.

    Parameters
    ----------
    engine : Engine
        One whose threads share all memory, where there is a journal.
    journal : Journal, optional
        Keeps the sums that are done; what it held before is not done again.
    """
    common = engine.share(shared)

    def total(first: int, stop: int) -> Any:
        """A handle of the sum over some parts: of the largest power of two of them that is not all, and the rest."""
        done = None if journal is None else journal.done(first, stop)
        if done is not None:
            return engine.share(done)
        if stop - first == 1:
            return engine.submit(work if journal is None else journal.leaf(first, work), parts[first], common)
        middle = first + (1 << (stop - first - 1).bit_length() - 1)
        add = _add if journal is None else partial(journal.add, first, middle, stop)
        return engine.submit(add, total(first, middle), total(middle, stop))

    with nullcontext() if journal is None else journal.keeping(len(parts)):
        done = None if journal is None else journal.done(0, len(parts))
        return engine.result(total(0, len(parts))) if done is None else done


def accumulate(
    start: Callable[[], T], parts: Sequence[Any], add: Callable[[T, Any], object], journal: Journal | None = None
) -> T:
    """Return what ``add(total, part)`` makes of one sum, from ``start()`` on, a part after the other.

    For sums so large that there is memory for one of them alone. The parts should take seconds each: what is done of
    one is lost where the work is killed, and a signal to terminate waits for its end.
    """
    with nullcontext() if journal is None else journal.keeping(len(parts)):
        begun, total = (0, None) if journal is None else journal.reached()
        total = start() if total is None else total
        for k in range(begun, len(parts)):
            if journal is None:
                add(total, parts[k])
            else:
                journal.extend(total, k, partial(add, total, parts[k]))
        return total


def _add(left: Any, right: Any) -> Any:
    left += right
    return left
