"""Plans of fits, before any work."""

import gzip
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import csv, parquet

from bochner import (
    BinningFeatures,
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    open_source,
    settings,
)
from bochner.inputs.opened import FEWEST_SAMPLED, gathers, sampled_rows
from bochner.kernels import Gaussian, Laplacian
from bochner.planning.table_shape import estimated_rows, table_shape
from bochner.selection.policy import POLICY
from bochner.settings import as_size
from bochner.sources.base import TableSource

COLUMNS = 20


@dataclass(frozen=True)
class Unread:
    """A part that knows its rows, and must not be read."""

    n_rows: int
    name: str = "rows"

    def read(self, n_bytes=0):
        pytest.fail("a plan reads no rows")


def table(n_rows, sample=None, columns=COLUMNS):
    schema = pa.schema(
        [(f"x{j}", pa.float32()) for j in range(columns)] + [("y", pa.float64())]
    )
    return TableSource(
        (Unread(n_rows // 2), Unread(n_rows - n_rows // 2)),
        schema,
        "2 Parquet files",
        sample,
    )


def fourier(D, **more):
    return KernelMachineRegressor(features="fourier", n_components=D, **more)


def bins(n_buckets=None, n_grids=50):
    return KernelMachineRegressor(
        features=BinningFeatures(Laplacian(), n_grids, n_buckets=n_buckets)
    )


def test_small_tables_are_gathered():
    found = fourier(500).plan(table(10**6), "y")
    assert (found.gathered, found.sample_rows) == (True, 10**6)
    assert found.passes[0].what == "the files are read"
    assert not fourier(500).plan(table(10**8), "y").gathered
    assert not fourier(500).plan(table(10**6, sample=10_000), "y").gathered
    with settings(memory_limit="0.3 GB"):
        assert not fourier(500).plan(table(10**6), "y").gathered


def test_fourier_features_take_one_pass_after_the_look():
    found = fourier(500).plan(table(10**8), "y")
    assert (found.solver, found.n_passes) == ("direct", 2)
    assert found.sample_rows == sampled_rows(COLUMNS) == POLICY.sampled_rows
    assert 0.5e9 < found.peak_bytes < 1.5e9


def test_bins_take_many_passes_and_those_in_buckets_one():
    found = KernelMachineRegressor().plan(table(10**8), "y")
    assert (found.solver, found.model) == ("cg", "bins of 50 grids")
    assert found.n_passes > 5
    few = bins(n_buckets=128).plan(table(10**8), "y")
    assert (few.solver, few.n_passes) == ("direct", 2)
    assert bins(n_buckets=512).plan(table(10**8), "y").solver == "cg"
    assert bins().plan(table(10**8), "y").solver == "cg"


def test_memory_grows_with_features():
    plans = [
        fourier(D).plan(table(n), "y")
        for D, n in ((500, 10**7), (500, 10**8), (1000, 10**8))
    ]
    assert plans[2].peak_bytes > plans[1].peak_bytes
    assert plans[0].block_rows == plans[1].block_rows == 2 * plans[2].block_rows


def test_a_tight_limit_takes_conjugate_gradients_instead_of_the_gram_matrix():
    assert fourier(3000).plan(table(10**8), "y").solver == "direct"
    with settings(memory_limit="0.5 GB"):
        found = fourier(3000).plan(table(10**8), "y")
    assert found.solver == "cg"
    assert found.reason == "the Gram matrix of 3,000 features does not fit"
    assert found.peak_bytes < 0.5e9


@pytest.mark.parametrize("solver", ["auto", "direct"])
def test_what_does_not_fit_names_what_does(solver):
    with (
        settings(memory_limit="0.5 GB"),
        pytest.raises(MemoryError, match="memory_limit allows 500 MB") as caught,
    ):
        fourier(30_000, solver=solver).plan(table(10**8), "y")
    text = str(caught.value)
    fits = int(text.partition("n_components=")[2].partition(" ")[0])
    enough = text.partition("memory_limit='")[2].partition("'")[0]
    with settings(memory_limit="0.5 GB"):
        assert fourier(fits, solver=solver).plan(table(10**8), "y").peak_bytes <= 0.5e9
    with settings(memory_limit=enough):
        fourier(30_000, solver=solver).plan(table(10**8), "y")


def test_arrays_are_planned_as_they_are_fitted():
    X, y = np.zeros((3000, 5)), np.zeros(3000)
    found = fourier(300).plan(X, y)
    assert (found.gathered, found.solver, found.n_passes) == (True, "direct", 1)
    assert found.model == "300 Fourier features"
    assert KernelMachineRegressor(features="binning").plan(X).solver == "cg"
    assert (
        KernelMachineRegressor(features=FourierFeatures(Gaussian(), 100)).plan(X).solver
        == "direct"
    )
    peaks = [
        KernelMachineClassifier(features="fourier").plan(X, y % n_classes).peak_bytes
        for y in [np.arange(3000)]
        for n_classes in (2, 3, 7)
    ]
    # A column of targets for each class, one for two of them
    assert peaks[0] < peaks[1] < peaks[2]


@pytest.mark.parametrize("given", [{}, {"features": "fourier"}, {"solver": "direct"}])
def test_few_rows_are_planned_as_they_are_fitted(given):
    X = np.random.default_rng(0).standard_normal((60, 2))
    model = KernelMachineRegressor(random_state=0, **given)
    plan = model.plan(X, X[:, 0])
    assert plan.solver == model.fit(X, X[:, 0]).solver_
    assert (plan.model == "the exact kernel") == (plan.solver == "exact")


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_rows_of_text_are_estimated(tmp_path, suffix):
    path, rows = tmp_path / f"rows{suffix}", 30_000
    csv.write_csv(
        pa.table(
            {"x": np.random.default_rng(0).normal(size=rows), "y": np.zeros(rows)}
        ),
        tmp_path / "t.csv",
    )
    text = (tmp_path / "t.csv").read_bytes()
    path.write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
    assert estimated_rows(path) == pytest.approx(rows, rel=0.15)
    found = table_shape(path, "y")
    assert (found.estimated, found.n_columns, found.what) == (True, 1, "1 CSV file")
    assert str(fourier(100).plan(path, "y")).startswith("data     1 CSV file: about ")


def test_paths_tell_their_rows(tmp_path):
    parquet.write_table(
        pa.table({"x": np.zeros(700), "y": np.zeros(700)}), tmp_path / "rows.parquet"
    )
    assert table_shape(tmp_path, "y").n_rows == 700
    assert (
        "700 rows x 1 columns"
        in fourier(100).plan(str(tmp_path / "*.parquet"), "y").data
    )


def test_what_cannot_be_planned():
    rows = pa.table({"x": np.arange(9.0), "y": np.arange(9.0)})
    some = open_source(rows, where=pc.field("y") > 0)
    with pytest.raises(ValueError, match="number of rows is not known"):
        fourier(100).plan(some, "y")
    for batches in (lambda: iter([np.zeros((3, 2))]), iter([np.zeros((3, 2))])):
        with pytest.raises(TypeError, match="batches are read to their end when"):
            fourier(100).plan(batches)
    with pytest.raises(ValueError, match="X must have rows and columns"):
        fourier(100).plan(np.zeros(3))


def test_the_table_is_aligned():
    lines = str(KernelMachineRegressor().plan(table(10**8), "y")).splitlines()
    assert {line[7:9] for line in lines} == {"  "}
    assert lines[0] == f"data     2 Parquet files: 100,000,000 rows x {COLUMNS} columns"


def test_sizes():
    assert gathers(POLICY.gathered_rows, 5)
    assert not gathers(POLICY.gathered_rows + 1, 5)
    assert not gathers(POLICY.gathered_entries // 1000 + 1, 1000)
    sampled = {}
    for limit in ("300 MB", "1 GB", "2 GB"):
        with settings(memory_limit=limit):
            sampled[limit] = sampled_rows(COLUMNS)
            assert gathers(10**6, COLUMNS) == (limit == "2 GB")
    assert sampled_rows(10**6) == FEWEST_SAMPLED
    assert FEWEST_SAMPLED < sampled["300 MB"] < sampled["1 GB"] < sampled_rows(COLUMNS)
    assert (as_size(8.47e8), as_size(1.5e9), as_size(2100)) == (
        "847 MB",
        "1.5 GB",
        "2.1 kB",
    )
