"""Kernel principal components against scikit-learn's, which has all kernel values."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, make_circles
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as Exact
from sklearn.utils.estimator_checks import parametrize_with_checks

from bochner import (
    BinningFeatures,
    FourierFeatures,
    KernelPCA,
    LinearFeatures,
    NystroemFeatures,
    load,
    save,
)
from bochner.inputs import opened
from bochner.kernels import Gaussian, Laplacian

DIGITS, DIGIT = load_digits(return_X_y=True)


def gamma_of(model):
    return 1 / (2 * model.kernel_.lengthscale**2)


@parametrize_with_checks([KernelPCA(), NystroemFeatures()])
def test_scikit_learn(estimator, check):
    check(estimator)


def test_few_rows_have_the_exact_components():
    X = DIGITS[:250]
    model = KernelPCA(6, random_state=0).fit(X)
    exact = Exact(6, kernel="rbf", gamma=gamma_of(model)).fit(X)
    np.testing.assert_allclose(
        model.explained_variance_ * len(X), exact.eigenvalues_, rtol=1e-9
    )
    np.testing.assert_allclose(
        np.abs(model.transform(DIGITS)), np.abs(exact.transform(DIGITS)), atol=1e-9
    )


@pytest.mark.parametrize("standardize", ["auto", False])
def test_a_given_kernel_measures_columns_as_they_are_scaled(standardize):
    X = np.random.default_rng(0).normal(size=(200, 3)) * [1.0, 10.0, 0.1]
    scaled = X / X.std(axis=0) if standardize else X
    model = KernelPCA(4, Gaussian(2.0), standardize=standardize, random_state=0).fit(X)
    exact = Exact(4, kernel="rbf", gamma=1 / 8).fit(scaled)
    np.testing.assert_allclose(
        model.explained_variance_ * len(X), exact.eigenvalues_, rtol=1e-9
    )


def test_many_rows_have_nearly_the_exact_subspace():
    model = KernelPCA(20, random_state=0).fit(DIGITS)
    exact = Exact(20, kernel="rbf", gamma=gamma_of(model)).fit(DIGITS)
    Q = np.linalg.qr(model.transform(DIGITS))[0]
    assert np.linalg.norm(Q.T @ exact.eigenvectors_) ** 2 / 20 > 0.99
    total = np.trace(
        exact._centerer.transform(Gaussian(model.kernel_.lengthscale)(DIGITS))
    )
    np.testing.assert_allclose(
        model.explained_variance_ratio_, exact.eigenvalues_ / total, rtol=0.05
    )


def test_linear_features_have_principal_components():
    X = DIGITS[:, 1:7] * np.arange(1, 7)
    model = KernelPCA(4, features=LinearFeatures(), standardize=False, whiten=True).fit(
        X
    )
    columns = LinearFeatures().fit_transform(X)
    exact = PCA(4, whiten=True).fit(columns)
    np.testing.assert_allclose(
        model.explained_variance_ratio_, exact.explained_variance_ratio_, rtol=1e-6
    )
    ratio = np.sqrt(len(X) / (len(X) - 1))
    np.testing.assert_allclose(
        np.abs(model.transform(X)), np.abs(exact.transform(columns)) * ratio, atol=1e-6
    )


def test_partial_fits_are_the_fit_of_all_rows():
    features = FourierFeatures(Gaussian(20.0), 200, random_state=0)
    whole = KernelPCA(5, features=features, standardize=False, random_state=0).fit(
        DIGITS
    )
    parts = KernelPCA(5, features=features, standardize=False, random_state=0)
    for rows in np.array_split(DIGITS - DIGITS.mean(axis=0), 4):
        parts.partial_fit(rows + DIGITS.mean(axis=0))
    assert parts.n_samples_seen_ == len(DIGITS)
    np.testing.assert_allclose(
        parts.explained_variance_, whole.explained_variance_, rtol=1e-6
    )
    with pytest.raises(ValueError, match="two passes"):
        KernelPCA(fit_inverse_transform=True).partial_fit(DIGITS)


def test_weights_are_copies_of_rows():
    X, weight = DIGITS[:200], np.random.default_rng(0).integers(0, 3, 200)
    one = KernelPCA(3, random_state=0).fit(X, sample_weight=weight.astype(float))
    other = KernelPCA(3, random_state=0).fit(np.repeat(X, weight, axis=0))
    np.testing.assert_allclose(
        one.explained_variance_, other.explained_variance_, rtol=1e-9
    )


def test_inverse_is_nearer_than_the_linear_one():
    train, test = DIGITS[:1400], DIGITS[1400:]
    model = KernelPCA(10, fit_inverse_transform=True, random_state=0).fit(train)
    linear = PCA(10).fit(train)
    error = np.mean((model.inverse_transform(model.transform(test)) - test) ** 2)
    assert error < 0.9 * np.mean(
        (linear.inverse_transform(linear.transform(test)) - test) ** 2
    )


def test_inverse_refuses_what_it_has_not():
    frame = pl.DataFrame({"town": ["Bern", "Jena"] * 20, "size": np.arange(40) / 2})
    with pytest.raises(ValueError, match="columns of numbers"):
        KernelPCA(fit_inverse_transform=True).fit(frame)
    model = KernelPCA(2, fit_inverse_transform=True).fit(DIGITS[:50])
    with pytest.raises(ValueError, match="2 scores"):
        model.inverse_transform(np.zeros((1, 3)))
    assert not hasattr(KernelPCA(2).fit(DIGITS[:50]), "inverse_transform")


def test_rows_of_any_kind(tmp_path):
    frame = pl.DataFrame(DIGITS[:, :20], schema=[f"pixel{j}" for j in range(20)])
    frame.write_parquet(tmp_path / "digits.parquet")
    arguments = {"n_components": 3, "standardize": False, "random_state": 0}
    model = KernelPCA(**arguments).fit(frame)
    assert KernelPCA(**arguments).fit(tmp_path / "digits.parquet").transform(
        frame
    ).shape == (len(frame), 3)
    sparse = KernelPCA(**arguments).fit(sp.csr_array(DIGITS[:, :20]))
    np.testing.assert_allclose(
        sparse.explained_variance_, model.explained_variance_, rtol=1e-3
    )
    np.testing.assert_allclose(
        np.abs(sparse.transform(sp.csr_array(DIGITS[:, :20]))).shape, (len(frame), 3)
    )
    town = pl.DataFrame(
        {"town": ["Bern", "Jena", "Ulm"] * 20, "size": np.arange(60) / 2}
    )
    assert np.isfinite(KernelPCA().fit_transform(town)).all()


def test_streamed_rows_have_the_components_of_all(tmp_path, monkeypatch):
    X = pl.DataFrame(np.tile(DIGITS, (2, 1)), schema=[f"pixel{j}" for j in range(64)])
    X.write_parquet(tmp_path / "a.parquet", row_group_size=500)
    features = NystroemFeatures(Gaussian(40.0), 100, random_state=0)
    whole = KernelPCA(
        4, features=features, fit_inverse_transform=True, random_state=0
    ).fit(X)
    monkeypatch.setattr(
        opened,
        "POLICY",
        replace(opened.POLICY, gathered_rows=1000, sampled_rows=1000),
    )
    monkeypatch.setattr(opened, "FEWEST_SAMPLED", 1000)
    streamed = KernelPCA(
        4, features=features, fit_inverse_transform=True, random_state=0
    )
    streamed.fit(tmp_path / "a.parquet")
    assert streamed.n_samples_seen_ == len(X)
    rows = streamed.inverse_transform(streamed.transform(X))
    errors = (
        rows - X.to_numpy(),
        whole.inverse_transform(whole.transform(X)) - X.to_numpy(),
    )
    assert np.mean(errors[0] ** 2) < 1.05 * np.mean(errors[1] ** 2)
    np.testing.assert_allclose(
        streamed.explained_variance_, whole.explained_variance_, rtol=0.02
    )


@pytest.mark.parametrize(
    "features",
    [
        FourierFeatures(n_components=60),
        BinningFeatures(Laplacian(20.0), 10, n_buckets=64),
    ],
)
def test_other_maps(features):
    model = KernelPCA(3, features=features, random_state=0).fit(DIGITS)
    variance = model.transform(DIGITS).var(axis=0)
    np.testing.assert_allclose(variance, model.explained_variance_, rtol=1e-4)


def test_saved_model_is_the_same(tmp_path):
    model = KernelPCA(3, fit_inverse_transform=True, random_state=0).fit(DIGITS[:500])
    save(model, tmp_path / "pca.safetensors")
    again = load(tmp_path / "pca.safetensors")
    scores = model.transform(DIGITS)
    assert (again.transform(DIGITS) == scores).all()
    assert (again.inverse_transform(scores) == model.inverse_transform(scores)).all()


def test_circles_come_apart():
    X, y = make_circles(400, factor=0.3, noise=0.05, random_state=0)
    scores = KernelPCA(2, Gaussian(0.5), random_state=0).fit_transform(X)
    best = max(abs(np.corrcoef(column, y)[0, 1]) for column in scores.T)
    assert best > 0.9


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"n_components": 0}, "n_components must be"),
        ({"alpha": -1.0}, "alpha must be"),
        ({"kernel": "rbf"}, "kernel must be"),
        ({"features": "fourier"}, "features must be"),
        ({"features": BinningFeatures()}, "depend on all rows"),
        ({"features": FourierFeatures(), "kernel": Gaussian()}, "beside a map"),
    ],
)
def test_refusals(arguments, match):
    with pytest.raises(ValueError, match=match):
        KernelPCA(**arguments).fit(DIGITS)


def test_names_of_scores():
    assert KernelPCA(2).fit(DIGITS[:50]).get_feature_names_out().tolist() == [
        "kernelpca0",
        "kernelpca1",
    ]


def test_rows_of_very_many_columns_are_not_made_of_scores():
    X = sp.random_array((30, 300_000), density=1e-4, format="csr", random_state=0)
    with pytest.raises(
        MemoryError, match=r"Rows of 300,000 columns .*Leave out fit_inverse_transform"
    ):
        KernelPCA(fit_inverse_transform=True).fit(X)


@pytest.mark.parametrize(("step", "n_fixed"), [(1, 256), (50, 200)])
def test_small_first_batches_fix_nothing_for_good(step, n_fixed):
    rows = np.random.default_rng(0).normal(size=(300, 3)) * [1.0, 10.0, 100.0]
    model = KernelPCA(features=LinearFeatures(), random_state=0)
    for first in range(0, 300, step):
        model.partial_fit(rows[first : first + step])
    assert model.n_samples_seen_ == 300
    assert model.encoder_.statistic_.rows == n_fixed
    whole = (
        KernelPCA(features=LinearFeatures(), random_state=0)
        .fit(rows[:n_fixed])
        .partial_fit(rows[n_fixed:])
    )
    np.testing.assert_allclose(
        model.explained_variance_, whole.explained_variance_, rtol=1e-9
    )


def test_a_saved_model_of_few_rows_goes_on(tmp_path):
    rows = np.random.default_rng(0).normal(size=(300, 3))
    model = KernelPCA(random_state=0).partial_fit(rows[:1])
    save(model, tmp_path / "m")
    again = load(tmp_path / "m").partial_fit(rows[1:])
    np.testing.assert_array_equal(
        again.transform(rows), model.partial_fit(rows[1:]).transform(rows)
    )
    np.testing.assert_allclose(
        again.transform(rows),
        KernelPCA(random_state=0).fit(rows).transform(rows),
        atol=1e-9,
    )


@pytest.mark.filterwarnings("ignore:Column 'x0' seems to number the rows")
def test_distances_below_the_last_digit():
    """Rows of integers that no floating-point number tells apart."""
    X = 2**60 + np.arange(200)[:, np.newaxis]
    with pytest.warns(UserWarning, match="counts as constant"):
        components = KernelPCA(random_state=0).fit_transform(X)
    assert np.isfinite(components).all()
