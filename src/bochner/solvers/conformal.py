"""Quantiles of scores of rows that a model has not seen, corrected for their number:
conformal prediction.

Let s_1, ..., s_m be scores of rows that calibrate, and s that of a new row, all m + 1
exchangeable. Then s is at most the ceil((m + 1) q)-th smallest of the s_i with a
probability of at least q, whatever the distribution, and of at most q + 1 / (m + 1)
where no two are equal (Vovk, Gammerman and Shafer, 2005; Lei et al., 2018, theorem
2.2). Of a low quantile the same holds from above, so that it is the floor((m + 1) q)-th
smallest.

References
----------
Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005. Lei, G'Sell,
Rinaldo, Tibshirani and Wasserman, "Distribution-Free Predictive Inference for
Regression", JASA 2018. Tibshirani, Barber, Candes and Ramdas, "Conformal Prediction
under Covariate Shift", NeurIPS 2019 (weights). Lee, Barber and Willett,
"Distribution-Free Inference with Hierarchical Data", 2023 (groups). Hyndman and Fan,
"Sample Quantiles in Statistical Packages", The American Statistician 1996.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats, Indices, n_distinct

ROUNDING = 1e-9  # of ranks: (9 + 1) 0.9 is 9, whatever its last bit


@dataclass
class Scores:
    """Scores of rows that calibrate, in order.

    A weight of w counts as w equal rows do, but the correction goes by the effective
    number of rows, (sum of w)^2 / sum of w^2 (Kish, 1965), which no common factor of
    the weights changes.

    Attributes
    ----------
    values : array of shape (m, K)
        Ascending in each column.
    shares : array of shape (m, K)
        Share of the weight up to and with each.
    n_effective : float
        Effective number of rows, or the number of groups.
    unit : {"rows", "groups"}
        What is exchangeable with what is new.
    """

    values: Floats
    shares: Floats
    n_effective: float
    unit: str = "rows"

    def quantiles(self, q: Floats, guaranteed: bool = True) -> Floats:
        """Corrected quantiles, shape (Q, K), for q of shape (Q,), each in (0, 1).

        Those of a half or more are upper ends: a new score is at most so large with a
        probability of q at least. Lower ones are lower ends: it is less with a
        probability of q at most.

        Parameters
        ----------
        q : array of shape (Q,)
        guaranteed : bool, default=True
            Whether ranks (m + 1) q that are not whole go to the next one away from the
            middle, as the theorem asks. False interpolates between both (type 6 of
            Hyndman and Fan, 1996): the probability is q for uniform scores, and above
            it, for upper ends, where their density falls outwards; it is never more
            than 1 / (m + 1) off, unless scores are equal.

        Raises
        ------
        ValueError
            Where there are too few rows; it tells how many are needed.
        """
        for one in q:
            require_rows(self.n_effective, float(one), self.unit)
        outputs = range(self.values.shape[1])
        return np.array(
            [[self._quantile(float(one), k, guaranteed) for k in outputs] for one in q]
        )

    def _quantile(self, q: float, k: int, guaranteed: bool) -> float:
        if q < 0.5:
            # The upper end of the negative scores
            before = np.append(0.0, self.shares[:-1, k])
            mirrored = Scores(
                -self.values[::-1, [k]], 1 - before[::-1, None], self.n_effective
            )
            return -mirrored._quantile(1 - q, 0, guaranteed)
        values = self.values[:, k]
        shares = self.shares[:, k]
        wanted = q * (1 + 1 / self.n_effective)
        end = values[np.searchsorted(shares[:-1], wanted - ROUNDING)]
        if guaranteed:
            return float(end)
        # Mean over the share of one row below, of which each score has a part
        width = 1 / self.n_effective
        edges = np.clip(np.append(0.0, shares), wanted - width, wanted)
        return float(end - np.diff(edges) @ (end - values) / width)


def in_order(scores: NDArray, weight: NDArray, group: Indices | None = None) -> Scores:
    """Sort scores of shape (m, K), of rows of positive weights of shape (m,), for
    each output by itself.

    Where rows belong to groups, numbered by an array of shape (m,), the groups are
    exchangeable and each counts as one: of G groups every one has a share of 1 / (G +
    1), which its rows have in the ratio of their weights, and a new one the last (Lee,
    Barber and Willett, 2023).
    """
    weight, n_effective = _counted(weight, group)
    order = np.argsort(scores, axis=0, kind="stable")
    shares = np.cumsum(weight[order], axis=0) / weight.sum()
    values = np.take_along_axis(scores, order, axis=0)
    unit = "rows" if group is None else "groups"
    return Scores(values, shares, n_effective, unit)


def _counted(weight: NDArray, group: Indices | None) -> tuple[Floats, float]:
    """Weights of rows, such that those of each group have the sum 1, and the effective
    number of rows, or the number of groups.
    """
    if group is None:
        return weight, effective_rows(weight[weight > 0])
    total = np.bincount(group, weight)[group]
    shares = np.divide(weight, total, out=np.zeros(len(weight)), where=total > 0)
    return shares, float(n_distinct(group[weight > 0]))


def require_coverage(coverage: object) -> None:
    """Raise TypeError or ValueError where a coverage is no number between 0 and 1."""
    if not isinstance(coverage, int | float | np.number) or isinstance(coverage, bool):
        raise TypeError(
            f"coverage must be a number between 0 and 1, got {coverage!r:.200}."
        )
    if not 0 < coverage < 1:
        raise ValueError(
            f"coverage must be a probability between 0 and 1, got {coverage!r}."
        )


def effective_rows(weight: NDArray) -> float:
    """Number of equal weights whose mean has the variance that a weighted mean has,
    (sum of w)^2 / sum of w^2.
    """
    if not len(weight):
        return 0.0
    share = weight / weight.max()
    return float(share.sum() ** 2 / np.square(share).sum())


def rows_needed(q: float) -> int:
    """Least number of rows that calibrate, from which a corrected quantile q in (0,
    1) is one of their scores.
    """
    tail = min(q, 1 - q)
    return int(np.ceil((1 - tail) / tail - ROUNDING / tail))


def require_rows(n_effective: float, q: float, unit: str = "rows") -> None:
    """Raise ValueError where so few rows, or groups, calibrate that a corrected
    quantile is beyond all of their scores.
    """
    needed = rows_needed(q)
    if n_effective * (1 + ROUNDING) < needed:
        n = int(n_effective)
        weighted = "" if unit == "groups" else " (effectively, if they have weights)"
        raise ValueError(
            f"A quantile of {q:g} needs {needed:,} {unit} that the model has not seen"
            f"{weighted}, and there are {n:,}: use a coverage of at most "
            f"{max(0.0, 1 - 2 / (n + 1)):.3g}, quantiles "
            f"from {1 / (n + 1):.3g} to {1 - 1 / (n + 1):.3g}, or about "
            f"{needed / max(n, 1):.2g} times as many {unit}."
        )


COVERAGE_ROUNDING = 1e-12  # of a coverage that is as good as reached


def mass_before(probabilities: NDArray) -> Floats:
    """Probability of the classes before each one, in the order of falling probability.

    Parameters
    ----------
    probabilities : array of shape (n, K)

    Returns
    -------
    array of shape (n, K)
        0 for the most probable class, the first of several.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.solvers.conformal import mass_before
    >>> mass_before(np.array([[0.25, 0.5, 0.25]]))
    array([[0.5 , 0.  , 0.75]])
    """
    order = np.argsort(-probabilities, axis=1, kind="stable")
    falling = np.take_along_axis(probabilities, order, axis=1)
    before = np.zeros(probabilities.shape)
    np.cumsum(falling[:, :-1], axis=1, out=before[:, 1:])
    scores = np.empty_like(before)
    np.put_along_axis(scores, order, before, axis=1)
    return scores


def thresholds_of(
    probabilities: NDArray,
    members: NDArray,
    weight: NDArray,
    group: Indices | None = None,
) -> Floats:
    """Thresholds on scores, and the coverage that each of them guarantees.

    Parameters
    ----------
    probabilities : array of shape (n, K)
        Of rows that the model has not seen.
    members : array of shape (n, K)
        Share of each row that is of each class: 1 for its own, where equal rows are not
        one.
    weight : array of shape (n,)
        How much the rows count, not negative; only the ratios matter.
    group : int array of shape (n,), optional
        The group of each row; each group then counts as one, see `in_order`.

    Returns
    -------
    array of shape (2, m)
        The scores of the rows' own classes, ascending and each once; and the share of
        the rows, n of n + 1, whose scores are no larger; n is the effective number of
        rows.
    """
    counted = np.flatnonzero(weight > 0)
    weight, n = _counted(weight, group)
    shares = members[counted] * weight[counted, np.newaxis]
    is_member = shares > 0
    scores, where = np.unique(
        mass_before(probabilities[counted])[is_member], return_inverse=True
    )
    total = np.cumsum(np.bincount(where, shares[is_member], len(scores)))
    return (
        np.stack([scores, total / total[-1] * (n / (n + 1))]) if n else np.empty((2, 0))
    )


def threshold(thresholds: NDArray, coverage: float) -> float:
    """The least threshold that guarantees a coverage.

    Parameters
    ----------
    thresholds : array of shape (2, m)
        By `thresholds_of`.
    coverage : float

    Raises
    ------
    ValueError
        If the coverage is not between 0 and 1, or the calibration rows are too few for
        it.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.solvers.conformal import threshold
    >>> threshold(np.array([[0.0, 0.4, 0.7], [0.5, 0.75, 0.9]]), 0.8)
    0.7
    """
    require_coverage(coverage)
    scores, guaranteed = thresholds
    k = int(np.searchsorted(guaranteed, coverage - COVERAGE_ROUNDING))
    if k == len(scores):
        n = round(1 / (1 - guaranteed[-1])) - 1 if len(scores) else 0
        needed = ceil(coverage / (1 - coverage) - 1e-6)
        raise ValueError(
            f"A coverage of {coverage:g} needs {needed:,} validation rows, and there "
            f"were {n:,}: fit on more rows (or groups, where these were given, each of "
            "which counts as one), or use a smaller coverage."
        )
    return float(scores[k])
