"""How loops are compiled: what they ask of LLVM is what it is told."""

import gc

import numba
import numpy as np
import pytest
from numba.core import event

from bochner.loops.bins import bucket
from bochner.loops.compile import use_wide_vectors


@numba.njit
def double(x):
    use_wide_vectors()
    for i in range(x.shape[0]):
        x[i] *= 2


def test_wide_vectors_are_asked_for():
    """Where registers are wider than LLVM likes, this attribute decides; a processor
    without such leaves it alone.
    """
    x = np.arange(40.0)
    double(x)
    np.testing.assert_array_equal(x, 2 * np.arange(40.0))
    (llvm,) = double.inspect_llvm().values()
    assert '"prefer-vector-width"="512"' in llvm


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_waits_while_a_loop_is_compiled(collects):
    seen = []

    class Collects(event.Listener):
        def on_start(self, event):
            seen.append(gc.isenabled())

        def on_end(self, event):
            pass

    loop = numba.njit(bucket.py_func)  # not kept on disk, so that it is compiled
    before = gc.isenabled()
    (gc.enable if collects else gc.disable)()
    try:
        with event.install_listener("numba:compile", Collects()):
            loop(np.arange(3), 7, np.empty(3, np.int32))
        assert seen
        assert not any(seen)
        assert gc.isenabled() == collects
    finally:
        (gc.enable if before else gc.disable)()
