"""Tables come back from files as they were written, and what is no table is refused
with the place and the cure.
"""

import gzip
import os
import random
import re
import stat

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet

from bochner import TableEncoder
from bochner.cli.failures import CommandError
from bochner.data.file_kinds import kind_by_name
from bochner.sources import writing
from whole_tables import read_table


def write_table(table, path):
    writing.write_table([table], path)


TABLE = pa.table(
    {
        "number": [1.5, None, 1 / 3],
        "whole": [1, 2**40, -3],
        "text, quoted": ['say "hi"', "two\nlines", None],
        "flag": [True, False, None],
    }
)


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "name",
    [
        "t.csv",
        "t.csv.gz",
        "t.tsv",
        "t.tsv.gz",
        "t.csv.zst",
        "t.parquet",
        "t.PQ",
        "with space.CSV",
    ],
)
def test_roundtrip(tmp_path, name):
    write_table(TABLE, tmp_path / name)
    assert read_table(tmp_path / name).equals(TABLE)
    assert os.listdir(tmp_path) == [name]


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0\r")),
        min_size=1,
        max_size=8,
    )
)
def test_text_survives_csv(tmp_path_factory, values):
    path = tmp_path_factory.getbasetemp() / "text.csv"
    table = pa.table({"key": range(len(values)), "value": values})
    write_table(table, path)
    back = read_table(path, as_text=["value"])["value"].to_pylist()
    blank = {"", "NA", "NULL", "NaN", "null", "N/A", "nan", "n/a", "#N/A"}
    assert [
        a
        for a, b in zip(values, back, strict=True)
        if a != b and not (b is None and a in blank)
    ] == []


def test_name_and_content_may_differ(tmp_path):
    parquet.write_table(TABLE, tmp_path / "t.csv")
    assert read_table(tmp_path / "t.csv").equals(TABLE)
    with pytest.raises(CommandError, match="the name says parquet, but this is text"):
        read_table(written(tmp_path / "t.parquet", "a,b\n1,2\n"))
    assert read_table(
        written(tmp_path / "t.txt", gzip.compress(b"a,b\n1,2\n"))
    ).to_pydict() == {"a": [1], "b": [2]}


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_other_separators(tmp_path, mark):
    notes = []
    table = read_table(
        written(tmp_path / "t.csv", f'"a,1"{mark}b\n1{mark}2.5\n'), note=notes.append
    )
    assert table.to_pydict() == {"a,1": [1], "b": [2.5]}
    assert len(notes) == 1


def test_values_of_csv(tmp_path):
    text = (
        "﻿date,moment,flag,big,code,gap\n2024-02-29,2024-02-29 "
        "10:00:00,true,123456789012345678901234,01,\n,,,NA,x,\n"
    )
    table = read_table(written(tmp_path / "t.csv", text.replace("\n", "\r\n")))
    types = {field.name: str(field.type) for field in table.schema}
    assert types == {
        "date": "date32[day]",
        "moment": "timestamp[s]",
        "flag": "bool",
        "big": "double",
        "code": "string",
        "gap": "null",
    }
    assert table["code"].to_pylist() == ["01", "x"]
    assert [column.null_count for column in table.columns] == [1, 1, 1, 1, 0, 2]


def test_columns_that_are_text_stay_text(tmp_path):
    path = written(tmp_path / "t.csv", "code,x\n01,1\n2,2\n")
    assert read_table(path)["code"].to_pylist() == [1, 2]
    assert read_table(path, as_text=["code", "absent"])["code"].to_pylist() == [
        "01",
        "2",
    ]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("", "empty"),
        ("a,b\n", "no rows"),
        ("a,b", "no rows"),
        ("\n\n", "no rows"),
        ("a,,b,\n1,2,3,4\n", "columns 2 and 4 have no name; give each column"),
        ("a,b\n1,2\n3\n", "line 3: 2 fields expected, 1 found"),
        ("a,b\n1,2\n3,4,5\n", "line 3: 2 fields expected, 3 found"),
        (
            b"a,b\n1,\xc3\xa9\n2,\xe9\n",
            "line 3, column 'b': text that is not UTF-8",
        ),
        (b"\xc3\xa9,\xe9\n1,x\n", "text that is not UTF-8"),
        ("a,b\n1,2\n".encode("utf-16-le"), "binary data, not a table"),
        (b"PK\x03\x04....", "Excel workbook"),
        (b'[{"x": 1, "y": 2}]', "this is JSON, not a table"),
        (b'{"x": 1, "y": 2}\n{"x": 3, "y": 4}\n', "this is JSON, not a table"),
        (b"\x00\x01\x02", "binary data"),
        (b"PAR1xxxxPAR1", "damaged Parquet file"),
        (b"PAR1", "damaged Parquet file"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0)[:12], "damaged gzip file"),
        (
            gzip.compress(random.Random(0).randbytes(300_000).hex().encode(), mtime=0)[
                :200_000
            ],
            "runcated|no rows",
        ),
        (gzip.compress(b"\0\0\0", mtime=0), "binary data under gzip"),
        (b"\x40\0\0\0\0\0\0\0{}", "is a model, not a table"),
    ],
)
def test_what_is_no_table(tmp_path, content, match):
    path = written(tmp_path / "t.csv", content)
    with pytest.raises(CommandError, match=match) as caught:
        read_table(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_row_far_down_is_named(tmp_path):
    path = written(tmp_path / "t.csv", "a,b\n" + "1,2\n" * 300_000 + "1,2,3\n")
    with pytest.raises(CommandError, match="line 300002: "):
        read_table(path)


def test_tables_without_rows_or_columns(tmp_path):
    for table in (pa.table({"a": pa.array([], pa.int64())}), pa.table({})):
        parquet.write_table(table, tmp_path / "t.parquet")
        with pytest.raises(CommandError, match=r"no rows|no column is left"):
            read_table(tmp_path / "t.parquet")


def test_paths_without_a_file(tmp_path):
    with pytest.raises(CommandError, match="no such file or directory"):
        read_table(tmp_path / "absent.csv")
    with pytest.raises(CommandError, match="the folder holds no table"):
        read_table(tmp_path)
    with pytest.raises(FileNotFoundError):
        write_table(TABLE, tmp_path / "absent" / "t.csv")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_pipes_are_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(CommandError, match="pipe"):
        read_table(tmp_path / "pipe.csv")


def test_folder_names_make_no_columns(tmp_path):
    folder = tmp_path / "year=2020"
    folder.mkdir()
    write_table(TABLE, folder / "t.parquet")
    assert read_table(folder / "t.parquet").column_names == TABLE.column_names


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_failure_leaves_the_old_file(tmp_path, monkeypatch, error):
    path = written(tmp_path / "t.csv", "old")

    def interrupted(stream, schema, write_options):
        stream.write(b"half")
        raise error

    monkeypatch.setattr(csv, "CSVWriter", interrupted)
    with pytest.raises(error):
        write_table(TABLE, path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["t.csv"]


def test_file_modes_and_links(tmp_path):
    path = written(tmp_path / "t.csv", "old")
    path.chmod(0o600)
    (tmp_path / "link.csv").symlink_to(path)
    write_table(TABLE, tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert read_table(path).equals(TABLE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_kinds_by_name():
    assert kind_by_name("a.b/T.CSV.GZ") == "csv"
    assert kind_by_name("t.pq") == "parquet"
    assert kind_by_name("t.txt") is None
    with pytest.raises(ValueError, match=r"must end in one of \.csv"):
        write_table(TABLE, "t.txt")


@pytest.mark.parametrize(
    ("text", "values", "notes"),
    [
        (
            "a;b;c\n1,5;x;2\n-2,25e1;y;3\n;z;4\n",
            [1.5, -22.5, None],
            ["Fields are separated", "Numbers have decimal commas"],
        ),
        (
            "a\tb\n1,5\t2\n2\t3\n",
            [1.5, 2.0],
            ["Fields are separated", "Numbers have decimal commas"],
        ),
        (
            "a;b\n1,5;2.5\n2,5;3.5\n",
            ["1,5", "2,5"],
            ["Fields are separated"],
        ),
        (
            'a,b,c\n"1,234",2,"3,4"\n2,3,"4,5"\n',
            ["1,234", "2"],
            [],
        ),
        (
            "a;b\n1.234,5;2\n2.000,5;3\n",
            ["1.234,5", "2.000,5"],
            ["Fields are separated", "Numbers have decimal commas"],
        ),
        ("a;b\n1,5;2\nx;3\n", ["1,5", "x"], ["Fields are separated"]),
        (
            "a;b\n1,234;2\n12,345;3\n999;4\n",
            ["1,234", "12,345", "999"],
            ["Fields are separated"],
        ),
        (
            "a;b\n1,234;2,5\n9;3,5\n",
            [1.234, 9.0],
            ["Fields", "Numbers have"],
        ),
        (
            "a;b\n,5;1\n-,25;2\n",
            [0.5, -0.25],
            ["Fields are separated", "Numbers have decimal commas"],
        ),
    ],
)
def test_decimal_commas(tmp_path, text, values, notes):
    said = []
    table = read_table(written(tmp_path / "t.csv", text.encode()), note=said.append)
    assert table["a"].to_pylist() == values
    assert len(said) == len(notes)
    assert all(
        re.match(pattern, line) for pattern, line in zip(notes, said, strict=True)
    )


def test_text_with_commas_stays_text_where_it_is_to_be(tmp_path):
    said = []
    path = written(tmp_path / "t.csv", b"a;b\n1,5;2\n2,5;3\n")
    assert read_table(path, as_text=["a"], note=said.append)["a"].to_pylist() == [
        "1,5",
        "2,5",
    ]
    assert len(said) == 2


def test_a_late_decimal_comma(tmp_path):
    """The first rows have none; text of numbers is read where it is encoded."""
    path = written(tmp_path / "t.csv", "a;b\n" + "1;k\n" * 1200 + "1,5;k\n")
    with pytest.warns(UserWarning, match="Column 'a': read as numbers"):
        encoder = TableEncoder().fit(read_table(path, note=print))
    assert encoder.written == {"a": "number written 1,5"}
