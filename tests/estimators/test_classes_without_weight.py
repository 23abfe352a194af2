"""Classes of which no row counts have no probability, and are not predicted."""

import numpy as np
import pytest

from bochner import KernelMachineClassifier, SemiSupervisedClassifier, merge

OPTIONS = {"n_components": 20, "random_state": 0}


@pytest.fixture(scope="module")
def rows():
    X = np.random.default_rng(0).normal(size=(60, 2))
    return (
        X,
        np.r_[np.tile([0, 1], 20), np.full(20, 2)],
        np.r_[np.ones(40), np.zeros(20)],
    )


def check(model, X, n_classes=3):
    proba = model.predict_proba(X)
    assert proba.shape == (60, n_classes)
    np.testing.assert_array_equal(proba[:, -1], 0)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert model.classes_[-1] not in model.predict(X)
    np.testing.assert_array_equal(
        model.predict(X), model.classes_[proba.argmax(axis=1)]
    )
    if hasattr(model, "predict_set"):
        assert not model.predict_set(X, 0.5)[:, -1].any()


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["auto", "squared", "logistic", "squared_hinge"])
def test_of_weight_zero(rows, loss):
    X, y, weight = rows
    model = KernelMachineClassifier(loss=loss, alpha=0.1, **OPTIONS).fit(X, y, weight)
    np.testing.assert_array_equal(model.class_count_, [20, 20, 0])
    check(model, X)
    check(model.refit(X, y, weight), X)


def test_of_weight_zero_by_default(rows):
    check(KernelMachineClassifier(random_state=0).fit(*rows), rows[0])


def test_one_of_two(rows):
    X, y, _weight = rows
    model = KernelMachineClassifier(alpha=0.1, **OPTIONS).fit(
        X, np.minimum(y, 1), (y == 0) * 1.0
    )
    np.testing.assert_array_equal(model.predict_proba(X), np.tile([1.0, 0.0], (60, 1)))
    assert set(model.predict(X)) == {0}


def test_by_class_weight(rows):
    X, y, _ = rows
    check(
        KernelMachineClassifier(class_weight={2: 0.0}, alpha=0.1, **OPTIONS).fit(X, y),
        X,
    )


def test_declared_and_not_seen(rows):
    X, y, _ = rows
    seen = y < 2

    def prepared():
        return KernelMachineClassifier("gaussian", **OPTIONS).prepare(X, y)

    first = KernelMachineClassifier("gaussian", **OPTIONS).partial_fit(
        X[seen], y[seen], classes=[0, 1, 2]
    )
    second = prepared().partial_fit(X[seen], y[seen])
    both = merge(
        [
            prepared().partial_fit(X[:10], y[:10]),
            prepared().partial_fit(X[10:40], y[10:40]),
        ]
    )
    for model in (first, second, both):
        np.testing.assert_array_equal(model.class_count_, [20, 20, 0])
        check(model, X)
    assert second.partial_fit(X[~seen], y[~seen]).predict_proba(X)[:, 2].max() > 0.1


def test_of_a_file(rows, tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X, y, weight = rows
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "y": y, "w": weight})
    for k in range(2):
        parquet.write_table(table.slice(30 * k, 30), tmp_path / f"{k}.parquet")
    check(
        KernelMachineClassifier(alpha=0.1, **OPTIONS).fit(str(tmp_path), "y", "w"),
        table.select(["a", "b"]),
    )


def test_of_semisupervised_rows(rows):
    with pytest.raises(ValueError, match="All rows of class 2 have the weight zero"):
        SemiSupervisedClassifier(random_state=0).fit(*rows)
