"""What the displays of feature maps look at: a map, its rows as it sees them, its draws, its products."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.display.canvas import learned

BLOCK = 4096  # columns of sparse features that are dense at a time


@dataclass(frozen=True)
class View:
    """A map of random features inside of a model, or of learned coordinates, or by itself.

    Attributes
    ----------
    features : FourierFeatures or BinningFeatures
        Fitted or not.
    encoder : TableEncoder or None
        Of the model.
    metric : Metric or None
        Where the map is one of learned coordinates.
    named : array of str or None
        Names of the columns that it was fitted on.
    """

    features: Any
    encoder: Any = None
    metric: Any = None
    named: Any = None

    @property
    def size_name(self) -> str:
        """Parameter that is the size of the map."""
        return "n_grids" if hasattr(self.features, "n_grids") else "n_components"

    @property
    def fitted(self) -> bool:
        """Whether the map has been drawn."""
        return hasattr(self.features, "n_features_in_")

    def rows(self, X: Any) -> NDArray[np.float64]:
        """Rows as the map sees them: encoded, in learned coordinates, dense; ValueError for other columns."""
        from sklearn.utils.validation import check_array

        if self.encoder is not None:
            X = self.encoder.encode(X, np.float64)
        X = check_array(X, accept_sparse="csr", dtype=np.float64)
        X = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
        if self.metric is not None:
            X = self.metric.transform(X)
        if self.fitted and X.shape[1] != self.features.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} columns, but the map is one of {self.features.n_features_in_}.")
        return X

    def names(self, X: Any, n_features: int) -> list[str]:
        """Names of the columns that the map sees."""
        if self.encoder is not None:
            names = [str(name) for name in self.encoder.get_feature_names_out()]
        else:
            given = getattr(X, "columns", self.named)
            known = n_features if self.metric is None else self.metric.n_features_in_
            names = [f"x{j}" for j in range(known)] if given is None else [str(name) for name in given]
        if self.metric is None:
            return names
        own = [names[j] for j in self.metric.source_]
        for i in self.metric.warped_:
            own[i] = f"w({own[i]})"
        r, q = self.metric.linear_.shape
        return [f"coordinate {i}" for i in range(r)] + own[q:]

    def drawn(self, X: NDArray, random_state: int) -> Any:
        """The map itself, or a clone that is fitted on X where it is not fitted."""
        if not self.fitted:
            return self.again(X, random_state)
        bare = copy.copy(self.features)
        vars(bare).pop("feature_names_in_", None)  # the rows given to it are arrays
        return bare

    def again(self, X: NDArray, random_state: int) -> Any:
        """A clone with the seed of the map, or `random_state` where it has none, fitted on X: its very grids."""
        own = self.features.random_state
        return self.redrawn(X, random_state if own is None else own)

    def redrawn(self, X: NDArray, seed: Any, **params: Any) -> Any:
        """A clone with another seed, fitted on X."""
        from sklearn.base import clone

        features = clone(self.features).set_params(random_state=seed, **params)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*alone in their bins", category=UserWarning)
            return features.fit(X)

    def exact(self, X: NDArray, Y: NDArray | None = None) -> NDArray[np.float64]:
        """Kernel matrix whose estimates the products of features are.

        Where grids split only a share q of the columns, each factor k_j of a column counts as 1 - q + q k_j.
        """
        kernel, q = self.features.kernel, getattr(self.features, "column_share", 1.0)
        Y = X if Y is None else Y
        if q == 1:
            return kernel(X, Y)
        total = np.zeros((len(X), len(Y)))
        for variance, leaves in kernel.terms():
            product = np.full(total.shape, float(variance))
            for leaf in leaves:
                for j in leaf.columns(X.shape[1]):
                    alone = np.arange(X.shape[1]) == j
                    product *= 1 - q + q * leaf(X * alone, Y * alone)
            total += product
        return total


def view(source: Any, wanted: str = "kernel") -> View:
    """Look into a model or a map.

    Parameters
    ----------
    source : model or feature map
    wanted : {"kernel", "n_components", "n_grids"}
        Parameter that the map must have; of maps side by side the first that has it is taken.

    Raises
    ------
    ValueError
        Where there is none.
    """
    encoder = None
    if hasattr(source, "predict"):
        features, encoder = learned(source, "features_"), source.encoder_
    else:
        features = source
    for part in _within(features, "maps"):
        for inner in _within(part, "features"):
            if hasattr(inner, wanted) and hasattr(getattr(inner, "kernel", None), "terms"):
                return View(inner, encoder, getattr(part, "metric", None), getattr(features, "feature_names_in_", None))
    need = {"n_components": "FourierFeatures", "n_grids": "BinningFeatures"}.get(wanted, "random features of a kernel")
    raise ValueError(f"This display draws {need}, and {type(features).__name__} has none.")


def _within(features: Any, name: str) -> list[Any]:
    """Maps inside of one: the fitted copies, or new ones of what is to be copied, or itself where it has none."""
    from sklearn.base import clone

    parts = getattr(features, f"{name}_", None)
    if parts is None:
        parts = clone(getattr(features, name), safe=False) if hasattr(features, name) else features
    return list(parts) if isinstance(parts, list | tuple) else [parts]


def sample(X: NDArray, max_rows: int, random_state: int) -> NDArray:
    """At most so many of the rows, in their order."""
    if max_rows < 1:
        raise ValueError(f"max_rows must be positive, got {max_rows}.")
    if len(X) <= max_rows:
        return X
    return X[np.sort(np.random.default_rng(random_state).choice(len(X), max_rows, replace=False))]


def products(features: Any, X: NDArray) -> NDArray[np.float64]:
    """z(x)'z(y) of all pairs of the rows, on which bins were learned."""
    Z = features.transform(X)
    if not hasattr(Z, "tocsc"):
        return Z @ Z.T
    Z, gram = Z.tocsc(), np.zeros((len(X), len(X)))
    for a in range(0, Z.shape[1], BLOCK):
        block = Z[:, a : a + BLOCK].toarray()
        gram += block @ block.T
    return gram


def numbers(columns: Sequence[int | str], names: Sequence[str]) -> list[int]:
    """Numbers of two columns, given by number or name; ValueError where there are no two."""
    if len(names) < 2:
        raise ValueError("This picture is one of two columns, and the rows have 1: add a column, or use KernelDisplay.")
    known = {name: j for j, name in enumerate(names)}
    found = [known.get(column, column) if isinstance(column, str) else column for column in columns]
    valid = [int(j) for j in found if isinstance(j, int | np.integer) and -len(names) <= j < len(names)]
    if len(columns) != 2 or len({j % len(names) for j in valid}) != 2:
        raise ValueError(f"columns must be two different ones of {len(names)}, by number or name, got {columns!r}.")
    return [j % len(names) for j in valid]
