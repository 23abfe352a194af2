"""Gives kernels scikit-learn's `get_params` and `set_params`, and compares and
prints them by their parameters.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, reduce
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from bochner.arrays import Floats
from bochner.kernels.hats import Pitches
from bochner.kernels.spectral_measures import SpectralMeasure


class Marked:
    """What may be of rows in units that an encoder has made, as its copies then are."""

    encoded_: bool = False

    def __sklearn_clone__(self) -> Any:
        from sklearn.base import _clone_parametrized

        copy = _clone_parametrized(self)
        if self.encoded_:
            copy.encoded_ = True
        return copy


class Parametrised(Marked):
    """What keeps the arguments of its constructor as attributes: it compares, hashes
    and prints by them.
    """

    def __post_init__(self) -> None:
        self._validate()

    @abstractmethod
    def _validate(self) -> None:
        """Raise TypeError or ValueError where a parameter is none."""

    @classmethod
    @cache
    def _parameters(cls) -> list[str]:
        return list(inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor parameters by name; with `deep`, those of inner kernels too,
        as ``left__lengthscale``.
        """
        params = {name: getattr(self, name) for name in self._parameters()}
        for name, value in list(params.items()) if deep else []:
            if isinstance(value, Parametrised):
                for key, inner_value in value.get_params().items():
                    params[f"{name}__{key}"] = inner_value
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, in place; ``left__lengthscale`` reaches into an inner
        kernel.

        Raises ValueError or TypeError where one is unknown or out of range; then none
        is set.
        """
        trial = deepcopy(self)
        trial._set(params)
        trial._validate()
        self._set(params)
        return self

    def _set(self, params: dict[str, Any]) -> None:
        for name, value in params.items():
            head, _, rest = name.partition("__")
            if head not in self._parameters():
                raise ValueError(
                    f"{type(self).__name__} has no parameter {head!r}; it has "
                    f"{self._parameters()}."
                )
            if not rest:
                setattr(self, head, value)
                continue
            inner = getattr(self, head)
            if not isinstance(inner, Parametrised):
                raise ValueError(
                    f"{head} of {type(self).__name__} is not a kernel and has no "
                    f"parameter {rest!r}."
                )
            inner.set_params(**{rest: value})

    def _key(self) -> tuple:
        return type(self), *map(_hashable, self.get_params(deep=False).values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parametrised) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        params = self.get_params(deep=False)
        inside = ", ".join(f"{name}={_short(value)}" for name, value in params.items())
        return f"{type(self).__name__}({inside})"


def _hashable(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple | range):
        return tuple(map(_hashable, value))
    return value


def _short(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return getattr(value, "__name__", None) or repr(value)
    return " ".join(np.array2string(value, separator=", ", threshold=6).split())


Term = tuple[float, tuple["Leaf", ...]]


class Kernel(Parametrised, ABC):
    """A shift-invariant kernel k(x, y) = k(x - y).

    Kernels can be added, multiplied and scaled (``2.0 * Gaussian() + Laplacian() *
    Matern(nu=1.5)``). They compare and hash by value, and have scikit-learn's
    ``get_params`` and ``set_params``, so that ``clone`` and ``GridSearchCV`` over
    ``kernel__lengthscale`` work. As with scikit-learn's estimators, ``set_params``
    changes the kernel in place: do not use it on a kernel that is a dictionary key.
    """

    @abstractmethod
    def terms(self) -> list[Term]:
        """Expand into a sum of products, ``[(variance, (leaf, ...)), ...]``, the
        form that feature maps consume.
        """

    def _gram(self, X: NDArray, Y: NDArray) -> NDArray:
        """Kernel matrix of checked rows, by those of the leaves."""
        total = np.zeros((len(X), len(Y)))
        for variance, leaves in self.terms():
            factors = (leaf._gram(X, Y) for leaf in leaves)
            total += variance * reduce(np.multiply, factors)
        return total

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> Any:
        """Exact kernel matrix, or the kernel of two rows.

        scikit-learn's estimators thus take a kernel where they take a callable, whether
        they call it with matrices (`SVC`) or with pairs of rows (`KernelRidge`,
        `KernelPCA`, `SpectralClustering`).

        Parameters
        ----------
        X : array of shape (n, d), or (d,) where Y is a single row too
        Y : array of shape (m, d), or (d,), default=None
            The rows to compare with; X itself where None.

        Returns
        -------
        array of shape (n, m), float64; a float of single rows

        Raises
        ------
        TypeError
            If X or Y is sparse.
        ValueError
            If the shapes do not fit one another or the lengthscales.

        Examples
        --------
        >>> from sklearn.svm import SVC
        >>> from bochner.kernels import Gaussian
        >>> kernel = Gaussian(2.0)
        >>> kernel([0.0, 0.0], [2.0, 0.0])
        0.6065306597126334
        >>> X, y = [[0.0, 1.0], [1.0, 0.0], [3.0, 1.0], [4.0, 1.0]], [0, 0, 1, 1]
        >>> SVC(kernel=kernel).fit(X, y).predict([[4.0, 0.0]])
        array([1])
        """
        if Y is not None and np.ndim(X) == np.ndim(Y) == 1:
            return float(self(np.atleast_2d(X), np.atleast_2d(Y))[0, 0])
        X = _rows(X, "X")
        Y = X if Y is None else _rows(Y, "Y")
        if X.shape[1] != Y.shape[1]:
            raise ValueError(
                f"X has {X.shape[1]} features and Y has {Y.shape[1]}; they must have "
                "the same number."
            )
        self.check_features(X.shape[1])
        return self._gram(X, Y)

    @property
    def variance(self) -> float:
        """The kernel at distance zero, k(x, x)."""
        return float(sum(variance for variance, _ in self.terms()))

    def check_features(self, n_features: int) -> None:
        """Raise ValueError where `n_features` columns are too few, or not as many as
        there are lengthscales.
        """
        for _, leaves in self.terms():
            for leaf in leaves:
                leaf.scales(n_features)

    def check_rows(self, X: NDArray | sp.csr_array) -> None:
        """Raise ValueError where rows hold values that the feature maps of the
        kernel do not serve.
        """
        for _, leaves in self.terms():
            for leaf in leaves:
                leaf.check_columns(X, leaf.columns(X.shape[1]))

    def __add__(self, other: Kernel) -> Sum:
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __radd__(self, other: object) -> Kernel:
        return (
            self if isinstance(other, Real) and other == 0 else NotImplemented
        )  # sum() starts from 0

    def __mul__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Kernel):
            return Product(self, other)
        return Scaled(self, other) if isinstance(other, Real) else NotImplemented

    __rmul__ = __mul__


class Leaf(Kernel):
    """A kernel that is no sum and no product, with k(x, x) = 1: a factor of a term, and
    its own only term.

    It is all that feature maps and bounds know of the kernels inside of `terms`.
    Frequencies and pitches are drawn at unit lengthscale, along the columns that the
    kernel compares; `frequencies` takes them to all columns of the rows.
    """

    # Of the class: the distribution of the pitches at unit lengthscale, or why it has
    # none
    pitches: ClassVar[str]

    def terms(self) -> list[Term]:
        """One term of one factor, with variance 1."""
        return [(1.0, (self,))]

    @abstractmethod
    def columns(self, n_features: int) -> NDArray[np.intp]:
        """Columns that the kernel compares, of `n_features`; ValueError where there
        are too few.
        """

    @abstractmethod
    def scales(self, n_features: int) -> Floats:
        """Lengthscales of the columns that the kernel compares, of shape () or (number
        of those columns,); ValueError where they do not fit.
        """

    def check_columns(self, X: NDArray | sp.csr_array, columns: NDArray) -> None:
        """Raise ValueError where those columns of the rows hold values that the maps
        of this kernel do not serve.
        """

    @abstractmethod
    def spectral_measure(self) -> SpectralMeasure:
        """Distribution of the frequencies at unit lengthscale."""

    @abstractmethod
    def n_coordinates(self, n_features: int) -> int:
        """Coordinates of a frequency at unit lengthscale."""

    @abstractmethod
    def frequencies(self, unit: NDArray, n_features: int) -> Floats:
        """Frequencies along all columns, shape (n_features, size), from those at
        unit lengthscale.
        """

    @abstractmethod
    def second_moments(self, n_features: int) -> Floats:
        """E[w_j^2] of the frequencies w along all columns, shape (n_features,); may
        be infinite, or NaN if unknown.
        """

    def covariance(self, n_features: int) -> Floats:
        """E[w w'], shape (n_features, n_features); by default coordinates are
        uncorrelated.
        """
        return np.diag(self.second_moments(n_features))

    def pitch_measure(self) -> Pitches:
        """Distribution of the pitches of random grids at unit lengthscale, for kernels
        that are mixtures of hats.

        Raises
        ------
        ValueError
            If the kernel is none, with the reason.
        """
        reason = self.pitches.removeprefix("none: ")
        raise ValueError(
            f"{self!r} is not a mixture of hats: {reason}. Use FourierFeatures, or a "
            "mixture of hats such as Laplacian."
        )


@dataclass(eq=False, repr=False)
class Around(Leaf):
    """A leaf that shows another one some of the columns, or combinations of them."""

    leaf: Leaf

    def _validate(self) -> None:
        check_kernel(self.leaf)

    def spectral_measure(self) -> SpectralMeasure:
        """Distribution of the frequencies of the leaf, at unit lengthscale."""
        return self.leaf.spectral_measure()


@dataclass(eq=False, repr=False)
class Pair(Kernel):
    """Two kernels in one."""

    left: Kernel
    right: Kernel

    def _validate(self) -> None:
        check_kernel(self.left, self.right)


class Sum(Pair):
    """Sum of two kernels, written ``left + right``."""

    def terms(self) -> list[Term]:
        """Terms of the left kernel, then those of the right."""
        return self.left.terms() + self.right.terms()


class Product(Pair):
    """Product of two kernels, written ``left * right``."""

    def terms(self) -> list[Term]:
        """Every term of the left kernel times every term of the right."""
        return [
            (a * b, left_leaves + right_leaves)
            for a, left_leaves in self.left.terms()
            for b, right_leaves in self.right.terms()
        ]


@dataclass(eq=False, repr=False)
class Scaled(Kernel):
    """A kernel times a positive number, written ``factor * kernel``.

    Raises
    ------
    ValueError
        If `factor` is not positive and finite, because the result would not be a
        kernel.
    """

    kernel: Kernel
    factor: float

    def _validate(self) -> None:
        check_kernel(self.kernel)
        check_positive(self.factor, "factor")

    def terms(self) -> list[Term]:
        """Terms of the kernel, each variance times the factor."""
        return [
            (self.factor * variance, leaves) for variance, leaves in self.kernel.terms()
        ]


def check_positive(value: Any, name: str) -> None:
    """Raise TypeError unless `value` is a real number, ValueError unless it is
    positive and finite.
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}.")
    if not 0 < float(value) < np.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}.")


def check_count(value: Any, name: str, limit: int | None = None) -> None:
    """Raise TypeError unless `value` is an integer, ValueError unless it is positive
    and below 2^`limit`.
    """
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    if value < 1 or (limit is not None and int(value) >= 2**limit):
        below = "" if limit is None else f" and below 2^{limit}"
        raise ValueError(f"{name} must be positive{below}, got {value}.")


def check_kernel(*kernels: Any, example: str = "Gaussian(2.0)") -> None:
    """Raise TypeError, which names an example, unless all are kernels."""
    for kernel in kernels:
        if not isinstance(kernel, Kernel):
            raise TypeError(
                f"kernel must be a bochner kernel such as {example}, got {kernel!r}."
            )


def _rows(X: ArrayLike, name: str) -> NDArray:
    if sp.issparse(X):
        raise TypeError(
            f"{name} is sparse; an exact kernel matrix needs a dense array: pass "
            f"{name}.toarray()."
        )
    X = np.asarray(X)
    if X.dtype != np.float32:
        X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2:
        raise ValueError(
            f"{name} must have two dimensions (rows, features), got shape {X.shape}."
        )
    return X
