"""How the predictions of a model change with a column: partial dependence, single
rows, accumulated local effects.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from bochner.arrays import Floats, Indices
from bochner.blocks import BLOCK_ENTRIES
from bochner.data.array_source import rows_of
from bochner.data.columns import is_missing, parts_of
from bochner.data.table import TableEncoder, column_values
from bochner.data.table_input import as_dense, is_frame
from bochner.engines.algebra import product
from bochner.markup import Markup, cut, cut_all, cut_named, number, table

# By the kind of effects
TITLES = {"partial": "Partial dependence", "accumulated": "Accumulated local effects"}
ENDS = 0.01, 0.99  # quantiles of a column between which its effect is shown
DENSE_ENTRIES = 10_000_000  # of the rows that predictions are averaged over


@dataclass(frozen=True, eq=False)
class Effect:
    """The effect of one column.

    Attributes
    ----------
    column : str
    values : list of G values
        In the column's own type and unit: numbers, dates, strings; None for a missing
        value, which comes last.
    positions : array of shape (G,)
        The values as numbers: days since 1970 of dates, seconds of durations, the place
        in the list of levels; NaN for the missing value of a column of numbers or
        dates.
    unit : {"", "days", "seconds", "day"}
        Of the positions.
    is_level : bool
        Whether the values are levels without an order: strings, categories, codes, and
        numbers of two values.
    shares : array of shape (G,)
        Share of the rows whose value is nearest to each, or equal, of levels.
    mean : array of shape (G, K)
        The effect, for each output.
    low, high : arrays of shape (G, K), or None
        Ends of the interval of the effect by the posterior.
    curves : array of shape (C, G, K)
        Predictions for single rows (individual conditional expectation); none of
        accumulated effects.
    rug : array of shape (R,)
        Positions of some rows, ascending; none of levels.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import KernelMachineRegressor
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> X[:, 1] = X[:, 1] > 1
    >>> model = KernelMachineRegressor("gaussian", random_state=0).fit(
    ...     X, X[:, 0] + 3 * X[:, 1]
    ... )
    >>> effect = model.effects(X, 1)[0]
    >>> effect.values, effect.is_level, effect.span.round(1)
    ([0.0, 1.0], True, array([3.]))
    """

    column: str
    values: list[Any]
    positions: Floats
    unit: str
    is_level: bool
    shares: Floats
    mean: Floats
    low: Floats | None
    high: Floats | None
    curves: Floats
    rug: Floats

    @property
    def span(self) -> Floats:
        """Difference of the largest and the smallest mean, shape (K,)."""
        return np.ptp(self.mean, axis=0)

    @property
    def labels(self) -> list[str]:
        """The values as text."""
        return [_label(value) for value in self.values]


@dataclass(frozen=True, eq=False, repr=False)
class Effects:
    """Effects of some columns on the predictions of a fitted model: the answer of its
    method `effects`.

    Attributes
    ----------
    columns : tuple of Effect
    outputs : tuple of K str
        Names of what is predicted: the targets, or the classes (of two classes the
        second).
    what : {"prediction", "probability"}
    kind : {"partial", "accumulated"}
    coverage : float
        Of the intervals, if there are any.
    n_rows : int
        Number of rows that predictions are averaged over, at most.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bochner import KernelMachineRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = KernelMachineRegressor("gaussian", random_state=0).fit(X, y)
    >>> effects = model.effects(X, ["bmi", "sex"])
    >>> effects
    Effects(partial: bmi, sex; 442 rows)
    >>> effects["sex"].labels
    ['-0.04464', '0.05068']
    >>> effects.to_frame().columns.tolist()
    ['column', 'value', 'output', 'mean', 'share']
    """

    columns: tuple[Effect, ...]
    outputs: tuple[str, ...]
    what: str
    kind: str
    coverage: float
    n_rows: int

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[Effect]:
        return iter(self.columns)

    def __getitem__(self, column: int | str) -> Effect:
        """The effect of a column by its place here, or by its name; KeyError where
        there is none.
        """
        if not isinstance(column, str):
            return self.columns[column]
        named = {one.column: one for one in self.columns}
        if column not in named:
            raise KeyError(f"no effect of {column!r}; there are {', '.join(named)}")
        return named[column]

    def __repr__(self) -> str:
        named = ", ".join(cut_all(one.column for one in self.columns))
        return f"Effects({self.kind}: {named}; {self.n_rows:,} rows)"

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row for each column, value and output."""
        import pandas as pd

        rows = []
        for one in self.columns:
            for g, value in enumerate(one.values):
                for k, output in enumerate(self.outputs):
                    row = {"column": one.column, "value": value, "output": output}
                    row["mean"] = one.mean[g, k]
                    if one.low is not None and one.high is not None:
                        row |= {"low": one.low[g, k], "high": one.high[g, k]}
                    rows.append(row | {"share": one.shares[g]})
        return pd.DataFrame(rows)

    def to_json(self) -> str:
        """Return all numbers as JSON; dates as text, and the missing value as null."""
        drawn_alone = {"positions", "curves", "rug"}

        def as_json(value: Any) -> Any:
            if isinstance(value, Effect):
                facts = vars(value).items()
                return {name: fact for name, fact in facts if name not in drawn_alone}
            return value.tolist() if isinstance(value, np.ndarray) else str(value)

        return json.dumps(vars(self), default=as_json, allow_nan=False, indent=2)

    def _repr_html_(self) -> Markup:
        several = len(self.outputs) > 1
        rows = []
        for one in self.columns:
            # The output on which the column has the largest effect
            k = int(one.span.argmax())
            mean = one.mean[:, k]
            ends = [
                f"{number(mean[g])} at {cut(one.labels[g])}"
                for g in (mean.argmin(), mean.argmax())
            ]
            output = [cut(self.outputs[k])] * several
            rows.append((one.column, *output, *ends, number(one.span[k])))
        output = ["class" if self.what == "probability" else "target"] * several
        head = ("column", *output, f"lowest mean {self.what}", "highest", "difference")
        caption = f"{TITLES[self.kind]}, over {self.n_rows:,} rows"
        return table(caption, head, cut_named(rows))

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """Draw one panel for each column.

        Parameters
        ----------
        ax : matplotlib Axes, or sequence or array of them, optional
            As of `EffectDisplay.plot`.
        **kwargs
            As of `EffectDisplay.plot`.

        Returns
        -------
        EffectDisplay
        """
        from bochner.display import EffectDisplay

        return EffectDisplay.from_effects(self).plot(ax, **kwargs)


def _label(value: Any) -> str:
    """A value as text: dates without a time of day where it is midnight."""
    if value is None:
        return "missing"
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    if isinstance(value, bool | str) or not isinstance(value, int | float):
        return str(value)
    return number(value)


Variances = Callable[[NDArray, NDArray], Floats]


class Fitted(NamedTuple):
    """A fitted model as functions of encoded rows.

    Attributes
    ----------
    encoder : TableEncoder
    dtype : dtype
        Of encoded rows.
    predict : callable
        Predictions, or probabilities, of shape (n, K), of encoded rows.
    variances : callable or None
        Variances, (G, K), of sums A f of the values f of the function at encoded rows
        X, given X and A, (G, n).
    outputs : tuple of str
    what : str
    """

    encoder: TableEncoder
    dtype: Any
    predict: Callable[[NDArray], Floats]
    variances: Variances | None
    outputs: tuple[str, ...]
    what: str

    def encode(self, X: Any, rows: NDArray) -> NDArray:
        """Some of the rows, encoded and dense."""
        return as_dense(self.encoder.encode(rows_of(X, rows), self.dtype))


class Asked(NamedTuple):
    """What is asked for; see `KernelMachineRegressor.effects`."""

    kind: str
    n_points: int
    n_curves: int
    n_rows: int
    coverage: float


class Grid(NamedTuple):
    """Values of a column at which its effect is shown, each by a row that has it.

    Attributes
    ----------
    numbers : array of shape (n,)
        The column of all rows: numbers, days, seconds, or codes of levels; NaN where it
        is missing.
    points : array of shape (G,)
        Those of the grid; the last may be NaN.
    donors : int array of shape (G,)
        Rows that have them.
    is_level : bool
    unit : str
    """

    numbers: Floats
    points: Floats
    donors: Indices
    is_level: bool
    unit: str

    @property
    def n_known(self) -> int:
        """Number of points without the missing value."""
        return int(np.count_nonzero(~np.isnan(self.points)))

    def places(self) -> Indices:
        """The nearest point of each row, the same one of levels; -1 for none."""
        points = self.points[: self.n_known]
        missing = len(points) if self.n_known < len(self.points) else -1
        if not len(points):  # the column is missing in all rows
            return np.full(len(self.numbers), missing)
        order = np.argsort(points)
        ascending = points[order]
        middle = (ascending[1:] + ascending[:-1]) / 2
        place = order[np.searchsorted(middle, self.numbers)]
        if self.is_level:
            place = np.where(points[place] == self.numbers, place, -1)
        return np.where(np.isnan(self.numbers), missing, place)


def measured_effects(
    X: Any, columns: Sequence[int], names: Sequence[str], fitted: Fitted, asked: Asked
) -> Effects:
    """Effects of columns on the predictions for checked rows.

    Parameters
    ----------
    X : array, CSR matrix or data frame of n rows
    columns : sequence of int
    names : sequence of d str
    fitted : Fitted
    asked : Asked
    """
    if asked.kind not in TITLES:
        raise ValueError(
            f"kind must be one of {', '.join(map(repr, TITLES))}, got {asked.kind!r}."
        )
    if not 0 < asked.coverage < 1:
        raise ValueError(f"coverage must be between 0 and 1, got {asked.coverage!r}.")
    for name, least in (("n_points", 2), ("n_curves", 0), ("n_rows", 1)):
        number_asked = getattr(asked, name)
        if not number_asked >= least:
            raise ValueError(f"{name} must be {least} or more, got {number_asked!r}.")
    most = max(1, DENSE_ENTRIES // max(fitted.encoder.n_features_out_, 1))
    asked = asked._replace(n_rows=min(asked.n_rows, most, X.shape[0]))
    effects = list[Effect]()
    for j in columns:
        grid = _grid(X, j, fitted.encoder, asked.n_points)
        if asked.kind == "partial":
            mean, variance, curves = _partial(X, j, grid, fitted, asked)
        else:
            order = np.arange(grid.n_known)
            if grid.is_level:
                order = _similar_order(X, j, grid, fitted, asked.n_rows)
            grid = grid._replace(points=grid.points[order], donors=grid.donors[order])
            mean, variance = _accumulated(X, j, grid, fitted, asked)
            curves = np.empty((0, *mean.shape))
        low = high = None
        if variance is not None:
            half = norm.ppf((1 + asked.coverage) / 2) * np.sqrt(variance)
            low, high = mean - half, mean + half
        G = len(grid.points)
        positions = np.arange(G, dtype=np.float64)
        rug = np.empty(0)
        if not grid.is_level:
            positions = grid.points
            ascending = np.sort(grid.numbers[~np.isnan(grid.numbers)])
            n_shown = min(200, len(ascending))
            rug = ascending[np.linspace(0, len(ascending) - 1, n_shown).astype(np.intp)]
        place = grid.places()
        effects.append(
            Effect(
                names[j],
                own_values(X, j, grid.donors.tolist()),
                positions,
                grid.unit,
                grid.is_level,
                np.bincount(place[place >= 0], minlength=G) / len(place),
                mean,
                low,
                high,
                curves,
                rug,
            )
        )
    return Effects(
        tuple(effects),
        fitted.outputs,
        fitted.what,
        asked.kind,
        asked.coverage,
        asked.n_rows,
    )


def own_values(X: Any, j: int, rows: Any = slice(None)) -> list[Any]:
    """A column of some rows as it came; None where a value is missing."""
    values = column_values(X, j)[rows]
    values = values.to_list() if is_frame(X) else values.tolist()
    return [None if is_missing(value) else value for value in values]


def _grid(X: Any, j: int, encoder: TableEncoder, n_points: int) -> Grid:
    """Points of a column: all of few values, else frequent ones, and quantiles of the
    others; the most frequent levels.

    Without the frequent ones a column that is mostly 0 would have two points.
    """
    # Numbers, or codes and labels, of the kind that the fit saw
    values = encoder.values_of(X, j)
    parts = parts_of(encoder.statistic_.kinds[j])
    if isinstance(values, tuple):
        numbers = np.where(values[0] < 0, np.nan, values[0])
    else:
        numbers = values[:, 0]
    gaps = np.isnan(numbers)
    distinct, first, counts = np.unique(
        numbers[~gaps], return_index=True, return_counts=True
    )
    is_code = encoder.statistic_.name(j) in encoder.codes
    is_level = not parts or is_code or len(distinct) <= 2
    if len(distinct) <= n_points:
        chosen = np.arange(len(distinct))
    elif is_level:
        chosen = np.sort(np.argsort(-counts, kind="stable")[:n_points])
    else:
        frequent = counts > counts.sum() / n_points
        others = np.repeat(distinct[~frequent], counts[~frequent])
        shares = np.linspace(*ENDS, max(n_points - frequent.sum(), 2))
        quantiles = np.quantile(others, shares, method="inverted_cdf")
        chosen = np.flatnonzero(frequent | np.isin(distinct, quantiles))
    if not parts:
        chosen = chosen[np.argsort(-counts[chosen], kind="stable")]
    points = distinct[chosen]
    donors = np.flatnonzero(~gaps)[first][chosen]
    if gaps.any() and (encoder.statistic_.missing[j] or not len(points)):
        points = np.append(points, np.nan)
        donors = np.append(donors, gaps.argmax())
    return Grid(numbers, points, donors, is_level, parts[0] if parts else "")


def _partial(
    X: Any, j: int, grid: Grid, fitted: Fitted, asked: Asked
) -> tuple[Floats, Floats | None, Floats]:
    """Mean predictions at each point, their variances, both of shape (G, K), and
    curves of rows, (C, G, K).
    """
    m = asked.n_rows
    column_mask = fitted.encoder.sources() == j
    Z = fitted.encode(X, np.random.default_rng(0).permutation(X.shape[0])[:m])
    points = fitted.encode(X, grid.donors)
    at_once = max(1, BLOCK_ENTRIES // max(Z.size, 1))
    mean = []
    curves = []
    variance = []
    for a in range(0, len(points), at_once):
        block_points = points[a : a + at_once]
        rows = np.tile(Z, (len(block_points), 1))
        rows[:, column_mask] = np.repeat(block_points[:, column_mask], m, axis=0)
        predicted = fitted.predict(rows).reshape(len(block_points), m, -1)
        mean.append(predicted.mean(axis=1))
        curves.append(predicted[:, : asked.n_curves])
        if fitted.variances is not None:
            for of_point in np.split(rows, len(block_points)):
                variance.append(fitted.variances(of_point, np.full((1, m), 1 / m)))
    spread = np.concatenate(variance) if variance else None
    return np.concatenate(mean), spread, np.concatenate(curves).transpose(1, 0, 2)


def _accumulated(
    X: Any, j: int, grid: Grid, fitted: Fitted, asked: Asked
) -> tuple[Floats, Floats | None]:
    """Accumulated local effects at each point and their variances, both of shape (G, K)
    (Apley and Zhu, 2020).

    Between two points the mean difference of the predictions, for the rows that lie
    between them, is added; of levels, for the rows that have one of the two. The mean
    over all rows is zero.
    """
    G = len(grid.points)
    column_mask = fitted.encoder.sources() == j
    rng = np.random.default_rng(0)
    # Rows between each point and the next one; of levels those that have one of the
    # two. And shares of the points among all rows
    numbers, points = grid.numbers, grid.points
    if grid.is_level:
        place = grid.places()
        steps = [np.flatnonzero((place == k) | (place == k + 1)) for k in range(G - 1)]
        shares = np.bincount(np.maximum(place, 0), place >= 0, G)
    else:
        within = (numbers >= points[0]) & (numbers <= points[-1])
        place = np.maximum(np.searchsorted(points, numbers), 1) - 1
        steps = [np.flatnonzero(within & (place == k)) for k in range(G - 1)]
        sizes = np.array([len(rows) for rows in steps], np.float64)
        shares = (np.append(sizes, 0) + np.append(0, sizes)) / 2
    most = max(1, asked.n_rows // max(len(steps), 1))
    drawn = [rng.permutation(rows)[:most] for rows in steps]
    step = np.repeat(np.arange(len(drawn)), [len(rows) for rows in drawn])
    if not len(step):  # one value alone
        zeros = np.zeros((G, len(fitted.outputs)))
        return zeros, None if fitted.variances is None else zeros
    upper = fitted.encode(X, np.concatenate(drawn))
    lower = upper.copy()
    encoded_points = fitted.encode(X, grid.donors)[:, column_mask]
    lower[:, column_mask] = encoded_points[step]
    upper[:, column_mask] = encoded_points[step + 1]
    each = np.zeros((G, len(step)))
    counts = np.bincount(step, minlength=len(drawn))
    each[step + 1, np.arange(len(step))] = 1 / counts[step]
    sums = np.cumsum(each, axis=0)
    sums -= (shares / max(shares.sum(), 1)) @ sums
    A = np.hstack([-sums, sums])
    rows = np.vstack([lower, upper])
    variances = None if fitted.variances is None else fitted.variances(rows, A)
    return product(A, fitted.predict(rows)), variances


def _similar_order(X: Any, j: int, grid: Grid, fitted: Fitted, n_rows: int) -> Indices:
    """Levels in an order in which neighbours have similar rows: by the first
    principal component of their means.
    """
    G = len(grid.points)
    place = grid.places()
    others = fitted.encoder.sources() != j
    rng = np.random.default_rng(0)
    most = max(2, n_rows // G)
    rows = [
        fitted.encode(X, rng.permutation(np.flatnonzero(place == g))[:most])
        for g in range(G)
    ]
    spread = np.vstack(rows)[:, others].std(axis=0)
    means = np.stack([Z[:, others].mean(axis=0) for Z in rows])
    means = means / np.where(spread > 0, spread, 1.0)
    if not means.shape[1]:
        return np.arange(G)
    U, s, _ = np.linalg.svd(means - means.mean(axis=0), full_matrices=False)
    first = U[:, 0] * s[0]
    sign = np.sign(first[np.abs(first).argmax()]) or 1.0
    return np.argsort(first * sign, kind="stable")
