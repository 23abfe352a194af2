"""Which rows validate, which are fitted, and which rows count as one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Indices, Mask, n_distinct
from bochner.data.array_source import ArraySource
from bochner.data.hashes import uniform
from bochner.data.row_splits import Fold, complement
from bochner.selection.policy import POLICY
from bochner.solvers.conformal import effective_rows


def rows_held_out(hashes: NDArray, weights: NDArray, seed: int) -> Mask:
    """Which rows to hold out, about a fifth of those with weight or about 10,000, shape
    (n,).

    The content of a row decides, so that equal rows are held out together, in any order
    and from any part of the data.
    """
    counted = weights > 0
    share = min(1 / POLICY.n_folds, POLICY.compared_rows / max(int(counted.sum()), 1))
    return counted & (uniform(hashes, seed) < share)


def validation_rows(source: ArraySource, hashes: NDArray, seed: int) -> Mask:
    """The rows of a source to hold out: of its splits the one with most rows to fit,
    or those whose content decides it; shape (n,).
    """
    if source.splits is None:
        return rows_held_out(hashes, source.weights, seed)
    split_folds = source.splits.folds(source.weights)
    return split_folds[0].held_out if split_folds else np.zeros(source.n_rows, bool)


def folds(hashes: NDArray, weights: NDArray, seed: int) -> list[Mask]:
    """Five sets of rows that together are all those with weight, each shape (n,);
    equal rows are in one, by content.
    """
    _, group = np.unique(
        np.where(weights > 0, uniform(hashes, seed), 2.0), return_inverse=True
    )
    size = -(-n_distinct(group[weights > 0]) // POLICY.n_folds)
    return [(group // max(size, 1) == k) & (weights > 0) for k in range(POLICY.n_folds)]


def fold_numbers(hashes: NDArray, seed: int, n_folds: int) -> Indices:
    """Fold of each row, shape (n,), of folds that differ in size by one row at most;
    the content of rows decides.
    """
    fold = np.empty(len(hashes), np.intp)
    fold[np.argsort(uniform(hashes, seed), kind="stable")] = (
        np.arange(len(hashes)) * n_folds // len(hashes)
    )
    return fold


@dataclass(frozen=True)
class Split:
    """All rows, and those that candidates are fitted and validated on.

    Attributes
    ----------
    held_out : bool array of shape (n,)
    first_duplicate : int array of shape (n,)
        The first of the rows to fit that are equal to each; held-out ones are apart.
    fit, out : ArraySource
        Rows to fit, a million at most, and validation rows. Where many are repeated,
        equal ones are one, with their weight and mean target. The largest weight of a
        row is 1.
    n_solved : int
        Rows that the model is solved for at last, where equal ones may be one.
    row_weight : float
        Mean weight of a distinct row, in which ridge penalties are measured.
    largest_weight : float
        By which the weights were divided.
    """

    held_out: Mask
    first_duplicate: Indices
    fit: ArraySource
    out: ArraySource
    n_solved: int
    row_weight: float
    largest_weight: float

    @property
    def n_rows(self) -> int:
        """All rows."""
        return len(self.held_out)


def rows_of_classes(
    y: NDArray, weights: NDArray, first: Indices | slice = slice(None)
) -> float:
    """Effective number of distinct rows that share the weights of their classes, by
    which a class of few rows with the weight of many leaves few.

    Parameters
    ----------
    y : array of shape (n, K)
        Largest at the class; of one output positive for the second class.
    weights : array of shape (n,)
    first : int array or slice, default=all rows
        The first of the rows that are equal to each.
    """
    label = y.argmax(axis=1) if y.shape[1] > 1 else (y[:, 0] > 0).astype(np.intp)
    label_of_distinct = label[first]
    shares = np.bincount(label, weights) / np.maximum(
        np.bincount(label_of_distinct, minlength=label.max() + 1), 1
    )
    return effective_rows(shares[label_of_distinct])


def split(
    source: ArraySource,
    fewest: int,
    seed: int,
    most: float = np.inf,
    are_classes: bool = False,
) -> Split | None:
    """Hold out rows, about a fifth of them or 10,000; None where there are fewer than
    `fewest` distinct rows, of classes also as their weights leave them.

    Of the others `most` at most are rows to fit.
    """
    X, y, weight = source.whole()
    hashes = source.row_hashes()
    folds = [complement(rows_held_out(hashes, weight, seed))]
    if source.splits is not None:
        folds = source.splits.folds(weight)
    if not folds:
        return None
    held_out = folds[0].held_out
    fitted = folds[0].fitted & (weight > 0)
    largest = float(weight.max())  # a common factor changes nothing
    weight = weight if largest == 1 else weight / largest
    rows = ArraySource(X, y, weight, content=source.content, splits=source.splits)
    first_duplicate = rows.first_duplicates(hashes, held_out | (weight <= 0))
    alone = first_duplicate == np.arange(rows.n_rows)
    distinct = int(np.count_nonzero(alone & fitted))
    counts = weight > 0
    n_rows = n_distinct(hashes[counts])
    if are_classes:
        _, first = np.unique(hashes[counts], return_index=True)
        n_rows = round(rows_of_classes(y[counts], weight[counts], first))
    if n_rows < fewest or not (distinct and held_out.any()):
        return None
    row_weight = float(weight[fitted].sum() / distinct)
    rows, leads = rows.merged(first_duplicate)
    counted = rows.weights > 0
    fit, out = rows.parts(Fold(held_out[leads], fitted[leads] & counted))
    return Split(
        held_out,
        first_duplicate,
        fit.sample(int(min(most, POLICY.sampled_rows)), np.random.default_rng(seed)),
        out,
        rows.n_rows,
        row_weight,
        largest,
    )
