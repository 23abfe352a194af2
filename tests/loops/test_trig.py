"""Cosines and sines of angles in turns, to the last bits."""

import numpy as np
import pytest

from bochner.loops.trig import cos_offset, cos_sin

PRECISIONS = pytest.mark.parametrize("dtype", [np.float32, np.float64])

# With u half the spacing of numbers at 1 and |r| <= 1/4: rounding a Horner step of the cosine costs at most the tail of
# the series that it leaves, and the tails of an alternating series are below its terms, sum |c_k| r^2k <= cosh(pi / 2)
# = 2.51. Products, sums and the coefficients themselves: 3 * 2.51; r^2: 0.8. In all below 9 u. The sine likewise,
# relative to itself: 3 * sinh(pi / 2) / (pi / 2) / (2 / pi) + 1.5 = 8.4 u.
ULPS = 9


def angles(dtype):
    """Angles over many scales, and those where a reduction is likely to slip."""
    rng = np.random.default_rng(0)
    limits = np.finfo(dtype)
    spread = np.concatenate([rng.uniform(-top, top, 20_000) for top in (0.3, 2.0, 100.0, 1e4, 1e7)])
    powers = np.geomspace(float(limits.tiny), float(limits.max) / 4, 5000)
    quarters = np.arange(-4000, 4001) / 8
    near = np.concatenate([np.nextafter(dtype(1) * quarters.astype(dtype), dtype(side * np.inf)) for side in (1, -1)])
    special = [0.0, -0.0, float(limits.smallest_subnormal), float(limits.max) / 4, 2.0**30, 2.0**30 + 0.5]
    return np.concatenate([spread, powers, -powers, quarters, near, special]).astype(dtype)


def reference(t):
    """Cosine and sine of 2 pi t, in longer precision, after an exact reduction."""
    longer = np.float64 if t.dtype == np.float32 else np.longdouble
    if np.finfo(longer).eps >= np.finfo(t.dtype).eps / 100:
        pytest.skip("this machine has no longer floating-point numbers")
    halves = np.rint(2 * t.astype(longer))
    pi = longer("3.14159265358979323846264338327950288")
    r = 2 * pi * (t.astype(longer) - halves / 2)
    sign = 1 - 2 * np.abs(halves % 2)
    return sign * np.cos(r), sign * np.sin(r)


@PRECISIONS
def test_error_in_ulps(dtype):
    t = angles(dtype)
    Z = np.column_stack([t, np.zeros_like(t)])
    cos_sin(Z, np.ones(1, dtype))
    cosine, sine = reference(t)
    unit = np.finfo(dtype).eps / 2
    series = {np.float32: (2e-10, 7e-9 / 4), np.float64: (4e-18, 3e-19)}[dtype]
    assert np.abs(Z[:, 0] - cosine).max() <= ULPS * unit + series[0]
    # A sine below the smallest normal number has no relative precision: one subnormal step is allowed on top.
    step = np.finfo(dtype).smallest_subnormal
    assert np.all(np.abs(Z[:, 1] - sine) <= (ULPS * unit + series[1]) * np.abs(sine) + 8 * step)


@PRECISIONS
def test_agrees_with_numpy(dtype):
    """Over ordinary angles, where NumPy's own argument 2 pi t is rounded: its error is u times the angle."""
    t = np.random.default_rng(1).uniform(-3, 3, 10_000).astype(dtype)
    Z = np.column_stack([t, t])
    cos_sin(Z, np.ones(1, dtype))
    angle = dtype(2 * np.pi) * t
    allowed = (ULPS + 2 + 2 * np.abs(angle)) * np.finfo(dtype).eps / 2
    assert np.all(np.abs(Z[:, 0] - np.cos(angle)) <= allowed)
    assert np.all(np.abs(Z[:, 1] - np.sin(angle)) <= allowed)


@PRECISIONS
def test_exact_where_it_can_be(dtype):
    t = np.arange(-64, 65).astype(dtype) / 2
    Z = np.column_stack([t, t])
    cos_sin(Z, np.ones(1, dtype))
    np.testing.assert_array_equal(Z[:, 0], np.where(np.arange(-64, 65) % 2, -1, 1))
    np.testing.assert_array_equal(Z[:, 1], 0)


@PRECISIONS
def test_never_beyond_one(dtype):
    t = angles(dtype)
    Z = np.column_stack([t, t])
    cos_sin(Z, np.ones(1, dtype))
    assert np.all(np.abs(Z) <= 1 + ULPS * np.finfo(dtype).eps / 2)
    np.testing.assert_allclose((Z.astype(float) ** 2).sum(axis=1), 1, rtol=2 * ULPS * np.finfo(dtype).eps)


@PRECISIONS
def test_is_even_and_odd(dtype):
    t = angles(dtype)
    one, other = np.column_stack([t, t]), np.column_stack([-t, -t])
    cos_sin(one, np.ones(1, dtype))
    cos_sin(other, np.ones(1, dtype))
    np.testing.assert_array_equal(one[:, 0], other[:, 0])
    np.testing.assert_array_equal(one[:, 1], -other[:, 1])


@PRECISIONS
@pytest.mark.parametrize("m", [0, 1, 2, 7, 8, 16, 33])
def test_columns(dtype, m):
    """Amplitudes go with their columns; what lies behind, and the second half before, does not matter."""
    rng = np.random.default_rng(m)
    t, amplitude = rng.normal(size=(11, m)).astype(dtype), rng.uniform(0.5, 2, m).astype(dtype)
    Z = np.full((11, 2 * m + 3), np.nan, dtype)
    Z[:, :m] = t
    cos_sin(Z, amplitude)
    assert np.isnan(Z[:, 2 * m :]).all()
    angle = 2 * np.pi * t.astype(float)
    tolerance = (ULPS + 2) * np.finfo(dtype).eps * amplitude
    assert np.all(np.abs(Z[:, :m] - amplitude * np.cos(angle)) <= tolerance)
    assert np.all(np.abs(Z[:, m : 2 * m] - amplitude * np.sin(angle)) <= tolerance)


@PRECISIONS
@pytest.mark.parametrize("first", [0, 4])
def test_offsets(dtype, first):
    rng = np.random.default_rng(0)
    t, offset = rng.uniform(-2, 2, (9, 5)).astype(dtype), rng.uniform(0, 1, 5).astype(dtype)
    amplitude = rng.uniform(0.5, 2, 5).astype(dtype)
    Z = np.full((9, first + 7), np.nan, dtype)
    Z[:, first : first + 5] = t
    cos_offset(Z, first, offset, amplitude)
    assert np.isnan(Z[:, :first]).all()
    assert np.isnan(Z[:, first + 5 :]).all()
    expected = amplitude * np.cos(2 * np.pi * (t.astype(float) + offset))
    # The sum of angle and offset, at most 3 turns, is rounded before the cosine: 2 pi * 3 u.
    tolerance = (ULPS + 2 + 6 * np.pi) * np.finfo(dtype).eps / 2 * amplitude
    assert np.all(np.abs(Z[:, first : first + 5] - expected) <= tolerance)


@PRECISIONS
def test_rows_of_a_larger_array(dtype):
    whole = np.full((10, 4), 0.125, dtype)
    cos_sin(whole[3:6], np.ones(2, dtype))
    np.testing.assert_array_equal(whole[:3], 0.125)
    np.testing.assert_array_equal(whole[6:], 0.125)
    np.testing.assert_allclose(whole[3:6], np.sqrt(0.5), rtol=2 * ULPS * np.finfo(dtype).eps)
    cos_sin(np.empty((0, 4), dtype), np.ones(2, dtype))


@PRECISIONS
def test_what_is_not_finite_stays_visible(dtype):
    Z = np.array([[np.nan, 0], [np.inf, 0], [-np.inf, 0]], dtype)
    cos_sin(Z, np.ones(1, dtype))
    assert np.isnan(Z).all()
