"""Ridge regression from moments and from rows, against slow oracles and
scikit-learn.
"""

from functools import partial

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge, RidgeCV

import exact
from bochner import FourierFeatures
from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.kernels import Gaussian
from bochner.solvers import shifted
from bochner.solvers.factors import DualFactor, PrimalFactor, factorise, leave_one_out
from bochner.solvers.line_search import PATH_LENGTH, best_alpha, choose_alpha
from bochner.solvers.shifted import CholeskyInverse, TridiagonalInverse

ALPHAS = np.array([1e-3, 0.1, 10.0, 1e3])


def primal(design, n_alphas=2):
    return PrimalFactor(design.moments(), n_alphas)


def dual(design, n_alphas=2):
    return DualFactor(design, n_alphas)


SYSTEMS = pytest.mark.parametrize("system", [primal, dual])
FACTORS = pytest.mark.parametrize(
    "factorisation",
    [partial(system, n_alphas=n) for system in (primal, dual) for n in (2, 1)],
)

# Squared condition numbers of the normal equations are below n / alpha = 4e4 here:
# solutions lose five digits of 16.
RTOL = 1e-9


class Problem:
    """Rows, their features as a matrix, and the pieces under test."""

    def __init__(self, n=40, D=12, K=2, weight=None, seed=0, dtype=np.float64):
        rng = np.random.default_rng(seed)
        self.X = rng.standard_normal((n, 3))
        self.Y = (
            np.sin(self.X @ rng.standard_normal((3, K)))
            + 0.3 * rng.standard_normal((n, K))
            + 5
        )
        self.weight = weight
        self.features = FourierFeatures(Gaussian(2.0), D, random_state=seed).draw(3)
        self.Z = self.features.rows(self.X)
        self.design = Design(ArraySource(self.X, self.Y, weight), self.features, dtype)


def weights(kind, n=40):
    rng = np.random.default_rng(7)
    return {
        "none": None,
        "uniform": rng.uniform(0.1, 3, n),
        "integers": rng.integers(1, 4, n).astype(float),
        "small": rng.uniform(0.01, 0.5, n),
        "some zero": np.where(np.arange(n) % 5 == 0, 0.0, rng.uniform(0.1, 3, n)),
    }[kind]


@pytest.fixture(params=["none", "uniform", "integers", "small", "some zero"])
def weight(request):
    return weights(request.param)


@FACTORS
@pytest.mark.parametrize("D", [1, 12, 60])
def test_solution_is_the_least_squares_one(factorisation, D, weight):
    problem = Problem(D=D, weight=weight)
    factor = factorisation(problem.design)
    for alpha in ALPHAS:
        coef, intercept = exact.ridge(problem.Z, problem.Y, alpha, weight)
        np.testing.assert_allclose(
            factor.coef(alpha), coef, rtol=0, atol=RTOL * np.abs(coef).max() * 10
        )
        np.testing.assert_allclose(
            factor.intercept(factor.coef(alpha)), intercept, rtol=RTOL
        )


@FACTORS
def test_agrees_with_scikit_learn(factorisation, weight):
    problem = Problem(D=60, weight=weight)
    factor = factorisation(problem.design)
    for alpha in ALPHAS:
        theirs = Ridge(alpha).fit(problem.Z, problem.Y, weight)
        np.testing.assert_allclose(
            factor.coef(alpha).T,
            theirs.coef_,
            rtol=0,
            atol=1e-8 * np.abs(theirs.coef_).max(),
        )
        np.testing.assert_allclose(
            factor.intercept(factor.coef(alpha)), theirs.intercept_, rtol=1e-8
        )


@FACTORS
def test_alpha_means_what_it_means_in_kernel_ridge(factorisation):
    """The dual solution on the centred kernel K = Z Z' of the same features."""
    problem = Problem(D=60)
    Z, Y = problem.Z - problem.Z.mean(axis=0), problem.Y - problem.Y.mean(axis=0)
    factor = factorisation(problem.design)
    for alpha in ALPHAS:
        theirs = KernelRidge(alpha=alpha, kernel="precomputed").fit(Z @ Z.T, Y)
        coef = factor.coef(alpha)
        predicted = problem.Z @ coef + factor.intercept(coef)
        np.testing.assert_allclose(
            predicted, theirs.predict(Z @ Z.T) + problem.Y.mean(axis=0), rtol=1e-8
        )


@SYSTEMS
def test_degrees_of_freedom_and_residual(system, weight):
    problem = Problem(weight=weight)
    factor = system(problem.design)
    w = np.ones(40) if weight is None else weight
    residual, freedom = factor.residual(ALPHAS), factor.degrees_of_freedom(ALPHAS)
    for a, alpha in enumerate(ALPHAS):
        H = exact.hat_matrix(problem.Z, alpha, weight)
        assert freedom[a] == pytest.approx(np.trace(H), rel=1e-8)
        np.testing.assert_allclose(
            residual[a], w @ (problem.Y - H @ problem.Y) ** 2, rtol=1e-7
        )


@FACTORS
def test_quadratic_form_is_the_leverage(factorisation, weight):
    problem = Problem(weight=weight)
    factor = factorisation(problem.design)
    w = np.ones(40) if weight is None else weight
    forms = factor.quadratic(problem.Z - factor.feature_mean, ALPHAS)
    for form, alpha in zip(forms, ALPHAS, strict=True):
        leverage = np.diag(exact.hat_matrix(problem.Z, alpha, weight))
        np.testing.assert_allclose(
            w * (1 / w.sum() + form), leverage, rtol=1e-7, atol=1e-12
        )


@SYSTEMS
def test_gcv_is_that_of_the_hat_matrix(system, weight):
    problem = Problem(weight=weight)
    expected = [exact.gcv(problem.Z, problem.Y, alpha, weight) for alpha in ALPHAS]
    np.testing.assert_allclose(system(problem.design).gcv(ALPHAS), expected, rtol=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_gcv_by_random_signs_is_near(seed):
    """The trace of B = alpha (G + alpha I)^-1 from 64 sign vectors deviates by
    sqrt(2 / 64 sum_{i != j} B_ij^2).
    """
    problem = Problem(n=300, D=80, seed=seed)
    spectral, cholesky = primal(problem.design), primal(problem.design, 1)
    centred = problem.Z - problem.Z.mean(axis=0)
    for alpha in ALPHAS:
        B = np.linalg.inv(np.eye(80) + centred.T @ centred / alpha)
        off = B - np.diag(np.diag(B))
        deviation = np.sqrt(2 / 64 * (off**2).sum())
        assert deviation <= np.sqrt(2 * 80 / 64)  # as the docstring promises
        score = cholesky.gcv([alpha])[0]
        freedom = 300 * (1 - np.sqrt(spectral.residual([alpha]).sum() / 300 / score))
        assert (
            abs(freedom - spectral.degrees_of_freedom([alpha])[0])
            <= 5 * deviation + 1e-7
        )
    np.testing.assert_array_equal(
        cholesky.gcv(ALPHAS), primal(problem.design, 1).gcv(ALPHAS)
    )


class TestLeaveOneOut:
    @FACTORS
    @pytest.mark.parametrize("D", [12, 60])
    def test_is_that_of_refits(self, factorisation, D, weight):
        """Of all rows by the primal factors, of those of positive weight by the dual
        ones.
        """
        problem = Problem(D=D, weight=weight)
        loo = leave_one_out(factorisation(problem.design), problem.design)
        w = np.ones(40) if weight is None else weight
        told = slice(None) if len(loo.y) == 40 else w > 0
        np.testing.assert_array_equal(loo.y, problem.Y[told])
        np.testing.assert_array_equal(loo.weight, w[told])
        for alpha in ALPHAS:
            expected = exact.leave_one_out(problem.Z, problem.Y, alpha, weight)
            np.testing.assert_allclose(loo.predict(alpha), expected[told], rtol=1e-7)
            error = w @ ((problem.Y - expected) ** 2).sum(axis=1) / w.sum()
            np.testing.assert_allclose(loo(np.array([alpha])), error, rtol=1e-6)

    @pytest.mark.parametrize("n_alphas", [1, 2])
    def test_of_rows_that_are_interpolated(self, n_alphas, weight):
        """Where residuals and 1 - h both vanish with alpha, their quotient does not:
        nothing cancels there.
        """
        problem = Problem(D=120, weight=weight)
        factor = dual(problem.design, n_alphas)
        kept = np.ones(40, bool) if weight is None else weight > 0
        for share in (1e-5, 1e-7, 1e-9):
            alpha = share * factor.trace
            expected = exact.leave_one_out(
                problem.Z[kept],
                problem.Y[kept],
                alpha,
                None if weight is None else weight[kept],
            )
            np.testing.assert_allclose(
                leave_one_out(factor, None).predict(alpha), expected, rtol=0, atol=1e-5
            )

    def test_equal_rows_are_one_in_the_dual_form(self):
        """Of their weight and mean target; errors that they leave among themselves
        count for the residual alone.
        """
        problem = Problem(n=10, D=20)
        rows = np.array([0, 1, 2, 3, 4, 4, 4, 5, 6, 7, 8, 9, 9])
        Y = np.random.default_rng(5).standard_normal((13, 2))
        design = Design(ArraySource(problem.X[rows], Y), problem.features, np.float64)
        factor, other = dual(design), primal(design)
        assert len(factor.y) == 10
        np.testing.assert_allclose(
            factor.coefs(ALPHAS), other.coefs(ALPHAS), rtol=0, atol=1e-9
        )
        np.testing.assert_allclose(
            factor.residual(ALPHAS), other.residual(ALPHAS), rtol=1e-6
        )
        np.testing.assert_allclose(
            factor.degrees_of_freedom(ALPHAS),
            other.degrees_of_freedom(ALPHAS),
            rtol=1e-6,
        )
        np.testing.assert_allclose(factor.gcv(ALPHAS), other.gcv(ALPHAS), rtol=1e-6)
        distinct = leave_one_out(
            other,
            Design(design.source.distinct(), problem.features, np.float64),
        )
        np.testing.assert_allclose(
            leave_one_out(factor, None)(ALPHAS), distinct(ALPHAS), rtol=1e-6
        )

    def test_repeats_are_weights(self):
        """Of equal rows, made one by `distinct`, all are left out, as a row of their
        weight is.
        """
        weight = weights("integers")
        weighted = Problem(weight=weight)
        rows = np.repeat(np.arange(40), weight.astype(int))
        source = ArraySource(weighted.X[rows], weighted.Y[rows])
        factor = primal(Design(source, weighted.features, np.float64))
        assert source.distinct().n_rows == len(np.unique(rows))
        other = leave_one_out(
            factor, Design(source.distinct(), weighted.features, np.float64)
        )
        one = leave_one_out(primal(weighted.design), weighted.design)
        np.testing.assert_allclose(one(ALPHAS), other(ALPHAS), rtol=1e-8)

    def test_equal_rows_of_other_targets_are_left_out_together(self):
        problem = Problem(n=10, D=6)
        rows = np.array([0, 1, 2, 3, 4, 4, 4, 5, 6, 7, 8, 9])
        Y = np.random.default_rng(5).standard_normal((12, problem.Y.shape[1]))
        source = ArraySource(problem.X[rows], Y)
        factor = primal(Design(source, problem.features, np.float64))
        distinct = source.distinct()
        found = leave_one_out(
            factor, Design(distinct, problem.features, np.float64)
        ).predict(0.5)
        for prediction, x in zip(found, distinct.X, strict=True):
            left = (problem.X[rows] != x).any(axis=1).astype(float)
            coef, intercept = exact.ridge(problem.Z[rows], Y, 0.5, left)
            z = problem.features.rows(x[np.newaxis])[0]
            np.testing.assert_allclose(prediction, z @ coef + intercept, rtol=1e-8)

    @pytest.mark.parametrize("n_alphas", [1, 2])
    def test_of_some_of_the_rows(self, n_alphas, weight):
        problem = Problem(weight=weight)
        some = np.array([3, 17, 4, 30])
        factor = primal(problem.design, n_alphas)
        loo = leave_one_out(
            factor,
            Design(problem.design.source.take(some), problem.features, np.float64),
        )
        expected = exact.leave_one_out(problem.Z, problem.Y, 0.1, weight)[some]
        np.testing.assert_allclose(loo.predict(0.1), expected, rtol=1e-8)
        w = np.ones(4) if weight is None else weight[some]
        error = w @ ((problem.Y[some] - expected) ** 2).sum(axis=1) / w.sum()
        np.testing.assert_allclose(loo(np.array([0.1])), error, rtol=1e-7)

    def test_in_blocks(self, weight, monkeypatch):
        problem = Problem(weight=weight)
        loo = leave_one_out(primal(problem.design), problem.design)
        scores, predictions = loo(ALPHAS), loo.predict(0.1)
        monkeypatch.setattr(Design, "block_rows", property(lambda self: 7))
        np.testing.assert_allclose(loo(ALPHAS), scores, rtol=1e-10)
        np.testing.assert_allclose(loo.predict(0.1), predictions, rtol=1e-12)

    def test_agrees_with_ridge_cv(self):
        """RidgeCV's efficient cross-validation is leave-one-out, its score the
        negative mean squared error.
        """
        problem = Problem(n=60, D=12, K=1)
        loo = leave_one_out(primal(problem.design), problem.design)(ALPHAS)
        theirs = RidgeCV(ALPHAS, store_cv_results=True).fit(problem.Z, problem.Y[:, 0])
        np.testing.assert_allclose(loo, theirs.cv_results_.mean(axis=0), rtol=1e-8)
        assert best_alpha(ALPHAS, loo) == theirs.alpha_

    def test_in_single_precision(self):
        """The score is a mean of squares of differences of numbers of size 6, in
        units of 2^-24, and condition.
        """
        double, single = Problem(), Problem(dtype=np.float32)
        scores = [
            leave_one_out(primal(p.design), p.design)(ALPHAS[1:])
            for p in (double, single)
        ]
        # Centred Gram matrices differ by 1e-7 n in each entry, relative to alpha 1e-7 *
        # 40 / 0.1 = 4e-5, a few times.
        np.testing.assert_allclose(scores[1], scores[0], rtol=1e-3)

    def test_many_outputs_are_condensed_without_bias(self):
        """Beyond 16 outputs: 16 combinations of random signs, whose squares keep the
        sum of those of outputs of independent errors in the mean over problems.
        """
        ratios = []
        for seed in range(40):
            problem = Problem(n=40, D=12, K=40, seed=seed)
            loo = leave_one_out(primal(problem.design), problem.design)
            expected = ((problem.Y - loo.predict(0.1)) ** 2).sum(axis=1).mean()
            ratios.append(loo(np.array([0.1]))[0] / expected)
        error = np.std(ratios, ddof=1) / np.sqrt(len(ratios))
        assert abs(np.mean(ratios) - 1) <= 4 * error < 0.1
        few = Problem(n=40, D=12, K=16)
        loo = leave_one_out(primal(few.design), few.design)
        expected = ((few.Y - loo.predict(0.1)) ** 2).sum(axis=1).mean()
        np.testing.assert_allclose(loo(np.array([0.1]))[0], expected, rtol=1e-10)


class TestChoice:
    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("criterion", ["loo", "gcv"])
    def test_all_factors_choose_the_same(self, seed, criterion):
        """Within a step of either search: the path's ratio and the walk's finest,
        6^(1/2).
        """
        problem = Problem(n=200, D=40, K=1, seed=seed)
        bounds = primal(problem.design).bounds
        chosen, scores = [], []
        for factor in (
            primal(problem.design),
            primal(problem.design, 1),
            dual(problem.design),
            dual(problem.design, 1),
        ):
            score = (
                leave_one_out(factor, problem.design)
                if criterion == "loo"
                else factor.gcv
            )
            alpha, alphas, values = choose_alpha(factor, score)
            np.testing.assert_allclose(factor.bounds, bounds, rtol=1e-9)
            assert alpha in alphas
            assert np.all(np.diff(alphas) > 0)
            assert bounds[0] * 0.999 <= alphas.min()
            assert alphas.max() <= bounds[1] * 1.001
            assert values.min() == values[np.flatnonzero(alphas == alpha)[0]]
            chosen.append(alpha)
            scores.append(values.min())
        step = (bounds[1] / bounds[0]) ** (1 / (PATH_LENGTH - 1)) * 6**0.5
        assert max(chosen) / min(chosen) <= step
        assert chosen[2] == pytest.approx(chosen[0])
        if criterion == "loo":
            np.testing.assert_allclose(scores, scores[0], rtol=0.01)

    def test_fewer_factorisations_than_the_path(self):
        problem = Problem(n=200, D=40)
        factor = primal(problem.design, 1)
        _, alphas, _ = choose_alpha(factor, factor.gcv)
        assert len(alphas) < PATH_LENGTH / 2

    @pytest.mark.parametrize("minimum", [-100.0, -15.0, -9.3, 0.0, 2.7, 100.0])
    def test_walks_to_any_minimum(self, minimum):
        """A bowl in log alpha, its bottom inside or outside of the bounds."""
        factor = primal(Problem().design, 1)
        factor.trace = 1e3
        alpha, _, _ = choose_alpha(
            factor, lambda alphas: (np.log(alphas) - minimum) ** 2
        )
        target = np.clip(minimum, *np.log(factor.bounds))
        assert abs(np.log(alpha) - target) <= np.log(6) / 4 + 1e-9

    def test_flat_scores(self):
        choose_alpha(primal(Problem().design, 1), lambda alphas: np.ones(len(alphas)))
        assert best_alpha(np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 2.0])) == 2.0

    def test_the_cheaper_factorisation(self, monkeypatch):
        """Of the smaller matrix; into a tridiagonal one where there are several
        alphas and it is not large.
        """
        problem = Problem(n=40, D=12)
        assert isinstance(factorise(problem.design, 1), PrimalFactor)
        assert isinstance(factorise(Problem(n=12, D=12).design, 1), PrimalFactor)
        assert isinstance(factorise(Problem(n=11, D=12).design, 1), DualFactor)
        some = Problem(n=20, D=12, weight=np.arange(20) % 2.0)
        assert isinstance(factorise(some.design, 1), DualFactor)
        assert isinstance(factorise(problem.design, 1).inverse, CholeskyInverse)
        assert isinstance(factorise(problem.design, 2).inverse, TridiagonalInverse)
        monkeypatch.setattr(shifted, "TRIDIAGONAL_LIMIT", 11)
        assert isinstance(factorise(problem.design, 2).inverse, CholeskyInverse)

    def test_bounds_reach_from_rounding_to_the_trace(self):
        problem = Problem()
        low, high = primal(problem.design).bounds
        centred = problem.Z - problem.Z.mean(axis=0)
        assert high == pytest.approx((centred**2).sum())
        assert low == pytest.approx(1e-7 * high)
        constant = Problem(n=1)
        assert primal(constant.design).bounds[1] > 0
        assert dual(constant.design).bounds[1] > 0


@FACTORS
def test_targets_without_variance(factorisation):
    problem = Problem()
    design = Design(
        ArraySource(problem.X, np.full((40, 1), 3.0)), problem.features, np.float64
    )
    factor = factorisation(design)
    coef = factor.coef(0.1)
    np.testing.assert_allclose(
        problem.Z @ coef + factor.intercept(coef), 3.0, rtol=1e-12
    )
    assert np.all(np.isfinite(factor.gcv(ALPHAS)))
    np.testing.assert_allclose(leave_one_out(factor, design)(ALPHAS), 0, atol=1e-20)


@FACTORS
@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_rows(factorisation, n):
    problem = Problem(n=n, D=20)
    factor = factorisation(problem.design)
    coef, intercept = exact.ridge(problem.Z, problem.Y, 0.1)
    np.testing.assert_allclose(
        problem.Z @ factor.coef(0.1) + factor.intercept(factor.coef(0.1)),
        problem.Z @ coef + intercept,
    )
    assert np.all(np.isfinite(factor.gcv(ALPHAS)))
    assert np.all(np.isfinite(leave_one_out(factor, problem.design)(ALPHAS)))
