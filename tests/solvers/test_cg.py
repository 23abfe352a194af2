"""Conjugate gradients and their preconditioners against dense linear algebra."""

import re

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from bochner import BinningFeatures
from bochner.kernels import Laplacian
from bochner.solvers.cg import DELAY, LOOSE, System, conjugate_gradients
from bochner.solvers.preconditioners import (
    Preconditioner,
    SampledGram,
    SampledRows,
    jacobi,
    side_by_side,
)

EPS = np.finfo(float).eps


def diagonal(inverse, least=None):
    def apply(R, Z):
        Z[:] = R * inverse
        return (R * Z).sum(axis=1, dtype=float)

    return Preconditioner(apply, least)


none = diagonal(1.0)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def matrix(eigenvalues, seed=0):
    D = len(eigenvalues)
    Q, _ = np.linalg.qr(normal(D, D, seed=seed))
    A = (Q * eigenvalues) @ Q.T
    return (A + A.T) / 2


def solve(operator, rhs, penalty, precondition, *options, **more):
    return conjugate_gradients(
        System(operator, penalty, precondition), rhs, *options, **more
    )


def operator_of(A):
    """Adds V A to Q."""

    def operator(V, Q):
        product = V @ A.astype(V.dtype)
        Q += product
        return (V * product).sum(axis=1, dtype=float)

    return operator


def dense(A, rhs, penalty):
    """Row by row."""
    penalties = np.broadcast_to(penalty, rhs.shape)
    return np.array(
        [
            np.linalg.solve(A + np.diag(own), b)
            for own, b in zip(penalties, rhs, strict=True)
        ]
    )


def length(A, penalty, V):
    """In the norm of the matrix, of every row."""
    return np.sqrt(np.einsum("kd,de,ke->k", V, A, V) + (penalty * V**2).sum(axis=1))


PENALTIES = {
    "of a column": lambda K, D: np.linspace(0.5, 2, K)[:, None],
    "of each entry": lambda K, D: np.random.default_rng(1).uniform(0.5, 2, (K, D)),
    "nearly none": lambda K, D: np.full((K, 1), 1e-9),
}


@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES)
@pytest.mark.parametrize("K", [1, 2, 7])
@pytest.mark.parametrize("D", [1, 2, 30, 200])
def test_solves(penalty, K, D):
    """Condition number 100 at most, so that an error of 1e-12 in the norm of the matrix
    is ten times that in length.

    Twenty times for the four iterations in which at (10 - 1) / (10 + 1) each the error
    is not yet a twentieth less.
    """
    A, rhs = matrix(np.geomspace(0.1, 10, D)), normal(K, D)
    penalty = penalty(K, D)
    before = rhs.copy()
    solution = solve(operator_of(A), rhs, penalty, none, 1e-12, 2000)
    expected = dense(A, rhs, penalty)
    assert solution.converged
    assert solution.error <= 1e-12
    error = np.linalg.norm(solution.coef - expected, axis=1) / np.linalg.norm(
        expected, axis=1
    )
    assert error.max() <= 20 * 10 * 1e-12
    np.testing.assert_array_equal(rhs, before)


def test_the_residual_is_the_true_one():
    """The one that is updated drifts off by the rounding of the products that it was
    updated with.
    """
    A, rhs, penalty = (
        matrix(np.geomspace(0.01, 10, 50)),
        normal(3, 50),
        np.array([[1e-3], [0.1], [2.0]]),
    )
    for tol in (1e-1, 1e-3, 1e-6):
        solution = solve(operator_of(A), rhs, penalty, none, tol, 500)
        left = rhs - solution.coef @ A - penalty * solution.coef
        ratio = (np.linalg.norm(left, axis=1) / np.linalg.norm(rhs, axis=1)).max()
        assert solution.residual == pytest.approx(
            ratio, rel=1e-6, abs=solution.n_iter * 50 * 1e3 * EPS
        )


@pytest.mark.parametrize("iterations", range(5, 16))
def test_the_error_is_estimated_by_what_was_gained(iterations):
    """From the true errors: their squares fall by the gains, whose mean of four and
    longest way to go tell the rest.
    """
    A, rhs, penalty = (
        matrix(np.geomspace(0.1, 10, 40)),
        normal(1, 40),
        np.array([[0.1]]),
    )
    x = dense(A, rhs, penalty)
    path = [np.zeros_like(rhs)]
    solve(
        operator_of(A),
        rhs,
        penalty,
        none,
        0.0,
        20,
        lambda coef, n: path.append(coef.copy()),
    )
    found = solve(operator_of(A), rhs, penalty, none, 0.0, iterations)
    squares = [
        length(A, penalty, x - path[j]).item() ** 2 for j in range(iterations + 1)
    ]
    means = [(squares[j] - squares[j + 4]) / 4 for j in range(iterations - 3)]
    longest = max((squares[j] - squares[-1]) / mean for j, mean in enumerate(means))
    assert found.error**2 == pytest.approx(
        9 * longest * means[-1] / (squares[0] - squares[-1]), rel=1e-5
    )
    assert found.n_iter == iterations


def spectra():
    """Eigenvalues and right-hand sides in the eigenvectors, from easy ones to
    plateaus.
    """
    rng = np.random.default_rng(0)
    shapes = {
        "falling by 1e8": np.geomspace(1, 1e-8, 120),
        "falling by 1e4": np.geomspace(1, 1e-4, 120),
        "even": np.linspace(1e-4, 1, 120),
        "clusters": np.repeat([1, 1e-2, 1e-4], 40) * rng.uniform(0.5, 1.5, 120),
        "outliers": np.concatenate(
            [np.geomspace(1e5, 1e2, 15), rng.uniform(0.5, 2, 105)]
        ),
        "square": np.arange(1.0, 121) ** -2,
        "fourth power": np.arange(1.0, 121) ** -4,
    }
    for values in shapes.values():
        for side in (np.ones(120), np.sqrt(values), values):
            for ridge in (1e-6, 1e-4, 1e-2):
                yield values, side * rng.standard_normal(120), ridge, np.ones(120)


def bins():
    """Random bins and the diagonal as their preconditioner."""
    rng = np.random.default_rng(0)
    for d in (1, 3):
        X = rng.standard_normal((300, d))
        for scale in (1.0, 4.0):
            Z = (
                BinningFeatures(Laplacian(scale * d), 20, random_state=0)
                .fit_transform(X)
                .toarray()
            )
            Z -= Z.mean(axis=0)
            gram, y = (
                Z.T @ Z,
                np.floor(3 * X[:, 0]) % 2 + 0.1 * rng.standard_normal(300),
            )
            for ridge in (1e-3, 1e-2, 0.1, 1.0):
                yield gram, Z.T @ (y - y.mean()), ridge, 1 / (np.diag(gram) + ridge)


@pytest.mark.slow
def test_the_tolerance_holds_on_many_spectra():
    """Of all stops 98 % at least are below it, and none is twice above; tight ones
    with a known bound are all below.
    """
    ratios = {True: [], False: []}
    for matrix_, side, ridge, inverse in [*spectra(), *bins()]:
        plain = matrix_.ndim == 1
        A, penalty, rhs = (
            np.diag(matrix_) if plain else matrix_,
            np.array([[ridge]]),
            side[np.newaxis],
        )
        x = (
            side / (matrix_ + ridge)
            if plain
            else np.linalg.solve(A + ridge * np.eye(len(A)), side)
        )
        total = length(A, penalty, x[np.newaxis])

        for least in (None, np.array([np.min(ridge * inverse)])):
            for tol in (1e-1, 1e-3):
                found = solve(
                    operator_of(A), rhs, penalty, diagonal(inverse, least), tol, 5000
                )
                assert found.converged
                ratios[least is None or tol >= LOOSE].append(
                    (length(A, penalty, found.coef - x) / total).item() / tol
                )
    assert np.mean(np.array(ratios[True]) > 1) <= 0.02
    assert max(ratios[True]) <= 2
    assert max(ratios[False]) <= 1


def test_below_the_rounding_of_single_precision():
    """The residual that the iterations carry on falls for ever; the true one is
    told, and that it did not suffice.
    """
    A, penalty = matrix(np.geomspace(1e-2, 10, 100)), np.array([[1e-2]])
    rhs = normal(1, 100)
    for dtype, converged in ((np.float32, False), (np.float64, True)):
        found = solve(
            operator_of(A), rhs.astype(dtype), penalty.astype(dtype), none, 1e-8, 500
        )
        x = dense(A, rhs, penalty)
        true = (length(A, penalty, found.coef - x) / length(A, penalty, x)).item()
        left = rhs - found.coef @ A - penalty * found.coef
        residual = np.linalg.norm(left) / np.linalg.norm(rhs)
        assert found.converged == converged == (true <= 1e-8)
        assert found.residual == pytest.approx(residual, rel=0.5)
        assert true <= 20 * found.error
        if not converged:
            with pytest.warns(ConvergenceWarning, match="above tol=1.0e-08"):
                found.warn(1e-8)


@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-4, 1e-8])
def test_the_error_bounds_the_true_one(tol):
    """Condition number 4: four iterations divide the error by 3^4 / 2 at least, so that
    it is far below the estimate.

    The last of four right-hand sides has 1e-6 of the others' size: each is held to its
    own.
    """
    A, rhs, penalty = (
        matrix(np.linspace(1, 4, 60)),
        normal(4, 60) * [[1], [1], [1], [1e-6]],
        np.zeros((4, 1)),
    )
    solution = solve(operator_of(A), rhs, penalty, none, tol, 100)
    x = dense(A, rhs, penalty)
    true = length(A, penalty, solution.coef - x) / length(A, penalty, x)
    assert solution.converged
    assert true.max() <= solution.error <= tol
    loose = solve(operator_of(A), rhs, penalty, none, tol, solution.n_iter - 1)
    assert not loose.converged
    assert loose.error > tol


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_holds_down_to_rounding(seed):
    """With the least eigenvalue known and a condition number of 1,000, down to some
    1,000 roundings: how many depends on the processor.

    There rounding takes the steps beyond the bound that the recurrence of Gauss and
    Radau carries on.
    """
    A, rhs, penalty = (
        matrix(np.geomspace(1, 1000, 40), seed),
        normal(2, 40, seed=seed),
        np.zeros((2, 1)),
    )
    x = dense(A, rhs, penalty)
    for tol in (1e-10, 1e-12, 5e-13):
        found = solve(operator_of(A), rhs, penalty, diagonal(1.0, np.ones(2)), tol, 500)
        assert found.converged
        assert (length(A, penalty, found.coef - x) / length(A, penalty, x)).max() <= tol


def test_zero_right_hand_sides():
    A, penalty = matrix(np.geomspace(0.1, 10, 20)), np.full((3, 1), 0.5)
    rhs = normal(3, 20)
    rhs[1] = 0
    solution = solve(operator_of(A), rhs, penalty, none, 1e-10, 200)
    np.testing.assert_array_equal(solution.coef[1], 0)
    np.testing.assert_allclose(solution.coef, dense(A, rhs, penalty), rtol=0, atol=1e-8)
    nothing = solve(operator_of(A), np.zeros((3, 20)), penalty, none, 1e-10, 200)
    assert (nothing.n_iter, nothing.error, nothing.residual, nothing.converged) == (
        0,
        0.0,
        0.0,
        True,
    )
    np.testing.assert_array_equal(nothing.coef, 0)
    nothing.warn(1e-10)


def test_singular_with_a_penalty():
    """Rank two: the solution is found after one iteration for each eigenvalue, that
    of the null space included.
    """
    A = matrix(np.r_[np.zeros(28), 3.0, 50.0])
    rhs, penalty = normal(2, 30), np.array([[0.1], [1.0]])
    solution = solve(operator_of(A), rhs, penalty, none, 1e-10, 100)
    assert solution.n_iter <= 3 + DELAY
    # Condition number 500.
    expected = dense(A, rhs, penalty)
    np.testing.assert_allclose(
        solution.coef, expected, rtol=0, atol=500 * 100 * EPS * np.abs(expected).max()
    )


@pytest.mark.parametrize("D", [1, 2, 3, 5, 8])
def test_is_exact_after_d_iterations(D):
    """Up to rounding, which a condition number of 10 and D steps multiply."""
    A, rhs, penalty = matrix(np.linspace(1, 10, D)), normal(3, D), np.zeros((3, 1))
    solution = solve(operator_of(A), rhs, penalty, none, 0.0, D)
    expected = dense(A, rhs, penalty)
    assert solution.n_iter == D
    np.testing.assert_allclose(
        solution.coef, expected, rtol=0, atol=1000 * D * EPS * np.abs(expected).max()
    )


def test_goes_on_to_nothing_without_harm():
    """Far more iterations than there are dimensions, as when a number of them is
    asked for.
    """
    A, rhs, penalty = matrix(np.linspace(1, 10, 3)), normal(2, 3), np.zeros((2, 1))
    solution = solve(operator_of(A), rhs, penalty, none, 0.0, 500)
    np.testing.assert_allclose(
        solution.coef, dense(A, rhs, penalty), rtol=0, atol=1e-13
    )
    assert np.isfinite([solution.residual, solution.error]).all()


@pytest.mark.parametrize("scale", [2.0**-100, 2.0**100])
def test_units_do_not_matter(scale):
    """Powers of two change no rounding."""
    A, rhs, penalty = (
        matrix(np.geomspace(0.1, 10, 20)),
        normal(2, 20),
        np.full((2, 1), 0.5),
    )
    one = solve(operator_of(A), rhs, penalty, none, 1e-6, 100)
    other = solve(operator_of(scale * A), scale * rhs, scale * penalty, none, 1e-6, 100)
    assert one.n_iter == other.n_iter
    np.testing.assert_array_equal(other.coef, one.coef)


def test_single_precision():
    """Vectors in single precision; a product that rounds to 1e-7 leaves an error of
    100 times that.
    """
    A, penalty = matrix(np.geomspace(0.1, 10, 40)), np.full((2, 1), 0.1, np.float32)
    rhs = normal(2, 40).astype(np.float32)
    solution = solve(operator_of(A.astype(np.float32)), rhs, penalty, none, 1e-5, 200)
    assert solution.coef.dtype == np.float32
    expected = dense(A, rhs.astype(float), penalty.astype(float))
    np.testing.assert_allclose(
        solution.coef, expected, rtol=0, atol=100 * 20 * 1e-5 * np.abs(expected).max()
    )


def test_a_start_near_the_solution_saves_iterations():
    """The error stays one of the whole solution: of what a thousandth is missing the
    first step leaves no more.
    """
    A, rhs, penalty = (
        matrix(np.geomspace(0.1, 10, 40)),
        normal(2, 40),
        np.full((2, 1), 0.1),
    )
    system, x = System(operator_of(A), penalty, none), dense(A, rhs, penalty)
    whole = conjugate_gradients(system, rhs, 1e-6, 200)
    near = conjugate_gradients(system, rhs, 1e-6, 200, start=x * (1 + 1e-4))
    assert near.converged
    assert near.n_iter < whole.n_iter
    assert (length(A, penalty, near.coef - x) / length(A, penalty, x)).max() <= 1e-6
    nothing = conjugate_gradients(system, rhs, 1e-6, 200, start=np.zeros((2, 40)))
    assert nothing.n_iter == whole.n_iter
    np.testing.assert_array_equal(nothing.coef, whole.coef)


def test_visit_ends_the_iterations():
    A, rhs, penalty = (
        matrix(np.geomspace(0.1, 10, 40)),
        normal(2, 40),
        np.full((2, 1), 0.1),
    )
    seen = []

    def visit(coef, n_iter):
        seen.append((n_iter, coef.copy()))
        return n_iter == 7

    solution = solve(operator_of(A), rhs, penalty, none, 1e-12, 200, visit)
    assert [n for n, _ in seen] == list(range(1, 8))
    assert solution.n_iter == 7
    assert not solution.converged
    np.testing.assert_array_equal(seen[-1][1], solution.coef)


def test_warns_where_it_has_not_converged():
    A, rhs, penalty = (
        matrix(np.geomspace(1e-4, 10, 200)),
        normal(2, 200),
        np.full((2, 1), 1e-6),
    )
    for max_iter in (0, 1, 3, 10):
        solution = solve(operator_of(A), rhs, penalty, none, 1e-6, max_iter)
        assert solution.n_iter == max_iter
        assert not solution.converged
        text = (
            f"{max_iter} iterations at a relative residual of "
            f"{solution.residual:.1e} and"
        )
        with pytest.warns(ConvergenceWarning, match=re.escape(text)):
            solution.warn(1e-6)


def test_what_is_no_number_has_not_converged():
    A, rhs = matrix(np.linspace(1, 2, 5)), normal(1, 5)
    rhs[0, 2] = np.nan
    assert not solve(operator_of(A), rhs, np.ones((1, 1)), none, 1e-6, 50).converged


def rows(n, D, decay, seed=0):
    """Rows with eigenvalues that decay geometrically from 1."""
    Q, _ = np.linalg.qr(normal(D, D, seed=seed + 1))
    return normal(n, D, seed=seed) * np.sqrt(np.geomspace(1, decay, D)) @ Q


def applied(precondition, R):
    Z = np.full_like(R, np.nan)
    products = precondition.apply(R, Z)
    # Sums of m products in either order: m roundings, and a few of the sums of pieces.
    size = np.abs(R * Z).sum(axis=1)
    assert np.all(
        np.abs(products - (R * Z).sum(axis=1)) <= (R.shape[1] + 9) * EPS * size
    )
    return Z


class TestPreconditioners:
    def test_jacobi(self):
        diagonal, R = np.array([1.0, 3.0, 0.0]), normal(2, 3)
        for penalty in (
            np.array([[0.5], [0.5]]),
            np.array([[0.5], [2.0]]),
            np.array([[1.0, 2, 3], [1, 2, 4]]),
        ):
            np.testing.assert_allclose(
                applied(jacobi(diagonal, penalty), R),
                R / (diagonal + penalty),
                rtol=4 * EPS,
            )

    @pytest.mark.parametrize(
        "penalty", [[0.5, 0.5, 20.0], [0.5, 2.0, 1.0, 0.5, 20.0, 5.0]]
    )
    def test_sampled_gram(self, penalty):
        """Of few penalties, and of many. Its condition number is 100 at most."""
        S, R, penalty = rows(50, 12, 1e-2), normal(len(penalty), 12), np.array(penalty)
        gram = 200 / 50 * S.T @ S
        found = applied(SampledGram(S).with_penalty(200.0, penalty), R)
        np.testing.assert_allclose(
            found, dense(gram, R, penalty[:, None]), rtol=0, atol=1e4 * EPS
        )

    def test_sampled_gram_holds_rounding_for_rows(self):
        """In single precision and of rank 3: what rounding leaves of the other
        eigenvalues is not divided by.
        """
        S = (normal(50, 3) @ normal(3, 12, seed=1)).astype(np.float32)
        inverse = applied(
            SampledGram(S).with_penalty(1.0, np.array([1e-12] * 12)), np.eye(12)
        )
        largest = np.linalg.eigvalsh(S.T @ S / 50)[-1]
        assert np.linalg.eigvalsh((inverse + inverse.T) / 2)[-1] <= 2 / (
            np.finfo(np.float32).eps * largest
        )

    def test_sampled_rows(self):
        S, R, penalty = rows(24, 60, 1e-2), normal(3, 60), np.array([0.5, 0.5, 20.0])
        sampled = SampledRows(S)
        assert len(sampled.S) == 18
        first, others = S[:18], S[18:]
        ridge = 1e-3 * (S**2).sum() / 24
        left = others - others @ np.linalg.solve(
            first.T @ first + ridge * np.eye(60), first.T @ first
        )
        tail = (left * others).sum(axis=1).mean() / (60 - 18)
        assert sampled.tail == pytest.approx(tail, rel=1e-9)
        expected = dense(200 / 18 * first.T @ first, R, penalty[:, None] + 200 * tail)
        np.testing.assert_allclose(
            applied(sampled.with_penalty(200.0, penalty), R),
            expected,
            rtol=0,
            atol=1e5 * EPS,
        )

    @pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
    def test_sampled_rows_of_few(self, n):
        """And of rows that are all at the mean."""
        for S in (rows(n, 40, 1e-2), np.zeros((n, 40)), np.zeros((n, 40), np.float32)):
            sampled = SampledRows(S)
            assert sampled.tail >= 0
            found = applied(sampled.with_penalty(5.0, np.array([0.1])), normal(1, 40))
            assert np.isfinite(found).all()

    def test_sampled_rows_that_span_all_leave_no_tail(self):
        """Up to the share of 1e-3 of the mean square by which the span is blurred,
        for each of ten directions.
        """
        S = normal(40, 10) @ normal(10, 100, seed=1)
        sampled = SampledRows(S)
        assert sampled.tail * 90 <= 10 * 1e-3 * (S**2).sum() / 40

    def test_blocks(self):
        R, edges = normal(2, 7), np.array([0, 3, 7])
        gram = SampledGram(rows(30, 4, 0.1)).with_penalty(2.0, np.array([1.0, 2.0]))
        bins = jacobi(np.arange(3.0), np.ones((2, 1)))
        found = applied(side_by_side([bins, gram], edges), R)
        np.testing.assert_array_equal(found[:, :3], applied(bins, R[:, :3].copy()))
        np.testing.assert_allclose(
            found[:, 3:], applied(gram, R[:, 3:].copy()), rtol=0, atol=50 * EPS
        )

    def iterations(self, A, penalty, precondition, K=2):
        rhs = normal(K, len(A), seed=9)
        solution = solve(operator_of(A), rhs, penalty, precondition, 1e-3, 3000)
        assert solution.converged
        return solution.n_iter

    @pytest.mark.slow
    def test_each_saves_iterations(self):
        D, weight, alpha = 120, 1500.0, np.array([1e-2, 1e-1])
        Z = rows(1500, D, 1e-6)
        A, penalty = Z.T @ Z, alpha[:, None]
        plain = self.iterations(A, penalty, none)
        gram = self.iterations(
            A, penalty, SampledGram(Z[:480]).with_penalty(weight, alpha)
        )
        sampled = self.iterations(
            A, penalty, SampledRows(Z[:80]).with_penalty(weight, alpha)
        )
        assert gram < sampled < plain
        # A sample of 4 D rows has eigenvalues within (1 - 1 / 2)^2 and (1 + 1 / 2)^2 of
        # all, a condition number of 9: the error halves with each iteration, and the
        # estimate is that of four before.
        assert gram <= np.log2(2 / 1e-3) + DELAY
        scales = np.geomspace(1, 1e-3, D)
        B = matrix(np.linspace(1, 2, D)) * np.outer(scales, scales)
        bins = jacobi(np.diag(B).copy(), penalty * 1e-6)
        assert self.iterations(B, penalty * 1e-6, bins) < self.iterations(
            B, penalty * 1e-6, none
        )
        both = np.zeros((2 * D, 2 * D))
        both[:D, :D], both[D:, D:] = A, B
        parts = [
            SampledGram(Z[:480]).with_penalty(weight, alpha),
            jacobi(np.diag(B).copy(), penalty),
        ]
        blocks = side_by_side(parts, np.array([0, D, 2 * D]))
        assert self.iterations(both, penalty, blocks) < self.iterations(
            both, penalty, none
        )

    def test_a_sample_of_all_rows_solves_at_once(self):
        """One iteration, and those that show it: what is left is rounding."""
        Z, alpha = rows(300, 50, 1e-6), np.array([1e-3, 1.0])
        assert (
            self.iterations(
                Z.T @ Z, alpha[:, None], SampledGram(Z).with_penalty(300.0, alpha)
            )
            <= 1 + DELAY
        )
