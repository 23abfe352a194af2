"""Laws of frequencies found as numbers, against closed forms, the laws of SciPy and
quadrature.
"""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import hyp0f1

from bochner.kernels import Coordinatewise, Radial
from bochner.kernels.separable import _mean_product
from bochner.kernels.transforms import cosine_law, hankel_law, mean_wave

DISTANCES = np.array(
    [1e-6, 1e-4, 1e-2, 0.05, 0.1, 0.3, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 20.0]
)
ACCURACY = 1e-4  # the module's claim


def gaussian(t):
    return np.exp(-(t**2) / 2)


def exponential(t):
    return np.exp(-t)


def stable(t):
    return np.exp(-(t**1.5))


def matern32(t):
    return (1 + np.sqrt(3) * t) * np.exp(-np.sqrt(3) * t)


def matern52(t):
    return (1 + np.sqrt(5) * t + 5 / 3 * t**2) * np.exp(
        -np.sqrt(5) * np.minimum(t, 1e3)
    )


def heavy(t):
    return (1 + t) ** -2.0


def slow(t):
    return (1 + t**2 / 1.4) ** -0.7


def bell(t):
    return 1 / (1 + t**2)


def box_spectrum(t):
    return np.sinc(t / np.pi)


def hat(t):
    return np.maximum(0.0, 1 - t)


def wendland(t):
    return np.maximum(0.0, 1 - t) ** 4 * (4 * t + 1)


ISOTROPIC = [gaussian, exponential, stable, matern32, slow]
ONE_DIMENSIONAL = [*ISOTROPIC, heavy, bell, box_spectrum, hat, wendland, _mean_product]


def checked(function):
    """As the kernels hand it over, overflow and underflow aside."""
    return Coordinatewise(lambda t: function(np.minimum(t, 1e150)))._evaluate


def shares(n):
    return (np.arange(n) + 0.5) / n


def expected_wave(law, d, distances):
    """E Omega_d(w r) by the midpoint rule in v, u = sin(pi v / 2)^2, ever finer towards
    both ends for the tails.

    Waves of one feature do not decay, and take more points.
    """
    v = shares(400_000 if d == 1 else 8_000)
    w, weights = (
        law.quantile(np.sin(np.pi * v / 2) ** 2),
        np.pi / 2 * np.sin(np.pi * v) / len(v),
    )
    return np.array(
        [
            (np.cos(w * r) if d == 1 else mean_wave(d, w * r)) @ weights
            for r in distances
        ]
    )


class TestMeanWave:
    @pytest.mark.parametrize("d", [1, 2, 3, 10, 50, 100])
    def test_equals_the_hypergeometric_function(self, d):
        """Up to exp(16) eps = 2e-9, by which terms of the series exceed their sum;
        beyond d = 100 SciPy's has gaps.
        """
        t = np.geomspace(1e-3, 300, 500)
        np.testing.assert_allclose(
            mean_wave(d, t), hyp0f1(d / 2, -(t**2) / 4), rtol=0, atol=4e-9
        )

    @pytest.mark.parametrize("d", [1000, 100_000])
    def test_many_features(self, d):
        """With q = t^2 / (2 d), log Omega_d is -q - q^2 / (d + 2) - ..., the next
        term being below 8 q^3 / d^2.
        """
        t = np.sqrt(2 * d * np.array([1e-3, 0.1, 0.5, 1.0, 2.0, 4.0]))
        expected = np.exp(-(t**2) / (2 * d) - t**4 / (4 * d**2 * (d + 2)))
        np.testing.assert_allclose(
            mean_wave(d, t), expected, rtol=8 * 8**3 / d**2 + 1e-9
        )
        assert np.all(np.abs(mean_wave(d, np.geomspace(1, 1e6, 100))) <= 1)


class TestTransformsBack:
    @pytest.mark.parametrize("function", ONE_DIMENSIONAL, ids=lambda f: f.__name__)
    def test_one_dimension(self, function):
        """A kink of slope -1 to 0 is rounded to E max(0, sigma z) = sigma / sqrt(2 pi)
        by the blur w exp(sigma z).

        Here sigma is two nodes of 2^17 over the 16 units of log r of the hat, two rims
        and log 1e8: 7.1e-4 at most.
        """
        atol = (
            np.where(
                (function is hat) & (DISTANCES == 1), 7.1e-4 / np.sqrt(2 * np.pi), 0
            )
            + ACCURACY
        )
        found = expected_wave(hankel_law(checked(function), 1), 1, DISTANCES)
        assert np.all(np.abs(found - function(DISTANCES)) <= atol)

    @pytest.mark.parametrize("d", [2, 3, 10, 11, 784])
    @pytest.mark.parametrize("function", ISOTROPIC, ids=lambda f: f.__name__)
    def test_isotropic(self, function, d):
        function = checked(function)
        found = expected_wave(hankel_law(function, d), d, DISTANCES)
        # The law of a Gaussian of many features, nearly one length, is as wide as a
        # cell h = 0.033 at least, or two of them apart by h: a variance of h^2 / 4 of
        # the log length, by half of which (r d/dr)^2 k <= 1.2 is multiplied.
        narrow = 0.6 * 0.034**2 / 4 if d > 100 else 0
        np.testing.assert_allclose(
            found, function(DISTANCES), rtol=0, atol=ACCURACY + narrow
        )

    @pytest.mark.parametrize("d", [1, 2, 3])
    def test_compact_support(self, d):
        found = expected_wave(hankel_law(checked(wendland), d), d, DISTANCES)
        np.testing.assert_allclose(found, wendland(DISTANCES), rtol=0, atol=ACCURACY)

    def test_draws(self):
        """Radial draws vectors whose mean cosine is k, within five standard errors
        of at most 1 / sqrt(n) each.
        """
        n, rng = 100_000, np.random.default_rng(0)
        measure = Radial(checked(matern32)).spectral_measure()
        W = measure.frequencies(
            rng.standard_normal((3, n)), rng.random((measure.n_uniforms, n))
        )
        for r in (0.1, 1.0, 3.0):
            assert abs(np.cos(r * W[0]).mean() - matern32(r)) <= 5 / np.sqrt(n)


class TestLaws:
    @pytest.mark.parametrize(
        ("function", "law"),
        [
            (gaussian, stats.norm()),
            (exponential, stats.cauchy()),
            (bell, stats.laplace()),
            (hat, None),
        ],
    )
    def test_one_coordinate(self, function, law):
        u = shares(2000)
        w = cosine_law(checked(function)).quantile(u)
        if law is None:
            found = [0.5 + np.sign(b) * quad(lambda w: np.sinc(w / 2 / np.pi) ** 2 / 2 / np.pi, 0, abs(b), limit=500)[0]
                     for b in w[::50]]  # fmt: skip
            np.testing.assert_allclose(found, u[::50], rtol=0, atol=ACCURACY)
        else:
            np.testing.assert_allclose(law.cdf(w), u, rtol=0, atol=ACCURACY)

    @pytest.mark.parametrize("d", [1, 2, 3, 5, 8, 10])
    @pytest.mark.parametrize(
        ("function", "law"),
        [
            (gaussian, lambda d: stats.chi(d).cdf),
            (matern32, lambda d: lambda w: stats.f(d, 3).cdf(w**2 / d)),
            (matern52, lambda d: lambda w: stats.f(d, 5).cdf(w**2 / d)),
            (exponential, lambda d: lambda w: stats.f(d, 1).cdf(w**2 / d)),
        ],
        ids=["gaussian", "matern32", "matern52", "exponential"],
    )
    def test_lengths(self, function, law, d):
        """A blur of sigma <= 0.011 moves F by sigma^2 / 2 |F''| in log w, and |F''|
        <= 0.25 (2 d) for chi: 3e-4.
        """
        u = shares(2000)
        found = law(d)(hankel_law(checked(function), d).quantile(u))
        np.testing.assert_allclose(found, u, rtol=0, atol=3e-4)

    def test_one_feature_is_a_coordinate(self):
        u = shares(100)
        length = hankel_law(checked(bell), 1).quantile(u)
        np.testing.assert_allclose(
            cosine_law(checked(bell)).quantile((1 + u) / 2), length, rtol=1e-9
        )

    def test_symmetric_monotone_finite_and_of_any_shape(self):
        quantile = cosine_law(checked(exponential)).quantile
        dyadic = np.arange(1, 2**12) / 2**12
        w = quantile(dyadic.reshape(-1, 1))[:, 0]
        np.testing.assert_array_equal(w, -w[::-1])
        assert np.all(np.diff(w) > 0)
        assert np.all(
            np.isfinite(quantile(np.array([2.0**-1074, 0.0, 1 - 2**-53, 1.0])))
        )

    @pytest.mark.parametrize("scale", [1e-6, 1e6, 1e-30, 3.7e30])
    @pytest.mark.parametrize("d", [1, 4, 20])
    def test_functions_of_any_scale(self, scale, d):
        """Found on nodes and cells that lie elsewhere: forward, as the accuracy of
        the law itself is another matter.
        """
        function = checked(lambda t: matern32(t / scale))
        found = expected_wave(hankel_law(function, d), d, DISTANCES * scale)
        np.testing.assert_allclose(found, matern32(DISTANCES), rtol=0, atol=ACCURACY)

    @pytest.mark.parametrize("d", [1, 3, 30])
    @pytest.mark.parametrize(
        ("function", "moment"),
        [
            (gaussian, 1),
            (bell, 2),
            (matern32, 3),
            (slow, 1),
            (exponential, np.inf),
            (hat, np.inf),
            (stable, np.inf),
        ],
    )
    def test_second_moments(self, function, moment, d):
        """Aitken's rule leaves the second next term of k: below 1e-3 of the first
        where 1 - k = 1e-4 at most.
        """
        if function is not hat or d == 1:
            np.testing.assert_allclose(
                hankel_law(checked(function), d).second_moment, moment, rtol=1e-3
            )

    def test_found_once_for_each_function(self):
        kernel = Coordinatewise(gaussian)
        first = hankel_law(kernel._evaluate, 2)
        assert hankel_law(kernel._evaluate, 2) is first
        kernel.set_params(function=exponential)
        assert hankel_law(kernel._evaluate, 2).second_moment == np.inf


class TestRefusals:
    @pytest.mark.parametrize(
        ("function", "features"),
        [
            (lambda t: np.exp(-(t**4)), [1, 2, 30]),
            (lambda t: np.exp(-(t**3)), [1, 3]),
            (lambda t: np.exp(-(t**2.5)), [1, 3, 20]),
            (lambda t: np.where(t < 1, 1.0, 0.0), [1, 2, 5]),
            (lambda t: np.sqrt(hat(t)), [1, 2]),
            (hat, [2, 3, 10, 100]),
            (wendland, [7, 10, 11, 50]),
        ],
    )
    def test_no_kernels(self, function, features):
        for d in features:
            with pytest.raises(
                ValueError,
                match=rf"not a kernel of {min(d, 10)} feature.*between the "
                r"frequencies .* sum to -\d.*Use",
            ):
                hankel_law(checked(function), d)

    def test_says_where_and_how_much(self):
        """exp(-t^4) against its transform by quadrature, negative from 3.44 on."""

        def density(w):
            return (
                2
                / np.pi
                * quad(lambda t: np.exp(-(t**4)) * np.cos(w * t), 0, 4, epsabs=1e-12)[0]
            )

        total = quad(lambda w: min(density(w), 0), 3, 16, limit=200, epsabs=1e-6)[0]
        with pytest.raises(
            ValueError,
            match=r"of 1 feature: .* the frequencies 3\.\d+ and .*another function",
        ) as error:
            cosine_law(checked(lambda t: np.exp(-(t**4))))
        found = float(str(error.value).split("sum to ")[1].split(". ")[0])
        np.testing.assert_allclose(found, total, rtol=5e-3)  # three digits are said

    def test_hat_is_a_kernel_of_one_feature_only(self):
        hankel_law(checked(hat), 1)
        with pytest.raises(
            ValueError, match=r"2 features.*between the frequencies 5\.\d"
        ):
            hankel_law(checked(hat), 2)
        with pytest.raises(
            ValueError,
            match=r"10 features, let alone 784: .*fewer features.*BinningFeatures",
        ):
            hankel_law(checked(hat), 784)

    def test_a_wave_of_fewer_features(self):
        """Omega_12 exp(-r^2 / 200) is a kernel of 12 features and hardly one of 40:
        the mixture misses it.
        """

        def wave(r):
            near = np.minimum(r, 80.0)
            return mean_wave(12, 3 * near) * np.exp(-(near**2) / 200) * (r < 80)

        hankel_law(checked(wave), 12)
        with pytest.raises(
            ValueError,
            match=r"40 features: all mixtures .* by 0\.\d+ at distance .*fewer "
            r"features",
        ):
            hankel_law(checked(wave), 40)

    @pytest.mark.parametrize(
        ("function", "match"),
        [
            (np.cos, "No kernel: function must fall to 0"),
            (lambda t: 0.1 + 0.9 * np.exp(-t), r"fall to 0, and is 0\.1 at"),
            (
                lambda t: np.where(t > 0, np.exp(-t) / 2, 1.0),
                r"No kernel: function must be continuous at 0, and is 0\.5",
            ),
            (
                lambda t: np.where(t > 3, np.nan, np.exp(-t)),
                "must be finite; at distance 4 ",
            ),
        ],
    )
    def test_ends(self, function, match):
        with pytest.raises(ValueError, match=match):
            cosine_law(Coordinatewise(function)._evaluate)
