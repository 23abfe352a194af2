"""A short slice of the campaign of faults of the machine, and a test for each defect
that it has found.
"""

import contextlib
import errno
import gzip
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import machine_faults
import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile
from typer.testing import CliRunner

import bochner.cli as cli
from bochner.cli.app import app
from bochner.engines import local
from bochner.loops import compile as loops

pytestmark = pytest.mark.skipif(
    os.name == "nt", reason="names, limits and signals as Unix has them"
)


class Here(machine_faults.Lab):
    """Commands in this process, which has everything at hand; limits are taken back
    after each.
    """

    def start(self):
        self.mounts = False

    def close(self):
        pass

    def run(self, arguments, cwd, prelude="", meanwhile=None, seconds=None):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            exec(prelude)  # noqa: S102
            with contextlib.chdir(cwd):
                done = CliRunner().invoke(app, arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return machine_faults.Done(done.exit_code, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return Here(
        tmp_path_factory.mktemp("faults"),
        300,
        ["predict", "predict parquet", "predict gzip"],
    )


@pytest.mark.parametrize("kind", ["full disk", "no place for the output", "paths"])
def test_slice(lab, kind):
    for seed in range(6):
        case, wrong, _ = machine_faults.judge(kind, seed, lab)
        assert not wrong, f"{case}: {wrong}"


COPY = """
import sys
from bochner.sources.opening import open_source
from bochner.sources.writing import write_table
for name in sys.argv[1:]:
    write_table([batch.X for part in open_source(name).parts for batch in part.read()], name + ".parquet")
    write_table([batch.X for part in open_source(name + ".parquet").parts for batch in part.read()], name + ".csv.gz")
"""


def test_names_that_a_locale_does_not_have(tmp_path):
    """Of an input and an output, in the locale C without the mode for UTF-8; and
    names that are no UTF-8.
    """
    names = [os.fsencode(tmp_path) + b"/" + name for name in ("é".encode(), b"\xff")]
    for name in names:
        Path(os.fsdecode(name)).write_text("a,b\n1,2\n3,4\n")
    environment = os.environ | {
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    }
    done = subprocess.run(
        [sys.executable, "-c", COPY, *names],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for name in names:
        with gzip.open(name + b".csv.gz", "rt") as file:
            assert file.read().replace('"', "") == "a,b\n1,2\n3,4\n"


@pytest.mark.parametrize("mode", ["removed", "cut"])
def test_input_that_goes_away_while_it_is_read(lab, tmp_path, monkeypatch, mode):
    """It was once at its end, so that the first rows had been predicted."""
    from bochner.cli import evaluation

    data, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    shutil.copy(lab.folder / "rows.csv", data)
    written = evaluation.write_predictions

    def later(*arguments):
        data.unlink() if mode == "removed" else os.truncate(data, 1000)
        return written(*arguments)

    monkeypatch.setattr(evaluation, "write_predictions", later)
    arguments = [
        "predict",
        str(lab.folder / "model"),
        str(data),
        "--out",
        str(out),
        "--memory-limit",
        "10kB",
    ]
    done = lab.run(arguments, tmp_path)
    assert done.code == 1, done
    assert not machine_faults.complaint(done, "changed|vanished")
    assert not out.exists()


def test_links_in_a_circle_are_no_traceback(lab, tmp_path):
    """Python up to 3.12 raises a RuntimeError for them."""
    (tmp_path / "out.csv").symlink_to(tmp_path / "out.csv")
    done = lab.run(lab.arguments("predict", tmp_path / "out.csv"), tmp_path)
    assert done.code == 0
    assert (tmp_path / "out.csv").read_bytes() == lab.whole["predict"]


class NoThreads:
    """What a limit on threads or memory leaves of a pool, or of a thread."""

    def submit(self, *arguments):
        raise RuntimeError("can't start new thread")

    start = submit


def test_work_is_done_where_no_thread_can_be_started(monkeypatch):
    monkeypatch.setattr(local, "n_threads", lambda: 4)
    monkeypatch.setattr(local, "_pool", NoThreads())
    monkeypatch.setattr(local, "Thread", lambda **words: NoThreads())
    assert local.in_threads(lambda k: k**2, range(9)) == [k**2 for k in range(9)]
    closed = []

    def items():
        try:
            yield from range(5)
        finally:
            closed.append(True)

    assert list(local.prefetched(items())) == list(range(5))
    assert closed == [True]


def test_libraries_that_cannot_be_loaded_are_told_in_a_line(monkeypatch):
    """As NumPy tells it: pages of advice from the cause."""

    class App:
        def find_spec(self, name, *_):
            if name == "bochner.cli.app":
                raise ImportError("Much\nadvice") from ImportError(
                    "libopenblas.so: failed to map\n segment"
                )

    monkeypatch.delitem(sys.modules, "bochner.cli.app")
    monkeypatch.setattr(sys, "meta_path", [App(), *sys.meta_path])
    monkeypatch.setattr(sys, "argv", ["bochner", "demo"])
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert (
        caught.value.code
        == "error: the libraries cannot be loaded: libopenblas.so: failed to map "
        "segment"
    )
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_command_with_few_addresses_does_not_wait_for_ever():
    """OpenBLAS would, while it is loaded."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (400 << 20,) * 2)\n"
        + machine_faults.COMMAND
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "inspect", "model"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(
        "error: The command takes 1.1 GB of addresses, and the limit on the memory "
        "of this"
    )
    assert done.stderr.count("\n") == 1


def test_a_limit_on_addresses_counts(tmp_path):
    """A process under ``ulimit -v`` knows what is left, and reads no CSV and loads
    no loop with too little of it.
    """
    path = tmp_path / "rows.csv"
    path.write_text("a,y\n1,2\n3,4\n")
    code = f"""
import resource
import bochner.loops.trig, pyarrow.csv
from bochner.engines.local import available_memory
from bochner.settings import free_addresses
from bochner import open_source
assert free_addresses() is None
taken = 4096 * int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (taken + (64 << 20), resource.RLIM_INFINITY))
assert 0 < available_memory() <= free_addresses() <= 64 << 20
try:
    open_source({str(path)!r})
except MemoryError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
print(open_source({str(path)!r}))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
    )
    assert not done.stderr
    refused, *opened = done.stdout.splitlines()
    assert refused.startswith("Reading a CSV file takes 134 MB of addresses")
    assert refused.endswith("raise it (ulimit -v).")
    assert "2 rows x 2 columns" in opened[0]


@pytest.fixture
def folder_of_loops(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(loops, "LOOPS", [])
    return tmp_path


def double(x):
    return 2 * x


def test_a_full_disk_keeps_no_loop_and_stops_nothing(folder_of_loops, monkeypatch):
    def full(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    loop = loops.compiled(double)
    with monkeypatch.context() as disk:
        disk.setattr(loops, "replacing", full)
        assert loop(1.5) == 3.0
    assert loop._cache.failure.errno == errno.ENOSPC
    again = loops.compiled(double)
    assert again(1.5) == 3.0
    assert again.stats.cache_misses


def test_a_loop_is_read_from_the_disk(folder_of_loops):
    assert loops.compiled(double)(1.5) == 3.0
    again = loops.compiled(double)
    assert again(1.5) == 3.0
    assert again._cache.failure is None
    assert sum(again.stats.cache_hits.values()) == 1
    assert again(2) == 4  # of other types, which were not compiled
    assert sum(again.stats.cache_misses.values()) == 1


def test_two_processes_that_keep_a_loop_for_different_types(tmp_path, monkeypatch):
    """The second one writes its index between the first one's index and code, by
    which Numba confuses them.
    """
    save_data, save_index, late = (
        IndexDataCacheFile._save_data,
        IndexDataCacheFile._save_index,
        [],
    )
    files = [loops._LoopFiles(str(tmp_path), "loop", 0) for _ in range(2)]

    def data(self, name, content):
        late.append((self, name, content)) if content == "code of a" else save_data(
            self, name, content
        )

    def index(self, found):
        if not late:
            late.append(None)
            files[1].save("a", "code of a")
        save_index(self, found)

    monkeypatch.setattr(IndexDataCacheFile, "_save_data", data)
    monkeypatch.setattr(IndexDataCacheFile, "_save_index", index)
    files[0].save("b", "code of b")
    for arguments in filter(None, late):
        save_data(*arguments)
    assert [files[0].load(key) for key in "ab"] == ["code of a", "code of b"]


def test_what_a_killed_process_was_compiling_is_removed(tmp_path):
    """By the next one that compiles."""
    from bochner.whole_files import _machine

    (tmp_path / f".bochner-{_machine()}-999999999-00000000.tmp").touch()
    loops._LoopFiles(str(tmp_path), "loop", 0).save("a", np.ones(2))
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".nbc", ".nbi"]


def test_a_loop_is_not_loaded_with_few_addresses(folder_of_loops, monkeypatch):
    """LLVM would abort the process."""
    monkeypatch.setattr(
        sys.modules["bochner.settings"], "free_addresses", lambda: 1 << 20
    )
    with pytest.raises(
        MemoryError,
        match=r"A compiled loop takes 134 MB of addresses, .* leaves 1\.0 MB",
    ):
        loops.compiled(double)(1.5)
