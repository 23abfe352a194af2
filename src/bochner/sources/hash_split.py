"""Some of the rows of a table, chosen by their content: equal rows go together,
wherever they stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bochner.arrays import Mask
from bochner.blocks import PART_BYTES
from bochner.data.hashes import row_hashes, uniform
from bochner.sources.base import Batch, Part, TableSource
from bochner.sources.paths import FileState


@dataclass(frozen=True)
class HashSplit:
    """Which rows are kept.

    Attributes
    ----------
    low, high : float
        Of the numbers from 0 to 1 that the content of rows and the seed decide, those
        that are kept: low is, high not.
    seed : int
    target : str or None
        Column that is no part of the content, and must have a value.
    group : str or None
        Column that alone decides, so that rows with one value go together.
    """

    low: float = 0.0
    high: float = 1.0
    seed: int = 0
    target: str | None = None
    group: str | None = None

    def rows(self, batch: Batch) -> Mask:
        """Which rows of a batch are kept, shape (b,)."""
        is_kept = np.ones(batch.X.shape[0], bool)
        X = batch.X
        if self.target is not None and isinstance(X, pa.Table):
            is_kept = ~pc.is_null(X[self.target], nan_is_null=True).to_numpy()
            X = X.drop_columns([self.target])
        if self.group is not None:
            X = X.select([self.group])
        if self.low > 0 or self.high < 1:
            numbers = uniform(row_hashes(X), self.seed)
            is_kept = is_kept & (numbers >= self.low) & (numbers < self.high)
        return is_kept


@dataclass(frozen=True)
class FilteredPart:
    """Those rows of a part that a rule keeps."""

    part: Part
    rule: HashSplit

    @property
    def name(self) -> str:
        """That of the part."""
        return self.part.name

    @property
    def file(self) -> FileState | None:
        """The file that holds the rows, where there is one."""
        return getattr(self.part, "file", None)

    @property
    def n_rows(self) -> int | None:
        """Not known before they have been read."""
        return None

    def read(self, n_bytes: int = PART_BYTES) -> Iterator[Batch]:
        """Yield the rows that are kept, in their order."""
        for batch in self.part.read(n_bytes):
            is_kept = self.rule.rows(batch)
            yield batch if is_kept.all() else batch.take(is_kept)


def filter_rows(source: TableSource, rule: HashSplit) -> TableSource:
    """The rows of a table that a rule keeps, as a table that is read part by part.

    Whether its columns of text hold numbers was asked of all rows before.
    """
    expected = source.n_rows
    if expected is not None:
        expected = round(expected * (min(rule.high, 1.0) - max(rule.low, 0.0)))
    parts = tuple(FilteredPart(part, rule) for part in source.parts)
    return replace(source, parts=parts, expected=expected, inferred=())
