"""Work on the threads of this process, and the memory that it has."""

from __future__ import annotations

import ctypes
import os
import sys
from _thread import start_new_thread
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from contextvars import copy_context
from functools import cache, partial
from itertools import pairwise
from operator import iadd
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread, local
from typing import Any, Generic, TypeVar

from joblib import cpu_count

from bochner.engines.blas import single_threaded_blas
from bochner.settings import as_size, current, free_addresses, resident_bytes


def free_bytes() -> int | None:
    """Bytes that are free by the account of the system, the container and the
    process; None where unknown.
    """
    addresses = free_addresses()
    figures = [] if addresses is None else [addresses]
    with suppress(OSError, IndexError, ValueError):
        meminfo = Path("/proc/meminfo").read_text()
        figures.append(int(meminfo.split("MemAvailable:")[1].split()[0]) * 1024)
    with suppress(OSError, ValueError):
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        figures.append(limit - int(Path("/sys/fs/cgroup/memory.current").read_text()))
    if not figures and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        figures.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(figures) if figures else None


def give_back() -> None:
    """Return to the system what has been freed: malloc and Arrow keep it for the
    next who asks, but it counts.
    """
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and hasattr(arrow, "default_memory_pool"):
        arrow.default_memory_pool().release_unused()
    # Of the GNU C library; there may be another one
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


# Rows; compiled loops that are cut at its multiples run in whole vector registers
STEP = 64
MOST_SHARDS = 16
OWN_SHARE = 0.25  # of the free memory, for all threads together
T = TypeVar("T")
R = TypeVar("R")


def n_threads() -> int:
    """Threads to use: the processors that this process may, at most
    ``NUMBA_NUM_THREADS`` where that is set.
    """
    limit = os.environ.get("NUMBA_NUM_THREADS", "")
    most = int(limit) if limit.isdecimal() else 0
    return min(_processors(), most or _processors())


# By the machine, the affinity of the process, and the quota of its container
_processors = cache(cpu_count)


class Abandoned(BaseException):
    """Work that is left because other work of the same call has failed, or was
    interrupted.
    """


def in_threads(
    work: Callable[[T], R], items: Sequence[T], threads: int | None = None
) -> list[R]:
    """Return ``[work(item) for item in items]``, computed by the caller and as many
    threads as are free.

    Each takes the next item when it has done its last one. Nobody waits for a thread
    that has not begun, and work inside of such work gets the threads that have nothing
    left to do, so that any number of callers come to an end and no processor waits for
    the longest item. BLAS runs on one thread inside. The work must release the GIL to
    gain. After a failure no further items are taken. The caller's settings hold in all
    threads.

    Parameters
    ----------
    threads : int, optional
        The most to use; with one the work itself may use several.
    """
    free = _allowed()
    outer = _mine.tasks
    threads = min(free if threads is None else threads, free, len(items))
    with single_threaded_blas():
        if threads < 2:
            return [work(item) for item in items]
        tasks = _Tasks(work, items, outer, _Crew(free) if outer is None else outer.crew)
        shared = [tasks]
        try:
            # No thread can be started: a limit on their number or on memory
            with suppress(RuntimeError):
                for _ in range(threads - 1):
                    _pool.submit(partial(copy_context().run, _help, shared))
            tasks.drain()
        except BaseException:  # an interrupt between two items
            tasks.stop()
            raise
        finally:
            # What nobody has begun stays in the pool, and must hold nothing
            shared.clear()
            with tasks.crew.resting():
                tasks.wait()
    return tasks.outcome()


def pause() -> None:
    """A place where long work may be left: raises `Abandoned` where other work of
    the same call has failed.
    """
    if _mine.tasks is not None and _mine.tasks.failed:
        raise Abandoned


@contextmanager
def at_most(threads: int | None) -> Iterator[None]:
    """Let what the caller computes inside use at most `threads` threads, its own among
    them; None for as before.
    """
    former = _mine.most
    _mine.most = former if threads is None else threads
    try:
        yield
    finally:
        _mine.most = former


def _allowed() -> int:
    """Threads that the calling thread may use: inside of work itself, and those that
    have nothing left to do.
    """
    most = n_threads() if _mine.most is None else min(_mine.most, n_threads())
    if _mine.tasks is None:
        return most
    crew = _mine.tasks.crew
    return min(most, 1 + max(crew.size - crew.active, 0))


class _Mine(local):
    """What a thread knows of itself: the tasks that it works on, and how many
    threads it may use where not all.
    """

    tasks: _Tasks | None = None
    most: int | None = None


class _Crew:
    """The threads that work for one caller, itself among them, at most `size` at a
    time.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.active = 1
        self.lock = Lock()

    def enter(self) -> bool:
        """Begin to work, unless there are enough who do."""
        with self.lock:
            begins = self.active < self.size
            self.active += begins
            return begins

    def leave(self) -> None:
        """Have no work left."""
        with self.lock:
            self.active -= 1

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Let another one work while the block waits."""
        self.leave()
        try:
            yield
        finally:
            with self.lock:
                self.active += 1


class _Tasks(Generic[T, R]):
    """Items that threads of a crew take one after the other; inside of work on an
    item of other tasks, or of none.
    """

    def __init__(
        self,
        work: Callable[[T], R],
        items: Sequence[T],
        outer: _Tasks | None,
        crew: _Crew,
    ) -> None:
        self.work = work
        self.items = items
        self.results = [None] * len(items)
        self.outer = outer
        self.crew = crew
        self.lock = Lock()
        self.taken = 0
        self.failures: dict[int, BaseException] = {}
        # Locks that helpers hold as long as they work
        self.helping: list[Any] = []
        self.ended = False

    def help(self) -> None:
        """Take items, unless enough others work for the same caller, or it has
        ended.
        """
        if self.crew.enter():
            with (helper_lock := Lock()):
                with self.lock:
                    if not self.ended:
                        self.helping.append(helper_lock)
                try:
                    if helper_lock in self.helping:
                        self.drain()
                finally:
                    self.crew.leave()

    def wait(self) -> None:
        """Wait for those who help, also where an interrupt comes meanwhile; nobody
        begins any more.
        """
        try:
            self._wait()
        except BaseException:
            self.stop()
            self._wait()
            raise

    def _wait(self) -> None:
        with self.lock:
            self.ended = True
        for helper in self.helping:
            with helper:
                pass

    def drain(self) -> None:
        """Take items until none are left, or one has failed."""
        former = _mine.tasks
        _mine.tasks = self
        try:
            with single_threaded_blas():
                while (k := self._next()) is not None:
                    try:
                        self.results[k] = self.work(self.items[k])  # type: ignore[call-overload]
                    except Abandoned:
                        return
                    except BaseException as failure:
                        self.failures[k] = failure
        finally:
            _mine.tasks = former

    @property
    def failed(self) -> bool:
        """Whether an item has failed, or no more are wanted, here or where this is
        inside of.
        """
        failed_here = bool(self.failures) or self.taken > len(self.items)
        return failed_here or (self.outer is not None and self.outer.failed)

    def _next(self) -> int | None:
        with self.lock:
            if self.failed or self.taken == len(self.items):
                return None
            self.taken += 1
            return self.taken - 1

    def stop(self) -> None:
        """Let nobody take another item, and leave those that are begun."""
        with self.lock:
            self.taken = len(self.items) + 1

    def outcome(self) -> list[Any]:
        """The results; or an interrupt is raised, or the first of the items'
        failures.
        """
        if self.failures:
            raise min(
                self.failures.items(),
                key=lambda failed: (isinstance(failed[1], Exception), failed[0]),
            )[1]
        if self.failed:
            raise Abandoned
        return self.results


def _help(shared: Sequence[_Tasks]) -> None:
    """Take items of the tasks, unless these are done."""
    for tasks in shared:
        tasks.help()


class _Pool:
    """Threads that take work from a queue as long as the process lives; one is started
    where all others have work.

    An interrupt inside of a lock that is written in Python, as those of
    `concurrent.futures` are, can leave it locked for ever. Here are locks and queues of
    C only.
    """

    def __init__(self) -> None:
        self.size = max(os.cpu_count() or 1, 2)
        self.queue = SimpleQueue[Callable[[], object]]()
        self.lock = Lock()
        self.started = 0
        self.idle = 0

    def submit(self, work: Callable[[], object]) -> None:
        """Have a thread do this, some time; RuntimeError where none can be started."""
        self.queue.put(work)
        if self.started < self.size and self.queue.qsize() > self.idle:
            start_new_thread(self._serve, ())

    def _serve(self) -> None:
        with self.lock:
            if self.started == self.size:
                return
            self.started += 1
        while True:
            with self.lock:
                self.idle += 1
            work = self.queue.get()
            with self.lock:
                self.idle -= 1
            # Of the threads' own affairs, for tasks keep what their work raises
            with suppress(BaseException):
                work()
            del work


_mine = _Mine()
_pool = _Pool()


def _renew() -> None:
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


def for_rows(work: Callable[[int, int], object], n_rows: int, step: int = STEP) -> None:
    """Call ``work(start, stop)`` on pieces that cover ``range(n_rows)``, of `STEP` rows
    or more, on all threads.

    Pieces begin at multiples of `step`: where the work goes through its rows by so
    many, a result that is written row by row does not depend on the number of threads.
    Every core works on its own rows in its own cache: for the tall, thin products of
    feature maps this is 1.4 times as fast as one product on all threads.
    """
    units = -(-n_rows // step)
    most = min(units, n_rows // STEP)
    pieces = min(_allowed(), most) if most > 1 else 1
    if pieces < 2:
        with single_threaded_blas():
            work(0, n_rows)
        return
    edges = [min(step * (units * k // pieces), n_rows) for k in range(pieces + 1)]
    in_threads(lambda edge: work(*edge), list(pairwise(edges)))


def tiles(start: int, stop: int, size: int) -> list[slice]:
    """Consecutive ranges of at most `size` numbers."""
    return [slice(a, min(a + size, stop)) for a in range(start, stop, size)]


def for_tiles(work: Callable[[slice], object], n_rows: int, size: int) -> None:
    """Call ``work(rows)`` on consecutive ranges of at most `size` rows, on all
    threads; see `for_rows`.
    """

    def piece(start: int, stop: int) -> None:
        for rows in tiles(start, stop, size):
            work(rows)

    for_rows(piece, n_rows, size)


def shards(n_rows: int, least: int, most: int = MOST_SHARDS) -> list[tuple[int, int]]:
    """Ranges that cover ``range(n_rows)``, a power of two of them, of at least `least`
    rows where there are several.

    They depend on the numbers given alone, and never on threads.
    """
    count = 1
    while 2 * count <= most and n_rows >= 2 * count * least:
        count *= 2
    return list(pairwise(n_rows * k // count for k in range(count + 1)))


def fold(work: Callable[[T], R], items: Sequence[T], threads: int | None = None) -> R:
    """Return the sum of ``work(item)`` over the items, on all threads or at most
    `threads`, added in the fixed binary tree of `reduce`.

    Who has done the later half of a sum adds it to the other.
    """
    halves = dict[tuple[int, int], R]()
    lock = Lock()

    def add(k: int) -> None:
        total = work(items[k])
        size = 1
        while size < len(items):
            first = k & ~size
            if first + size < len(items):
                with lock:
                    other = halves.pop((first, size), None)
                    if other is None:
                        halves[first, size] = total
                        return
                in_order = (total, other) if k == first else (other, total)
                total = iadd(*in_order)
            k = first
            size = 2 * size
        halves[0, size] = total

    in_threads(add, range(len(items)), threads)
    return halves.popitem()[1]


DEPTH = 2  # items that wait, of those that are made ahead


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
    except RuntimeError:
        # No more threads can be started: each item is made when it is asked for
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


class LocalEngine:
    """The threads of this process. Work begins when its result is asked for."""

    is_remote = False
    keeps_results = False

    @property
    def n_workers(self) -> int:
        """Threads."""
        return n_threads()

    def submit(self, work: Callable[..., R], *arguments: Any) -> Callable[[], R]:
        """Note what is to be done."""
        return partial(work, *arguments)

    def share(self, value: T) -> T:
        """The value itself, as threads share all memory."""
        return value

    def results(self, handles: Sequence[Callable[[], R]]) -> Generator[R]:
        """Do the work on all threads."""
        yield from in_threads(lambda work: work(), handles)


LOCAL = LocalEngine()


def available_memory() -> int | None:
    """Bytes that this process may still take, by the system and by the limit of the
    settings; None where unknown.
    """
    free = free_bytes()
    limit = current().memory_limit
    if limit is None:
        return free
    most = limit + current().memory_base
    remaining_bytes = most - resident_bytes()
    if remaining_bytes < limit // 2:
        give_back()
        remaining_bytes = most - resident_bytes()
    return max(remaining_bytes if free is None else min(free, remaining_bytes), 0)


def limited(n_bytes: int) -> int:
    """Bytes that one block of several may take: `n_bytes`, or a sixteenth of the memory
    limit if that is less.

    By the limit alone and not by what is free, on which the bits of sums must not
    depend.
    """
    limit = current().memory_limit
    return n_bytes if limit is None else min(n_bytes, limit // 16)


def require_memory(n_bytes: int, what: str, cure: str) -> None:
    """Raise MemoryError, before any work, where `n_bytes` for `what` exceed the memory
    at hand.

    Parameters
    ----------
    n_bytes : int
        Peak bytes needed.
    what : str
        What needs them, a noun phrase to begin the message with.
    cure : str
        What the user can do instead, a sentence.
    """
    available = available_memory()
    if available is not None and n_bytes > available:
        if (limit := current().memory_limit) is not None:
            cure = f"{cure} Or raise memory_limit, which is {as_size(limit)}."
        raise MemoryError(
            f"{what} needs {as_size(n_bytes)} and {as_size(available)} are free. {cure}"
        )
