"""How fast a kernel's waves turn and how often its grids break: what the claims ask of a kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bochner.kernels import Kernel
from bochner.kernels.base import Leaf, check_count, check_kernel


def spectral_variance(kernel: Kernel, n_features: int) -> float:
    """Variance of the frequencies, sigma_p^2 = E[w'w], which is minus the trace of the Hessian of k / k(0) at 0.

    Frequencies of the factors of a product add, and so do their variances; for a sum they are averaged, weighted by the
    variances of its terms.

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
        If `kernel` is not a kernel.

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
                f"The frequencies of {leaf!r} can only be drawn, and their variance, which Claim 1 needs, is not "
                "known: use pointwise_failure_bound, or measure the error by kernel_error."
            )
        if not np.isfinite(moments).all():
            raise ValueError(
                f"The frequencies of {leaf!r} have no finite variance, for it is not twice differentiable at 0: "
                "Claim 1 does not apply. Use one that is (Gaussian, Matern with nu > 1, "
                "RationalQuadratic), use pointwise_failure_bound, or measure the error by kernel_error."
            )
        return moments

    return _averaged(kernel, n_features, of_leaf)


def break_rates(kernel: Kernel, n_features: int) -> NDArray[np.float64]:
    """Mean number of breaks of a random grid per unit of each column, E[1 / pitch_j].

    An interval of length r along column j has r E[1 / pitch_j] breaks on average; the slope of k / k(0) at 0 along the
    column is minus E[1 / pitch_j]. The grids of the factors of a product overlay one another, so their breaks add; for
    a sum the rates are averaged, weighted by the variances of its terms.

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
        If the kernel is not a mixture of hats; if its bins are smooth; if a rate is infinite; if the number of
        lengthscales is not `n_features`.
    TypeError
        If `kernel` is not a kernel.

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
                f"Claim 2 is about estimates that are constant inside of bins, and {leaf!r} weights rows there. Use "
                "Laplacian, or measure the error by kernel_error."
            )
        rates = np.broadcast_to(np.asarray(law.mean_inverse, np.float64), len(columns))
        if not np.isfinite(rates).all():
            raise ValueError(
                f"The grids of {leaf!r} have infinitely many breaks per unit, E[1 / pitch] = inf: Claim 2 does not "
                "apply. Use a kernel of finite slope at 0, such as Laplacian, or measure the error by kernel_error."
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
        As in `break_rates`.

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
    check_kernel(kernel)
    check_count(n_features, "n_features")
    total = np.zeros(n_features)
    for variance, leaves in kernel.terms():
        for leaf in leaves:
            leaf.scales(n_features)  # fails first where they do not fit
            total += variance * of_leaf(leaf)
    return total / kernel.variance
