"""Anything that holds a table can be opened, and what cannot says why."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from pyarrow import dataset, parquet

import bochner
from bochner.sources.base import SourceError
from bochner.sources.opening import is_streamed, open_source


def written(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


@pytest.fixture
def folder(tmp_path):
    for k in range(3):
        written(tmp_path / "rows" / f"{k}.csv", f"x,y\n{k},1\n{k},2\n")
    return tmp_path / "rows"


@pytest.mark.parametrize(
    "place",
    [
        str,
        lambda folder: folder,
        lambda folder: f"{folder}/*.csv",
        lambda folder: sorted(folder.iterdir()),
    ],
    ids=["name", "path", "pattern", "list"],
)
def test_folders_patterns_and_lists(folder, place):
    source = open_source(place(folder))
    assert source.what == "3 CSV files"
    assert source.n_rows == 6
    found = pa.concat_tables(
        [batch.X for part in source.parts for batch in part.read()]
    )
    assert found["x"].to_pylist() == [0, 0, 1, 1, 2, 2]
    assert repr(source) == "TableSource(6 rows x 2 columns: 3 CSV files)"


def test_it_is_public():
    assert bochner.open_source is open_source


@pytest.mark.parametrize(
    ("data", "what", "n_rows"),
    [
        (np.zeros((3, 2)), "an array of float64", 3),
        ([[1, 2], [3, 4]], "an array of int64", 2),
        (sp.eye_array(4).tocsr(), "a sparse matrix", 4),
        (pd.DataFrame({"a": [1]}), "a data frame of pandas", 1),
        (pl.DataFrame({"a": [1]}), "a data frame of polars", 1),
        (pa.table({"a": [1]}), "a data frame of pyarrow", 1),
        (pa.record_batch({"a": [1]}), "a data frame of pyarrow", 1),
    ],
)
def test_what_it_is_in_words(data, what, n_rows):
    source = open_source(data)
    assert (source.what, source.n_rows) == (what, n_rows)


def test_readers_of_record_batches_are_iterators():
    table = pa.table({"a": [1, 2, 3]})
    source = open_source(table.to_reader(1))
    assert source.n_rows == 3


def test_a_sample_is_kept():
    source = open_source(np.zeros((3, 2)), sample=2)
    assert source.sample == 2
    assert open_source(source, sample=1).sample == 1
    assert open_source(source) is source
    for sample in (0, 1.5, "2"):
        with pytest.raises(ValueError, match="sample must be a number of rows"):
            open_source(np.zeros((3, 2)), sample=sample)


def test_names_may_be_a_single_one(folder):
    assert open_source(folder, columns="x").names == ["x"]
    assert open_source(folder, exclude="x").names == ["y"]


def test_libsvm_files_of_any_name(tmp_path):
    path = written(tmp_path / "a9a", "+1 1:1 3:0.5\n-1 qid:3 2:1\n")
    with pytest.raises(
        SourceError, match=r"a9a: a LIBSVM file, it seems; name it \.svm"
    ):
        open_source(path)
    source = open_source(path, schema=5)
    assert (source.schema, source.n_rows, source.sparse, source.what) == (
        5,
        2,
        True,
        "1 LIBSVM file",
    )
    with pytest.raises(SourceError, match="the columns of LIBSVM files have no names"):
        open_source(path, schema=5, columns=["a"])
    text = open_source(written(tmp_path / "t.txt", "a b:1\n1\n"))
    assert text.names == ["a b:1"]


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ("s3://bucket/rows", "s3://bucket/rows: files are read from this machine only"),
        ("absent.csv", r"absent\.csv: no such file"),
        ("absent/*.csv", "no file matches the pattern"),
        ([], "no table|Expected 2D"),
        (np.zeros(3), "Expected 2D array, got 1D"),
        (pd.Series([1.0]), "Series"),
        (np.zeros((2, 2), dtype=complex), None),
    ],
)
def test_refusals(data, match):
    if match is None:
        assert open_source(data).n_rows == 2
        return
    with pytest.raises(ValueError, match=match):
        open_source(data)


def test_wrong_options(folder):
    parquet.write_table(pa.table({"a": [1]}), folder.parent / "t.parquet")
    for data in (np.zeros((2, 2)), folder.parent / "t.parquet"):
        with pytest.raises(SourceError, match="for LIBSVM files only"):
            open_source(data, schema=3)
    with pytest.raises(ValueError, match="the source is already open"):
        open_source(open_source(folder), columns=["x"])
    with pytest.raises(TypeError, match="a dict cannot be opened as a table"):
        open_source({"a": [1]})
    with pytest.raises(TypeError, match="a int cannot be opened"):
        open_source(3)


def test_files_of_several_kinds(folder):
    parquet.write_table(pa.table({"x": [1], "y": [2]}), folder / "3.parquet")
    with pytest.raises(SourceError, match=r"3\.parquet: parquet, but .*0\.csv is csv"):
        open_source(folder)


@pytest.mark.parametrize(
    ("data", "streamed"),
    [
        ("t.csv", True),
        (["a.csv", "b.csv"], True),
        ([[1, 2]], False),
        ([], False),
        (np.zeros((2, 2)), False),
        (sp.eye_array(2), False),
        (pd.DataFrame({"a": [1]}), False),
        (pd.Series([1]), False),
        (pl.DataFrame({"a": [1]}), False),
        (pl.DataFrame({"a": [1]}).lazy(), True),
        (dataset.dataset(pa.table({"a": [1]})), True),
        (pa.table({"a": [1]}), False),
        (pa.table({"a": [1]}).to_reader(), True),
        (iter([1]), True),
        (dict, False),
        (lambda: iter([1]), True),
        (None, False),
        (3.0, False),
    ],
)
def test_what_is_streamed(data, streamed):
    assert is_streamed(data) is streamed


def test_opening_is_light():
    heavy = [
        "numba",
        "pandas",
        "polars",
        "sklearn",
        "pyarrow.parquet",
        "pyarrow.dataset",
        "pyarrow.csv",
    ]
    code = (
        f"import sys, bochner.sources.opening; print([name for name in {heavy} if "
        "name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == "[]"
