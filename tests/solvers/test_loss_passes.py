"""Other losses on rows that are read in passes, against scikit-learn on the same
features.
"""

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.svm import LinearSVC

import bochner
from bochner import (
    BinningFeatures,
    FourierFeatures,
    KernelMachineClassifier,
    open_source,
)
from bochner.kernels import Gaussian, Laplacian

N, SAMPLE = 6_000, 2_000
NAMES = ["a", "b", "c"]
MAPS = {
    "fourier": FourierFeatures(Gaussian(1.5), 100, random_state=0),
    "binning": BinningFeatures(Laplacian(3.0), 6, random_state=0),
}


def drawn(n_classes, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3))
    f = np.sin(2 * X[:, 0]) + X[:, 1] + 0.7 * rng.logistic(size=N)
    return X, np.digitize(f, [0.6] if n_classes == 2 else [-0.5, 1.0])


def streamed(X, y, weight=None):
    table = pa.table(
        dict(zip(NAMES, X.T, strict=True))
        | {"y": y}
        | ({} if weight is None else {"w": weight})
    )
    return open_source(
        lambda: iter(table.to_batches(max_chunksize=1_000)), sample=SAMPLE
    )


def probabilities(scores):
    return softmax(
        np.column_stack([np.zeros(len(scores)), scores])
        if scores.ndim == 1
        else scores,
        axis=1,
    )


def frame(X):
    return pa.table(dict(zip(NAMES, X.T, strict=True)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_logistic_is_that_of_scikit_learn(n_classes, kind):
    X, y = drawn(n_classes)
    model = KernelMachineClassifier(
        features=MAPS[kind], alpha=3.0, loss="logistic", tol=1e-5, random_state=0
    )
    model.fit(streamed(X, y), "y")
    Z = model.features_.transform(model.encoder_.encode(frame(X), dtype=np.float64))
    truth = LogisticRegression(C=1 / 3, tol=1e-9, max_iter=5_000).fit(Z, y)
    own = probabilities(model.decision_function(frame(X)))
    np.testing.assert_allclose(own, truth.predict_proba(Z), atol=2e-4)


@pytest.mark.slow
def test_squared_hinge_is_that_of_scikit_learn():
    X, y = drawn(2)
    weight = np.random.default_rng(1).integers(1, 4, N).astype(float)
    model = KernelMachineClassifier(
        features=MAPS["fourier"], alpha=2.0, loss="squared_hinge", tol=1e-5
    )
    model.fit(streamed(X, y, weight), "y", "w")
    Z = model.features_.transform(model.encoder_.encode(frame(X), dtype=np.float64))
    far = 1e4  # of the column of ones, whose coefficient is penalised there
    truth = LinearSVC(
        C=1 / 2, intercept_scaling=far, dual=False, tol=1e-10, max_iter=50_000
    ).fit(Z, y, weight)

    def objective(coef, scores):
        return (
            weight @ np.square(np.maximum(1 - (2 * y - 1) * scores, 0))
            + 2 / 2 * np.square(coef).sum()
        )

    own = objective(model.feature_weights_, model.decision_function(frame(X)))
    assert own <= (1 + 1e-6) * objective(truth.coef_, truth.decision_function(Z))


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAPS)
def test_all_rows_count_and_not_the_sample_alone(kind):
    """What passes add to the fit of the sample, where the loss is chosen by the
    rows.
    """
    X, y = drawn(3)
    new, labels = drawn(3, seed=1)
    options = {"features": MAPS[kind], "random_state": 0}
    asked = {"loss": "logistic"} if kind == "fourier" else {}
    squared = KernelMachineClassifier(loss="squared", **options).fit(
        streamed(X, y), "y"
    )
    model = KernelMachineClassifier(**options, **asked).fit(streamed(X, y), "y")
    sample = KernelMachineClassifier(**options, **asked).fit(
        frame(X[:SAMPLE]), y[:SAMPLE]
    )
    losses = [
        log_loss(labels, one.predict_proba(frame(new)))
        for one in (model, squared, sample)
    ]
    assert model.loss_ == "logistic"
    # Of few Fourier features the squared loss may be as good as the one asked for
    assert losses[0] < (losses[2] if asked else min(losses[1:]))


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["auto", "logistic"])
def test_refit_keeps_what_was_chosen(loss, tmp_path):
    X, y = drawn(3)
    model = KernelMachineClassifier(
        features=MAPS["fourier"], loss=loss, tol=1e-4, random_state=0
    )
    model.fit(streamed(X, y), "y")
    before, chosen = (
        model.predict_proba(frame(X)),
        (model.loss_, model.alpha_, model.link_.tolist()),
    )
    bochner.save(model, tmp_path / "model")
    again = bochner.load(tmp_path / "model").refit(streamed(X, y), "y")
    assert (again.loss_, again.alpha_, again.link_.tolist()) == chosen
    # Few passes come near the solution, from two sides
    moved = np.abs(again.predict_proba(frame(X)) - before)
    assert np.quantile(moved, 0.999) < 0.01
    assert moved.mean() < 0.001
    other, labels = drawn(3, seed=1)
    passes = again.refit(streamed(other, labels), "y").predict_proba(frame(X))
    whole = again.refit(frame(other), labels).predict_proba(frame(X))
    assert np.abs(passes - before).mean() > 0.01
    assert np.abs(passes - whole).mean() < 0.005
