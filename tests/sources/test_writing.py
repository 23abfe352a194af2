"""Tables that are written batch by batch, against Arrow's own reads."""

import os

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from bochner.sources.writing import write_table

ROWS = pa.table({"a": np.arange(10.0), "b": [f"t{k}" for k in range(10)]})
READ = {
    ".parquet": parquet.read_table,
    ".pq": parquet.read_table,
    ".csv": csv.read_csv,
    ".csv.gz": csv.read_csv,
    ".tsv": lambda path: csv.read_csv(
        path, parse_options=csv.ParseOptions(delimiter="\t")
    ),
}


@pytest.mark.parametrize("suffix", READ)
@pytest.mark.parametrize("rows", [1, 3, 10])
def test_batches_are_appended(tmp_path, suffix, rows):
    path = tmp_path / f"out{suffix}"

    def batches():
        for first in range(0, 10, rows):
            yield ROWS.slice(first, rows)
            assert not path.exists()

    assert write_table(batches(), path) == 10
    table = READ[suffix](path)
    assert table.column("b").to_pylist() == ROWS.column("b").to_pylist()
    assert table.column("a").cast(pa.float64()).equals(ROWS.column("a"))
    assert os.listdir(tmp_path) == [path.name]


def test_columns_by_name(tmp_path):
    write_table(
        [{"p": np.zeros(2)}, {"p": np.ones(3, np.float32)}], tmp_path / "out.parquet"
    )
    assert parquet.read_table(tmp_path / "out.parquet").equals(
        pa.table({"p": [0.0, 0, 1, 1, 1]})
    )


def broken():
    yield ROWS
    raise RuntimeError("midway")


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_nothing_is_left_where_the_writing_fails(tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    path.write_text("older")
    with pytest.raises(RuntimeError, match="midway"):
        write_table(broken(), path)
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_text() == "older"


@pytest.mark.parametrize(
    ("name", "batches", "message"),
    [
        ("out.xlsx", [], r"out\.xlsx: the name must end in one of \.csv, "),
        ("out.csv", [], "there are no rows to write"),
        (
            "out.csv",
            [ROWS, ROWS.select(["a"])],
            r"columns \['a'\] follow on \['a', 'b'\]",
        ),
    ],
)
def test_refusals(tmp_path, name, batches, message):
    with pytest.raises(ValueError, match=message):
        write_table(batches, tmp_path / name)
    assert os.listdir(tmp_path) == []
