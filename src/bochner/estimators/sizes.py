"""How many rows of a table a fit takes into memory: all of them, or a sample on which choices are made."""

from __future__ import annotations

from bochner.selection.policy import POLICY

CELL_BYTES, ROW_BYTES = 12, 300  # of a row in memory: its columns as they came and encoded; targets, hashes, bins
AROUND = 1.5  # of what rows in memory take, over the rows alone
GATHERED_SHARE = 2  # of a memory limit, one part may be taken by rows in memory
SAMPLE_SHARE = 16  # of a memory limit, one part is for the sample
FEWEST_SAMPLED = 5_000


def row_bytes(n_columns: int) -> int:
    """Bytes of a row that is held in memory for a fit."""
    return CELL_BYTES * n_columns + ROW_BYTES


def gathers(n_rows: int, n_columns: int, limit: int | None = None, elsewhere: bool = False) -> bool:
    """Whether a table is small enough to be read into memory as a whole, and fitted there.

    Parameters
    ----------
    n_rows, n_columns : int
    limit : int, optional
        Bytes that the fit may take.
    elsewhere : bool, default=False
        Whether others can read the table: it is gathered then only if a sample would be all of it.
    """
    if elsewhere and n_rows > sampled_rows(n_columns, limit):
        return False
    if n_rows > POLICY.gathered_rows or n_rows * n_columns > POLICY.gathered_entries:
        return False
    return limit is None or GATHERED_SHARE * AROUND * n_rows * row_bytes(n_columns) <= limit


def sampled_rows(n_columns: int, limit: int | None = None) -> int:
    """Rows of the sample on which choices are made where the table stays where it is.

    Parameters
    ----------
    n_columns : int
    limit : int, optional
        Bytes that the fit may take.
    """
    rows = min(POLICY.sampled_rows, max(POLICY.sampled_entries // max(n_columns, 1), FEWEST_SAMPLED))
    if limit is None:
        return rows
    return max(min(rows, limit // (SAMPLE_SHARE * row_bytes(n_columns))), FEWEST_SAMPLED)
