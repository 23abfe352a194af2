"""Lengthscales of each column by the marginal likelihood, against scikit-learn's
Gaussian processes.
"""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from bochner import KernelMachineRegressor
from bochner.data.array_source import Block
from bochner.selection.likelihood import LENGTHSCALE_EACH, LikelyMachine


def borehole(n, seed):
    """Water through a borehole, a usual example of computer experiments, by the flow's
    formula (Morris, Mitchell and Ylvisaker, 1993).
    """
    u = np.random.default_rng(seed).uniform(size=(n, 8))
    low = np.array([0.05, 100, 63070, 990, 63.1, 700, 1120, 9855])
    high = np.array([0.15, 50000, 115600, 1110, 116, 820, 1680, 12045])
    X = low + (high - low) * u
    width, radius, upper, upper_head, lower, lower_head, length, conductivity = X.T
    ratio = np.log(radius / width)
    leak = 2 * length * upper / (ratio * width**2 * conductivity)
    flow = 2 * np.pi * upper * (upper_head - lower_head)
    return X, flow / (ratio * (1 + leak + upper / lower))


@pytest.fixture(scope="module")
def smooth():
    X, y = make_friedman1(60, 7, noise=0.5, random_state=3)
    weight = np.ones(len(y))
    machine = LikelyMachine(Block(X, y[:, np.newaxis], weight), np.arange(7))
    return X, y, machine


def process(machine, variance):
    """scikit-learn's process with the kernel of a machine, not to be fitted."""
    kernel = ConstantKernel(variance) * RBF(machine.kernel.lengthscale)
    kernel += ConstantKernel(variance) + WhiteKernel(variance * machine.penalty)
    return GaussianProcessRegressor(kernel, optimizer=None)


def test_predictions_are_those_of_a_gaussian_process(smooth):
    X, y, machine = smooth
    others = np.random.default_rng(0).uniform(size=(20, 7))
    expected = process(machine, 1.0).fit(X, y - y.mean()).predict(others) + y.mean()
    np.testing.assert_allclose(machine.predict(others)[:, 0], expected, rtol=1e-6)


def test_no_gaussian_process_is_more_likely(smooth):
    """At the best variance, by scikit-learn's likelihood and its own optimum."""
    X, y, machine = smooth
    y = (y - y.mean()) / y.std()
    likely = max(
        process(machine, variance).fit(X, y).log_marginal_likelihood_value_
        for variance in np.geomspace(0.1, 100, 300)
    )
    rough = RBF(np.ones(7), (1e-2, 1e9)) + ConstantKernel(1.0, "fixed")
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * rough + WhiteKernel(0.1, (1e-6, 10))
    free = GaussianProcessRegressor(kernel, random_state=0).fit(X, y)
    assert likely > free.log_marginal_likelihood_value_ - 0.05
    # The noise has a variance of .25
    assert (
        machine.kernel.lengthscale[5:].min() > 3 * machine.kernel.lengthscale[:3].max()
    )


@pytest.mark.parametrize("n_rows", [40, 120])
def test_smooth_functions_of_few_rows_are_learned(n_rows):
    X, y = borehole(n_rows, 0)
    X_test, y_test = borehole(500, 1)
    machine = KernelMachineRegressor(random_state=0).fit(X, y)
    one = KernelMachineRegressor(metric="isotropic", random_state=0).fit(X, y)
    errors = [
        np.mean(np.square(model.predict(X_test) - y_test)) for model in (machine, one)
    ]
    assert machine.report_.chosen == LENGTHSCALE_EACH
    assert errors[0] < errors[1] / 5
    assert LENGTHSCALE_EACH in {one.name for one in machine.report_.candidates}
    assert LENGTHSCALE_EACH not in {one.name for one in one.report_.candidates}


@pytest.mark.parametrize("n_rows", [60, 120])
def test_a_time_limit_leaves_what_there_is_time_for(n_rows):
    """Lengthscales, or a metric, in a second of which fits take a half at most."""
    X, y = borehole(n_rows, 0)
    X_test, y_test = borehole(500, 1)
    limited = KernelMachineRegressor(time_limit=1.2, random_state=0).fit(X, y)
    one = KernelMachineRegressor(metric="isotropic", random_state=0).fit(X, y)
    errors = [
        np.mean(np.square(model.predict(X_test) - y_test)) for model in (limited, one)
    ]
    assert errors[0] < errors[1] / 2


def test_a_dozen_rows_tell_which_column_counts():
    """Four draws, as a few rows may lie badly."""
    errors = []
    for seed in range(4):
        X = np.random.default_rng(seed).uniform(-2, 2, (515, 2))
        y = np.sin(3 * X[:, 0])
        predicted = KernelMachineRegressor(random_state=0).fit(X[:15], y[:15])
        errors.append(np.mean(np.square(predicted.predict(X[15:]) - y[15:])))
    assert np.mean(errors) < 0.1 * y.var()


def test_columns_of_noise_leave_one_lengthscale():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8))
    y = X.sum(axis=1) + rng.normal(size=60)
    machine = KernelMachineRegressor(random_state=0).fit(X, y)
    assert machine.report_.chosen != LENGTHSCALE_EACH


def test_weights_are_rows():
    X, y = borehole(40, 2)
    weight = np.random.default_rng(1).integers(1, 4, 40)
    rows = np.repeat(np.arange(40), weight)
    weighted = KernelMachineRegressor(random_state=0).fit(X, y, weight)
    repeated = KernelMachineRegressor(random_state=0).fit(X[rows], y[rows])
    assert weighted.report_.chosen == LENGTHSCALE_EACH
    X_test, _ = borehole(50, 3)
    np.testing.assert_allclose(
        weighted.predict(X_test), repeated.predict(X_test), rtol=1e-7
    )


def test_several_targets_share_lengthscales():
    X, y = borehole(50, 0)
    both = np.stack([y, -2 * y + 5], axis=1)
    X_test, y_test = borehole(300, 1)
    machine = KernelMachineRegressor(random_state=0).fit(X, both)
    predicted = machine.predict(X_test)
    assert machine.report_.chosen == LENGTHSCALE_EACH
    np.testing.assert_allclose(predicted[:, 1], -2 * predicted[:, 0] + 5, rtol=1e-3)
    assert np.mean(np.square(predicted[:, 0] - y_test)) < 1e-3 * y_test.var()


def test_constant_targets_have_a_likelihood():
    """As those of all folds but one may be."""
    X = np.random.default_rng(0).normal(size=(24, 3))
    machine = LikelyMachine(Block(X, np.full((24, 1), 2.5), np.ones(24)), np.arange(3))
    np.testing.assert_allclose(machine.predict(X), 2.5)
    assert np.isfinite(machine.kernel.lengthscale).all()


def test_a_constant_target_changes_nothing_of_another(smooth):
    X, y, alone = smooth
    both = np.column_stack([y, np.full(len(X), 7.0)])
    machine = LikelyMachine(Block(X, both, np.ones(len(X))), np.arange(7))
    np.testing.assert_allclose(machine.predict(X)[:, :1], alone.predict(X), rtol=1e-9)
    np.testing.assert_allclose(machine.predict(X)[:, 1], 7.0)
