"""class_weight="balanced" goes by the weights of the rows, as if they were repeated."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from scipy.special import expit
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight

from bochner import FourierFeatures, KernelMachineClassifier
from bochner.kernels import Gaussian
from bochner.selection import policy


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    return (
        X,
        np.digitize(X[:, 0] + rng.normal(size=80), [-1, 0.5]),
        rng.integers(0, 4, 80),
    )


def fitted(X, y, weight=None, class_weight="balanced"):
    model = KernelMachineClassifier(
        "gaussian",
        n_components=30,
        alpha=0.1,
        class_weight=class_weight,
        random_state=0,
    )
    return model.fit(X, y, weight)


def test_weights_are_repeats(rows):
    X, y, weight = rows
    repeated = fitted(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_allclose(fitted(X, y, weight).class_count_, repeated.class_count_)
    np.testing.assert_allclose(repeated.class_count_, weight.sum() / 3)


def test_factors_are_those_of_scikit_learn(rows):
    X, y, _ = rows
    factors = dict(
        enumerate(compute_class_weight("balanced", classes=np.arange(3), y=y))
    )
    one, two = fitted(X, y), fitted(X, y, class_weight=factors)
    np.testing.assert_allclose(one.class_count_, two.class_count_)
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X))


def test_a_class_without_weight_is_left_out(rows):
    X, y, _ = rows
    model = fitted(X, y, (y != 1) * 1.0)
    np.testing.assert_allclose(
        model.class_count_, [40 - (y == 1).sum() / 2, 0, 40 - (y == 1).sum() / 2]
    )
    assert (model.predict_proba(X)[:, 1] == 0).all()


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 20.0}])
def test_missing_values_are_filled_alike_in_passes(class_weight, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    y = (rng.uniform(size=3000) < 0.05).astype(int)
    X = rng.normal(size=(3000, 2)) + 4.0 * y[:, np.newaxis]
    X[rng.uniform(size=3000) < 0.3, 0] = np.nan
    options = {
        "features": FourierFeatures(Gaussian(2.0), 100, random_state=0),
        "alpha": 1.0,
        "loss": "squared",
        "random_state": 0,
    }
    model = KernelMachineClassifier(class_weight=class_weight, **options)
    balancing = len(y) / 2 / np.bincount(y)
    factor = balancing if class_weight == "balanced" else np.array([1.0, 20.0])
    weighted = KernelMachineClassifier(**options).fit(X, y, factor[y])
    small = replace(policy.POLICY, gathered_rows=1000, sampled_rows=1000)
    monkeypatch.setattr("bochner.inputs.opened.POLICY", small)
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "y": y})
    pa.parquet.write_table(table, tmp_path / "rows.parquet")
    model.fit(tmp_path / "rows.parquet", "y")
    X_named = table.select(["a", "b"])
    np.testing.assert_allclose(
        model.decision_function(X_named), weighted.decision_function(X), atol=1e-3
    )
    np.testing.assert_allclose(model.class_count_, weighted.class_count_)
    plan = model.plan(tmp_path / "rows.parquet", "y")
    assert plan.passes[0].times == 2


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_no_probabilities_are_absurd_where_few_rows_are_of_a_class(loss):
    """Rows held out may tell of no step, and the scores of the model still have
    several.
    """
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2500, 8))
    y = rng.random(2500) < expit(X[:, 0] + 0.7 * X[:, 1] - 0.5 * X[:, 2] - 4)
    model = KernelMachineClassifier(
        loss=loss, class_weight="balanced", random_state=0
    ).fit(X[:500], y[:500])
    p = model.predict_proba(X[500:])
    weight = compute_sample_weight("balanced", y[500:])
    assert log_loss(y[500:], p, sample_weight=weight) < np.log(2)


def rare_rows(seed, n_rare, n_rows=600):
    """Two normal classes, of which one has few rows, and new rows of both."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows + 2000, 6))
    y = np.arange(len(X)) % 2
    y[:n_rows] = np.arange(n_rows) < n_rare
    X[:, 0] += 2.5 * y
    return X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:]


@pytest.mark.slow
def test_a_class_of_few_rows_is_told():
    """Rows held out have none or few of them, and candidates that never predict the
    class would be best for the others.
    """
    shares = []
    losses = []
    for seed in range(4):
        X, y, X_test, y_test = rare_rows(seed, 5)
        machine = KernelMachineClassifier(class_weight="balanced", random_state=0)
        machine.fit(X, y)
        shares.append(balanced_accuracy_score(y_test, machine.predict(X_test)))
        losses.append(log_loss(y_test, machine.predict_proba(X_test)))
        assert "weights of the classes leave fewer" in machine.report_.reason
    assert np.mean(shares) > 0.75
    assert np.mean(losses) < np.log(2)


def test_copies_of_a_class_are_its_weight():
    X, y, X_test, _ = rare_rows(0, 6, 306)
    copies = np.where(y == 1, 50, 1)
    machine = KernelMachineClassifier(random_state=0)
    weighted = machine.fit(X, y, copies).predict_proba(X_test[:50])
    chosen = machine.report_.chosen
    repeated = machine.fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    assert machine.report_.chosen == chosen
    np.testing.assert_allclose(repeated.predict_proba(X_test[:50]), weighted, rtol=1e-6)


def test_even_classes_of_many_rows_are_learned_with_any_weights():
    X, y, *_ = rare_rows(0, 300)
    machine = KernelMachineClassifier(class_weight={0: 1.0, 1: 3.0}, random_state=0)
    assert len(machine.fit(X, y).report_.candidates) > 2


def test_a_single_class_leaves_nothing_to_report():
    X, *_ = rare_rows(0, 0, 300)
    machine = KernelMachineClassifier(random_state=0).fit(X, np.zeros(300))
    assert machine.report_ is None
