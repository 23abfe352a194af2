"""Kernels of linear combinations of the columns, and kernels of draws of their
frequencies.
"""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import rbf_kernel

from bochner import BinningFeatures, FourierFeatures, KernelMachineRegressor, save
from bochner.display import SpectrumDisplay
from bochner.kernels import (
    FromSpectrum,
    Gabor,
    Gaussian,
    Hamming,
    Laplacian,
    Linear,
    Matern,
    Periodic,
    Subspace,
)
from bochner.theory import kernel_error, required_components, spectral_variance

A = np.array([[0.5, -0.3, 0.1], [0.0, 0.2, 0.4]])


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def gaussian(size, d, rng):
    return rng.standard_normal((size, d))


def rbf(X, Y):
    return rbf_kernel(X, Y, gamma=0.5)


def on_a_sphere(size, d, rng):
    w = rng.standard_normal((size, d))
    return w / np.linalg.norm(w, axis=1, keepdims=True)


def one_sided(size, d, rng):
    return rng.exponential(size=(size, d))


class TestLinear:
    def test_mahalanobis(self):
        X, Y = normal(7, 3), normal(5, 3, seed=1)
        expected = np.exp(-0.5 * cdist(X, Y, "mahalanobis", VI=A.T @ A) ** 2)
        np.testing.assert_allclose(Linear(Gaussian(), A)(X, Y), expected, rtol=1e-12)

    def test_a_diagonal_is_lengthscales(self):
        X, scale = normal(7, 3), np.array([0.5, 1.0, 2.0])
        for kernel in (Gaussian, Laplacian, Matern):
            np.testing.assert_allclose(
                Linear(kernel(), np.diag(1 / scale))(X), kernel(scale)(X), rtol=1e-12
            )

    def test_nested(self):
        X, B = normal(6, 4), normal(3, 4, seed=2)
        np.testing.assert_allclose(
            Linear(Linear(Matern(), A), B)(X), Linear(Matern(), A @ B)(X), rtol=1e-12
        )
        inside = Linear(
            Subspace(Gaussian(), [1]) * Subspace(Laplacian(2.0), [0]), A[:, :2]
        )
        outside = Linear(Gaussian(), A[1:, :2]) * Linear(Laplacian(2.0), A[:1, :2])
        np.testing.assert_allclose(inside(X[:, :2]), outside(X[:, :2]), rtol=1e-12)
        np.testing.assert_allclose(
            Subspace(inside, [3, 1])(X), inside(X[:, [3, 1]]), rtol=1e-12
        )

    @pytest.mark.parametrize(
        "sampling", ["auto", "iid", "orthogonal", "qmc", "leverage"]
    )
    @pytest.mark.parametrize(
        "kernel",
        [
            Gaussian(1.5),
            Laplacian([1.0, 2.0]),
            Gabor(1.0, [0.1, 0.3]),
            Subspace(Matern(), [1]),
        ],
        ids=repr,
    )
    def test_features_are_those_of_the_combinations(self, kernel, sampling):
        X = normal(40, 3)
        options = {"n_components": 30, "sampling": sampling, "random_state": 3}
        Z = FourierFeatures(Linear(kernel, A), **options).fit_transform(X)
        np.testing.assert_allclose(
            Z, FourierFeatures(kernel, **options).fit_transform(X @ A.T), atol=1e-9
        )

    @pytest.mark.parametrize("sampling", ["auto", "structured", "qmc"])
    def test_nested_features_are_unbiased(self, sampling):
        """By z-score over seeds, of kernels that look at combinations of columns and
        of combinations.
        """
        X = normal(6, 12)
        kernel = Subspace(
            Linear(Gaussian() * Matern(2.0), normal(10, 11, seed=1) / 4), range(1, 12)
        )
        values = []
        for seed in range(150):
            Z = FourierFeatures(
                kernel, 20, sampling=sampling, random_state=seed
            ).fit_transform(X)
            values.append((Z @ Z.T)[np.triu_indices(6, 1)])
        z = (np.mean(values, axis=0) - kernel(X)[np.triu_indices(6, 1)]) / (
            np.std(values, axis=0) / np.sqrt(150)
        )
        assert np.abs(z).max() < 4.5

    @pytest.mark.parametrize(
        "kernel",
        [
            Gaussian(1.5),
            Gabor(1.0, [0.1, 0.3]),
            Periodic(1.0, 3.0),
            Matern(nu=2.5) * Gaussian(),
        ],
        ids=repr,
    )
    def test_spectral_variance_is_the_curvature(self, kernel):
        linear, h = Linear(kernel, A), 1e-3
        curvature = sum(
            2 * (1 - linear([[0.0] * 3], [h * e])[0, 0]) / h**2 for e in np.eye(3)
        )
        assert spectral_variance(linear, 3) == pytest.approx(curvature, rel=1e-4)

    def test_infinite_spectral_variance(self):
        with pytest.raises(ValueError, match="no finite variance"):
            spectral_variance(Linear(Laplacian(), A), 3)
        ((_, (leaf,)),) = Linear(Subspace(Laplacian(), [0]), np.eye(3)[:2]).terms()
        np.testing.assert_array_equal(leaf.second_moments(3), [np.inf, 0, 0])

    def test_estimator(self):
        X = normal(400, 3)
        y = np.sin(3 * X @ A[0])
        one = KernelMachineRegressor(
            Linear(Gaussian(0.5), A), n_components=100, alpha=0.01, random_state=0
        ).fit(X, y)
        other = KernelMachineRegressor(
            Gaussian(0.5), n_components=100, alpha=0.01, random_state=0
        ).fit(X @ A.T, y)
        new = normal(50, 3, seed=1)
        np.testing.assert_allclose(
            one.predict(new), other.predict(new @ A.T), atol=1e-8
        )
        few = KernelMachineRegressor(
            Linear(Gaussian(0.5), A), n_components=100, alpha=0.01, random_state=0
        )
        np.testing.assert_allclose(
            few.fit(sp.csr_array(X), y).predict(sp.csr_array(new)),
            one.predict(new),
            atol=1e-2,
        )
        assert one.metric_ is None

    def test_codes_are_checked_after_the_map(self):
        kernel = Linear(Hamming(), [[1.0, 1.0]])
        FourierFeatures(kernel, 10).fit(np.array([[0.0, 1.0], [0.5, 0.5], [2.5, 0.5]]))
        with pytest.raises(ValueError, match="whole numbers"):
            FourierFeatures(kernel, 10).fit(np.array([[0.0, 1.0], [0.5, 0.0]]))

    @pytest.mark.parametrize(
        ("make", "error", "match"),
        [
            (
                lambda: Linear("gaussian", A),
                TypeError,
                "kernel must be a bochner kernel",
            ),
            (lambda: Linear(Gaussian(), [1.0, 2.0]), TypeError, "matrix of numbers"),
            (lambda: Linear(Gaussian(), [["a"]]), TypeError, "matrix of numbers"),
            (
                lambda: Linear(Gaussian(), [[1.0, 2.0], [3.0]]),
                TypeError,
                "matrix of numbers",
            ),
            (lambda: Linear(Gaussian(), [[np.nan]]), ValueError, "finite"),
            (lambda: Linear(Gaussian(), np.empty((0, 3))), ValueError, "not empty"),
            (
                lambda: Linear(Gaussian([1.0, 2.0, 3.0]), A),
                ValueError,
                "matrix has 2 rows.*3 lengthscales",
            ),
            (
                lambda: Linear(Gaussian(), A)(np.eye(2)),
                ValueError,
                "maps 3 features by its matrix.* have 2",
            ),
            (
                lambda: FourierFeatures(Linear(Gaussian(), A), 10).fit(np.eye(2)),
                ValueError,
                "maps 3 features",
            ),
            (
                lambda: BinningFeatures(Linear(Laplacian(), A), 10).fit(np.eye(3)),
                ValueError,
                "X @ matrix.T",
            ),
        ],
    )
    def test_refuses(self, make, error, match):
        with pytest.raises(error, match=match):
            make()


class TestFromSpectrum:
    def test_estimates_of_known_kernels(self):
        """32,768 draws: deviations of 0.0055 at most, sqrt((1 + k(2 d)) / 2 -
        k(d)^2) / sqrt(32,768).
        """
        X, Y = normal(20, 3), normal(15, 3, seed=1)
        r = cdist(X, Y)
        for sampler, expected in (
            (gaussian, np.exp(-0.5 * r**2)),
            (on_a_sphere, np.sin(r) / r),
        ):
            assert np.abs(FromSpectrum(sampler)(X, Y) - expected).max() < 4.5 * 0.0055

    def test_a_law_on_one_side(self):
        t = np.linspace(-3, 3, 13)[:, np.newaxis]
        np.testing.assert_allclose(
            FromSpectrum(one_sided)(t, [[0.0]])[:, 0], 1 / (1 + t[:, 0] ** 2), atol=0.02
        )

    def test_exact_values_and_lengthscales(self):
        X, Y, scale = normal(6, 2), normal(5, 2, seed=1), [0.5, 2.0]
        np.testing.assert_array_equal(
            FromSpectrum(gaussian, rbf, scale)(X, Y), rbf(X / scale, Y / scale)
        )
        np.testing.assert_allclose(
            FromSpectrum(gaussian, None, scale)(X, Y), Gaussian(scale)(X, Y), atol=0.025
        )

    @pytest.mark.parametrize("sampling", ["auto", "iid"])
    def test_features_are_unbiased(self, sampling):
        X, kernel = normal(6, 2), FromSpectrum(gaussian, rbf, 1.3)
        values = []
        for seed in range(200):
            Z = FourierFeatures(
                kernel * Gaussian(2.0), 20, sampling=sampling, random_state=seed
            ).fit_transform(X)
            values.append((Z @ Z.T)[np.triu_indices(6, 1)])
        exact = (kernel * Gaussian(2.0))(X)[np.triu_indices(6, 1)]
        z = (np.mean(values, axis=0) - exact) / (np.std(values, axis=0) / np.sqrt(200))
        assert np.abs(z).max() < 4.5
        assert len(np.unique(np.round(values, 12), axis=0)) == 200

    def test_a_seed_gives_one_map(self):
        maps = [
            FourierFeatures(FromSpectrum(gaussian), 50, random_state=s).fit(np.eye(3))
            for s in (0, 0, 1)
        ]
        np.testing.assert_array_equal(maps[0].frequencies_, maps[1].frequencies_)
        assert not np.isin(maps[0].frequencies_, maps[2].frequencies_).any()

    @pytest.mark.slow
    def test_serves_everywhere(self):
        X, kernel = normal(300, 2), FromSpectrum(gaussian)
        model = KernelMachineRegressor(kernel, n_components=200, random_state=0).fit(
            X, np.sin(X[:, 0])
        )
        assert model.score(X, np.sin(X[:, 0])) > 0.99
        error = kernel_error(
            FourierFeatures(kernel, 400, random_state=0).fit(X),
            X[:50],
            n_pairs=100,
            random_state=0,
        )
        expected = np.sqrt(np.mean([group.expected**2 for group in error.groups]))
        assert 0.5 < error.root_mean_square / expected < 2
        display = SpectrumDisplay.from_estimator(
            FourierFeatures(kernel, 50, random_state=0).fit(X)
        )
        assert display.density.max() == pytest.approx(1 / np.sqrt(2 * np.pi), rel=0.1)
        leverage = FourierFeatures(kernel, 20, sampling="leverage", random_state=0).fit(
            X
        )
        assert np.isfinite(leverage.transform(X)).all()
        far = FourierFeatures(
            FromSpectrum(lambda n, d, rng: np.full((n, d), 1e6)), 4
        ).fit(X)
        np.testing.assert_array_equal(far.frequencies_, 1e6)

    def test_copies(self):
        kernel = FromSpectrum(gaussian, rbf, [1.0, 2.0])
        assert pickle.loads(pickle.dumps(kernel)) == kernel != FromSpectrum(gaussian)  # noqa: S301
        assert (
            repr(kernel)
            == "FromSpectrum(sampler=gaussian, exact=rbf, lengthscale=[1.0, 2.0])"
        )

    @pytest.mark.parametrize(
        ("make", "error", "match"),
        [
            (lambda: FromSpectrum(3), TypeError, "sampler must be a function"),
            (lambda: FromSpectrum(gaussian, 3), TypeError, "exact must be a function"),
            (lambda: FromSpectrum(gaussian, lengthscale=0.0), ValueError, "positive"),
            (
                lambda: FromSpectrum(lambda n, d, rng: np.ones(n))([[0.0]]),
                TypeError,
                r"sampler .* shape \(32768, 1\)",
            ),
            (
                lambda: FromSpectrum(lambda n, d, rng: np.full((n, d), np.nan))(
                    [[0.0]]
                ),
                ValueError,
                "sampler .* finite",
            ),
            (
                lambda: FromSpectrum(gaussian, lambda X, Y: X)([[0.0]], [[0.0], [1.0]]),
                TypeError,
                r"exact .*\(1, 2\)",
            ),
            (
                lambda: FourierFeatures(FromSpectrum(gaussian), 10, sampling="qmc").fit(
                    np.eye(2)
                ),
                ValueError,
                "'iid'",
            ),
            (
                lambda: FourierFeatures(
                    FromSpectrum(gaussian), 10, sampling="structured"
                ).fit(np.eye(2)),
                ValueError,
                "use sampling='iid'",
            ),
            (
                lambda: BinningFeatures(FromSpectrum(gaussian), 10).fit(np.eye(2)),
                ValueError,
                "pitches are not known",
            ),
            (
                lambda: required_components(
                    0.1, 0.1, FromSpectrum(gaussian), np.eye(2)
                ),
                ValueError,
                "can only be drawn",
            ),
        ],
    )
    def test_refuses(self, make, error, match):
        with pytest.raises(error, match=match):
            make()

    def test_is_not_saved(self, tmp_path):
        with pytest.raises(
            TypeError, match="kernel is a FromSpectrum, which cannot be saved"
        ):
            save(
                FourierFeatures(FromSpectrum(gaussian), 10).fit(np.eye(2)),
                tmp_path / "map",
            )
