"""Sweeps over grids find the minima of scikit-learn's linear models on bins."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.svm import LinearSVC

from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.engines.local import at_most
from bochner.features import BinningFeatures, FourierFeatures
from bochner.features.concatenate import ConcatenatedFeatures
from bochner.features.stored import StoredRows
from bochner.inputs.targets import Signs
from bochner.kernels import Gaussian, Laplacian, SmoothBins
from bochner.solvers.iterative import IterativeRidge
from bochner.solvers.losses import Huber, Logistic, Multinomial, Poisson, SquaredHinge
from bochner.solvers.newton import Reweighted
from bochner.solvers.sweeps import Grids, has_grids_alone, minimise_by_sweeps

FEATURES = BinningFeatures(Laplacian(20.0), 10, random_state=0)


def standardised(load):
    X, y = load(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def problem_of(X, Y, loss, alpha, weight=None, features=FEATURES, dtype=np.float64):
    ridge = IterativeRidge(
        Design(ArraySource(X, Y, weight), features.draw(X.shape[1]), dtype), 0
    )
    K, D = Y.shape[1], int(ridge.edges[-1])
    return Reweighted(
        ridge.blocks,
        loss,
        np.full((K, 1), alpha),
        np.zeros((K, D)),
        np.zeros(K),
        dtype,
    )


def swept(problem, n_sweeps=400, rate=1.0, **options):
    grids = Grids([rows.stored for rows in problem.rows])
    minimise_by_sweeps(problem, grids, n_sweeps, 0, rate=rate, **options)
    return problem


def fitted_values(X, found):
    return FEATURES.fit(X).transform(X) @ found.coef.T + found.offset


def without_constant(F):
    return F - F.mean(axis=1, keepdims=True) if F.ndim > 1 else F


def test_squared_loss():
    """Huber's loss without outliers is the squared one, of ridge regression."""
    X, y = standardised(load_diabetes)
    Y = np.stack([y / 100, np.square(X[:, 0])], axis=1)
    found = swept(problem_of(X, Y, Huber(1e6), 3.0), 1500)
    Z = FEATURES.fit(X).transform(X)
    theirs = Ridge(3.0, tol=1e-12, solver="sparse_cg").fit(Z, Y).predict(Z)
    np.testing.assert_allclose(fitted_values(X, found), theirs, rtol=0, atol=1e-5)


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
def test_logistic(load):
    X, y = standardised(load)
    Y = Signs(np.unique(y))(y)
    loss = Logistic() if Y.shape[1] == 1 else Multinomial()
    ours = fitted_values(X, swept(problem_of(X, Y, loss, 0.5), rate=0.5))
    Z = FEATURES.fit(X).transform(X)
    theirs = LogisticRegression(
        C=2.0, tol=1e-10, max_iter=1000, solver="newton-cg"
    ).fit(Z, y)
    np.testing.assert_allclose(
        without_constant(np.asarray(ours).squeeze()),
        without_constant(theirs.decision_function(Z)),
        rtol=0,
        atol=1e-4,
    )


def test_squared_hinge():
    """That of `LinearSVC`, which penalises the intercept as one more coefficient of a
    column that is large.
    """
    X, y = standardised(load_breast_cancer)
    found = swept(problem_of(X, Signs(np.unique(y))(y), SquaredHinge(), 1.0))
    Z = FEATURES.fit(X).transform(X)
    theirs = LinearSVC(
        C=1.0, dual=False, tol=1e-10, intercept_scaling=1e4, max_iter=100_000
    ).fit(Z, y)
    np.testing.assert_allclose(
        fitted_values(X, found)[:, 0], theirs.decision_function(Z), rtol=0, atol=1e-3
    )


def test_poisson():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = rng.poisson(np.exp(X[:, 0])).astype(float)
    problem = problem_of(X, y[:, np.newaxis], Poisson(), 10.0)
    Z = FEATURES.fit(X).transform(X)
    theirs = PoissonRegressor(alpha=10.0 / len(y), tol=1e-10, max_iter=10_000).fit(Z, y)
    np.testing.assert_allclose(
        np.exp(fitted_values(X, swept(problem, 1000))[:, 0]),
        theirs.predict(Z),
        rtol=1e-4,
    )


@pytest.mark.parametrize("rate", [0.1, 1.0])
def test_weights_are_repeats(rate):
    X, y = standardised(load_wine)
    Y = Signs(np.unique(y))(y)
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    again = np.repeat(np.arange(len(y)), weight)
    one = swept(problem_of(X, Y, Multinomial(), 0.5, weight.astype(float)), 5, rate)
    two = swept(problem_of(X[again], Y[again], Multinomial(), 0.5), 5, rate)
    np.testing.assert_allclose(one.coef, two.coef, rtol=0, atol=1e-9)
    np.testing.assert_allclose(one.offset, two.offset, rtol=0, atol=1e-9)


def test_blocks_maps_and_orders_do_not_matter():
    """Rows in two blocks, in another order each, of two maps side by side."""
    X, y = standardised(load_breast_cancer)
    Y = Signs(np.unique(y))(y)
    features = ConcatenatedFeatures(
        [FEATURES, BinningFeatures(Laplacian(5.0), 7, random_state=1)], [1.0, 0.5]
    )
    whole = problem_of(X, Y, Logistic(), 0.5, features=features)
    (block,) = [rows.stored for rows in whole.rows]
    halves, rng = [], np.random.default_rng(0)
    for rows in (slice(0, 200), slice(200, None)):
        order = rng.permutation(len(y[rows]))
        parts = [
            type(part)(part.ids[:, rows][:, order], part.values, part.offsets, order)
            for part in block.features.parts
        ]
        together = type(block.features)(
            parts, block.features.scales, block.features.edges
        )
        halves.append(StoredRows(together, block.y[rows], block.weight[rows]))
    other = Reweighted(
        halves, Logistic(), whole.penalty, whole.coef, whole.offset, np.float64
    )
    one, two = swept(whole, 5, 0.1), swept(other, 5, 0.1)
    np.testing.assert_allclose(one.coef, two.coef, rtol=0, atol=1e-9)
    F = np.concatenate([rows.F for rows in other.rows], axis=1)
    np.testing.assert_allclose(whole.rows[0].F, F, rtol=0, atol=1e-9)


def test_the_objective_falls_even_where_steps_are_too_long():
    X, y = standardised(load_wine)
    problem = problem_of(X, Signs(np.unique(y))(y), Multinomial(), 1e-3)

    def objective():
        return problem.objective([rows.F for rows in problem.rows], problem.coef)

    values = [objective()]
    swept(problem, 20, 1.9, visit=lambda problem, n: values.append(objective()))
    assert (np.diff(values) <= 0).all()
    assert values[-1] < values[0] / 10


def test_the_same_bits_on_any_number_of_threads():
    X = np.random.default_rng(0).normal(size=(4000, 4))
    Y = Signs(np.arange(3))(np.argmax(X[:, :3], axis=1))
    features = BinningFeatures(Laplacian(3.0), 40, random_state=0)
    found = []
    for n_threads in (1, 2, 4):
        with at_most(n_threads):
            problem = problem_of(
                X, Y, Multinomial(), 0.1, features=features, dtype=np.float32
            )
            found.append(swept(problem, 3, 0.1))
    assert (found[0].coef == found[1].coef).all()
    assert (found[0].coef == found[2].coef).all()


def test_ends_between_groups_of_grids_when_late():
    X, y = standardised(load_breast_cancer)
    features = BinningFeatures(Laplacian(20.0), 40, random_state=0)
    asked = []

    def is_late():
        asked.append(1)
        return len(asked) >= 2

    problem = problem_of(X, Signs(np.unique(y))(y), Logistic(), 0.5, features=features)
    before = problem.objective([rows.F for rows in problem.rows], problem.coef)
    sweeps = []

    def visit(problem, n_sweeps):
        sweeps.append(n_sweeps)

    found = swept(problem, 100, 0.1, visit=visit, is_late=is_late)
    assert sweeps == [1]
    assert 0 < np.count_nonzero(found.coef) < found.coef.size
    assert problem.objective([rows.F for rows in problem.rows], found.coef) < before


def test_grids_alone():
    X = np.random.default_rng(0).normal(size=(300, 2))

    def blocks(features):
        drawn = features.draw(2)
        drawn.fit_sample(X, np.ones(len(X)))
        return IterativeRidge(Design(ArraySource(X, X), drawn, np.float64), 0).blocks

    bins, fourier = FEATURES, FourierFeatures(Gaussian(), 10, random_state=0)
    assert has_grids_alone(blocks(bins))
    assert not has_grids_alone(blocks(fourier))
    assert not has_grids_alone(blocks(ConcatenatedFeatures([bins, fourier])))
    assert not has_grids_alone(blocks(BinningFeatures(SmoothBins(), 10)))
    assert not has_grids_alone(iter(blocks(bins)))
