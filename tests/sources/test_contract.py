"""What all sources have in common: the same rows in the same order, again and again,
whatever they are read from.
"""

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import scipy.sparse as sp
from dask import delayed
from pyarrow import csv, dataset, feather, ipc, parquet
from sklearn.datasets import dump_svmlight_file

from bochner.sources import arrow_files, imported, memory
from bochner.sources.base import SourceError
from bochner.sources.opening import open_source

ROWS, NAMES = 3000, ["a", "b", "c", "d"]


def numbers(first=1.0):
    X = np.random.default_rng(0).normal(size=(ROWS, len(NAMES))).round(4)
    X[0, 0] = first
    return X


def table(X):
    return pa.table(dict(zip(NAMES, X.T, strict=True)))


def memmap(folder, X):
    X.tofile(folder / "X.bin")
    return np.memmap(folder / "X.bin", X.dtype, "r", shape=X.shape)


def several(folder, X, ending, write):
    """A folder of three files."""
    for k, rows in enumerate(np.array_split(X, 3)):
        write(table(rows), folder / f"{k}{ending}")
    return folder


def one_group(folder, X):
    parquet.write_table(table(X), folder / "t.parquet", row_group_size=ROWS)
    return str(folder / "t.parquet")


def parquet_groups(folder, X):
    return several(
        folder, X, ".parquet", partial(parquet.write_table, row_group_size=170)
    )


def write_ipc(rows, path):
    with ipc.new_file(path, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=170)


def text_files(ending, mark, folder, X):
    def write(rows, path):
        with pa.output_stream(
            path, compression={"gz": "gzip", "zst": "zstd"}.get(path.suffix[1:])
        ) as stream:
            csv.write_csv(
                rows, stream, csv.WriteOptions(delimiter=mark, quoting_style="none")
            )

    return several(folder, X, ending, write)


def svmlight_file(folder, X):
    dump_svmlight_file(X, np.arange(len(X)), str(folder / "t.svm"), zero_based=False)
    return folder / "t.svm"


def batches_of(make, X):
    for start in range(0, ROWS, 170):
        yield make(X[start : start + 170])


def factory(folder, X):
    return partial(batches_of, table, X)


CASES = {
    "array": lambda folder, X: X,
    "fortran": lambda folder, X: np.asfortranarray(X),
    "memmap": memmap,
    "csr": lambda folder, X: sp.csr_array(X),
    "pandas": lambda folder, X: pd.DataFrame(X, columns=NAMES),
    "polars": lambda folder, X: pl.DataFrame(X, schema=NAMES),
    "arrow": lambda folder, X: table(X),
    "parquet": parquet_groups,
    "one huge group": one_group,
    "ipc": lambda folder, X: several(folder, X, ".arrow", write_ipc),
    "feather": lambda folder, X: several(
        folder, X, ".feather", partial(feather.write_feather, chunksize=170)
    ),
    "csv": partial(text_files, ".csv", ","),
    "csv.gz": partial(text_files, ".csv.gz", ","),
    "csv.zst": partial(text_files, ".csv.zst", ";"),
    "tsv": partial(text_files, ".tsv", "\t"),
    "libsvm": svmlight_file,
    "factory": factory,
    "factory of arrays": lambda folder, X: partial(batches_of, np.array, X),
    "iterator": lambda folder, X: batches_of(table, X),
    "iterator of arrays": lambda folder, X: batches_of(np.array, X),
    "iterator of csr": lambda folder, X: batches_of(sp.csr_array, X),
    "dataset": lambda folder, X: dataset.dataset(parquet_groups(folder, X)),
    "lazy": lambda folder, X: pl.DataFrame(X, schema=NAMES).lazy(),
    "dask array": lambda folder, X: da.from_array(X, chunks=(700, 3)),
    "dask frame": lambda folder, X: dd.from_pandas(
        pd.DataFrame(X, columns=NAMES), npartitions=5
    ),
    "delayed": lambda folder, X: [
        delayed(table(rows), pure=True) for rows in np.array_split(X, 4)
    ],
}
ONE_PART = {"one huge group"}


@dataclass(frozen=True)
class Case:
    """One way to hold numbers, in a folder of its own each time."""

    name: str
    folders: pytest.TempPathFactory

    def open(self, first=1.0, **options):
        """Hold the numbers and open what holds them."""
        data = CASES[self.name](self.folders.mktemp("data"), numbers(first))
        return open_source(data, **options)


@pytest.fixture(params=CASES)
def case(request, tmp_path_factory, monkeypatch):
    """A case whose parts are small."""
    monkeypatch.setattr(memory, "PART_ROWS", 700)
    monkeypatch.setattr(arrow_files, "PART_ROWS", 700)
    monkeypatch.setattr(imported, "PART_BYTES", 1 << 13)
    return Case(request.param, tmp_path_factory)


def dense(X):
    if isinstance(X, pa.Table):
        return np.stack([column.to_numpy() for column in X.columns], axis=1)
    return X.toarray() if sp.issparse(X) else X


def read(source, n_bytes=1 << 24):
    return [batch.X for part in source.parts for batch in part.read(n_bytes)]


class TestSources:
    def test_rows_in_order_twice(self, case):
        source = case.open()
        for _ in range(2):
            assert np.array_equal(
                np.vstack([dense(X) for X in read(source)]), numbers()
            )

    def test_batches_of_any_size(self, case):
        source = case.open()
        small, large = read(source, 1 << 12), read(source)
        assert len(small) > len(large)
        assert np.array_equal(np.vstack([dense(X) for X in small]), numbers())
        assert all(X.shape[0] for X in small)

    def test_what_batches_are(self, case):
        source = case.open()
        for X in read(source):
            assert sp.issparse(X) == source.sparse
            if source.names is None:
                assert source.schema == X.shape[1] == len(NAMES)
            else:
                assert source.names == NAMES
                assert X.schema.equals(source.schema, check_metadata=True)

    def test_counts(self, case):
        source = case.open()
        assert source.n_rows == ROWS
        assert (len(source.parts) == 1) == (case.name in ONE_PART)
        counts = [
            sum(batch.X.shape[0] for batch in part.read()) for part in source.parts
        ]
        assert all(
            part.n_rows in (None, count)
            for part, count in zip(source.parts, counts, strict=True)
        )

    def test_parts_travel_and_are_named(self, case):
        source = case.open()
        parts = pickle.loads(pickle.dumps(source.parts))  # noqa: S301 - made here
        assert np.array_equal(
            np.vstack([dense(batch.X) for part in parts for batch in part.read()]),
            numbers(),
        )
        assert len({part.name for part in parts}) == len(parts)

    def test_parts_are_read_at_once(self, case):
        source = case.open()
        with ThreadPoolExecutor(4) as pool:
            found = list(
                pool.map(
                    lambda part: [dense(batch.X) for batch in part.read(1 << 13)],
                    source.parts,
                )
            )
        assert np.array_equal(np.vstack([X for some in found for X in some]), numbers())

    def test_columns_and_rows_that_are_wanted(self, case):
        options = {"columns": ["c", "a"], "where": pc.field("b") > 0}
        if case.open().names is None:
            with pytest.raises(SourceError, match="have no names"):
                case.open(**options)
            return
        X, source = numbers(), case.open(**options)
        assert source.names == ["c", "a"]
        assert np.array_equal(
            np.vstack([dense(X) for X in read(source)]), X[X[:, 1] > 0][:, [2, 0]]
        )
        assert source.n_rows in (None, (X[:, 1] > 0).sum())
        assert case.open(exclude=("b",)).names == ["a", "c", "d"]

    def test_types_that_are_asked_for(self, case):
        if case.open().names is None:
            return
        source = case.open(schema=pa.schema({"b": pa.float32()}))
        assert source.schema.field("b").type == pa.float32()
        found = pa.concat_tables(read(source))
        assert found["b"].to_pylist() == numbers()[:, 1].astype(np.float32).tolist()
        assert found["a"].type == pa.float64()
        assert case.open(
            columns=["a"], schema=pa.schema({"b": pa.float32()})
        ).names == ["a"]
        with pytest.raises(SourceError, match="schema: no column 'z'"):
            case.open(schema=pa.schema({"z": pa.float32()}))

    def test_absent_columns_are_named(self, case):
        if case.open().names is not None:
            with pytest.raises(SourceError, match="no column 'z'"):
                case.open(columns=["a", "z"])
