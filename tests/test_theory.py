"""Claim 1 and Claim 2: against formulas written again, against second differences,
and against what maps really do.
"""

import doctest

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist
from scipy.stats import binomtest
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import Nystroem, RBFSampler

from bochner import (
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    KernelMachineClassifier,
    KernelMachineRegressor,
    LinearFeatures,
    theory,
)
from bochner.features import Metric, MetricFeatures
from bochner.kernels import (
    Additive,
    Cauchy,
    Gabor,
    Gaussian,
    Hamming,
    Hat,
    Laplacian,
    Matern,
    Periodic,
    PowerExponential,
    RationalQuadratic,
    SmoothBins,
    SpectralMixture,
    StudentT,
    Subspace,
)
from bochner.theory import (
    binning_failure_bound,
    break_rates,
    effective_dimension,
    fourier_failure_bound,
    kernel_error,
    lipschitz_constant,
    pointwise_failure_bound,
    required_components,
    required_grids,
    spectral_variance,
    statistical_components,
)
from bochner.theory.bounds import PROOFS

SPREAD = [0.7, 1.1, 2.0]
SMOOTH = [
    Gaussian(1.5),
    Gaussian(SPREAD),
    3.0 * Cauchy(SPREAD),
    Matern(2.0, nu=1.5),
    Matern(SPREAD, nu=4.0),
    RationalQuadratic(1.5, alpha=0.7),
    StudentT(1.5, nu=2.0),
    PowerExponential(power=2),
    Gabor(SPREAD, [0.1, 0.2, 0.0]),
    SpectralMixture(
        [1.0, 0.3],
        [[0.0, 0.1, 0.2], [0.1, 0.0, 0.0]],
        [[0.1, 0.2, 0.1], [0.02, 0.1, 0.3]],
    ),
    Periodic(1.5, 4.0),
    Subspace(Gaussian([1.0, 2.0]), [2, 0]) * Cauchy(3.0),
    Additive(Gaussian(2.0), [[0], [1, 2]]) + 0.5 * Gaussian(0.5),
    (Gaussian(2.0) + 0.5 * Cauchy(4.0)) * (Matern(3.0, nu=2.5) + Cauchy(5.0)),
]
HATS = [
    Laplacian(1.5),
    Laplacian(SPREAD),
    3.0 * Hat(SPREAD),
    Laplacian(2.0) * Hat(3.0),
    Laplacian(2.0) + 2.0 * Hat(5.0),
    Subspace(Laplacian(2.0), [1]) + Subspace(Hat([1.0, 3.0]), [2, 0]),
]
CUSPED = [
    Laplacian(),
    Hat(),
    Matern(nu=1.0),
    Matern(nu=0.5),
    PowerExponential(power=1.9),
    Gaussian() + Laplacian(),
]
DRAWS = 40


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def along(kernel, j, h, d=3):
    """The kernel over k(0) at a distance h along column j."""
    x = np.zeros((1, d))
    y = x.copy()
    y[0, j] = h
    return kernel(x, y)[0, 0] / kernel(x, x)[0, 0]


class TestSpread:
    @pytest.mark.parametrize("kernel", SMOOTH, ids=repr)
    def test_spectral_variance_is_the_curvature_at_zero(self, kernel):
        """Matern with nu = 3/2 has a third derivative that jumps: its second
        differences are off by 2 sqrt(3) h / 3.
        """
        h = 1e-4
        curvature = sum(2 * (1 - along(kernel, j, h)) / h**2 for j in range(3))
        assert spectral_variance(kernel, 3) == pytest.approx(curvature, rel=2e-4)

    def test_closed_forms(self):
        assert spectral_variance(Gaussian(2.0), 5) == pytest.approx(5 / 4)
        assert spectral_variance(Matern(1.0, nu=3.0), 2) == pytest.approx(
            2 * 3 / (3 - 1)
        )
        assert spectral_variance(Cauchy(), 4) == pytest.approx(8)
        assert spectral_variance(Periodic(0.5, 2.0), 1) == pytest.approx(
            (2 * np.pi / 2) ** 2 / 0.25
        )
        assert spectral_variance(Gaussian() + 3.0 * Gaussian(2.0), 1) == pytest.approx(
            (1 + 3 / 4) / 4
        )
        assert spectral_variance(Gaussian(), 10_000) == pytest.approx(10_000)
        rho = np.exp(-1 / 2)
        assert spectral_variance(Hamming(2.0), 3) == pytest.approx((1 - rho) * np.pi**2)

    @pytest.mark.parametrize("kernel", HATS, ids=repr)
    def test_break_rates_are_slopes_at_zero(self, kernel):
        h = 1e-7
        slopes = np.array([(1 - along(kernel, j, h)) / h for j in range(3)])
        np.testing.assert_allclose(break_rates(kernel, 3), slopes, rtol=1e-6, atol=1e-8)
        assert lipschitz_constant(kernel, 3) == break_rates(kernel, 3).max()

    @pytest.mark.parametrize("kernel", HATS, ids=repr)
    def test_lipschitz_constant_bounds_differences(self, kernel):
        """The steepest change, over the L1 norm, between points anywhere."""
        differences, steps = normal(200, 3), 1e-3 * normal(200, 3, seed=1)
        zero, steepest = np.zeros((1, 3)), lipschitz_constant(kernel, 3)
        change = (
            np.abs(kernel(zero, differences) - kernel(zero, differences + steps))[0]
            / kernel.variance
        )
        assert np.all(
            change <= steepest * np.abs(steps).sum(axis=1) * (1 + 1e-9) + 1e-15
        )

    @pytest.mark.parametrize("kernel", CUSPED, ids=repr)
    def test_refuses_cusps(self, kernel):
        with pytest.raises(
            ValueError,
            match=r"no finite variance.*Claim 1 does not apply.*Use one that is",
        ):
            spectral_variance(kernel, 2)
        with pytest.raises(ValueError, match="Claim 1 does not apply"):
            fourier_failure_bound(
                0.1, kernel, [[0.0, 0.0], [1.0, 1.0]], n_components=100
            )

    def test_refuses_what_are_no_plain_grids(self):
        with pytest.raises(ValueError, match=r"Gaussian.*not a mixture of hats"):
            break_rates(Gaussian(), 1)
        with pytest.raises(
            ValueError, match=r"constant inside of bins.*SmoothBins.*Use Laplacian"
        ):
            break_rates(Laplacian() + SmoothBins(), 1)

    def test_refuses_wrong_arguments(self):
        with pytest.raises(TypeError, match="kernel must be a bochner kernel"):
            spectral_variance("gaussian", 1)
        with pytest.raises(TypeError, match="n_features must be an integer"):
            spectral_variance(Gaussian(), 1.0)
        with pytest.raises(ValueError, match="n_features must be positive"):
            break_rates(Laplacian(), 0)
        for function, kernel in (
            (spectral_variance, Gaussian(SPREAD)),
            (break_rates, Laplacian(SPREAD)),
        ):
            with pytest.raises(ValueError, match="3 lengthscales and the data have 2"):
                function(kernel, 2)


def claim_1(eps, sigma, diameter, m, d):
    """As the paper writes it, of m frequencies."""
    return 2**8 * (sigma * diameter / eps) ** 2 * np.exp(-m * eps**2 / (4 * (d + 2)))


def brackets(eps, breaks, P, h):
    boxes = np.prod(
        [1 + n * (n + 1) / 2 for n in np.ceil(2 * len(breaks) * np.array(breaks) / h)]
    )
    return 2 * boxes * np.exp(-2 * P * (eps - h) ** 2)


class TestBounds:
    X = np.array(
        [[0.0, 1.0], [3.0, 1.0], [0.0, 5.0], [1.0, 2.0]]
    )  # of diameter 5, ranges 3 and 4

    def test_claim_1(self):
        bound = fourier_failure_bound(0.3, Gaussian(2.0), self.X, n_components=4000)
        assert bound == pytest.approx(
            claim_1(0.3, np.sqrt(2) / 2, 5, 2000, 2), rel=1e-12
        )
        assert bound < 0.5
        assert bound == fourier_failure_bound(
            0.3, Gaussian(2.0), n_components=4000, diameter=5, n_features=2
        )
        assert bound == pytest.approx(
            fourier_failure_bound(0.6, 2 * Gaussian(2.0), self.X, n_components=4000)
        )
        assert fourier_failure_bound(0.3, Gaussian(2.0), self.X, n_components=2) == 1

    def test_claim_1_with_offsets(self):
        bound = fourier_failure_bound(
            0.3, Gaussian(2.0), self.X, n_components=14_000, paired=False
        )
        expected = (
            98 * (np.sqrt(0.5) * 5 / 0.3) ** 2 * np.exp(-14_000 * 0.09 / (32 * 3))
        )
        assert bound == pytest.approx(expected, rel=1e-12)
        assert 0 < bound < 0.5

    @pytest.mark.parametrize("d", [1, 2, 3, 10, 50, 94, 200, 1000])
    def test_constants_are_those_of_the_proofs(self, d):
        """Minima over the radius r of the net, k1 r^-d + k2 r^2, for eps = 1 and
        sigma_p = 1.
        """
        r = np.geomspace(1e-4, 1e3, 200_001)
        for turns in (1.0, 3.0, 30.0):
            with np.errstate(over="ignore"):
                paired = 2 * np.exp(d * np.log(4 * turns / r)) + (2 * r) ** 2
                offsets = (
                    2 * np.exp(2 * d * np.log(2 * np.sqrt(2) * turns / r))
                    + 3 * (2 * r) ** 2
                )
                strict = 2 * np.exp(d * np.log(4 * turns / r)) + (4 * r) ** 2
            assert paired.min() <= 66.3 * turns**2
            assert strict.min() <= 258 * turns**2
            assert offsets.min() <= 98 * turns**2

    def test_unit_of_a_column_does_not_matter(self):
        units, scales = np.array([1.0, 1e6]), np.array([1.0, 2.0])
        bounds = [
            fourier_failure_bound(
                0.3, Gaussian(scales * u), self.X * u, n_components=4000
            )
            for u in (1.0, units)
        ]
        assert bounds[1] == pytest.approx(
            claim_1(0.3, np.sqrt(2), pdist(self.X / scales).max(), 2000, 2)
        )
        assert bounds[0] <= bounds[1] * (1 + 1e-12)
        binned = [
            binning_failure_bound(
                0.2, Laplacian(scales * u), self.X * u, n_grids=12_000
            )
            for u in (1.0, units)
        ]
        assert binned[0] == pytest.approx(binned[1]) != 1

    def test_columns_that_do_not_matter_do_not_count(self):
        wide = np.hstack([self.X, 1e6 * normal(4, 1)])
        for bound, kernel, size in (
            (fourier_failure_bound, Gaussian(), {"n_components": 4000}),
            (binning_failure_bound, Laplacian(), {"n_grids": 4000}),
        ):
            assert (
                bound(0.4, Subspace(kernel, [0, 1]), wide, **size)
                == bound(0.4, kernel, self.X, **size)
                < 1
            )

    @pytest.mark.parametrize("kernel", [Laplacian(), 3.0 * Laplacian()], ids=repr)
    def test_claim_2(self, kernel):
        eps, P = 0.25, 6000
        bound = binning_failure_bound(
            eps * kernel.variance, kernel, self.X, n_grids=P, proof="paper"
        )
        assert bound == pytest.approx(
            36 * P * (3 + 4) * np.exp(-(P * eps**2 / 8 + np.log(eps)) / 3), rel=1e-12
        )
        assert bound <= 36 * 2 * P * 5 * np.exp(
            -(P * eps**2 / 8 + np.log(eps)) / 3
        )  # as the paper writes it
        assert 0 < bound < 1

    def test_brackets(self):
        bound = binning_failure_bound(
            0.25, Laplacian([1.0, 2.0]), self.X, n_grids=600, proof="brackets"
        )
        least = min(
            brackets(0.25, [3, 2], 600, h) for h in np.linspace(0.001, 0.249, 2000)
        )
        assert least * (1 - 1e-3) <= bound <= least * 1.02
        assert 0 < bound < 1

    @pytest.mark.parametrize("d", [1, 2, 5, 20])
    @pytest.mark.parametrize("eps", [0.01, 0.1, 0.5])
    @pytest.mark.parametrize("length", [0.1, 1.0, 100.0])
    def test_brackets_are_never_above_the_paper(self, d, eps, length):
        X, kernel = [[0.0] * d, [length] * d], Laplacian()
        for share in (1.0, 1.5, 3.0):
            P = int(share * required_grids(eps, 0.99, kernel, X, proof="paper"))
            own, paper = (
                binning_failure_bound(eps, kernel, X, n_grids=P, proof=proof)
                for proof in PROOFS
            )
            assert own <= paper

    def test_pointwise(self):
        assert pointwise_failure_bound(0.1, n_components=2000) == pytest.approx(
            2 * np.exp(-5)
        )
        assert pointwise_failure_bound(
            0.1, n_components=2000, paired=False
        ) == pytest.approx(2 * np.exp(-2.5))
        assert pointwise_failure_bound(0.1, n_grids=200) == pytest.approx(
            2 * np.exp(-4)
        )
        assert pointwise_failure_bound(0.2, n_grids=200, variance=2.0) == pytest.approx(
            2 * np.exp(-4)
        )
        assert pointwise_failure_bound(0.1, n_grids=1) == 1

    @pytest.mark.parametrize(
        "X",
        [[[1.0, 2.0]], np.ones((5, 2)), [[1, 2], [1, 2]]],
        ids=["row", "equal", "integers"],
    )
    def test_one_point_is_never_wrong(self, X):
        assert fourier_failure_bound(0.1, Gaussian(), X, n_components=2) == 0
        assert binning_failure_bound(0.1, Laplacian(), X, n_grids=1) == 0
        assert required_components(0.1, 0.05, Gaussian(), X) == 2
        assert (
            required_grids(0.1, 0.05, Laplacian(), X)
            == required_grids(0.1, 0.05, Laplacian(), X, proof="brackets")
            == 1
        )
        assert (
            fourier_failure_bound(0.1, Gaussian(), X, n_components=2, paired=False) == 1
        )  # z(x)'z(x) is random

    def test_small_sets_are_bounded_by_larger_ones(self):
        """Where the proof does not reach, the bound must still rise with the set and
        fall with the error.
        """
        bounds = [
            fourier_failure_bound(
                0.5, Gaussian(), n_components=1000, diameter=10.0**e, n_features=1
            )
            for e in range(-12, 3)
        ]
        assert bounds == sorted(bounds)
        assert bounds[0] < 1e-20

    @pytest.mark.parametrize("scale", [1e-120, 1e120])
    def test_nothing_overflows(self, scale):
        X = scale * self.X
        assert (
            0
            <= fourier_failure_bound(1e-9, Gaussian(scale), X, n_components=10**12)
            <= 1
        )
        assert (
            0 <= binning_failure_bound(1e-9, Laplacian(scale), X, n_grids=10**12) <= 1
        )
        assert fourier_failure_bound(
            0.5, Gaussian(scale), X, n_components=10**5
        ) == pytest.approx(
            fourier_failure_bound(0.5, Gaussian(), self.X, n_components=10**5)
        )

    def test_many_columns_and_kinds_of_rows(self, frozen):
        X = np.random.default_rng(0).integers(-3, 4, (50, 10_000))
        sizes = {
            required_components(0.2, 0.1, Gaussian(100.0), rows)
            for rows in (X, frozen(X), X.astype(np.float32))
        }
        assert len(sizes) == 1
        assert required_grids(0.2, 0.1, Laplacian(1e4), X, proof="brackets") > 1000

    def test_diameter(self):
        few, many = normal(500, 3), normal(5000, 3)
        exact = [pdist(X / 1.5).max() * np.sqrt(3) for X in (few, many)]
        bounds = [
            fourier_failure_bound(0.3, Gaussian(1.5), X, n_components=20_000)
            for X in (few, many)
        ]
        sizes = [
            0.3 * np.sqrt(bound / claim_1(0.3, 1, 0.3, 10_000, 3)) for bound in bounds
        ]
        assert sizes[0] == pytest.approx(exact[0], rel=1e-12)
        assert exact[1] <= sizes[1] <= 2 * exact[1]

    def test_refuses_wrong_arguments(self):
        fourier = {"n_components": 100}
        with pytest.raises(TypeError, match=r"X is sparse.*toarray"):
            fourier_failure_bound(0.1, Gaussian(), sp.csr_array(self.X), **fourier)
        with pytest.raises(TypeError, match="Give the rows X"):
            fourier_failure_bound(0.1, Gaussian(), diameter=1.0, **fourier)
        with pytest.raises(TypeError, match="give either X or these"):
            fourier_failure_bound(
                0.1, Gaussian(), self.X, diameter=1.0, n_features=2, **fourier
            )
        with pytest.raises(ValueError, match="diameter must be a finite number"):
            fourier_failure_bound(
                0.1, Gaussian(), diameter=np.inf, n_features=2, **fourier
            )
        with pytest.raises(ValueError, match="missing or infinite"):
            fourier_failure_bound(0.1, Gaussian(), [[np.nan]], **fourier)
        with pytest.raises(ValueError, match="rows and columns"):
            fourier_failure_bound(0.1, Gaussian(), [1.0, 2.0], **fourier)
        with pytest.raises(ValueError, match=r"must be even.*use 102"):
            fourier_failure_bound(0.1, Gaussian(), self.X, n_components=101)
        with pytest.raises(ValueError, match="eps must be positive"):
            fourier_failure_bound(0.0, Gaussian(), self.X, **fourier)
        with pytest.raises(ValueError, match="delta must be a probability"):
            required_components(0.1, 1.0, Gaussian(), self.X)
        with pytest.raises(ValueError, match="proof must be one of"):
            required_grids(0.1, 0.1, Laplacian(), self.X, proof="mine")
        with pytest.raises(TypeError, match=r"either n_components.*or n_grids"):
            pointwise_failure_bound(0.1)


class TestSizes:
    X = normal(100, 2)

    @pytest.mark.parametrize("eps", [0.02, 0.1, 0.5])
    @pytest.mark.parametrize("delta", [1e-6, 0.05, 0.9])
    def test_one_less_is_too_few(self, eps, delta):
        for paired, step in ((True, 2), (False, 1)):
            D = required_components(eps, delta, Gaussian(), self.X, paired=paired)
            bounds = [
                fourier_failure_bound(
                    eps, Gaussian(), self.X, n_components=D - less, paired=paired
                )
                for less in (0, step)
            ]
            assert bounds[0] <= delta < bounds[1]
        for proof in ("brackets", "paper"):
            P = required_grids(eps, delta, Laplacian(), self.X, proof=proof)
            bounds = [
                binning_failure_bound(
                    eps, Laplacian(), self.X, n_grids=P - less, proof=proof
                )
                for less in (0, 1)
            ]
            assert bounds[0] <= delta < bounds[1]

    def test_closed_form_of_claim_1(self):
        diameter, eps, delta = pdist(self.X).max(), 0.1, 0.05
        D = 8 * 4 / eps**2 * np.log(2**8 * 2 * (diameter / eps) ** 2 / delta)
        assert D <= required_components(eps, delta, Gaussian(), self.X) < D + 2

    def test_errors_that_cannot_be(self):
        assert required_components(2.5, 0.05, Gaussian(), self.X) == 2
        assert required_grids(1.1, 0.05, Laplacian(), self.X, proof="brackets") == 1


def worst(features, X, kernel, pairwise=True):
    """Largest error, over all pairs, or of the first row with all."""
    Z = features.fit(X).transform(X)
    own = Z if pairwise else Z[:1]
    estimate = own @ Z.T
    estimate = estimate.toarray() if sp.issparse(estimate) else estimate
    return np.abs(estimate - kernel(X if pairwise else X[:1], X)).max()


def lattice(length, points, d):
    axes = np.meshgrid(*[np.linspace(0, length, points)] * d)
    return np.stack([axis.ravel() for axis in axes], axis=1)


class TestClaimsHold:
    """The share of draws whose largest error reaches eps, against the bounds that
    are below 1.
    """

    def fewer_failures(self, errors, bounds):
        """Compare: one largest error for each draw, and bounds by eps; how many
        bounds told something.
        """
        told = {eps: bound for eps, bound in bounds.items() if bound < 1}
        for eps, bound in told.items():
            failures = int((errors >= eps).sum())
            assert (
                failures <= DRAWS * bound
                or binomtest(failures, DRAWS, bound, alternative="greater").pvalue
                > 1e-4
            )
        return len(told)

    @pytest.mark.parametrize("sampling", ["iid", "orthogonal"])
    @pytest.mark.parametrize("d", [1, 2])
    def test_fourier(self, d, sampling):
        """Errors depend on x - y alone, so that differences from one corner of a box
        twice as long are enough.
        """
        X, kernel, told = lattice(6.0, 121 if d == 1 else 25, d), Gaussian(), 0
        X = X if d == 1 else np.vstack([np.zeros(2), X - [3.0, 3.0]])
        half = 6.0 if d == 1 else 3.0 * np.sqrt(2)
        for D in (128, 768):
            errors = np.array(
                [
                    worst(
                        FourierFeatures(
                            kernel, D, sampling=sampling, random_state=seed
                        ),
                        X,
                        kernel,
                        pairwise=False,
                    )
                    for seed in range(DRAWS)
                ]
            )
            bounds = {
                eps: fourier_failure_bound(
                    eps, kernel, n_components=D, diameter=half, n_features=d
                )
                for eps in (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2)
            }
            told += self.fewer_failures(errors, bounds)
        assert told >= 3

    def test_fourier_with_offsets(self):
        X, kernel, told = lattice(3.0, 40, 1), Gaussian(), 0
        for D in (512, 1024):
            errors = np.array(
                [
                    worst(
                        FourierFeatures(
                            kernel, D, sampling="iid", paired=False, random_state=seed
                        ),
                        X,
                        kernel,
                    )
                    for seed in range(DRAWS)
                ]
            )
            bounds = {
                eps: fourier_failure_bound(eps, kernel, X, n_components=D, paired=False)
                for eps in (0.4, 0.8, 1.2, 1.8)
            }
            told += self.fewer_failures(errors, bounds)
        assert told >= 2

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "kernel", [Laplacian(2.0), Laplacian(3.0) + Hat(4.0)], ids=repr
    )
    @pytest.mark.parametrize("d", [1, 2])
    def test_binning(self, d, kernel):
        X, told = lattice(3.0, 60 if d == 1 else 8, d), 0
        for P in (64, 256):
            errors = np.array(
                [
                    worst(BinningFeatures(kernel, P, random_state=seed), X, kernel)
                    for seed in range(DRAWS)
                ]
            )
            for proof in PROOFS:
                bounds = {
                    eps: binning_failure_bound(
                        eps * kernel.variance, kernel, X, n_grids=P, proof=proof
                    )
                    for eps in (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.9)
                }
                told += self.fewer_failures(errors / kernel.variance, bounds)
        assert told >= 5

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "make", [FourierFeatures, BinningFeatures], ids=["fourier", "binning"]
    )
    def test_error_falls_as_one_over_the_root(self, make):
        X, kernel = (
            2 * normal(200, 2),
            Gaussian() if make is FourierFeatures else Laplacian(4.0),
        )
        options = {"sampling": "iid"} if make is FourierFeatures else {}
        sizes = (
            2 ** np.arange(6, 13) if make is FourierFeatures else 2 ** np.arange(4, 9)
        )
        means = [
            np.mean(
                [
                    kernel_error(
                        make(kernel, int(size), random_state=seed, **options).fit(X),
                        X,
                        n_pairs=100,
                    ).mean_absolute
                    for seed in range(15)
                ]
            )
            for size in sizes
        ]
        slope = np.polyfit(np.log(sizes), np.log(means), 1)[0]
        assert slope == pytest.approx(-0.5, abs=0.05)


MAPS = {
    "paired": FourierFeatures(Gaussian(2.0), 64, sampling="iid", random_state=0),
    "sum": FourierFeatures(
        2.0 * Gaussian(2.0) + Matern(3.0), 65, sampling="iid", random_state=0
    ),
    "offsets": FourierFeatures(
        Cauchy(2.0), 64, sampling="iid", paired=False, random_state=0
    ),
    "orthogonal": FourierFeatures(Gaussian(2.0), 64, random_state=0),
    "leverage": FourierFeatures(Gaussian(2.0), 64, sampling="leverage", random_state=0),
    "bins": BinningFeatures(Laplacian(6.0), 64, random_state=0),
    "bins-sum": BinningFeatures(
        Laplacian(6.0) * Hat(9.0) + 2.0 * Laplacian(9.0), 64, random_state=0
    ),
    "buckets": BinningFeatures(Laplacian(6.0), 64, n_buckets=32, random_state=0),
    "smooth": BinningFeatures(SmoothBins(6.0), 64, random_state=0),
    "metric": MetricFeatures(
        Metric(3, source=[0, 2], scale=[1.0, 0.5]),
        FourierFeatures(Gaussian(), 64, random_state=0),
    ),
    "side by side": ConcatenatedFeatures(
        [
            FourierFeatures(Gaussian(2.0), 64, random_state=0),
            BinningFeatures(Laplacian(9.0), 32, random_state=1),
            LinearFeatures(),
        ],
        weights=[1.0, 0.5, 0.1],
    ),
}


def true_kernel(name, X):
    """Exact matrix of a map of `MAPS`."""
    if name == "metric":
        return Gaussian()(X[:, [0, 2]] * [1.0, 0.5])
    if name == "side by side":
        U = (X - X.mean(axis=0)) / X.std(axis=0)
        return Gaussian(2.0)(X) + 0.5 * Laplacian(9.0)(X) + 0.1 * (U @ U.T)
    return MAPS[name].kernel(X)


class TestGuaranteedError:
    X = np.array([[0.0, 0.0], [2.0, 1.0]])

    def test_is_where_the_bounds_reach_delta(self):
        for kernel, bound, size, options in (
            (2.0 * Gaussian(), fourier_failure_bound, {"n_components": 5000}, {}),
            (
                2.0 * Laplacian(2.0),
                binning_failure_bound,
                {"n_grids": 500},
                {"proof": "brackets"},
            ),
        ):
            eps = theory.guaranteed_error(kernel, self.X, **size, delta=0.01, **options)
            assert bound(eps, kernel, self.X, **size, **options) <= 0.01 * (1 + 1e-9)
            assert bound(0.999 * eps, kernel, self.X, **size, **options) > 0.01

    def test_refuses_what_has_no_size(self):
        with pytest.raises(TypeError, match="either n_components"):
            theory.guaranteed_error(Gaussian(), self.X)
        with pytest.raises(ValueError, match="must be even"):
            theory.guaranteed_error(Gaussian(), self.X, n_components=3)
        with pytest.raises(ValueError, match="delta must be a probability"):
            theory.guaranteed_error(Gaussian(), self.X, n_components=4, delta=1.0)


class TestKernelError:
    X = normal(60, 3)

    def errors(self, name):
        Z = MAPS[name].__sklearn_clone__().fit_transform(self.X)
        Z = Z.toarray() if sp.issparse(Z) else Z
        return (Z @ Z.T - true_kernel(name, self.X))[np.triu_indices(len(Z), 1)]

    @pytest.mark.parametrize("name", MAPS)
    def test_all_pairs_of_few_rows(self, name):
        features, expected = (
            MAPS[name].__sklearn_clone__().fit(self.X),
            self.errors(name),
        )
        measured = kernel_error(features, self.X)
        assert measured.n_pairs == 60 * 59 // 2
        assert measured.n_components == features.n_features_out
        assert measured.mean_absolute == pytest.approx(
            np.abs(expected).mean(), rel=1e-9
        )
        assert measured.mean_absolute_interval == (measured.mean_absolute,) * 2
        assert measured.root_mean_square == pytest.approx(
            np.sqrt((expected**2).mean()), rel=1e-9
        )
        assert measured.bias == pytest.approx(expected.mean(), rel=1e-7, abs=1e-12)
        assert measured.maximum == pytest.approx(np.abs(expected).max(), rel=1e-9)
        assert measured.beyond == 0
        assert sum(group.n_pairs for group in measured.groups) == measured.n_pairs
        lows = [group.low for group in measured.groups]
        assert lows == sorted(lows)
        assert measured.bound is None or measured.maximum < measured.bound
        assert "mean |error|" in str(measured)

    @pytest.mark.parametrize(
        "name", ["paired", "sum", "offsets", "bins", "bins-sum", "buckets"]
    )
    def test_expected_errors(self, name):
        """Their mean square over 30 draws is right to 5 standard errors."""
        squares = []
        for seed in range(30):
            features = (
                MAPS[name].__sklearn_clone__().set_params(random_state=seed).fit(self.X)
            )
            measured = kernel_error(features, self.X, n_pairs=200, random_state=0)
            squares.append([group.root_mean_square**2 for group in measured.groups])
        expected = np.array([group.expected**2 for group in measured.groups])
        squares = np.array(squares)
        error = squares.std(axis=0) / np.sqrt(len(squares))
        assert np.all(np.abs(squares.mean(axis=0) - expected) <= 5 * error)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("d", "n_buckets", "n_grids"), [(1, 64, 2000), (2, 4096, 3000), (1, 3, 20_000)]
    )
    def test_buckets_of_one_map_have_the_error_that_is_expected(
        self, d, n_buckets, n_grids
    ):
        """Grids collide each for itself: the error of every single map falls with their
        number, to the bias of 1 / B.

        Pairs share rows, so that their errors are not independent; each is within five
        deviations.
        """
        X = np.random.default_rng(0).uniform(0, 3, size=(50, d))
        k = Laplacian()(X)[np.triu_indices(50, 1)]
        met = k + (1 - k) / n_buckets
        for seed in range(3):
            Z = BinningFeatures(
                Laplacian(), n_grids, n_buckets=n_buckets, random_state=seed
            ).fit_transform(X)
            found = (Z @ Z.T).toarray()[np.triu_indices(50, 1)]
            assert np.abs((found - met) / np.sqrt(met * (1 - met) / n_grids)).max() <= 5

    def test_which_claim_and_why_none(self):
        fitted = {
            name: kernel_error(features.__sklearn_clone__().fit(self.X), self.X)
            for name, features in MAPS.items()
        }
        assert fitted["paired"].claim == "Claim 1"
        assert (
            fitted["bins"].claim == fitted["bins-sum"].claim == "Claim 2, by brackets"
        )
        for name, words in {
            "sum": "even number",
            "leverage": "by leverage",
            "buckets": "buckets",
            "smooth": "constant inside",
            "side by side": "no claim",
        }.items():
            assert fitted[name].bound is None
            assert words in fitted[name].claim
        error = fitted["orthogonal"]
        assert "independent" in error.claim
        assert (
            fourier_failure_bound(error.bound, Gaussian(2.0), self.X, n_components=64)
            <= 0.05
        )
        options = {"n_grids": 64, "proof": "brackets"}
        bound = binning_failure_bound(
            fitted["bins"].bound, Laplacian(6.0), self.X, **options
        )
        assert (
            bound
            <= 0.05
            < binning_failure_bound(
                0.99 * fitted["bins"].bound, Laplacian(6.0), self.X, **options
            )
        )
        lone = kernel_error(
            FourierFeatures(Laplacian(), 64, random_state=0).fit(self.X), self.X
        )
        assert lone.bound is None
        assert "no finite variance" in lone.claim
        assert "no guarantee" in str(lone)

    def test_new_bins(self):
        features = BinningFeatures(Laplacian(1.0), 50, random_state=0).fit(self.X)
        error = kernel_error(features, 3 * normal(200, 3, seed=1))
        assert error.bound is None
        assert "new ones" in error.claim
        assert error.bias < 0

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("rows", "n_pairs"),
        [(400, 800), (None, 400)],
        ids=["shared rows", "disjoint rows"],
    )
    def test_intervals_hold_what_they_say(self, rows, n_pairs):
        """From few rows the intervals are about all pairs of these, from many about
        pairs of such rows.
        """
        features = FourierFeatures(
            Gaussian(2.0), 100, sampling="orthogonal", random_state=0
        ).fit(self.X)
        X = normal(400 if rows else 3000, 2, seed=1) @ np.eye(2, 3)
        Z = features.transform(X)
        all_errors = (Z @ Z.T - Gaussian(2.0)(X))[np.triu_indices(len(X), 1)]
        truth = (
            np.abs(all_errors).mean(),
            np.sqrt((all_errors**2).mean()),
            all_errors.mean(),
        )
        repeats, held = 100, np.zeros(3, int)
        for seed in range(repeats):
            sample = (
                X if rows else normal(2 * n_pairs, 2, seed=seed + 100) @ np.eye(2, 3)
            )
            error = kernel_error(
                features, sample, n_pairs=n_pairs, confidence=0.9, random_state=seed
            )
            intervals = (
                error.mean_absolute_interval,
                error.root_mean_square_interval,
                error.bias_interval,
            )
            held += [
                low <= true <= high
                for true, (low, high) in zip(truth, intervals, strict=True)
            ]
        assert all(
            binomtest(int(count), repeats, 0.9).pvalue > 1e-3 for count in held
        ), held / repeats

    def test_maximum_says_what_share_errs_more(self):
        features = FourierFeatures(Gaussian(2.0), 100, random_state=0).fit(self.X)
        X = normal(500, 3, seed=2)
        Z = features.transform(X)
        every = np.abs(Z @ Z.T - Gaussian(2.0)(X))[np.triu_indices(500, 1)]
        measured = [
            kernel_error(features, X, n_pairs=100, confidence=0.8, random_state=seed)
            for seed in range(100)
        ]
        right = sum(
            np.mean(every > error.maximum) <= error.beyond for error in measured
        )
        assert measured[0].beyond == pytest.approx(1 - 0.2 ** (1 / 100))
        assert binomtest(int(right), 100, 0.8).pvalue > 1e-3

    def test_maps_of_scikit_learn(self):
        sampler = RBFSampler(gamma=1 / 8, n_components=50, random_state=0).fit(self.X)
        error = kernel_error(sampler, self.X, Gaussian(2.0))
        Z = sampler.transform(self.X)
        expected = np.abs(Z @ Z.T - Gaussian(2.0)(self.X))[np.triu_indices(60, 1)]
        assert error.mean_absolute == pytest.approx(expected.mean())
        assert (error.bound, error.claim) == (None, "no claim about RBFSampler")
        whole = Nystroem(gamma=1 / 8, n_components=60, random_state=0).fit(self.X)
        assert (
            kernel_error(whole, self.X, lambda X, Y: Gaussian(2.0)(X, Y)).maximum < 1e-9
        )
        with pytest.raises(
            TypeError, match="kernel of Nystroem is not known: give it as kernel="
        ):
            kernel_error(whole, self.X)

    def test_another_kernel(self):
        features = FourierFeatures(Gaussian(2.0), 64, random_state=0).fit(self.X)
        assert kernel_error(features, self.X, Gaussian(2.0)) == kernel_error(
            features, self.X
        )
        error = kernel_error(features, self.X, Matern(2.0))
        assert error.bound is None
        assert "another was given" in error.claim

    @pytest.mark.slow
    def test_subsets_of_columns(self):
        q = 0.6
        features = BinningFeatures(
            Laplacian(3.0), 4000, column_share=q, random_state=0
        ).fit(self.X)
        own = kernel_error(features, self.X)
        kernel = lambda X, Y: np.prod(  # noqa: E731
            [1 - q + q * Laplacian(3.0)(X[:, [j]], Y[:, [j]]) for j in range(3)], axis=0
        )
        assert own.maximum == pytest.approx(
            kernel_error(features, self.X, kernel).maximum
        )
        assert own.maximum < 5 * 0.5 / np.sqrt(4000)
        assert (own.bound, own.claim) == (
            None,
            "Claim 2 is about grids that split every column",
        )
        assert own.groups[0].expected is None

    @pytest.mark.parametrize("make", [KernelMachineRegressor, KernelMachineClassifier])
    def test_estimators(self, make):
        rng = np.random.default_rng(0)
        X = pd.DataFrame(
            {"a": rng.standard_normal(80), "b": rng.choice(["x", "y"], 80)}
        )
        model = make(Gaussian(), n_components=64, random_state=0).fit(X, X["a"] > 0)
        error = kernel_error(model, X)
        U = model.encoder_.encode(X, dtype=np.float64)
        assert error.mean_absolute == pytest.approx(
            kernel_error(model.features_, U).mean_absolute
        )
        assert error.bound is not None

    def test_kinds_of_rows(self, frozen):
        features = FourierFeatures(Gaussian(2.0), 64, random_state=0).fit(self.X)
        expected = kernel_error(features, self.X, n_pairs=20, random_state=1)
        for X in (
            frozen(self.X),
            self.X.tolist(),
            sp.csr_array(self.X),
            sp.csc_matrix(self.X),
        ):
            error = kernel_error(features, X, n_pairs=20, random_state=1)
            assert error.mean_absolute == pytest.approx(expected.mean_absolute)
        single = kernel_error(
            features, self.X.astype(np.float32), n_pairs=20, random_state=1
        )
        assert single.mean_absolute == pytest.approx(expected.mean_absolute, abs=1e-5)
        frame = pd.DataFrame(self.X, columns=list("abc"))
        named = FourierFeatures(Gaussian(2.0), 64, random_state=0).fit(frame)
        assert kernel_error(
            named, frame, n_pairs=20, random_state=1
        ).maximum == pytest.approx(expected.maximum)

    def test_never_holds_all_features(self, monkeypatch):
        features, rows = (
            FourierFeatures(Gaussian(2.0), 3000, random_state=0).fit(self.X),
            [],
        )
        transform = features.transform
        monkeypatch.setattr(
            features, "transform", lambda X: rows.append(len(X)) or transform(X)
        )
        kernel_error(features, normal(20_000, 3), n_pairs=5000)
        assert max(rows) * 3000 <= 2**22
        assert sum(rows) == 10_001

    def test_refuses(self):
        features = FourierFeatures(Gaussian(), 8)
        with pytest.raises(NotFittedError):
            kernel_error(features, self.X)
        features.fit(self.X)
        with pytest.raises(ValueError, match="1 row; the error is measured on pairs"):
            kernel_error(features, self.X[:1])
        with pytest.raises(ValueError, match="confidence must be between"):
            kernel_error(features, self.X, confidence=95)
        with pytest.raises(ValueError, match="n_pairs must be positive"):
            kernel_error(features, self.X, n_pairs=0)
        with pytest.raises(TypeError, match="a method transform"):
            kernel_error(Gaussian(), self.X)
        with pytest.raises(
            TypeError, match=r"kernel must be one of bochner\.kernels or a callable"
        ):
            kernel_error(features, self.X, "gaussian")
        with pytest.raises(ValueError, match="features"):
            kernel_error(features, self.X[:, :2])


class TestStatistics:
    X = normal(300, 2)

    def test_effective_dimension(self):
        K = Gaussian()(self.X)
        expected = np.trace(K @ np.linalg.inv(K + 0.3 * np.eye(300)))
        assert effective_dimension(K, 0.3) == pytest.approx(expected)
        assert effective_dimension(Gaussian(), 0.3, self.X) == pytest.approx(expected)

    def test_some_of_the_rows(self):
        X = normal(1500, 2)
        whole, some = (
            effective_dimension(Gaussian(), 15.0, X, n_rows=n, random_state=0)
            for n in (1500, 400)
        )
        assert some == pytest.approx(whole, rel=0.05)

    def test_theorems(self):
        s = effective_dimension(Gaussian(), 1.0, self.X)
        sizes = statistical_components(
            2.0 * Gaussian(), 2.0, self.X, spectral_error=0.25, delta=0.05
        )
        assert sizes.effective_dimension == pytest.approx(s)
        waves = 8 / 3 * 16 * np.log(16 * s / 0.05)
        assert sizes.spectral == 2 * np.ceil(waves * 300)
        assert sizes.leverage == 2 * np.ceil(waves * s)
        assert sizes.learning == np.ceil(np.sqrt(300) * np.log(300))

    @pytest.mark.parametrize("alpha", [0.01, 1.0, 30.0])
    @pytest.mark.parametrize("delta", [0.5, 0.01])
    def test_the_constants_follow_from_matrix_bernstein(self, alpha, delta):
        """Tropp (2015), Theorem 7.3.1, of the whitened sum, with its own norm,
        variance and intrinsic dimension.
        """
        error, n = 0.5, 300
        eigenvalues = np.linalg.eigvalsh(Gaussian()(self.X))
        share = eigenvalues / (eigenvalues + alpha)  # of K (K + alpha I)^(-1)
        m = (
            statistical_components(
                Gaussian(), alpha, self.X, spectral_error=error, delta=delta
            ).spectral
            / 2
        )
        longest, variance = n / alpha / m, n / alpha / m * share.max()
        # Of the variances of a matrix and its transpose
        dimension = 2 * share.sum() / share.max()
        assert error >= np.sqrt(variance) + longest / 3
        assert (
            4 * dimension * np.exp(-(error**2) / 2 / (variance + longest * error / 3))
            <= delta
        )

    def test_spectral_approximation_holds(self):
        """Generalised eigenvalues of Z Z' + alpha I in K + alpha I are within 1 +-
        1/2.
        """
        X, alpha = normal(60, 1), 5.0
        sizes = statistical_components(Gaussian(), alpha, X, delta=0.5)
        ridge = alpha * np.eye(60)
        inverse = np.linalg.inv(np.linalg.cholesky(Gaussian()(X) + ridge))
        for seed in range(20):
            Z = FourierFeatures(
                n_components=sizes.spectral, sampling="iid", random_state=seed
            ).fit_transform(X)
            values = np.linalg.eigvalsh(inverse @ (Z @ Z.T + ridge) @ inverse.T)
            assert 0.5 <= values.min() <= values.max() <= 1.5

    def test_refuses(self):
        with pytest.raises(ValueError, match="alpha must be positive"):
            effective_dimension(np.eye(3), 0.0)
        with pytest.raises(ValueError, match="square matrix"):
            effective_dimension(self.X, 1.0)
        with pytest.raises(ValueError, match="not symmetric"):
            effective_dimension(np.triu(np.ones((3, 3))), 1.0)
        with pytest.raises(TypeError, match="needs the rows"):
            effective_dimension(Gaussian(), 1.0)
        with pytest.raises(TypeError, match="X is for a kernel"):
            effective_dimension(np.eye(3), 1.0, self.X)
        with pytest.raises(ValueError, match="exceeds the largest eigenvalue"):
            statistical_components(Gaussian(), 1000.0, self.X)
        with pytest.raises(ValueError, match="spectral_error must be above 0"):
            statistical_components(Gaussian(), 1.0, self.X, spectral_error=0.7)


def test_names_are_sorted_and_documented():
    assert theory.__all__ == sorted(theory.__all__)
    runner = doctest.DocTestRunner(verbose=False)
    for name in theory.__all__:
        tests = [
            test
            for test in doctest.DocTestFinder().find(getattr(theory, name), name)
            if test.examples
        ]
        assert tests or name == "ErrorGroup", name
        for test in tests:
            runner.run(test)
    assert runner.summarize(verbose=False).failed == 0
