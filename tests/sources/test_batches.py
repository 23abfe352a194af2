"""Batches of callables come again at each call; those of iterators are kept in a
temporary file.
"""

import gc
import os
import pickle
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import scipy.sparse as sp

from bochner.sources import batches
from bochner.sources.base import SourceError
from bochner.sources.batches import open_factory, open_iterator
from bochner.sources.schema import Selection

X = np.random.default_rng(0).normal(size=(100, 3))
Y = np.arange(100.0)
SAYS = "can be read only once, and is written to"


def pieces(make, size=30):
    for start in range(0, 100, size):
        yield make(slice(start, start + size))


MAKERS = {
    "array": lambda rows: X[rows],
    "float32": lambda rows: X[rows].astype(np.float32),
    "csr": lambda rows: sp.csr_array(X[rows]),
    "coo": lambda rows: sp.coo_array(X[rows]),
    "pair": lambda rows: (X[rows], Y[rows]),
    "labels": lambda rows: (X[rows], [f"{k % 3}" for k in range(100)][rows]),
    "weighted": lambda rows: (X[rows], Y[rows], np.ones(100)[rows]),
    "sparse pair": lambda rows: (sp.csr_array(X[rows]), Y[rows]),
    "pandas": lambda rows: pd.DataFrame(X[rows], columns=list("abc")),
    "polars": lambda rows: pl.DataFrame(X[rows], schema=list("abc")),
    "table": lambda rows: pa.table({"a": X[rows, 0], "b": X[rows, 1]}),
    "record batch": lambda rows: pa.record_batch({"a": X[rows, 0], "b": X[rows, 1]}),
    "table and y": lambda rows: (pa.table({"a": X[rows, 0]}), Y[rows]),
}


def factory_of(make):
    return partial(pieces, make)


def factory_source(make):
    return open_factory(factory_of(make))


def spilled_of(make):
    with pytest.warns(UserWarning, match=SAYS):
        return open_iterator(pieces(make))


def dense(X):
    if isinstance(X, pa.Table):
        return np.stack([column.to_numpy() for column in X.columns], axis=1)
    return X.toarray() if sp.issparse(X) else X


def rows_of(source, n_bytes=1 << 20):
    batches = [batch for part in source.parts for batch in part.read(n_bytes)]
    beside = [
        None if values[0] is None else np.concatenate(values)
        for values in zip(*(b[1:] for b in batches))  # noqa: B905
    ]
    return np.vstack([dense(batch.X) for batch in batches]), *beside, len(batches)


@pytest.mark.parametrize("n_bytes", [200, 1 << 20])
@pytest.mark.parametrize("opened", [factory_source, spilled_of])
@pytest.mark.parametrize("maker", MAKERS)
def test_rows_come_as_they_were_yielded(maker, opened, n_bytes):
    make = MAKERS[maker]
    whole = make(slice(None))
    source = opened(make)
    for _ in range(2):
        found, y, weight, count = rows_of(source, n_bytes)
        wanted = whole if isinstance(whole, tuple) else (whole,)
        assert np.array_equal(found, X[:, : found.shape[1]].astype(found.dtype))
        assert (y is None) == (len(wanted) < 2)
        assert y is None or y.tolist() == list(wanted[1])
        assert (weight is None) == (len(wanted) < 3)
        assert (count > 4) == (n_bytes == 200)
    assert source.sparse == ("csr" in maker or "coo" in maker or "sparse" in maker)


def test_parts_of_iterators_are_counted_and_travel(monkeypatch):
    monkeypatch.setattr(batches, "PART_BYTES", 25 * 24)
    source = spilled_of(MAKERS["pair"])
    assert source.n_rows == 100
    assert len(source.parts) > 3
    back = pickle.loads(pickle.dumps(source.parts))  # noqa: S301 - made here
    assert back == source.parts
    assert np.array_equal(
        np.vstack([batch.X for part in back for batch in part.read()]), X
    )
    folder = source.owner.path
    assert os.listdir(folder) == ["rows"]
    del source
    gc.collect()
    assert not os.path.exists(folder)
    with pytest.raises(SourceError, match="the temporary file is gone"):
        list(back[0].read())


def test_small_batches_are_written_together():
    with pytest.warns(UserWarning, match=SAYS):
        source = open_iterator(pieces(MAKERS["pandas"], 1))
    assert len(source.parts) == 1
    assert np.array_equal(rows_of(source)[0], X)


def twice(first, second):
    """Opens two batches both ways, and reads all."""
    with pytest.warns(UserWarning, match=SAYS):
        source = open_iterator(iter([first, second]))
    tables = [
        pa.concat_tables([batch.X for part in source.parts for batch in part.read()])
    ]
    part = open_factory(lambda: iter([first, second])).parts[0]
    return [
        *tables,
        pa.concat_tables(
            [batch.X for batch in part.read()], promote_options="permissive"
        ),
    ]


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        ([1, 2], [2.5], pa.float64()),
        ([None, None], ["x"], pa.string()),
        (["x"], [None], pa.string()),
        (["x"], [float("nan")], pa.string()),
    ],
)
def test_types_that_grow(first, second, kind):
    frame = pd.DataFrame({"a": second}) if second != ["x"] else pa.table({"a": second})
    for table in twice(pa.table({"a": first}), frame):
        assert table["a"].type == kind
        found = [None if value != value else value for value in [*first, *second]]
        assert table["a"].to_pylist() == found


def test_columns_in_another_order_and_selected():
    first, second = (
        pa.table({"a": [1, 2], "b": [3, 4], "c": [5, 6]}),
        pa.table({"c": [50], "b": [30], "a": [10]}),
    )
    for table in twice(first, second):
        assert table.to_pydict() == {"a": [1, 2, 10], "b": [3, 4, 30], "c": [5, 6, 50]}
    selection = Selection(("c", "a"), (), pc.field("b") > 3)
    batches = [(first, np.array([1, 2])), (second, np.array([3]))]
    source = open_factory(
        lambda: iter(batches), selection, pa.schema({"a": pa.float32()})
    )
    found = list(source.parts[0].read())
    assert source.schema == pa.schema({"c": pa.int64(), "a": pa.float32()})
    assert pa.concat_tables([batch.X for batch in found]).to_pydict() == {
        "c": [6, 50],
        "a": [2.0, 10.0],
    }
    assert np.concatenate([batch.y for batch in found]).tolist() == [2, 3]
    with pytest.warns(UserWarning, match=SAYS):
        source = open_iterator(iter(batches), selection)
    assert source.n_rows == 2


def failing():
    yield X
    raise RuntimeError("the line is cut")


@pytest.mark.parametrize(
    ("batches", "match"),
    [
        (
            [pa.table({"a": [1]}), pa.table({"b": [1]})],
            "batch 2: there is no column 'a'",
        ),
        (
            [pa.table({"a": [1]}), pa.table({"a": [1], "b": [1]})],
            "batch 2: column 'b' is not in",
        ),
        (
            [pa.table({"a": [1]}), pa.table({"a": ["x"]})],
            "batch 2: column 'a' is string",
        ),
        ([X, X[:, :2]], "batch 2: 2 columns, but the first batch has 3"),
        ([X, (X, Y)], "batch 2: an array with y, but the first batch is an array"),
        ([X, sp.csr_array(X)], "batch 2: a sparse matrix, but"),
        (
            [(X, Y), (X, Y[:3])],
            "batch 2: y has 3 rows, but X has 100; give one for each row",
        ),
        ([X, X[0]], "batch 2: Expected 2D array"),
        ([X, "text"], "batch 2: a str is not a batch"),
        ([X, None], "batch 2: a NoneType is not a batch"),
        (failing, r"batch 2: RuntimeError \(the line is cut\)"),
        ([], "yields no rows"),
        ([X[:0]], "yields no rows"),
    ],
)
def test_bad_batches_are_named_by_number(batches, match, tmp_path, monkeypatch):
    def run():
        return batches() if callable(batches) else iter(batches)

    def read():
        for part in open_factory(run).parts:
            list(part.read())

    with pytest.raises(SourceError, match=match):
        read()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.warns(UserWarning, match=SAYS), pytest.raises(SourceError, match=match):
        open_iterator(run())
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("factory", "match"),
    [
        (lambda: 5, "returned a int"),
        (lambda: X, "returned a ndarray"),
        (
            lambda: Path("absent").read_text(),
            r"<lambda>\(\): FileNotFoundError \(no such file or directory\)",
        ),
        (lambda: pa.table({"a": [1]}), "not an iterator of batches"),
        (partial(lambda batches: batches, iter([X])), "same iterator again"),
    ],
)
def test_callables_that_are_no_factories(factory, match):
    with pytest.raises(SourceError, match=match):
        open_factory(factory)


def test_a_full_disk_is_told(monkeypatch):
    monkeypatch.setattr(batches, "_write", full)
    told = r"no space left on device\); free space there, or set TMPDIR"
    with pytest.warns(UserWarning, match=SAYS), pytest.raises(SourceError, match=told):
        open_iterator(iter([X]))


def full(file, batch):
    raise OSError(28, "No space left on device")


def test_arrays_without_names_or_bytes():
    with pytest.raises(SourceError, match="columns of arrays have no names"):
        open_factory(lambda: iter([X]), Selection(("a",)))
    with (
        pytest.warns(UserWarning, match=SAYS),
        pytest.raises(SourceError, match="batch 1: an array of objects"),
    ):
        open_iterator(iter([np.array([[1, "a"]], dtype=object)]))
