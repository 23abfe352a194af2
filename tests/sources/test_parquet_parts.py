"""Row groups of Parquet files hold the rows that Arrow reads, and what is damaged or
changes is named.
"""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import parquet

from bochner.sources import arrow_files
from bochner.sources.arrow_files import ParquetPart
from bochner.sources.base import SourceError
from bochner.sources.schema import Selection

N = 5_000
RNG = np.random.default_rng(0)
TABLE = pa.table(
    {
        "x": RNG.normal(size=N).astype(np.float32),
        "n": pa.array(RNG.integers(0, 9, N), mask=RNG.random(N) < 0.1),
        "t": RNG.choice(["one", "two", "three"], N),
        "c": pa.array(RNG.choice(["u", "v"], N)).dictionary_encode(),
        "a.b": RNG.random(N) < 0.5,
        "d": pa.array(RNG.integers(0, 9, N), pa.timestamp("s")).cast(
            pa.timestamp("us")
        ),
    }
)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Three files, which together hold the table; parts of at most 1,000 rows."""
    monkeypatch.setattr(arrow_files, "PART_ROWS", 1_000)
    cuts = [(0, 2_000, 700), (2_000, 2_001, 1), (2_001, N, 300)]
    paths = [tmp_path / f"{k}.parquet" for k in range(len(cuts))]
    for path, (start, stop, rows) in zip(paths, cuts, strict=True):
        parquet.write_table(TABLE.slice(start, stop - start), path, row_group_size=rows)
    return paths


def rows_of(found, **options):
    return pa.concat_tables(
        [batch.X for part in found for batch in part.read(**options)]
    ).unify_dictionaries()


@pytest.mark.slow
@pytest.mark.parametrize("n_bytes", [1, 10_000, 1 << 24])
def test_rows_are_those_of_the_files(files, n_bytes):
    found, schema = ParquetPart.of_files(files, Selection())
    table = rows_of(found, n_bytes=n_bytes)
    assert table.schema == schema == TABLE.schema
    assert table.to_pylist() == TABLE.to_pylist()
    assert [part.n_rows for part in found] == [700, 700, 600, 1, 900, 900, 900, 299]
    names = [part.name.rpartition("/")[2] for part in found]
    assert names[2:5] == [
        "0.parquet, row group 2",
        "1.parquet, row group 0",
        "2.parquet, row groups 0 to 2",
    ]


def test_batches_are_small_where_row_groups_are_not(tmp_path):
    parquet.write_table(TABLE, tmp_path / "one.parquet")
    (part,), _ = ParquetPart.of_files([tmp_path / "one.parquet"], Selection(("x", "n")))
    sizes = [batch.X.nbytes for batch in part.read(n_bytes=4_000)]
    assert len(sizes) > 10
    assert max(sizes) <= 5_000


@pytest.mark.skipif(
    int(pa.__version__.partition(".")[0]) < 23,
    reason="an older Arrow takes more memory",
)
def test_a_huge_row_group_takes_little_memory(tmp_path):
    n = 400_000
    table = pa.table(
        {f"x{k}": np.round(RNG.normal(size=n).astype(np.float32), 2) for k in range(20)}
    )
    parquet.write_table(table, tmp_path / "one.parquet", row_group_size=n)
    (part,), _ = ParquetPart.of_files([tmp_path / "one.parquet"], Selection())
    before = most = pa.total_allocated_bytes()
    for _batch in part.read(n_bytes=1 << 20):
        most = max(most, pa.total_allocated_bytes())
    assert most - before < table.nbytes / 3


def test_long_text_comes_in_small_batches(tmp_path):
    table = pa.table({"t": ["long " * 200] * 3_000})
    parquet.write_table(table, tmp_path / "one.parquet")
    (part,), _ = ParquetPart.of_files([tmp_path / "one.parquet"], Selection())
    batches = [batch.X for batch in part.read(n_bytes=100_000)]
    assert pa.concat_tables(batches).equals(table)
    assert max(batch.nbytes for batch in batches) <= 110_000


def test_columns_and_rows_that_are_wanted(files):
    selection = Selection(("c", "x"), where=pc.field("n") > 4)
    found, schema = ParquetPart.of_files(files, selection)
    assert schema == TABLE.select(["c", "x"]).schema
    assert {part.n_rows for part in found} == {None}
    assert (
        rows_of(found).to_pylist()
        == TABLE.filter(pc.field("n") > 4).select(["c", "x"]).to_pylist()
    )
    found, schema = ParquetPart.of_files(files, Selection(exclude=("x", "a.b")))
    assert schema.names == ["n", "t", "c", "d"]
    assert rows_of(found).to_pylist() == TABLE.select(schema.names).to_pylist()


def test_parts_are_read_again_elsewhere_and_at_once(files):
    found, _ = ParquetPart.of_files(files, Selection())
    copies = pickle.loads(pickle.dumps(found))  # noqa: S301
    with ThreadPoolExecutor(4) as threads:
        tables = list(
            threads.map(lambda part: rows_of([part]).to_pylist(), [*found, *copies] * 3)
        )
    assert [row for table in tables[: len(found)] for row in table] == TABLE.to_pylist()
    assert tables == tables[: len(found)] * 6


def test_columns_in_another_order_of_wider_types_or_without_values(files):
    more = TABLE.select(["t", "x", "a.b", "d", "c", "n"]).slice(0, 50)
    more = more.set_column(1, "x", more["x"].cast(pa.float64())).set_column(
        5, "n", pa.nulls(50)
    )
    parquet.write_table(more.set_column(4, "c", more["c"].cast(pa.string())), files[1])
    found, schema = ParquetPart.of_files(files, Selection())
    assert schema.types == [
        pa.float64(),
        pa.int64(),
        pa.string(),
        pa.string(),
        pa.bool_(),
        pa.timestamp("us"),
    ]
    table = rows_of(found)
    assert table.schema == schema
    assert table.slice(2_000, 50).to_pylist() == more.select(schema.names).to_pylist()


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("n", ["text"] * N, "1.parquet: column 'n' is string, but int64 in "),
        ("t", list(range(N)), "1.parquet: column 't' is int64, but string in "),
        ("x", None, "1.parquet: there is no column 'x', which "),
        ("new", [1] * N, "1.parquet: column 'new' is not in "),
    ],
)
def test_other_columns_in_a_later_file_are_named(files, column, values, message):
    table = TABLE.drop_columns([column] if column in TABLE.column_names else [])
    parquet.write_table(
        table if values is None else table.append_column(column, [values]), files[1]
    )
    with pytest.raises(SourceError, match=message):
        ParquetPart.of_files(files, Selection())
    ParquetPart.of_files(files, Selection(exclude=(column,)))


def test_types_that_are_asked_for(files):
    types = pa.schema([("n", pa.float32()), ("c", pa.string())])
    found, schema = ParquetPart.of_files(files, Selection(types=types))
    assert schema.types == [
        pa.float32(),
        pa.float32(),
        pa.string(),
        pa.string(),
        pa.bool_(),
        pa.timestamp("us"),
    ]
    assert rows_of(found)["c"].to_pylist() == TABLE["c"].to_pylist()
    assert (
        ParquetPart.of_files(files, Selection(("x",), types=TABLE.schema))[1]
        == TABLE.select(["x"]).schema
    )
    types = pa.schema([("tt", pa.float64())])
    with pytest.raises(SourceError, match="schema: no column 'tt'; did you mean 't'"):
        ParquetPart.of_files(files, Selection(types=types))
    types = pa.schema([("t", pa.float64())])
    found, _ = ParquetPart.of_files(files, Selection(types=types))
    with pytest.raises(
        SourceError,
        match=r"0.parquet, row group 0: column 't' does not fit its type double",
    ):
        rows_of(found)


def test_names_are_looked_for_in_every_file(files):
    with pytest.raises(
        SourceError, match=r"0.parquet: no column 'xx'; did you mean 'x'"
    ):
        ParquetPart.of_files(files, Selection(("xx",)))
    with pytest.raises(SourceError, match="no column 'nothing'; there are"):
        ParquetPart.of_files(files, Selection(exclude=("nothing",)))
    with pytest.raises(SourceError, match=r"0.parquet: where: No match for FieldRef"):
        ParquetPart.of_files(files, Selection(where=pc.field("q") > 0))


@pytest.mark.parametrize("keep", [0.5, 0.999])
def test_a_file_that_ends_in_the_middle(files, keep):
    os.truncate(files[2], int(keep * files[2].stat().st_size))
    with pytest.raises(
        SourceError,
        match=r"2.parquet: damaged Parquet file \(.*\); copy or write it again",
    ):
        ParquetPart.of_files(files, Selection())


def test_a_damaged_row_group_is_named(files):
    at = parquet.ParquetFile(files[0]).metadata.row_group(1).column(0).data_page_offset
    with open(files[0], "r+b") as file:
        file.seek(at)
        file.write(b"\xff" * 200)
    found, _ = ParquetPart.of_files(files, Selection())
    rows_of(found[:1])
    with pytest.raises(
        SourceError,
        match=r"0.parquet, row group 1: damaged \(.*\); copy or write the file again",
    ):
        rows_of(found[1:2])


def test_text_that_is_not_utf_8(tmp_path):
    path = tmp_path / "t.parquet"
    parquet.write_table(
        pa.table({"t": ["a name", "another"]}),
        path,
        use_dictionary=False,
        compression=None,
    )
    path.write_bytes(path.read_bytes().replace(b"a name", b"a n\xffme"))
    (part,), _ = ParquetPart.of_files([path], Selection())
    with pytest.raises(
        SourceError,
        match=r"t.parquet, row group 0: damaged \(.*UTF8.*\); copy or write",
    ):
        list(part.read())


def test_a_file_that_changes_while_it_is_read(files):
    found, _ = ParquetPart.of_files(files, Selection())
    batches = found[0].read(n_bytes=1_000)
    next(batches)
    parquet.write_table(TABLE.slice(0, 1_999), files[0], row_group_size=700)
    with pytest.raises(
        SourceError, match=r"0.parquet, row group 0: the file changed while it was read"
    ):
        list(batches)
    with pytest.raises(
        SourceError, match=r"0.parquet, row group 1: the file changed while it was read"
    ):
        rows_of(found[1:2])
    files[0].unlink()
    with pytest.raises(SourceError, match=r"0.parquet, row group 1: the file vanished"):
        rows_of(found[1:2])


def test_files_without_rows(tmp_path, files):
    empty = tmp_path / "empty.parquet"
    parquet.write_table(TABLE.slice(0, 0), empty)
    assert rows_of(ParquetPart.of_files([empty, *files], Selection())[0]).num_rows == N
    with pytest.raises(
        SourceError, match=r"empty.parquet: the table has column names but no rows"
    ):
        ParquetPart.of_files([empty], Selection())
