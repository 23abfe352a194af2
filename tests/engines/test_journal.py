"""Sums that go on after a kill, to the same bits."""

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from safetensors.numpy import load_file

from bochner.data import checkpoint
from bochner.data.checkpoint import Checkpoint
from bochner.design.moments import Moments
from bochner.engines import local
from bochner.engines.base import accumulate, reduce
from bochner.engines.journal import Journal
from bochner.engines.local import LOCAL
from bochner.solvers.cg import KeptState, System, conjugate_gradients
from bochner.solvers.preconditioners import Jacobi

D, K, ROWS = 40, 2, 64


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.setattr(local, "n_threads", lambda: 2)
    monkeypatch.setattr(checkpoint, "SHARE", np.inf)


def rows(part):
    rng = np.random.default_rng(part)
    return rng.standard_normal((ROWS, D)).astype(np.float32), rng.standard_normal((ROWS, K))


def add(total, part):
    Z, y = rows(part)
    A = total.workspace(ROWS)
    A[:, :D] = Z
    total.add_block(A, y, np.ones(ROWS))


def moments(part, shared):
    total = Moments(D, K)
    add(total, part)
    return total.trim()


class Stop(Exception):
    """The work is stopped here."""


class Stopping:
    """Work that stops at one of its parts."""

    def __init__(self, stop=None, work=moments):
        self.stop, self.work, self.done = stop, work, []

    def __call__(self, first, second):
        part = first if isinstance(first, int) else second
        if part == self.stop:
            raise Stop
        self.done.append(part)
        return self.work(first, second)


def run(path, n_parts, work):
    with Checkpoint(path, {}, every=0, resume=True) as held:
        return reduce(LOCAL, range(n_parts), work, journal=Journal(held, Moments.of))


@pytest.mark.parametrize("panels", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments_are_what_their_state_tells(panels, dtype):
    """To the bit, above the diagonal too, also where panels of more than one tile made them."""
    rng = np.random.default_rng(0)
    total = Moments(600, 1, dtype, panels)
    total.add_block(rng.standard_normal((500, 602)).astype(dtype), np.ones((500, 1)), rng.uniform(0, 2, 500))
    again = Moments.of(total.state())
    np.testing.assert_array_equal(again.matrix, total.matrix)
    assert (again.n_rows, again.dtype, again.shared) == (500, np.dtype(dtype), panels)
    assert total.state()["lower"].size == 602 * 603 // 2
    np.testing.assert_array_equal(np.tril(total.matrix)[np.tril_indices(602)], total.state()["lower"])


@pytest.mark.parametrize("n_parts", [1, 2, 3, 7, 16])
def test_a_sum_goes_on_to_the_same_bits(n_parts, tmp_path):
    whole = reduce(LOCAL, range(n_parts), moments)
    for stop in range(n_parts):
        path = tmp_path / f"{stop}.ckpt"
        first, second = Stopping(stop), Stopping()
        with pytest.raises(Stop):
            run(path, n_parts, first)
        found = run(path, n_parts, second)
        np.testing.assert_array_equal(found.matrix, whole.matrix)
        assert found.n_rows == whole.n_rows == n_parts * ROWS
        assert sorted(first.done + second.done) == list(range(n_parts))
        assert os.listdir(tmp_path) == []


def test_a_sum_that_is_done_is_not_done_again(tmp_path):
    held = Checkpoint(tmp_path / "a", {}, every=0)
    whole = reduce(LOCAL, range(5), moments, journal=Journal(held, Moments.of))
    held.close()
    work = Stopping()
    np.testing.assert_array_equal(run(tmp_path / "a", 5, work).matrix, whole.matrix)
    assert work.done == []


def test_a_sum_over_other_parts_begins_anew(tmp_path):
    with pytest.raises(Stop):
        run(tmp_path / "a", 4, Stopping(3))
    work = Stopping()
    run(tmp_path / "a", 5, work)
    assert sorted(work.done) == list(range(5))


def test_few_sums_are_kept_at_a_time(tmp_path):
    """Some for the levels of the tree, and for the threads."""
    with pytest.raises(Stop):
        run(tmp_path / "a", 64, Stopping(63))
    assert len(load_file(tmp_path / "a")) <= 3 * 9


def test_the_memory_of_the_work_is_heeded(tmp_path, monkeypatch):
    class Large(Stopping):
        n_bytes = 10**9

    monkeypatch.setattr(local, "available_memory", lambda: 10**9)
    threads = []
    monkeypatch.setattr(local, "in_threads", lambda work, items, most: threads.append(most) or [work(x) for x in items])
    run(tmp_path / "a", 4, Large())
    assert threads == [1]


@pytest.mark.parametrize("stop", range(5))
def test_one_large_sum_goes_on_to_the_same_bits(stop, tmp_path):
    whole = accumulate(lambda: Moments(D, K), range(5), add)

    def go(work):
        with Checkpoint(tmp_path / "a", {}, every=0, resume=True) as held:
            return accumulate(lambda: Moments(D, K), range(5), work, Journal(held, Moments.of))

    first, second = Stopping(stop, add), Stopping(work=add)
    with pytest.raises(Stop):
        go(first)
    found = go(second)
    np.testing.assert_array_equal(found.matrix, whole.matrix)
    assert found.n_rows == whole.n_rows
    assert first.done + second.done == list(range(5))
    np.testing.assert_allclose(whole.matrix, reduce(LOCAL, range(5), moments).matrix, rtol=1e-6, atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("tol", [1e-8, 1e-2])
@pytest.mark.parametrize("bounded", [False, True])
def test_conjugate_gradients_go_on_to_the_same_bits(dtype, tol, bounded, tmp_path):
    rng = np.random.default_rng(1)
    A = rng.standard_normal((60, 30)).astype(dtype)
    A = A.T @ A
    rhs = rng.standard_normal((2, 30)).astype(dtype)
    penalty = np.full((2, 1), 0.5, dtype)
    jacobi = Jacobi(np.diagonal(A).copy(), penalty)
    if bounded:
        jacobi.least = np.full(2, 1e-3)

    def operator(P, Q):
        moved = P @ A
        Q += moved
        return np.einsum("kd,kd->k", P, moved, dtype=np.float64)

    def solve(stop=None):
        def visit(coef, n_iter):
            if n_iter == stop:
                raise Stop
            return False

        with Checkpoint(tmp_path / "a", {}, every=0, resume=True) as held:
            kept = KeptState(held)
            with kept.keeping():
                system = System(operator, penalty, jacobi)
                return conjugate_gradients(system, rhs, tol, 40, visit, start=kept.start, keep=kept.keep)

    whole = solve()
    assert whole.n_iter > 6
    for stop in (1, 5, 6):
        with pytest.raises(Stop):
            solve(stop)
        assert (tmp_path / "a").exists()
        found = solve()
        np.testing.assert_array_equal(found.coef, whole.coef)
        assert found.coef.dtype == dtype
        assert (found.n_iter, found.residual, found.error) == (whole.n_iter, whole.residual, whole.error)


def test_a_later_stage_is_not_lost_while_an_earlier_one_is_done_again(tmp_path):
    with pytest.raises(Stop):
        run(tmp_path / "a", 4, Stopping(3))
    done = Stopping()
    with Checkpoint(tmp_path / "a", {}, every=0, resume=True) as held:
        reduce(LOCAL, range(2), moments, journal=Journal(held, Moments.of, "another"))
        reduce(LOCAL, range(4), done, journal=Journal(held, Moments.of))
    assert 3 in done.done
    assert len(done.done) < 4


LIVES = """
    import os, signal, sys, time
    import numpy as np
    from bochner.data import checkpoint
    from bochner.data.checkpoint import Checkpoint
    from bochner.engines import local
    from bochner.engines.base import reduce
    from bochner.engines.journal import Journal
    sys.path.insert(0, {folder!r})
    import test_journal as own

    local.n_threads = lambda: 2
    checkpoint.SHARE = np.inf
    replace = os.replace

    def work(part, shared):
        time.sleep(0.01)
        with open("done", "a") as file:
            file.write(".")
        return own.moments(part, shared)

    def live(fatal):
        left = [fatal]

        def replaced(*names):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            replace(*names)

        os.replace = replaced
        with Checkpoint("a.ckpt", {{"data": "1"}}, every=0, resume=True) as held:
            open("begun", "w").close()
            total = reduce(local.LOCAL, range(48), work, journal=Journal(held, own.Moments.of))
        np.save("total.npy", total.matrix)
        os._exit(0)

    rng = np.random.default_rng(0)
    for fatal in (3, 7, None, 12, None, None, -1):
        life = os.fork()
        if not life:
            live(fatal or -1)
        if fatal is None:
            while not os.path.exists("begun"):
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.08))
            os.kill(life, signal.SIGKILL)
        print(os.waitstatus_to_exitcode(os.waitpid(life, 0)[1]))
        if os.path.exists("begun"):
            os.remove("begun")
"""


def test_kills_at_any_moment_leave_the_same_bits(tmp_path):
    """Three between writing and renaming, and some that come from outside at random."""
    whole = reduce(LOCAL, range(48), moments).matrix
    environment = os.environ | {"NUMBA_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1", "SCIPY_ARRAY_API": "1"}
    command = [sys.executable, "-c", textwrap.dedent(LIVES.format(folder=os.path.dirname(__file__)))]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == 6 * [str(-signal.SIGKILL)] + ["0"], done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "total.npy"), whole)
    done = len((tmp_path / "done").read_text())
    assert 48 < done < 48 * 2
    assert sorted(os.listdir(tmp_path)) == ["done", "total.npy"]
