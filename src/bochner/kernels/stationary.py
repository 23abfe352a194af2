"""Kernels with lengthscales: what those of all columns share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.arrays import Floats
from bochner.kernels.base import Leaf


def check_units(parameter: Any, name: str, positive: bool = True) -> None:
    """Raise TypeError unless a parameter is a number or one for each feature,
    ValueError unless all are positive and finite.
    """
    values = np.asarray(parameter)
    if values.dtype.kind not in "iuf" or values.ndim > 1 or not values.size:
        raise TypeError(
            f"{name} must be a number or one number per feature, got {parameter!r}."
        )
    if not np.isfinite(values).all() or (positive and values.min() <= 0):
        sign = "positive and " if positive else ""
        raise ValueError(f"{name} must be {sign}finite, got {parameter!r}.")


def units(parameter: Any, names: str, n_features: int) -> Floats:
    """Such a parameter in float64, of shape () or (n_features,); ValueError where
    there are others.
    """
    values = np.asarray(parameter, dtype=np.float64)
    if values.ndim and len(values) != n_features:
        raise ValueError(
            f"The kernel has {len(values)} {names} and the data have "
            f"{n_features} features."
        )
    return values


@dataclass(eq=False, repr=False)
class Stationary(Leaf):
    """A kernel of (x - y) / lengthscale with k(x, x) = 1, of all columns.

    Parameters
    ----------
    lengthscale : float or array of shape (d,), default=1.0
        In the units of the columns: one for all features, or one per feature (automatic
        relevance determination).

    Raises
    ------
    ValueError
        If a lengthscale is not positive and finite.
    TypeError
        If it is not a number or a sequence of numbers.

    Attributes
    ----------
    formula, spectrum, pitches : str
        Of the class, at unit lengthscale with delta = x - y: the kernel, the
        distribution of its frequencies, and that of the pitches of its grids or why it
        has none.
    has_metric : bool
        Of the class: whether lengthscales are units of distance along the columns.
    """

    formula: ClassVar[str]
    spectrum: ClassVar[str]
    pitches = "none: depends on ‖delta‖"
    has_metric: ClassVar[bool] = True

    lengthscale: float | ArrayLike = 1.0

    def _validate(self) -> None:
        check_units(self.lengthscale, "lengthscale")

    def scales(self, n_features: int) -> Floats:
        """Lengthscales in float64, of shape () or (n_features,); ValueError where
        their number is another.
        """
        return units(self.lengthscale, "lengthscales", n_features)

    def columns(self, n_features: int) -> NDArray[np.intp]:
        """All columns."""
        return np.arange(n_features)

    def n_coordinates(self, n_features: int) -> int:
        """One coordinate for each column."""
        return n_features

    def frequencies(self, unit: NDArray, n_features: int) -> Floats:
        """Frequencies over the lengthscales."""
        return unit / self.scales(n_features).reshape(-1, 1)

    def second_moments(self, n_features: int) -> Floats:
        """Those of the spectral measure over the squared lengthscales."""
        return (
            self.spectral_measure().moments(n_features) / self.scales(n_features) ** 2
        )

    def _gram(self, X: NDArray, Y: NDArray) -> NDArray:
        scale = self.scales(X.shape[1])
        U = X / scale
        return self._unit_gram(U, U if Y is X else Y / scale)

    @abstractmethod
    def _unit_gram(self, U: NDArray, V: NDArray) -> NDArray:
        """Kernel matrix at unit lengthscale."""


def over_features(
    function: Callable[[NDArray], NDArray], U: NDArray, V: NDArray
) -> NDArray:
    """Product over the features of a function of the distances, shape (len(U),
    len(V)).
    """
    product = np.ones((len(U), len(V)))
    for u, v in zip(U.T, V.T, strict=True):
        product *= function(np.abs(np.subtract.outer(u, v)))
    return product
