"""Predictions and scores of tables that may be larger than memory, block by block into a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import is_classifier

from bochner.devices.conversion import any_arrays
from bochner.engines.prefetch import prefetched
from bochner.engines.progress import Advance, no_advance
from bochner.sources.base import SourceError, TableSource
from bochner.sources.dask_map import MethodCall, dask_map
from bochner.sources.dask_parts import is_collection, is_frame_of_dask, open_collection
from bochner.sources.opening import open_source
from bochner.sources.paths import FileState
from bochner.sources.rows import finite_batches
from bochner.sources.schema import Selection
from bochner.sources.writing import TableWriter


class LazyScore:
    """An estimator whose score also takes collections, of which no rows are gathered: predictions and targets are."""

    predict: Any

    @any_arrays
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score predictions: the share of right labels, or R2 of numbers.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or such a collection of Dask
            Arrays of PyTorch, CuPy and JAX too.
        y : array of shape (n,) or (n, K); of a Dask data frame also the name of a column
        sample_weight : array of shape (n,), optional

        Returns
        -------
        float
            At most 1.
        """
        if not is_collection(X):
            return super().score(X, y, sample_weight)  # type: ignore[misc]
        import dask
        from sklearn.metrics import accuracy_score, r2_score

        y, sample_weight = (X[values] if isinstance(values, str) else values for values in (y, sample_weight))
        found, y, weight = dask.compute(self.predict(X), y, sample_weight)
        return float((accuracy_score if is_classifier(self) else r2_score)(y, found, sample_weight=weight))


Columns = Callable[[Any], Mapping[str, Any]]


def predict_stream(
    source: TableSource,
    columns_of: Columns,
    out: str | os.PathLike[str],
    advance: Advance = no_advance,
) -> int:
    """Write predictions of all rows to a file, in their order; their number.

    Parameters
    ----------
    source : TableSource
    columns_of : callable
        Columns to write, by name, of consecutive rows as the source has them.
    out : str or path-like
        A CSV or Parquet file by its name, which appears once it is complete.
    advance : callable
        Is told how many rows are done after each block.
    """
    if os.path.exists(out) and any(os.path.samefile(path, out) for path in _files(source)):
        raise ValueError(f"{os.fspath(out)}: the rows are read from this file; give another name to write to.")
    with TableWriter(out) as writer, closing(prefetched(_rows(source))) as batches:
        for X in batches:
            writer.write(columns_of(X))
            advance(X.shape[0])
    return writer.n_rows


def predicted(
    X: Any,
    predict: MethodCall,
    columns_of: Callable[[Any], Mapping[str, Any]],
    names: Sequence[str] | None,
    out: str | os.PathLike[str] | None,
) -> Any:
    """Predictions of rows that are read part by part.

    Parameters
    ----------
    X : what `open_source` opens
    predict : Call
        An array, or several, for the inputs of some rows.
    columns_of : callable
        Columns by name, of such predictions.
    names : sequence of str or None
        Columns that the model needs.
    out : path-like or None
        A file to write them to, in blocks.

    Returns
    -------
    What `predict` gives, of all rows, or the path of the file; of a collection of Dask what `lazily` makes of it
    """
    if out is not None and not isinstance(out, str | os.PathLike):
        raise TypeError(f"out must be the path of a CSV or Parquet file to write to, got {type(out).__name__}.")
    if out is None and is_collection(X):
        return dask_map(X, predict, names, columns_of)
    source = _opened(X, names)
    if out is not None:
        predict_stream(source, lambda rows: columns_of(predict(inputs_of(rows, names))), out)
        return Path(out)
    with closing(prefetched(_rows(source))) as batches:
        found = [predict(inputs_of(rows, names)) for rows in batches]
    if not found:
        raise SourceError(f"{source.what}: there are no rows")
    if isinstance(found[0], tuple):
        return tuple(np.concatenate(arrays) for arrays in zip(*found, strict=True))
    return np.concatenate(found)


def _opened(X: Any, names: Sequence[str] | None) -> TableSource:
    """What rows are read from; those of Dask need not be counted."""
    if isinstance(X, TableSource):
        return X
    if not is_collection(X):
        return open_source(X, columns=None if names is None else list(names))
    selection = None if names is None or not is_frame_of_dask(X) else Selection(tuple(names))
    return open_collection(X, selection=selection, counts_rows=False)


def _files(source: TableSource) -> set[str]:
    """Paths of the files that a source reads."""
    files = [getattr(part, "file", None) for part in source.parts]
    return {file.path for file in files if isinstance(file, FileState)}


def _rows(source: TableSource) -> Iterator[Any]:
    """Batches of the rows, in their order."""
    for part in source.parts:
        for batch in finite_batches(part):
            if batch.X.shape[0]:
                yield batch.X


def inputs_of(X: Any, names: Sequence[str] | None) -> Any:
    """The columns of these names, in this order; what has no names as it is."""
    if names is None or not isinstance(X, pa.Table):
        return X
    if absent := [name for name in names if name not in X.column_names]:
        raise SourceError(f"the model needs columns that are missing: {', '.join(map(repr, absent))}")
    return X.select(list(names))


def named_columns(name: str | None, found: Mapping[str, NDArray]) -> dict[str, NDArray]:
    """Columns name_what, or name_what_k for each of several targets; without a name what, or what_k.

    Parameters
    ----------
    name : str or None
        Of the target.
    found : dict of str to array of shape (n,) or (n, K)
        Predictions and what goes with them, by what they are.
    """
    start, columns = "" if name is None else f"{name}_", dict[str, NDArray]()
    several = [values for values in found.values() if values.ndim > 1]
    for k in range(several[0].shape[1] if several else 1):
        for what, values in found.items():
            columns[f"{start}{what}_{k}" if several else f"{start}{what}"] = values[:, k] if several else values
    return columns
