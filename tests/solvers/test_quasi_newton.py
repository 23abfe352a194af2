"""Losses of classes on a few columns reach the minimum that scikit-learn finds, where
rows lie far from all others and classes have few rows too.
"""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from bochner import KernelMachineClassifier, LinearFeatures
from bochner.data.array_source import ArraySource
from bochner.design.design import Design
from bochner.inputs.targets import Signs
from bochner.solvers.iterative import IterativeRidge
from bochner.solvers.losses import Multinomial
from bochner.solvers.newton import Reweighted
from bochner.solvers.quasi_newton import minimise_by_lbfgs


def heavy_tailed(seed, n):
    """Twelve columns, some of whose entries are far from all others, of six classes
    whose shares are 60 to .3 %.
    """
    rng = np.random.default_rng(seed)
    shares = [0.6, 0.25, 0.1, 0.04, 0.007, 0.003]
    group = rng.choice(6, n, p=shares)
    centres = 2 * np.random.default_rng(7).normal(size=(6, 12))
    X = centres[group] + rng.normal(size=(n, 12))
    is_far = rng.random(X.shape) < 0.003
    X[is_far] *= np.exp(rng.normal(3, 1, is_far.sum()))
    return X, group


def problem_of(X, group, weight, alpha):
    drawn = LinearFeatures().draw(12)
    drawn.fit_sample(X, np.ones(len(X)))
    source = ArraySource(X, Signs(np.arange(6))(group), weight)
    ridge = IterativeRidge(Design(source, drawn, np.float64), 0)
    start = np.zeros((6, 12)), np.zeros(6)
    penalty = np.full((6, 1), alpha)
    return ridge, Reweighted(ridge.blocks, Multinomial(), penalty, *start, np.float64)


# With the largest penalty the end comes within the first step
@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0, 1e8])
def test_the_minimum_of_scikit_learn(alpha):
    X, group = heavy_tailed(0, 1000)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    weight = np.random.default_rng(1).uniform(0.5, 2, len(X))
    ridge, problem = problem_of(X, group, weight, alpha)
    numbers = []

    def visit(problem, n_steps):
        numbers.append(n_steps)
        return False

    n_steps = minimise_by_lbfgs(problem, 400, visit)
    assert numbers == list(range(1, n_steps + 1))
    assert n_steps > 0
    expected = LogisticRegression(C=1 / alpha, tol=1e-9, max_iter=10_000)
    expected.fit(Z, group, weight)
    scores = Z @ problem.coef.T + ridge.uncentred(problem.coef, problem.offset)
    np.testing.assert_allclose(
        softmax(scores, axis=1), expected.predict_proba(Z), atol=1e-4
    )


def test_a_visit_ends_it():
    X, group = heavy_tailed(0, 300)
    _, problem = problem_of(X, group, None, 1.0)
    assert minimise_by_lbfgs(problem, 50, lambda problem, n_steps: n_steps == 3) == 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_log_loss_of_new_rows(seed):
    """No more than that of logistic regression with the best of its penalties."""
    X, group = heavy_tailed(seed, 6000)
    new_X, new_group = heavy_tailed(seed + 100, 6000)
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    losses = []
    for C in (0.01, 0.1, 1.0, 10.0):
        other = LogisticRegression(C=C, max_iter=3000).fit(
            (X - mean) / deviation, group
        )
        losses.append(
            log_loss(new_group, other.predict_proba((new_X - mean) / deviation))
        )
    model = KernelMachineClassifier(
        features=LinearFeatures(), loss="logistic", random_state=seed
    ).fit(X, group)
    loss = log_loss(new_group, model.predict_proba(new_X))
    assert loss < 1.1 * min(losses)
