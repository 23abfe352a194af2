"""Whether the rows of two tables depend on each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from bochner.data.array_source import ArraySource, Source
from bochner.data.table import TableEncoder
from bochner.engines.algebra import gram
from bochner.engines.blas import single_threaded_blas
from bochner.engines.local import pause
from bochner.features.distances import median_distance
from bochner.features.fourier import FourierFeatures
from bochner.hypotheses.features import Axes, draw_map, encoded_shares
from bochner.hypotheses.inputs import Table, open_table, scaled_encoder
from bochner.hypotheses.result import INDEPENDENT, Evidence, HypothesisTest, combine
from bochner.inputs.training import columns_apart
from bochner.kernels.base import check_count
from bochner.sources.rows import concat

NODES = 192
NEGLIGIBLE = 1e-13  # of the variance: the least weights count by their mean
UNDERFLOW = -45.0  # of the logarithm of the integrand beside its peak
BLOCK_ROWS = 1 << 12
GROUPS = 32  # of a block
SOME_ROWS = 128  # that tell distances and slopes
Blocks = Iterable[tuple[NDArray, NDArray]]
NULLS = ("auto", "permutation", "chi2")
RIDGES, SHARES = (np.inf, 1e-2), np.array([0.5, 0.5])
PERMUTED_ROWS = 5_000
FEWEST, MOST = 64, 200  # features of each table
VARIANCE, MOST_AXES = 0.99, 48  # of the axes that separate permutations
DRAWN_TERMS = 200


def independence_test(
    X: Any,
    Y: Any,
    *,
    null: str = "auto",
    n_permutations: int = 999,
    n_components: int | None = None,
    standardize: bool | str = "auto",
    random_state: Any = None,
) -> HypothesisTest:
    """Test whether the rows of X and of Y, pair by pair, are independent.

    With the covariances sum lam_i v_i v_i' and sum mu_j u_j u_j' of the features of the two tables, and C between them,

        T = n sum_ij (v_i'C u_j)^2 / ((lam_i + g) (mu_j + g)),

    in random features (Zhang et al., 2018). If g is large compared with all eigenvalues, this is the Hilbert-Schmidt
    independence criterion (Gretton et al., 2007). If g is small, it is near the sum of squared canonical correlations.
    Half of the level is for the former, and half for g = .01, which finds fine-scale dependence. Kernels are Gaussian,
    with the median distance as lengthscale.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d), data frame, or what `open_source` opens
        Of numbers, text, categories and dates. Paths, folders and other sources are read in passes if they are large.
    Y : the same with as many rows; or str, or sequence of str
        Names of columns of X, which are taken out of it. If X is an array, a sequence of text has the labels of its
        rows.
    null : {"auto", "permutation", "chi2"}, default="auto"
        The distribution of the statistic if the tables are independent.

        - "permutation": the rows of Y are permuted within blocks of 4,096 rows, which is exact. To save work the test
          uses the 48 directions of largest variance of each table, or fewer if these have 99 % of it.
        - "chi2": a weighted sum of chi-squared variables, the limit for many rows. This takes one pass.
        - "auto": "permutation" for up to 5,000 rows, else "chi2".
    n_permutations : int, default=999
        Permutations B; the least p-value is 1 / (B + 1).
    n_components : int, optional
        Features of each table, an even number. By default 200, and for permutations of fewer than 10,000 rows
        2 sqrt(n), but at least 64.
    standardize : {"auto", True, False}, default="auto"
        Whether to scale columns of numbers to unit variance. "auto" does so unless a table has many columns that share
        a unit, as pixels and counts do.
    random_state : int, RandomState or None, default=None
        Seed of the features and the permutations.

    Returns
    -------
    HypothesisTest

    Raises
    ------
    ValueError
        If X and Y have different numbers of rows; for fewer than 4 rows, unknown columns, infinite values, and NaN in
        an array.
    TypeError, ValueError
        If a parameter is of the wrong type or out of range.

    Notes
    -----
    Pairs of rows must be independent of one another: for two time series p is too small. With several thousand rows p
    is small even for irrelevant dependence: look at the `effect_size`.

    References
    ----------
    Gretton, Fukumizu, Teo, Song, Schoelkopf and Smola, "A Kernel Statistical Test of Independence", NIPS 2007. Zhang,
    Filippi, Gretton and Sejdinovic, "Large-Scale Kernel Methods for Independence Testing", Statistics and Computing
    2018.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import independence_test
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (400, 3))
    >>> y = np.cos(4 * X[:, 1]) + 0.5 * rng.standard_normal(400)
    >>> found = independence_test(X, y, random_state=0)
    >>> found.p_value
    0.001
    >>> max(zip(found.shares[:3], found.columns[:3]))[1]
    'x1'
    """
    check_count(n_permutations, "n_permutations", least=19)
    if n_components is not None:
        check_count(n_components, "n_components", least=2)
    if not isinstance(null, str) or null not in NULLS:
        raise ValueError(f"null must be one of {NULLS}, got {null!r}.")
    state = check_random_state(random_state)
    seed = int(state.randint(2**31))
    tables = tuple(open_table(Z, "XY"[k], seed + k) for k, Z in enumerate(columns_apart(X, Y)))
    encoders = tuple(scaled_encoder(table.statistic, standardize) for table in tables)
    n_rows = tables[0].n_rows
    method = null if null != "auto" else "permutation" if n_rows <= PERMUTED_ROWS else "chi2"
    if n_components is None:
        n_components = MOST if method == "chi2" else int(np.clip(2 * np.sqrt(n_rows), FEWEST, MOST))
    pairs = _pairs(tables, encoders, 2 * (n_components // 2), state)
    with single_threaded_blas():
        test = _Test(pairs)
        found = test.by_permutation(n_permutations, seed) if method == "permutation" else test.by_chi2(seed)
        shares = test.shares(found.best, encoders)
    ridge = RIDGES[found.best]
    member = "median x 1, no ridge" if np.isinf(ridge) else f"median x 1, ridge {ridge:g}"
    return HypothesisTest(
        INDEPENDENT,
        found.statistic,
        found.p_value,
        test.effect_size,
        found.null,
        member if method == "permutation" else "median x 1, both ridges",
        tuple(name for table in tables for name in table.names),
        np.concatenate([table.shares(own, part) for table, own, part in zip(tables, encoders, shares, strict=True)]),
        (pairs.n_rows, pairs.n_rows),
        method,
        tuple(name for table, own in zip(tables, encoders, strict=True) for name in table.encoded_names(own)),
        np.concatenate(shares),
    )


def _pairs(tables: Sequence[Table], encoders: Sequence[TableEncoder], n_components: int, state: Any) -> Pairs:
    """Both tables seen through maps of their own; ValueError where they have other numbers of rows."""
    (X, Y), parts = tables, zip(tables, encoders, strict=True)
    if X.n_rows != Y.n_rows:
        raise ValueError(f"X has {X.n_rows:,} rows and Y {Y.n_rows:,}: the test is one of pairs of rows.")
    rng = np.random.default_rng(state.randint(2**31))
    sources, maps, centres = zip(
        *(_seen(table, encoder, n_components, state, rng) for table, encoder in parts), strict=True
    )
    return Pairs(sources, maps, centres, X.n_rows)


def _seen(table: Table, encoder: TableEncoder, n_components: int, state: Any, rng: np.random.Generator) -> tuple:
    """The encoded rows of a table, those of one block in memory, a map of them, and the mean features of some rows."""
    source = table.source(encoder)
    if table.n_rows <= BLOCK_ROWS:
        (block,) = source.blocks(BLOCK_ROWS)
        source = ArraySource(block.X, block.y)
        sample = block.X[rng.choice(table.n_rows, min(SOME_ROWS, table.n_rows), replace=False)]
    else:
        sample = table.sampled(encoder, SOME_ROWS, rng)
    features = draw_map(sample, (1.0,), median_distance(sample), n_components, state)
    return source, features, features.rows(sample).mean(axis=0)


class _Test:
    """The statistics of pairs of rows."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs
        self.held = list(pairs.features()) if pairs.n_rows <= BLOCK_ROWS else None
        self.sums = PairSums.of(self._blocks(), pairs.n_rows, pairs.maps[0].n_features_out)
        self.axes = Axes.of(self.sums.own[0]), Axes.of(self.sums.own[1])
        self.cross = self.axes[0].vectors.T @ self.sums.cross @ self.axes[1].vectors

    def _blocks(self) -> Any:
        return self.pairs.features() if self.held is None else self.held

    def by_permutation(self, n_permutations: int, seed: int) -> Evidence:
        """The evidence of all ridge penalties, over permuted rows."""
        first, second = (one.leading(VARIANCE, MOST_AXES) for one in self.axes)
        rng = np.random.default_rng(seed + 2)
        C = permuted_covariances(self._blocks(), self.sums.means, (first, second), n_permutations, rng)
        weights = np.stack([_weights(first, second, ridge).ravel() for ridge in RIDGES], axis=1)
        pairs = C.reshape(len(C), len(weights))
        values = np.square(pairs, out=pairs) @ weights / self.pairs.n_rows
        return combine(values, SHARES)

    def by_chi2(self, seed: int) -> Evidence:
        """The sum of the statistics of all ridge penalties, each over its mean, by its distribution for many rows."""
        variances = np.outer(self.axes[0].variances, self.axes[1].variances)
        each = [_weights(*self.axes, ridge) for ridge in RIDGES]
        scaled = [share * w / max(float(np.sum(w * variances)), 1e-300) for share, w in zip(SHARES, each, strict=True)]
        parts = [self.pairs.n_rows * float(np.sum(w * self.cross**2)) for w in scaled]
        law = (sum(scaled) * variances).ravel()
        return Evidence(sum(parts), _drawn(law, seed), weighted_chi2_sf(sum(parts), law), int(np.argmax(parts)))

    @property
    def effect_size(self) -> float:
        """The correlation of the kernels of the two tables, less what chance makes of it."""
        own, n = self.sums.own, self.pairs.n_rows
        chance = float(np.trace(own[0]) * np.trace(own[1])) / (n - 1)
        scale = float(np.linalg.norm(own[0]) * np.linalg.norm(own[1]))
        return (float(np.sum(self.sums.cross**2)) - chance) / scale if scale > 0 else 0.0

    def shares(self, best: int, encoders: Sequence[TableEncoder]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """How much the function in which the tables depend on each other follows the encoded columns of each."""
        first, second = self.axes
        coef = first.vectors @ (_weights(first, second, RIDGES[best]) * self.cross) @ second.vectors.T
        rows = self.pairs.spread_rows()
        maps, centres = self.pairs.maps, self.pairs.centres
        Z = [
            features.rows(part) - centre - mean
            for features, part, centre, mean in zip(maps, rows, centres, self.sums.means, strict=True)
        ]
        X, Y = (
            encoded_shares(features, part, own, encoder)
            for features, part, own, encoder in zip(maps, rows, (Z[1] @ coef.T, Z[0] @ coef), encoders, strict=True)
        )
        return X, Y


def _weights(first: Axes, second: Axes, ridge: float) -> NDArray[np.float64]:
    """Weights of the squared covariances of all pairs of axes."""
    if np.isinf(ridge):
        return np.ones((len(first.variances), len(second.variances)))
    return np.outer(1 / (first.variances + ridge), 1 / (second.variances + ridge))


def _drawn(weights: NDArray, seed: int, n_draws: int = 999) -> NDArray[np.float64]:
    """Draws of the weighted sum of chi-squared variables, the least of whose terms are their means."""
    order = np.sort(weights)[::-1]
    some = order[:DRAWN_TERMS]
    normal = np.random.default_rng(seed).standard_normal((n_draws, len(some)))
    return np.square(normal, out=normal) @ some + order[DRAWN_TERMS:].sum()


def weighted_chi2_sf(x: float, weights: NDArray) -> float:
    """P(sum_i w_i c_i > x) of independent chi-squared c_i with one degree of freedom, by inversion.

    With K(s) = -1/2 sum log(1 - 2 s w_i), and a path that crosses the real axis at c in (0, 1 / (2 max w)),

        P = 1 / (2 pi i) int exp(K(s) - s x) ds / s,

    and c < 0 gives P - 1. Imhof (1961) takes the imaginary axis, on which the integrand waves and falls slowly. Here
    the path is a parabola s = c + i t + a t^2 through the saddle point, K'(c) = x, with a third of K'''(c) / (2 K''(c))
    as its a: along it the integrand has almost one phase and falls as a bell does, so that its sum over equal steps of
    t converges faster than any power of their number (Rice, 1980). The relative error is about 1e-10, far out as well.

    Parameters
    ----------
    x : float
    weights : array of shape (r,)
        Not negative.

    References
    ----------
    Imhof, "Computing the Distribution of Quadratic Forms in Normal Variables", Biometrika 1961. Rice, "Distribution of
    Quadratic Forms in Normal Random Variables - Evaluation by Numerical Integration", SIAM Journal on Scientific and
    Statistical Computing 1980.
    """
    w = np.sort(np.asarray(weights, np.float64))
    total = w.sum()
    if not total > 0:
        return 1.0
    w, x = w / total, x / total
    kept = np.cumsum(w**2) > NEGLIGIBLE * np.sum(w**2)
    w, x = w[kept], x - float(w[~kept].sum())
    if x <= 0:
        return 1.0
    c = _crossing(x, w)
    found = _integral(x, w, c)
    return float(np.clip(found if c > 0 else 1 + found, 0.0, 1.0))


def _integral(x: float, w: NDArray, c: float) -> float:
    """The integral over the parabola, by symmetry twice that over t > 0."""
    ratios = w / (1 - 2 * c * w)
    curvature = 2 * np.sum(ratios**2)
    a = 8 * np.sum(ratios**3) / (6 * curvature)
    peak = _exponent(np.array([c]), x, w)[0]

    def heights(t: NDArray) -> NDArray:
        return _exponent(c + 1j * t + a * t * t, x, w) - peak

    end = 2 / np.sqrt(curvature)
    while heights(np.array([end])).real[0] > UNDERFLOW:
        end *= 1.25
    t = end / NODES * np.arange(NODES + 1)
    values = (np.exp(heights(t)) * (1j + 2 * a * t) / (c + 1j * t + a * t * t)).imag
    return float(np.exp(peak) * (values.sum() - values[0] / 2) * end / (NODES * np.pi))


def _exponent(s: NDArray, x: float, w: NDArray) -> NDArray:
    """K(s) - s x, shape (T,)."""
    return -0.5 * np.log(1 - 2 * s[:, np.newaxis] * w).sum(axis=1) - s * x


def _crossing(x: float, w: NDArray) -> float:
    """The saddle point, at a distance from the pole at zero."""
    c, apart = _saddle(x, w), min(0.5 / np.sqrt(2 * np.sum(w**2)), 0.25 / w.max())
    return max(c, apart) if c > 0 else min(c, -apart)


def _saddle(x: float, w: NDArray) -> float:
    """The s below 1 / (2 max w) with sum w / (1 - 2 s w) = x."""
    from scipy.optimize import brentq

    end = 0.5 / w.max()
    low = -0.5 * len(w) / x - end  # where the sum is below x, since each term is below 1 / (2 |s|)
    high = end - 0.25 / x  # where it is above, by the term of the largest weight alone
    return float(brentq(lambda s: np.sum(w / (1 - 2 * s * w)) - x, low, high, xtol=1e-14 * end, maxiter=500))


@dataclass(frozen=True)
class Pairs:
    """Two tables, row by row.

    Attributes
    ----------
    sources : tuple of Source
        Of as many rows each.
    maps : tuple of FourierFeatures
    centres : tuple of array
        Mean features of some rows, taken from all; they change nothing but rounding.
    n_rows : int
    """

    sources: tuple[Source, Source]
    maps: tuple[FourierFeatures, FourierFeatures]
    centres: tuple[NDArray, NDArray]
    n_rows: int

    def features(self) -> Iterator[tuple[NDArray, NDArray]]:
        """Features of both, block by block."""
        for rows in self.blocks():
            X, Y = (
                features.rows(part) - centre
                for features, part, centre in zip(self.maps, rows, self.centres, strict=True)
            )
            yield X, Y

    def blocks(self) -> Iterator[tuple[Any, Any]]:
        """Rows of both, block by block."""
        for first, second in zip(*(source.blocks(BLOCK_ROWS) for source in self.sources), strict=True):
            pause()
            yield first.X, second.X

    def spread_rows(self) -> tuple[Any, Any]:
        """Some rows of both, as far apart as all of them reach."""
        step, done, parts = max(1, self.n_rows // SOME_ROWS), 0, []
        for X, Y in self.blocks():
            kept = np.flatnonzero((np.arange(X.shape[0]) + done) % step == 0)
            parts.append((X[kept], Y[kept]))
            done += X.shape[0]
        X, Y = zip(*parts, strict=True)
        return concat(X), concat(Y)


@dataclass(frozen=True)
class PairSums:
    """Means and covariances of the features of two tables.

    Attributes
    ----------
    means : tuple of array
        Less the centres.
    own : tuple of array of shape (D, D)
        Covariances within each table.
    cross : array of shape (D, D)
        Between them.
    """

    means: tuple[NDArray[np.float64], NDArray[np.float64]]
    own: tuple[NDArray[np.float64], NDArray[np.float64]]
    cross: NDArray[np.float64]

    @classmethod
    def of(cls, blocks: Blocks, n_rows: int, n_first: int) -> PairSums:
        """Sums over all rows, of features of which so many are those of the first table."""
        total: Any = 0.0
        products: Any = 0.0
        for block in blocks:
            Z = np.hstack(block)
            products = products + gram(Z, np.empty((Z.shape[1], Z.shape[1]), Z.dtype)).astype(np.float64)
            total = total + Z.sum(axis=0, dtype=np.float64)
        mean = total / n_rows
        C, D = products / n_rows - np.outer(mean, mean), n_first
        return cls((mean[:D], mean[D:]), (C[:D, :D], C[D:, D:]), C[:D, D:])


def permuted_covariances(
    blocks: Blocks, means: tuple[NDArray, NDArray], axes: tuple[Axes, Axes], n_permutations: int, rng: Any
) -> NDArray[np.float64]:
    """Sums of products of the projections of both tables, whose means are zero, the second permuted within each block.

    The pairs of a block are shuffled, and 32 groups of as many rows of the second are permuted as they are. Such
    permutations are a group, and so what they make of rows that are independent is exact (Domingo-Enrich, Dwivedi and
    Mackey, 2025). All of them are sums of 32 x 32 products of groups, so that none reads the rows.

    Returns
    -------
    array of shape (B + 1, r, s)
        The first of the rows as they are.
    """
    r, s = (len(one.variances) for one in axes)
    found = np.zeros((n_permutations + 1, r * s))
    for block in blocks if r * s else ():
        order = rng.permutation(len(block[0]))
        X, Y = (
            Z[order] @ one.vectors.astype(Z.dtype) - (mean @ one.vectors).astype(Z.dtype)
            for Z, mean, one in zip(block, means, axes, strict=True)
        )
        found += _permuted_groups(X, Y, n_permutations, rng)
    return found.reshape(n_permutations + 1, r, s)


def _permuted_groups(X: NDArray, Y: NDArray, n_permutations: int, rng: Any) -> NDArray:
    """Sums of products of the rows of a block, shape (B + 1, r s); rows that fill no group stay where they are."""
    (n, r), s = X.shape, Y.shape[1]
    size = -(-n // GROUPS)
    G = n // size
    left = X[: G * size].reshape(G, size, r).transpose(0, 2, 1).reshape(G * r, size)
    right = Y[: G * size].reshape(G, size, s).transpose(1, 0, 2).reshape(size, G * s)
    products = (left @ right).reshape(G, r, G, s).transpose(0, 2, 1, 3).reshape(G, G, r * s)
    orders = rng.random((n_permutations + 1, G)).argsort(axis=1)
    orders[0] = np.arange(G)
    found = np.tile((X[G * size :].T @ Y[G * size :]).ravel(), (n_permutations + 1, 1))
    chosen = np.empty_like(found)
    for own, others in zip(products, np.ascontiguousarray(orders.T), strict=True):
        found += np.take(own, others, axis=0, out=chosen, mode="clip")
    return found
