"""Maps side by side, and the standardised columns: their kernels add."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from bochner import (
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    LinearFeatures,
    load,
    save,
)
from bochner.kernels import Gaussian, Laplacian, SmoothBins

EPS = np.finfo(float).eps
WEIGHTS = [0.5, 2.0, 3.0]
LISTS = {
    "dense": [
        FourierFeatures(Gaussian(2.0), 31, random_state=0),
        FourierFeatures(n_components=8, random_state=4),
        LinearFeatures(),
    ],
    "mixed": [
        FourierFeatures(Gaussian(2.0), 30, random_state=0),
        BinningFeatures(Laplacian(4.0), 20, random_state=1),
        LinearFeatures(),
    ],
    "bins": [
        BinningFeatures(Laplacian(4.0), 20, random_state=1),
        BinningFeatures(SmoothBins(4.0), 10, random_state=2),
        BinningFeatures(Laplacian(2.0), 5, n_buckets=7, random_state=3),
    ],
}


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def dense(Z):
    return Z.toarray() if sp.issparse(Z) else Z


@pytest.fixture(params=LISTS)
def fitted(request):
    return ConcatenatedFeatures(LISTS[request.param], weights=WEIGHTS).fit(
        normal(120, 3)
    )


class TestConcatenated:
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
    def test_is_its_parts_times_roots_of_weights(self, fitted, dtype, form):
        X = normal(50, 3, seed=1).astype(dtype)
        Z = fitted.transform(form(X))
        assert Z.dtype == dtype
        assert fitted.is_dense == isinstance(Z, np.ndarray)
        assert Z.shape == (50, fitted.n_features_out)
        parts = [dense(part.transform(form(X))) for part in fitted.maps_]
        expected = np.hstack(
            [
                np.sqrt(weight) * part
                for weight, part in zip(WEIGHTS, parts, strict=True)
            ]
        )
        # The root and the product are rounded in the precision of the rows.
        np.testing.assert_allclose(dense(Z), expected, rtol=2 * np.finfo(dtype).eps)
        kernel = sum(
            weight * part @ part.T for weight, part in zip(WEIGHTS, parts, strict=True)
        )
        size = sum(
            weight * np.abs(part) @ np.abs(part.T)
            for weight, part in zip(WEIGHTS, parts, strict=True)
        )
        bound = (fitted.n_features_out + 8) * np.finfo(dtype).eps * size
        assert np.all(np.abs(dense(Z) @ dense(Z).T - kernel) <= bound)

    def test_rows_of_dense_maps(self):
        features = ConcatenatedFeatures(LISTS["dense"]).fit(normal(120, 3))
        for n in (1, 500):
            X = normal(n, 3, seed=n)
            out = np.full((n, features.n_features_out + 2), np.nan)
            assert features.dense.rows(X, out=out) is out
            assert np.isnan(out[:, -2:]).all()
            np.testing.assert_array_equal(out[:, :-2], features.transform(X))
        assert ConcatenatedFeatures(LISTS["mixed"]).fit(normal(9, 3)).dense is None

    def test_other_weights(self, fitted):
        """Of the same fitted maps, which stay as they are."""
        X, before = normal(50, 3), fitted.weights_.copy()
        other = fitted.with_weights(4 * before)
        np.testing.assert_array_equal(
            dense(other.transform(X)), 2 * dense(fitted.transform(X))
        )
        np.testing.assert_array_equal(fitted.weights_, before)
        assert all(
            one is another
            for one, another in zip(fitted.maps_, other.maps_, strict=True)
        )

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_dot_is_rows_times_coefficients(self, fitted, dtype):
        X, coef = (
            normal(200, 3).astype(dtype),
            normal(fitted.n_features_out, 2).astype(dtype),
        )
        Z, found = dense(fitted.transform(X)).astype(float), fitted.dot(X, coef)
        assert found.dtype == dtype
        bound = (
            (fitted.n_features_out + 8)
            * np.finfo(dtype).eps
            / 2
            * (np.abs(Z) @ np.abs(coef))
        )
        assert np.all(np.abs(found - Z @ coef) <= bound)

    def test_held(self, fitted):
        """`store` of rows, and `learn` before the columns are laid out, give the
        features of `transform`.
        """
        X = normal(120, 3)
        Z = dense(fitted.transform(X))
        drawn = ConcatenatedFeatures(fitted.maps, weights=WEIGHTS).draw(3)
        drawn.fit_sample(X, np.ones(X.shape[0]))
        blocks = [drawn.fit_store(X[:50]), drawn.fit_store(X[50:])]
        drawn.finalize()
        held = fitted.store(X)
        identity = np.eye(fitted.n_features_out)
        np.testing.assert_allclose(held.forward(identity).T, Z, rtol=4 * EPS)
        assert drawn.n_features_out == fitted.n_features_out
        again = np.vstack([block.forward(identity).T for block in blocks])
        np.testing.assert_allclose(again, Z, rtol=4 * EPS)
        size = np.dtype(np.float64)
        assert fitted.stored_bytes(size, False) == sum(
            part.stored_bytes(size, False) for part in fitted.maps_
        )

    def test_bins_held_in_an_order_of_their_own(self, monkeypatch):
        """Beside another map, whose rows are in the order that was given."""
        monkeypatch.setattr("bochner.features.binning.ORDERED_ROWS", 90)
        monkeypatch.setattr("bochner.features.binning.ORDERED_GRIDS", 1)
        monkeypatch.setattr("bochner.features.grids.MANY_OWN", 0.0)
        X, features = normal(200, 3), ConcatenatedFeatures(LISTS["mixed"], WEIGHTS)
        held = features.draw(3).fit_store(X)
        features.finalize()
        assert not np.array_equal(held.parts[1].order, np.arange(200))
        Z, identity = dense(features.transform(X)), np.eye(features.n_features_out)
        np.testing.assert_allclose(held.forward(identity).T, Z, rtol=4 * EPS)

    def test_copies_do_not_share(self):
        maps = [BinningFeatures(Laplacian(3.0), 5, random_state=0), LinearFeatures()]
        features = ConcatenatedFeatures(maps).fit(normal(20, 2))
        np.testing.assert_array_equal(features.weights_, [1, 1])
        assert not hasattr(maps[0], "pitches_")
        copy = clone(features)
        assert copy.maps is not maps
        copy.maps[0].set_params(n_grids=9)
        assert maps[0].n_grids == 5
        given = np.array([1.0, 2.0])
        features.set_params(weights=given).fit(normal(20, 2))
        features.weights_[:] = 7
        np.testing.assert_array_equal(given, [1, 2])

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"maps": []}, TypeError, "maps must be a list of feature maps"),
            ({"maps": LinearFeatures()}, TypeError, "maps must be a list"),
            ({"maps": [LinearFeatures(), Ridge()]}, TypeError, "maps must be a list"),
            (
                {"maps": [ConcatenatedFeatures([LinearFeatures()])]},
                TypeError,
                "put all maps into one list",
            ),
            (
                {"maps": [LinearFeatures()], "weights": [1, 2]},
                ValueError,
                "weights must be 1 numbers",
            ),
            (
                {"maps": [LinearFeatures()], "weights": 1.0},
                ValueError,
                "weights must be 1 numbers",
            ),
            (
                {"maps": [LinearFeatures()], "weights": ["a"]},
                ValueError,
                "weights must be 1 numbers",
            ),
            (
                {"maps": [LinearFeatures()], "weights": [True]},
                ValueError,
                "weights must be 1 numbers",
            ),
            (
                {"maps": [LinearFeatures()] * 2, "weights": [1, 0]},
                ValueError,
                "weights must be positive and finite",
            ),
            (
                {"maps": [LinearFeatures()] * 2, "weights": [1, -1]},
                ValueError,
                "weights must be positive and finite",
            ),
            (
                {"maps": [LinearFeatures()], "weights": [np.inf]},
                ValueError,
                "weights must be positive and finite",
            ),
            (
                {"maps": [LinearFeatures()], "weights": [np.nan]},
                ValueError,
                "weights must be positive and finite",
            ),
            (
                {"maps": [BinningFeatures(Gaussian())]},
                ValueError,
                "Use FourierFeatures",
            ),
        ],
    )
    def test_refuses_bad_parameters(self, options, error, message):
        with pytest.raises(error, match=message):
            ConcatenatedFeatures(**options).fit(np.ones((4, 3)))

    def test_must_be_fitted(self):
        for call in (
            lambda features: features.transform(np.ones((1, 2))),
            ConcatenatedFeatures.get_feature_names_out,
        ):
            with pytest.raises(NotFittedError):
                call(ConcatenatedFeatures([LinearFeatures()]))

    def test_feature_names(self, fitted):
        names = fitted.get_feature_names_out()
        assert len(set(names)) == len(names) == fitted.n_features_out
        assert names[0].startswith("0_")
        assert names[-1].startswith("2_")

    def test_named_columns(self):
        pd = pytest.importorskip("pandas")
        X = pd.DataFrame(normal(30, 2), columns=["a", "b"])
        features = ConcatenatedFeatures(
            [FourierFeatures(n_components=2), LinearFeatures()]
        ).fit(X)
        names = ["0_fourierfeatures0", "0_fourierfeatures1", "1_a", "1_b"]
        assert list(features.get_feature_names_out()) == names
        assert (
            list(features.set_output(transform="pandas").transform(X).columns) == names
        )
        with pytest.raises(ValueError, match="feature names"):
            features.transform(X.rename(columns={"a": "z"}))

    def test_memory_is_asked_for_first(self, request):
        features = ConcatenatedFeatures([LinearFeatures()]).fit(normal(20, 3))
        request.getfixturevalue("little_memory")
        with pytest.raises(MemoryError, match="The array of 50 x 3 features needs"):
            features.transform(normal(50, 3))

    def test_comes_back(self, fitted, tmp_path):
        X = normal(40, 3, seed=5)
        Z, coef = dense(fitted.transform(X)), normal(fitted.n_features_out, 2)
        product = fitted.dot(X, coef)
        save(fitted, tmp_path / "features")
        for again in (load(tmp_path / "features"), pickle.loads(pickle.dumps(fitted))):  # noqa: S301
            np.testing.assert_array_equal(dense(again.transform(X)), Z)
            np.testing.assert_array_equal(again.dot(X, coef), product)
            np.testing.assert_array_equal(
                again.get_feature_names_out(), fitted.get_feature_names_out()
            )

    def test_a_file_with_other_columns_is_refused(self, tmp_path):
        features = ConcatenatedFeatures(LISTS["bins"]).fit(normal(40, 3))
        D = features.n_features_out
        features.edges_[1] -= 1
        save(features, tmp_path / "features")
        with pytest.raises(ValueError, match="vectors of length"):
            load(tmp_path / "features").dot(normal(40, 3), np.ones((D, 1)))

    def test_pipeline(self, fitted):
        X = normal(120, 3)
        y = np.sin(3 * X[:, 0]) + X[:, 1]
        ours = make_pipeline(clone(fitted), Ridge()).fit(X, y)
        assert ours.score(X, y) > Ridge().fit(X, y).score(X, y)


class TestLinear:
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize(
        "form", [np.asarray, np.asfortranarray, sp.csr_array, sp.csc_matrix]
    )
    def test_is_the_standard_scaler(self, form, dtype):
        X = (normal(300, 4) * [1, 10, 0.1, 3] + [0, 5, 0, 100]).astype(dtype)
        X[::3, 2] = 0
        features = LinearFeatures()
        Z = features.fit_transform(form(X))
        assert isinstance(Z, np.ndarray)
        assert Z.dtype == dtype
        # Means and deviations of 300 terms, in double precision; the result is rounded
        # to the precision of the rows.
        size = (np.abs(X) + np.abs(X).mean(axis=0)) / X.std(axis=0, dtype=float)
        bound = 2 * np.finfo(dtype).eps * size.max() + 4 * 300 * EPS * size.max()
        np.testing.assert_allclose(
            Z, StandardScaler().fit_transform(X.astype(float)), rtol=0, atol=bound
        )

    @pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
    @pytest.mark.parametrize("value", [0.0, 0.1, -3.0, 1e15 / 3, 1e100])
    def test_constant_columns_become_zero(self, form, value):
        X = np.column_stack([np.full(70, value), normal(70)])
        features = LinearFeatures().fit(form(X))
        np.testing.assert_array_equal(features.transform(form(X))[:, 0], 0)
        assert features.scale_[0] == 1

    @pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
    @pytest.mark.parametrize("size", [1e-30, 1e160, 1e300])
    def test_sizes_whose_squares_are_out_of_range(self, form, size):
        X = normal(50, 2)
        found = LinearFeatures().fit_transform(form(X * size))
        # Means, deviations and units of 50 terms that are 3 deviations at most.
        np.testing.assert_allclose(
            found, StandardScaler().fit_transform(X), rtol=0, atol=3 * 50 * EPS
        )

    def test_one_row(self):
        np.testing.assert_array_equal(LinearFeatures().fit_transform([[3.0, -1e10]]), 0)

    def test_drawn_only(self):
        X = normal(5, 2)
        np.testing.assert_array_equal(LinearFeatures().draw(2).rows(X), X)

    def test_held_and_dot(self):
        X = normal(100, 3)
        features = LinearFeatures().fit(X)
        Z = features.transform(X)
        np.testing.assert_array_equal(features.store(X, packed=True).Z, Z)
        assert features.stored_bytes(np.dtype(np.float32), True) == 12
        np.testing.assert_allclose(features.dot(X, np.eye(3)), Z, rtol=8 * EPS)

    def test_names_and_files(self, tmp_path):
        pd = pytest.importorskip("pandas")
        X = pd.DataFrame(normal(9, 2), columns=["a", "b"])
        features = LinearFeatures().fit(X)
        assert list(features.get_feature_names_out()) == ["a", "b"]
        save(features, tmp_path / "features")
        np.testing.assert_array_equal(
            load(tmp_path / "features").transform(X), features.transform(X)
        )
        assert list(features.set_output(transform="pandas").transform(X).columns) == [
            "a",
            "b",
        ]
        with pytest.raises(NotFittedError):
            LinearFeatures().transform(X)
        with pytest.raises(ValueError, match="expecting 2"):
            LinearFeatures().fit(X.to_numpy()).transform(np.ones((2, 3)))


@pytest.mark.slow
@parametrize_with_checks(
    [
        LinearFeatures(),
        ConcatenatedFeatures(
            [BinningFeatures(Laplacian(50.0), 5, random_state=0), LinearFeatures()],
            weights=[1.0, 2.0],
        ),
    ]
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("far", [0, 1, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_side_by_side(far, dtype):
    """As SciPy stacks them, also where some rows have no bins of training rows."""
    maps = [
        FourierFeatures(Gaussian(2.0), 7, random_state=0),
        BinningFeatures(Laplacian(4.0), 9, random_state=1),
        LinearFeatures(),
        BinningFeatures(Laplacian(2.0), 4, n_buckets=5, random_state=2),
    ]
    X = normal(40, 3).astype(dtype)
    features = ConcatenatedFeatures(maps, weights=[1.0, 4.0, 0.25, 9.0]).fit(X)
    rows = X.copy()
    rows[:far] += 1000
    Z = features.transform(rows)
    parts = [
        scale * dense(part.transform(rows))
        for part, scale in zip(features.maps_, [1, 2, 0.5, 3], strict=True)
    ]
    assert Z.dtype == dtype
    np.testing.assert_allclose(Z.toarray(), np.hstack(parts), rtol=1e-6)
    assert (np.diff(Z.indptr) == 7 + 9 + 3 + 4).all() == (far == 0)


@pytest.mark.parametrize("seed", range(8))
def test_equal_entries_of_rows_with_weights(seed):
    """Their variance may be below zero by rounding: no warning, and a scale of 1."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.full(500, rng.uniform()), rng.normal(size=500)])
    weight = rng.uniform(0.1, 2, 500)
    features = LinearFeatures().draw(2)
    features.fit_sample(X, weight)
    deviation = np.sqrt(np.cov(X[:, 1], aweights=weight, ddof=0))
    np.testing.assert_allclose(features.scale_, [1, deviation], rtol=1e-9)
