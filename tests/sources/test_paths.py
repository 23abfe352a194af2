"""Paths, folders and patterns stand for the files that one expects, and what is no
table is named.
"""

import gzip
import os
import pickle

import pyarrow as pa
import pytest
from pyarrow import feather, ipc, parquet

from bochner.sources.base import SourceError
from bochner.sources.paths import FileState, files_of, kind_of

CSV = b"a,b\n1,2\n"
TABLE = pa.table({"a": [1, 2], "b": [0.5, None]})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Tables beside files that do not count."""
    for name in (
        "b.csv",
        "a.csv",
        "deep/c.csv",
        ".hidden.csv",
        "_SUCCESS",
        ".crc/d.csv",
        "_logs/e.csv",
    ):
        (tmp_path / "rows" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "rows" / name).write_bytes(CSV)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "rows"


def names(files):
    return [file.as_posix() for file in files]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ("rows", ["rows/a.csv", "rows/b.csv", "rows/deep/c.csv"]),
        ("rows/b.csv", ["rows/b.csv"]),
        ("rows/_SUCCESS", ["rows/_SUCCESS"]),
        ("rows/*.csv", ["rows/a.csv", "rows/b.csv"]),
        ("rows/[b].csv", ["rows/b.csv"]),
        ("rows/*", ["rows/a.csv", "rows/b.csv", "rows/deep/c.csv"]),
        ("rows/**", ["rows/a.csv", "rows/b.csv", "rows/deep/c.csv"]),
        ("rows/**/*.csv", ["rows/a.csv", "rows/b.csv", "rows/deep/c.csv"]),
        ("rows/_S*", ["rows/_SUCCESS"]),
        (
            ["rows/b.csv", "rows/a.csv", "rows/deep"],
            ["rows/b.csv", "rows/a.csv", "rows/deep/c.csv"],
        ),
    ],
)
def test_files(folder, data, found):
    assert names(files_of(data)) == found


def test_a_folder_with_the_signs_of_a_pattern_in_its_name(folder):
    os.rename(folder / "deep", folder / "deep[1]*")
    assert names(files_of("rows/deep[1]*")) == ["rows/deep[1]*/c.csv"]


def test_links_to_other_folders_are_followed(folder, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "z.csv").write_bytes(CSV)
    (folder / "link").symlink_to(tmp_path / "more")
    assert names(files_of("rows"))[-1] == "rows/link/z.csv"


def loop(folder):
    (folder / "deep" / "up").symlink_to(folder)


def dangling(folder):
    (folder / "gone.csv").symlink_to(folder / "nothing")


def knot(folder):
    (folder / "knot.csv").symlink_to(folder / "knot.csv")


def twice(folder):
    (folder / "same.csv").symlink_to(folder / "a.csv")


def foreign(folder):
    (folder / "notes.txt").write_text("not a table\n")


def workbook(folder):
    (folder / "sheet.xlsx").write_bytes(b"PK\x03\x04 rest")


def mixed(folder):
    parquet.write_table(TABLE, folder / "p.parquet")


def empty_file(folder):
    (folder / "e.csv").touch()


def pipe(folder):
    os.mkfifo(folder / "pipe.csv")


def misnamed(folder):
    (folder / "m.parquet").write_bytes(CSV)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (loop, "rows/deep/up: a symbolic link to a folder that it lies in; remove"),
        (dangling, "rows/gone.csv: no such file or directory"),
        (knot, "rows/knot.csv: too many levels of symbolic links"),
        (
            twice,
            "rows/same.csv and rows/a.csv are one file, whose rows would count "
            "twice; leave",
        ),
        (
            foreign,
            "rows/notes.txt: a file of another kind in a folder of tables; remove "
            "it, put _ in front",
        ),
        (
            workbook,
            "rows/sheet.xlsx: this is an Excel workbook or a zip archive, not a "
            "table; ",
        ),
        (
            mixed,
            "rows/p.parquet: parquet, but rows/a.csv is csv; give tables of one kind",
        ),
        (empty_file, "rows/e.csv: the file is empty"),
        (pipe, "rows/pipe.csv: not a regular file, and cannot be read twice"),
        (misnamed, "rows/m.parquet: the name says parquet, but this is text"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_spoils_a_folder_is_named(folder, spoil, message):
    spoil(folder)
    with pytest.raises(SourceError) as caught:
        files_of("rows")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("nothing", "nothing: no such file or directory"),
        ("rows/x*.csv", r"rows/x\*.csv: no file matches the pattern"),
        ("rows/.crc", None),
        ("empty", "empty: the folder holds no table"),
        ([], "the list of files is empty"),
        (["rows/a.csv", "rows/a.csv"], "rows/a.csv is given twice, whose rows"),
        (
            "s3://bucket/rows/",
            "s3://bucket/rows/: files are read from this machine only",
        ),
    ],
)
def test_what_stands_for_nothing(folder, tmp_path, data, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "_SUCCESS").touch()
    if message is None:  # a hidden folder that is asked for by name
        assert names(files_of(data)) == ["rows/.crc/d.csv"]
        return
    with pytest.raises(SourceError, match=message):
        files_of(data)


def test_kinds_by_content(tmp_path):
    parquet.write_table(TABLE, tmp_path / "a.dat")
    feather.write_feather(TABLE, tmp_path / "b.dat")
    with ipc.new_stream(tmp_path / "c.dat", TABLE.schema) as writer:
        writer.write_table(TABLE)
    contents = {
        "d.csv.gz": gzip.compress(CSV),
        "e.TSV": b"a\tb\n",
        "f.csv.zst": pa.compress(CSV, "zstd", asbytes=True),
        "g.svmlight.gz": gzip.compress(b"1 1:2\n"),
        "h.txt": CSV,
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    kinds = [kind_of(tmp_path / name) for name in sorted(os.listdir(tmp_path))]
    assert kinds == ["parquet", "arrow", "arrow", "csv", "tsv", "csv", "libsvm", "csv"]


@pytest.mark.parametrize(
    ("head", "message"),
    [(b"FEA1", "version 1"), (b"\x93NUMPY", "a NumPy array, not a table")],
)
def test_foreign_contents(tmp_path, head, message):
    (tmp_path / "x.feather").write_bytes(head + bytes(50))
    with pytest.raises(SourceError, match=message):
        kind_of(tmp_path / "x.feather")


def test_states_tell_that_a_file_changed(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(CSV)
    state = FileState.of(path)
    state.check(state.path)
    sent = pickle.loads(pickle.dumps(state))  # noqa: S301 - made here
    other = tmp_path / "other.csv"
    other.write_bytes(CSV)
    os.utime(other, ns=(state.modified, state.modified))
    os.replace(other, path)
    sent.check(
        state.path
    )  # as a shared disk may number files in another way on another machine
    with pytest.raises(SourceError, match="the file changed while it was read"):
        state.check(state.path)
    path.write_bytes(CSV + b"3,4\n")
    with pytest.raises(SourceError, match="the file changed while it was read"):
        sent.check(state.path)
    with pytest.raises(
        SourceError, match=r"a.csv: the file changed while it was read; wait"
    ):
        state.check(state.path)
    path.unlink()
    with pytest.raises(
        SourceError, match=r"row group 3: the file vanished while it was read; restore"
    ):
        state.check("row group 3")
