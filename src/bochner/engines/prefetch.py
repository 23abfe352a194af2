"""Reads ahead: a thread prepares the next items while the present one is worked on."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from contextvars import copy_context
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from bochner.engines.local import at_most

T = TypeVar("T")
DEPTH = 2


def prefetched(items: Iterator[T], depth: int = DEPTH) -> Generator[T]:
    """Yield the items, of which a thread keeps `depth` ready.

    What they raise is raised here, in its place. A consumer that stops early waits for
    the item that is being made, and for the end of the thread; generators are closed
    there.

    Parameters
    ----------
    items : iterator
        Gains where making an item releases the GIL, as reading and decoding do.
    depth : int, default=2
        Items that wait at most; one more is being made meanwhile.
    """
    # Queues of C: an interrupt inside of those in Python, or of their events, can leave
    # a lock locked for ever.
    ready = SimpleQueue[tuple[bool, Any]]()
    room = SimpleQueue[None]()
    stopped = list[bool]()
    for _ in range(depth):
        room.put(None)

    def fill() -> None:
        """Put pairs (True, item), and at the end (False, what was raised); nothing more
        once the consumer has stopped.
        """
        failure = None
        try:
            for item in items:
                room.get()
                if stopped:
                    break
                ready.put((True, item))
                del item
            if isinstance(items, Generator):
                items.close()
        except BaseException as raised:
            failure = raised
        ready.put((False, failure))

    thread = Thread(
        target=copy_context().run, args=(fill,), name="bochner-ahead", daemon=True
    )
    try:
        thread.start()
    except (
        RuntimeError
    ):  # no more threads can be started: each item is made when it is asked for
        yield from items
        return
    try:
        while True:
            more, item = ready.get()
            room.put(None)
            if more:
                yield item
                del item
            elif item is None:
                return
            else:
                raise item
    finally:
        stopped.append(True)
        room.put(None)
        thread.join()


def most_waiting(n_lanes: int) -> int:
    """Items of `n_lanes` lanes that are ready, are made or are worked on at a time."""
    return n_lanes * (DEPTH + 2)


def in_turn(lanes: Sequence[Iterator[T]]) -> Generator[T]:
    """Yield an item of each lane in turn until all are at their end, of which each has
    a thread that reads ahead.

    Their order is the same however fast the threads are.
    """
    with ExitStack() as stack:
        remaining_lanes = [
            stack.enter_context(closing(prefetched(_alone(lane)))) for lane in lanes
        ]
        while remaining_lanes:
            for lane in list(remaining_lanes):
                try:
                    yield next(lane)
                except StopIteration:
                    remaining_lanes.remove(lane)


def _alone(items: Iterator[T]) -> Iterator[T]:
    """The items, for which the thread that asks for them works alone."""
    with at_most(1):
        yield from items
