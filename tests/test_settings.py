"""Settings of the run: what can be said, where it holds, and the memory limit."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import bochner
from bochner.engines import local
from bochner.engines.local import available_memory, in_threads, require_memory
from bochner.settings import as_bytes, current, resident_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1.5 GB", 1_500_000_000),
        ("300MiB", 300 * 2**20),
        ("  7 kb ", 7000),
        ("2g", 2 * 10**9),
        ("0.5 Ti", 2**39),
        ("12", 12),
        ("1.1 GB", 1_100_000_000),
        (1e9, 10**9),
        (np.int64(5), 5),
    ],
)
def test_sizes(text, size):
    assert as_bytes(text) == size
    with bochner.settings(memory_limit=text) as inside:
        assert inside.memory_limit == size


@pytest.mark.parametrize(
    "size",
    ["", "GB", "-1 GB", "1,5 GB", "1 XB", "1 GB x", 0, -3, np.nan, np.inf, True, [1]],
)
def test_wrong_sizes(size):
    with pytest.raises(
        ValueError, match=r"memory_limit must be a size such as '1\.5 GB'"
    ):
        bochner.settings(memory_limit=size).__enter__()
    assert current().memory_limit is None


def test_what_cannot_be_meant_is_refused():
    with pytest.raises(TypeError, match="memory"):
        bochner.settings(memory="1 GB")


def test_settings_hold_inside_and_keep_what_is_not_named():
    outside = current()
    engine = ThreadPoolExecutor(1)
    with bochner.settings(engine=engine, memory_limit="2 GB"):
        with bochner.settings(memory_limit="1 GB"):
            assert (current().engine, current().memory_limit) == (engine, 10**9)
        with bochner.settings(engine=None):
            assert current().engine is None
        with pytest.raises(KeyError), bochner.settings(memory_limit=7):
            raise KeyError
        assert (current().engine, current().memory_limit) == (engine, 2 * 10**9)
    assert current() is outside


def test_threads_that_work_for_the_caller_see_them(monkeypatch):
    monkeypatch.setattr(local, "n_threads", lambda: 2)
    together = threading.Barrier(2, timeout=30)

    def work(item):
        together.wait()
        return threading.get_ident(), current().memory_limit

    with bochner.settings(memory_limit="3 GB"):
        found = in_threads(work, [0, 1])
    assert len({thread for thread, _ in found}) == 2
    assert {limit for _, limit in found} == {3 * 10**9}
    assert {limit for _, limit in in_threads(work, [0, 1])} == {None}


def test_other_threads_do_not():
    found = []
    with bochner.settings(memory_limit="3 GB"):
        thread = threading.Thread(target=lambda: found.append(current().memory_limit))
        thread.start()
        thread.join()
    assert found == [None]


def test_the_limit_counts_what_was_taken_since():
    with bochner.settings(memory_limit="1 GB"):
        before = available_memory()
        assert 0.9e9 < before <= 1e9
        held = np.ones(25_000_000)
        assert before - available_memory() == pytest.approx(held.nbytes, abs=2e7)
        assert available_memory() < 1e9 - held.nbytes + 2e7
        del held
        assert available_memory() == pytest.approx(before, abs=2e7)


def test_what_is_free_limits_too(monkeypatch):
    monkeypatch.setattr(local, "free_bytes", lambda: 12345)
    with bochner.settings(memory_limit="1 GB"):
        assert available_memory() == 12345
    monkeypatch.setattr(local, "free_bytes", lambda: None)
    assert available_memory() is None
    with bochner.settings(memory_limit="1 GB"):
        assert available_memory() > 0.9e9


def test_nothing_is_left_beyond_the_limit():
    with bochner.settings(memory_limit="20 MB"):
        held = np.ones(
            40_000_000
        )  # far more than what was freed before and is given back now
        assert available_memory() == 0
        with pytest.raises(MemoryError, match=r"A matrix needs .* Take less\."):
            require_memory(held.nbytes, "A matrix", "Take less.")


def test_memory_that_was_freed_is_given_back():
    """Small arrays stay with malloc, which a limit takes back."""
    with bochner.settings(memory_limit="300 MB"):
        before = resident_bytes()
        held = [np.ones(1000) for _ in range(25_000)]
        barrier = np.ones(1000)
        del held
        assert available_memory() > 3e8 - 5e7
        assert resident_bytes() - before < 5e7
        assert barrier.sum() == 1000
