"""Two tiers of tests: what is marked or listed as slow runs by `pytest -m slow`, all
else by `pytest`.
"""

import time
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from bochner.loops.compile import DiskCache

COMPILED = []  # loops that were compiled in this process
TESTS = Path(__file__).parent
SLOW_PLACES = (
    "campaigns",
    "test_benchmarks.py",
    "test_examples.py",
    "test_versions.py",
)
SLOW_CHECKS = (  # of scikit-learn
    "check_classifiers_train",
    "KernelMachineRegressor()-check_regressor_data_not_an_array",
)
# Which start other processes
SLOW_FIXTURES = {"client", "local_cluster", "new_process", "processes"}
# Of the processor, that a test outside of the slow tier may take on the machine below
MOST_SECONDS = 1.0
# Times these seconds, as a thread beside it on the same core slows a test down, and
# as the first test that uses a library pays for what the library reads once
NOISE = 3.0
REFERENCE_SECONDS = 0.145  # of `reference_work` on an Intel Xeon of 2023, 2.3 GHz


def pytest_sessionstart():
    """Take note of the loops that tests compile, once on a new machine: their
    seconds do not count.
    """
    save = DiskCache.save_overload

    def noting(self, *arguments):
        COMPILED.append(self)
        return save(self, *arguments)

    DiskCache.save_overload = noting


def pytest_addoption(parser):
    parser.addoption(
        "--check-seconds",
        action="store_true",
        help="fail a test that is not marked as slow and takes more than "
        f"{MOST_SECONDS:g} s of the processor",
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "slow: takes more than a second of the processor, or starts other processes",
    )


def pytest_collection_modifyitems(items):
    """Mark tests of slow places, and those that start other processes."""
    slow = tuple(str(TESTS / place) for place in SLOW_PLACES)
    for item in items:
        fixtures = SLOW_FIXTURES & set(getattr(item, "fixturenames", ()))
        is_slow = any(check in item.name for check in SLOW_CHECKS)
        if is_slow or fixtures or str(item.path).startswith(slow):
            item.add_marker(pytest.mark.slow)


def reference_work():
    """Work of the kind that tests do: small matrices, and Python."""
    rng = np.random.default_rng(0)
    with threadpool_limits(1):
        for _ in range(20):
            A = rng.normal(size=(150, 150))
            np.linalg.eigh(A + A.T)
            sum(float(k) ** 0.5 for k in range(20_000))


def seconds_of(work):
    """Seconds of the processor."""
    start = time.process_time()
    work()
    return time.process_time() - start


@pytest.fixture(scope="session")
def slowness(request):
    """How many times slower this machine is than the one of the reference."""
    # What the first test that uses it would otherwise pay for: imports, and compiled
    # loops that are read.
    import dask.dataframe
    import distributed
    import matplotlib.pyplot
    import pandas
    import polars
    from hypothesis import given, settings, strategies
    from sklearn.datasets import load_iris

    from bochner import KernelMachineClassifier, KernelMachineRegressor

    X, y = load_iris(return_X_y=True)
    X, y = (
        np.tile(X, (3, 1)) + np.random.default_rng(0).normal(size=(450, 4)),
        np.tile(y, 3),
    )
    for features in ("fourier", "hybrid"):
        KernelMachineRegressor(features=features, random_state=0).fit(
            X, X[:, 0]
        ).explain(X[:2])
    KernelMachineClassifier(random_state=0).fit(X, y).predict(X)

    # Hypothesis draws up its table of characters with the first text.
    @settings(max_examples=1, database=None)
    @given(strategies.text())
    def draw_one_text(text):
        pass

    draw_one_text()
    del dask, distributed, matplotlib, pandas, polars
    return measured_slowness()


def measured_slowness():
    """How many times slower this machine is now, at least 1."""
    seconds = min(seconds_of(reference_work) for _ in range(5))
    return max(seconds / REFERENCE_SECONDS, 1.0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fail a test that takes too long for its tier, where that is to be checked."""
    if not item.config.getoption("--check-seconds") or item.get_closest_marker("slow"):
        return (yield)
    most = NOISE * MOST_SECONDS * item._request.getfixturevalue("slowness")
    start, n_compiled = time.process_time(), len(COMPILED)
    result = yield
    seconds = time.process_time() - start
    if seconds > most:
        # A shared machine may have become slower since the session began.
        most = max(most, NOISE * MOST_SECONDS * measured_slowness())
    if seconds > most and len(COMPILED) == n_compiled:
        pytest.fail(
            f"{item.nodeid} takes {seconds:.2f} s of the processor, and {most:.2f} "
            "at most: mark it as slow."
        )
    return result
