"""The linear model among the candidates for classes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from bochner import KernelMachineClassifier
from bochner.features import BinningFeatures, LinearFeatures
from bochner.kernels import Laplacian
from bochner.selection.linear import _by_logistic_regression
from bochner.selection.validation import Validator


def validator(y, weight=None, n_fit=300):
    X = np.random.default_rng(0).standard_normal((len(y), 3)).astype(np.float32)
    targets = y.reshape(len(y), -1).astype(float)
    weight = np.ones(len(y)) if weight is None else weight
    parts = [
        (X[part], targets[part], weight[part])
        for part in (slice(n_fit), slice(n_fit, None))
    ]
    return Validator(*parts, classes=True, seed=0)


def standardised(rows):
    features = LinearFeatures().draw(3)
    features.fit_sample(rows.X, rows.weight)
    return features


def test_losses_are_those_of_logistic_regression():
    signs = np.where(np.random.default_rng(1).uniform(size=400) < 0.4, 1, -1)
    rows = validator(signs)
    features = standardised(rows)
    expected = LogisticRegression().fit(features.rows(rows.X), signs[:300])
    proba = expected.predict_proba(features.rows(rows.X_out))
    truth = (signs[300:] > 0).astype(int)
    scores, losses = _by_logistic_regression(features, rows)
    assert_allclose(losses, -np.log(proba[np.arange(100), truth]), rtol=1e-3)
    assert_allclose(scores[:, 0], np.log(proba[:, 1] / proba[:, 0]), atol=1e-3)


def test_three_classes_have_the_probabilities_of_a_softmax():
    labels = np.random.default_rng(1).integers(0, 3, 400)
    signs = np.where(labels[:, np.newaxis] == np.arange(3), 1.0, -1.0)
    rows = validator(signs)
    features = standardised(rows)
    expected = LogisticRegression().fit(features.rows(rows.X), labels[:300])
    proba = expected.predict_proba(features.rows(rows.X_out))
    scores, losses = _by_logistic_regression(features, rows)
    assert_allclose(np.exp(scores), proba, rtol=1e-3)
    each = [log_loss(labels[300:] == k, proba[:, k], labels=[0, 1]) for k in range(3)]
    assert losses.mean() == pytest.approx(sum(each), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [3, 8])
def test_a_softmax_of_linear_scores_is_taken_for_a_linear_model(n_classes):
    """Against the others each of its classes is not linear, which bins would be."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 6))
    scores = X @ rng.standard_normal((6, n_classes))
    proba = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    y = (proba.cumsum(axis=1) < rng.uniform(size=(4000, 1))).sum(axis=1)
    model = KernelMachineClassifier(random_state=0).fit(X[:2000], y[:2000])
    assert model.report_.chosen == "linear model"
    logistic = LogisticRegression().fit(X[:2000], y[:2000])
    ours, theirs = (
        log_loss(y[2000:], one.predict_proba(X[2000:])) for one in (model, logistic)
    )
    assert ours < theirs + 0.01


def test_a_second_class_among_the_rows_held_out_alone():
    """Nothing is known of it but that it may come."""
    signs = np.ones(400)
    signs[350:] = -1
    rows = validator(signs)
    _, losses = _by_logistic_regression(standardised(rows), rows)
    assert np.isfinite(losses).all()
    assert losses[:50].max() < 0.01
    assert losses[50:].min() > 5


@pytest.mark.slow
@pytest.mark.parametrize("weight", [0.0, 1e-6])
def test_a_class_of_hardly_any_weight(weight):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1500, 5))
    scores = 2 * X[:, 0] + np.sin(3 * X[:, 1])
    y = np.digitize(scores, [-1, 1])
    weights = np.where(y == 2, weight, 1.0)
    model = KernelMachineClassifier(random_state=0).fit(X, y, sample_weight=weights)
    others = y < 2
    assert model.score(X[others], y[others]) > 0.8


@pytest.mark.slow
def test_few_rows_of_a_linear_logit_have_the_logistic_loss():
    """Which also judged them: heavy tails of a column spoil the squared one."""
    rng = np.random.default_rng(2)

    def draw(n):
        X = rng.normal(size=(n, 12))
        X[:, 0] *= np.exp(1.2 * rng.normal(size=n))
        logit = np.clip(3 * X[:, 0] + X[:, 1:].sum(axis=1), -30, 30)
        return X, (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(int)

    X, y = draw(900)
    later, truth = draw(5000)
    model = KernelMachineClassifier(random_state=0).fit(X, y)
    assert (model.report_.chosen, model.loss_) == ("linear model", "logistic")
    logistic = LogisticRegression().fit(X, y)
    proba = model.predict_proba(later)[:, 1]
    expected = logistic.predict_proba(later)[:, 1]
    assert np.abs(proba - expected).mean() < 0.03
    assert model.score(later, truth) > logistic.score(later, truth) - 0.01


@pytest.mark.slow
def test_bins_of_a_rare_class_are_compared_by_the_logistic_loss_too():
    """By the squared one bins lose, as their scores of a rare class are hard to read
    as probabilities.
    """
    rng = np.random.default_rng(0)
    X = rng.integers(2, size=(14000, 12)).astype(float)
    first = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3]
    logit = 3 * first + 1.5 * X[:, 4] + X[:, 5] - 7
    y = (rng.random(len(X)) < 1 / (1 + np.exp(-logit))).astype(int)
    model = KernelMachineClassifier(random_state=0).fit(X[:6000], y[:6000])
    assert "binning" in model.report_.chosen
    linear = LogisticRegression().fit(X[:6000], y[:6000])
    losses = [
        log_loss(y[6000:], fitted.predict_proba(X[6000:])) for fitted in (model, linear)
    ]
    assert losses[0] < 0.97 * losses[1]


@pytest.mark.parametrize("rare", [0.02, 0.4])
def test_swept_losses_of_two_levels_are_those_of_their_shares(rare):
    """Bins tell a column of two levels fully: sweeps end at the share of the class in
    each, where the squared loss gives scores that are read as probabilities badly.
    """
    rng = np.random.default_rng(0)
    X = rng.integers(2, size=(9000, 1)).astype(np.float32)
    is_class = rng.random(9000) < rare * (0.5 + X[:, 0])
    y = np.where(is_class, 1.0, -1.0)[:, np.newaxis]
    weight = np.ones(9000)
    parts = [(X[part], y[part], weight[part]) for part in np.split(np.arange(9000), 2)]
    rows = Validator(*parts, classes=True, seed=0)
    plain, swept = (
        rows.iterate(
            BinningFeatures(Laplacian(1.0), 50, random_state=0).draw(1),
            np.ones((1, 1)),
            24,
            by_logistic=by_logistic,
        )
        for by_logistic in (False, True)
    )
    shares = [is_class[:4500][X[:4500, 0] == level].mean() for level in (0, 1)]
    p = np.array(shares)[X[4500:, 0].astype(int)]
    expected = -np.log(np.where(is_class[4500:], p, 1 - p))
    assert rows.average(swept.losses) < 1.02 * expected.mean()
    assert rows.average(swept.losses) <= rows.average(plain.losses)
    assert_allclose(swept.penalty, plain.penalty)


@pytest.mark.slow
def test_single_columns_are_tried_where_bins_of_all_columns_learn_sooner():
    """Steps of single columns, of three tables."""
    losses = {"auto": 0.0, "squared": 0.0}
    for seed in (2, 3, 4):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-2, 2, (8000, 10))
        f = sum(np.sign(np.sin((2 + j) * X[:, j])) for j in range(5))
        for loss in losses:
            model = KernelMachineClassifier(
                features="binning", n_components=128, loss=loss, random_state=0
            ).fit(X[:4000], f[:4000] > 0)
            losses[loss] += log_loss(f[4000:] > 0, model.predict_proba(X[4000:]))
            assert model.loss_ == ("logistic" if loss == "auto" else "squared")
    assert losses["auto"] < 0.9 * losses["squared"]


@pytest.mark.slow
def test_a_refit_by_the_logistic_loss_to_equal_rows_is_an_equal_model():
    """Though it solves for no ridge regression."""
    rng = np.random.default_rng(0)
    X = rng.integers(2, size=(6000, 12)).astype(float)
    logit = 3 * X[:, 0] * X[:, 1] + 3 * X[:, 2] * X[:, 3] + X[:, 5] - 6
    y = rng.random(6000) < 1 / (1 + np.exp(-logit))
    model = KernelMachineClassifier(random_state=0).fit(X, y)
    assert model.loss_ == "logistic"
    proba = model.predict_proba(X)
    assert_allclose(model.refit(X, y).predict_proba(X), proba, atol=1e-3)
