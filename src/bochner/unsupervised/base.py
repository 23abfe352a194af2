"""What all models of rows without targets share: rows of any kind, encoded, seen
through a drawn map.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bochner.blocks import BLOCK_ROWS
from bochner.data.array_source import as_it_is
from bochner.data.weights import checked_weight
from bochner.estimators.parameters import check_parameter
from bochner.features import FourierFeatures, NystroemFeatures
from bochner.features.base import FeatureMap
from bochner.features.binning import require_hashed
from bochner.features.distances import median_gaussian
from bochner.features.leaves import (
    LeafMap,
    has_exact_kernel,
    is_dense,
    refuse_encoded,
    seeded,
)
from bochner.inputs.estimator import BaseKernelEstimator
from bochner.inputs.splits import group_numbers
from bochner.inputs.training import (
    Target,
    TrainingRows,
    TrainingSet,
    open_training,
    rows_to_map,
)
from bochner.kernels import Kernel

LANDMARKS, FREQUENCIES = 300, 2000
MOST_COLUMNS = 8192  # whose moments and eigenvectors take a minute and a GB


class RowModel(BaseKernelEstimator):
    """A model of rows, without targets, seen through a feature map.

    Subclasses have the parameters `random_state`, `standardize` and `verbose`.

    Attributes
    ----------
    learned : str
        The attribute without which it is not fitted, as where a fit has failed after a
        look at the columns.
    keeps_far : bool
        Whether far values stay as far as they are.
    """

    learned: ClassVar[str]
    keeps_far: ClassVar[bool] = False
    standardize: bool | str
    verbose: int

    def _begin(self) -> None:
        """Forget an earlier fit, and check the parameters."""
        self._forget_fit()
        self._check_parameters()
        check_parameter("verbose", self.verbose)
        if not self.standardize:
            for name in ("kernel", "features", "y_kernel", "y_features"):
                refuse_encoded(name, getattr(self, name, None))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, self.learned)

    def _open(
        self,
        X: Any,
        sample_weight: Any,
        seed: int,
        dtype: DTypeLike = np.float32,
        y: Any = None,
        groups: Any = None,
    ) -> TrainingSet:
        """Rows of any kind to learn from: arrays, frames, sparse matrices, files,
        collections.

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
        groups : array of shape (n,) or name of a column, optional
            To which group each row belongs.
        """
        self._group_column = groups if isinstance(groups, str) else None
        arguments = X, y, sample_weight, self._checked
        rows = open_training(self, *arguments, seed=seed, groups=groups, without="keep")
        if groups is not None and not rows.are_all:
            raise ValueError(
                "groups need all rows in memory, and these are read in passes: leave "
                "groups out, or give fewer rows."
            )
        targets = self._targets_of(rows.summary or rows.y)
        self.encoder_ = rows.encoder(self.standardize, keeps_far=self.keeps_far)
        training_set = rows.encoded(self.encoder_, dtype, targets)._replace(rows=rows)
        if groups is None:
            return training_set
        return training_set._replace(group=group_numbers(rows.groups))

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> TrainingRows:
        """Rows in memory, checked."""
        X = self._rows(X, reset=True)
        weight = checked_weight(sample_weight, X)
        return TrainingRows(X, Target(self._checked_targets(X, y), weight))

    def _checked_targets(self, X: Any, y: Any) -> NDArray | None:
        """The targets of rows in memory; None where a model has none."""
        return None

    def _targets_of(self, seen: Any) -> Callable[[NDArray], NDArray]:
        """How targets are read as numbers, shape (b, K), after a look at all of
        them: an array or a `TableSummary`.
        """
        return as_it_is

    def _mapped(
        self, X: Any, work: Callable[[Any], NDArray], dtype: DTypeLike = np.float32
    ) -> NDArray:
        """What ``work(rows)`` makes of blocks of encoded rows, one after the other."""
        X = self._rows(X, reset=False)
        source = rows_to_map(self.encoder_, X, dtype)
        return np.concatenate([work(block.X) for block in source.blocks(1 << 16)])


def precision_of(X: Any) -> np.dtype:
    """Precision of the features of rows: double where these are few, of which each
    counts.
    """
    n_rows = getattr(X, "shape", (None,))[0]
    few = isinstance(n_rows, Integral) and n_rows <= BLOCK_ROWS
    return np.dtype(np.float64 if few else np.float32)


def map_for(
    features: Any,
    kernel: Any,
    rows: TrainingSet,
    seed: int,
    n_landmarks: int,
) -> FeatureMap:
    """A map, drawn and fitted to some rows.

    Parameters
    ----------
    features : FeatureMap, transformer or "auto"
        "auto" is landmarks of the kernel, or Fourier features if the kernel has no
        formula.
    kernel : Kernel or "auto"
        "auto" is a Gaussian whose lengthscale is set by the median distance between
        rows.
    rows : TrainingSet
    seed : int
    n_landmarks : int

    Raises
    ------
    TypeError, ValueError
        For other words, a kernel in addition to a map, and bins without buckets.
    """
    wrong = "kernel must be 'auto' or a kernel such as Gaussian(2.0), got "
    if isinstance(kernel, str) and kernel != "auto":
        raise ValueError(f"{wrong}{kernel!r}.")
    if not isinstance(kernel, str | Kernel):
        raise TypeError(f"{wrong}{kernel!r:.200}.")
    if not isinstance(features, str):
        if isinstance(kernel, Kernel):
            raise ValueError(
                "A kernel was given beside a map: give the kernel to the map, "
                "features=Map(kernel)."
            )
        given = seeded(features, seed)
        if not is_dense(given):
            require_hashed(given, MOST_COLUMNS)
        return rows.drawn(given, seed)
    if features != "auto":
        raise ValueError(
            "features must be 'auto' or a map such as FourierFeatures(), got "
            f"{features!r}."
        )
    chosen = (
        kernel if isinstance(kernel, Kernel) else median_gaussian(rows.sample, seed)
    )
    landmarks = NystroemFeatures(chosen, n_landmarks)
    exact = has_exact_kernel(LeafMap(1.0, (), landmarks))
    default = landmarks if exact else FourierFeatures(chosen, FREQUENCIES)
    return rows.drawn(seeded(default, seed), seed)
