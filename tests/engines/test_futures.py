"""Executors as engines: processes, threads, loky's processes."""

import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import bochner
from bochner.engines import futures
from bochner.engines.base import EngineError
from bochner.engines.current import as_engine
from bochner.engines.futures import FuturesEngine
from bochner.engines.local import LOCAL
from bochner.engines.remote import Call
from bochner.engines.sums import reduce
from works import die, found, refused, rows

pytestmark = pytest.mark.filterwarnings("ignore:resource_tracker:UserWarning")


def started(folder, part, shared):
    (folder / str(part)).touch()
    time.sleep(0.05)
    if part == 0:
        raise KeyError(part)
    return np.zeros(1)


def made(kind, context):
    """An executor of a kind."""
    if kind == "thread":
        return ThreadPoolExecutor(2)
    return (
        ProcessPoolExecutor(2, context)
        if kind == "process"
        else pytest.importorskip("loky").ProcessPoolExecutor(1)
    )


@pytest.fixture(scope="module", params=["process", "loky", "thread"])
def executor(request, new_process):
    with made(request.param, new_process) as executor:
        yield executor


def test_same_bits(executor):
    parts, work, shared = rows()
    assert len(parts) > 2
    here, there = (
        reduce(LOCAL, parts, work, shared),
        reduce(FuturesEngine(executor), parts, work, shared),
    )
    np.testing.assert_array_equal(here.matrix, there.matrix)
    assert here.n_rows == there.n_rows


def test_settings_travel_and_a_work_has_one_thread(executor):
    engine = FuturesEngine(executor)
    with bochner.settings(engine=executor, device="cpu", memory_limit="4 GB"):
        there = next(engine.results([engine.submit(found, 0, None)]))
    assert (there["threads"], there["device"], there["limit"]) == (1, "cpu", None)
    assert (there["process"] == os.getpid()) == isinstance(executor, ThreadPoolExecutor)


def test_failures_come_as_they_are_and_say_where(executor):
    with pytest.raises(KeyError, match="part 3") as error:
        reduce(FuturesEngine(executor), [3], refused)
    assert error.value.__notes__[0].startswith("This happened on process ")


def test_no_more_are_given_away_than_a_few_ahead(executor, tmp_path):
    with pytest.raises(KeyError):
        reduce(FuturesEngine(executor), range(100), partial(started, tmp_path))
    assert len(list(tmp_path.iterdir())) <= 2 * futures.AHEAD * 2


def test_parts_that_are_done_are_told_of(executor):
    seen = []
    reduce(
        FuturesEngine(executor),
        range(9),
        partial(np.full, 2),
        float,
        advance=seen.append,
    )
    assert sorted(seen) == list(range(9))


@pytest.mark.parametrize("kind", ["process", "loky"])
def test_processes_that_die(new_process, kind):
    with (
        made(kind, new_process) as executor,
        pytest.raises(EngineError, match="memory: use a smaller n_components"),
    ):
        reduce(FuturesEngine(executor), range(4), die)


def test_an_executor_that_was_shut_down():
    (executor := ProcessPoolExecutor(2)).shutdown()
    with pytest.raises(EngineError, match="accepts no work"):
        reduce(FuturesEngine(executor), [1], found)


def test_an_executor_that_stands_still():
    still = threading.Event()
    with ThreadPoolExecutor(2) as executor:
        with pytest.raises(
            EngineError, match=r"not finished a work for 0\.1 s.*patience=3600"
        ):
            reduce(
                FuturesEngine(executor, patience=0.1),
                range(4),
                lambda part, _: still.wait(60) if part else 0,
            )
        still.set()
        assert reduce(FuturesEngine(executor), [1], lambda part, _: part) == 1


def test_what_is_shared_by_threads_stays_as_it_is():
    sums = [np.ones(2) * k for k in range(5)]
    with ThreadPoolExecutor(2) as executor:
        engine = FuturesEngine(executor)
        total = reduce(engine, sums, lambda part, _: part)
        works = [engine.submit(lambda a, b: a + b, k, engine.share(3)) for k in (2, 1)]
        assert list(engine.results(works)) == [5, 4]
    np.testing.assert_array_equal(total, [10, 10])
    np.testing.assert_array_equal(sums, [[k, k] for k in range(5)])


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_leaves_the_executor_usable():
    began = threading.Event()

    def work(part, _):
        began.set()
        time.sleep(0.2)

    def interrupt():
        began.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    with ThreadPoolExecutor(1) as executor:
        (thread := threading.Thread(target=interrupt)).start()
        with pytest.raises(KeyboardInterrupt):
            reduce(FuturesEngine(executor), range(100), work)
        thread.join()
        assert reduce(FuturesEngine(executor), [1], lambda part, _: part) == 1


def test_work_of_another_version_is_refused():
    with pytest.raises(
        EngineError, match=r"bochner .* comes from version 0\.0\.0: install"
    ):
        Call(int, ("7",), version="0.0.0").do()


class TestAsEngine:
    def test_what_is_given(self):
        with ThreadPoolExecutor(1) as executor:
            assert as_engine(executor).executor is executor
        assert as_engine(None) is LOCAL
        assert as_engine(LOCAL) is LOCAL

    @pytest.mark.parametrize(
        ("given", "why"),
        [
            ("tcp://host:8786", "Client.'tcp://host:8786'"),
            ("spark", "'spark'"),
            (7, "7"),
        ],
    )
    def test_what_is_none(self, given, why):
        with pytest.raises(TypeError, match=why):
            as_engine(given)

    def test_a_class_is_no_engine(self):
        with pytest.raises(TypeError, match="engine must be"):
            as_engine(FuturesEngine)
