"""Losses: their derivatives are those of their values."""

import numpy as np
import pytest

from bochner.solvers.losses import SQUARED


@pytest.mark.parametrize("loss", [SQUARED], ids=lambda loss: type(loss).__name__)
def test_derivatives(loss):
    """Of a quadratic by central differences, whose rounding is eps over the step, and over its square."""
    y, f = np.random.default_rng(0).standard_normal((2, 50, 3))
    step = 1e-4
    low, middle, high = (loss.value(y, f + shift) for shift in (-step, 0.0, step))
    np.testing.assert_allclose(loss.gradient(y, f), (high - low) / (2 * step), rtol=0, atol=1e-9)
    np.testing.assert_allclose(loss.curvature(y, f), (high - 2 * middle + low) / step**2, rtol=0, atol=1e-5)
    assert loss.curvature(y, f).shape == f.shape
