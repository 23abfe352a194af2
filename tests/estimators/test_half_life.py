"""Rows that decay with their age: the same as ridge regression with weights,
whatever the batches.
"""

from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge, SGDRegressor

from bochner import (
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    load,
    merge,
    save,
)
from bochner.kernels import Gaussian

N, HALF_LIFE, ALPHA = 600, 90.0, 0.5
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(N) + 5
LABELS = np.where(Y > 5.5, "high", np.where(X[:, 2] > 0, "odd", "low"))
WEIGHT = RNG.integers(1, 5, N).astype(float)
AGE = np.arange(N)[::-1]
GIVEN = {
    "features": FourierFeatures(Gaussian(1.5), 100, random_state=0),
    "alpha": ALPHA,
    "random_state": 0,
}


def prepared(**changes):
    return KernelMachineRegressor(**(GIVEN | changes)).prepare(X[:300], Y[:300])


def in_batches(model, size, y=Y, weight=None, half_life=HALF_LIFE, **named):
    for first in range(0, N, size):
        rows = slice(first, first + size)
        own = None if weight is None else weight[rows]
        model.partial_fit(
            X[rows], y[rows], sample_weight=own, half_life=half_life, **named
        )
    return model


def ridge(model, targets, weight):
    """Predictions by scikit-learn with weights, in the features of a model."""
    Z = model.features_.transform(model.encoder_.encode(X, np.float64))
    return (
        Ridge(ALPHA, solver="cholesky").fit(Z, targets, sample_weight=weight).predict(Z)
    )


@pytest.mark.slow
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weighted"])
@pytest.mark.parametrize("size", [1, 37, 250, N])
def test_decay_is_by_age_whatever_the_batches(size, weight):
    decay = 2 ** (-AGE / HALF_LIFE)
    model = in_batches(prepared(), size, weight=weight)
    truth = ridge(model, Y, decay if weight is None else decay * weight)
    np.testing.assert_allclose(model.predict(X), truth, rtol=0, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 100, N])
def test_classes_decay_alike(size):
    factors = {"high": 1.0, "low": 2.0, "odd": 0.5}
    model = KernelMachineClassifier(**GIVEN, loss="squared", class_weight=factors)
    in_batches(model.prepare(X[:300], LABELS[:300]), size, LABELS)
    weight = 2 ** (-AGE / HALF_LIFE) * np.vectorize(factors.get)(LABELS)
    truth = ridge(
        model, np.where(LABELS[:, np.newaxis] == model.classes_, 1.0, -1.0), weight
    )
    np.testing.assert_allclose(model.decision_function(X), truth, rtol=0, atol=1e-8)
    counts = [weight[label == LABELS].sum() for label in model.classes_]
    np.testing.assert_allclose(model.class_count_, counts)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 100])
def test_first_rows_decay_too(size):
    """While the first rows fix the scales again and again, and after that; what they
    fix is chosen without decay.
    """
    model, slow = (
        in_batches(KernelMachineRegressor(**GIVEN), size, half_life=h)
        for h in (HALF_LIFE, None)
    )
    np.testing.assert_allclose(
        model.predict(X), ridge(model, Y, 2 ** (-AGE / HALF_LIFE)), rtol=0, atol=1e-8
    )
    np.testing.assert_array_equal(
        model.encoder_.statistic_.summary.mean, slow.encoder_.statistic_.summary.mean
    )
    np.testing.assert_allclose(
        slow.predict(X), ridge(slow, Y, np.ones(N)), rtol=0, atol=1e-8
    )


@pytest.mark.parametrize("first", [40, 150, 300])
def test_saved_models_go_on(first, tmp_path):
    """From first rows that are kept, in the midst of them, and from sums."""
    model = KernelMachineRegressor(**GIVEN)
    for part in (slice(0, first // 2), slice(first // 2, first)):
        model.partial_fit(X[part], Y[part], half_life=HALF_LIFE)
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    for one in (model, again):
        one.partial_fit(X[first:], Y[first:], half_life=HALF_LIFE)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_allclose(
        model.predict(X), ridge(model, Y, 2 ** (-AGE / HALF_LIFE)), rtol=0, atol=1e-8
    )


def test_merged_rows_keep_the_weights_of_their_model():
    first, halves = prepared(), (slice(0, 400), slice(400, N))
    parts = [
        deepcopy(first).partial_fit(X[rows], Y[rows], half_life=HALF_LIFE)
        for rows in halves
    ]
    age = np.concatenate([np.arange(400)[::-1], np.arange(200)[::-1]])
    merged = merge(parts)
    np.testing.assert_allclose(
        merged.predict(X), ridge(merged, Y, 2 ** (-age / HALF_LIFE)), rtol=0, atol=1e-8
    )


def test_half_lives_may_change_from_batch_to_batch():
    model = (
        prepared()
        .partial_fit(X[:200], Y[:200])
        .partial_fit(X[200:400], Y[200:400], half_life=50)
    )
    model.partial_fit(X[400:], Y[400:], half_life=1000)
    decay = np.concatenate(
        [
            np.full(200, -4.0 - 0.2),
            -np.arange(200)[::-1] / 50 - 0.2,
            -np.arange(200)[::-1] / 1000,
        ]
    )
    np.testing.assert_allclose(
        model.predict(X), ridge(model, Y, 2**decay), rtol=0, atol=1e-8
    )


@pytest.mark.parametrize("half_life", [1e-320, 0.01, 1, 1e300, np.inf])
def test_half_lives_of_any_size(half_life):
    """The last row alone counts by the shortest; the longest forget nothing."""
    model = in_batches(prepared(), 150, half_life=half_life)
    weight = (
        2 ** np.maximum(-AGE / half_life, -1000)
        if half_life >= 1
        else np.where(AGE == 0, 1.0, 0.0)
    )
    np.testing.assert_allclose(
        model.predict(X), ridge(model, Y, weight), rtol=0, atol=1e-8
    )


def test_all_is_forgotten_in_the_end():
    """A penalty that is chosen, a column without spread, and rows far beyond the
    half-life.
    """
    rows = np.column_stack([X, np.full(N, 7.0)])
    model = KernelMachineRegressor("gaussian", n_components=50, random_state=0).prepare(
        rows, Y
    )
    model.partial_fit(rows, Y, half_life=5)
    model.partial_fit(np.tile(rows[:1], (20_000, 1)), np.full(20_000, 3.0), half_life=5)
    assert np.isfinite(model.predict(rows)).all()
    assert model.predict(rows[:1])[0] == pytest.approx(3.0, abs=1e-6)


def test_frames_and_several_targets():
    frame, both = pd.DataFrame(X, columns=list("abc")), np.column_stack([Y, -3 * Y])
    model = KernelMachineRegressor(**GIVEN).prepare(frame, both)
    model.partial_fit(frame[:200], both[:200], half_life=HALF_LIFE)
    model.partial_fit(frame[200:], both[200:], half_life=HALF_LIFE)
    one = in_batches(KernelMachineRegressor(**GIVEN).prepare(X, Y), 200).predict(X)
    np.testing.assert_allclose(
        model.predict(frame), np.column_stack([one, -3 * one]), atol=1e-8
    )


@pytest.mark.parametrize("half_life", [0, -1.0, np.nan, "100", True, [100]])
def test_other_half_lives_are_refused(half_life):
    model = prepared().partial_fit(X, Y)
    before = model.predict(X)
    with pytest.raises(
        ValueError,
        match="half_life must be a positive number of rows, or None to forget "
        "nothing, got",
    ):
        model.partial_fit(X, Y, half_life=half_life)
    with pytest.raises(ValueError, match="half_life must be"):
        KernelMachineClassifier().partial_fit(
            X, LABELS, classes=np.unique(LABELS), half_life=half_life
        )
    np.testing.assert_array_equal(model.predict(X), before)


def test_a_batch_in_which_all_weight_is_forgotten_is_refused():
    weight = np.where(AGE > 300, 1.0, 0.0)
    with pytest.raises(
        ValueError,
        match=r"last rows of the batch have no weight, .* give a longer half_life",
    ):
        prepared().partial_fit(X, Y, weight, half_life=1)


def test_drift_is_followed_better_than_by_gradient_steps():
    """Half of the best of many step sizes, on the same features, and a tenth of the
    default one.
    """
    rng, n = np.random.default_rng(0), 5000
    rows = rng.uniform(-3, 3, (n, 1))
    truth = np.sin(2 * rows[:, 0] + 2 * np.pi * np.arange(n) / 20_000)
    y = truth + 0.1 * rng.standard_normal(n)

    def regret(model, rows, **options):
        total = 0.0
        for first in range(0, n, 50):
            part = slice(first, first + 50)
            if first:
                total += np.square(model.predict(rows[part]) - truth[part]).sum()
            model.partial_fit(rows[part], y[part], **options)
        return total / n

    features = FourierFeatures(Gaussian(1.0), 100, random_state=0)
    model = KernelMachineRegressor(features=features, alpha=0.1).prepare(
        rows[:300], y[:300]
    )
    own = regret(model, rows, half_life=100)
    Z = features.fit(rows).transform(rows)
    steps = (0.03, 0.1, 0.3, 1.0)
    best = min(
        regret(SGDRegressor(learning_rate="constant", eta0=eta, random_state=0), Z)
        for eta in steps
    )
    assert own < best / 2
    assert own < regret(SGDRegressor(random_state=0), Z) / 10
