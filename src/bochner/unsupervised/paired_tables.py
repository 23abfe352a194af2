"""Two tables of the same rows, in memory or read side by side in passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.data.array_source import ArraySource, Block
from bochner.data.columns import unmasked
from bochner.data.hashes import row_hashes, uniform
from bochner.data.table import TableEncoder
from bochner.data.table_input import as_table_or_matrix, checked_matrix, is_frame
from bochner.data.weights import weights_of
from bochner.features.base import FeatureMap
from bochner.inputs.opened import Given, Stream, columns_apart, open_data
from bochner.sources.memory import of_arrays
from bochner.sources.opening import is_streamed
from bochner.sources.rows import Roles
from bochner.sources.stream import PartRange


def given_pair(X: Any, y: Any, sample_weight: Any) -> tuple[Given, Given]:
    """Both tables in memory, or both as streams.

    Raises
    ------
    ValueError, TypeError
        Where there is no second table; where weights that are a column of files are not
        known of the other table.
    """
    named = isinstance(sample_weight, str)
    X, y = columns_apart(X, y, sample_weight if named else None)
    first = open_data(X, None, sample_weight)
    second = open_data(y, None, sample_weight if named and is_streamed(y) else None)
    if second.stream is None:
        second = second._replace(X=second_table(second.X))
    lacks_weights = second.stream is None and second.weight is None
    if first.stream is not None and named and lacks_weights:
        raise ValueError(
            f"The weights are the column {sample_weight!r} of X, which is read "
            "in passes, and y has none: give y "
            "as a source with this column, or by the names of columns of X."
        )
    pair = first, second
    if any(one.stream is not None for one in pair):
        # A table in memory beside one that is read is a stream, too
        first, second = (
            one._replace(
                stream=one.stream
                or Stream(of_arrays(one.X, None, one.weight), Roles(None))
            )
            for one in pair
        )
    return first, second


def second_table(y: Any, width: int | None = None) -> Any:
    """The second table, checked; one column as a table of one. ValueError for an
    array with another number of columns than the fit had, where that is given.
    """
    if y is None:
        raise ValueError(
            "KernelCCA requires y to be passed, but the target y is None: give the "
            "second table."
        )
    if not is_frame(y) and not sp.issparse(y):
        y = np.asarray(unmasked(y if hasattr(y, "ndim") else np.asarray(y)))
        y = y.reshape(-1, 1) if y.ndim == 1 else y
    y = as_table_or_matrix(y)
    if is_frame(y):
        return y
    y = checked_matrix(y.tocsr() if sp.issparse(y) else y)
    if width not in (None, y.shape[1]):
        raise ValueError(
            f"The number of columns of y is {y.shape[1]}, and was {width} where "
            "KernelCCA was fitted: give the columns of that second table."
        )
    return y


def hashed(encoder: TableEncoder, dtype: np.dtype, X: Any) -> tuple[Any, NDArray]:
    """Encoded rows of shape (b, d), and the hashes of what they were, shape (b,)."""
    return encoder.encode(X, dtype), row_hashes(X)


class PairSpan(NamedTuple):
    """Parts of two tables that hold one set of rows, to be sent."""

    x: PartRange
    y: PartRange

    @property
    def n_rows(self) -> int:
        """Number of rows of a half, about."""
        return self.x.n_rows // 2


@dataclass(frozen=True)
class HalfOfPairs:
    """Half of the rows of two tables as a `Source`, with features of the second table
    as targets, so that a `Design` sums the joint moments.

    The hashes of rows decide their half, so that equal rows are in one.

    Attributes
    ----------
    x, y : ArraySource or StreamSource
        Both of the same number of rows; that of x gives `Hashed` rows.
    y_features : FeatureMap
        Of dense features.
    seed : int
        Of the halves.
    is_first : bool
        Which half.
    """

    x: Any
    y: Any
    y_features: FeatureMap
    seed: int
    is_first: bool

    @property
    def n_rows(self) -> int:
        """Number of rows of both halves."""
        return self.x.n_rows

    @property
    def n_outputs(self) -> int:
        """Number of features of the second table."""
        return self.y_features.n_features_out

    @property
    def n_parts(self) -> int:
        """Number of parts that are the same rows of both tables."""
        if isinstance(self.x, ArraySource) and isinstance(self.y, ArraySource):
            return self.x.n_parts
        same = getattr(self.x, "counts", 0) == getattr(self.y, "counts", 1)
        return self.x.n_parts if same else 1

    def span(self, first: int, stop: int) -> HalfOfPairs:
        """The rows of consecutive parts."""
        if self.n_parts == 1:
            return self
        return replace(self, x=self.x.span(first, stop), y=self.y.span(first, stop))

    def part_range(self, first: int, stop: int) -> PairSpan:
        """Consecutive parts, to be sent."""
        return PairSpan(self.x.part_range(first, stop), self.y.part_range(first, stop))

    def without_parts(self) -> HalfOfPairs:
        """Both tables without their parts, as `StreamSource.without_parts` has them."""
        return replace(self, x=self.x.without_parts(), y=self.y.without_parts())

    def with_parts(self, span: PairSpan) -> HalfOfPairs:
        """The rows of a span, in the process that reads them."""
        x = self.x.with_parts(span.x)
        return replace(self, x=x, y=self.y.with_parts(span.y))

    def blocks(self, rows: int) -> Iterator[Block]:
        """Yield the rows of positive weight in order, at most `rows` at a time.

        Raises
        ------
        ValueError
            Where the weights of the two tables differ.
        """
        dense = self.y_features.dense
        assert dense is not None
        for first, second in zip(self.x.blocks(rows), self.y.blocks(rows), strict=True):
            if not np.array_equal(first.weight, second.weight):
                raise ValueError(
                    "The weights of X and y differ: give both tables the same ones, "
                    "row by row."
                )
            X, hashes = first.X
            is_in = (uniform(hashes, self.seed) < 0.5) == self.is_first
            numbers = np.flatnonzero(is_in & (first.weight > 0))
            if len(numbers):
                yield Block(
                    X[numbers],
                    dense.rows(second.X[numbers]),
                    weights_of(first.weight, numbers),
                )
