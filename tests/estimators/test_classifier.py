"""The classifier: accuracy, labels, probabilities."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bochner import KernelMachineClassifier, KernelMachineRegressor, load, save
from bochner.kernels import Gaussian

OPTIONS = {"kernel": Gaussian(2.0), "n_components": 60, "alpha": 1.0, "random_state": 0}


@pytest.fixture
def rows():
    """Three classes of a plane, of unequal size."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    return X, (X[:, 0] ** 2 + X[:, 1] > 0.5).astype(int) + (X[:, 1] > 0.8)


def softmax(f):
    e = np.exp(f - f.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


class TestAccuracy:
    @pytest.mark.slow
    @pytest.mark.parametrize("data", [load_breast_cancer, load_wine, load_digits])
    def test_on_real_data(self, data):
        """As a support vector machine, mean of three splits: of so few rows one
        split chooses by chance.
        """
        X, y = data(return_X_y=True)
        scores = []
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(len(y))[:450]
            train, test = order[: len(order) * 2 // 3], order[len(order) * 2 // 3 :]
            model = KernelMachineClassifier(n_components=300, random_state=seed).fit(
                X[train], y[train]
            )
            svc = make_pipeline(StandardScaler(), SVC()).fit(X[train], y[train])
            scores.append((model.score(X[test], y[test]), svc.score(X[test], y[test])))
            assert (
                scores[-1][0] > np.mean(y[test] == np.bincount(y[train]).argmax()) + 0.2
            )
        ours, theirs = np.mean(scores, axis=0)
        # Two deviations of the difference of two proportions on the test rows of a
        # split, each near 0.95.
        assert ours >= theirs - 2 * np.sqrt(2 * 0.05 * 0.95 / len(test))

    def test_two_classes_are_a_regression_on_signs(self, rows):
        X, y = rows
        classifier = KernelMachineClassifier(**OPTIONS).fit(X, y > 0)
        regressor = KernelMachineRegressor(bounded=False, **OPTIONS)
        regressor.fit(X, np.where(y > 0, 1.0, -1.0))
        np.testing.assert_allclose(
            classifier.decision_function(X), regressor.predict(X), rtol=1e-8, atol=1e-9
        )

    def test_classes_are_regressions_of_one_against_the_rest(self, rows):
        X, y = rows
        scores = KernelMachineClassifier(**OPTIONS).fit(X, y).decision_function(X)
        assert scores.shape == (200, 3)
        for k in range(3):
            regressor = KernelMachineRegressor(bounded=False, **OPTIONS).fit(
                X, np.where(y == k, 1.0, -1.0)
            )
            np.testing.assert_allclose(
                scores[:, k], regressor.predict(X), rtol=1e-8, atol=1e-9
            )
        np.testing.assert_allclose(
            scores.sum(axis=1), 2 - 3, atol=1e-8
        )  # targets of a row add up to 2 - K


class TestLabels:
    @pytest.mark.parametrize(
        "labels",
        [
            np.array(["no", "yes", "maybe"]),
            np.array(["no", "yes", "maybe"], dtype=object),
            np.array([-7, 0, 300]),
            np.array([0.0, 1.0, 2.0]),
            np.array([True, False]),
            np.array(["b", "a"]),
        ],
        ids=lambda labels: f"{len(labels)}{labels.dtype}",
    )
    def test_any_labels(self, rows, labels):
        X, y = rows
        plain = KernelMachineClassifier(**OPTIONS).fit(X, y % len(labels))
        model = KernelMachineClassifier(**OPTIONS).fit(X, labels[y % len(labels)])
        np.testing.assert_array_equal(model.classes_, np.unique(labels))
        assert model.predict(X).dtype == labels.dtype
        np.testing.assert_array_equal(model.predict(X), labels[plain.predict(X)])
        order = np.argsort(labels)
        np.testing.assert_allclose(
            model.predict_proba(X),
            plain.predict_proba(X)[:, order],
            rtol=1e-6,
            atol=1e-9,
        )

    def test_labels_of_frames(self, rows):
        pd = pytest.importorskip("pandas")
        X, y = rows
        names = np.array(["no", "yes", "maybe"])[y]
        plain = KernelMachineClassifier(**OPTIONS).fit(X, names)
        for target in (
            pd.Series(names),
            pd.Series(names, dtype="category"),
            names.tolist(),
        ):
            np.testing.assert_array_equal(
                KernelMachineClassifier(**OPTIONS).fit(X, target).predict(X),
                plain.predict(X),
            )
        pl = pytest.importorskip("polars")
        model = KernelMachineClassifier(**OPTIONS).fit(
            pl.DataFrame(X, schema=["a", "b"]), pl.Series(names)
        )
        np.testing.assert_array_equal(
            model.predict(pl.DataFrame(X, schema=["a", "b"])), plain.predict(X)
        )

    def test_one_class(self, rows):
        X, _ = rows
        model = KernelMachineClassifier(n_components=20, random_state=0).fit(
            X, np.full(200, "only")
        )
        assert set(model.predict(X)) == {"only"}
        np.testing.assert_array_equal(model.predict_proba(X), np.ones((200, 1)))
        assert model.decision_function(X).shape == (200,)

    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_few_rows(self, rows, n):
        X, _ = rows
        labels = np.array(["a", "b", "a"])[:n]
        model = KernelMachineClassifier(random_state=0).fit(X[:n], labels)
        assert set(model.predict(X)) <= set(labels)
        probability = model.predict_proba(X)
        assert probability.shape == (200, len(set(labels)))
        np.testing.assert_allclose(probability.sum(axis=1), 1)

    def test_weights_are_repeats(self, rows):
        X, y = rows
        repeats = np.random.default_rng(1).integers(0, 4, 200)
        for options in (OPTIONS, {"n_components": 60, "random_state": 0}):
            weighted = KernelMachineClassifier(**options).fit(X, y, repeats)
            repeated = KernelMachineClassifier(**options).fit(
                np.repeat(X, repeats, axis=0), np.repeat(y, repeats)
            )
            np.testing.assert_allclose(
                weighted.decision_function(X),
                repeated.decision_function(X),
                rtol=1e-6,
                atol=1e-6,
            )
            # The link is found by an iteration that stops at gradients of 1e-5.
            np.testing.assert_allclose(
                weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-3
            )

    def test_a_class_without_weight(self, rows):
        X, y = rows
        model = KernelMachineClassifier(**OPTIONS).fit(X, y, (y != 2).astype(float))
        assert 2 not in model.predict(X)
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


class TestProbabilities:
    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_agree_with_predictions(self, rows, n_classes):
        X, y = rows
        model = KernelMachineClassifier(n_components=60, random_state=0).fit(
            X, y % n_classes
        )
        probability = model.predict_proba(X)
        assert probability.shape == (200, n_classes)
        assert np.all((probability >= 0) & (probability <= 1))
        np.testing.assert_allclose(probability.sum(axis=1), 1, rtol=1e-14)
        np.testing.assert_array_equal(
            model.classes_[probability.argmax(axis=1)], model.predict(X)
        )

    @pytest.mark.parametrize("sharpness", [0.5, 1.5, 4.0])
    def test_calibrated_for_two_classes(self, sharpness):
        """Expected log loss under the true probabilities, against a plain sigmoid of
        the scores.
        """
        rng = np.random.default_rng(0)
        X = rng.uniform(-2, 2, (3000, 2))
        truth = expit(sharpness * 2 * np.sin(2 * X[:, 0]) * X[:, 1])
        y = rng.random(3000) < truth
        options = {"n_components": 100, "loss": "squared", "random_state": 0}
        model = KernelMachineClassifier("gaussian", **options).fit(X[:1500], y[:1500])
        p = truth[1500:]

        def loss(q):
            q = np.clip(q, 1e-12, 1 - 1e-12)
            return -(p * np.log(q) + (1 - p) * np.log(1 - q)).mean()

        found = loss(model.predict_proba(X[1500:])[:, 1])
        assert found <= loss(expit(model.decision_function(X[1500:])))
        assert loss(p) < found < loss(np.full(1500, p.mean()))

    def test_calibrated_for_three_classes(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-2, 2, (3000, 2))
        truth = softmax(2 * np.column_stack([np.sin(2 * X[:, 0]), X[:, 1], -X[:, 1]]))
        y = (truth.cumsum(axis=1) < rng.random((3000, 1))).sum(axis=1)
        options = {"n_components": 100, "loss": "squared", "random_state": 0}
        model = KernelMachineClassifier("gaussian", **options).fit(X[:1500], y[:1500])
        found = log_loss(y[1500:], model.predict_proba(X[1500:]))
        assert found <= log_loss(y[1500:], softmax(model.decision_function(X[1500:])))

    def test_hopeless_labels_give_shares(self):
        """Of coin tosses of 0.7, the mean probability is the mean toss, within five
        deviations of 600 tosses.
        """
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((600, 3)), rng.random(600) < 0.7
        model = KernelMachineClassifier(
            "gaussian", n_components=50, random_state=0
        ).fit(X, y)
        assert abs(model.predict_proba(X)[:, 1].mean() - y.mean()) < 5 * np.sqrt(
            0.21 / 600
        )


def test_save_and_load(rows, tmp_path):
    X, y = rows
    for labels in (
        np.array(["no", "yes", "maybe"]),
        np.array([True, False, True]),
        np.array([1.0, 2.0, 3.0]),
    ):
        model = KernelMachineClassifier(n_components=30, random_state=0).fit(
            X, labels[y]
        )
        save(model, tmp_path / "model.safetensors")
        copy = load(tmp_path / "model.safetensors")
        np.testing.assert_array_equal(copy.predict(X), model.predict(X))
        np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(copy.classes_, model.classes_)


def test_inputs_are_not_modified(rows, frozen):
    X, y = frozen(*rows)
    KernelMachineClassifier(n_components=30, random_state=0).fit(
        X, y, frozen(np.ones(200))
    ).predict_proba(X)
