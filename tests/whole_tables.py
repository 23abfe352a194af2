"""Whole tables in files, as the command opens them."""

from pathlib import Path

import pyarrow as pa

from bochner.cli.tables import open_table, read_rows


def read_table(path, note=lambda text: None, **options):
    """The table in a file; a `note` is told what the command says of it."""
    table = open_table(Path(path), note, **options)
    return table if isinstance(table, pa.Table) else read_rows(table).X
