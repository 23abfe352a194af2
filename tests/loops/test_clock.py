"""The clock of work, what is said while loops are compiled, and that nothing is
compiled after `bochner warmup`.
"""

import os
import re
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from threading import Event, Thread

import pytest

from bochner.loops.clock import WorkClock
from bochner.selection.budget import Budget


@pytest.fixture
def now(monkeypatch):
    """The moment that it is, in a list, for the test to change."""
    moment = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: moment[0])
    return moment


def test_clock_stands_still_inside(now):
    work = WorkClock()
    start = work.seconds()
    now[0] = 1.0
    with work:
        now[0] = 3.0
        with work:
            now[0] = 6.0
        assert work.seconds() - start == 1.0
        now[0] = 10.0
    now[0] = 12.0
    assert work.seconds() - start == 3.0


def test_clock_stands_still_while_any_thread_is_inside(now):
    """One inside from 1 to 4, the other from 2 to 6."""
    work, entered, leave = WorkClock(), Event(), Event()
    start = work.seconds()

    def other():
        with work:
            entered.set()
            leave.wait()

    now[0] = 1.0
    with work:
        now[0] = 2.0
        thread = Thread(target=other)
        thread.start()
        entered.wait()
        now[0] = 4.0
    now[0] = 6.0
    leave.set()
    thread.join()
    now[0] = 7.0
    assert work.seconds() - start == 2.0


def test_clock_goes_on_in_a_process_that_was_forked(now):
    work = WorkClock()
    work.__enter__()
    work.restart()
    now[0] = 5.0
    assert work.seconds() == 5.0


def test_compilation_is_no_work(now):
    """It takes a hundred seconds here, between the start and the end that Numba
    tells of.
    """
    import numba
    from numba.core import event

    import bochner.loops.compile  # noqa: F401 - which listens

    class Slow(event.Listener):
        def on_start(self, event):
            now[0] += 100.0

        def on_end(self, event):
            pass

    slow, loop = Slow(), numba.njit(lambda x: x + 1)
    budget = Budget(50.0)
    event.register("numba:compile", slow)
    try:
        assert loop(1) == 2
    finally:
        event.unregister("numba:compile", slow)
    assert now[0] >= 100.0
    assert budget.elapsed == 0.0
    assert budget.seconds_left == 50.0


def in_process(code, cache, **options):
    """What a new process prints on standard output, with a cache of its own."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code)]
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
        env=environment,
        **options,
    )
    assert done.returncode == 0
    return done.stdout


BUCKETS = """
    import numpy as np
    from bochner.loops.bins import bucket

    for ids in np.empty((2, 3), np.int32):
        bucket(np.arange(3), 7, ids)
"""


def test_compilation_is_said_on_a_terminal_once(tmp_path):
    main, terminal = os.openpty()
    for _ in range(2):
        in_process(BUCKETS, tmp_path, stderr=terminal)
    os.close(terminal)
    said = b""
    while not said.endswith(b"\n"):
        said += os.read(main, 4096)
    os.set_blocking(main, False)
    with suppress(OSError):
        said += os.read(main, 4096)
    os.close(main)
    assert said.count(b"\n") == 1
    assert said.startswith(b"Compiling inner loops (once; ")
    assert str(tmp_path).encode() in said


def test_a_long_compilation_is_said_once_where_nobody_watches(tmp_path):
    """In a notebook, whose standard error is no terminal, and in a pipe."""
    code = (
        "\n    from bochner.loops import compile\n    compile.PATIENCE = 0.0" + BUCKETS
    )
    code += "    bucket(np.arange(3), np.int32(7), np.empty(3, np.int32))\n"
    said = in_process(code, tmp_path, stderr=subprocess.STDOUT)
    assert re.fullmatch(r"Compiling inner loops \(once; .*\n", said)
    assert str(tmp_path) in said


def test_compilation_is_logged(tmp_path):
    """Once, at the level INFO, whether it takes long or not; in a pipe a short one
    is not said beside it.
    """
    code = (
        "\n    import logging, sys\n    logging.basicConfig(level=logging.INFO, "
        "stream=sys.stdout)" + BUCKETS
    )
    said = in_process(code, tmp_path, stderr=subprocess.STDOUT)
    assert re.fullmatch(r"INFO:bochner:Compiling inner loops \(once; .*\n", said)
    assert in_process(code, tmp_path) == ""


SIGNATURES = """
    from bochner.loops.compile import LOOPS

    print(*(f"{loop.py_func.__name__}{signature}" for loop in LOOPS for signature in loop.signatures), sep="\\n")
"""
WARMUP = """
    import importlib, os, pkgutil
    import bochner.loops
    from bochner import warmup

    warmup()
    done = warmup()
    assert done.compiled == 0
    assert done.kept_before > 50
    assert os.path.isdir(done.folder)
    for module in pkgutil.iter_modules(bochner.loops.__path__):
        importlib.import_module(f"bochner.loops.{module.name}")
    from bochner.loops.compile import LOOPS

    idle = [loop.py_func.__name__ for loop in LOOPS if not loop.signatures]
    assert all(name.startswith("_") for name in idle), idle
"""
FITS = """
    import numpy as np
    import scipy.sparse as sp
    from bochner import BinningFeatures, ConcatenatedFeatures, FourierFeatures, LinearFeatures
    from bochner import KernelMachineClassifier, KernelMachineRegressor
    from bochner.data.array_source import ArraySource
    from bochner.design.design import Design
    from bochner.kernels import Gaussian, Laplacian, SmoothBins

    X = np.random.default_rng(1).standard_normal((120, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.floor(X[:, 3])
    together = [FourierFeatures(Gaussian(2.0), 20), BinningFeatures(Laplacian(4.0), 7), LinearFeatures()]
    for dtype in (np.float32, np.float64):
        rows = X.astype(dtype)
        for options in (
            {"features": "binning", "metric": "isotropic", "n_components": 20},
            {"kernel": Gaussian(2.0), "n_components": 51},
            {"kernel": Gaussian(2.0), "n_components": 50, "solver": "cg", "alpha": 0.1},
            {"features": FourierFeatures(Gaussian(2.0), 30, paired=False)},
            {"features": BinningFeatures(SmoothBins(4.0), 5)},
            {"features": BinningFeatures(Laplacian(4.0), 5, n_buckets=64), "alpha": 0.1, "tol": 1e-6},
            {"features": ConcatenatedFeatures(together)},
            {"solver": "exact", "kernel": Gaussian(2.0)},
        ):
            model = KernelMachineRegressor(random_state=0, **options).fit(rows, y)
            model.predict(rows), model.predict(rows[:1])
        for weights in (None, np.abs(y)):
            for kernel in (Laplacian(4.0), SmoothBins(4.0)):
                features = BinningFeatures(kernel, 4, n_buckets=300).draw(5)
                Design(ArraySource(rows, y[:, np.newaxis], weights), features, dtype).moments()
        sparse = sp.csr_array(rows * (rows > 1))
        bins = KernelMachineRegressor(features="binning", n_components=5, metric="isotropic", random_state=0)
        bins.fit(sparse, y).predict(sparse)
    both = KernelMachineClassifier(features="hybrid", metric="full", n_components=50, random_state=0)
    both.fit(X, y > 0).predict_proba(X)
"""


def signatures(code):
    """Loops with the types of arguments for which a new process has compiled them,
    or taken them from the cache.
    """
    command = [
        sys.executable,
        "-W",
        "error",
        "-c",
        textwrap.dedent(code) + textwrap.dedent(SIGNATURES),
    ]
    return set(
        subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, timeout=300
        ).stdout.splitlines()
    )


def test_nothing_is_compiled_after_warmup():
    """It compiles every loop, and every type of arguments that fits need, and says
    what it did.
    """
    warmed = signatures(WARMUP)
    needed = signatures(FITS)
    assert len(needed) > 20
    assert needed <= warmed
