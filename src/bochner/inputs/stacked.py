"""Tables of any kind, one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import pyarrow as pa

from bochner.data.table_input import is_frame
from bochner.sources.rows import concat


def refuse_other_kinds(X: Any, other: Any) -> None:
    """Raise ValueError where a column of validation rows is of another kind than that
    of X.
    """
    if not (is_frame(X) and is_frame(other)):
        return
    first, second = (nw.from_native(one, eager_only=True).schema for one in (X, other))
    for column, kind in first.items():
        if _kind(kind) != _kind(second.get(column, kind)):
            raise ValueError(
                f"Column {column!r} of validation has the type {second[column]}, and "
                f"that of X {kind}: give both the same."
            )


def _kind(kind: Any) -> str:
    """What a type holds: numbers, text, or what its name says."""
    if kind.is_numeric() or kind == nw.Boolean:
        return "numbers"
    if kind in (nw.String, nw.Categorical, nw.Enum):
        return "text"
    return type(kind).__name__ if isinstance(kind, nw.dtypes.DType) else str(kind)


def stacked(tables: Sequence[Any]) -> Any:
    """Tables one below the other: of frames of one library a frame of it, of others a
    table of Arrow, whose types widen; a sparse matrix where one is, else an array;
    ValueError for frames beside arrays.
    """
    are_frames = [*map(is_frame, tables)]
    if all(are_frames):
        frames = [nw.from_native(table, eager_only=True) for table in tables]
        library = frames[0].implementation
        schema = frames[0].schema
        if all(
            one.implementation is library
            and (library.is_pandas_like() or one.schema == schema)
            for one in frames
        ):
            return nw.concat(frames).to_native()
        # Libraries or types differ; without an index of pandas
        try:
            return concat([one.to_arrow().select(one.columns) for one in frames])
        except pa.ArrowException as error:
            raise ValueError(
                f"The columns of the tables differ ({error}); give all of them the "
                "same types."
            ) from error
    if any(are_frames):
        raise ValueError(
            "Some rows are data frames and some are arrays: give all of them in one "
            "form."
        )
    return concat(tables)
