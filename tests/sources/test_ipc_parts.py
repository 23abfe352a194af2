"""Arrow files and streams hold the rows that Arrow reads, and what is damaged is
named.
"""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import feather, ipc

from bochner.sources import imported
from bochner.sources.base import SourceError
from bochner.sources.opening import open_source

N = 4_000
RNG = np.random.default_rng(1)
TABLE = pa.table(
    {
        "t": RNG.choice(["one", "two", "three"], N),
        "x": RNG.normal(size=N),
        "n": pa.array(RNG.integers(0, 9, N), pa.int8(), mask=RNG.random(N) < 0.1),
        "c": pa.array(RNG.choice(["u", "v"], N)).dictionary_encode(),
        "b": RNG.random(N) < 0.5,
    }
)


def write(table, path, kind="file", rows=300, compression=None):
    opened = ipc.new_file if kind == "file" else ipc.new_stream
    with opened(
        path, table.schema, options=ipc.IpcWriteOptions(compression=compression)
    ) as writer:
        writer.write_table(table, max_chunksize=rows)


def rows_of(source, **options):
    return pa.concat_tables(
        [batch.X for part in source.parts for batch in part.read(**options)]
    ).unify_dictionaries()


@pytest.fixture(params=["file", "stream"])
def kind(request, monkeypatch):
    monkeypatch.setattr(imported, "PART_BYTES", 1 << 14)
    return request.param


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_rows_are_those_of_the_file(tmp_path, kind, compression):
    write(TABLE, tmp_path / "t.arrow", kind, compression=compression)
    source = open_source(tmp_path / "t.arrow")
    assert source.schema == TABLE.schema
    assert len(source.parts) > 3
    assert source.n_rows == N
    assert source.parts[0].name.startswith(f"{tmp_path / 't.arrow'}, rows 1 to ")
    for n_bytes in (500, 1 << 24):
        assert rows_of(source, n_bytes=n_bytes).to_pylist() == TABLE.to_pylist()


def test_columns_and_rows_that_are_wanted(tmp_path, kind):
    write(TABLE, tmp_path / "t.arrow", kind)
    source = open_source(
        tmp_path / "t.arrow", columns=["b", "t"], where=pc.field("x") > 0
    )
    assert source.names == ["b", "t"]
    assert (
        rows_of(source).to_pylist()
        == TABLE.filter(pc.field("x") > 0).select(["b", "t"]).to_pylist()
    )


def test_several_files_feather_among_them(tmp_path, kind):
    write(TABLE.slice(0, 1_500), tmp_path / "a.arrow", kind)
    feather.write_feather(
        TABLE.slice(1_500).select(["b", "c", "n", "x", "t"]), tmp_path / "b.feather"
    )
    source = open_source([tmp_path / "a.arrow", tmp_path / "b.feather"])
    assert rows_of(source).to_pylist() == TABLE.to_pylist()


def test_a_column_of_a_later_file_is_left_out(tmp_path, kind):
    write(TABLE, tmp_path / "a.arrow", kind)
    write(TABLE.append_column("z", TABLE["x"]), tmp_path / "b.arrow", kind)
    files = [tmp_path / "a.arrow", tmp_path / "b.arrow"]
    assert rows_of(open_source(files, exclude=["z"])).num_rows == 2 * N
    assert rows_of(open_source(files, columns=["x"])).column_names == ["x"]
    with pytest.raises(SourceError, match=r"b.arrow: .*'z' is not in .*; exclude it"):
        open_source(files)
    with pytest.raises(SourceError, match="no column 'zz'"):
        open_source(files, exclude=["zz"])


def test_parts_are_read_again_elsewhere_and_at_once(tmp_path, kind):
    write(TABLE, tmp_path / "t.arrow", kind, compression="lz4")
    found = open_source(tmp_path / "t.arrow").parts
    with ThreadPoolExecutor(4) as threads:
        copies = [*found, *pickle.loads(pickle.dumps(found))] * 3  # noqa: S301
        tables = list(threads.map(lambda part: next(part.read()).X.to_pylist(), copies))
    assert tables == tables[: len(found)] * 6


def test_a_huge_record_batch_takes_little_memory(tmp_path, kind):
    table = pa.table({f"x{k}": RNG.normal(size=100_000) for k in range(20)})
    write(table, tmp_path / "t.arrow", kind, rows=None)
    before = pa.total_allocated_bytes()
    source = open_source(tmp_path / "t.arrow", exclude=["x3"])
    most = before
    for part in source.parts:
        for batch in part.read(n_bytes=1 << 20):
            most = max(most, pa.total_allocated_bytes())
            assert batch.X.nbytes < 1.1 * (1 << 20)
    assert most - before < table.nbytes / 3


def test_a_file_that_changes_after_it_was_opened(tmp_path, kind):
    write(TABLE, tmp_path / "t.arrow", kind)
    source = open_source(tmp_path / "t.arrow")
    assert rows_of(source).to_pylist() == TABLE.to_pylist()
    os.truncate(tmp_path / "t.arrow", 0)
    with pytest.raises(SourceError, match="the file changed while it was read"):
        rows_of(source)


@pytest.mark.parametrize("keep", [0.01, 0.5, 0.97])
def test_a_file_that_ends_in_the_middle(tmp_path, kind, keep):
    write(TABLE, tmp_path / "t.arrow", kind)
    os.truncate(tmp_path / "t.arrow", int(keep * (tmp_path / "t.arrow").stat().st_size))
    with pytest.raises(
        SourceError,
        match=r"t.arrow.*: \w+ \(.*\); copy or write",
    ):
        open_source(tmp_path / "t.arrow")


def test_damage_ends_in_an_error_or_in_other_rows(tmp_path, kind):
    write(TABLE.slice(0, 200), tmp_path / "t.arrow", kind, rows=50)
    sound, rng = (tmp_path / "t.arrow").read_bytes(), np.random.default_rng(0)
    refused = 0
    for _ in range(100):
        damaged = np.frombuffer(sound, np.uint8).copy()
        damaged[rng.integers(len(sound), size=5)] = rng.integers(256, size=5)
        (tmp_path / "t.arrow").write_bytes(damaged.tobytes())
        try:
            rows_of(open_source(tmp_path / "t.arrow")).to_pylist()
        except SourceError:
            refused += 1
    assert refused > 10


def test_other_columns_in_a_later_file_are_named(tmp_path, kind):
    write(TABLE, tmp_path / "a.arrow", kind)
    write(TABLE.set_column(1, "x", TABLE["t"]), tmp_path / "b.arrow", kind)
    with pytest.raises(
        SourceError,
        match=r"b.arrow: column 'x' is string, but double in .*a.arrow; give",
    ):
        open_source([tmp_path / "a.arrow", tmp_path / "b.arrow"])


def test_a_file_without_rows(tmp_path, kind):
    write(TABLE.slice(0, 0), tmp_path / "t.arrow", kind)
    with pytest.raises(
        SourceError, match=r"t.arrow: the table has column names but no rows"
    ):
        open_source(tmp_path / "t.arrow")


@pytest.mark.skipif(
    int(pa.__version__.partition(".")[0]) < 24,
    reason="an older Arrow cannot cut views of text",
)
def test_text_as_polars_lays_it_out(tmp_path, kind):
    frame = pl.from_arrow(TABLE.select(["t", "x"])).with_columns(
        pl.col("t") + " of some length that is not inlined"
    )
    opened = frame.write_ipc if kind == "file" else frame.write_ipc_stream
    opened(tmp_path / "t.arrow", compat_level=pl.CompatLevel.newest())
    source = open_source(tmp_path / "t.arrow")
    assert source.schema.types == [pa.string(), pa.float64()]
    assert rows_of(source, n_bytes=1_000).to_pylist() == frame.to_dicts()
