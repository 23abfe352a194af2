"""What partial fits add up: moments of all rows so far, and some rows by which the ridge term is judged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.data.draws import draw_rows
from bochner.data.sources import ArraySource
from bochner.design import Design
from bochner.estimators.ridge import Fitted, RidgeTask, solve_moments
from bochner.estimators.ridge.task import SCORED_ROWS
from bochner.features.base import FeatureMap
from bochner.moments import Moments

PROBED = 8  # rows whose features tell maps apart


@dataclass
class Sums:
    """Sums over rows; those of two sets of rows add up, where all that was chosen before is the same.

    Attributes
    ----------
    matrix : array of shape (D + K + 1, D + K + 1)
        Of the moments.
    n_rows : int
        Rows that are summed.
    single : bool
        Whether features are in single precision.
    X : array of shape (m, d), or arrays and shape of a CSR matrix
        Encoded rows that judge, with targets y of shape (m, K) and weights of shape (m,).
    alpha : float, list of float or str
        As it was given.
    alpha_per_weight : float or None
        The ridge term for a unit of weight, where it was chosen before.
    uncertain : bool
        Whether the spread of the errors is wanted.
    calibrated : bool
        Whether predictions of the rows that judge are.
    seed : int
    digest : str
        Of all that was chosen before.
    """

    matrix: NDArray[np.float64]
    n_rows: int
    single: bool
    X: Any
    y: NDArray[np.float64]
    weight: NDArray[np.float64]
    alpha: Any
    alpha_per_weight: float | None
    uncertain: bool
    calibrated: bool
    seed: int
    digest: str

    @classmethod
    def empty(cls, design: Design, task: RidgeTask, alpha_per_weight: float | None) -> Sums:
        """Sums over no rows, for the map, the targets and the task of a design; some of its rows will judge."""
        source: ArraySource = design.source
        rows = source
        if task.held_out is not None and task.held_out.sum() >= SCORED_ROWS // 2:
            rows = source.take(np.flatnonzero(task.held_out))
        kept, factors = draw_rows(rows.weights, SCORED_ROWS, np.random.default_rng(task.seed))
        X, y, weight = rows.take(kept).whole()
        if factors is not None:
            weight = weight * factors
        D, K = design.features.n_features_out, source.n_outputs
        alpha = task.alpha if task.alphas is None else task.alphas.tolist()
        flags = design.dtype == np.float32, task.uncertain, task.calibrated
        digest = _digest(design.features, X.astype(design.dtype, copy=False), y, (alpha, alpha_per_weight, *flags))
        zero = np.zeros((D + K + 1, D + K + 1))
        return cls(zero, 0, flags[0], _plain(X), y, weight, alpha, alpha_per_weight, *flags[1:], task.seed, digest)

    @property
    def dtype(self) -> np.dtype:
        """Precision of the features."""
        return np.dtype(np.float32 if self.single else np.float64)

    def plus(self, design: Design) -> Sums:
        """The sums with the rows of a design."""
        moments = design.moments()
        return replace(self, matrix=self.matrix + moments.matrix, n_rows=self.n_rows + moments.n_rows)

    def __add__(self, other: Sums) -> Sums:
        """Sums over the rows of both; ValueError where these are not of one map, encoding and target scale."""
        if self.digest != other.digest:
            raise ValueError(
                "The models cannot be merged: their encoders, maps, targets, ridge terms or seeds differ. Prepare one "
                "model, and give each place a copy of it, as bochner.save and bochner.load make."
            )
        return replace(self, matrix=self.matrix + other.matrix, n_rows=self.n_rows + other.n_rows)

    def solve(self, features: FeatureMap) -> Fitted:
        """Solve for the rows that are summed."""
        K = self.y.shape[1]
        moments = Moments(features.n_features_out, K, self.dtype)
        moments.matrix += self.matrix
        moments.n_rows = self.n_rows
        alpha = self.alpha if self.alpha_per_weight is None else [self.alpha_per_weight * moments.weight]
        task = RidgeTask(alpha, 0.0, self.seed, self.calibrated, uncertain=self.uncertain)
        X = sp.csr_array(self.X[:3], shape=tuple(self.X[3])) if isinstance(self.X, tuple) else self.X
        return solve_moments(moments, Design(ArraySource(X, self.y, self.weight), features, self.dtype), task)


def _plain(X: Any) -> Any:
    """Rows as arrays, which files can hold."""
    return (X.data, X.indices, X.indptr, X.shape) if sp.issparse(X) else X


def _digest(features: FeatureMap, X: Any, y: NDArray, facts: tuple) -> str:
    """Hash of how a map sees some rows, of their targets, and of facts."""
    probe = X[:PROBED]
    unit = np.random.default_rng(0).standard_normal((features.n_features_out, 1)).astype(probe.dtype)
    digest = blake2b(repr((features.n_features_out, probe.shape, *facts)).encode(), digest_size=16)
    for array in (probe.toarray() if sp.issparse(probe) else probe, features.dot(probe, unit), y[:PROBED]):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
