"""Anchor features: each row by its nearest landmarks."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from bochner import (
    AnchorFeatures,
    ConcatenatedFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    LinearFeatures,
    load,
    save,
)
from bochner.engines.local import at_most
from bochner.features.stored import StoredSparse

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 4))
DIGITS, LABELS = load_digits(return_X_y=True)


def naive(rows, landmarks, s):
    """Weights by the formula, one row after the other."""
    Z = np.zeros((len(rows), len(landmarks)))
    for i, squares in enumerate(cdist(rows, landmarks, "sqeuclidean")):
        near = np.argsort(squares)
        w = 1 - squares[near[:s]] / squares[near[s]]
        Z[i, near[:s]] = w / w.sum()
    return Z


@parametrize_with_checks([AnchorFeatures()])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("s", [1, 4])
def test_weights_are_those_of_the_formula(s):
    features = AnchorFeatures(40, s, normalize=False, random_state=0).fit(X)
    Z = features.transform(X)
    np.testing.assert_allclose(
        Z.toarray(),
        naive(X - X.mean(axis=0), features.landmarks_, s),
        rtol=0,
        atol=1e-5,
    )
    np.testing.assert_allclose(Z.sum(axis=1), 1, rtol=1e-12)
    assert Z.nnz == s * len(X)
    assert Z.data.min() > 0


def test_landmarks_are_means_of_the_rows():
    """K-means of scikit-learn with as many centres leaves about as much."""
    features = AnchorFeatures(20, 1, random_state=0).fit(X)
    left = (
        cdist(X - X.mean(axis=0), features.landmarks_, "sqeuclidean").min(axis=1).sum()
    )
    assert left < 1.15 * KMeans(20, n_init=10, random_state=0).fit(X).inertia_


def test_features_are_continuous():
    features = AnchorFeatures(40, 3, random_state=0).fit(X)
    path = X[0] + np.linspace(0, 1, 20_001)[:, np.newaxis] * (X[1] - X[0])
    assert np.abs(np.diff(features.transform(path).toarray(), axis=0)).max() < 0.005


@pytest.mark.parametrize("normalize", [False, True])
def test_sparse_rows_are_dense_ones(normalize):
    rows = np.where(X > 0.5, X, 0)
    features = AnchorFeatures(30, 3, normalize=normalize, random_state=0).fit(rows)
    expected = features.transform(rows).toarray()
    np.testing.assert_allclose(
        features.transform(sp.csr_array(rows)).toarray(), expected, rtol=0, atol=1e-6
    )
    fitted = clone(features).fit(sp.csr_array(rows))
    found = [fitted.transform(Z).toarray() for Z in (rows, sp.csr_array(rows))]
    np.testing.assert_allclose(*found, rtol=0, atol=1e-6)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("n_directions", [3, None])
@pytest.mark.parametrize("least", [0.2, -1.0])
def test_sparse_rows_where_the_origin_is_not_zero(normalize, n_directions, least):
    rows = np.where(X > 0.5, X + least, least)
    features = AnchorFeatures(
        30, n_directions=n_directions, normalize=normalize, random_state=0
    ).fit(rows)
    U = rows - (rows.min(axis=0) if normalize else rows.mean(axis=0))
    lengths = np.linalg.norm(U, axis=1, keepdims=True)
    U = U if n_directions is None else U @ features.directions_
    expected = (
        np.divide(U, lengths, out=np.zeros_like(U), where=lengths > 0)
        if normalize
        else U
    )
    for kind in (np.asarray, sp.csr_array):
        np.testing.assert_allclose(
            features.coordinates(kind(rows)), expected, rtol=0, atol=1e-7
        )


def test_principal_directions():
    """Of wide rows, dense and sparse ones: those of PCA, and distances in them."""
    rows = RNG.standard_normal((400, 3)) @ RNG.standard_normal(
        (3, 60)
    ) + 0.01 * RNG.standard_normal((400, 60))
    features = AnchorFeatures(40, n_directions=3, normalize=False, random_state=0).fit(
        rows
    )
    axes = PCA(3).fit(rows).components_
    cosines = np.linalg.svd(axes @ features.directions_)[1]
    np.testing.assert_allclose(cosines, 1, atol=1e-6)
    U = (rows - rows.mean(axis=0)) @ features.directions_
    np.testing.assert_allclose(
        features.transform(rows).toarray(), naive(U, features.landmarks_, 3), atol=1e-5
    )
    wide = sp.random_array(
        (300, 5000), density=0.01, rng=np.random.default_rng(0), format="csr"
    )
    for normalize in (False, True):
        fitted = AnchorFeatures(40, normalize=normalize, random_state=0).fit(wide)
        assert fitted.directions_.shape == (5000, 32)
        found = fitted.transform(wide.toarray()).toarray()
        np.testing.assert_allclose(
            fitted.transform(wide).toarray(), found, rtol=0, atol=1e-9
        )


def test_few_rows_are_landmarks_themselves():
    rows = np.array([[0.0], [0.0], [1.0], [5.0]])
    Z = AnchorFeatures(10, 5, random_state=0).fit_transform(rows).toarray()
    assert Z.shape == (4, 3)
    np.testing.assert_allclose(
        Z.max(axis=1), [1 / 1.96, 1 / 1.96, 1 / 1.9375, 1 / 1.36], rtol=1e-12
    )
    one = AnchorFeatures().fit(np.ones((3, 2)))
    np.testing.assert_array_equal(one.transform(np.zeros((2, 2))).toarray(), 1)


def test_directions_of_pixels():
    """Lengths of rows do not count, whether these are centred or not; columns of
    other units keep theirs.
    """
    features = AnchorFeatures(50, 3, random_state=0).fit(DIGITS)
    assert features.normalized_
    Z = features.transform(DIGITS)
    np.testing.assert_allclose(
        features.transform(0.5 * DIGITS).toarray(), Z.toarray(), rtol=0, atol=1e-9
    )
    shifted = (
        clone(features)
        .fit(DIGITS - DIGITS.mean(axis=0))
        .transform(DIGITS - DIGITS.mean(axis=0))
    )
    np.testing.assert_allclose(shifted.toarray(), Z.toarray(), rtol=0, atol=1e-9)
    assert AnchorFeatures().fit(sp.csr_array(DIGITS)).normalized_
    for other in (
        RNG.standard_normal((100, 20)),
        DIGITS[:, 20:30],
        DIGITS / DIGITS.std(axis=0).clip(1e-3),
    ):
        assert not AnchorFeatures().fit(other).normalized_


def test_threads_do_not_change_the_bits():
    rows = RNG.standard_normal((5000, 12)).astype(np.float32)
    with at_most(1):
        one = AnchorFeatures(200, random_state=0).fit_transform(rows)
    many = AnchorFeatures(200, random_state=0).fit_transform(rows)
    assert (one != many).nnz == 0


def test_weights_of_rows():
    """Rows without weight are not there."""
    rows, weight = np.vstack([X, X + 100]), np.repeat([2.0, 0.0], 300)
    features = [AnchorFeatures(20, random_state=0).draw(4) for _ in range(2)]
    features[0].fit_sample(rows, weight)
    features[1].fit_sample(X, np.ones(300))
    np.testing.assert_array_equal(features[0].landmarks_, features[1].landmarks_)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_heavy_rows_turn_the_principal_directions(kind):
    """The axes of a weighted covariance, of sparse rows that of products.

    The first is along a column that varies less where all rows count the same.
    """
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2000, 6)) * [3.0, 2.0, 0.1, 0.1, 0.1, 0.1]
    weight = np.where((rows[:, 1] > 3) & (np.abs(rows[:, 0]) < 1), 50.0, 1.0)
    features = AnchorFeatures(70, n_directions=2, normalize=False, random_state=0).draw(
        6
    )
    features.fit_sample(kind(rows), weight)
    products = (
        np.cov(rows.T, aweights=weight)
        if kind is np.asarray
        else rows.T @ (rows * weight[:, np.newaxis])
    )
    axes = np.linalg.eigh(products)[1][:, -2:]
    np.testing.assert_allclose(
        np.abs(features.directions_.T @ axes).max(axis=0), 1, atol=1e-6
    )
    assert abs(axes[1, 1]) > 0.98


def test_heavy_rows_draw_landmarks():
    """Two clusters of many distinct rows each, of which one has nearly all the
    weight and most of the landmarks.
    """
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (2000, 2))
    rows[1000:, 0] += 4
    features = [
        AnchorFeatures(20, normalize=False, random_state=0).draw(2) for _ in range(2)
    ]
    weight = np.repeat([1.0, 1e4], 1000)
    for fitted, own in zip(features, (weight, weight[::-1]), strict=True):
        fitted.fit_sample(rows, own)
    left = [
        (fitted.landmarks_[:, 0] + fitted.origin_[0] < 2).sum() for fitted in features
    ]
    assert left[0] <= 10
    assert left[1] >= 10


def test_stored_products():
    Z = AnchorFeatures(30, 3, random_state=0).fit_transform(X)
    stored, dense = StoredSparse(Z), Z.toarray()
    V, T, Q, q = (
        RNG.standard_normal((2, 30)),
        RNG.standard_normal((2, 300)),
        np.ones((2, 30)),
        np.ones(30),
    )
    weight = RNG.uniform(size=300)
    stored.backward(T, Q)
    stored.squares(weight[np.newaxis], q[np.newaxis])
    np.testing.assert_allclose(stored.forward(V), V @ dense.T, rtol=0, atol=1e-13)
    np.testing.assert_allclose(Q, 1 + T @ dense, rtol=0, atol=1e-13)
    np.testing.assert_allclose(q, 1 + weight @ dense**2, rtol=0, atol=1e-13)


def test_machines_on_anchors():
    """The same fit as scikit-learn's ridge on the features that the machine has."""
    y = np.sin(3 * X[:, 0]) + X[:, 1]
    model = KernelMachineRegressor(
        features=AnchorFeatures(60, random_state=0), alpha=0.5, tol=1e-10
    ).fit(X, y)
    Z = model.features_.transform(model.encoder_.encode(X, np.float32))
    np.testing.assert_allclose(
        model.predict(X),
        Ridge(alpha=0.5).fit(Z.toarray(), y).predict(Z.toarray()),
        atol=1e-4,
    )
    train, test = slice(0, 600), slice(1200, None)
    classifier = KernelMachineClassifier(
        features=AnchorFeatures(150, random_state=0), alpha=0.1, random_state=0
    )
    assert (
        classifier.fit(DIGITS[train], LABELS[train]).score(DIGITS[test], LABELS[test])
        > 0.9
    )
    both = ConcatenatedFeatures([AnchorFeatures(60, random_state=0), LinearFeatures()])
    assert (
        KernelMachineRegressor(features=both, alpha=[0.1, 1.0], random_state=0)
        .fit(X, y)
        .score(X, y)
        > 0.8
    )


def test_save_and_names(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd"))
    features = AnchorFeatures(20, random_state=0).fit(frame)
    save(features, tmp_path / "anchors.safetensors")
    again = load(tmp_path / "anchors.safetensors")
    np.testing.assert_array_equal(
        again.transform(frame).toarray(), features.transform(frame).toarray()
    )
    assert list(features.get_feature_names_out()[:2]) == [
        "anchorfeatures0",
        "anchorfeatures1",
    ]
    assert (
        make_pipeline(features, Ridge()).fit(frame, X[:, 0]).score(frame, X[:, 0]) > 0.5
    )


@pytest.mark.parametrize(
    ("parameters", "error", "word"),
    [
        ({"n_components": 0}, ValueError, "n_components"),
        ({"n_neighbors": 2.5}, TypeError, "n_neighbors"),
        ({"normalize": "yes"}, ValueError, "normalize"),
    ],
)
def test_refusals(parameters, error, word):
    with pytest.raises(error, match=word):
        AnchorFeatures(**parameters).fit(X)
    with pytest.raises(NotFittedError):
        AnchorFeatures().transform(X)


def test_directions_are_those_of_all_rows_of_a_sorted_table():
    rng = np.random.default_rng(0)
    group = np.arange(12_000) // 6000
    rows = rng.standard_normal((12_000, 40))
    rows[:, 0] += 10 * group * (np.arange(12_000) % 2)
    found = (
        AnchorFeatures(400, n_directions=1, normalize=False, random_state=0)
        .fit(rows)
        .directions_[:, 0]
    )
    assert abs(found @ PCA(1).fit(rows).components_[0]) > 0.99


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_equal_rows_are_one_landmark_and_a_weight_is_equal_rows(kind):
    rows = np.random.default_rng(0).integers(0, 2, (5000, 3)).astype(float)
    assert AnchorFeatures(random_state=0).fit(kind(rows)).n_features_out == 8
    some, weight = X[:40], np.random.default_rng(1).integers(1, 5, 40)
    options = {"n_components": 10, "n_neighbors": 2, "random_state": 0}
    weighted, repeated = (AnchorFeatures(**options).draw(4) for _ in range(2))
    weighted.fit_sample(kind(some), weight.astype(float))
    repeated.fit_sample(kind(np.repeat(some, weight, axis=0)), np.ones(weight.sum()))
    shift = weighted.origin_ - repeated.origin_  # of no moment to distances
    order = (
        np.lexsort(np.round(weighted.landmarks_ + shift, 6).T),
        np.lexsort(np.round(repeated.landmarks_, 6).T),
    )
    np.testing.assert_allclose(
        (weighted.landmarks_ + shift)[order[0]],
        repeated.landmarks_[order[1]],
        atol=1e-9,
    )


def test_sparse_rows_without_an_entry():
    rows = sp.csr_array((50, 100))
    Z = AnchorFeatures(random_state=0).fit_transform(rows)
    np.testing.assert_allclose(Z.toarray(), np.ones((50, 1)))


def test_dates_are_refused_by_name():
    frame = pd.DataFrame(
        {"a": [0.0, 1.0], "b": pd.to_datetime(["2020-01-01", "2020-01-02"])}
    )
    with pytest.raises(ValueError, match=r"X holds dates .*TableEncoder"):
        AnchorFeatures().fit(frame)
