"""Bounds on the probability that random features err by more than eps: Claim 1, Claim 2, and Hoeffding's."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bochner.kernels import Kernel
from bochner.kernels.base import check_positive
from bochner.theory.arguments import check_components, check_count, relative
from bochner.theory.claims import binning_claim, fourier_claim
from bochner.theory.region import region_of


def fourier_failure_bound(
    eps: float,
    kernel: Kernel,
    X: ArrayLike | None = None,
    *,
    n_components: int,
    paired: bool = True,
    diameter: float | None = None,
    n_features: int | None = None,
) -> float:
    """Claim 1: probability that random Fourier features err by `eps` for some pair of points, at most.

    For a set M of diameter diam(M) in d dimensions and m independent frequencies (Rahimi and Recht, 2007, Claim 1)

        P[sup over x, y in M of |z(x)'z(y) - k(x, y)| >= eps]
            <= 2^8 (sigma_p diam(M) / eps)^2 exp(-m eps^2 / (4 (d + 2))),    sigma_p^2 = E[w'w].

    The claim writes D for m: its proof has m independent terms cos(w'(x - y)) in [-1, 1]. Of paired cosines and sines,
    D = 2 m columns, the exponent is -D eps^2 / (8 (d + 2)), as in Proposition 1 of Sutherland and Schneider (2015), who
    have 66 in the place of 2^8. With random offsets the terms are in [-2, 2] and depend on x and y, not on x - y alone;
    then it is their Proposition 2,

        98 (sigma_p diam(M) / eps)^2 exp(-D eps^2 / (32 (d + 1))).

    Both are for sigma_p diam(M) >= eps; smaller sets count as if they were so large, and for pairs the bound is also at
    most (2 sigma_p diam(M) / eps)^2, by the mean slope of the error. (The proofs take sigma_p^2 for the mean of the
    largest squared slope of the error. Less than 4 sigma_p^2 it is for certain, and with this and the best net the
    constant of pairs becomes 258 at most.) Columns may be measured in any unit: the lesser product sigma_p diam(M) of
    the units of X and of those in which all E[w_j^2] are 1 counts, and only columns that the kernel compares.

    Frequencies that are orthogonal or otherwise repel one another are not independent; their errors are smaller as a
    rule, but the claim does not say so. Shares of a sum of kernels are taken as if m split evenly.

    Parameters
    ----------
    eps : float
        Error, in units of the kernel: where k(x, x) is v, eps / v takes the place of eps.
    kernel : Kernel
    X : array of shape (n, d), optional
        M is any set of the same diameter, computed exactly for up to 2,000 rows, and else bounded from above.
    n_components : int
        Columns D of the map, even where paired.
    paired : bool, default=True
    diameter, n_features : float and int, optional
        In the place of X.

    Returns
    -------
    float
        At most 1.

    Raises
    ------
    ValueError
        If sigma_p is infinite (Laplacian, Hat, Matern with nu <= 1, ...); if numbers are out of range; if D is odd
        where paired.
    TypeError
        If X is sparse, or neither X nor diameter and n_features are given; if something is of another type.

    References
    ----------
    Rahimi and Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007. Sutherland and Schneider, "On the
    Error of Random Fourier Features", UAI 2015.

    Examples
    --------
    >>> from bochner.kernels import Gaussian
    >>> from bochner.theory import fourier_failure_bound
    >>> round(fourier_failure_bound(0.2, Gaussian(), [[0.0], [3.0]], n_components=10_000), 6)
    0.003328
    """
    claim = fourier_claim(kernel, region_of(X, diameter, n_features), paired)
    check_components(n_components, paired)
    return _capped(claim(relative(eps, kernel), int(n_components)))


def binning_failure_bound(
    eps: float,
    kernel: Kernel,
    X: ArrayLike | None = None,
    *,
    n_grids: int,
    proof: str = "paper",
    diameter: float | None = None,
    n_features: int | None = None,
) -> float:
    """Claim 2: probability that random binning features err by `eps` for some pair of points, at most.

    With P independent grids, alpha = E[1 / pitch] and L_k the Lipschitz constant of k in the L1 norm (Rahimi and Recht,
    2007, Claim 2)

        P[sup over x, y in M of |z(x)'z(y) - k(x, y)| > eps]
            <= 36 d P alpha diam(M) exp(-(P eps^2 / 8 + ln(eps / L_k)) / (d + 1)).

    That is the claim, proof="paper". Its value depends on the unit of length, through L_k alone. Here each column is
    measured in the unit in which alpha = L_k = 1 (the lengthscale, for a Laplacian), and d alpha diam(M) is replaced by
    what it bounds, the mean number of breaks b_1 + ... + b_d of a grid along the columns, b_j = E[1 / pitch_j] range_j.
    The proof takes points of a net that depends on the grids as if it did not.

    proof="brackets" is another one, which is whole, and far sharper. z(x)'z(y) is the share of grids without a break
    between x and y in any column. It therefore lies between the shares for the next larger and the next smaller box
    with corners on a fixed lattice, and so does k. Split column j into n_j = ceil(2 d b_j / h) equal parts: the two
    boxes then differ by at most 2 b_j / n_j breaks in the mean along the column, altogether by at most h. There are at
    most N = prod_j (1 + n_j (n_j + 1) / 2) boxes, for each of which Hoeffding's inequality holds, hence

        P[sup over x, y in M of |z(x)'z(y) - k(x, y)| >= eps] <= 2 N exp(-2 P (eps - h)^2),    any 0 < h < eps,

    of which the least over a fixed set of h is taken. Both need rows in bins that training rows occupy.

    Parameters
    ----------
    eps : float
        Error, in units of the kernel: where k(x, x) is v, eps / v takes the place of eps.
    kernel : Kernel
        A mixture of hats.
    X : array of shape (n, d), optional
        M is the box around the rows.
    n_grids : int
        P.
    proof : {"paper", "brackets"}, default="paper"
    diameter, n_features : float and int, optional
        In the place of X: all ranges count as the diameter.

    Returns
    -------
    float
        At most 1.

    Raises
    ------
    ValueError
        If the kernel is not a mixture of hats, has smooth bins or infinitely many breaks; if numbers are out of range.
    TypeError
        If X is sparse, or neither X nor diameter and n_features are given; if something is of another type.

    References
    ----------
    Rahimi and Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007.

    Examples
    --------
    >>> from bochner.kernels import Laplacian
    >>> from bochner.theory import binning_failure_bound
    >>> X = [[0.0], [3.0]]
    >>> binning_failure_bound(0.2, Laplacian(), X, n_grids=1000)
    1.0
    >>> binning_failure_bound(0.2, Laplacian(), X, n_grids=1000, proof="brackets") < 1e-9
    True
    """
    claim = binning_claim(kernel, region_of(X, diameter, n_features), proof)
    check_count(n_grids, "n_grids")
    return _capped(claim(relative(eps, kernel), int(n_grids)))


def pointwise_failure_bound(
    eps: float,
    *,
    n_components: int | None = None,
    n_grids: int | None = None,
    paired: bool = True,
    variance: float = 1.0,
) -> float:
    """Probability that the estimate of one kernel value errs by `eps`, at most, by Hoeffding's inequality.

    z(x)'z(y) is a mean of m independent terms. Cosines of D / 2 frequencies are in [-1, 1]: 2 exp(-D eps^2 / 4).
    Products of cosines with random offsets, 2 cos(.) cos(.), are in [-2, 2]: 2 exp(-D eps^2 / 8). Whether two rows
    share a bin of one of P grids is 0 or 1: 2 exp(-2 P eps^2); not so for the weights of `SmoothBins`. This holds for
    every kernel of such maps, whatever its frequencies.

    Parameters
    ----------
    eps : float
        Error, in units of the kernel.
    n_components : int, optional
        Columns D of random Fourier features, even where paired.
    n_grids : int, optional
        P of random binning features; either this or `n_components`.
    paired : bool, default=True
    variance : float, default=1.0
        k(x, x), in units of which the error counts.

    Returns
    -------
    float
        At most 1.

    Raises
    ------
    ValueError, TypeError
        If numbers are out of range or of another type; if not one of `n_components` and `n_grids` is given.

    References
    ----------
    Rahimi and Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007, section 3.

    Examples
    --------
    >>> from bochner.theory import pointwise_failure_bound
    >>> round(pointwise_failure_bound(0.1, n_components=2000), 4)
    0.0135
    """
    check_positive(variance, "variance")
    check_positive(eps, "eps")
    if (n_components is None) == (n_grids is None):
        raise TypeError("Give either n_components, of Fourier features, or n_grids, of binning features.")
    if n_grids is not None:
        check_count(n_grids, "n_grids")
        exponent = 2.0 * n_grids
    else:
        check_components(n_components, paired)
        exponent = n_components / (4 if paired else 8)  # type: ignore[operator]
    return _capped(np.log(2) - exponent * (float(eps) / float(variance)) ** 2)


def _capped(log_bound: float) -> float:
    return float(np.exp(min(float(log_bound), 0.0)))
