"""Random binning features (Algorithm 2)."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from bochner.engines.local import for_rows, in_threads, require_memory, tiles
from bochner.features.base import (
    Centres,
    DenseFeatures,
    FeatureMap,
    Rows,
    random_generator,
)
from bochner.features.grids import (
    Grids,
    Lookups,
    Numbers,
    Table,
    by_columns,
    draw_grids,
)
from bochner.features.metric import MetricFeatures, without_metrics
from bochner.features.stored import StoredBins, require_length
from bochner.kernels import Kernel, Laplacian
from bochner.kernels.base import check_count, check_kernel
from bochner.notices import warn

MANY_ALONE, FEW_ROWS, DOT_ROWS = 0.5, 100, 1 << 16
# From which on an order of the rows of a block pays
ORDERED_ROWS, ORDERED_GRIDS = 1 << 16, 32
FEWEST_ROWS = 8  # whose columns are not worth a look at their range


class BinningFeatures(FeatureMap):
    """Random binning features: z(x)'z(y) is an unbiased estimate of k(x, y), and Z is
    sparse.

    A kernel that is a product over the features of mixtures of hats, k(t) = E max(0, 1
    - |t| / pitch), is the probability that a random grid puts two rows into one bin:
    two points at a distance t fall into one interval of a grid of a given pitch and
    uniform shift with probability max(0, 1 - t / pitch). With P grids drawn

        z(x) = P^(-1/2) [e_1(x), ..., e_P(x)],

    with e_p(x) the indicator of the bin of x in grid p. Only the bins that training
    rows occupy are kept: rows in other bins have no entry there. A row has at most P
    entries, whatever the number of columns. For a product of kernels two rows must
    share the bins of all factors; for a sum the grids are divided among the terms, in
    proportion to their variances.

    A bin is identified by a 64-bit hash: the sum of its integer coordinates times
    random multipliers, drawn for each grid. Two bins share a hash with probability 2^(t
    - 64), where t is the number of trailing zero bits that all differences of their
    coordinates have in common (0 for half of all pairs in one dimension, and for nearly
    all in several). A grid with N occupied bins has about N^2 2^(-64) collisions: 5e-8
    for a million bins.

    Parameters
    ----------
    kernel : Kernel, default=Laplacian()
        Any sum, product and scaling of kernels that are mixtures of hats (Laplacian,
        Hat, SmoothBins, Coordinatewise), with lengthscales in the units of X.
    n_grids : int, default=100
        Number P of grids. The error of z(x)'z(y) falls as 1 / sqrt(P).
    n_buckets : int or None, default=None
        Columns per grid, into which bins are hashed independently of the data, so that
        maps drawn with one seed agree on any machine. Grids collide independently of
        one another, so that z(x)'z(y) of each map is close to k + (1 - k) / n_buckets
        (for k of variance 1): its bias is at most 1 / n_buckets, beside an error that
        falls as 1 / sqrt(P). By default every occupied bin has a column.
    column_share : float, default=1.0
        Probability q that a grid splits a column. Below 1 a product kernel prod_j k_j
        becomes a mixture over subsets of the columns, prod_j (1 - q + q k_j). Not for
        `SmoothBins`.
    random_state : int, RandomState or None, default=None
        Seed of the draw.

    Attributes
    ----------
    pitches_, shifts_ : arrays of shape (P, F, d), float64
        Of the F lattices of a grid, one for each factor of the kernel, in the units of
        the columns; the bin of x is floor((x - shift) / pitch). An infinite pitch does
        not split its column.
    values_ : array of shape (P,), float64
        Entries of Z in each grid, 1 / sqrt(P) for a kernel of one term and variance 1.
    offsets_ : array of shape (P + 1,), int64
        First column of each grid, followed by D.
    keys_ : array of shape (D,), int64
        Hashes of the bins; empty with `n_buckets`.
    multipliers_ : array of shape (P, F, d), int64
        Multipliers of the hashes, independent for each grid.
    rows_per_bin_ : float
        Mean number of training rows in an occupied bin; NaN with `n_buckets`.
    singleton_share_ : float
        Share of rows that are alone in their bin, over all grids; NaN with `n_buckets`.
    n_features_in_ : int
    feature_names_in_ : array of str, where X had column names

    Raises
    ------
    ValueError
        At fit: a kernel that is not a mixture of hats; `n_grids` or `n_buckets` not
        positive; a `column_share` outside (0, 1]; fewer grids than terms in the kernel;
        lengthscales that do not match the columns. At transform: a different number of
        columns.
    MemoryError
        Before any work, if it does not fit in the free memory.
    TypeError
        At fit: `kernel` is not a kernel, or `n_grids` or `n_buckets` is not an integer.
    NotFittedError
        At transform, before fit.

    Warns
    -----
    UserWarning
        At fit, if most rows are alone in their bins, which then carry no information
        about new rows.

    References
    ----------
    Rahimi and Recht, "Random Features for Large-Scale Kernel Machines", NIPS 2007,
    Algorithm 2. Wu, Yen, Chen and Yan, "Revisiting Random Binning Features for Fast and
    Robust Kernel Learning", KDD 2016 (occupied bins only).

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import BinningFeatures
    >>> from bochner.kernels import Laplacian
    >>> X = np.random.default_rng(0).standard_normal((200, 3))
    >>> features = BinningFeatures(
    ...     Laplacian(lengthscale=8.0), n_grids=2000, random_state=0
    ... )
    >>> Z = features.fit_transform(X)
    >>> Z.shape[0], bool(Z.nnz == 200 * 2000)
    (200, True)
    >>> bool(abs((Z @ Z.T).toarray() - Laplacian(8.0)(X)).max() < 0.1)
    True
    """

    remedy = "Transform in blocks of rows, or use fewer n_grids."
    _numbering: list[Table] | None = None  # of the bins while they are numbered

    def __init__(
        self,
        kernel: Kernel = Laplacian(),  # noqa: B008 - changed on a copy only, see FeatureMap.set_params
        n_grids: int = 100,
        *,
        n_buckets: int | None = None,
        column_share: float = 1.0,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_grids = n_grids
        self.n_buckets = n_buckets
        self.column_share = column_share
        self.random_state = random_state

    def draw(self, n_features: int) -> BinningFeatures:
        """Draw the grids for `n_features` columns, before any rows are seen."""
        check_kernel(self.kernel, example="Laplacian(2.0)")
        check_count(self.n_grids, "n_grids", 31)
        if self.n_buckets is not None:
            check_count(self.n_buckets, "n_buckets", 31)
        share: Any = self.column_share
        is_number = isinstance(share, Real) and not isinstance(share, bool)
        if not is_number or not 0 < share <= 1:
            raise ValueError(
                f"column_share must be above 0 and at most 1, got {share!r}."
            )
        rng = random_generator(self.random_state)
        P = int(self.n_grids)
        n_buckets = int(self.n_buckets or 0)
        self.pitches_, self.shifts_, self.values_, self._smooth = draw_grids(
            self.kernel, P, n_features, rng
        )
        if share < 1:
            if self._smooth.any():
                raise ValueError(
                    "column_share must be 1 for SmoothBins, whose weights depend on "
                    "all columns."
                )
            dropped = rng.uniform(size=self.pitches_.shape) >= share
            self.pitches_[dropped], self.shifts_[dropped] = np.inf, 0.0
        self.multipliers_ = rng.integers(-(2**63), 2**63, self.pitches_.shape)
        self.n_features_in_ = n_features
        self.rows_per_bin_ = self.singleton_share_ = float("nan")
        self.keys_ = np.empty(0, np.int64)
        self.offsets_ = np.arange(P + 1, dtype=np.int64) * n_buckets
        self._caches = {}
        self.__dict__.pop("_numbering", None)
        if not n_buckets:
            self._numbering = [Table() for _ in range(P)]
        return self

    def fit_sample(self, X: Rows, weight: NDArray) -> None:
        """Check that the kernel serves such rows."""
        self.kernel.check_rows(X)

    @property
    def n_features_out(self) -> int:
        """Number D of columns: of occupied bins, or of buckets."""
        return int(self.offsets_[-1])

    def fit_rows(self, X: Rows) -> None:
        """Number the bins of some training rows, after those of earlier calls;
        buckets are numbers already.
        """
        if not self.has_buckets:
            self._require_memory(X)
            self._numbered(X)

    def fit_store(
        self, X: Rows, packed: bool = False, centres: Centres = None
    ) -> StoredBins:
        """Number the bins of some training rows, after those of earlier calls, and
        store them.

        Many rows are stored and numbered in an order in which neighbours share bins,
        whose coefficients a cache then has. Raises RuntimeError after `finalize`, when
        no more bins are numbered.
        """
        if self.has_buckets:
            return self.store(X)
        is_dense = not sp.issparse(X)
        many = X.shape[0] >= ORDERED_ROWS and len(self.values_) >= ORDERED_GRIDS
        return self._numbered(X, self.grids().order(X) if is_dense and many else None)

    def _numbered(self, X: Rows, order: NDArray[np.intp] | None = None) -> StoredBins:
        """Number the bins of the rows, in some order."""
        if self._numbering is None:
            raise RuntimeError(
                "The bins of this map are numbered: draw it again, or look rows up "
                "by store."
            )
        tables = self._numbering

        def number(p: int, hashes: NDArray, ids: NDArray) -> None:
            tables[p].number(hashes, ids)

        return self._stored(X, number, order)

    def finalize(self) -> None:
        """Lay out the columns after the last training row."""
        tables = self._numbering
        if tables is None:
            return
        counts = [table.counts[: table.count] for table in tables]
        self.offsets_[1:] = np.cumsum([table.count for table in tables])
        self.keys_ = np.concatenate([table.keys[: table.count] for table in tables])
        self._caches = {}
        del self._numbering
        entries = int(counts[0].sum()) * len(tables)
        self.rows_per_bin_ = entries / max(self.n_features_out, 1)
        n_alone = sum(int((count == 1).sum()) for count in counts)
        self.singleton_share_ = n_alone / max(entries, 1)

    @property
    def has_buckets(self) -> bool:
        """Whether bins are hashed into columns that are there from the draw on."""
        return not len(self.keys_) and self.n_features_out > 0

    def check_occupancy(self) -> None:
        """Warn if most rows are alone in their bins."""
        rows = self.rows_per_bin_ * self.n_features_out / len(self.values_)
        if self.singleton_share_ > MANY_ALONE and rows >= FEW_ROWS:
            warn(
                f"{self.singleton_share_:.0%} of the rows are alone in their bins "
                f"({self.rows_per_bin_:.2g} rows per "
                "bin): such bins carry no information about new rows. Use larger "
                "lengthscales, at first twice as large."
            )

    def store(
        self, X: Rows, packed: bool = False, centres: Centres = None
    ) -> StoredBins:
        """Numbers of the rows' bins, -1 where no training row has been."""
        return self._stored(X, self.lookups().look_up)

    def stored_bytes(self, dtype: np.dtype, packed: bool) -> int:
        """Memory of one row's bins, and of its weights inside them where the kernel
        has such.
        """
        return len(self.values_) * (4 + (dtype.itemsize if self._smooth.any() else 0))

    def _stored(
        self, X: Rows, numbers: Numbers, order: NDArray[np.intp] | None = None
    ) -> StoredBins:
        """Bins of the rows, as `numbers` tells them, in some order."""
        grids = self.grids()
        tiles = grids.tiles(X if order is None else X[order])
        smooth = grids.is_smooth
        ids = np.empty((len(grids), X.shape[0]), np.int32)
        values = np.empty(ids.shape, X.dtype) if smooth else self.values_[:, np.newaxis]

        def number(p: int) -> None:
            for rows, tile in tiles:
                numbers(p, grids.hashes(tile, p), ids[p, rows])
            if smooth:
                grids.weigh(tiles, p, values[p])

        in_threads(number, range(len(grids)), None if X.shape[0] > 1 else 1)
        return StoredBins(ids, values, self.offsets_, order)

    def grids(self) -> Grids:
        """The grids in the form of the loops; what arrays the map has decides,
        whatever its parameters are since.
        """
        return self._cached(
            "grids",
            lambda: Grids(
                self.pitches_,
                self.shifts_,
                self.multipliers_,
                self.values_,
                self._smooth,
                self.n_features_in_,
            ),
        )

    def lookups(self) -> Lookups:
        """Where the loops find the numbers of bins, after `finalize`."""
        return self._cached(
            "lookups", lambda: Lookups(self.keys_, self.offsets_, len(self.grids()))
        )

    def map_rows(self, X: Rows) -> sp.csr_matrix:
        """Features of rows that are checked, with at most P entries in a row, in the
        order of the grids.
        """
        self._require_memory(X)
        return self.store(X).to_csr(X.dtype)

    def _require_memory(self, X: Rows) -> None:
        """For what `map_rows` holds at once: a copy of the rows, ids, columns and
        their parts, values and weights.
        """
        P = len(self.values_)
        n_rows, n_columns = X.shape
        row = P * (4 + 4 + 8 + 1 + 2 * X.dtype.itemsize)
        if not sp.issparse(X):
            row += n_columns * X.dtype.itemsize
        require_memory(
            n_rows * row, f"Binning {n_rows:,} rows by {P:,} grids", self.remedy
        )

    def dot(self, X: Rows, coef: NDArray) -> NDArray:
        """Features of the rows times coefficients of shape (D, K); of dense rows the
        bins are never held.
        """
        from bochner.loops import bins

        grids = self.grids()
        lookups = self.lookups()
        require_length(coef, self.n_features_out)
        sums = np.zeros((X.shape[0], coef.shape[1]))
        if sp.issparse(X) or lookups.n_buckets or grids.is_smooth:
            # The bins of a block of rows are held at a time
            V = np.ascontiguousarray(coef.T)
            for rows in tiles(0, X.shape[0], DOT_ROWS):
                sums[rows] += self.store(X[rows]).forward(V).T
            return sums.astype(coef.dtype)
        X = np.ascontiguousarray(X)
        V = np.ascontiguousarray(coef)

        def add(start: int, stop: int) -> None:
            for rows in tiles(start, stop, lookups.tile_rows):
                columns = by_columns(X[rows])
                bins.add_coefficients(
                    *columns, grids.lattices, lookups.tables, V, sums[rows]
                )

        if len(X) <= FEWEST_ROWS:
            bins.add_few(X, *grids.of_few, lookups.tables, V, sums)
        else:
            for_rows(add, len(X))
        return sums.astype(coef.dtype)


# Of a grid: its bins meet by chance with a probability of less than a percent
FEWEST_BUCKETS = 128
CURES = (
    "fit all rows at once, with fit(source), or use n_buckets={buckets} and at "
    "most {grids:,} grids"
)
ROWS = 512  # that are made dense at a time


def hashed(features: FeatureMap, most_columns: int) -> FeatureMap:
    """Return a map of bins, not drawn, with its bins in buckets, of at most
    `most_columns` columns.

    A map that has buckets stays as it is. Another one keeps its grids where each gets
    128 buckets at least, and fewer otherwise; they share the columns.

    Parameters
    ----------
    features : BinningFeatures, or MetricFeatures of such
        Not changed.
    most_columns : int

    Raises
    ------
    ValueError
        Where the buckets that the map has are more, or it is no such map; the message
        names what can be done.
    """
    if isinstance(features, MetricFeatures):
        return MetricFeatures(features.metric, hashed(features.features, most_columns))
    if isinstance(features, BinningFeatures) and features.n_buckets is None:
        n_grids = max(min(features.n_grids, most_columns // FEWEST_BUCKETS), 1)
        return clone(features).set_params(
            n_grids=n_grids, n_buckets=most_columns // n_grids
        )
    require_hashed(features, most_columns)
    return clone(features)


def require_hashed(features: FeatureMap, most_columns: int) -> None:
    """Raise ValueError, which names the cures, where a map, drawn or not, is none of
    bins in so few buckets.
    """
    inner = without_metrics(features)
    name = type(inner).__name__
    cures = CURES.format(buckets=FEWEST_BUCKETS, grids=most_columns // FEWEST_BUCKETS)
    if not isinstance(inner, BinningFeatures):
        raise ValueError(f"{name} are not hashed bins: {cures}.")
    if inner.n_buckets is None:
        raise ValueError(f"The bins of {name} depend on all rows: {cures}.")
    if inner.n_grids * inner.n_buckets > most_columns:
        raise ValueError(
            f"{inner.n_grids:,} grids of {inner.n_buckets:,} buckets are more than "
            f"{most_columns:,} columns, whose moments would not fit in memory: {cures}."
        )


def hashed_bins(features: FeatureMap) -> BinningFeatures | None:
    """The drawn grids of a map of hashed bins; None of any other map."""
    inner = without_metrics(features)
    return inner if isinstance(inner, BinningFeatures) and inner.has_buckets else None


class DenseBins(DenseFeatures):
    """Hashed bins as dense rows, zeros and all: for few rows, of which most solvers ask
    for nothing else.
    """

    def __init__(self, features: FeatureMap) -> None:
        self.features = features

    @property
    def n_features_out(self) -> int:
        return self.features.n_features_out

    def write(self, X: Rows, out: NDArray) -> None:
        out[:, : self.n_features_out] = self.features.map_rows(X).toarray()

    def _tile_rows(self, dtype: np.dtype) -> int:
        return ROWS
