"""Items that a thread prepares while others are worked on."""

import threading
from contextvars import ContextVar

import pytest

from bochner.engines.local import prefetched


def threads():
    return [
        thread for thread in threading.enumerate() if thread.name == "bochner-ahead"
    ]


@pytest.mark.parametrize("depth", [1, 2, 100])
def test_items_come_in_order_and_the_thread_ends(depth):
    assert list(prefetched(iter(range(50)), depth)) == list(range(50))
    assert list(prefetched(iter([]), depth)) == []
    assert not threads()


def test_no_more_are_made_than_the_queue_holds():
    made, begun = [], threading.Event()

    def items():
        for k in range(100):
            made.append(k)
            if k == 3:
                begun.set()
            yield k

    read = prefetched(items(), depth=2)
    assert next(read) == 0
    assert begun.wait(10)
    assert next(read) == 1
    assert len(made) <= 5  # the two that were taken, two that wait, one that is made
    read.close()
    assert not threads()


@pytest.mark.parametrize("taken", [0, 1, 3])
@pytest.mark.parametrize("depth", [1, 2])
def test_a_consumer_that_stops_ends_the_thread_and_closes_the_generator(taken, depth):
    closed = threading.Event()

    def items():
        try:
            yield from range(1000)
        finally:
            closed.set()

    for item in (read := prefetched(items(), depth)):
        if item == taken:
            break
    read.close()
    assert closed.is_set()
    assert not threads()


def test_what_is_raised_comes_in_its_place():
    def items():
        yield 1
        yield 2
        raise KeyError("here")

    read = prefetched(items())
    assert [next(read), next(read)] == [1, 2]
    with pytest.raises(KeyError, match="here"):
        next(read)
    assert not threads()


def test_a_failure_of_the_consumer_ends_the_thread():
    with pytest.raises(ZeroDivisionError):
        [1 / item for item in prefetched(iter(range(1000)))]
    assert not threads()


def test_a_failure_at_the_end_of_a_generator_is_raised():
    def items():
        try:
            yield 1
        finally:
            raise OSError("the file cannot be closed")

    with pytest.raises(OSError, match="closed"):
        list(prefetched(items()))


def test_the_thread_has_the_settings_of_its_consumer():
    variable = ContextVar("variable", default=0)
    variable.set(7)
    assert list(prefetched(variable.get() for _ in range(2))) == [7, 7]
