"""Measures whether more rows, or more features, would help: the same model fitted again with fewer, and with more."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from bochner.features.copies import size_name
from bochner.features.leaves import leaves
from bochner.report_page.judged import judge
from bochner.report_page.rows import Rows
from bochner.scores.measures import Z

HELD_OUT, LEARNED = 2000, 4000  # rows at most
MOST_DENSE, MOST_EXACT = 3000, 2000  # columns of dense features; rows of a kernel matrix
SHARES = (0.125, 0.25, 0.5, 1.0)
FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Curve:
    """Losses of rows held out, against a size.

    Attributes
    ----------
    sizes : array of shape (s,)
    losses : array of shape (s, m)
        Of each row held out, by the model of each size.
    rooted : bool
        Whether the root of the mean loss is shown.
    base : int
        Position of the size that the model has itself, of which the next one is the double, or the last one.
    """

    sizes: NDArray
    losses: NDArray
    rooted: bool
    base: int

    @property
    def means(self) -> NDArray[np.float64]:
        """What is shown: the log loss, or the root of the mean squared error."""
        means = self.losses.mean(axis=1)
        return np.asarray(np.sqrt(means) if self.rooted else means, np.float64)

    @property
    def halves(self) -> NDArray[np.float64]:
        """Half the width of the 95 % intervals of what is shown, to first order."""
        errors = Z * self.losses.std(axis=1, ddof=1) / np.sqrt(self.losses.shape[1])
        return np.asarray(errors / (2 * np.maximum(self.means, 1e-300)) if self.rooted else errors, np.float64)

    @property
    def gain(self) -> tuple[float, float]:
        """How much less the loss is after the last doubling, by the same rows, and its standard error; in shares."""
        last = min(self.base + 1, len(self.sizes) - 1)
        fewer, more = self.losses[last - 1], self.losses[last]
        gains = (fewer - more) / fewer.mean() if fewer.mean() > 0 else np.zeros_like(fewer)
        return float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains)))


def curves(model: Any, rows: Rows) -> tuple[Curve | None, Curve | None, str]:
    """Curves against rows and against features, on rows that none of the fits has seen; and what to know of them.

    What was chosen in the fit stays: metric, kernel, ridge penalty. Of many rows 6,000 are drawn, and dense maps of
    more than 3,000 features are made smaller, so that all fits together take seconds.
    """
    drawn = rows.some(HELD_OUT + LEARNED, 1)
    order = np.random.default_rng(2).permutation(len(drawn))
    m = min(len(drawn) // 4, HELD_OUT)
    held_out, most = drawn.take(np.sort(order[:m])), len(order) - m
    exact = model.solver_ == "exact"
    most = min(most, MOST_EXACT) if exact else most
    learned = drawn.take(order[m : m + most])
    width, dense = model.features_.n_features_out, model.features_.is_dense and not exact
    largest = MOST_DENSE / width if dense else 2.0
    factor = min(largest, 1.0)
    note = f"{most:,} of the given rows fit, and {m:,} judge."
    if factor < 1:
        note += f" For the curve against rows the map is made smaller, to {MOST_DENSE:,} of its {width:,} features."
    judged = _Judged(model, held_out)
    by_rows = judged.curve([round(share * most) for share in SHARES], lambda n: (factor, learned.take(np.arange(n))))
    sized = any(size_name(leaf.features) is not None for leaf in leaves(model.features_))
    factors = [one for one in FACTORS if one <= largest] if sized and not exact else []
    by_size = judged.curve(factors, lambda one: (one, learned)) if len(factors) > 1 else None
    return by_rows, by_size, note


@dataclass(frozen=True)
class _Judged:
    """The model, to be fitted again, and the rows that judge it."""

    model: Any
    held_out: Rows

    def curve(self, sizes: list[Any], case: Callable[[Any], tuple[float, Rows]]) -> Curve | None:
        """Losses of the model for each size; None where it cannot be fitted again to so few rows."""
        found: dict[int, NDArray] = {}
        base = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that bins have few rows is what the smallest sizes are to show
            try:
                for size in sizes:
                    factor, rows = case(size)
                    again = self.model.resized(factor).refit(rows.native, rows.y)
                    number = _size(again, size)
                    found[number] = judge(again, self.held_out).losses
                    base = number if size == 1 or isinstance(size, int) else base
            except (ValueError, MemoryError):
                return None
        own = list(found).index(base) if base else len(found) - 1
        return Curve(np.array(list(found)), np.array(list(found.values())), not is_classifier(self.model), own)


def _size(model: Any, size: Any) -> int:
    """Rows as they are; of a factor the grids, or the features where the map has none."""
    if isinstance(size, int):
        return size
    parts = [leaf.features for leaf in leaves(model.features_)]
    return sum(int(getattr(part, name)) for part in parts if (name := size_name(part)) is not None)
