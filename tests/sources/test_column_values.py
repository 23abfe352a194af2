"""Rows of delimited text are those that Arrow parses, and lines are those of the
file.
"""

import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv

from bochner.sources.csv_text import whole_file
from bochner.sources.text_files import Row, rows_of, whole_rows


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.text('ab,"\n', max_size=40))
def test_rows_are_those_of_arrow(body):
    """Rows of one field or of many: what Arrow takes for one row is one, whatever
    the quotes.
    """
    text = f"names\n{body}\n".encode()
    found = list(rows_of([Row(1, 0, text)], ","))
    counted = []
    count = csv.ParseOptions(
        newlines_in_values=True,
        invalid_row_handler=lambda row: counted.append(row) or "skip",
    )
    try:
        table = csv.read_csv(
            io.BytesIO(text), csv.ReadOptions(use_threads=False), count
        )
    except pa.ArrowInvalid:
        return  # a quoted field without an end
    assert len(found) == 1 + len(table) + len(counted)
    lines = text.split(b"\n")
    assert all(row.text.startswith(lines[row.line - 1]) for row in found)
    assert all(text[row.start :].startswith(row.text) for row in found)
    pieces = list(whole_rows(io.BytesIO(text), ",", 5))
    assert b"".join(piece.text for piece in pieces) == text
    assert list(rows_of(pieces, ",")) == found
    ends = {row.start for row in found} | {len(text)}
    for n_bytes in np.cumsum([len(piece.text) for piece in pieces]).tolist():
        assert (
            n_bytes in ends
            or not text[n_bytes : min(e for e in ends if e >= n_bytes)].strip()
        )


def written(path, content):
    path.write_bytes(content)
    return whole_file(path)


def test_lines_count_blank_ones_and_those_inside_quotes(tmp_path):
    content = (
        b'\xef\xbb\xbfa,b\r\n1,"2\n3"\r\n\r\n5" p,6\r\n"q ""z"" a,b\na,b\n",7\n8,9'
    )
    text = written(tmp_path / "t.csv", content)
    assert list(text.lines()) == [2, 5, 6, 9]
    assert text.line_of(2) == 6


def test_names_that_come_again(tmp_path):
    content = (
        b'\xef\xbb\xbfa,b\r\n1,"2\na,b\n"\r\na,b\r\n\n\xef\xbb\xbfa,b\n8,9\na,bc\na,b'
    )
    kept = written(tmp_path / "t.csv", content).surveyed()
    assert [row.line for row in kept.dialect.without] == [1, 5, 7, 10]
    (block,) = kept.blocks()
    table = kept.table(block, {})
    assert table.to_pydict() == {"a": ["1", "8", "a"], "b": ["2\na,b\n", "9", "bc"]}
    assert list(kept.lines()) == [2, 8, 9]


@pytest.mark.parametrize(
    "content", [b"word\nthe\nword\n", b"1,2.5\n3,4\n1,2.5\n", b"a,b\n1,2\na,bc\nxa,b\n"]
)
def test_rows_that_are_no_names(tmp_path, content):
    without = written(tmp_path / "t.csv", content).surveyed().dialect.without
    assert [row.line for row in without] in ([], [1])
