"""What the tests take: numbers that are checked, and tables in memory or read in passes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bochner.data.array_source import ArraySource, Source, rows_of
from bochner.data.table import TableEncoder
from bochner.data.table_statistic import TableStatistic, has_common_unit
from bochner.devices.device import device_of, to_host
from bochner.inputs.checks import checked_rows, is_scaling
from bochner.inputs.training import Stream, encoder_of, engine_of, given, rows_to_map, sampled_rows
from bochner.settings import current
from bochner.sources.dask_parts import is_collection
from bochner.sources.scan import TableSummary, scan
from bochner.sources.stream import StreamSource

ONE = "value"  # name of a column of text or a series without one
DOUBLE_ROWS = 5_000  # of which permutations often have the same statistic, which rounding is not to tell apart


def check_number(name: str, value: Any, least: int) -> int:
    """An integer that is large enough; TypeError or ValueError which names it."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be {least} or more, got {value}.")
    return int(value)


def as_table(X: Any, name: str, column: str | None = None) -> Any:
    """Arrays of other libraries on the host, and what has one dimension as a column.

    Parameters
    ----------
    X : table of any kind, series, or sequence of values
    name : str
        Of the argument, for errors.
    column : str, optional
        Name of the column that a series becomes, in the place of its own.
    """
    if is_collection(X):
        return _of_collection(X)
    if device_of(X) is not None:
        X = to_host(X)
    if not isinstance(X, np.ndarray):
        found = nw.from_native(X, allow_series=True, pass_through=True)
        if isinstance(found, nw.Series):
            return found.alias(column or str(_name_of(found))).to_frame().to_native()
        if isinstance(found, nw.DataFrame):
            return _named_by_text(found).to_native()
        X = _values(X)
    if not isinstance(X, np.ndarray) or X.ndim != 1:
        return X
    return _of_text(X, name) if _is_text(X) else X.reshape(-1, 1)


def shared_column(X: Any, Y: Any) -> str | None:
    """The name that two series have as samples of one column, that of the first; None where X or Y is no series."""
    pair = [nw.from_native(Z, allow_series=True, pass_through=True) for Z in (X, Y) if not is_collection(Z)]
    if len(pair) < 2 or not all(isinstance(one, nw.Series) for one in pair):
        return None
    return str(_name_of(pair[0]))


def _name_of(series: Any) -> Any:
    return ONE if series.name is None or series.name == "" else series.name


def _of_collection(X: Any) -> Any:
    """A collection of Dask with two dimensions."""
    if X.ndim != 1:
        return X
    if hasattr(X, "to_frame"):
        return X.to_frame(name=ONE if X.name is None else str(X.name))
    return X.reshape(-1, 1)


def _named_by_text(frame: nw.DataFrame) -> nw.DataFrame:
    """A frame whose columns pandas numbers, with the numbers as text."""
    others = {column: str(column) for column in frame.columns if not isinstance(column, str)}
    return frame.rename(others) if others else frame


def _values(X: Any) -> Any:
    """Lists of numbers and rows, and one-dimensional arrays of other kinds, as arrays of NumPy."""
    if isinstance(X, list | tuple) and X and isinstance(X[0], bool | int | float | np.number | list | np.ndarray):
        return np.asarray(X)
    return np.asarray(X) if getattr(X, "ndim", None) == 1 and hasattr(X, "__array__") else X


def _is_text(values: NDArray) -> bool:
    if values.dtype.kind == "O":
        return any(isinstance(value, str) for value in values)
    return values.dtype.kind == "U"


def _of_text(values: NDArray, name: str) -> pa.Table:
    """Labels as a table of one column."""
    try:
        return pa.table({ONE: pa.array(values.tolist(), pa.string(), from_pandas=True)})
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        raise ValueError(f"{name} holds both text and other values: make all of them text.") from None


@dataclass(frozen=True)
class Table:
    """Rows of any kind.

    Attributes
    ----------
    name : str
        Of the argument, for errors.
    statistic : TableStatistic
        Of all rows.
    n_rows : int
    X : array, CSR matrix or data frame
        All rows, or those of a sample where they are read in passes.
    stream : Stream or None
    overview : TableSummary or None
        Of a stream.
    """

    name: str
    statistic: TableStatistic
    n_rows: int
    X: Any
    stream: Stream | None = None
    overview: TableSummary | None = None

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        own, prefix = self.statistic.names, self.name.lower()
        return [f"{prefix}{j}" for j in range(len(self.statistic.kinds))] if own is None else list(own)

    def encoded_names(self, encoder: TableEncoder) -> tuple[str, ...]:
        """Names of the columns of the encoded rows: of numbers, categories, missing values, parts of dates."""
        return tuple(encoder.get_feature_names_out(self.names).tolist())

    def shares(self, encoder: TableEncoder, encoded: NDArray) -> NDArray[np.float64]:
        """Shares of the columns, shape (n_columns,), the sums of those of the encoded ones."""
        return np.bincount(encoder.sources(), encoded, len(self.names)).astype(np.float64)

    @property
    def dtype(self) -> np.dtype:
        """Precision of the encoded rows."""
        return np.dtype(np.float64 if self.n_rows <= DOUBLE_ROWS else np.float32)

    def source(self, encoder: TableEncoder) -> Source:
        """All rows, encoded block by block."""
        if self.stream is None or self.overview is None:
            return rows_to_map(encoder, self.X, self.dtype)
        nothing = ArraySource(np.empty((1, 0)), np.empty((1, 0)))
        encode = partial(encoder.encode, dtype=self.dtype)
        return StreamSource.of(self.stream.table, self.stream.roles, self.overview, encode, nothing)

    def sampled(self, encoder: TableEncoder, size: int, rng: np.random.Generator) -> Any:
        """At most `size` rows, drawn at random and encoded."""
        n = self.X.shape[0]
        rows = np.sort(rng.choice(n, min(size, n), replace=False))
        return encoder.encode(rows_of(self.X, rows), self.dtype)


def open_table(X: Any, name: str, seed: int, column: str | None = None) -> Table:
    """Look at all rows of a table.

    Parameters
    ----------
    X : array, sparse matrix, data frame, series, path, folder, source or collection
        What has one dimension is one column.
    name : str
        Of the argument.
    seed : int
        Of the sample of rows that are read in passes.
    column : str, optional
        Name of the column that a series becomes, in the place of its own.

    Raises
    ------
    ValueError
        Where there are fewer than 4 rows, and as of `fit`.
    """
    X, _, _, stream = given(as_table(X, name, column), None, None)
    if stream is not None:
        return _looked_at(stream, name, seed)
    X = checked_rows(TableEncoder(), X, reset=True)
    return Table(name, TableStatistic.of(X), _enough(X.shape[0], name), X)


def _looked_at(stream: Stream, name: str, seed: int) -> Table:
    """A table that is read in passes, after the first of them."""
    stream = replace(stream, table=replace(stream.table, sample=None))
    size = sampled_rows(stream.n_columns, current().memory_limit)
    overview = scan(stream.table, stream.roles, False, seed, size, engine=engine_of(stream))
    return Table(name, overview.table, _enough(overview.n_seen, name), overview.sample[0], stream, overview)


def _enough(n_rows: int, name: str) -> int:
    if n_rows < 4:
        raise ValueError(f"{name} has {n_rows} rows: a test needs 4 or more.")
    return n_rows


def common_encoder(A: Table, B: Table, standardize: bool | str) -> TableEncoder:
    """The encoder of the rows of two tables together, which does not depend on whose a row is.

    Raises
    ------
    ValueError
        Where their columns differ in number, name or kind.
    """
    first, second = A.statistic, B.statistic
    if len(first.kinds) != len(second.kinds):
        raise ValueError(
            f"{A.name} has {len(first.kinds)} columns and {B.name} {len(second.kinds)}: two samples have the same "
            "columns."
        )
    if first.sparse != second.sparse:
        dense, sparse = (B, A) if first.sparse else (A, B)
        raise ValueError(f"{sparse.name} is sparse and {dense.name} is dense: give both as the same.")
    if first.names != second.names:
        raise ValueError(_other_names(A, B))
    for j, kinds in enumerate(zip(first.kinds, second.kinds, strict=True)):
        without = first.missing[j] == first.rows or second.missing[j] == second.rows
        if len(set(kinds)) == 2 and set(kinds) != {"text", "mixed"} and not without:
            raise ValueError(
                f"Column {A.names[j]!r} holds {kinds[0]} values in {A.name} and {kinds[1]} values in {B.name}: "
                "make them alike."
            )
    return scaled_encoder(A.statistic + B.statistic, standardize)


def _other_names(A: Table, B: Table) -> str:
    """What is wrong with the names of the columns of two tables."""
    if A.statistic.names is None or B.statistic.names is None:
        named, other = (A, B) if B.statistic.names is None else (B, A)
        return f"The columns of {named.name} have names and those of {other.name} have none: give both as frames."
    if missing := [name for name in A.names if name not in B.names]:
        return f"{B.name} has no column {missing[0]!r}, and {A.name} has: name them alike."
    return f"{A.name} and {B.name} have the same columns in other orders: order those of {B.name} as in {A.name}."


def scaled_encoder(statistic: TableStatistic, standardize: bool | str) -> TableEncoder:
    """The encoder of rows that a statistic is of, which gives numbers unit variance where that is wanted.

    Raises
    ------
    ValueError
        Where `standardize` is none of True, False and "auto".
    """
    if not is_scaling(standardize):
        raise ValueError(f'standardize must be True, False or "auto", got {standardize!r}.')
    return encoder_of(statistic, not has_common_unit(statistic) if standardize == "auto" else bool(standardize))
