"""Rows of CSV files come back as Arrow reads whole files; what is wrong is named by
file and row.
"""

import gzip
import pickle
import random

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from bochner.sources import csv_files, csv_text, imported
from bochner.sources.base import SourceError
from bochner.sources.opening import open_source
from bochner.sources.rows import finite_batches
from bochner.sources.schema import Selection, why_text

ROWS = 40_000


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "number": rng.normal(size=ROWS).round(3),
            "whole": rng.integers(0, 1000, ROWS),
            "text": pa.array(
                [None if k % 7 == 0 else f"t{k % 11}" for k in range(ROWS)]
            ),
            "late": pa.array([None] * (ROWS - 1) + [2.5]),
            "never": pa.nulls(ROWS),
        }
    )


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def opened(*paths, columns=None, exclude=(), where=None, schema=None):
    selection = Selection(columns, exclude, where, types=schema)
    source = csv_files.open_csv(paths, selection, "CSV files")
    return source.parts, source.schema


def rows(parts, **options):
    return pa.concat_tables(
        [batch.X for part in parts for batch in part.read(**options)]
    )


def saved(path, table, quotes="needed"):
    csv.write_csv(table, path, csv.WriteOptions(quoting_style=quotes))
    return path


@pytest.mark.parametrize("quotes", ["needed", "none"])
@pytest.mark.parametrize("n_bytes", [1 << 15, 1 << 24])
def test_as_arrow_reads_the_whole(tmp_path, table, quotes, n_bytes, monkeypatch):
    monkeypatch.setattr(imported, "PART_BYTES", 1 << 16)
    path = saved(tmp_path / "t.csv", table.replace_schema_metadata(), quotes)
    parts, schema = opened(path)
    whole = csv.read_csv(
        path, convert_options=csv.ConvertOptions(strings_can_be_null=True)
    )
    assert schema == whole.schema
    assert rows(parts, n_bytes=n_bytes).equals(whole)
    assert sum(part.n_rows for part in parts) == ROWS
    assert len(parts) > 3
    assert pickle.loads(pickle.dumps(parts)) == parts  # noqa: S301


def test_rows_are_named_by_their_lines(tmp_path):
    path = written(
        tmp_path / "t.csv", "a,b\n" + "10,20\n" * 5000 + "1,2,3\n" + "10,20\n" * 5000
    )
    with pytest.raises(
        SourceError, match=r"t\.csv: line 5002: 2 fields expected, 3 found"
    ):
        opened(path)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2.5"], "double"),
        (["1", "x"], "string"),
        (["", "7"], "int64"),
        (["", "x"], "string"),
        (["2024-01-01", "2024-01-01 10:00:00"], "timestamp[s]"),
        (["2024-01-01 10:00:00", "2024-01-01 10:00:00.25"], "timestamp[ns]"),
        (["2024-01-01", "5"], "string"),
        (["true", "maybe"], "string"),
        (["true", "FALSE"], "bool"),
        (["5", '"a, b"'], "string"),
        (["5", '"say ""no"""'], "string"),
        (["1", "123456789012345678901234"], "double"),
    ],
)
@pytest.mark.parametrize("apart", ["in a later block", "in a later file"])
def test_types_by_all_values(tmp_path, values, kind, apart, monkeypatch):
    monkeypatch.setattr(csv_text, "TEXT_BYTES", 256)
    first, second = (f"{value},0\n" * 100 for value in values)
    whole = written(tmp_path / "whole.csv", "v,w\n" + first + second)
    if apart == "in a later block":
        parts, schema = opened(whole)
    else:
        paths = [
            written(tmp_path / f"{k}.csv", "v,w\n" + some)
            for k, some in enumerate((first, second))
        ]
        parts, schema = opened(*paths)
    assert str(schema.field("v").type) == kind
    truth = csv.read_csv(
        whole, convert_options=csv.ConvertOptions(strings_can_be_null=True)
    )
    assert rows(parts).equals(truth)


VALUES = {
    "whole": ["1", "2", "-7", "0"],
    "float": ["1.5", "2e3", "-0.25", "nan", "inf"],
    "text": ["x", '"a,b"', '"q ""r"""', " 5", " ", "1_0", "é", '"two\nlines"'],
    "null": ["", "NA", '""', "null"],
    "date": ["2024-01-01", "1999-12-31"],
    "moment": ["2024-01-01 10:00:00", "2024-01-01T10:00:00"],
    "fraction": ["2024-01-01 10:00:00.5"],
    "zone": ["2024-01-01 10:00:00Z"],
    "time": ["10:00:00"],
    "flag": ["true", "False"],
    "big": ["123456789012345678901234"],
}


@pytest.mark.parametrize("seed", range(25))
def test_values_of_several_kinds(tmp_path, seed, monkeypatch):
    """Kinds follow one another, now and then in turns, in blocks of a few rows."""
    monkeypatch.setattr(csv_text, "TEXT_BYTES", 64)
    draw = random.Random(seed)
    columns = []
    for _ in range(3):
        kinds = draw.sample(list(VALUES), draw.randint(1, 3))
        turns = [
            kinds[k * len(kinds) // 60] if draw.random() < 0.9 else draw.choice(kinds)
            for k in range(60)
        ]
        columns.append([draw.choice(VALUES[kind]) for kind in turns])
    lines = [
        ",".join(values) + "\n"
        for values in zip(map(str, range(60)), *columns, strict=True)
    ]
    path = written(tmp_path / "t.csv", "i,a,b,c\n" + "".join(lines))
    options = {
        "parse_options": csv.ParseOptions(newlines_in_values=True),
        "convert_options": csv.ConvertOptions(strings_can_be_null=True),
    }
    whole = csv.read_csv(path, **options)
    parts, schema = opened(path)
    assert schema == whole.schema
    assert str(rows(parts).to_pydict()) == str(whole.to_pydict())  # nan equals nan


def test_types_that_are_given(tmp_path):
    path = written(tmp_path / "t.csv", "code,x\n01,1\n2,2\n")
    parts, schema = opened(path, schema=pa.schema({"code": pa.string()}))
    assert schema == pa.schema({"code": pa.string(), "x": pa.int64()})
    assert rows(parts)["code"].to_pylist() == ["01", "2"]
    assert parts[0].n_rows == 2
    parts, schema = opened(
        path, schema=pa.schema({"x": pa.float32(), "code": pa.string()})
    )
    assert schema == pa.schema({"code": pa.string(), "x": pa.float32()})
    assert parts[0].n_rows == 2
    assert rows(parts)["x"].to_pylist() == [1.0, 2.0]
    with pytest.raises(
        SourceError,
        match=r"line 2, column 'code': invalid value 'x' for int64; .*schema=",
    ):
        rows(
            opened(
                written(path, "code,x\nx,1\n"),
                schema=pa.schema({"code": pa.int64(), "x": pa.int64()}),
            )[0]
        )
    with pytest.raises(
        SourceError,
        match=r"line 2, column 'code': invalid value 'x' for int64; .*schema=",
    ):
        opened(path, schema=pa.schema({"code": pa.int64()}))


def test_columns_in_another_order_and_selected(tmp_path):
    import pyarrow.compute as pc

    a = written(tmp_path / "a.csv", "x,y,z\n1,2,3\n4,5,6\n")
    b = written(tmp_path / "b.csv", "z,x,y\n30,10,20\n")
    assert rows(opened(a, b)[0]).to_pydict() == {
        "x": [1, 4, 10],
        "y": [2, 5, 20],
        "z": [3, 6, 30],
    }
    parts, schema = opened(a, b, exclude=("y",), where=pc.field("y") > 2)
    assert schema.names == ["x", "z"]
    assert rows(parts).to_pydict() == {"x": [4, 10], "z": [6, 30]}
    assert [part.n_rows for part in parts] == [None, None]
    assert rows(opened(a, b, columns=("z", "x"))[0]).to_pydict() == {
        "z": [3, 6, 30],
        "x": [1, 4, 10],
    }


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
@pytest.mark.parametrize(
    ("mark", "name"), [(";", "t.csv"), ("\t", "t.tsv"), ("|", "t.csv")]
)
def test_separators_and_compressions(tmp_path, ending, mark, name):
    content = f"a{mark}b\n1,5{mark}x,1\n2,25{mark}y\n".encode()
    codec = {".gz": "gzip", ".zst": "zstd"}.get(ending)
    content = pa.compress(content, codec=codec, asbytes=True) if codec else content
    parts, _ = opened(written(tmp_path / (name + ending), content))
    assert rows(parts).to_pydict() == {"a": [1.5, 2.25], "b": ["x,1", "y"]}


def test_commas_that_may_stand_between_thousands(tmp_path):
    parts, schema = opened(written(tmp_path / "t.csv", "a;b\n1,234;2\n12,345;3\n"))
    assert schema.types == [pa.string(), pa.int64()]
    assert rows(parts)["a"].to_pylist() == ["1,234", "12,345"]


@pytest.mark.parametrize("beside", ["1", "2,5"])
def test_points_between_thousands(tmp_path, beside):
    """They stand beside whole numbers of three digits."""
    content = f"a;b\n{beside};1.628\n{beside};817\n{beside};2.013\n"
    parts, schema = opened(written(tmp_path / "t.csv", content))
    assert schema.field("b").type == pa.string()
    assert rows(parts)["b"].to_pylist() == ["1.628", "817", "2.013"]


def test_points_and_commas_in_one_file(tmp_path):
    """Commas are in no more columns than points."""
    parts, schema = opened(written(tmp_path / "t.csv", "a;b\n1,5;2.5\n2,25;3.5\n"))
    assert rows(parts).to_pydict() == {"a": ["1,5", "2,25"], "b": [2.5, 3.5]}
    assert schema.types == [pa.string(), pa.float64()]


def test_a_row_longer_than_a_block(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_text, "TEXT_BYTES", 1 << 10)
    content = "a,b\n" + "1,x\n" * 2000 + "2," + "y" * 50_000 + "\n" + "3,z\n" * 2000
    parts, _ = opened(written(tmp_path / "t.csv", content))
    found = rows(parts)
    assert found["a"].to_pylist() == [1] * 2000 + [2] + [3] * 2000
    assert parts[0].n_rows == 4001


def test_a_file_without_rows_among_others(tmp_path):
    empty, full = (
        written(tmp_path / "a.csv", "x,y\n"),
        written(tmp_path / "b.csv", "x,y\n1,2\n"),
    )
    parts, schema = opened(empty, full)
    assert schema.types == [pa.int64(), pa.int64()]
    assert [part.n_rows for part in parts] == [1]
    assert rows(parts).to_pydict() == {"x": [1], "y": [2]}
    with pytest.raises(SourceError, match=r"a\.csv: .*no rows"):
        opened(empty)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("a,b\n1,2\n3\n", r"t\.csv: line 3: 2 fields expected, 1 found"),
        (
            "a,b\n" + "1,2\n" * 300_000 + "1,2,3\n",
            "line 300002: 2 fields expected, 3 found",
        ),
        pytest.param(
            "a,b\n" + "1,2\n" * 300_000 + "1,\xe9\n", None, marks=pytest.mark.slow
        ),
        (b"a,b\n1,\xc3\xa9\n2,\xe9\n", "line 3, column 'b': .*UTF-8"),
        (b"\xc3\xa9,\xe9\n1,x\n", "text that is not UTF-8"),
        (gzip.compress(b"a,b\n" + b"1,2\n3,4\n" * 50_000)[:300], "damaged gzip file"),
        ("\n\n", "no rows"),
        ('a,b\n1,x\n2,"y\n3,z\n', "line 3: a quote is never closed"),
        ("a,b\n" + '1,"x"\n' * 300_000 + '2,"y', "line 300002: a quote is never"),
    ],
)
def test_what_is_no_table(tmp_path, content, match):
    path = written(tmp_path / "t.csv", content)
    if match is None:
        source = csv_files.open_csv([path], Selection(), "a CSV file")
        assert source.schema.types == [pa.int64(), pa.string()]
        reason = why_text(source, "b")
        assert "1 of 300,001 values, first 'é' in line 300002" in reason
        return
    with pytest.raises(SourceError, match=match) as caught:
        opened(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_gzip_that_ends_far_down(tmp_path):
    content = np.random.default_rng(0).integers(0, 10**9, (50_000, 2))
    raw = b"a,b\n" + b"".join(b"%d,%d\n" % (a, b) for a, b in content.tolist())
    path = written(tmp_path / "t.csv.gz", gzip.compress(raw)[:300_000])
    with pytest.raises(SourceError, match=r"damaged gzip file .*copy it again"):
        opened(path)


def test_later_files_with_other_columns(tmp_path):
    a = written(tmp_path / "a.csv", "x,y\n1,2\n")
    with pytest.raises(
        SourceError, match=r"b\.csv: there is no column 'y', which .*a\.csv has"
    ):
        opened(a, written(tmp_path / "b.csv", "x\n1\n"))
    c = written(tmp_path / "c.csv", "x,y,z\n1,2,3\n")
    with pytest.raises(SourceError, match=r"c\.csv: column 'z' is not in .*a\.csv"):
        opened(a, c)
    assert opened(a, c, columns=("y",))[1].names == ["y"]


@pytest.mark.parametrize("change", ["x,y\n1,2\n3,4\n", None])
def test_changed_after_opening(tmp_path, change):
    path = written(tmp_path / "t.csv", "x,y\n1,2\n")
    ((part,), _) = opened(path)
    path.unlink() if change is None else path.write_text(change)
    with pytest.raises(SourceError, match=r"t\.csv: the file (changed|vanished)"):
        list(part.read())


def test_changed_while_it_is_imported(tmp_path, monkeypatch):
    path = written(tmp_path / "t.csv", "x,y\n" + "1,2\n" * 1000)
    finish = imported.RowWriter.finish

    def changing(self):
        path.write_bytes(path.read_bytes()[:-2])
        return finish(self)

    monkeypatch.setattr(imported.RowWriter, "finish", changing)
    with pytest.raises(
        SourceError, match=r"t\.csv: the file changed while it was read"
    ):
        opened(path)


def test_each_value_is_converted_as_often_as_types_need(tmp_path, monkeypatch):
    """Text that fits the types of its first block is read once; a file whose types are
    those of others, twice.
    """
    calls = []
    write = csv_files.import_text

    def counting(text, *arguments):
        calls.append(text.path)
        return write(text, *arguments)

    monkeypatch.setattr(csv_files, "import_text", counting)
    a = written(tmp_path / "a.csv", "x;y\n1;2\n")
    b = written(tmp_path / "b.csv", "x;y\n1.5;2\n")
    parts, _ = opened(a, b)
    assert rows(parts).to_pydict() == {"x": [1.0, 1.5], "y": [2, 2]}
    assert calls.count(str(a)) == 2
    assert calls.count(str(b)) == 1


@pytest.mark.parametrize("late", ["x", "2.5", ""])
def test_one_late_value_makes_text_of_one_column(tmp_path, monkeypatch, late):
    """Others keep the types of the first block."""
    monkeypatch.setattr(csv_text, "TEXT_BYTES", 256)
    rows_ = "".join(f"{k},{k / 2},t\n" for k in range(400))
    path = written(tmp_path / "t.csv", f"a,b,c\n{rows_}{late},1.5,u\n")
    parts, schema = opened(path)
    kind = {"x": pa.string(), "2.5": pa.float64(), "": pa.int64()}[late]
    assert schema.types == [kind, pa.float64(), pa.string()]
    found = rows(parts)["a"].to_pylist()
    assert found[-1] == {"x": "x", "2.5": 2.5, "": None}[late]
    assert found[7] == ("7" if late == "x" else 7)


def test_names_that_are_longer_than_a_block(tmp_path):
    names = [f"column_number_{k}" for k in range(12_000)]
    path = written(tmp_path / "t.csv", f"{','.join(names)}\n{'1,' * 11_999}1\n")
    assert opened(path)[1].names == names


def test_lines_of_rows_that_a_condition_has_left(tmp_path):
    """A file whose column has no value has that of the others."""
    import pyarrow.compute as pc

    written(tmp_path / "0.csv", "a,b,y\nxx,2,1\nxy,4,2\n")
    written(tmp_path / "1.csv", "a,b,y\n,2,1\n,inf,3\n")
    where = pc.is_null(pc.field("a")) | pc.starts_with(pc.field("a"), "x")
    source = open_source(tmp_path, where=where)
    with pytest.raises(SourceError, match=r"1\.csv: .*infinity: column 'b', line 3"):
        list(finite_batches(source.parts))
