"""Warped columns against NumPy."""

import numpy as np
import pytest

from bochner.loops.coordinates import TILE_ROWS, warp

LOW = np.empty(TILE_ROWS, np.uint64)


def line(x, knots, levels, slope):
    """Interpolated, with a slope of its own beyond the knots."""
    beyond = np.minimum(x - knots[0], 0) + np.maximum(x - knots[-1], 0)
    return np.interp(x, knots, levels) + slope * beyond


def warped(x, knots, levels, slope):
    """One column, warped."""
    V = np.array(x[np.newaxis])
    warp(
        V,
        knots[np.newaxis],
        levels[np.newaxis],
        np.array([slope]),
        LOW,
        np.uint64(len(knots) - 1),
    )
    return V[0]


@pytest.mark.parametrize("k", [1, 2, 3, 64, 100])
@pytest.mark.parametrize("padding", [0, 5])
def test_warps_are_interp(k, padding):
    rng = np.random.default_rng(k)
    knots, levels = np.sort(rng.uniform(-2, 2, k)), np.cumsum(rng.exponential(size=k))
    x = np.concatenate([rng.uniform(-5, 5, 300), knots])
    found = warped(
        x,
        np.pad(knots, (0, padding), mode="edge"),
        np.pad(levels, (0, padding), mode="edge"),
        0.7,
    )
    # Levels differ by at most `steepest` a unit of x, whose rounding at 5 is the larger
    # part of the error.
    steepest = np.max(np.diff(levels) / np.diff(knots), initial=0.7)
    tolerance = np.finfo(float).eps * (20 * steepest + 2 * (np.abs(levels).max() + 5))
    np.testing.assert_allclose(
        found, line(x, knots, levels, 0.7), rtol=0, atol=tolerance
    )


def test_knots_have_their_levels():
    knots, levels = np.array([-1.0, 0.5, 2.0]), np.array([3.0, 4.0, 9.0])
    np.testing.assert_array_equal(warped(knots, knots, levels, 1.0), levels)


def test_what_is_no_number_stays_visible():
    assert np.isnan(
        warped(np.array([np.nan]), np.array([0.0, 1.0]), np.array([0.0, 1.0]), 1.0)[0]
    )


def test_columns_with_warps_of_their_own():
    V = np.random.default_rng(0).uniform(-2, 6, (2, 600))
    knots, levels = (
        np.array([[0.0, 1.0, 4.0], [-1.0, 2.0, 2.0]]),
        np.array([[0.0, 3.0, 4.0], [5.0, 6.0, 6.0]]),
    )
    expected = [
        line(V[0], knots[0], levels[0], 0.25),
        line(V[1], knots[1, :2], levels[1, :2], 1.0),
    ]
    warp(V, knots, levels, np.array([0.25, 1.0]), LOW, np.uint64(2))
    np.testing.assert_allclose(V, expected, rtol=1e-14, atol=1e-14)
