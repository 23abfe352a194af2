"""Seeded rows in Parquet files, as many as there are to be, written once."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

SEED, TEST_SEED, VERSION = 17, 18, 1
COLUMNS, GROUP_ROWS, NOISE = 20, 125_000, 0.3
NAMES = [*(f"x{j:02d}" for j in range(COLUMNS)), "target"]
SCHEMA = pa.schema([(name, pa.float32()) for name in NAMES])
MILLION = 10**6
# Rows before each file: what begins at the first file is a table of its own for each of
# these numbers.
EDGES = (
    100_000,
    MILLION,
    4 * MILLION,
    7 * MILLION,
    *range(10 * MILLION, 10**9, 5 * MILLION),
)


def home() -> Path:
    """Folder of all files: BOCHNER_SCALE_DATA, or one for temporary files."""
    folder = (
        Path(
            os.environ.get("BOCHNER_SCALE_DATA")
            or Path(tempfile.gettempdir()) / "bochner-scale"
        )
        / f"v{VERSION}"
    )
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def function(columns: Sequence[NDArray]) -> NDArray[np.float32]:
    """Smooth in some columns, with steps in others, and constant in eight of them;
    shape (n,).
    """
    x = columns
    smooth = (
        np.sin(2 * x[0])
        + 0.5 * np.cos(3 * x[1])
        + 0.5 * x[2] * x[3]
        + 0.4 * np.sin(4 * x[8])
        + 0.3 * x[7]
    )
    local = (
        0.7 * (x[4] > 0.3)
        + 0.5 * (x[5] + x[6] > 0)
        + 0.3 * np.abs(x[9])
        + 0.4 * (np.abs(x[10] - x[11]) < 0.5)
    )
    return (smooth + local).astype(np.float32)


def drawn(
    n: int, seed: int, first: int = 0
) -> tuple[list[NDArray], NDArray[np.float32]]:
    """Standard normal columns of `n` rows and their noise; fewer rows are the first
    of more.
    """
    rngs = [
        np.random.Generator(np.random.SFC64([seed, first, j]))
        for j in range(COLUMNS + 1)
    ]
    *columns, noise = (rng.standard_normal(n, dtype=np.float32) for rng in rngs)
    return columns, np.float32(NOISE) * noise


def table(n: int, first: int) -> pa.Table:
    """Rows of one row group, whose first has this number."""
    columns, noise = drawn(n, SEED, first)
    return pa.table([*columns, function(columns) + noise], schema=SCHEMA)


def unseen(
    n: int,
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Rows that are in no file: X of shape (n, 20), targets, and the targets without
    noise.
    """
    columns, noise = drawn(n, TEST_SEED)
    truth = function(columns)
    return np.stack(columns, axis=1), truth + noise, truth


def as_asked(model: Any, X: NDArray) -> Any:
    """Rows with names of columns where the model has learned these."""
    return (
        pa.table([*X.T], names=NAMES[:-1]) if hasattr(model, "feature_names_in_") else X
    )


def write(first: int, stop: int, path: Path, group_rows: int = GROUP_ROWS) -> None:
    """Write rows as a file of row groups, which is there only when it is whole."""
    unfinished = path.with_name(f"_{path.name}")
    with pq.ParquetWriter(
        unfinished,
        SCHEMA,
        compression="zstd",
        compression_level=1,
        use_dictionary=False,
    ) as writer:
        for start in range(first, stop, group_rows):
            writer.write_table(
                table(min(group_rows, stop - start), start), row_group_size=group_rows
            )
    unfinished.replace(path)


def folder(n: int) -> Path:
    """Folder of the first `n` rows; the files that larger and smaller ones share are
    written once, by all cores.
    """
    edges = [0, *(edge for edge in EDGES if edge < n), n]
    spans = [
        (*span, home() / f"rows-{span[0]:09d}-{span[1]:09d}.parquet")
        for span in pairwise(edges)
    ]
    missing = sorted(
        (span for span in spans if not span[2].exists()),
        key=lambda span: span[0] - span[1],
    )
    if missing:
        with ProcessPoolExecutor(
            min(len(missing), os.cpu_count() or 1), get_context("spawn")
        ) as pool:
            list(pool.map(write, *zip(*missing, strict=True)))
    own = home() / f"first-{n}"
    own.mkdir(exist_ok=True)
    for *_, path in spans:
        if not (own / path.name).exists():
            os.link(path, own / path.name)
    return own


def one_group(n: int) -> Path:
    """A file of `n` rows that are one row group."""
    path = home() / f"group-{n}.parquet"
    if not path.exists():
        write(0, n, path, group_rows=n)
    return path


def arrays(path: Path) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """All rows of a folder or file in memory: X of shape (n, 20), and the targets."""
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    n = sum(pq.read_metadata(file).num_rows for file in files)
    X, y, first = np.empty((n, COLUMNS), np.float32), np.empty(n, np.float32), 0
    for file in files:
        for batch in pq.ParquetFile(file, pre_buffer=False).iter_batches(GROUP_ROWS):
            rows = slice(first, first := first + len(batch))
            X[rows] = np.stack(
                [column.to_numpy() for column in batch.columns[:-1]], axis=1
            )
            y[rows] = batch.columns[-1].to_numpy()
    return X, y
