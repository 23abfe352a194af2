"""Mixtures of hats: laws of pitches against the kernels they mix to, and the hat's
own law of frequencies.
"""

import pickle

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaincc, sici
from sklearn.base import clone

import exact
from bochner import load, save
from bochner.kernels import (
    Cauchy,
    Coordinatewise,
    Gaussian,
    Hat,
    Laplacian,
    Matern,
    RationalQuadratic,
    SmoothBins,
)

EPS = np.finfo(float).eps
DISTANCES = [0.0, 1e-6, 1e-3, 0.03, 0.3, 0.7, 1.0, 1.5, 4.0, 20.0]


def exponential(t):
    return np.exp(-t)


def heavy(t):
    return 1 / (1 + t) ** 2


def cusp(t):
    return np.exp(-np.sqrt(t))


def compact(t):
    return np.maximum(0.0, 1 - t) ** 2


GOLDEN = (1 + np.sqrt(5)) / 2

# name: k, k', and the maximum of t^2 k''(t): at t = 2, 1, GOLDEN^2 and 1
FUNCTIONS = {
    "exponential": (exponential, lambda t: -np.exp(-t), 4 * np.exp(-2)),
    "heavy": (heavy, lambda t: -2 / (1 + t) ** 3, 6 / 16),
    "cusp": (
        cusp,
        lambda t: -np.exp(-np.sqrt(t)) / (2 * np.sqrt(t)),
        np.exp(-GOLDEN) * (GOLDEN**2 + GOLDEN) / 4,
    ),
    "compact": (compact, lambda t: -2 * np.maximum(0.0, 1 - t), 2.0),
}
SPACING = np.log(2) / 512  # of the pitches of `Coordinatewise`, in log delta
ENDS = 1e-7  # of the function, cut at 0, cut far away, and made up for by normalising


@pytest.fixture(params=FUNCTIONS)
def known(request):
    """A convex function, its slope, and its largest t^2 k''(t)."""
    return FUNCTIONS[request.param]


def chord_bound(bend):
    """Largest gap between chords on cells of relative width r - 1 and the function:
    (r - 1)^2 / 8 max t^2 k''.
    """
    return np.expm1(SPACING) ** 2 / 8 * bend


def shares(n):
    """Midpoints of n equal parts of (0, 1)."""
    return (np.arange(n) + 0.5) / n


def mean_hat(quantile, n=200_000):
    """E hat(D / delta) at the distances, by the midpoint rule.

    hat(D / quantile(u)) rises from 0 to 1 at most, and the midpoint rule misses the
    integral of a monotone function by at most its rise over 2 n.
    """
    pitches = quantile(shares(n))
    return np.array([np.maximum(0.0, 1 - D / pitches).mean() for D in DISTANCES]), 1 / (
        2 * n
    )


class TestPitches:
    def test_laplacian(self):
        found, bound = mean_hat(Laplacian(3.0).pitch_measure().quantile)
        np.testing.assert_allclose(
            found, np.exp(-np.array(DISTANCES)), rtol=0, atol=bound
        )

    def test_laplacian_quantile_inverts_its_law(self):
        """F = 1 - k + delta k' = 1 - (1 + delta) exp(-delta), integrated here from
        its density.
        """
        u = np.array([1e-12, 1e-3, 0.1, 0.5, 0.9, 0.999])
        for share, pitch in zip(
            u, Laplacian().pitch_measure().quantile(u), strict=True
        ):
            mass, error = quad(lambda t: t * np.exp(-t), 0, pitch, epsabs=0)
            assert abs(mass - share) <= error + 16 * EPS * share

    def test_hat(self):
        found, _ = mean_hat(Hat([1.0, 2.0]).pitch_measure().quantile, n=4)
        np.testing.assert_array_equal(found, np.maximum(0, 1 - np.array(DISTANCES)))
        assert Hat().pitch_measure().quantile(shares(6).reshape(2, 3)).shape == (2, 3)

    def test_coordinatewise(self, known):
        function, _, bend = known
        found, bound = mean_hat(Coordinatewise(function).pitch_measure().quantile)
        bound += chord_bound(bend) + 3 * ENDS
        np.testing.assert_allclose(
            found, function(np.array(DISTANCES)), rtol=0, atol=bound
        )

    def test_coordinatewise_quantile_inverts_the_law(self, known):
        """The weight up to a node is F between that node and the next, as slopes of
        convex functions rise.

        So u is in (F(delta / r), F(delta r)], r = exp(h), up to what is cut at the
        ends.
        """
        function, slope, _ = known
        u = np.linspace(0.001, 0.999, 999)
        pitches = Coordinatewise(function).pitch_measure().quantile(u)
        assert np.all(np.diff(pitches) >= 0)
        low, high = (
            1 - function(t) + t * slope(t)
            for t in (pitches * np.exp(-SPACING), pitches * np.exp(SPACING))
        )
        assert np.all((low - 3 * ENDS <= u) & (u <= high + 3 * ENDS))

    def test_a_kink_is_one_pitch(self):
        pitches = (
            Coordinatewise(lambda t: np.maximum(0.0, 1 - t / 3))
            .pitch_measure()
            .quantile(shares(1000))
        )
        assert np.all(np.abs(np.log(pitches / 3)) <= SPACING)

    @pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e6, 1e30])
    def test_functions_of_any_scale(self, known, scale):
        function, _, bend = known
        found, bound = mean_hat(
            lambda u: (
                Coordinatewise(lambda t: function(t / scale))
                .pitch_measure()
                .quantile(u)
                / scale
            )
        )
        np.testing.assert_allclose(
            found,
            function(np.array(DISTANCES)),
            rtol=0,
            atol=bound + chord_bound(bend) + 3 * ENDS,
        )

    def test_agrees_with_the_laplacian(self):
        u = shares(1000)
        ratio = Coordinatewise(exponential).pitch_measure().quantile(
            u
        ) / Laplacian().pitch_measure().quantile(u)
        # One cell, and ends of 1e-7 over u, where F is about delta^2 / 2 at least.
        assert np.all(np.abs(np.log(ratio)) <= SPACING + 3 * ENDS / u[0])

    @pytest.mark.parametrize(
        "kernel", [Laplacian(), Hat(), Coordinatewise(cusp)], ids=repr
    )
    def test_pitches_are_positive_at_the_ends(self, kernel):
        pitches = kernel.pitch_measure().quantile(
            np.array([np.finfo(float).tiny, 1 - 2**-53])
        )
        assert np.all((pitches > 0) & np.isfinite(pitches))


class TestRefusals:
    @pytest.mark.parametrize(
        ("kernel", "reason"),
        [
            (Gaussian(2.0), "concave near 0"),
            (Cauchy(), "concave near 0"),
            (Matern(nu=np.inf), "depends on ‖delta‖"),
            (Matern(), "depends on ‖delta‖"),
            (Matern(nu=0.5), "depends on ‖delta‖"),
            (RationalQuadratic(), "depends on ‖delta‖"),
        ],
        ids=repr,
    )
    def test_kernels_that_are_no_mixtures(self, kernel, reason):
        with pytest.raises(
            ValueError, match=f"not a mixture of hats: .*{reason}.*Use FourierFeatures"
        ) as error:
            kernel.pitch_measure()
        assert str(error.value).startswith(repr(kernel))

    def test_concave_functions_say_where_and_how_much(self):
        """exp(-t^2 / 2) is concave up to 1, where F = 1 - k + t k' = 1 - 2 exp(-1/2)
        = -0.213.
        """
        with pytest.raises(
            ValueError,
            match=r"distances 0\.000\d+ and 0\.999, .* sum to -0\.213\. "
            r".*FourierFeatures",
        ):
            Coordinatewise(lambda t: np.exp(-(t**2) / 2)).pitch_measure()

    def test_functions_that_turn_convex_late(self):
        """exp(-t) cos t has the second derivative 2 exp(-t) sin t, negative first
        from pi on.
        """
        with pytest.raises(ValueError, match=r"distances 3\.1\d and"):
            Coordinatewise(lambda t: np.exp(-t) * np.cos(t)).pitch_measure()

    @pytest.mark.parametrize(
        ("function", "match"),
        [
            (np.cos, "must fall to 0"),
            (np.ones_like, r"must fall to 0, and is 1 at"),
            (lambda t: 0.1 + 0.9 * np.exp(-t), r"must fall to 0, and is 0\.1 at"),
            (
                lambda t: np.where(t > 0, np.exp(-t) / 2, 1.0),
                r"continuous at 0, and is 0\.5 at",
            ),
            (
                lambda t: np.where(t > 3, np.nan, np.exp(-t)),
                "must be finite; at distance 4 ",
            ),
        ],
    )
    def test_functions_that_are_no_such_kernels(self, function, match):
        kernel = Coordinatewise(function)
        with pytest.raises(ValueError, match=match):
            kernel.pitch_measure()

    @pytest.mark.parametrize(
        ("function", "error", "match"),
        [
            (3.0, TypeError, "callable"),
            (None, TypeError, "callable"),
            (lambda t: max(0.0, 1 - t), TypeError, "array of distances; it raised"),
            (lambda t: 1.0, TypeError, "same shape"),
            (lambda t: np.exp(-t).sum(), TypeError, "same shape"),
            (lambda t: np.exp(-t).astype(np.float32), TypeError, "float64"),
            (lambda t: 2 * np.exp(-t), ValueError, "must be 1 at distance 0, got 2"),
            (lambda t: np.full(t.shape, np.nan), ValueError, "must be finite"),
        ],
    )
    def test_what_is_no_function(self, function, error, match):
        with pytest.raises(error, match=match):
            Coordinatewise(function)
        with pytest.raises(error, match=match):
            Coordinatewise(exponential).set_params(function=function)


class TestCoordinatewise:
    def test_is_the_product_of_its_function(self, known):
        X, Y = np.random.default_rng(0).standard_normal((2, 6, 3))
        scale = np.array([0.5, 1.0, 2.0])
        expected = known[0](np.abs(X[:, None] - Y[None]) / scale).prod(axis=2)
        # Distances, functions and products round by a few units, (1 - t)^2 by 2 t / (1
        # - t) times that: 1000 for any t here that is less than 0.998.
        np.testing.assert_allclose(
            Coordinatewise(known[0], scale)(X, Y), expected, rtol=1e-12, atol=0
        )
        K = Coordinatewise(known[0], scale)(X.astype(np.float32))
        assert K.dtype == np.float64
        np.testing.assert_array_equal(np.diag(K), 1.0)

    def test_equals_the_kernels_it_contains(self):
        X = np.random.default_rng(0).standard_normal((20, 2))
        np.testing.assert_allclose(
            Coordinatewise(exponential, 2.0)(X), Laplacian(2.0)(X), rtol=1e-14
        )
        np.testing.assert_array_equal(
            Coordinatewise(lambda t: np.maximum(0.0, 1 - t), 2.0)(X), Hat(2.0)(X)
        )

    def test_distances_whose_squares_overflow(self):
        assert Coordinatewise(heavy)([[0.0]], [[1e300]])[0, 0] == 0

    def test_parameters(self):
        kernel = Coordinatewise(heavy, [1.0, 2.0])
        copy = clone(kernel)
        assert copy == kernel
        assert hash(copy) == hash(kernel)
        assert copy.get_params() == {"function": heavy, "lengthscale": [1.0, 2.0]}
        assert copy.set_params(function=cusp) != kernel
        assert copy == Coordinatewise(cusp, [1.0, 2.0])
        assert kernel.check_features(2) is None
        assert (2.0 * kernel + Gaussian()).terms()[0] == (2.0, (kernel,))

    def test_repr_names_the_function(self):
        assert (
            repr(Coordinatewise(heavy, 2.0))
            == "Coordinatewise(function=heavy, lengthscale=2.0)"
        )
        assert (
            repr(Coordinatewise(lambda t: np.exp(-t)))
            == "Coordinatewise(function=<lambda>, lengthscale=1.0)"
        )
        assert "heavy" in repr(Coordinatewise(np.vectorize(heavy, otypes=[float])))

    def test_pickles_if_its_function_does(self):
        assert pickle.loads(pickle.dumps(Coordinatewise(heavy))) == Coordinatewise(  # noqa: S301
            heavy
        )

    def test_is_not_stored(self, tmp_path):
        with pytest.raises(TypeError, match="Coordinatewise cannot be saved"):
            save(Coordinatewise(heavy), tmp_path / "kernel")
        with pytest.raises(
            TypeError, match=r"Sum\.right is a Coordinatewise, which cannot be saved"
        ):
            save(Gaussian() + Coordinatewise(heavy), tmp_path / "kernel")


def fejer(w):
    return np.sinc(w / (2 * np.pi)) ** 2 / (2 * np.pi)


class TestHat:
    def test_is_stored(self, tmp_path):
        save(Hat([1.0, 2.0]), tmp_path / "kernel")
        assert load(tmp_path / "kernel") == Hat([1.0, 2.0])

    def test_frequencies_between_quantiles_integrate_to_their_share(self):
        """Up to 0.996, where w is about 80."""
        u = np.append(np.linspace(0.5, 0.99, 99), [0.992, 0.994, 0.995, 0.996])
        w = Hat().spectral_measure().quantile(u)
        assert w[0] == 0
        for share, a, b in zip(np.diff(u), w[:-1], w[1:], strict=True):
            mass, error = quad(fejer, a, b, epsabs=0, limit=200)
            # Shares and tails round by eps of at most 1, and the tail 1 - u is found to
            # 1e-13 of itself.
            assert abs(mass - share) <= error + 2 * (1e-13 * (1 - u[0]) + EPS)

    def test_tail(self):
        """By parts twice more, pi w P(> w) = 1 + sin w / w - 2 cos w / w^2 + R with
        |R| <= 6 / w^3 + 24 / w^4.
        """
        u = 10.0 ** -np.linspace(3, 300, 5000)
        w = -Hat().spectral_measure().quantile(u)
        v = 1 / w
        R = np.pi * w * u - (1 + np.sin(w) * v - 2 * np.cos(w) * v**2)
        assert np.all(np.abs(R) <= 6 * v**3 + 24 * v**4 + 1e-13 + 8 * EPS)

    def test_is_symmetric_and_monotone(self):
        u = np.sort(np.random.default_rng(0).random(100_000))
        w = Hat().spectral_measure().quantile(u)
        assert np.all(np.diff(w) >= 0)
        dyadic = np.arange(1, 2**14) / 2**14
        w = Hat().spectral_measure().quantile(dyadic.reshape(-1, 1))[:, 0]
        np.testing.assert_array_equal(w, -w[::-1])

    def test_finite_at_the_ends(self):
        w = (
            Hat()
            .spectral_measure()
            .quantile(np.array([2.0**-1074, np.finfo(float).tiny, 0.5, 1 - 2**-53]))
        )
        assert np.all(np.isfinite(w))
        # Beyond 1e15, P = 1 / (pi w) to 1e-15.
        np.testing.assert_allclose(
            w[[1, 3]], [-1 / (np.pi * np.finfo(float).tiny), 2**53 / np.pi], rtol=2e-13
        )
        assert w[2] == 0

    def test_around_the_zeros_of_the_density(self):
        """At 2 pi n the density vanishes, and shares there belong to wide ranges of
        frequencies.
        """
        n = np.arange(1, 8)
        tail = (np.pi / 2 - sici(2 * np.pi * n)[0]) / np.pi
        w = -Hat().spectral_measure().quantile(tail)
        # With w = 2 pi n + h the tail differs by |h|^3 / (6 pi w^2), here by eps and
        # 1e-13 of itself.
        reach = np.cbrt(6 * np.pi * w**2 * (1e-13 * tail + 2 * EPS))
        assert np.all(np.abs(w - 2 * np.pi * n) <= reach * 1.01)

    def test_frequencies_transform_back(self):
        """E cos(w D) over n draws deviates by sqrt(((1 + k(2 D)) / 2 - k(D)^2) / n)."""
        n, D = 400_000, np.array([0.05, 0.3, 0.5, 0.9, 1.0, 1.7, 5.0])
        w = Hat().spectral_measure().quantile(np.random.default_rng(0).random(n))
        k, k2 = np.maximum(0, 1 - D), np.maximum(0, 1 - 2 * D)
        found = np.array([np.cos(w * distance).mean() for distance in D])
        assert np.all(np.abs(found - k) <= 5 * np.sqrt(((1 + k2) / 2 - k**2) / n))


def weight(s):
    return np.sqrt(30) * s * (1 - s)


def mean_product(t):
    """Of the weights of two points at distance t < 1 in a grid of pitch 1."""
    return (1 - t) ** 3 * (1 + 3 * t + t**2)


class TestSmoothBins:
    def test_product_of_weights(self):
        """Polynomials of degree 4, which the quadrature integrates exactly; 64 eps
        for its sums of terms up to 2.
        """
        for t in np.linspace(0, 1, 21):
            found, _ = quad(lambda s, t=t: weight(s) * weight(s + t), 0, 1 - t)
            assert abs(found - mean_product(t)) <= 64 * EPS

    def test_is_the_mean_over_the_pitches(self):
        """rho(D / quantile(u)) rises with u from 0 to 1 at most: an error of 1 / (2
        n) by the midpoint rule.
        """
        n, law = 200_000, SmoothBins(3.0).pitch_measure()
        assert law.smooth
        pitches = law.quantile(shares(n))
        found = [mean_product(np.minimum(D / pitches, 1)).mean() for D in DISTANCES]
        np.testing.assert_allclose(
            found, SmoothBins()([[0.0]], np.c_[DISTANCES])[0], rtol=0, atol=1 / (2 * n)
        )
        assert not any(
            kernel.pitch_measure().smooth
            for kernel in (Laplacian(), Hat(), Coordinatewise(cusp))
        )

    def test_incomplete_gamma_functions(self):
        """E[pitch^-k; pitch > t] = Gamma(7 - k, t) / Gamma(7), and rho = 1 - 5 s^2 +
        5 s^3 - s^5.
        """
        t = np.linspace(0, 15, 61)
        Q = {k: gammaincc(7 - k, t) for k in (0, 2, 3, 5)}
        parts = np.array(
            [Q[0], -(t**2) / 6 * Q[2], t**3 / 24 * Q[3], -(t**5) / 720 * Q[5]]
        )
        found = SmoothBins(np.sqrt(3))([[0.0]], t[:, None])[0]
        # The functions are right to some 10 eps, and the parts cancel.
        assert np.all(
            np.abs(parts.sum(axis=0) - found) <= 32 * EPS * np.abs(parts).sum(axis=0)
        )

    def test_is_the_product_over_the_features(self):
        X, Y = np.random.default_rng(0).standard_normal((2, 6, 3))
        for scale in (0.7, np.array([0.5, 1.0, 2.0])):
            expected = exact.gram(
                lambda t, scale=scale: exact.smooth_bins(t, scale), X, Y
            )
            # Sums of 200 positive terms in each of three factors, to eps each; exp of
            # up to 20 to 20 eps.
            np.testing.assert_allclose(
                SmoothBins(scale)(X, Y), expected, rtol=3 * 220 * EPS
            )

    def test_falls_like_the_gaussian(self):
        """1 - t^2 / 2 + sqrt(27) t^3 / 24 - 9 sqrt(3) t^5 / 720 + ..., of
        alternating signs.
        """
        t = np.array([1e-3, 1e-2, 0.1])
        found = SmoothBins(2.0)([[0.0]], 2 * t[:, None])[0]
        assert np.all(
            np.abs(found - (1 - t**2 / 2 + np.sqrt(27) / 24 * t**3))
            <= 9 * np.sqrt(3) / 720 * t**5 + 4 * EPS
        )

    def test_far_away(self):
        np.testing.assert_array_equal(
            SmoothBins()([[0.0, 0.0]], [[1e300, 0.0], [1e300, 1e300], [900.0, 0.0]]), 0
        )

    def test_is_stored(self, tmp_path):
        save(SmoothBins([1.0, 2.0]), tmp_path / "kernel")
        assert load(tmp_path / "kernel") == SmoothBins([1.0, 2.0])
