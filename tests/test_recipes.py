"""Recipes of the documentation that need a system which is not here, run without it."""

import re

import numpy as np
import pyarrow as pa
import pytest

import bochner
from bochner import KernelMachineClassifier, KernelMachineRegressor


@pytest.fixture
def recipe(checkout):
    """The functions of the recipe for Spark, as they are printed."""
    page = checkout / "docs" / "clusters.md"
    (code,) = re.findall(r"## Spark.*?```python\n(.*?)```", page.read_text(), re.DOTALL)
    exec(compile(code, str(page), "exec"), names := {})  # noqa: S102 - a page of this repository
    return names


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    kind = rng.choice(["a", "b"], n)
    price = np.sin(2 * X[:, 0]) + X[:, 1] + (kind == "a")
    return pa.table(
        {
            "x": X[:, 0],
            "y": X[:, 1],
            "z": X[:, 2],
            "kind": kind,
            "price": price,
            "dear": price > 0.5,
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "target"),
    [(KernelMachineRegressor, "price"), (KernelMachineClassifier, "dear")],
)
def test_spark_partitions_make_the_model_of_all_rows(recipe, model, target):
    """As `mapInArrow` does: a function of an iterator of batches for each partition,
    one of which is empty.
    """
    table = rows(3000).drop_columns(["dear" if target == "price" else "price"])
    first = model(random_state=0).prepare(table.slice(0, 500), target)
    add = recipe["adding"](recipe["to_bytes"](first), target)
    partitions = [table.slice(0, 900), table.slice(900, 0), table.slice(900, 2100)]
    batches = [
        list(part.to_batches(max_chunksize=250)) if part.num_rows else []
        for part in partitions
    ]
    answers = [batch for part in batches for batch in add(iter(part))]
    assert [batch.schema.names for batch in answers] == [["model"]] * 3
    merged = bochner.merge(
        [recipe["from_bytes"](batch["model"][0].as_py()) for batch in answers]
    )
    whole = recipe["from_bytes"](recipe["to_bytes"](first)).partial_fit(table, target)
    X = table.drop_columns([target])
    scores = [
        one.predict(X) if target == "price" else one.predict_proba(X)
        for one in (merged, whole)
    ]
    np.testing.assert_allclose(*scores, rtol=0, atol=1e-9)
    assert merged.score(X, table[target].to_numpy()) > 0.9
