"""Estimators on bins, on maps of the user's, and by conjugate gradients."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics import log_loss

import exact
from bochner import (
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    LinearFeatures,
    load,
    save,
)
from bochner.kernels import Gaussian, Hat, Laplacian

HYBRID = ConcatenatedFeatures(
    [
        FourierFeatures(Gaussian(2.0), 30),
        BinningFeatures(Laplacian(8.0), 20),
        LinearFeatures(),
    ],
    weights=[1.0, 0.5, 2.0],
)
LEARNED = clone(HYBRID).set_params(weights=None)
MACHINES = {
    "binning": {"kernel": Laplacian(8.0), "features": "binning", "n_components": 40},
    "fourier": {"features": FourierFeatures(Gaussian(2.0), 40), "solver": "cg"},
    "hybrid": {"features": HYBRID},
    "learned": {"features": LEARNED},
}


# A few of the many that "auto" tries
PENALTIES = {"alpha": [0.03, 0.3, 3.0], "random_state": 0}


def regressor(**options):
    return KernelMachineRegressor(**PENALTIES | options)


def classifier(**options):
    return KernelMachineClassifier(**PENALTIES | options)


# Where weights of maps are learned, that is for all outputs together.
BY_GIVEN_WEIGHTS = pytest.mark.parametrize(
    "name", [name for name in MACHINES if name != "learned"]
)


@pytest.fixture(scope="module", params=MACHINES)
def options(request):
    return MACHINES[request.param]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(150)
    X.flags.writeable = y.flags.writeable = False
    return X, y


@pytest.fixture(scope="module")
def plain(rows, options):
    """A regressor of these rows with the options, to be read only."""
    return regressor(**options, alpha="auto").fit(*rows)


def classes(y, K):
    return np.digitize(y, np.quantile(y, np.arange(1, K) / K))


def features_of(model, X):
    Z = model.features_.transform(model.encoder_.encode(X, np.float64))
    return Z.toarray() if sp.issparse(Z) else Z


class TestTruth:
    @pytest.mark.parametrize("name", ["binning", "fourier", "hybrid"])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_is_the_ridge_regression_of_its_features(self, rows, name, weighted):
        """An error of 1e-8 in the norm of the matrix is at most sqrt(150 * 9 / 0.5) =
        52 times that in coefficients.

        The features of the linear map have squares of size 9 or so; predictions have up
        to sqrt(18) times more.
        """
        X, y = rows
        weight = np.random.default_rng(1).uniform(0.2, 3, 150) if weighted else None
        model = regressor(**MACHINES[name], alpha=0.5, tol=1e-8).fit(X, y, weight)
        coef, intercept = exact.ridge(features_of(model, X), y[:, None], 0.5, weight)
        new = np.random.default_rng(2).standard_normal((50, 3))
        expected = features_of(model, new) @ coef[:, 0] + intercept
        np.testing.assert_allclose(
            model.predict(new), expected, rtol=0, atol=1e-6 * np.abs(y).max()
        )
        assert model.alpha_ == 0.5
        assert model.alpha_scores_ is None

    def test_weights_that_were_learned_are_those_of_the_features(self, rows):
        """The coefficients are for the features as `transform` gives them, and alpha
        is the ridge penalty on all.
        """
        X, y = rows
        model = regressor(features=LEARNED, alpha=[0.5, 5.0], tol=1e-8).fit(X, y)
        assert len(np.unique(model.features_.weights_)) > 1
        coef, intercept = exact.ridge(features_of(model, X), y[:, None], model.alpha_)
        expected = features_of(model, X) @ coef[:, 0] + intercept
        np.testing.assert_allclose(
            model.predict(X), expected, rtol=0, atol=1e-6 * np.abs(y).max()
        )
        given = clone(LEARNED).set_params(weights=model.features_.weights_)
        again = regressor(features=given, alpha=model.alpha_, tol=1e-8).fit(X, y)
        np.testing.assert_allclose(
            again.predict(X), model.predict(X), rtol=0, atol=2e-6 * np.abs(y).max()
        )

    @pytest.mark.slow
    def test_many_grids_approach_kernel_ridge(self):
        """The exact kernel K of 60 rows, and that of P grids: each entry is the mean of
        P tosses of probability k.

        With A = (HKH + alpha I)^-1, H for the means, the first change of the fitted
        values HKH A y is alpha A HEH A y, E the error of K; its entries have deviation
        sqrt(k (1 - k) / P) <= 0.5 / sqrt(P), so that the length of E b is at most
        n^(1/2) |b| times that in the mean square (neighbours are not independent, which
        leaves the mean of their squares alone), and A at most 1 / alpha.
        """
        rng = np.random.default_rng(0)
        n, P, alpha = 60, 20_000, 2.0
        X = rng.standard_normal((n, 2))
        y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(n)
        centre = np.eye(n) - 1 / n
        K = centre @ exact.gram(lambda t: exact.laplacian(t, 3.0), X, X) @ centre
        dual = KernelRidge(alpha=alpha, kernel="precomputed").fit(K, y - y.mean())
        model = regressor(
            kernel=Laplacian(3.0),
            features="binning",
            n_components=P,
            alpha=alpha,
            tol=1e-8,
        ).fit(X, y)
        error = np.linalg.norm(model.predict(X) - dual.predict(K) - y.mean())
        assert error <= 5 * np.sqrt(n * n) * 0.5 / np.sqrt(P) * np.linalg.norm(
            dual.dual_coef_
        )
        few = [
            np.linalg.norm(
                regressor(
                    kernel=Laplacian(3.0),
                    features="binning",
                    n_components=P // 100,
                    alpha=alpha,
                    random_state=seed,
                )
                .set_params(tol=1e-8)
                .fit(X, y)
                .predict(X)
                - dual.predict(K)
                - y.mean()
            )
            for seed in range(6)
        ]
        # The root of 100 times as few grids; of six lengths and one, each of 60
        # entries, 30 % and a factor for the one.
        assert 10 / 3 <= np.mean(few) / error <= 30

    @pytest.mark.slow
    def test_the_mean_over_seeds_is_kernel_ridge(self):
        """By z-score at 40 rows: the bias of second order is 1 / P, and the
        deviation 1 / sqrt(P) over 20 seeds.
        """
        rng = np.random.default_rng(0)
        n, alpha = 40, 2.0
        X = rng.standard_normal((n, 2))
        y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(n)
        centre = np.eye(n) - 1 / n
        K = centre @ exact.gram(lambda t: exact.laplacian(t, 3.0), X, X) @ centre
        expected = K @ np.linalg.solve(K + alpha * np.eye(n), y - y.mean()) + y.mean()
        options = {
            "kernel": Laplacian(3.0),
            "features": "binning",
            "n_components": 2000,
            "alpha": alpha,
            "tol": 1e-8,
        }
        found = np.array(
            [
                regressor(**options | {"random_state": seed}).fit(X, y).predict(X)
                for seed in range(20)
            ]
        )
        z = (found.mean(axis=0) - expected) / (found.std(axis=0, ddof=1) / np.sqrt(20))
        assert np.abs(z).max() <= 5

    @pytest.mark.parametrize("machine", [regressor, classifier])
    def test_conjugate_gradients_are_the_direct_solution(self, rows, machine):
        X, y = rows
        y = y if machine is regressor else classes(y, 3)
        given = {"kernel": Gaussian(2.0), "n_components": 60, "alpha": 0.5}
        direct = machine(**given, solver="direct").fit(X, y)
        model = machine(**given, solver="cg", tol=1e-10).fit(X, y)
        assert (direct.solver_, model.solver_) == ("direct", "cg")
        # 1e-10 in the norm of the matrix, of condition number 300, on predictions of
        # size 1.
        np.testing.assert_allclose(
            model._scores(X), direct._scores(X), rtol=0, atol=1e-8
        )

    @BY_GIVEN_WEIGHTS
    def test_classes_are_solved_each_for_itself(self, rows, name):
        options = MACHINES[name]
        X, y = rows
        labels = classes(y, 4)
        model = classifier(**options, alpha=1.0, tol=1e-10).fit(X, labels)
        scores = model.decision_function(X)
        for k in range(4):
            one = regressor(**options, alpha=1.0, tol=1e-10).fit(
                X, np.where(labels == k, 1.0, -1.0)
            )
            np.testing.assert_allclose(scores[:, k], one.predict(X), rtol=0, atol=1e-7)
        np.testing.assert_allclose(scores.sum(axis=1), 2 - 4, rtol=0, atol=1e-7)

    @BY_GIVEN_WEIGHTS
    def test_outputs_are_solved_each_for_itself(self, rows, name):
        options = MACHINES[name]
        X, y = rows
        Y = np.column_stack([y, 1e6 * X[:, 0] - 7, np.full(150, 2.5)])
        model = regressor(**options, alpha=1.0, tol=1e-10).fit(X, Y)
        assert model.predict(X).shape == (150, 3)
        for k in range(3):
            one = regressor(**options, alpha=1.0, tol=1e-10).fit(X, Y[:, k])
            bound = 1e-7 * np.abs(Y[:, k]).max()
            np.testing.assert_allclose(
                model.predict(X)[:, k], one.predict(X), rtol=0, atol=bound
            )


class TestQuality:
    @pytest.mark.parametrize("n", [20, 50, 200])
    @pytest.mark.parametrize(
        "features", ["binning", LEARNED, HYBRID, "fourier"], ids=str
    )
    def test_a_smooth_curve_from_few_rows(self, n, features):
        """Noise is a tenth of the curve's deviation, so that to follow it leaves
        little.
        """
        rng = np.random.default_rng(0)
        X = rng.uniform(-2, 2, (n, 1))
        y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(n)
        grid = np.linspace(-1.9, 1.9, 100)[:, None]
        model = regressor(features=features, solver="cg", alpha="auto").fit(X, y)
        assert model.score(grid, np.sin(2 * grid[:, 0])) > (0.6 if n == 20 else 0.9)

    @pytest.mark.parametrize("kernel", ["laplacian", "hat", "auto"])
    def test_kernels_by_name(self, rows, kernel):
        X, y = rows
        model = regressor(
            kernel=kernel, features="binning", n_components=60, alpha="auto"
        ).fit(X[:120], y[:120])
        assert isinstance(model.kernel_, Hat if kernel == "hat" else Laplacian)
        assert model.score(X[120:], y[120:]) > 0.3
        assert model.feature_weights_.shape == (model.features_.n_features_out, 1)
        assert len(model.features_.values_) == 60

    @pytest.mark.slow
    @pytest.mark.parametrize("K", [2, 3])
    def test_probabilities(self, options, K):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((600, 3))
        y = classes(np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(600), K)
        model = classifier(**options, alpha="auto").fit(X[:400], y[:400])
        probability = model.predict_proba(X[400:])
        np.testing.assert_allclose(probability.sum(axis=1), 1, rtol=1e-12)
        assert (
            log_loss(y[400:], probability)
            < log_loss(y[400:], np.full((200, K), 1 / K)) - 0.1
        )
        np.testing.assert_array_equal(
            probability.argmax(axis=1), model.predict(X[400:])
        )
        given = classifier(**options, alpha=1.0).fit(X[:400], y[:400])
        assert log_loss(y[400:], given.predict_proba(X[400:])) < np.log(K)

    def test_weights_that_are_learned_help(self):
        """A trend that the linear map holds, and two maps of noise columns."""
        rng = np.random.default_rng(0)
        X = rng.standard_normal((300, 4))
        y = X[:, 0] + 0.3 * rng.standard_normal(300)
        maps = [
            BinningFeatures(Laplacian([100.0, 4.0, 4.0, 4.0]), 40),
            LinearFeatures(),
        ]
        learned, equal = (
            regressor(
                features=ConcatenatedFeatures(maps, weights=weights), alpha="auto"
            ).fit(X[:150], y[:150])
            for weights in (None, [1.0, 1.0])
        )
        assert learned.features_.weights_[0] < learned.features_.weights_[1] == 1
        np.testing.assert_array_equal(equal.features_.weights_, 1)
        assert learned.score(X[150:], y[150:]) >= equal.score(X[150:], y[150:])


class TestParameters:
    def test_what_is_refused(self, rows):
        X, y = rows
        for options, error, message in [
            (
                {"kernel": Gaussian(), "features": "binning"},
                ValueError,
                "FourierFeatures",
            ),
            (
                {"kernel": "gaussian", "features": "binning"},
                ValueError,
                "no bins: use .*laplacian.*fourier",
            ),
            (
                {"kernel": Laplacian(), "features": HYBRID},
                ValueError,
                "keep kernel='auto'",
            ),
            (
                {"kernel": "laplacian", "features": HYBRID},
                ValueError,
                "keep kernel='auto'",
            ),
            ({"features": "bins"}, ValueError, "features must be one of"),
            ({"features": None}, ValueError, "features must be one of"),
            (
                {"features": "binning", "solver": "direct"},
                ValueError,
                "solver='direct' needs dense features",
            ),
            (
                {"features": HYBRID, "solver": "direct"},
                ValueError,
                "solver='direct' needs dense features",
            ),
            (
                {"features": "binning", "alpha": "gcv"},
                ValueError,
                "needs (dense features|the direct solver)",
            ),
            (
                {"solver": "cg", "alpha": "gcv"},
                ValueError,
                "alpha='gcv' needs the direct solver",
            ),
            (
                {"solver": "cg", "alpha": "loo"},
                ValueError,
                "alpha='loo' needs the direct solver",
            ),
            ({"solver": "svd"}, ValueError, "solver must be one of"),
            ({"solver": None}, ValueError, "solver must be one of"),
            ({"tol": 0.0}, ValueError, "tol must be positive"),
            ({"tol": -1e-3}, ValueError, "tol must be positive"),
            ({"tol": np.nan}, ValueError, "tol must be positive"),
            ({"tol": "small"}, TypeError, "tol must be"),
            (
                {"features": "binning", "n_components": 0},
                ValueError,
                "n_components must be positive",
            ),
            (
                {"kernel": Laplacian([1.0, 2.0]), "features": "binning"},
                ValueError,
                "The encoded columns are",
            ),
        ]:
            for machine, target in ((regressor, y), (classifier, y > 0)):
                with pytest.raises(error, match=message):
                    machine(**options).fit(X, target)

    @pytest.mark.slow
    def test_maps_are_copied_and_seeded(self, rows):
        X, y = rows
        features = clone(LEARNED)
        before = repr(features)
        one, two = (
            regressor(features=features, alpha=[0.1, 1.0]).fit(X, y) for _ in range(2)
        )
        np.testing.assert_array_equal(one.predict(X), two.predict(X))
        other = regressor(features=features, alpha=[0.1, 1.0], random_state=1).fit(X, y)
        assert np.any(other.predict(X) != one.predict(X))
        assert repr(features) == before
        assert not hasattr(features, "maps_")
        assert all(
            getattr(part, "random_state", None) is None for part in features.maps
        )
        own = BinningFeatures(Laplacian(8.0), 20, random_state=7)
        drawn = [
            regressor(features=own, random_state=seed, alpha=1.0).fit(X, y).features_
            for seed in (0, 1)
        ]
        np.testing.assert_array_equal(drawn[0].shifts_, drawn[1].shifts_)

    def test_kernels_of_maps_are_seen(self, rows):
        X, y = rows
        assert regressor(features=BinningFeatures(Hat(9.0), 20), alpha=1.0).fit(
            X, y
        ).kernel_ == Hat(9.0)
        assert regressor(features=HYBRID, alpha=1.0).fit(X, y).kernel_ is None

    def test_linear_features_alone(self, rows):
        """Solved directly, as they are dense."""
        X, y = rows
        model = regressor(features=LinearFeatures(), alpha=1.0).fit(X, y)
        assert model.solver_ == "direct"
        Z = (X - X.mean(axis=0)) / X.std(axis=0)
        coef, intercept = exact.ridge(Z, y[:, None], 1.0)
        np.testing.assert_allclose(
            model.predict(X), Z @ coef[:, 0] + intercept, rtol=0, atol=1e-9
        )

    @pytest.mark.slow
    def test_attributes(self, rows, options, plain):
        (X, y), model = rows, plain
        assert model.solver_ == "cg"
        reason = "as requested" if "solver" in options else "the features are sparse"
        assert model.solver_reason_ == reason
        assert isinstance(model.n_iter_, int)
        assert model.n_iter_ >= 1
        assert 0 <= model.residual_ < 1
        assert np.all(np.diff(model.alphas_) > 0)
        assert model.alpha_scores_.shape == model.alphas_.shape
        direct = regressor(n_components=20).fit(X, y)
        assert (direct.n_iter_, direct.residual_) == (None, None)

    def test_a_tolerance_out_of_reach_warns(self, rows, policy):
        """Of 1e-6 there are three times as many iterations as of the usual 1e-2."""
        X, y = rows
        policy(most_iterations=3)
        with pytest.warns(ConvergenceWarning, match="after 9 iterations"):
            regressor(
                features="binning", kernel=Laplacian(8.0), alpha=1e-3, tol=1e-6
            ).fit(X, y)

    def test_a_tighter_tolerance_takes_more_iterations(self, rows):
        X, y = rows
        counts = [
            regressor(**MACHINES["binning"], alpha=0.1, tol=tol).fit(X, y).n_iter_
            for tol in (0.1, 1e-3, 1e-6)
        ]
        assert counts[0] < counts[1] < counts[2]


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_the_tolerance_holds_for_bins(alpha):
    """Errors of the solution against a dense one, in the norm of the matrix; the
    residual that is told is the true one.

    So many rows that single precision is taken where it suffices.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 4, size=(40_000, 2)).astype(np.float32)
    y = np.sin(3 * X[:, 0]) + (X[:, 1] > 2) + 0.3 * rng.standard_normal(len(X))
    options = {"features": BinningFeatures(Laplacian(1.0), 10), "alpha": alpha}
    gram = None
    for tol in (1e-1, 1e-2, 1e-3, 1e-4, 1e-8):
        model = regressor(**options, tol=tol).fit(X, y)
        assert model.feature_weights_.dtype == (
            np.float32 if tol >= 1e-2 else np.float64
        )
        if gram is None:
            Z = model.features_.transform(model.encoder_.encode(X, dtype=np.float64))
            mean = np.asarray(Z.mean(axis=0))
            gram = (
                (Z.T @ Z).toarray()
                - len(X) * mean.T @ mean
                + alpha * np.eye(Z.shape[1])
            )
            rhs = Z.T @ (y - y.mean()) / model.target_scale_
            expected = np.linalg.solve(gram, rhs)
        off = model.feature_weights_[:, 0] - expected
        assert np.sqrt(off @ gram @ off / (expected @ gram @ expected)) <= tol
        residual = np.linalg.norm(
            gram @ model.feature_weights_[:, 0] - rhs
        ) / np.linalg.norm(rhs)
        assert model.residual_ == pytest.approx(
            residual, rel=0.05, abs=1e-10 if tol < 1e-2 else 1e-5
        )


class TestEqualInputs:
    @pytest.mark.slow
    @pytest.mark.parametrize("alpha", [1.0, "auto"])
    def test_weights_are_repeats(self, rows, options, alpha):
        """Where alpha is chosen, a few iterations are made with another
        preconditioner: to a tenth of the deviation.
        """
        X, y = rows
        repeats = np.random.default_rng(1).integers(1, 4, 150)
        weighted = regressor(**options, alpha=alpha, tol=1e-9).fit(X, y, repeats)
        repeated = regressor(**options, alpha=alpha, tol=1e-9).fit(
            np.repeat(X, repeats, axis=0), np.repeat(y, repeats)
        )
        assert weighted.alpha_ == pytest.approx(repeated.alpha_)
        bound = 1e-6 if alpha == 1.0 else 0.1
        np.testing.assert_allclose(
            weighted.predict(X), repeated.predict(X), rtol=0, atol=bound * y.std()
        )

    @pytest.mark.parametrize("weighted", [False, True])
    def test_many_repeated_rows_are_those_of_ridge_regression(self, weighted):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((300, 3))[rng.integers(300, size=6000)]
        y, weight = (
            X[:, 0] + rng.standard_normal(6000),
            rng.integers(0, 3, 6000).astype(float) if weighted else None,
        )
        model = regressor(**MACHINES["binning"], alpha=1.0, tol=1e-9).fit(X, y, weight)
        Z = (
            model.features_.transform(model.encoder_.encode(X, dtype=np.float64))
            .toarray()
            .astype(np.float64)
        )
        expected = Ridge(1.0).fit(Z, y, weight).predict(Z)
        np.testing.assert_allclose(
            model.predict(X), expected, rtol=0, atol=1e-5 * y.std()
        )

    @pytest.mark.slow
    @pytest.mark.parametrize("factor", [2.0**-20, 2.0**20])
    def test_a_common_factor_of_the_weights_changes_nothing(
        self, rows, options, plain, factor
    ):
        """Powers of two change no rounding, which could decide between two
        candidates that are equally good.
        """
        X, y = rows
        scaled = regressor(**options, alpha="auto").fit(X, y, np.full(150, factor))
        assert scaled.alpha_ == pytest.approx(factor * plain.alpha_)
        np.testing.assert_allclose(
            scaled.predict(X), plain.predict(X), rtol=0, atol=1e-6
        )

    def test_sparse_rows(self, rows, options):
        X, y = rows
        X = np.where(X > 0.3, X, 0.0)
        model = regressor(**options, alpha=1.0, tol=1e-9).fit(sp.csr_array(X), y)
        if options is MACHINES["fourier"]:
            dense = regressor(**options, alpha=1.0, tol=1e-9).fit(X, y)
            np.testing.assert_allclose(
                model.predict(sp.csr_array(X)), dense.predict(X), rtol=0, atol=1e-6
            )
        coef, intercept = exact.ridge(
            features_of(model, sp.csr_array(X)), y[:, None], model.alpha_
        )
        expected = features_of(model, sp.csr_array(X)) @ coef[:, 0] + intercept
        np.testing.assert_allclose(
            model.predict(sp.csr_array(X)), expected, rtol=0, atol=1e-6
        )

    @pytest.mark.slow
    def test_single_precision_of_the_input(self, rows, options):
        """Small problems are solved in double precision whatever the input is."""
        X, y = rows
        single = X.astype(np.float32)
        model = regressor(**options).fit(single, y)
        expected = regressor(**options).fit(single.astype(float), y)
        np.testing.assert_array_equal(
            model.predict(single), expected.predict(single.astype(float))
        )

    @pytest.mark.slow
    def test_single_precision_of_the_solution(self, rows, options, policy):
        """A condition number of 150 * 9 / 1 leaves three digits of seven, in the
        norm of coefficients.
        """
        X, y = rows
        double = regressor(**options, alpha=1.0, tol=5e-3).fit(X, y)
        policy(double_seconds=0)
        single = regressor(**options, alpha=1.0, tol=5e-3).fit(X, y)
        assert single.feature_weights_.dtype == np.float32
        size = np.linalg.norm(y - y.mean())
        assert np.linalg.norm(single.predict(X) - double.predict(X)) <= 5e-3 * size

    def test_frames_with_text(self, rows, options):
        pd = pytest.importorskip("pandas")
        X, y = rows
        frame = pd.DataFrame(
            {"x": X[:, 0], "which": np.where(X[:, 1] > 0, "up", "down"), "z": X[:, 2]}
        )
        target = 3 * y + 10 * (X[:, 1] > 0)
        model = regressor(**options).fit(frame[:100], target[:100])
        assert model.score(frame[100:], target[100:]) > 0.7
        x, _, z = (X - X[:100].mean(axis=0)).T
        encoded = np.column_stack([x, X[:, 1] <= 0, X[:, 1] > 0, z])
        np.testing.assert_allclose(
            model.encoder_.encode(frame[100:], np.float64), encoded[100:], atol=1e-12
        )

    @pytest.mark.slow
    def test_inputs_are_not_modified(self, rows, options, frozen):
        """Nor are those of `rows`, which are frozen too."""
        X, y, weight = frozen(*rows, np.ones(150))
        regressor(**options, alpha=1.0).fit(X, y, weight).predict(X)
        classifier(**options).fit(X, y > 0, weight).predict_proba(X)

    @pytest.mark.slow
    def test_save_and_load_and_pickle(self, rows, options, tmp_path):
        pd = pytest.importorskip("pandas")
        X, y = rows
        frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
            text=np.where(y > 0, "up", "down")
        )
        for data, machine, target in (
            (X, regressor, y),
            (frame, regressor, y),
            (X, classifier, classes(y, 3)),
        ):
            model = machine(**options).fit(data, target)
            save(model, tmp_path / "model")
            for copy in (load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):  # noqa: S301
                np.testing.assert_array_equal(copy._scores(data), model._scores(data))
                np.testing.assert_array_equal(copy.predict(data), model.predict(data))
                assert copy.n_iter_ == model.n_iter_
                assert copy.residual_ == model.residual_


class TestEdges:
    @pytest.mark.slow
    @pytest.mark.parametrize("n", [1, 2, 3, 5])
    @pytest.mark.parametrize("alpha", ["auto", 1.0])
    def test_few_rows(self, rows, options, n, alpha):
        X, y = rows
        predicted = regressor(**options, alpha=alpha).fit(X[:n], y[:n]).predict(X)
        assert np.isfinite(predicted).all()
        if n == 1:
            np.testing.assert_allclose(predicted, y[0])
        labels = np.array(["a", "b", "a", "c", "b"])[:n]
        probability = (
            classifier(**options, alpha=alpha).fit(X[:n], labels).predict_proba(X)
        )
        np.testing.assert_allclose(probability.sum(axis=1), 1, rtol=1e-12)

    @pytest.mark.parametrize("value", [3.0, 0.0, -1e9])
    def test_constant_target(self, rows, options, value):
        model = regressor(**options).fit(rows[0], np.full(150, value))
        np.testing.assert_allclose(model.predict(rows[0]), value, rtol=1e-12)

    def test_one_class(self, rows, options):
        model = classifier(**options).fit(rows[0], np.full(150, "only"))
        assert set(model.predict(rows[0])) == {"only"}
        np.testing.assert_array_equal(model.predict_proba(rows[0]), 1)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "features", ["binning", "fourier", HYBRID, LEARNED], ids=str
    )
    def test_equal_rows_and_constant_columns(self, rows, features):
        X, y = rows
        options = {"features": features, "solver": "cg"}
        same = regressor(**options).fit(np.ones((20, 2)), y[:20])
        np.testing.assert_allclose(same.predict(np.ones((3, 2))), y[:20].mean())
        wide = np.column_stack([X, np.full(150, 1e6), np.zeros(150)])
        assert regressor(**options).fit(wide, y).score(wide, y) > 0.3
        assert np.isfinite(
            regressor(**options).fit(X[:, :1], y).predict(X[:, :1])
        ).all()
        assert classifier(**options).fit(np.ones((20, 2)), y[:20] > 0).predict_proba(
            np.ones((3, 2))
        ).shape == (3, 2)

    @pytest.mark.slow
    @pytest.mark.parametrize("scale", [2.0**-100, 2.0**100])
    def test_targets_of_any_size(self, rows, options, plain, scale):
        """Powers of two, with which no rounding changes, nor then a choice between
        equals.
        """
        X, y = rows
        found = regressor(**options, alpha="auto").fit(X, scale * y).predict(X)
        np.testing.assert_allclose(found / scale, plain.predict(X), rtol=0, atol=1e-10)

    @pytest.mark.slow
    def test_weights_of_very_different_sizes(self, rows, options):
        X, y = rows
        weight = 10.0 ** np.random.default_rng(0).uniform(-10, 10, 150)
        assert (
            regressor(**options, alpha="auto").fit(X, y, weight).score(X, y, weight)
            > 0.95
        )
        model = regressor(**options, alpha=1e8, tol=1e-10).fit(X, y, weight)
        if (
            options["features"] is not LEARNED
        ):  # whose weights are in the ridge penalties of its maps
            Z = features_of(model, X)
            coef, intercept = exact.ridge(Z, y[:, np.newaxis], 1e8, weight)
            size = np.sqrt(weight @ np.square(y - np.average(y, weights=weight)))
            left = np.sqrt(
                weight @ np.square(model.predict(X) - (Z @ coef + intercept)[:, 0])
            )
            assert left <= 1e-8 * size

    def test_a_single_weighted_row(self, rows, options):
        X, y = rows
        model = regressor(**options).fit(X, y, np.eye(150)[3])
        np.testing.assert_allclose(model.predict(X), y[3])

    @pytest.mark.slow
    @pytest.mark.parametrize("alpha", [1e-12, 1e12])
    @pytest.mark.parametrize("single", [False, True])
    def test_extreme_ridge_terms(self, rows, options, alpha, single, policy):
        X, y = rows
        if single:
            policy(double_seconds=0)
        model = regressor(**options, alpha=alpha).fit(X.astype(np.float32), y)
        assert model.score(X.astype(np.float32), y) > (0.5 if alpha < 1 else -1e-6)

    @pytest.mark.parametrize("size", [1, 2, 2100])
    def test_numbers_of_components(self, rows, size):
        X, y = rows
        X, y = X[:40], y[:40]
        for options in (
            {"features": "binning", "kernel": Laplacian(8.0)},
            {"solver": "cg", "kernel": Gaussian(2.0)},
        ):
            score = (
                regressor(**options, n_components=size, alpha=1.0).fit(X, y).score(X, y)
            )
            assert 0 <= score <= 1

    def test_fifty_classes(self, rows, options):
        X = np.random.default_rng(0).standard_normal((200, 3))
        y = classes(X[:, 0], 50)
        model = classifier(**options).fit(X, y)
        assert model.predict_proba(X).shape == (200, 50)
        # Of the 50 classes in order, the one next to it is as a rule not far.
        assert np.median(np.abs(model.predict(X) - y)) <= 10
