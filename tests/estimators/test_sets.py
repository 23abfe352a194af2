"""Sets of classes of the classifier."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits

from bochner import KernelMachineClassifier, load, save
from bochner.kernels import Gaussian, Laplacian

MACHINES = {
    "direct": {"kernel": Gaussian(40.0), "n_components": 200},
    "few features": {"kernel": Gaussian(40.0), "n_components": 60},
    "bins": {"kernel": Laplacian(300.0), "features": "binning", "n_components": 50},
    "iterative": {"kernel": Gaussian(40.0), "n_components": 200, "solver": "cg"},
    "exact": {"kernel": Gaussian(40.0), "solver": "exact"},
}


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)  # by writers: the order is no order of draws
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    return X[:300], y[:300], X[300:], y[300:]


@pytest.mark.parametrize("options", MACHINES.values(), ids=MACHINES)
def test_every_solver(digits, options, tmp_path):
    X, y, X_test, y_test = digits
    model = KernelMachineClassifier(**options, random_state=0).fit(X, y)
    sets = model.predict_set(X_test, coverage=0.95)
    assert sets.shape == (len(X_test), 10)
    assert sets.dtype == bool
    assert sets[np.arange(len(sets)), model.predict(X_test)].all()
    assert sets[np.arange(len(sets)), y_test].mean() > 0.93
    assert sets.sum(axis=1).mean() < 3
    save(model, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict_set(X_test, coverage=0.95), sets)
    np.testing.assert_array_equal(
        model.predict_set(X_test, coverage=0.95, n_jobs=1), sets
    )


def test_more_coverage_takes_more_classes(digits):
    X, y, X_test, _ = digits
    model = KernelMachineClassifier(**MACHINES["few features"], random_state=0).fit(
        X, y
    )
    sets = [model.predict_set(X_test, coverage) for coverage in (0.5, 0.9, 0.95, 0.98)]
    for smaller, larger in pairwise(sets):
        assert (larger >= smaller).all()
    np.testing.assert_array_equal(model.predict_set(X_test), sets[1])
    certainty = model.predict_proba(X_test).max(axis=1)
    assert (
        certainty[sets[3].sum(axis=1) > 1].mean()
        < certainty[sets[3].sum(axis=1) == 1].mean()
    )


def test_two_classes():
    X, y = load_breast_cancer(return_X_y=True)
    names = np.array(["benign", "malignant"])[y]
    model = KernelMachineClassifier(metric="isotropic", random_state=0).fit(
        X[:300], names[:300]
    )
    sets = model.predict_set(X[300:], coverage=0.98)
    assert sets.shape == (269, 2)
    assert sets.any(axis=1).all()
    assert sets[np.arange(269), y[300:]].mean() > 0.95


def test_one_class():
    model = KernelMachineClassifier(random_state=0).fit(np.eye(20), np.zeros(20))
    np.testing.assert_array_equal(
        model.predict_set(np.eye(20)[:3]), np.ones((3, 1), bool)
    )


def test_weights_are_repeats(digits):
    X, y, X_test, _ = digits
    repeats = np.random.default_rng(0).integers(0, 4, len(y))
    options = MACHINES["direct"] | {"alpha": 1.0}
    weighted = KernelMachineClassifier(**options, random_state=0).fit(X, y, repeats)
    repeated = KernelMachineClassifier(**options, random_state=0).fit(
        np.repeat(X, repeats, axis=0), y.repeat(repeats)
    )
    assert (
        weighted.predict_set(X_test, 0.97) == repeated.predict_set(X_test, 0.97)
    ).mean() > 0.999


def test_bad_input(digits):
    X, y, X_test, _ = digits
    model = KernelMachineClassifier(**MACHINES["direct"], random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="between 0 and 1"):
        model.predict_set(X_test, coverage=90)
    with pytest.raises(
        ValueError, match=r"0\.999 needs 999 validation rows, and there were 300"
    ):
        model.predict_set(X_test, coverage=0.999)
    few = KernelMachineClassifier(random_state=0).fit(X[:8], y[:8] % 2)
    with pytest.raises(ValueError, match="needs 9 validation rows, and there were 8"):
        few.predict_set(X_test)


def test_refit_keeps_the_thresholds(digits):
    X, y, X_test, _ = digits
    model = KernelMachineClassifier(**MACHINES["direct"], random_state=0).fit(X, y)
    before = model.set_thresholds_.copy()
    model.refit(X[:200], y[:200])
    np.testing.assert_array_equal(model.set_thresholds_, before)
    assert model.predict_set(X_test).any(axis=1).all()


@pytest.mark.slow
def test_noisy_classes_of_bins():
    # Of ten noisy classes the first iteration is best for the rows held out. What
    # those after it fitted stayed in the model, whose probabilities were then as bad as
    # the shares of the classes, and whose sets of 90 % held 74 %.
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (9000, 3))
    directions = np.random.default_rng(5).standard_normal((3, 10))
    log_odds = 2 * np.sin(X @ directions)
    y = (log_odds + rng.gumbel(size=log_odds.shape)).argmax(axis=1)
    model = KernelMachineClassifier(
        features="binning", loss="squared", random_state=0
    ).fit(X[:3000], y[:3000])
    rows, truth = np.arange(6000), y[3000:]
    assert 0.88 < model.predict_set(X[3000:])[rows, truth].mean() < 0.94
    shares = np.bincount(y[:3000], minlength=10) / 3000
    losses = -np.log(model.predict_proba(X[3000:])[rows, truth])
    assert losses.mean() < -np.log(shares[truth]).mean() - 0.2
    probabilities = model.predict_proba(X[3000:])
    model.refit(X[:3000], y[:3000])
    np.testing.assert_array_equal(model.predict_proba(X[3000:]), probabilities)
