"""Tables in memory that are read as streams are."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from listed_parts import ListPart

from bochner.sources.base import Batch, TableSource


def batch_of(X, y=None, weight=None, part=slice(None)):
    if isinstance(X, pa.Table):
        start, stop, _ = part.indices(X.num_rows)
        X = X.slice(start, stop - start)
    else:
        X = X[part]
    return Batch(
        X, None if y is None else y[part], None if weight is None else weight[part]
    )


@pytest.fixture
def listed():
    """Make a source of a table, an array or a matrix, cut into parts."""

    def make(X, y=None, weight=None, *, parts=3, rows=None, known=True, **options):
        edges = (
            np.linspace(0, X.shape[0], parts + 1).astype(int)
            if isinstance(parts, int)
            else np.array(parts)
        )
        cut = [slice(int(a), int(b)) for a, b in pairwise(edges)]
        pieces = [
            ListPart((batch_of(X, y, weight, s),), f"part {k}", known, rows)
            for k, s in enumerate(cut)
        ]
        schema = X.schema if isinstance(X, pa.Table) else X.shape[1]
        return TableSource(
            tuple(pieces), schema, "a list", sparse=sp.issparse(X), **options
        )

    return make


@pytest.fixture(scope="session")
def mixed():
    """A table of 3,000 rows with columns of every kind, a target, labels and
    weights.
    """
    rng = np.random.default_rng(0)
    n = 3000
    text = np.array(["x", "y", "z", None], object)[rng.integers(4, size=n)]
    number = rng.standard_normal(n)
    return pa.table(
        {
            "number": pa.array(
                np.where(rng.random(n) < 0.1, np.nan, number), from_pandas=True
            ),
            "small": rng.standard_normal(n).astype(np.float32),
            "text": pa.array(text),
            "code": pa.array(
                np.array(["a", "b", "c"])[rng.integers(3, size=n)]
            ).dictionary_encode(),
            "day": pa.array(rng.integers(0, 20_000, n).astype("M8[D]")),
            "flag": rng.random(n) < 0.3,
            "count": rng.integers(0, 9, n),
            "y": number + rng.standard_normal(n),
            "label": pa.array(
                np.array(["no", "yes", "perhaps"])[rng.integers(3, size=n)]
            ),
            "w": rng.integers(0, 4, n).astype(float),
        }
    )
