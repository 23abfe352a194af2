"""Tables of many files get types that hold all their values, or a file and a column
are named.
"""

import pyarrow as pa
import pytest

from bochner.sources.base import SourceError
from bochner.sources.schema import fitted, unified

CATEGORIES = pa.dictionary(pa.int32(), pa.string())


def one(kind):
    return pa.schema([("x", kind)])


@pytest.mark.parametrize(
    ("first", "later", "both"),
    [
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.uint8(), pa.int16(), pa.int16()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.int64(), pa.float64(), pa.float64()),
        (pa.null(), pa.string(), pa.string()),
        (pa.null(), CATEGORIES, CATEGORIES),
        (pa.null(), pa.binary(), pa.binary()),
        (pa.string(), pa.large_string(), pa.large_string()),
        (CATEGORIES, pa.string(), pa.string()),
        (CATEGORIES, pa.large_string(), pa.large_string()),
        (pa.dictionary(pa.int8(), pa.string()), CATEGORIES, CATEGORIES),
        (pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("us")),
        (pa.bool_(), pa.bool_(), pa.bool_()),
    ],
)
def test_types_are_widened(first, later, both):
    assert unified([("a", one(first)), ("b", one(later))]) == one(both)
    assert unified([("b", one(later)), ("a", one(first))]) == one(both)
    for kind in (first, later):
        assert fitted(pa.table({"x": pa.nulls(3, kind)}), one(both), "a").schema == one(
            both
        )


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (pa.int64(), pa.string()),
        (pa.bool_(), pa.int64()),
        (pa.string(), pa.binary()),
        (pa.string(), pa.timestamp("us")),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (CATEGORIES, pa.int64()),
    ],
)
def test_other_types_are_refused(first, later):
    message = f"b: column 'x' is {later}, but {first} in a; give its type"
    with pytest.raises(SourceError) as caught:
        unified([("a", one(first)), ("b", one(later))])
    if not pa.types.is_dictionary(first):
        assert str(caught.value).startswith(message)
    assert unified([("a", one(first)), ("b", one(later))], one(pa.string())) == one(
        pa.string()
    )


def test_columns_are_matched_by_name():
    first, later = (
        pa.schema([("x", pa.int8()), ("y", pa.string())]),
        pa.schema([("y", pa.string()), ("x", pa.int16())]),
    )
    schema = unified([("a", first), ("b", later)])
    assert schema == pa.schema([("x", pa.int16()), ("y", pa.string())])
    table = pa.table({"y": ["t"], "x": pa.array([3], pa.int8()), "z": [1]})
    assert fitted(table, schema, "b").equals(
        pa.table({"x": [3], "y": ["t"]}, schema=schema)
    )


def test_missing_and_further_columns_are_named():
    two = pa.schema([("x", pa.int8()), ("y", pa.int8())])
    with pytest.raises(SourceError, match="b: there is no column 'y', which a has; "):
        unified([("a", two), ("b", one(pa.int8()))])
    with pytest.raises(SourceError, match="b: column 'y' is not in a; "):
        unified([("a", one(pa.int8())), ("b", two)])


def test_values_that_do_not_fit_are_named():
    with pytest.raises(
        SourceError,
        match=r"rows/b, row group 3: column 'x' does not fit its type int8 \(.*300",
    ):
        fitted(pa.table({"x": [300]}), one(pa.int8()), "rows/b, row group 3")


def test_categories_become_their_values():
    table = pa.table({"x": pa.array(["u", None, "v", "u"]).dictionary_encode()})
    assert fitted(table, one(pa.large_string()), "a")["x"].to_pylist() == [
        "u",
        None,
        "v",
        "u",
    ]
