"""Jumps in the warps of columns, where a random forest splits them."""

from functools import cache

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.metrics import log_loss, r2_score

from bochner import KernelMachineClassifier, KernelMachineRegressor
from bochner.selection.forest import COLUMNS, LEAVES, TREES, TreeSplits, tree_splits
from bochner.selection.validation import Validator

pytestmark = pytest.mark.slow
NOISE = 0.1
THRESHOLD = 0.6


def rules(n=1500, seed=0):
    """Rows of six columns, and rules of the first three."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 6))
    y = (X[:, 0] > THRESHOLD) * (1.0 + (X[:, 1] < 0.5)) - (X[:, 2] > 0.3)
    return X, y


def waves(n=1500, seed=0):
    """Rows, and a smooth function of them."""
    X = rules(n, seed)[0]
    return X, np.sin(4 * X[:, 0] * X[:, 1]) + X[:, 2] ** 2


@cache
def fitted(kind, metric="auto", seed=0):
    X, truth = kind()
    y = truth + NOISE * np.random.default_rng(1).standard_normal(len(X))
    return KernelMachineRegressor(metric=metric, random_state=seed).fit(X, y)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_gains_are_the_decrease_of_the_squared_error(n_outputs):
    X, y = rules(700)
    Y = y[:, np.newaxis] + np.arange(n_outputs) * X[:, 3:4]
    weight = np.random.default_rng(1).uniform(0.5, 2, len(X))
    rows = Validator((X, Y, weight), (X[:50], Y[:50], weight[:50]), False, 0)
    splits = tree_splits(rows, 3)
    forest = RandomForestRegressor(
        TREES, max_leaf_nodes=LEAVES, max_features=min(3, COLUMNS), random_state=3
    ).fit(X, rows.y.squeeze(), weight)
    trees = [one.tree_ for one in forest.estimators_]
    expected = sum(
        tree.compute_feature_importances(normalize=False)
        * tree.weighted_n_node_samples[0]
        for tree in trees
    )
    gains = np.bincount(splits.columns, splits.gains, X.shape[1])
    np.testing.assert_allclose(gains, expected, rtol=1e-9)
    beyond = [splits.gained(j, np.array([-1.0, 2.0])) for j in range(X.shape[1])]
    np.testing.assert_allclose(beyond, np.stack([np.zeros(6), gains], axis=1))


def test_a_gain_counts_from_its_threshold_on():
    splits = TreeSplits(
        np.array([1, 0, 1]), np.array([0.5, 0.1, 0.2]), np.array([4.0, 9.0, 1.0])
    )
    values = np.array([0.0, 0.2, 0.3, 0.5, 0.6])
    # Trees send values of the threshold itself to the left
    np.testing.assert_array_equal(splits.gained(1, values), [0, 0, 1, 1, 5])
    np.testing.assert_array_equal(splits.gained(2, values), np.zeros(5))


@pytest.mark.parametrize("seed", range(2))
def test_rules_are_learned_to_less_error(seed):
    X, y = rules(4000, 2)
    with_jumps = fitted(rules, seed=seed)
    without = fitted(rules, "ard", seed)
    errors = [np.square(one.predict(X) - y).mean() for one in (with_jumps, without)]
    assert errors[0] < 0.5 * errors[1]
    assert with_jumps.report_.chosen.endswith("with jumps")
    assert "better by more than a standard error" in with_jumps.report_.reason
    names = [one.name for one in without.report_.candidates]
    assert not any("jumps" in name for name in names)


def test_the_warp_rises_where_the_target_jumps():
    column = rules()[0][:, 0]
    values = np.zeros((199, 6))
    values[:, 0] = np.linspace(0.005, 0.995, 199)
    # Metrics are of standardised columns
    standardised = (values - column.mean()) / column.std()
    warp = fitted(rules).metric_.transform(standardised)[:, 0]
    rises = np.diff(warp)
    assert (rises >= 0).all()
    near = np.abs(values[1:, 0] - THRESHOLD) < 0.03
    assert near[np.argmax(rises)]
    assert rises[near].sum() > 0.5 * rises.sum()


def test_a_smooth_function_has_none():
    model = fitted(waves)
    assert not model.report_.chosen.endswith("with jumps")
    X, y = waves(2000, 5)
    assert r2_score(y, model.predict(X)) > 0.9


def test_classes_by_rules():
    X, y = rules(2500)
    rng = np.random.default_rng(4)

    def labels(truth):
        """Each label is another one for a tenth of the rows."""
        return np.where(rng.uniform(size=len(truth)) < 0.1, -truth, truth)

    new, truth = rules(4000, 6)
    told = labels(truth).astype(str)
    losses = []
    for metric in ("auto", "ard"):
        model = KernelMachineClassifier(metric=metric, random_state=0)
        model.fit(X, labels(y).astype(str))
        losses.append(log_loss(told, model.predict_proba(new), labels=model.classes_))
    assert losses[0] < 0.9 * losses[1]
