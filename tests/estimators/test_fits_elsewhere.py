"""Fits whose passes run on an engine: the models of this process, and what is
refused.
"""

from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pyarrow import parquet

from bochner import (
    BinningFeatures,
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    open_source,
    settings,
)
from bochner.kernels import Gaussian, Laplacian
from bochner.selection import policy
from bochner.sources.base import SourceError
from farm import Farm

N, D, GROUP, SAMPLE = 6000, 3, 250, 1500
NAMES = [f"x{j}" for j in range(D)]
FOURIER = FourierFeatures(Gaussian(0.5), 60, random_state=0)
HASHED = BinningFeatures(Laplacian(2.0), n_grids=10, n_buckets=16, random_state=0)
BINS = BinningFeatures(Laplacian(2.0), n_grids=10, random_state=0)


@pytest.fixture(params=["farm", "processes"])
def engine(request):
    return Farm() if request.param == "farm" else request.getfixturevalue("processes")


@pytest.fixture
def streams(monkeypatch):
    """Tables of more than some rows are not gathered."""
    small = replace(policy.POLICY, gathered_rows=1000, sampled_rows=SAMPLE)
    for module in ("bochner.inputs.opened", "bochner.estimators.machine"):
        monkeypatch.setattr(f"{module}.POLICY", small)
    monkeypatch.setattr("bochner.sources.arrow_files.PART_ROWS", GROUP)


def table(n=N):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, D)).astype(np.float32)
    y = np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)
    side = np.where(y > np.median(y), "high", "low")
    more = {"y": y, "z": X[:, 0] - y, "side": side, "w": rng.uniform(0.5, 2.0, n)}
    return pa.table(dict(zip(NAMES, X.T, strict=True)) | more)


@pytest.fixture
def folder(tmp_path):
    rows = table()
    for k in range(3):
        part = rows.slice(k * N // 3, N // 3)
        parquet.write_table(part, tmp_path / f"{k}.parquet", row_group_size=GROUP)
    return tmp_path


def opened(folder, *beside):
    return open_source(folder, columns=[*NAMES, *beside])


def regressor(features=FOURIER, **changes):
    return KernelMachineRegressor(
        **({"features": features, "alpha": 1.0, "random_state": 0} | changes)
    )


def both(fit, engine):
    """The same fit here, and on an engine."""
    here = fit()
    with settings(engine=engine):
        there = fit()
    return here, there


@pytest.mark.parametrize("features", [FOURIER, HASHED], ids=["fourier", "buckets"])
@pytest.mark.parametrize("targets", ["y", ["y", "z"]], ids=["one", "two"])
@pytest.mark.parametrize("weight", [None, "w"], ids=["", "weights"])
def test_regression_by_moments(features, targets, weight, engine, folder, streams):
    beside = [
        *([targets] if isinstance(targets, str) else targets),
        *([weight] if weight else []),
    ]
    fit = lambda: regressor(features).fit(opened(folder, *beside), targets, weight)  # noqa: E731
    here, there = both(fit, engine)
    assert there.solver_ == "direct"
    if features is FOURIER:
        assert_array_equal(there.feature_weights_, here.feature_weights_)
        assert_array_equal(there.intercept_, here.intercept_)
    frame = pl.from_arrow(table()).select(NAMES)
    assert_allclose(there.predict(frame), here.predict(frame), atol=1e-5)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_classification(class_weight, engine, folder, streams):
    def fit():
        machine = KernelMachineClassifier(
            features=FOURIER, alpha=1.0, class_weight=class_weight, random_state=0
        )
        return machine.fit(opened(folder, "side"), "side")

    here, there = both(fit, engine)
    assert_array_equal(there.feature_weights_, here.feature_weights_)
    assert list(there.classes_) == ["high", "low"]


@pytest.mark.slow
@pytest.mark.parametrize("features", [FOURIER, BINS], ids=["fourier", "bins"])
def test_conjugate_gradients(features, engine, folder, streams):
    fit = lambda: regressor(features, solver="cg", tol=1e-4).fit(  # noqa: E731
        opened(folder, "y"), "y"
    )
    here, there = both(fit, engine)
    assert there.n_iter_ == here.n_iter_
    frame = pl.from_arrow(table()).select(NAMES)
    assert_allclose(there.predict(frame), here.predict(frame), atol=1e-4)


@pytest.mark.slow
def test_all_is_chosen(engine, folder, streams):
    fit = lambda: KernelMachineRegressor(  # noqa: E731
        features="fourier", n_components=60, random_state=0
    ).fit(opened(folder, "y"), "y")
    here, there = both(fit, engine)
    assert there.alpha_ == here.alpha_
    assert_array_equal(there.feature_weights_, here.feature_weights_)


@pytest.mark.parametrize("solver", ["direct", "cg"])
def test_refit(solver, engine, folder, streams):
    model = regressor(solver=solver, tol=1e-6).fit(opened(folder, "y"), "y")
    expected = model.feature_weights_
    with settings(engine=engine):
        model.refit(opened(folder, "y"), "y")
    assert_allclose(
        model.feature_weights_, expected, rtol=0, atol=1e-4 * np.abs(expected).max()
    )


def test_prepare_looks_elsewhere(folder, streams):
    farm = Farm()
    here, there = both(
        lambda: regressor(alpha="auto").prepare(opened(folder, "y"), "y"), farm
    )
    assert farm.n_done > 1
    rows = table(500).to_pandas()
    predicted = [
        model.partial_fit(rows[NAMES], rows["y"]).predict(rows[NAMES])
        for model in (here, there)
    ]
    assert_array_equal(*predicted)


def test_small_tables_are_read_here(folder):
    farm = Farm()
    with settings(engine=farm):
        regressor().fit(opened(folder, "y"), "y")
    assert not farm.works


@pytest.mark.slow
def test_tables_that_others_can_read_are_read_here_where_all_rows_are_needed(
    folder, streams, monkeypatch
):
    """More rows than the sample, but not too many for this process."""
    large = replace(policy.POLICY, gathered_rows=10**5, sampled_rows=SAMPLE)
    monkeypatch.setattr("bochner.inputs.opened.POLICY", large)
    farm = Farm()
    exact = regressor(FOURIER, loss="huber")
    with settings(engine=farm):
        exact.fit(opened(folder, "y"), "y")
        assert not farm.works
        exact.refit(opened(folder, "y"), "y")
        regressor().prepare(opened(folder, "y"), "y").partial_fit(
            opened(folder, "y"), "y"
        )
        regressor().fit(opened(folder, "y"), "y")
    assert farm.works


def test_iterators_are_read_from_their_temporary_file(processes, streams):
    rows = table().select([*NAMES, "y"])
    batches = [rows.slice(k, 600) for k in range(0, N, 600)]
    expected = regressor().fit(lambda: iter(batches), "y").feature_weights_
    with settings(engine=processes):
        model = regressor().fit(iter(batches), "y")
    assert_allclose(
        model.feature_weights_, expected, rtol=0, atol=1e-5 * np.abs(expected).max()
    )


def test_large_arrays_are_sent(engine, streams):
    rows = table().to_pandas()
    X, y = rows[NAMES].to_numpy(), rows["y"].to_numpy()
    here, there = both(lambda: regressor().fit(X, y), engine)
    assert_array_equal(there.feature_weights_, here.feature_weights_)


class Blind(Farm):
    """A farm whose workers see no file of the client."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def submit(self, work, *arguments):
        hidden = self.path.rename(self.path.with_name("hidden"))
        try:
            return super().submit(work, *arguments)
        finally:
            hidden.rename(self.path)


def test_files_that_workers_do_not_see(folder, streams, tmp_path):
    rows = tmp_path / "rows"
    rows.mkdir()
    parquet.write_table(table(), rows / "all.parquet", row_group_size=GROUP)
    source = opened(rows, "y")
    with (
        settings(engine=Blind(rows)),
        pytest.raises(SourceError, match=r"all\.parquet: a worker on .*cannot find"),
    ):
        regressor().fit(source, "y")


def test_a_plan_tells_who_works(folder, streams):
    machine, source = regressor(), opened(folder, "y")
    assert "workers" not in str(machine.plan(source, "y"))
    with settings(engine=Farm(3)):
        assert "3 of Farm" in str(machine.plan(source, "y"))
        assert "workers" not in str(machine.plan(np.zeros((100, D))))
