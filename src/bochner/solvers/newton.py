"""Convex losses on stored features by Newton's method, each of whose steps is a
reweighted least squares.

The objective is  sum_i w_i loss(y_i, W z_i + b) + 1/2 sum_j alpha_j |W_j|^2.  With B_i
the second derivatives of the loss of row i by its K fitted values, the step (V, c)
solves

    V alpha + sum_i w_i B_i (V z_i + c) z_i' = -gradient by W,
    sum_i w_i B_i (V z_i + c) = -gradient by b.

The second line gives c, K numbers, for any V; so the first is solved for V alone, by
preconditioned conjugate gradients whose tolerance falls with the step (Dembo, Eisenstat
and Steihaug, "Inexact Newton Methods", 1982). The features are read there and back once
an iteration, as by ridge regression. Steps are halved until the objective falls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bochner.data.weights import are_unit
from bochner.design.vector_arithmetic import dots, inner, row_sums
from bochner.features.stored import StoredRows
from bochner.solvers.cg import Solution, System, Visit, conjugate_gradients, never
from bochner.solvers.iterative import IterativeRidge
from bochner.solvers.losses import Loss
from bochner.solvers.preconditioners import (
    Preconditioner,
    SampledGram,
    jacobi,
    side_by_side,
)

FORCING, STRICT = 0.3, 1e-8  # relative errors of a step: of the first, and of none less
# Share of the foretold gain that a step must bring (Armijo), and how often it is halved
ENOUGH, HALVINGS = 1e-4, 30
# Logarithm of odds that a step changes, beyond which its curvature tells nothing
REACH = 8.0
# Of the weight and of the largest: curvatures that are none
FLAT, SINGULAR = 1e-12, 1e-10
# Effective number of rows by their curvatures, over all, below which few count
UNEVEN = 0.1
TINY = float(np.finfo(np.float64).tiny)

# Coefficients, (K, D), and offsets for features as they are stored, (K,)
Point: TypeAlias = tuple[NDArray, NDArray]


class _Rows(NamedTuple):
    """A block of rows, their targets, present fitted values, and the first and second
    derivatives of the loss there, all of shape (K, n).
    """

    stored: StoredRows
    Y: NDArray
    F: NDArray
    G: NDArray
    C: NDArray

    def weighted(self, T: NDArray) -> NDArray:
        """T times the weights of the rows."""
        weight = self.stored.weight
        return T if are_unit(weight) else T * weight.astype(T.dtype, copy=False)


class Reweighted:
    """A penalised loss on stored rows, with its derivatives at a point that moves.

    Parameters
    ----------
    blocks : iterable of StoredRows
    loss : Loss
    penalty : array of shape (K, D) or (K, 1)
        Ridge penalties of the coefficients.
    coef : array of shape (K, D)
        To begin with.
    offset : array of shape (K,)
    dtype : dtype
        Of the vectors.
    """

    def __init__(
        self,
        blocks: Iterable[StoredRows],
        loss: Loss,
        penalty: NDArray,
        coef: NDArray,
        offset: NDArray,
        dtype: DTypeLike,
    ) -> None:
        self.loss = loss
        self.dtype = np.dtype(dtype)
        self.penalty = penalty.astype(self.dtype)
        self.coef = np.ascontiguousarray(coef, self.dtype)
        self.offset = offset.astype(np.float64)
        self.rows = list[_Rows]()
        for block in blocks:
            Y = block.y.T.astype(self.dtype)
            F = self._fitted(block, self.coef, self.offset)
            self.rows.append(_Rows(block, Y, F, *loss.derivatives(Y, F)))
        self.weight = sum(
            float(rows.stored.weight.sum(dtype=np.float64)) for rows in self.rows
        )

    def _forward(self, block: StoredRows, V: NDArray) -> NDArray:
        return block.features.forward(V).astype(self.dtype, copy=False)

    def _fitted(self, block: StoredRows, coef: NDArray, offset: NDArray) -> NDArray:
        F = self._forward(block, coef)
        F += offset[:, np.newaxis].astype(self.dtype)
        return F

    def fitted(self, coef: NDArray, offset: NDArray) -> list[NDArray]:
        """Fitted values of the blocks by other coefficients and offsets."""
        return [self._fitted(rows.stored, coef, offset) for rows in self.rows]

    def gradient(self, fitted: list[NDArray], coef: NDArray) -> Point:
        """Of the objective, by coefficients, (K, D), and offsets, (K,), that give
        these fitted values of the blocks.
        """
        by_coef = np.ascontiguousarray(self.penalty * coef, self.dtype)
        by_offset = np.zeros(len(coef))
        for rows, F in zip(self.rows, fitted, strict=True):
            slopes = rows.weighted(self.loss.derivatives(rows.Y, F)[0])
            by_offset += row_sums(slopes)
            rows.stored.features.backward(slopes, by_coef)
        return by_coef, by_offset

    def linearise(self, gradient: Point | None = None) -> None:
        """Take note of the derivatives at the present point; the first ones may be
        given, as those of more rows.

        `rhs`, (K, D), is then the right-hand side of the equations for a step.
        """
        K = len(self.coef)
        bends = np.zeros((K, K))
        for rows in self.rows:
            if self.loss.coupled:
                columns = [self._bent(rows, unit) for unit in np.eye(K)]
                bends += np.stack([row_sums(column) for column in columns], axis=1)
            else:
                bends += np.diag(row_sums(rows.weighted(rows.C)))
        self._inverse = np.linalg.pinv(
            bends + FLAT * self.weight * np.eye(K), rcond=SINGULAR, hermitian=True
        )
        self._gradient = self.penalty * self.coef
        first: list[Any] = [0.0] * len(self.rows)
        if gradient is None:
            first = [rows.weighted(rows.G) for rows in self.rows]
            gradient = self._gradient, sum(map(row_sums, first), np.zeros(K))
        whole, slopes = gradient
        self._constant = -self._inverse @ slopes
        self.rhs = (-whole).astype(self.dtype)
        for rows, g in zip(self.rows, first, strict=True):
            bent = self._bent(rows, self._constant)
            rows.stored.features.backward(-(g + bent), self.rhs)

    def _bent(self, rows: _Rows, T: NDArray) -> NDArray:
        """Second derivatives times the weights and T, (K, n) or (K,), shape (K, n)."""
        if T.ndim == 1:
            T = np.broadcast_to(T[:, np.newaxis].astype(self.dtype), rows.F.shape)
        return rows.weighted(self.loss.bend(rows.C, T))

    def operator(self, P: NDArray, Q: NDArray) -> NDArray:
        """Add the product of P, (K, D) or flat, and the matrix of the equations to Q;
        inner products of the rows.
        """
        K = len(self.coef)
        changes = self._changes(np.ascontiguousarray(P.reshape(K, -1)))
        out = Q.reshape(K, -1)
        total = np.zeros(K)
        constant = self._follow(changes)
        for rows, T in zip(self.rows, changes, strict=True):
            T += constant[:, np.newaxis].astype(self.dtype)
            bent = self._bent(rows, T)
            total += np.einsum("kn,kn->k", T, bent, dtype=np.float64)
            rows.stored.features.backward(bent, out)
        return total if len(P) == K else total.sum(keepdims=True)

    def _changes(self, V: NDArray) -> list[NDArray]:
        return [self._forward(rows.stored, V) for rows in self.rows]

    def _follow(self, changes: list[NDArray]) -> NDArray:
        """The offsets that go with changes of the fitted values, shape (K,)."""
        sums = np.zeros(len(self.coef))
        for rows, T in zip(self.rows, changes, strict=True):
            sums += row_sums(self._bent(rows, T))
        return -self._inverse @ sums

    def offset_step(self, step: NDArray) -> NDArray[np.float64]:
        """The change of the offsets, shape (K,), that goes with a step of the
        coefficients.
        """
        return self._constant + self._follow(self._changes(step))

    def weights(self) -> NDArray:
        """Sums of the weights times the second derivatives of each output, shape
        (K,), never zero.
        """
        sums = sum(
            row_sums(rows.weighted(self.loss.diagonal(rows.C))) for rows in self.rows
        )
        return np.maximum(sums, FLAT * self.weight)

    def uneven_curvature(self) -> NDArray | None:
        """Weights times the second derivatives of a single output, (n,), where a few
        rows have most of them; else None.
        """
        if len(self.coef) > 1:
            return None
        bends = [rows.weighted(self.loss.diagonal(rows.C))[0] for rows in self.rows]
        curvature = np.concatenate(bends).astype(np.float64)
        effective = curvature.sum() ** 2 / max(np.square(curvature).sum(), TINY)
        return curvature if 0 < effective < UNEVEN * len(curvature) else None

    def diagonal(self, wanted: Sequence[bool]) -> NDArray:
        """Diagonal of the second derivative of the loss, shape (K, D), for the maps
        that are wanted; else zero.
        """
        total = np.zeros_like(self.coef)
        for rows in self.rows:
            weight = rows.weighted(self.loss.diagonal(rows.C))
            rows.stored.features.squares_of(wanted, weight, total)
        return total

    def squared_norm(self) -> float:
        """Square of the coefficients' length in the norm of the second derivative."""
        total = self._penalty_of(self.coef)
        for rows in self.rows:
            T = rows.F - self.offset[:, np.newaxis].astype(self.dtype)
            total += inner(self._bent(rows, T), T)
        return total

    def _penalty_of(self, coef: NDArray) -> float:
        """Squares of coefficients times their ridge penalties, summed."""
        if self.penalty.shape[1] > 1:
            return float(dots(self.penalty * coef, coef).sum())
        return float(self.penalty[:, 0] @ dots(coef, coef))

    def objective(self, F: list[NDArray], coef: NDArray) -> float:
        """At fitted values of the blocks and coefficients; infinite where it
        overflows.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            total = self._penalty_of(coef) / 2
            for rows, fitted in zip(self.rows, F, strict=True):
                losses = self.loss.value(rows.Y, fitted).astype(np.float64)
                total += float(rows.stored.weight @ losses)
        return total if np.isfinite(total) else np.inf

    def move(self, step: NDArray) -> tuple[float, bool]:
        """Go along a step of the coefficients, by its half while that does not gain
        enough.

        Of classes together, each goes only within its reach where the whole step does
        not gain enough: a class of a row or two would cut the steps of all others.

        Returns the squared length of the step in the norm of the second derivative, and
        whether anything was gained.
        """
        changes = self._changes(step)
        constant = self._constant + self._follow(changes)
        for change in changes:
            change += constant[:, np.newaxis].astype(self.dtype)
        before = self.objective([rows.F for rows in self.rows], self.coef)
        length = 1.0
        for attempt in range(HALVINGS):
            slope = inner(self._gradient, step)
            for rows, change in zip(self.rows, changes, strict=True):
                slope += inner(rows.weighted(rows.G), change)
            scale = np.asarray(length, self.dtype)
            coef = self.coef + scale * step
            F = [
                rows.F + scale * change
                for rows, change in zip(self.rows, changes, strict=True)
            ]
            if self.objective(F, coef) <= before + ENOUGH * length * min(slope, 0.0):
                break
            if attempt == 0 and self.loss.coupled:
                # Share that each class goes, (K, 1), so that its score gains no more
                # than `REACH` on that of the own class of any row
                gains = []
                for rows, change in zip(self.rows, changes, strict=True):
                    of_own_class = np.where(rows.Y > 0, change, 0).sum(axis=0)
                    gains.append((change - of_own_class).max(axis=1, keepdims=True))
                share = REACH / np.maximum(np.max(gains, axis=0), REACH)
                share = share.astype(self.dtype)
                constant = share[:, 0] * constant
                step = share * step
                changes = [share * change for change in changes]
            else:
                length /= 2
        else:
            return max(-slope, 0.0), False
        self.move_to(coef, self.offset + length * constant, F)
        return max(-slope, 0.0), True

    def move_to(self, coef: NDArray, offset: NDArray, F: list[NDArray]) -> None:
        """Go to coefficients and offsets that give these fitted values."""
        self.coef = coef
        self.offset = offset
        self.rows = [
            _Rows(rows.stored, rows.Y, fitted, *self.loss.derivatives(rows.Y, fitted))
            for rows, fitted in zip(self.rows, F, strict=True)
        ]


def minimise(
    problem: Reweighted,
    precondition: Callable[[Reweighted], Preconditioner],
    tol: float,
    max_steps: int,
    max_iter: int,
    visit: Callable[[Reweighted, int], bool] = never,
    is_late: Callable[[], bool] = never,
) -> int:
    """Minimise a penalised loss, and return the number of steps.

    Parameters
    ----------
    problem : Reweighted
        At its start.
    precondition : callable (problem) -> Preconditioner
        For vectors of shape (K, D), at the present point.
    tol : float
        Relative error at which to stop: length of a step over that of the solution, as
        by ridge regression in the norm of the second derivative.
    max_steps : int
        Steps of Newton's method.
    max_iter : int
        Iterations of conjugate gradients for each of them.
    visit : callable (problem, n_steps) -> bool, optional
        Called after every step; a true value ends them.
    is_late : callable () -> bool, optional
        Asked after every iteration and step; a true value ends them.
    """
    n_steps = 0
    error = np.inf
    forcing = FORCING
    while n_steps < max_steps and error > tol:
        problem.linearise()
        solution = _solve(
            problem,
            precondition(problem),
            forcing,
            max_iter,
            lambda coef, n_iter: is_late(),
        )
        squared, gained = problem.move(solution.coef.reshape(problem.coef.shape))
        n_steps = n_steps + 1
        error = float(np.sqrt(squared / max(problem.squared_norm(), TINY)))
        forcing = float(np.clip(error, STRICT, FORCING))
        if visit(problem, n_steps) or is_late() or not gained:
            break
    return n_steps


def newton_step(problem: Reweighted, ridge: IterativeRidge, max_iter: int) -> Point:
    """A step of the coefficients, (K, D), and of the offsets, (K,), by the derivatives
    of which note was taken.

    Parameters
    ----------
    problem : Reweighted
    ridge : IterativeRidge
        Of whose features it is.
    max_iter : int
        Iterations of conjugate gradients.
    """
    solution = _solve(problem, precondition(ridge, problem), FORCING, max_iter)
    step = solution.coef.reshape(problem.coef.shape)
    return step, problem.offset_step(step)


def _solve(
    problem: Reweighted,
    inverse: Preconditioner,
    tol: float,
    max_iter: int,
    visit: Visit = never,
) -> Solution:
    """The equations of a step by conjugate gradients; of outputs that are coupled,
    all in one vector.
    """
    if not problem.loss.coupled:
        system = System(problem.operator, problem.penalty, inverse)
        return conjugate_gradients(system, problem.rhs, tol, max_iter, visit)
    K = len(problem.coef)

    def apply(R: NDArray, Z: NDArray) -> NDArray:
        products = inverse.apply(R.reshape(K, -1), Z.reshape(K, -1))
        return np.sum(products, keepdims=True)

    penalty = np.broadcast_to(problem.penalty, problem.coef.shape).reshape(1, -1)
    system = System(problem.operator, penalty, Preconditioner(apply))
    return conjugate_gradients(system, problem.rhs.reshape(1, -1), tol, max_iter, visit)


def precondition(ridge: IterativeRidge, problem: Reweighted) -> Preconditioner:
    """The diagonal of bins, and sampled rows for dense features, whose inverse is taken
    times the mean curvature of each output.

    Parameters
    ----------
    ridge : IterativeRidge
        Of whose features the problem is.
    """
    weights = problem.weights()
    parts = list[Preconditioner]()
    samples = ridge.samples()
    diagonal = (
        problem.diagonal([sample is None for sample in samples])
        if None in samples
        else np.empty(0)
    )
    curvature = problem.uneven_curvature()
    ranges = zip(samples, pairwise(ridge.edges), strict=True)
    for m, (sample, (first, stop)) in enumerate(ranges):
        penalty = problem.penalty
        if penalty.shape[1] > 1:
            penalty = penalty[:, first:stop]
        if sample is None:
            parts.append(jacobi(diagonal[:, first:stop], penalty))
        elif curvature is not None and isinstance(sample, SampledGram):
            curved = ridge.curved_sample(m, curvature)
            parts.append(curved.with_penalty(float(weights[0]), penalty[:, 0]))
        else:
            # One factor serves all outputs, and all steps whose mean curvature is about
            # as large: a factorisation takes as long as hundreds of products.
            shared = 4.0 ** np.round(np.mean(np.log(weights)) / np.log(4.0))
            inverse = sample.with_penalty(
                1.0, penalty[:, 0] / np.full(len(weights), shared)
            )
            parts.append(_each_by_weight(inverse, weights))
    return side_by_side(parts, ridge.edges)


def _each_by_weight(inverse: Preconditioner, weights: NDArray) -> Preconditioner:
    """An approximate inverse for weights of one, for those of each output."""

    def apply(R: NDArray, Z: NDArray) -> NDArray:
        products = inverse.apply(R, Z)
        Z /= weights[:, np.newaxis].astype(Z.dtype)
        return products / weights

    return Preconditioner(apply)
