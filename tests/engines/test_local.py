"""Threads and memory of the machine at hand."""

import gc
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import weakref
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

from bochner import FourierFeatures
from bochner.data.array_source import ArraySource
from bochner.design.moments import Moments
from bochner.design.reductions import SumOverRows
from bochner.engines import local
from bochner.engines.local import (
    LOCAL,
    STEP,
    at_most,
    available_memory,
    fold,
    for_rows,
    in_threads,
    n_threads,
    pause,
    require_memory,
    shards,
)
from bochner.engines.sums import reduce
from bochner.inputs.targets import Standardised


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    """Two pieces, whatever the machine."""
    monkeypatch.setattr(local, "n_threads", lambda: 2)


PRELUDE = """
import sys, threading
import numpy, scipy.linalg
from threadpoolctl import threadpool_info
from bochner.engines import local
from bochner.engines.blas import single_threaded_blas
from bochner.engines.local import for_rows, in_threads

def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

local.n_threads = lambda: 2
before, inside = blas_threads(), []
assert before
"""


def run(code, *arguments):
    """Run code in a fresh interpreter with two BLAS threads: this one's are limited by
    conftest.py.

    Of several threads that set limits, threadpoolctl obeys the first, so that limits
    set here would hide others.
    """
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "2"}
    command = [sys.executable, "-c", PRELUDE + textwrap.dedent(code), *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=environment
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("step", [1, STEP, 1000])
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_covers_every_row_once(threads, step, monkeypatch):
    monkeypatch.setattr(local, "n_threads", lambda: threads)
    for n in [
        *range(5),
        STEP - 1,
        STEP,
        STEP + 1,
        2 * STEP - 1,
        2 * STEP,
        3 * STEP + 1,
        1000,
        1001,
        4099,
    ]:
        seen, starts = np.zeros(n, dtype=int), []

        def loop(start, stop, seen=seen, starts=starts):
            seen[start:stop] += 1
            starts.append(start)

        for_rows(loop, n, step)
        assert np.all(seen == 1)
        assert len(starts) == max(1, min(threads, n // STEP, -(-n // step)))
        assert all(start % step == 0 for start in starts)


def test_pieces_run_in_several_threads():
    together = threading.Barrier(2, timeout=30)
    for_rows(lambda start, stop: together.wait(), 2 * STEP)


class TestFold:
    """Sums whose order the items decide, and never the threads."""

    @pytest.mark.parametrize("n", [*range(1, 10), 31, 64, 100])
    def test_adds_neighbours_and_neighbours_of_those(self, n, monkeypatch):
        class Text:
            def __init__(self, text):
                self.text = text

            def __iadd__(self, other):
                self.text = f"({self.text} {other.text})"
                return self

        def tree(first, size):
            if size == 1:
                return str(first)
            left = 1 << (size - 1).bit_length() - 1
            return f"({tree(first, left)} {tree(first + left, size - left)})"

        rng = np.random.default_rng(0)
        for threads in (1, 2, 5):
            monkeypatch.setattr(local, "n_threads", lambda threads=threads: threads)
            naps = rng.uniform(0, 1e-3, n)
            found = fold(
                lambda k, naps=naps: threading.Event().wait(naps[k]) or Text(str(k)),
                range(n),
            )
            assert found.text == tree(0, n)

    def test_what_the_work_holds_is_freed_at_once(self, monkeypatch):
        """Without the collector of circles, which comes late and knows nothing of
        sizes.
        """
        monkeypatch.setattr(local, "n_threads", lambda: 1)
        gc.disable()
        try:
            held = np.ones(10)
            watch = weakref.ref(held)
            assert fold(lambda k, held=held: held.sum() + k, range(4)) == 46
            del held
            assert watch() is None
        finally:
            gc.enable()

    def test_shards(self):
        for n in (0, 1, 99, 100, 199, 200, 1000, 3200, 10**6):
            parts = shards(n, 100, 16)
            assert [a for a, _ in parts] == [0] + [b for _, b in parts[:-1]]
            assert parts[-1][1] == n
            assert len(parts) in (1, 2, 4, 8, 16)
            assert len(parts) == 1 or min(b - a for a, b in parts) >= 100
            assert len(parts) == 16 or n < 2 * len(parts) * 100

    def test_work_that_fills_the_memory_runs_in_one_thread_which_leaves_the_others_to_it(
        self, monkeypatch
    ):
        together = threading.Barrier(2, timeout=30)

        class Work:
            n_bytes = 1000

            def __call__(self, item, shared):
                for_rows(lambda start, stop: together.wait(), 2 * STEP)
                return item * shared

        monkeypatch.setattr(local, "available_memory", lambda: 5000)
        assert reduce(LOCAL, [1, 2, 3], Work(), 10) == 60


class TestManyCallers:
    """Callers share the threads of the process, and none waits for another one."""

    def test_work_inside_of_work_stays_in_its_thread_while_all_have_work(self):
        found, begun, done = (
            [],
            threading.Barrier(2, timeout=30),
            threading.Barrier(2, timeout=30),
        )

        def work(item):
            begun.wait()
            for_rows(lambda start, stop: found.append((start, stop)), 1000)
            done.wait()

        in_threads(work, [0, 1])
        assert found == [(0, 1000)] * 2

    @pytest.mark.parametrize("long", [0, 1])
    def test_threads_without_work_help_with_that_inside(self, long):
        """Two of them compute what is inside of the last item, in whatever thread
        that is; and never more than two.
        """
        together, most, active, lock = (
            threading.Barrier(2, timeout=30),
            [0],
            [0],
            threading.Lock(),
        )
        begun = threading.Barrier(2, timeout=30)

        def inner(start, stop):
            with lock:
                active[0] += 1
                most[0] = max(most[0], active[0])
            together.wait()
            with lock:
                active[0] -= 1

        def work(item):
            begun.wait()
            if item != long:
                return item
            while local._allowed() < 2:  # until the other one has left
                threading.Event().wait(1e-3)
            for _ in range(20):
                for_rows(inner, 1000)
            return item

        assert in_threads(work, [0, 1]) == [0, 1]
        assert most == [2]

    def test_a_failure_ends_the_work_inside_of_others(self):
        begun, left = threading.Event(), threading.Event()

        def inner(item):
            begun.set()
            while True:
                pause()

        def work(item):
            if item == 0:
                begun.wait(30)
                raise KeyError("no such row")
            try:
                in_threads(inner, range(4))
            finally:
                left.set()

        with pytest.raises(KeyError, match="no such row"):
            in_threads(work, [0, 1])
        assert left.is_set()
        pause()

    @pytest.mark.parametrize("callers", [2, 8])
    def test_nested_work_of_many_callers_ends(self, callers):
        """As many callers as fill the pool, each with work inside of work."""
        done = []

        def caller():
            for _ in range(20):
                in_threads(
                    lambda item: for_rows(lambda start, stop: None, 1000), range(4)
                )
            done.append(True)

        threads = [threading.Thread(target=caller, daemon=True) for _ in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(done) == callers

    def test_nobody_waits_for_threads_that_have_not_begun(self, monkeypatch):
        """Another caller keeps the whole pool busy."""
        release, done = (
            threading.Event(),
            [threading.Event() for _ in range(local._pool.size)],
        )
        for one in done:
            local._pool.submit(lambda one=one: release.wait(60) and one.set())
        try:
            monkeypatch.setattr(local, "n_threads", lambda: 4)
            assert in_threads(lambda item: item + 1, range(10)) == list(range(1, 11))
        finally:
            release.set()
        assert all(one.wait(10) for one in done)

    def test_an_interrupt_comes_before_other_failures(self):
        both = threading.Barrier(2, timeout=30)

        def work(item):
            both.wait()
            raise (
                KeyError("broken by the interrupt") if item == 0 else KeyboardInterrupt
            )

        with pytest.raises(KeyboardInterrupt):
            in_threads(work, [0, 1])

    def test_a_failure_ends_the_work_of_others_at_their_next_pause(self):
        begun = threading.Event()

        def work(item):
            if item == 0:
                begun.wait(30)
                raise KeyError("no such row")
            begun.set()
            while True:
                pause()

        with pytest.raises(KeyError, match="no such row"):
            in_threads(work, [0, 1])
        pause()  # nothing here to leave


def test_blas_has_one_thread_inside_and_its_own_number_after():
    code = """
        def loop(start, stop):
            inside.append(blas_threads())
            if start in failing:
                raise KeyError("no such row")

        for failing in ((), (0,), (512,), (0, 512)):
            try:
                for_rows(loop, 1000)
                assert not failing
            except KeyError:
                assert failing
            assert blas_threads() == before, f"after failures in {failing}: {blas_threads()}"
        assert inside and all(threads == [1] * len(before) for threads in inside), inside
    """
    run(code)


def test_limits_of_others():
    """What others set is undone for the next call, and given back in the end."""
    code = """
        from threadpoolctl import threadpool_limits

        def others(threads):
            def work():
                outer = threadpool_limits(threads, "blas")
                entered.set()
                left.wait(20)
                outer.restore_original_limits()
                restored.set()
            return work

        for name in ("others begin", "others end within", "others are the main thread"):
            entered, left, restored = threading.Event(), threading.Event(), threading.Event()
            thread = threading.Thread(target=others(1), daemon=True)
            if name == "others are the main thread":
                with threadpool_limits(1, "blas"):
                    caller = threading.Thread(target=lambda: for_rows(lambda a, b: inside.append(blas_threads()), 1000))
                    caller.start()
                    caller.join(20)
            else:
                thread.start()
                entered.wait(20)
                with single_threaded_blas():
                    left.set()
                    restored.wait(20)
                    for_rows(lambda a, b: inside.append(blas_threads()), 1000)
            assert inside and all(threads == [1] * len(before) for threads in inside), (name, inside)
            assert blas_threads() == before, (name, blas_threads())
    """
    run(code)


@pytest.mark.parametrize("where", [{0}, {512}, {0, 512}])
def test_exceptions_arrive(where):
    done = []

    def loop(start, stop):
        if start in where:
            raise KeyError("no such row")
        done.append(start)

    with pytest.raises(KeyError, match="no such row"):
        for_rows(loop, 1000)
    assert set(done) <= {start for start in (0, 512) if start not in where}
    done.clear()
    for_rows(lambda start, stop: done.append(start), 1000)
    assert sorted(done) == [0, 512]


OVERLAP = """
    first, last = sys.argv[1]
    events = {name: (threading.Event(), threading.Event()) for name in "AB"}
    at_end = threading.Event()

    def caller(name):
        if name == "B":
            events["A"][0].wait(20)
        with single_threaded_blas():
            events[name][0].set()
            events["B"][0].wait(20)
            if name == last:
                events[first][1].wait(20)
            inside.append(blas_threads())
        events[name][1].set()
        at_end.wait(20)

    threads = [threading.Thread(target=caller, args=name, daemon=True) for name in "AB"]
    for thread in threads:
        thread.start()
    events[last][1].wait(20)
    assert inside == [[1] * len(before)] * 2, f"inside: {inside}"
    assert blas_threads() == before, f"after: {blas_threads()}"
    with single_threaded_blas():
        assert blas_threads() == [1] * len(before), f"main thread, inside: {blas_threads()}"
    assert blas_threads() == before, f"main thread, after: {blas_threads()}"
    at_end.set()
    for thread in threads:
        thread.join(20)
    assert blas_threads() == before, f"at the end: {blas_threads()}"
"""


@pytest.mark.parametrize("order", ["AB", "BA"])
def test_callers_that_overlap_in_time(order):
    """A enters first, then B; they leave in the given order. Whoever is last gives
    BLAS its threads back.
    """
    run(OVERLAP, order)


def test_callers_in_one_thread_after_another():
    code = """
        def caller():
            with single_threaded_blas():
                inside.append(blas_threads())

        caller()
        thread = threading.Thread(target=caller)
        thread.start()
        thread.join()
        assert inside == [[1] * len(before)] * 2, inside
        assert blas_threads() == before
    """
    run(code)


def test_many_callers():
    total, lock = [0], threading.Lock()

    def loop(start, stop):
        with lock:
            total[0] += stop - start

    threads = [
        threading.Thread(target=lambda: [for_rows(loop, 500) for _ in range(20)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert total == [4 * 20 * 500]


def test_items_in_threads():
    together = threading.Barrier(2, timeout=30)

    def work(item):
        together.wait()
        return item * 2

    assert in_threads(work, [3, 1, 2, 4]) == [6, 2, 4, 8]
    assert in_threads(work, []) == []
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda item: 1 // item, [1, 0, 2])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_works_after_fork():
    code = """
        import os, warnings
        import numpy as np
        from bochner import FourierFeatures

        warnings.filterwarnings("ignore", message=".*fork.*", category=DeprecationWarning)
        X = np.random.default_rng(0).standard_normal((1000, 3))
        features = FourierFeatures(n_components=50, random_state=0).fit(X)
        before = features.transform(X)
        child = os.fork()
        if child == 0:
            import faulthandler
            faulthandler.dump_traceback_later(30, exit=True)
            os._exit(0 if np.array_equal(features.transform(X), before) else 3)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0, status
        assert np.array_equal(features.transform(X), before)
    """
    run(code)


class TestNumberOfThreads:
    @pytest.fixture(autouse=True)
    def eight_processors(self, monkeypatch):
        if hasattr(os, "sched_getaffinity"):
            monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
        monkeypatch.setattr(os, "cpu_count", lambda: 8)
        local._processors.cache_clear()
        yield
        local._processors.cache_clear()

    @pytest.mark.parametrize(
        ("setting", "threads"),
        [("1", 1), ("3", 3), ("64", 8), ("", 8), ("0", 8), ("many", 8)],
    )
    def test_limit_by_environment(self, monkeypatch, setting, threads):
        monkeypatch.setenv("NUMBA_NUM_THREADS", setting)
        assert n_threads() == threads

    def test_without_limit(self, monkeypatch):
        monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
        assert n_threads() == 8


class TestMemory:
    def test_message(self, monkeypatch):
        monkeypatch.setattr(local, "available_memory", lambda: 2_000_000_000)
        require_memory(2_000_000_000, "A matrix", "Take less.")
        with pytest.raises(
            MemoryError,
            match=r"^A matrix needs 1,235 GB and 2\.0 GB are free\. Take less\.$",
        ):
            require_memory(1_234_567_890_123, "A matrix", "Take less.")

    def test_unknown_memory_is_enough(self, monkeypatch):
        monkeypatch.setattr(local, "available_memory", lambda: None)
        require_memory(10**18, "A matrix", "Take less.")

    def test_available_memory_is_plausible(self):
        available = available_memory()
        assert available is None or 2**20 < available < 2**60


class TestLocalEngine:
    """Three verbs, and sums."""

    def test_results_come_in_order(self):
        handles = [LOCAL.submit(int, digit) for digit in "7235"]
        assert list(LOCAL.results(handles)) == [7, 2, 3, 5]

    def test_failures_come_to_the_caller(self):
        with pytest.raises(ZeroDivisionError):
            reduce(LOCAL, [1, 0, 2], lambda item, _: 1 / item)
        with pytest.raises(KeyError):
            list(LOCAL.results([LOCAL.submit({}.__getitem__, 1)]))

    def test_partial_sums_are_let_go(self):
        alive = []

        class Sum:
            def __init__(self):
                alive.append(weakref.ref(self))

            def __iadd__(self, other):
                most.append(sum(one() is not None for one in alive))
                return self

        most = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(local, "n_threads", lambda: 1)
            reduce(LOCAL, range(64), lambda item, _: Sum())
        assert max(most) <= 8

    def test_work_travels(self):
        """What is submitted in a fit can be sent to another process."""
        X = np.random.default_rng(0).standard_normal((700, 3))
        features = FourierFeatures(n_components=20, random_state=0).fit(X)
        source = ArraySource(X, X[:, :2], targets=Standardised(np.zeros(2), np.ones(2)))
        dtype = np.dtype(float)
        work = SumOverRows(partial(Moments, 20, 2, dtype), 256, 1 << 20, dtype)
        here = reduce(
            LOCAL, [source.span(0, 2), source.span(2, 3)], work, (None, features)
        )
        sent = pickle.dumps([work, source.span(0, 2), source.span(2, 3), features])
        there = pickle.loads(sent)  # noqa: S301 - made one line above
        there = reduce(LOCAL, there[1:3], there[0], (None, there[3]))
        np.testing.assert_array_equal(here.matrix, there.matrix)


class TestAtMost:
    def threads(self, n_rows=10 * STEP):
        """Threads that a piece of work of many rows and one of many items could use."""
        pieces, barrier = [], threading.Barrier(2)

        def item(_):
            with suppress(threading.BrokenBarrierError):
                barrier.wait(0.2)
            return threading.get_ident()

        for_rows(lambda start, stop: pieces.append(stop - start), n_rows)
        return len(pieces), len(set(in_threads(item, range(2))))

    def test_limits_the_work_inside(self):
        assert self.threads() == (2, 2)
        with at_most(1):
            assert self.threads() == (1, 1)
            with at_most(None):
                assert self.threads() == (1, 1)
            assert self.threads() == (1, 1)
        with at_most(9):
            assert self.threads() == (2, 2)
        with pytest.raises(ZeroDivisionError), at_most(1):
            raise ZeroDivisionError
        assert self.threads() == (2, 2)

    def test_is_that_of_the_caller_alone(self):
        found = []
        with at_most(1):
            other = threading.Thread(target=lambda: found.append(self.threads()))
            other.start()
            other.join()
        assert found == [(2, 2)]
