"""Metrics by stochastic gradient descent on the held-out loss of exact kernels on small blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.engines.local import pause
from bochner.tuning.budget import Budget
from bochner.tuning.metric.blocks import Block, Workspace, diagonal_loss, linear_loss
from bochner.tuning.policy import POLICY


@dataclass(frozen=True)
class Schedule:
    """How long and on what a metric is learned.

    Attributes
    ----------
    steps, block : int
        Most gradient steps, and rows of a block.
    kinds : tuple of {"uniform", "wide", "near"}
        Kinds of blocks in turn: rows at random; rows at random of the 8 blocks nearest to a random row; the nearest.
    seconds : float or None
        The most.
    window : int
        Blocks, whose losses tell whether the learning goes on.
    """

    steps: int
    block: int
    kinds: tuple[str, ...] = ("uniform", "wide", "near")
    seconds: float | None = None
    window: int = POLICY.window


class Blocks:
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
        The first so many columns and as many after them are two rising functions of the same numbers.
    """

    def __init__(
        self,
        rows: NDArray,
        y: NDArray,
        schedule: Schedule,
        seed: int,
        weight: NDArray | None = None,
        n_pairs: int = 0,
    ) -> None:
        self.y, self.schedule, self.n_pairs = y, schedule, n_pairs
        self.rows, self.binary = _from_zero(rows, 2 * n_pairs)
        self._ends = None if weight is None or np.ptp(weight) == 0 else np.cumsum(weight)
        self.rng = np.random.default_rng(seed)
        self.size = min(schedule.block, len(rows))
        n_fit = max(1, min(round(POLICY.fit_share * self.size), self.size - 1))
        self.space = Workspace(self.size, n_fit, rows.dtype)
        self._distances = np.empty(len(rows), rows.dtype)

    def draw(self, kind: str, scales: NDArray) -> Block:
        """A block.

        Parameters
        ----------
        kind : str
        scales : array of shape (p,)
            Of the L1 distance by which rows are near.
        """
        chosen = self._choose(kind, scales)
        return Block(np.ascontiguousarray(self.rows[chosen].T), self.y[chosen], self.n_pairs, self.binary)

    def _choose(self, kind: str, scales: NDArray) -> NDArray:
        n = len(self.rows)
        space = {"uniform": n, "wide": POLICY.wide_neighbours * self.size, "near": self.size}[kind]
        if space >= n:
            return self._random(self.size)
        from bochner.loops.distances import nearness

        nearness(self.rows, self.rows[self._random(1)[0]], scales.astype(self.rows.dtype), self._distances)
        near = self._nearest(space)
        return self.rng.permutation(near) if kind == "near" else self.rng.choice(near, self.size, replace=False)

    def _random(self, size: int) -> NDArray:
        """Rows at random, by their weights; those drawn twice make room for others."""
        n = len(self.rows)
        if self._ends is None:
            return self.rng.choice(n, size, replace=False) if size > 1 else self.rng.integers(n, size=1)
        drawn = np.unique(np.searchsorted(self._ends, self.rng.uniform(0, self._ends[-1], size), side="right"))
        others = self.rng.choice(n, size, replace=False)
        rest = others[~np.isin(others, drawn)][: size - len(drawn)]
        return self.rng.permutation(np.concatenate([np.minimum(drawn, n - 1), rest]))

    def _nearest(self, space: int) -> NDArray:
        """The rows of the least distances; in many rows looked for below a threshold that a sample tells."""
        D = self._distances
        if len(D) < POLICY.rows_for_threshold:
            return np.argpartition(D, space)[:space]
        sample = D[self.rng.integers(len(D), size=POLICY.sampled_distances)]
        share = 1.5 * space / len(D) + 8 / POLICY.sampled_distances
        near = np.flatnonzero(np.quantile(sample, min(share, 1.0)) >= D)
        if len(near) <= space:
            return np.argpartition(D, space)[:space]
        return near[np.argpartition(D[near], space)[:space]]


def _from_zero(rows: NDArray, first: int) -> tuple[NDArray, NDArray[np.intp]]:
    """Rows whose columns of two values, from the given one on, have zero as the lesser one; and these columns."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    varying = first + np.flatnonzero((low < high)[first:])
    binary = np.array([j for j in varying if ((rows[:, j] == low[j]) | (rows[:, j] == high[j])).all()], np.intp)
    if low[binary].any():
        rows = rows.copy()
        rows[:, binary] -= low[binary]
    return rows, binary


class Course:
    """The steps of a descent: how many there are, and how long each may be.

    They have their full length until the losses of the blocks no longer fall, half of the most steps or of the most
    seconds at most; in as many steps more the length falls to zero. Losses are compared in windows, which have blocks
    of all kinds.

    Parameters
    ----------
    schedule : Schedule

    Attributes
    ----------
    left : float
        At the step that is being taken, the share of all steps that are left, twice.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.clock, self.window = Budget(schedule.seconds), schedule.window
        self.turn, self.end, self.left, self.losses = schedule.steps // 2, schedule.steps, 1.0, list[float]()

    def __iter__(self) -> Iterator[int]:
        """Number the steps."""
        done = 0
        while done < self.end:
            pause()
            self.left = 2 * (1 - (done + 1) / (self.end + 1))
            yield done
            done += 1
            if done < self.turn and (self._stalls() or self._is_late(done)):
                self.turn, self.end = done, 2 * done

    def note(self, loss: float) -> None:
        """Note the loss of a block."""
        self.losses.append(loss)

    def _is_late(self, done: int) -> bool:
        """Whether half of the time is over, after the fewest steps."""
        return 2 * done >= POLICY.fewest_steps and not self.clock.has(0.5)

    def _stalls(self) -> bool:
        """Whether the last window of blocks has brought little over the one before."""
        n = self.window
        if len(self.losses) % n or len(self.losses) < 2 * n:
            return False
        before, last = (float(np.nanmean(part)) for part in np.split(np.array(self.losses[-2 * n :]), 2))
        return not last < (1 - POLICY.falling) * before


class Adam:
    """Steps of Adam (Kingma and Ba, 2015) within bounds. The result is the mean over those of the second half."""

    def __init__(
        self, x: NDArray, rate: float = POLICY.rate, floor: float = 0.0, low: Any = None, high: Any = None
    ) -> None:
        self.x, self.rate, self.floor, self.low, self.high = x, rate, floor, low, high
        self.m, self.v, self.total = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
        self.done = self.summed = 0

    def step(self, gradient: NDArray, left: float = 1.0) -> None:
        """Take a step, shortened to `left` where that is below 1; gradients that are not numbers are passed over."""
        if not np.isfinite(gradient).all():
            gradient = np.zeros_like(gradient)
        self.done += 1
        fast, slow = POLICY.betas
        self.m += (1 - fast) * (gradient - self.m)
        self.v += (1 - slow) * (np.square(gradient) - self.v)
        v = self.v / (1 - slow**self.done)
        scale = np.sqrt(v) + self.floor * np.sqrt(v.mean()) + 1e-12
        self.x -= self.rate * min(left, 1.0) * self.m / (1 - fast**self.done) / scale
        if self.low is not None:
            np.clip(self.x, self.low, self.high, out=self.x)
        if left <= 1:
            self.summed += 1
            self.total += self.x

    @property
    def mean(self) -> NDArray:
        """Mean over the steps at which `left` was at most 1."""
        return self.total / max(self.summed, 1)


def _adam(x: NDArray, *bounds: tuple[int, tuple[float, float]]) -> Adam:
    """Steps of Adam for so many entries within each of some bounds."""
    low, high = (np.repeat([bound[k] for _, bound in bounds], [count for count, _ in bounds]) for k in (0, 1))
    return Adam(x, low=low, high=high)


def learn_scales(kernel: str, blocks: Blocks, start: NDArray, column_groups: NDArray) -> tuple[NDArray, NDArray]:
    """Learn one scale a column.

    Shapes are shared by the kinds of blocks; the size of the metric and the noise are free for each kind, whose
    densities differ.

    Parameters
    ----------
    start : array of shape (p,)
        Logarithms of the scales.
    column_groups : int array of shape (p,)
        Columns of one number have one scale.

    Returns
    -------
    log_scales : array of shape (p,)
    sizes : array, one for each kind
        Logarithm of the factor on the scales that each kind of blocks likes.
    """
    kinds, G = blocks.schedule.kinds, int(column_groups.max()) + 1
    Q = len(kinds)
    x = np.zeros(G + 2 * Q)
    x[column_groups], x[G + Q :] = start, POLICY.first_noise
    adam = _adam(x, (G, POLICY.log_scales), (Q, POLICY.log_sizes), (Q, POLICY.log_noises))
    course = Course(blocks.schedule)
    for step in course:
        q = step % Q
        log_scales = x[column_groups]
        block, varies = blocks.draw(kinds[q], np.exp(log_scales)).varying()
        gradient = np.zeros_like(x)
        if len(varies):
            own = diagonal_loss(kernel, block, blocks.space, log_scales[varies] + x[G + q], x[G + Q + q])
            np.add.at(gradient, column_groups[varies], own.metric)
            gradient[G + q], gradient[G + Q + q] = own.metric.sum(), own.log_noise
            course.note(own.loss)
        adam.step(gradient, course.left)
    return adam.mean[column_groups], adam.mean[G : G + Q]


def learn_map(kernel: str, blocks: Blocks, n_mixed: int, sizes: NDArray) -> tuple[NDArray, NDArray]:
    """Learn a linear map of the first columns of the rows, in which the scales are one; the others keep theirs.

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
    kinds, q = blocks.schedule.kinds, n_mixed
    Q, ones = len(kinds), np.ones(blocks.rows.shape[1])
    entries = Adam(np.eye(q).ravel(), POLICY.map_rate * POLICY.rate, POLICY.map_floor)
    start = np.concatenate([sizes, np.full(Q, POLICY.first_noise)])
    free, course = _adam(start, (Q, POLICY.log_sizes), (Q, POLICY.log_noises)), Course(blocks.schedule)
    for step in course:
        k = step % Q
        block = blocks.draw(kinds[k], ones)
        A, size, noise = entries.x.reshape(q, q), float(np.exp(free.x[k])), free.x[Q + k]
        own = linear_loss(kernel, block, blocks.space, A, size, noise)
        course.note(own.loss)
        entries.step(own.metric[:-1], course.left)
        gradient = np.zeros(2 * Q)
        gradient[k], gradient[Q + k] = own.metric[-1], own.log_noise
        free.step(gradient, course.left)
    return entries.mean.reshape(q, q), free.mean[:Q]
