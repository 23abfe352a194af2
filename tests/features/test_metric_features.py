"""Learned coordinates, and feature maps in them."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from bochner import (
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    KernelMachineRegressor,
    LinearFeatures,
    load,
    save,
)
from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.estimators.interpretation import relevance_in_distance
from bochner.features import Metric, MetricFeatures
from bochner.features.metric import mean_distances
from bochner.kernels import Gaussian, Laplacian
from bochner.solvers.iterative import IterativeRidge

D = 4
SOURCE, SCALE = [2, 0, 1, 2, 3], [3.0, 0.7, 0.5, 2.0, -0.25]
KNOTS, LEVELS, SLOPES = (
    [[-1.0, 0, 2], [0.5, 0.5, 0.5]],
    [[0.0, 3, 4], [1.0, 1, 1]],
    [0.3, 0.7],
)
LINEAR = np.array([[1.0, 0.2, 0.0], [-0.5, 2.0, 0.1]])
WARPS = {"warped": [0, 1], "knots": KNOTS, "levels": LEVELS, "slopes": SLOPES}
METRICS = {
    "plain": Metric(D, SOURCE, SCALE, relevance=[0.4, 0.3, 0.2, 0.1]),
    "warped": Metric(D, SOURCE, SCALE, **WARPS),
    "mixed": Metric(D, SOURCE, SCALE, **WARPS, linear=LINEAR),
    "all mixed": Metric(D, SOURCE[:3], SCALE[:3], **WARPS, linear=LINEAR),
    "mixed plain": Metric(D, SOURCE, SCALE, linear=LINEAR),
}
MAPS = {
    "fourier": FourierFeatures(Gaussian(2.0), 31, random_state=0),
    "bins": BinningFeatures(Laplacian(3.0), 20, random_state=1),
}
PRECISIONS = pytest.mark.parametrize("dtype", [np.float64, np.float32])
COMPARED = {
    np.float64: {"rtol": 1e-13, "atol": 1e-13},
    np.float32: {"rtol": 1e-5, "atol": 1e-5},
}


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def dense(Z):
    return Z.toarray() if sp.issparse(Z) else Z


def coordinates(name, X):
    """What the metrics of this module are, written out."""
    X = X.astype(float)
    beyond = np.minimum(X[:, 2] + 1, 0) + np.maximum(X[:, 2] - 2, 0)
    U = X[:, SOURCE] * SCALE
    if "plain" not in name:
        U[:, 0] = np.interp(X[:, 2], KNOTS[0], LEVELS[0]) + 0.3 * beyond
        U[:, 1] = 1 + 0.7 * (X[:, 0] - 0.5)
    if "mixed" in name:
        U = np.hstack([U[:, :3] @ LINEAR.T, U[:, 3:]])
    return U[:, :2] if name == "all mixed" else U


@pytest.fixture(params=METRICS)
def name(request):
    return request.param


class TestMetric:
    @PRECISIONS
    @pytest.mark.parametrize("n", [1, 200])
    def test_coordinates(self, name, dtype, n):
        X = (2 * normal(n, D)).astype(dtype)
        U = METRICS[name].transform(X)
        assert U.dtype == dtype
        assert U.shape == (n, METRICS[name].n_features_out_)
        np.testing.assert_allclose(U, coordinates(name, X), **COMPARED[dtype])

    def test_forms(self, name, frozen):
        X, metric = normal(30, D), METRICS[name]
        expected = metric.transform(X)
        kept = X.copy()
        for form in (
            np.asfortranarray(X),
            frozen(X),
            X.tolist(),
            np.repeat(X, 2, axis=0)[::2],
        ):
            np.testing.assert_allclose(
                metric.transform(form), expected, rtol=1e-13, atol=1e-13
            )
        np.testing.assert_array_equal(X, kept)
        whole = np.arange(8).reshape(2, 4)
        np.testing.assert_array_equal(
            metric.transform(whole), metric.transform(whole.astype(float))
        )

    def test_rescaled(self, name):
        """The coordinates before the linear map, each times a factor; those of
        factor zero are left out.
        """
        factors = np.array([2.0, 0.5, 0.0, 3.0, 1.0])
        X, unmixed = normal(50, D), "plain" if "plain" in name else "warped"
        expected = (coordinates(unmixed, X) * factors)[:, factors > 0]
        np.testing.assert_allclose(
            METRICS[unmixed].rescaled(factors).transform(X),
            expected,
            rtol=1e-12,
            atol=1e-12,
        )
        if len(METRICS[name].source_) == len(factors):
            np.testing.assert_allclose(
                METRICS[name].rescaled(factors).transform(X),
                expected,
                rtol=1e-12,
                atol=1e-12,
            )

    def test_mean_distances(self):
        """Of all pairs of rows, as often as their weights say."""
        U, weight = (
            np.round(normal(40, 3), 1),
            np.random.default_rng(1).integers(0, 4, 40),
        )
        U[:, 2] = 7.3
        rows = np.repeat(U, weight, axis=0)
        expected = np.abs(rows[:, np.newaxis] - rows).mean(axis=(0, 1))
        np.testing.assert_allclose(
            mean_distances(U, weight), expected, rtol=1e-10, atol=0
        )

    @PRECISIONS
    @pytest.mark.parametrize(
        "form", [sp.csr_array, sp.csr_matrix, sp.csc_matrix, sp.coo_array]
    )
    def test_sparse_rows(self, form, dtype):
        X = normal(20, D).astype(dtype)
        X[::2, 1] = 0
        U = METRICS["plain"].transform(form(X))
        assert sp.issparse(U)
        assert U.format == "csr"
        assert U.dtype == dtype
        assert U.nnz == 20 * 5 - 10
        np.testing.assert_array_equal(U.toarray(), METRICS["plain"].transform(X))

    @pytest.mark.parametrize("which", ["warped", "mixed", "all mixed", "mixed plain"])
    def test_warps_and_maps_need_dense_rows(self, which):
        with pytest.raises(
            ValueError,
            match=r"warps or mixes columns, which needs dense rows: call toarray\(\)",
        ):
            METRICS[which].transform(sp.csr_array(normal(3, D)))

    def test_columns_without_coordinates_do_not_matter(self):
        metric, X = Metric(3, [2], [0.5]), normal(10, 3)
        np.testing.assert_array_equal(metric.transform(X), X[:, 2:] / 2)
        np.testing.assert_array_equal(metric.relevance_, 0)

    def test_mixed(self):
        X = normal(10, D)
        found = METRICS["warped"].mixed(LINEAR)
        np.testing.assert_array_equal(found.transform(X), METRICS["mixed"].transform(X))
        assert METRICS["warped"].n_features_out_ == 5
        assert found.n_features_out_ == 4

    def test_rows_beyond_all_numbers(self):
        metric = Metric(
            2,
            [1, 0],
            [10.0, 1.0],
            warped=[1],
            knots=[[0.0, 1.0]],
            levels=[[0.0, 4.0]],
            slopes=[2.0],
        )
        far = metric.transform(np.full((1, 2), 3e38, np.float32))
        np.testing.assert_array_equal(far, [[np.inf, np.inf]])

    def test_wrong_rows(self, name):
        with pytest.raises(
            ValueError, match="X has 3 columns, but the metric was learned on 4"
        ):
            METRICS[name].transform(np.ones((2, 3)))
        with pytest.raises(ValueError, match="NaN"):
            METRICS[name].transform(np.full((2, D), np.nan))

    def test_comes_back(self, name, tmp_path):
        X, metric = normal(20, D), METRICS[name]
        save(metric, tmp_path / "metric")
        for again in (load(tmp_path / "metric"), pickle.loads(pickle.dumps(metric))):  # noqa: S301
            np.testing.assert_array_equal(again.transform(X), metric.transform(X))
            np.testing.assert_array_equal(again.relevance_, metric.relevance_)


@pytest.fixture(params=MAPS)
def inner(request):
    return MAPS[request.param]


@pytest.fixture
def fitted(name, inner):
    return MetricFeatures(METRICS[name], inner).fit(normal(120, D))


class TestFeatures:
    @PRECISIONS
    def test_are_those_of_the_coordinates(self, fitted, dtype):
        X = normal(50, D, seed=1).astype(dtype)
        alone = clone(fitted.features).fit(fitted.metric.transform(normal(120, D)))
        Z, expected = fitted.transform(X), alone.transform(fitted.metric.transform(X))
        assert sp.issparse(Z) == sp.issparse(expected)
        assert Z.dtype == dtype
        np.testing.assert_array_equal(dense(Z), dense(expected))
        assert fitted.n_features_out == Z.shape[1]
        assert fitted.is_dense == alone.is_dense
        assert fitted.kernel is fitted.features.kernel
        np.testing.assert_array_equal(
            fitted.get_feature_names_out(), alone.get_feature_names_out()
        )

    @PRECISIONS
    def test_dot_is_features_times_coefficients(self, fitted, dtype):
        X, coef = (
            normal(200, D).astype(dtype),
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
        """`store` of rows, and `fit_store` before the columns are laid out, give the
        features of `transform`.
        """
        X = normal(120, D)
        Z = dense(fitted.transform(X))
        drawn = MetricFeatures(fitted.metric, fitted.features).draw(D)
        drawn.fit_sample(X, np.ones(X.shape[0]))
        blocks = [drawn.fit_store(X[:50]), drawn.fit_store(X[50:])]
        drawn.finalize()
        drawn.check_occupancy()
        identity = np.eye(fitted.n_features_out)
        np.testing.assert_allclose(
            fitted.store(X).forward(identity).T, Z, rtol=1e-14, atol=1e-14
        )
        assert drawn.n_features_out == fitted.n_features_out
        again = np.vstack([block.forward(identity).T for block in blocks])
        np.testing.assert_allclose(again, Z, rtol=1e-14, atol=1e-14)
        for packed in (False, True):
            size = np.dtype(np.float32)
            assert fitted.stored_bytes(size, packed) == fitted.features_.stored_bytes(
                size, packed
            )

    def test_rows_of_dense_maps(self, name):
        features = MetricFeatures(METRICS[name], MAPS["fourier"]).fit(normal(120, D))
        X = normal(500, D, seed=2)
        out = np.full((500, features.n_features_out + 2), np.nan)
        assert features.dense.rows(X, out=out) is out
        assert np.isnan(out[:, -2:]).all()
        # Features of many rows are computed tile by tile.
        np.testing.assert_allclose(
            out[:, :-2], features.transform(X), rtol=1e-12, atol=1e-14
        )

    def test_packed(self, name):
        """Rounded to 8 bits, by bounds."""
        features = MetricFeatures(METRICS[name], MAPS["fourier"]).fit(normal(120, D))
        X = normal(100, D, seed=3).astype(np.float32)
        held = features.store(X, packed=True).forward(np.eye(features.n_features_out)).T
        np.testing.assert_allclose(
            held, features.transform(X), atol=features.features_.bounds().max() / 200
        )
        assert not np.array_equal(held, features.transform(X))

    def test_centred(self):
        """What is stored may be centred; the map stays as it is."""
        X = normal(100, D)
        features = MetricFeatures(METRICS["mixed"], MAPS["fourier"]).fit(X)
        Z, identity = features.transform(X), np.eye(31)
        centres = features.centres(X, np.ones(100))
        stored = features.store(X, centres=centres)
        np.testing.assert_allclose(
            stored.forward(identity).T, Z - Z.mean(axis=0), atol=1e-14
        )
        np.testing.assert_allclose(features.store(X).forward(identity).T, Z, atol=1e-14)
        assert MetricFeatures(METRICS["mixed"], MAPS["bins"]).fit(X).centres(
            X, np.ones(100)
        ) == [None]

    def test_observes_the_coordinates(self):
        """Standardised ones, of a map that takes its means and deviations from a
        sample of the rows.
        """
        X = normal(100, D)
        features = MetricFeatures(METRICS["warped"], LinearFeatures()).draw(D)
        features.fit_sample(X, np.ones(X.shape[0]))
        expected = LinearFeatures().fit_transform(METRICS["warped"].transform(X))
        np.testing.assert_allclose(
            features.dense.rows(X), expected, rtol=1e-10, atol=1e-10
        )
        assert features.kernel is None

    def test_bins_are_not_dense(self):
        features = MetricFeatures(METRICS["warped"], MAPS["bins"]).fit(normal(20, D))
        assert features.dense is None
        assert ConcatenatedFeatures([features]).fit(normal(20, D)).dense is None

    @pytest.mark.parametrize("form", [sp.csr_array, sp.csr_matrix])
    def test_sparse_rows(self, inner, form):
        X = normal(60, D) * (normal(60, D, seed=1) > 0)
        features = MetricFeatures(METRICS["plain"], inner).fit(form(X))
        expected = MetricFeatures(METRICS["plain"], inner).fit(X)
        np.testing.assert_allclose(
            dense(features.transform(form(X))), dense(expected.transform(X)), atol=1e-13
        )
        coef = normal(features.n_features_out, 2)
        np.testing.assert_allclose(
            features.dot(form(X), coef), expected.dot(X, coef), rtol=1e-10, atol=1e-10
        )
        with pytest.raises(ValueError, match="needs dense rows"):
            MetricFeatures(METRICS["warped"], inner).fit(form(X))

    def test_copies_do_not_share(self):
        bins = BinningFeatures(Laplacian(3.0), 5, random_state=0)
        features = MetricFeatures(METRICS["plain"], bins).fit(normal(20, D))
        assert not hasattr(bins, "pitches_")
        copy = clone(features)
        assert not hasattr(copy, "features_")
        np.testing.assert_array_equal(copy.metric.scale_, features.metric.scale_)
        copy.set_params(features__n_grids=9, features__kernel__lengthscale=7.0)
        assert (bins.n_grids, bins.kernel.lengthscale) == (5, 3.0)
        assert copy.kernel == Laplacian(7.0)
        again = copy.fit(normal(20, D)).features_
        assert len(again.values_) == 9

    def test_frozen_rows(self, fitted, frozen):
        X = normal(120, D)
        coef = normal(fitted.n_features_out, 1)
        np.testing.assert_array_equal(
            dense(fitted.transform(frozen(X))), dense(fitted.transform(X))
        )
        np.testing.assert_array_equal(
            fitted.dot(frozen(X), frozen(coef)), fitted.dot(X, coef)
        )

    @pytest.mark.parametrize(
        ("metric", "features", "error", "message"),
        [
            (
                None,
                MAPS["bins"],
                TypeError,
                "metric must be a Metric and features a feature map",
            ),
            (
                METRICS["plain"],
                None,
                TypeError,
                "metric must be a Metric and features a feature map",
            ),
            (
                Metric(3, [0], [1.0]),
                MAPS["bins"],
                ValueError,
                "The metric is one of 3 columns, and X has 4",
            ),
            (
                METRICS["plain"],
                BinningFeatures(Gaussian()),
                ValueError,
                "Use FourierFeatures",
            ),
            (
                METRICS["plain"],
                FourierFeatures(Gaussian([1.0, 2.0])),
                ValueError,
                "lengthscale",
            ),
        ],
    )
    def test_refuses_bad_parameters(self, metric, features, error, message):
        for call in (lambda one: one.fit(normal(9, D)), lambda one: one.draw(D)):
            with pytest.raises(error, match=message):
                call(MetricFeatures(metric, features))

    def test_refuses_other_columns(self, fitted):
        with pytest.raises(
            ValueError, match="X has 3 features, but MetricFeatures is expecting 4"
        ):
            fitted.transform(np.ones((2, 3)))

    def test_must_be_fitted(self, inner):
        features = MetricFeatures(METRICS["plain"], inner)
        for call in (
            lambda one: one.transform(np.ones((1, D))),
            MetricFeatures.get_feature_names_out,
        ):
            with pytest.raises(NotFittedError):
                call(features)

    def test_named_columns(self):
        pd = pytest.importorskip("pandas")
        X = pd.DataFrame(normal(30, D), columns=list("abcd"))
        features = MetricFeatures(
            METRICS["mixed"], FourierFeatures(n_components=2)
        ).fit(X)
        names = ["fourierfeatures0", "fourierfeatures1"]
        assert (
            list(features.set_output(transform="pandas").transform(X).columns) == names
        )
        with pytest.raises(ValueError, match="feature names"):
            features.transform(X.rename(columns={"a": "z"}))

    def test_comes_back(self, fitted, tmp_path):
        X = normal(40, D, seed=5)
        Z, coef = dense(fitted.transform(X)), normal(fitted.n_features_out, 2)
        product = fitted.dot(X, coef)
        save(fitted, tmp_path / "features")
        for again in (load(tmp_path / "features"), pickle.loads(pickle.dumps(fitted))):  # noqa: S301
            np.testing.assert_array_equal(dense(again.transform(X)), Z)
            np.testing.assert_array_equal(again.dot(X, coef), product)
            np.testing.assert_array_equal(
                again.get_feature_names_out(), fitted.get_feature_names_out()
            )


class TestTogether:
    """Beside other maps, and in an estimator."""

    def test_concatenated(self, name):
        X = normal(80, D)
        maps = [MetricFeatures(METRICS[name], one) for one in MAPS.values()]
        features = ConcatenatedFeatures(
            [*maps, LinearFeatures()], weights=[2.0, 1.0, 0.5]
        ).fit(X)
        U = METRICS[name].transform(X)
        parts = [dense(clone(one).fit_transform(U)) for one in MAPS.values()]
        expected = np.hstack(
            [
                np.sqrt(2) * parts[0],
                parts[1],
                np.sqrt(0.5) * LinearFeatures().fit_transform(X),
            ]
        )
        np.testing.assert_allclose(
            dense(features.transform(X)), expected, rtol=1e-14, atol=1e-14
        )
        coef = normal(features.n_features_out, 3)
        np.testing.assert_allclose(
            features.dot(X, coef), expected @ coef, rtol=1e-10, atol=1e-10
        )
        held = features.store(X).forward(np.eye(features.n_features_out)).T
        np.testing.assert_allclose(held, expected, rtol=1e-14, atol=1e-14)

    def test_solver_sees_the_coordinates(self, name, inner):
        """The equations are those of the map on the coordinates themselves."""
        X, y = normal(300, D), normal(300, 2, seed=1)
        maps = (
            MetricFeatures(METRICS[name], inner).draw(D),
            clone(inner).draw(METRICS[name].n_features_out_),
        )
        rows = X, METRICS[name].transform(X)
        ridges = [
            IterativeRidge(Design(ArraySource(Z, y), features, np.float64), 0)
            for Z, features in zip(rows, maps, strict=True)
        ]
        coefs = [
            ridge.solve(ridge.equations(), np.full((2, 1), 3.0), 1e-10, 200).coef
            for ridge in ridges
        ]
        intercepts = [
            ridge.intercept(ridge.equations(), coef)
            for ridge, coef in zip(ridges, coefs, strict=True)
        ]
        predictions = [
            features.dot(Z, coef.T) + intercept
            for features, Z, coef, intercept in zip(
                maps, rows, coefs, intercepts, strict=True
            )
        ]
        np.testing.assert_allclose(predictions[0], predictions[1], rtol=1e-6, atol=1e-7)

    @pytest.mark.parametrize("solver", ["direct", "cg"])
    def test_regressor(self, inner, solver, tmp_path):
        """One column matters, and the metric knows."""
        if solver == "direct" and inner is MAPS["bins"]:
            solver = "auto"
        X = normal(300, D)
        y = np.sin(2 * X[:, 2])
        metric = Metric(D, [2, 0], [1.5, 0.01])
        features = MetricFeatures(metric, inner)
        model = KernelMachineRegressor(
            features=features, solver=solver, random_state=0
        ).fit(X, y)
        assert (
            model.score(
                normal(200, D, seed=9), np.sin(2 * normal(200, D, seed=9)[:, 2])
            )
            > 0.8
        )
        assert not hasattr(features, "features_")
        save(model, tmp_path / "model")
        np.testing.assert_array_equal(
            load(tmp_path / "model").predict(X), model.predict(X)
        )
        np.testing.assert_array_equal(
            clone(model).fit(X, y).predict(X), model.predict(X)
        )


def test_a_learned_metric_shows_the_columns_of_the_user(tmp_path):
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(
        {"age": rng.normal(size=80), "town": rng.choice(list("ab"), 80)}
    )
    model = KernelMachineRegressor("gaussian", n_components=16, alpha=0.1)
    model.fit(frame, rng.normal(size=80))
    save(model, tmp_path / "model.safetensors")
    for metric in (model.metric_, load(tmp_path / "model.safetensors").metric_):
        assert metric.names_ == tuple(model.encoder_.get_feature_names_out())
        assert ">age<" in metric._repr_html_()
        assert ">town_b<" in metric._repr_html_()
    assert ">x0<" in Metric(1, [0], [1.0])._repr_html_()


def test_relevance_is_of_the_maps_that_know_it():
    known = Metric(2, [0, 1], [1.0, 1.0], relevance=[0.75, 0.25])
    unknown = Metric(2, [0], [1.0])
    maps = [
        MetricFeatures(metric, FourierFeatures(Gaussian(), 8, random_state=0))
        for metric in (known, unknown)
    ]
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = KernelMachineRegressor(features=ConcatenatedFeatures(maps), alpha=0.1)
    shares = relevance_in_distance(model.fit(X, X[:, 0]))
    np.testing.assert_allclose(shares, [0.75, 0.25], rtol=1e-12)
