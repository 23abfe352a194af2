"""Tells which claim holds for a fitted map, and the error that it guarantees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import sqrt
from numbers import Real
from textwrap import fill
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.utils import _safe_indexing as take
from sklearn.utils.validation import _num_samples, check_is_fitted

from bochner.blocks import BLOCK_ENTRIES
from bochner.data.array_source import as_it_is
from bochner.features.binning import BinningFeatures
from bochner.features.fourier import FourierFeatures
from bochner.features.leaves import LeafMap, kernel_of, leaves
from bochner.kernels import Kernel
from bochner.kernels.base import check_count
from bochner.markup import Markup, number, table
from bochner.theory.bounds import binning_claim, fourier_claim, least_error
from bochner.theory.pair_kernels import (
    bias_and_variance,
    exact_values,
    inner_products,
    pairwise,
)
from bochner.theory.region import region_of


def _no_claim(features: Any, new_bins: bool) -> str:
    """Why there is no claim about a map; empty where there may be one."""
    if isinstance(features, FourierFeatures):
        if features.sampling == "leverage":
            return (
                "Claim 1 is about frequencies of the kernel's own distribution, "
                "not drawn by leverage"
            )
        if 0 < len(features.offsets_) < features.frequencies_.shape[1]:
            return "Claim 1 is about an even number of components"
        return ""
    if not isinstance(features, BinningFeatures):
        return f"no claim about {type(features).__name__}"
    if features.n_buckets is not None:
        return (
            "Claim 2 is about separate bins, not about hashed bins that share buckets"
        )
    if features.column_share < 1:
        return "Claim 2 is about grids that split every column"
    if new_bins:
        return (
            "Claim 2 is about rows in bins that training rows occupy, and "
            "some rows are in new ones"
        )
    return ""


MOST_PAIRS = 2048  # in a block


def draw_pairs(n: int, n_pairs: int, rng: np.random.Generator) -> tuple[NDArray, float]:
    """Row numbers, shape (2, N), and the share of all pairs that is known from them."""
    if n >= 2 * n_pairs:
        return rng.choice(n, 2 * n_pairs, replace=False).reshape(2, -1), 0.0
    total = n * (n - 1) // 2
    if total <= n_pairs:
        return np.array(np.triu_indices(n, 1)), 1.0
    numbers = rng.choice(total, n_pairs, replace=False)
    second = np.floor((1 + np.sqrt(1 + 8 * numbers)) / 2).astype(
        np.int64
    )  # pairs (i, j), i < j, by rising j
    second -= second * (second - 1) // 2 > numbers
    return np.array([numbers - second * (second - 1) // 2, second]), n_pairs / total


GROUPS = 10

Interval = tuple[float, float]


@dataclass(frozen=True)
class ErrorGroup:
    """Pairs with about the same exact kernel value.

    Attributes
    ----------
    low, high : float
        Least and largest exact kernel value.
    n_pairs : int
    mean_absolute, root_mean_square : float
        Of the errors z(x)'z(y) - k(x, y).
    expected : float or None
        Root mean square error over independent draws of the map, if theory gives it.
    """

    low: float
    high: float
    n_pairs: int
    mean_absolute: float
    root_mean_square: float
    expected: float | None


@dataclass(frozen=True)
class KernelError:
    """Measured error z(x)'z(y) - k(x, y) of a fitted map, over pairs of different rows.

    Attributes
    ----------
    features : str
        Name of the map.
    n_components : int
        Columns of the map.
    n_grids : int or None
        Of binning features.
    n_pairs : int
    confidence : float
    mean_absolute, mean_absolute_interval : float and (float, float)
        The mean of the absolute error over all pairs, and its confidence interval.
    root_mean_square, root_mean_square_interval : float and (float, float)
    bias, bias_interval : float and (float, float)
        The mean of the error itself.
    maximum : float
        Largest absolute error over the measured pairs.
    beyond : float
        With that confidence at most this share of all pairs has an error above
        `maximum`.
    groups : tuple of ErrorGroup
        Errors by the exact kernel value, from distant rows to close ones.
    bound : float or None
        Error that no pair exceeds with probability `confidence` over draws of the map,
        by Claim 1 or Claim 2.
    claim : str
        Which claim gives the bound, or why there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FourierFeatures
    >>> from bochner.theory import kernel_error
    >>> X = np.random.default_rng(0).standard_normal((1000, 2))
    >>> error = kernel_error(FourierFeatures(random_state=0).fit(X), X, random_state=0)
    >>> error.maximum < error.bound
    True
    """

    features: str
    n_components: int
    n_grids: int | None
    n_pairs: int
    confidence: float
    mean_absolute: float
    mean_absolute_interval: Interval
    root_mean_square: float
    root_mean_square_interval: Interval
    bias: float
    bias_interval: Interval
    maximum: float
    beyond: float
    groups: tuple[ErrorGroup, ...]
    bound: float | None
    claim: str

    def _figures(self) -> tuple[tuple[str, float, Interval], ...]:
        """Names of the mean figures, with their values and intervals."""
        return (
            ("mean |error|", self.mean_absolute, self.mean_absolute_interval),
            ("rms error", self.root_mean_square, self.root_mean_square_interval),
            ("bias", self.bias, self.bias_interval),
        )

    def __str__(self) -> str:
        size = f"{self.n_components:,} columns"
        if self.n_grids:
            size += f" of {self.n_grids:,} grids"
        lines = [
            f"{self.features}, {size}: error on {self.n_pairs:,} pairs of rows, "
            f"confidence {self.confidence:.4g}"
        ]
        for name, value, (low, high) in self._figures():
            lines.append(f"  {name:<13}{value:>10.3g}   {low:.3g} to {high:.3g}")
        lines.append(
            f"  {'maximum':<13}{self.maximum:>10.3g}   at most {self.beyond:.2g} of "
            "all pairs err more"
        )
        if self.bound is None:
            claim = f"no guarantee: {self.claim}"
            lines.append(
                fill(claim, 96, initial_indent="  ", subsequent_indent=" " * 4)
            )
        else:
            lines.append(f"  {'guaranteed':<13}{self.bound:>10.3g}   {self.claim}")
        lines.append("")
        head = f"  {'k(x, y)':<22}{'pairs':>8}{'mean |error|':>14}{'rms error':>12}"
        has_expected = all(group.expected is not None for group in self.groups)
        lines.append(head + (f"{'expected':>12}" if has_expected else ""))
        for group in self.groups:
            between = f"{group.low:.4g} to {group.high:.4g}"
            line = f"  {between:<22}{group.n_pairs:>8,}"
            line += f"{group.mean_absolute:>14.3g}{group.root_mean_square:>12.3g}"
            lines.append(line + (f"{group.expected:>12.3g}" if has_expected else ""))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            (name, number(value), " to ".join(map(number, interval)))
            for name, value, interval in self._figures()
        ]
        beyond = f"at most {self.beyond:.2g} of all pairs err more"
        rows.append(("maximum", number(self.maximum), beyond))
        if self.bound is not None:
            rows.append(("guaranteed", number(self.bound), self.claim))
        caption = f"Error of {self.features} on {self.n_pairs:,} pairs of rows"
        interval = f"{100 * self.confidence:.4g} % interval"
        groups = [
            (
                f"{one.low:.4g} to {one.high:.4g}",
                f"{one.n_pairs:,}",
                number(one.mean_absolute),
                number(one.root_mean_square),
            )
            for one in self.groups
        ]
        head = ("k(x, y)", "pairs", "mean |error|", "rms error")
        parts = (
            table(caption, ("quantity", "value", interval), rows),
            table("By the kernel value", head, groups),
        )
        return Markup("<br>").join(parts)


def kernel_error(
    features: Any,
    X: Any,
    kernel: Kernel | Callable[[NDArray, NDArray], NDArray] | None = None,
    *,
    n_pairs: int = 10_000,
    confidence: float = 0.95,
    random_state: Any = None,
) -> KernelError:
    """Measure how far the inner products of a fitted map are from the kernel, on pairs
    of the given rows.

    Pairs are drawn at random. With at least 2 `n_pairs` rows no row is in two pairs, so
    that errors are independent given the map, and the intervals are for pairs of rows
    from the same distribution. With fewer rows pairs share rows, and the intervals are
    for the n (n - 1) / 2 pairs of X. If there are at most `n_pairs` of these, all are
    measured, and the figures are exact. Neither Z nor a kernel matrix of all rows is
    ever held.

    The bound is given for comparison. It is for the worst pair of a whole region and
    holds before the map is drawn, whereas the measured figures are for this draw of the
    map.

    Parameters
    ----------
    features : fitted transformer or machine
        Of `bochner`, or any with ``transform`` whose inner products estimate a kernel,
        such as scikit-learn's `RBFSampler` and `Nystroem`.
    X : array, sparse matrix or data frame of shape (n, d)
        Rows that `features` accepts. Use rows that the map was not fitted on to measure
        its error on new rows.
    kernel : Kernel or callable (X, Y) -> array of shape (n, m), optional
        The kernel that the map estimates, for rows of X; needed if the map does not
        know it.
    n_pairs : int, default=10_000
    confidence : float, default=0.95
    random_state : int, Generator or None, default=None

    Returns
    -------
    KernelError
        It prints as a table.

    Raises
    ------
    TypeError
        If `features` has no ``transform``, or its kernel is not known and not given.
    ValueError
        If there are fewer than two rows, or parameters are out of range.
    NotFittedError
        If the map is not fitted.

    References
    ----------
    Rahimi and Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007 (the
    bounds). Sutherland and Schneider, "On the Error of Random Fourier Features", UAI
    2015, section 2 (the expected errors).

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import BinningFeatures
    >>> from bochner.kernels import Laplacian
    >>> from bochner.theory import kernel_error
    >>> X = np.random.default_rng(0).standard_normal((2000, 2))
    >>> features = BinningFeatures(Laplacian(2.0), 400, random_state=0).fit(X)
    >>> error = kernel_error(features, X, n_pairs=1000, random_state=0)
    >>> (
    ...     error.n_pairs,
    ...     error.mean_absolute < error.root_mean_square < error.maximum < error.bound,
    ... )
    (1000, True)
    """
    check_count(n_pairs, "n_pairs")
    if not isinstance(confidence, Real) or not 0 < float(confidence) < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}.")
    if hasattr(features, "fit"):
        check_is_fitted(features)
    if kernel is not None and not callable(kernel):
        raise TypeError(
            "kernel must be one of bochner.kernels or a callable of (X, Y), got "
            f"{kernel!r}."
        )
    inner, prepare = features, as_it_is
    if hasattr(features, "encoder_") and hasattr(features, "features_"):
        inner = features.features_
        prepare = partial(features.encoder_.encode, dtype=np.float64)
    if not hasattr(inner, "transform"):
        raise TypeError(
            "features must be a fitted map with a method transform, such as "
            f"FourierFeatures().fit(X), got {type(features).__name__}."
        )
    parts = list(leaves(inner))
    single = parts[0] if len(parts) == 1 else LeafMap(1.0, (), inner)
    map_kernel = kernel_of(single.features)
    is_map_kernel = kernel is None or (
        isinstance(kernel, Kernel)
        and single.features is features
        and kernel == map_kernel
    )
    exact = exact_values(inner) if kernel is None or is_map_kernel else pairwise(kernel)
    X = np.asarray(X) if isinstance(X, list | tuple) else X
    n = _num_samples(X)
    if n < 2:
        raise ValueError(
            f"X has {n} row; the error is measured on pairs of different rows."
        )
    pairs, share = draw_pairs(n, int(n_pairs), np.random.default_rng(random_state))
    moments = bias_and_variance(inner) if is_map_kernel else None
    probe = inner.transform(prepare(take(X, np.arange(1))))
    columns = np.shape(X)[1] if np.ndim(X) == 2 else 1
    entries = probe.nnz if sp.issparse(probe) else probe.shape[1]
    block = max(1, min(MOST_PAIRS, BLOCK_ENTRIES // max(entries, columns)))
    # Entries of a row whose bins are all occupied, of a map of numbered bins
    numbered = (
        isinstance(single.features, BinningFeatures)
        and single.features.n_buckets is None
    )
    full = len(single.features.values_) if numbered else 0
    blocks = []
    new_bins = False
    for a in range(0, pairs.shape[1], block):
        rows = [take(X, numbers) for numbers in pairs[:, a : a + block]]
        prepared = [prepare(part) for part in rows]
        Z = [inner.transform(part) for part in prepared]
        value = exact(*(prepared if is_map_kernel else rows))
        bias, variance = (0.0, np.nan) if moments is None else moments(*prepared)
        squares = np.broadcast_to(bias**2 + variance, len(value))
        blocks.append((value, inner_products(*Z) - value, squares))
        if full:
            new_bins |= any(part.nnz < full * part.shape[0] for part in Z)
    values, errors, squares = map(np.concatenate, zip(*blocks, strict=True))
    # Groups of the same size, by the exact value
    order = np.argsort(values, kind="stable")
    groups = [
        ErrorGroup(
            low=float(values[group].min()),
            high=float(values[group].max()),
            n_pairs=len(group),
            mean_absolute=float(np.abs(errors[group]).mean()),
            root_mean_square=sqrt(np.square(errors[group]).mean()),
            expected=None if moments is None else sqrt(squares[group].mean()),
        )
        for group in np.array_split(order, min(GROUPS, len(values)))
    ]
    bound = None
    claim = "the claims are about the map's own kernel, and another was given"
    if is_map_kernel or map_kernel is None:
        claim = _no_claim(single.features, new_bins)
    if not claim:
        try:
            region = region_of(single.rows(prepare(X)), None, None)
            if numbered:
                log_bound = binning_claim(map_kernel, region, "brackets")
                least = least_error(log_bound, full, 1 - float(confidence))
                claim = "Claim 2, by brackets"
            else:
                paired = not len(single.features.offsets_)
                log_bound = fourier_claim(map_kernel, region, paired)
                columns = single.features.n_features_out
                least = least_error(log_bound, columns, 1 - float(confidence))
                claim = "Claim 1" if paired else "Claim 1 with offsets"
                if single.features.sampling != "iid":
                    claim += ", which is about independent frequencies"
            bound = single.weight * map_kernel.variance * least
        except (TypeError, ValueError) as error:
            claim = str(error)
    size = np.abs(errors)
    mean, (mean_low, mean_high) = _mean(size, float(confidence), share)
    square, (low, high) = _mean(errors**2, float(confidence), share)
    bias, bias_interval = _mean(errors, float(confidence), share)
    beyond = 0.0
    if share < 1:
        beyond = float(-np.expm1(np.log1p(-float(confidence)) / len(errors)))
    return KernelError(
        features=type(single.features).__name__,
        n_components=int(probe.shape[1]),
        n_grids=len(single.features.values_)
        if isinstance(single.features, BinningFeatures)
        else None,
        n_pairs=pairs.shape[1],
        confidence=float(confidence),
        mean_absolute=mean,
        mean_absolute_interval=(max(mean_low, 0.0), mean_high),
        root_mean_square=sqrt(square),
        root_mean_square_interval=(sqrt(max(low, 0.0)), sqrt(high)),
        bias=bias,
        bias_interval=bias_interval,
        maximum=float(size.max()),
        beyond=beyond,
        groups=tuple(groups),
        bound=bound,
        claim=claim,
    )


def _mean(
    values: NDArray, confidence: float, known_share: float
) -> tuple[float, Interval]:
    """Mean and its interval by the Student t distribution, narrower by the share of
    the population that is known.
    """
    mean = float(values.mean())
    n = len(values)
    if known_share == 1:
        return mean, (mean, mean)
    if n < 2:
        return mean, (-np.inf, np.inf)
    quantile = float(student.ppf((1 + confidence) / 2, n - 1))
    half = quantile * float(values.std(ddof=1)) * sqrt((1 - known_share) / n)
    return mean, (mean - half, mean + half)
