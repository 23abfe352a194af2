"""Whole tables in files, as the command opens them."""

from pathlib import Path

import pyarrow as pa

from bochner.cli.tables import open_table, read_rows


def read_table(path, note=lambda text: None, **options):
    """The table in a file; a `note` is told what the command says of it."""
    notes = []
    table = open_table(Path(path), notes, **options)
    for text in notes:
        note(text)
    return table if isinstance(table, pa.Table) else read_rows(table).X
