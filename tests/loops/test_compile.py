"""How loops are compiled: what they ask of LLVM is what it is told."""

import numba
import numpy as np

from bochner.loops.compile import use_wide_vectors


@numba.njit
def double(x):
    use_wide_vectors()
    for i in range(x.shape[0]):
        x[i] *= 2


def test_wide_vectors_are_asked_for():
    """Where registers are wider than LLVM likes, this attribute decides; a processor without such leaves it alone."""
    x = np.arange(40.0)
    double(x)
    np.testing.assert_array_equal(x, 2 * np.arange(40.0))
    (llvm,) = double.inspect_llvm().values()
    assert '"prefer-vector-width"="512"' in llvm
