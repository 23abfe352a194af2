"""Kernels, machines and commands that several test modules share."""

import os

os.environ.setdefault(
    "SCIPY_ARRAY_API", "1"
)  # read by SciPy at import; lets scikit-learn's array API checks run

import gc
import json
import multiprocessing
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from multiprocessing import forkserver
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import exact
import machines
import tiers
from bochner.cli.app import app
from bochner.kernels import (
    Additive,
    Cauchy,
    Gabor,
    Gaussian,
    Hamming,
    Hat,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Periodic,
    PowerExponential,
    RationalQuadratic,
    SpectralMixture,
    StudentT,
    Subspace,
)
from bochner.loops import compile

# Which tests are slow, and how it is checked that no other is.
pytest_addoption, pytest_configure = tiers.pytest_addoption, tiers.pytest_configure
pytest_sessionstart = tiers.pytest_sessionstart
pytest_collection_modifyitems = tiers.pytest_collection_modifyitems
pytest_runtest_call, slowness = tiers.pytest_runtest_call, tiers.slowness

# Lest tests of standard error find a line more where the cache is empty
compile.COMPILATIONS.printed = True
ROOT = Path(__file__).parents[1]
# What processes that work for a test need, and take seconds to import.
PRELOADED = (
    "sklearn.linear_model",
    "pyarrow.parquet",
    "numba",
    "pandas",
    "distributed",
    "bochner.engines.dask",
    "bochner",
)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Thousands of tests stay as long as the process: nobody looks for garbage among
    them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def spread(d):
    """One lengthscale per feature."""
    return np.linspace(0.7, 2.0, d)


def combinations(d):
    """A matrix of two rows that leaves no column out."""
    return np.round([np.cos(np.arange(d)), np.sin(1 + np.arange(d))], 3)


@dataclass(frozen=True)
class Case:
    """A kernel for d features and its formula; whether it is a leaf, falls to 0
    without sign, and takes codes only.
    """

    kernel: Callable[[int], Kernel]
    formula: Callable[[np.ndarray], float]
    leaf: bool = True
    falls: bool = True
    codes: bool = False

    def exact(self, X, Y):
        return exact.gram(self.formula, X, Y)


def ard(kernel, formula, **options):
    return Case(
        lambda d: kernel(spread(d), **options),
        lambda t: formula(t, spread(len(t)), **options),
    )


def plain(kernel, formula, lengthscale, **options):
    return Case(
        lambda d: kernel(lengthscale, **options),
        partial(formula, lengthscale=lengthscale, **options),
    )


CASES = {
    "gaussian": plain(Gaussian, exact.gaussian, 1.5),
    "gaussian-ard": ard(Gaussian, exact.gaussian),
    "laplacian": plain(Laplacian, exact.laplacian, 3.0),
    "laplacian-ard": ard(Laplacian, exact.laplacian),
    "cauchy": plain(Cauchy, exact.cauchy, 2.0),
    "cauchy-ard": ard(Cauchy, exact.cauchy),
    "hat": plain(Hat, exact.hat, 4.0),
    "hat-ard": ard(Hat, exact.hat),
    "matern12": plain(Matern, exact.matern, 2.5, nu=0.5),
    "matern32": plain(Matern, exact.matern, 2.0, nu=1.5),
    "matern52-ard": ard(Matern, exact.matern, nu=2.5),
    "matern-0.8": plain(Matern, exact.matern, 2.0, nu=0.8),
    "matern-60": plain(Matern, exact.matern, 1.5, nu=60),
    "matern-inf": plain(Matern, exact.matern, 1.5, nu=np.inf),
    "rational-0.7": plain(RationalQuadratic, exact.rational_quadratic, 1.5, alpha=0.7),
    "rational-3-ard": ard(RationalQuadratic, exact.rational_quadratic, alpha=3.0),
    "student": plain(StudentT, exact.student_t, 1.5, nu=2.0),
    "power-1.5-ard": ard(PowerExponential, exact.power_exponential, power=1.5),
    "power-0.7": plain(PowerExponential, exact.power_exponential, 3.0, power=0.7),
    "power-2": plain(PowerExponential, exact.power_exponential, 2.0, power=2),
    "gabor": Case(
        lambda d: Gabor(2.0, [0.2 / (j + 1) for j in range(d)]),
        lambda t: exact.gabor(t, 2.0, 0.2 / np.arange(1, len(t) + 1)),
        leaf=False,
        falls=False,
    ),
    "spectral": Case(
        lambda d: SpectralMixture(
            [1.0, 0.3], [[0.0] * d, [0.1] * d], [[0.1] * d, [0.02] * d]
        ),
        lambda t: exact.spectral_mixture(t, [1.0, 0.3], [0.0, 0.1], [0.1, 0.02]),
        leaf=False,
        falls=False,
    ),
    "periodic": Case(
        lambda d: Periodic(1.5, 4.0),
        lambda t: exact.periodic(t, 1.5, 4.0),
        leaf=False,
        falls=False,
    ),
    "periodic-times-decay": Case(
        lambda d: Periodic(2.0, 1.0 + np.arange(d)) * Matern(4.0),
        lambda t: (
            exact.periodic(t, 2.0, 1.0 + np.arange(len(t))) * exact.matern(t, 4.0)
        ),
        leaf=False,
    ),
    "subspace": Case(
        lambda d: Subspace(Laplacian(spread(1)), [d - 1]) * Gaussian(2.0),
        lambda t: exact.laplacian(t[-1:], spread(1)) * exact.gaussian(t, 2.0),
        leaf=False,
    ),
    "linear": Case(
        lambda d: Linear(Matern(spread(2)) * Gaussian(2.0), combinations(d)),
        lambda t: (
            exact.matern(combinations(len(t)) @ t, spread(2))
            * exact.gaussian(combinations(len(t)) @ t, 2.0)
        ),
        leaf=False,
    ),
    "additive": Case(
        lambda d: 0.5 * Additive(Matern(2.0), [[0], list(range(d))]),
        lambda t: 0.5 * (exact.matern(t[:1], 2.0) + exact.matern(t, 2.0)),
        leaf=False,
        falls=False,
    ),
    "hamming": Case(
        lambda d: Hamming(2.0) * Hamming(spread(d)),
        lambda t: exact.hamming(t, 2.0) * exact.hamming(t, spread(len(t))),
        leaf=False,
        falls=False,
        codes=True,
    ),
    "scaled": Case(
        lambda d: 2.5 * Matern(2.0, nu=1.5),
        lambda t: 2.5 * exact.matern(t, 2.0, 1.5),
        leaf=False,
    ),
    "sum": Case(
        lambda d: 2.0 * Gaussian(1.2) + Laplacian(spread(d)),
        lambda t: 2.0 * exact.gaussian(t, 1.2) + exact.laplacian(t, spread(len(t))),
        leaf=False,
    ),
    "product": Case(
        lambda d: Gaussian(2.0) * Cauchy(spread(d)) * 0.5,
        lambda t: 0.5 * exact.gaussian(t, 2.0) * exact.cauchy(t, spread(len(t))),
        leaf=False,
    ),
    "sum-times-sum": Case(
        lambda d: (
            (Gaussian(2.0) + 0.5 * Laplacian(4.0)) * (Matern(3.0, nu=0.5) + Cauchy(5.0))
        ),
        lambda t: (
            (exact.gaussian(t, 2.0) + 0.5 * exact.laplacian(t, 4.0))
            * (exact.matern(t, 3.0, 0.5) + exact.cauchy(t, 5.0))
        ),
        leaf=False,
    ),
}


@pytest.fixture(params=CASES)
def case(request):
    """Every kernel, with its formula."""
    return CASES[request.param]


@pytest.fixture(params=[name for name, case in CASES.items() if case.leaf])
def leaf(request):
    """Every kernel that is no combination, with its formula."""
    return CASES[request.param]


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Matrices here are small: threads of BLAS, and of OpenMP in scikit-learn, would
    only wait for one another.
    """
    with threadpool_limits(limits=1):
        yield


def fitted_once(name):
    """A fixture that fits a machine once in a process."""

    @pytest.fixture(scope="session", name=name)
    def shared(tmp_path_factory):
        return machines.BUILDERS[name](tmp_path_factory.mktemp(name))

    return shared


# Six machines that are only read: see machines.py
price_regressor = fitted_once("price_regressor")
kind_classifier = fitted_once("kind_classifier")
sold_classifier = fitted_once("sold_classifier")
line_regressor = fitted_once("line_regressor")
bins_regressor = fitted_once("bins_regressor")
hybrid_regressor = fitted_once("hybrid_regressor")


@pytest.fixture(params=machines.BUILDERS)
def shared_machine(request):
    """Each of the six machines."""
    return request.getfixturevalue(request.param)


@pytest.fixture(autouse=True)
def machines_are_only_read(request):
    """Fail a test that changes a machine that tests share."""
    yield
    for name in machines.BUILDERS.keys() & set(request.fixturenames):
        request.getfixturevalue(name).check()


@pytest.fixture(scope="session")
def new_process():
    """How to start other processes: forked from one that has imported what they
    need, and has nothing of this one.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [name for name in PRELOADED if find_spec(name.partition(".")[0])]
    )
    forkserver.ensure_running()
    return context


@pytest.fixture(scope="module")
def processes(new_process):
    """Two processes, by an executor."""
    with ProcessPoolExecutor(2, new_process) as pool:
        yield pool


@pytest.fixture(scope="session")
def local_cluster(new_process):
    """Clusters of Dask on this machine, each within a `with` statement, by a client
    of it.
    """
    dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")

    @contextmanager
    def started(n_workers=2, threads=1, **options):
        options = {
            "processes": True,
            "dashboard_address": ":0",
            "silence_logs": 60,
        } | options
        with (
            dask.config.set(
                {"distributed.worker.multiprocessing-method": "forkserver"}
            ),
            distributed.LocalCluster(
                n_workers=n_workers, threads_per_worker=threads, **options
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield client

    return started


@pytest.fixture(scope="module")
def client(local_cluster):
    """A client of a cluster of two processes."""
    with local_cluster() as client:
        yield client


@pytest.fixture
def little_memory(monkeypatch):
    """A machine with a thousand bytes to spare."""
    monkeypatch.setattr("bochner.engines.local.available_memory", lambda: 1000)


@pytest.fixture
def policy(monkeypatch):
    """Change tuned constants, wherever they are read."""

    def change(**values):
        changed = replace(sys.modules["bochner.selection.policy"].POLICY, **values)
        for name, module in list(sys.modules.items()):
            if name.startswith("bochner.") and hasattr(module, "POLICY"):
                monkeypatch.setattr(module, "POLICY", changed)

    return change


@pytest.fixture
def frozen():
    """Turn arrays into read-only copies."""

    def freeze(*arrays):
        copies = [np.array(array) for array in arrays]
        for copy in copies:
            copy.flags.writeable = False
        return copies[0] if len(copies) == 1 else copies

    return freeze


@pytest.fixture
def checkout():
    if not (ROOT / "pyproject.toml").exists() or not (ROOT / "src").exists():
        pytest.skip("not in a checkout of the repository")
    return ROOT


def strict(text):
    """Parse one JSON object, refusing NaN and Infinity."""
    return json.loads(
        text, parse_constant=lambda name: pytest.fail(f"JSON holds {name}")
    )


@pytest.fixture
def run(capsys):
    """Run the command in this process: exit code, standard output and standard
    error.
    """

    def call(*args):
        with pytest.raises(SystemExit) as caught:
            app([str(arg) for arg in args], prog_name="bochner")
        out, err = capsys.readouterr()
        return caught.value.code, out, err

    return call


@pytest.fixture
def done(run):
    """Run the command, which must succeed in silence on standard error; its report
    by --json.
    """

    def call(*args):
        code, out, err = run(*args, "--json")
        assert (code, err) == (0, "")
        return strict(out)

    return call


@pytest.fixture
def refused(run):
    """Run the command, which must fail with one line on standard error and leave the
    folder as it was; the line.
    """

    def call(*args, code=1):
        before = sorted(os.listdir())
        ended, out, err = run(*args)
        assert (ended, out) == (code, "")
        assert sorted(os.listdir()) == before
        if code == 1:
            assert err.startswith("error: ")
            assert err.count("\n") == 1
            assert "Traceback" not in err
        return err

    return call


@pytest.fixture
def interruptible():
    """Interrupts are heard, also where the tests run in the background of a shell,
    which lets them pass.
    """
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)
