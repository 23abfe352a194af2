"""Transformers of scikit-learn as feature maps, alone and as `features` of the
estimators.
"""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import (
    AdditiveChi2Sampler,
    Nystroem,
    PolynomialCountSketch,
    RBFSampler,
    SkewedChi2Sampler,
)
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.utils.estimator_checks import parametrize_with_checks

from bochner import (
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    LinearFeatures,
    save,
)
from bochner.cli.model_files import model_facts
from bochner.features import TransformerFeatures
from bochner.features.leaves import seeded
from bochner.kernels import Gaussian, Laplacian

EPS = np.finfo(float).eps
# Products of tiles may add in another order than those of all rows; an inverse root
# makes more of that
ORDER = 1e-9
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (700, 3))
Y = np.column_stack([np.sin(3 * X[:, 0]) + X[:, 1], X[:, 1] * X[:, 2]])
WEIGHT = RNG.uniform(0.5, 2.0, 700)
MAPS = {
    "rbf": RBFSampler(gamma=0.5, n_components=80),
    "nystroem": Nystroem(gamma=0.5, n_components=60),
    "sketch": PolynomialCountSketch(degree=3, coef0=1, n_components=70),
    "chi2": make_pipeline(MinMaxScaler(clip=True), AdditiveChi2Sampler()),
    "skewed": make_pipeline(
        MinMaxScaler(clip=True), SkewedChi2Sampler(n_components=90)
    ),
    "union": make_union(
        RBFSampler(n_components=40), PolynomialFeatures(2, include_bias=False)
    ),
}


def seed(transformer):
    return seeded(transformer, 3).transformer


@pytest.fixture(params=MAPS)
def transformer(request):
    return MAPS[request.param]


class TestAlone:
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_is_the_transformer(self, transformer, dtype):
        rows = X.astype(dtype)
        features = TransformerFeatures(seed(transformer)).fit(rows)
        Z = features.transform(rows)
        expected = clone(seed(transformer)).fit(rows.astype(float)).transform(rows)
        assert Z.dtype == dtype
        assert Z.shape == (700, features.n_features_out)
        np.testing.assert_allclose(Z, expected, rtol=np.finfo(dtype).eps, atol=ORDER)

    def test_threads_agree(self, transformer, monkeypatch):
        features = TransformerFeatures(seed(transformer)).fit(X)
        rows = np.tile(X, (20, 1))
        monkeypatch.setattr("bochner.engines.local.n_threads", lambda: 1)
        alone = features.rows(rows)
        monkeypatch.setattr("bochner.engines.local.n_threads", lambda: 7)
        for _ in range(3):
            np.testing.assert_array_equal(features.rows(rows), alone)

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_held_and_dot(self, transformer, dtype):
        rows = X.astype(dtype)
        features = TransformerFeatures(seed(transformer)).fit(rows)
        Z, D = features.transform(rows), features.n_features_out
        assert features.bounds() is None
        np.testing.assert_array_equal(features.store(rows, packed=True).Z, Z)
        assert (
            features.stored_bytes(np.dtype(dtype), packed=True)
            == D * np.dtype(dtype).itemsize
        )
        coef = np.linspace(-1, 1, 2 * D).reshape(D, 2).astype(dtype)
        bound = (D + 8) * np.finfo(dtype).eps * (np.abs(Z) @ np.abs(coef))
        assert np.all(
            np.abs(features.dot(rows, coef) - Z.astype(float) @ coef) <= bound
        )

    def test_sparse_rows_and_sparse_features(self):
        rows = sp.csr_array(X * (X > 0))
        for inner in (RBFSampler(random_state=0), PolynomialFeatures(2)):
            Z = TransformerFeatures(inner).fit(rows).transform(rows)
            assert isinstance(Z, np.ndarray)
            dense = (
                TransformerFeatures(inner).fit(rows.toarray()).transform(rows.toarray())
            )
            np.testing.assert_allclose(Z, dense, rtol=0, atol=1e3 * EPS)
        with pytest.raises(TypeError, match="dense data is required"):
            TransformerFeatures(SkewedChi2Sampler()).fit(rows)

    def test_fitted_in_double_precision(self):
        """In single precision the inverse root of Nystroem's kernel matrix would be
        noise.
        """
        nystroem = Nystroem(gamma=1e-3, n_components=100, random_state=0)
        Z = (
            TransformerFeatures(nystroem)
            .fit(X.astype(np.float32))
            .transform(X.astype(np.float32))
        )
        K = np.exp(-1e-3 * ((X[:, np.newaxis] - X) ** 2).sum(axis=2))
        assert np.abs(Z.astype(float) @ Z.T - K).max() < 1e-5
        assert (
            np.abs(nystroem.fit_transform(X.astype(np.float32)) @ Z.T - K).max() > 1e-4
        )

    @pytest.mark.parametrize("frames", ["pandas", "polars"])
    def test_frames_inside(self, frames):
        pytest.importorskip(frames)
        inner = make_pipeline(StandardScaler(), RBFSampler(random_state=0))
        expected = TransformerFeatures(inner).fit(X).transform(X)
        with config_context(transform_output=frames):
            features = TransformerFeatures(inner).fit(X)
            np.testing.assert_array_equal(features.rows(X), expected)
        own = TransformerFeatures(clone(inner).set_output(transform=frames)).fit(X)
        np.testing.assert_array_equal(own.transform(X), expected)

    def test_names(self):
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame(X[:, :2], columns=["a", "b"])
        features = TransformerFeatures(PolynomialFeatures(2, include_bias=False)).fit(
            frame
        )
        names = ["a", "b", "a^2", "a b", "b^2"]
        assert list(features.get_feature_names_out()) == names
        assert (
            list(features.set_output(transform="pandas").transform(frame).columns)
            == names
        )
        unnamed = TransformerFeatures(FunctionTransformer(np.sin)).fit(frame)
        assert list(unnamed.get_feature_names_out()) == [
            "functiontransformer0",
            "functiontransformer1",
        ]
        union = ConcatenatedFeatures(
            [LinearFeatures(), RBFSampler(n_components=1)]
        ).fit(frame)
        assert list(union.get_feature_names_out()) == ["0_a", "0_b", "1_rbfsampler0"]

    def test_must_be_fitted(self):
        features = TransformerFeatures(RBFSampler())
        for call in (features.transform, features.get_feature_names_out):
            with pytest.raises(NotFittedError):
                call(X)
        with pytest.raises(NotFittedError):
            features.draw(3).transform(X)

    def test_memory_is_asked_for_first(self, request):
        features = TransformerFeatures(RBFSampler()).fit(X)
        request.getfixturevalue("little_memory")
        with pytest.raises(MemoryError, match="The array of 700 x 100 features needs"):
            features.transform(X)


@pytest.mark.slow
@parametrize_with_checks(
    [TransformerFeatures(RBFSampler(n_components=10, random_state=0))]
)
def test_scikit_learn(estimator, check):
    check(estimator)


class Odd(TransformerMixin, BaseEstimator):
    """Gives what it is told to; needs no fit."""

    def __init__(self, give):
        self.give = give

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return self.give(X)

    def __sklearn_is_fitted__(self):
        return True


class TestErrors:
    @pytest.mark.parametrize(
        ("give", "message"),
        [
            (lambda X: X[:, 0], r"Odd gives an array of shape \(1,\) for 1 rows"),
            (lambda X: X[:-1], r"Odd gives an array of shape \(0, 3\) for 1 rows"),
            (lambda X: X[:, :0], "Odd gives no columns"),
            (
                lambda X: X[:, : 1 + (len(X) > 1)],
                "Odd gives 2 columns for these rows, and gave 1 at fit",
            ),
            (
                lambda X: X.astype(str),
                "Odd gives features of dtype .*, which are not real numbers",
            ),
            (
                lambda X: X * 1j,
                "Odd gives features of dtype complex128, which are not real numbers",
            ),
            (
                lambda X: X * np.nan,
                "Odd gives features that are NaN, infinite or too large for float64",
            ),
            (
                lambda X: np.where(X > 0, np.inf, -np.inf),
                "Odd gives features that are NaN, infinite",
            ),
        ],
    )
    def test_features_that_are_none(self, give, message):
        with pytest.raises(ValueError, match=message):
            KernelMachineRegressor(features=Odd(give)).fit(X, Y)

    def test_large_features(self):
        """A sum out of range is none of the features' fault."""
        inner = FunctionTransformer(np.full_like, kw_args={"fill_value": 1e308})
        features = TransformerFeatures(inner).fit(X)
        assert (features.transform(X) == 1e308).all()
        with pytest.raises(ValueError, match="too large for float32"):
            TransformerFeatures(Odd(lambda X: X.astype(float) * 1e300)).fit(
                X
            ).transform(X.astype(np.float32))

    @pytest.mark.parametrize(
        "sampler", [AdditiveChi2Sampler(), SkewedChi2Sampler(skewedness=0.01)]
    )
    def test_centred_columns(self, sampler):
        message = (
            rf"{type(sampler).__name__} rejects the rows: .* put a scaler before it"
        )
        with pytest.raises(ValueError, match=message):
            KernelMachineRegressor(features=sampler).fit(X + 1, Y)
        cured = make_pipeline(MinMaxScaler(clip=True), sampler)
        assert (
            KernelMachineRegressor(features=cured, random_state=0)
            .fit(X + 1, Y)
            .score(X + 1, Y)
            > 0.2
        )

    @pytest.mark.parametrize(
        ("features", "error", "message"),
        [
            (
                RBFSampler,
                TypeError,
                r"RBFSampler is a class: give an instance of it, RBFSampler\(...\)",
            ),
            (
                object(),
                TypeError,
                "neither a feature map .* nor a scikit-learn transformer",
            ),
            (Ridge(), TypeError, r"Ridge\(\) is neither a feature map"),
            (
                make_pipeline(StandardScaler(), Ridge()),
                TypeError,
                "Pipeline.* is neither a feature map",
            ),
            ([RBFSampler()], TypeError, "is neither a feature map"),
            (None, ValueError, "features must be one of"),
            ("rbf", ValueError, "features must be one of"),
            (
                LinearDiscriminantAnalysis(),
                TypeError,
                "LinearDiscriminantAnalysis needs a target: put it before",
            ),
            (
                RBFSampler(n_components=-1),
                ValueError,
                "The 'n_components' parameter of RBFSampler must be",
            ),
        ],
    )
    @pytest.mark.parametrize("model", [KernelMachineRegressor, KernelMachineClassifier])
    def test_what_is_no_transformer(self, model, features, error, message):
        with pytest.raises(error, match=message):
            model(features=features).fit(X, X[:, 0] > 0)

    def test_with_other_parameters(self):
        with pytest.raises(ValueError, match="keep kernel='auto'"):
            KernelMachineRegressor(Gaussian(), RBFSampler()).fit(X, Y)
        with pytest.raises(ValueError, match="keep metric='auto'"):
            KernelMachineRegressor(features=RBFSampler(), metric="ard").fit(X, Y)
        with pytest.raises(TypeError, match=r"maps must be .* RBFSampler is a class"):
            ConcatenatedFeatures([RBFSampler, LinearFeatures()]).fit(X)

    def test_files(self, tmp_path):
        model = KernelMachineRegressor(features=RBFSampler(n_components=5)).fit(X, Y)
        for item in (model, ConcatenatedFeatures([RBFSampler()]).fit(X)):
            with pytest.raises(
                TypeError,
                match=r"is a RBFSampler, which cannot be saved: .* Use FourierFeatures",
            ):
                save(item, tmp_path / "model")
        assert not list(tmp_path.iterdir())
        again = pickle.loads(pickle.dumps(model))  # noqa: S301
        np.testing.assert_array_equal(again.predict(X), model.predict(X))


class TestEstimators:
    @pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
    @pytest.mark.parametrize("solver", ["auto", "direct", "cg"])
    def test_is_ridge_on_the_features(self, transformer, solver, weight):
        options = {"solver": solver, "tol": 1e-9, "random_state": 0}
        model = KernelMachineRegressor(features=transformer, alpha=0.3, **options).fit(
            X, Y, weight
        )
        rows = model.encoder_.encode(X, np.float64)
        Z = model.features_.transformer_.transform(rows)
        targets = (Y - model.target_mean_) / model.target_scale_
        oracle = Ridge(alpha=0.3).fit(Z, targets, weight)
        expected = oracle.predict(Z) * model.target_scale_ + model.target_mean_
        # The error of the iterations is at most 1e-9 of the solution, in a norm that
        # bounds the predictions.
        np.testing.assert_allclose(model.predict(X), expected, rtol=0, atol=1e-7)
        assert model.solver_ == ("cg" if solver == "cg" else "direct")

    @pytest.mark.parametrize("solver", ["direct", "cg"])
    def test_alpha_is_chosen(self, solver):
        rows, y = (
            X[:500],
            Y[:500] + 0.1 * np.random.default_rng(1).standard_normal((500, 2)),
        )
        model = KernelMachineRegressor(
            features=MAPS["nystroem"], solver=solver, random_state=0
        ).fit(rows, y)
        assert model.score(X[500:], Y[500:]) > 0.98
        assert model.alphas_.min() < model.alpha_ < model.alphas_.max()

    @pytest.mark.parametrize(
        "transformer", [MAPS["rbf"], MAPS["nystroem"], MAPS["sketch"]], ids=str
    )
    def test_classes(self, transformer):
        y = np.array(["in", "near", "far"])[
            np.digitize(np.linalg.norm(X, axis=1), [0.8, 1.1])
        ]
        model = KernelMachineClassifier(features=transformer, random_state=0).fit(
            X[:500], y[:500]
        )
        assert (
            model.score(X[500:], y[500:])
            > RidgeClassifier().fit(X[:500], y[:500]).score(X[500:], y[500:]) + 0.15
        )
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)

    def test_seeds(self):
        def fitted(features, seed=0):
            return KernelMachineRegressor(features=features, random_state=seed).fit(
                X, Y
            )

        sampler = RBFSampler(n_components=10)
        np.testing.assert_array_equal(
            fitted(sampler).predict(X), fitted(sampler).predict(X)
        )
        assert not np.array_equal(
            fitted(sampler, 1).predict(X), fitted(sampler).predict(X)
        )
        own = fitted(sampler.set_params(random_state=7)).features_.transformer_
        np.testing.assert_array_equal(
            own.random_weights_, clone(sampler).fit(X).random_weights_
        )
        sampler.set_params(random_state=None)
        parts = fitted(
            ConcatenatedFeatures(
                [sampler, make_union(sampler, clone(sampler))], [1.0, 2.0]
            )
        ).features_.maps_
        drawn = [
            parts[0].transformer_,
            *(step for _, step in parts[1].transformer_.transformer_list),
        ]
        seeds = {one.random_state for one in drawn}
        assert len(seeds) == 3
        assert len({one.random_offset_[0] for one in drawn}) == 3
        assert sampler.random_state is None

    @pytest.mark.slow
    def test_side_by_side(self):
        maps = [
            MAPS["nystroem"],
            BinningFeatures(Laplacian(4.0), 30),
            LinearFeatures(),
            FourierFeatures(n_components=50),
        ]
        for own, solver in ((maps, "cg"), ([maps[0], maps[2]], "cg")):
            model = KernelMachineRegressor(
                features=ConcatenatedFeatures(own), random_state=0
            ).fit(X[:500], Y[:500])
            assert model.solver_ == solver
            assert model.score(X[500:], Y[500:]) > 0.95
            widths = np.diff(model.features_.edges_)
            assert list(widths) == [
                part.n_features_out for part in model.features_.maps_
            ]
            assert widths[0] == 60
        direct = ConcatenatedFeatures([maps[0], maps[2]], weights=[1.0, 0.5])
        model = KernelMachineRegressor(
            features=direct, alpha=0.1, solver="direct", random_state=0
        ).fit(X, Y)
        rows = model.encoder_.encode(X, np.float64)
        Z = np.hstack(
            [
                part.transform(rows) * np.sqrt(w)
                for part, w in zip(model.features_.maps_, [1, 0.5])  # noqa: B905
            ]
        )
        expected = (
            Ridge(alpha=0.1)
            .fit(Z, (Y - model.target_mean_) / model.target_scale_)
            .predict(Z)
        )
        np.testing.assert_allclose(
            model.predict(X),
            expected * model.target_scale_ + model.target_mean_,
            rtol=0,
            atol=1e-9,
        )

    def test_searched(self):
        sampler = RBFSampler(n_components=60)
        model = KernelMachineRegressor(features=sampler, random_state=0)
        search = GridSearchCV(model, {"features__gamma": [1e-4, 0.5, 100.0]}, cv=3).fit(
            X, Y[:, 1]
        )
        assert search.best_params_ == {"features__gamma": 0.5}
        assert search.best_estimator_.features_.transformer_.gamma == 0.5
        assert sampler.gamma == 1.0
        assert model.get_params()["features"] is sampler
        assert clone(model).features is not sampler

    @pytest.mark.parametrize(
        "features",
        [RBFSampler(), ConcatenatedFeatures([RBFSampler(), LinearFeatures()])],
    )
    def test_facts_and_insight(self, features):
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame(X, columns=list("abc")).assign(
            d=np.where(X[:, 0] > 0, "p", "q")
        )
        model = KernelMachineRegressor(features=features, random_state=0).fit(
            frame, Y[:, 0]
        )
        facts = model_facts(model)
        assert facts["maps"][0]["map"] == "RBFSampler"
        assert facts["maps"][0]["n_features"] == 100
        assert (facts["kernel"], facts["relevances"]) == (None, None)
        assert model.feature_importances_.argmax() == 0
        assert (model.kernel_, model.metric_) == (None, None)

    def test_sparse_rows(self):
        rows = sp.csr_array(X * (X > 0.2))
        model = KernelMachineRegressor(
            features=MAPS["rbf"], alpha=0.1, random_state=0
        ).fit(rows, Y)
        Z = model.features_.transformer_.transform(
            model.encoder_.encode(rows, np.float64)
        )
        expected = (
            Ridge(alpha=0.1)
            .fit(Z, (Y - model.target_mean_) / model.target_scale_)
            .predict(Z)
        )
        found = (model.predict(rows) - model.target_mean_) / model.target_scale_
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
