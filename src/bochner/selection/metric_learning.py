"""Metrics learned by gradient steps on blocks of rows: the columns they are learned on,
the blocks, and the steps.

A numeric column is learned as its value z and its rank r. For the L1 distance a |z -
z'| + b |r - r'| = |w(x) - w(x')| with the monotone w = a z + b r, so that the scales of
the two make a learned warp, and after learning they collapse into one column. z carries
on beyond the range of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_X_y

from bochner.arrays import Indices, n_distinct
from bochner.data.array_source import ArraySource
from bochner.data.weights import checked_weight
from bochner.engines.algebra import gram, product
from bochner.engines.blas import single_threaded_blas
from bochner.engines.local import n_threads, pause
from bochner.features.metric import Metric, with_relevance
from bochner.notices import warn
from bochner.selection.budget import Budget
from bochner.selection.forest import TreeSplits
from bochner.selection.metric_gradient import (
    Minibatch,
    Workspace,
    diagonal_loss,
    linear_loss,
)
from bochner.selection.policy import POLICY
from bochner.selection.validation import standardise

UNIFORM_UNIT = np.sqrt(12)  # ranks in [0, 1] times this have unit variance


class Basis:
    """Basis columns of encoded rows.

    Columns with two values become 0 and 1, columns that have no meaning one by one stay
    as they are, and constant ones are left out.

    Parameters
    ----------
    X : array of shape (n, d)
        Dense rows.
    column_groups : int array of shape (d,)
        Columns of one number have one scale.
    parts : {"both", "value"}
        What numeric columns become.
    rng : numpy.random.Generator

    Attributes
    ----------
    points : float32 array of shape (n, p)
    column_groups : int array of shape (p,)
        Columns of the basis with one number have one scale.
    start : array of shape (p,)
        Logarithms of scales to begin with.
    numeric : int array
        Columns of X with more than two values.
    n_pairs : int
        The first `n_pairs` columns of the points are values, whose ranks follow.
    """

    def __init__(
        self, X: NDArray, column_groups: NDArray, parts: str, rng: np.random.Generator
    ) -> None:
        low = X.min(axis=0).astype(np.float64)
        high = X.max(axis=0).astype(np.float64)
        grouped = np.bincount(column_groups)[column_groups] > 1
        between = ((low < X) & (high > X)).any(axis=0)
        self.n_features_in = X.shape[1]
        self.plain = np.flatnonzero((high > low) & (grouped | ~between))
        self.numeric = np.flatnonzero((high > low) & ~grouped & between)
        sample = (
            X
            if len(X) <= POLICY.compared_rows
            else X[rng.choice(len(X), POLICY.compared_rows, replace=False)]
        )
        self.ranks = [_rank_function(sample[:, j]) for j in self.numeric]
        # Shares of the range first: in any unit of a column its squares are then within
        # range.
        origin = np.where(grouped, 0.0, low)
        unit = np.where(grouped, 1.0, high - low)
        values = (X[:, self.numeric] - origin[self.numeric]) / unit[self.numeric]
        mean = values.mean(axis=0)
        deviation = values.std(axis=0)
        self.mean = origin[self.numeric] + mean * unit[self.numeric]
        self.deviation = np.maximum(
            deviation * unit[self.numeric], np.finfo(float).tiny
        )
        self.unit = unit[self.plain]
        ranked = [
            np.interp(X[:, j], *rank)
            for j, rank in zip(self.numeric, self.ranks, strict=True)
        ]
        R = np.stack(ranked, axis=1) if ranked else np.empty(values.shape)
        Z = (values - mean) / deviation
        P = (X[:, self.plain] - origin[self.plain]) / self.unit
        numeric_coordinates = [Z, R] if parts == "both" else [Z]
        self.n_pairs = len(self.numeric) if parts == "both" else 0
        self.points = np.concatenate(
            [*numeric_coordinates, P], axis=1, dtype=np.float32
        )
        free = np.arange(len(self.numeric) * len(numeric_coordinates))
        _, tied = np.unique(column_groups[self.plain], return_inverse=True)
        self.column_groups = np.concatenate([free, len(free) + tied])
        width = max(len(self.numeric) + len(self.plain), 1)
        self.start = np.full(len(self.column_groups), -0.5 * np.log(width))
        self.start[: len(free)] -= np.log(len(numeric_coordinates))

    def coordinates(self, kernel: str, log_scales: NDArray) -> Metric:
        """Return the metric with these scales; for the L1 distance every numeric
        column is one warped coordinate.
        """
        q, n_ranked = len(self.numeric), self.n_pairs
        values, factors, plain = np.split(np.exp(log_scales), [q, q + n_ranked])
        slopes = values / self.deviation
        plain /= self.unit
        if kernel == "laplacian" and n_ranked:
            # The sum of two distances that grow together
            first = 0
            source = [self.numeric, self.plain]
            scale = [np.ones(q), plain]
            levels = [
                slope * (x - mean) + factor * r
                for (x, r), slope, mean, factor in zip(
                    self.ranks, slopes, self.mean, factors, strict=True
                )
            ]
        else:
            first = q
            source = [self.numeric, self.numeric[:n_ranked], self.plain]
            scale = [slopes, np.ones(n_ranked), plain]
            slopes = np.zeros(n_ranked)
            levels = [
                factor * r for factor, (_, r) in zip(factors, self.ranks, strict=False)
            ]
        return Metric(
            self.n_features_in,
            np.concatenate(source),
            np.concatenate(scale),
            warped=first + np.arange(n_ranked),
            knots=_padded([x for x, _ in self.ranks[:n_ranked]]),
            levels=_padded(levels),
            slopes=slopes,
        )


def _rank_function(x: NDArray) -> tuple[NDArray, NDArray]:
    """Knots and mid-ranks, of unit variance where uniform, of the values of a
    column; 256 at most.
    """
    values, counts = np.unique(x.astype(np.float64), return_counts=True)
    ranks = (np.cumsum(counts) - counts / 2) / counts.sum()
    if len(values) > POLICY.n_knots:
        space = np.linspace(ranks[0], ranks[-1], POLICY.n_knots)
        knot_numbers = np.unique(
            np.minimum(np.searchsorted(ranks, space), len(values) - 1)
        )
        values = values[knot_numbers]
        ranks = ranks[knot_numbers]
    return values, UNIFORM_UNIT * ranks


def _padded(rows: list[NDArray]) -> NDArray:
    """Rows of one length, the last entry of shorter ones repeated."""
    width = max((len(row) for row in rows), default=0)
    return np.array(
        [np.pad(row, (0, width - len(row)), mode="edge") for row in rows]
    ).reshape(len(rows), width)


@dataclass(frozen=True)
class Schedule:
    """How long and on what a metric is learned.

    Attributes
    ----------
    steps, block : int
        Most gradient steps, and rows of a block.
    kinds : tuple of {"uniform", "wide", "near"}
        Kinds of blocks in turn: rows at random; rows at random of the 8 blocks nearest
        to a random row; the nearest.
    seconds : float or None
        The most.
    window : int
        Blocks, whose losses tell whether the learning goes on.
    early_block : int, optional
        Rows of a block of the L1 distance as long as steps have their full length.
    """

    steps: int
    block: int
    kinds: tuple[str, ...] = ("uniform", "wide", "near")
    seconds: float | None = None
    window: int = POLICY.window
    early_block: int | None = None


class LearningRows(NamedTuple):
    """Rows to learn a metric from: X of shape (n, d), dense; standardised targets, (n,
    K); weights, (n,); and the unit that each belongs to, (n,), of which no part
    validates another, or None.
    """

    X: NDArray
    y: NDArray
    weight: NDArray
    together: Indices | None = None


class MinibatchSampler:
    """Blocks of rows to learn from.

    Parameters
    ----------
    rows : float32 array of shape (n, p)
    y : array of shape (n, K)
    schedule : Schedule
    seed : int
    weight : array of shape (n,), optional
        By which rows are drawn, and those to which others are near.
    n_pairs : int, default=0
        The first `n_pairs` columns and the next `n_pairs` are two rising functions of
        the same numbers.
    together : int array of shape (n,), optional
        The unit that each row belongs to: rows of a block are fitted and validate by
        units.
    """

    def __init__(
        self,
        rows: NDArray,
        y: NDArray,
        schedule: Schedule,
        seed: int,
        weight: NDArray | None = None,
        n_pairs: int = 0,
        together: Indices | None = None,
    ) -> None:
        self.y = y
        self.together = None
        if together is not None:
            self.together = np.unique(together, return_inverse=True)[1]
        self.schedule = schedule
        self.n_pairs = n_pairs
        self.rows, self.binary = _from_zero(rows, 2 * n_pairs)
        self._ends = (
            None if weight is None or np.ptp(weight) == 0 else np.cumsum(weight)
        )
        self.rng = np.random.default_rng(seed)
        self._spaces = []
        for block in (schedule.block, schedule.early_block or schedule.block):
            size = min(block, len(rows))
            n_fit = max(1, min(round(POLICY.fit_share * size), size - 1))
            self._spaces.append(Workspace(size, n_fit, rows.dtype))
        self._distances = np.empty(len(rows), rows.dtype)
        self.resize()

    def resize(self, early: bool = False) -> None:
        """Draw blocks of the early size from now on, or of the final one."""
        self.space = self._spaces[early]
        self.size = len(self.space.K)

    def draw(self, kind: str, scales: NDArray) -> Minibatch:
        """Draw a block.

        Parameters
        ----------
        kind : str
        scales : array of shape (p,)
            Of the L1 distance by which rows are near.
        """
        chosen = self._choose(kind, scales)
        if self.together is not None:
            chosen = self._by_units(chosen)
        return Minibatch(
            np.ascontiguousarray(self.rows[chosen].T),
            self.y[chosen],
            self.n_pairs,
            self.binary,
        )

    def _choose(self, kind: str, scales: NDArray) -> NDArray:
        from bochner.loops.coordinates import nearness

        n = len(self.rows)
        space = {
            "uniform": n,
            "wide": POLICY.wide_neighbours * self.size,
            "near": self.size,
        }[kind]
        if space >= n:
            return self._random(self.size)
        anchor = self.rows[self._random(1)[0]]
        nearness(self.rows, anchor, scales.astype(self.rows.dtype), self._distances)
        near = np.argpartition(self._distances, space)[:space]
        return (
            self.rng.permutation(near)
            if kind == "near"
            else self.rng.choice(near, self.size, replace=False)
        )

    def _by_units(self, chosen: NDArray) -> NDArray:
        """Rows of a block of which those that are fitted, the first ones, and those
        that validate are of different units.

        Some units, drawn at random, validate. Rows of the block come first; where too
        few of them are of the units wanted, other rows of those units make up for them,
        some twice perhaps.
        """
        assert self.together is not None
        n_units = int(self.together.max()) + 1
        n_fit = self.space.n_fit
        n_validating = min(
            max(round(n_units * (1 - n_fit / self.size)), 1), n_units - 1
        )
        validates = np.zeros(n_units, bool)
        validates[self.rng.choice(n_units, n_validating, replace=False)] = True
        sides = []
        for side, size in ((False, n_fit), (True, self.size - n_fit)):
            side_rows = chosen[validates[self.together[chosen]] == side][:size]
            if len(side_rows) < size:
                others = np.flatnonzero(validates[self.together] == side)
                others = others[~np.isin(others, side_rows)]
                missing = size - len(side_rows)
                twice = missing > len(others)
                pool = (
                    np.flatnonzero(validates[self.together] == side)
                    if twice
                    else others
                )
                more = self.rng.choice(pool, missing, replace=twice)
                side_rows = np.concatenate([side_rows, more])
            sides.append(side_rows)
        return np.concatenate(sides)

    def _random(self, size: int) -> NDArray:
        """Rows at random, by their weights; those drawn twice make room for others."""
        n = len(self.rows)
        if self._ends is None:
            return (
                self.rng.choice(n, size, replace=False)
                if size > 1
                else self.rng.integers(n, size=1)
            )
        places = self.rng.uniform(0, self._ends[-1], size)
        drawn = np.searchsorted(self._ends, places, side="right")
        is_drawn = np.zeros(n, bool)
        is_drawn[np.minimum(drawn, n - 1)] = True
        others = self.rng.choice(n, size, replace=False)
        drawn = np.flatnonzero(is_drawn)
        rest = others[~is_drawn[others]][: size - len(drawn)]
        return self.rng.permutation(np.concatenate([drawn, rest]))


def _from_zero(rows: NDArray, first: int) -> tuple[NDArray, NDArray[np.intp]]:
    """Rows whose columns of two values, from the given one on, have zero as the
    lesser one; and these columns.
    """
    low = rows.min(axis=0)
    high = rows.max(axis=0)
    varying = first + np.flatnonzero((low < high)[first:])
    binary = np.array(
        [
            j
            for j in varying
            if ((rows[:, j] == low[j]) | (rows[:, j] == high[j])).all()
        ],
        np.intp,
    )
    if low[binary].any():
        rows = rows.copy()
        rows[:, binary] -= low[binary]
    return rows, binary


class EarlyStopping:
    """Number and lengths of gradient steps, with early stopping.

    They have their full length until the losses of the blocks no longer fall, half of
    the most steps at most, or the share of the most seconds that leaves time for as
    many steps more, in blocks that may be larger; in these the length falls to zero.
    Losses are compared in windows, which have blocks of all kinds.

    Parameters
    ----------
    schedule : Schedule

    Attributes
    ----------
    remaining : float
        At the step that is being taken, the share of all steps that are left, twice.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.clock = Budget(schedule.seconds)
        self.window = schedule.window
        self.turn = schedule.steps // 2
        self.end = schedule.steps
        self.remaining = 1.0
        self.losses = list[float]()
        early = schedule.early_block or schedule.block
        self.late_share = schedule.block / (schedule.block + early)

    def __iter__(self) -> Iterator[int]:
        """Number the steps."""
        done = 0
        while done < self.end:
            pause()
            self.remaining = 2 * (1 - (done + 1) / (self.end + 1))
            yield done
            done += 1
            if done < self.turn and (self._has_plateaued() or self._is_late(done)):
                self.turn = done
                self.end = 2 * done

    def note(self, loss: float) -> None:
        """Record the loss of a block."""
        self.losses.append(loss)

    def _is_late(self, done: int) -> bool:
        """Whether as many further steps as are done take the rest of the time, after
        the fewest steps.
        """
        late = (1 - self.late_share) * self.clock.seconds
        return 2 * done >= POLICY.trial_steps and self.clock.elapsed >= late

    def _has_plateaued(self) -> bool:
        """Whether the last window of blocks has brought little over the one before."""
        n = self.window
        if len(self.losses) % n or len(self.losses) < 2 * n:
            return False
        before, last = (
            float(np.nanmean(part))
            for part in np.split(np.array(self.losses[-2 * n :]), 2)
        )
        return not last < (1 - POLICY.falling) * before


TINY = 1e-12  # of a root mean square, beside those that are not zero


class Adam:
    """Steps of Adam (Kingma and Ba, 2015) within bounds. The result is the mean over
    those of the second half.
    """

    def __init__(
        self, x: NDArray, bounds: tuple[float, float] = (-np.inf, np.inf)
    ) -> None:
        self.x = x
        self.bounds = bounds
        self.m = np.zeros_like(x)
        self.v = np.zeros_like(x)
        self.total = np.zeros_like(x)
        self.done = self.summed = 0

    def step(self, gradient: NDArray, remaining: float = 1.0) -> None:
        """Take a step, shortened to `remaining` where that is below 1; gradients that
        are not numbers are passed over.
        """
        if not np.isfinite(gradient).all():
            gradient = np.zeros_like(gradient)
        self.done += 1
        fast, slow = POLICY.betas
        self.m += (1 - fast) * (gradient - self.m)
        self.v += (1 - slow) * (np.square(gradient) - self.v)
        v = self.v / (1 - slow**self.done)
        length = POLICY.rate * min(remaining, 1.0)
        self.x -= length * self.m / (1 - fast**self.done) / (np.sqrt(v) + TINY)
        np.clip(self.x, *self.bounds, out=self.x)
        if remaining <= 1:
            self.summed += 1
            self.total += self.x

    @property
    def mean(self) -> NDArray:
        """Mean over the steps at which `remaining` was at most 1."""
        return self.total / max(self.summed, 1)


def learn_scales(
    kernel: str,
    blocks: MinibatchSampler,
    start: NDArray,
    column_groups: NDArray,
    sizes: NDArray | float = 0.0,
) -> tuple[NDArray, NDArray]:
    """Learn one scale a column.

    Shapes are shared by the kinds of blocks; the size of the metric and the noise are
    free for each kind, whose densities differ.

    Parameters
    ----------
    start : array of shape (p,)
        Logarithms of the scales.
    column_groups : int array of shape (p,)
        Columns of one number have one scale.
    sizes : array, one for each kind of blocks, default=0
        Logarithms of factors on the scales to begin with.

    Returns
    -------
    log_scales : array of shape (p,)
    sizes : array, one for each kind
        Logarithm of the factor on the scales that each kind of blocks likes.
    """
    kinds = blocks.schedule.kinds
    G = int(column_groups.max()) + 1
    Q = len(kinds)
    x = np.zeros(G + 2 * Q)
    x[column_groups] = start
    x[G : G + Q] = sizes
    x[G + Q :] = np.log(POLICY.first_alpha)
    adam = Adam(x, POLICY.log_scales)
    steps = EarlyStopping(blocks.schedule)
    for step in steps:
        q = step % Q
        blocks.resize(early=kernel == "laplacian" and steps.remaining > 1)
        log_scales = x[column_groups]
        block, varies = blocks.draw(kinds[q], np.exp(log_scales)).varying()
        gradient = np.zeros_like(x)
        if len(varies):
            block_gradient = diagonal_loss(
                kernel, block, blocks.space, log_scales[varies] + x[G + q], x[G + Q + q]
            )
            np.add.at(gradient, column_groups[varies], block_gradient.metric)
            gradient[G + q], gradient[G + Q + q] = (
                block_gradient.metric.sum(),
                block_gradient.log_noise,
            )
            steps.note(block_gradient.loss)
        adam.step(gradient, steps.remaining)
    return adam.mean[column_groups], adam.mean[G : G + Q]


def learn_map(
    kernel: str, blocks: MinibatchSampler, n_mixed: int, sizes: NDArray
) -> tuple[NDArray, NDArray]:
    """Learn a linear map of the first columns of the rows, in which the scales are one;
    the others keep theirs.

    Parameters
    ----------
    n_mixed : int
        Number q of columns that are mixed.
    sizes : array, one for each kind of blocks
        Logarithms of factors on the map to begin with.

    Returns
    -------
    array of shape (q, q)
    sizes : array, one for each kind
    """
    kinds = blocks.schedule.kinds
    q = n_mixed
    Q = len(kinds)
    ones = np.ones(blocks.rows.shape[1])
    entries = Adam(np.eye(q).ravel())
    start = np.concatenate([sizes, np.full(Q, np.log(POLICY.first_alpha))])
    free = Adam(start, POLICY.log_scales)
    steps = EarlyStopping(blocks.schedule)
    for step in steps:
        k = step % Q
        blocks.resize(early=kernel == "laplacian" and steps.remaining > 1)
        block = blocks.draw(kinds[k], ones)
        A = entries.x.reshape(q, q)
        size = float(np.exp(free.x[k]))
        noise = free.x[Q + k]
        block_gradient = linear_loss(kernel, block, blocks.space, A, size, noise)
        steps.note(block_gradient.loss)
        entries.step(block_gradient.metric[:-1], steps.remaining)
        gradient = np.zeros(2 * Q)
        gradient[k], gradient[Q + k] = (
            block_gradient.metric[-1],
            block_gradient.log_noise,
        )
        free.step(gradient, steps.remaining)
    return entries.mean.reshape(q, q), free.mean[:Q]


KERNELS = ("laplacian", "gaussian")
MOST_CLASSES = 100


class LearnedMetric(NamedTuple):
    """A learned metric, with its sizes.

    Sizes are logarithms of the factors on the coordinates that suit each kind of
    blocks; a linear map may mix the first `n_mixed` coordinates.
    """

    metric: Metric
    sizes: NDArray
    n_mixed: int


@dataclass(frozen=True)
class MetricTask:
    """A metric to learn, and the rows to learn it from.

    Attributes
    ----------
    kernel : {"laplacian", "gaussian"}
    sample : LearningRows
    column_groups : int array of shape (d,)
        Columns of one number have one scale.
    schedule : Schedule
    seed : int
    parts : {"both", "value"}
        What numeric columns become.
    is_full : bool
        Whether a linear map is learned on top.
    common_unit : array of shape (d,), optional
        Factors on the columns, of whose principal components scales are then learned
        instead.
    """

    kernel: str
    sample: LearningRows
    column_groups: NDArray
    schedule: Schedule
    seed: int
    parts: str = "both"
    is_full: bool = False
    common_unit: NDArray | None = None


def schedule(n_rows: int, alone: bool = False) -> Schedule:
    """Schedule for a table of `n_rows` rows: longer for more rows, on nearby rows if
    there are many; and twice as long for bins alone, which nothing beside them mends.
    """
    if n_rows > POLICY.most_raced:
        return Schedule(120, 512, ("near",))
    if n_rows >= POLICY.raced_rows:
        return Schedule(300, 512, ("near",))
    if n_rows < POLICY.rows_for_full_learning:
        return Schedule(225, 256, window=POLICY.window // 2)
    usual = Schedule(450, 512, early_block=256)
    if alone:
        return replace(usual, steps=2 * usual.steps)
    return usual


def shortened(plan: Schedule) -> Schedule:
    """Copy a schedule, with few steps."""
    return replace(plan, steps=min(plan.steps, 2 * POLICY.window))


def limited(plan: Schedule, budget: Budget, n_tasks: int = 1) -> Schedule:
    """The schedule limited to the time of a stage, for tasks that run in parallel."""
    if budget.limit is None:
        return plan
    rounds = -(-n_tasks // n_threads())
    return replace(plan, seconds=budget.seconds_left / max(rounds, 1))


def learning_sample(source: ArraySource, seed: int) -> LearningRows:
    """Draw rows to learn from, dense and each of them once, with standardised targets.

    With two columns of the basis for each column they make at most 50 million numbers.
    """
    width = 2 * source.X.shape[1]
    most = max(min(POLICY.raced_rows, POLICY.final_entries // max(width, 1)), 1000)
    rows = source.sample(most, np.random.default_rng(seed)).distinct()
    X, y, weight = rows.whole()
    mean, deviation = standardise(y, weight)
    together = None if rows.splits is None else rows.splits.together
    if together is not None and not np.ptp(together):
        together = None  # one unit, which has no other to validate it
    dense = X.toarray() if hasattr(X, "toarray") else X
    return LearningRows(dense, (y - mean) / deviation, weight, together)


def learn(task: MetricTask) -> LearnedMetric:
    """Learn one scale a column of the basis or of its principal components, and a
    linear map where it is asked for.
    """
    if task.common_unit is not None:
        return learn_principal(task.sample, task.common_unit, task.schedule, task.seed)
    X, y, weight, together = task.sample
    basis = Basis(X, task.column_groups, task.parts, np.random.default_rng(task.seed))
    if not basis.points.shape[1]:
        raise ValueError(
            "All columns are constant, so there is no distance to learn: give a "
            "column that varies."
        )
    blocks = MinibatchSampler(
        basis.points, y, task.schedule, task.seed, weight, basis.n_pairs, together
    )
    log_scales, sizes = learn_scales(
        task.kernel, blocks, basis.start, basis.column_groups
    )
    mixable = task.kernel == "laplacian" or task.parts == "value"
    metric = with_relevance(basis.coordinates(task.kernel, log_scales), X, task.seed)
    learned = LearnedMetric(metric, sizes, len(basis.numeric) if mixable else 0)
    return learn_full(task, learned) if task.is_full else learned


def learn_full(task: MetricTask, base: LearnedMetric) -> LearnedMetric:
    """Learn a linear map on top of a metric, of the coordinates of numeric columns."""
    X, y, weight, together = task.sample
    U = base.metric.coordinates(X)
    U = np.ascontiguousarray(U - U.mean(axis=0, dtype=np.float64), dtype=np.float32)
    blocks = MinibatchSampler(U, y, task.schedule, task.seed, weight, together=together)
    linear, sizes = learn_map(task.kernel, blocks, base.n_mixed, base.sizes)
    return LearnedMetric(
        with_relevance(base.metric.mixed(linear), X, task.seed), sizes, base.n_mixed
    )


def learn_jumps(
    task: MetricTask, base: LearnedMetric, splits: TreeSplits
) -> LearnedMetric:
    """Learn jumps in the warps of a metric for bins.

    To the warp of each numeric column the gain of its splits up to a value is added,
    times a scale that is learned, while all other scales go on from where they are.
    """
    X, y, weight, together = task.sample
    metric = base.metric
    q = len(metric.warped_)
    numeric = metric.source_[:q]
    rising = np.array(
        [splits.gained(j, x) for j, x in zip(numeric, metric.knots_, strict=True)]
    )
    jumps = np.empty((len(X), q))
    for k, j in enumerate(numeric):
        jumps[:, k] = np.interp(X[:, j], metric.knots_[k], rising[k])
    deviation = jumps.std(axis=0)
    deviation[deviation == 0] = 1.0
    # Warps and their jumps are two rising functions of the same numbers
    U = metric.coordinates(X)
    rows = np.concatenate(
        [U[:, :q], jumps / deviation, U[:, q:]], axis=1, dtype=np.float32
    )
    blocks = MinibatchSampler(rows, y, task.schedule, task.seed, weight, q, together)
    start = np.zeros(rows.shape[1])
    start[q : 2 * q] = -0.5 * np.log(U.shape[1]) - np.log(2)
    _, tied = np.unique(task.column_groups[metric.source_[q:]], return_inverse=True)
    groups = np.concatenate([np.arange(2 * q), 2 * q + tied])
    log_scales, sizes = learn_scales(task.kernel, blocks, start, groups, base.sizes)
    factors, heights, plain = np.split(np.exp(log_scales), [q, 2 * q])
    heights /= deviation
    with_jumps = Metric(
        metric.n_features_in_,
        metric.source_,
        metric.scale_ * np.concatenate([np.ones(q), plain]),
        warped=metric.warped_,
        knots=metric.knots_,
        levels=factors[:, np.newaxis] * metric.levels_
        + heights[:, np.newaxis] * rising,
        slopes=factors * metric.slopes_,
    )
    return LearnedMetric(with_relevance(with_jumps, X, task.seed), sizes, base.n_mixed)


def learn_principal(
    sample: LearningRows, factors: NDArray, plan: Schedule, seed: int
) -> LearnedMetric:
    """Learn a scale for each of the first 50 principal components, for the Gaussian
    kernel; for images and the like.

    The components of variance v are first scaled by v^(-1/4), half way to equal
    variances.

    Parameters
    ----------
    factors : array of shape (d,)
        On the columns.
    """
    X = sample.X.astype(np.float64) * factors
    X -= X.mean(axis=0)
    values, vectors = np.linalg.eigh(
        gram(X, np.empty((X.shape[1], X.shape[1]))) / len(X)
    )
    components = np.flatnonzero(values > values[-1] * TINY)[::-1][: POLICY.principal]
    linear = vectors[:, components].T * (values[components] ** -0.25)[:, np.newaxis]
    U = product(X, linear.T).astype(np.float32)
    start = np.full(len(components), -0.5 * np.log(np.sqrt(values[components]).sum()))
    log_scales, sizes = learn_scales(
        "gaussian",
        MinibatchSampler(
            U, sample.y, plan, seed, sample.weight, together=sample.together
        ),
        start,
        np.arange(len(components)),
    )
    columns = np.arange(X.shape[1])
    metric = Metric(
        X.shape[1], columns, factors, linear=linear * np.exp(log_scales)[:, np.newaxis]
    )
    return LearnedMetric(with_relevance(metric, sample.X, seed), sizes, 0)


@single_threaded_blas()
def learn_metric(
    X: Any,
    y: Any,
    kernel: str = "laplacian",
    metric: str = "ard",
    sample_weight: Any = None,
    random_state: Any = None,
) -> Metric:
    """Learn a distance between rows that suits a kernel machine on these data.

    It minimises the validation loss of exact kernel ridge regression by stochastic
    gradient descent, on blocks of 224 to 512 rows. Some blocks are drawn at random,
    some are of rows near one another. At most 100,000 rows are used.

    Parameters
    ----------
    X : array of shape (n, d)
        Numbers, in any units. Encode a data frame with `TableEncoder` first.
    y : array of shape (n,) or (n, K)
        Numbers, or class labels: strings, booleans, or at most 100 different integers.
    kernel : {"laplacian", "gaussian"}, default="laplacian"
        "laplacian" is of the L1 distance, for `BinningFeatures`; "gaussian" is of the
        Euclidean distance, for `FourierFeatures`.
    metric : {"ard", "full"}, default="ard"
        "ard": a lengthscale and a monotone warp for each column. "full": a linear map
        of the numeric columns on top; for the Gaussian kernel it maps the columns
        without warps.
    sample_weight : array of shape (n,), optional
        Rows of weight zero are left out.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    Metric

    Raises
    ------
    ValueError
        If the kernel or metric is unknown, or there are fewer than 20 rows of positive
        weight, or no column that varies.

    Warns
    -----
    UserWarning
        If there are fewer than two numeric columns for a linear map.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.selection import learn_metric
    >>> X = np.random.default_rng(0).standard_normal((1000, 5))
    >>> y = np.sin(3 * X[:, 0]) + X[:, 1]
    >>> metric = learn_metric(X, y, random_state=0)
    >>> bool(metric.relevance_[:2].sum() > 0.8)
    True
    """
    if kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {KERNELS}, got {kernel!r}.")
    if metric not in ("ard", "full"):
        raise ValueError(f"metric must be 'ard' or 'full', got {metric!r}.")
    labels = _are_labels(np.asarray(y))
    try:
        X = check_array(X, dtype=[np.float64, np.float32])
    except ValueError as error:
        raise ValueError(
            f"{str(error).rstrip('.')}. A metric is learned of an array of numbers: of "
            "other tables give TableEncoder().fit_transform(X), which fills gaps too."
        ) from None
    X, y = check_X_y(
        X,
        y,
        dtype=[np.float64, np.float32],
        multi_output=not labels,
        y_numeric=not labels,
    )
    weight = checked_weight(sample_weight, X)
    n_rows = len(y) if weight is None else np.count_nonzero(weight)
    if n_rows < POLICY.fewest_asked_rows:
        raise ValueError(
            f"Learning a metric needs at least {POLICY.fewest_asked_rows} rows of "
            "positive weight, and there are "
            f"{n_rows}: give more rows, or choose the lengthscales of a kernel."
        )
    if labels:
        y = np.where(y[:, np.newaxis] == np.unique(y), 1.0, -1.0)
    seed = int(check_random_state(random_state).randint(2**31))
    sample = learning_sample(
        ArraySource(X, y.reshape(len(y), -1).astype(np.float64), weight), seed
    )
    parts = "value" if kernel == "gaussian" and metric == "full" else "both"
    task = MetricTask(
        kernel, sample, np.arange(X.shape[1]), schedule(len(X)), seed, parts
    )
    learned = learn(task)
    if metric == "full" and learned.n_mixed > 1:
        learned = learn_full(replace(task, seed=seed + 1), learned)
    elif metric == "full":
        warn(
            "metric='full' learned no linear map: fewer than two columns have more "
            "than two values. Lengthscales of "
            "the columns were learned instead, as with metric='ard'."
        )
    return learned.metric


def _are_labels(y: NDArray) -> bool:
    """Whether targets are classes; whole numbers are, unless there are too many
    different ones.
    """
    if y.ndim != 1 or y.dtype.kind not in "iuf":
        return y.ndim == 1
    return bool((y == np.rint(y)).all()) and n_distinct(y) <= MOST_CLASSES
