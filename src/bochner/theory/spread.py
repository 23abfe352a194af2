"""What the claims need to know: how fast a kernel's frequencies and grids turn, and how far rows are apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from bochner.kernels import Kernel
from bochner.kernels.base import Leaf

EXACT_ROWS = 2000  # up to which all pairs of rows are compared
CHUNK = 8192


def spectral_variance(kernel: Kernel, n_features: int) -> float:
    """Variance of the frequencies, sigma_p^2 = E[w'w], which is minus the trace of the Hessian of k / k(0) at 0.

    Frequencies of the factors of a product add, and so do their variances; a sum averages by the variances of its
    terms.

    Parameters
    ----------
    kernel : Kernel
    n_features : int
        Columns d of the rows.

    Returns
    -------
    float
        In radians^2 per squared unit of the columns.

    Raises
    ------
    ValueError
        If it is infinite, as for Laplacian, Hat, or Matern with nu <= 1: Claim 1 does not apply. If lengthscales do not
        fit `n_features`.
    TypeError
        If `kernel` is none.

    References
    ----------
    Rahimi and Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007, Claim 1.

    Examples
    --------
    >>> from bochner.kernels import Gaussian, Matern
    >>> from bochner.theory import spectral_variance
    >>> spectral_variance(Gaussian(2.0), n_features=3)
    0.75
    >>> spectral_variance(Gaussian(2.0) * Matern(nu=2.0), n_features=3)
    6.75
    """
    return float(second_moments(kernel, n_features).sum())


def second_moments(kernel: Kernel, n_features: int) -> NDArray[np.float64]:
    """E[w_j^2], shape (d,); ValueError where one is infinite."""

    def of_leaf(leaf: Leaf) -> NDArray:
        moments = leaf.second_moments(n_features)
        if np.isnan(moments).any():
            raise ValueError(
                f"The frequencies of {leaf!r} are known by draws alone, not their variance, which Claim 1 needs: use "
                "pointwise_failure_bound, or measure the error by kernel_error."
            )
        if not np.isfinite(moments).all():
            raise ValueError(
                f"The frequencies of {leaf!r} have no finite variance, for it is not twice differentiable at 0: "
                "Claim 1 does not apply. Take one that is (Gaussian, Matern with nu > 1, "
                "RationalQuadratic), use pointwise_failure_bound, or measure the error by kernel_error."
            )
        return moments

    return _averaged(kernel, n_features, of_leaf)


def break_rates(kernel: Kernel, n_features: int) -> NDArray[np.float64]:
    """Mean number of breaks of a random grid per unit of each column, E[1 / pitch_j].

    A stretch of length r along column j has r E[1 / pitch_j] breaks in the mean; the slope of k / k(0) at 0 along the
    column is minus this. Grids of the factors of a product lie upon one another, so that their breaks add; a sum
    averages by the variances of its terms.

    Parameters
    ----------
    kernel : Kernel
        A mixture of hats.
    n_features : int
        Columns d of the rows.

    Returns
    -------
    array of shape (d,)

    Raises
    ------
    ValueError
        If the kernel is no mixture of hats; if its bins are smooth; if a rate is infinite; if lengthscales do not fit
        `n_features`.
    TypeError
        If `kernel` is none.

    References
    ----------
    Rahimi and Recht (2007), Claim 2, where alpha = E[1 / pitch] is the same for all columns.

    Examples
    --------
    >>> from bochner.kernels import Laplacian
    >>> from bochner.theory import break_rates
    >>> break_rates(Laplacian([1.0, 4.0]), n_features=2)
    array([1.  , 0.25])
    """

    def of_leaf(leaf: Leaf) -> NDArray:
        law, columns = leaf.pitch_measure(), leaf.columns(n_features)
        if law.smooth:
            raise ValueError(
                f"Claim 2 is about estimates that are constant inside of bins, and {leaf!r} weights rows there. Take "
                "Laplacian, or measure the error by kernel_error."
            )
        rates = np.broadcast_to(np.asarray(law.mean_inverse, np.float64), len(columns))
        if not np.isfinite(rates).all():
            raise ValueError(
                f"The grids of {leaf!r} have infinitely many breaks per unit, E[1 / pitch] = inf: Claim 2 does not "
                "apply. Take a kernel of finite slope at 0, such as Laplacian, or measure the error by kernel_error."
            )
        total = np.zeros(n_features)
        total[columns] = rates / leaf.scales(n_features)
        return total

    return _averaged(kernel, n_features, of_leaf)


def lipschitz_constant(kernel: Kernel, n_features: int) -> float:
    """Lipschitz constant L_k of k / k(0) with respect to the L1 norm, for mixtures of hats.

    These are products of convex functions, steepest at 0 along the column with the highest rate of breaks.

    Parameters
    ----------
    kernel : Kernel
        A mixture of hats.
    n_features : int

    Returns
    -------
    float
        Per unit of the columns.

    Raises
    ------
    ValueError, TypeError
        As `break_rates`.

    References
    ----------
    Rahimi and Recht (2007), Claim 2.

    Examples
    --------
    >>> from bochner.kernels import Laplacian
    >>> from bochner.theory import lipschitz_constant
    >>> lipschitz_constant(Laplacian([1.0, 4.0]), n_features=2)
    1.0
    """
    return float(break_rates(kernel, n_features).max())


def _averaged(kernel: Kernel, n_features: int, of_leaf: Callable[[Leaf], NDArray]) -> NDArray[np.float64]:
    """Sum over the factors of each term and mean over the terms, shape (d,)."""
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a bochner kernel such as Gaussian(2.0), got {kernel!r}.")
    check_count(n_features, "n_features")
    total = np.zeros(n_features)
    for variance, leaves in kernel.terms():
        for leaf in leaves:
            leaf.scales(n_features)  # fails first where they do not fit
            total += variance * of_leaf(leaf)
    return total / kernel.variance


@dataclass(frozen=True)
class Region:
    """The set M of rows that a bound is about.

    Attributes
    ----------
    n_features : int
    rows : array of shape (n, d), or None where only a diameter is known
    known : float or None
        The diameter where there are no rows.
    """

    n_features: int
    rows: NDArray | None
    known: float | None = None

    def box(self) -> tuple[NDArray, NDArray]:
        """Least and largest value of each column, shape (d,)."""
        assert self.rows is not None
        return self.rows.min(axis=0).astype(np.float64), self.rows.max(axis=0).astype(np.float64)

    def ranges(self) -> NDArray[np.float64]:
        """Range of each column, shape (d,)."""
        if self.rows is None:
            return np.full(self.n_features, self.known)
        low, high = self.box()
        return high - low

    def diameter(self, units: NDArray) -> float:
        """Largest distance of two rows whose columns are multiplied by `units`, shape (d,).

        Exact up to 2,000 rows; else at most twice it, the lesser of the diagonal of the box around the rows and of
        twice the largest distance from its centre.
        """
        if self.rows is None:
            return float(self.known * np.max(units))
        low, high = self.box()
        size = float(np.max((high - low) * units))  # taken out, so that squares stay finite
        if size == 0:
            return 0.0
        centre, scale = low + (high - low) / 2, units / size
        if len(self.rows) <= EXACT_ROWS:
            U = (self.rows - centre) * scale
            squares = np.einsum("ij,ij->i", U, U)
            apart = np.add.outer(squares, squares) - 2 * (U @ U.T)
            return size * float(np.sqrt(apart.max()))
        chunks = (self.rows[a : a + CHUNK] for a in range(0, len(self.rows), CHUNK))
        radius = max(float(np.linalg.norm((rows - centre) * scale, axis=1).max()) for rows in chunks)
        return size * min(float(np.linalg.norm((high - low) * scale)), 2 * radius)


def region_of(X: ArrayLike | None, diameter: float | None, n_features: int | None) -> Region:
    """Rows, or a diameter and a number of columns, checked."""
    if X is None:
        if diameter is None or n_features is None:
            raise TypeError("Give the rows X, or else both diameter and n_features.")
        check_count(n_features, "n_features")
        if not isinstance(diameter, Real) or not 0 <= float(diameter) < np.inf:
            raise ValueError(f"diameter must be a finite number from 0 on, got {diameter!r}.")
        return Region(int(n_features), None, float(diameter))
    if diameter is not None or n_features is not None:
        raise TypeError("X tells diameter and n_features: give either X or these two.")
    rows = dense_rows(X)
    return Region(rows.shape[1], rows)


def dense_rows(X: Any) -> NDArray:
    """Rows as a finite array of shape (n, d), float32 or float64."""
    if sp.issparse(X):
        raise TypeError("X is sparse; the extent of rows needs a dense array: pass X.toarray(), or a diameter.")
    rows = np.asarray(X)
    if rows.dtype != np.float32:
        rows = np.asarray(rows, dtype=np.float64)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(f"X must have rows and columns, got shape {rows.shape}. A single row is [[...]].")
    if not np.isfinite(rows).all():
        raise ValueError("X has values that are missing or infinite: leave out those rows, or fill them in.")
    return rows


def check_count(value: Any, name: str) -> None:
    """Raise TypeError unless `value` is an integer, ValueError unless it is positive."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    if value < 1:
        raise ValueError(f"{name} must be positive, got {value}.")
