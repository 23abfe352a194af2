"""Tables of any kind that tests take: what is known of their columns, a sample of them, and all rows in blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import narwhals as nw
import numpy as np

from bochner.arrays import place_of, to_host
from bochner.data.sources import ArraySource, Source, as_it_is, rows_of
from bochner.data.streams.encoded import StreamSource
from bochner.data.streams.overview import look
from bochner.data.streams.totals import Overview
from bochner.data.table import TableEncoder
from bochner.data.table_statistic import TableStatistic
from bochner.data.units import has_common_unit
from bochner.estimators.model import encoder_of, rows_to_map
from bochner.estimators.rows import checked_rows
from bochner.estimators.sizes import sampled_rows
from bochner.estimators.tables import Stream, engine_of, given
from bochner.settings import current

DTYPE = np.dtype(np.float32)


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
    overview : Overview or None
        Of a stream.
    """

    name: str
    statistic: TableStatistic
    n_rows: int
    X: Any
    stream: Stream | None = None
    overview: Overview | None = None

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        own, prefix = self.statistic.names, self.name.lower()
        return [f"{prefix}{j}" for j in range(len(self.statistic.kinds))] if own is None else list(own)

    def source(self, encoder: TableEncoder) -> Source:
        """All rows, encoded block by block."""
        if self.stream is None or self.overview is None:
            return rows_to_map(encoder, self.X, DTYPE)
        read, seen = partial(encoder.encode, dtype=DTYPE), self.overview
        checksums = None if seen.checksums is None else tuple(seen.checksums)
        held = ArraySource(np.empty((1, 0)), np.empty((1, 0)))
        return StreamSource(self.stream.table, self.stream.roles, read, as_it_is, tuple(seen.counts), checksums, held)

    def sampled(self, encoder: TableEncoder, size: int, rng: np.random.Generator) -> Any:
        """At most `size` rows, drawn at random and encoded."""
        n = self.X.shape[0]
        rows = np.sort(rng.choice(n, min(size, n), replace=False))
        return encoder.encode(rows_of(self.X, rows), DTYPE)


def open_table(X: Any, name: str, seed: int) -> Table:
    """Look at all rows of a table.

    Parameters
    ----------
    X : array, sparse matrix, data frame, series, path, folder, source or collection
        One-dimensional arrays are one column.
    name : str
        Of the argument.
    seed : int
        Of the sample of rows that are read in passes.

    Raises
    ------
    ValueError
        Where there are fewer than 4 rows, and as of `fit`.
    """
    X, _, _, stream = given(_two_dimensional(X), None, None)
    if stream is not None:
        return _looked_at(stream, name, seed)
    X = checked_rows(TableEncoder(), X, reset=True)
    return Table(name, TableStatistic.of(X), _enough(X.shape[0], name), X)


def _looked_at(stream: Stream, name: str, seed: int) -> Table:
    """A table that is read in passes, after the first of them."""
    stream = replace(stream, table=replace(stream.table, sample=None))
    size = sampled_rows(stream.n_columns, current().memory_limit)
    overview = look(stream.table, stream.roles, False, seed, size, engine=engine_of(stream))
    return Table(name, overview.table, _enough(overview.n_seen, name), overview.sample[0], stream, overview)


def _enough(n_rows: int, name: str) -> int:
    if n_rows < 4:
        raise ValueError(f"{name} has {n_rows} rows: a test needs 4 or more.")
    return n_rows


def _two_dimensional(X: Any) -> Any:
    """Rows of another library's array on the host, and one-dimensional ones as a column."""
    if isinstance(X, np.ndarray):
        return X.reshape(-1, 1) if X.ndim == 1 else X
    if place_of(X) is not None:
        X = to_host(X)
    series = nw.from_native(X, allow_series=True, pass_through=True)
    if isinstance(series, nw.Series):
        return series.to_frame().to_native()
    if isinstance(X, list | tuple) and X and isinstance(X[0], bool | int | float | np.number | list | np.ndarray):
        X = np.asarray(X)
    return X.reshape(-1, 1) if isinstance(X, np.ndarray) and X.ndim == 1 else X


def common_encoder(A: Table, B: Table, standardize: bool | str) -> TableEncoder:
    """The encoder of the rows of two tables together, which does not depend on whose a row is.

    Raises
    ------
    ValueError
        Where their columns differ in number, name or kind.
    """
    if len(A.statistic.kinds) != len(B.statistic.kinds) or A.statistic.sparse != B.statistic.sparse:
        raise ValueError(
            f"{A.name} has {len(A.statistic.kinds)} columns and {B.name} {len(B.statistic.kinds)}: two samples have "
            "the same columns, and are both dense or both sparse."
        )
    if A.statistic.names != B.statistic.names:
        raise ValueError(
            f"{A.name} and {B.name} have different columns, {A.names[:20]} and {B.names[:20]}: use the same names."
        )
    return scaled_encoder(A.statistic + B.statistic, standardize)


def scaled_encoder(statistic: TableStatistic, standardize: bool | str) -> TableEncoder:
    """The encoder of rows that a statistic is of, which gives numbers unit variance where that is wanted.

    Raises
    ------
    ValueError
        Where `standardize` is none of True, False and "auto".
    """
    if standardize not in (True, False, "auto"):
        raise ValueError(f'standardize must be True, False or "auto", got {standardize!r}.')
    return encoder_of(statistic, not has_common_unit(statistic) if standardize == "auto" else bool(standardize))
