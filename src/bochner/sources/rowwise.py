"""Methods of models on rows of any kind: arrays of any library, files and other
sources, collections of Dask.

A method is written for rows in memory. `rowwise` lets it take all others: the answer is
of the kind of the rows, or goes to a file block by block.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, cast
from uuid import uuid4

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bochner.data.columns import library_of
from bochner.devices.conversion import any_arrays
from bochner.devices.device import is_foreign, to_host
from bochner.engines.local import at_most, prefetched
from bochner.engines.progress import Advance, no_advance
from bochner.notices import once, quiet
from bochner.sources.base import SourceError, TableSource
from bochner.sources.dask_parts import (
    blocks_of,
    is_collection,
    is_frame_of_dask,
    open_collection,
    whole_rows,
)
from bochner.sources.opening import is_streamed, open_source
from bochner.sources.paths import FileState
from bochner.sources.rows import concat, finite_batches
from bochner.sources.schema import Selection
from bochner.sources.writing import write_table

Method = TypeVar("Method", bound=Callable[..., Any])
Columns = Callable[[Any], Mapping[str, Any]]


PLAIN = frozenset({bool, int, float, str, NoneType})


def require_fitted(model: Any) -> None:
    """Raise NotFittedError where scikit-learn does, whose own check takes as long as
    a prediction for a row.
    """
    is_fitted = getattr(model, "__sklearn_is_fitted__", None)
    if is_fitted is None or not is_fitted():
        check_is_fitted(model)


def rowwise(
    columns: str | Callable[[Any], Sequence[str]] | None = None,
    names: Callable[[Any], Any] | None = None,
    takes_files: bool = True,
) -> Callable[[Method], Method]:
    """Let a method of a fitted model, written for rows in memory, take rows of any kind
    as its first argument.

    - Tensors of PyTorch: the answer is one too, on the device and in the precision of
      the rows.
    - Files and other sources of `open_source`: read block by block, answers one below
      the other.
    - Collections of Dask: the answer is one of Dask, not computed yet. Of a data frame
      it is a series or a data frame with its index, where `columns` are given.
    - A method with a parameter `out` writes its answer to this file, a CSV or Parquet
      file by its name, block by block, and returns the path.

    Parameters
    ----------
    columns : str, or callable that makes names of a model, optional
        Name of the column of answers in files and data frames, or of each of their
        columns. Of several targets the columns are name_0, name_1, ...; beside a pair
        of answers, the second one is "std".
    names : callable, optional
        Names of the columns of the rows that a model needs, or None; by default its
        `feature_names_in_`.
    takes_files : bool
        Whether the method takes files and other sources; else it refuses them itself,
        as what is no array.

    Raises
    ------
    NotFittedError
        Where the model is not fitted, whatever the rows are.
    """

    def decorate(method: Method) -> Method:
        in_memory = any_arrays(method)
        has_out = "out" in signature(method).parameters

        @wraps(in_memory)
        @once()
        def call(self: Any, X: Any, *arguments: Any, **named: Any) -> Any:
            require_fitted(self)
            out = named.pop("out", None) if has_out else None
            given = *arguments, *named.values()
            common = type(X) is np.ndarray or library_of(X) is not None
            if out is None and common and PLAIN.issuperset(map(type, given)):
                return method(
                    self, X, *arguments, **named
                )  # to look for other kinds takes longer than to answer
            is_away = is_streamed(X) if takes_files else is_collection(X)
            if out is None and not is_away:
                return in_memory(self, X, *arguments, **named)
            needed = getattr(self, "feature_names_in_", None)
            if names is not None:
                needed = names(self)
            # A copy: what becomes of the model changes nothing
            bare = getattr(self, "_without_sums", None)
            model = copy(self) if bare is None else bare()
            work = MethodCall(model, method.__name__, arguments, named)
            labels = columns(self) if callable(columns) else columns
            columns_of = None if labels is None else partial(_columns, labels)
            if out is None and is_collection(X):
                return dask_map(X, work, needed, columns_of)
            # Answers for all rows of a source, one below the other, or in a file
            if not isinstance(out, str | os.PathLike | None):
                raise TypeError(
                    "out must be the path of a CSV or Parquet file to write to, got "
                    f"{type(out).__name__}."
                )
            X = to_host(X) if is_foreign(X) else X
            wanted = None if needed is None else tuple(needed)
            if isinstance(X, TableSource):
                source = X
            elif is_collection(X):
                # Its rows need not be counted
                selection = Selection(wanted if is_frame_of_dask(X) else None)
                source = open_collection(X, selection=selection, counts_rows=False)
            else:
                source = open_source(X, columns=wanted)
            if out is None:
                with closing(prefetched(tables_of(source))) as batches:
                    answers = [work(inputs_of(rows, needed)) for rows in batches]
                if not answers:
                    raise SourceError(f"{source.what}: there are no rows")
                if isinstance(answers[0], tuple):
                    return tuple(map(concat, zip(*answers, strict=True)))
                return concat(answers)
            assert columns_of is not None
            write_predictions(
                source, lambda rows: columns_of(work(inputs_of(rows, needed))), out
            )
            return Path(out)

        return cast(Method, call)

    return decorate


@dataclass(frozen=True, eq=False)
class MethodCall:
    """A method of a model below its decorator `rowwise`, with what is given to it
    beside the rows.

    Attributes
    ----------
    model : object
    method : str
    arguments : tuple
    named : dict
    """

    model: Any
    method: str
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]

    def __call__(self, rows: Any) -> Any:
        """What the method makes of rows in memory."""
        method = getattr(type(self.model), self.method)
        return getattr(method, "__wrapped__", method)(
            self.model, rows, *self.arguments, **self.named
        )


def class_columns(model: Any) -> list[str]:
    """Names of the columns of probabilities of the classes of a model."""
    return [f"probability_{label}" for label in model.classes_.tolist()]


def _columns(labels: str | Sequence[str], answers: Any) -> Mapping[str, NDArray]:
    """Answers as columns by name; see `rowwise`."""
    if not isinstance(labels, str):
        return dict(zip(labels, answers.T, strict=True))
    both = answers if isinstance(answers, tuple) else (answers,)
    return named_columns(None, dict(zip((labels, "std"), both, strict=False)))


def write_predictions(
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
    # The files that the source reads, or has read
    files = [
        file
        for part in source.parts
        for file in getattr(part, "origins", (getattr(part, "file", None),))
    ]
    paths = {file.path for file in files if isinstance(file, FileState)}
    if os.path.exists(out) and any(os.path.samefile(path, out) for path in paths):
        raise ValueError(
            f"{os.fspath(out)}: the rows are read from this file; give another name "
            "to write to."
        )

    def answers(batches: Iterator[Any]) -> Iterator[Mapping[str, Any]]:
        for X in batches:
            yield columns_of(X)
            advance(X.shape[0])

    with closing(prefetched(tables_of(source))) as batches:
        return write_table(answers(batches), out)


def named_columns(
    name: str | None, predictions: Mapping[str, NDArray]
) -> dict[str, NDArray]:
    """Columns name_what, or name_what_k for each of several targets; without a name
    what, or what_k.

    Parameters
    ----------
    name : str or None
        Of the target.
    predictions : dict of str to array of shape (n,) or (n, K)
        Predictions and what goes with them, by what they are.
    """
    start = "" if name is None else f"{name}_"
    named = {f"{start}{what}": values for what, values in predictions.items()}
    several = [values for values in named.values() if values.ndim > 1]
    if not several:
        return named
    return {
        f"{what}_{k}": values[:, k]
        for k in range(several[0].shape[1])
        for what, values in named.items()
    }


def tables_of(source: TableSource) -> Iterator[Any]:
    """Yield the rows of a source in their order, as tables or arrays."""
    for batch in finite_batches(source.parts):
        yield batch.X


def inputs_of(X: Any, names: Sequence[str] | None) -> Any:
    """The columns called `names`, in that order; what has no names as it is."""
    if names is None or not isinstance(X, pa.Table):
        return X
    _require(names, X.column_names)
    return X.select(list(names))


def _require(names: Sequence[str], there: Collection[str]) -> None:
    """Raise SourceError where columns that a model needs are missing."""
    if absent := [name for name in names if name not in there]:
        raise SourceError(
            f"the model needs columns that are missing: {', '.join(map(repr, absent))}"
        )


def dask_map(
    X: Any,
    call: MethodCall,
    names: Sequence[str] | None,
    columns_of: Columns | None = None,
) -> Any:
    """The results of a call on the rows of a collection, not computed yet.

    The model travels once, and each block is mapped in one thread. What comes of it is
    found out on rows that stand for those to come.

    Parameters
    ----------
    X : Dask array of shape (n, d), or Dask data frame
    call : Call
        Gives an array or a CSR matrix with a row for each of its rows.
    names : sequence of str or None
        Columns that the model needs.
    columns_of : callable, optional
        Columns by name of such an array, for results of data frames that are data
        frames.

    Returns
    -------
    Dask array; of a data frame, with `columns_of`, a Dask series of one column, or else
    a Dask data frame
        Of arrays the sizes of chunks are those of X. Series and frames have the index
        of X.

    Raises
    ------
    SourceError
        Where columns are missing.
    """
    from dask import delayed

    model = delayed(
        call, name=f"{type(call.model).__name__}-{uuid4().hex}", traverse=False
    )
    if is_frame_of_dask(X):
        if names is not None:
            # The columns that the model needs, in their order
            labels = {str(label): label for label in X.columns}
            _require(names, labels)
            X = X[[labels[name] for name in names]]
            if not all(isinstance(label, str) for label in labels.values()):
                X = X.rename(columns=str)
        # Rows that are made up, unless objects are among them, which only values tell
        rows = X._meta_nonempty
        if any(str(kind) == "object" for kind in X.dtypes):
            rows = next(blocks_of(X), rows).iloc[:1]
        with quiet():
            example = _answers(rows, call, columns_of)
        empty = example[:0]
        return X.map_partitions(_answers, model, columns_of, empty, meta=empty)
    from dask.array import blockwise

    X = whole_rows(X)
    row = np.zeros((1, int(X.shape[1])), X.dtype)
    empty = call(sp.csr_matrix(row) if sp.issparse(X._meta) else row)[:0]
    axes = {k: size for k, size in enumerate(empty.shape) if k}
    return blockwise(
        _answers,
        (0, *axes),
        *(X, (0, empty.ndim), model, None, None, None, empty, None),
        new_axes=axes,
        concatenate=True,
        token=call.method,
        dtype=empty.dtype,
        meta=empty,
        align_arrays=False,
    )


def _answers(
    rows: Any, call: MethodCall, columns_of: Columns | None, empty: Any = None
) -> Any:
    """The answers for a block, in one thread: an array, or else a series of one column,
    which is named so, or a data frame; what is empty where there are no rows.
    """
    if not rows.shape[0] and empty is not None:
        return empty if columns_of is None else empty.set_axis(rows.index)
    with at_most(1):
        answers = call(rows)
    if columns_of is None:
        return answers
    from pandas import DataFrame

    frame = DataFrame(columns_of(answers), index=rows.index)
    return frame.iloc[:, 0] if frame.shape[1] == 1 else frame
