"""The regressor: accuracy, meaning of its parameters, equality of equal inputs."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_diabetes
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge

from bochner import FourierFeatures, KernelMachineRegressor, load, save
from bochner.kernels import Gaussian, Laplacian, Matern

OPTIONS = {"kernel": Gaussian(2.0), "n_components": 60, "alpha": 0.1, "random_state": 0}
# Predictions of two orders of the same sums: 60 features, condition number at most 150
# / 0.1, sizes up to 10.
SAME = {"rtol": 1e-9, "atol": 1e-9}


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(150)


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X[:300], y[:300], X[300:], y[300:]


class TestAccuracy:
    @pytest.mark.slow
    @pytest.mark.parametrize("kernel", ["auto", "laplacian", "matern32"])
    def test_on_diabetes(self, kernel):
        X, y, X_test, y_test = diabetes()
        models = [
            KernelMachineRegressor(kernel, n_components=200, random_state=seed).fit(
                X, y
            )
            for seed in range(2)
        ]
        score = np.mean([model.score(X_test, y_test) for model in models])
        assert score > 0.3  # the mean scores 0
        scale = X.std(axis=0)
        best = max(
            KernelRidge(alpha=alpha, kernel="rbf", gamma=gamma)
            .fit(X / scale, y - y.mean())
            .score(X_test / scale, y_test - y.mean())
            for alpha in (0.1, 1.0, 10.0)
            for gamma in (1e-3, 1e-2, 1e-1)
        )
        # The best of nine chosen on the very test rows; a correlation of 140 rows
        # deviates by about 0.05.
        assert score > best - 0.1

    def test_finds_a_short_lengthscale(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (400, 1))
        y = np.sin(25 * X[:, 0]) + 0.1 * rng.standard_normal(400)
        model = KernelMachineRegressor(random_state=0).fit(X[:300], y[:300])
        assert model.score(X[300:], y[300:]) > 0.95

    def test_of_linear_data_is_linear(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((300, 4))
        y = X @ [1.0, 2.0, 3.0, 4.0] + 0.1 * rng.standard_normal(300)
        model = KernelMachineRegressor(random_state=0).fit(X[:200], y[:200])
        assert model.score(X[200:], y[200:]) > 0.99


class TestMeaning:
    @pytest.mark.parametrize(
        "kernel",
        [Gaussian(2.0), Laplacian([1.0, 4.0, 2.0]), Gaussian(2.0) + 0.5 * Matern(3.0)],
    )
    def test_a_given_kernel_is_taken_literally(self, rows, kernel):
        """The columns are centred on the way; pairs of cosine and sine turn, and
        ridge regression does not see that.
        """
        X, y = rows
        X = X * [1, 10, 0.1] + [0, 5, -3]
        model = KernelMachineRegressor(
            kernel, n_components=60, alpha=0.1, random_state=0
        ).fit(X, y)
        assert model.kernel_ == kernel
        features = FourierFeatures(kernel, 60, random_state=0).fit(X)
        features.frequencies_, features.amplitudes_ = (
            model.features_.frequencies_,
            model.features_.amplitudes_,
        )
        ridge = Ridge(0.1).fit(features.transform(X), y)
        np.testing.assert_allclose(
            model.predict(X), ridge.predict(features.transform(X)), **SAME
        )

    def test_approaches_kernel_ridge(self, rows):
        """The distance from the exact solution falls as 1 / sqrt(D).

        A root mean square over 40 rows and 6 seeds deviates by 10 % or so, the ratio of
        two by 15 %: a factor of sqrt(8) = 2.8 between 200 and 1600 features is within
        1.9 and 3.8. Features at 4000 follow, within a factor 2.
        """
        X, y = rows
        X, y, X_test = X[:110], y[:110], X[110:]
        kernel, alpha = Gaussian(2.0), 0.1
        n, centre = len(X), np.eye(len(X)) - 1 / len(X)
        K, K_test = kernel(X), kernel(X_test, X)
        dual = np.linalg.solve(centre @ K @ centre + alpha * np.eye(n), y - y.mean())
        exact = (K_test - K.mean(axis=0)) @ centre @ dual + y.mean()
        theirs = KernelRidge(alpha=alpha, kernel="precomputed").fit(
            centre @ K @ centre, y - y.mean()
        )
        np.testing.assert_allclose(theirs.dual_coef_, dual, rtol=1e-8)

        def error(D, seed):
            features = FourierFeatures(kernel, D, sampling="orthogonal")
            model = KernelMachineRegressor(
                features=features, alpha=alpha, random_state=seed
            ).fit(X, y)
            return np.sqrt(np.mean((model.predict(X_test) - exact) ** 2))

        few, many = (
            np.mean([error(D, seed) for seed in range(6)]) for D in (200, 1600)
        )
        assert 1.9 <= few / many <= 3.8
        assert error(4000, 0) <= 2 * many * np.sqrt(1600 / 4000)

    def test_named_kernels_see_standardised_columns(self, rows):
        """Units and origins of the columns do not matter, here where each way they
        are too unequal to be kept.
        """
        X, y = rows
        units = np.array([1.0, 300.0, 0.002])
        one = KernelMachineRegressor("gaussian", n_components=60, random_state=0).fit(
            X * units, y
        )
        other = KernelMachineRegressor("gaussian", n_components=60, random_state=0).fit(
            X * units[::-1] * 7 + [4, 0, -2], y
        )
        np.testing.assert_allclose(
            one.predict(X * units),
            other.predict(X * units[::-1] * 7 + [4, 0, -2]),
            rtol=1e-6,
            atol=1e-6,
        )
        assert one.alpha_ == pytest.approx(other.alpha_)

    def test_targets_move_and_scale(self, rows):
        X, y = rows
        for options in (OPTIONS, {"n_components": 60, "random_state": 0}):
            model = KernelMachineRegressor(**options).fit(X, y)
            moved = KernelMachineRegressor(**options).fit(X, 1000 * y - 50)
            np.testing.assert_allclose(
                moved.predict(X), 1000 * model.predict(X) - 50, rtol=1e-7, atol=1e-5
            )

    @pytest.mark.parametrize(
        "alpha",
        [0.5, 1, np.float32(0.5), [0.1, 1.0, 10.0], (10.0, 0.1), "auto", "loo", "gcv"],
    )
    def test_alpha(self, rows, alpha):
        X, y = rows
        model = KernelMachineRegressor(**OPTIONS | {"alpha": alpha}).fit(X, y)
        assert model.alpha_ in model.alphas_
        if np.ndim(alpha) == 0 and not isinstance(alpha, str):
            assert model.alpha_ == alpha
            assert model.alpha_scores_ is None
        else:
            assert model.alpha_ == model.alphas_[model.alpha_scores_.argmin()]
            assert np.all(np.diff(model.alphas_) > 0)
        if isinstance(alpha, list | tuple):
            np.testing.assert_array_equal(model.alphas_, sorted(alpha))
        given = KernelMachineRegressor(**OPTIONS | {"alpha": model.alpha_}).fit(X, y)
        np.testing.assert_allclose(model.predict(X), given.predict(X), **SAME)

    def test_repeated_alphas_count_once(self, rows):
        X, y = rows
        model = KernelMachineRegressor(**OPTIONS | {"alpha": [1.0, 1.0]}).fit(X, y)
        assert model.alpha_ == 1.0

    def test_the_score_is_the_leave_one_out_error(self, rows):
        X, y = rows
        model = KernelMachineRegressor(**OPTIONS | {"alpha": [0.1, 1.0]}).fit(X, y)
        Z = model.features_.transform(model.encoder_.encode(X, np.float64))
        errors = []
        for i in range(len(y)):
            left = np.arange(len(y)) != i
            errors.append(
                (Ridge(0.1).fit(Z[left], y[left]).predict(Z[i : i + 1])[0] - y[i]) ** 2
            )
        np.testing.assert_allclose(
            model.alpha_scores_[0], np.mean(errors) / y.var(), rtol=1e-7
        )

    def test_same_seed_same_model(self, rows):
        X, y = rows
        one, two = (
            KernelMachineRegressor(random_state=3, n_components=60).fit(X, y)
            for _ in range(2)
        )
        np.testing.assert_array_equal(one.predict(X), two.predict(X))
        other = KernelMachineRegressor(random_state=4, n_components=60).fit(X, y)
        assert np.any(other.predict(X) != one.predict(X))

    def test_number_of_features(self, rows):
        X, y = rows
        assert KernelMachineRegressor(OPTIONS["kernel"], alpha=1.0).fit(
            X, y
        ).feature_weights_.shape == (512, 1)
        assert KernelMachineRegressor(**OPTIONS | {"n_components": np.int64(7)}).fit(
            X, y
        ).feature_weights_.shape == (
            7,
            1,
        )

    def test_single_precision_is_near(self, rows, policy):
        """Large problems are computed in single precision: an error of 1e-7 times
        condition 150 / 0.1, and sums.
        """
        X, y = rows
        double = KernelMachineRegressor(**OPTIONS).fit(X, y)
        policy(double_seconds=0)
        single = KernelMachineRegressor(**OPTIONS).fit(X, y)
        assert single.feature_weights_.dtype == np.float32
        assert np.abs(single.predict(X) - double.predict(X)).max() <= 60 * 6e-8 * 1500

    def test_scores_on_a_sample_of_the_rows(self, rows, monkeypatch):
        X, y = rows
        whole = KernelMachineRegressor(**OPTIONS | {"alpha": "auto"}).fit(X, y)
        monkeypatch.setattr("bochner.estimators.ridge.direct.SAMPLE_ROWS", 100)
        some = KernelMachineRegressor(**OPTIONS | {"alpha": "auto"}).fit(X, y)
        every = KernelMachineRegressor(**OPTIONS | {"alpha": "loo"}).fit(X, y)
        np.testing.assert_array_equal(every.alpha_scores_, whole.alpha_scores_)
        assert np.all(some.alpha_scores_ != whole.alpha_scores_)
        # Of 150 squared errors of relative deviation about 1.5, 100 are drawn: 1.5
        # sqrt(1/100 - 1/150) = 9 %.
        np.testing.assert_allclose(
            some.alpha_scores_, whole.alpha_scores_, rtol=5 * 0.09
        )


class TestEqualInputs:
    def test_weights_are_repeats(self, rows):
        X, y = rows
        repeats = np.random.default_rng(1).integers(0, 4, len(y))
        for options in (OPTIONS, {"n_components": 60, "random_state": 0}):
            weighted = KernelMachineRegressor(**options).fit(X, y, repeats)
            repeated = KernelMachineRegressor(**options).fit(
                np.repeat(X, repeats, axis=0), np.repeat(y, repeats)
            )
            np.testing.assert_allclose(
                weighted.predict(X), repeated.predict(X), rtol=1e-6, atol=1e-6
            )
            assert weighted.alpha_ == pytest.approx(repeated.alpha_)

    def test_number_of_features_counts_weights_as_rows(self, rows):
        X, y = rows
        assert KernelMachineRegressor(Gaussian(), alpha=1.0).fit(
            X, y, np.full(150, 3)
        ).feature_weights_.shape == (
            900,
            1,
        )
        assert KernelMachineRegressor(Gaussian(), alpha=1.0).fit(
            X, y, np.full(150, 3.5)
        ).feature_weights_.shape == (
            512,
            1,
        )

    def test_equal_weights_of_one_are_none(self, rows):
        X, y = rows
        plain = KernelMachineRegressor(**OPTIONS).fit(X, y)
        np.testing.assert_allclose(
            KernelMachineRegressor(**OPTIONS).fit(X, y, np.ones(150)).predict(X),
            plain.predict(X),
            **SAME,
        )

    def test_outputs_are_fitted_each_for_itself(self, rows):
        X, y = rows
        Y = np.column_stack([y, 100 * X[:, 0] - 7, np.full(150, 2.5)])
        model = KernelMachineRegressor(**OPTIONS).fit(X, Y)
        assert model.predict(X).shape == (150, 3)
        for k in range(3):
            single = KernelMachineRegressor(**OPTIONS).fit(X, Y[:, k])
            np.testing.assert_allclose(
                model.predict(X)[:, k], single.predict(X), rtol=1e-9, atol=1e-7
            )
        one = KernelMachineRegressor(**OPTIONS).fit(X, y[:, None])
        assert one.predict(X).shape == (150, 1)
        np.testing.assert_allclose(one.predict(X)[:, 0], model.predict(X)[:, 0], **SAME)

    @pytest.mark.parametrize(
        "kind", ["csr_array", "csr_matrix", "csc_array", "coo_matrix"]
    )
    def test_sparse_is_dense(self, rows, kind):
        X, y = rows
        X = np.where(X > 0.5, X, 0.0)
        dense = KernelMachineRegressor(**OPTIONS).fit(X, y)
        model = KernelMachineRegressor(**OPTIONS).fit(getattr(sp, kind)(X), y)
        np.testing.assert_allclose(
            model.predict(getattr(sp, kind)(X)), dense.predict(X), **SAME
        )

    def test_sparse_is_dense_where_all_is_chosen(self, rows):
        X, y = rows
        X = np.where(X > 0.5, X, 0.0)
        options = {"n_components": 60, "random_state": 0}
        dense = KernelMachineRegressor(**options).fit(X, y)
        sparse = KernelMachineRegressor(**options).fit(sp.csr_array(X), y)
        np.testing.assert_allclose(
            sparse.predict(sp.csr_array(X)), dense.predict(X), rtol=1e-6, atol=1e-6
        )

    @pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
    def test_frames_are_arrays(self, rows, library):
        module = pytest.importorskip(library)
        X, y = rows
        columns = dict(zip("abc", X.T, strict=True))
        frame = (
            module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
        )
        plain = KernelMachineRegressor(**OPTIONS).fit(X, y)
        model = KernelMachineRegressor(**OPTIONS).fit(frame, y)
        np.testing.assert_allclose(model.predict(frame), plain.predict(X), **SAME)
        assert list(model.feature_names_in_) == ["a", "b", "c"]
        if library == "pandas":
            series = KernelMachineRegressor(**OPTIONS).fit(
                frame, module.Series(y, index=range(1, 151))
            )
            np.testing.assert_array_equal(series.predict(frame), model.predict(frame))

    def test_frames_with_text_and_gaps(self, rows):
        pd = pytest.importorskip("pandas")
        X, y = rows
        frame = pd.DataFrame(
            {
                "x": X[:, 0],
                "which": np.where(X[:, 1] > 0, "up", "down"),
                "flag": X[:, 2] > 0,
            }
        )
        frame.loc[::7, "x"] = None
        target = y + 3 * (X[:, 1] > 0)
        model = KernelMachineRegressor(n_components=100, random_state=0).fit(
            frame[:100], target[:100]
        )
        assert model.score(frame[100:], target[100:]) > 0.5
        new = pd.DataFrame({"x": [None], "which": ["sideways"], "flag": [True]})
        with pytest.warns(
            UserWarning,
            match="'which': 1 of 1 values are levels that the fit did not see",
        ):
            assert np.isfinite(model.predict(new)).all()

    @pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.uint8, bool])
    def test_numbers_of_any_kind(self, rows, kind):
        X, y = rows
        X = (4 * np.abs(X)).astype(np.int64).astype(kind)
        expected = (
            KernelMachineRegressor(**OPTIONS)
            .fit(X.astype(float), y)
            .predict(X.astype(float))
        )
        np.testing.assert_allclose(
            KernelMachineRegressor(**OPTIONS).fit(X, y).predict(X), expected, **SAME
        )
        np.testing.assert_allclose(
            KernelMachineRegressor(**OPTIONS).fit(X.tolist(), y.tolist()).predict(X),
            expected,
            **SAME,
        )

    def test_row_by_row(self, rows):
        X, y = rows
        model = KernelMachineRegressor(**OPTIONS).fit(X, y)
        np.testing.assert_allclose(
            [model.predict(x[None])[0] for x in X[:20]], model.predict(X)[:20], **SAME
        )

    def test_inputs_are_not_modified(self, rows, frozen):
        X, y = frozen(*rows)
        weight = frozen(np.ones(150))
        for options in (OPTIONS, {"n_components": 30, "random_state": 0}):
            KernelMachineRegressor(**options).fit(X, y, weight).predict(X)
            KernelMachineRegressor(**options).fit(np.asfortranarray(X), y).predict(
                np.asfortranarray(X)
            )
        sparse = sp.csr_array(X)
        for array in (sparse.data, sparse.indices, sparse.indptr):
            array.flags.writeable = False
        KernelMachineRegressor(**OPTIONS).fit(sparse, y).predict(sparse)

    def test_the_kernel_and_the_class_are_left_alone(self, rows):
        X, y = rows
        kernel = Gaussian(2.0)
        model = KernelMachineRegressor(**OPTIONS | {"kernel": kernel})
        model.set_params(kernel__lengthscale=0.5).fit(X, y)
        assert kernel == Gaussian(2.0)
        assert model.kernel_ == Gaussian(0.5)

    def test_save_and_load(self, rows, tmp_path):
        pd = pytest.importorskip("pandas")
        X, y = rows
        frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
            text=np.where(y > 0, "up", "down")
        )
        for data, options in (
            (X, OPTIONS),
            (frame, {"n_components": 30, "random_state": 0}),
        ):
            model = KernelMachineRegressor(**options).fit(data, y)
            save(model, tmp_path / "model.safetensors")
            copy = load(tmp_path / "model.safetensors")
            np.testing.assert_array_equal(copy.predict(data), model.predict(data))
            assert copy.get_params().keys() == model.get_params().keys()


class TestEdges:
    def test_constant_target(self, rows):
        X, _ = rows
        for value in (3.0, 0.0, -1e9):
            model = KernelMachineRegressor(n_components=30, random_state=0).fit(
                X, np.full(150, value)
            )
            np.testing.assert_allclose(model.predict(X), value, rtol=1e-12)

    @pytest.mark.parametrize("n", [1, 2, 3, 5])
    @pytest.mark.parametrize("alpha", ["auto", "gcv", 1.0])
    def test_few_rows(self, rows, n, alpha):
        X, y = rows
        model = KernelMachineRegressor(alpha=alpha, random_state=0).fit(X[:n], y[:n])
        predicted = model.predict(X)
        assert np.isfinite(predicted).all()
        if n == 1:
            np.testing.assert_allclose(predicted, y[0])

    def test_duplicate_rows(self, rows):
        X, y = rows
        same = KernelMachineRegressor(n_components=30, random_state=0).fit(
            np.ones((20, 2)), y[:20]
        )
        np.testing.assert_allclose(same.predict(np.ones((3, 2))), y[:20].mean())
        twice = KernelMachineRegressor(n_components=100, random_state=0).fit(
            np.tile(X, (2, 1)), np.tile(y, 2)
        )
        assert np.isfinite(twice.predict(X)).all()

    def test_constant_columns(self, rows):
        X, y = rows
        wide = np.column_stack([X, np.full(150, 1e6), np.zeros(150)])
        plain = KernelMachineRegressor("gaussian", n_components=60, random_state=0).fit(
            X, y
        )
        model = KernelMachineRegressor("gaussian", n_components=60, random_state=0).fit(
            wide, y
        )
        assert model.score(wide, y) > plain.score(X, y) - 0.2
        constant = KernelMachineRegressor(n_components=30, random_state=0).fit(
            wide[:, 3:], y
        )
        np.testing.assert_allclose(constant.predict(wide[:, 3:]), y.mean())

    def test_columns_far_from_zero(self, rows):
        """The encoder centres in double precision, so that an origin far away costs
        nothing but its own digits.
        """
        X, y = rows
        near = KernelMachineRegressor(**OPTIONS).fit(X, y)
        far = KernelMachineRegressor(**OPTIONS).fit(X + 2.0**20, y)
        # Rows rounded to 2^-33, times frequencies of size 1 and coefficients that add
        # up to less than 100.
        np.testing.assert_allclose(
            far.predict(X + 2.0**20), near.predict(X), atol=100 * 3 * 2.0**-32
        )

    def test_verbose_without_a_terminal_is_silent(self, rows, capfd):
        X, y = rows
        KernelMachineRegressor(**OPTIONS | {"verbose": 1}).fit(X, y)
        assert capfd.readouterr() == ("", "")
