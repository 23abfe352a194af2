"""The iterative solver against the direct one, on features that are held, rounded,
or computed in every pass.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import exact
from bochner import (
    BinningFeatures,
    ConcatenatedFeatures,
    FourierFeatures,
    KernelMachineRegressor,
    LinearFeatures,
)
from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.kernels import Gaussian, Laplacian
from bochner.solvers.iterative import MOST_REFINEMENTS, IterativeRidge, Without
from bochner.solvers.preconditioners import LowRank

N, D, ALPHA = 300, 60, 0.1
OPTIONS = {
    "kernel": Gaussian(2.0),
    "n_components": D,
    "alpha": ALPHA,
    "random_state": 0,
}
FOURIER = FourierFeatures(Gaussian(2.0), D, random_state=0).draw(3)
BINS = BinningFeatures(Laplacian(8.0), 20, random_state=1)
MIXED = ConcatenatedFeatures(
    [FOURIER, BINS, LinearFeatures()], weights=[0.5, 2.0, 100.0]
)
# Condition numbers are at most 300 / 0.1: of 16 digits of equal sums in another order
# four are lost, and one of sums.
SAME = 1e-10


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(N)


@pytest.fixture
def rounded(monkeypatch):
    """Features are rounded to 8 bits however few there are."""
    monkeypatch.setattr("bochner.solvers.iterative.PACKED_ENTRIES", 0)


@pytest.fixture
def no_room(monkeypatch):
    """Features do not fit the memory that is free."""
    monkeypatch.setattr("bochner.design.design.available_memory", lambda: 1000)


def ridge_on(features, X, y, weight=None, dtype=np.float64):
    drawn = clone(features).draw(X.shape[1])
    drawn.fit_sample(X, np.ones(X.shape[0]))
    y = y.reshape(len(y), -1)
    return IterativeRidge(Design(ArraySource(X, y, weight), drawn, dtype), seed=0)


def solved(ridge, tol=1e-12, alpha=ALPHA, kept=None, **options):
    """Coefficients (D, K) and intercepts (K,)."""
    if kept is None:
        solution, intercept = ridge.fit(
            np.full(len(ridge.maps), alpha), tol, 500, **options
        )
    else:
        equations = ridge.equations(kept)
        penalty = np.full((equations.shape[0], len(ridge.maps)), alpha)
        solution = ridge.solve(equations, penalty, tol, 500)
        intercept = ridge.intercept(equations, solution.coef)
    assert solution.converged
    return solution.coef.T, intercept


def dense(Z):
    return Z.toarray() if sp.issparse(Z) else Z


def size_of(Z, y, alpha=ALPHA):
    """Norm of the solution in the matrix of the problem, which tolerances are
    relative to.
    """
    coef, _ = exact.ridge(Z, y[:, None], alpha)
    return np.sqrt(np.sum(((Z - Z.mean(axis=0)) @ coef) ** 2) + alpha * np.sum(coef**2))


@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-5, 1e-8])
@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_is_the_direct_solution(rows, tol, alpha):
    """The error in the norm of the matrix bounds the length of that of the
    predictions on the training rows.
    """
    X, y = rows
    options = OPTIONS | {"alpha": alpha}
    direct = KernelMachineRegressor(**options, solver="direct").fit(X, y)
    model = KernelMachineRegressor(**options, solver="cg", tol=tol).fit(X, y)
    Z = direct.features_.transform(direct.encoder_.encode(X, np.float64))
    assert np.linalg.norm(model.predict(X) - direct.predict(X)) <= tol * size_of(
        Z, y, alpha
    )
    assert (model.solver_, direct.solver_) == ("cg", "direct")


@pytest.mark.parametrize(
    "features", [FOURIER, BINS, MIXED], ids=["fourier", "bins", "mixed"]
)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("K", [1, 3])
def test_is_the_ridge_regression_of_its_features(rows, features, weighted, K):
    """The error of 1e-12 is in the norm of the matrix, whose root of the condition
    number is at most 1e3 here.
    """
    X, y = rows
    Y = np.column_stack([y, y**2, X[:, 0]])[:, :K]
    weight = np.random.default_rng(1).uniform(0.1, 3, N) if weighted else None
    ridge = ridge_on(features, X, Y, weight)
    coef, intercept = solved(ridge)
    Z = dense(clone(features).fit(X).transform(X))
    expected, expected_intercept = exact.ridge(Z, Y, ALPHA, weight)
    np.testing.assert_allclose(
        coef, expected, rtol=0, atol=1e-9 * np.abs(expected).max()
    )
    np.testing.assert_allclose(
        intercept, expected_intercept, rtol=0, atol=1e-9 * np.abs(Y).max()
    )
    predicted = ridge.design.predict(coef, intercept)
    np.testing.assert_allclose(
        predicted,
        Z @ expected + expected_intercept,
        rtol=0,
        atol=1e-8 * np.abs(Y).max(),
    )


def test_a_penalty_for_each_map_and_output(rows):
    """A ridge penalty of its own is a scale of its own: alpha / a times on the
    features of map a.
    """
    X, y = rows
    Y = np.column_stack([y, y**2])
    ridge = ridge_on(MIXED, X, Y)
    equations, penalty = (
        ridge.equations(),
        np.array([[0.1, 1.0, 10.0], [5.0, 0.5, 0.05]]),
    )
    coef = ridge.solve(equations, penalty, 1e-12, 500).coef
    Z = dense(clone(MIXED).fit(X).transform(X))
    for k in range(2):
        root = np.sqrt(np.repeat(penalty[k], np.diff(ridge.edges)))
        expected = exact.ridge(Z / root, Y[:, k : k + 1], 1.0)[0][:, 0] / root
        np.testing.assert_allclose(
            coef[k], expected, rtol=0, atol=1e-8 * np.abs(expected).max()
        )


@pytest.mark.parametrize("features", [BINS, FOURIER], ids=["bins", "fourier"])
def test_another_map_beside(rows, features):
    """The ridge regression of both, also where the features of the other one are
    centred: here about 5.
    """
    X, y = rows
    part = LinearFeatures().fit(X + 5)
    ridge = ridge_on(features, X + 5, y)
    Z = np.hstack(
        [dense(ridge.design.features.transform(X + 5)), 3.0 * part.transform(X + 5)]
    )
    coef, intercept = solved(ridge.beside(part, 9.0))
    expected, b = exact.ridge(Z, y[:, None], ALPHA)
    np.testing.assert_allclose(
        Z @ coef + intercept, Z @ expected + b, rtol=0, atol=1e-9
    )
    assert len(ridge.maps) == 1


def test_weights_of_maps_are_known_to_the_preconditioner(rows):
    """The sample is of all rows, so that whatever the weight one iteration solves
    it, and four more show it.
    """
    X, y = rows
    for weight in (1e-4, 1.0, 1e4):
        ridge = ridge_on(ConcatenatedFeatures([FOURIER], weights=[weight]), X, y)
        assert (
            ridge.solve(ridge.equations(), np.array([[ALPHA]]), 1e-6, 100).n_iter <= 5
        )


@pytest.mark.parametrize("limit", [10, 2048])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_few_rows_and_equal_rows(limit, n, monkeypatch):
    """For either preconditioner of dense features."""
    monkeypatch.setattr("bochner.solvers.iterative.GRAM_LIMIT", limit)
    for X in (np.random.default_rng(0).standard_normal((n, 2)), np.ones((n, 2))):
        y = np.arange(float(n))[:, None]
        ridge = ridge_on(FourierFeatures(Gaussian(2.0), D, random_state=0), X, y)
        coef, intercept = solved(ridge, 1e-8)
        Z = ridge.design.features.rows(X)
        expected, expected_intercept = exact.ridge(Z, y, ALPHA)
        # Coefficients err by 1e-8 sqrt(n / 0.1) of their size at most, up to rounding.
        np.testing.assert_allclose(
            Z @ coef + intercept,
            Z @ expected + expected_intercept,
            rtol=0,
            atol=1e-6 * n,
        )


class TestStart:
    def test_the_solution_of_nearly_the_same_rows_saves_most_iterations(
        self, rows, monkeypatch
    ):
        """And leads to the same solution, to which the error is told in full."""
        monkeypatch.setattr("bochner.solvers.iterative.GRAM_LIMIT", 10)
        X, y = rows
        ridge, penalty = ridge_on(FOURIER, X, y), np.full((1, 1), 1e-3)
        kept = np.arange(N) % 30 > 0
        start = ridge.solve(ridge.equations(kept), penalty, 1e-8, 500).coef
        new, warm = (
            ridge.fit(penalty[0], 1e-2, 500, start=V).solution for V in (None, start)
        )
        assert warm.n_iter < new.n_iter
        exactly = ridge.fit(penalty[0], 1e-10, 500).solution.coef
        equations = ridge.equations()

        def size(V):
            return np.sqrt(np.sum(V * (equations(V) + 1e-3 * V)))

        for found in (new, warm):
            assert size(found.coef - exactly) <= 1e-2 * size(exactly)

    def test_of_the_solution_itself_nothing_is_left(self, rows):
        ridge = ridge_on(FOURIER, *rows)
        penalty = np.array([ALPHA])
        exactly = ridge.fit(penalty, 1e-12, 500).solution
        again = ridge.fit(penalty, 1e-6, 500, start=exactly.coef).solution
        assert again.converged
        np.testing.assert_allclose(
            again.coef, exactly.coef, rtol=0, atol=1e-8 * np.abs(exactly.coef).max()
        )


class TestLeverage:
    @pytest.fixture
    def rare(self, monkeypatch):
        """Two thousand rows, forty of which are far from all others."""
        monkeypatch.setattr("bochner.solvers.iterative.GRAM_LIMIT", 10)
        rng = np.random.default_rng(0)
        X = rng.standard_normal((2000, 3)) * 0.3
        X[::50] = rng.standard_normal((40, 3)) * 6
        return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(2000)

    @pytest.mark.parametrize(
        "features",
        [FOURIER, ConcatenatedFeatures([FOURIER], weights=[0.3])],
        ids=["one", "scaled"],
    )
    @pytest.mark.parametrize("weighted", [False, True])
    def test_same_solution_in_fewer_iterations(self, rare, weighted, features):
        """The error in the norm of the matrix of condition number 2,000 / 0.01 is
        below 1e-10.
        """
        X, y = rare
        weight = (
            np.random.default_rng(1).integers(0, 3, len(X)).astype(float)
            if weighted
            else None
        )
        before, after = (ridge_on(features, X, y, weight) for _ in range(2))
        after.draw_by_leverage(0.01)
        found = [ridge.fit(np.array([0.01]), 1e-10, 500) for ridge in (before, after)]
        assert found[1].solution.n_iter < found[0].solution.n_iter
        Z = after.design.features.transform(X)
        expected, intercept = exact.ridge(Z, y[:, None], 0.01, weight)
        predicted = [Z @ fit.solution.coef.T + fit.intercept for fit in found]
        for one in predicted:
            np.testing.assert_allclose(one, Z @ expected + intercept, rtol=0, atol=1e-6)

    def test_solutions_have_the_inverse_as_covariance(self):
        """Squares of normal numbers have a relative deviation of sqrt(2 / size)."""
        rng = np.random.default_rng(0)
        S, size = rng.standard_normal((20, 30)), 40_000
        matrix = 7.0 * S.T @ S / 20 + (0.5 + 7.0 * 0.1) * np.eye(30)
        V = LowRank(S, S @ S.T, 0.1).draw(7.0, 0.5, size, rng)
        z = rng.standard_normal((5, 30))
        expected = np.einsum("ij,ij->i", z, np.linalg.solve(matrix, z.T).T)
        found = np.square(V @ z.T).mean(axis=0)
        assert np.abs(found / expected - 1).max() < 5 * np.sqrt(2 / size)


class TestRounded:
    def test_is_the_ridge_regression_of_the_rounded_features(self, rows, rounded):
        """They are known; what else there is of rounding is that of sums in single
        precision, 4 digits of 7.
        """
        X, y = rows
        ridge = ridge_on(FOURIER, X, y)
        assert ridge.packed
        coef, intercept = solved(
            ridge, 1e-5, kept=np.ones(len(y), bool)
        )  # to correct for nothing
        centre = FOURIER.rows(X).mean(axis=0)
        Z, unit = FOURIER.rows(X) - centre, (FOURIER.bounds() + np.abs(centre)) / 127
        expected, expected_intercept = exact.ridge(
            np.rint(Z / unit) * unit, y[:, None], ALPHA
        )
        found = ridge.design.predict(coef, intercept)
        error = np.linalg.norm(
            found - (Z @ expected + expected_intercept)
        ) / np.linalg.norm(y)
        assert error <= 1e-3

    def test_a_large_mean_costs_no_digits(self, rows, rounded):
        """Features of a wide kernel are nearly constant: the rounding of the mean's
        square would exceed alpha.
        """
        X, y = rows
        wide = FourierFeatures(Gaussian(100.0), 40, random_state=0)
        _, intercept = solved(ridge_on(wide, X, y, dtype=np.float32), 1e-5, alpha=1e-6)
        assert np.isfinite(intercept).all()

    def test_loosely_solved_predictions_are_near_the_direct_ones(self, rows, rounded):
        """An entry is rounded by unit / sqrt(12) in the mean square, so that a
        prediction moves by that times |w|.

        The rounding moves w too, by no more than a few times that where the noise of y,
        of the size of alpha, is not fitted: to the tolerance of 1e-2 three times the
        rounding is added.
        """
        X, y = rows
        direct = KernelMachineRegressor(**OPTIONS, solver="direct").fit(X, y)
        model = KernelMachineRegressor(**OPTIONS, solver="cg", tol=1e-2).fit(X, y)
        Z = direct.features_.transform(direct.encoder_.encode(X, np.float64))
        scale = direct.target_scale_[0]
        moved = (
            np.linalg.norm(direct.feature_weights_)
            * scale
            * direct.features_.bounds().max()
            / 127
            / np.sqrt(12)
        )
        bound = 1e-2 * size_of(Z, y) + 3 * moved * np.sqrt(N)
        assert 0 < np.linalg.norm(model.predict(X) - direct.predict(X)) <= bound

    @pytest.mark.parametrize("tol", [1e-3, 1e-5])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_refined_to_the_tolerance(self, rows, rounded, tol, weighted):
        X, y = rows
        weight = np.random.default_rng(1).integers(1, 4, N) if weighted else None
        direct = KernelMachineRegressor(**OPTIONS, solver="direct").fit(X, y, weight)
        model = KernelMachineRegressor(**OPTIONS, solver="cg", tol=tol).fit(
            X, y, weight
        )
        Z = direct.features_.transform(direct.encoder_.encode(X, np.float64))
        root = np.ones(N) if weight is None else np.sqrt(weight)
        error = np.linalg.norm(root * (model.predict(X) - direct.predict(X)))
        repeats = np.ones(N, int) if weight is None else weight
        assert error <= tol * size_of(
            np.repeat(Z, repeats, axis=0), np.repeat(y, repeats)
        )

    def test_refinement_of_several_outputs_of_which_one_is_zero(self, rows, rounded):
        X, y = rows
        Y = np.column_stack([y, np.zeros(N), 1e-3 * X[:, 0]])
        coef, intercept = solved(ridge_on(FOURIER, X, Y), 1e-6)
        expected, _ = exact.ridge(FOURIER.rows(X), Y, ALPHA)
        np.testing.assert_array_equal(coef[:, 1], 0)
        assert intercept[1] == 0
        root = np.sqrt(N / ALPHA)  # of the condition number
        for k in (0, 2):
            assert np.linalg.norm(
                coef[:, k] - expected[:, k]
            ) <= 1e-6 * root * np.linalg.norm(expected[:, k])

    def test_refinement_that_cannot_reach_the_tolerance_says_so(self, rows, rounded):
        X, y = rows
        ridge = ridge_on(FOURIER, X, y)
        solution, _ = ridge.fit(np.array([ALPHA]), 1e-30, 500)
        assert not solution.converged
        assert solution.error > 1e-30
        assert solution.n_iter >= MOST_REFINEMENTS

    def test_the_residual_of_a_refinement_is_relative(self, rows, rounded):
        """The targets' unit changes neither it nor the error."""
        X, y = rows
        one, other = (
            ridge_on(FOURIER, X, unit * y).fit(np.array([ALPHA]), 1e-6, 500)[0]
            for unit in (1.0, 2.0**20)
        )
        assert other.residual == pytest.approx(one.residual, rel=1e-3)
        assert other.error == pytest.approx(one.error, rel=1e-3)
        assert 0 < one.residual < 1e-3

    def test_of_mixed_maps_only_the_dense_are_rounded(self, rows, rounded):
        X, y = rows
        ridge = ridge_on(MIXED, X, y)
        coef, _ = solved(ridge, 1e-8)
        expected, _ = exact.ridge(
            dense(clone(MIXED).fit(X).transform(X)), y[:, None], ALPHA
        )
        # Of 1e-8 in the norm of the matrix, times the root of its condition number,
        # with weights up to 100.
        bound = 1e-8 * np.sqrt(N * 300 / ALPHA) * np.linalg.norm(expected)
        assert np.linalg.norm(coef - expected) <= bound

    def test_bins_are_never(self, rows, rounded):
        assert not ridge_on(BINS, *rows).packed


@pytest.mark.slow
@pytest.mark.parametrize(
    "features", [FOURIER, BINS, MIXED], ids=["fourier", "bins", "mixed"]
)
def test_features_computed_in_every_pass_are_the_held_ones(rows, features, request):
    X, y = rows
    held = ridge_on(features, X, y)
    coef, intercept = solved(held)
    request.getfixturevalue("no_room")
    passes = ridge_on(features, X, y)
    assert isinstance(held.blocks, list)
    assert not isinstance(passes.blocks, list)
    again, again_intercept = solved(passes)
    np.testing.assert_allclose(again, coef, rtol=0, atol=SAME * np.abs(coef).max())
    np.testing.assert_allclose(
        again_intercept, intercept, rtol=0, atol=SAME * np.abs(y).max()
    )


def test_without_memory_nothing_is_rounded(rows, rounded, no_room):
    X, y = rows
    ridge = ridge_on(FOURIER, X, y)
    assert not ridge.packed
    expected, _ = exact.ridge(FOURIER.rows(X), y[:, None], ALPHA)
    np.testing.assert_allclose(
        solved(ridge)[0], expected, rtol=0, atol=1e-9 * np.abs(expected).max()
    )


@pytest.mark.parametrize(
    "features", [FOURIER, BINS, MIXED], ids=["fourier", "bins", "mixed"]
)
def test_many_blocks_are_one(rows, features, monkeypatch):
    X, y = rows
    one, _ = solved(ridge_on(features, X, y))
    monkeypatch.setattr(Design, "_stored_rows", lambda self, row: 77)
    ridge = ridge_on(features, X, y)
    assert len(ridge.blocks) == 4
    np.testing.assert_allclose(
        solved(ridge)[0], one, rtol=0, atol=SAME * np.abs(one).max()
    )


@pytest.mark.parametrize(
    "features", [FOURIER, BINS, MIXED], ids=["fourier", "bins", "mixed"]
)
def test_weights_are_repeats(rows, features):
    """Maps that learn of the rows see the same ones; the linear one measures its
    sample without weights.
    """
    X, y = rows
    repeats = np.random.default_rng(1).integers(1, 4, N)

    def predicted(X_train, y, weight):
        drawn = clone(features).draw(3)
        drawn.fit_sample(X, np.ones(X.shape[0]))
        ridge = IterativeRidge(
            Design(ArraySource(X_train, y[:, None], weight), drawn, np.float64), seed=0
        )
        return ridge.design.predict(*solved(ridge))

    weighted = predicted(X, y, repeats.astype(float))
    repeated = predicted(np.repeat(X, repeats, axis=0), np.repeat(y, repeats), None)
    np.testing.assert_allclose(
        np.repeat(weighted, repeats, axis=0),
        repeated,
        rtol=0,
        atol=1e-9 * np.abs(y).max(),
    )


@pytest.mark.parametrize(
    "features", [FOURIER, BINS, MIXED], ids=["fourier", "bins", "mixed"]
)
def test_sparse_rows_are_dense_ones(rows, features):
    X, y = rows
    X = np.where(np.abs(X) > 0.7, X, 0.0)
    coef, intercept = solved(ridge_on(features, X, y))
    sparse, sparse_intercept = solved(ridge_on(features, sp.csr_array(X), y))
    np.testing.assert_allclose(sparse, coef, rtol=0, atol=SAME * np.abs(coef).max())
    np.testing.assert_allclose(
        sparse_intercept, intercept, rtol=0, atol=SAME * np.abs(y).max()
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("held", [True, False])
def test_masked_rows_are_as_none(rows, weighted, held, monkeypatch, request):
    X, y = rows
    if not held:
        request.getfixturevalue("no_room")
    monkeypatch.setattr(Design, "_stored_rows", lambda self, row: 77)
    weight = np.random.default_rng(1).uniform(0.1, 3, N) if weighted else None
    kept = np.random.default_rng(2).random(N) < 0.6
    coef, intercept = solved(ridge_on(FOURIER, X, y, weight), kept=kept)
    alone = ridge_on(
        FOURIER, X[kept], y[kept], None if weight is None else weight[kept]
    )
    expected, expected_intercept = solved(alone)
    np.testing.assert_allclose(coef, expected, rtol=0, atol=SAME * np.abs(coef).max())
    np.testing.assert_allclose(
        intercept, expected_intercept, rtol=0, atol=SAME * np.abs(y).max()
    )


def test_masks_come_anew_in_every_pass(rows):
    X, y = rows
    ridge = ridge_on(FOURIER, X, y)
    blocks = Without(ridge.blocks, np.arange(N) % 2 == 0)
    for _ in range(2):
        assert sum(block.weight.sum() for block in blocks) == N / 2
    assert all((block.weight == 1).all() for block in ridge.blocks)


def test_single_precision_of_bins(rows):
    """Vectors are as the features are; a condition number of 300 / 0.1 leaves three
    digits of seven.
    """
    X, y = rows
    ridge = ridge_on(BINS, X.astype(np.float32), y, dtype=np.float32)
    assert ridge.dtype == np.float32
    coef, _ = solved(ridge, 1e-4)
    assert coef.dtype == np.float32
    expected, _ = solved(ridge_on(BINS, X.astype(np.float32).astype(float), y))
    assert np.linalg.norm(coef - expected) <= 1e-2 * np.linalg.norm(expected)
    assert (
        ridge_on(FOURIER, X.astype(np.float32), y, dtype=np.float32).dtype == np.float64
    )


@pytest.mark.parametrize("alpha", [1e-12, 1e12])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_penalties(rows, alpha, dtype):
    """At least as near to the targets as the mean is, whatever is left undetermined.

    In single precision a ridge penalty of 1e-12 is lost in the rounding of the
    products: waves and bins side by side are not solved for, and say so.
    """
    X, y = rows
    for features in (FOURIER, BINS, MIXED):
        ridge = ridge_on(features, X.astype(dtype), y, dtype=dtype)
        if features is MIXED and (dtype, alpha) == (np.float32, 1e-12):
            equations = ridge.equations()
            assert not ridge.solve(
                equations,
                np.full((equations.shape[0], len(ridge.maps)), alpha),
                1e-2,
                100,
            ).converged
            continue
        coef, intercept = solved(ridge, 1e-2, alpha)
        found = ridge.design.predict(coef, intercept)[:, 0]
        assert np.mean((found - y) ** 2) <= y.var() * (1 + 1e-6)
