"""Shapley values of a fitted function: exact where it is a sum of products, else by
permutations of the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats
from bochner.blocks import BLOCK_ENTRIES, TILE_ROWS
from bochner.data.table_input import as_dense, finite_predictions
from bochner.engines.local import in_threads, require_memory
from bochner.engines.progress import Advance
from bochner.explanations.column_factors import Cells, Opaque, Term, coalition_shares

# Of which all coalitions are evaluated, where a function is no sum of products
FEW_COLUMNS = 6
MOST_CORNERS = 1 << 12  # bins that a row and a background row span in a grid on average


def shapley_values(
    parts: Sequence[Term],
    X: Any,
    background: Any,
    n_columns: int,
    n_outputs: int,
    advance: Advance,
) -> tuple[Floats, Floats | None]:
    """Interventional Shapley values of the sum of some terms.

    The value of a coalition of columns is the mean of the function over rows that have
    these columns from the row that is explained and all others from a background row
    (Janzing, Minorics and Bloebaum, "Feature relevance quantification in explainable
    AI: A causal problem", AISTATS 2020).

    Parameters
    ----------
    parts : sequence of Term
    X, background : arrays or CSR matrices of shape (n, d) and (B, d)
        Encoded rows.
    n_columns : int
        Input columns.
    n_outputs : int
    advance : callable
        Told of the rows that are done.

    Returns
    -------
    array of shape (n, d, K)
        The values.
    array of shape (n, d, K) or None
        Standard errors of values that are sampled; None where all are exact.

    Raises
    ------
    MemoryError
        Before any work, if the values do not fit in the free memory.
    """
    shape = X.shape[0], n_columns, n_outputs
    require_memory(
        24 * int(np.prod(shape)),
        f"Explaining {shape[0]:,} rows",
        "Explain fewer rows at a time.",
    )
    values = np.zeros(shape)
    variances = np.zeros_like(values)
    is_sampled = add_terms(
        parts,
        X,
        background,
        values,
        variances,
        _gains,
        _add_sampled,
        TILE_ROWS,
        advance,
    )
    return values, np.sqrt(variances) if is_sampled else None


def add_terms(
    parts: Sequence[Term],
    X: Any,
    background: Any,
    values: NDArray,
    variances: NDArray,
    gains_of: Callable[[int], tuple[NDArray, Any]],
    by_sampling: Callable[..., None],
    batch: int,
    advance: Advance,
) -> bool:
    """Add what all terms tell of the rows to values, and to their variances where it
    is sampled; whether it is.

    Parameters
    ----------
    gains_of : callable
        Where a function of d columns is no product, and these are few, gains of shape
        (2^d, m) times which the values of all coalitions add up, and at which m places
        of the values of each row; without an error.
    by_sampling : callable
        Adds by some coalitions what terms tell that are no products, of more columns.
    batch : int
        Rows that all terms explain before the next ones.
    """
    d = values.shape[1]
    is_sampled = False
    for a in range(0, X.shape[0], batch):
        rows = slice(a, a + batch)
        opaque: list[Opaque] = []
        for part in parts:
            if isinstance(part, Opaque):
                opaque.append(part)
            elif (
                isinstance(part, Cells)
                and part.corners(X[rows], background) > MOST_CORNERS
            ):
                # Better sampled: one row unlike all others is enough
                opaque.append(part.whole)
            else:
                part.add_values(X[rows], background, values[rows])
        if opaque:
            given = opaque, as_dense(X[rows]), as_dense(background), values[rows]
            is_sampled = d > FEW_COLUMNS
            if is_sampled:
                by_sampling(*given, variances[rows], a)
            else:
                _add_gains(*given, *gains_of(d))
        finite_predictions(values[rows])
        advance(len(values[rows]))
    return is_sampled


def _gains(d: int) -> tuple[Floats, slice]:
    """Gains of the values of all coalitions of d columns, and where they belong."""
    shares = coalition_shares(d)[d]
    members = coalitions(d)
    sizes = members.sum(axis=1)
    gains = (
        members * shares[sizes - 1, np.newaxis]
        - (1 - members) * shares[sizes, np.newaxis]
    )
    return gains, slice(None)


def coalitions(d: int) -> NDArray[np.int64]:
    """Members of all coalitions of d columns, shape (2^d, d)."""
    return (np.arange(1 << d)[:, np.newaxis] >> np.arange(d)) & 1


def _add_gains(
    parts: Sequence[Opaque],
    X: NDArray,
    background: NDArray,
    values: NDArray,
    gains: NDArray,
    places: Any,
) -> None:
    """Add sums of the values of all coalitions times gains, of shape (2^d, m), at m
    places of the values of each row.
    """
    members = coalitions(values.shape[1])
    is_changed = members[:, np.newaxis, parts[0].sources]

    def explain(i: int) -> None:
        rows = np.where(is_changed, X[i], background).reshape(-1, X.shape[1])
        scores = np.sum([part.scores(rows) for part in parts], axis=0)
        means = scores.reshape(len(members), len(background), -1).mean(axis=1)
        values[i][places] += gains.T @ means

    in_threads(explain, range(len(X)))


def _add_sampled(
    parts: Sequence[Opaque],
    X: NDArray,
    background: NDArray,
    values: NDArray,
    variances: NDArray,
    first_row: int,
) -> None:
    """Add values, and their variances, by a permutation for each background row and the
    same one in reverse.

    On the way from a background row to the row that is explained, columns change one by
    one; a column is given the change of the function in its step. In reverse order
    those that came first come last, so that the mean of both ways has less noise than
    two permutations (Mitchell, Cooper, Frank and Holmes, "Sampling Permutations for
    Shapley Value Estimation", 2022). The difference of both tells the error where they
    err to opposite sides, and a second draw for a share of the background rows where
    they err to the same side: the larger of both errors counts.
    """
    d = values.shape[1]
    n_repeated = repeated_rows(len(background))

    def explain(i: int) -> None:
        rng = np.random.default_rng([0, first_row, i])
        ways = _changes(parts, X[i], background, d, rng)
        first = ways.mean(axis=0)
        second = _changes(parts, X[i], background[:n_repeated], d, rng).mean(axis=0)
        opposite = np.square((ways[0] - ways[1]) / 2).mean(axis=0)
        repeated = np.square(first[:n_repeated] - second).mean(axis=0) / 2
        first[:n_repeated] += (second - first[:n_repeated]) / 2
        values[i] += first.mean(axis=0)
        variances[i] += np.maximum(opposite, repeated) / len(background)

    in_threads(explain, range(len(X)))


def repeated_rows(n_background: int) -> int:
    """Number of background rows for which sampled coalitions are drawn twice, so
    that they tell the error: a quarter of them, and at least 32.
    """
    return min(max(n_background // 4, 32), n_background)


def _changes(
    parts: Sequence[Opaque],
    x: NDArray,
    background: NDArray,
    d: int,
    rng: np.random.Generator,
) -> Floats:
    """Changes of the function by the columns on the ways from each background row to
    a row, shape (2, B, d, K).
    """
    sources = parts[0].sources
    B = len(background)
    order = rng.permuted(np.tile(np.arange(d), (B, 1)), axis=1)
    changes = np.empty((2, B, d, parts[0].coef.shape[1]))
    moves = np.zeros((B, d + 1), bool)
    np.logical_or.at(moves.T, sources, (background != x).T)
    moves[:, d] = True
    step = max(BLOCK_ENTRIES // ((d + 1) * len(x)), 1)
    for way, columns in zip(changes, (order, order[:, ::-1]), strict=True):
        place = np.argsort(columns, axis=1)[:, sources]
        for a in range(0, B, step):
            rows = slice(a, a + step)
            changed = place[rows, np.newaxis] < np.arange(d + 1)[:, np.newaxis]
            path = np.where(changed, x, background[rows, np.newaxis])
            moved = np.insert(columns[rows], 0, d, axis=1)
            new = np.take_along_axis(moves[rows], moved, axis=1)
            scores = np.sum([part.scores(path[new]) for part in parts], axis=0)
            steps = np.diff(scores[np.cumsum(new) - 1].reshape(*new.shape, -1), axis=1)
            places = columns[rows, :, np.newaxis]
            np.put_along_axis(way[rows], places, steps, axis=1)
    return changes
