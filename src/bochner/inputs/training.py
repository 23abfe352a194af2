"""Rows to learn from: what users pass, opened, checked, and encoded as numbers, in
memory or read in passes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from bochner.data.array_source import ArraySource, as_it_is, rows_of
from bochner.data.columns import distinct
from bochner.data.encodings import NumberColumns
from bochner.data.table import TableEncoder
from bochner.data.table_input import is_frame
from bochner.data.table_statistic import TableStatistic, has_common_unit
from bochner.data.weights import checked_weight
from bochner.design.design import Design
from bochner.engines.base import Engine
from bochner.engines.current import current_engine
from bochner.engines.local import LOCAL
from bochner.engines.progress import progress
from bochner.features.base import FeatureMap
from bochner.features.base import Rows as EncodedRows
from bochner.features.leaves import leaves
from bochner.inputs.checks import normalised_weights
from bochner.kernels import Kernel
from bochner.selection.policy import POLICY
from bochner.settings import current
from bochner.sources.base import Batch, TableSource
from bochner.sources.column_values import why_text
from bochner.sources.dask_parts import (
    CollectionPart,
    active_engine,
    is_collection,
    is_delayed,
    open_collection,
)
from bochner.sources.memory import of_arrays
from bochner.sources.opening import is_streamed, open_selected, open_source
from bochner.sources.rows import Roles, Rows
from bochner.sources.scan import TableSummary, read_all, scan
from bochner.sources.schema import Selection
from bochner.sources.stream import StreamSource

# Of a row in memory: its columns as they came and encoded; targets, hashes, bins
CELL_BYTES, ROW_BYTES = 12, 300
AROUND = 1.5  # of what rows in memory take, over the rows alone
GATHERED_SHARE = 2  # of a memory limit, one part may be taken by rows in memory
SAMPLE_SHARE = 16  # of a memory limit, one part is for the sample
FEWEST_SAMPLED = 5_000
# Numbers that data frames become, up to which they are kept as these
KEPT_ENTRIES = 1 << 24
Map = TypeVar("Map", bound=FeatureMap)


def row_bytes(n_columns: int) -> int:
    """Bytes of a row that is held in memory for a fit."""
    return CELL_BYTES * n_columns + ROW_BYTES


def gathers(
    n_rows: int, n_columns: int, limit: int | None = None, elsewhere: bool = False
) -> bool:
    """Whether a table is small enough to be read into memory as a whole, and fitted
    there.

    Parameters
    ----------
    n_rows, n_columns : int
    limit : int, optional
        Bytes that the fit may take.
    elsewhere : bool, default=False
        Whether others can read the table: it is gathered then only if a sample would be
        all of it.
    """
    if elsewhere and n_rows > sampled_rows(n_columns, limit):
        return False
    if n_rows > POLICY.gathered_rows or n_rows * n_columns > POLICY.gathered_entries:
        return False
    return (
        limit is None
        or GATHERED_SHARE * AROUND * n_rows * row_bytes(n_columns) <= limit
    )


def sampled_rows(n_columns: int, limit: int | None = None) -> int:
    """Rows of the sample on which choices are made where the table stays where it is.

    Parameters
    ----------
    n_columns : int
    limit : int, optional
        Bytes that the fit may take.
    """
    rows = min(
        POLICY.sampled_rows,
        max(POLICY.sampled_entries // max(n_columns, 1), FEWEST_SAMPLED),
    )
    if limit is None:
        return rows
    return max(
        min(rows, limit // (SAMPLE_SHARE * row_bytes(n_columns))), FEWEST_SAMPLED
    )


@dataclass(frozen=True)
class ClassWeighted(Roles):
    """Roles by which the weights of rows are multiplied by those of their classes.

    Attributes
    ----------
    classes : array of shape (K,)
        Ascending.
    factors : array of shape (K,)
    """

    classes: Any = None
    factors: Any = None

    @classmethod
    def of(cls, roles: Roles, classes: NDArray, factors: NDArray) -> ClassWeighted:
        """Copy roles, and add weights of the classes."""
        return cls(**vars(roles), classes=classes, factors=factors)

    def rows(self, batch: Batch, first: int = 0) -> Rows:
        """Split a batch whose first row has that number."""
        rows = super().rows(batch, first)
        factor = self.factors[np.searchsorted(self.classes, np.asarray(rows.y))]
        return rows._replace(
            weight=factor if rows.weight is None else rows.weight * factor
        )


@dataclass(frozen=True)
class Stream:
    """A table that is read part by part, and which of its columns are targets and
    weights.

    Attributes
    ----------
    table : TableSource
    roles : Roles
    engine : Engine
        What reads it.
    """

    table: TableSource
    roles: Roles
    engine: Engine = field(default_factory=current_engine)

    @property
    def n_columns(self) -> int:
        """Columns of the table, but for targets and weights."""
        if isinstance(self.table.schema, int):
            return self.table.schema
        return (
            len(self.table.schema)
            - len(self.roles.target or ())
            - (self.roles.weight is not None)
        )

    @property
    def is_small(self) -> bool:
        """Whether it is known to be small enough to be read into memory as a whole."""
        n_rows = self.table.n_rows
        if n_rows is None or self.table.sample is not None:
            return False
        return gathers(n_rows, self.n_columns, current().memory_limit)

    @property
    def is_gathered(self) -> bool:
        """Whether it is read into memory as a whole, and not by others."""
        few = sampled_rows(self.n_columns, current().memory_limit)
        return self.is_small and not (
            self.engine.is_remote and (self.table.n_rows or 0) > few
        )

    def without_sample(self) -> Stream:
        """Copy the stream without its sample: all rows are read, not first ones that
        stand for all.
        """
        return replace(self, table=replace(self.table, sample=None))

    def gather(self) -> Batch:
        """All rows."""
        return read_all(self.table, self.roles)

    def scan(
        self,
        seed: int,
        labels: bool = False,
        verbose: Any = False,
        what: str = "the rows",
    ) -> TableSummary:
        """Read all rows once, or the first ones where these stand for all, for their
        statistics and a sample of them.

        Parameters
        ----------
        seed : int
            Of the sample.
        labels : bool
            Whether targets are labels.
        verbose : bool or int
            Whether to show progress.
        what : str
            What the rows are called there.
        """
        size = self.table.sample or sampled_rows(self.n_columns, current().memory_limit)
        with progress(
            f"Reading statistics of {what}", self.table.n_rows, bool(verbose)
        ) as advance:
            return scan(
                self.table, self.roles, labels, seed, size, advance, self.engine
            )


class Given(NamedTuple):
    """What `fit` was given: arrays and frames, or else a stream."""

    X: Any
    y: Any
    weight: Any
    stream: Stream | None = None


def given(X: Any, y: Any, sample_weight: Any, without: str = "refuse") -> Given:
    """Open what is to be read, and take columns that are named out of a frame; small
    tables are read at once.

    Parameters
    ----------
    X, y, sample_weight : what `fit` takes
    without : {"refuse", "keep"}
        What becomes of rows without a target that are read; see `Roles`.

    Raises
    ------
    TypeError
        Where X is a place that rows are read from, and y or `sample_weight` are no
        names of its columns.
    """
    if is_collection(X) or is_delayed(X):
        # Targets and weights are of Dask too, or arrays, or names of its columns
        named = _are_names(y)
        weighed = isinstance(sample_weight, str)
        table = open_collection(
            X, None if named else y, None if weighed else sample_weight
        )
        own = roles(y if named else None, sample_weight if weighed else None)
        if not named:
            own = replace(own, one_target=getattr(y, "ndim", 1) == 1)
        stream = Stream(table, own, active_engine())
    elif isinstance(X, TableSource) or is_streamed(X):
        names = [*(y if isinstance(y, list | tuple) else [y]), sample_weight]
        wanted = tuple(name for name in names if isinstance(name, str))
        table = open_selected(
            X, Selection() if isinstance(X, TableSource) else Selection(named=wanted)
        )
        own = roles(y, sample_weight)
        for name in own.target or ():
            if why := why_text(table, name):
                cure = (
                    f"open_source(..., schema=pyarrow.schema({{{name!r}: "
                    f"pyarrow.string()}}))"
                )
                raise ValueError(
                    f"The target {name!r} {why}; if it holds classes, open the file "
                    f"with {cure}."
                )
        of_dask = any(isinstance(part, CollectionPart) for part in table.parts[:1])
        stream = Stream(table, own, active_engine() if of_dask else current_engine())
    else:
        names = [name for name in (y, sample_weight) if isinstance(name, str)]
        if not names or not is_frame(X):
            return Given(X, y, sample_weight)
        frame = _frame_with(X, names)
        taken = [
            frame[name].to_native() if isinstance(name, str) else name
            for name in (y, sample_weight)
        ]
        return Given(frame.drop(names).to_native(), *taken)
    stream = replace(stream, roles=replace(stream.roles, without=without))
    if stream.is_gathered:
        return Given(*stream.gather())
    return Given(None, None, None, stream)


def _frame_with(X: Any, names: Sequence[str]) -> nw.DataFrame[Any]:
    """A data frame by narwhals; ValueError where it lacks one of some columns."""
    frame = nw.from_native(X, eager_only=True)
    if missing := [name for name in names if name not in frame.columns]:
        raise ValueError(
            f"X has no column {missing[0]!r}; its columns are "
            f"{', '.join(map(repr, frame.columns[:20]))}."
        )
    return frame


def _are_names(y: Any) -> bool:
    several = isinstance(y, list | tuple) and len(y) > 0
    return isinstance(y, str) or (several and all(isinstance(name, str) for name in y))


def roles(y: Any, sample_weight: Any = None) -> Roles:
    """The roles of columns that are named as targets and weights."""
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        names = value if name == "y" and isinstance(value, list | tuple) else [value]
        if not all(one is None or isinstance(one, str) for one in names):
            raise TypeError(
                f"{name} must be the name of a column where X is read from files or "
                "batches, "
                f"got {type(value).__name__}."
            )
    if y is None:
        return Roles(None, sample_weight)
    return Roles(
        (y,) if isinstance(y, str) else tuple(y), sample_weight, isinstance(y, str)
    )


def given_batch(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """X, y and weights of rows that must fit the memory; ValueError where they are a
    larger source.
    """
    X, y, weight, stream = given(X, y, sample_weight)
    if stream is None:
        return X, y, weight
    if not stream.is_small:
        raise ValueError(
            "partial_fit takes rows in memory, and this source is larger: use fit, "
            "which reads it in passes."
        )
    return tuple(stream.gather())


def open_training(
    X: Any,
    y: Any,
    sample_weight: Any,
    check: Callable[[Any, Any, Any], TrainingRows],
    *,
    seed: int,
    labels: bool = False,
    verbose: Any = False,
    without: str = "refuse",
    refusal: str = "",
    first: int | None = None,
    stays: bool = False,
) -> TrainingRows:
    """The rows that a model learns from, whatever they are: in memory where they fit,
    else a sample of them and the passes in which all are read.

    Parameters
    ----------
    X, y, sample_weight : what `fit` takes
    check : callable (X, y, weight) -> TrainingRows
        Makes rows in memory such as the model takes.
    seed : int
        Of the sample.
    labels : bool, default=False
        Whether targets are labels.
    verbose : bool or int, default=False
        Whether to show progress.
    without : {"refuse", "keep"}, default="refuse"
        What becomes of rows without a target that are read; see `Roles`.
    refusal : str, default=""
        What is wrong where the rows are too many for the memory; empty where they may
        be read in passes.
    first : int, optional
        Rows to look at, where they are read in passes; by default all are looked at,
        unless the table has a sample.
    stays : bool, default=False
        Whether rows in memory are never read in passes.

    Raises
    ------
    ValueError
        Where rows are not as the model takes them, or `refusal` is given and they do
        not fit.
    """
    X, y, weight, stream = given(X, y, sample_weight, without)
    if stream is not None and refusal and stream.is_small:
        X, y, weight = stream.gather()
        stream = None
    if stream is None:
        rows = check(X, y, weight)
        if refusal or stays or not _is_large(rows.X):
            return rows
        one_target = rows.y is not None and rows.y.ndim == 1
        beside = Roles(None, one_target=one_target, without=without)
        stream = Stream(of_arrays(rows.X, rows.y, rows.weight), beside)
    elif refusal:
        raise ValueError(refusal)
    if first is not None and stream.table.sample is None:
        stream = replace(stream, table=replace(stream.table, sample=first))
    rows = TrainingRows.of(stream, seed, labels, verbose)
    # A sample that is all of a table is one in memory
    if stream.table.sample is None and rows.n_rows == rows.X.shape[0]:
        return check(rows.X, rows.y, rows.weight)
    return rows


def _is_large(X: Any) -> bool:
    """Whether rows in memory are more than a sample, and too many for copies and marks
    of all of them.
    """
    is_more = X.shape[0] > sampled_rows(X.shape[1], current().memory_limit)
    return is_more and not _is_held(X)


def _is_held(X: Any) -> bool:
    """Whether a fit may hold rows in memory with all that it makes of them."""
    n_rows, n_columns = X.shape
    held = X.nnz // max(n_rows, 1) if sp.issparse(X) else n_columns
    return gathers(n_rows, held, current().memory_limit)


def exceeds_limit(X: Any) -> bool:
    """Whether rows in memory, few as they are, are too many for the memory limit."""
    return current().memory_limit is not None and not _is_held(X)


def _tables_of(source: TableSource) -> Iterator[Any]:
    """Yield the rows of a source as tables or arrays."""
    for part in source.parts:
        for batch in part.read():
            yield batch.X


def columns_apart(X: Any, Y: Any, shared: str | None = None) -> tuple[Any, Any]:
    """A table and columns of it by name as two tables; others as they are.

    Parameters
    ----------
    X : table of any kind
    Y : table of any kind, or names of columns of X
        Text that is the path of a file or folder, with a separator or a suffix, is no
        name.
    shared : str, optional
        A column that both tables are to have where they are read in passes, such as
        that of weights.

    Raises
    ------
    ValueError
        Where the table has no such columns, or none with names.
    """
    if (
        isinstance(Y, str)
        and os.path.exists(Y)
        and (os.path.dirname(Y) or os.path.splitext(Y)[1])
    ):
        return X, Y  # a file
    if not _are_names(Y):
        return X, Y
    wanted = [Y] if isinstance(Y, str) else Y
    if isinstance(X, Iterator) or (callable(X) and is_streamed(X)):
        # Batches are read once, and both tables from what is kept of them
        kept = open_source(X)
        X = partial(_tables_of, kept)
    if is_streamed(X):
        return open_source(X, exclude=wanted), open_source(
            X, columns=[*wanted, *([shared] if shared else [])]
        )
    if not is_frame(X):
        # Text that is the labels of the rows, or a place to read from
        shape = getattr(X, "shape", ())
        if isinstance(Y, str) and len(shape) and not os.path.exists(Y):
            raise ValueError(
                f"{Y!r} is no column of X, an array whose columns have no names: give "
                "a data frame, or Y itself."
            )
        are_labels = not isinstance(Y, str) and len(Y) == (shape or (0,))[0]
        return X, np.array(Y, dtype=object) if are_labels else Y
    frame = _frame_with(X, wanted)
    if not set(frame.columns) - set(wanted):
        raise ValueError(
            "Y names all columns of X, to which none is left: name some of them."
        )
    return frame.drop(wanted).to_native(), frame.select(wanted).to_native()


class TrainingSet(NamedTuple):
    """Rows to learn from, encoded.

    Attributes
    ----------
    encoder : TableEncoder
    source : Source
        All of them, encoded block by block; read in passes where they are many.
    sample : ArraySource
        The same, or a sample of them in memory, by which choices are made.
    n_rows : int
    engine : Engine
        What runs the passes.
    """

    encoder: TableEncoder
    source: Any
    sample: ArraySource
    n_rows: int
    engine: Engine = LOCAL

    def drawn(self, features: Map, seed: int) -> Map:
        """Draw a map for the encoded columns, and show it a sample of the rows; the
        map.
        """
        draw(features, self.encoder, self.sample, seed)
        return features

    def design(
        self, features: FeatureMap, dtype: DTypeLike = np.float32, **options: Any
    ) -> Design:
        """All rows seen through a map."""
        return Design(self.source, features, dtype, engine=self.engine, **options)


class Target(NamedTuple):
    """Checked targets of rows in memory.

    Attributes
    ----------
    y : array of shape (n,) or (n, K), or None
        Numbers or labels.
    weight : array of shape (n,) or None
    mean, scale : arrays of shape (K,)
        Of numbers.
    bounds : PredictionBounds
        Of numbers.
    """

    y: Any = None
    weight: Any = None
    mean: Any = None
    scale: Any = None
    bounds: Any = None


@dataclass(frozen=True)
class TrainingRows:
    """Rows to learn from, checked and not encoded yet: all of them in memory, or a
    sample of those of a table that is read in passes.

    Attributes
    ----------
    X : array, CSR matrix or data frame
    target : Target
    stream : Stream or None
        Where the rows are read from, if not all of them are in memory.
    summary : TableSummary or None
        Of all rows of the stream.
    content : array or None
        By what rows differ, where that is not what they hold.
    """

    X: Any
    target: Target = field(default_factory=Target)
    stream: Stream | None = None
    summary: TableSummary | None = None
    content: NDArray | None = None

    @classmethod
    def of(
        cls,
        stream: Stream,
        seed: int,
        labels: bool = False,
        verbose: Any = False,
        what: str = "the rows",
    ) -> Self:
        """Those of a stream, which is read once; parameters as in `Stream.scan`."""
        summary = stream.scan(seed, labels, verbose, what)
        X, y, weight = summary.sample
        return cls(X, Target(y, weight), stream, summary)

    @property
    def are_all(self) -> bool:
        """Whether all rows are in memory, and not read in passes."""
        return self.summary is None

    @property
    def y(self) -> NDArray | None:
        """Targets, shape (n,) or (n, K)."""
        return self.target.y

    @property
    def weight(self) -> NDArray | None:
        """Weights, shape (n,)."""
        return self.target.weight

    def take(self, rows: NDArray) -> TrainingRows:
        """Some of the rows in memory, by their numbers."""
        y, weight, content = (
            None if values is None else values[rows]
            for values in (self.y, self.weight, self.content)
        )
        target = self.target._replace(y=y, weight=weight)
        return replace(self, X=rows_of(self.X, rows), target=target, content=content)

    def label_weights(self) -> tuple[NDArray, NDArray[np.float64]]:
        """The labels that all rows have, ascending, and the weight of each."""
        if self.summary is None:
            assert self.y is not None
            labels = distinct(self.y)
            number = np.searchsorted(labels, self.y)
            return labels, np.bincount(number, self.weight, len(labels)).astype(float)
        found = self.summary.classes or {}
        is_text = any(isinstance(label, str) for label in found)
        labels = np.array(list(found), dtype=object if is_text else None)
        order = np.argsort(labels)
        return labels[order], np.array(list(found.values()), np.float64)[order]

    def with_class_weights(self, factors: NDArray) -> TrainingRows:
        """The rows with weights that are multiplied by those of their classes, which
        stand in the order of `label_weights`.
        """
        labels, totals = self.label_weights()
        factor = factors[np.searchsorted(labels, np.asarray(self.y))]
        weight = factor if self.weight is None else self.weight * factor
        if self.stream is None or self.summary is None:
            weight = checked_weight(weight, self.X)
            return replace(self, target=self.target._replace(weight=weight))
        roles = ClassWeighted.of(self.stream.roles, labels, factors)
        return replace(
            self,
            target=self.target._replace(weight=weight),
            stream=replace(self.stream, roles=roles),
            summary=replace(self.summary, weight=float(totals @ factors)),
        )

    @property
    def n_seen(self) -> int:
        """Number of rows: all of them, or the first ones where these stand for all."""
        return self.X.shape[0] if self.summary is None else self.summary.n_seen

    @property
    def n_rows(self) -> int | None:
        """Number of all rows, as far as it is known or told; else None."""
        if self.stream is None or self.summary is None:
            return int(self.X.shape[0])
        return self.summary.n_rows or self.stream.table.expected

    def encoder(
        self,
        standardize: bool | str,
        text_features: Any = None,
        day_first: bool | None = None,
    ) -> TableEncoder:
        """The encoder that is learned from all rows.

        Parameters
        ----------
        standardize : bool or "auto"
            As in `encode`.
        text_features, day_first
            As of `TableEncoder`.
        """
        text = {"text_features": text_features, "day_first": day_first}
        if self.summary is None:
            encoder = encode(self.X, self.weight, standardize, **text)
        else:
            encoder = encoder_of(self.summary.table, standardize, **text)
        return encoder.without_outliers(self.X, self.weight)

    def encoded(
        self,
        encoder: TableEncoder,
        dtype: DTypeLike,
        targets: Callable[[NDArray], NDArray] = as_it_is,
        encode: Callable[[Any], Any] | None = None,
        uncounted: int | None = None,
    ) -> TrainingSet:
        """The rows as numbers.

        Parameters
        ----------
        encoder : TableEncoder
        dtype : dtype
            Of the encoded rows.
        targets : callable
            Turns targets of some rows into an array of shape (b, K).
        encode : callable, optional
            What becomes of blocks of all rows, in the place of the encoder.
        uncounted : int, optional
            Number of rows to reckon with where nobody knows it; by default that of the
            rows that have been read.
        """
        y = np.empty((self.X.shape[0], 0)) if self.y is None else self.y
        sample = encoded_source(
            encoder, self.X, y, self.weight, dtype, targets, self.content
        )
        if self.stream is None or self.summary is None:
            if encode is not None:
                return TrainingSet(
                    encoder,
                    ArraySource(self.X, y, self.weight, encode, targets),
                    sample,
                    len(y),
                )
            if (
                is_frame(self.X)
                and len(y) * encoder.n_features_out_ <= KEPT_ENTRIES
                and not current().memory_limit
            ):
                sample = sample.encoded(dtype)
            return TrainingSet(encoder, sample, sample, len(y))
        table = self.stream.table
        summary = self.summary
        sample = sample.encoded(dtype)
        if encode is None and table.sample is None and summary.n_rows == sample.n_rows:
            return TrainingSet(encoder, sample, sample, sample.n_rows)
        n_rows = self.n_rows or uncounted or summary.n_seen
        total = summary.weight * n_rows / summary.n_seen
        read = encode or partial(encoder.encode, dtype=np.dtype(dtype))
        counts = tuple(summary.counts)
        checksums = tuple(summary.checksums)
        all_rows = StreamSource(
            table, self.stream.roles, read, targets, counts, checksums, sample, total
        )
        return TrainingSet(encoder, all_rows, sample, n_rows, self.stream.engine)


def encode(
    X: Any, weights: NDArray | None, standardize: bool | str, **text: Any
) -> TableEncoder:
    """Fit the encoder of a table; ValueError where nothing is in it.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d)
        Checked.
    weights : array of shape (n,) or None
    standardize : bool or "auto"
        Whether columns of numbers get unit variance; "auto" for yes unless all are
        numbers of one unit, as pixels.
    **text
        How columns of text are read: parameters of `TableEncoder`.
    """
    encoder = TableEncoder(with_std=bool(standardize), **text).fit(
        X, sample_weight=normalised_weights(weights)
    )
    if isinstance(standardize, str) and has_common_unit(encoder.statistic_):
        return encoder_of(encoder.statistic_, False, **text)
    return _without_categories(encoder)


def encoder_of(
    statistic: TableStatistic, standardize: bool | str, **text: Any
) -> TableEncoder:
    """The encoder of rows that a statistic is of; otherwise as `encode`."""
    with_std = (
        not has_common_unit(statistic)
        if isinstance(standardize, str)
        else bool(standardize)
    )
    return _without_categories(TableEncoder.of(statistic, with_std=with_std, **text))


def _without_categories(encoder: TableEncoder) -> TableEncoder:
    """The encoder without the counts of categories, which are of use for more rows
    alone; ValueError for no columns.
    """
    if not encoder.n_features_out_:
        raise ValueError("X has no value in any row of any column.")
    encoder.forget_categories()
    return encoder


def encoded_source(
    encoder: TableEncoder,
    X: Any,
    y: NDArray,
    weights: NDArray | None,
    dtype: DTypeLike,
    targets: Callable[[NDArray], NDArray],
    content: NDArray | None = None,
) -> ArraySource:
    """The rows of a table, encoded block by block; distinguished by their content,
    if not by what they hold.
    """
    return ArraySource(
        X, y, weights, partial(encoder.encode, dtype=dtype), targets, content
    )


def rows_to_map(encoder: TableEncoder, X: Any, dtype: DTypeLike) -> ArraySource:
    """The rows of a table without targets."""
    return encoded_source(encoder, X, np.empty((X.shape[0], 0)), None, dtype, as_it_is)


def draw(
    features: FeatureMap, encoder: TableEncoder, source: ArraySource, seed: int
) -> EncodedRows:
    """Draw a map for the encoded columns, and show it some rows; these."""
    try:
        for leaf in leaves(features):
            kernel = getattr(leaf.features, "kernel", None)
            if not leaf.metrics and isinstance(kernel, Kernel):
                kernel.check_features(encoder.n_features_out_)
    except ValueError as error:
        names = ", ".join(encoder.get_feature_names_out()[:20])
        raise ValueError(f"{error} The encoded columns are: {names}.") from None
    features.draw(encoder.n_features_out_)
    sample = source.sample(features.sample_rows, np.random.default_rng(seed))
    X, _, weight = ArraySource(
        sample.X, np.empty((sample.n_rows, 0)), sample.weights, sample.encode
    ).whole()
    features.fit_sample(X, weight)
    return X


def column_units(encoder: TableEncoder) -> NDArray | None:
    """What one unit of each encoded column is in the unit of the input; None where
    not all are numbers.
    """
    numbers = [
        column for column in encoder.columns_ if isinstance(column, NumberColumns)
    ]
    whole = numbers and len(numbers[0].scale) == encoder.n_features_out_
    return numbers[0].scale if whole else None
