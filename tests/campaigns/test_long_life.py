"""A short slice of the campaign of a long life, and what it has found."""

import signal
import sys
import threading
from concurrent import futures
from concurrent.futures import thread as thread_futures

import long_life
import pytest

from bochner.engines import blas, local
from bochner.engines.blas import single_threaded_blas


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_interrupts():
    for case, wrong, _ in long_life.interrupts(8):
        assert not wrong, f"{case}: {wrong}"


@pytest.mark.parametrize("kind", ["threads at once", "fits in one process"])
def test_slice(kind):
    for case, wrong, _ in long_life.KINDS[kind](4):
        assert not wrong, f"{case}: {wrong}"


@pytest.mark.skipif(not hasattr(long_life.os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("kind", ["os.fork", "asyncio"])
def test_children(kind):
    assert not long_life.differing(long_life.CHILDREN[kind]())


class Library:
    """A BLAS library of four threads."""

    is_of_a_thread = False

    def __init__(self):
        self.number = 4

    def threads(self):
        return self.number

    def set_threads(self, number):
        self.number = number


def interrupting(place, seen, files=(blas.__file__,), events=("call", "line")):
    """A function for `sys.settrace` that interrupts at the event of this number, of
    those in some files.
    """

    def trace(frame, event, argument):
        if frame.f_code.co_filename not in files:
            return None
        if event in events:
            seen.append((frame.f_code.co_qualname, frame.f_lineno))
            if len(seen) == place:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    return trace


def test_an_interrupt_at_any_line_gives_blas_its_threads_back(monkeypatch):
    """Also before the first line of the way out: whoever is let go has left."""
    library, process = Library(), blas._Process()
    process.shared, process.each = blas._Limits([library]), []
    monkeypatch.setattr(blas, "_process", process)
    place, ended = 0, False
    while not ended:
        place, seen, former = place + 1, [], sys.gettrace()
        sys.settrace(interrupting(place, seen))
        try:
            with single_threaded_blas():
                assert library.number == 1
            ended = True
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(former)
        assert (library.number, process.shared.users) == (4, []), seen[-1]
    assert place > 30


def test_an_interrupt_at_any_call_leaves_threads_that_work(monkeypatch):
    """One inside of a lock of `concurrent.futures`, which is written in Python, left it
    locked for ever.

    Python looks for signals where functions begin and after they return.
    """
    files = (
        local.__file__,
        threading.__file__,
        thread_futures.__file__,
        futures._base.__file__,
    )
    ends = []

    def attempt(place):
        seen = []
        sys.settrace(interrupting(place, seen, files, ("call", "return")))
        try:
            assert local.in_threads(str, range(3)) == ["0", "1", "2"]
            ends.append(place)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        assert local.in_threads(str, range(3)) == ["0", "1", "2"]
        ends.append(place)

    monkeypatch.setattr(local, "n_threads", lambda: 3)
    monkeypatch.setattr(local, "_pool", type(local._pool)())
    place = 0
    while ends.count(place) < 2:
        place += 1
        thread = threading.Thread(target=attempt, args=(place,), daemon=True)
        thread.start()
        thread.join(10)
        assert place in ends
    assert place > 40


def test_an_interrupt_while_others_are_asked_for_help_stops_those_that_help(
    monkeypatch,
):
    """They went on with all items of a call that had ended."""
    begun, go_on, done = threading.Event(), threading.Event(), []
    submit, asked = local._pool.submit, []

    def work(item):
        begun.set()
        go_on.wait(10)
        done.append(item)

    def interrupted(*arguments):
        if asked:
            begun.wait(10)
            threading.Timer(0.1, go_on.set).start()
            raise KeyboardInterrupt
        asked.append(submit(*arguments))

    monkeypatch.setattr(local, "n_threads", lambda: 3)
    monkeypatch.setattr(local._pool, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        local.in_threads(work, range(9))
    assert done == [0]


def test_sigint_is_heard_here(interruptible):
    """Lest the slice of interrupts tries nothing."""
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
