"""What the tests take: tables in memory or read in passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bochner.data.array_source import Source, rows_of
from bochner.data.columns import unmasked
from bochner.data.table import TableEncoder
from bochner.data.table_statistic import TableStatistic
from bochner.devices.device import is_foreign, to_host
from bochner.inputs.checks import SCALINGS, checked_rows, require_one_of
from bochner.inputs.training import CheckedRows, encoder_of, given
from bochner.sources.dask_parts import is_collection

ONE = "value"  # name of a column of text or a series without one
DOUBLE_ROWS = 5_000  # of which permutations often have the same statistic, which rounding must not separate


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
    if is_foreign(X):
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
    return np.asarray(unmasked(X)) if getattr(X, "ndim", None) == 1 and hasattr(X, "__array__") else X


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
    rows : CheckedRows
    statistic : TableStatistic
        Of all rows.
    """

    name: str
    rows: CheckedRows
    statistic: TableStatistic

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.rows.n_seen

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
        return self.rows.encoded(encoder, self.dtype).source

    def sampled(self, encoder: TableEncoder, size: int, rng: np.random.Generator) -> Any:
        """At most `size` rows, drawn at random and encoded."""
        n = self.rows.X.shape[0]
        drawn = np.sort(rng.choice(n, min(size, n), replace=False))
        return encoder.encode(rows_of(self.rows.X, drawn), self.dtype)


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
    if stream is None:
        rows = CheckedRows(checked_rows(TableEncoder(), X, reset=True))
    else:
        rows = CheckedRows.of(stream.without_sample(), seed)
    table = Table(name, rows, TableStatistic.of(rows.X) if rows.summary is None else rows.summary.table)
    if table.n_rows < 4:
        raise ValueError(f"{name} has {table.n_rows} rows: a test needs 4 or more.")
    return table


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
    require_one_of("standardize", standardize, *SCALINGS)
    return encoder_of(statistic, standardize)
