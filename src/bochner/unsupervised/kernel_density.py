"""Kernel density of one to three columns, on a grid: linear binning, a Gaussian filter, linear interpolation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product as choices
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bochner.data.table_input import as_dense, as_table_or_matrix, is_frame, require_finite
from bochner.devices.conversion import any_arrays
from bochner.inputs.training import TrainingSet
from bochner.sources.rowwise import rowwise
from bochner.unsupervised.base import RowModel

MOST_POINTS = 1 << 24
STEPS = 4.0, 3.0, 2.0  # grid points in a bandwidth: the first that the grid's size allows
REACH = 8  # bandwidths from a row beyond which its kernel is zero
MOST_COLUMNS = 3
RULES = "auto", "scott", "silverman"
MULTIPLES = 2.0 ** np.arange(1, -4.25, -0.25)  # of Scott's bandwidth, tried on rows that are held out
VALIDATED_ROWS = 20000  # of the sample, halves of which validate each other
VALIDATED_POINTS = 1 << 21  # of a grid by which they are validated


class KernelDensity(RowModel):
    """Estimate the density of one to three columns by a sum of Gaussian kernels, in one pass and by a grid.

    Each row is shared among the corners of its cell of a grid. The step of the grid is a quarter of the bandwidth h, or
    a third or half of it if the grid would be too large. The grid is smoothed by a Gaussian, column by column, and read
    between its points by linear interpolation. Sharing and reading each widen the kernel by step² / 6; the smoothing
    Gaussian is narrowed to compensate. The estimate equals that of the Gaussian kernel up to (step / h)^4. It is a
    density itself and never negative. The cost for each row does not depend on the number of rows.

    In higher dimensions a kernel estimate mostly reflects the kernel and not the data. Use `NoveltyDetector` there.

    Parameters
    ----------
    bandwidth : {"auto", "scott", "silverman"}, float or sequence of float, default="auto"
        Standard deviation of the kernel, in the unit of each column. "scott" and "silverman" make it proportional to
        the standard deviation of each column; "auto" takes the multiple of Scott's that gives held-out rows the highest
        likelihood.
    random_state : int, RandomState or None, default=None
        Seed of the sample and of the held-out rows.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    bandwidth_ : array of shape (d,)
    factor_ : float
        Bandwidth over standard deviation; NaN if bandwidths were given.
    grid_ : DensityGrid
    encoder_ : TableEncoder
    n_features_in_ : int

    Raises
    ------
    ValueError
        For more than three columns, columns that are not numbers or have missing values, and bandwidths so small
        compared with the range of the rows that the grid would have more than 2^24 points.

    References
    ----------
    Silverman, "Density Estimation for Statistics and Data Analysis", 1986, section 3.5. Wand, "Fast Computation of
    Multivariate Kernel Estimators", 1994 (linear binning).

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import KernelDensity
    >>> x = np.random.default_rng(0).standard_normal((100_000, 1))
    >>> density = KernelDensity(random_state=0).fit(x)
    >>> bool(np.allclose(np.exp(density.score_samples([[0.0], [1.0]])), [0.399, 0.242], atol=0.01))
    True
    """

    learned = "grid_"
    standardize = False  # bandwidths are in the units of the columns

    def __init__(
        self, bandwidth: str | float | Sequence[float] = "auto", *, random_state: Any = None, verbose: int = 0
    ) -> None:
        self.bandwidth = bandwidth
        self.random_state = random_state
        self.verbose = verbose

    @any_arrays
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelDensity:
        """Sum the kernels.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), d at most 3, or what `open_source` opens
        y : ignored
        sample_weight : array of shape (n,), or str, optional
            A weight of w counts as w equal rows; a name is that of a column.

        Returns
        -------
        self
        """
        given = self._checked_bandwidth()
        self._begin()
        seed = self._seed()
        rows = self._open(as_dense(X), sample_weight, seed, np.float64)
        self._check_columns()
        if isinstance(given, str):
            self.factor_ = self._factor(given, rows, np.random.default_rng(seed))
            self.bandwidth_ = self.factor_ * self._deviations()
        else:
            if len(given) not in (1, self.n_features_in_):
                raise ValueError(f"bandwidth must be one number, or {self.n_features_in_}, got {len(given)}.")
            self.factor_, self.bandwidth_ = float("nan"), np.broadcast_to(given, self.n_features_in_).copy()
        empty = grid_of(*self._range(), self.bandwidth_)
        self.grid_ = empty.filled((X, weight) for X, _, weight in rows.source.blocks(1 << 16))
        return self

    def _checked_bandwidth(self) -> str | NDArray[np.float64]:
        given = self.bandwidth
        if isinstance(given, str):
            if given not in RULES:
                raise ValueError(f"bandwidth must be one of {RULES}, a number or one for each column, got {given!r}.")
            return given
        own = np.atleast_1d(np.asarray(given, np.float64))
        if own.ndim > 1 or not (np.isfinite(own) & (own > 0)).all():
            raise ValueError(f"bandwidth must be positive, got {given!r}.")
        return own

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags

    def _check_columns(self) -> None:
        """Refuse what has no density by kernels."""
        statistic = self.encoder_.statistic_
        names = self.encoder_.get_feature_names_out()
        if set(statistic.kinds) != {"number"} or statistic.missing.any():
            own, missing = statistic.names or names, np.broadcast_to(statistic.missing, len(statistic.kinds))
            wrong = [own[k] for k, kind in enumerate(statistic.kinds) if kind != "number" or missing[k]]
            raise ValueError(
                "KernelDensity needs columns of numbers without missing values (NaN), and there are others, "
                f"{', '.join(map(repr, wrong[:20]))}: drop or impute them, or use NoveltyDetector, which needs no "
                "density."
            )
        if len(names) > MOST_COLUMNS:
            raise ValueError(
                f"KernelDensity takes at most {MOST_COLUMNS} columns, and X has {len(names)}, in which a sum of "
                "kernels says little about the density: use fewer columns, or NoveltyDetector, which needs no density."
            )
        if not isinstance(self.bandwidth, str):
            return
        low, high = self._range()
        if (low == high).any():
            column = names[int(np.argmax(low == high))]
            raise ValueError(f"Column {column} has one value only (as with 1 sample): give a bandwidth.")
        with np.errstate(over="ignore", invalid="ignore"):
            usable = np.isfinite(self._deviations()) & (self._deviations() > 0)
        if not usable.all():
            column = names[int(np.argmin(usable))]
            raise ValueError(f"The squares of column {column} are out of the range of numbers: change its unit.")

    def _range(self) -> tuple[NDArray, NDArray]:
        """Least and greatest encoded value of each column."""
        summary, (column,) = self.encoder_.statistic_.summary, self.encoder_.columns_
        return (summary.low - column.shift) / column.scale, (summary.high - column.shift) / column.scale

    def _deviations(self) -> NDArray[np.float64]:
        summary = self.encoder_.statistic_.summary
        return np.sqrt(summary.squares / summary.weight)

    def _factor(self, rule: str, rows: TrainingSet, rng: np.random.Generator) -> float:
        """Bandwidth over the standard deviations, by a rule."""
        sample, d = rows.sample, self.n_features_in_
        own = sample.weights[sample.weights > 0]
        n = rows.n_rows * float(own.mean() ** 2 / np.mean(own**2)) * len(own) / len(sample.weights)
        scott = n ** (-1 / (d + 4))
        if rule == "silverman":
            return float(scott * (4 / (d + 2)) ** (1 / (d + 4)))
        return float(scott if rule == "scott" else scott * self._best_multiple(rows, rng))

    def _best_multiple(self, rows: TrainingSet, rng: np.random.Generator) -> float:
        """The multiple of Scott's bandwidth under which one half of the sampled rows makes the other most likely."""
        X, _, weight = rows.sample.sample(VALIDATED_ROWS, rng).whole()
        half = rng.permutation(len(X)) % 2 == 0
        if min(weight[half].sum(), weight[~half].sum()) == 0:
            return 1.0
        scott = np.count_nonzero(half) ** (-1 / (X.shape[1] + 4)) * self._deviations()
        best, found = -np.inf, 1.0
        for multiple in MULTIPLES:
            try:
                empty = grid_of(*self._range(), multiple * scott, VALIDATED_POINTS)
            except ValueError:  # a grid that fine is not tried
                break
            grid = empty.filled([(X[half], weight[half])])
            likelihood = float(grid.log_density(X[~half]) @ weight[~half])
            if likelihood > best:
                best, found = likelihood, float(multiple)
        return found

    @rowwise("log_density")
    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Logarithm of the density at rows.

        Rows that are more than eight bandwidths from all training rows have the floor, the tail of one kernel there.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n, d), or what `open_source` opens

        Returns
        -------
        array of shape (n,)
        """
        X = as_table_or_matrix(as_dense(X))
        if not is_frame(X):
            require_finite(X, cure="Drop or impute such values: a row without them has no density.")
        return self._mapped(X, self.grid_.log_density, np.float64)

    @any_arrays
    def score(self, X: Any, y: Any = None) -> float:
        """Log-likelihood of the rows: the sum of `score_samples`."""
        return float(self.score_samples(X).sum())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> NDArray[np.float64]:
        """Draw rows from the estimate, shape (n_samples, d)."""
        check_is_fitted(self)
        (column,) = self.encoder_.columns_
        seed = check_random_state(random_state).randint(2**31)
        return self.grid_.draw(n_samples, np.random.default_rng(seed)) * column.scale + column.shift


@dataclass(frozen=True)
class DensityGrid:
    """Rows shared among the points of a grid.

    With steps s, sharing a row among the corners of its cell and reading a straight line between points both convolve
    with a hat, whose variance is s^2 / 6; between them the grid is convolved with a Gaussian of variance h^2 - s^2 / 3.
    The whole has the variance h^2, integrates to one, and has the Gaussian's fourth moment up to O(s^4).

    Attributes
    ----------
    low : array of shape (d,)
        The first point.
    step, bandwidth : arrays of shape (d,)
    shape : array of shape (d,), int64
    points : array of shape (m,), int64
        Numbers of the points that have rows.
    weights : array of shape (m,)
        Share of all rows at each.
    n_rows : float
        Sum of the rows' weights.
    """

    low: NDArray[np.float64]
    step: NDArray[np.float64]
    bandwidth: NDArray[np.float64]
    shape: NDArray[np.int64]
    points: NDArray[np.int64]
    weights: NDArray[np.float64]
    n_rows: float

    def filled(self, blocks: Iterable[tuple[NDArray, NDArray]]) -> DensityGrid:
        """The grid with rows, blocks of which are (X, weight)."""
        total, n_rows = np.zeros(int(np.prod(self.shape))), 0.0
        for X, weight in blocks:
            place = np.clip((X - self.low) / self.step, 0, self.shape - 1.000001)
            first = np.floor(place).astype(np.int64)
            rest = place - first
            for corner in choices((0, 1), repeat=len(self.shape)):
                share = np.prod(np.where(corner, rest, 1 - rest), axis=1)
                number = np.ravel_multi_index(tuple((first + corner).T), tuple(self.shape))
                total += np.bincount(number, share * weight, len(total))
            n_rows += float(weight.sum())
        points = np.flatnonzero(total)
        return replace(self, points=points, weights=total[points] / n_rows, n_rows=n_rows)

    def rows_between(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Least and greatest point of the grid that has rows, along each column."""
        place = np.array(np.unravel_index(self.points, tuple(self.shape)))
        return self.low + self.step * place.min(axis=1), self.low + self.step * place.max(axis=1)

    @property
    def spread(self) -> NDArray[np.float64]:
        """Standard deviation of the Gaussian on the grid, in the unit of each column."""
        return np.sqrt(self.bandwidth**2 - self.step**2 / 3)

    def __getstate__(self) -> dict[str, Any]:
        """The fields, without the table, which is computed again."""
        return {name: value for name, value in vars(self).items() if name != "table"}

    @cached_property
    def table(self) -> NDArray[np.float64]:
        """Densities at all points, of the grid's shape."""
        from scipy.ndimage import gaussian_filter1d

        found = np.zeros(int(np.prod(self.shape)))
        found[self.points] = self.weights / np.prod(self.step)
        found = found.reshape(self.shape)
        for axis, sigma in enumerate(self.spread / self.step):
            found = gaussian_filter1d(found, sigma, axis, mode="constant", truncate=REACH)
        return found

    @property
    def floor(self) -> float:
        """Least logarithm of a density: of one row as far as a kernel reaches."""
        constant = len(self.shape) * np.log(2 * np.pi) / 2 + np.log(self.bandwidth).sum()
        return float(-np.log(self.n_rows) - constant - REACH**2 / 2)

    def log_density(self, X: NDArray) -> NDArray[np.float64]:
        """Logarithms of the densities at rows, shape (n,)."""
        from scipy.ndimage import map_coordinates

        with np.errstate(over="ignore"):
            place = np.clip((X - self.low) / self.step, -1, self.shape)
        density = map_coordinates(self.table, place.T, order=1, mode="constant")
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(density), self.floor)

    def draw(self, n_samples: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Rows drawn from the density, shape (n_samples, d)."""
        points = self.points[rng.choice(len(self.points), n_samples, p=self.weights / self.weights.sum())]
        place = np.column_stack(np.unravel_index(points, tuple(self.shape)))
        hat = rng.triangular(-1, 0, 1, place.shape)
        return self.low + self.step * (place + hat) + self.spread * rng.standard_normal(place.shape)


def grid_of(low: NDArray, high: NDArray, bandwidth: NDArray, most: int = MOST_POINTS) -> DensityGrid:
    """An empty grid for rows between `low` and `high`, which reaches as far as their kernels.

    Raises
    ------
    ValueError
        Where it would have too many points.
    """
    for steps in STEPS:
        step, margin = bandwidth / steps, REACH * steps + 1
        sizes = (high - low) / step + 2 * margin + 2
        if np.prod(sizes) <= most:
            shape, none = sizes.astype(np.int64), np.empty(0)
            return DensityGrid(low - margin * step, step, bandwidth, shape, none.astype(np.int64), none, 0.0)
    raise ValueError(
        f"The bandwidth, {bandwidth.tolist()}, is small against the range of the rows, {(high - low).tolist()}: its "
        f"grid would have {np.prod(sizes):.1e} points and may have {most:,}. Use a larger bandwidth, clip far rows, "
        "or use fewer columns."
    )
