"""Checkpoints: what they hold, what they refuse, and that a kill at any moment leaves a whole one."""

import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
from itertools import pairwise

import numpy as np
import pytest
from safetensors.numpy import load_file

from bochner.data import checkpoint as module
from bochner.data.checkpoint import Checkpoint, CheckpointError
from bochner.whole_files import replacing

IDENTITY = {"data": "ab12", "settings": "n_components=500", "version": "0.1"}
ARRAYS = {
    "matrix": np.arange(12.0).reshape(3, 4) / 7,
    "single": np.ones((2, 0, 3), np.float32),
    "count": np.array([2**62, -1]),
    "hash": np.array([2**64 - 1], np.uint64),
    "flag": np.array(True),
    "turned": np.arange(6.0).reshape(2, 3).T,
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.ckpt"


@pytest.fixture
def always(monkeypatch):
    """Write at every change."""
    monkeypatch.setattr(module, "SHARE", np.inf)


def write(path, arrays=ARRAYS, identity=IDENTITY, **facts):
    with_it = Checkpoint(path, identity, every=0)
    with_it.facts |= facts
    with with_it.keeping(lambda: iter(arrays.items())), with_it.change():
        with_it._last = -1e9
    with_it.close()


class TestContents:
    def test_come_back(self, path):
        write(path, stage=3)
        held = Checkpoint(path, IDENTITY, resume=True)
        assert held.facts == {"stage": 3}
        assert held.arrays.keys() == ARRAYS.keys()
        for name, array in ARRAYS.items():
            assert held.arrays[name].dtype == array.dtype
            assert held.arrays[name].flags.writeable
            np.testing.assert_array_equal(held.arrays[name], array, strict=True)
        held.close()

    def test_are_a_safetensors_file(self, path):
        write(path)
        found = load_file(path)
        assert found.keys() == ARRAYS.keys()
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(found[name], array, strict=True)

    def test_that_nobody_took_are_written_along(self, path, always):
        write(path)
        held = Checkpoint(path, IDENTITY, every=0, resume=True)
        del held.arrays["matrix"]
        with held.keeping(lambda: iter([("new", np.ones(2))])):
            change(held)
        held.close()
        assert load_file(path).keys() == ARRAYS.keys() - {"matrix"} | {"new"}

    def test_of_another_type_or_too_many_are_refused(self, path, always):
        held = Checkpoint(path, IDENTITY, every=0)
        for arrays, message in [
            ({"a": np.array(["x"])}, "'a' is of type"),
            ({f"name {k}": np.ones(1) for k in range(2000)}, "more than a checkpoint can hold"),
        ]:
            with held.keeping(lambda arrays=arrays: arrays.items()), pytest.raises(ValueError, match=message):
                change(held)
        held.close()
        assert os.listdir(path.parent) == []


class TestRefusals:
    @pytest.mark.parametrize(
        ("other", "message"),
        [
            ({"data": "cd34"}, "data was 'ab12', and is now 'cd34'"),
            ({"data": "cd34", "version": "0.2"}, "'cd34'; version was '0.1', and is now '0.2'"),
            ({"seed": "3"}, "seed was not given, and is now '3'"),
        ],
    )
    def test_other_work(self, path, other, message):
        write(path)
        with pytest.raises(CheckpointError, match=f"{message}.*delete it"):
            Checkpoint(path, IDENTITY | other, resume=True)
        Checkpoint(path, IDENTITY, resume=True).close()

    def test_a_file_that_is_not_to_be_gone_on_from(self, path):
        write(path)
        with pytest.raises(CheckpointError, match="exists: continue from it with resume=True, or delete it"):
            Checkpoint(path, IDENTITY)

    def test_each_byte_counts(self, path):
        write(path, {"a": np.arange(5.0)})
        whole = path.read_bytes()
        used = [*range(8), *range(8, 8 + whole[8:].index(b"  ")), *range(len(whole) - 40, len(whole))]
        for k in used[::3]:
            path.write_bytes(whole[:k] + bytes([whole[k] ^ 5]) + whole[k + 1 :])
            with pytest.raises(CheckpointError):
                Checkpoint(path, IDENTITY, resume=True)
        for size in (0, 7, 8, 100, len(whole) - 1):
            path.write_bytes(whole[:size])
            with pytest.raises(CheckpointError, match="is not a complete checkpoint"):
                Checkpoint(path, IDENTITY, resume=True)

    @pytest.mark.parametrize(
        "content", [b"", b"a,b\n1,2\n", b"\2\0\0\0\0\0\0\0{}", b"\2\0\0\0\0\0\0\0[]", b"\xff" * 50]
    )
    def test_foreign_files(self, path, content):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="not a complete checkpoint"):
            Checkpoint(path, IDENTITY, resume=True)
        assert path.read_bytes() == content

    def test_two_writers(self, path):
        held = Checkpoint(path, IDENTITY)
        with pytest.raises(CheckpointError, match=f"in use by process {os.getpid()}"):
            Checkpoint(path, IDENTITY)
        done = child(path, "Checkpoint(path, {})", check=False)
        assert f"in use by process {os.getpid()}" in done.stderr
        held.close()
        Checkpoint(path, IDENTITY).finish()
        assert os.listdir(path.parent) == []

    def test_the_lock_of_a_killed_process_is_free(self, path):
        child(path, "held = Checkpoint(path, {}); os.kill(os.getpid(), signal.SIGKILL)", check=False)
        assert os.path.exists(f"{path}.lock")
        Checkpoint(path, IDENTITY).close()


class TestWriting:
    def test_waits_till_it_is_time(self, path, monkeypatch):
        now, written = [0.0], []
        monkeypatch.setattr(module.time, "monotonic", lambda: now[0])

        def slow(*arguments):
            written.append(now[0])
            now[0] += 2.0

        monkeypatch.setattr(module, "write_arrays", slow)
        monkeypatch.setattr(module.os, "replace", lambda *names: None)
        monkeypatch.setattr("bochner.whole_files._flush", lambda *arguments: None)
        held = Checkpoint(path, IDENTITY, every=60.0)
        with held.keeping(lambda: iter([])):
            for _ in range(1000):
                with held.change():
                    now[0] += 1.0
        held.close()
        assert written[0] == 60
        assert all(later - former >= 202 for former, later in pairwise(written))
        assert 2 * len(written) <= 0.01 * now[0] + 2

    def test_success_removes_the_file_and_failure_leaves_it(self, path, always):
        def fail():
            with Checkpoint(path, IDENTITY, every=0) as held, held.keeping(lambda: iter([])):
                change(held)
                raise KeyError

        with pytest.raises(KeyError):
            fail()
        assert os.listdir(path.parent) == ["a.ckpt"]
        with Checkpoint(path, IDENTITY, resume=True):
            pass
        assert os.listdir(path.parent) == []

    def test_what_failed_half_way_is_not_written(self, path, always):
        with Checkpoint(path, IDENTITY, every=0) as held, held.keeping(lambda: iter([])):
            with pytest.raises(KeyError), held.change():
                raise KeyError
            change(held)
            assert not path.exists()

    def test_a_full_disk_leaves_the_old_file_and_warns_once(self, path, always):
        held = Checkpoint(path, IDENTITY, every=0)
        size, limits = [10], resource.getrlimit(resource.RLIMIT_FSIZE)
        with held.keeping(lambda: iter([("a", np.ones(size[0]))])):
            change(held)
            size[0] = 1_000_000
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
            try:
                with pytest.warns(UserWarning, match="cannot be written .*File too large.*free space"), held.change():
                    pass
                change(held)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            assert load_file(path)["a"].shape == (10,)
            assert sorted(os.listdir(path.parent)) == ["a.ckpt", "a.ckpt.lock"]
            change(held)
            assert load_file(path)["a"].shape == (1_000_000,)
        held.close()


def change(held):
    """A change of what is kept that is none."""
    with held.change():
        pass


def child(path, code, check=True):
    prelude = f"""
        import os, signal, sys, threading, time
        import numpy as np
        from bochner.data import checkpoint
        from bochner.data.checkpoint import Checkpoint
        path = {str(path)!r}
    """
    code = textwrap.dedent(prelude) + textwrap.dedent(code)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=check)


class TestSignal:
    """SIGTERM has the state written at once, and then does what it did before."""

    def test_ends_the_process(self, path):
        done = child(
            path,
            """
            held = Checkpoint(path, {}, every=1e6)
            with held.keeping(lambda: iter([("a", np.arange(3.0))])):
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(30)
            """,
            check=False,
        )
        assert done.returncode == -signal.SIGTERM, done.stderr
        np.testing.assert_array_equal(load_file(path)["a"], np.arange(3.0))

    def test_waits_for_a_change_of_the_same_thread(self, path):
        done = child(
            path,
            """
            held = Checkpoint(path, {}, every=1e6)
            a = np.zeros(2)
            with held.keeping(lambda: iter([("a", a)])), held.change():
                a[0] = 1
                os.kill(os.getpid(), signal.SIGTERM)
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(0.01)
                a[1] = 1
            """,
            check=False,
        )
        assert done.returncode == -signal.SIGTERM, done.stderr
        np.testing.assert_array_equal(load_file(path)["a"], [1, 1])

    def test_waits_for_a_change_of_another_thread(self, path):
        done = child(
            path,
            """
            held, begun = Checkpoint(path, {}, every=1e6), threading.Event()
            a = np.zeros(2)
            def change():
                with held.change():
                    a[0] = 1
                    begun.set()
                    time.sleep(0.3)
                    a[1] = 1
            with held.keeping(lambda: iter([("a", a)])):
                threading.Thread(target=change, daemon=True).start()
                begun.wait()
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(30)
            """,
            check=False,
        )
        assert done.returncode == -signal.SIGTERM, done.stderr
        np.testing.assert_array_equal(load_file(path)["a"], [1, 1])

    @pytest.mark.parametrize("changes", [0, 2])
    def test_calls_the_handler_that_was_there_before_and_gives_it_back(self, path, changes):
        """At once, also after changes that are done."""
        seen = []
        former = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(os.path.exists(path)))
        try:
            own = signal.getsignal(signal.SIGTERM)
            held = Checkpoint(path, IDENTITY, every=1e6)
            with held.keeping(lambda: iter([("a", np.ones(2))])):
                for _ in range(changes):
                    with held.change():
                        pass
                signal.raise_signal(signal.SIGTERM)
                assert seen == [True]
            assert signal.getsignal(signal.SIGTERM) is own
            held.finish()
        finally:
            signal.signal(signal.SIGTERM, former)

    def test_is_left_alone_by_other_threads(self, path):
        held, found = Checkpoint(path, IDENTITY), []

        def work():
            with held.keeping(lambda: iter([])), held.change():
                found.append(signal.getsignal(signal.SIGTERM))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        held.finish()
        assert found == [signal.getsignal(signal.SIGTERM)]


class TestReplacing:
    def test_durable_files_have_one_temporary_name(self, tmp_path, monkeypatch):
        synced, names = [], []
        monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
        for text in ("one", "two"):
            with replacing(tmp_path / "file", durable=True) as name:
                names.append(name)
                with open(name, "x") as file:
                    file.write(text)
        assert names[0] == names[1]
        assert os.listdir(tmp_path) == ["file"]
        assert (tmp_path / "file").read_text() == "two"
        assert len(synced) == 4
        assert synced[1::2] == [os.stat(tmp_path).st_ino] * 2
        assert synced[2] == os.stat(tmp_path / "file").st_ino

    def test_what_a_killed_process_left_is_written_over(self, tmp_path):
        with replacing(tmp_path / "file", durable=True) as name:
            open(name, "x").close()
        with open(name, "x") as file:
            file.write("left behind")
        with replacing(tmp_path / "file", durable=True) as name, open(name, "x") as file:
            file.write("new")
        assert (tmp_path / "file").read_text() == "new"
        assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(("inside", "kept"), [(False, True), (True, False)])
def test_an_interrupt_writes_what_is_whole(path, inside, kept):
    """But not what is half changed."""
    checkpoint = Checkpoint(path, IDENTITY, every=1e9)

    def interrupted():
        with checkpoint.keeping(lambda: iter(ARRAYS.items())):
            with checkpoint.change():
                if inside:
                    raise KeyboardInterrupt
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    checkpoint.close()
    assert path.exists() == kept
