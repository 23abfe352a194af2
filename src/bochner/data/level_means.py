"""Mean targets of the categories of a column: numbers by which categories are near
where their targets are.

The mean of a category of weight n is drawn towards that of all rows, (n m + k M) / (n +
k), as if k more rows were M. For targets that spread by s about categories whose means
spread by t, k = s^2 / t^2 is best: both are estimated by the sums of squares of a
one-way analysis of variance (Searle, Casella and McCulloch, "Variance Components",
1992).

Means of the targets themselves would also tell what the rows of a category happen to
have in other columns. So what these explain is taken off first: linearly, by the slopes
within categories, which differences between categories do not move (Mundlak, "On the
Pooling of Time Series and Cross Section Data", Econometrica 1978).

A row must not tell its own mean. So rows that the means are learned from have folds, by
their content, so that copies share one, and get means of the other folds
(cross-fitting, as in Micci-Barreca, 2001, and scikit-learn's `TargetEncoder`); all
other rows get those of all folds.

A row whose category comes in no other fold gets the mean of the categories, as a row of
an unknown category does. The share of such rows estimates the share of new rows that
will have unknown categories (Good, "The Population Frequencies of Species and the
Estimation of Population Parameters", Biometrika 1953), so what is learned from the rows
knows how little a nearly unique name tells. Where they are more than a few, a flag
tells them from rows of categories that are near that mean: what the other columns say
of an unknown category is another function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from bochner.arrays import Floats, n_distinct
from bochner.blocks import TILE_ROWS
from bochner.data.hashes import text_digests
from bochner.data.weights import group_means, group_sums
from bochner.engines.algebra import cholesky, gram, product, solve_cholesky
from bochner.engines.local import tiles

# Of the rows, that are not the first of their category: with fewer a column is one of
# identifiers, whose means tell nothing
LEAST_RECURRING = 0.1
# Of the targets, along which the means of categories vary most
MOST_DIRECTIONS, MOST_OUTPUTS = 3, 64
# Rows within categories for each of the other columns, from which on their slopes are
# taken off, and most of these columns, whose products of pairs take long
ROWS_A_SLOPE, MOST_OTHERS = 10, 400
# Times as many rows as the mean of all is worth, from which a category's own mean is
# near its truth
COMMON = 20
NEGLIGIBLE = 1e-9  # variance of means along a direction, over that of the first
# Of the rows, that must have unknown categories, and known ones, for a flag of them
FLAGGED_SHARE = 0.1
KEY_BYTES = 8
# Rows of each number that may be a code, at least; and the most codes that have columns
# of their own, with other numbers between them: more codes are text
ROWS_A_CODE, MOST_CODES = 2, 100
# Standard deviations of chance, and share of the differences between codes, that must
# be left unexplained
CLEAR, LEFT = 5.0, 0.3
# Share of the latter, that goes from each code to the next, at least; and by how much
# that of many numbers may fall short of all, times the root of their number
ROUGH, NEARLY_ALL = 0.6, 6.0
# Degree of the polynomial of the numbers that must not explain the means of codes
CUBIC = 3
ON_A_CUBIC = 4  # numbers that have one through all their means
MISSING = np.uint64(0)
# Standard errors by which mean targets of levels must differ to be more than chance
DIFFERENT = 2.0


@dataclass(frozen=True)
class LevelMeans:
    """Mean targets of the categories of a column, of unit spread over the rows.

    Attributes
    ----------
    keys : uint64 array of shape (L,)
        Hashes of the categories, ascending; files so hold no text of the table.
    values : array of shape (F, L + 1, T) or (F, L + 1, T + 1)
        Means without the rows of each fold, or of all rows where F = 1. The last are
        those of unknown categories: the mean of all others, by their rows. A last
        number, if there is one, is 1 for unknown categories and 0 for others.
    directions : array of shape (K, T)
        Combinations of the targets.
    """

    keys: NDArray[np.uint64]
    values: Floats
    directions: Floats

    @property
    def flags_unknown(self) -> bool:
        """Whether the last number tells unknown categories."""
        return self.values.shape[2] > self.directions.shape[1]

    def of(self, codes: NDArray, labels: Sequence[str], fold: Any = 0) -> Floats:
        """Means for rows of some categories, -1 being missing, and folds; shape (n,
        T), or (n, T + 1) with a flag.
        """
        keys = np.append(level_keys(labels), MISSING)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        place = np.where(self.keys[place] == keys, place, len(self.keys))
        return self.values[np.minimum(fold, len(self.values) - 1), place[codes]]


def level_keys(labels: Sequence[str]) -> NDArray[np.uint64]:
    """Hashes of levels of text."""
    digests = text_digests(list(labels), KEY_BYTES)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def level_means(
    codes: NDArray,
    labels: Sequence[str],
    fold: NDArray,
    y: NDArray,
    weight: NDArray,
    former: LevelMeans | None = None,
    others: NDArray | None = None,
) -> tuple[LevelMeans, LevelMeans] | None:
    """Learn the means; those for other rows, and those for these. None where they tell
    nothing.

    Parameters
    ----------
    codes : int array of shape (n,)
        Of `labels`; -1 is missing.
    fold : int array of shape (n,)
        0, ..., F - 1.
    y : array of shape (n, K)
    weight : array of shape (n,)
        In distinct rows.
    former : LevelMeans, optional
        Of a fit, whose combinations of the targets, and flag, are taken.
    others : array of shape (n, d), optional
        Other columns, encoded, which explain a part of the targets.
    """
    used, place = np.unique(codes, return_inverse=True)
    L = len(used)
    F = fold.max() + 1
    total = weight.sum()
    are_identifiers = total - L < LEAST_RECURRING * total
    if former is None and (are_identifiers or y.shape[1] > MOST_OUTPUTS):
        return None
    if others is not None:
        y = without_others(place, others, y, weight)
    y = _centred(y, weight)
    if former is not None:
        directions = former.directions
    else:
        # Those along which the means of categories vary most, means of unit spread
        n, means = group_means(place, y, weight)
        moments = means.T @ (n[:, np.newaxis] * means) / n.sum()
        variances, vectors = np.linalg.eigh(moments)
        leading = np.flatnonzero(variances > NEGLIGIBLE * variances[-1])
        leading = leading[::-1][:MOST_DIRECTIONS]
        vectors = vectors[:, leading]
        largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(len(leading))]
        directions = vectors * np.sign(largest) / np.sqrt(variances[leading])
    aims = y @ directions
    n, _, between, within = variance_components(place, aims, weight)
    varies = between > 0
    if not varies.any():
        return None
    more = np.where(varies, within, 1.0) / np.where(varies, between, 1.0)
    # Sums of each level over the rows of each fold, all rows, and the other folds
    cells = fold * L + place
    n = n[:, np.newaxis]
    n_of_fold = np.bincount(cells, weight, F * L).reshape(F, L, 1)
    elsewhere = n - n_of_fold
    sums = group_sums(cells, aims, weight, F * L).reshape(F, L, -1)
    sum_all = sums.sum(axis=0)
    least = np.finfo(float).tiny
    without = (sum_all - sums) / np.maximum(elsewhere + more, least) * varies
    whole = sum_all / np.maximum(n + more, least) * varies
    average = n.T @ whole / total
    whole = np.where(n > 0, whole, average)[np.newaxis]
    without = np.where(n > COMMON * more, without[:1], without)
    without = np.where(elsewhere > 0, without, average)
    unknown_share = n_of_fold[elsewhere <= 0].sum() / total
    is_flagged = FLAGGED_SHARE <= unknown_share <= 1 - FLAGGED_SHARE
    if is_flagged if former is None else former.flags_unknown:
        whole = np.append(whole, n[np.newaxis] <= 0, axis=2)
        without = np.append(without, elsewhere <= 0, axis=2)
        average = np.append(average, [[1.0]], axis=1)
    keys = np.append(level_keys(labels), MISSING)[used]
    order = np.argsort(keys)
    for_others, for_these = (
        LevelMeans(
            keys[order],
            np.append(values[:, order], np.tile(average, (len(values), 1, 1)), axis=1),
            directions,
        )
        for values in (whole, without)
    )
    return for_others, for_these


def without_others(place: NDArray, Z: NDArray, y: NDArray, weight: NDArray) -> NDArray:
    """Targets without what other columns explain of them linearly within the
    categories; as they are where rows are few for that, or columns many.

    Parameters
    ----------
    place : int array of shape (n,)
        Categories 0, ..., L - 1, each of some row.
    Z : array of shape (n, d)
        Encoded columns; those that are constant within categories explain nothing.
    y : array of shape (n, K)
    weight : array of shape (n,)
        In distinct rows.
    """
    d = Z.shape[1]
    enough = weight.sum() - (place.max() + 1) >= ROWS_A_SLOPE * d
    if not (enough and 0 < d <= MOST_OTHERS):
        return y
    root = np.sqrt(weight)[:, np.newaxis]
    means, mean_targets = (group_means(place, values, weight)[1] for values in (Z, y))
    # A penalty of one row of unit spread
    moments = np.eye(d)
    explained = np.zeros((d, y.shape[1]))
    for part in tiles(0, len(y), TILE_ROWS):
        within = root[part] * (Z[part] - means[place[part]])
        moments += gram(within)
        aims = root[part] * (y[part] - mean_targets[place[part]])
        explained += product(within.T, aims)
    return y - product(Z, solve_cholesky(cholesky(moments), explained))


def _centred(y: NDArray, weight: NDArray) -> NDArray:
    """Targets of weighted mean zero."""
    return y - weight @ y / weight.sum()


def levels_differ(codes: NDArray, fold: NDArray, y: NDArray, weight: NDArray) -> bool:
    """Whether mean targets of levels differ by more than chance.

    Each row's target is multiplied by the mean target of the rows of its level in
    other folds, and the products are added. Where levels say nothing, the sum has mean
    zero, and its variance follows from that of the targets, whatever their
    distribution; it must be two standard errors above zero. Levels of a single row
    count as one level, and missing values are left out.

    Parameters
    ----------
    codes : int array of shape (n,)
        Of levels; -1 is missing.
    fold : int array of shape (n,)
        0, ..., F - 1; copies of a row have one fold.
    y : array of shape (n, K)
    weight : array of shape (n,)
        In distinct rows.
    """
    counted = (codes >= 0) & (weight > 0)
    if not counted.any():
        return False
    codes, fold, y, weight = (array[counted] for array in (codes, fold, y, weight))
    _, place, n_rows = np.unique(codes, return_inverse=True, return_counts=True)
    place = np.where(n_rows[place] > 1, place, len(n_rows))
    y = _centred(y, weight)
    y = y[:, np.square(y).max(axis=0) > 0]
    covariance = y.T @ (weight[:, np.newaxis] * y) / weight.sum()
    variance = np.diagonal(covariance)
    n_folds = fold.max() + 1
    size = len(n_rows) + 1
    columns = np.column_stack([weight, np.square(weight), weight[:, np.newaxis] * y])
    sums = group_sums(fold * size + place, columns, 1.0, n_folds * size)
    sums = sums.reshape(n_folds, size, -1)
    whole = sums.sum(axis=0)
    # Products of rows in two folds: all of a level without those within each fold
    across = np.square(whole) - np.square(sums).sum(axis=0)
    level_weight = np.where(whole[:, :1] > 0, whole[:, :1], 1.0)
    total = (across[:, 2:] / level_weight / variance).sum()
    correlations = (np.square(covariance) / np.outer(variance, variance)).sum()
    chance = 2 * correlations * (across[:, 1:2] / np.square(level_weight)).sum()
    return bool(total > DIFFERENT * np.sqrt(chance) > 0)


def level_variances(codes: NDArray, y: NDArray, weight: NDArray) -> Floats:
    """Variances of the mean target of a further level about that of all, (K,), without
    what the spread within levels adds: 0 where it is all.

    The variance between levels is the estimate of a one-way analysis of variance
    (Searle, Casella and McCulloch, 1992). Of few levels neither it nor their mean is
    known well: a further one has Student's distribution, whose variance is larger.

    Parameters
    ----------
    codes : int array of shape (n,)
        Of levels; -1 is missing.
    y : array of shape (n, K)
    weight : array of shape (n,)
        In distinct rows.
    """
    counted = (codes >= 0) & (weight > 0)
    _, place = np.unique(codes[counted], return_inverse=True)
    y, weight = y[counted], weight[counted]
    n_levels, total = place.max(initial=-1) + 1, weight.sum()
    if n_levels < 2 or total <= n_levels:
        return np.zeros(y.shape[1])
    y = _centred(y, weight)
    _, _, between, _ = variance_components(place, y, weight)
    between = np.maximum(between, 0.0)
    return between * (1 + 1 / n_levels) * (n_levels - 1) / max(n_levels - 3, 1)


def variance_components(
    place: NDArray, y: NDArray, weight: NDArray
) -> tuple[NDArray, NDArray, Floats, Floats]:
    """Analysis of variance of one way: weights of levels, (L,), means of targets over
    their rows, (L, K), and the variances between and within levels, (K,), of which
    chance may make the former negative.

    Parameters
    ----------
    place : int array of shape (n,)
        Levels 0, ..., L - 1.
    y : array of shape (n, K)
        Of mean zero.
    weight : array of shape (n,)
        In distinct rows.
    """
    n, means = group_means(place, y, weight)
    total = n.sum()
    explained = n @ np.square(means)
    within = (weight @ np.square(y) - explained) / max(total - len(n), 1.0)
    between = explained - (len(n) - 1) * within
    return n, means, between / (total - np.square(n).sum() / total), within


def are_codes(tests: Sequence[Floats]) -> bool:
    """Whether integers are codes of categories, whose mean targets follow neither their
    order nor a smooth curve.

    More must be left than by chance, and much of the differences between numbers, on no
    smooth curve. Three or four numbers lie on a cubic always. Where several columns
    have the same numbers, as the fields of a board have, polynomials of a lower degree
    are compared with these.

    Parameters
    ----------
    tests : sequence of arrays of shape (6,)
        As of `order_test`, of columns that have the same numbers.
    """
    unexplained, between, jumps, chance, variance, n_numbers = np.sum(tests, axis=0)
    deviation = np.sqrt(variance)
    differences = between - chance
    # Many numbers in no order have nearly all of the differences from each to the next
    rough = max(ROUGH, 1 - NEARLY_ALL / np.sqrt(n_numbers / len(tests)))
    return bool(
        unexplained - chance > max(CLEAR * deviation, LEFT * differences)
        and jumps - chance - 2 * deviation > rough * differences > 0
        and n_numbers > ON_A_CUBIC
    )


def may_be_codes(values: NDArray, weight: NDArray) -> bool:
    """Whether the numbers of a column with NaN, of rows with weights in distinct rows,
    are integers that come again and again, and three or more.
    """
    present = values[~np.isnan(values) & (weight > 0)]
    if (present != np.round(present)).any():
        return False
    return 3 <= n_distinct(present) <= weight.sum() / ROWS_A_CODE


def order_test(values: NDArray, y: NDArray, weight: NDArray) -> Floats:
    """What the order of the numbers of a column explains of their mean targets.

    Parameters
    ----------
    values : float64 array of shape (n,)
        NaN where one is missing.
    y : array of shape (n, K)
    weight : array of shape (n,)
        In distinct rows.

    Returns
    -------
    array of shape (6,)
        In units of the variance within: the sum of squares between the numbers that
        neither the best monotone function (Barlow, Bartholomew, Bremner and Brunk,
        "Statistical Inference under Order Restrictions", 1972) nor the best cubic
        explains; that between them; and that from each number to the next, which is as
        much where the numbers are in no order, and little where the means follow a
        smooth curve, such as those of the hours of a day. What chance would leave of
        the first, on average, and its variance. How many numbers there are.
    """
    is_counted = ~np.isnan(values) & (weight > 0)
    used, place = np.unique(values[is_counted], return_inverse=True)
    L = len(used)
    weight = weight[is_counted]
    y = _centred(y[is_counted], weight)
    y = y[:, np.square(y).max(axis=0) > 0]
    if L < 3 or not y.shape[1]:
        return np.zeros(6)
    n, means = group_means(place, y, weight)
    between = n @ np.square(means)
    residuals = y - means[place]
    within = residuals.T @ (weight[:, np.newaxis] * residuals)
    within /= max(n.sum() - L, 1.0)
    # One unit for all targets: that of a class of few rows may be next to nothing
    unit = max(np.trace(within) / len(within), NEGLIGIBLE * between.mean())
    ordered = [
        max(
            n @ np.square(isotonic_regression(vector, weights=n, increasing=up).x)
            for up in (True, False)
        )
        for vector in means.T
    ]
    degree = min(CUBIC, L - 2)
    # The sum of squares of the best polynomials of the numbers
    root = np.sqrt(n)[:, np.newaxis]
    centred = (used - used.mean()) / np.ptp(used)
    basis, _ = np.linalg.qr(root * np.vander(centred, degree + 1))
    smooth = np.square(basis.T @ (root * means)).sum(axis=0)
    unexplained = between - np.maximum(ordered, smooth)
    pairs = n[1:] * n[:-1] / (n[1:] + n[:-1])
    steps = pairs @ np.square(np.diff(means, axis=0))
    sums = [part.sum() / unit for part in (unexplained, between, steps)]
    # By chance each is a combination of chi-squared variables
    dof = L - 1 - degree
    chance = dof * np.trace(within) / unit
    variance = 2 * dof * np.square(within / unit).sum()
    return np.array([*sums, chance, variance, L])
