"""Convex losses on rows that are read in passes: Newton's method with the second
derivatives of a sample.

A pass sums the objective and its gradient over all rows, which threads, processes or
machines may do. The equations of a step have the second derivatives of the rows of a
sample in memory, and are solved there (Shamir, Srebro and Zhang,
"Communication-Efficient Distributed Optimization using an Approximate Newton-type
Method", 2014): the error falls by about the root of D / m with each pass, for D
features and m rows of the sample. So a few passes are enough after the solution for the
sample. A step is halved until the objective falls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats
from bochner.design.normal import Sums
from bochner.design.passes import PassSums, summed
from bochner.design.vector_arithmetic import inner, row_sums
from bochner.features.stored import StoredRows
from bochner.solvers.cg import never
from bochner.solvers.iterative import IterativeRidge
from bochner.solvers.losses import Loss
from bochner.solvers.newton import ENOUGH, Point, Reweighted, newton_step

# Share of a step that is tried; the next one begins with twice what served
SHORTEST = 2.0**-5


@dataclass
class LossTotals(PassSums):
    """Sums over rows at a point.

    Attributes
    ----------
    value : float
        The loss.
    gradient : array of shape (K, D)
        By the coefficients.
    slopes : array of shape (K,)
        By the offsets.
    weight : float
    """

    value: float
    gradient: NDArray
    slopes: Floats
    weight: float


def loss_totals(
    blocks: Iterable[StoredRows], V: NDArray, offset: Floats, loss: Loss, sums: Sums
) -> LossTotals:
    """The sums over some blocks at coefficients V, (K, D), and offsets, (K,)."""
    value = 0.0
    weights = 0.0
    slopes = np.zeros(len(V))
    gradient = sums.zeros(*V.shape)
    for features, y, weight in blocks:
        F = features.forward(V).astype(sums.dtype, copy=False)
        F += offset[:, np.newaxis].astype(F.dtype)
        Y = np.ascontiguousarray(y.T, F.dtype)
        T = weight.astype(F.dtype, copy=False) * loss.derivatives(Y, F)[0]
        value += float(weight @ loss.value(Y, F).astype(np.float64))
        weights += float(weight.sum(dtype=np.float64))
        slopes += row_sums(T)
        sums.add(gradient, partial(features.backward, np.ascontiguousarray(T)))
    return LossTotals(value, gradient, slopes, weights)


def minimise_in_passes(
    ridge: IterativeRidge,
    sample: IterativeRidge,
    loss: Loss,
    alpha: float,
    begun: Point,
    tol: float,
    most: int,
    max_iter: int,
    is_late: Callable[[], bool] = never,
) -> Point:
    """Minimise a penalised loss from coefficients on that were found for a sample of
    the rows.

    Parameters
    ----------
    ridge : IterativeRidge
        All rows, seen through a map that is fixed.
    sample : IterativeRidge
        Some of them in memory, seen through the same map.
    loss : Loss
    alpha : float
        The ridge penalty of all rows.
    begun : tuple of arrays of shapes (K, D) and (K,)
        Coefficients, and offsets of features as they are stored.
    tol : float
        The passes end where another step may gain less than the square of it, as a
        share of the objective.
    most : int
        Passes.
    max_iter : int
        Iterations of conjugate gradients for each step.
    is_late : callable () -> bool
        Asked after every pass; a true value ends them.
    """
    sums = Sums(np.dtype(ridge.dtype), bool(getattr(ridge.blocks, "many", False)))
    V = begun[0].astype(ridge.dtype)
    b = begun[1].astype(np.float64)
    n_passes = 0

    def totals_at(V: NDArray, b: NDArray) -> LossTotals:
        nonlocal n_passes
        n_passes += 1
        V = np.ascontiguousarray(V)
        totals: LossTotals = summed(ridge.blocks, loss_totals, V, b, loss, sums)
        value = totals.value + alpha / 2 * inner(V, V)
        gradient = totals.gradient + alpha * V
        return replace(totals, value=value, gradient=gradient)

    present = totals_at(V, b)
    share = sum(float(block.weight.sum(dtype=np.float64)) for block in sample.blocks)
    length = 1.0
    share /= present.weight
    while n_passes < most and not is_late():
        problem = Reweighted(
            sample.blocks, loss, np.full((len(V), 1), share * alpha), V, b, ridge.dtype
        )
        problem.linearise((share * present.gradient, share * present.slopes))
        step, constant = newton_step(problem, sample, max_iter)
        gain = -inner(present.gradient, step) - float(present.slopes @ constant)
        if gain / 2 <= tol**2 * present.value:
            break
        totals = None
        while n_passes < most and length > SHORTEST:
            there = V + np.asarray(length, V.dtype) * step, b + length * constant
            totals = totals_at(*there)
            if totals.value <= present.value - ENOUGH * length * gain:
                break
            length /= 2
        if totals is None or not totals.value < present.value:
            break
        (V, b), present, length = there, totals, min(2 * length, 1.0)
    return V, b
