"""Opens whatever holds a table as a source of rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa

from bochner.data.streams.base import TableSource


def open_source(
    data: Any,
    *,
    columns: Sequence[str] | None = None,
    exclude: Collection[str] = (),
    where: Any = None,
    schema: pa.Schema | None = None,
    sample: int | None = None,
) -> TableSource:
    """Open a table that may be larger than memory."""
    raise NotImplementedError


def is_streamed(data: Any) -> bool:
    """Whether something is no array or data frame in memory but a place that rows are read from."""
    raise NotImplementedError
