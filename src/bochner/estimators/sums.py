"""What partial fits add up: moments of all rows so far, and some rows by which the ridge term is judged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.arrays import Place
from bochner.data.array_source import ArraySource
from bochner.design import Design
from bochner.engines.journal import Keeper
from bochner.estimators.judges import Judges
from bochner.estimators.ridge import Fitted, RidgeTask, solve_moments
from bochner.estimators.ridge.problem import SCORED_ROWS
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
    judges : Judges
        Some of the rows, or before there are any some of those on which all was chosen.
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
    judges: Judges
    alpha: Any
    alpha_per_weight: float | None
    uncertain: bool
    calibrated: bool
    seed: int
    digest: str

    @classmethod
    def empty(cls, design: Design, task: RidgeTask, alpha_per_weight: float | None) -> Sums:
        """Sums over no rows, for the map, the targets and the task of a design; some of its rows judge until then."""
        source: ArraySource = design.source
        D, K, single = design.features.n_features_out, source.n_outputs, design.dtype == np.float32
        held_out = task.held_out
        some = source if held_out is None or held_out.sum() < SCORED_ROWS // 2 else source.take(held_out.nonzero()[0])
        alpha = task.alpha if task.alphas is None else task.alphas.tolist()
        facts = alpha, alpha_per_weight, task.uncertain, task.calibrated
        judges = Judges.of(some, task.seed)
        digest = _digest(design.features, judges, (*facts, single))
        return cls(np.zeros((D + K + 1, D + K + 1)), 0, single, judges, *facts, task.seed, digest)

    @property
    def dtype(self) -> np.dtype:
        """Precision of the features."""
        return np.dtype(np.float32 if self.single else np.float64)

    def plus(self, design: Design, keeper: Keeper | None = None) -> Sums:
        """The sums with the rows of a design; what is done of them may be kept."""
        moments, judges = design.moments(keeper), self.judges
        if isinstance(design.source, ArraySource):
            own = Judges.of(design.source, self.seed)
            judges = self.judges + own if self.n_rows else own
        matrix, n_rows = self.matrix + moments.matrix, self.n_rows + moments.n_rows
        return replace(self, matrix=matrix, n_rows=n_rows, judges=judges)

    def __add__(self, other: Sums) -> Sums:
        """Sums over the rows of both; ValueError where these are not of one map, encoding and target scale."""
        if self.digest != other.digest:
            raise ValueError(
                "The models cannot be merged: their encoders, maps, targets, ridge penalties or seeds differ. Prepare "
                "one model, and give each worker a copy, made with bochner.save and bochner.load."
            )
        filled = [one.judges for one in (self, other) if one.n_rows]
        judges = filled[0] + filled[1] if len(filled) == 2 else (filled or [self.judges])[0]
        matrix, n_rows = self.matrix + other.matrix, self.n_rows + other.n_rows
        return replace(self, matrix=matrix, n_rows=n_rows, judges=judges)

    def solve(self, features: FeatureMap, place: Place | None = None) -> Fitted:
        """Solve for the rows that are summed, on a device where one is given."""
        moments = Moments.holding(self.matrix, self.n_rows, self.judges.y.shape[1], self.dtype)
        alpha = self.alpha if self.alpha_per_weight is None else [self.alpha_per_weight * moments.weight]
        task = RidgeTask(alpha, 0.0, self.seed, self.calibrated, uncertain=self.uncertain, individual=self.uncertain)
        return solve_moments(moments, Design(self.judges.source, features, self.dtype, place=place), task)


def _digest(features: FeatureMap, judges: Judges, facts: tuple) -> str:
    """Hash of how a map sees some rows, of their targets, and of facts."""
    probe = judges.rows[:PROBED]
    unit = np.random.default_rng(0).standard_normal((features.n_features_out, 1)).astype(probe.dtype)
    digest = blake2b(repr((features.n_features_out, probe.shape, *facts)).encode(), digest_size=16)
    for array in (probe.toarray() if sp.issparse(probe) else probe, features.dot(probe, unit), judges.y[:PROBED]):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
