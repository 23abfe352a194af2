"""One model of the same rows, which come in every way that rows can come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.datasets import dump_svmlight_file

from scale_data import SCHEMA, as_asked, unseen
from scale_fit import machine

Arrays = tuple[NDArray, NDArray]


def batches(X: NDArray, y: NDArray, count: int) -> Callable[[], Iterator[Arrays]]:
    """A factory of `count` batches."""
    return lambda: zip(np.array_split(X, count), np.array_split(y, count), strict=True)


def in_parts(X: NDArray, y: NDArray, sample: int) -> Any:
    """Prepared on the first rows, and fitted in ten parts."""
    model = machine("given").prepare(X[:sample], y[:sample])
    for rows, targets in batches(X, y, 10)():
        model.partial_fit(rows, targets)
    return model


def merged(X: NDArray, y: NDArray, sample: int) -> Any:
    """Two halves of one preparation."""
    import bochner

    first = machine("given").prepare(X[:sample], y[:sample])
    halves = [
        deepcopy(first).partial_fit(rows, targets)
        for rows, targets in batches(X, y, 2)()
    ]
    return bochner.merge(halves)


def written(X: NDArray, y: NDArray, folder: Path) -> dict[str, tuple[Any, str | None]]:
    """Files of each format, with the name of the target where it is a column."""
    table = pa.table([*X.T, y], schema=SCHEMA)
    halves = [table.slice(0, len(y) // 2), table.slice(len(y) // 2)]
    (folder / "parquet").mkdir()
    for k, half in enumerate(halves):
        pq.write_table(half, folder / "parquet" / f"{k}.parquet", row_group_size=5_000)
        pyarrow.csv.write_csv(half, folder / f"{k}.csv")
    with pa.ipc.new_file(folder / "rows.arrow", SCHEMA) as writer:
        writer.write_table(table, max_chunksize=5_000)
    dump_svmlight_file(X, y, str(folder / "rows.svm"))
    return {
        "Parquet": (folder / "parquet", "target"),
        "CSV": (str(folder / "*.csv"), "target"),
        "Arrow IPC": (folder / "rows.arrow", "target"),
        "LIBSVM": (folder / "rows.svm", None),
    }


def differences(n_rows: int, sample: int, folder: Path) -> dict[str, float]:
    """Largest difference of predictions from those of a fit of arrays, over their
    deviation, by how the rows came.
    """
    import bochner

    X, y, _ = unseen(n_rows)
    rows = unseen(10_000)[0]
    expected = machine("given").fit(X, y).predict(rows)

    def streamed(data: Any, target: str | None = None) -> Any:
        source = bochner.open_source(data, sample=sample)
        return (
            machine("given").fit(source, target)
            if target
            else machine("given").fit(source)
        )

    fits: dict[str, Callable[[], Any]] = {
        "one block": lambda: streamed(batches(X, y, 1)),
        "1,000 blocks": lambda: streamed(batches(X, y, 1000)),
        "a factory of tables": lambda: streamed(lambda: tables(X, y), "target"),
        "partial_fit": lambda: in_parts(X, y, sample),
        "merged halves": lambda: merged(X, y, sample),
    }
    for name, file in written(X, y, folder).items():
        fits[name] = lambda file=file: streamed(*file)
        fits[f"{name}, read into memory"] = lambda file=file: machine("given").fit(
            *(one for one in file if one)
        )
    return {name: largest(fit(), rows, expected) for name, fit in fits.items()}


def tables(X: NDArray, y: NDArray) -> Iterator[pa.Table]:
    """Batches with names of columns."""
    for rows, targets in batches(X, y, 7)():
        yield pa.table([*rows.T, targets], schema=SCHEMA)


def largest(model: Any, rows: NDArray, expected: NDArray) -> float:
    """Largest difference of its predictions over the deviation."""
    return float(
        np.abs(model.predict(as_asked(model, rows)) - expected).max() / expected.std()
    )
