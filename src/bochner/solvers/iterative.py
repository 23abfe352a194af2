"""Ridge regression by conjugate gradients on the features of a design, held in memory or computed anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import cast

import numpy as np
from numpy.typing import NDArray

from bochner.design import Design
from bochner.features.base import DenseFeatureMap
from bochner.features.stored import StoredRows
from bochner.normal import NormalEquations
from bochner.solvers.cg import Solution, conjugate_gradients
from bochner.solvers.preconditioners import JUDGES, Blocks, Jacobi, Preconditioner, SampledGram, SampledRows

GRAM_LIMIT, FEWEST_SAMPLED, MOST_SAMPLED = 2048, 4096, 8192
PACKED_ENTRIES = 1 << 28
ROUNDING_ERROR, CORRECTED = 5e-3, 0.1
MOST_REFINEMENTS = 8


class IterativeRidge:
    """Ridge regression on all rows of a design, or without some of them, for any penalties.

    Parameters
    ----------
    design : Design
        Its map is drawn; it learns the rows here.
    seed : int
        Of the sample of rows.

    Attributes
    ----------
    maps : list of FeatureMap
        The M maps whose features stand side by side; each has a penalty of its own.
    scales : array of shape (M,)
        Factors on their features.
    edges : int64 array of shape (M + 1,)
        First column of each.
    dtype : dtype
        Of the vectors: double precision, but that of the design where there are bins and so many columns.
    packed : bool
        Whether dense features are rounded to 8 bits.
    """

    def __init__(self, design: Design, seed: int) -> None:
        features = design.features
        self.design, self.seed = design, seed
        self.maps, self.scales = features.parts, features.scales
        self.dtype = np.dtype(np.float64) if features.is_dense else design.dtype
        entries = design.source.n_rows * sum(part.n_features_out for part in self.maps if part.is_dense)
        self._centre()
        self.blocks = design.store(packed=entries > PACKED_ENTRIES)
        self.packed = entries > PACKED_ENTRIES and isinstance(self.blocks, list)
        self.edges = np.concatenate([[0], np.cumsum([part.n_features_out for part in self.maps])])
        self._samples: list[SampledGram | SampledRows | None] | None = None

    def _centre(self) -> None:
        """Centre the features of dense maps on the mean of some rows."""
        X, _, weight = self.design.source.sample(FEWEST_SAMPLED, np.random.default_rng(self.seed)).whole()
        for part in self.maps:
            if part.is_dense:
                cast(DenseFeatureMap, part).centre_on(X.astype(self.design.dtype, copy=False), weight)

    def intercept(self, equations: NormalEquations, coef: NDArray) -> NDArray:
        """Intercepts that go with coefficients of shape (K, D), for features that are not centred; shape (K,)."""
        intercept = equations.intercept(coef).astype(np.float64)
        for m, (part, scale) in enumerate(zip(self.maps, self.scales, strict=True)):
            if part.is_dense:
                centre = cast(DenseFeatureMap, part).centre
                intercept -= scale * coef[:, self.edges[m] : self.edges[m + 1]] @ centre
        return intercept

    @property
    def is_dense(self) -> bool:
        """Whether there are no bins."""
        return self.design.features.is_dense

    def equations(self, kept: NDArray | None = None) -> NormalEquations:
        """Normal equations of all rows, or of those that the mask `kept` tells."""
        blocks = self.blocks if kept is None else Without(self.blocks, kept)
        return NormalEquations(blocks, int(self.edges[-1]), self.design.source.n_outputs, self.dtype)

    def solve(
        self,
        equations: NormalEquations,
        penalty: NDArray,
        tol: float,
        max_iter: int,
        rhs: NDArray | None = None,
        visit: Callable[[NDArray, int], bool] = lambda coef, n_iter: False,
        refined: bool = False,
    ) -> Solution:
        """Solve for each right-hand side with its own penalties.

        Parameters
        ----------
        penalty : array of shape (K, M)
            Ridge terms of the maps.
        rhs : array of shape (K, D), optional
            By default that of the equations.
        refined : bool, default=False
            Correct for the rounding of the features, where they are rounded; the equations are those of all rows.
        """
        rhs = equations.rhs if rhs is None else rhs
        spread = self._per_column(penalty)
        precondition = self._preconditioner(equations, penalty)
        refined = refined and self.packed
        rough = max(tol, ROUNDING_ERROR) if refined else tol
        solution = conjugate_gradients(equations.add, rhs, spread, precondition, rough, max_iter, visit)
        return self._refine(equations, solution, spread, precondition, tol, max_iter) if refined else solution

    def _per_column(self, penalty: NDArray) -> NDArray:
        """Ridge terms of the columns, shape (K, 1) where all maps have the same."""
        if (penalty == penalty[:, :1]).all():
            return penalty[:, :1].astype(self.dtype)
        return np.repeat(penalty, np.diff(self.edges), axis=1).astype(self.dtype)

    def _refine(
        self,
        equations: NormalEquations,
        solution: Solution,
        penalty: NDArray,
        precondition: Preconditioner,
        tol: float,
        max_iter: int,
    ) -> Solution:
        """Correct for the rounding of the features: residuals without rounding, corrections with it.

        Each correction is solved for to a tenth, and so leaves about a tenth of the error that it measures. The
        residual that is told is the one before the last correction.
        """
        exact = NormalEquations(self.design.again(), equations.shape[1], equations.shape[0], self.dtype)
        coef, n_iter, error = solution.coef, solution.n_iter, np.inf
        for _ in range(MOST_REFINEMENTS):
            residual = exact.rhs - exact(coef) - penalty * coef
            step = conjugate_gradients(equations.add, residual, penalty, precondition, CORRECTED, max_iter)
            sizes, gains = (exact.rhs * coef).sum(axis=1), (residual * step.coef).sum(axis=1)
            error = 2 * CORRECTED * float(np.sqrt(np.maximum(gains, 0) / np.where(sizes > 0, sizes, np.inf)).max())
            coef, n_iter = coef + step.coef, n_iter + step.n_iter
            if error <= tol:
                break
        left = np.linalg.norm(residual, axis=1) / np.maximum(np.linalg.norm(exact.rhs, axis=1), 1e-300)
        equations.feature_mean, equations.target_mean = exact.feature_mean, exact.target_mean
        return Solution(coef, n_iter, float(left.max()), error, error <= tol)

    def _preconditioner(self, equations: NormalEquations, penalty: NDArray) -> Preconditioner:
        """Jacobi for bins, sampled rows for dense features.

        Next to bins in single precision, dense directions that hardly a row has are known up to the rounding of all
        columns' sums; that is added to their ridge term, lest they be blown up beyond what the products can tell.
        """
        if self._samples is None:
            self._samples = self._sampled()
        parts: list[Preconditioner] = []
        diagonal = equations.diagonal() if None in self._samples else np.empty(0)
        rounding = np.finfo(self.dtype).eps * diagonal.sum(dtype=np.float64)
        for m, sample in enumerate(self._samples):
            columns = slice(self.edges[m], self.edges[m + 1])
            if sample is None:
                parts.append(Jacobi(diagonal[columns], penalty[:, m : m + 1].astype(self.dtype)))
            else:
                parts.append(sample.at(equations.weight, penalty[:, m] + rounding))
        return parts[0] if len(parts) == 1 else Blocks(parts, self.edges)

    def _sampled(self) -> list[SampledGram | SampledRows | None]:
        """What a sample of rows tells of the features of each dense map; None for bins."""
        parts = zip(self.maps, self.scales, strict=True)
        return [self._sample(cast(DenseFeatureMap, part), scale) if part.is_dense else None for part, scale in parts]

    def _sample(self, part: DenseFeatureMap, scale: float) -> SampledGram | SampledRows:
        D = part.n_features_out
        small = D <= GRAM_LIMIT
        size = max(4 * D, FEWEST_SAMPLED) if small else min(D // 2, MOST_SAMPLED) + JUDGES
        rng = np.random.default_rng(self.seed)
        X, _, weight = self.design.source.sample(size, rng).whole()
        Z = part.rows(X.astype(self.design.dtype, copy=False))
        weight = weight / weight.mean()
        Z -= (weight @ Z / len(Z)).astype(Z.dtype)
        Z *= (scale * np.sqrt(weight))[:, np.newaxis].astype(Z.dtype)
        return SampledGram(Z) if small else SampledRows(Z[rng.permutation(len(Z))])


class Without:
    """Blocks in which some rows have no weight.

    Parameters
    ----------
    blocks : iterable of StoredRows
    kept : bool array of shape (n,)
        False for the rows that are left out.
    """

    def __init__(self, blocks: Iterable[StoredRows], kept: NDArray) -> None:
        self.blocks, self.kept = blocks, kept

    def __iter__(self) -> Iterator[StoredRows]:
        first = 0
        for block in self.blocks:
            kept = self.kept[first : first + len(block.y)].astype(np.float32)
            yield block._replace(weight=kept * block.weight)
            first += len(block.y)
