"""Cosines and sines of angles in turns, to the last bits."""

import numpy as np
import pytest

from bochner import FourierFeatures
from bochner.kernels import Gaussian
from bochner.loops.trig import FAR, cos_offset, cos_sin

PRECISIONS = pytest.mark.parametrize("dtype", [np.float32, np.float64])

# With u half the spacing of numbers at 1 and |r| <= 1/4: rounding a Horner step of the
# cosine costs at most the tail of the series that it leaves, and the tails of an
# alternating series are below its terms, sum |c_k| r^2k <= cosh(pi / 2) = 2.51.
# Products, sums and the coefficients themselves: 3 * 2.51; r^2: 0.8. In all below 9 u.
# The sine likewise, relative to itself: 3 * sinh(pi / 2) / (pi / 2) / (2 / pi) + 1.5 =
# 8.4 u.
ULPS = 9


def computed(t):
    """Cosines and sines of an array of angles in turns."""
    Z = np.empty((len(t), 2), t.dtype)
    cos_sin(t[:, np.newaxis].copy(), np.ones(1, t.dtype), Z)
    return Z


def angles(dtype):
    """Angles below FAR over many scales, and those where a reduction is likely to
    slip.
    """
    rng = np.random.default_rng(0)
    limits = np.finfo(dtype)
    spread = np.concatenate(
        [rng.uniform(-top, top, 20_000) for top in (0.3, 2.0, 100.0, 1e4, FAR)]
    )
    powers = np.geomspace(float(limits.tiny), FAR, 5000)
    quarters = np.arange(-4000, 4001) / 8
    near = np.concatenate(
        [
            np.nextafter(dtype(1) * quarters.astype(dtype), dtype(side * np.inf))
            for side in (1, -1)
        ]
    )
    special = [
        0.0,
        -0.0,
        float(limits.smallest_subnormal),
        FAR,
        -FAR,
        FAR - 0.25,
        FAR + 0.5,
    ]
    return np.concatenate([spread, powers, -powers, quarters, near, special]).astype(
        dtype
    )


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
    Z = computed(t)
    cosine, sine = reference(t)
    unit = np.finfo(dtype).eps / 2
    series = {np.float32: (2e-10, 7e-9 / 4), np.float64: (4e-18, 3e-19)}[dtype]
    assert np.abs(Z[:, 0] - cosine).max() <= ULPS * unit + series[0]
    # A sine below the smallest normal number has no relative precision: one subnormal
    # step is allowed on top.
    step = np.finfo(dtype).smallest_subnormal
    assert np.all(
        np.abs(Z[:, 1] - sine) <= (ULPS * unit + series[1]) * np.abs(sine) + 8 * step
    )


@PRECISIONS
def test_agrees_with_numpy(dtype):
    """Over ordinary angles, where NumPy's own argument 2 pi t is rounded: its error
    is u times the angle.
    """
    t = np.random.default_rng(1).uniform(-3, 3, 10_000).astype(dtype)
    Z = computed(t)
    angle = dtype(2 * np.pi) * t
    allowed = (ULPS + 2 + 2 * np.abs(angle)) * np.finfo(dtype).eps / 2
    assert np.all(np.abs(Z[:, 0] - np.cos(angle)) <= allowed)
    assert np.all(np.abs(Z[:, 1] - np.sin(angle)) <= allowed)


@PRECISIONS
def test_exact_where_it_can_be(dtype):
    t = np.arange(-64, 65).astype(dtype) / 2
    Z = computed(t)
    np.testing.assert_array_equal(Z[:, 0], np.where(np.arange(-64, 65) % 2, -1, 1))
    np.testing.assert_array_equal(Z[:, 1], 0)


@PRECISIONS
def test_never_beyond_one(dtype):
    t = angles(dtype)
    Z = computed(t)
    assert np.all(np.abs(Z) <= 1 + ULPS * np.finfo(dtype).eps / 2)
    np.testing.assert_allclose(
        (Z.astype(float) ** 2).sum(axis=1), 1, rtol=2 * ULPS * np.finfo(dtype).eps
    )


@PRECISIONS
def test_is_even_and_odd(dtype):
    t = angles(dtype)
    one, other = computed(t), computed(-t)
    np.testing.assert_array_equal(one[:, 0], other[:, 0])
    np.testing.assert_array_equal(one[:, 1], -other[:, 1])


@PRECISIONS
@pytest.mark.parametrize("m", [0, 1, 2, 7, 8, 16, 33])
def test_columns(dtype, m):
    """Amplitudes go with their columns; what lies behind is left alone."""
    rng = np.random.default_rng(m)
    t, amplitude = (
        rng.normal(size=(11, m)).astype(dtype),
        rng.uniform(0.5, 2, m).astype(dtype),
    )
    Z = np.full((11, 2 * m + 3), np.nan, dtype)
    cos_sin(t, amplitude, Z)
    assert np.isnan(Z[:, 2 * m :]).all()
    angle = 2 * np.pi * t.astype(float)
    tolerance = (ULPS + 2) * np.finfo(dtype).eps * amplitude
    assert np.all(np.abs(Z[:, :m] - amplitude * np.cos(angle)) <= tolerance)
    assert np.all(np.abs(Z[:, m : 2 * m] - amplitude * np.sin(angle)) <= tolerance)


@PRECISIONS
@pytest.mark.parametrize("first", [0, 4])
def test_offsets(dtype, first):
    rng = np.random.default_rng(0)
    t, offset = (
        rng.uniform(-2, 2, (9, 5)).astype(dtype),
        rng.uniform(0, 1, 5).astype(dtype),
    )
    amplitude = rng.uniform(0.5, 2, 5).astype(dtype)
    Z = np.full((9, first + 7), np.nan, dtype)
    cos_offset(t, offset, amplitude, Z, first)
    assert np.isnan(Z[:, :first]).all()
    assert np.isnan(Z[:, first + 5 :]).all()
    expected = amplitude * np.cos(2 * np.pi * (t.astype(float) + offset))
    # The sum of angle and offset, at most 3 turns, is rounded before the cosine: 2 pi *
    # 3 u.
    tolerance = (ULPS + 2 + 6 * np.pi) * np.finfo(dtype).eps / 2 * amplitude
    assert np.all(np.abs(Z[:, first : first + 5] - expected) <= tolerance)


@PRECISIONS
def test_rows_of_a_larger_array(dtype):
    whole = np.full((10, 4), 0.125, dtype)
    cos_sin(whole[:3, :2].copy(), np.ones(2, dtype), whole[3:6])
    np.testing.assert_array_equal(whole[:3], 0.125)
    np.testing.assert_array_equal(whole[6:], 0.125)
    np.testing.assert_allclose(
        whole[3:6], np.sqrt(0.5), rtol=2 * ULPS * np.finfo(dtype).eps
    )
    cos_sin(np.empty((0, 2), dtype), np.ones(2, dtype), np.empty((0, 4), dtype))


@PRECISIONS
def test_what_is_not_finite_stays_visible(dtype):
    assert np.isnan(computed(np.array([np.nan, np.inf, -np.inf], dtype))).all()


@PRECISIONS
@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("sampling", ["orthogonal", "structured"])
def test_far_rows(dtype, paired, sampling):
    """Angles beyond FAR lose whole turns, which changes nothing for other rows, and
    leaves them as they are known.
    """
    features = FourierFeatures(
        Gaussian(), 33, sampling=sampling, paired=paired, random_state=0
    ).draw(9)
    rng = np.random.default_rng(0)
    near, far = (
        rng.standard_normal((7, 9)).astype(dtype),
        (1e9 * rng.standard_normal((5, 9))).astype(dtype),
    )
    Z = features.transform(np.vstack([near, far]))
    np.testing.assert_array_equal(
        Z[:7], features.transform(np.vstack([near, near[:5]]))[:7]
    )
    assert np.all(np.abs(Z) <= features.bounds() * (1 + ULPS * np.finfo(dtype).eps))
    if dtype == np.float64:
        angles = far @ features.frequencies_
        paired_ones = angles[:, : angles.shape[1] - len(features.offsets_)]
        lone = angles[:, paired_ones.shape[1] :] + features.offsets_
        expected = (
            np.hstack([np.cos(paired_ones), np.sin(paired_ones), np.cos(lone)])
            * features.bounds()
        )
        lengths = (
            np.linalg.norm(far, axis=1)[:, np.newaxis]
            * np.linalg.norm(features.frequencies_, axis=0).max()
        )
        assert np.all(
            np.abs(Z[7:] - expected)
            <= 20 * np.finfo(float).eps * lengths * features.bounds().max()
        )
