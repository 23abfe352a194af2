"""Transformers of scikit-learn, and of anyone who follows it, as feature maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.validation import _check_feature_names_in as check_feature_names_in
from sklearn.utils.validation import check_is_fitted

from bochner.data.table_input import as_dense
from bochner.engines.blas import single_threaded_blas
from bochner.features.base import DenseFeatureMap, FeatureMap, Rows

# A call checks its parameters and its rows, which takes as long as some rows do
FEWEST_TILE_ROWS = 256
REMEDY = (
    "In an estimator its input is centred: if it needs other input, put a scaler "
    "before it, as in "
    "features=make_pipeline(MinMaxScaler(clip=True), AdditiveChi2Sampler())."
)


class TransformerFeatures(DenseFeatureMap):
    """The features of a scikit-learn transformer, as a feature map.

    Estimators and `ConcatenatedFeatures` wrap transformers in this map. The transformer
    is fitted without a target, on a sample of at most 4,096 encoded rows, from which
    `Nystroem` takes its landmarks. Rows of weight zero are left out of the sample;
    other weights have no effect. Numeric columns of dense rows are centred, in their
    own units. The fit is in double precision, whatever the precision of the rows: the
    inverse square root of a kernel matrix, from which Nystroem's features are computed,
    has few correct digits in single precision.

    Parameters
    ----------
    transformer : scikit-learn transformer
        An instance with `fit`, `transform` and `get_params`: one of
        `sklearn.kernel_approximation`, a `Pipeline`, a `FeatureUnion`. It is not
        changed: a copy is fitted. It must map each row independently and without side
        effects, because several threads call `transform` at once.

    Attributes
    ----------
    transformer_ : scikit-learn transformer
        The fitted copy.
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    TypeError
        At fit: not a transformer, or one that needs a target.
    ValueError
        At fit or transform: rows that the transformer rejects; features that are not
        numbers, not finite, or not one row for each input row.
    NotFittedError
        At transform, before fit.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.kernel_approximation import Nystroem
    >>> from bochner import KernelMachineRegressor
    >>> X = np.random.default_rng(0).uniform(size=(300, 2))
    >>> y = np.sin(6 * X[:, 0]) + X[:, 1]
    >>> model = KernelMachineRegressor(
    ...     features=Nystroem(gamma=4.0, n_components=50), random_state=0
    ... ).fit(X, y)
    >>> bool(model.score(X, y) > 0.99), model.features_.transformer_.components_.shape
    (True, (50, 2))
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def draw(self, n_features: int) -> TransformerFeatures:
        """Copy the transformer, for `n_features` columns; its own number of columns
        is known once it has seen rows.
        """
        _require_transformer(self.transformer)
        self.transformer_ = clone(self.transformer)
        self.n_features_in_ = n_features
        self._size = 0
        return self

    @single_threaded_blas()
    def fit_sample(self, X: Rows, weight: NDArray) -> None:
        """Fit the transformer on these rows, in double precision."""
        tags = _tags(self.transformer_)
        if tags is not None and tags.target_tags.required:
            raise TypeError(
                f"{self._name} needs a target: put it before the estimator, in a "
                "Pipeline."
            )
        self._size = 0
        self._call(self.transformer_.fit, X.astype(np.float64, copy=False))
        self._size = self._features(X[:1]).shape[1]
        if not self._size:
            raise ValueError(f"{self._name} gives no columns.")

    @property
    def _name(self) -> str:
        return type(self.transformer_).__name__

    @property
    def n_features_out(self) -> int:
        """Number of the transformer's columns, 0 until it has seen rows."""
        return self._size

    def write(self, X: Rows, out: NDArray) -> None:
        """Write the features of a few rows into the first columns of `out`."""
        Z = self._features(X)
        if Z.shape[1] != self._size:
            raise ValueError(
                f"{self._name} gives {Z.shape[1]} columns for these rows, and gave "
                f"{self._size} at fit."
            )
        with np.errstate(over="ignore", invalid="ignore"):
            out[:, : self._size] = Z
        if not np.isfinite(out[:, : self._size]).all():
            raise ValueError(
                f"{self._name} gives features that are NaN, infinite or too large "
                f"for {out.dtype}. {REMEDY}"
            )

    def _features(self, X: Rows) -> NDArray:
        """Features of the rows as a dense array of numbers, shape (b, D)."""
        Z = self._call(self.transformer_.transform, X)
        Z = np.asarray(as_dense(Z))
        if Z.ndim != 2 or len(Z) != X.shape[0]:
            raise ValueError(
                f"{self._name} gives an array of shape {Z.shape} for {X.shape[0]} "
                "rows: it must give one row for each."
            )
        if Z.dtype.kind not in "biuf":
            raise ValueError(
                f"{self._name} gives features of dtype {Z.dtype}, which are not real "
                "numbers."
            )
        return Z

    def _call(self, method: Callable[[Rows], Any], X: Rows) -> Any:
        """Call a method of the transformer, whose output shall be an array in every
        thread.
        """
        try:
            with config_context(transform_output="default"):
                return method(X)
        except ValueError as error:
            if isinstance(error, TypeError):  # scikit-learn's own word on a parameter
                raise
            raise ValueError(
                f"{self._name} rejects the rows: {error} {REMEDY}"
            ) from error

    def _tile_rows(self, dtype: np.dtype) -> int:
        return max(FEWEST_TILE_ROWS, super()._tile_rows(dtype))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names that the transformer gives its columns, or else its class in lower
        case and their numbers.
        """
        check_is_fitted(self)
        columns = check_feature_names_in(self, input_features)
        try:
            names = self.transformer_.get_feature_names_out(columns)
        except AttributeError:
            names = [f"{self._name.lower()}{j}" for j in range(self._size)]
        return np.asarray(names, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "_size", 0) > 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        transformer_tags = _tags(self.transformer)
        if transformer_tags is not None:
            tags.input_tags = transformer_tags.input_tags
            tags.non_deterministic = transformer_tags.non_deterministic
        return tags


def _tags(transformer: Any) -> Any:
    """Tags of a transformer; None where it has none."""
    return get_tags(transformer) if hasattr(transformer, "__sklearn_tags__") else None


def as_map(item: Any) -> FeatureMap:
    """Return a feature map as it is, and a transformer as a map; TypeError, which
    says what to give, for all else.
    """
    if isinstance(item, FeatureMap):
        return item
    _require_transformer(item)
    return TransformerFeatures(item)


def _require_transformer(item: Any) -> None:
    if isinstance(item, type):
        raise TypeError(
            f"{item.__name__} is a class: give an instance of it, {item.__name__}(...)."
        )
    if not all(
        callable(getattr(item, name, None))
        for name in ("fit", "transform", "get_params")
    ):
        raise TypeError(
            f"{item!r:.200} is neither a feature map such as FourierFeatures() nor a "
            "scikit-learn transformer, an "
            "instance with fit, transform and get_params such as Nystroem()."
        )
