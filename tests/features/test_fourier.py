"""The contract of Fourier features: unbiased, of known variance, and computed right
from any input.
"""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import sici
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from bochner import FourierFeatures
from bochner.engines.local import STEP, n_threads
from bochner.features.base import TILE_BYTES
from bochner.kernels import Cauchy, Gaussian, Hat, Laplacian, Matern, RationalQuadratic
from bochner.kernels.spectral_measures import Isotropic, RadialLaw

EPS = np.finfo(float).eps
FORMS = [("orthogonal", True), ("iid", True), ("orthogonal", False), ("iid", False)]
SCHEMES = [(3, "qmc", True), (10, "structured", True), (3, "leverage", True)]
OTHER_FORMS = [
    (1, *FORMS[0]),
    (10, *FORMS[0]),
    *((3, *form) for form in FORMS[1:]),
    (3, "odd", True),
    *SCHEMES,
]
# Of leaves of numbers: radial, by column
OF_TWO_MEASURES = ["gaussian-ard", "laplacian"]
# Radial, by column, of codes, of terms
OF_EACH_MEASURE = ["gaussian-ard", "laplacian", "hamming", "sum-times-sum"]
BY_FORM = pytest.mark.parametrize(("sampling", "paired"), FORMS)
MAPS = {
    "paired": FourierFeatures(Gaussian(2.0), 20, random_state=0),
    "odd": FourierFeatures(
        Laplacian(2.0) + Gaussian([1.0, 2.0, 3.0]), 21, random_state=1
    ),
    "offset": FourierFeatures(Matern(2.0), 20, paired=False, random_state=2),
    "iid": FourierFeatures(Cauchy(2.0), 20, sampling="iid", random_state=3),
    "one": FourierFeatures(n_components=1, random_state=4),
}


@pytest.fixture(params=MAPS)
def fitted(request):
    return MAPS[request.param].__sklearn_clone__().fit(np.zeros((1, 3)))


def fejer(w):
    """Distribution function of the density (1 - cos w) / (pi w^2), integrated by
    parts.
    """
    return 0.5 + (sici(w)[0] - (1 - np.cos(w)) / w) / np.pi


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def has_directions(kernel):
    leaves = [leaf for _, leaves in kernel.terms() for leaf in leaves]
    return all(
        isinstance(leaf.spectral_measure(), Isotropic | RadialLaw) for leaf in leaves
    )


def formula(features, X):
    """Features in float64 as written, and a bound on the rounding errors in precision u
    = 1 of a computation of them.

    Angles are dot products of d terms, whose factors are rounded once more: (d + 3) u
    sum |x||w|, and u of the offset. A sine or cosine moves by as much as its angle; its
    own rounding is below 9 u (tests/loops), that of the amplitude and the product 2 u.
    """
    W, offsets, amplitudes = (
        features.frequencies_,
        features.offsets_,
        features.amplitudes_,
    )
    m = W.shape[1] - len(offsets)
    X = np.asarray(X, dtype=float)
    angles = X @ W
    size = (X.shape[1] + 3) * (np.abs(X) @ np.abs(W))
    a, lone = amplitudes[:m], angles[:, m:] + offsets
    Z = np.hstack(
        [
            a * np.cos(angles[:, :m]),
            a * np.sin(angles[:, :m]),
            amplitudes[m:] * np.cos(lone),
        ]
    )
    bound = np.hstack(
        [a * (size[:, :m] + 11)] * 2 + [amplitudes[m:] * (size[:, m:] + 4 * np.pi + 11)]
    )
    return Z, bound


def assert_computes(features, X, Z, precision=float):
    expected, bound = formula(features, X)
    unit = np.finfo(precision).eps / 2
    assert np.all(np.abs(Z - expected) <= (unit + EPS / 2) * bound)


class TestEstimate:
    """z(x)'z(y) as an estimate of k(x, y), over many seeds."""

    SEEDS = 64

    def pairs(self, d):
        """Six pairs of rows, from near to far, at distances of 0.3 to 3 in each
        number of dimensions.
        """
        X = normal(6, d)
        step = normal(6, d, seed=1)
        return X, X + step / np.linalg.norm(step, axis=1, keepdims=True) * np.linspace(
            0.3, 3, 6
        )[:, None]

    def estimates(self, kernel, d, seeds=SEEDS, pairs=None, **options):
        X, Y = self.pairs(d) if pairs is None else pairs
        found = []
        for seed in range(seeds):
            features = FourierFeatures(kernel, random_state=seed, **options).draw(d)
            if features.sampling == "leverage":
                features.fit_sample(np.rint(2 * normal(50, d, seed=seed)), np.ones(50))
            found.append((features.rows(X) * features.rows(Y)).sum(axis=1))
        return np.array(found)

    def test_is_unbiased(self, case):
        self.check_mean(case, 3, *FORMS[0])

    @pytest.mark.parametrize(("d", "sampling", "paired"), OTHER_FORMS)
    @pytest.mark.parametrize("case", OF_EACH_MEASURE, indirect=True)
    def test_other_forms_are_unbiased(self, case, d, sampling, paired):
        if sampling == "structured" and not has_directions(case.kernel(d)):
            with pytest.raises(
                ValueError,
                match="structured' needs frequencies of uniform direction, and those "
                "of",
            ):
                FourierFeatures(case.kernel(d), sampling=sampling).draw(d)
            return
        self.check_mean(case, d, sampling, paired)

    def check_mean(self, case, d, sampling, paired):
        """Means of estimates over seeds are the kernel, within five standard errors."""
        size = 129 if sampling == "odd" else 128
        sampling = "orthogonal" if sampling == "odd" else sampling
        X, Y = (
            (np.rint(2 * rows) for rows in self.pairs(d))
            if case.codes
            else self.pairs(d)
        )
        options = {"n_components": size, "sampling": sampling, "paired": paired}
        found = self.estimates(case.kernel(d), d, pairs=(X, Y), **options)
        # Codes of a pair may be equal: no spread
        error = found.std(axis=0, ddof=1) / np.sqrt(self.SEEDS) + size * EPS
        assert (
            np.abs((found.mean(axis=0) - np.diag(case.exact(X, Y))) / error).max() <= 5
        )

    def test_has_the_known_variance(self, leaf):
        self.check_variance(leaf, 10, True)

    @pytest.mark.parametrize("case", OF_TWO_MEASURES, indirect=True)
    def test_has_the_known_variance_with_offsets(self, case):
        self.check_variance(case, 3, False)

    def check_variance(self, leaf, d, paired):
        """With f = cos(w'(x - y)) we have E f = k and E f^2 = (1 + k(2 (x - y))) / 2.

        Paired, the estimate is the mean of m such f: variance ((1 + k2) / 2 - k^2) / m,
        which for the Gaussian kernel, where k2 = k^4, is (1 - k^2)^2 / (2 m)
        (Sutherland and Schneider, 2015). With offsets a column adds cos(w'(x + y) + 2
        b), uncorrelated and of variance 1/2: (1 + k2 / 2 - k^2) / D.

        A variance over S seeds deviates by its own size times sqrt((2 + e) / S), e the
        excess kurtosis of one estimate, 12 / m at most where the cosines are near 1 (1
        - cos is then half a squared normal).
        """
        m, S = 100, 200
        kernel = leaf.kernel(d)
        found = self.estimates(
            kernel,
            d,
            S,
            n_components=2 * m if paired else m,
            sampling="iid",
            paired=paired,
        ).var(axis=0, ddof=1)
        X, Y = self.pairs(d)
        k, k2 = np.diag(kernel(X, Y)), np.diag(kernel(2 * X, 2 * Y))
        variance = ((1 + k2) / 2 - k**2 if paired else 1 + k2 / 2 - k**2) / m
        if paired and kernel == Gaussian(1.5):
            np.testing.assert_allclose(variance, (1 - k**2) ** 2 / (2 * m), rtol=1e-10)
        # Nearer than that the kernel itself has no digits left for the variance
        far = 1 - k > 1e-6
        z = (found / variance - 1) / np.sqrt((2 + 12 / m) / S)
        assert np.abs(z[far]).max() <= 5

    @pytest.mark.parametrize(
        "case",
        ["gaussian", "matern32", "rational-0.7", *OF_TWO_MEASURES, "hat"],
        indirect=True,
    )
    def test_orthogonal_draws_have_a_smaller_error(self, case):
        """Paired by seed: significantly smaller for isotropic kernels, at least not
        larger for the separable ones.
        """
        leaf, d, S = case, 10, 150
        X, Y = self.pairs(d)
        k = np.diag(leaf.kernel(d)(X, Y))
        errors = {
            sampling: (
                (
                    self.estimates(
                        leaf.kernel(d), d, S, n_components=4 * d, sampling=sampling
                    )
                    - k
                )
                ** 2
            ).mean(axis=1)
            for sampling in ("orthogonal", "iid")
        }
        gain = errors["orthogonal"] - errors["iid"]
        z = gain.mean() / (gain.std(ddof=1) / np.sqrt(S))
        print(
            "ratio of mean squared errors "
            f"{errors['orthogonal'].mean() / errors['iid'].mean():.3f}, z {z:.1f}"
        )
        if isinstance(leaf.kernel(d), Gaussian):
            assert z < -5
        assert z < 3

    def test_offsets_have_a_larger_variance(self):
        options = {"n_components": 40, "sampling": "iid"}
        paired = self.estimates(Gaussian(1.5), 3, 200, paired=True, **options).var(
            axis=0
        )
        offset = self.estimates(Gaussian(1.5), 3, 200, paired=False, **options).var(
            axis=0
        )
        # The ratio is 2 at least by formula; that of two variances of 200 seeds
        # deviates by 2 sqrt(4 / 200) = 0.28.
        assert np.all(offset > paired)

    def test_the_norm_of_a_paired_row_is_exact(self, case):
        kernel = case.kernel(3)
        X = np.rint(2 * normal(20, 3)) if case.codes else normal(20, 3)
        Z = FourierFeatures(kernel, 100, random_state=0).fit_transform(X)
        # A sum of 100 squares, each rounded a few times.
        np.testing.assert_allclose((Z**2).sum(axis=1), kernel.variance, rtol=100 * EPS)


class TestFrequencies:
    """Laws of the draw. A Kolmogorov-Smirnov p-value below 1e-5 fails: once in a
    thousand such suites by chance.
    """

    N = 3000

    def draw(self, kernel, d, sampling="iid", size=N, seed=0):
        features = FourierFeatures(
            kernel, 2 * size, sampling=sampling, random_state=seed
        ).draw(d)
        scale = np.asarray(kernel.lengthscale, dtype=float).reshape(-1, 1)
        return features.frequencies_ * scale

    def assert_law(self, sample, law):
        from scipy.stats import kstest

        assert kstest(sample, law).pvalue > 1e-5

    @pytest.mark.parametrize("sampling", ["iid", "orthogonal"])
    @pytest.mark.parametrize("d", [1, 2, 7])
    def test_isotropic_radii(self, sampling, d):
        from scipy import stats

        def radius(kernel):
            return np.linalg.norm(self.draw(kernel, d, sampling), axis=0)

        lengthscale = np.linspace(0.5, 3, d)
        self.assert_law(radius(Gaussian(lengthscale)), stats.chi(d).cdf)
        self.assert_law(radius(Matern(2.0, nu=np.inf)), stats.chi(d).cdf)
        for nu in (0.5, 1.5, 2.5, 0.8, 60):
            self.assert_law(
                radius(Matern(lengthscale, nu=nu)) ** 2 / d, stats.f(d, 2 * nu).cdf
            )
        shares = (np.arange(400) + 0.5) / 400
        for alpha in (0.7, 3.0):
            scales = stats.gamma(alpha, scale=1 / alpha).ppf(shares)
            law = lambda s, scales=scales: (  # noqa: E731
                stats.chi2(d).cdf(s[:, None] / scales).mean(axis=1)
            )
            self.assert_law(
                radius(RationalQuadratic(2.0, alpha=alpha))[:1000] ** 2, law
            )

    @pytest.mark.parametrize(
        "kernel", [Gaussian(2.0), Matern(nu=0.5), RationalQuadratic()], ids=repr
    )
    def test_isotropic_directions(self, kernel):
        from scipy import stats

        for sampling in ("iid", "orthogonal"):
            W = self.draw(kernel, 4, sampling)
            first = (W / np.linalg.norm(W, axis=0))[
                :, :: 4 if sampling == "orthogonal" else 1
            ]
            for coordinate in first:
                self.assert_law(coordinate**2, stats.beta(0.5, 1.5).cdf)
                self.assert_law(
                    np.sign(coordinate) * coordinate**2,
                    lambda s: (
                        (1 + np.sign(s) * stats.beta(0.5, 1.5).cdf(np.abs(s))) / 2
                    ),
                )

    @pytest.mark.parametrize(
        ("kernel", "law"),
        [(Laplacian, "cauchy"), (Cauchy, "laplace"), (Hat, fejer), (Gaussian, "norm")],
    )
    def test_separable_coordinates(self, kernel, law):
        for sampling in ("iid", "orthogonal"):
            W = self.draw(kernel([0.5, 1.0, 2.0]), 3, sampling)
            for coordinate in W[:, :: 3 if sampling == "orthogonal" else 1]:
                self.assert_law(coordinate, law)

    @pytest.mark.parametrize("sampling", ["iid", "orthogonal"])
    def test_matern_is_one_multivariate_t(self, sampling):
        """Coordinates share their chi-square: large ones come together. Drawn each
        for itself they would not.
        """
        from scipy.stats import kstest, spearmanr

        W = np.abs(self.draw(Matern(nu=0.5), 3, sampling))
        independent = np.sqrt(
            1 / self.N
        )  # deviation of a rank correlation without dependence
        assert spearmanr(W[0], W[1]).statistic > 10 * independent
        separable = np.abs(self.draw(Laplacian(), 3))
        assert abs(spearmanr(separable[0], separable[1]).statistic) < 5 * independent
        assert kstest(W[0], "halfcauchy").pvalue > 1e-5

    @pytest.mark.parametrize("size", [3, 23])
    def test_blocks_are_orthogonal(self, leaf, size):
        from scipy import stats

        d = 5
        W = self.draw(leaf.kernel(d), d, "orthogonal", size)
        laws = {Laplacian: stats.cauchy.cdf, Cauchy: stats.laplace.cdf, Hat: fejer}
        if law := laws.get(type(leaf.kernel(d))):
            W = stats.norm.ppf(law(W))
        W = W / np.linalg.norm(W, axis=0)
        for start in range(0, size, d):
            block = W[:, start : start + d]
            # Quantiles lose up to eps over the normal density, 1e-6 at |z| = 5: 1e-10,
            # and its d terms.
            np.testing.assert_allclose(
                block.T @ block, np.eye(block.shape[1]), rtol=0, atol=1e-9
            )

    def test_blocks_are_independent(self):
        W = self.draw(Gaussian(), 4, "orthogonal")
        W = (W / np.linalg.norm(W, axis=0)).reshape(4, -1, 4)
        products = (W[:, :-1, 0] * W[:, 1:, 0]).sum(axis=0)
        # The product of two independent directions has variance 1 / d.
        assert abs(products.mean()) < 5 / np.sqrt(4 * len(products))
        assert abs((products**2).mean() * 4 - 1) < 5 * np.sqrt(3 / len(products))

    def test_sums_share_the_draws(self):
        kernel = 3.0 * Gaussian() + Laplacian()
        features = FourierFeatures(kernel, 80, random_state=0).draw(2)
        np.testing.assert_allclose(features.amplitudes_**2, 0.1)
        np.testing.assert_allclose(
            (
                FourierFeatures(kernel, 10, random_state=0).draw(2).amplitudes_ ** 2
            ).sum(),
            4,
        )
        small = FourierFeatures(
            1000.0 * Gaussian() + Laplacian(), 6, random_state=0
        ).draw(2)
        np.testing.assert_allclose(sorted(small.amplitudes_**2), [1, 500, 500])

    @BY_FORM
    def test_same_seed_same_draw(self, sampling, paired):
        def draw(seed, dtype=float):
            X = normal(4, 3).astype(dtype)
            return FourierFeatures(
                Matern() + Cauchy(),
                30,
                sampling=sampling,
                paired=paired,
                random_state=seed,
            ).fit(X)

        one, two = draw(5), draw(5, np.float32)
        np.testing.assert_array_equal(one.frequencies_, two.frequencies_)
        np.testing.assert_array_equal(one.offsets_, two.offsets_)
        np.testing.assert_array_equal(one.amplitudes_, two.amplitudes_)
        np.testing.assert_array_equal(
            draw(np.random.RandomState(5)).frequencies_, one.frequencies_
        )
        assert not np.any(draw(6).frequencies_ == one.frequencies_)
        assert not np.any(draw(None).frequencies_ == draw(None).frequencies_)
        assert not np.any(one.frequencies_[0, 1:] == one.frequencies_[0, :-1])


class TestTransform:
    """The computation, whatever the rows look like."""

    def test_is_the_formula(self, fitted):
        X = 3 * normal(50, 3)
        Z = fitted.transform(X)
        assert Z.shape == (50, fitted.n_components)
        assert_computes(fitted, X, Z)

    def test_keeps_the_precision(self, fitted):
        X = normal(30, 3).astype(np.float32)
        assert fitted.transform(X.astype(float)).dtype == np.float64
        single = fitted.transform(X)
        assert single.dtype == np.float32
        assert_computes(fitted, X, single, np.float32)
        for dtype in (np.int64, np.uint8, np.float16, bool):
            Z = fitted.transform(np.arange(12).reshape(4, 3).astype(dtype))
            assert Z.dtype == np.float64

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize(
        "kind",
        [
            f"{form}_{what}"
            for form in ("csr", "csc", "coo")
            for what in ("array", "matrix")
        ],
    )
    def test_sparse_rows_are_dense_rows(self, fitted, kind, dtype):
        X = np.where(
            np.random.default_rng(0).random((200, 3)) < 0.3, normal(200, 3), 0.0
        ).astype(dtype)
        Z = fitted.transform(getattr(sp, kind)(X))
        assert isinstance(Z, np.ndarray)
        assert Z.dtype == dtype
        assert_computes(fitted, X, Z, dtype)

    def test_layouts(self, fitted, frozen, tmp_path):
        X = normal(150, 3)
        expected, bound = formula(fitted, X)
        file = np.memmap(tmp_path / "rows", dtype=float, mode="w+", shape=X.shape)
        file[:] = X
        wide = np.zeros((300, 7))
        wide[::2, 1:6:2] = X
        for rows in (
            X,
            frozen(X),
            np.asfortranarray(X),
            frozen(np.asfortranarray(X)),
            wide[::2, 1:6:2],
            file,
            X[::-1][::-1],
        ):
            assert np.all(np.abs(fitted.transform(rows) - expected) <= EPS * bound)
        assert np.all(np.abs(fitted.transform(X.tolist()) - expected) <= EPS * bound)

    @pytest.mark.slow
    @pytest.mark.parametrize("n_components", [999, 1000, 70_001])
    def test_every_row_of_every_tile(self, n_components):
        features = FourierFeatures(n_components=n_components, random_state=0).fit(
            np.zeros((1, 2))
        )
        tile = max(1, TILE_BYTES // (8 * n_components))
        threaded = STEP * n_threads()
        sizes = {
            1,
            2,
            tile - 1,
            tile,
            tile + 1,
            2 * tile,
            2 * tile + 1,
            threaded - 1,
            threaded,
            threaded + 1,
        }
        for n in (
            sorted(sizes - {0})
            if n_components < 2000
            else (1, tile, tile + 1, threaded + 1)
        ):
            X = normal(n, 2, seed=n)
            assert_computes(features, X, features.transform(X))

    def test_rows_into_a_wider_array(self, fitted):
        D = fitted.n_components
        for n in (1, 7, 300):
            X, out = normal(n, 3), np.full((n, D + 3), np.nan)
            assert fitted.rows(X, out=out) is out
            assert np.isnan(out[:, D:]).all()
            assert_computes(fitted, X, out[:, :D])

    def test_no_rows(self, fitted):
        assert fitted.rows(np.empty((0, 3))).shape == (0, fitted.n_components)

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_dot_is_rows_times_coefficients(self, fitted, dtype):
        coef = normal(fitted.n_components, 2).astype(dtype)
        for n in (1, 3, 200):
            X = normal(n, 3).astype(dtype)
            product = fitted.dot(X, coef)
            assert product.dtype == dtype
            expected, bound = formula(fitted, X)
            size = (bound + fitted.n_components * np.abs(expected)) @ np.abs(coef)
            assert np.all(
                np.abs(product - expected @ coef) <= np.finfo(dtype).eps * size
            )
        assert fitted.dot(sp.csr_array(X), coef).shape == (200, 2)

    def test_shared_frequencies_with_rbf_sampler(self):
        X = normal(40, 5)
        theirs = RBFSampler(gamma=0.3, n_components=60, random_state=0).fit(X)
        ours = FourierFeatures(Gaussian(), 60, paired=False).fit(X)
        ours.frequencies_, ours.offsets_ = theirs.random_weights_, theirs.random_offset_
        _, bound = formula(ours, X)
        assert np.all(
            np.abs(ours.transform(X) - theirs.transform(X)) <= 2 * EPS * bound
        )

    def test_rbf_sampler_has_the_same_gamma(self):
        """Both estimate the same kernel: the mean over seeds of their difference is
        zero by z-score.
        """
        X = normal(6, 3)
        gamma, pairs = 0.2, np.triu_indices(6, 1)
        ours, theirs = [], []
        for seed in range(100):
            Z = FourierFeatures(
                Gaussian(1 / np.sqrt(2 * gamma)), 40, random_state=seed
            ).fit_transform(X)
            R = RBFSampler(
                gamma=gamma, n_components=40, random_state=seed
            ).fit_transform(X)
            ours.append((Z @ Z.T)[pairs])
            theirs.append((R @ R.T)[pairs])
        difference = np.array(ours) - np.array(theirs)
        assert (
            np.abs(
                difference.mean(axis=0) / (difference.std(axis=0, ddof=1) / 10)
            ).max()
            <= 5
        )


class TestFace:
    """scikit-learn's side: parameters, names, errors."""

    def test_pickles(self, fitted):
        X = normal(5, 3)
        Z = fitted.transform(X)
        copy = pickle.loads(pickle.dumps(fitted))  # noqa: S301
        np.testing.assert_array_equal(copy.transform(X), Z)
        np.testing.assert_array_equal(
            copy.transform(X.astype(np.float32)), fitted.transform(X.astype(np.float32))
        )

    def test_fit_draws_anew(self):
        features = FourierFeatures(n_components=10, random_state=0)
        X = normal(5, 3)
        before = features.fit_transform(X)
        after = features.set_params(random_state=1).fit_transform(X)
        assert not np.any(before == after)
        assert features.fit(X[:, :2]).transform(X[:, :2]).shape == (5, 10)
        np.testing.assert_array_equal(
            features.set_params(random_state=0).fit(X).transform(X), before
        )

    def test_feature_names(self, fitted):
        pd = pytest.importorskip("pandas")
        names = fitted.get_feature_names_out()
        assert len(set(names)) == len(names) == fitted.n_components
        assert list(names) == [f"fourierfeatures{j}" for j in range(len(names))]
        frame = fitted.set_output(transform="pandas").transform(normal(4, 3))
        assert isinstance(frame, pd.DataFrame)
        assert list(frame.columns) == list(names)

    def test_named_columns(self):
        pd = pytest.importorskip("pandas")
        X = pd.DataFrame(normal(5, 2), columns=["a", "b"])
        features = FourierFeatures(n_components=4, random_state=0).fit(X)
        assert list(features.feature_names_in_) == ["a", "b"]
        assert_computes(features, X.to_numpy(), features.transform(X))
        with pytest.raises(ValueError, match="feature names"):
            features.transform(X.rename(columns={"a": "z"}))

    def test_set_params_stays_at_home(self):
        kernel = Gaussian(2.0) + Laplacian(2.0)
        one, two = FourierFeatures(kernel), FourierFeatures(kernel)
        one.set_params(kernel__left__lengthscale=9.0)
        assert one.kernel == Gaussian(9.0) + Laplacian(2.0)
        assert two.kernel == kernel == Gaussian(2.0) + Laplacian(2.0)
        FourierFeatures().set_params(kernel__lengthscale=7.0)
        assert FourierFeatures().kernel == Gaussian(1.0)
        pipeline = make_pipeline(FourierFeatures(), Ridge()).set_params(
            fourierfeatures__kernel__lengthscale=7.0
        )
        assert pipeline[0].kernel == Gaussian(7.0)
        assert FourierFeatures().kernel == Gaussian(1.0)

    def test_a_fitted_map_keeps_its_draw_when_the_kernel_changes(self):
        kernel = Gaussian(2.0)
        X = normal(5, 2)
        features = FourierFeatures(kernel, 10, random_state=0).fit(X)
        before = features.transform(X)
        kernel.set_params(lengthscale=5.0)
        np.testing.assert_array_equal(features.transform(X), before)

    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"n_components": 0}, ValueError, "n_components must be positive"),
            ({"n_components": -2}, ValueError, "n_components must be positive"),
            ({"n_components": 2.0}, TypeError, "n_components must be an integer"),
            ({"n_components": "many"}, TypeError, "n_components must be an integer"),
            ({"n_components": True}, TypeError, "n_components must be an integer"),
            ({"n_components": None}, TypeError, "n_components must be an integer"),
            ({"sampling": "sobol"}, ValueError, "sampling must be one of"),
            ({"sampling": None}, ValueError, "sampling must be one of"),
            ({"kernel": "gaussian"}, TypeError, "kernel must be a bochner kernel"),
            ({"kernel": None}, TypeError, "kernel must be a bochner kernel"),
            (
                {"kernel": Gaussian([1.0, 2.0])},
                ValueError,
                "2 lengthscales and the data have 3",
            ),
            (
                {"kernel": Gaussian() + Laplacian() + Cauchy(), "n_components": 4},
                ValueError,
                "sum of 3 terms",
            ),
            ({"random_state": "seed"}, ValueError, "seed"),
        ],
    )
    def test_refuses_bad_parameters(self, options, error, message):
        with pytest.raises(error, match=message):
            FourierFeatures(**options).fit(np.ones((4, 3)))

    def test_as_many_frequencies_as_terms_suffice(self):
        kernel = Gaussian() + Laplacian() + Cauchy()
        assert FourierFeatures(kernel, 6).fit_transform(np.ones((1, 3))).shape == (1, 6)
        assert FourierFeatures(kernel, 5).fit_transform(np.ones((1, 3))).shape == (1, 5)
        assert FourierFeatures(kernel, 3, paired=False).fit_transform(
            np.ones((1, 3))
        ).shape == (1, 3)

    @pytest.mark.parametrize(
        ("X", "message"),
        [
            (np.array([[np.nan, 1, 2]]), "NaN"),
            (np.array([[np.inf, 1, 2]]), "infinity"),
            (np.ones((2, 4)), "4 features, but FourierFeatures is expecting 3"),
            (np.ones(3), "Expected 2D"),
            (np.empty((0, 3)), "0 sample"),
            (np.ones((2, 3)) * 1j, "Complex"),
            ([["a", "b", "c"]], "could not convert"),
        ],
    )
    def test_refuses_bad_rows(self, fitted, X, message):
        with pytest.raises(ValueError, match=message):
            fitted.transform(X)

    def test_memory_is_asked_for_first(self, request):
        features = FourierFeatures(n_components=1000).fit(np.zeros((1, 3)))
        request.getfixturevalue("little_memory")
        with pytest.raises(
            MemoryError, match=r"Drawing 500 frequencies in 3 dimensions needs"
        ):
            FourierFeatures(n_components=1000).fit(np.zeros((1, 3)))
        with pytest.raises(MemoryError, match=r"1,000 features needs .* are free"):
            features.transform(np.zeros((1, 3)))

    def test_must_be_fitted(self):
        from sklearn.exceptions import NotFittedError

        with pytest.raises(NotFittedError):
            FourierFeatures().transform(np.ones((1, 2)))
        with pytest.raises(NotFittedError):
            FourierFeatures().get_feature_names_out()

    def test_single_columns_far_from_zero(self):
        """In single precision the error grows with the angle, as the bound says, and
        not beyond.
        """
        features = FourierFeatures(Gaussian(1.0), 64, random_state=0).fit(
            np.zeros((1, 1))
        )
        X = (1000 + normal(50, 1)).astype(np.float32)
        assert_computes(features, X, features.transform(X), np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sampling", ["auto", "structured"])
def test_far_rows_are_far_from_the_origin(dtype, sampling):
    """Angles of more turns than have a fraction were those of the origin."""
    features = FourierFeatures(
        Gaussian(1.0), 2000, sampling=sampling, random_state=0
    ).fit(np.zeros((5, 8)))
    sizes = [1e6, 1e9, 1e12, 1e19, 1e30, np.finfo(dtype).max]
    rows = np.zeros((len(sizes) + 1, 8), dtype)
    rows[1:, 0] = sizes
    Z = features.transform(rows)
    np.testing.assert_allclose((Z * Z).sum(axis=1), 1, atol=1e-4)
    assert np.abs(Z[1:] @ Z[0]).max() < 0.2  # 4 / sqrt(2000) is .09
