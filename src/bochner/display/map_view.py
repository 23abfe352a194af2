"""Finds what displays draw of a map of random features: its rows, its draws, its kernel
and the estimates.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_array

from bochner.arrays import Floats
from bochner.data.columns import column_names
from bochner.data.table_input import checked_sparse
from bochner.features.binning import BinningFeatures
from bochner.features.fourier import FourierFeatures
from bochner.features.leaves import estimated_kernel, size_name
from bochner.theory.pair_kernels import dense


class View(NamedTuple):
    """A map of random features, fitted or not.

    Attributes
    ----------
    features : FourierFeatures or BinningFeatures
    size_name : str
        Parameter that is the size of the map.
    unit : str
        What the size counts.
    """

    features: Any
    size_name: str
    unit: str

    @property
    def fitted(self) -> bool:
        """Whether the map has been drawn."""
        return hasattr(self.features, "n_features_in_")

    def rows(self, X: Any) -> Floats:
        """Rows as a dense array; ValueError for other columns than those of the map."""
        X = check_array(checked_sparse(X), accept_sparse="csr", dtype=np.float64)
        if self.fitted and X.shape[1] != self.features.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} columns, but the map is one of "
                f"{self.features.n_features_in_}."
            )
        return dense(X)

    def names(self, X: Any, n_columns: int) -> list[str]:
        """Names of the columns, of the rows or of the fit."""
        of_fit = getattr(self.features, "feature_names_in_", None)
        return column_names(getattr(X, "columns", of_fit), n_columns)

    def fitted_map(self, X: NDArray, random_state: int) -> Any:
        """The map itself, or a clone that is fitted on X where it is not fitted."""
        return self.features if self.fitted else self.same_draw(X, random_state)

    def same_draw(self, X: NDArray, random_state: int) -> Any:
        """A clone with the seed of the map, or `random_state` where it has none,
        fitted on X: its very grids.
        """
        seed = self.features.random_state
        return self.new_draw(X, random_state if seed is None else seed)

    def new_draw(self, X: NDArray, seed: Any, **params: Any) -> Any:
        """A clone with another seed, fitted on X."""
        features = clone(self.features).set_params(random_state=seed, **params)
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message=".*alone in their bins", category=UserWarning
            )
            return features.fit(X)

    def exact(self, X: NDArray, Y: NDArray | None = None) -> Floats:
        """Kernel matrix that the features estimate."""
        return estimated_kernel(self.features)(X, X if Y is None else Y)


def view(features: Any, *kinds: type) -> View:
    """Look at a map.

    Parameters
    ----------
    features : feature map
    *kinds : FourierFeatures or BinningFeatures, default both
        What it may be.

    Raises
    ------
    ValueError
        For anything else.
    """
    kinds = kinds or (FourierFeatures, BinningFeatures)
    if isinstance(features, kinds):
        name = str(size_name(features))
        return View(features, name, "grids" if name == "n_grids" else "features")
    raise ValueError(
        f"This display draws {' or '.join(kind.__name__ for kind in kinds)}, and got a "
        f"{type(features).__name__}: of a model or of several maps give one single map."
    )


def estimated_gram(features: Any, X: NDArray, n: int | None = None) -> Floats:
    """z(x)'z(y) of all rows x and all y, or the first n; bins were learned on them."""
    Z = features.map_rows(X)
    return dense(Z @ Z[:n].T)
