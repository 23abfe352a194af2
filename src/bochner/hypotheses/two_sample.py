"""Whether two samples are of one distribution."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from bochner.data.array_source import Source
from bochner.data.table import TableEncoder
from bochner.engines.algebra import gram
from bochner.engines.blas import single_threaded_blas
from bochner.engines.local import pause
from bochner.features.distances import median_distance
from bochner.features.fourier import FourierFeatures
from bochner.hypotheses.features import MEDIAN_ROWS, Axes, Member, draw_map, encoded_shares
from bochner.hypotheses.inputs import Table, common_encoder, open_table, shared_column
from bochner.hypotheses.result import SAME, HypothesisTest, combine
from bochner.kernels.base import check_count
from bochner.sources.rows import concat

MOST_GROUPS, FEWEST_GROUPS = 4096, 64  # of a sample
BLOCK_ROWS = 1 << 13
MEMBERS = (
    Member((1.0,), (1e-2, 2e-3), (0.4, 0.4)),
    Member((1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0), (1e-5,), (0.2,)),
)
PERMUTED = 128  # at a time


def two_sample_test(
    X: Any,
    Y: Any,
    *,
    n_permutations: int = 999,
    n_components: int = 400,
    standardize: bool | str = "auto",
    random_state: Any = None,
) -> HypothesisTest:
    """Test whether the rows of X and of Y come from the same distribution.

    With the mean features of the samples, d = mean z(X) - mean z(Y), and the covariance C = sum lam_i v_i v_i' of the
    features of all n + m rows, each member of the test is

        T = n m / (n + m) sum_i (v_i'd)^2 / (lam_i + g),

    for one ridge penalty g and one width of the kernel, or several together: the maximum mean discrepancy (Gretton et
    al., 2012) in random features, with each direction divided by its standard deviation, which gives power against
    fine-scale differences (Hagrass, Sriperumbudur and Li, 2024; Mukherjee and Sriperumbudur, 2025). There are three
    members. Two have the median distance as width, with g = .01 and .002 and two fifths of the level each. One has
    widths from a sixteenth of it to all of it, with g = .00001 and one fifth of the level.

    For permuted rows d is a product of signs and features, (B x N)(N x D). The p-value is the rank of the evidence of
    all members together among its permuted values. It is exact for any number of rows, columns and features: if both
    samples come from one distribution and rows are independent, p <= a has probability a at most. With more than 4,096
    rows, groups of equal size are permuted, not single rows. This is exact as well (Domingo-Enrich, Dwivedi and
    Mackey, 2025), and files are read in two passes: one for the columns, one for features.

    Parameters
    ----------
    X, Y : array or sparse matrix of shape (n, d) and (m, d), data frame, or what `open_source` opens
        With the same columns, of numbers, text, categories and dates, with missing values. Paths, folders
        and other sources are read in passes if they are large. 4 rows each, or more.
    n_permutations : int, default=999
        Permutations B; the least p-value is 1 / (B + 1).
    n_components : int, default=400
        Features D of each of the two maps: that of the median distance and that of several widths. An even number.
    standardize : {"auto", True, False}, default="auto"
        Whether to scale columns of numbers to unit variance over both samples together. "auto" does so unless there
        are many columns that share a unit, as pixels and counts do.
    random_state : int, RandomState or None, default=None
        Seed of the features and the permutations.

    Returns
    -------
    HypothesisTest

    Raises
    ------
    ValueError
        If columns differ in number, names or kinds; for fewer than 4 rows; for infinite values, and NaN in an array.
    TypeError, ValueError
        If a parameter is of the wrong type or out of range.

    Notes
    -----
    Rows must be independent: repeated measurements of a person, or a time series, are not, and make p too small.
    Fixed features cannot detect every difference: distributions that differ only in frequencies that were not drawn
    look alike. The number of features that is needed grows with detail and columns (Choi and Kim, 2024).
    With several thousand rows p is small even for irrelevant differences: look at the `effect_size`.

    References
    ----------
    Gretton, Borgwardt, Rasch, Schoelkopf and Smola, "A Kernel Two-Sample Test", JMLR 2012, equation 5. Hagrass,
    Sriperumbudur and Li, "Spectral Regularized Kernel Two-Sample Tests", Annals of Statistics 2024. Mukherjee and
    Sriperumbudur, "Minimax Optimal Kernel Two-Sample Tests with Random Features", arXiv:2502.20755. Choi and Kim,
    "Computational-Statistical Trade-off in Kernel Two-Sample Testing with Random Fourier Features",
    arXiv:2407.08976. Domingo-Enrich, Dwivedi and Mackey, "Cheap Permutation Testing", arXiv:2502.07672.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import two_sample_test
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.standard_normal((300, 3)), rng.standard_normal((200, 3)) * [1, 1, 2]
    >>> found = two_sample_test(X, Y, random_state=0)
    >>> found.p_value
    0.001
    >>> found.top_columns(1)[0][0]
    'x2'
    """
    check_count(n_permutations, "n_permutations", least=19)
    check_count(n_components, "n_components", least=2)
    seed = int(check_random_state(random_state).randint(2**31))
    rng = np.random.default_rng(seed)
    column = shared_column(X, Y)
    A, B = open_table(X, "X", seed, column), open_table(Y, "Y", seed + 1, column)
    encoder = common_encoder(A, B, standardize)
    sample = _pooled_sample(A, B, encoder, rng)
    unit = median_distance(sample)
    maps = [draw_map(sample, one.widths, unit, 2 * (n_components // 2), seed + k) for k, one in enumerate(MEMBERS)]
    with single_threaded_blas():
        sums = group_sums(A.source(encoder), B.source(encoder), (A.n_rows, B.n_rows), maps, sample)
        axes = [Axes.of(covariance) for covariance in sums.covariances]
        values = _values(sums, axes, n_permutations, rng)
        found = combine(values, np.concatenate([member.shares for member in MEMBERS]))
        shares = _shares(sums, axes, maps, found.best, sample, encoder)
    names = list(chain.from_iterable(member.labels for member in MEMBERS))
    return HypothesisTest(
        SAME,
        found.statistic,
        found.p_value,
        _effect_size(sums),
        found.null,
        names[found.best],
        tuple(A.names),
        A.shares(encoder, shares),
        (A.n_rows, B.n_rows),
        "permutation",
        A.encoded_names(encoder),
        shares,
    )


def _pooled_sample(A: Table, B: Table, encoder: TableEncoder, rng: np.random.Generator) -> Any:
    """Rows drawn from both tables as one, encoded: as many of each as chance has it, in any order."""
    n_first = int(rng.hypergeometric(A.n_rows, B.n_rows, min(MEDIAN_ROWS, A.n_rows + B.n_rows)))
    wanted = min(MEDIAN_ROWS, A.n_rows + B.n_rows) - n_first
    parts = [table.sampled(encoder, size, rng) for table, size in ((A, n_first), (B, wanted)) if size]
    return concat(parts)


def _values(sums: GroupSums, axes: list[Axes], n_permutations: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """All members of the test, of the rows as they are and permuted, shape (B + 1, M)."""
    n, m = sums.n_rows
    weights = [1 / (own.variances[:, np.newaxis] + member.ridges) for own, member in zip(axes, MEMBERS, strict=True)]
    order, values = np.arange(len(sums.groups)), []
    for first in range(0, n_permutations + 1, PERMUTED):
        rows = min(PERMUTED, n_permutations + 1 - first)
        orders = rng.permuted(np.tile(order, (rows, 1)), axis=1)
        if not first:
            orders[0] = order
        differences = np.where(orders < sums.n_first, 1 / n, -1 / m) @ sums.groups + sums.rest
        parts = [differences[:, part] for part in sums.columns]
        own = [np.square(part @ one.vectors) @ w for part, one, w in zip(parts, axes, weights, strict=True)]
        values.append(np.hstack(own) * (n * m / (n + m)))
    return np.concatenate(values)


def _effect_size(sums: GroupSums) -> float:
    """The share of the variance of the first map's features between the samples, less what chance makes of it."""
    n, m = sums.n_rows
    between = n * m / (n + m) * float(np.sum(sums.difference[sums.columns[0]] ** 2))
    total = (n + m) * float(np.trace(sums.covariances[0]))
    chance = 1 / (n + m - 1)
    return (between / total - chance) / (1 - chance) if total > 0 else 0.0


def _shares(
    sums: GroupSums,
    axes: list[Axes],
    maps: list[FourierFeatures],
    best: int,
    sample: Any,
    encoder: TableEncoder,
) -> NDArray[np.float64]:
    """Contribution of each encoded column to the difference, by the member with the most evidence."""
    k, ridge = [(k, ridge) for k, member in enumerate(MEMBERS) for ridge in member.ridges][best]
    V, variances = axes[k].vectors, axes[k].variances
    coef = V @ ((V.T @ sums.difference[sums.columns[k]]) / (variances + ridge))
    return encoded_shares(maps[k], sample, coef, encoder)


@dataclass(frozen=True)
class GroupSums:
    """Sums of two samples, through several maps side by side.

    Attributes
    ----------
    n_rows : tuple of int
        Of the samples, n and m.
    groups : array of shape (G, D)
        Sums of the features of groups of as many rows each, those of the first sample first.
    n_first : int
        Groups of the first sample.
    rest : array of shape (D,)
        What the rows that are in no group add to the difference of the means, however the groups are permuted.
    difference : array of shape (D,)
        Of the mean features of the samples.
    covariances : list of array of shape (D_k, D_k)
        Of the features of each map, of both samples together.
    columns : list of slice
        Columns of each map.
    """

    n_rows: tuple[int, int]
    groups: NDArray[np.float64]
    n_first: int
    rest: NDArray[np.float64]
    difference: NDArray[np.float64]
    covariances: list[NDArray[np.float64]]
    columns: list[slice]


def group_sums(X: Source, Y: Source, n_rows: tuple[int, int], maps: list[FourierFeatures], sample: Any) -> GroupSums:
    """Read both samples once.

    Parameters
    ----------
    X, Y : Source
    n_rows : tuple of int
    maps : list of FourierFeatures
    sample : array or CSR matrix of some rows
        Their mean features are taken from all, and change nothing but rounding.
    """
    n, m = n_rows
    size = max(1, min(-(-(n + m) // MOST_GROUPS), min(n, m) // FEWEST_GROUPS))
    totals = _Totals(maps, [features.rows(sample).mean(axis=0) for features in maps], size)
    first, sum_first = totals.read(X, min(n // size, MOST_GROUPS))
    second, sum_second = totals.read(Y, min(m // size, MOST_GROUPS))
    difference = sum_first / n - sum_second / m
    rest = difference - first.sum(axis=0) / n + second.sum(axis=0) / m
    mean = (sum_first + sum_second) / (n + m)
    columns = totals.columns
    covariances = [
        found / (n + m) - np.outer(mean[part], mean[part]) for found, part in zip(totals.grams, columns, strict=True)
    ]
    return GroupSums(n_rows, np.concatenate([first, second]), len(first), rest, difference, covariances, columns)


class _Totals:
    """Adds blocks of rows."""

    def __init__(self, maps: list[FourierFeatures], centres: list[NDArray], size: int) -> None:
        self.maps, self.centres, self.size = maps, centres, size
        edges = np.cumsum([0, *(features.n_features_out for features in maps)]).tolist()
        self.columns = [slice(*pair) for pair in pairwise(edges)]
        self.grams = [np.zeros((b - a, b - a)) for a, b in pairwise(edges)]
        self.n_columns = edges[-1]

    def read(self, source: Source, n_groups: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sums of so many groups of a sample, shape (n_groups, D), and of all of its rows, shape (D,)."""
        groups, total, done = np.zeros((n_groups, self.n_columns)), np.zeros(self.n_columns), 0
        for rows, _, _ in source.blocks(BLOCK_ROWS):
            pause()
            numbers = np.minimum(np.arange(done, done + rows.shape[0]) // self.size, n_groups)
            starts = np.flatnonzero(np.diff(numbers, prepend=-1))
            for features, centre, found, part in zip(self.maps, self.centres, self.grams, self.columns, strict=True):
                Z = features.rows(rows)
                Z -= centre
                found += gram(Z, np.empty(found.shape, Z.dtype))
                sums = np.add.reduceat(Z, starts, axis=0, dtype=np.float64)
                total[part] += sums.sum(axis=0)
                kept = numbers[starts] < n_groups
                groups[numbers[starts][kept], part] += sums[kept]
            done += rows.shape[0]
        return groups, total
