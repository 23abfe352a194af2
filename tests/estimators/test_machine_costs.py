"""Costs that are measured."""

import pytest

from bochner.engines.costs import COSTS, Costs, plausible
from bochner.estimators import costs
from bochner.estimators.costs import machine_costs, measure


@pytest.fixture
def file(tmp_path, monkeypatch):
    """An empty folder of caches."""
    path = tmp_path / "costs.json"
    monkeypatch.setattr(costs, "costs_file", lambda threads: path)
    machine_costs.cache_clear()
    yield path
    machine_costs.cache_clear()


def test_are_those_of_a_machine():
    found = measure()
    assert plausible(found)
    assert found.gradient_step == COSTS.gradient_step


def test_are_measured_once(file, monkeypatch):
    found, calls = Costs(gram=7e-12), []
    monkeypatch.setattr(costs, "measure", lambda: calls.append(1) or found)
    assert machine_costs() == machine_costs() == found
    machine_costs.cache_clear()
    assert machine_costs() == found
    assert len(calls) == 1
    file.write_text("{}")
    machine_costs.cache_clear()
    assert machine_costs() == found
    assert len(calls) == 2


def test_are_the_usual_ones_where_the_clock_stands_still(file, monkeypatch):
    monkeypatch.setattr(costs.time, "perf_counter", lambda: 0.0)
    monkeypatch.setattr(costs.time, "process_time", lambda: 0.0)
    assert machine_costs() == COSTS
    assert not file.exists()
