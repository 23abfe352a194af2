"""Our feature maps among scikit-learn's transformers and linear models."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import FeatureUnion, make_pipeline, make_union
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from bochner import (
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    LinearFeatures,
)
from bochner.kernels import Gaussian, Laplacian

FOURIER = FourierFeatures(Gaussian(1.0), 150, random_state=0)
BINS = BinningFeatures(Laplacian(3.0), 100, random_state=0)
MAPS = [FOURIER, BINS, ConcatenatedFeatures([FOURIER, BINS, LinearFeatures()])]
LINEAR = [
    SGDClassifier(alpha=1e-4, random_state=0),
    LinearSVC(random_state=0, max_iter=20_000),
    LogisticRegression(C=10.0, max_iter=1000),
]
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (600, 2))
RING = np.hypot(X[:, 0], X[:, 1]) < 0.7
WAVE = np.sin(5 * X[:, 0]) * X[:, 1]


def name(item):
    return type(item).__name__


@pytest.mark.parametrize("linear", LINEAR, ids=name)
@pytest.mark.parametrize("features", MAPS, ids=name)
def test_classifiers(features, linear):
    """A ring, of which linear models on the columns themselves know nothing."""
    model = make_pipeline(StandardScaler(), features, linear).fit(X[:400], RING[:400])
    assert model.score(X[400:], RING[400:]) > 0.92
    assert clone(linear).fit(X[:400], RING[:400]).score(X[400:], RING[400:]) < 0.7
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(
        clone(model).fit(X[:400], RING[:400]).predict(X), model.predict(X)
    )


@pytest.mark.parametrize("features", MAPS, ids=name)
def test_regression(features):
    model = make_pipeline(StandardScaler(), features, Ridge(alpha=0.02)).fit(
        X[:400], WAVE[:400]
    )
    assert model.score(X[400:], WAVE[400:]) > 0.9
    assert Ridge().fit(X[:400], WAVE[:400]).score(X[400:], WAVE[400:]) < 0.1


@pytest.mark.parametrize("features", MAPS, ids=name)
def test_selection_of_features(features):
    """Bins are sparse: what reads the columns of Z must find them in order, once
    each.
    """
    model = make_pipeline(features, SelectKBest(k=20), LogisticRegression()).fit(
        X, RING
    )
    Z = clone(features).fit_transform(X)
    chosen = SelectKBest(k=20).fit(Z, RING)
    assert list(
        model[1].get_feature_names_out(model[0].get_feature_names_out())
    ) == list(clone(features).fit(X).get_feature_names_out()[chosen.get_support()])


def test_union():
    union = FeatureUnion(
        [("waves", FOURIER), ("bins", BINS), ("scaled", StandardScaler())]
    )
    Z = union.fit_transform(X)
    parts = [clone(part).fit_transform(X) for part in (FOURIER, BINS, StandardScaler())]
    assert sp.issparse(Z)
    np.testing.assert_array_equal(
        Z.toarray(), np.hstack([parts[0], parts[1].toarray(), parts[2]])
    )
    names = union.get_feature_names_out()
    assert len(set(names)) == len(names) == Z.shape[1]
    assert (names[0], names[150], names[-1]) == (
        "waves__fourierfeatures0",
        "bins__binningfeatures0",
        "scaled__x1",
    )
    weighted = FeatureUnion(
        union.transformer_list, transformer_weights={"bins": 2.0}
    ).fit_transform(X)
    np.testing.assert_array_equal(weighted.toarray()[:, 150:-2], 2 * parts[1].toarray())


def test_column_transformer():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {"a": X[:, 0], "town": np.where(X[:, 1] > 0, "Bern", "Jena"), "b": X[:, 1]}
    )
    columns = ColumnTransformer(
        [
            ("waves", FOURIER, ["a", "b"]),
            ("bins", BINS, ["b"]),
            ("town", OneHotEncoder(), ["town"]),
        ],
        sparse_threshold=1.0,
    )
    model = make_pipeline(columns, LogisticRegression(C=10.0, max_iter=1000)).fit(
        frame[:400], RING[:400]
    )
    assert model.score(frame[400:], RING[400:]) > 0.92
    names = columns.fit(frame).get_feature_names_out()
    assert (names[0], names[-2]) == ("waves__fourierfeatures0", "town__town_Bern")
    assert len(set(names)) == len(names) == columns.transform(frame).shape[1]


@pytest.mark.parametrize(
    ("features", "grid", "best"),
    [
        (FOURIER, {"fourierfeatures__kernel__lengthscale": [1e-3, 1.0, 1e3]}, 1.0),
        (BINS, {"binningfeatures__n_grids": [1, 100]}, 100),
        (BINS, {"binningfeatures__kernel__lengthscale": [1e-3, 3.0]}, 3.0),
    ],
    ids=["lengthscale", "n_grids", "lengthscale of bins"],
)
@pytest.mark.filterwarnings("ignore:.*alone in their bins")
def test_search(features, grid, best):
    before = features.get_params()["kernel__lengthscale"]
    model = make_pipeline(
        StandardScaler(), features, LogisticRegression(C=10.0, max_iter=1000)
    )
    search = GridSearchCV(model, grid, cv=3).fit(X, RING)
    assert list(search.best_params_.values()) == [best]
    assert search.best_score_ > 0.9
    assert features.get_params()["kernel__lengthscale"] == before


@pytest.mark.parametrize("frames", ["pandas", "polars"])
def test_frames(frames):
    pytest.importorskip(frames)
    model = make_pipeline(StandardScaler(), clone(FOURIER)).set_output(transform=frames)
    Z = model.fit_transform(X)
    assert list(Z.columns) == list(model.get_feature_names_out())
    np.testing.assert_array_equal(
        np.asarray(Z), make_pipeline(StandardScaler(), FOURIER).fit_transform(X)
    )
    fitted = make_pipeline(*clone(model), Ridge()).fit(X, WAVE)
    assert list(fitted[-1].feature_names_in_) == list(Z.columns)
    with pytest.raises(ValueError, match="outputs a scipy sparse matrix"):
        clone(BINS).set_output(transform=frames).fit_transform(X)


@pytest.mark.parametrize("features", MAPS, ids=name)
def test_single_precision_and_sparse_rows(features):
    rows = sp.csr_matrix(np.where(X > 0, X, 0)).astype(np.float32)
    model = make_pipeline(features, LogisticRegression(max_iter=1000)).fit(rows, RING)
    assert model[0].transform(rows).dtype == np.float32
    np.testing.assert_allclose(
        model.predict_proba(rows),
        model.predict_proba(rows.toarray()),
        rtol=0,
        atol=1e-5,
    )


@pytest.mark.parametrize(
    "features",
    [
        FourierFeatures(Gaussian(8.0), 150, random_state=0),
        BinningFeatures(Laplacian(30.0), 400, random_state=0),
    ],
    ids=name,
)
def test_breast_cancer(features):
    rows, y = load_breast_cancer(return_X_y=True)
    model = make_pipeline(
        StandardScaler(), features, LogisticRegression(C=10.0, max_iter=2000)
    )
    assert cross_val_score(model, rows, y, cv=5).mean() > 0.96


@pytest.mark.parametrize(
    "features",
    [
        FourierFeatures(Gaussian(2.0), 800, random_state=0),
        BinningFeatures(Laplacian(16.0), 1000, random_state=0),
    ],
    ids=name,
)
def test_digits(features):
    """Two thirds at most of the errors of the same linear model on the pixels; of
    waves it is under a third.
    """
    rows, y = load_digits(return_X_y=True)
    train, test, y_train, y_test = train_test_split(
        rows / 16, y, test_size=0.4, random_state=0
    )
    errors = 1 - make_pipeline(features, LinearSVC(random_state=0)).fit(
        train, y_train
    ).score(test, y_test)
    plain = 1 - LinearSVC(random_state=0).fit(train, y_train).score(test, y_test)
    assert errors < plain * 2 / 3


def test_both_maps_beat_each():
    """A smooth wave and a step: waves serve the one, bins the other."""
    y = WAVE + (X[:, 0] > 0.3)
    both = make_pipeline(make_union(FOURIER, BINS), Ridge(alpha=0.1)).fit(
        X[:400], y[:400]
    )
    for features in (FOURIER, BINS):
        one = make_pipeline(features, Ridge(alpha=0.1)).fit(X[:400], y[:400])
        assert both.score(X[400:], y[400:]) > one.score(X[400:], y[400:])
