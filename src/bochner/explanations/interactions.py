"""Interactions of pairs of columns in the predictions for rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.arrays import Floats, Indices
from bochner.blocks import BLOCK_ENTRIES
from bochner.engines.local import in_threads, require_memory
from bochner.engines.progress import Advance
from bochner.explanations.column_factors import Opaque, Term, coalition_shares
from bochner.explanations.shapley import add_terms, coalitions, repeated_rows
from bochner.markup import Markup, cut, cut_all, number, table

BATCH = 64  # rows that all terms explain before the next ones


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Shapley interactions of pairs of columns: what the method `interactions` of a
    model returns.

    The interaction of two columns is the mean change of the prediction when both take
    the values of a row, less the changes when only one does, over coalitions of the
    other columns and over background rows (Grabisch and Roubens, "An axiomatic approach
    to the concept of interaction among players in cooperative games", 1999). It is zero
    for a function that is additive in the two.

    Attributes
    ----------
    values : array of shape (n, d, d), or (n, d, d, K) of K outputs
        Symmetric. On the diagonal is the Shapley value of a column less half of its
        interactions, so that the diagonal and each pair once sum to the prediction less
        the base value.
    feature_names : tuple of d str
    output_names : tuple of K str
    unit : str
    errors : array of the shape of `values`, or None
        Standard errors, rather too large than too small, where values are sampled:
        those of parts of the model that are no products of factors of the columns, with
        more than 6 columns. None if all are exact.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import KernelMachineRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, (400, 3))
    >>> model = KernelMachineRegressor("gaussian", random_state=0).fit(
    ...     X, X[:, 0] * X[:, 1] + X[:, 2]
    ... )
    >>> model.interactions(X[:20]).top_pairs(1)[0][:2]
    ('x0', 'x1')
    """

    values: Floats
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    unit: str
    errors: Floats | None = None

    def __repr__(self) -> str:
        named = ", ".join(f"{cut(a)} x {cut(b)}" for a, b, _ in self.top_pairs(3))
        return (
            f"<Interactions: {len(self.values):,} rows, "
            f"{len(self.feature_names):,} columns; largest: {named}>"
        )

    @property
    def is_exact(self) -> bool:
        """Whether the values are exact, up to rounding."""
        return self.errors is None

    @property
    def mean_absolute(self) -> Floats:
        """Mean absolute value over the rows and the outputs, shape (d, d)."""
        n, d = self.values.shape[:2]
        return np.abs(self.values).reshape(n, d, d, -1).mean(axis=(0, 3))

    def top_pairs(self, most: int = 10) -> list[tuple[str, str, float]]:
        """Names and mean absolute interactions of the pairs with the largest ones.

        Parameters
        ----------
        most : int, default=10
        """
        names = self.feature_names
        first, second = np.triu_indices(len(names), 1)
        sizes = self.mean_absolute[first, second]
        order = np.argsort(-sizes, kind="stable")[:most]
        return [(names[first[k]], names[second[k]], float(sizes[k])) for k in order]

    def to_frame(self) -> Any:
        """Return `mean_absolute` as a pandas data frame."""
        import pandas as pd

        return pd.DataFrame(
            self.mean_absolute, list(self.feature_names), list(self.feature_names)
        )

    def to_json(self) -> str:
        """Return all numbers as JSON."""
        facts = vars(self) | {"exact": self.is_exact}
        return json.dumps(facts, default=np.ndarray.tolist)

    def plot(self, ax: Any = None, *, max_columns: int = 12, **kwargs: Any) -> Any:
        """Draw the mean absolute interactions as a matrix; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            A subplot whose place the panel takes. None makes a figure.
        max_columns : int, default=12
            Of more columns those with the largest interactions are drawn.
        **kwargs
            As of `InteractionDisplay.plot`.

        Returns
        -------
        InteractionDisplay
        """
        from bochner.display import InteractionDisplay

        return InteractionDisplay.from_interactions(self, max_columns=max_columns).plot(
            ax, **kwargs
        )

    def _repr_html_(self) -> Markup:
        short = dict(zip(self.feature_names, cut_all(self.feature_names), strict=True))
        pairs = self.top_pairs(20)
        rows = [(short[a], short[b], number(size)) for a, b, size in pairs]
        head = ("column", "other column", f"mean absolute value ({self.unit})")
        return table(f"Interactions in {len(self.values):,} rows", head, rows)


def shapley_interactions(
    parts: Sequence[Term],
    X: Any,
    background: Any,
    values: NDArray,
    errors: NDArray | None,
    advance: Advance,
) -> tuple[Floats, Floats | None]:
    """Interactions of the sum of some terms.

    Parameters
    ----------
    parts : sequence of Term
    X, background : arrays or CSR matrices of shape (n, d) and (B, d)
        Encoded rows.
    values, errors : arrays of shape (n, d, K), or None
        Shapley values of the rows, and their standard errors where they are sampled.
    advance : callable
        Told of the rows that are done.

    Returns
    -------
    array of shape (n, d, d, K)
        As those of `Interactions`.
    array of shape (n, d, d, K) or None
        Their standard errors; None if they are exact.

    Raises
    ------
    MemoryError
        Before any work, if they do not fit in the free memory.
    """
    n, d, K = values.shape
    require_memory(
        32 * n * d * d * K,
        f"Interactions of {d:,} columns in {n:,} rows",
        "Explain fewer rows at a time.",
    )
    pairs = np.zeros((n, d, d, K))
    each = np.arange(d)
    variances = np.zeros_like(pairs)
    is_sampled = add_terms(
        parts, X, background, pairs, variances, _gains, _add_sampled, BATCH, advance
    )
    pairs += pairs.swapaxes(1, 2)
    pairs[:, each, each] = values - pairs.sum(axis=2) / 2
    if not is_sampled and errors is None:
        return pairs, None
    of_sums = variances[:, each, each] / 4
    variances[:, each, each] = 0.0
    variances += variances.swapaxes(1, 2)
    variances[:, each, each] = of_sums + (0.0 if errors is None else np.square(errors))
    return pairs, np.sqrt(variances)


def _gains(d: int) -> tuple[Floats, tuple[Indices, Indices]]:
    """Gains of the values of all coalitions of d columns, and the pairs above the
    diagonal that they belong to.
    """
    first, second = np.triu_indices(d, 1)
    members = coalitions(d)
    with_first = members[:, first]
    with_second = members[:, second]
    n_others = members.sum(axis=1)[:, np.newaxis] - with_first - with_second
    shares = coalition_shares(d - 1)[d - 1, n_others]
    return np.where(with_first == with_second, shares, -shares), (first, second)


def _add_sampled(
    parts: Sequence[Opaque],
    X: NDArray,
    background: NDArray,
    pairs: NDArray,
    variances: NDArray,
    first_row: int,
) -> None:
    """Add interactions above the diagonal by one coalition for each background row, and
    two for some; variances too.

    Columns belong to it with a probability t, of which a share of [0, 1] is that of
    each background row; with it go the coalitions in which one or two columns have
    changed sides. The difference of two coalitions of a background row tells the error.
    On the diagonal are the variances of the sums over the pairs of each column.
    """
    d = pairs.shape[1]
    sources = parts[0].sources
    first, second = np.triu_indices(d, 1)
    # No column changes sides, each by itself, and each pair
    single = np.eye(d, dtype=bool)
    both = single[first] | single[second]
    changed = np.vstack([np.zeros((1, d), bool), single, both])
    step = max(BLOCK_ENTRIES // (len(changed) * len(sources)), 1)
    n_repeated = repeated_rows(len(background))
    each = np.arange(d)

    def drawn(i: int, rng: np.random.Generator, others: NDArray) -> Floats:
        """Interactions for background rows by a coalition each, shape (B, pairs, K)."""
        B = len(others)
        interactions = []
        numbers = rng.uniform(size=(B, d))
        inside = (
            numbers < ((rng.permutation(B) + rng.uniform(size=B)) / B)[:, np.newaxis]
        )
        for a in range(0, B, step):
            coalitions = inside[a : a + step]
            members = (coalitions[:, np.newaxis] ^ changed)[:, :, sources]
            rows = np.where(members, X[i], others[a : a + step, np.newaxis])
            rows = rows.reshape(-1, len(sources))
            scores = np.sum([part.scores(rows) for part in parts], axis=0)
            scores = scores.reshape(len(coalitions), len(changed), -1)
            whole, one, two = np.split(scores, [1, d + 1], axis=1)
            is_one_side = coalitions[:, first] == coalitions[:, second]
            sides = np.where(is_one_side, 1.0, -1.0)[:, :, np.newaxis]
            interactions.append(sides * (whole - one[:, first] - one[:, second] + two))
        return np.concatenate(interactions)

    def explain(i: int) -> None:
        rng = np.random.default_rng([0, first_row, i])
        B = len(background)
        once = drawn(i, rng, background)
        again = drawn(i, rng, background[:n_repeated])
        difference = once[:n_repeated] - again
        once[:n_repeated] -= difference / 2
        pairs[i, first, second] += once.mean(axis=0)
        variances[i, first, second] += np.square(difference).mean(axis=0) / (2 * B)
        of_sums = np.einsum("jp,bpk->bjk", both.T.astype(float), difference)
        variances[i, each, each] += np.square(of_sums).mean(axis=0) / (2 * B)

    in_threads(explain, range(len(X)))
