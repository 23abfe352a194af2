"""Convex losses on the bins of random grids by sweeps over the grids, which is block
coordinate descent (backfitting).

Given the other grids, all coefficients of a grid are found by two passes over the rows
(see `bochner.loops.sweeps`), and the next grid starts from there. A sweep takes about
as long as an iteration of conjugate gradients, and the working set is one grid. It
goes a part of the way only, so that all grids share in what there is to explain, and
to stop early regularises.

References
----------
Friedman and Stuetzle, "Projection Pursuit Regression", JASA 1981 (backfitting).
Friedman, Hastie and Tibshirani, "Additive Logistic Regression", Annals of Statistics
2000 (steps by second-order models of the logistic loss).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Indices
from bochner.design.vector_arithmetic import row_sums
from bochner.engines.local import in_threads
from bochner.features.stored import LITTLE, StoredBins, StoredRows
from bochner.solvers.cg import never
from bochner.solvers.newton import Reweighted

GROUP = 16  # grids that see one second-order model of the loss
RATE = 0.1  # share of the way to the best coefficients of a grid
FLAT = 1e-12  # of the weight: curvatures that are none


class Grids:
    """All grids of stored features, whatever maps they are of.

    Parameters
    ----------
    blocks : sequence of StoredRows
        Whose features are bins alone, see `has_grids_alone`.

    Attributes
    ----------
    values : array of shape (P,)
        The entries of each grid.
    offsets : int64 array of shape (P + 1,)
        The first column of each grid.
    orders : list of int array or None
        For each block the row that each stored bin is of.
    n_most : int
        Bins of the grid that has most.
    """

    def __init__(self, blocks: Sequence[StoredRows]) -> None:
        self._bins = [list(block.features.each()) for block in blocks]
        first = self._bins[0]
        self.values = np.concatenate(
            [scale * part.values[:, 0] for part, _, scale in first]
        )
        starts = [part.offsets[:-1] + columns.start for part, columns, _ in first]
        last, columns, _ = first[-1]
        self.offsets = np.concatenate([*starts, [last.offsets[-1] + columns.start]])
        self.orders = [parts[0][0].order for parts in self._bins]
        self.n_most = int(np.diff(self.offsets).max())
        sizes = [len(part.ids) for part, _, _ in first]
        self._places = [(m, p) for m, size in enumerate(sizes) for p in range(size)]
        self.edges = np.cumsum([0, *(len(block.y) for block in blocks)])

    def __len__(self) -> int:
        return len(self.values)

    def ids(self, grids: Indices) -> NDArray[np.int32]:
        """The bins of all rows in some grids, block after block in their stored order,
        shape (G, n).
        """
        ids = np.empty((len(grids), self.edges[-1]), np.int32)
        for row, grid in zip(ids, grids, strict=True):
            part, p = self._places[grid]
            for parts, (a, b) in zip(self._bins, pairwise(self.edges), strict=True):
                row[a:b] = parts[part][0].ids[p]
        return ids

    def stored(self, blocks: Sequence[NDArray]) -> NDArray:
        """Arrays of shape (K, n) of each block, side by side in the stored order."""
        ordered = [
            block if order is None else block[:, order]
            for block, order in zip(blocks, self.orders, strict=True)
        ]
        return np.concatenate(ordered, axis=1)

    def blocks(self, T: NDArray) -> list[NDArray]:
        """The inverse of `stored`."""
        blocks = []
        for order, (a, b) in zip(self.orders, pairwise(self.edges), strict=True):
            block = T[:, a:b].copy()
            if order is not None:
                block[:, order] = T[:, a:b]
            blocks.append(block)
        return blocks


def has_grids_alone(blocks: object) -> bool:
    """Whether blocks are in memory, and their features bins with one value a grid."""
    return isinstance(blocks, list) and all(
        isinstance(part, StoredBins) and part.values.shape[1] == 1
        for block in blocks
        for part, *_ in block.features.each()
    )


def minimise_by_sweeps(
    problem: Reweighted,
    grids: Grids,
    n_sweeps: int,
    seed: int,
    visit: Callable[[Reweighted, int], bool] = never,
    is_late: Callable[[], bool] = never,
    rate: float = RATE,
) -> int:
    """Minimise a penalised loss by sweeps over the grids, in a random order each.

    Where a sweep has raised the objective, it is undone, and later ones go half as far.

    Parameters
    ----------
    problem : Reweighted
        At its start, from which it is moved.
    grids : Grids
        Of its features.
    n_sweeps : int
    seed : int
        Of the orders.
    visit : callable (problem, n_sweeps) -> bool, optional
        Called after every sweep; a true value ends them.
    is_late : callable () -> bool, optional
        Asked after every group of grids; a true value ends the sweeps there.
    rate : float, default=0.1
        Share of the way to the best coefficients of a grid, above 0 and at most 1.
    """
    Y = grids.stored([rows.Y for rows in problem.rows])
    F = grids.stored([rows.F for rows in problem.rows])
    weight = grids.stored(
        [rows.stored.weight[np.newaxis].astype(F.dtype) for rows in problem.rows]
    )
    coef = problem.coef.copy()
    offset = problem.offset.copy()
    objective = problem.objective([rows.F for rows in problem.rows], coef)
    n_done = 0
    for n_done in range(1, n_sweeps + 1):
        before = F.copy(), coef.copy(), offset.copy()
        order = np.random.default_rng((seed, n_done)).permutation(len(grids))
        for first in range(0, len(grids), GROUP):
            group = order[first : first + GROUP]
            _descend(problem, grids, group, rate, (Y, F, weight), coef, offset)
            if is_late():
                break
        fitted = grids.blocks(F)
        lower = problem.objective(fitted, coef)
        if lower <= objective or is_late():
            objective = lower
        else:
            (F, coef, offset), rate = before, rate / 2
            fitted = grids.blocks(F)
        problem.move_to(coef, offset, fitted)
        if visit(problem, n_done) or is_late():
            break
    return n_done


def _descend(
    problem: Reweighted,
    grids: Grids,
    group: Indices,
    rate: float,
    rows: tuple[NDArray, NDArray, NDArray],
    coef: NDArray,
    offset: NDArray,
) -> None:
    """Move fitted values, coefficients and offsets along some grids."""
    from bochner.loops.sweeps import descend

    Y, F, weight = rows
    dtype = F.dtype
    loss = problem.loss
    # 1) The second-order model of the loss, of each output by itself
    first, second = loss.derivatives(Y, F)
    gradient = first * weight
    curvature = loss.diagonal(second) * weight
    # 2) Offsets, which have no penalty
    bend = row_sums(curvature) + FLAT * problem.weight
    shift = -rate * row_sums(gradient) / bend
    offset += shift
    change = np.empty_like(F)
    change[:] = shift[:, np.newaxis]
    # 3) Coefficients, grid by grid; each output on a thread of its own
    ids = grids.ids(group)
    values = grids.values[group].astype(dtype)
    columns = np.stack([grids.offsets[group], grids.offsets[group + 1]], axis=1)
    penalty = problem.penalty
    if penalty.shape[1] > 1:
        penalty = penalty[:, columns[:, 0]]
    penalty = np.ascontiguousarray(np.broadcast_to(penalty, (len(F), len(group))))
    sums = np.empty((len(F), 2, 2, grids.n_most), dtype)

    def move(k: int) -> None:
        descend(
            ids,
            values,
            columns,
            penalty[k],
            dtype.type(rate),
            gradient[k],
            curvature[k],
            coef[k],
            change[k],
            sums[k],
        )

    in_threads(move, range(len(F)), None if ids.size * len(F) > LITTLE else 1)
    F += change
