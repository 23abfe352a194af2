"""Record batches of Arrow files and streams hold the rows that Arrow reads, and what
is damaged is named.
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

from bochner.sources import arrow_files
from bochner.sources.arrow_files import IpcPart
from bochner.sources.base import SourceError
from bochner.sources.schema import Selection

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


def rows_of(found, **options):
    return pa.concat_tables(
        [batch.X for part in found for batch in part.read(**options)]
    ).unify_dictionaries()


@pytest.fixture(params=["file", "stream"])
def kind(request, monkeypatch):
    monkeypatch.setattr(arrow_files, "PART_ROWS", 1_000)
    return request.param


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_rows_are_those_of_the_file(tmp_path, kind, compression):
    write(TABLE, tmp_path / "t.arrow", kind, compression=compression)
    found, schema = IpcPart.of_files([tmp_path / "t.arrow"], Selection())
    assert schema == TABLE.schema
    assert [part.n_rows for part in found] == (
        [900, 900, 900, 900, 400] if kind == "file" else [N]
    )
    assert found[0].name.endswith(
        "t.arrow, record batches 0 to " + ("2" if kind == "file" else "13")
    )
    for n_bytes in (500, 1 << 24):
        assert rows_of(found, n_bytes=n_bytes).to_pylist() == TABLE.to_pylist()


def test_columns_and_rows_that_are_wanted(tmp_path, kind):
    write(TABLE, tmp_path / "t.arrow", kind)
    found, schema = IpcPart.of_files(
        [tmp_path / "t.arrow"], Selection(("b", "t"), where=pc.field("x") > 0)
    )
    assert schema.names == ["b", "t"]
    assert {part.n_rows for part in found} == {None}
    assert (
        rows_of(found).to_pylist()
        == TABLE.filter(pc.field("x") > 0).select(["b", "t"]).to_pylist()
    )


def test_several_files_feather_among_them(tmp_path, kind):
    write(TABLE.slice(0, 1_500), tmp_path / "a.arrow", kind)
    feather.write_feather(
        TABLE.slice(1_500).select(["b", "c", "n", "x", "t"]), tmp_path / "b.feather"
    )
    found, _ = IpcPart.of_files(
        [tmp_path / "a.arrow", tmp_path / "b.feather"], Selection()
    )
    assert rows_of(found).to_pylist() == TABLE.to_pylist()


def test_parts_are_read_again_elsewhere_and_at_once(tmp_path, kind):
    write(TABLE, tmp_path / "t.arrow", kind, compression="lz4")
    found, _ = IpcPart.of_files([tmp_path / "t.arrow"], Selection())
    with ThreadPoolExecutor(4) as threads:
        copies = [*found, *pickle.loads(pickle.dumps(found))] * 3  # noqa: S301
        tables = list(threads.map(lambda part: rows_of([part]).to_pylist(), copies))
    assert tables == tables[: len(found)] * 6


def test_a_huge_record_batch_takes_little_memory(tmp_path, kind):
    table = pa.table({f"x{k}": RNG.normal(size=100_000) for k in range(20)})
    write(table, tmp_path / "t.arrow", kind, rows=None)
    (part,), _ = IpcPart.of_files([tmp_path / "t.arrow"], Selection(exclude=("x3",)))
    before = most = pa.total_allocated_bytes()
    for batch in part.read(n_bytes=1 << 20):
        most = max(most, pa.total_allocated_bytes())
        assert batch.X.nbytes < 1.1 * (1 << 20)
    assert most - before < table.nbytes / 3


def test_rows_stay_when_the_file_does_not(tmp_path, kind):
    write(TABLE, tmp_path / "t.arrow", kind)
    found, _ = IpcPart.of_files([tmp_path / "t.arrow"], Selection())
    table = next(found[0].read()).X
    os.truncate(tmp_path / "t.arrow", 0)
    assert table.to_pylist() == TABLE.slice(0, table.num_rows).to_pylist()


@pytest.mark.parametrize("keep", [0.01, 0.5, 0.97])
def test_a_file_that_ends_in_the_middle(tmp_path, kind, keep):
    write(TABLE, tmp_path / "t.arrow", kind)
    os.truncate(tmp_path / "t.arrow", int(keep * (tmp_path / "t.arrow").stat().st_size))
    with pytest.raises(
        SourceError,
        match=r"t.arrow, record batch \d+: damaged Arrow file \(.*\); copy or write",
    ):
        IpcPart.of_files([tmp_path / "t.arrow"], Selection())


def test_damage_ends_in_an_error_or_in_other_rows(tmp_path, kind):
    write(TABLE.slice(0, 200), tmp_path / "t.arrow", kind, rows=50)
    sound, rng = (tmp_path / "t.arrow").read_bytes(), np.random.default_rng(0)
    refused = 0
    for _ in range(100):
        damaged = np.frombuffer(sound, np.uint8).copy()
        damaged[rng.integers(len(sound), size=5)] = rng.integers(256, size=5)
        (tmp_path / "t.arrow").write_bytes(damaged.tobytes())
        try:
            rows_of(
                IpcPart.of_files([tmp_path / "t.arrow"], Selection())[0]
            ).to_pylist()
        except SourceError:
            refused += 1
    assert refused > 10


def test_a_file_that_changes_while_it_is_read(tmp_path, kind):
    write(TABLE, tmp_path / "t.arrow", kind)
    found, _ = IpcPart.of_files([tmp_path / "t.arrow"], Selection())
    batches = found[0].read(n_bytes=500)
    next(batches)
    os.truncate(tmp_path / "t.arrow", 1_000)
    with pytest.raises(
        SourceError,
        match=r"t.arrow, record batches 0 to \d+: the file changed while it was read",
    ):
        list(batches)


def test_other_columns_in_a_later_file_are_named(tmp_path, kind):
    write(TABLE, tmp_path / "a.arrow", kind)
    write(TABLE.set_column(1, "x", TABLE["t"]), tmp_path / "b.arrow", kind)
    with pytest.raises(
        SourceError, match=r"b.arrow: column 'x' is string, but double in .*a.arrow"
    ):
        IpcPart.of_files([tmp_path / "a.arrow", tmp_path / "b.arrow"], Selection())


def test_a_file_without_rows(tmp_path, kind):
    write(TABLE.slice(0, 0), tmp_path / "t.arrow", kind)
    with pytest.raises(
        SourceError, match=r"t.arrow: the table has column names but no rows"
    ):
        IpcPart.of_files([tmp_path / "t.arrow"], Selection())


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
    found, schema = IpcPart.of_files([tmp_path / "t.arrow"], Selection())
    assert schema.types == [pa.string(), pa.float64()]
    table = rows_of(found, n_bytes=1_000)
    os.truncate(tmp_path / "t.arrow", 0)
    assert table.to_pylist() == frame.to_dicts()
