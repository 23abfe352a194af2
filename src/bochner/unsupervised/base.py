"""What all models of rows without targets share: rows of any kind, encoded, seen through a drawn map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.base import is_classifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from bochner.data.array_source import ArraySource, as_it_is
from bochner.data.table import TableEncoder
from bochner.data.table_statistic import TableStatistic, has_common_unit
from bochner.data.weights import checked_weight
from bochner.design.design import Design
from bochner.engines.local import LOCAL
from bochner.engines.progress import progress
from bochner.estimators.parameters import check_parameter
from bochner.features import FourierFeatures, NystroemFeatures
from bochner.features.base import FeatureMap, KernelParameter
from bochner.features.binning import require_hashed
from bochner.features.distances import median_gaussian
from bochner.features.leaves import LeafMap, is_dense, seeded
from bochner.features.nystroem import has_exact_kernel
from bochner.inputs.checks import checked_rows, is_scaling
from bochner.inputs.training import (
    Stream,
    draw,
    encode,
    encoded_source,
    encoder_of,
    engine_of,
    given,
    large,
    rows_to_map,
    sampled_rows,
)
from bochner.kernels import Kernel
from bochner.settings import current
from bochner.sources.scan import scan
from bochner.sources.stream import StreamSource

LANDMARKS, FREQUENCIES = 300, 2000
MOST_COLUMNS = 8192  # whose moments and eigenvectors take a minute and a GB


class Opened(NamedTuple):
    """Rows to learn from.

    Attributes
    ----------
    source : Source
        All of them, encoded block by block; read in passes where they are many.
    sample : ArraySource
        The same, or a sample of them in memory, by which choices are made.
    n_rows : int
    engine : Engine
        What runs the passes.
    """

    source: Any
    sample: ArraySource
    n_rows: int
    engine: Any = LOCAL


class RowModel(KernelParameter):
    """A model of rows, without targets, seen through a feature map.

    Subclasses have the parameters `random_state` and `verbose`, and may have `standardize`.

    Attributes
    ----------
    learned : str
        The attribute without which it is not fitted, as where a fit has failed after a look at the columns.
    """

    learned: ClassVar[str]
    random_state: Any
    verbose: int = 0
    standardize: bool | str = "auto"

    def _begin(self) -> None:
        """Forget an earlier fit, so that a fit that fails leaves no mixture behind; ValueError for another scaling."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.endswith("__")]:
            delattr(self, name)
        check_parameter("verbose", self.verbose)
        if not is_scaling(self.standardize):
            raise ValueError(f'standardize must be True, False or "auto", got {self.standardize!r}.')

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, self.learned)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31))

    def _open(self, X: Any, sample_weight: Any, seed: int, dtype: DTypeLike = np.float32, y: Any = None) -> Opened:
        """Rows of any kind to learn from: arrays, frames, sparse matrices, files, collections.

        Parameters
        ----------
        X : what `fit` takes
        sample_weight : array of shape (n,), str or None
        seed : int
            Of the sample.
        dtype : dtype
            Of the encoded rows.
        y : array or name of a column, optional
            Targets, for models that have them in some rows.
        """
        X, y, weight, stream = given(X, y, sample_weight, without="keep")
        if stream is None:
            X = checked_rows(self, X, reset=True)
            weight = checked_weight(weight, X)
            y = self._checked_targets(X, y)
            stream = large(X, y, weight)
            if stream is not None:
                stream = replace(stream, roles=replace(stream.roles, without="keep"))
            else:
                targets = self._targets_of(y)
                self.encoder_ = self._encoder(X, weight)
                source = encoded_source(self.encoder_, X, y, weight, dtype, targets)
                return Opened(source, source, source.n_rows)
        return self._opened_stream(stream, seed, np.dtype(dtype))

    def _checked_targets(self, X: Any, y: Any) -> NDArray:
        """The targets of rows in memory; none, where a model has none."""
        return np.empty((X.shape[0], 0))

    def _targets_of(self, seen: Any) -> Callable[[NDArray], NDArray]:
        """How targets are read as numbers, shape (b, K), after a look at all of them: an array or a `TableSummary`."""
        return as_it_is

    def _opened_stream(self, stream: Stream, seed: int, dtype: np.dtype) -> Opened:
        """Rows that are read in passes, after a look at all of them."""
        size, engine = stream.table.sample or sampled_rows(stream.n_columns, current().memory_limit), engine_of(stream)
        with progress("Reading statistics of the rows", stream.table.n_rows, bool(self.verbose)) as advance:
            overview = scan(stream.table, stream.roles, is_classifier(self), seed, size, advance, engine)
        X, y, weight = overview.sample
        y, targets = np.empty((X.shape[0], 0)) if y is None else y, self._targets_of(overview)
        validate_data(self, X, reset=True, skip_check_array=True)
        self.encoder_ = self._scaled(overview.table)
        n_rows = overview.n_rows or stream.table.expected or overview.n_seen
        sample = encoded_source(self.encoder_, X, y, weight, dtype, targets).encoded(dtype)
        if stream.table.sample is None and overview.n_rows == sample.n_rows:
            return Opened(sample, sample, sample.n_rows)
        encode = partial(self.encoder_.encode, dtype=dtype)
        total = overview.weight * n_rows / overview.n_seen
        source = StreamSource.of(stream.table, stream.roles, overview, encode, sample, targets, total)
        return Opened(source, sample, n_rows, engine)

    def _encoder(self, X: Any, weight: NDArray | None) -> TableEncoder:
        """The encoder of a table in memory."""
        if not isinstance(self.standardize, str):
            return encode(X, weight, bool(self.standardize))
        encoder = encode(X, weight, True)
        return encode(X, weight, False) if has_common_unit(encoder.statistic_) else encoder

    def _scaled(self, statistic: TableStatistic) -> TableEncoder:
        """The encoder, which scales columns to unit variance unless that is not wanted."""
        by_unit = isinstance(self.standardize, str)
        return encoder_of(statistic, not has_common_unit(statistic) if by_unit else bool(self.standardize))

    def _drawn(self, features: FeatureMap, rows: Opened, seed: int) -> FeatureMap:
        """Draw a map for the encoded columns, and show it a sample of the rows."""
        draw(features, self.encoder_, rows.sample, seed)
        return features

    def _design(self, rows: Opened, features: FeatureMap, dtype: DTypeLike = np.float32, label: str = "") -> Design:
        """All rows seen through a map."""
        return Design(rows.source, features, dtype, engine=rows.engine)

    def _mapped(self, X: Any, work: Callable[[Any], NDArray], dtype: DTypeLike = np.float32) -> NDArray:
        """What ``work(rows)`` makes of blocks of encoded rows, one after the other."""
        check_is_fitted(self)
        X = checked_rows(self, X, reset=False)
        source = rows_to_map(self.encoder_, X, dtype)
        return np.concatenate([work(block.X) for block in source.blocks(1 << 16)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def map_for(features: Any, kernel: Any, sample: ArraySource, seed: int, n_landmarks: int = LANDMARKS) -> FeatureMap:
    """A map, not drawn yet.

    Parameters
    ----------
    features : FeatureMap, transformer or "auto"
        The last for landmarks of the kernel, or Fourier features where it has no formula.
    kernel : Kernel or "auto"
        The last for a Gaussian of the median distance.
    sample : ArraySource
        Encoded rows.
    seed : int
    n_landmarks : int

    Raises
    ------
    TypeError, ValueError
        For other words, a kernel beside a map, and bins without buckets.
    """
    if isinstance(kernel, str):
        if kernel != "auto":
            raise ValueError(f"kernel must be 'auto' or a kernel such as Gaussian(2.0), got {kernel!r}.")
    elif not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be 'auto' or a kernel such as Gaussian(2.0), got {kernel!r:.200}.")
    if not isinstance(features, str):
        if isinstance(kernel, Kernel):
            raise ValueError("A kernel was given beside a map: give the kernel to the map, features=Map(kernel).")
        drawn = seeded(features, seed)
        if not is_dense(drawn):
            require_hashed(drawn, MOST_COLUMNS)
        return drawn
    if features != "auto":
        raise ValueError(f"features must be 'auto' or a map such as FourierFeatures(), got {features!r}.")
    chosen = kernel if isinstance(kernel, Kernel) else median_gaussian(sample, seed)
    landmarks = NystroemFeatures(chosen, n_landmarks)
    exact = has_exact_kernel(LeafMap(1.0, (), landmarks))
    return seeded(landmarks if exact else FourierFeatures(chosen, FREQUENCIES), seed)
