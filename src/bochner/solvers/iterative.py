"""Ridge regression by conjugate gradients on the features of a design, held in
memory or computed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bochner.arrays import Floats
from bochner.data.array_source import Block
from bochner.data.weights import draw_rows, weights_of
from bochner.design.design import Design
from bochner.design.normal import NormalEquations
from bochner.features.base import FeatureMap, Rows
from bochner.features.concatenate import ConcatenatedFeatures
from bochner.features.stored import Stored, StoredRows, StoredTogether
from bochner.solvers.cg import Solution, System, Visit, conjugate_gradients, never
from bochner.solvers.preconditioners import (
    TAIL_ROWS,
    LeverageGram,
    Preconditioner,
    SampledGram,
    SampledRows,
    jacobi,
    side_by_side,
)

GRAM_LIMIT, FEWEST_SAMPLED, MOST_SAMPLED = 2048, 4096, 8192
# Rows whose mean features are subtracted from those of all rows: within a twentieth of
# a deviation of the mean of all rows
CENTRED = 512
# Entries of dense features, beyond which they are rounded to 8 bits: alone, where that
# is needed for memory; beside bins, which are stopped early, beyond those in caches
PACKED_ENTRIES = 1 << 28
PACKED_BESIDE = 1 << 23
ROUNDING_ERROR, CORRECTED = 5e-3, 0.1
MOST_REFINEMENTS = 8
# Rows drawn by leverage for each feature, and solutions that tell the leverages
LEVERAGE_ROWS, SKETCH = 2, 16
EVEN_SHARE = 0.25  # of the leverage that is spread evenly, for it is an estimate


Sample = SampledGram | SampledRows | LeverageGram


def sampled_rows(n_features: int) -> int:
    """Rows of the preconditioner of `n_features` dense features, more than
    `GRAM_LIMIT`, beside those that tell the tail.
    """
    return min(n_features // 4, MOST_SAMPLED)


def preconditioner_bytes(n_features: int, n_rows: int) -> int:
    """Bytes of the features of sampled rows, and of their factors."""
    if n_features <= GRAM_LIMIT:
        n_sampled = min(4 * n_features, n_rows)
        return 4 * n_features * n_sampled + 24 * n_features**2
    n_sampled = sampled_rows(n_features)
    return 4 * n_features * n_sampled + 24 * n_sampled**2


class RidgeFit(NamedTuple):
    """A solution, of which the coefficients, (K, D), are those of the features of a
    map, and intercepts, shape (K,).
    """

    solution: Solution
    intercept: NDArray


class IterativeRidge:
    """Ridge regression on all rows of a design, or without some of them, for any
    penalties.

    The features are stored, and rows sampled for the preconditioners, once; then it
    solves for any of them.

    Parameters
    ----------
    design : Design
        Its map is drawn; it takes note of the training rows here.
    seed : int
        Of the sample of rows.
    centres, blocks, samples : optional
        What another one has taken note of already: see `centres`, its stored rows, and
        its samples.

    Attributes
    ----------
    maps : list of FeatureMap
        The M maps whose features stand side by side; each has a penalty of its own.
    scales : array of shape (M,)
        Factors on their features.
    edges : int64 array of shape (M + 1,)
        First column of each.
    centres : list of array or None
        Means of some rows, which are taken from the stored features of dense maps.
    dtype : dtype
        Of the vectors: double precision, but that of the design where there are bins,
        which have many columns.
    packed : bool
        Whether dense features are rounded to 8 bits.
    """

    def __init__(
        self,
        design: Design,
        seed: int,
        centres: list[NDArray | None] | None = None,
        blocks: Sequence[StoredRows] | None = None,
        samples: list[Sample | None] | None = None,
    ) -> None:
        features = design.features
        self.design = design
        self.seed = seed
        self.maps = features.parts
        self.scales = features.scales
        self.dtype = np.dtype(np.float64) if features.is_dense else design.dtype
        n_dense = sum(part.n_features_out for part in self.maps if part.is_dense)
        most = PACKED_ENTRIES if features.is_dense else PACKED_BESIDE
        packs = design.n_rows * n_dense > most
        if centres is None:
            X, _, weight = self._sample(CENTRED)
            centres = features.centres(X, weight)
        self.centres = centres
        self._samples = samples
        self.blocks = design.store(packs, centres) if blocks is None else blocks
        self.packed = (
            packs and isinstance(self.blocks, list) and design.on_device is None
        )
        # The number of bins is known only now
        self.edges = np.cumsum([0, *(part.n_features_out for part in self.maps)])

    def weighted(self, features: ConcatenatedFeatures) -> IterativeRidge:
        """Copy the problem with the maps' weights as they are in `features`, which have
        learned them since.
        """
        return self._with(features, [[] for _ in self.blocks], self.centres)

    def beside(self, part: FeatureMap, weight: float) -> IterativeRidge:
        """Copy the problem with another map beside, drawn for its rows and of the given
        weight; features are shared.
        """
        source = self.design.source
        X, _, row_weights = self._sample(CENTRED)
        part.fit_sample(X, row_weights)
        centres = [*self.centres, *part.centres(X, row_weights)]
        others = []
        first = 0
        for block in self.blocks:
            rows = source.take(slice(first, first + len(block.y))).whole().X
            rows = rows.astype(self.design.dtype, copy=False)
            others.append([part.fit_store(rows, centres=centres[-1:])])
            first += len(block.y)
        part.finalize()
        features = ConcatenatedFeatures.beside(self.design.features, part, weight)
        sample = self._features_of_sample(part, features.scales[-1])
        return self._with(features, others, centres, [*self.samples(), sample])

    def _with(
        self,
        features: ConcatenatedFeatures,
        others: list[list[Stored]],
        centres: list[NDArray | None],
        samples: list[Sample | None] | None = None,
    ) -> IterativeRidge:
        """Copy the problem with others beside the stored features of each block, which
        are those of a map together.
        """
        blocks = []
        for block, beside in zip(self.blocks, others, strict=True):
            parts = [*(part for part, *_ in block.features.each()), *beside]
            together = StoredTogether(parts, features.scales, features.edges_)
            blocks.append(block._replace(features=together))
        design = self.design.of(self.design.source, features)
        return IterativeRidge(design, self.seed, centres, blocks, samples)

    def holding(self, blocks: list[StoredRows]) -> IterativeRidge:
        """Copy the problem with other targets or weights of the rows."""
        return IterativeRidge(
            self.design, self.seed, self.centres, blocks, self._samples
        )

    def _sample(self, size: int) -> Block:
        """Some of the rows."""
        X, y, weight = self.design.source.sample(
            size, np.random.default_rng(self.seed)
        ).whole()
        return Block(X.astype(self.design.dtype, copy=False), y, weight)

    def store(self, X: Rows, packed: bool = False) -> Stored:
        """Features of other rows, centred as those of the design are."""
        return self.design.features.store(X, packed, self.centres)

    def intercept(self, equations: NormalEquations, coef: NDArray) -> NDArray:
        """Intercepts that go with coefficients of shape (K, D), for features that
        are not centred; shape (K,).
        """
        return self.uncentred(coef, equations.intercept(coef))

    def uncentred(self, coef: NDArray, offset: NDArray) -> Floats:
        """Intercepts, shape (K,), for features that are not centred, of offsets for
        those that are.
        """
        return offset.astype(np.float64) - self._at_centres(coef)

    def centred(self, coef: NDArray, intercept: NDArray) -> Floats:
        """Offsets, shape (K,), for the features as they are stored, of intercepts
        for those that are not centred.
        """
        return intercept.astype(np.float64) + self._at_centres(coef)

    def _at_centres(self, coef: NDArray) -> NDArray:
        """Fitted values at the centres, shape (K,)."""
        total = np.zeros(len(coef))
        for centre, scale, (first, stop) in zip(
            self.centres, self.scales, pairwise(self.edges), strict=True
        ):
            if centre is not None:
                total += scale * coef[:, first:stop] @ centre
        return total

    @property
    def is_dense(self) -> bool:
        """Whether there are no bins."""
        return self.design.features.is_dense

    def equations(self, included: NDArray | None = None) -> NormalEquations:
        """Normal equations of all rows, or of those that the mask `included` tells."""
        blocks = self.blocks if included is None else Without(self.blocks, included)
        return NormalEquations(
            blocks, int(self.edges[-1]), self.design.source.n_outputs, self.dtype
        )

    def predict(self, equations: NormalEquations, coef: NDArray) -> Floats:
        """Predictions for all rows of the design, (n, K), by coefficients of shape
        (K, D) and their intercept.
        """
        parts = [block.features.forward(coef).T for block in self.blocks]
        return np.concatenate(parts) + equations.intercept(coef)

    def fit(
        self,
        penalty: NDArray,
        tol: float,
        max_iter: int,
        start: NDArray | None = None,
        equations: NormalEquations | None = None,
        visit: Visit = never,
    ) -> RidgeFit:
        """Solve for all outputs on all rows; to a small tolerance the rounding of the
        features is corrected for.

        Parameters
        ----------
        penalty : array of shape (M,)
            Ridge penalties of the maps.
        start : array of shape (K, D), optional
            First coefficients, zero by default.
        equations : NormalEquations, optional
            Those of all rows, where they are known already.
        visit
            See `conjugate_gradients`.
        """
        equations = self.equations() if equations is None else equations
        system = self.system(equations, np.tile(penalty, (equations.shape[0], 1)))
        refined = 0 < tol < ROUNDING_ERROR and self.packed
        first_tol = max(tol, ROUNDING_ERROR) if refined else tol
        solution = conjugate_gradients(
            system, equations.rhs, first_tol, max_iter, visit, start
        )
        if refined:
            # Residuals without rounding, corrections with it. Each correction is solved
            # for to a tenth, and so leaves about a tenth of the error that it measures.
            # The residual that is told is the one before the last correction.
            coef = solution.coef
            equations = NormalEquations(
                self.design.again(self.centres), coef.shape[1], len(coef), self.dtype
            )
            n_iter = solution.n_iter
            for _ in range(MOST_REFINEMENTS):
                residual = equations.rhs - equations(coef) - system.penalty * coef
                step = conjugate_gradients(system, residual, CORRECTED, max_iter)
                sizes = (equations.rhs * coef).sum(axis=1)
                gains = (residual * step.coef).sum(axis=1)
                shares = np.maximum(gains, 0) / np.where(sizes > 0, sizes, np.inf)
                error = 2 * CORRECTED * float(np.sqrt(shares.max()))
                coef = coef + step.coef
                n_iter = n_iter + step.n_iter
                if error <= tol:
                    break
            relative_residual = np.linalg.norm(residual, axis=1) / np.maximum(
                np.linalg.norm(equations.rhs, axis=1), 1e-300
            )
            solution = Solution(
                coef, n_iter, float(relative_residual.max()), error, error <= tol
            )
        return RidgeFit(solution, self.intercept(equations, solution.coef))

    def solve(
        self,
        equations: NormalEquations,
        penalty: NDArray,
        tol: float,
        max_iter: int,
        rhs: NDArray | None = None,
        visit: Visit = never,
    ) -> Solution:
        """Solve for each right-hand side with its own penalties.

        Parameters
        ----------
        penalty : array of shape (K, M)
            Ridge penalties of the maps.
        rhs : array of shape (K, D), optional
            By default that of the equations.
        visit
            See `conjugate_gradients`.
        """
        rhs = equations.rhs if rhs is None else rhs
        return conjugate_gradients(
            self.system(equations, penalty), rhs, tol, max_iter, visit
        )

    def system(self, equations: NormalEquations, penalty: NDArray) -> System:
        """The matrix with ridge penalties of shape (K, M), and its preconditioner,
        which serve any right-hand sides: Jacobi for bins, sampled rows for dense
        features.
        """
        # Penalties of the columns, shape (K, 1) where all maps have the same
        if (penalty == penalty[:, :1]).all():
            per_column = penalty[:, :1]
        else:
            per_column = np.repeat(penalty, np.diff(self.edges), axis=1)
        # Next to bins in single precision, dense directions that hardly a row has are
        # known up to the rounding of all columns' sums; that is added to their ridge
        # penalty, lest they be blown up beyond what the products can tell.
        parts: list[Preconditioner] = []
        samples = self.samples()
        diagonal = equations.diagonal() if None in samples else np.empty(0)
        rounding = np.finfo(self.dtype).eps * diagonal.sum(dtype=np.float64)
        for m, sample in enumerate(samples):
            if sample is None:
                columns = slice(self.edges[m], self.edges[m + 1])
                of_map = penalty[:, m : m + 1].astype(self.dtype)
                parts.append(jacobi(diagonal[columns], of_map))
            else:
                of_map = penalty[:, m] + rounding
                parts.append(sample.with_penalty(equations.weight, of_map))
        return System(
            equations.add,
            per_column.astype(self.dtype),
            side_by_side(parts, self.edges),
        )

    def samples(self) -> list[Sample | None]:
        """What samples of rows tell of the dense maps, drawn once."""
        if self._samples is None:
            self._samples = [
                self._features_of_sample(part, scale)
                for part, scale in zip(self.maps, self.scales, strict=True)
            ]
        return self._samples

    def curved_sample(self, m: int, curvature: NDArray) -> LeverageGram:
        """What rows drawn by their curvature, (n,), tell of a dense map, each by what
        it weighs; a part of them are drawn evenly, as rows of little curvature may be
        the only ones in their region.
        """
        size = max(4 * self.maps[m].n_features_out, FEWEST_SAMPLED)
        score = curvature + EVEN_SHARE * curvature.mean()
        rows, factors = draw_rows(score, size, np.random.default_rng(self.seed))
        return self._gram_of_rows(m, rows, curvature[rows] * factors, np.float32)

    def draw_by_leverage(self, penalty: float) -> None:
        """Draw the rows of the preconditioner of a single dense map again, by their
        leverages at a ridge penalty.

        The leverage of row z is z'M^-1 z, M = w G + penalty. Of solutions v of M v = m,
        m normal with the covariance M, (v'z)^2 has that mean; here the first sample
        stands for M.
        """
        (sample,), rng = self.samples(), np.random.default_rng(self.seed)
        assert isinstance(sample, SampledRows)
        weight = self.design.source.total_weight
        weights = self.design.source.weights
        V = sample.draw(weight, penalty, SKETCH, rng).astype(self.dtype)
        leverage = np.concatenate(
            [np.square(block.features.forward(V)).mean(axis=0) for block in self.blocks]
        )
        score = weights * (
            leverage + EVEN_SHARE * np.average(leverage, weights=weights)
        )
        rows, factors = draw_rows(score, LEVERAGE_ROWS * len(V[0]), rng)
        row_weights = weights_of(weights, rows) * factors
        self._samples = [self._gram_of_rows(0, rows, row_weights, self.design.dtype)]

    def _gram_of_rows(
        self, m: int, rows: NDArray, row_weights: NDArray, dtype: DTypeLike
    ) -> LeverageGram:
        """What some rows, of these weights, tell of the features of a dense map."""
        dense = self.maps[m].dense
        assert dense is not None
        X = self.design.source.take(rows).whole().X
        Z = dense.rows(X.astype(dtype, copy=False))
        row_weights = row_weights / row_weights.sum()
        Z -= (row_weights @ Z).astype(Z.dtype)
        Z *= (self.scales[m] * np.sqrt(row_weights))[:, np.newaxis].astype(Z.dtype)
        return LeverageGram(Z)

    def _features_of_sample(
        self, part: FeatureMap, scale: float
    ) -> SampledGram | SampledRows | None:
        """What a sample of rows tells of the features of a dense map; None of bins."""
        if part.dense is None:
            return None
        D = part.n_features_out
        small = D <= GRAM_LIMIT
        size = max(4 * D, FEWEST_SAMPLED) if small else sampled_rows(D) + TAIL_ROWS
        X, _, weight = self._sample(size)
        order = (
            np.arange(len(weight))
            if small
            else np.random.default_rng(self.seed + 1).permutation(len(weight))
        )
        Z = part.dense.rows(X[order])
        weight = weight[order] / weight.mean()
        Z -= (weight @ Z / len(Z)).astype(Z.dtype)
        Z *= (scale * np.sqrt(weight))[:, np.newaxis].astype(Z.dtype)
        return SampledGram(Z) if small else SampledRows(Z)


@dataclass(frozen=True)
class Without:
    """Blocks in which some rows have no weight.

    Attributes
    ----------
    blocks : iterable of StoredRows
    included : bool array of shape (n,)
        False for the rows that are left out.
    """

    blocks: Iterable[StoredRows]
    included: NDArray

    def __iter__(self) -> Iterator[StoredRows]:
        first = 0
        for block in self.blocks:
            rows = slice(first, first + len(block.y))
            weight = self.included[rows].astype(np.float32) * block.weight
            yield block._replace(weight=weight)
            first += len(block.y)
