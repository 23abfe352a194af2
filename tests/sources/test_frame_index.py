"""The index of a data frame in a file is no feature, whatever reads the file, but
can be asked for by its name.
"""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import dataset, feather, ipc, parquet

from bochner import KernelMachineRegressor, open_source
from whole_tables import read_table

N = 80
VALUES = np.random.default_rng(0).normal(size=(N, 2))
FRAME = pd.DataFrame(VALUES, columns=["a", "y"])
SHUFFLED = FRAME.sample(frac=1, random_state=0)
NAMED = SHUFFLED.rename_axis("id")


def as_stream(table, path):
    with ipc.new_stream(str(path), table.schema) as stream:
        stream.write_table(table)


WRITERS = {
    "t.parquet": parquet.write_table,
    "t.arrow": lambda table, path: feather.write_feather(table, path),
    "t.arrows": as_stream,
}


def saved(folder, frame, name="t.parquet"):
    folder.mkdir(exist_ok=True)
    WRITERS[name](pa.Table.from_pandas(frame), folder / name)
    return folder / name


def machine():
    return KernelMachineRegressor(
        "gaussian", n_components=16, features="fourier", alpha=1.0, random_state=0
    )


@pytest.mark.parametrize("name", WRITERS)
def test_an_index_without_a_name(tmp_path, name):
    path, plain = (
        saved(tmp_path / "with", SHUFFLED, name),
        saved(tmp_path / "without", FRAME, name),
    )
    source = open_source(path)
    assert source.names == ["a", "y"]
    assert sum(batch.X.num_rows for part in source.parts for batch in part.read()) == N
    model = machine().fit(path, "y")
    assert model.feature_names_in_.tolist() == ["a"]
    np.testing.assert_allclose(
        model.predict(path), model.predict(plain)[SHUFFLED.index], rtol=1e-12
    )


def as_dataset(path):
    return dataset.dataset(path.parent, format=path.suffix[1:])


@pytest.mark.parametrize("opened", [str, lambda path: path.parent, as_dataset])
@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_an_index_with_a_name(tmp_path, name, opened):
    path = saved(tmp_path / "folder", NAMED, name)
    with pytest.warns(
        UserWarning,
        match="Column 'id' is the index of the data frame in the file, and is left "
        "out;",
    ):
        assert open_source(opened(path)).names == ["a", "y"]
    assert open_source(opened(path), columns=["y", "id"]).names == ["y", "id"]
    assert open_source(opened(path), exclude=["id"]).names == ["a", "y"]


@pytest.mark.filterwarnings("ignore:Column 'id' seems to number the rows")
def test_an_index_that_is_the_target_or_an_input(tmp_path):
    path = saved(tmp_path / "folder", NAMED)
    model = machine().fit(path, "id")
    assert model.feature_names_in_.tolist() == ["a", "y"]
    wide = machine().fit(NAMED.reset_index()[["id", "a"]], NAMED["y"].to_numpy())
    assert wide.predict(path).shape == (N,)
    assert machine().plan(path, "id") is not None


def test_files_with_and_without_an_index(tmp_path):
    parquet.write_table(pa.Table.from_pandas(SHUFFLED), tmp_path / "a.parquet")
    parquet.write_table(pa.Table.from_pandas(FRAME), tmp_path / "b.parquet")
    for data in (
        tmp_path,
        [tmp_path / "b.parquet", tmp_path / "a.parquet"],
        dataset.dataset(tmp_path),
    ):
        source = open_source(data)
        assert (source.names, source.n_rows) == (["a", "y"], 2 * N)


def test_what_is_written_again_without_the_words_of_pandas(tmp_path):
    path = saved(tmp_path / "folder", SHUFFLED)
    pl.read_parquet(path).write_parquet(tmp_path / "polars.parquet")
    assert open_source(tmp_path / "polars.parquet").names == ["a", "y"]
    assert open_source(pl.scan_parquet(path)).names == ["a", "y"]


def test_the_command_reads_tables_without_an_index(tmp_path):
    notes = []
    assert read_table(saved(tmp_path, SHUFFLED), note=notes.append).column_names == [
        "a",
        "y",
    ]
    assert notes == []
    assert read_table(saved(tmp_path, NAMED), note=notes.append).column_names == [
        "a",
        "y",
    ]
    assert len(notes) == 1
    assert read_table(saved(tmp_path, NAMED), named=["id"]).column_names == [
        "a",
        "y",
        "id",
    ]


@pytest.mark.parametrize(
    "words",
    [
        b"{",
        b"[]",
        b'{"index_columns": [{"kind": "range"}]}',
        b'{"index_columns": null}',
    ],
)
def test_words_of_pandas_that_name_no_column(tmp_path, words):
    parquet.write_table(
        pa.table({"a": [1, 2]}).replace_schema_metadata({b"pandas": words}),
        tmp_path / "t.parquet",
    )
    assert open_source(tmp_path / "t.parquet").names == ["a"]
