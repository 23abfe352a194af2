"""Finds what displays draw of a feature map: its rows as it sees them, its draws,
its kernel and the estimates.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_array

from bochner.arrays import Floats
from bochner.data.columns import column_names
from bochner.data.table_input import checked_sparse
from bochner.display.base import fitted_attribute
from bochner.display.row_access import coordinate_names
from bochner.features.binning import BinningFeatures
from bochner.features.fourier import FourierFeatures
from bochner.features.leaves import LeafMap, estimated_kernel, leaves, size_name
from bochner.theory.pair_kernels import dense

BLOCK = 4096  # columns of sparse features that are dense at a time


@dataclass(frozen=True)
class View:
    """A map of random features inside of a model, or of learned coordinates, or by
    itself.

    Attributes
    ----------
    leaf : LeafMap
        Of a FourierFeatures or BinningFeatures, fitted or not.
    encoder : TableEncoder or None
        Of the model.
    known_names : array of str or None
        Of the columns that the whole was fitted on.
    """

    leaf: LeafMap
    encoder: Any = None
    known_names: Any = None

    @property
    def features(self) -> Any:
        """The map."""
        return self.leaf.features

    @property
    def size_name(self) -> str:
        """Parameter that is the size of the map."""
        return str(size_name(self.features))

    @property
    def unit(self) -> str:
        """What the size counts."""
        return "grids" if self.size_name == "n_grids" else "features"

    @property
    def fitted(self) -> bool:
        """Whether the map has been drawn."""
        return hasattr(self.features, "n_features_in_")

    def rows(self, X: Any) -> Floats:
        """Rows as the map sees them: encoded, in learned coordinates, dense;
        ValueError for other columns.
        """
        if self.encoder is not None:
            X = self.encoder.encode(X, np.float64)
        X = check_array(checked_sparse(X), accept_sparse="csr", dtype=np.float64)
        X = self.leaf.rows(dense(X))
        if self.fitted and X.shape[1] != self.features.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} columns, but the map is one of "
                f"{self.features.n_features_in_}."
            )
        return X

    def names(self, X: Any, n_features: int) -> list[str]:
        """Names of the columns that the map sees."""
        metrics = self.leaf.metrics
        given = getattr(X, "columns", self.known_names)
        if self.encoder is not None:
            given = self.encoder.get_feature_names_out()
        names = column_names(
            given, metrics[0].n_features_in_ if metrics else n_features
        )
        for metric in metrics:
            names = coordinate_names(metric, names)
        return names

    def fitted_map(self, X: NDArray, random_state: int) -> Any:
        """The map itself, or a clone that is fitted on X where it is not fitted."""
        if not self.fitted:
            return self.same_draw(X, random_state)
        bare = copy.copy(self.features)
        vars(bare).pop("feature_names_in_", None)  # the rows given to it are arrays
        return bare

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


def view(source: Any, *kinds: type) -> View:
    """Look into a model or a map.

    Parameters
    ----------
    source : model or feature map
    *kinds : FourierFeatures or BinningFeatures, default both
        What to look for; of maps side by side the first such one is taken.

    Raises
    ------
    ValueError
        Where there is none.
    """
    features, encoder = (
        (fitted_attribute(source, "features_"), source.encoder_)
        if hasattr(source, "predict")
        else (source, None)
    )
    for leaf in leaves(features):
        if isinstance(leaf.features, kinds or (FourierFeatures, BinningFeatures)):
            return View(leaf, encoder, getattr(features, "feature_names_in_", None))
    need = " or ".join(kind.__name__ for kind in kinds) or "random features of a kernel"
    raise ValueError(
        f"This display draws {need}, and {type(features).__name__} has none."
    )


def estimated_gram(features: Any, X: NDArray) -> Floats:
    """z(x)'z(y) of all pairs of the rows, on which bins were learned."""
    Z = features.transform(X)
    if not hasattr(Z, "tocsc"):
        return Z @ Z.T
    Z = Z.tocsc()
    gram = np.zeros((len(X), len(X)))
    for a in range(0, Z.shape[1], BLOCK):
        block = Z[:, a : a + BLOCK].toarray()
        gram += block @ block.T
    return gram
