"""A part of a table that is a list of batches in memory."""

from dataclasses import dataclass

import pyarrow as pa

from bochner.sources.base import Batch


@dataclass(frozen=True)
class ListPart:
    """Rows of a list of batches; `rows` at a time where that is given."""

    batches: tuple
    name: str = "part"
    known: bool = True
    rows: int | None = None

    @property
    def n_rows(self):
        return sum(batch.X.shape[0] for batch in self.batches) if self.known else None

    def read(self, n_bytes=0):
        for X, y, weight, *_ in self.batches:
            n = X.shape[0]
            for a in range(0, n, self.rows or max(n, 1)):
                part = slice(a, min(a + (self.rows or n), n))
                yield Batch(
                    X.slice(a, part.stop - a) if isinstance(X, pa.Table) else X[part],
                    None if y is None else y[part],
                    None if weight is None else weight[part],
                )

    def stamp(self):
        return self.name
