"""Student, power, wave, categorical, column and radial kernels: outside truth,
parameters, laws, files, estimators.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from scipy.integrate import quad
from scipy.special import ive
from sklearn.base import clone
from sklearn.gaussian_process.kernels import ExpSineSquared

from bochner import BinningFeatures, FourierFeatures, KernelMachineRegressor, load, save
from bochner.kernels import (
    Additive,
    Coordinatewise,
    Gabor,
    Gaussian,
    Hamming,
    Hat,
    Laplacian,
    Linear,
    Matern,
    Periodic,
    PowerExponential,
    Radial,
    RationalQuadratic,
    SpectralMixture,
    StudentT,
    Subspace,
)

RTOL = 2e-12  # as in test_kernels


def wendland(r):
    return np.maximum(0.0, 1 - r) ** 4 * (4 * r + 1)


def bell(r):
    return np.exp(-0.5 * np.minimum(r, 40.0) ** 2)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def codes(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 4, shape).astype(float)


STORABLE = [
    StudentT([1.0, 2.0], nu=3.0),
    PowerExponential(2.0, power=1.3),
    Gabor(2.0, [0.1, 0.2]),
    SpectralMixture([1.0, 0.5], [[0.0, 0.1], [0.3, 0.0]], np.full((2, 2), 0.1)),
    Periodic(0.8, [2.0, 3.0]),
    Hamming(np.array([1.0, 2.0])),
    Subspace(Matern(2.0), (1,)),
    Subspace(Subspace(Laplacian(), [0]), np.array([1, 0])),
    Additive(Gaussian(), [[0], (1,), np.array([0, 1])]),
    Linear(
        Gaussian() + Laplacian([1.0, 2.0, 3.0]),
        np.array([[0.5, 0.0], [0.1, 0.2], [0.0, 1.0]]),
    ),
    Linear(Matern(2.0), [[0.5, 0.25]]),
]
ALL = [*STORABLE, Radial(wendland, 5.0)]


class TestOutsideTruth:
    @pytest.mark.parametrize("period", [1.0, 0.3, 7.0])
    @pytest.mark.parametrize("lengthscale", [0.2, 1.0, 5.0])
    def test_periodic_is_scikit_learns_for_one_feature(self, lengthscale, period):
        X, Y = normal(20, 1), normal(15, 1, seed=1)
        expected = ExpSineSquared(lengthscale, period)(X, Y)
        # Sines of arguments up to 20 pi in size, to be multiplied by 4 / lengthscale^2
        # in the exponent.
        rounding = 20 * np.pi * 4 / lengthscale**2 * np.finfo(float).eps
        np.testing.assert_allclose(
            Periodic(lengthscale, period)(X, Y), expected, rtol=RTOL, atol=rounding
        )

    @pytest.mark.parametrize("nu", [0.1, 1.0, 2.5, 30.0])
    def test_student_is_the_shape_of_the_density(self, nu):
        t = np.linspace(-5, 5, 21)
        expected = stats.t(nu).pdf(t / 1.7) / stats.t(nu).pdf(0)
        np.testing.assert_allclose(
            StudentT(1.7, nu=nu)(t[:, None], [[0.0]])[:, 0], expected, rtol=1e-10
        )

    @pytest.mark.parametrize("nu", [0.1, 1.0, 30.0])
    def test_student_is_rational_quadratic(self, nu):
        X = normal(9, 3)
        other = RationalQuadratic(1.7 * np.sqrt(nu / (nu + 1)), alpha=(nu + 1) / 2)
        np.testing.assert_allclose(StudentT(1.7, nu=nu)(X), other(X), rtol=RTOL)

    def test_powers_1_and_2(self):
        X, lengthscale = normal(9, 3), np.array([0.7, 1.0, 2.0])
        pairs = [
            (1, Matern(lengthscale, nu=0.5)),
            (2, Gaussian(lengthscale / np.sqrt(2))),
        ]
        for power, other in pairs:
            np.testing.assert_allclose(
                PowerExponential(lengthscale, power)(X), other(X), rtol=RTOL
            )

    def test_spectral_mixture_is_the_inverse_transform_of_its_density(self):
        weights, means, scales = [1.0, 0.5, 0.2], [0.0, 0.7, 2.0], [0.3, 0.1, 0.05]
        kernel = SpectralMixture(weights, means, scales)

        def density(s):
            return sum(
                w / 2 * (stats.norm.pdf(s, m, v) + stats.norm.pdf(s, -m, v))
                for w, m, v in zip(weights, means, scales, strict=True)
            )

        for t in (0.0, 0.3, 1.0, 2.5):
            half = quad(
                lambda s, t: density(s) * np.cos(2 * np.pi * s * t),
                0,
                4,
                (t,),
                limit=400,
                epsabs=1e-11,
            )[0]
            assert kernel([[t]], [[0.0]])[0, 0] == pytest.approx(2 * half, abs=1e-9)

    def test_spectral_mixture_of_one_component_is_gabor(self):
        X = normal(5, 2)
        mixture = SpectralMixture([2.0], [[0.1, 0.3]], [[0.2, 0.4]])
        gabor = 2.0 * Gabor(1 / (2 * np.pi * np.array([0.2, 0.4])), [0.1, 0.3])
        np.testing.assert_allclose(mixture(X), gabor(X), rtol=0, atol=1e-13)
        np.testing.assert_array_equal(Gabor([1.0, 2.0])(X), Gaussian([1.0, 2.0])(X))

    def test_hamming_counts(self):
        X, Y = codes(12, 5), codes(7, 5, seed=1)
        differing = (X[:, None] != Y[None]).sum(axis=2)
        np.testing.assert_allclose(
            Hamming(1.5)(X, Y), np.exp(-differing / 1.5), rtol=RTOL
        )
        lengthscales = np.linspace(0.5, 2, 5)
        expected = np.exp(-((X[:, None] != Y[None]) / lengthscales).sum(axis=2))
        np.testing.assert_allclose(Hamming(lengthscales)(X, Y), expected, rtol=RTOL)

    def test_columns(self):
        X, Y = normal(6, 4), normal(5, 4, seed=1)
        np.testing.assert_array_equal(
            Subspace(Gaussian([1.0, 3.0]), [3, 0])(X, Y),
            Gaussian([1.0, 3.0])(X[:, [3, 0]], Y[:, [3, 0]]),
        )
        expected = Laplacian()(X[:, :1], Y[:, :1]) + Laplacian()(
            X[:, [1, 3]], Y[:, [1, 3]]
        )
        for groups in ([[0], [1, 3]], ((0,), (1, 3)), [np.array([0]), range(1, 4, 2)]):
            np.testing.assert_allclose(
                Additive(Laplacian(), groups)(X, Y), expected, rtol=RTOL
            )

    @pytest.mark.parametrize("d", [2, 4])
    def test_radial(self, d):
        X = normal(6, d)
        np.testing.assert_allclose(
            Radial(bell, np.arange(1, d + 1))(X),
            Gaussian(np.arange(1, d + 1))(X),
            rtol=1e-12,
        )


class TestNestedColumns:
    def test_inner_columns_are_of_the_outer_ones(self):
        X = normal(6, 5)
        kernel = Subspace(Subspace(Laplacian([1.0, 2.0]), [2, 0]), [4, 1, 3])
        expected = Subspace(Laplacian([1.0, 2.0]), [3, 4])
        np.testing.assert_array_equal(kernel(X), expected(X))
        ours, theirs = (
            FourierFeatures(k, 50, random_state=0).fit(X) for k in (kernel, expected)
        )
        np.testing.assert_array_equal(ours.frequencies_, theirs.frequencies_)
        assert set(np.flatnonzero(ours.frequencies_.any(axis=1))) == {3, 4}

    def test_additive_within_and_around(self):
        X = normal(6, 5)
        kernel = Additive(
            Subspace(Gaussian(), [1]) + Additive(Hat(3.0), [[0], [1]]), [[0, 1], [3, 4]]
        )
        expected = sum(Subspace(Gaussian(), [j]) for j in (1, 4)) + sum(
            Subspace(Hat(3.0), [j]) for j in (0, 1, 3, 4)
        )
        np.testing.assert_allclose(kernel(X), expected(X), rtol=1e-14)
        assert len(kernel.terms()) == 6
        assert kernel.variance == 6

    @pytest.mark.parametrize(
        "kernel", [Subspace(Gaussian(), [0, 3]), Additive(Gaussian(), [[0], [3]])]
    )
    @pytest.mark.parametrize(
        "use", [lambda k, X: k(X), lambda k, X: FourierFeatures(k).fit(X)]
    )
    def test_too_few_columns(self, kernel, use):
        with pytest.raises(
            ValueError,
            match="compares column 3, counted from 0, and the data have 3 features",
        ):
            use(kernel, np.eye(3))

    def test_too_few_outer_columns(self):
        with pytest.raises(
            ValueError,
            match="compares column 2, counted from 0, and the data have 2 features",
        ):
            Subspace(Subspace(Gaussian(), [2]), [5, 6])(np.eye(8))

    def test_as_many_lengthscales_as_chosen_columns(self):
        with pytest.raises(ValueError, match="3 lengthscales and the data have 2"):
            Subspace(Gaussian([1.0, 2.0, 3.0]), [0, 1])(np.eye(3))


class TestParameters:
    @pytest.mark.parametrize("kernel", ALL, ids=lambda k: type(k).__name__)
    def test_copies_are_equal_and_separate(self, kernel):
        copy = clone(kernel)
        assert copy == kernel
        assert hash(copy) == hash(kernel)
        assert type(kernel)(**kernel.get_params(deep=False)) == kernel
        name = next(
            n for n in kernel.get_params() if n.endswith(("lengthscale", "means"))
        )
        copy.set_params(
            **{name: 7.0 if name.endswith("lengthscale") else np.ones((2, 2))}
        )
        assert copy != kernel
        assert copy.set_params(**{name: kernel.get_params()[name]}) == kernel

    def test_equal_whatever_holds_the_columns(self):
        kernels = [
            Subspace(Gaussian(), columns)
            for columns in ([0, 1], (0, 1), np.array([0, 1]), range(2))
        ]
        assert len(set(kernels)) == 1
        assert Subspace(Gaussian(), [1, 0]) not in kernels

    @pytest.mark.parametrize(
        ("kernel", "expected"),
        [
            (StudentT(2.0, nu=3), "StudentT(lengthscale=2.0, nu=3)"),
            (PowerExponential(), "PowerExponential(lengthscale=1.0, power=1.0)"),
            (Gabor(1.0, [0.5, 2]), "Gabor(lengthscale=1.0, frequency=[0.5, 2])"),
            (
                SpectralMixture([1], [0], [2]),
                "SpectralMixture(weights=[1], means=[0], scales=[2])",
            ),
            (Periodic(1.0, 7.0), "Periodic(lengthscale=1.0, period=7.0)"),
            (Hamming(), "Hamming(lengthscale=1.0)"),
            (
                Subspace(Hamming(), (2, 3)),
                "Subspace(kernel=Hamming(lengthscale=1.0), columns=(2, 3))",
            ),
            (
                Additive(Hamming(), [[2]]),
                "Additive(kernel=Hamming(lengthscale=1.0), groups=[[2]])",
            ),
            (Radial(wendland), "Radial(function=wendland, lengthscale=1.0)"),
        ],
    )
    def test_repr(self, kernel, expected):
        assert repr(kernel) == expected

    @pytest.mark.parametrize(
        ("make", "error", "match"),
        [
            (lambda: StudentT(nu=0), ValueError, "nu must be positive"),
            (lambda: StudentT(nu="1"), TypeError, "nu must be a number"),
            (
                lambda: PowerExponential(power=2.1),
                ValueError,
                r"power must be at most 2, got 2\.1",
            ),
            (lambda: PowerExponential(power=0), ValueError, "power must be positive"),
            (lambda: PowerExponential(power=True), TypeError, "power must be a number"),
            (
                lambda: Gabor(frequency="a"),
                TypeError,
                "frequency must be a number or one number per feature",
            ),
            (
                lambda: Gabor(frequency=[]),
                TypeError,
                "frequency must be a number or one number per feature",
            ),
            (
                lambda: Gabor(frequency=[[1.0]]),
                TypeError,
                "frequency must be a number or one number per feature",
            ),
            (lambda: Gabor(frequency=np.nan), ValueError, "frequency must be finite"),
            (
                lambda: Gabor([1.0, 2.0], [1.0]),
                ValueError,
                r"must be of one length, got \[1, 2\]",
            ),
            (
                lambda: Gabor(frequency=[1.0, 2.0])(np.eye(3)),
                ValueError,
                "2 frequencies and the data have 3 features",
            ),
            (
                lambda: SpectralMixture(["a"], [0.0], [1.0]),
                TypeError,
                "weights, means and scales must be numbers",
            ),
            (
                lambda: SpectralMixture([1.0], [0.0, 1.0], [1.0]),
                ValueError,
                r"must have the shape \(Q,\)",
            ),
            (
                lambda: SpectralMixture(1.0, 0.0, 1.0),
                ValueError,
                r"must have the shape \(Q,\)",
            ),
            (
                lambda: SpectralMixture([], [], []),
                ValueError,
                r"must have the shape \(Q,\)",
            ),
            (
                lambda: SpectralMixture([1.0], [[]], [[]]),
                ValueError,
                r"must have the shape \(Q,\)",
            ),
            (
                lambda: SpectralMixture([1.0], [np.inf], [1.0]),
                ValueError,
                "must be finite",
            ),
            (
                lambda: SpectralMixture([0.0], [1.0], [1.0]),
                ValueError,
                "weights and scales must be positive",
            ),
            (
                lambda: SpectralMixture([1.0], [1.0], [0.0]),
                ValueError,
                "weights and scales must be positive",
            ),
            (lambda: Periodic([1.0, 2.0]), TypeError, "lengthscale must be a number"),
            (lambda: Periodic(-1.0), ValueError, "lengthscale must be positive"),
            (
                lambda: Periodic(period="a"),
                TypeError,
                "period must be a number or one number per feature",
            ),
            (lambda: Periodic(period=[]), (TypeError, ValueError), "period must be"),
            (
                lambda: Periodic(period=[1.0, 0.0]),
                ValueError,
                "period must be positive and finite",
            ),
            (
                lambda: Periodic(period=[1.0, 2.0])(np.eye(3)),
                ValueError,
                "2 periods and the data have 3 features",
            ),
            (lambda: Hamming(0.0), ValueError, "lengthscale must be positive"),
            (
                lambda: Hamming([1.0, 2.0])(np.eye(3)),
                ValueError,
                "2 lengthscales and the data have 3",
            ),
            (lambda: Subspace(1.0, [0]), TypeError, "kernel must be a bochner kernel"),
            (
                lambda: Subspace(Gaussian(), [-1]),
                ValueError,
                "columns must be different numbers from 0 on",
            ),
            (
                lambda: Subspace(Gaussian(), [1, 1]),
                ValueError,
                "columns must be different numbers from 0 on",
            ),
            (
                lambda: Additive(1.0, [[0]]),
                TypeError,
                "kernel must be a bochner kernel",
            ),
            (
                lambda: Additive(Gaussian(), []),
                TypeError,
                "groups must be a list of lists",
            ),
            (
                lambda: Additive(Gaussian(), "01"),
                TypeError,
                "groups must be a list of lists",
            ),
            (
                lambda: Additive(Gaussian(), [0, 1]),
                TypeError,
                "each of groups must be a sequence of column numbers",
            ),
            (
                lambda: Additive(Gaussian(), [[0, 0]]),
                ValueError,
                "each of groups must be different numbers",
            ),
            (lambda: Radial(1.0), TypeError, "function must be callable"),
            (
                lambda: Radial(lambda r: 2 * np.exp(-r)),
                ValueError,
                "function must be 1 at distance 0",
            ),
            (
                lambda: Radial(lambda r: 1.0),
                TypeError,
                "float64 array of the same shape",
            ),
            (lambda: Radial(bell, 0.0), ValueError, "lengthscale must be positive"),
        ],
    )
    def test_validation(self, make, error, match):
        with pytest.raises(error, match=match):
            make()

    @pytest.mark.parametrize(
        "columns",
        [
            "01",
            None,
            0,
            [],
            {0, 1},
            [0.0],
            [True, False],
            [[0], [0, 1]],
            np.eye(2, dtype=int),
            np.array(1),
        ],
    )
    def test_columns_are_numbers(self, columns):
        with pytest.raises(
            TypeError, match="columns must be a sequence of column numbers"
        ):
            Subspace(Gaussian(), columns)

    def test_set_params_checks_before_it_sets(self):
        kernel = Subspace(PowerExponential(), [0])
        with pytest.raises(ValueError, match="at most 2"):
            kernel.set_params(kernel__lengthscale=3.0, kernel__power=3.0)
        with pytest.raises(ValueError, match="different numbers"):
            kernel.set_params(columns=[0, 0])
        assert kernel == Subspace(PowerExponential(), [0])


class TestLaws:
    @pytest.mark.parametrize("lengthscale", [0.05, 0.3, 1.0, 4.0])
    def test_harmonics_of_a_periodic_kernel(self, lengthscale):
        """Shares of whole numbers n of a fine grid of probabilities are exp(-z)
        I_n(z), to half a step of it.
        """
        steps = 200_000
        n = Periodic(lengthscale).spectral_measure().quantile(
            (np.arange(steps) + 0.5) / steps
        ) / (2 * np.pi)
        np.testing.assert_allclose(n, np.rint(n), rtol=0, atol=1e-9)
        values, counts = np.unique(np.rint(n), return_counts=True)
        np.testing.assert_allclose(
            counts / steps, ive(np.abs(values), lengthscale**-2), rtol=0, atol=2 / steps
        )

    def test_harmonics_of_a_sharp_periodic_kernel_are_rounded_normal_numbers(self):
        u = (np.arange(2000) + 0.5) / 2000
        n = Periodic(1e-4).spectral_measure().quantile(u) / (2 * np.pi)
        np.testing.assert_allclose(n, np.rint(n), rtol=0, atol=1e-6)
        np.testing.assert_allclose(n, 1e4 * stats.norm.ppf(u), rtol=0, atol=0.51)

    @pytest.mark.parametrize("lengthscale", [1e-320, 1e-100, 1e100])
    def test_periodic_kernels_of_any_lengthscale(self, lengthscale):
        X = np.array([[0.0], [1.0], [0.25]])
        K = Periodic(lengthscale)(X)
        np.testing.assert_array_equal(K[0], [1.0, 1.0, float(lengthscale > 1)])
        Z = FourierFeatures(Periodic(lengthscale), 20, random_state=0).fit_transform(X)
        assert np.all(np.isfinite(Z))

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "kernel",
        [Periodic(1e-4), Gabor(1e6, 1.0), SpectralMixture([1.0], [2.0], [1e-7])],
    )
    def test_far_frequencies_keep_their_places(self, kernel):
        """Waves of whole numbers of cycles are the same one unit on, however narrow
        the band.
        """
        Z = FourierFeatures(kernel, 200, random_state=0).fit_transform([[0.0], [1.0]])
        assert (Z @ Z.T)[0, 1] == pytest.approx(1.0, abs=1e-5)

    @pytest.mark.parametrize(
        "kernel",
        [
            StudentT(nu=3.0),
            PowerExponential(power=2),
            Gabor(2.0, 0.3),
            Gabor(1.0, [0.1, 0.2, 0.0]),
            Periodic(0.7),
            Periodic(0.02),
            Radial(bell),
            Radial(wendland),
        ],
        ids=repr,
    )
    def test_second_moments_are_curvatures(self, kernel):
        """-k''(0) by Richardson's rule on second differences, of step 1e-2 times the
        scale of the kernel.
        """
        moments = kernel.spectral_measure().moments(3)
        h, X = 1e-2 / np.sqrt(moments.max()), np.zeros((1, 3))
        for j, moment in enumerate(moments):
            e, unit = np.eye(3)[j], kernel.scales(3).max()
            one, two = (
                2 * (1 - kernel(X, [s * h * e * unit])[0, 0]) / (s * h) ** 2
                for s in (1, 2)
            )
            # The next term is (h^2 E w^4), some 1e-7 of the moment; wendland has a
            # third derivative at 0: 1e-2 of it.
            assert (4 * one - two) / 3 == pytest.approx(
                moment, rel=2e-2 if kernel == Radial(wendland) else 1e-5
            )

    @pytest.mark.parametrize("kernel", [StudentT(nu=0.5), PowerExponential(power=1.9)])
    def test_infinite_or_finite(self, kernel):
        smooth = isinstance(kernel, StudentT)
        assert np.all(np.isfinite(kernel.spectral_measure().moments(2)) == smooth)

    @pytest.mark.parametrize("lengthscale", [0.3, 1.0, 5.0, 1e17])
    def test_hamming(self, lengthscale):
        rho, u = np.exp(-1 / lengthscale), (np.arange(10_000) + 0.5) / 10_000
        measure, law = (
            Hamming(lengthscale).spectral_measure(),
            Hamming(lengthscale).pitch_measure(),
        )
        w = measure.quantile(u.reshape(1, -1))[0]
        assert np.mean(w == 0) == pytest.approx(rho, abs=1e-4)
        np.testing.assert_allclose(
            (w**2).mean(), measure.moments(1)[0], rtol=0, atol=2e-3
        )
        for t in (1, 2, 5):
            assert np.cos(t * w).mean() == pytest.approx(rho, abs=1e-3)
        pitches = law.quantile(u)
        assert np.mean(np.isinf(pitches)) == pytest.approx(rho, abs=1e-4)
        assert (1 / pitches).mean() == pytest.approx(law.mean_inverse, abs=1e-4)

    @pytest.mark.parametrize(
        "kernel",
        [
            Laplacian(),
            Hat(),
            Coordinatewise(lambda t: (1 + t) ** -2.0),
            Subspace(Laplacian(), [0]),
        ],
        ids=repr,
    )
    def test_mean_inverse_pitch_is_the_slope(self, kernel):
        ((_, (leaf,)),) = kernel.terms()
        h = 1e-6
        slope = (1 - kernel([[0.0]], [[h]])[0, 0]) / h
        assert leaf.pitch_measure().mean_inverse == pytest.approx(slope, rel=1e-4)

    @pytest.mark.parametrize(
        "kernel", [k for k in ALL if not isinstance(k, Hamming | Subspace | Additive)]
    )
    def test_those_that_are_no_mixtures_of_hats(self, kernel):
        with pytest.raises(
            ValueError, match=r"is not a mixture of hats: .*Use FourierFeatures"
        ):
            BinningFeatures(kernel).fit(np.eye(2))


class TestRowsOfCodes:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        "kernel",
        [Hamming(), Subspace(Hamming(), [1]), Hat() + Additive(Hamming(), [[0, 1]])],
    )
    @pytest.mark.parametrize("make", [FourierFeatures, BinningFeatures])
    def test_scaled_codes_are_refused(self, kernel, make):
        make(kernel).fit(codes(30, 2) + 0.37)
        with pytest.raises(
            ValueError,
            match=r"in column [01], counted from 0, two rows differ by "
            r".*Subspace\(Hamming",
        ):
            make(kernel).fit(0.3 * codes(30, 2))

    def test_only_its_own_columns_are_checked(self):
        X = np.column_stack([normal(20, 1), codes(20, 1)])
        Subspace(Hamming(), [1]).check_rows(X)
        with pytest.raises(ValueError, match="in column 0"):
            Hamming().check_rows(X)

    def test_sparse_rows(self):
        X = codes(30, 3)
        Hamming().check_rows(sp.csr_array(X))
        with pytest.raises(ValueError, match=r"in column 0, .* differ by"):
            Hamming().check_rows(sp.csr_array(0.3 * X))
        with pytest.raises(ValueError, match=r"differ by"):
            Hamming().check_rows(
                sp.csr_array(X + 0.5)
            )  # zeros that are not held differ by a half

    def test_leverage_checks_all_rows(self):
        X = np.zeros((5000, 1))
        X[-1] = 0.5
        for seed in range(3):
            with pytest.raises(ValueError, match=r"differ by 0\.5"):
                FourierFeatures(
                    Hamming(), 20, sampling="leverage", random_state=seed
                ).fit(X)

    @pytest.mark.slow
    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
    def test_large_codes(self, dtype):
        X = (codes(40, 3) * 1e6).astype(dtype)
        features = BinningFeatures(Hamming(2.0), 4000, random_state=0)
        Z = features.fit_transform(X)
        assert np.abs((Z @ Z.T).toarray() - Hamming(2.0)(X)).max() < 5 * 0.5 / np.sqrt(
            4000
        )


class TestMaps:
    @pytest.mark.parametrize("kernel", ALL, ids=lambda k: type(k).__name__)
    def test_fourier_features(self, kernel):
        """Of 4,000 cosines an entry has a deviation of variance / sqrt(4000) at
        most; 5 of them, 400 entries.
        """
        X = codes(20, 2) if isinstance(kernel, Hamming) else normal(20, 2)
        Z = FourierFeatures(kernel, 8000, sampling="iid", random_state=0).fit_transform(
            X
        )
        bound = 5 * kernel.variance / np.sqrt(4000)
        assert np.abs(Z @ Z.T - kernel(X)).max() < bound

    @pytest.mark.parametrize(
        "kernel",
        [
            Hamming([1.0, 3.0]),
            Subspace(Laplacian(3.0), [1]) * Subspace(Hamming(), [0]),
            Additive(Hat(6.0), [[0], [0, 1]]),
        ],
        ids=repr,
    )
    def test_binning_features(self, kernel):
        X = codes(20, 2)
        Z = BinningFeatures(kernel, 4000, random_state=0).fit_transform(X)
        assert np.abs(
            (Z @ Z.T).toarray() - kernel(X)
        ).max() < 5 * kernel.variance * 0.5 / np.sqrt(4000)

    @pytest.mark.parametrize(
        "kernel",
        [
            Hamming(4.0),
            Additive(Laplacian(3.0), [[0], [1]]),
            Subspace(Matern(2.0), [0]),
        ],
    )
    def test_estimators(self, kernel):
        X = codes(300, 2)
        y = np.array([0.0, 3.0, 1.0, -2.0])[X[:, 0].astype(int)]
        model = KernelMachineRegressor(
            kernel=kernel, n_components=200, random_state=0
        ).fit(X, y)
        assert model.score(X, y) > 0.99

    def test_a_period_is_learnt(self):
        X = np.linspace(0, 20, 400)[:, None]
        y = np.sin(2 * np.pi * X[:, 0] / 2.5)
        model = KernelMachineRegressor(
            kernel=Periodic(1.0, 2.5), n_components=100, random_state=0
        )
        model.fit(X[:200], y[:200])
        assert model.score(X[200:], y[200:]) > 0.99  # beyond the rows


class TestFiles:
    @pytest.mark.parametrize("kernel", STORABLE, ids=lambda k: type(k).__name__)
    def test_round_trip(self, kernel, tmp_path):
        X = codes(30, 2)
        features = FourierFeatures(kernel, 40, random_state=0).fit(X)
        save(features, tmp_path / "map")
        copy = load(tmp_path / "map")
        assert copy.kernel == kernel
        np.testing.assert_array_equal(copy.transform(X), features.transform(X))
        model = KernelMachineRegressor(features=features, random_state=0).fit(
            X, X[:, 0]
        )
        save(model, tmp_path / "model")
        np.testing.assert_array_equal(
            load(tmp_path / "model").predict(X), model.predict(X)
        )

    def test_functions_are_not_saved(self, tmp_path):
        with pytest.raises(
            TypeError, match="kernel is a Radial, which cannot be saved"
        ):
            save(
                FourierFeatures(Radial(wendland, 5.0), 40).fit(np.eye(2)),
                tmp_path / "map",
            )
