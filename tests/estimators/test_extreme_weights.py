"""Weights so small or large, or so unequal, that sums of them would not be numbers."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow.parquet import write_table
from threadpoolctl import threadpool_limits

from bochner import (
    KernelCCA,
    KernelKMeans,
    KernelMachineClassifier,
    KernelMachineRegressor,
    KernelPCA,
    NoveltyDetector,
    SemiSupervisedClassifier,
    SemiSupervisedRegressor,
    SpectralClustering,
    TableEncoder,
    open_source,
)
from bochner.scores import interval_score
from bochner.selection import learn_metric

N = 150
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = X[:, 0] + np.sin(2 * X[:, 1])
FEW = np.arange(N) < 40
MODELS = {
    "regressor": lambda w: (
        KernelMachineRegressor(random_state=0).fit(X, Y, w).predict(X)
    ),
    "iterative": lambda w: (
        KernelMachineRegressor("gaussian", solver="cg", random_state=0)
        .fit(X, Y, w)
        .predict(X)
    ),
    "exact": lambda w: (
        KernelMachineRegressor("gaussian", solver="exact", random_state=0)
        .fit(X, Y, w)
        .predict(X)
    ),
    "huber": lambda w: (
        KernelMachineRegressor(
            "gaussian", n_components=64, loss="huber", random_state=0
        )
        .fit(X, Y, w)
        .predict(X)
    ),
    "partial": lambda w: (
        KernelMachineRegressor("gaussian", random_state=0)
        .partial_fit(X, Y, w)
        .predict(X)
    ),
    "semi": lambda w: (
        SemiSupervisedRegressor(random_state=0)
        .fit(X, np.where(FEW, Y, np.nan), w)
        .predict(X)
    ),
}
CLASSIFIERS = {
    "classifier": lambda w: (
        KernelMachineClassifier(random_state=0).fit(X, Y > 0, w).predict_proba(X)
    ),
    "logistic": lambda w: (
        KernelMachineClassifier(
            "gaussian", n_components=64, loss="logistic", random_state=0
        )
        .fit(X, Y > 0, w)
        .predict_proba(X)
    ),
    "few features": lambda w: (
        KernelMachineClassifier("gaussian", n_components=64, random_state=0)
        .fit(X, Y > 0, w)
        .predict_proba(X)
    ),
    "semi classifier": lambda w: (
        SemiSupervisedClassifier(random_state=0)
        .fit(X, np.where(FEW, Y > 0, -1), w)
        .predict_proba(X)
    ),
}
OTHERS = {
    "pca": lambda w: KernelPCA(2, random_state=0).fit(X, sample_weight=w).transform(X),
    "k-means": lambda w: (
        KernelKMeans(2, random_state=0).fit(X, sample_weight=w).predict(X)
    ),
    "spectral": lambda w: (
        SpectralClustering(2, random_state=0).fit(X, sample_weight=w).labels_
    ),
    "novelty": lambda w: (
        NoveltyDetector(random_state=0).fit(X, sample_weight=w).score_samples(X)
    ),
    "cca": lambda w: (
        KernelCCA(random_state=0).fit(X, X[:, :2] ** 2, sample_weight=w).transform(X)
    ),
}
ALL = MODELS | CLASSIFIERS | OTHERS


def all_but(row, others, own):
    weight = np.full(N, others)
    weight[row] = own
    return weight


@pytest.fixture(autouse=True)
def one_thread():
    with threadpool_limits(1):
        yield


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(("largest", "alone"), [(5e-324, False), (1e300, True)])
def test_weights_that_have_no_sums_are_refused(name, largest, alone):
    weight = all_but(7, min(largest, 1.0), largest) if alone else np.full(N, largest)
    if largest < 1:
        weight[1:20] = 0.0
    with pytest.raises(
        ValueError,
        match=r"largest sample_weight is .*must be within 1e-25 and 1e\+25: divide all",
    ):
        ALL[name](weight)


@pytest.mark.parametrize(
    "use",
    [
        lambda w: TableEncoder().fit(X, sample_weight=w),
        lambda w: learn_metric(X, Y, sample_weight=w),
    ],
)
def test_so_does_what_is_no_model(use):
    with pytest.raises(ValueError, match="largest sample_weight"):
        use(np.full(N, 1e300))


def test_scores_refuse_them_too():
    with pytest.raises(ValueError, match="largest sample_weight"):
        interval_score(
            [1.0, 2.0], [[0.0, 1.0], [0.0, 1.0]], 0.9, sample_weight=[1e300, 1e308]
        )


@pytest.mark.parametrize(
    "name", ["regressor", "few features", "partial", "pca", "k-means", "novelty"]
)
@pytest.mark.parametrize("least", [5e-324, 1e-200])
def test_a_weight_that_no_sum_shows_is_zero(name, least):
    tiny, zero = (
        np.asarray(ALL[name](all_but(7, 1.0, own)), float) for own in (least, 0.0)
    )
    np.testing.assert_array_equal(tiny, zero)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("weight", [all_but(7, 1.0, 1e20), all_but(7, 1e-24, 1e-4)])
def test_one_row_with_nearly_all_of_the_weight(name, weight):
    """What it says is learned there, and whatever else is, numbers come of it."""
    if name == "semi":
        weight = weight[np.r_[0, 7, 1:7, 8:N]]  # a row with a target
    found = MODELS[name](weight)
    row = int(weight.argmax())
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[row], Y[row], atol=0.3)


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("weight", [all_but(7, 1.0, 1e20), all_but(7, 1e-20, 1.0)])
def test_classes_of_one_row_with_nearly_all_of_the_weight(name, weight):
    found = CLASSIFIERS[name](weight)
    assert np.isfinite(found).all()
    assert found[7, int(Y[7] > 0)] > 0.499


@pytest.mark.parametrize("factor", [1e-24, 1e-3, 1e24])
def test_all_weights_of_any_size(factor):
    """Whole numbers would count as so many rows where sizes are chosen."""
    weight = np.random.default_rng(0).uniform(0.5, 1.5, N)
    for name in ("exact", "few features"):
        np.testing.assert_allclose(
            ALL[name](factor * weight), ALL[name](weight), atol=0.02
        )


@pytest.mark.parametrize("sample", [None, 100])
def test_columns_of_weights(tmp_path, sample):
    path = tmp_path / "rows.parquet"
    for weight, message in (
        (1e300, "weight 'w' is 1e[+]300 in row 0.*at most"),
        (1e-300, "largest sample_weight"),
    ):
        write_table(pa.table({"a": X[:, 0], "y": Y, "w": np.full(N, weight)}), path)
        with pytest.raises(ValueError, match=message):
            KernelMachineRegressor(n_components=10).fit(
                open_source(path, sample=sample), "y", "w"
            )
