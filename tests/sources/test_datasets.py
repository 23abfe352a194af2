"""Datasets and lazy frames hold the rows that Arrow and polars read of them."""

import gc
import os
import pickle

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import dataset as ds
from pyarrow import fs, parquet

from bochner.sources.arrow_files import open_dataset, open_lazy
from bochner.sources.base import SourceError
from bochner.sources.opening import open_source
from bochner.sources.schema import Selection

TABLE = pa.table(
    {
        "x": range(30),
        "year": [2020] * 10 + [None] * 20,
        "town": ["Bern"] * 5 + ["Bad Ems"] * 25,
    }
)
HIVE = ds.partitioning(
    pa.schema([("year", pa.int32()), ("town", pa.string())]), flavor="hive"
)


def rows_of(source):
    return [
        row
        for part in source.parts
        for batch in part.read()
        for row in batch.X.to_pylist()
    ]


@pytest.fixture(params=["parquet", "feather"])
def folder(request, tmp_path):
    ds.write_dataset(TABLE, tmp_path / "rows", format=request.param, partitioning=HIVE)
    return request.param, tmp_path / "rows"


@pytest.mark.parametrize(
    "partitioning", [HIVE, ds.HivePartitioning.discover(infer_dictionary=True)]
)
def test_columns_of_folders(folder, partitioning):
    data = ds.dataset(folder[1], format=folder[0], partitioning=partitioning)
    source = open_dataset(data)
    assert source.schema.names == data.schema.names
    assert source.n_rows == 30
    assert sorted(map(str, rows_of(source))) == sorted(
        map(str, data.to_table().to_pylist())
    )
    assert rows_of(pickle.loads(pickle.dumps(source))) == rows_of(source)  # noqa: S301
    assert repr(source).endswith(": a Dataset in a temporary file)")


class TestFoldersThatHoldColumns:
    """Folders by their path, as pyarrow reads them as a data set."""

    @pytest.fixture
    def root(self, tmp_path):
        table = pa.table(
            {
                "x": range(40),
                "month": [1] * 10 + [12] * 30,
                "town": ["Bern"] * 5 + ["a/b"] * 15 + [None] * 20,
            }
        )
        parquet.write_to_dataset(table, tmp_path / "t", ["month", "town"])
        return tmp_path / "t"

    @pytest.mark.parametrize(
        "wanted",
        [
            {},
            {"columns": ["month"]},
            {"columns": ["town", "x"]},
            {"where": pc.field("month") == 12},
            {"columns": ["x"], "where": pc.field("town") == "a/b"},
        ],
        ids=str,
    )
    def test_as_pyarrow_reads_them(self, root, wanted):
        rows = rows_of(open_source(str(root), **wanted))
        data = ds.dataset(root, partitioning="hive")
        expected = data.to_table(wanted.get("columns"), wanted.get("where"))
        assert sorted(map(str, rows)) == sorted(map(str, expected.to_pylist()))

    def test_a_pattern_and_what_it_names_itself(self, root):
        assert open_source(str(root / "*/*")).schema.names == ["x", "month", "town"]
        assert open_source(str(root / "month=1")).schema.names == ["x", "town"]
        assert open_source(str(root / "month=12/*")).schema.names == ["x", "town"]

    def test_left_out(self, root):
        assert open_source(str(root), exclude="month").schema.names == ["x", "town"]

    def test_the_columns_of_the_files_come_first(self, root):
        rows = pa.table({"x": [1.5], "month": [7], "town": ["Ems"]})
        for file in root.rglob("*.parquet"):
            parquet.write_table(rows, file)
        assert rows_of(open_source(str(root))) == rows.to_pylist() * 4

    def test_a_column_that_one_file_alone_holds_itself(self, root):
        file = max(root.rglob("*.parquet"))
        rows = pa.table({"x": [1], "month": [7], "town": ["Ems"]})
        parquet.write_table(rows, file)
        with pytest.raises(SourceError, match=r"'month'.*exclude it"):
            open_source(str(root))

    def test_other_processes_read_them(self, root):
        source = open_source(str(root))
        assert rows_of(pickle.loads(pickle.dumps(source))) == rows_of(source)  # noqa: S301

    def test_a_file_beside_the_folders(self, root):
        parquet.write_table(pa.table({"x": [1]}), root / "more.parquet")
        with pytest.raises(SourceError, match=r"more.parquet: .* do not hold 'month'"):
            open_source(str(root))

    def test_other_files_have_no_such_columns(self, root, tmp_path):
        (tmp_path / "rows/year=2020").mkdir(parents=True)
        (tmp_path / "rows/year=2020/t.csv").write_text("x,y\n1,2\n")
        with pytest.warns(UserWarning, match="values of 'year', which are read beside"):
            source = open_source(str(tmp_path / "rows"))
        assert source.schema.names == ["x", "y"]


def test_what_is_wanted(folder):
    data = ds.dataset(folder[1], format=folder[0], partitioning=HIVE)
    where = (pc.field("town") == "Bad Ems") & (pc.field("x") > 7)
    source = open_dataset(data, Selection(("year", "x"), where=where))
    assert source.schema.names == ["year", "x"]
    assert sorted(row["x"] for row in rows_of(source)) == list(range(8, 30))
    assert rows_of(open_dataset(data, Selection(("year",)))).count({"year": 2020}) == 10
    assert open_dataset(data, Selection(exclude=("town", "x"))).schema.names == ["year"]
    types = pa.schema([("x", pa.float32())])
    source = open_dataset(data, Selection(types=types))
    assert source.schema.field("x").type == pa.float32()
    for wrong in (Selection(exclude=("twon",)), Selection(("twon",))):
        with pytest.raises(
            SourceError, match=r"^no column 'twon'; did you mean 'town'\?$"
        ):
            open_dataset(data, wrong)


def test_types_of_the_dataset_hold(tmp_path):
    parquet.write_table(TABLE.select(["x"]), tmp_path / "a.parquet")
    source = open_dataset(ds.dataset(tmp_path, schema=pa.schema([("x", pa.float64())])))
    assert source.schema.types == [pa.float64()]
    assert rows_of(source) == TABLE.select(["x"]).to_pylist()


def test_other_file_systems():
    elsewhere, _ = fs.FileSystem.from_uri("mock://")
    with elsewhere.open_output_stream("a.parquet") as file:
        parquet.write_table(TABLE, file)
    source = open_dataset(ds.dataset("a.parquet", filesystem=elsewhere))
    assert rows_of(source) == TABLE.to_pylist()


def test_whatever_a_dataset_is_made_of(tmp_path):
    for k in range(2):
        parquet.write_table(TABLE, tmp_path / f"{k}.parquet", row_group_size=10)
    data = ds.dataset(tmp_path)
    (tmp_path / "t.csv").write_text("x\n1\n")
    part = next(data.get_fragments()).subset(row_group_ids=[1])
    for dataset, x in [
        (data.filter(pc.field("x") > 27), [28, 29] * 2),
        (
            ds.FileSystemDataset([part], data.schema, part.format, part.filesystem),
            list(range(10, 20)),
        ),
        (ds.dataset(tmp_path / "t.csv", format="csv"), [1]),
        (ds.dataset(TABLE), list(range(30))),
    ]:
        assert [row["x"] for row in rows_of(open_dataset(dataset))] == x


def test_datasets_that_cannot_be_read(tmp_path):
    with pytest.raises(SourceError, match="has no rows"):
        open_dataset(ds.dataset([], schema=TABLE.schema))
    parquet.write_table(TABLE, tmp_path / "a.parquet")
    data = ds.dataset(tmp_path)
    (tmp_path / "a.parquet").write_bytes(b"PAR1" * 50)
    with pytest.raises(SourceError, match=r"the Dataset, batch 1: .*copy or write"):
        open_dataset(data)


LAZY = pl.LazyFrame({"x": range(10), "t": ["a", None] * 5}).with_columns(
    c=pl.col("t").cast(pl.Categorical)
)


def test_lazy_frames():
    source = open_lazy(LAZY.filter(pl.col("x") > 2))
    assert rows_of(source) == LAZY.filter(pl.col("x") > 2).collect().to_dicts()
    assert source.n_rows == 7
    folder = source.parts[0].folder.path
    assert pickle.loads(pickle.dumps(source)).parts[0].folder == folder  # noqa: S301
    assert sorted(os.listdir(folder)) == ["in-use", "rows.parquet"]
    del source
    gc.collect()
    assert not os.path.exists(folder)


@pytest.mark.parametrize("where", [None, pc.field("x") < 4])
def test_what_is_wanted_of_lazy_frames(where):
    kept = LAZY.collect().head(10 if where is None else 4)
    assert (
        rows_of(open_lazy(LAZY, Selection(("c", "x"), where=where)))
        == kept.select("c", "x").to_dicts()
    )
    assert (
        rows_of(open_lazy(LAZY, Selection(None, ("c", "x"), where)))
        == kept.select("t").to_dicts()
    )
    types = pa.schema([("x", pa.float32())])
    source = open_lazy(LAZY, Selection(("x",), where=where, types=types))
    assert source.schema.types == [pa.float32()]


@pytest.mark.parametrize(
    "frame", [LAZY.select("q"), pl.scan_parquet("/nothing/at/all.parquet")]
)
def test_lazy_frames_that_cannot_be_computed(frame):
    with pytest.raises(SourceError, match=r"cannot be computed \("):
        open_lazy(frame)


def test_columns_that_a_lazy_frame_does_not_have():
    with pytest.raises(SourceError, match="no column 'q'; there are"):
        open_lazy(LAZY, Selection(("q",)))
