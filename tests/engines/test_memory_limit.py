"""Memory limits that are kept, as another process sees it."""

import os
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from bochner import KernelMachineClassifier, KernelMachineRegressor, settings
from bochner.engines import local
from bochner.settings import as_bytes

statm = pytest.mark.skipif(
    not os.path.exists("/proc/self/statm"), reason="no account of processes"
)

CHILD = """
    import sys
    import numpy as np
    import bochner
    from bochner import BinningFeatures, FourierFeatures
    from bochner.data.array_source import Block
    from bochner.design.design import Design
    from bochner.engines import local
    from bochner.kernels import Gaussian, Laplacian
    from bochner.design.normal import NormalEquations

    local.n_threads = lambda: 2

    class Rows:
        n_outputs, n_parts, columns = 1, 64, 8

        def __init__(self, n_rows, first=0, stop=64):
            self.rows, self.first, self.n_rows = n_rows, first, (stop - first) * n_rows // 64

        def span(self, first, stop):
            return Rows(self.rows, first, stop)

        def blocks(self, rows):
            rng = np.random.default_rng(self.first)
            for start in range(0, self.n_rows, rows):
                size = min(rows, self.n_rows - start)
                yield Block(rng.standard_normal((size, 8), np.float32), np.ones((size, 1)), np.ones(size))

    def moments(n_rows, D):
        features = FourierFeatures(Gaussian(), D, random_state=0).draw(8)
        return lambda: Design(Rows(n_rows), features).moments().weight

    def passes(n_rows, P):
        features = BinningFeatures(Laplacian(), P, n_buckets=64, random_state=0).draw(8)
        return lambda: NormalEquations(Design(Rows(n_rows), features).store(False), 64 * P, 1, np.float32).weight

    for work, size, n_rows, limit in {works}:
        small, large = (globals()[work](n, size) for n in (2000, n_rows))
        small()
        print("ready", flush=True)
        sys.stdin.readline()
        with bochner.settings(memory_limit=f"{{limit}} MB"):
            assert large() == n_rows
        print("done", flush=True)
        sys.stdin.readline()
"""


def resident(process):
    with open(f"/proc/{process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peaks(code, n_works=1):
    """For each work: bytes above those at the word "ready", the largest until
    "done".
    """
    pipes, found = (
        {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True},
        [],
    )
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], **pipes
    ) as process:

        def go_on():
            process.stdin.write("\n")
            process.stdin.flush()

        for _ in range(n_works):
            assert process.stdout.readline() == "ready\n"
            base = largest = resident(process)
            go_on()
            with ThreadPoolExecutor(1) as reader:
                word = reader.submit(process.stdout.readline)
                while not word.done():
                    largest = max(largest, resident(process))
                    time.sleep(0.001)
            assert word.result() == "done\n"
            found.append(largest - base)
            go_on()
        process.wait(60)
        assert process.returncode == 0
    return found


WORKS = [
    ("moments", 400, 200_000, 300),
    ("moments", 1500, 20_000, 300),
    ("passes", 100, 1_000_000, 200),
]


@pytest.mark.slow
@statm
def test_a_pass_stays_within_the_limit():
    found = peaks(CHILD.format(works=WORKS), len(WORKS))
    limits = [1e6 * limit for *_, limit in WORKS]
    assert all(
        most <= 1.1 * limit for most, limit in zip(found, limits, strict=True)
    ), found


DEFAULT = """
    import sys
    import bochner
    model = bochner.KernelMachineRegressor(random_state=0)
    print("ready", flush=True)
    sys.stdin.readline()
    with bochner.settings(memory_limit="300 MB"):
        assert len(model.fit({path!r}, "y").feature_weights_)
    print("done", flush=True)
    sys.stdin.readline()
"""


@statm
def test_a_default_fit_stays_within_the_limit(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100_000, 8), np.float32)
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    rows = pa.table({**{f"x{j}": column for j, column in enumerate(X.T)}, "y": y})
    pa.parquet.write_table(rows, tmp_path / "rows.parquet", row_group_size=50_000)
    (found,) = peaks(DEFAULT.format(path=str(tmp_path / "rows.parquet")))
    assert found <= 330e6  # with the libraries that it loads


@statm
def test_libraries_do_not_count():
    code = """
        import bochner
        with bochner.settings(memory_limit="100 MB") as inside:
            before = inside.memory_base
        import numba, pyarrow.parquet, sklearn.base
        from bochner.settings import resident_bytes
        print(resident_bytes() - before)
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        check=True,
        text=True,
    )
    assert int(found.stdout) < 10e6


def test_other_libraries_give_nothing_back(monkeypatch):
    monkeypatch.setattr(local.ctypes, "CDLL", lambda name: object())
    local.give_back()
    monkeypatch.undo()
    local.give_back()


@pytest.mark.parametrize("make", [KernelMachineRegressor, KernelMachineClassifier])
@pytest.mark.parametrize("limit", [1, "1kB"])
def test_a_limit_that_does_not_hold_the_rows_names_one_that_does(make, limit):
    X = np.random.default_rng(0).normal(size=(150, 3))
    y = np.where(X[:, 0] > 0, 1, 2)
    with (
        settings(memory_limit=limit),
        pytest.raises(MemoryError, match="works") as caught,
    ):
        make(random_state=0).fit(X, y)
    enough = str(caught.value).partition("memory_limit='")[2].partition("'")[0]
    with settings(memory_limit=enough):
        assert make(random_state=0).fit(X, y).score(X, y) > 0.8


@pytest.mark.parametrize("limit", ["1 MB", "2 MB"])
@pytest.mark.parametrize("asked", ["fit", "plan"])
def test_the_limit_that_a_refusal_names_is_little_and_works(limit, asked):
    X = np.random.default_rng(0).normal(size=(3000, 3))
    y = X[:, 0]
    model = KernelMachineRegressor("gaussian", alpha=1.0, random_state=0)
    with settings(memory_limit=limit), pytest.raises(MemoryError) as caught:
        getattr(model, asked)(X, y)
    enough = str(caught.value).partition("memory_limit='")[2].partition("'")[0]
    assert as_bytes(enough) < 160e6
    # Where libraries are still to be loaded, and where they are
    code = f"""
        import numpy as np
        from bochner import KernelMachineRegressor, settings
        X = np.random.default_rng(0).normal(size=(3000, 3))
        with settings(memory_limit={enough!r}):
            model = KernelMachineRegressor("gaussian", alpha=1.0, random_state=0)
            print(model.fit(X, X[:, 0]).score(X, X[:, 0]) > 0.9)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    assert subprocess.check_output(command, text=True) == "True\n"
    with settings(memory_limit=enough):
        model.plan(X, y)
        assert model.fit(X, y).score(X, y) > 0.9


def test_what_is_short_of_a_limit_says_that_it_may_be_raised():
    with (
        settings(memory_limit="3 MB"),
        pytest.raises(MemoryError, match=r"Or raise memory_limit, which is 3\.0 MB\."),
    ):
        local.require_memory(10**12, "A matrix", "Use fewer rows.")


def test_a_plan_within_next_to_nothing_ends():
    with (
        settings(memory_limit=1),
        pytest.raises(MemoryError, match=r"memory_limit allows 0.0 kB.*memory_limit='"),
    ):
        KernelMachineRegressor(features="fourier").plan(np.zeros((100_000, 20)))
