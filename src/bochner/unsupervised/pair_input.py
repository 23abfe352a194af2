"""What two tables of the same rows may be: in memory, or read in passes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_array

from bochner.data.array_source import ArraySource, as_it_is
from bochner.data.table import TableEncoder
from bochner.data.table_input import check_frame, checked_sparse, is_frame, refuse_text, require_finite
from bochner.engines.progress import progress
from bochner.estimators.checks import refuse_lazy
from bochner.estimators.model import encoded_source
from bochner.estimators.sizes import sampled_rows
from bochner.estimators.tables import Given, Stream, columns_apart, engine_of, given
from bochner.settings import current
from bochner.sources.memory import of_arrays
from bochner.sources.opening import is_streamed
from bochner.sources.rows import Roles
from bochner.sources.scan import TableSummary, scan
from bochner.sources.stream import StreamSource
from bochner.unsupervised.paired import Encode


class Table(NamedTuple):
    """One of two tables.

    Attributes
    ----------
    source : ArraySource or StreamSource
        All rows, encoded block by block.
    sample : ArraySource
        The same, or a sample of them in memory, encoded.
    encoder : TableEncoder
    """

    source: Any
    sample: ArraySource
    encoder: TableEncoder


def given_pair(X: Any, y: Any, sample_weight: Any) -> tuple[Given, Given]:
    """Both tables in memory, or both as streams.

    Raises
    ------
    ValueError, TypeError
        Where there is no second table; where weights that are a column of files are not known of the other table.
    """
    named = isinstance(sample_weight, str)
    X, y = columns_apart(X, y, sample_weight if named else None)
    first = given(X, None, sample_weight)
    second = given(y, None, sample_weight if named and is_streamed(y) else None)
    if second.stream is None:
        second = second._replace(X=second_table(second.X))
    if first.stream is not None and second.stream is None:
        if named and second.weight is None:
            raise ValueError(
                f"The weights are the column {sample_weight!r} of X, which is read in passes, and y has none: give y "
                "as a source with this column, or by the names of columns of X."
            )
        second = _streamed(second)
    elif first.stream is None and second.stream is not None:
        first = _streamed(first)
    return first, second


def _streamed(table: Given) -> Given:
    """A table in memory as a stream."""
    return table._replace(stream=Stream(of_arrays(table.X, None, table.weight), Roles(None)))


def second_table(y: Any) -> Any:
    """The second table, checked; one column as a table of one."""
    if y is None:
        raise ValueError("KernelCCA requires y to be passed, but the target y is None: give the second table.")
    if is_frame(y):
        check_frame(y)
        return y
    refuse_lazy(y)
    refuse_text(y)
    y = y if hasattr(y, "ndim") else np.asarray(y)
    if y.ndim == 1:
        y = np.asarray(y).reshape(-1, 1)
    y = check_array(checked_sparse(y), accept_sparse="csr", dtype="numeric", ensure_all_finite=False, input_name="y")
    require_finite(y)
    return y


def held_table(X: Any, weight: Any, encoder: TableEncoder, dtype: np.dtype, hashed: bool) -> Table:
    """A table in memory."""
    nothing = np.empty((X.shape[0], 0))
    source = ArraySource(X, nothing, weight, Encode(encoder, dtype, hashed))
    return Table(source, encoded_source(encoder, X, nothing, weight, dtype, as_it_is), encoder)


def looked_at(stream: Stream, what: str, seed: int, show: bool) -> TableSummary:
    """What all rows of a stream are like."""
    table, size = stream.table, sampled_rows(stream.n_columns, current().memory_limit)
    with progress(f"Reading statistics of {what}", table.n_rows, show) as advance:
        return scan(replace(table, sample=None), stream.roles, False, seed, size, advance, engine_of(stream))


def read_table(stream: Stream, seen: TableSummary, encoder: TableEncoder, dtype: np.dtype, hashed: bool) -> Table:
    """A table that is read in passes, after the look at all of it."""
    X, _, weight = seen.sample
    sample = encoded_source(encoder, X, np.empty((X.shape[0], 0)), weight, dtype, as_it_is).encoded(dtype)
    counts, sums = tuple(seen.counts), None if seen.checksums is None else tuple(seen.checksums)
    read = Encode(encoder, dtype, hashed)
    return Table(StreamSource(stream.table, stream.roles, read, as_it_is, counts, sums, sample), sample, encoder)
