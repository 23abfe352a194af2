"""Schemes of sampling: their errors against independent draws, and the fast
transform of structured ones.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from scipy.linalg import hadamard
from sklearn.kernel_approximation import RBFSampler

from bochner import FourierFeatures, load, save
from bochner.features.sampling import normal_vectors, unit_frequencies
from bochner.features.structured import HAAR, SignedHadamard, cheaper, padded
from bochner.kernels import (
    Gabor,
    Gaussian,
    Hamming,
    Laplacian,
    Matern,
    Periodic,
    PowerExponential,
    Subspace,
)
from bochner.loops.trig import LANES, project

SEEDS = 50
EPS = np.finfo(float).eps


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def error(Z, K):
    """Root mean square error over pairs of different rows."""
    return np.sqrt(((Z @ Z.T - K)[np.triu_indices(len(K), 1)] ** 2).mean())


@pytest.fixture(scope="module")
def errors():
    """Gaussian, lengthscale 4, 16 columns, D = 256, standard normal rows; 50 seeds."""
    X = normal(150, 16)
    K = Gaussian(4.0)(X)
    maps = {
        sampling: lambda seed, sampling=sampling: FourierFeatures(
            Gaussian(4.0), 256, sampling=sampling, random_state=seed
        )
        for sampling in ("iid", "orthogonal", "structured", "qmc", "leverage")
    }
    maps["RBFSampler"] = lambda seed: RBFSampler(
        gamma=1 / 32, n_components=256, random_state=seed
    )
    return {
        name: np.array([error(make(seed).fit_transform(X), K) for seed in range(SEEDS)])
        for name, make in maps.items()
    }


class TestErrors:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("sampling", "ratio"),
        [("orthogonal", 0.62), ("structured", 0.72), ("qmc", 0.72)],
    )
    def test_are_smaller(self, errors, sampling, ratio):
        assert errors[sampling].mean() <= ratio * errors["iid"].mean()

    @pytest.mark.parametrize(
        "sampling", ["iid", "orthogonal", "structured", "qmc", "leverage"]
    )
    def test_are_below_those_of_scikit_learn(self, errors, sampling):
        gain = errors["RBFSampler"] - errors[sampling]
        assert gain.mean() > 0
        if sampling != "leverage":
            assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(SEEDS)


def test_matern_of_ten_columns():
    """50,000 features, all pairs of 300 rows: far rows have the deviation sqrt(1 /
    D) = 0.0045 at most.
    """
    X = normal(300, 10)
    kernel = Matern(4.0, nu=1.5)
    Z = FourierFeatures(kernel, 50_000, random_state=0).fit_transform(X)
    assert np.abs(Z @ Z.T - kernel(X)).max() <= 0.015


class TestFewColumns:
    """Sobol points are taken unasked, unbiased as every scheme, and with far smaller
    errors.
    """

    @pytest.mark.parametrize(
        ("d", "kernel", "ratio"),
        [
            (1, Gaussian(1.0), 0.25),
            (3, Gaussian(1.7), 0.45),
            (5, Gaussian(2.2), 0.6),
            (1, Laplacian(1.0), 0.5),
            (4, Laplacian(4.0), 0.8),
            (2, Matern(1.4, nu=1.5), 0.6),
            (3, Subspace(Matern(1.0), [0]) * Subspace(Gaussian(2.0), [1, 2]), 0.75),
        ],
    )
    def test_errors(self, d, kernel, ratio):
        """Mean squares of 30 seeds, of 300 features; the means of the estimates by
        their z-scores.
        """
        X = normal(60, d)
        K = kernel(X)
        found = {}
        for sampling in ("iid", "orthogonal", "auto"):
            maps = [
                FourierFeatures(kernel, 300, sampling=sampling, random_state=seed).fit(
                    X
                )
                for seed in range(30)
            ]
            found[sampling] = np.array(
                [Z @ Z.T - K for Z in (one.transform(X) for one in maps)]
            )
        squares = {name: np.sqrt((errors**2).mean()) for name, errors in found.items()}
        assert squares["auto"] <= ratio * squares["iid"]
        assert squares["auto"] < squares["orthogonal"]
        off = np.triu_indices(60, 1)
        errors = found["auto"][:, off[0], off[1]]
        z = errors.mean(axis=0) / (errors.std(axis=0, ddof=1) / np.sqrt(30))
        assert (
            np.abs(z).max() <= 7
        )  # Student's law of 29 degrees, of 1,770 pairs that are not independent
        assert abs(z.mean()) <= 1

    def test_where_they_are_taken(self):
        def taken(kernel, d, n_components):
            auto, qmc = (
                FourierFeatures(kernel, n_components, sampling=sampling, random_state=0)
                .draw(d)
                .frequencies_
                for sampling in ("auto", "qmc")
            )
            return np.array_equal(auto, qmc)

        assert all(taken(Gaussian(), d, 10) for d in (1, 3, 5))
        assert not taken(Gaussian(), 6, 500)
        assert taken(Gaussian(), 6, 600)
        assert taken(Matern(), 10, 1000)
        assert not taken(Matern(), 11, 100_000)
        assert taken(Subspace(Gaussian(), [0, 7]), 50, 20)
        assert not taken(Gaussian() * Gaussian(), 4, 20)


@pytest.mark.parametrize(("d", "size"), [(1, 7), (3, 10), (5, 4), (40, 90)])
def test_groups_of_orthogonal_vectors(d, size):
    """All whole groups at once, and what is left."""
    W = normal_vectors(d, size, "orthogonal", np.random.default_rng(0))
    for start in range(0, size, d):
        group = W[:, start : start + d]
        group = group / np.linalg.norm(group, axis=0)
        np.testing.assert_allclose(
            group.T @ group, np.eye(group.shape[1]), rtol=0, atol=1e-12
        )


class TestQuasiMonteCarlo:
    @pytest.mark.parametrize(
        ("kernel", "law"),
        [
            (Laplacian(), stats.cauchy.cdf),
            (Gaussian(), stats.norm.cdf),
            (Matern(nu=1.5), None),
        ],
    )
    def test_marginals_are_far_more_even_than_independent_ones(self, kernel, law):
        """Sup distances of 4,096 points from their law: about .85 / 64 = .013 if
        independent, O(log n / n) of Sobol.
        """
        W = (
            FourierFeatures(kernel, 2 * 4096, sampling="qmc", random_state=0)
            .draw(3)
            .frequencies_
        )
        if law is None:
            # A normal of 3 dimensions over the root of a chi-square of 3 degrees, all
            # of one Sobol point.
            assert (
                stats.kstest((W**2).sum(axis=0) / 3, stats.f(3, 3).cdf).statistic
                < 0.005
            )
            return
        for coordinate in W:
            assert stats.kstest(coordinate, law).statistic < 0.001

    def test_factors_are_not_paired(self):
        """Frequencies of two factors come from different dimensions of one sequence:
        their sum has the sum's law.
        """
        kernel = Gaussian() * Gaussian()
        W = (
            FourierFeatures(kernel, 2 * 4096, sampling="qmc", random_state=1)
            .draw(2)
            .frequencies_
        )
        for coordinate in W:
            assert (
                stats.kstest(coordinate / np.sqrt(2), stats.norm.cdf).statistic < 0.005
            )

    def test_too_many_dimensions(self):
        with pytest.raises(
            ValueError, match=r"at most 21,201 dimensions, and this kernel needs 30,000"
        ):
            FourierFeatures(Gaussian(), 4, sampling="qmc").draw(30_000)


class TestLeverage:
    def test_the_mean_of_the_weights_is_the_variance(self):
        """sum_j weights_j is the kernel at 0, in the mean: its z-score over seeds."""
        X = normal(100, 3)
        totals = []
        for seed in range(100):
            features = FourierFeatures(
                2.0 * Laplacian(2.0), 60, sampling="leverage", random_state=seed
            ).fit(X)
            totals.append((features.amplitudes_**2).sum())
        z = (np.mean(totals) - 2) / (np.std(totals, ddof=1) / 10)
        assert abs(z) <= 5

    def test_smooth_waves_are_preferred(self):
        """On a narrow range of rows, short waves of a heavy-tailed law have small
        scores.
        """
        X = 0.1 * normal(300, 2)
        plain = FourierFeatures(
            Laplacian(1.0), 400, sampling="iid", random_state=0
        ).fit(X)
        chosen = FourierFeatures(
            Laplacian(1.0), 400, sampling="leverage", random_state=0
        ).fit(X)
        assert len(np.unique(chosen.amplitudes_)) > 50
        weight = chosen.amplitudes_**2
        short = np.linalg.norm(chosen.frequencies_, axis=0) > 30
        assert short.any()
        assert weight[short].max() > np.median(weight)
        assert np.isclose(plain.amplitudes_**2, 1 / 200).all()

    def test_depends_on_the_rows_and_the_seed_alone(self):
        X, other = normal(50, 2), 5 * normal(50, 2, seed=1)

        def draw(rows, seed=0):
            return (
                FourierFeatures(Gaussian(), 40, sampling="leverage", random_state=seed)
                .fit(rows)
                .frequencies_
            )

        np.testing.assert_array_equal(draw(X), draw(X))
        assert not np.array_equal(draw(X), draw(other))
        assert not np.array_equal(draw(X), draw(X, seed=1))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "X",
        [np.zeros((1, 2)), np.zeros((5, 2)), sp.csr_array(np.eye(4)), normal(3000, 2)],
    )
    def test_any_rows(self, X):
        """In the mean over seeds the features have the kernel as products."""
        few = X[:4].toarray() if sp.issparse(X) else X[:4]
        found = []
        for seed in range(20 if X.shape[0] < 100 else 8):
            Z = (
                FourierFeatures(Gaussian(), 21, sampling="leverage", random_state=seed)
                .fit(X)
                .transform(few)
            )
            found.append(Z @ Z.T)
        error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
        assert np.all(np.abs(np.mean(found, axis=0) - Gaussian()(few)) <= 4.5 * error)
        assert error.max() < 0.15


def test_far_frequencies_of_heavy_tails_come_nearer():
    """R (1 + log(1 + log(|w| / R))) beyond R = 10^5; coordinates of the Laplacian
    kernel's are of Cauchy's law.
    """
    normal = np.array([[0.5, -1.0, 4.0, -4.5, 6.0, -7.0]])
    raw = stats.cauchy.ppf(stats.norm.cdf(normal[:, :5]))  # which rounds beyond
    found = unit_frequencies(Laplacian().spectral_measure(), normal, np.empty((0, 6)))[
        0
    ]
    np.testing.assert_allclose(found[:3], raw[0, :3], rtol=1e-9)
    far = 1e5 * (1 + np.log(1 + np.log(np.abs(raw[0, 4]) / 1e5)))
    np.testing.assert_allclose(found[4], far, rtol=1e-6)
    assert found[4] < 1e6


class TestHadamard:
    @pytest.mark.parametrize("n", [1, 2, 4, 8, 64, 512])
    @pytest.mark.parametrize("rows", [1, LANES, 2 * LANES + 3])
    def test_equals_the_matrix(self, n, rows):
        rng = np.random.default_rng(0)
        Y, signs = rng.standard_normal((rows, n)), rng.choice([-1.0, 1.0], (3, 2, n))
        m = 2 * n + (n + 1) // 2
        lengths, out = rng.uniform(size=m), np.full((rows, m + 1), 7.0)
        project(Y, signs, lengths, out)
        H = hadamard(n)
        expected = (
            np.hstack([Y * first @ H * second @ H for first, second in signs])[:, :m]
            * lengths
        )
        # Sums of n numbers of size n at most, in log2(n) levels.
        np.testing.assert_allclose(out[:, :m], expected, rtol=0, atol=20 * n**1.5 * EPS)
        assert np.all(out[:, m] == 7)


class TestStructured:
    @pytest.mark.parametrize("d", [1, 3, 16, 100, 300])
    def test_rows_of_a_block_are_orthogonal(self, d):
        """In n dimensions; so for d = n they are, and else W W' of a whole block is
        n over d of that of d columns.
        """
        n = padded(d)
        sign_flips = SignedHadamard.draw(d, 2 * n, np.random.default_rng(0)).scaled(
            1.0, 1.0
        )
        W = sign_flips.frequencies() / sign_flips.lengths
        for block in (W[:, :n], W[:, n:]):
            np.testing.assert_allclose(block @ block.T, np.eye(d), rtol=0, atol=1e-12)

    @pytest.mark.parametrize("d", [2, 10, 40])
    def test_errors_vanish(self, d):
        """Blocks share a rotation, yet are as good as independent: the error goes on
        falling with D.
        """
        X = normal(60, d)
        kernel = Gaussian(np.sqrt(d) / 2)
        K, errors = kernel(X), {}
        for sampling in ("iid", "structured"):
            maps = [
                FourierFeatures(kernel, 2**14, sampling=sampling, random_state=seed)
                for seed in range(5)
            ]
            errors[sampling] = np.mean(
                [error(features.fit_transform(X), K) for features in maps]
            )
        assert errors["structured"] < 1.1 * errors["iid"]

    @pytest.mark.slow
    @pytest.mark.parametrize("d", [9, 300])
    def test_coordinates_are_normal(self, d):
        draws = [
            SignedHadamard.draw(d, 4, np.random.default_rng(seed)).frequencies()
            for seed in range(400)
        ]
        for j in (0, d - 1):
            assert stats.kstest([W[j, 1] for W in draws], "norm").pvalue > 1e-5
        squares = np.array([(W[:, 2] ** 2).sum() for W in draws])
        assert stats.kstest(squares, stats.chi2(d).cdf).pvalue > 1e-5

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize(
        "options", [{}, {"paired": False}, {"n_components": 12289}], ids=repr
    )
    @pytest.mark.parametrize("d", [250, 300])
    def test_fast_features_are_the_formula(self, d, options, dtype):
        """Of Haar's rotation and, beyond 256 columns, of signs."""
        assert (padded(d) > HAAR) == (d == 300)
        X = normal(40, d).astype(dtype)
        kernel = Matern(np.linspace(10, 30, d))
        features = FourierFeatures(
            kernel, **({"n_components": 8192} | options), random_state=0
        ).fit(X)
        assert features.sign_flips_ is not None
        Z = features.transform(X)
        first = features._projection(X.dtype)[0]
        assert isinstance(first, SignedHadamard)
        W, m = features.frequencies_, features.frequencies_.shape[1]
        pairs = m - len(features.offsets_)
        angles = X.astype(float) @ W
        a = features.amplitudes_
        expected = np.hstack(
            [
                a[:pairs] * np.cos(angles[:, :pairs]),
                a[:pairs] * np.sin(angles[:, :pairs]),
                a[pairs:] * np.cos(angles[:, pairs:] + features.offsets_),
            ]
        )
        # Each of 36 levels of sums of pairs rounds by at most the norm of the row,
        # before lengths multiply it.
        size = 36 * np.linalg.norm(X, axis=1).max() * np.linalg.norm(W, axis=0).max()
        np.testing.assert_allclose(
            Z, expected, rtol=0, atol=np.finfo(dtype).eps * size * a.max()
        )
        np.testing.assert_allclose(
            features.transform(sp.csr_array(X)),
            Z,
            rtol=0,
            atol=np.finfo(dtype).eps * size,
        )

    @pytest.mark.slow
    def test_is_chosen_where_it_is_cheaper(self):
        def sign_flips(kernel, d, **options):
            return (
                FourierFeatures(kernel, random_state=0, **options).draw(d).sign_flips_
            )

        assert sign_flips(Gaussian(20.0), 784, n_components=8192) is not None
        assert (
            sign_flips(2.0 * PowerExponential(20.0), 784, n_components=8192) is not None
        )
        assert sign_flips(Gaussian(), 10) is None
        assert sign_flips(Laplacian(), 784, n_components=8192) is None
        assert sign_flips(Gaussian(20.0) + Matern(20.0), 784, n_components=8192) is None
        assert (
            sign_flips(Gaussian(), 784, n_components=8192, sampling="orthogonal")
            is None
        )
        assert sign_flips(Gaussian(), 10, sampling="structured") is not None
        assert sign_flips(Gaussian(), 8, sampling="structured") is None
        assert not cheaper(HAAR, HAAR)  # whose rotation alone is such a product
        assert cheaper(784, 8192, 2.0)
        assert not cheaper(10, 8192)

    def test_slow_sign_flips_are_multiplied(self):
        features = FourierFeatures(
            Gaussian(), 50, sampling="structured", random_state=0
        ).fit(normal(5, 12))
        assert not isinstance(features._projection(np.dtype(float))[0], SignedHadamard)
        np.testing.assert_allclose(
            features.sign_flips_.frequencies(),
            features.frequencies_,
            rtol=0,
            atol=1e-13,
        )

    @pytest.mark.parametrize(
        "kernel",
        [
            Laplacian(),
            Gabor(),
            Periodic(),
            Hamming(),
            Gaussian() * Laplacian(),
            Subspace(Laplacian(), [0]),
        ],
    )
    def test_refuses_kernels_without_directions(self, kernel):
        with pytest.raises(
            ValueError,
            match=r"needs frequencies of uniform direction, and those of \w+.* have "
            r"none",
        ):
            FourierFeatures(kernel, sampling="structured").draw(3)

    @pytest.mark.parametrize(
        "kernel",
        [Gaussian() * Matern(), Gaussian() + Matern(), Subspace(Matern(), [0, 2])],
    )
    def test_combinations_are_drawn_so_too(self, kernel):
        features = FourierFeatures(
            kernel, 40, sampling="structured", random_state=0
        ).draw(3)
        assert features.sign_flips_ is None
        assert features.frequencies_.shape == (3, 20)

    def test_is_saved(self, tmp_path):
        X = normal(7, 250).astype(np.float32)
        features = FourierFeatures(Gaussian(15.0), 8192, random_state=0).fit(X)
        save(features, tmp_path / "map")
        np.testing.assert_array_equal(
            load(tmp_path / "map").transform(X), features.transform(X)
        )

    def test_arrays_that_do_not_fit_are_refused(self):
        X = normal(3, 250)
        for name in ("rotation", "scale", "signs", "lengths"):
            features = FourierFeatures(Gaussian(15.0), 8192, random_state=0).fit(X)
            object.__setattr__(
                features.sign_flips_, name, getattr(features.sign_flips_, name)[:-1]
            )
            with pytest.raises(ValueError, match="are inconsistent"):
                features.transform(X)


def test_heavy_tails_keep_their_phases():
    """Half of the law of index 0.2 lies beyond frequencies that single precision
    resolves; rows apart stay apart.
    """
    kernel = PowerExponential(power=0.2)
    X = np.array([[0.0], [1.0], [30.0]], dtype=np.float32)
    found = []
    for seed in range(200):
        Z = FourierFeatures(
            kernel, 200, sampling="iid", random_state=seed
        ).fit_transform(X)
        found.append((Z @ Z.T)[np.triu_indices(3, 1)])
    z = (np.mean(found, axis=0) - kernel(X)[np.triu_indices(3, 1)]) / (
        np.std(found, axis=0, ddof=1) / np.sqrt(200)
    )
    assert np.abs(z).max() <= 5
