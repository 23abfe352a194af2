"""Costs that are measured."""

import time
from dataclasses import asdict, replace

import numpy as np
import pytest

from bochner import KernelMachineRegressor
from bochner.engines.costs import COSTS, Costs, plausible
from bochner.loops.clock import CLOCK
from bochner.planning import measured_costs
from bochner.planning.measured_costs import machine_costs, measure, timed_costs
from bochner.selection.budget import Budget
from bochner.settings import settings


@pytest.fixture
def file(tmp_path, monkeypatch):
    """An empty folder of caches."""
    path = tmp_path / "costs.json"
    monkeypatch.setattr(measured_costs, "costs_file", lambda threads: path)
    machine_costs.cache_clear()
    yield path
    machine_costs.cache_clear()


def test_are_those_of_a_machine():
    found = measure()
    assert plausible(found)
    assert found.gradient_step / COSTS.gradient_step == pytest.approx(found.gram / COSTS.gram)


def test_are_measured_once(file, monkeypatch):
    found, calls = Costs(gram=7e-12), []
    monkeypatch.setattr(measured_costs, "measure", lambda: calls.append(1) or found)
    assert machine_costs() == machine_costs() == found
    machine_costs.cache_clear()
    assert machine_costs() == found
    assert len(calls) == 1
    file.write_text("{}")
    machine_costs.cache_clear()
    assert machine_costs() == found
    assert len(calls) == 2


def test_are_measured_within_any_memory_limit(file):
    """The limit is for a fit, and whatever asks first is within it."""
    with settings(memory_limit=1):
        assert plausible(machine_costs())
    assert file.exists()


def test_a_time_limit_goes_by_them(file, monkeypatch):
    """A machine that is nine times as slow in most things has a third of the rows, and no faster one has more."""
    usual, double = asdict(COSTS), {"double": COSTS.double}
    slow = Costs(**{name: 9 * cost for name, cost in usual.items()} | double | {"byte_pass": 90 * COSTS.byte_pass})
    fast = Costs(**{name: cost / 8 for name, cost in usual.items()} | double)
    assert (COSTS.pace, slow.pace, fast.pace) == (1.0, pytest.approx(3.0), 1.0)
    usual, late, early = (Budget(1e6, costs=costs) for costs in (COSTS, slow, fast))
    size = 10**9, 1000
    assert late.usual_left == pytest.approx(usual.usual_left / 3, rel=1e-3)
    assert late.part(0.5).usual_left == pytest.approx(usual.usual_left / 6, rel=1e-3)
    assert late.n_rows(10) == pytest.approx(usual.n_rows(10) / 3, rel=1e-3)
    assert late.n_fitted(10) == pytest.approx(usual.n_fitted(10) / 3, rel=1e-3)
    assert early.n_fitted(10) == pytest.approx(usual.n_fitted(10), rel=1e-3)
    assert late.least(*size) > 2.9 * usual.least(*size)
    assert Budget(3.0, costs=slow).is_short
    assert not Budget(3.0).is_short
    budgets = Budget(9.0, costs=slow), Budget(1.0), Budget(9.0)
    sizes = [budget.n_components(0.5, 100_000, 50, 20) for budget in budgets]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.2)
    assert sizes[1] < sizes[2]
    monkeypatch.setattr(measured_costs, "machine_costs", lambda: slow)
    assert timed_costs(None) is COSTS
    assert timed_costs(2.0) is slow


def test_the_clock_stands_still_while_they_are_measured(file, monkeypatch):
    monkeypatch.setattr(measured_costs, "machine_costs", lambda: time.sleep(0.3) or COSTS)
    start = CLOCK.seconds()
    timed_costs(1.0)
    assert CLOCK.seconds() - start < 0.1


def test_are_the_usual_ones_where_the_clock_stands_still(file, monkeypatch):
    monkeypatch.setattr(measured_costs.time, "perf_counter", lambda: 0.0)
    monkeypatch.setattr(measured_costs.time, "process_time", lambda: 0.0)
    assert machine_costs() == COSTS
    assert not file.exists()


def test_decide_on_the_solver_alone(monkeypatch):
    """The map, its size and the precision are the same on every machine."""
    monkeypatch.setattr("bochner.planning.cost_model.WORTH_MEASURING", 0)
    monkeypatch.setattr("bochner.planning.cost_model.WORTH_ROUNDING", 0)
    options, models = {"metric": "isotropic", "features": "fourier", "alpha": 1.0, "random_state": 0}, []
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(600)
    for machine in (replace(COSTS, product=1.0), replace(COSTS, float_pass=1.0)):
        monkeypatch.setattr("bochner.planning.cost_model.machine_costs", lambda machine=machine: machine)
        models.append(KernelMachineRegressor(**options).fit(X, y))
    one, two = models
    assert (one.solver_, two.solver_) == ("cg", "direct")
    np.testing.assert_array_equal(one.features_.frequencies_, two.features_.frequencies_)
    assert one.kernel_.get_params() == two.kernel_.get_params()
    assert one.feature_weights_.dtype == two.feature_weights_.dtype
