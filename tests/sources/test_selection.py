"""Columns and rows are chosen as Arrow chooses them; what is not there is refused by
name.
"""

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bochner.sources.base import Batch, SourceError
from bochner.sources.schema import Selection

N = 100_000
TABLE = pa.table(
    {"a": np.arange(N), "b": np.arange(N)[::-1], "c": ["x", None] * (N // 2)}
)


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        (Selection(), ["a", "b", "c"]),
        (Selection(("c", "a")), ["c", "a"]),
        (Selection(exclude=("b",)), ["a", "c"]),
        (Selection(("c", "b", "c"), ("b",)), ["c"]),
    ],
)
def test_columns(selection, names):
    assert selection.take(Batch(TABLE)).X.equals(TABLE.select(names))
    assert (
        selection.schema(TABLE.schema)
        == selection.needed(TABLE.schema)
        == TABLE.select(names).schema
    )


def test_rows_keep_their_order_and_may_depend_on_other_columns():
    where = (pc.field("b") < N // 2) & pc.field("c").is_valid()
    selection = Selection(("a",), where=where)
    assert selection.needed(TABLE.schema).names == ["a", "b", "c"]
    assert selection.schema(TABLE.schema).names == ["a"]
    mask = (TABLE["b"].to_numpy() < N // 2) & (np.arange(N) % 2 == 0)
    assert (
        selection.take(Batch(TABLE)).X["a"].to_pylist() == np.flatnonzero(mask).tolist()
    )
    assert (
        pickle.loads(pickle.dumps(selection))  # noqa: S301
        .take(Batch(TABLE))
        .X.equals(selection.take(Batch(TABLE)).X)
    )


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        (
            Selection(("prise", "a")),
            "no column 'prise'; did you mean 'prize' or 'price'?",
        ),
        (
            Selection(exclude=("zzz",)),
            "no column 'zzz'; there are 'a', 'prize', 'price'",
        ),
        (Selection(exclude=("a", "prize", "price")), "no column is left"),
        (Selection(where=pc.field("q") > 1), "where: No match for FieldRef.Name"),
        (Selection(where=pc.field("a") + 1), "where: "),
        (
            Selection(where=pc.field(0) > 1),
            "refers to columns by their numbers; use their names",
        ),
        (Selection(where="a > 1"), "where must be an expression such as"),
    ],
)
def test_what_is_not_there_is_refused(selection, message):
    with pytest.raises(SourceError, match=message.replace("?", r"\?")):
        selection.schema(
            pa.schema({"a": pa.int64(), "prize": pa.int8(), "price": pa.float64()})
        )


def test_names_that_repeat_are_refused():
    with pytest.raises(SourceError, match="column names repeat: 'a'; give"):
        Selection().schema(
            pa.schema([("a", pa.int8()), ("b", pa.int8()), ("a", pa.int8())])
        )
