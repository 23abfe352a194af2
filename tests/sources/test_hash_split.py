"""Rows that are kept by their content."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from bochner.sources.base import Batch, TableSource
from bochner.sources.rows import filter_rows

N = 2000


@dataclass(frozen=True)
class Slices:
    """A part of batches in memory."""

    batch: Batch
    rows: int
    name: str = "rows"
    n_rows: int = N

    def read(self, n_bytes=0):
        for a in range(0, N, self.rows):
            part = slice(a, a + self.rows)
            X = (
                self.batch.X.slice(a, self.rows)
                if isinstance(self.batch.X, pa.Table)
                else self.batch.X[part]
            )
            yield Batch(X, None if self.batch.y is None else self.batch.y[part])

    def stamp(self):
        return "slices"


rng = np.random.default_rng(0)
NUMBERS = np.repeat(rng.normal(size=(N // 2, 3)), 2, axis=0)[rng.permutation(N)]
TABLE = pa.table(
    {"a": NUMBERS[:, 0], "b": NUMBERS[:, 1], "c": [f"{x:.1f}" for x in NUMBERS[:, 2]]}
)
Y = pa.array(
    [None if k % 100 == 3 else np.nan if k % 100 == 5 else float(k) for k in range(N)]
)


def read(source):
    return [batch for part in source.parts for batch in part.read()]


def table_of(rule, rows=300):
    batch = Batch(TABLE.append_column("y", Y))
    source = filter_rows(
        TableSource((Slices(batch, rows),), batch.X.schema, "slices"), *rule
    )
    return source, pa.concat_tables([batch.X for batch in read(source)])


def test_both_sides_are_all_rows_that_have_a_target():
    sides = [table_of((low, high, 1, "y"))[1] for low, high in ((0, 0.25), (0.25, 1))]
    assert 0.2 * N < len(sides[0]) < 0.3 * N
    found = sorted(k for side in sides for k in side["y"].to_pylist())
    assert found == [k for k in range(N) if k % 100 not in (3, 5)]


def test_equal_rows_go_together_and_batches_do_not_matter():
    few, many = (table_of((0, 0.5, 1, "y"), rows)[1] for rows in (7, N))
    assert few.equals(many.combine_chunks()) or few.to_pydict() == many.to_pydict()
    other = table_of((0.5, 1, 1, "y"))[1]
    assert not set(few["a"].to_pylist()) & set(other["a"].to_pylist())


def test_another_seed_keeps_other_rows():
    sides = [set(table_of((0, 0.5, seed, "y"))[1]["y"].to_pylist()) for seed in (1, 2)]
    assert 0.3 < len(sides[0] & sides[1]) / len(sides[0]) < 0.7


@pytest.mark.parametrize("X", [NUMBERS, sp.csr_array(NUMBERS)], ids=["array", "csr"])
def test_arrays_and_their_targets(X):
    source = TableSource((Slices(Batch(X, np.arange(N)), 300),), 3, "arrays")
    sides = [
        read(filter_rows(source, low, high, 1)) for low, high in ((0, 0.25), (0.25, 1))
    ]
    numbers = [np.concatenate([batch.y for batch in side]) for side in sides]
    assert sorted(np.concatenate(numbers)) == list(range(N))
    kept = np.concatenate(
        [batch.X.toarray() if sp.issparse(X) else batch.X for batch in sides[0]]
    )
    np.testing.assert_array_equal(kept, NUMBERS[numbers[0]])


def test_rows_that_a_rule_keeps_are_not_counted():
    assert table_of((0, 0.5, 1, "y"))[0].n_rows is None
