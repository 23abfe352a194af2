"""Batches of callables and iterators are run through once, into a temporary file."""

import copy
import gc
import os
import pickle
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import scipy.sparse as sp

from bochner.sources import imported
from bochner.sources.base import SourceError
from bochner.sources.batches import open_batches
from bochner.sources.schema import Selection

X = np.random.default_rng(0).normal(size=(100, 3))
Y = np.arange(100.0)


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


def factory_source(make):
    return open_batches(partial(pieces, make))


def iterator_source(make):
    return open_batches(pieces(make))


def dense(X):
    if isinstance(X, pa.Table):
        return np.stack([column.to_numpy() for column in X.columns], axis=1)
    return X.toarray() if sp.issparse(X) else X


def rows_of(source, n_bytes=1 << 20):
    batches = [batch for part in source.parts for batch in part.read(n_bytes)]
    beside = [
        None if values[0] is None else np.concatenate(values)
        for values in zip(*(b[1:3] for b in batches))  # noqa: B905
    ]
    return np.vstack([dense(batch.X) for batch in batches]), *beside, len(batches)


@pytest.mark.parametrize("n_bytes", [200, 1 << 20])
@pytest.mark.parametrize("opened", [factory_source, iterator_source])
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
    monkeypatch.setattr(imported, "PART_BYTES", 25 * 24)
    source = iterator_source(MAKERS["pair"])
    assert source.n_rows == 100
    assert len(source.parts) > 3
    back = pickle.loads(pickle.dumps(source.parts))  # noqa: S301 - made here
    assert back == source.parts
    assert np.array_equal(
        np.vstack([batch.X for part in back for batch in part.read()]), X
    )
    folder = source.parts[0].folder.path
    assert sorted(os.listdir(folder)) == ["in-use", "rows"]
    del source
    gc.collect()
    assert not os.path.exists(folder)
    with pytest.raises(SourceError, match=r"the temporary file .* is gone"):
        list(back[0].read())


def test_small_batches_are_written_together():
    source = open_batches(pieces(MAKERS["pandas"], 1))
    assert len(source.parts) == 1
    assert np.array_equal(rows_of(source)[0], X)


def table_of(source):
    return pa.concat_tables([batch.X for part in source.parts for batch in part.read()])


@pytest.fixture(params=["together", "apart"])
def both(request, monkeypatch):
    """Opens two batches, which lie in one part or in two of them, and reads all."""
    if request.param == "apart":
        monkeypatch.setattr(imported, "PART_BYTES", 1)
    return lambda first, second: table_of(open_batches(iter([first, second])))


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        ([1, 2], [2.5], pa.float64()),
        ([None, None], ["x"], pa.string()),
        (["x"], [None], pa.string()),
        (["x"], [float("nan")], pa.string()),
    ],
)
def test_types_that_grow(both, first, second, kind):
    frame = pd.DataFrame({"a": second}) if second != ["x"] else pa.table({"a": second})
    table = both(pa.table({"a": first}), frame)
    assert table["a"].type == kind
    found = [None if value != value else value for value in [*first, *second]]
    assert table["a"].to_pylist() == found


def test_columns_in_another_order_and_selected(both):
    first, second = (
        pa.table({"a": [1, 2], "b": [3, 4], "c": [5, 6]}),
        pa.table({"c": [50], "b": [30], "a": [10]}),
    )
    table = both(first, second)
    assert table.to_pydict() == {"a": [1, 2, 10], "b": [3, 4, 30], "c": [5, 6, 50]}
    types = pa.schema({"a": pa.float32()})
    selection = Selection(("c", "a"), (), pc.field("b") > 3, types=types)
    batches = [(first, np.array([1, 2])), (second, np.array([3]))]
    source = open_batches(lambda: iter(batches), selection)
    found = [batch for part in source.parts for batch in part.read()]
    assert source.schema == pa.schema({"c": pa.int64(), "a": pa.float32()})
    assert pa.concat_tables([batch.X for batch in found]).to_pydict() == {
        "c": [6, 50],
        "a": [2.0, 10.0],
    }
    assert np.concatenate([batch.y for batch in found]).tolist() == [2, 3]
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
        ([X, X[:, :2]], "batch 2: 2 columns, where 3 are expected"),
        ([X, (X, Y)], "batch 2: an array with y, where an array is expected"),
        ([X, sp.csr_array(X)], "batch 2: a sparse matrix, where"),
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
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(SourceError, match=match):
        open_batches(batches() if callable(batches) else iter(batches))
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
    ],
)
def test_callables_that_are_no_factories(factory, match):
    with pytest.raises(SourceError, match=match):
        open_batches(factory)


@pytest.mark.parametrize("when", ["before", "while"])
def test_a_full_disk_is_told(tmp_path, monkeypatch, when):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if when == "before":
        usage = SimpleNamespace(free=100)
        monkeypatch.setattr(imported.shutil, "disk_usage", lambda _: usage)
        told = r"do not fit the disk, of which 0\.00 GB are free after 0\.00 GB of rows"
    else:
        monkeypatch.setattr(imported.pa.ipc, "new_stream", full)
        told = r"cannot be written \(no space left on device\)"
    cure = "; free space there, or set TMPDIR to another folder"
    with pytest.raises(SourceError, match=told + cure):
        open_batches(iter([X]))
    assert os.listdir(tmp_path) == []


def full(*arguments, **options):
    raise OSError(28, "No space left on device")


def test_arrays_without_names_or_bytes():
    with pytest.raises(SourceError, match="columns of arrays have no names"):
        open_batches(lambda: iter([X]), Selection(("a",)))
    with pytest.raises(SourceError, match="batch 1: X is an array of text"):
        open_batches(iter([np.array([[1, "a"]], dtype=object)]))


def test_categories_and_types_differ_from_part_to_part(both):
    """Levels that are numbers stay levels, whatever their order in a batch."""
    first = pd.DataFrame({"a": pd.Categorical([3, 1, 3])})
    second = pd.DataFrame({"a": pd.Categorical([2, 3], categories=[2, 3])})
    table = both(first, second)
    assert pa.types.is_dictionary(table["a"].type) or table["a"].type == pa.int64()
    assert table["a"].to_pylist() == [3, 1, 3, 2, 3]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i8", "u4", "?"])
def test_arrays_keep_their_types_and_targets_their_shapes(dtype):
    values = (10 * X).astype(dtype)
    y = np.stack([Y, Y], axis=1).astype(dtype)
    source = open_batches(iter([(values, y)]))
    ((batch,),) = [list(part.read()) for part in source.parts]
    for found, wanted in ((batch.X, values), (batch.y, y)):
        assert found.dtype == wanted.dtype
        assert np.array_equal(found, wanted)


def test_a_killed_process_leaves_nothing(tmp_path, monkeypatch):
    """What it has written is deleted when another process writes; not what is in
    use.
    """
    code = (
        "import os, signal, numpy as np, bochner\n"
        "source = bochner.open_source(iter([np.ones((9, 2))]))\n"
        "print(source.parts[0].folder.path, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    folder = run.stdout.strip()
    assert os.path.exists(os.path.join(folder, "rows"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first = iterator_source(MAKERS["pair"])
    assert not os.path.exists(folder)
    second = iterator_source(MAKERS["pair"])
    assert len(os.listdir(tmp_path)) == 2
    assert rows_of(first)[0].shape == rows_of(second)[0].shape == X.shape


def test_parts_and_copies_keep_the_file():
    parts = iterator_source(MAKERS["pair"]).parts
    gc.collect()
    copies = copy.deepcopy(parts)
    del parts
    gc.collect()
    assert np.array_equal(np.vstack([b.X for part in copies for b in part.read()]), X)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_fork_deletes_nothing():
    source = iterator_source(MAKERS["pair"])
    code = (
        "import os, sys, numpy as np, bochner\n"
        "source = bochner.open_source(iter([np.ones((9, 2))]))\n"
        "if os.fork() == 0:\n"
        "    sys.exit(0)\n"
        "os.wait()\n"
        "print(sum(len(b.X) for part in source.parts for b in part.read()))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert run.stdout == "9\n"
    assert rows_of(source)[0].shape == X.shape


@pytest.mark.parametrize("broken", ["folder", "lock"])
def test_temporary_folders_that_cannot_be_made_or_locked(tmp_path, monkeypatch, broken):
    if broken == "folder":
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
        with pytest.raises(SourceError, match=r"no temporary folder .* set TMPDIR"):
            iterator_source(MAKERS["pair"])
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        assert rows_of(iterator_source(MAKERS["pair"]))[0].shape == X.shape
        return
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(imported.fcntl, "flock", full)
    source = iterator_source(MAKERS["pair"])
    assert rows_of(source)[0].shape == X.shape
    del source
    gc.collect()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("first", "second", "match"),
    [
        (np.arange(3), np.array(["0", "1", "2"]), "targets are string, but those"),
        (np.arange(3) > 1, np.arange(3), "targets are numbers, but those before are b"),
        (np.ones((3, 2)), np.ones((3, 3)), "numbers in 3 columns, but those before"),
        (np.ones(3), np.ones((3, 2)), "numbers in 2 columns, but those before are nu"),
        (np.ones(3), np.array([1, "a", 2.5], object), "values of several kinds"),
        (np.ones(3), np.array([2**70, 1, 3], object), "values of several kinds"),
        (np.ones(3), np.ones((3, 2, 1)), r"y has shape \(3, 2, 1\)"),
        (np.ones(3), np.ones((3, 0)), r"y has shape \(3, 0\)"),
    ],
)
def test_targets_of_several_kinds(first, second, match):
    pairs = [(X[:3], first), (X[:3], second)]
    with pytest.raises(SourceError, match=rf"batch 2: .*{match}"):
        open_batches(iter(pairs))


def test_targets_that_are_missing_at_first():
    pairs = [(X[:2], np.array([None, None])), (X[:2], np.array(["a", "b"]))]
    source = open_batches(iter(pairs))
    assert [b.y.tolist() for part in source.parts for b in part.read()] == [
        [None, None, "a", "b"]
    ]


@pytest.mark.parametrize(
    ("batches", "match"),
    [
        ([np.ones((3, 0))], "batch 1: the rows have no columns"),
        ([sp.csr_array(X[:3].astype(complex))], "Complex data not supported"),
        (
            [pa.table({"a": [2**60 + 1]}), pa.table({"a": [0.5]})],
            "the generator: the rows cannot be kept in a file",
        ),
    ],
)
def test_rows_that_no_file_holds(batches, match):
    with pytest.raises(SourceError, match=match):
        open_batches(batch for batch in batches)


def test_numbers_of_extended_precision():
    values = X[:3].astype(np.longdouble)
    source = open_batches(iter([(values, values[:, 0])]))
    found, y, *_ = rows_of(source)
    assert np.array_equal(found, X[:3])
    assert np.array_equal(y, X[:3, 0])


def test_more_categories_than_those_of_one_batch():
    frames = [
        pd.DataFrame({"a": pd.Categorical([f"{k}_{j}" for j in range(100)])})
        for k in range(4)
    ]
    table = table_of(open_batches(iter(frames)))
    assert table["a"].to_pylist() == [f"{k}_{j}" for k in range(4) for j in range(100)]


def test_many_batches_of_one_row_take_little_memory(monkeypatch):
    monkeypatch.setattr(imported, "MOST_PIECES", 5)
    source = open_batches(iter([pa.table({"a": [k]}) for k in range(100)]))
    assert table_of(source)["a"].to_pylist() == list(range(100))
