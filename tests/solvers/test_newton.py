"""Newton's method on stored features finds the minima of scikit-learn's linear
models.
"""

from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.svm import LinearSVC

from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.features import BinningFeatures, FourierFeatures, LinearFeatures
from bochner.inputs.targets import Signs
from bochner.kernels import Gaussian, Laplacian
from bochner.solvers.iterative import IterativeRidge
from bochner.solvers.losses import Logistic, Multinomial, Poisson, SquaredHinge
from bochner.solvers.newton import Reweighted, minimise, precondition

MAPS = {
    "fourier": FourierFeatures(Gaussian(5.0), 60, random_state=0),
    "binning": BinningFeatures(Laplacian(20.0), 10, random_state=0),
}


def minimise_to(tol, problem, ridge, most):
    """Minimise, and check that the last step was as short as the tolerance asks."""
    steps = []
    move = problem.move

    def noted(step):
        steps.append(move(step))
        return steps[-1]

    problem.move = noted
    minimise(problem, partial(precondition, ridge), tol, most, 500)
    assert np.sqrt(steps[-1][0] / problem.squared_norm()) <= tol


def minimum(name, X, Y, loss, alpha, weight=None, tol=1e-7):
    """Coefficients, intercepts, and the features as they are."""
    features = MAPS[name].fit(X)
    Z = features.transform(X)
    drawn = MAPS[name].draw(X.shape[1])
    drawn.fit_sample(X, np.ones(len(X)))
    ridge = IterativeRidge(Design(ArraySource(X, Y, weight), drawn, np.float64), 0)
    K, D = Y.shape[1], int(ridge.edges[-1])
    problem = Reweighted(
        ridge.blocks,
        loss,
        np.full((K, 1), alpha),
        np.zeros((K, D)),
        np.zeros(K),
        np.float64,
    )
    minimise_to(tol, problem, ridge, 100)
    return (
        problem.coef,
        ridge.uncentred(problem.coef, problem.offset),
        np.asarray(Z.todense() if name == "binning" else Z),
    )


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
def test_logistic(name, load):
    """Two classes and three, dense features and bins: the fitted values of
    `LogisticRegression`.
    """
    X, y = load(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    Y = Signs(np.unique(y))(y)
    loss = Logistic() if Y.shape[1] == 1 else Multinomial()
    coef, intercept, Z = minimum(name, X, Y, loss, 0.5)
    theirs = LogisticRegression(
        C=2.0, tol=1e-10, max_iter=1000, solver="newton-cg"
    ).fit(Z, y)
    ours = (Z @ coef.T + intercept).squeeze()
    expected = theirs.decision_function(Z)
    if Y.shape[1] > 1:  # a constant is free
        ours, expected = (F - F.mean(axis=1, keepdims=True) for F in (ours, expected))
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5)


def test_weights():
    """A weight of two is two equal rows, one of zero none."""
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    Y = Signs(np.unique(y))(y)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    coef, intercept, Z = minimum("fourier", X, Y, Multinomial(), 0.5, weight)
    again = np.repeat(np.arange(len(y)), weight.astype(int))
    theirs = LogisticRegression(
        C=2.0, tol=1e-10, max_iter=1000, solver="newton-cg"
    ).fit(Z[again], y[again])
    ours, expected = Z @ coef.T + intercept, theirs.decision_function(Z)
    ours, expected = (F - F.mean(axis=1, keepdims=True) for F in (ours, expected))
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-5)


def test_squared_hinge():
    """That of `LinearSVC`, which penalises the intercept as one more coefficient of
    a column that is large.
    """
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    coef, intercept, Z = minimum(
        "fourier", X, Signs(np.unique(y))(y), SquaredHinge(), 1.0
    )
    theirs = LinearSVC(
        C=1.0, dual=False, tol=1e-10, intercept_scaling=1e4, max_iter=100_000
    ).fit(Z, y)
    np.testing.assert_allclose(
        (Z @ coef.T + intercept)[:, 0], theirs.decision_function(Z), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize("name", MAPS)
def test_poisson(name):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = rng.poisson(np.exp(np.sin(X[:, 0]))).astype(float)
    coef, intercept, Z = minimum(name, X, y[:, np.newaxis], Poisson(), 2.0)
    theirs = PoissonRegressor(
        alpha=2.0 / len(y), tol=1e-9, max_iter=10_000, solver="newton-cholesky"
    ).fit(Z, y)
    np.testing.assert_allclose(
        np.exp((Z @ coef.T + intercept)[:, 0]), theirs.predict(Z), rtol=1e-5
    )


def test_rates_of_many_orders_of_magnitude_take_few_iterations():
    """Where few rows have most of the curvature the preconditioner has rows by theirs,
    and all of a few hundred.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = rng.poisson(np.exp(3 * X[:, 0])).astype(float)[:, np.newaxis]
    drawn = MAPS["fourier"].draw(3)
    ridge = IterativeRidge(Design(ArraySource(X, y), drawn, np.float64), 0)
    start = np.zeros((1, 60)), np.log(y.mean(axis=0))
    penalty = np.full((1, 1), 0.1)
    problem = Reweighted(ridge.blocks, Poisson(), penalty, *start, np.float64)
    calls = []
    operator = problem.operator
    problem.operator = lambda P, Q: calls.append(1) or operator(P, Q)
    n_steps = minimise(problem, partial(precondition, ridge), 1e-6, 100, 500)
    assert problem.uneven_curvature() is not None
    assert len(calls) < 8 * n_steps  # 23 by the mean curvature
    Z = MAPS["fourier"].fit(X).transform(X)
    theirs = PoissonRegressor(
        alpha=0.1 / len(y), tol=1e-9, max_iter=10_000, solver="newton-cholesky"
    ).fit(Z, y[:, 0])
    intercept = ridge.uncentred(problem.coef, problem.offset)
    np.testing.assert_allclose(
        np.exp((Z @ problem.coef.T + intercept)[:, 0]), theirs.predict(Z), rtol=1e-3
    )


def test_separable_classes_have_a_finite_solution():
    """And it is found from a start that is far away."""
    X = np.linspace(-1, 1, 50)[:, np.newaxis]
    Y = np.sign(X)
    features = FourierFeatures(Gaussian(1.0), 20, random_state=0).draw(1)
    features.fit_sample(X, np.ones(50))
    ridge = IterativeRidge(Design(ArraySource(X, Y), features, np.float64), 0)
    start = np.full((1, features.n_features_out), 30.0)
    problem = Reweighted(
        ridge.blocks, Logistic(), np.full((1, 1), 1e-3), start, np.zeros(1), np.float64
    )
    minimise_to(1e-6, problem, ridge, 200)
    assert np.isfinite(problem.coef).all()


@pytest.mark.parametrize("spread", [0.0, 5.0])
def test_classes_of_one_far_row_do_not_hold_up_the_others(spread):
    """A few steps of few iterations, as of a fit, are near the minimum."""
    rng = np.random.default_rng(0)
    n, d = 2_000, 40
    X = rng.normal(size=(n, d))
    y = np.argmax(X[:, :3] + 0.2 * rng.gumbel(size=(n, 3)), axis=1)
    alone = np.arange(20)
    X[alone, 3 + alone] = 300
    X[alone] += spread * rng.normal(size=(20, d))
    y[alone] = 3 + alone
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    Y = Signs(np.unique(y))(y)
    loss = Multinomial()
    features = LinearFeatures().draw(d)
    features.fit_sample(X, np.ones(n))
    ridge = IterativeRidge(Design(ArraySource(X, Y, None), features, np.float64), 0)
    start = np.zeros((23, d)), loss.scores_of(Y.mean(axis=0))
    penalty = np.full((23, 1), 0.3)
    problem = Reweighted(ridge.blocks, loss, penalty, *start, np.float64)
    minimise(problem, partial(precondition, ridge), 0.0, 10, 4)
    reached = problem.objective([rows.F for rows in problem.rows], problem.coef)
    theirs = LogisticRegression(C=1 / 0.3, tol=1e-8, max_iter=5000).fit(X, y)
    log_p = theirs.predict_log_proba(X)[np.arange(n), y]
    least = -log_p.sum() + 0.3 * np.square(theirs.coef_).sum() / 2
    assert reached < 1.2 * least
