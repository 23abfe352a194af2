"""From scores back to rows: ridge regression of the rows on features of their scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from bochner.data.array_source import ArraySource, Block
from bochner.data.encodings import NumberColumns
from bochner.data.table import TableEncoder
from bochner.design import Design
from bochner.engines.local import require_memory
from bochner.features import NystroemFeatures
from bochner.features.base import FeatureMap
from bochner.features.copies import seeded
from bochner.features.distances import median_gaussian
from bochner.solvers.factors import PrimalFactor
from bochner.solvers.line_search import choose_alpha
from bochner.unsupervised.changed import ChangedRows

LANDMARKS, SAMPLED = 500, 4096
UNSCALED = 1e300  # scale of a column of one value, which is taken as it is


@dataclass
class PreImages:
    """Rows for scores, x = shift + scale (intercept + z(score)' coef).

    Attributes
    ----------
    features : FeatureMap
        Of scores.
    coef : array of shape (D, d)
    intercept : array of shape (d,)
    alpha : float
        The ridge term.
    shift, scale : arrays of shape (d,)
        Of the columns.
    """

    features: FeatureMap
    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    alpha: float
    shift: NDArray[np.float64]
    scale: NDArray[np.float64]

    def __call__(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows for scores of shape (n, K)."""
        return (self.features.dot(scores, self.coef) + self.intercept) * self.scale + self.shift


def units_of(encoder: TableEncoder) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shift and scale of each column; ValueError where some are no numbers, or some of theirs are missing."""
    numbers = [column for column in encoder.columns_ if isinstance(column, NumberColumns)]
    columns = encoder.n_features_in_
    if len(numbers) != 1 or len(numbers[0].scale) != columns or encoder.n_features_out_ != columns:
        raise ValueError(
            "fit_inverse_transform=True needs columns of numbers without missing values, for rows cannot be made of "
            "scores where they hold text, dates or gaps: impute or drop such columns, or leave it out."
        )
    need = 32 * columns**2
    require_memory(need, f"Rows of {columns:,} columns made of scores", "Leave out fit_inverse_transform=True.")
    scale = numbers[0].scale
    return numbers[0].shift.astype(np.float64), np.where(np.abs(scale) < UNSCALED, scale, 0.0)


def learn_pre_images(
    design: Design,
    sample: ArraySource,
    scores: Callable[[NDArray], NDArray[np.float64]],
    encoder: TableEncoder,
    alpha: float | str,
    seed: int,
) -> PreImages:
    """Fit rows to their scores, in one more pass.

    Parameters
    ----------
    design : Design
        All rows.
    sample : ArraySource
        All of them, or a sample in memory.
    scores : callable
        Of encoded rows.
    encoder : TableEncoder
    alpha : float or "auto"
        Ridge term; the last for the one of least generalised cross-validation error.
    seed : int
    """
    shift, scale = units_of(encoder)
    some = sample.sample(SAMPLED, np.random.default_rng(seed)).whole()
    scored = ArraySource(scores(some.X), np.empty((len(some.y), 0)), some.weight)
    features = seeded(NystroemFeatures(median_gaussian(scored, seed), LANDMARKS), seed)
    features.draw(scored.X.shape[1])
    features.fit_sample(scored.X, scored.weights)
    rows = ChangedRows(design.source, lambda block: _turned(block, scores), encoder.n_features_out_)
    moments = Design(rows, features, design.dtype).moments()
    factor = PrimalFactor(moments, 2)
    if isinstance(alpha, str):
        alpha = choose_alpha(factor, lambda tried: np.concatenate([factor.gcv(one) for one in tried]))[0]
    coef = factor.coef(alpha)
    return PreImages(features, coef, factor.intercept(coef), float(alpha), shift, scale)


def _turned(block: Block, scores: Callable[[NDArray], NDArray[np.float64]]) -> Block:
    """Scores in the place of rows, and these in the place of targets."""
    X: Any = block.X
    return Block(scores(X), X.toarray() if sp.issparse(X) else X, block.weight)
