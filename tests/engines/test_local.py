"""Threads and memory of the machine at hand."""

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

from bochner.engines import local
from bochner.engines.local import (
    MIN_ROWS_PER_THREAD,
    available_memory,
    for_rows,
    in_threads,
    n_threads,
    require_memory,
)


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    """Two pieces, whatever the machine."""
    monkeypatch.setattr(local, "n_threads", lambda: 2)


PRELUDE = """
import sys, threading
import numpy, scipy.linalg
from threadpoolctl import threadpool_info
from bochner.engines import local
from bochner.engines.local import for_rows, single_threaded_blas

def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

local.n_threads = lambda: 2
before, inside = blas_threads(), []
assert before
"""


def run(code, *arguments):
    """Run code in a fresh interpreter with two BLAS threads: this one's are limited by conftest.py.

    Of several threads that set limits, threadpoolctl obeys the first, so that limits set here would hide others.
    """
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "2"}
    command = [sys.executable, "-c", PRELUDE + textwrap.dedent(code), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_covers_every_row_once(threads, monkeypatch):
    monkeypatch.setattr(local, "n_threads", lambda: threads)
    least = MIN_ROWS_PER_THREAD
    for n in [
        *range(5),
        least - 1,
        least,
        least + 1,
        2 * least - 1,
        2 * least,
        2 * least + 1,
        3 * least,
        1000,
        1001,
        4099,
    ]:
        seen, pieces = np.zeros(n, dtype=int), []

        def loop(start, stop, seen=seen, pieces=pieces):
            seen[start:stop] += 1
            pieces.append((start, stop))

        for_rows(loop, n)
        assert np.all(seen == 1)
        assert len(pieces) == max(1, min(threads, n // least))


def test_pieces_run_in_several_threads():
    together = threading.Barrier(2, timeout=30)
    for_rows(lambda start, stop: together.wait(), 2 * MIN_ROWS_PER_THREAD)


def test_blas_has_one_thread_inside_and_its_own_number_after():
    code = """
        def loop(start, stop):
            inside.append(blas_threads())
            if start in failing:
                raise KeyError("no such row")

        for failing in ((), (0,), (500,), (0, 500)):
            try:
                for_rows(loop, 1000)
                assert not failing
            except KeyError:
                assert failing
            assert blas_threads() == before, f"after failures in {failing}: {blas_threads()}"
        assert inside == [[1] * len(before)] * 8, inside
    """
    run(code)


@pytest.mark.parametrize("where", [{0}, {500}, {0, 500}])
def test_exceptions_arrive(where):
    done = []

    def loop(start, stop):
        if start in where:
            raise KeyError("no such row")
        done.append(start)

    with pytest.raises(KeyError, match="no such row"):
        for_rows(loop, 1000)
    assert done == [start for start in (0, 500) if start not in where]
    for_rows(lambda start, stop: done.append(start), 1000)
    assert len(done) == 4 - len(where)


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
    """A enters first, then B; they leave in the given order. Whoever is last gives BLAS its threads back."""
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

    threads = [threading.Thread(target=lambda: [for_rows(loop, 500) for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert total == [4 * 20 * 500]


def test_items_in_threads():
    together = threading.Barrier(2, timeout=30)

    def work(item):
        together.wait()
        for_rows(lambda start, stop: None, 1000)
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

    @pytest.mark.parametrize(("setting", "threads"), [("1", 1), ("3", 3), ("64", 8), ("", 8), ("0", 8), ("many", 8)])
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
        with pytest.raises(MemoryError, match=r"^A matrix needs 1,234\.6 GB and 2\.0 GB are free\. Take less\.$"):
            require_memory(1_234_567_890_123, "A matrix", "Take less.")

    def test_unknown_memory_is_enough(self, monkeypatch):
        monkeypatch.setattr(local, "available_memory", lambda: None)
        require_memory(10**18, "A matrix", "Take less.")

    def test_available_memory_is_plausible(self):
        available = available_memory()
        assert available is None or 2**20 < available < 2**60
