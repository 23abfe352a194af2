"""What a reader of CSV files says and leaves out is the same where a file is read
whole and in parts.
"""

import gzip
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bochner import KernelMachineClassifier, KernelMachineRegressor, open_source
from bochner.cli.failures import CommandError
from bochner.sources import csv_text, imported
from bochner.sources.schema import why_text
from whole_tables import read_table

N = 60
RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=(N, 2)).round(3)
BODY = "".join(f"{a},{b},k\n" for a, b in NUMBERS)


@pytest.fixture(params=["whole", "in parts"])
def read(request, tmp_path, monkeypatch):
    """Read the content of a CSV: its table and what is said of it."""
    monkeypatch.setattr(imported, "PART_BYTES", 1 << 8)
    monkeypatch.setattr(csv_text, "TEXT_BYTES", 1 << 7)

    def of(content, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        notes = []
        if request.param == "whole":
            return read_table(path, note=notes.append), notes
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            source = open_source(path)
        batches = [batch.X for part in source.parts for batch in part.read()]
        return pa.concat_tables(batches).combine_chunks(), [
            str(one.message) for one in caught
        ]

    return of


@pytest.fixture
def why(tmp_path):
    """Why a column of a CSV is text."""

    def of(content, name):
        path = tmp_path / "why.csv"
        path.write_text(content)
        return why_text(open_source(path), name)

    return of


@pytest.mark.parametrize(
    ("value", "shown", "kind"),
    [
        ('"1,000"', "1,000", "numbers"),
        ("0x10", "0x10", "numbers"),
        ("?", "?", "numbers"),
    ],
)
def test_one_odd_value(read, why, value, shown, kind):
    """Targets are refused for it; other columns are read where they are encoded."""
    content = f"a,b,c\n{BODY}{value},1.5,k\n"
    table, notes = read(content)
    assert notes == []
    assert why(content, "a") == (
        f"is text because of 1 of 61 values, first '{shown}' in line 62; "
        f"write {kind} there, or nothing"
    )
    assert table["a"][-1].as_py() == shown
    assert table["b"].type == pa.float64()


def test_the_line_is_that_of_an_editor(why):
    """Blank lines and line breaks in quoted fields are lines of the file."""
    rows = BODY.splitlines(keepends=True)
    content = (
        "a,b,c\n"
        + "".join(rows[:5])
        + '1.5,2.5,"two\nlines"\n\n'
        + "".join(rows[5:])
        + "x,1.5,k\n"
    )
    assert why(content, "a").startswith(
        "is text because of 1 of 62 values, first 'x' in line 65;"
    )


@pytest.mark.parametrize(("odd", "said"), [(6, True), (7, False)])
def test_few_are_a_tenth(why, odd, said):
    content = "a,b\n" + "1.5,2\n" * (60 - odd) + "x,2\n" * odd
    reason = why(content, "a")
    assert reason.startswith(f"is text because of {odd} of 60") == said
    assert bool(reason) == said


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_repeated_names(read, ending):
    content = f"a,b,c\n{BODY}a,b,c\n{BODY}".encode()
    table, notes = read(gzip.compress(content) if ending else content, f"t.csv{ending}")
    assert notes == ["Line 62 is the column names again, and is left out."]
    np.testing.assert_array_equal(
        np.column_stack([table["a"], table["b"]]), np.tile(NUMBERS, (2, 1))
    )


def test_names_repeated_often(read):
    table, notes = read("a,b,c\n" + (BODY + "a,b,c\r\n") * 5)
    assert notes == [
        "Lines 62, 123, 184 and 2 more are the column names again, and are left out."
    ]
    assert len(table) == 5 * N


@pytest.mark.parametrize("header", ["", "Unnamed: 0", ",Unnamed: 0"])
@pytest.mark.parametrize("first", [0, 1])
def test_an_index_of_row_numbers(read, header, first):
    order = RNG.permutation(N) + first
    more = header.count(",")
    rows = [
        f"{k}," * (1 + more) + f"{a},{b}\n"
        for k, (a, b) in zip(order, NUMBERS, strict=True)
    ]
    table, notes = read(f"{header},a,b\n{''.join(rows)}")
    assert table.column_names == ["a", "b"]
    assert len(notes) == 1 + more
    assert all(
        note.endswith("is taken for numbers of the rows, and is left out.")
        for note in notes
    )


@pytest.mark.parametrize("order", [np.arange(N) / 2, np.array(["u", "v"] * (N // 2))])
def test_columns_without_a_name_that_are_no_index(read, order):
    table, notes = read(
        ",a\n"
        + "".join(f"{k},{a}\n" for k, a in zip(order, NUMBERS[:, 0], strict=True))
    )
    assert table.column_names == ["", "a"]
    assert notes == ["Column 1 has no name; give it one."]


@pytest.mark.parametrize("order", [np.arange(N)[::-1] + 2, np.arange(N) ** 2])
def test_an_index_with_gaps(read, order):
    """As pandas writes the rows that a condition has kept."""
    table, notes = read(
        ",a\n"
        + "".join(f"{k},{a}\n" for k, a in zip(order, NUMBERS[:, 0], strict=True))
    )
    assert table.column_names == ["a"]
    assert notes == [
        "Column 1, which has no name, is taken for numbers of the rows, and is left out."
    ]


def test_several_columns_without_a_name(read):
    with pytest.raises(
        (ValueError, CommandError),
        match="columns 2 and 4 have no name; give each column a name",
    ):
        read("a,,b,\n1,2,3,4\n")


def written(path, content):
    path.write_text(content)
    return path


def test_several_files(tmp_path):
    first = written(tmp_path / "a.csv", f"a,b,c\n{BODY}")
    second = written(tmp_path / "b.csv", f"a,b,c\na,b,c\n{BODY}1.5,?,k\n")
    with pytest.warns(UserWarning, match="Line 2 of b.csv is the column names"):
        source = open_source([first, second])
    assert why_text(source, "b").startswith(
        "is text because of 1 of 121 values, first '?' in line 63 of b.csv;"
    )
    assert source.n_rows == 2 * N + 1


@pytest.mark.parametrize(
    "ranges",
    [(range(5), range(4)), (range(5), range(5, 9)), ((8, 1, 5), (2, 7, 3, 4, 6))],
)
def test_row_numbers_of_several_files(tmp_path, ranges):
    for k, numbers in enumerate(ranges):
        written(
            tmp_path / f"{k}.csv",
            ",a\n" + "".join(f"{number},1.5\n" for number in numbers),
        )
    with pytest.warns(
        UserWarning,
        match="Column 1, which has no name, is taken for numbers of the rows, and is left out",
    ):
        source = open_source(tmp_path)
    assert source.names == ["a"]
    assert open_source(tmp_path, columns=["", "a"]).names == ["", "a"]


def machine(kind=KernelMachineRegressor):
    return kind(
        "gaussian", n_components=16, features="fourier", alpha=1.0, random_state=0
    )


@pytest.mark.parametrize("kind", [KernelMachineRegressor, KernelMachineClassifier])
def test_a_target_of_numbers_but_for_few_is_refused(tmp_path, kind):
    path = written(tmp_path / "t.csv", "a,y\n" + "1,1\n2,0\n" * 30 + "2,?\n")
    match = (
        r"target 'y' is text because of 1 of 61 values, first '\?' in line 62; "
        r".* schema=pyarrow.schema"
    )
    with pytest.raises(ValueError, match=match):
        machine(kind).fit(path, "y")
    labels = open_source(path, schema=pa.schema({"y": pa.string()}))
    assert "?" in machine(KernelMachineClassifier).fit(labels, "y").classes_


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ("inf,1.5,2", r"infinity: column 'a', line 12; drop"),
        ("1.5,,2", r"target 'y' is missing in line 12; drop"),
        ("1.5,-inf,2", r"target is infinite in line 12; drop"),
        ("1.5,2.5,-1", r"weight 'c' is -1\.0 in line 12; weights must"),
    ],
)
@pytest.mark.parametrize("where", [None, pc.field("b") != "left out"])
def test_rows_that_are_refused_are_named_by_their_lines(tmp_path, row, match, where):
    """Row 9 of the table: above it are the names, a blank line, a line break in
    quotes, and names again.
    """
    good = "1.5,2.5,1,x\n" * 4
    text = (
        f'a,y,c,b\n\n{good}a,y,c,b\n1.5,2.5,1,"left\n out"\n1.5,2.5,1,left '
        f"out\n1.5,2.5,1,x\n{row},x\n{good}"
    )
    path = written(tmp_path / "t.csv", text)
    with pytest.warns(UserWarning, match="Line 7 is the column names"):
        source = open_source(path, where=where)
    with pytest.raises(ValueError, match=rf"t\.csv: .*{match}"):
        machine().fit(source, "y", sample_weight="c")


def test_predictions_name_the_line(tmp_path):
    model = machine().fit(pd.DataFrame(NUMBERS, columns=["a", "b"]), NUMBERS[:, 0])
    path = written(tmp_path / "t.csv", f"a,b,c\n{BODY}1.5,inf,k\n")
    with pytest.raises(ValueError, match=r"t\.csv: .*column 'b', line 62"):
        model.predict(path)


def test_predictions_with_and_without_the_index(tmp_path):
    frame = pd.DataFrame(NUMBERS, columns=["a", "y"]).sample(frac=1, random_state=0)
    frame.to_csv(tmp_path / "with.csv")
    frame.to_csv(tmp_path / "without.csv", index=False)
    with pytest.warns(UserWarning, match="is taken for numbers of the rows"):
        model = machine().fit(tmp_path / "with.csv", "y")
    assert model.feature_names_in_.tolist() == ["a"]
    np.testing.assert_array_equal(
        model.predict(tmp_path / "with.csv"), model.predict(tmp_path / "without.csv")
    )


@pytest.mark.parametrize("kind", ["frame", "csv"])
def test_columns_that_are_no_dates_because_of_few_values(tmp_path, kind):
    days = pd.date_range("2020-01-30", periods=60).strftime("%Y-%m-%d").to_list()
    days[7] = "soon"
    frame = pd.DataFrame({"a": days, "y": NUMBERS[:, 0]})
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    with pytest.warns(
        UserWarning,
        match="Column 'a': text because of 1 of 60 values, first 'soon'; write dates "
        "there, or nothing",
    ):
        machine().fit(frame if kind == "frame" else path, "y")


def test_targets_with_commas_are_refused(tmp_path):
    path = written(tmp_path / "t.csv", "a,y\n" + '1,"1,234"\n2,5\n' * 30)
    match = r"'y' has numbers with commas, first '1,234' in line 2; write a decimal poi"
    with pytest.raises(ValueError, match=match):
        machine().fit(path, "y")
