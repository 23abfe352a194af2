"""Targets and weights, taken out of tables."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from bochner.sources.base import Batch, SourceError
from bochner.sources.rows import Roles, inputs

TABLE = pa.table(
    {
        "a": [1.0, 2.0, 3.0],
        "price": pa.array([1, 2, 3], pa.int16()),
        "rate": pa.array([0.5, None, 2.0], pa.float32()),
        "kind": pa.array(["u", "v", "u"]).dictionary_encode(),
        "true": [True, False, True],
        "w": [0.0, 1.0, 2.5],
    }
)


def split(name, **parameters):
    return Roles((name,), **parameters).rows(Batch(TABLE))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([1, 2, 3], pa.uint8()), np.array([1, 2, 3], np.int64)),
        (pa.array([1.5, 2, 3], pa.float32()), np.array([1.5, 2, 3])),
        (
            pa.array([Decimal("1.5"), Decimal("2.0"), Decimal("-3.0")]),
            np.array([1.5, 2, -3]),
        ),
        (pa.array([True, False, True]), np.array([True, False, True])),
        (pa.array(["u", "v", ""]), np.array(["u", "v", ""], object)),
        (
            pa.array(["u", "v", "u"], pa.large_string()),
            np.array(["u", "v", "u"], object),
        ),
        (
            pa.array(["u", "v", "u"]).dictionary_encode(),
            np.array(["u", "v", "u"], object),
        ),
        (pa.array([7, 8, 7]).dictionary_encode(), np.array([7, 8, 7])),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
@pytest.mark.parametrize("chunks", [1, 2])
def test_targets_of_each_type(values, expected, chunks):
    column = pa.chunked_array([values] if chunks == 1 else [values[:1], values[1:]])
    batch = Roles(("y",)).rows(Batch(pa.table({"a": [1, 2, 3], "y": column})))
    assert batch.X.column_names == ["a"]
    assert batch.weight is None
    assert batch.y.dtype == expected.dtype
    assert_array_equal(batch.y, expected)


def test_several_targets_and_weights():
    batch = Roles(("price", "a"), "w", one_target=False).rows(Batch(TABLE))
    assert batch.X.column_names == ["rate", "kind", "true"]
    assert_array_equal(batch.y, [[1, 1.0], [2, 2.0], [3, 3.0]])
    assert_array_equal(batch.weight, [0.0, 1.0, 2.5])
    assert split("price", one_target=False).y.shape == (3, 1)
    assert split("price").y.shape == (3,)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            pa.array([1.0, None, 2.0]),
            r"'y' is missing in row 101;.*where=~pyarrow.compute.field\('y'\)",
        ),
        (pa.array([1.0, np.nan, 2.0]), "missing in row 101"),
        (pa.array([None, "a", "b"]), "missing in row 100"),
        (pa.array([1.0, 2.0, np.inf]), "infinite in row 102"),
        (pa.array([dt.date(2020, 1, 1)] * 3), "'y': The target holds dates"),
        (
            pa.array([[1]] * 3),
            r"'y': targets must be numbers, text or booleans, not list",
        ),
        (
            pa.array([1, 2**64 - 1, 0], pa.uint64()),
            "the target 'y' cannot be read as numbers",
        ),
        (pa.nulls(3), "missing in row 100"),
    ],
)
def test_what_is_no_target_is_refused(values, message):
    with pytest.raises(SourceError, match=message):
        Roles(("y",)).rows(Batch(pa.table({"a": [1, 2, 3], "y": values})), first=100)


def test_a_column_without_any_target_is_refused_as_such():
    with pytest.raises(SourceError, match="missing in row 0 and in all rows after it"):
        Roles(("y",)).rows(Batch(pa.table({"a": [1, 2], "y": pa.nulls(2)})))


def test_the_cure_of_the_message_helps():
    import pyarrow.compute as pc

    table = pa.table({"a": [1, 2, 3], "y": [1.0, None, np.nan]})
    left = table.filter(~pc.field("y").is_null(nan_is_null=True))
    assert Roles(("y",)).rows(Batch(left)).y.tolist() == [1.0]


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, None])
def test_weights_that_are_none_are_refused(bad):
    table = pa.table({"a": [1, 2], "w": pa.array([1.0, bad])})
    with pytest.raises(
        SourceError,
        match=r"weight 'w' is .* in row 8; weights must be numbers of at least 0",
    ):
        Roles(weight="w").rows(Batch(table), first=7)
    if bad is not None:
        with pytest.raises(SourceError, match=r"weight is .* in row 1"):
            Roles().rows(Batch(np.ones((2, 2)), weight=np.array([1.0, bad])))
    with pytest.raises(SourceError, match="the weights 'w' cannot be read as numbers"):
        Roles(weight="w").rows(Batch(pa.table({"a": [1], "w": ["x"]})))


def test_columns_that_do_not_exist():
    with pytest.raises(SourceError, match=r"no column 'prise'; did you mean 'price'"):
        split("prise")
    with pytest.raises(SourceError, match=r"no column 'prise'; did you mean 'price'"):
        inputs(TABLE.schema, Roles(("prise",)))
    with pytest.raises(SourceError, match=r"no column 'zzz'; there are 'a', 'price'"):
        inputs(TABLE.schema, Roles(("a",), "zzz"))
    with pytest.raises(SourceError, match="no names"):
        inputs(3, Roles(("a",)))
    with pytest.raises(SourceError, match="no columns but 'a'"):
        inputs(pa.schema({"a": pa.int8()}), Roles(("a",)))
    assert inputs(3, Roles()) == 3
    assert inputs(TABLE.schema, Roles(("price",), "w")).names == [
        "a",
        "rate",
        "kind",
        "true",
    ]


@pytest.mark.parametrize("X", [np.ones((3, 2)), sp.csr_array(np.ones((3, 2))), TABLE])
def test_targets_that_come_apart(X):
    batch = Roles().rows(Batch(X, np.array([1, 2, 3], np.int8), np.array([1, 2, 3])))
    assert batch.y.dtype == np.int64
    assert batch.weight.dtype == np.float64
    assert Roles().rows(Batch(X, np.array(["a", "b", "c"]))).y.tolist() == [
        "a",
        "b",
        "c",
    ]
    assert Roles().rows(Batch(X)).y is None
    with pytest.raises(SourceError, match="missing in row 1"):
        Roles().rows(Batch(X, pd.Series(["a", None, "b"], dtype=object).to_numpy()))
    with pytest.raises(SourceError, match="dates"):
        Roles().rows(Batch(X, np.array(["2020"] * 3, "M8[D]")))
    with pytest.raises(SourceError, match="their own targets"):
        Roles(("price",)).rows(Batch(X, np.ones(3)))
    with pytest.raises(SourceError, match="missing in row 2"):
        Roles().rows(Batch(X, np.array([[1.0, 2], [2, 3], [3, np.nan]])))


@pytest.mark.parametrize(
    ("values", "kind", "found"),
    [
        ([1, None, 3], pa.int64(), [1.0, np.nan, 3.0]),
        ([1.5, None, 3], pa.float32(), [1.5, np.nan, 3.0]),
        (["a", None, "b"], pa.string(), ["a", None, "b"]),
        ([True, None, False], pa.bool_(), [True, None, False]),
    ],
)
def test_rows_without_target_are_kept_with_a_mark(values, kind, found):
    batch = Batch(pa.table({"a": [1, 2, 3], "y": pa.array(values, kind)}))
    kept = Roles(("y",), without="keep").rows(batch)
    assert kept.X.num_rows == 3
    np.testing.assert_array_equal(kept.y, np.array(found, kept.y.dtype))


def test_infinite_targets_are_not_kept():
    with pytest.raises(SourceError, match="infinite in row 1"):
        Roles(("y",), without="keep").rows(
            Batch(pa.table({"a": [1, 2], "y": [1.0, np.inf]}))
        )
