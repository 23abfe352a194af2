"""Collections of Dask as sources: partitions that are cut alike, types that are
known, and what is wrong named.
"""

import pickle

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import scipy.sparse as sp

from bochner.sources.base import SourceError
from bochner.sources.dask_parts import (
    Recipe,
    is_collection,
    is_delayed,
    open_collection,
    pieces,
)
from bochner.sources.memory import of_arrays
from bochner.sources.opening import is_streamed, open_source
from bochner.sources.rows import Roles, read_all

N = 600


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "number": rng.normal(size=N).round(3),
            "kind": pd.Categorical(
                np.where(np.arange(N) < 200, "early", rng.choice(["a", "b"], N))
            ),
            "code": pd.Categorical(rng.integers(3, 6, N)),
            "text": pd.Series(rng.choice(["x", "y"], N))
            .where(np.arange(N) % 7 > 0)
            .astype("string"),
            "day": pd.date_range("2020-01-01", periods=N),
            "whole": pd.array(
                np.where(np.arange(N) % 5, np.arange(N), None), dtype="Int64"
            ),
            "truth": rng.integers(0, 2, N).astype(bool),
        }
    )


def rows(source):
    return [batch for part in source.parts for batch in part.read()]


def failing(rows):
    raise KeyError("no such column")


class TestFrames:
    @pytest.mark.parametrize("n", [1, 4])
    def test_columns_of_every_kind_are_those_in_memory(self, frame, n):
        source, held = (
            open_source(dd.from_pandas(frame, npartitions=n)),
            read_all(of_arrays(frame), Roles()).X,
        )
        found = read_all(source, Roles()).X
        assert source.n_rows == N
        assert len(source.parts) == n
        assert found.schema.names == held.schema.names
        for name in found.schema.names:
            assert found[name].to_pylist() == held[name].to_pylist(), name
            assert pa.types.is_dictionary(
                found.schema.field(name).type
            ) == pa.types.is_dictionary(held[name].type)

    def test_categories_that_are_unknown(self, frame):
        lazy = (
            dd.from_pandas(frame[["kind", "code"]], npartitions=3)
            .astype(object)
            .astype("category")
        )
        source = open_source(lazy)
        assert source.schema.field("code").type.value_type == pa.int64()
        assert read_all(source, Roles()).X["code"].to_pylist() == frame["code"].tolist()

    def test_objects_have_the_type_of_the_first_rows(self, frame):
        with dask.config.set({"dataframe.convert-string": False}):
            texts = pd.DataFrame({"text": pd.Series(["x", None] * 10, dtype=object)})
            source = open_source(dd.from_pandas(texts, npartitions=3))
            assert source.schema.field("text").type == pa.string()
            mixed = pd.DataFrame(
                {"some": pd.Series([1] * 10 + ["x"] * 10, dtype=object)}
            )
            source = open_source(dd.from_pandas(mixed, npartitions=2))
        with pytest.raises(
            SourceError,
            match=r"partition 1 of the Dask data frame.*'some' is string, but int64",
        ):
            rows(source)

    def test_only_columns_that_are_needed_are_computed(self, frame):
        def touchy(part):
            assert list(part.columns) == ["number", "truth"]
            return part

        lazy = dd.from_pandas(frame, npartitions=2)
        narrow = lazy[["number", "truth"]].map_partitions(
            touchy, meta=lazy._meta[["number", "truth"]]
        )
        assert open_source(narrow, columns=["truth", "number"]).names == [
            "truth",
            "number",
        ]
        source = open_source(lazy, exclude=["day", "text"], where=pc.field("truth"))
        assert source.n_rows is None
        assert sum(batch.X.num_rows for batch in rows(source)) == frame["truth"].sum()
        assert "day" not in source.names

    @pytest.mark.filterwarnings(
        "ignore:The inplace keyword in DataFrame:DeprecationWarning"
    )  # in Dask itself
    def test_rows_of_parquet_are_counted_by_one_column(self, frame, tmp_path):
        for k, part in enumerate(np.split(np.arange(N), 3)):
            frame[["number", "truth"]].iloc[part].to_parquet(
                tmp_path / f"{k}.parquet", index=False
            )
        source = open_source(dd.read_parquet(tmp_path))
        assert source.n_rows == N
        assert max(len(pickle.dumps(part)) for part in source.parts) < 20_000

    def test_partitions_of_other_columns_and_types(self, frame):
        def other(part, partition_info=None):
            changed = partition_info and partition_info["number"] == 1
            return part.rename(columns={"truth": "lie"}) if changed else part

        def half(part, partition_info=None):
            return (
                part.assign(number=part["number"].astype(str))
                if partition_info["number"] == 2
                else part
            )

        lazy = dd.from_pandas(frame[["number", "truth"]], npartitions=3)
        meta = lazy._meta
        with pytest.raises(
            SourceError,
            match="partition 1 of the Dask data frame: there is no column 'truth'",
        ):
            rows(
                open_source(
                    lazy.map_partitions(other, meta=meta, enforce_metadata=False)
                )
            )
        with pytest.raises(
            SourceError,
            match=r"partition 2 of the Dask data frame: .*'number' is .*string, but",
        ):
            rows(
                open_source(
                    lazy.map_partitions(half, meta=meta, enforce_metadata=False)
                )
            )

    def test_names_that_repeat(self, frame):
        twice = dd.from_pandas(frame[["number"]], npartitions=2)
        with pytest.raises(SourceError, match="column names repeat: 'number'"):
            open_source(dd.concat([twice, twice], axis=1))


class TestArrays:
    def test_chunks_of_columns_become_rows(self):
        X = np.arange(40.0).reshape(10, 4)
        source = open_source(da.from_array(X, chunks=(4, 3)))
        assert [part.n_rows for part in source.parts] == [4, 4, 2]
        assert np.array_equal(np.vstack([batch.X for batch in rows(source)]), X)
        assert [part.name for part in source.parts][
            2
        ] == "partition 2 of the Dask array"

    def test_unknown_chunks_are_counted_once_and_some_may_be_empty(self):
        calls = []

        def noted(block):
            calls.append(len(block))
            return block

        X = np.arange(40.0).reshape(10, 4)
        lazy = da.from_array(X, chunks=(2, 4))
        few = lazy[lazy[:, 0] > 10].map_blocks(
            noted, dtype=float, meta=np.empty((0, 0))
        )
        source = open_source(few)
        assert [part.n_rows for part in source.parts] == [0, 1, 2, 2, 2]
        assert len(calls) == 5
        assert np.array_equal(np.vstack([batch.X for batch in rows(source)]), X[3:])

    def test_sparse_blocks(self):
        X = sp.random_array((60, 5), density=0.3, rng=0, format="csr")
        source = open_source(
            da.from_array(X.toarray(), chunks=(25, 5)).map_blocks(sp.csr_matrix)
        )
        assert source.sparse
        assert np.array_equal(
            sp.vstack([batch.X for batch in rows(source)]).toarray(), X.toarray()
        )

    @pytest.mark.parametrize("kind", ["narrow", "sparse"])
    def test_blocks_that_are_not_what_dask_says(self, kind):
        def mend(block, block_info=None):
            first = block_info[0]["chunk-location"][0] == 0
            return (
                block
                if first
                else block[:, :2]
                if kind == "narrow"
                else sp.csr_matrix(block)
            )

        lazy = da.ones((6, 3), chunks=(3, 3)).map_blocks(
            mend, dtype=float, meta=np.empty((0, 0))
        )
        found = {
            "narrow": "2 columns, where 3 are expected",
            "sparse": "a sparse matrix, where an array is expected",
        }[kind]
        with pytest.raises(
            SourceError,
            match=f"partition 1 of the Dask array: {found}",
        ):
            rows(open_source(lazy))

    @pytest.mark.parametrize(
        ("data", "error"),
        [
            (da.ones(5), "Expected 2D input, got a 1D Array"),
            (
                dd.from_pandas(pd.Series([1.0]), npartitions=1),
                "Expected 2D input, got a 1D Series",
            ),
            (
                da.ones((4, 3), chunks=2)[:, da.ones(3, chunks=2) > 0],
                "compute_chunk_sizes",
            ),
        ],
    )
    def test_shapes_that_are_no_table(self, data, error):
        with pytest.raises(SourceError, match=error):
            open_source(data)

    def test_what_fails_where_it_is_computed(self):
        lazy = da.ones((6, 3), chunks=(3, 3)).map_blocks(
            failing, dtype=float, meta=np.empty((0, 0))
        )
        with pytest.raises(
            SourceError,
            match=r"partition 0 of the Dask array: KeyError .* when it was computed",
        ):
            rows(open_source(lazy))

    def test_columns_have_no_names(self):
        with pytest.raises(SourceError, match="have no names"):
            open_source(da.ones((4, 2)), columns=["a"])


class TestTargets:
    @pytest.mark.parametrize("how", ["array", "series", "numpy", "list", "delayed"])
    def test_of_all_kinds(self, how):
        X, y = np.arange(40.0).reshape(10, 4), np.arange(10.0)
        lazy = da.from_array(X, chunks=(4, 4))
        beside = {
            "array": da.from_array(y, chunks=4),
            "series": dd.from_dask_array(da.from_array(y, chunks=4)),
            "numpy": y,
            "list": y.tolist(),
            "delayed": [dask.delayed(part) for part in np.split(y, [4, 8])],
        }[how]
        batch = read_all(open_collection(lazy, beside, beside), Roles())
        assert np.array_equal(batch.X, X)
        assert np.array_equal(batch.y, y)
        assert np.array_equal(batch.weight, y)

    def test_of_types_with_missing_values(self):
        whole = dd.from_pandas(pd.Series([1, 2, 3, None], dtype="Int64"), npartitions=2)
        X = da.ones((4, 2), chunks=(2, 2))
        first, second = open_collection(X, whole).parts
        assert [next(part.read()).y.dtype.kind for part in (first, second)] == [
            "i",
            "f",
        ]

    def test_partitions_must_be_equal(self):
        X, y = da.ones((10, 2), chunks=(4, 2)), da.ones(10, chunks=4)
        with pytest.raises(
            SourceError, match=r"y has 2 partitions, but X has 3; .*y.rechunk"
        ):
            open_collection(X, y.rechunk(5))
        with pytest.raises(
            SourceError,
            match="partition 1 of sample_weight has 3 rows, but that of X has 4",
        ):
            open_collection(X, y, y.rechunk(((4, 3, 3),)))
        with pytest.raises(
            SourceError, match="partition 2 of y has 1 rows, but that of X has 2"
        ):
            open_collection(X, y[da.arange(10, chunks=4) < 9])
        with pytest.raises(SourceError, match="y has 9 rows, but X has 10"):
            open_collection(X, np.ones(9))


class TestGraphs:
    def test_partitions_stand_alone(self):
        found = pieces(
            da.random.default_rng(0).random((100, 4), chunks=(10, 4)) + 1
        ).blocks
        assert all(isinstance(block, Recipe) for block in found)
        assert max(len(block.graph) for block in found) <= 3

    def test_work_that_all_partitions_share(self):
        X = da.ones((100, 4), chunks=(10, 4))
        with pytest.warns(
            UserWarning, match="share intermediate results, such as a mean"
        ):
            source = open_source(X - X.mean(axis=0))
        assert all(is_delayed(part.X) for part in source.parts)
        assert not np.vstack([batch.X for batch in rows(source)]).any()

    def test_nothing_is_kept(self):
        calls = []

        def noted(block):
            calls.append(len(block))
            return block

        source = open_source(
            da.ones((6, 3), chunks=(3, 3)).map_blocks(
                noted, dtype=float, meta=np.empty((0, 0))
            )
        )
        assert not calls
        for _ in range(2):
            rows(source)
        assert calls == [3, 3] * 2

    def test_what_is_recognised(self):
        X = da.ones((4, 2))
        assert is_collection(X)
        assert is_streamed(X)
        assert is_streamed([dask.delayed(np.ones)((2, 2))])
        assert not is_collection(np.ones(3))
        assert not is_delayed([])
        assert not is_collection(dd.DataFrame)
