"""Rows of arrays and frames come in parts that depend on the shape alone, as views,
and travel well.
"""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from bochner.sources import memory
from bochner.sources.base import Batch, SourceError
from bochner.sources.memory import MappedArray, of_arrays
from bochner.sources.schema import EVERYTHING, Columns


def travelled(part):
    return pickle.loads(pickle.dumps(part))  # noqa: S301 - made here


@pytest.fixture
def mapped(tmp_path):
    array = np.memmap(tmp_path / "X.bin", np.float32, "w+", 512, (200_000, 5))
    array[:] = np.random.default_rng(0).normal(size=array.shape)
    array.flush()
    return np.memmap(tmp_path / "X.bin", np.float32, "r", 512, (200_000, 5))


def test_parts_follow_the_shape():
    X = np.zeros((200_000, 3))
    assert [part.n_rows for part in of_arrays(X).parts] == [
        65_536,
        65_536,
        65_536,
        3392,
    ]
    wide = np.broadcast_to(0.0, (100, 1 << 20))
    assert [part.n_rows for part in of_arrays(wide).parts] == [2] * 50
    assert len(of_arrays(np.broadcast_to(0.0, (100_000, 1 << 20))).parts) == 4000


def test_arrays_are_views():
    X, y = np.arange(30.0).reshape(10, 3), np.arange(10)
    X.flags.writeable = False
    (part,) = of_arrays(X, y, np.ones(10)).parts
    batches = list(part.read(2 * 24))
    assert [len(batch.X) for batch in batches] == [2] * 5
    assert all(np.shares_memory(batch.X, X) for batch in batches)
    assert np.array_equal(np.concatenate([batch.y for batch in batches]), y)
    assert np.array_equal(
        np.concatenate([batch.weight for batch in batches]), np.ones(10)
    )


@pytest.mark.parametrize(
    "view",
    [
        lambda X: X,
        lambda X: X[7:],
        lambda X: X[::3],
        lambda X: X[:, 1:4:2],
        lambda X: np.asarray(X)[5:].T[1:].T,
    ],
    ids=["whole", "from a row", "every third", "columns", "plain"],
)
def test_mapped_arrays_travel_as_their_place(mapped, view):
    X = view(mapped)
    for part in of_arrays(X).parts:
        sent = pickle.dumps(part)
        assert len(sent) < 2000
        back = pickle.loads(sent)  # noqa: S301 - made above
        assert np.array_equal(back.rows.X, part.rows.X)
        assert not back.rows.X.flags.writeable


def test_what_cannot_be_mapped_travels_as_rows(mapped):
    assert MappedArray.of(mapped[::-1]) is None
    assert MappedArray.of(np.zeros(3)) is None
    part = of_arrays(mapped[:50][::-1]).parts[0]
    assert np.array_equal(travelled(part).rows.X, part.rows.X)


def test_sparse_matrices_of_any_kind():
    dense = np.eye(5)
    for kind in (sp.csr_matrix, sp.csc_array, sp.coo_array):
        source = of_arrays(kind(dense))
        assert source.sparse
        assert source.schema == 5
        ((batch,),) = [list(part.read()) for part in source.parts]
        assert np.array_equal(batch.X.toarray(), dense)


FRAME = {
    "number": [1.5, None, 2.5],
    "text": ["a", None, "b"],
    "flag": [True, False, True],
    "moment": pd.to_datetime(["2024-01-01", None, "2024-01-03"]),
}


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_become_tables_of_one_schema(library, monkeypatch):
    frame = library(FRAME)
    monkeypatch.setattr(memory, "PART_ROWS", 2)
    source = of_arrays(frame)
    assert source.names == list(FRAME)
    tables = [batch.X for part in source.parts for batch in travelled(part).read(1)]
    assert [len(table) for table in tables] == [1, 1, 1]
    assert all(table.schema == source.schema for table in tables)
    whole = pa.concat_tables(tables).to_pydict()
    assert whole["number"] == [1.5, None, 2.5]
    assert whole["text"] == ["a", None, "b"]
    assert whole["flag"] == [True, False, True]
    assert [value is None for value in whole["moment"]] == [False, True, False]


def test_columns_of_objects_have_the_type_of_all_rows(monkeypatch):
    monkeypatch.setattr(memory, "PART_ROWS", 1)
    frame = pd.DataFrame(
        {
            "late": pd.Series([None, "x", "y"], dtype=object),
            "mixed": pd.Series([1, "x", None], dtype=object),
            "numbers": pd.Series([1, 2.5, None], dtype=object),
            "code": pd.Categorical(["p", "q", "p"]),
            "sparse": pd.arrays.SparseArray([0.0, 0.0, 1.0]),
        }
    ).set_axis([5, 5, 5])
    source = of_arrays(frame)
    whole = pa.concat_tables(
        [batch.X for part in source.parts for batch in part.read()]
    )
    assert whole.schema == source.schema
    assert whole.to_pydict() == {
        "late": [None, "x", "y"],
        "mixed": ["1", "x", None],
        "numbers": [1.0, 2.5, None],
        "code": ["p", "q", "p"],
        "sparse": [0.0, 0.0, 1.0],
    }


def test_columns_without_names_are_numbered():
    source = of_arrays(pd.DataFrame(np.eye(2)))
    assert source.names == ["0", "1"]
    assert next(iter(source.parts[0].read())).X.to_pydict() == {
        "0": [1.0, 0.0],
        "1": [0.0, 1.0],
    }


@pytest.mark.parametrize(
    ("X", "y", "match"),
    [
        (np.zeros(3), None, "Expected 2D array, got 1D"),
        (np.zeros((0, 3)), None, "Give a table with rows"),
        (np.zeros((3, 0)), None, "Give a table with rows"),
        (pd.Series([1.0]), None, "got a Series"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), None, "unique"),
        (
            pd.DataFrame({"a": [1j]}),
            None,
            "column 'a' is of type complex128, which Arrow lacks",
        ),
        (np.zeros((3, 1)), np.zeros(2), "y has 2 rows, but X has 3"),
        (np.zeros((3, 1)), 1.0, "y has a single value"),
    ],
)
def test_refusals(X, y, match):
    with pytest.raises(ValueError, match=match):
        of_arrays(X, y)


def test_errors_of_frames_name_rows(monkeypatch):
    frame = pd.DataFrame({"a": pd.Series([1, 2**70], dtype=object)})
    source = of_arrays(frame)
    values = [batch.X.to_pydict() for batch in source.parts[0].read()]
    assert values == [{"a": ["1", str(2**70)]}]
    types = pa.schema({"a": pa.int64()})
    changed = memory.ArrayPart(
        Batch(frame), 0, types, Columns.of(Batch(types.empty_table()), EVERYTHING)
    )
    with pytest.raises((SourceError, OverflowError)):
        list(changed.read())
