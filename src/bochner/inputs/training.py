"""Rows to learn from: opened, checked, and encoded as numbers, in memory or read in
passes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import validate_data

from bochner.data.array_source import ArraySource, as_it_is, rows_of
from bochner.data.columns import distinct
from bochner.data.encodings import NumberColumns
from bochner.data.table import TableEncoder
from bochner.data.table_input import is_frame
from bochner.data.table_statistic import TableStatistic, has_common_unit
from bochner.data.weights import checked_weight
from bochner.design.design import Design
from bochner.engines.base import Engine
from bochner.engines.local import LOCAL
from bochner.features.base import FeatureMap
from bochner.features.leaves import leaves
from bochner.inputs.checks import normalised_weights, refuse_mixed
from bochner.inputs.opened import Stream, is_large, open_data
from bochner.inputs.splits import checked_groups
from bochner.kernels import Kernel
from bochner.settings import current
from bochner.sources.stream import StreamSource
from bochner.sources.table_summary import TableSummary

# Numbers that data frames become, up to which they are kept as these
KEPT_ENTRIES = 1 << 24
Map = TypeVar("Map", bound=FeatureMap)


class TrainingSet(NamedTuple):
    """Rows to learn from, encoded.

    Attributes
    ----------
    encoder : TableEncoder
    source : Source
        All of them, encoded block by block; read in passes where they are many.
    sample : ArraySource
        The source, or a sample of its rows in memory, by which choices are made.
    n_rows : int
    engine : Engine
        What runs the passes.
    group : int array of shape (n,) or None
        The group of each row, where all are in memory and belong to such.
    rows : TrainingRows or None
        The rows before they were encoded, where another machine is fitted to some.
    """

    encoder: TableEncoder
    source: Any
    sample: ArraySource
    n_rows: int
    engine: Engine = LOCAL
    group: NDArray | None = None
    rows: TrainingRows | None = None

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
    groups : array of shape (n,) or None
        To which group each row belongs.
    splits : RowSplits or None
        Which rows validate which, where that is given.
    """

    X: Any
    target: Target = field(default_factory=Target)
    stream: Stream | None = None
    summary: TableSummary | None = None
    content: NDArray | None = None
    groups: Any = None
    splits: Any = None

    @classmethod
    def of(
        cls,
        stream: Stream,
        seed: int,
        labels: bool = False,
        verbose: Any = False,
        what: str = "the rows",
    ) -> Self:
        """Those of a stream: all of its rows are read once, or the first ones where
        these stand for all, for their statistics and a sample.

        Parameters
        ----------
        stream : Stream
        seed : int
            Of the sample.
        labels : bool
            Whether targets are labels.
        verbose : bool or int
            Whether to show progress.
        what : str
            What the rows are called there.
        """
        summary = stream.scan(seed, labels, verbose, what)
        X, y, weight, groups = summary.sample
        return cls(X, Target(y, weight), stream, summary, groups=groups)

    @property
    def fold(self) -> NDArray | None:
        """The split in which each row validates, counted from 1, and 0 for rows that
        never do; None where content decides.
        """
        return None if self.splits is None else self.splits.held_out_in + 1

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
        y, weight, content, groups = (
            None if values is None else values[rows]
            for values in (self.y, self.weight, self.content, self.groups)
        )
        return replace(
            self,
            X=rows_of(self.X, rows),
            target=self.target._replace(y=y, weight=weight),
            content=content,
            groups=groups,
            splits=None if self.splits is None else self.splits.take(rows),
        )

    def merged(self, first: NDArray) -> TrainingRows:
        """The rows in memory, equal ones as one with their weight.

        Parameters
        ----------
        first : int array of shape (n,)
            Number of the first row that is equal to each.
        """
        leads, number = np.unique(first, return_inverse=True)
        rows = self.take(leads)
        weight = np.bincount(number, self.weight).astype(np.float64)
        return replace(rows, target=rows.target._replace(weight=weight))

    def label_weights(self) -> tuple[NDArray, NDArray]:
        """The labels that all rows have, ascending, and the weight of each."""
        if self.summary is None:
            assert self.y is not None
            labels = distinct(self.y)
            number = np.searchsorted(labels, self.y)
            return labels, np.bincount(number, self.weight, len(labels)).astype(float)
        label_weights = self.summary.classes or {}
        is_text = any(isinstance(label, str) for label in label_weights)
        labels = np.array(list(label_weights), dtype=object if is_text else None)
        refuse_mixed(labels)
        order = np.argsort(labels)
        return labels[order], np.array(list(label_weights.values()), np.float64)[order]

    def with_class_weights(
        self, factors: NDArray, verbose: Any = False
    ) -> TrainingRows:
        """The rows with weights that are multiplied by those of their classes, which
        stand in the order of `label_weights`.

        Rows of a stream are read once more, as the statistics of their columns are
        those of weighted rows, too.
        """
        labels, _ = self.label_weights()
        factor = factors[np.searchsorted(labels, np.asarray(self.y))]
        weight = factor if self.weight is None else self.weight * factor
        if self.stream is None or self.summary is None:
            weight = checked_weight(weight, self.X)
            target = self.target._replace(weight=weight)
            splits = None if self.splits is None else self.splits.weighted(factor)
            return replace(self, target=target, splits=splits)
        roles = replace(self.stream.roles, classes=labels, factors=factors)
        stream = replace(self.stream, roles=roles)
        seed = self.summary.drawn.seed
        summary = stream.scan(seed, True, verbose, "the weighted rows")
        target = self.target._replace(weight=weight)
        return replace(self, target=target, stream=stream, summary=summary)

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
        keeps_far: bool = False,
    ) -> TableEncoder:
        """The encoder that is learned from all rows.

        Parameters
        ----------
        standardize : bool or "auto"
            Whether columns of numbers get unit variance; "auto" for yes unless all are
            numbers of one unit, as pixels.
        text_features, day_first
            As of `TableEncoder`.
        keeps_far : bool, default=False
            Whether far values stay as they are; see `TableEncoder.without_outliers`.

        Raises
        ------
        ValueError
            Where nothing is in the rows.
        """
        if self.summary is None:
            statistic = TableStatistic.of(self.X, normalised_weights(self.weight))
        else:
            statistic = self.summary.table
        with_std = bool(standardize)
        if isinstance(standardize, str):
            with_std = not has_common_unit(statistic)
        encoder = TableEncoder.of(
            statistic,
            with_std=with_std,
            text_features=text_features,
            day_first=day_first,
        )
        if not encoder.n_features_out_:
            raise ValueError("X has no value in any row of any column.")
        # The counts of categories are of use for more rows alone
        encoder.forget_categories()
        encoder.caution(self.X, self.weight)
        return encoder.without_outliers(self.X, self.weight, keeps_far)

    def source(
        self,
        encoder: TableEncoder,
        dtype: DTypeLike,
        targets: Callable[[NDArray], NDArray] = as_it_is,
    ) -> ArraySource:
        """The rows in memory, encoded block by block; distinguished by their content,
        if not by what they hold.
        """
        y = np.empty((self.X.shape[0], 0)) if self.y is None else self.y
        encode = partial(encoder.encode, dtype=dtype)
        return ArraySource(
            self.X, y, self.weight, encode, targets, self.content, self.splits
        )

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
        sample = self.source(encoder, dtype, targets)
        if self.stream is None or self.summary is None:
            n_rows = sample.n_rows
            is_kept = n_rows * encoder.n_features_out_ <= KEPT_ENTRIES
            if encode is not None:
                source = ArraySource(self.X, sample.y, self.weight, encode, targets)
                return TrainingSet(encoder, source, sample, n_rows)
            if is_kept and is_frame(self.X) and not current().memory_limit:
                sample = sample.encoded(dtype)
            return TrainingSet(encoder, sample, sample, n_rows)
        table = self.stream.table
        summary = self.summary
        sample = sample.encoded(dtype)
        n_rows = self.n_rows or uncounted or summary.n_seen
        total = summary.weight * n_rows / summary.n_seen
        all_rows = StreamSource(
            table,
            self.stream.roles,
            encode or partial(encoder.encode, dtype=np.dtype(dtype)),
            targets,
            tuple(summary.counts),
            tuple(summary.checksums),
            sample,
            total,
        )
        return TrainingSet(encoder, all_rows, sample, n_rows, self.stream.engine)


def open_training(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    check: Callable[[Any, Any, Any], TrainingRows],
    *,
    seed: int,
    groups: Any = None,
    is_new: bool = True,
    without: str = "refuse",
    refusal: str = "",
    first: int | None = None,
    stays: bool = False,
) -> TrainingRows:
    """The rows that a model learns from, whatever they are: in memory where they fit,
    else a sample of them and the passes in which all are read.

    Parameters
    ----------
    model : estimator
        With the parameter `verbose`.
    X, y, sample_weight : what `fit` takes
    check : callable (X, y, weight) -> TrainingRows
        Makes rows in memory such as the model takes.
    seed : int
        Of the sample.
    groups : array of shape (n,) or str, optional
        To which group each row belongs. Rows in memory with groups stay there.
    is_new : bool, default=True
        Whether the model takes the names of columns that are read in passes.
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
    X, y, weight, groups, stream = open_data(
        X, y, sample_weight, without, groups, here=bool(refusal)
    )

    def checked(X: Any, y: Any, weight: Any, groups: Any) -> TrainingRows:
        rows = check(X, y, weight)
        return replace(rows, groups=checked_groups(groups, rows.X))

    if stream is None:
        rows = checked(X, y, weight, groups)
        has_groups = groups is not None
        if has_groups or refusal or stays or not is_large(rows.X):
            return rows
        stream = Stream.of_rows(rows.X, rows.y, rows.weight, without)
    elif refusal:
        raise ValueError(refusal)
    if first is not None and stream.table.sample is None:
        stream = replace(stream, table=replace(stream.table, sample=first))
    rows = TrainingRows.of(stream, seed, is_classifier(model), model.verbose)
    # A sample that is all of a table is one in memory
    if stream.table.sample is None and rows.n_rows == rows.X.shape[0]:
        return checked(rows.X, rows.y, rows.weight, rows.groups)
    if is_new:
        validate_data(model, rows.X, reset=True, skip_check_array=True)
    return replace(rows, groups=checked_groups(rows.groups, rows.X))


def rows_to_map(encoder: TableEncoder, X: Any, dtype: DTypeLike) -> ArraySource:
    """The rows of a table without targets."""
    return TrainingRows(X).source(encoder, dtype)


def draw(
    features: FeatureMap, encoder: TableEncoder, source: ArraySource, seed: int
) -> Any:
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
