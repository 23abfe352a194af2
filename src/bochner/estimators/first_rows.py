"""The first rows of a fit in parts, which fix all but the coefficients again while they are few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bochner.data.table import TableEncoder
from bochner.data.table_input import is_frame
from bochner.data.table_statistic import TableStatistic, is_constant, part_offsets
from bochner.notices import first_names, warn
from bochner.sources.rows import concat

FIRST_ROWS = 256  # that fix encodings, kernel and features for good, where the first batch has not more


class FirstRows(NamedTuple):
    """Rows so far, while they are too few.

    Attributes
    ----------
    X : array, CSR matrix or data frame of n rows
    y : array of n rows
    weight : array of shape (n,) or None
    n_fixed : int
        Rows by which the encodings were fixed last.
    """

    X: Any
    y: Any
    weight: Any
    n_fixed: int = 0

    @classmethod
    def after(cls, before: tuple | None, X: Any, y: Any, weight: Any) -> FirstRows:
        """Other rows after those that were kept, where there are some."""
        return cls(X, y, weight) if before is None else cls(*before).plus(X, y, weight)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def are_due(self) -> bool:
        """Whether they fix the encodings again: their number has doubled."""
        return self.n_rows >= 2 * self.n_fixed

    def plus(self, X: Any, y: Any, weight: Any) -> FirstRows:
        """These rows and other ones after them."""
        both, own = weight, self.weight
        if own is not None or weight is not None:
            own = np.ones(self.n_rows) if own is None else own
            both = np.concatenate([own, np.ones(X.shape[0]) if weight is None else np.asarray(weight)])
        rows = _as_one([self.X, X])
        return FirstRows(rows, np.concatenate([np.asarray(self.y), np.asarray(y)]), both, self.n_fixed)

    def settled(self) -> tuple | None:
        """The same after they have fixed the encodings, for a file a plain tuple, or None where that was for good."""
        n_fixed = self.n_rows if self.are_due else self.n_fixed
        return tuple(self._replace(n_fixed=n_fixed)) if self.n_rows < FIRST_ROWS else None


def _as_one(batches: Sequence[Any]) -> Any:
    """Batches one below the other: of frames a frame, a sparse matrix where one is, else an array."""
    if all(map(is_frame, batches)):
        return _frames_as_one([nw.from_native(batch, eager_only=True) for batch in batches])
    return concat(batches)


def _frames_as_one(frames: Sequence[nw.DataFrame[Any]]) -> Any:
    """A frame of the same library, or where libraries or types differ a table of Arrow, whose types widen."""
    library, schema = frames[0].implementation, frames[0].schema
    if all(one.implementation is library and (library.is_pandas_like() or one.schema == schema) for one in frames):
        return nw.concat(frames).to_native()
    try:
        return concat([one.to_arrow().select(one.columns) for one in frames])  # without an index of pandas
    except pa.ArrowException as error:
        raise ValueError(f"The columns of the batches differ ({error}); give all batches the same types.") from error


def kept_by_file(rows: Any) -> Any:
    """First rows as a file can hold them, else None and a warning."""
    if rows is None or isinstance(rows[0], np.ndarray):
        return None if rows is None else (rows[0], np.asarray(rows[1]), *rows[2:])
    warn(
        f"The first {rows[3]} rows fix the scales and the kernel of the loaded model for good, for the file holds no "
        f"rows of frames and sparse matrices: save it after {FIRST_ROWS} rows, or prepare it."
    )
    return None


class IgnoresColumns:
    """A model with an encoder that ignores the columns which did not vary in its first rows."""

    encoder_: TableEncoder
    _has_cautioned: bool = False

    def _caution_ignored(self, X: Any, weight: NDArray | None, method: str) -> None:
        """Warn once where ignored columns vary in later rows; `method` is that by which a sample shows it before."""
        if self._has_cautioned or not (names := _ignored_but_varying(self.encoder_, X, weight)):
            return
        self._has_cautioned = True
        verbs = ("Column", "has", "is") if len(names) == 1 else ("Columns", "have", "are")
        warn(
            f"{verbs[0]} {first_names(names)} had no two different values in the rows that fixed the encoding, and "
            f"{verbs[2]} ignored, but {verbs[1]} others now: call {method} with a sample of all rows first."
        )


def _ignored_but_varying(encoder: TableEncoder, X: Any, weight: NDArray | None) -> list[str]:
    """Names of the columns that the encoder ignores and that vary with these rows."""
    before = encoder.statistic_
    low, high, offsets = before.summary.low, before.summary.high, part_offsets(before.kinds)
    one_value = is_constant(low, high) & encoder.with_std
    ends = list(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))
    empty = before.missing == before.rows
    ignored = [j for j, (o, e) in enumerate(ends) if empty[j] or (e > o and one_value[o:e].all())]
    if not ignored:
        return []
    kinds, names = before.expected(), before.names
    some = nw.from_native(X, eager_only=True)[:, ignored].to_native() if is_frame(X) else X[:, ignored]
    now = TableStatistic.of(some, weight, kinds=[kinds[j] for j in ignored])
    starts, found = part_offsets(now.kinds), []
    for i, j in enumerate(ignored):
        (o, e), own = ends[j], slice(*starts[i : i + 2])
        varies = now.missing[i] < now.rows
        if not empty[j]:
            both = np.minimum(low[o:e], now.summary.low[own]), np.maximum(high[o:e], now.summary.high[own])
            varies = not is_constant(*both).all()
        if varies:
            found.append(f"x{j}" if names is None else names[j])
    return found
