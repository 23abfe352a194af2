"""The machine of the labelled rows beside the graph of all rows, and its share."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss

from bochner import (
    KernelMachineClassifier,
    KernelMachineRegressor,
    SemiSupervisedClassifier,
    SemiSupervisedRegressor,
    load,
    save,
)
from bochner.semisupervised.mixture import BOTH, MACHINE, SHARES, mean_share

RNG = np.random.default_rng(0)
X = RNG.standard_normal((600, 5))
LINEAR = X @ np.arange(1.0, 6.0)
SIDES = (X[:, 0] + X[:, 1] + 0.3 * RNG.standard_normal(600) > 0).astype(int)


def labelled(y, n):
    """The targets of the first rows alone."""
    missing = -1 if y.dtype.kind == "i" else np.nan
    return np.where(np.arange(len(y)) < n, y, missing)


def test_share_is_the_mean_of_its_posterior():
    """By quadrature: Jeffreys' prior; of classes with one more label of the graph."""
    rng = np.random.default_rng(1)
    one, other = rng.uniform(0.1, 0.9, (2, 30))
    logs = [-np.log((1 - s) * one + s * other).sum() for s in SHARES]
    y, values, others = rng.standard_normal((3, 30))
    squares = [np.sum(((1 - s) * values + s * others - y) ** 2) for s in SHARES]

    def of_classes(s):
        return (1 - s) * np.prod((1 - s) * one + s * other)

    def of_numbers(s):
        return np.sum(((1 - s) * values + s * others - y) ** 2) ** -15.0

    for totals, likelihood, classes in [
        (logs, of_classes, True),
        (squares, of_numbers, False),
    ]:
        mass, mean = (
            quad(
                lambda t, k=k, f=likelihood: np.sin(t) ** (2 * k) * f(np.sin(t) ** 2),
                0,
                np.pi / 2,
            )[0]
            for k in (0, 1)
        )
        share = mean_share(np.array(totals), 30, classes)
        assert_allclose(share, mean / mass, rtol=1e-6)


@pytest.mark.slow
def test_linear_targets_are_those_of_the_machine():
    """Where the graph of all rows has an R2 of .8 or less."""
    model = SemiSupervisedRegressor(random_state=0).fit(X, labelled(LINEAR, 30))
    graph = SemiSupervisedRegressor(method=model.method_, random_state=0)
    graph.fit(X, labelled(LINEAR, 30))
    assert model.score(X[30:], LINEAR[30:]) > 0.999
    assert graph.score(X[30:], LINEAR[30:]) < 0.8
    assert model.share_ > 0.99
    machine = KernelMachineRegressor(random_state=0).fit(X[:30], LINEAR[:30])
    standardised = (machine.predict(X) - model.mean_) / model.scale_
    assert_allclose(model.machine_.predict(X)[:, 0], standardised, atol=1e-4)
    assert_allclose(model.transduction_[30:], model.predict(X[30:]), atol=1e-8)


@pytest.mark.slow
def test_classes_without_a_gap_are_as_by_the_machine():
    """Log losses of three draws."""
    losses = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(600)
        rows, sides = X[order], SIDES[order]
        y = labelled(sides, 60)
        model = SemiSupervisedClassifier(random_state=0).fit(rows, y)
        graph = SemiSupervisedClassifier(method=model.method_, random_state=0)
        machine = KernelMachineClassifier(random_state=0).fit(rows[:60], sides[:60])
        losses.append(
            [
                log_loss(sides[60:], one.predict_proba(rows[60:]))
                for one in (model, graph.fit(rows, y), machine)
            ]
        )
    both, of_graph, of_machine = np.mean(losses, axis=0)
    assert both < min(0.8 * of_graph, 1.2 * of_machine)


def test_clusters_are_those_of_the_graph():
    """The machine of ten labels is wrong five times as often."""
    moons, sides = make_moons(1000, noise=0.08, random_state=0)
    model = SemiSupervisedClassifier(random_state=0).fit(moons, labelled(sides, 10))
    wrong = np.mean(model.transduction_ != sides)
    machine = KernelMachineClassifier(random_state=0).fit(moons[:10], sides[:10])
    assert 5 * wrong < np.mean(machine.predict(moons) != sides)
    assert wrong < 0.03


def test_report_tells_the_share_and_the_losses():
    model = SemiSupervisedClassifier(random_state=0).fit(X, labelled(SIDES, 40))
    report = model.report_
    assert report.chosen == BOTH
    assert f"{model.share_:.0%} are the machine's" in report.reason
    graph, machine, both = report.candidates
    assert both.loss <= max(graph.loss, machine.loss)
    assert graph.name == f"graph, {model.method_}"
    # Of whole rows left out, as the method's own loss is
    assert_allclose(graph.loss, min(model.method_scores_.values()), rtol=1e-6)
    assert "of each prediction" in str(report)


@pytest.mark.parametrize(
    ("rows", "y", "parameters", "why"),
    [
        (X, labelled(SIDES, 20), {"method": "ridge"}, "method='ridge' is the graph"),
        (X, labelled(SIDES, 20), {"class_prior": [0.3, 0.7]}, "class_prior is"),
        (np.ones((600, 2)), SIDES, {}, "one row, or one group"),
        (X, np.array(["a"] * 9 + [None] * 591, object), {}, "are of one class"),
        (X, np.where(np.arange(600) < 9, np.arange(600), -1), {}, "no class has"),
    ],
)
def test_graphs_alone_say_why(rows, y, parameters, why):
    model = SemiSupervisedClassifier(random_state=0, **parameters).fit(rows, y)
    assert model.machine_ is None
    assert model.share_ == 0
    assert why in model.report_.not_tried[MACHINE]
    assert "alone" in str(model.report_)


@pytest.mark.slow
def test_weights_and_order_of_labelled_rows_do_not_matter():
    weight = RNG.integers(1, 4, 600)
    y = labelled(LINEAR + RNG.standard_normal(600), 25)
    one = SemiSupervisedRegressor(random_state=0).fit(X, y, weight.astype(float))
    rows = RNG.permutation(np.repeat(np.arange(600), weight))
    other = SemiSupervisedRegressor(random_state=0).fit(X[rows], y[rows])
    assert_allclose(
        one.machine_.predict(X), other.machine_.predict(X), rtol=1e-7, atol=1e-9
    )


@pytest.mark.slow
def test_files_and_model_files(tmp_path):
    """Rows of files are labelled by both, too, and a model file has the machine."""
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["kind"] = np.where(SIDES, "p", "q")
    frame.loc[::7, "a"] = np.nan
    y = labelled(SIDES, 40)
    rows = frame.copy()
    frame["t"] = pd.Series(y, dtype="Int64").mask(y < 0)
    frame.to_parquet(tmp_path / "rows.parquet")
    model = SemiSupervisedClassifier(random_state=0).fit(tmp_path / "rows.parquet", "t")
    assert model.share_ > 0
    assert np.mean(model.transduction_ == SIDES) > 0.95
    for background in (True, False):
        save(model, tmp_path / "model", background=background)
        again = load(tmp_path / "model")
        assert (again.machine_.background_ is not None) == background
        assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))
