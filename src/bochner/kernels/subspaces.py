"""Kernels of categories, and kernels of some of the columns: subspaces, additive
kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.arrays import Floats
from bochner.kernels.base import Around, Kernel, Leaf, Term, check_kernel
from bochner.kernels.hats import Pitches
from bochner.kernels.spectral_measures import Separable, SpectralMeasure
from bochner.kernels.stationary import Stationary

CODE_ROUNDING = 1e-3  # rounding of the difference of two codes


class Hamming(Stationary):
    """Kernel of categories, the product over the features of exp(-1 / l) where x and y
    differ, and 1 where not.

    For columns of codes, one integer for each category, in any order. With one
    lengthscale it is exp(-h / l), with h the number of columns in which two rows
    differ. Multiply it with a kernel of numbers to get a kernel of mixed columns:
    ``Subspace(Gaussian(), [0, 1]) * Subspace(Hamming(), [2, 3])``.

    With rho = exp(-1 / l) its factor is rho + (1 - rho) [x = y]. Over whole numbers [x
    = y] is the transform of the uniform distribution on [-pi, pi]; and codes never
    share a cell of a grid of pitch 1. So a frequency is 0 and a pitch is infinite with
    probability rho. Both need codes that differ by whole numbers, shifted as they may
    be.

    Parameters
    ----------
    lengthscale : float or array of shape (d,), default=1.0
        Without unit; large if a difference in the column matters little.

    Examples
    --------
    >>> from bochner.kernels import Hamming
    >>> Hamming()([[0.0, 3.0]], [[0.0, 3.0], [0.0, 4.0], [1.0, 4.0]]).round(4)
    array([[1.    , 0.3679, 0.1353]])
    """

    formula = "prod_j exp(-[delta_j ≠ 0] / l_j)"
    spectrum = (
        "in each coordinate 0 with probability rho = exp(-1 / l_j), else "
        "uniform on [-pi, pi]"
    )
    pitches = "infinite with probability rho, else 1"
    has_metric = False

    def scales(self, n_features: int) -> Floats:
        """The unit of codes, 1; ValueError where there are lengthscales for another
        number of columns.
        """
        super().scales(n_features)
        return np.ones(())

    def check_columns(self, X: NDArray | sp.csr_array, columns: NDArray) -> None:
        """Raise ValueError, which names the first column, where codes do not differ
        by whole numbers.
        """
        for j in columns:
            if sp.issparse(X):
                steps = np.asarray(X[:, [j]].data, np.float64)
            else:
                values = np.asarray(X[:, j], np.float64)
                steps = values - values[0]
            broken = steps[np.abs(steps - np.rint(steps)) > CODE_ROUNDING]
            if broken.size:
                raise ValueError(
                    "Hamming compares codes of categories, which differ by whole "
                    f"numbers; in column {j}, counted from 0, two rows differ by "
                    f"{broken[0]:.6g}. Give it the columns of codes, unscaled, with "
                    "Subspace(Hamming(), columns)."
                )

    @property
    def _rho(self) -> Floats:
        return np.exp(-1 / np.asarray(self.lengthscale, np.float64))

    def _unit_gram(self, U: NDArray, V: NDArray) -> NDArray:
        gram = np.ones((len(U), len(V)))
        rhos = np.broadcast_to(self._rho, U.shape[1])
        for u, v, rho in zip(U.T, V.T, rhos, strict=True):
            gram *= np.where(np.not_equal.outer(u, v), rho, 1.0)
        return gram

    def spectral_measure(self) -> SpectralMeasure:
        """Zero or uniform."""
        rho = self._rho

        def quantile(u: NDArray) -> NDArray:
            r = rho.reshape(-1, 1)
            return np.where(
                u < r, 0.0, np.pi * (2 * (u - r) / np.maximum(1 - r, 2**-53) - 1)
            )

        return Separable(quantile, (1 - rho) * np.pi**2 / 3)

    def pitch_measure(self) -> Pitches:
        """Infinite or 1."""
        rho = self._rho
        return Pitches(lambda u: np.where(u < rho, np.inf, 1.0), 1 - rho)


@dataclass(eq=False, repr=False)
class Restricted(Around):
    """A leaf that sees some of the columns only: what `Subspace` and `Additive` are
    made of.
    """

    chosen: tuple[int, ...]

    def columns(self, n_features: int) -> NDArray[np.intp]:
        """The chosen columns; ValueError where there are fewer."""
        if max(self.chosen) >= n_features:
            raise ValueError(
                f"The kernel compares column {max(self.chosen)}, counted from 0, and "
                f"the data have {n_features} features."
            )
        return np.array(self.chosen)

    def scales(self, n_features: int) -> Floats:
        """Lengthscales of the chosen columns, of shape () or (number of them,)."""
        return self.leaf.scales(len(self.columns(n_features)))

    def check_columns(self, X: NDArray | sp.csr_array, columns: NDArray) -> None:
        """Raise ValueError where the leaf does not serve the chosen columns."""
        self.leaf.check_columns(X, columns)

    def n_coordinates(self, n_features: int) -> int:
        """Coordinates of the frequencies of the leaf."""
        return self.leaf.n_coordinates(len(self.columns(n_features)))

    def frequencies(self, unit: NDArray, n_features: int) -> Floats:
        """Frequencies of the leaf along the chosen columns, 0 along the others."""
        total = np.zeros((n_features, unit.shape[1]))
        chosen = self.columns(n_features)
        total[chosen] = self.leaf.frequencies(unit, len(chosen))
        return total

    def second_moments(self, n_features: int) -> Floats:
        """Those of the leaf along the chosen columns, 0 along the others."""
        total = np.zeros(n_features)
        chosen = self.columns(n_features)
        total[chosen] = self.leaf.second_moments(len(chosen))
        return total

    def covariance(self, n_features: int) -> Floats:
        """That of the leaf along the chosen columns, 0 along the others."""
        total = np.zeros((n_features, n_features))
        chosen = self.columns(n_features)
        total[np.ix_(chosen, chosen)] = self.leaf.covariance(len(chosen))
        return total

    def __repr__(self) -> str:
        return f"Subspace({self.leaf!r}, {list(self.chosen)})"

    def _gram(self, X: NDArray, Y: NDArray) -> NDArray:
        chosen = list(self.chosen)
        return self.leaf._gram(X[:, chosen], Y[:, chosen])

    def pitch_measure(self) -> Pitches:
        """Distribution of the pitches of the chosen columns."""
        return self.leaf.pitch_measure()


@dataclass(eq=False, repr=False)
class Subspace(Kernel):
    """A kernel of some of the columns: kernel(x[columns], y[columns]).

    Parameters
    ----------
    kernel : Kernel
        Its lengthscales, if there are several, are those of `columns`, in this order.
    columns : sequence of int
        Different column numbers, counted from 0.

    Raises
    ------
    TypeError, ValueError
        If `kernel` is not a kernel, or `columns` are not different numbers from 0 on.

    Examples
    --------
    >>> from bochner.kernels import Gaussian, Laplacian, Subspace
    >>> kernel = Subspace(Gaussian(2.0), [0, 1]) * Subspace(Laplacian(), [2])
    >>> kernel([[0.0, 0.0, 0.0]], [[2.0, 0.0, 1.0]]).round(4)
    array([[0.2231]])
    """

    kernel: Kernel
    columns: Sequence[int] | NDArray

    def _validate(self) -> None:
        check_kernel(self.kernel)
        _check_columns(self.columns, "columns")

    def terms(self) -> list[Term]:
        """Terms of the kernel, on the chosen columns."""
        return restricted(self.kernel, self.columns)


@dataclass(eq=False, repr=False)
class Additive(Kernel):
    """Sum of a kernel over groups of columns: the kernel of functions f(x) =
    f_1(x[group 1]) + f_2(x[group 2]) + ...

    Parameters
    ----------
    kernel : Kernel
        The kernel of each group. For a different kernel for each group, add `Subspace`
        kernels.
    groups : sequence of sequences of int
        Columns, counted from 0. Groups may share columns.

    Raises
    ------
    TypeError, ValueError
        If `kernel` is not a kernel, or a group is not a list of columns.

    References
    ----------
    Duvenaud, Nickisch and Rasmussen, "Additive Gaussian Processes", NIPS 2011.

    Examples
    --------
    >>> from bochner.kernels import Additive, Laplacian
    >>> Additive(Laplacian(), [[0], [1, 2]])(
    ...     [[0.0, 0.0, 0.0]], [[0.0, 1.0, 1.0]]
    ... ).round(4)
    array([[1.1353]])
    """

    kernel: Kernel
    groups: Sequence[Sequence[int]] | NDArray

    def _validate(self) -> None:
        check_kernel(self.kernel)
        if not isinstance(self.groups, list | tuple | np.ndarray) or not len(
            self.groups
        ):
            raise TypeError(
                f"groups must be a list of lists of columns, got {self.groups!r}."
            )
        for group in self.groups:
            _check_columns(group, "each of groups")

    def terms(self) -> list[Term]:
        """Terms of the kernel on each group."""
        return [
            term for group in self.groups for term in restricted(self.kernel, group)
        ]


def restricted(kernel: Kernel, columns: Sequence[int] | NDArray) -> list[Term]:
    """Terms of a kernel of the given columns."""

    def restrict(leaf: Leaf) -> Restricted:
        chosen = list(columns)
        if isinstance(leaf, Restricted):
            chosen = [columns[j] for j in leaf.columns(len(columns))]
            leaf = leaf.leaf
        return Restricted(leaf, tuple(map(int, chosen)))

    return [
        (variance, tuple(map(restrict, leaves))) for variance, leaves in kernel.terms()
    ]


def _check_columns(columns: Any, name: str) -> None:
    listed = isinstance(columns, Sequence) or (
        isinstance(columns, np.ndarray) and columns.ndim == 1
    )
    if (
        not listed
        or not len(columns)
        or any(not isinstance(j, Integral) or isinstance(j, bool) for j in columns)
    ):
        raise TypeError(
            f"{name} must be a sequence of column numbers, got {columns!r}."
        )
    if min(columns) < 0 or len(set(columns)) < len(columns):
        raise ValueError(
            f"{name} must be different numbers from 0 on, got {columns!r}."
        )
