"""The workers of a Ray cluster as an engine; where the variable BOCHNER_TEST_RAY is set, as Ray takes long to start."""

import os
import signal
import sys

import numpy as np
import pytest

from bochner.engines.base import EngineError, reduce
from bochner.engines.current import as_engine
from bochner.engines.local import LOCAL, _allowed
from works import refused, rows


def test_without_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'bochner\[ray\]'"):
        as_engine("ray")


@pytest.fixture(scope="module")
def engine():
    if "BOCHNER_TEST_RAY" not in os.environ:
        pytest.skip("BOCHNER_TEST_RAY is not set")
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield as_engine("ray")
    ray.shutdown()


@pytest.mark.filterwarnings("ignore")
class TestRay:
    def test_same_bits(self, engine):
        parts, work, shared = rows()
        here, there = reduce(LOCAL, parts, work, shared), reduce(engine, parts, work, shared)
        np.testing.assert_array_equal(here.matrix, there.matrix)

    def test_references_are_found_wherever_they_lie(self, engine):
        two = engine.share(2)
        assert engine.result(engine.submit(lambda values: values["a"][0] + 1, {"a": [two]})) == 3
        assert (engine.n_workers, engine.n_processes, engine.worker_memory) == (2, 2, None)
        assert engine.result(engine.share(None)) is None

    def test_a_work_has_one_thread(self, engine):
        assert engine.result(engine.submit(lambda: _allowed())) == 1

    def test_failures_come_as_they_are_and_say_where(self, engine):
        with pytest.raises(KeyError, match="part 3") as error:
            reduce(engine, [3], refused)
        assert type(error.value) is KeyError
        assert "This happened on Ray node" in error.value.__notes__[0]

    def test_work_that_kills_its_workers(self, engine):
        with pytest.raises(EngineError, match="Ray has lost the work"):
            reduce(engine, [1, 2], lambda part, shared: os.kill(os.getpid(), signal.SIGKILL))
