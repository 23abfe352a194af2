"""Sums over parts of the rows, by any engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from copy import deepcopy
from functools import partial
from operator import iadd
from typing import Any, NamedTuple, TypeVar

from bochner.engines.base import Engine
from bochner.engines.local import OWN_SHARE, available_memory, fold

T = TypeVar("T")


def reduce(
    engine: Engine,
    parts: Sequence[T],
    work: Callable[..., Any],
    shared: Any = None,
    advance: Callable[[int], object] | None = None,
) -> Any:
    """Return the sum of ``work(part, shared)`` over the parts, added in a fixed binary
    tree.

    Each result must have ``+=``, and is added to in place. The order of the additions
    is that of the parts, whatever the engine and its speed: the same bits on one thread
    and on many machines.

    Parameters
    ----------
    engine : Engine
    advance : callable, optional
        Called with the index of each part that other processes have done.
    """
    if not engine.is_remote:
        # As many as have room in a quarter of the memory that is free
        n_bytes = getattr(work, "n_bytes", 0)
        free = available_memory() if n_bytes else None
        threads = None if free is None else int(max(OWN_SHARE * free // n_bytes, 1))
        return fold(lambda part: work(part, shared), parts, threads)
    common = engine.share(shared)
    handles = (engine.submit(work, part, common) for part in parts)
    sums: list[RangeSum] = []
    if not engine.keeps_results:
        with closing(engine.results(list(handles))) as values:
            for k, value in enumerate(values):
                sums = with_sum(sums, RangeSum(k, 1, value), _sum_of)
                if advance is not None:
                    advance(k)
        return whole(sums, _sum_of)
    # Results are added where they are
    add = partial(engine.submit, _sum_of)
    for k, handle in enumerate(handles):
        if advance is not None and hasattr(engine, "watch"):
            engine.watch(handle, partial(advance, k))
        sums = with_sum(sums, RangeSum(k, 1, handle), add)
    total = whole(sums, add)
    # Handles would keep parts of the sum, while all of it is waited for
    del common, handles, handle, sums
    return next(engine.results([total]))


class RangeSum(NamedTuple):
    """The sum over a number of parts, a power of two, from the first of them on."""

    first: int
    size: int
    total: Any


def with_sum(
    sums: list[RangeSum],
    next_sum: RangeSum,
    add: Callable[[Any, Any], Any] = iadd,
) -> list[RangeSum]:
    """Sums over consecutive ranges and the next one, neighbours added where the tree
    of `reduce` does.
    """
    size = 2 * next_sum.size
    if not sums or 2 * sums[-1].size != size or sums[-1].first % size:
        return [*sums, next_sum]
    first, _, earlier_total = sums[-1]
    return with_sum(
        sums[:-1], RangeSum(first, size, add(earlier_total, next_sum.total)), add
    )


def whole(sums: Sequence[RangeSum], add: Callable[[Any, Any], Any] = iadd) -> Any:
    """The sum over all parts, as `reduce` returns it, of ranges that are added as
    far as `with_sum` does.
    """
    total = sums[-1].total
    for one in reversed(sums[:-1]):
        total = add(one.total, total)
    return total


def _sum_of(left: Any, right: Any) -> Any:
    """The sum, which leaves both as they are: what has to be done again finds them
    so.
    """
    return iadd(deepcopy(left), right)
