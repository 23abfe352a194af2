"""A weight of w is w equal rows, also for what a fit chooses by itself."""

import numpy as np
import pandas as pd
import pytest

from bochner import KernelMachineClassifier, KernelMachineRegressor
from bochner.data.alike_rows import repeated_observations


def table(kind, seed):
    """Rows that differ in their inputs or targets, targets, counts and new rows."""
    rng = np.random.default_rng(seed)
    n = 600 if kind == "classes" else 220
    X = rng.standard_normal((n + 100, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(n + 100)
    if kind == "classes":
        y = np.where(y > 0, "yes", "no")
    if kind == "targets differ":
        X[: n // 2] = X[n // 2 : n]
    X = pd.DataFrame(X, columns=list("abcd"))
    if kind == "text":
        words = ["red", "green", "blue", "cat", "dog", "tree", "house", "sky"]
        X = X.assign(text=[" ".join(rng.choice(words, 3)) for _ in y])
        y = y + X.text.str.contains("cat").to_numpy()
    return X[:n], y[:n], rng.integers(1, 4, n), X[n:]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["text", "targets differ", "classes"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_copies_are_weights(kind, seed):
    """What is chosen for 220 or 600 rows is that of their copies, in any order that
    keeps that of the first ones.
    """
    X, y, count, new = table(kind, seed)
    is_classes = kind == "classes"
    model = KernelMachineClassifier if is_classes else KernelMachineRegressor
    repeated = np.repeat(np.arange(len(y)), count)
    if seed == 1:
        repeated = np.concatenate([np.flatnonzero(count > k) for k in range(3)])
    weighted = model(random_state=seed).fit(X, y, sample_weight=count)
    copied = model(random_state=seed).fit(X.iloc[repeated], y[repeated])
    predictions = [
        one.predict_proba(new) if is_classes else one.predict(new)
        for one in (weighted, copied)
    ]
    np.testing.assert_allclose(predictions[1], predictions[0], rtol=1e-7, atol=1e-8)
    assert copied.report_.chosen == weighted.report_.chosen


@pytest.mark.slow
def test_refit_to_copies_is_the_fit():
    """Intervals too, of machines that have not seen a fold of the rows."""
    X, y, count, new = table("numbers", 0)
    repeated = np.repeat(np.arange(len(y)), count)
    model = KernelMachineRegressor(uncertainty="intervals", random_state=0)
    model.fit(X, y, sample_weight=count)
    before = model.predict(new), model.predict_interval(new)
    model.refit(X.iloc[repeated], y[repeated])
    np.testing.assert_allclose(model.predict(new), before[0], rtol=1e-7)
    np.testing.assert_allclose(model.predict_interval(new), before[1], rtol=1e-6)


def test_rows_of_few_values_are_one_each():
    """Rows of levels and classes may be equal by chance; with numbers as targets, or
    as inputs, equal ones are copies.
    """
    rng = np.random.default_rng(0)
    X = rng.integers(0, 9, (400, 3)).astype(float)
    _, first, group = np.unique(X, axis=0, return_index=True, return_inverse=True)
    first = first[group.ravel()]
    labels = rng.integers(0, 2, 400)
    numbers = rng.normal(size=400)[first]
    assert repeated_observations(X, labels, first) is None
    np.testing.assert_array_equal(repeated_observations(X, numbers, first), first)
    X[:, 0] = numbers
    repeated = repeated_observations(X, labels, first)
    np.testing.assert_array_equal(X[repeated], X)
    np.testing.assert_array_equal(labels[repeated], labels)
    assert len(np.unique(repeated)) == len(np.unique(np.c_[first, labels], axis=0))
