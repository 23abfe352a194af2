"""Tables of text are read as people keep them: with titles, units, sums, other
separators and encodings, without names.
"""

import gzip
import re
import warnings

import pyarrow as pa
import pytest

import bochner
from bochner.sources import imported
from bochner.sources.base import SourceError

ABY = {"a": [1.5, 2.0, -3.5], "b": ["u", "v", "u"], "y": [10, 20, 30]}
ROWS = "1.5,u,10\n2.0,v,20\n-3.5,u,30\n"
SEMICOLONS = "1,5;u;10\n2,0;v;20\n-3,5;u;30\n"


@pytest.fixture
def read(tmp_path):
    """Write a file and read it: the values of its columns, and what is said."""

    def of(content, name="t.csv", **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            source = bochner.open_source(path, **options)
        batches = [batch.X for part in source.parts for batch in part.read()]
        table = pa.concat_tables(batches)
        assert source.n_rows in (None, len(table))
        return table.to_pydict(), [str(one.message) for one in caught]

    return of


ABOVE = "Line 1 is above the column names, and is left out."
ABOVE_2 = "Lines 1 and 2 are above the column names, and are left out."
SECOND = "Line 2 has names or units once more, and is left out."
BELOW = "Line 5 is below the table, and is left out."
ENDS = "1 column at the end of the lines without a name and without values is left out."
ENDS_2 = ENDS.replace("1 column", "2 columns").replace(" is left", " are left")
LIKE_DATA = "Line 1 looks like data: names x1, x2, ... are used."
WINDOWS = "The text is not UTF-8, and is read as that of Windows (cp1252)."
UTF_16 = "The text is UTF-16, and is read as such."
BLANKS = "Columns are separated by blanks."
X = {"x1": ABY["a"], "x2": ABY["b"], "x3": ABY["y"]}


@pytest.mark.parametrize(
    ("content", "columns", "notes"),
    [
        # Separators by all first lines
        (f"a;b, kind;y\n{SEMICOLONS}", ABY | {"b, kind": ABY["b"]}, []),
        (f"a;b;y\n{SEMICOLONS}", ABY, []),
        ('"a;1","b"\n1,2\n3,4\n', {"a;1": [1, 3], "b": [2, 4]}, []),
        (
            f"sep=;\na;b;y\n{SEMICOLONS}",
            ABY,
            ["Line 1 names the separator, and is left out."],
        ),
        # Lines above the names
        (f"# logger 7, site 3\n# units: g, -, mm\na,b,y\n{ROWS}", ABY, [ABOVE_2]),
        (f"#a,b,y\n{ROWS}", ABY | {"#a": ABY["a"]}, []),
        (f"Report of plant 3\n\na,b,y\n{ROWS}", ABY, [ABOVE]),
        (f"Report of plant 3,,\n,,\na,b,y\n{ROWS}", ABY, [ABOVE_2]),
        (f"\n\na,b,y\n{ROWS}", ABY, []),
        # Names or units once more
        (f"a,b,y\nResponse,Response,Response\n{ROWS}", ABY, [SECOND]),
        (f"a,b,y\ng,-,mm\n{ROWS}", ABY, [SECOND]),
        (
            "a,b\nAnna,x\nBert,y\nCarl,x\n",
            {"a": ["Anna", "Bert", "Carl"], "b": ["x", "y", "x"]},
            [],
        ),
        # Rows below the table
        (f"a,b,y\n{ROWS}Total,,60\n", ABY, [BELOW]),
        (f"a,b,y\n{ROWS}Source: plant 3\n", ABY, [BELOW]),
        (
            f"a,b,y\n{ROWS},,\nSumme,,60\n",
            ABY,
            ["Lines 5 and 6 are below the table, and are left out."],
        ),
        (
            "b,y\nu,1\nv,2\nTotal,3\n",
            {"b": ["u", "v", "Total"], "y": [1, 2, 3]},
            [],
        ),
        (
            "b,u,v,w,y\nu,1,2,3,1\nv,3,4,5,2\nTotal,,,,3\n",
            {"b": ["u", "v"], "u": [1, 3], "v": [2, 4], "w": [3, 5], "y": [1, 2]},
            ["Line 4 is below the table, and is left out."],
        ),
        (
            "b,u,v,w,y\nu,1,2,3,1\nTotal,3,4,5,2\n",
            {"b": ["u", "Total"], "u": [1, 3], "v": [2, 4], "w": [3, 5], "y": [1, 2]},
            [],
        ),
        # Separators at the ends of lines
        ("a;b;y;;\n" + SEMICOLONS.replace("\n", ";;\n"), ABY, [ENDS_2]),
        ("a,b,y,\n" + ROWS.replace("\n", ",\n"), ABY, [ENDS]),
        ("a,b,y\n" + ROWS.replace("\n", ",\r\n"), ABY, [ENDS]),
        (f"a,b,y,\n{ROWS}", ABY, [ENDS]),
        ('a,b,\n1,"u,",\n2,"v,",\n', {"a": [1, 2], "b": ["u,", "v,"]}, [ENDS]),
        # No names
        (ROWS, X, [LIKE_DATA]),
        (f"\ufeff{ROWS}", X, [LIKE_DATA]),
        ("u,5\nv,7\nu,6\n", {"x1": ["u", "v", "u"], "x2": [5, 7, 6]}, [LIKE_DATA]),
        ("2.5,1\n3,4\n5,6\n", {"x1": [2.5, 3, 5], "x2": [1, 4, 6]}, [LIKE_DATA]),
        (
            "land,2019,2020\nA,1,2\nB,3,4\n",
            {"land": ["A", "B"], "2019": [1, 3], "2020": [2, 4]},
            [],
        ),
        ("2020,2019\n1,2\n3,4\n", {"2020": [1, 3], "2019": [2, 4]}, []),
        ("0,1\n1,2\n3,4\n", {"0": [1, 3], "1": [2, 4]}, []),
        # Names that repeat
        (
            "a,b,a,a.1,a\n1,2,3,4,5\n",
            {"a": [1], "b": [2], "a.2": [3], "a.1": [4], "a.3": [5]},
            ["Column names repeat, and the later 'a', 'a' are read as 'a.2', 'a.3'."],
        ),
        # Encodings and ends of lines
        (
            "a,größe\n1,é\n2,ö\n".encode("cp1252"),
            {"a": [1, 2], "größe": ["é", "ö"]},
            [WINDOWS],
        ),
        ("a,größe\n1,é\n".encode("utf-16"), {"a": [1], "größe": ["é"]}, [UTF_16]),
        (f"a,b,y\n{ROWS}".replace("\n", "\r"), ABY, []),
        (f"a,b,y\r\n{ROWS}", ABY, []),
    ],
)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_tables(read, content, columns, notes, ending):
    raw = content if isinstance(content, bytes) else content.encode()
    found, said = read(gzip.compress(raw) if ending else raw, f"t.csv{ending}")
    assert found == {name: columns[name] for name in found}
    assert len(found) >= min(len(columns), 2)
    assert said == notes


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        ("a b y\n1.5 u 10\n2.0 v 20\n-3.5 u 30\n", ABY),
        ("  a   b    y\n 1.5  u 10\n 2.0  v 20 \n-3.5  u 30\n", ABY),
        (
            'a  b\n1 "u v"\n2 w\n3  "x"\n',
            {"a b": ['1 "u v"', "2 w", '3  "x"']},
        ),
        ('a  b y\n1 "u v"  2\n2 w 3\n', {"a": [1, 2], "b": ["u v", "w"], "y": [2, 3]}),
        ("good text\nhello there\nold friend\n", None),
    ],
)
def test_columns_separated_by_blanks(read, content, columns):
    found, said = read(content, "t.txt")
    if columns is None or len(columns) == 1:  # words of one column
        assert len(found) == 1
        assert said == []
        return
    assert found == columns
    assert said == [BLANKS]


ARFF = """% made by hand
@RELATION t
@attribute 'the size' NUMERIC
@attribute kind {u,'v w'}
@attribute grade {1,2}
@attribute note string

@data
1,u,1,'it\\'s'
% a comment
?, 'v w', 2, ?
3,u,?,"x, y"
"""
OF_ARFF = {
    "the size": [1, None, 3],
    "kind": ["u", "v w", "u"],
    "grade": ["1", "2", None],
    "note": ["it's", None, "x, y"],
}


@pytest.mark.parametrize("name", ["t.arff", "t.txt", "t.arff.gz"])
def test_arff(read, name, tmp_path):
    raw = ARFF.encode()
    found, said = read(gzip.compress(raw) if name.endswith(".gz") else raw, name)
    assert found == OF_ARFF
    assert said == []
    source = bochner.open_source(tmp_path / name)
    assert [source.parts[0].line(row) for row in range(3)] == [9, 11, 12]


def test_arff_that_is_refused(read):
    header, data, _ = ARFF.partition("@data\n")
    with pytest.raises(SourceError, match=r"t\.arff: .*sparse rows.*write all values"):
        read(f"{header}{data}{{0 1, 1 u}}\n", "t.arff")
    with pytest.raises(SourceError, match=r"t\.arff: .*without a line @data"):
        read(header, "t.arff")
    # The cures
    assert read(f"{header}{data}1,u,1,x\n", "t.arff")[0]["note"] == ["x"]
    assert read("a,b\n1,2\n", "t.csv")[0] == {"a": [1], "b": [2]}


def test_text_that_is_not_utf_8_far_down(read):
    lines = "".join(f"{k},abcdefgh\n" for k in range(60_000))
    raw = f"a,b\n{lines}7,".encode() + b"caf\xe9\n"
    found, said = read(raw)
    assert found["b"][-1] == "café"
    assert len(found["a"]) == 60_001
    assert said == [WINDOWS]


def test_lines_are_those_of_the_file(read):
    content = f"Report\n\na,b,y\ng,-,mm\n{ROWS}1,2\n4,w,40\n"
    with pytest.raises(SourceError, match="line 8: 3 fields expected, 2 found"):
        read(content)


@pytest.mark.parametrize(
    ("wrong", "cure", "right"),
    [
        (
            "Report, plant 3\n1.5,u,10\n2,v,20\n",
            "line 2: 2 fields expected, 3 found; line 1 should name each column: "
            "remove what is above",
            "a,b,y\n1.5,u,10\n2,v,20\n",
        ),
        (
            "text\nHello, world\nno comma\nx, y, z\n",
            "line 2: 1 fields expected, 2 found; quote fields that hold the separator",
            'text\n"Hello, world"\nno comma\n"x, y, z"\n',
        ),
        (
            "a,b\n1,2\n3,4\n5,6,7\n",
            "line 4: 2 fields expected, 3 found; quote fields",
            'a,b\n1,2\n3,4\n5,"6,7"\n',
        ),
        (
            "a,b,\n1,2,\n" + "3,4,\n" * 99 + "5,6,7\n",
            "line 102: 2 fields expected, 3 found; name each column that has values",
            "a,b,c\n1,2,\n" + "3,4,\n" * 99 + "5,6,7\n",
        ),
        (
            "a b\n" + "1 2\n" * 99 + "1 2 3\n",
            "line 101: 2 fields expected, 3 found; put fields that hold blanks in",
            "a b\n" + "1 2\n" * 99 + '1 "2 3"\n',
        ),
    ],
)
def test_what_cannot_be_told(read, wrong, cure, right):
    with pytest.raises(SourceError, match=re.escape(cure)):
        read(wrong)
    assert read(right)[0]


def test_files_that_are_read_in_parts(read, monkeypatch):
    monkeypatch.setattr(imported, "PART_BYTES", 1 << 8)
    rows = "".join(f"{k}.5,{k}\n" for k in range(200))
    content = f"{'Report ' * 60}\n\na,a\ng,mm\n{rows}Total,5\n"
    found, said = read(content)
    assert found == {"a": [k + 0.5 for k in range(200)], "a.1": list(range(200))}
    assert said == [
        ABOVE,
        "Line 4 has names or units once more, and is left out.",
        "Column names repeat, and the later 'a' is read as 'a.1'.",
        "Line 205 is below the table, and is left out.",
    ]


def test_several_files_are_named(tmp_path):
    for name in ("a.csv", "b.csv", "c.csv"):
        title = "" if name == "a.csv" else "Report\n"
        (tmp_path / name).write_text(f"{title}a,b,y\n{ROWS}")
    with pytest.warns(UserWarning, match=r"Line 1 of b\.csv and 1 more files is above"):
        source = bochner.open_source(tmp_path)
    assert source.n_rows == 9


def test_long_lines_and_many_equal_names(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("id,text\n" + "".join(f"{k},{'y' * 9000}\n" for k in range(60)))
    assert bochner.open_source(path).n_rows == 60
    wide = tmp_path / "wide.csv"
    wide.write_text(",".join(["v"] * 5000) + "\n" + (",".join(["3"] * 5000) + "\n") * 9)
    with pytest.warns(UserWarning, match="Column names repeat"):
        source = bochner.open_source(wide)
    assert source.names[:3] == ["v", "v.1", "v.2"]


def test_a_last_row_with_gaps_is_a_row(tmp_path):
    path = tmp_path / "gaps.csv"
    path.write_text("code,v,w\n100,2,1\n101,3,2\n102,1,1\nE03,,\n")
    assert bochner.open_source(path).n_rows == 4


def test_names_that_look_like_values_are_told(tmp_path):
    path = tmp_path / "rising.csv"
    path.write_text("1,20,300\n2,30,400\n3,10,500\n")
    with pytest.warns(
        UserWarning, match="Line 1 is taken for the column names, though"
    ):
        assert bochner.open_source(path).n_rows == 2


NAMES_OF_ROWS = (
    "Line 1 names all columns but the first: names of rows, which are left out."
)


@pytest.mark.parametrize(
    ("content", "more"),
    [
        (
            '"a" "b" "y"\n"1" 1.5 "u" 2\n"2" 2.5 "v" 3\n"4" 3.5 "u" 4\n',
            ["Columns are separated by blanks."],
        ),
        ("a\tb\ty\nr1\t1.5\tu\t2\nr2\t2.5\tv\t3\nr3\t3.5\tu\t4\n", []),
        ("a;b;y\nr1;1,5;u;2\nr2;2,5;v;3\nr3;3,5;u;4\n", []),
    ],
)
def test_names_of_rows_as_r_writes_them(read, content, more):
    found, said = read(content)
    assert found == {"a": [1.5, 2.5, 3.5], "b": ["u", "v", "u"], "y": [2, 3, 4]}
    assert said == [*more, NAMES_OF_ROWS]


@pytest.mark.parametrize(
    "rows", ["1.5,u,2,9\n2.5,v,3,9\n", "2,u,2,9\n1,v,3,9\n", "r1,u,2,9\nr1,v,3,9\n"]
)
def test_a_row_of_names_that_lacks_one(read, rows):
    """Names would be those of other columns."""
    cure = "line 1 should name each column"
    with pytest.raises(SourceError, match=cure):
        read(f"a,b,y\n{rows}")
