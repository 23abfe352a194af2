"""Where work runs: what every engine offers, and sums over parts of the rows by any of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

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


def reduce(engine: Engine, parts: Sequence[T], work: Callable[..., Any], shared: Any = None) -> Any:
    """Return the sum of ``work(part, shared)`` over the parts, added in a fixed binary tree.

    Each result must have ``+=``, and is added to in place. The order of the additions is that of the parts, whatever
    the engine and its speed: the same bits on one thread and on many machines.
    """
    common = engine.share(shared)
    sums = [engine.submit(work, part, common) for part in parts]
    while len(sums) > 1:
        pairs = [engine.submit(_add, *sums[k : k + 2]) for k in range(0, len(sums) - 1, 2)]
        sums = pairs + sums[2 * len(pairs) :]
    return engine.result(sums[0])


def _add(left: Any, right: Any) -> Any:
    left += right
    return left
