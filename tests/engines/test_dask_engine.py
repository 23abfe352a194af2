"""The workers of a Dask cluster as an engine: what they compute, and what becomes of
it where they are lost.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

pytest.importorskip("distributed")

import dask
import dask.array as da
from distributed import Client

import bochner
from bochner.engines import dask as clusters
from bochner.engines.base import EngineError
from bochner.engines.current import as_engine
from bochner.engines.dask import DaskEngine
from bochner.engines.futures import FuturesEngine
from bochner.engines.local import LOCAL, _allowed
from bochner.engines.sums import reduce
from works import die, found, refused, rows

pytestmark = [
    pytest.mark.filterwarnings("ignore:resource_tracker:UserWarning"),
    pytest.mark.filterwarnings("ignore:Port .* is already in use:UserWarning"),
]
ALONE = """
from distributed import LocalCluster
options = {"processes": False, "protocol": "tcp", "dashboard_address": ":0", "silence_logs": 60}
cluster = LocalCluster(n_workers=1, threads_per_worker=1, **options)
print(cluster.scheduler_address, flush=True)
cluster.sync(cluster.scheduler.finished)
"""
LIMIT = 60  # seconds within which nothing may hang


@contextmanager
def alone():
    """A cluster in one other process, and its client."""
    with subprocess.Popen(
        [sys.executable, "-c", ALONE], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            with Client(
                process.stdout.readline().strip(), set_as_default=False, timeout=2
            ) as client:
                yield process, client
                process.kill()
        finally:
            process.kill()


@pytest.fixture(autouse=True)
def nothing_hangs():
    began = time.monotonic()
    yield
    assert time.monotonic() - began < LIMIT


class Whole:
    whole_worker = True

    def __call__(self):
        return _allowed()


class Large:
    n_bytes = 10**15

    def __call__(self):
        raise AssertionError("This is refused before.")


def marked(folder, part, shared):
    (folder / str(part)).touch()
    time.sleep(0.1)
    return np.full(3, 1 / (part + 1))


def noisy(value, shared=None):
    return np.asarray(value).sum(axis=0)


def kill(client, n=1):
    """Kill some workers, whose nannies start others."""
    for pid in list(client.run(os.getpid).values())[:n]:
        os.kill(pid, signal.SIGKILL)


class TestResults:
    def test_same_bits_on_any_number_of_workers(self, client, local_cluster):
        parts, work, shared = rows()
        here, there = (
            reduce(LOCAL, parts, work, shared),
            reduce(DaskEngine(client), parts, work, shared),
        )
        np.testing.assert_array_equal(here.matrix, there.matrix)
        assert here.n_rows == there.n_rows
        with local_cluster(1, processes=False) as one:
            np.testing.assert_array_equal(
                reduce(DaskEngine(one), parts, work, shared).matrix, here.matrix
            )

    def test_settings_travel_and_a_work_has_one_thread(self, client):
        engine = DaskEngine(client)
        with bochner.settings(engine=client, device="cpu", memory_limit="4 GB"):
            there = next(engine.results([engine.submit(found, 0, None)]))
        assert (there["threads"], there["device"], there["limit"]) == (1, "cpu", None)
        assert there["process"] != os.getpid()

    def test_lazy_objects_and_futures_are_found_wherever_they_lie(self, client):
        X = np.random.default_rng(0).standard_normal((70, 3))
        blocks = da.from_array(X, chunks=(10, 3)).to_delayed().ravel()
        engine = DaskEngine(client)
        ready = client.submit(np.ones, 3)
        parts = [
            {"blocks": [[block], (block, ready)], "whole": da.ones(5, chunks=2)}
            for block in blocks
        ]
        total = reduce(engine, parts, _of_blocks, np.array(2.0))
        np.testing.assert_allclose(total, 2 * X.sum(axis=0) + 2 * len(parts) * (1 + 5))
        assert not client.processing() or not any(client.processing().values())

    def test_partitions_of_frames(self, client):
        pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
        frame = pd.DataFrame({"a": np.arange(10.0), "b": 1.0})
        lazy = dd.from_pandas(frame, npartitions=3)
        engine = DaskEngine(client)
        assert list(reduce(engine, lazy.to_delayed(), noisy)) == [45, 10]
        assert list(reduce(engine, [lazy.partitions[k] for k in range(3)], noisy)) == [
            45,
            10,
        ]

    def test_partitions_are_let_go(self, client):
        engine = DaskEngine(client)
        reduce(
            engine, list(da.ones((100, 2), chunks=(10, 2)).to_delayed().ravel()), noisy
        )
        deadline = time.monotonic() + 10
        while any(client.has_what().values()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(client.has_what().values())

    def test_large_values_are_shared_without_a_warning(self, client):
        value = np.arange(3_000_000.0)
        with dask.config.set(
            {"distributed.admin.large-graph-warning-threshold": "1 MB"}
        ):
            total = reduce(
                DaskEngine(client),
                range(3),
                lambda part, shared: shared[-2:] * part,
                value,
            )
        np.testing.assert_array_equal(total, value[-2:] * 3)

    def test_what_is_read_only_is_not_written(self, client):
        sums = [np.full(100_000, float(k)) for k in range(5)]
        futures = [client.submit(np.full, 100_000, float(k)) for k in range(5)]
        np.testing.assert_array_equal(
            reduce(DaskEngine(client), futures, lambda part, _: part), sum(sums)
        )
        for k, future in enumerate(futures):
            np.testing.assert_array_equal(future.result(timeout=LIMIT), sums[k])

    def test_parts_that_are_done_are_told_of(self, client):
        seen, threads = [], set()
        reduce(
            DaskEngine(client),
            range(9),
            noisy,
            advance=lambda k: (seen.append(k), threads.add(threading.get_ident())),
        )
        assert sorted(seen) == list(range(9))
        assert threads == {threading.get_ident()}

    def test_what_it_says_of_the_workers(self, client):
        engine = DaskEngine(client)
        assert (engine.n_workers, engine.n_processes) == (2, 2)
        limits = {
            worker["memory_limit"]
            for worker in client.scheduler_info(n_workers=-1)["workers"].values()
        }
        assert engine.worker_memory == int(0.6 * min(limits))
        assert next(engine.results([engine.share(None)])) is None

    def test_a_work_for_a_whole_worker_has_its_threads(self, local_cluster):
        with local_cluster(1, threads=2, processes=False, memory_limit=0) as client:
            engine = DaskEngine(client)
            assert (engine.n_workers, engine.n_processes, engine.worker_memory) == (
                2,
                1,
                None,
            )
            assert next(engine.results([engine.submit(Whole())])) == min(2, _allowed())
            assert next(engine.results([engine.submit(found, 0, None)]))["threads"] == 1


def _of_blocks(part, shared):
    (first,), (second, ready) = part["blocks"]
    assert first is second
    return (
        shared * first.sum(axis=0) + shared * ready * 1 + shared * part["whole"].sum()
    )


class TestEngineOf:
    def test_client_cluster_and_executor(self, client):
        assert as_engine(client).client is client
        assert as_engine(client.get_executor()).client is client
        engine = as_engine(client.cluster)
        assert engine.client is as_engine(client.cluster).client
        assert next(engine.results([engine.submit(int, "7")])) == 7
        engine.client.close()

    def test_the_executor_of_a_client_as_any_other(self, client):
        parts, work, shared = rows()
        there = reduce(FuturesEngine(client.get_executor()), parts, work, shared)
        np.testing.assert_array_equal(
            reduce(LOCAL, parts, work, shared).matrix, there.matrix
        )

    def test_an_asynchronous_client_is_refused(self):
        class Asynchronous:
            asynchronous = True

        with pytest.raises(TypeError, match="not asynchronous"):
            DaskEngine(Asynchronous())


class TestFailures:
    def test_those_of_the_work_come_as_they_are_and_say_where(self, client):
        with pytest.raises(KeyError, match="part 3") as error:
            reduce(DaskEngine(client), [3], refused)
        assert "This happened on worker" in error.value.__notes__[0]

    def test_work_that_no_worker_has_the_memory_for(self, client):
        with pytest.raises(
            MemoryError,
            match=r"Large needs 1,000,000 GB, and .* memory_limit of .* n_components",
        ):
            DaskEngine(client).submit(Large())

    @pytest.mark.parametrize("name", ["bochner", "numpy", "python"])
    def test_other_versions(self, client, monkeypatch, name):
        monkeypatch.setattr(clusters, "_same", set())
        versions = client.get_versions(packages=["numpy", "bochner"])
        versions["client"]["packages"][name] = "9.8.7"
        monkeypatch.setattr(client, "get_versions", lambda packages: versions)
        with pytest.raises(
            EngineError,
            match=rf"(?i)worker at .* has {name} .*this process has {name} 9\.8.*: "
            r"install",
        ):
            reduce(DaskEngine(client), [1], noisy)

    def test_workers_without_the_library(self, client, monkeypatch):
        monkeypatch.setattr(clusters, "_same", set())
        versions = client.get_versions(packages=["numpy", "bochner"])
        for worker in versions["workers"].values():
            worker["packages"]["bochner"] = None
        monkeypatch.setattr(client, "get_versions", lambda packages: versions)
        with pytest.raises(EngineError, match="has bochner missing"):
            reduce(DaskEngine(client), [1], noisy)

    @pytest.mark.slow
    @pytest.mark.usefixtures("interruptible")
    def test_an_interrupt_cancels_the_work_and_leaves_the_cluster_usable(
        self, client, tmp_path
    ):
        def interrupt(part):
            signal.raise_signal(signal.SIGINT)

        with pytest.raises(KeyboardInterrupt):
            reduce(
                DaskEngine(client),
                range(200),
                partial(marked, tmp_path),
                advance=interrupt,
            )
        assert reduce(DaskEngine(client), [[1, 2]], noisy) == 3
        assert len(list(tmp_path.iterdir())) < 100

    @pytest.mark.slow
    def test_a_worker_is_killed(self, tmp_path, local_cluster):
        with local_cluster() as client:
            expected = reduce(LOCAL, range(16), partial(marked, tmp_path))
            thread = threading.Timer(0.5, kill, [client])
            thread.start()
            got = reduce(
                DaskEngine(client), range(16), partial(marked, tmp_path), np.ones(3)
            )
            thread.join()
            np.testing.assert_array_equal(got, expected)

    def test_work_that_kills_its_workers(self, local_cluster):
        with (
            local_cluster(1) as client,
            dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        ):
            client.cluster.scheduler.allowed_failures = 0
            with pytest.raises(
                EngineError,
                match=r"1 workers have died .* tcp://.* memory_limit is .* "
                r"n_components",
            ):
                reduce(DaskEngine(client), [1, 2], die)

    def test_a_cluster_without_workers(self, local_cluster):
        with (
            local_cluster(0) as client,
            pytest.raises(
                EngineError, match=r"no workers for 0\.5 s|no workers for 0 s"
            ),
        ):
            reduce(DaskEngine(client, patience=0.5), [1], noisy)

    def test_workers_that_do_nothing(self):
        worker = {"status": "paused", "metrics": {"task_counts": {"ready": 3}}}

        class Idle:
            status, scheduler, asynchronous = "running", None, False

            def scheduler_info(self, n_workers):
                return {"workers": {"tcp://one": worker}}

        engine = DaskEngine(Idle(), patience=0.02)
        engine._look()
        time.sleep(2 * clusters.IDLE * 0.02)
        with pytest.raises(
            EngineError,
            match=r"none of its 1 workers .* \(1 of them are paused for lack of "
            r"memory\)",
        ):
            engine._look()

    def test_workers_that_are_gone_for_good(self, tmp_path, local_cluster):
        with local_cluster(1, processes=False) as client:
            engine = DaskEngine(client, patience=2)
            thread = threading.Timer(0.5, client.cluster.scale, [0])
            thread.start()
            with pytest.raises(EngineError, match="no workers for 2 s"):
                reduce(engine, range(100), partial(marked, tmp_path))
            thread.join()

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("how", "why"),
        [
            ("SIGKILL", "scheduler was lost|does not answer"),
            ("SIGSTOP", "does not answer"),
        ],
    )
    def test_a_scheduler_that_is_lost(self, how, why):
        with alone() as (process, client):
            engine = DaskEngine(client, patience=2)
            thread = threading.Timer(0.5, process.send_signal, [getattr(signal, how)])
            thread.start()
            with pytest.raises(EngineError, match=why):
                reduce(engine, range(100), lambda part, _: time.sleep(0.1) or part)
            thread.join()
            with pytest.raises(
                EngineError, match=why
            ):  # of a killed one as the client has given up by then, or not
                reduce(engine, range(3), lambda part, _: part)

    def test_a_client_that_closes_between_two_looks(self, monkeypatch, local_cluster):
        with local_cluster(1, processes=False) as client:
            engine = DaskEngine(client, patience=2)
            monkeypatch.setattr(clusters, "name_of", lambda work: client.close())
            with pytest.raises(EngineError, match="scheduler was lost"):
                engine.submit(abs, 1)
