"""Data frames of any library as Arrow tables, slice by slice of one schema."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from bochner.data.columns import is_missing, lone_surrogate
from bochner.data.csv_text import KINDS, Odd, is_text, why_text
from bochner.data.streams.base import SourceError
from bochner.notices import warn


def frame_schema(frame: Any) -> pa.Schema:
    """Arrow schema of all rows of a data frame; columns of objects of several kinds are text.

    Raises
    ------
    SourceError
        For a column whose type Arrow does not have.
    """
    if isinstance(frame, pa.Table):
        return frame.schema.remove_metadata()
    import narwhals as nw

    fields = []
    for column in nw.from_native(frame, eager_only=True).iter_columns():
        try:
            values = _arrow(column) if _by_numpy(column) else _arrow(column[:1])
        except UnicodeEncodeError:
            raise SourceError(str(lone_surrogate(column.to_numpy(), column.name))) from None
        except (pa.ArrowException, TypeError, NotImplementedError) as error:
            kind = getattr(column.to_native(), "dtype", column.dtype)
            raise SourceError(f"column {column.name!r} is of type {kind}, which Arrow lacks; convert it") from error
        fields.append(pa.field(str(column.name), values.type))
    return pa.schema(fields)


def as_table(frame: Any, schema: pa.Schema, place: str) -> pa.Table:
    """Rows of a data frame as a table, with the columns of a schema that all its rows have.

    Raises
    ------
    SourceError
        Where that is not so; names the place.
    """
    if isinstance(frame, pa.Table):
        return frame.select(schema.names).replace_schema_metadata()
    import narwhals as nw

    named = {str(column.name): column for column in nw.from_native(frame, eager_only=True).iter_columns()}
    columns = [named[name] for name in schema.names]
    try:
        arrays = [
            _arrow(column, field.type) if _by_numpy(column) else _whole(_arrow(column)).cast(field.type)
            for column, field in zip(columns, schema, strict=True)
        ]
    except pa.ArrowException as error:
        raise SourceError(f"{place}: {str(error).partition(chr(10))[0]}; give columns of one type each") from error
    return pa.table(arrays, schema=schema)


def caution_text(frame: Any) -> None:
    """Warn of columns of a data frame that are text because of few of their values.

    Tables of Arrow come from files, as a rule, of which this is said where they are read.
    """
    import narwhals as nw

    for column in () if isinstance(frame, pa.Table) else nw.from_native(frame, eager_only=True).iter_columns():
        if column.dtype not in (nw.String, nw.Object):
            continue
        try:
            values = _arrow(column)
        except (pa.ArrowException, TypeError, ValueError):
            continue  # refused where it is encoded
        if is_text(values.type) and (why := why_text({kind: Odd.of(values, kind) for kind in KINDS}, "row {}".format)):
            warn(f"Column {column.name!r} {why}.")


def _arrow(column: Any, kind: pa.DataType | None = None) -> Any:
    """Values of a column as an Arrow array, those of several kinds as text."""
    if not _by_numpy(column):
        return column.to_arrow()
    values = column.to_numpy()
    try:
        return pa.array(values, type=kind, from_pandas=True)
    except (pa.ArrowException, OverflowError):
        if kind is not None and not pa.types.is_string(kind):
            raise
        return pa.array([None if is_missing(value) else str(value) for value in values], pa.string())


def _whole(values: Any) -> Any:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _by_numpy(column: Any) -> bool:
    """Whether a column is one of pandas that Arrow reads as an array: of objects, or sparse."""
    kind = getattr(column.to_native(), "dtype", None)
    return (isinstance(kind, np.dtype) and kind.hasobject) or str(kind).startswith("Sparse[")
